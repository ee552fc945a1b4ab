"""Graphs and swarms in a session of the Strands SDK: a run with a round for each turn of a node.

A session holds of them their last state only: which nodes were executed in which order, and what each came to. The
conversations of their agents are in no file, so a round is the decision for a node and the message that it ended with.
Where a node had several turns, its result is that of the last.
"""

from __future__ import annotations

from typing import Any, Final

from .builder import RunBuilder
from .conversation import within
from .importing import Importing
from .strands_shapes import STATUSES, is_usable, order_of

_PLACED: Final = frozenset(("status", "current_task", "node_results", "execution_order", "node_history", "id", "type"))


def orchestra_run(work: Importing, id: str, state: dict[str, Any]) -> RunBuilder:
    """The run of a graph or a swarm, not yet finished."""
    builder = work.run(id, payload={}, input=state.get("current_task"), multi_agent=state.get("type"))
    found, results = state.get(order_of(state)), state.get("node_results")
    results = results if type(results) is dict else {}
    order = [node for node in found if type(node) is str] if type(found) is list else []
    order += [node for node in results if node not in order]
    last = {node: at for at, node in enumerate(order)}
    for at, node in enumerate(order):
        builder.begin_round()
        builder.decide({"step": "Sub-Agent", "subAgent": {"name": node}})
        if node in results and last[node] == at:
            _came_to(builder, node, results[node])
        builder.end_round()
    shared = within(state, "context", "shared_context")
    if type(shared) is dict and shared:
        builder.change_payload(shared, reason="what the agents shared when the session was last written")
    for name, value in state.items():
        if name not in _PLACED and value not in ({}, []):
            work.keep_field(builder, name, value)
    return builder


def finish_orchestra(builder: RunBuilder, state: dict[str, Any]) -> None:
    """End the run of a graph or a swarm as its state says."""
    status = state.get("status")
    known = STATUSES.get(status, "failed") if type(status) is str else "failed"
    usage = state.get("accumulated_usage")
    counts = {key: count for key, count in usage.items() if type(count) is int} if type(usage) is dict else {}
    builder.finish(known, status if type(status) is str else "unknown", usage=counts or None)


def _came_to(builder: RunBuilder, node: str, result: Any) -> None:
    message = within(result, "result", "message")
    if is_usable(message):
        builder.message(message)
    builder.report("what a node came to", result, node=node)
