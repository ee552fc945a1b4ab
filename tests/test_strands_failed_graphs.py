"""Graphs that fail: what had begun beside the node that failed, and was abandoned, is in the record and replays."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from strands import tool
from strands.multiagent import GraphBuilder
from strands_scripted import Use, World


class Gated(MemoryStore):
    """Lets no run of some agents begin before it may."""

    def __init__(self, *held: str) -> None:
        super().__init__()
        self.held, self.may = held, threading.Event()

    def _insert_run(self, run: Any, note: Any = None) -> int:
        if run.agent in self.held:
            assert self.may.wait(30)
        return super()._insert_run(run, note)


class Abandoning(logging.Handler):
    """Opens the gate when a graph says that it has cancelled what was running beside the node that failed."""

    def __init__(self, gate: threading.Event) -> None:
        super().__init__()
        self.gate = gate

    def emit(self, record: logging.LogRecord) -> None:
        if "cancelling remaining tasks" in record.getMessage():
            self.gate.set()


def graph(store: MemoryStore, *names: str) -> Any:
    """A graph of nodes beside each other, in that order, of which the one that is called "bad" fails at once."""
    made = World(lambda: [ar.strands.Recorder(store=store)])
    builder = GraphBuilder()
    for name in names:
        answers: list[Any] = [ValueError("broke")] if name == "bad" else [["done"]]
        builder.add_node(made.agent(*answers, plugged=False, name=name), name)
        builder.set_entry_point(name)
    builder.set_plugins([ar.strands.Recorder(store=store)])
    builder.set_max_node_executions(9)
    built = builder.build()
    built.entry_points = dict.fromkeys(built.nodes[name] for name in names)  # a set has any order
    return built


def test_nodes_that_begin_while_another_fails_are_recorded_as_cancelled_and_replay() -> None:
    """One is being written when the graph gives up, and two wait for that; their models are never asked."""
    store = Gated("n1", "n2", "n3")
    names = ("bad", "n1", "n2", "n3")
    handler = Abandoning(store.may)
    logger = logging.getLogger("strands.multiagent.graph")
    logger.addHandler(handler)
    try:
        with pytest.raises(ValueError, match="broke"):
            graph(store, *names)("go")
    finally:
        logger.removeHandler(handler)
    runs = {run.agent: run for run in store.runs()}
    assert {name: runs[name].status for name in names} == {
        "bad": "failed",
        "n1": "cancelled",
        "n2": "cancelled",
        "n3": "cancelled",
    }
    started = [event for event in store.events("run1") if event.kind == "subrun.started"]
    assert [event.data.cancelled for event in started] == [False, True, True, True]
    for order in (names, ("n3", "n1", "bad", "n2")):  # which the record says
        replayed = ar.replay("run1", lambda order=order: graph(store, *order), store=store)
        assert (replayed.verdict, replayed.coverage.notes) == ("identical", [])


def test_agents_beside_each_other_are_not_taken_for_what_a_tool_of_one_has_done() -> None:
    """In a graph all that is handed to tools lies in one place, where each agent puts its own conversation."""
    store = MemoryStore()
    second_is_called, third_is_called = asyncio.Event(), asyncio.Event()

    @tool
    async def first() -> str:
        """Go on once the other agent has called its tool."""
        await second_is_called.wait()
        return "first"

    @tool
    async def second() -> str:
        """Let the other go on, and wait until it has called its next tool."""
        second_is_called.set()
        await third_is_called.wait()
        return "second"

    @tool
    async def third() -> str:
        """The next tool of the first agent."""
        third_is_called.set()
        return "third"

    def make() -> Any:
        made = World(lambda: [ar.strands.Recorder(store=store)])
        builder = GraphBuilder()
        one = made.agent([Use("first")], [Use("third", id="use-2")], ["done"], plugged=False, name="one")
        other = made.agent([Use("second")], ["done"], plugged=False, name="other")
        one.tool_registry.process_tools([first, third])
        other.tool_registry.process_tools([second])
        for agent in (one, other):
            builder.add_node(agent, agent.name)
            builder.set_entry_point(agent.name)
        builder.set_plugins([ar.strands.Recorder(store=store)])
        builder.set_max_node_executions(9)
        return builder.build()

    make()("go")
    ended = [event for run in store.runs() for event in store.events(run) if event.kind == "tool.returned"]
    assert len(ended) == 3
    assert [getattr(event.data, "stream", None) for event in ended] == [None] * 3
    assert ar.replay("run1", make, store=store).verdict == "identical"
