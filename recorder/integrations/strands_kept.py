"""What a graph or a swarm keeps from one execution to the next, as a parameter of the execution that begins with it.

The agents of a graph go on with the state and the conversation that they had; a swarm gives its agents what they had
when it was made, and hands the context on that they share. Nothing of that is in the task. So an execution that is not
the first one tells of it, and where it is begun again that is put back, also where code makes the graph or swarm anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from strands import Agent
from strands.agent.state import AgentState
from strands.multiagent import Swarm
from strands.multiagent.base import MultiAgentBase

from ..copying import copy_value
from ..plain import is_plain
from .strands_deeds import is_exactly

KEPT: Final = "kept"
"""The parameter: `{"nodes": {node: {"state", "messages", "model_state"} or what a graph or swarm keeps}, "shared"}`."""


def kept_of(orchestra: Any) -> dict[str, Any]:
    """What a graph or swarm has kept of earlier executions; empty before the first, and where it begins afresh."""
    if isinstance(orchestra, Swarm):
        context = orchestra.shared_context.context
        return {"shared": copy_value(context)} if context and is_plain(context) else {}
    nodes = {node_id: _kept_of_node(node) for node_id, node in orchestra.nodes.items()}
    found = {node_id: kept for node_id, kept in nodes.items() if kept}
    return {"nodes": found} if found else {}


def _kept_of_node(node: Any) -> dict[str, Any]:
    """Of an agent what is not what it had when the graph was made."""
    agent = node.executor
    if isinstance(agent, MultiAgentBase):
        return kept_of(agent) if hasattr(agent, "nodes") else {}
    if not isinstance(agent, Agent):
        return {}
    now = {"state": agent.state.get(), "messages": agent.messages}
    first = {"state": node._initial_state.get(), "messages": node._initial_messages}
    if is_plain(agent._model_state):  # a provider's own, which may hold anything
        now["model_state"], first["model_state"] = agent._model_state, node._initial_model_state
    return {name: copy_value(one) for name, one in now.items() if not is_exactly(one, first[name])}


def keep_again(orchestra: Any, kept: Mapping[str, Any]) -> None:
    """Have a graph or swarm begin with what it had kept; what is not told of is as when it was made.

    Args:
        orchestra: which.
        kept: as `kept_of` gave it.
    """
    if isinstance(orchestra, Swarm):
        orchestra.shared_context.context = copy_value(dict(kept.get("shared") or {}))
        return
    nodes = kept.get("nodes") or {}
    for node_id, node in orchestra.nodes.items():
        _keep_node_again(node, nodes.get(node_id) or {})


def _keep_node_again(node: Any, kept: Mapping[str, Any]) -> None:
    agent = node.executor
    if isinstance(agent, MultiAgentBase):
        if hasattr(agent, "nodes"):
            keep_again(agent, kept)
    elif isinstance(agent, Agent):
        node.reset_executor_state()
        if "state" in kept:
            agent.state = AgentState(copy_value(kept["state"]))
        if "messages" in kept:
            agent.messages = copy_value(kept["messages"])
        if "model_state" in kept:
            agent._model_state = copy_value(kept["model_state"])
