"""The fold: pure, exact, and honest about logs that make no sense."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from agentreplay.recorder.errors import CorruptLog
from agentreplay.recorder.events import Event
from agentreplay.recorder.hashes import comparison_hash
from agentreplay.replay.reducer import added_usage, fold, reduce
from agentreplay.replay.state import RunState
from agentreplay.replay.timeline import states
from event_builder import EventBuilder, build, refund_log
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# -- laws ----------------------------------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.0, -0.0, 1.0, 1.5, "", "x", "long"])
keys = st.sampled_from(["a", "b", "c", "0", "a/b", "~"])
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(keys, trees, max_size=4)


@st.composite
def member_junction(draw: st.DrawFn, payload: Any) -> tuple[str, Any, dict[str, Any]]:
    request: dict[str, Any] = draw(
        st.dictionaries(st.sampled_from(["newElements", "updateElements", "replaceElements"]), objects, max_size=2)
    )
    if draw(st.booleans()):
        request["removeElements"] = draw(st.dictionaries(keys, st.just("__DELETE__"), max_size=2))
    if draw(st.booleans()):
        request["stray"] = draw(trees)
    options: dict[str, Any] = draw(
        st.sampled_from([{}, {"allowed_paths": ["a:add,update", "b.**"]}, {"ignore_stray_keys": True}])
    )
    return "memberjunction", request, options


@st.composite
def json_patch(draw: st.DrawFn, payload: Any) -> tuple[str, Any, dict[str, Any]]:
    operations: list[dict[str, Any]] = [{"op": "add", "path": "", "value": draw(trees)}] if draw(st.booleans()) else []
    if isinstance(payload, dict) and not operations:
        for key in draw(st.lists(keys, max_size=2, unique=True)):
            path = "/" + key.replace("~", "~0").replace("/", "~1")
            operations.append({"op": "add", "path": path, "value": draw(trees)})
    return "json-patch", operations, {}


@st.composite
def change(draw: st.DrawFn, payload: Any) -> tuple[str, Any, dict[str, Any]]:
    applier = draw(st.sampled_from(["memberjunction", "json-patch", "merge-patch", "replace"]))
    if applier == "memberjunction":
        return draw(member_junction(payload))
    if applier == "json-patch":
        return draw(json_patch(payload))
    return applier, draw(trees), {}


@st.composite
def logs(draw: st.DrawFn) -> EventBuilder:
    """A run of some rounds, each with random changes by any applier and other events in between."""
    log = EventBuilder(draw(trees))
    for _ in range(draw(st.integers(0, 4))):
        log.begin()
        for kind in draw(st.lists(st.sampled_from(["change", "message", "call", "trim", "x", "child"]), max_size=5)):
            at = len(log.events)
            if kind == "change":
                applier, request, options = draw(change(log.payload))
                log.change(request, applier, options=options)
            elif kind == "message":
                log.add("message.added", message={"role": "user", "content": at})
            elif kind == "trim":
                log.add("messages.replaced", start=0, stop=draw(st.sampled_from([0, 1, None])), messages=[{"n": at}])
            elif kind == "call":
                log.call(f"c{at}", "ask", "model")
                log.give(f"c{at}", "model", usage={"tokens": at})
            elif kind == "child":
                log.add("subrun.started", run=f"u{at}", name="auditor")
            else:
                log.add("x.mine", n=at)
        log.end()
    return log


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(logs())
def test_the_state_at_every_event_is_what_the_agent_saw(log: EventBuilder) -> None:
    """Folding gives the live payload after each event, types included, for all four appliers."""
    state = RunState()
    for event, payload in zip(log.events, log.payloads, strict=True):
        state = reduce(state, event)
        assert comparison_hash(state.stored_payload) == comparison_hash(payload)
        assert state.stored_payload == payload


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(logs(), st.data())
def test_folding_in_parts_is_folding_at_once(log: EventBuilder, data: st.DataObject) -> None:
    """fold(a + b) is fold(b, fold(a)), for every cut."""
    cut = data.draw(st.integers(0, len(log.events)))
    assert fold(log.events[cut:], fold(log.events[:cut])) == fold(log.events)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(logs())
def test_folding_changes_no_earlier_state(log: EventBuilder) -> None:
    """States kept from every event on the way say later what they said at first."""
    kept, said = [], []
    state = RunState()
    for event in log.events:
        state = reduce(state, event)
        kept.append(state)
        said.append(repr(state.to_json()))
    # Two ways on from every state must not meet: a state is no list that both append to.
    for earlier, event in zip(kept, log.events[1:], strict=False):
        reduce(earlier, event)
    assert [repr(state.to_json()) for state in kept] == said
    assert fold(log.events, check=False) == state


def test_every_prefix_of_a_log_folds() -> None:
    """A log that was cut off by a crash folds as far as it goes, to the payload the agent last saw."""
    log = refund_log()
    for length in range(1, len(log.events) + 1):
        state = fold(log.events[:length])
        assert state.last_seq == length - 1
        assert state.stored_payload == log.payloads[length - 1]


def test_what_an_event_does_not_touch_is_shared() -> None:
    """A change of one key leaves every other subtree, and all other parts of the state, the same objects."""
    log = EventBuilder({"big": {"deep": [1, 2, 3]}, "n": 1})
    log.add("message.added", message={"role": "user"})
    log.begin()
    before = fold(log.events)
    after = reduce(before, log.change({"updateElements": {"n": 2}}))
    assert after.stored_payload["big"] is before.stored_payload["big"]
    assert after.stored_messages is before.stored_messages
    assert before.stored_payload == {"big": {"deep": [1, 2, 3]}, "n": 1}


# -- every part of the state ---------------------------------------------------------------------------------------


def test_the_fold_knows_every_part_of_a_state() -> None:
    """At the end of a run that used everything, everything is there."""
    state = fold(refund_log().events, run="run1")
    assert (state.agent, state.status, state.outcome, state.stop_reason) == (
        "refunds",
        "completed",
        "complete",
        "endTurn",
    )
    assert state.payload == {"order": "A-17", "notes": ["paid"], "status": "found"}
    assert state.messages == [{"role": "user", "content": "…"}]
    assert state.scratchpad == {"notes": "n"}
    assert state.memory == [{"type": "Context", "note": "likes tea"}]
    assert state.skills == [{"name": "sums"}]
    assert state.plan == {"steps": ["pay"]}
    assert state.media == [{"id": "m1"}]
    assert state.open_calls == {}
    assert state.open_interrupts == {}
    assert state.usage == {"input_tokens": 10, "output_tokens": 2}
    assert state.decision == {"step": "Success"}
    assert state.value == "refunded"
    assert state.error is None
    assert (state.input, state.params) == ({"ticket": 7}, {"tone": "kind"})
    assert [(child.run, child.status, child.result) for child in state.children] == [("u-child", "completed", "fine")]
    assert (state.step, state.last_seq, state.ended) == (3, len(refund_log().events) - 1, True)


def test_calls_are_open_until_they_end() -> None:
    """A call that was in flight when the log ends is open, whatever others did meanwhile."""
    log = EventBuilder({})
    log.begin()
    log.call("c1", "lookup")
    log.call("c2", "ask", "model", attempt=2)
    assert list(fold(log.events).open_calls) == ["c1", "c2"]
    log.add("tool.failed", call="c1", error={"type": "builtins.ValueError", "message": "no"})
    waiting = fold(log.events).open_calls["c2"]
    assert (waiting.name, waiting.kind, waiting.attempt, waiting.round, waiting.seq) == ("ask", "model", 2, 1, 3)
    log.add("call.cancelled", call="c2")
    assert fold(log.events).open_calls == {}
    log.give("c2", "model")  # a call may swallow its cancellation
    assert fold(log.events).open_calls == {}
    assert fold(log.events).cancelled_calls == frozenset()


def test_a_call_may_return_in_a_later_round() -> None:
    """A return carries the round of its call, and ends it also when that round is over."""
    log = EventBuilder({})
    log.begin()
    log.call("c1")
    log.end()
    log.begin()
    assert list(fold(log.events).open_calls) == ["c1"]
    log.add("tool.returned", call="c1", in_round=1)
    state = fold(log.events)
    assert (state.open_calls, state.step) == ({}, 2)


def test_interrupts_are_open_until_they_are_answered() -> None:
    """A suspended run waits for its interrupts; answers may come with the resumption."""
    log = EventBuilder({})
    log.begin()
    log.add("interrupt.raised", interrupt="i1", name="approve", reason="30 euros")
    log.add("interrupt.raised", interrupt="i2", name="sure")
    log.add("run.suspended", reason="interrupt", interrupts=["i1", "i2"])
    state = fold(log.events)
    assert state.status == "interrupted"
    assert state.open_interrupts["i1"].reason == "30 euros"
    log.add("run.resumed", answers={"i1": "yes"})
    assert list(fold(log.events).open_interrupts) == ["i2"]
    log.add("interrupt.answered", interrupt="i2", response="no")
    state = fold(log.events)
    assert (state.status, state.open_interrupts) == ("running", {})


def test_a_decision_and_an_outcome_belong_to_their_round() -> None:
    """A round that has not decided yet has no decision, whatever the round before decided."""
    log = EventBuilder({})
    log.begin()
    log.add("step.decided", decision={"step": "Retry"})
    log.end()
    assert (fold(log.events).decision, fold(log.events).outcome) == ({"step": "Retry"}, "continue")
    log.begin()
    assert (fold(log.events).decision, fold(log.events).outcome) == (None, None)


def test_a_failed_run_has_its_error() -> None:
    """Status, stop reason and error come from the run's last event."""
    log = EventBuilder({})
    log.begin()
    log.end("failed")
    log.finish("failed", stop_reason="error", error={"type": "builtins.KeyError", "message": "'total'"})
    state = fold(log.events)
    assert (state.status, state.stop_reason, state.outcome) == ("failed", "error", "failed")
    assert state.error is not None
    assert (state.error.type, state.error.message) == ("builtins.KeyError", "'total'")


def test_an_interrupted_run_goes_on_after_its_end() -> None:
    """A resumed run is running again, with neither stop reason nor error, and may end again."""
    log = EventBuilder({})
    log.begin()
    log.finish("interrupted", stop_reason="interrupt")
    log.add("run.resumed")
    state = fold(log.events)
    assert (state.status, state.ended, state.stop_reason, state.in_round) == ("running", False, None, True)
    log.end("complete")
    log.finish()
    assert fold(log.events).status == "completed"


def test_a_fork_names_its_parent_and_changes_nothing_else() -> None:
    """The first own event of a fork is lineage only."""
    log = EventBuilder({"n": 1})
    log.begin()
    log.end()
    before = fold(log.events)
    after = reduce(before, log.add("run.forked", parent="u-1", seq=2, hash="sha256:aa"))
    assert after.forked_from == {"parent": "u-1", "seq": 2, "hash": "sha256:aa"}
    assert (after.stored_payload, after.step, after.status) == (before.stored_payload, 1, "running")


def test_unknown_kinds_change_nothing() -> None:
    """Kinds of a newer version and a user's own are passed over, wherever they stand."""
    log = EventBuilder({"n": 1})
    before = fold(log.events)
    after = fold([log.add("x.mine", n=1), log.add("galaxy.collided", in_round=9, with_="m31")], before)
    assert after == reduce(reduce(before, log.events[1]), log.events[2])
    assert (after.stored_payload, after.round, after.last_seq) == ({"n": 1}, 0, 2)


def test_messages_are_replaced_as_an_edit_of_the_list() -> None:
    """messages[start:stop] gives way to the new messages, with Python's rules for slices."""
    log = EventBuilder({})
    for n in range(5):
        log.add("message.added", message={"n": n})
    log.add("messages.replaced", start=1, stop=3, messages=[{"n": "a"}])
    assert [message["n"] for message in fold(log.events).messages] == [0, "a", 3, 4]
    log.add("messages.replaced", start=-1, messages=[{"n": "b"}, {"n": "c"}])
    assert [message["n"] for message in fold(log.events).messages] == [0, "a", 3, "b", "c"]
    log.add("messages.replaced", messages=[])
    assert fold(log.events).messages == []


def test_usage_is_summed_key_by_key() -> None:
    """Numbers add up, nested ones too; other values are the newest; a bool is no number."""
    total = added_usage({}, {"in": 1, "cost": 0.5, "details": {"cached": 1}, "tier": "a", "hit": True})
    total = added_usage(total, {"in": 2, "details": {"cached": 2, "new": 1}, "tier": "b", "hit": True, "out": None})
    assert total == {"in": 3, "cost": 0.5, "details": {"cached": 3, "new": 1}, "tier": "b", "hit": True, "out": None}
    assert total["hit"] is True


# -- corrections ---------------------------------------------------------------------------------------------------


def test_a_correction_follows_the_request() -> None:
    """Where the stored request alone does not give the stored payload, the correction does the rest."""
    log = EventBuilder({"n": 1})
    corrected = {"n": 2, "secret": "token"}
    log.add(
        "payload.changed",
        applier=log.applier,
        request={"updateElements": {"n": 2}},
        correction=[{"op": "add", "path": "/secret", "value": "token"}],
        hash_before=comparison_hash({"n": 1}),
        hash_after=comparison_hash(corrected),
    )
    assert fold(log.events).payload == corrected


def test_a_change_in_place_is_a_correction_alone() -> None:
    """What nobody asked for has no request, only a correction."""
    log = EventBuilder({"n": 1})
    log.add(
        "payload.changed",
        applier=log.applier,
        correction=[{"op": "replace", "path": "/n", "value": 2}],
        hash_before=comparison_hash({"n": 1}),
        hash_after=comparison_hash({"n": 2}),
    )
    assert fold(log.events).payload == {"n": 2}


def test_a_correction_says_all_when_the_request_does_not_apply() -> None:
    """A `test` on a value that was redacted fails in the record; the correction alone gives the payload."""
    log = EventBuilder({"key": "token", "n": 1})
    log.add(
        "payload.changed",
        applier={"name": "json-patch", "version": 1},
        request=[{"op": "test", "path": "/key", "value": "other"}, {"op": "replace", "path": "/n", "value": 2}],
        correction=[{"op": "replace", "path": "/n", "value": 2}],
        hash_before=comparison_hash({"key": "token", "n": 1}),
        hash_after=comparison_hash({"key": "token", "n": 2}),
    )
    assert fold(log.events).payload == {"key": "token", "n": 2}
    error = corrupt(replaced(log.events, 1, correction=[{"op": "remove", "path": "/missing"}]))
    assert error.seq == 1
    assert "correction" in str(error)


def test_a_payload_may_be_replaced_by_null() -> None:
    """A request that is null is a request, for the appliers that take any value."""
    for applier in ("replace", "merge-patch"):
        log = EventBuilder({"n": 1}, applier=applier)
        log.change(None)
        assert fold(log.events).payload is None


# -- logs that make no sense ---------------------------------------------------------------------------------------


def corrupt(events: list[Event]) -> CorruptLog:
    with pytest.raises(CorruptLog) as caught:
        fold(events, run="run7")
    assert caught.value.run == "run7"
    assert "run7" in str(caught.value)
    assert "agentreplay verify run7" in str(caught.value)
    return caught.value


def replaced(events: list[Event], at: int, **data: Any) -> list[Event]:
    """The events with other data in one of them."""
    event = events[at]
    changed = event.model_copy(update={"data": event.data.model_copy(update=data)})
    return [*events[:at], changed, *events[at + 1 :]]


def index_of(log: EventBuilder, kind: str) -> int:
    return next(event.seq for event in log.events if event.kind == kind)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("run.started", {"payload": {"order": "A-18"}}),
        ("payload.changed", {"hash_before": "merkle1:00"}),
        ("payload.changed", {"hash_after": "merkle1:00"}),
        ("payload.changed", {"request": {"newElements": {"status": "elsewhere"}}}),
        ("payload.changed", {"request": {"newElements": {"status": True}}}),
        ("round.finished", {"payload_hash": "merkle1:00"}),
        ("run.finished", {"payload_hash": "merkle1:00"}),
    ],
)
def test_a_payload_that_does_not_follow_is_named(kind: str, data: dict[str, Any]) -> None:
    """The first event whose payload hash is not that of the payload is named, with both hashes."""
    log = refund_log()
    at = index_of(log, kind)
    error = corrupt(replaced(log.events, at, **data))
    assert error.seq == at
    assert str(error).count("merkle1:") == 2


def test_hashes_are_not_checked_on_request() -> None:
    """With check=False a wrong hash passes, and what is folded is the requests."""
    log = refund_log()
    at = index_of(log, "payload.changed")
    state = fold(replaced(log.events, at, hash_after="merkle1:00"), check=False)
    assert state.payload == log.payload


def test_a_change_that_cannot_be_applied_is_named() -> None:
    """A patch that does not fit the payload, or an unknown applier, names its event and says why."""
    log = EventBuilder({"n": 1})
    log.change([{"op": "replace", "path": "/n", "value": 2}], "json-patch")
    error = corrupt(replaced(log.events, 1, request=[{"op": "remove", "path": "/missing"}]))
    assert error.seq == 1
    assert error.__cause__ is not None
    assert corrupt(replaced(log.events, 1, applier={"name": "from-the-future", "version": 1})).seq == 1


@pytest.mark.parametrize("missing", [0, 1, 5, 20])
def test_a_gap_is_named(missing: int) -> None:
    """The event after a missing one is where the log stops making sense."""
    events = refund_log().events
    assert corrupt([*events[:missing], *events[missing + 1 :]]).seq == missing + 1


def test_a_repeated_event_is_named() -> None:
    """An event that was stored twice does not pass."""
    events = refund_log().events
    assert corrupt([*events[:6], *events[5:]]).seq == 5


def test_what_follows_the_end_is_named() -> None:
    """Nothing but a resumption follows run.finished."""
    log = refund_log()
    at = len(log.events)
    log.add("x.note")
    error = corrupt(log.events)
    assert error.seq == at
    assert "completed" in str(error)


@pytest.mark.parametrize("kind", ["tool.returned", "model.returned", "tool.failed", "model.failed"])
def test_a_return_without_a_call_is_named(kind: str) -> None:
    """A call that ends must have been made, and ends once."""
    error = {"type": "builtins.ValueError", "message": "no"}
    log = EventBuilder({})
    log.begin()
    log.add(kind, call="c9", error=error)
    assert corrupt(log.events).seq == 2
    log = EventBuilder({})
    log.begin()
    log.call("c1", kind=kind.partition(".")[0])
    log.add(kind, call="c1", error=error)
    log.add(kind, call="c1", error=error)
    found = corrupt(log.events)
    assert found.seq == 4
    assert "c1" in str(found)


@pytest.mark.parametrize(
    ("kinds", "wrong"),
    [
        ([(2, "round.started")], 1),
        ([(0, "round.started")], 1),
        ([(1, "round.started"), (2, "round.started")], 2),
        ([(1, "round.started"), (1, "round.started")], 2),
        ([(0, "round.finished")], 1),
        ([(1, "round.started"), (1, "round.finished"), (1, "round.finished")], 3),
        ([(1, "round.started"), (1, "round.finished"), (1, "round.started")], 3),
        ([(1, "message.added")], 1),
        ([(0, "run.started")], 1),
    ],
)
def test_rounds_follow_each_other(kinds: list[tuple[int, str]], wrong: int) -> None:
    """Rounds start in order, one at a time, before anything happens in them, and finish once; a run starts once."""
    hashed = comparison_hash(None)
    data: dict[str, dict[str, Any]] = {
        "run.started": {"agent": "a", "payload_hash": hashed},
        "round.finished": {"outcome": "continue", "payload_hash": hashed},
        "message.added": {"message": {}},
    }
    events = [build(0, 0, "run.started", data["run.started"])]
    events += [build(seq, round, kind, data.get(kind)) for seq, (round, kind) in enumerate(kinds, 1)]
    assert corrupt(events).seq == wrong


def test_a_child_run_that_never_started_is_named() -> None:
    """A child run finishes only after it started."""
    log = EventBuilder({})
    log.add("subrun.finished", run="u-9", status="completed")
    assert corrupt(log.events).seq == 1


def test_a_child_run_that_was_resumed_finishes_again() -> None:
    """The last word on a child run is its status."""
    log = EventBuilder({})
    log.add("subrun.started", run="u-1", name="auditor")
    log.add("subrun.started", run="u-2", name="auditor")
    log.add("subrun.finished", run="u-1", status="interrupted")
    log.add("subrun.finished", run="u-1", status="completed", result=7)
    assert [(child.status, child.result) for child in fold(log.events).children] == [
        ("completed", 7),
        ("running", None),
    ]


def test_a_log_starts_with_run_started() -> None:
    """A log that starts with anything else is no log."""
    assert corrupt([build(0, 0, "report")]).seq == 0


def test_an_error_names_a_nameless_run_too() -> None:
    """Without a name the message still says where and what to do next."""
    with pytest.raises(CorruptLog, match="the run: the log stops making sense at event 3") as caught:
        fold([build(3, 0, "report")])
    assert caught.value.seq == 3


# -- size ----------------------------------------------------------------------------------------------------------


def test_the_states_of_a_long_run_are_cheap_to_keep() -> None:
    """Keeping the state of all of 1,000 steps, with a message each and 100 KB of payload, costs below 8 KB a step."""
    log = EventBuilder({f"part{n}": {f"key{m}": "x" * 80 for m in range(50)} for n in range(20)})
    for n in range(1_000):
        log.begin()
        log.add("message.added", message={"role": "user", "content": str(n)})
        log.change([{"op": "replace", "path": f"/part{n % 20}/key7", "value": n}], "json-patch")
        log.end()
    log.payloads.clear()  # the live states share nothing with the folded ones, and are not what is measured
    tracemalloc.start()
    try:
        kept = list(states(log.events))
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(kept) == 1_001
    assert size / 1_001 <= 8 * 1024
