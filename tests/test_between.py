"""What happened between two steps of a log, without keeping the rest."""

from __future__ import annotations

import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.replay.between import EDITS, between, stored_part
from agentreplay.replay.timeline import state_of
from event_builder import EventBuilder, refund_log


def counting_log(rounds: int) -> EventBuilder:
    """A run that counts in its payload, and says so in a message, once a round."""
    log = EventBuilder({"n": 0})
    for n in range(1, rounds + 1):
        log.begin()
        log.change({"updateElements": {"n": n}})
        log.add("message.added", message={"role": "user", "content": str(n)})
        log.add("step.decided", decision={"step": "Retry"})
        log.end()
    return log


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 1), (1, 3), (3, 3), (0, 3)])
def test_both_ends_are_the_states_of_their_steps(start: int, stop: int) -> None:
    """The states before and after are those that a fold to these steps gives."""
    log = refund_log()
    found = between(log.events, start, stop)
    assert found.before == state_of(log.events, start)
    assert found.after == state_of(log.events, stop)


def test_edits_lead_from_one_end_to_the_other() -> None:
    """The edits of a part go on from each other, each with its step, and nothing outside the steps is among them."""
    log = counting_log(5)
    edits = between(log.events, 2, 4).edits["payload"]
    assert [(edit.step, edit.before, edit.after) for edit in edits] == [
        (3, {"n": 2}, {"n": 3}),
        (4, {"n": 3}, {"n": 4}),
    ]
    assert [edit.event.kind for edit in edits] == ["payload.changed"] * 2


def test_what_happens_between_two_rounds_belongs_to_the_first_of_them() -> None:
    """A change after a round's end is that round's, as in the states of the steps."""
    log = refund_log()
    edits = between(log.events, 0, 1).edits["payload"]
    assert [edit.after.get("status") for edit in edits] == ["looking", "found"]


def test_several_parts_are_followed_at_once() -> None:
    """Each part that is asked for has its own edits; lists are plain lists."""
    found = between(counting_log(3).events, 1, 3, parts=("payload", "messages"))
    assert [edit.event.seq for edit in found.edits["payload"]] == [7, 12]
    assert [len(edit.after) for edit in found.edits["messages"]] == [2, 3]
    assert stored_part(found.before, "messages") == [{"role": "user", "content": "1"}]


@pytest.mark.parametrize("part", EDITS)
def test_every_part_that_can_be_followed_is_edited_by_its_events(part: str) -> None:
    """Of a run with every kind of event, the last edit of a part makes what the state then holds."""
    log = refund_log()
    found = between(log.events, 0, 3, parts=(part,))
    assert found.edits[part][-1].after == stored_part(found.after, part)


def test_only_the_events_that_are_wanted_are_kept() -> None:
    """Of thousands of events those are handed out that were asked for, from the steps in between."""
    kept = between(counting_log(4).events, 1, 3, keep=lambda event: event.kind == "step.decided").kept
    assert [(event.kind, event.round) for event in kept] == [("step.decided", 2), ("step.decided", 3)]


def test_nothing_after_the_later_step_is_read() -> None:
    """A log that is damaged further on can be looked at up to there."""
    log = counting_log(3)
    events = iter(log.events)
    between(events, 0, 1)
    assert next(events).round == 2


def test_a_step_that_is_not_there_is_refused() -> None:
    """A step after the last is an error that says which steps there are."""
    with pytest.raises(UsageError, match="there is no step 9: this run has steps 0"):
        between(counting_log(3).events, 2, 9)


def test_a_part_that_is_not_there_is_refused() -> None:
    """A part that cannot be followed is an error that names those that can."""
    with pytest.raises(UsageError, match="payload, messages"):
        between(counting_log(1).events, 0, 1, parts=("mood",))
