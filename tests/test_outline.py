"""A run round by round."""

from __future__ import annotations

from agentreplay.replay.changes import MISSING
from agentreplay.replay.outline import entry_of, outline
from event_builder import EventBuilder, refund_log


def test_every_round_is_an_entry() -> None:
    """Rounds come in order with what they decided and came to; round 0 is what was before them."""
    entries = list(outline(refund_log().events))
    assert [(entry.step, entry.word, entry.outcome) for entry in entries] == [
        (0, None, None),
        (1, "Actions", "continue"),
        (2, "Chat", "continue"),
        (3, "Success", "complete"),
    ]


def test_a_round_has_its_calls_and_changes() -> None:
    """Calls have their kind, name and status, and changes are between the payloads after the rounds."""
    first = list(outline(refund_log().events))[1]
    assert [(call.call, call.kind, call.name, call.status) for call in first.calls] == [
        ("c1", "model", "ask", "returned"),
        ("c2", "tool", "lookup", "returned"),
    ]
    assert [(change.kind, change.path, change.new) for change in first.changes] == [("add", "/status", "found")]
    assert [event.kind for event in first.requests] == ["payload.changed", "payload.changed"]


def test_other_events_that_say_something_are_notes() -> None:
    """Reports, interrupts, a user's own events and what a decision does are kept; bookkeeping is not."""
    entries = list(outline(refund_log().events))
    assert [event.kind for event in entries[1].notes] == ["x.note"]
    assert [child.status for child in entries[2].children] == ["completed"]
    assert "interrupt.raised" in [event.kind for event in entries[2].notes]
    assert [event.kind for event in entries[3].notes] == ["messages.replaced", "report"]


def test_a_call_that_returns_later_is_brought_up_to_date() -> None:
    """The entry of a call is open until it ends, in whichever round that is."""
    log = EventBuilder({})
    log.begin()
    log.call("1.1")
    log.end()
    log.begin()
    log.add("tool.failed", in_round=1, call="1.1", error={"type": "builtins.OSError", "message": "gone"}, duration=2.0)
    log.end()
    reader = outline(log.events)
    next(reader)
    call = next(reader).calls[0]
    assert call.status == "open"
    assert next(reader).calls == []
    assert (call.status, call.duration) == ("failed", 2.0)
    assert call.error is not None
    assert call.error.message == "gone"


def test_what_calls_were_asked_is_kept_on_demand() -> None:
    """Arguments and answers are handed out where details are wanted, and not held on to elsewhere."""
    log = EventBuilder({})
    log.begin()
    log.call("1.1", arguments={"n": 1})
    log.give("1.1", result=[2])
    log.call("1.2", raw="{n: 1}")
    log.end()
    asked = [(call.asked, call.answered) for call in entry_of(1, log.events[1:]).calls]
    assert asked == [({"n": 1}, [2]), ("{n: 1}", MISSING)]
    assert [call.asked for call in list(outline(log.events))[1].calls] == [MISSING, MISSING]


def test_warnings_name_what_was_blocked() -> None:
    """What a change warned of, and the operations that were not allowed, are the round's warnings."""
    log = EventBuilder({})
    log.begin()
    log.change({"newElements": {"a": 1}}, warnings=["careful"], blocked=[{"path": "b", "operation": "add"}])
    log.end()
    assert list(outline(log.events))[1].warnings == ["careful", "blocked: path b, operation add"]


def test_only_wanted_rounds_are_handed_out() -> None:
    """The others are folded and nothing more."""
    entries = list(outline(refund_log().events, wanted=lambda step: step == 3))
    assert [(entry.step, [change.path for change in entry.changes]) for entry in entries] == [(3, ["/notes/0"])]
