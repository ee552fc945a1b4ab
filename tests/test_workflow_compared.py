"""What a replay compares of a workflow beside its calls: which one it is, and which visit changed and said what."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.cli import main
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay.changes import MISSING
from click.testing import CliRunner
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


# -- workflows without calls -------------------------------------------------------------------------------------------

PURE = """
import agentreplay as ar


@ar.node("count", starts_round=True, routes=[ar.route.deliver("n", when=lambda s: s["n"] > 2), ar.route.to("count")])
def count(state):
    return {"n": state["n"] + 1}


engine = ar.CoreEngine(workflow=ar.define_workflow("pure", [count]))


@ar.agent
def step(i, context):
    context.change(new={"n": i})
    context.report(f"round {i}")
    return ar.Continue() if i < 3 else ar.Complete(i)


if __name__ == "__main__":
    engine.run({"n": 0})
    step.run({})
"""


def test_a_workflow_without_calls_replays_by_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python, against a cassette and on the command line, one or many; a note says what was compared."""
    monkeypatch.chdir(tmp_path)
    Path("pure.py").write_text(PURE, encoding="utf-8")
    subprocess.run([sys.executable, "pure.py"], check=True)
    code: dict[str, Any] = {"__name__": "pure"}
    exec(PURE, code)
    result = ar.replay("run1", code["engine"])
    assert (result.verdict, result.coverage.recorded, result.coverage.visits) == ("identical", 0, 3)
    assert [note.partition(":")[0] for note in result.coverage.notes] == [
        "no call and no value was answered from the log"
    ]
    assert asyncio.run(ar.areplay("run1", code["engine"])).verdict == "identical"
    for run in ("run1", "run2"):
        assert CliRunner().invoke(main, ["export", run, f"{run}.jsonl"]).exit_code == 0
    assert ar.assert_replays("run1.jsonl", code["engine"]).verdict == "identical"
    for typed in (["run1"], ["run1.jsonl"], ["run1", "run1.jsonl"]):
        found = CliRunner().invoke(main, ["replay", *typed, "--app", "pure.py:engine"])
        assert (found.exit_code, "captured" in found.stderr) == (0, False), found.output


def test_a_step_without_calls_says_nothing_in_a_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it reports and changes its payload: so does code whose calls nobody recorded. All ways to ask agree."""
    monkeypatch.chdir(tmp_path)
    Path("pure.py").write_text(PURE, encoding="utf-8")
    subprocess.run([sys.executable, "pure.py"], check=True)
    code: dict[str, Any] = {"__name__": "pure"}
    exec(PURE, code)
    with pytest.raises(ar.NothingCaptured):
        ar.replay("run2", code["step"])
    assert CliRunner().invoke(main, ["export", "run2", "run2.jsonl"]).exit_code == 0
    with pytest.raises(ar.NothingCaptured):
        ar.assert_replays("run2.jsonl", code["step"])
    for typed in (["run2"], ["run2.jsonl", "--app", "pure.py:step"], ["run1", "run2"]):
        found = CliRunner().invoke(main, ["replay", *typed])
        assert (found.exit_code, "captured" in found.output) == (1, True), found.output
    assert ar.rerun("run2", code["step"], 2).value == 3


def test_a_workflow_that_took_another_way_is_told_without_calls(store: EventStore) -> None:
    """What counts for a success is compared."""

    def pure(least: int) -> ar.CoreEngine[Any]:
        end = DELIVER("n", when=lambda state: state["n"] >= least)
        node = ar.node("a", run=lambda state: {"n": state["n"] + 1}, starts_round=True, routes=[end, TO("a")])
        return ar.CoreEngine(workflow=ar.define_workflow("pure", [node]))

    pure(3).run({"n": 0}, store=store)
    assert ar.replay("run1", pure(3), store=store).verdict == "identical"
    with pytest.raises(ar.Divergence):
        ar.replay("run1", pure(2), store=store)
