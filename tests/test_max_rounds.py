"""The bound of rounds that a run was given holds whenever its code is executed again, until another one is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from cli_runs import invoke, json_of, output
from recorded import log_of


@ar.agent("counter", max_rounds=3)
def counter(round_index: int, context: ar.Context) -> Any:
    context.now()
    context.change(update={"n": round_index})
    return ar.Complete(round_index) if round_index == context.payload.get("last", 99) else ar.Continue()


def given(store: EventStore, run: str, kind: str = "run.started") -> Any:
    """The bound that an event says was given."""
    (event,) = [event for event in store.events(run) if event.kind == kind]
    return event.data.max_rounds


def bounded(max_rounds: int | None = None, **payload: int) -> MemoryStore:
    """A store in which the counter was given a bound, or none, as run1."""
    store = MemoryStore()
    counter.run({"n": 0, **payload}, max_rounds=max_rounds, store=store)
    return store


def rounds(store: EventStore, run: str) -> int:
    return max(event.round for event in log_of(store, run))


@pytest.mark.parametrize(("bound", "last"), [(None, 3), (1, 1), (5, 5)])
def test_a_bound_that_a_run_is_given_goes_before_the_agents_own(bound: int | None, last: int) -> None:
    """It is in the log; where none was given, nothing is."""
    store = bounded(bound)
    assert (rounds(store, "run1"), given(store, "run1")) == (last, bound)
    assert store.run("run1").status == "failed"


@pytest.mark.parametrize("bound", [None, 1, 5])
def test_a_run_replays_within_the_bound_that_it_was_given(bound: int | None) -> None:
    """Whatever the agent's own is."""
    store = bounded(bound)
    told = ar.replay("run1", counter, store=store)
    assert (told.verdict, told.complete) == ("identical", True)


@pytest.mark.parametrize("prefix", ["execute", "fold"])
def test_a_rerun_has_the_bound_of_its_run_until_another_is_given(prefix: Any) -> None:
    """And so have the runs that are forked from it in turn, and their replays."""
    store = bounded(5)
    ends: list[tuple[int, int | None]] = []
    for parent, bound in (("run1", None), ("run1", 7), ("run3", None), ("run3", 6)):
        result = ar.rerun(parent, counter, 4, max_rounds=bound, prefix=prefix, store=store)
        run = result.run.id
        assert result.stop_reason == "limitTurns"
        ends.append((rounds(store, run), list(log_of(store, run))[-1].data.metrics["cycleCount"]))
        assert ar.replay(run, counter, store=store).verdict == "identical"
    assert ends == [(5, 5), (7, 7), (7, 7), (6, 6)]


def test_a_run_that_reached_its_bound_goes_on_with_another() -> None:
    """Re-run from its last round, it has more of them."""
    store = bounded(2, last=6)
    assert store.run("run1").status == "failed"
    assert ar.rerun("run1", counter, -1, max_rounds=6, store=store).value == 6


@ar.agent("asking", max_rounds=2)
def asking(round_index: int, context: ar.Context) -> Any:
    if round_index == 2:
        context.change(update={"sure": context.interrupt("sure", None)})
    return ar.Complete(round_index) if round_index == 4 else ar.Continue()


def test_a_resumed_run_has_its_bound_until_another_is_given() -> None:
    """What is given then is in the log, too, and holds in a replay of the whole."""
    store = MemoryStore()
    for bound in (None, 4):
        asking.run({}, store=store)
        run = f"run{len(list(store.runs()))}"
        result = ar.resume(run, asking, answers={"sure": True}, max_rounds=bound, store=store)
        assert (result.stop_reason, result.value) == (("limitTurns", None) if bound is None else ("endTurn", 4))
        assert given(store, run, "run.resumed") == bound
        assert ar.replay(run, asking, store=store).verdict == "identical"


@pytest.mark.parametrize(
    ("go_on", "says"),
    [
        (lambda store: ar.rerun("run1", counter, 3, max_rounds=2, store=store), "it goes on in step 3: give at least"),
        (lambda store: ar.rerun("run1", counter, 1, max_rounds=0, store=store), "max_rounds is at least 1, not 0"),
        (lambda store: counter.run({}, max_rounds=0, store=store), "max_rounds is at least 1, not 0"),
    ],
)
def test_a_bound_that_is_passed_already_is_refused(go_on: Callable[[EventStore], Any], says: str) -> None:
    """Before anything is recorded."""
    store = bounded(4)
    with pytest.raises(UsageError, match=says):
        go_on(store)
    assert [info.id for info in store.runs()] == ["run1"]


def test_a_resumed_run_is_not_given_less_than_it_has_had() -> None:
    """It waits in round 2, and stays as it is."""
    store = MemoryStore()
    asking.run({}, store=store)
    with pytest.raises(UsageError, match="it goes on in step 2: give at least that, not 1"):
        ar.resume("run1", asking, answers={"sure": True}, max_rounds=1, store=store)
    assert store.run("run1").status == "interrupted"


AGENT = """
import agentreplay as ar

@ar.agent("endless")
def step(round_index, context):
    context.now()
    return ar.Complete(context.interrupt("go", None)) if round_index == 4 else ar.Continue()
"""


def test_the_bound_is_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of `run`, and of what executes its code again."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endless.py").write_text(AGENT, encoding="utf-8")
    output("run", "endless.py:step", "--max-rounds", 2, code=1)
    assert output("replay", "run1").startswith("run1  endless  identical  2 rounds recorded\n")
    assert json_of("rerun", "run1", "--step", 2, code=1)["status"] == "failed"
    assert [row["steps"] for row in json_of("ls")] == [2, 2]
    assert json_of("rerun", "run1", "--step", 2, "--max-rounds", 4)["status"] == "interrupted"
    result = invoke("resume", "run3", "--answer", "go=1", "--max-rounds", 3)
    assert (result.exit_code, "it goes on in step 4: give at least that, not 3" in result.stderr) == (2, True)
    assert json_of("resume", "run3", "--answer", "go=1", "--max-rounds", 5)["status"] == "completed"
    assert invoke("rerun", "run1", "--step", 2, "--max-rounds", 0).exit_code == 2
