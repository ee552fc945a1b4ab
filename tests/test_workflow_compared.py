"""What a replay compares of a workflow beside its calls: which one it is, and which visit changed and said what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay.changes import MISSING
from workflows import DELIVER, TO, State, ask

Node = Callable[..., Any]


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


def engine(first: Node, second: Node, id: str = "two") -> ar.CoreEngine[State]:
    """Two nodes in one round; they are visited twice."""
    nodes = [
        ar.node("a", run=first, starts_round=True, routes=[TO("b")]),
        ar.node("b", run=second, routes=[DELIVER("n", when=lambda state: state["n"] >= 2), TO("a")]),
    ]
    return ar.CoreEngine(workflow=ar.define_workflow(id, nodes), name="named")


def counts(state: State, context: ar.Context) -> State:
    return {"n": state["n"] + 1, "asked": ask(str(state["n"])), "flag": True}


def notes(state: State, context: ar.Context) -> State:
    return {"seen": state["n"]}


def difference(store: EventStore, code: ar.CoreEngine[State]) -> tuple[Any, ...]:
    """The first difference: kind, step, what was expected and what was found."""
    with pytest.raises(ar.Divergence) as caught:
        ar.replay("run1", code, store=store)
    told = caught.value.difference
    return told.kind, told.step, told.expected, told.actual


def test_another_workflow_is_a_divergence(store: EventStore) -> None:
    """Though it has the same nodes, and its engine the same name."""
    engine(counts, notes).run({"n": 0}, store=store)
    assert ar.replay("run1", engine(counts, notes), store=store).verdict == "identical"
    assert difference(store, engine(counts, notes, id="other")) == ("another node", 1, "two", "other")


def test_a_change_that_another_node_makes_is_a_divergence(store: EventStore) -> None:
    """The payload of the round is the same, and both nodes change something in both."""
    engine(counts, notes).run({"n": 0}, store=store)

    def counts_less(state: State, context: ar.Context) -> State:
        return {"n": state["n"] + 1, "asked": ask(str(state["n"]))}

    def notes_more(state: State, context: ar.Context) -> State:
        return {"seen": state["n"], "flag": True}

    by_a, by_b = [{"node": node, "visit": 1, "key": "flag"} for node in "ab"]
    assert difference(store, engine(counts_less, notes_more)) == ("another change", 1, MISSING, by_b)
    found = ar.replay("run1", engine(counts_less, notes_more), store=store, collect=True)
    assert [(one.kind, one.expected, one.actual) for one in found.divergences] == [
        ("another change", MISSING, by_b),
        ("another change", by_a, MISSING),
    ]


def test_a_change_through_the_context_belongs_to_its_visit(store: EventStore) -> None:
    """What a node changes by itself, and not by what it returns, is told apart just so."""

    def changes(**new: Any) -> Node:
        def node(state: State, context: ar.Context) -> State:
            for key, value in new.items():
                context.change(patch=[{"op": "add", "path": f"/{key}", "value": value}])
            return {"n": state["n"] + 1, "asked": ask(str(state["n"]))} if "x" in new else {"seen": 1}

        return node

    engine(changes(x=1, z=1), changes(y=1)).run({"n": 0}, store=store)
    assert ar.replay("run1", engine(changes(z=1, x=1), changes(y=1)), store=store).verdict == "identical"
    told = difference(store, engine(changes(x=1), changes(y=1, z=1)))
    assert told[:2] == ("another change", 1)


def test_how_a_node_makes_its_changes_is_not_compared(store: EventStore) -> None:
    """In one or in two, in another order, by what it returns or by the context: it changes the same keys."""
    engine(counts, notes).run({"n": 0}, store=store)

    def in_parts(state: State, context: ar.Context) -> State:
        n = state["n"]
        context.change(patch=[{"op": "add", "path": "/flag", "value": True}])
        context.change(patch=[{"op": "add", "path": "/asked", "value": ask(str(n))}])
        return {"n": n + 1}

    assert ar.replay("run1", engine(in_parts, notes), store=store).verdict == "identical"


def test_a_report_of_another_node_is_a_divergence(store: EventStore) -> None:
    """A report has its node and visit, and they are compared with it."""

    def reporting(node: Node) -> Node:
        def run(state: State, context: ar.Context) -> State:
            context.report("on the way")
            changed: State = node(state, context)
            return changed

        return run

    engine(reporting(counts), notes).run({"n": 0}, store=store)
    kind, step, expected, actual = difference(store, engine(counts, reporting(notes)))
    assert (kind, step) == ("another report", 1)
    assert (expected, actual) == ("a", "b")
