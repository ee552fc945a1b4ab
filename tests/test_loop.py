"""The loop: rounds, bounds, endings, cancellation."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.loop import Agent
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.signals import Cancelled
from agentreplay.recorder.store import EventStore
from agentreplay.recorder.values import encode
from recorded import kinds, log_of, one, outline


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


def stepping(step: Callable[[int, ar.Context], Any], **options: Any) -> Agent:
    return ar.agent("stepper", **options)(step)


# -- rounds ------------------------------------------------------------------------------------------------------------


def test_a_run_is_its_rounds_between_a_start_and_an_end(store: EventStore) -> None:
    """The smallest run: two rounds, each with its decision, then the end."""

    @ar.agent("counter", max_rounds=5)
    def step(round_index: int, context: ar.Context) -> ar.Continue | ar.Complete[str]:
        context.change(update={"n": round_index})
        return ar.Continue() if round_index == 1 else ar.Complete("two rounds")

    result = step.run({"n": 0}, input="in", params={"p": 1}, store=store)
    assert kinds(store) == [
        "run.started",
        "round.started",
        "payload.changed",
        "step.decided",
        "round.finished",
        "round.started",
        "payload.changed",
        "step.decided",
        "round.finished",
        "run.finished",
    ]
    log = log_of(store)
    assert [event.round for event in log] == [0, 1, 1, 1, 1, 2, 2, 2, 2, 2]
    started, finished = log[0].data, log[-1].data
    assert (started.agent, started.input, started.payload, started.params) == ("counter", "in", {"n": 0}, {"p": 1})
    assert started.entry_point.endswith(
        "test_loop.py:test_a_run_is_its_rounds_between_a_start_and_an_end.<locals>.step"
    )
    assert started.applier == {"name": "memberjunction", "version": 1}
    assert started.process["pid"] == os.getpid()
    assert (finished.status, finished.stop_reason, finished.value) == ("completed", "endTurn", "two rounds")
    assert finished.result["stopReason"] == "endTurn"
    assert (result.run.id, result.value, result.payload, result.stop_reason) == (
        "run1",
        "two rounds",
        {"n": 2},
        "endTurn",
    )
    assert str(result) == "two rounds"
    info = store.run("run1")
    assert (info.status, info.steps, info.agent) == ("completed", 2, "counter")


def test_a_round_without_a_decision_records_one_that_says_so(store: EventStore) -> None:
    """Only `Complete` decides by itself."""
    stepping(lambda i, context: ar.Continue() if i == 1 else ar.Complete(1)).run(store=store)
    decisions = [event.data.decision for event in log_of(store) if event.kind == "step.decided"]
    assert decisions == [
        {"step": "Undecided"},
        {"step": "Success", "terminate": True},
    ]


def test_the_same_step_object_runs_every_round_and_every_run(store: EventStore) -> None:
    """The agent is the step: calling it calls the step; its cache outlives its runs, the run's cache does not."""

    @ar.agent
    def counter(round_index: int, context: ar.Context) -> ar.Complete[list[int]]:
        """Count the runs."""
        context.cache["n"] = context.cache.get("n", 0) + 1
        context.agent_cache["n"] = context.agent_cache.get("n", 0) + 1
        return ar.Complete([context.cache["n"], context.agent_cache["n"]])

    assert [counter.run(store=store).value for _ in range(2)] == [[1, 1], [1, 2]]
    assert (counter.name, counter.__doc__, counter.__name__) == ("counter", "Count the runs.", "counter")
    with ar.record("other", store=store) as run:
        assert counter(1, run) == ar.Complete([1, 1])


def test_a_method_is_an_agent_of_its_object(store: EventStore) -> None:
    """Each object's agent steps with that object."""

    class Worker:
        def __init__(self, name: str) -> None:
            self.name = name

        @ar.agent("worker")
        def step(self, round_index: int, context: ar.Context) -> ar.Complete[str]:
            return ar.Complete(f"{self.name} {round_index}")

        borrowed = ar.agent("borrowed")(lambda i, context: ar.Complete(i))

    assert [Worker(name).step.run(store=store).value for name in "ab"] == ["a 1", "b 1"]
    assert Worker.step.name == "worker"
    assert Worker("c").borrowed.run(store=MemoryStore()).value == 1
    assert one(store, "run.started").data.entry_point.endswith("Worker.step")


# -- outcomes ----------------------------------------------------------------------------------------------------------


@dataclass
class Answer:
    text: str


@pytest.mark.parametrize(
    ("outcome", "status", "stop_reason", "value", "text"),
    [
        (ar.Complete({"a": 1}), "completed", "endTurn", {"a": 1}, '{"a":1}'),
        (ar.Complete(None), "completed", "endTurn", None, ""),
        (ar.Complete(Answer("x")), "completed", "endTurn", Answer("x"), None),
        ({"type": "complete", "value": 7}, "completed", "endTurn", 7, ""),
        (ar.NextStep(step="Success", message="done"), "completed", "endTurn", "done", "done"),
        ({"step": "success", "message": "done"}, "completed", "endTurn", "done", "done"),
        (ar.NextStep(step="Failed", errorMessage="no"), "failed", "failed", None, "no"),
        (ar.NextStep(step="Chat", message="which?"), "completed", "chat", "which?", "which?"),
        (ar.NextStep(step="Actions", terminate=True, message="bye"), "completed", "endTurn", "bye", "bye"),
    ],
)
def test_outcomes_that_end_a_run(
    store: EventStore, outcome: Any, status: str, stop_reason: str, value: Any, text: str | None
) -> None:
    """`Complete`, Success, Failed, Chat and terminate end it, in Python and in JSON form."""
    result = stepping(lambda i, context: outcome).run(store=store)
    assert (result.stop_reason, result.value) == (stop_reason, value)
    if text is None:
        assert result.structured_output is result.value
    else:
        assert str(result) == text
    finished = one(store, "run.finished").data
    assert (finished.status, finished.value) == (status, encode(value).stored)
    outcome_of_round = "complete" if status == "completed" else status
    assert one(store, "round.finished").data.outcome == outcome_of_round


@pytest.mark.parametrize(
    "outcome",
    [
        ar.Continue(),
        ar.Continue,
        {"type": "continue"},
        ar.NextStep(step="Retry"),
        {"step": "sub-agent", "subAgent": {"name": "x"}},
        ar.NextStep(step="Success of a kind", terminate=False),
    ],
)
def test_outcomes_that_go_on(store: EventStore, outcome: Any) -> None:
    """Everything else goes round once more."""
    result = stepping(lambda i, context: outcome if i < 3 else ar.Complete(i)).run(store=store)
    assert result.value == 3
    assert [event.data.outcome for event in log_of(store) if event.kind == "round.finished"] == [
        "continue",
        "continue",
        "complete",
    ]


@pytest.mark.parametrize("outcome", [None, 3, "done", {"value": 1}, ar.Complete, {"step": 3}, {"step": None}])
def test_an_unknown_outcome_is_an_error_and_recorded(store: EventStore, outcome: Any) -> None:
    """What the step returned is named; the run has failed."""
    with pytest.raises(ar.UsageError, match="the step of stepper returned"):
        stepping(lambda i, context: outcome).run(store=store)
    finished = one(store, "run.finished").data
    assert (finished.status, finished.stop_reason) == ("failed", "error")
    assert finished.error.type == "agentreplay.recorder.errors.UsageError"
    assert one(store, "round.finished").data.outcome == "failed"


@pytest.mark.parametrize("returns", ["the same", "an equal one", "its JSON"])
def test_a_decision_that_was_recorded_before_is_carried_out_once(store: EventStore, returns: str) -> None:
    """A step that decides, and then returns its decision, changes the payload once."""
    decision = {"step": "Success", "payloadChangeRequest": {"newElements": {"items": [1]}}}

    def step(i: int, context: ar.Context) -> Any:
        decided = context.decide(decision)
        return {"the same": decided, "an equal one": ar.NextStep(**decision), "its JSON": decision}[returns]

    assert stepping(step).run({"items": []}, store=store).payload == {"items": [1]}
    assert len([event for event in log_of(store) if event.kind == "step.decided"]) == 1


# -- bounds and stopping -----------------------------------------------------------------------------------------------


def test_a_run_that_does_not_complete_is_ended_at_its_bound(store: EventStore) -> None:
    """After max_rounds the run has failed; the error is in the result and the log, not raised."""
    result = stepping(lambda i, context: ar.Continue(), max_rounds=3).run(store=store)
    assert (result.stop_reason, type(result.error)) == ("limitTurns", ar.RoundLimitReached)
    finished = one(store, "run.finished").data
    assert (finished.status, finished.error.message) == (
        "failed",
        "stepper did not complete within 3 rounds (max_rounds)",
    )
    assert [event.round for event in log_of(store) if event.kind == "round.started"] == [1, 2, 3]


def test_a_bound_below_one_is_refused() -> None:
    """An agent has at least one round."""
    with pytest.raises(ar.UsageError, match="at least 1"):
        ar.agent("a", max_rounds=0)(lambda i, context: None)


def test_an_unknown_applier_is_refused(store: EventStore) -> None:
    """The appliers there are, are named; nothing is recorded."""
    with pytest.raises(ar.UsageError, match="json-patch, memberjunction"):
        stepping(lambda i, context: None, applier="magic").run(store=store)
    with pytest.raises(ar.UsageError, match="on_store_error"):
        stepping(lambda i, context: None, on_store_error="ignore").run(store=store)
    assert store.runs() == []


def test_a_signal_stops_a_run_between_rounds(store: EventStore) -> None:
    """From another thread, with a reason; the first reason counts."""
    signal = ar.Signal()

    def step(i: int, context: ar.Context) -> ar.Continue:
        thread = threading.Thread(target=lambda: (signal.abort("enough"), signal.abort("too late")))
        thread.start()
        thread.join()
        assert context.signal is signal
        return ar.Continue()

    result = stepping(step).run(store=store, signal=signal)
    assert (result.stop_reason, signal.reason) == ("cancelled", "enough")
    assert isinstance(result.error, Cancelled)
    finished = one(store, "run.finished").data
    assert (finished.status, finished.error.message) == ("cancelled", "the run was cancelled: enough")
    assert store.run("run1").steps == 1


def test_a_step_may_stop_where_it_is_asked_to(store: EventStore) -> None:
    """`throw_if_aborted` ends the run as cancelled in the middle of a round."""
    signal = ar.Signal()
    signal_seen = []

    def step(i: int, context: ar.Context) -> ar.Continue:
        context.signal.throw_if_aborted()
        signal.abort()
        signal_seen.append(context.signal.wait(0))
        context.signal.throw_if_aborted()
        raise AssertionError("not reached")

    result = stepping(step).run(store=store, signal=signal)
    assert (result.stop_reason, str(result.error), signal_seen) == ("cancelled", "the run was cancelled", [True])
    assert one(store, "round.finished").data.outcome == "cancelled"


def test_an_exception_fails_the_run_and_is_raised_as_it_is(store: EventStore) -> None:
    """The round and the run have failed; the caller gets the very exception."""
    error = ValueError("broken")

    def step(i: int, context: ar.Context) -> Any:
        raise error

    with pytest.raises(ValueError) as caught:
        stepping(step).run(store=store)
    assert caught.value is error
    assert error.__context__ is None
    assert error.__cause__ is None
    assert outline(store) == ["round.started", "step.decided", "round.finished failed"]
    finished = one(store, "run.finished").data
    assert (finished.status, finished.stop_reason, finished.error.type) == ("failed", "error", "builtins.ValueError")


@pytest.mark.parametrize(
    ("error", "status"),
    [(KeyboardInterrupt(), "cancelled"), (SystemExit(2), "failed"), (GeneratorExit(), "cancelled")],
)
def test_exceptions_that_are_no_errors_end_the_run_too(store: EventStore, error: BaseException, status: str) -> None:
    """Ctrl-C cancels; all are raised as they are."""

    def step(i: int, context: ar.Context) -> Any:
        raise error

    with pytest.raises(type(error)) as caught:
        stepping(step).run(store=store)
    assert caught.value is error
    assert (one(store, "run.finished").data.status, one(store, "round.finished").data.outcome) == (status, status)


def test_an_interrupt_suspends_the_run(store: EventStore) -> None:
    """A question to a person: the run stops there, as interrupted, even through `except Exception`."""

    def step(i: int, context: ar.Context) -> Any:
        try:
            context.interrupt("approve", {"amount": 95.5})
        except Exception as error:
            raise AssertionError("swallowed") from error

    result = stepping(step).run(store=store)
    assert (result.stop_reason, store.run("run1").status) == ("interrupt", "interrupted")
    (interrupt,) = result.interrupts
    assert (interrupt.id, interrupt.name, interrupt.reason) == ("1.approve.1", "approve", {"amount": 95.5})
    assert outline(store) == ["round.started", "interrupt.raised", "round.finished interrupted"]
    suspended = log_of(store)[-1]
    assert (suspended.kind, suspended.data.interrupts) == ("run.suspended", ["1.approve.1"])
    assert str(result) == '[{"id":"1.approve.1","name":"approve","reason":{"amount":95.5}}]'


def test_a_call_that_asks_a_person_stays_open(store: EventStore) -> None:
    """A tool that was unwound by a question neither returned nor failed."""

    @ar.tool
    def pay(context: ar.Context) -> None:
        context.interrupt("approve")

    result = stepping(lambda i, context: pay(context)).run(store=store)
    assert result.stop_reason == "interrupt"
    assert outline(store)[1:3] == ["tool.called 1.1 pay", "interrupt.raised"]
    assert one(store, "interrupt.raised").within == "1.1"
    assert list(ar.state_at("run1", store=store).open_calls) == ["1.1"]


def test_a_question_that_the_step_swallows_still_waits(store: EventStore) -> None:
    """`gather(return_exceptions=True)` catches an interrupt like any exception; the run waits all the same."""

    @ar.agent("asks")
    async def step(round_index: int, context: ar.Context) -> ar.Complete[str]:
        async def ask() -> None:
            context.interrupt("approve")

        await asyncio.gather(ask(), return_exceptions=True)
        return ar.Complete("done")

    result = step.run({}, store=store)
    assert result.stop_reason == "interrupt"
    assert store.run("run1").status == "interrupted"
