"""Steps: where each one's share of the log ends, its state, and what it did."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from agentreplay.recorder.errors import CorruptLog, UsageError
from agentreplay.recorder.events import Event
from agentreplay.replay.diff import Cause
from agentreplay.replay.reducer import fold
from agentreplay.replay.timeline import (
    calls_of,
    changes_of_step,
    resolve_step,
    rounds,
    state_of,
    states,
    step_at,
)
from event_builder import EventBuilder, build, refund_log


def test_a_step_ends_where_the_next_round_starts() -> None:
    """The state at step N has all of round N, and what happened between it and the next round."""
    found = dict(states(refund_log().events))
    assert list(found) == [0, 1, 2, 3]
    assert found[0].payload == {"order": "A-17", "notes": []}
    assert found[1].payload == {"order": "A-17", "notes": [], "status": "found"}
    assert found[3].payload == {"order": "A-17", "notes": ["paid"], "status": "found"}
    assert [state.step for state in found.values()] == [0, 1, 2, 3]
    assert [state.status for state in found.values()] == ["running", "running", "running", "completed"]
    assert [(state.decision or {}).get("step") for state in found.values()] == [None, "Actions", "Chat", "Success"]


def test_the_start_is_before_the_first_round() -> None:
    """State 0 has what happened before round 1, such as the first message."""
    state = state_of(refund_log().events, 0)
    assert (state.round, state.messages) == (0, [{"role": "user", "content": "refund me"}])


def test_a_run_without_rounds_has_a_start() -> None:
    """A run that did not get to its first round has state 0, which is also the last."""
    log = EventBuilder({"n": 1})
    assert [step for step, _ in states(log.events)] == [0]
    assert state_of(log.events) == state_of(log.events, 0) == fold(log.events)


@pytest.mark.parametrize(("step", "same"), [(-1, 3), (-2, 2), (-3, 1), (-4, 0)])
def test_negative_steps_count_from_the_end(step: int, same: int) -> None:
    """-1 is the last step."""
    events = refund_log().events
    assert resolve_step(step, 3) == same
    assert state_of(events, step) == state_of(events, same)
    assert changes_of_step(events, step) == changes_of_step(events, same)


@pytest.mark.parametrize("step", [4, 99, -5])
def test_a_step_out_of_range_is_a_usage_error(step: int) -> None:
    """The error names the steps there are."""
    for function in (state_of, changes_of_step):
        with pytest.raises(UsageError, match=rf"no step {step}: this run has steps 0 \(the start\) to 3"):
            function(refund_log().events, step)


def test_a_log_without_events_has_no_step() -> None:
    """Of no events there is no state, not even the start."""
    assert list(states([])) == []
    with pytest.raises(UsageError):
        state_of([])
    with pytest.raises(UsageError):
        changes_of_step([])


def test_states_are_read_no_further_than_they_must() -> None:
    """A step is found although the log is broken, or endless, after it."""
    log = refund_log()

    def endless() -> Iterator[Event]:
        yield from log.events
        raise AssertionError("read past the step that was asked for")

    assert state_of(endless(), 2).step == 2
    assert changes_of_step(endless(), 2).step == 2
    broken = [*log.events[:-1], build(len(log.events) + 5, 3, "report")]
    assert state_of(broken, 2).step == 2
    with pytest.raises(CorruptLog):
        state_of(broken, 3)


def test_a_snapshot_gives_the_same_states() -> None:
    """Going on from the state of any event gives the states of all whole steps from there on."""
    events = refund_log().events
    expected = dict(states(events))
    for length in range(1, len(events) + 1):
        snapshot = fold(events[:length])
        found = dict(states(events[length:], snapshot))
        assert found == {step: state for step, state in expected.items() if step >= snapshot.step}
        assert state_of(events[length:], -1, state=snapshot) == expected[3]
        assert state_of(events[length:], snapshot.step, state=snapshot) == expected[snapshot.step]


def test_a_step_before_the_snapshot_is_a_usage_error() -> None:
    """A state cannot be gone back from."""
    events = refund_log().events
    cut = 20
    snapshot = fold(events[:cut])
    for step in (0, -4):
        with pytest.raises(UsageError, match="step 0 is not among the given events"):
            state_of(events[cut:], step, state=snapshot)
        with pytest.raises(UsageError, match="step 0 is not among the given events"):
            changes_of_step(events[cut:], step, state=snapshot)


def test_every_event_belongs_to_a_step() -> None:
    """`step_at` agrees with the shares into which `rounds` splits the log."""
    events = refund_log().events
    shares = list(rounds(events))
    assert [event for share in shares for event in share] == events
    for step, share in enumerate(shares):
        assert {step_at(events, event.seq) for event in share} == {step}
    with pytest.raises(UsageError, match=f"there is no event {len(events)}"):
        step_at(events, len(events))


def test_a_late_return_belongs_to_the_step_in_which_it_came() -> None:
    """A return that carries an earlier round does not move the boundary of the steps."""
    log = EventBuilder({})
    log.begin()
    log.call("c1")
    log.end()
    log.begin()
    late = log.add("tool.returned", call="c1", in_round=1)
    log.end()
    assert step_at(log.events, late.seq) == 2
    assert list(state_of(log.events, 1).open_calls) == ["c1"]
    assert state_of(log.events, 2).open_calls == {}


def test_each_change_of_a_step_has_its_cause_and_its_payloads() -> None:
    """Every payload change comes with what was before and after it, its event and the call that asked."""
    log = refund_log()
    step = changes_of_step(log.events, 1, run="run1")
    first, second = step.payload_changes
    assert (first.before, first.after) == (
        {"order": "A-17", "notes": []},
        {"order": "A-17", "notes": [], "status": "looking"},
    )
    assert first.after is second.before
    assert first.cause == Cause(seq=6, step=1, kind="payload.changed", call="c1", why="to look it up")
    assert second.cause.call == "c2"
    assert step.before == state_of(log.events, 0, run="run1")
    assert step.after == state_of(log.events, 1, run="run1")
    assert step.after.run == "run1"
    assert first.before is step.before.stored_payload
    assert second.after is step.after.stored_payload
    assert step.decision is not None
    assert step.decision.data.decision["step"] == "Actions"
    assert [event.seq for event in step.events] == list(range(2, 12))


def test_a_change_within_a_call_was_caused_by_it() -> None:
    """When the request names no call, the one inside which it was made is the cause; else none."""
    log = EventBuilder({})
    log.begin()
    log.call("c1")
    log.change({"newElements": {"a": 1}}, within="c1")
    log.give("c1")
    log.change({"newElements": {"b": 1}})
    log.end()
    assert [change.cause.call for change in changes_of_step(log.events, 1).payload_changes] == ["c1", None]


def test_the_start_is_a_step_too() -> None:
    """What happened before the first round is step 0, from nothing."""
    step = changes_of_step(refund_log().events, 0)
    assert (step.step, step.before.last_seq, step.after.step) == (0, -1, 0)
    assert (step.decision, step.calls, step.payload_changes) == (None, (), ())


def test_calls_of_a_step_are_paired_with_their_ends() -> None:
    """Each call has its kind, name, status and duration, in the order in which they were made."""
    log = EventBuilder({})
    log.begin()
    log.call("c1", "ask", "model")
    log.call("c2", "lookup")
    log.call("c3", "pay")
    log.call("c4", "wait")
    log.give("c2", duration=0.25)
    log.add("tool.failed", call="c3", error={"type": "builtins.ValueError", "message": "no"}, duration=1.5)
    log.add("call.cancelled", call="c4")
    calls = changes_of_step(log.events, 1).calls
    assert [(call.call, call.kind, call.name, call.status, call.duration) for call in calls] == [
        ("c1", "model", "ask", "open", None),
        ("c2", "tool", "lookup", "returned", 0.25),
        ("c3", "tool", "pay", "failed", 1.5),
        ("c4", "tool", "wait", "cancelled", None),
    ]


def test_a_call_that_was_tried_again_is_two_calls() -> None:
    """A second attempt under the same id has an end of its own."""
    log = EventBuilder({})
    log.begin()
    log.call("c1")
    log.add("tool.failed", call="c1", error={"type": "builtins.OSError", "message": "busy"})
    log.call("c1", attempt=2)
    log.give("c1")
    assert [call.status for call in calls_of(log.events)] == ["failed", "returned"]
    assert fold(log.events).open_calls == {}


def test_a_log_that_stops_making_sense_names_the_run() -> None:
    """An error on the way to a step knows the run's name."""
    events = [event for event in refund_log().events if event.seq != 5]
    for function in (state_of, changes_of_step):
        with pytest.raises(CorruptLog, match="run7") as caught:
            function(events, 2, run="run7")
        assert (caught.value.run, caught.value.seq) == ("run7", 6)
