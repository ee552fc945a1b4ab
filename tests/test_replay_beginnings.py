"""What code begins a run with is compared: a program that makes several runs is not executed as one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore

ASKED: list[str] = []


@ar.tool(safety="pure")
def look_up(customer: str) -> str:
    """A tool that says when it is really called."""
    ASKED.append(customer)
    return customer.upper()


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    """Each test begins with none."""
    ASKED.clear()


def triage(store: MemoryStore, *customers: str, **given: Any) -> Callable[[], None]:
    """Code that makes a run for each customer."""

    def main() -> None:
        for customer in customers:
            with ar.record("triage", payload={"customer": customer}, store=store, **given) as run:
                with run.round() as one:
                    one.change(new={"found": look_up(customer)}, reason="asked")
                run.complete(customer)

    return main


@pytest.mark.parametrize(
    ("given", "path"),
    [({"input": 2}, "/input"), ({"params": {"depth": 2}}, "/params/depth")],
)
def test_input_and_parameters_of_a_run_are_compared(given: dict[str, Any], path: str) -> None:
    """Each is told with its place, before the first step."""
    store = MemoryStore()
    triage(store, "alice", input=1, params={"depth": 1})()
    with pytest.raises(ar.Divergence, match="before step 1: another start") as parted:
        ar.replay("run1", triage(store, "alice", **{"input": 1, "params": {"depth": 1}, **given}), store=store)
    difference = parted.value.difference
    assert (difference.kind, difference.step, difference.path) == ("another start", 0, path)
    assert (difference.expected, difference.actual) == (1, 2)


def test_the_same_start_is_identical_without_a_note() -> None:
    """So is code that gives just what it gave."""
    store = MemoryStore()
    triage(store, "alice", input=1, params={"depth": 1})()
    result = ar.replay("run1", triage(store, "alice", input=1, params={"depth": 1}), store=store)
    assert (result.verdict, result.coverage.notes) == ("identical", [])


def test_a_rule_leaves_out_what_differs_of_the_start() -> None:
    """The recorded start holds then."""
    store = MemoryStore()
    triage(store, "alice", input=1)()
    result = ar.replay("run1", triage(store, "alice", input=2), store=store, ignore=["start:$.input"])
    assert result.verdict == "identical"


def test_the_first_of_several_runs_is_not_taken_for_another() -> None:
    """The hint names the run that the code begins with, and what to do."""
    store = MemoryStore()
    both = triage(store, "alice", "bob")
    both()
    with pytest.raises(ar.Divergence, match="run1 began with just this") as parted:
        ar.replay("run2", both, store=store)
    difference = parted.value.difference
    assert (difference.path, difference.expected, difference.actual) == ("/payload/customer", "bob", "alice")
    assert "name code that makes run2 only" in difference.hint
    assert ar.replay("run2", triage(store, "bob"), store=store).verdict == "identical"


@pytest.mark.parametrize("prefix", ["execute", "fold"])
def test_a_rerun_of_one_of_several_calls_nothing_for_another(prefix: Any) -> None:
    """And it records no run."""
    store = MemoryStore()
    both = triage(store, "alice", "bob")
    both()
    ASKED.clear()
    with pytest.raises(ar.Divergence, match="another start"):
        ar.rerun("run2", both, 1, prefix=prefix, store=store)
    assert ASKED == []
    assert [run.id for run in store.runs()] == ["run1", "run2"]


def test_code_that_was_edited_goes_on_from_the_recorded_start() -> None:
    """Where the run is the only one, its re-run takes no rule."""
    store = MemoryStore()
    triage(store, "alice", input=1)()
    ar.rerun("run1", triage(store, "alice", input=5), 1, store=store)
    state = ar.state_at("run2", store=store)
    assert (state.payload, next(store.events("run2")).data.input) == ({"customer": "alice", "found": "ALICE"}, 1)


def test_an_edit_of_the_start_is_no_other_start() -> None:
    """`set` and `input` hold for the new run, and the code gives what it gave."""
    store = MemoryStore()
    both = triage(store, "alice", input=1)
    both()
    ar.rerun("run1", both, 1, set={"/customer": "carol"}, input=2, store=store)
    assert ar.state_at("run2", store=store).payload == {"customer": "carol", "found": "ALICE"}


def test_an_agent_of_another_name_is_noted() -> None:
    """It is executed all the same."""

    @ar.agent("before")
    def before(i: int, context: ar.Context) -> ar.Complete[str]:
        return ar.Complete(look_up("alice"))

    @ar.agent("after")
    def after(i: int, context: ar.Context) -> ar.Complete[str]:
        return ar.Complete(look_up("alice"))

    store = MemoryStore()
    before.run({}, store=store)
    result = ar.replay("run1", after, store=store)
    assert result.coverage.notes == ["run1 is a run of 'before'; the agent that is executed is 'after'"]


def test_what_an_agent_that_code_runs_is_given_is_compared() -> None:
    """One that is executed by itself is given what was recorded."""

    @ar.agent("triage")
    def agent(i: int, context: ar.Context) -> ar.Complete[str]:
        return ar.Complete(look_up(context.payload["customer"]))

    store = MemoryStore()
    agent.run({"customer": "alice"}, store=store)
    with pytest.raises(ar.Divergence, match="another start"):
        ar.replay("run1", lambda: agent.run({"customer": "bob"}, store=store), store=store)
    assert ar.replay("run1", agent, store=store).verdict == "identical"


@pytest.mark.parametrize("edits", [{"set": {"/n": 9}}, {"patch": [{"op": "remove", "path": "/n"}]}])
def test_an_edit_of_what_a_function_gives_is_refused_before_code_runs(edits: dict[str, Any]) -> None:
    """The run that was named is, no round is executed, and no run is recorded."""
    store, rounds = MemoryStore(), list[int]()

    def main() -> None:
        state = {"n": 0}
        with ar.record("loop", payload=lambda: state, store=store) as run:
            for n in range(3):
                with run.round():
                    rounds.append(n)
                    look_up("alice")
                    state["n"] += 1
            run.complete("done")

    main()
    with pytest.raises(ar.UsageError, match="the payload of run1 is what a function gives, and cannot be edited"):
        ar.rerun("run1", main, 2, store=store, **edits)
    assert rounds == [0, 1, 2]
    assert [run.id for run in store.runs()] == ["run1"]
