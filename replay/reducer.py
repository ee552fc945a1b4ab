"""The fold: a pure function from a state and an event to the next state.

`reduce(state, event)` gives the state after the event; `fold(events)` is the same over many. No user code runs and
nothing is read but the events. What an event does not touch is shared between the states, as the same objects.

The fold does not trust the log. A payload must have the hash that its event says, rounds and calls must begin before
they end, events must follow each other without a gap. Where the log stops making sense, `CorruptLog` names the event.
Events of kinds that this version does not know, a user's own (`x.…`) among them, change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, NoReturn, TypeAlias

from ..recorder.errors import AgentReplayError, CorruptLog
from ..recorder.events import Event, UnknownEvent
from ..recorder.payload import apply_change
from ..recorder.values import is_tag
from .state import ChildRun, OpenCall, OpenInterrupt, RunState

Changes: TypeAlias = dict[str, Any]
"""What an event changes of a state: attribute → new value."""

_set: Final = object.__setattr__


def reduce(state: RunState, event: Event, *, check: bool = True) -> RunState:
    """The state after `event`.

    Args:
        state: the state after the event before; `RunState()` before the first.
        event: an event as a store reads it, its values in stored form.
        check: verify payload hashes. Without, a change costs only its path even in a fresh process.

    Raises:
        CorruptLog: the event cannot follow; the message says why, `seq` which.
    """
    return fold((event,), state, check=check)


def fold(events: Iterable[Event], state: RunState | None = None, *, check: bool = True, run: str = "") -> RunState:
    """The state after `events`.

    Args:
        events: in order, without a gap; the first follows `state`.
        state: where to start: the state after the events before, by default the one before the first event.
        check: verify payload hashes.
        run: the run's name, for messages; a given `state` knows it already.

    Raises:
        CorruptLog: as in `reduce`.
    """
    start = RunState(run=run) if state is None else state
    # Only this call holds the copy until it is returned, so changing it in place is nobody's loss, and saves a copy
    # of the whole state for each event.
    new = _copy(start)
    for event in events:
        _follows(new, event)
        handler = _HANDLERS.get(event.kind)
        if handler is not None:
            if isinstance(event, UnknownEvent):
                _refuse(new, event, "its body is gone", "the states after it follow from it")
            if event.round > new.round and event.kind != "round.started":
                _refuse(new, event, f"it belongs to round {event.round}", f"round {new.round} is the last that started")
            for name, value in handler(new, event, check).items():
                _set(new, name, value)
        _set(new, "last_seq", event.seq)
    return new


_values: Final = attrgetter(*RunState.__slots__)
_setters: Final = [RunState.__dict__[name].__set__ for name in RunState.__slots__]


def _copy(state: RunState) -> RunState:
    new = object.__new__(RunState)
    for put, value in zip(_setters, _values(state), strict=True):
        put(new, value)
    return new


def _refuse(state: RunState, event: Event, found: str, expected: str, cause: Exception | None = None) -> NoReturn:
    run = state.run or "the run"
    raise CorruptLog(
        f"{run}: the log stops making sense at event {event.seq} ({event.kind}, round {event.round}): "
        f"{found}, but {expected}. `agentreplay verify {state.run or 'RUN'}` checks the stored bytes.",
        run=state.run,
        seq=event.seq,
    ) from cause


def _follows(state: RunState, event: Event) -> None:
    if event.seq != state.last_seq + 1:
        _refuse(state, event, f"it is event {event.seq}", f"event {state.last_seq + 1} comes next")
    if (event.kind == "run.started") is not (state.last_seq == -1):
        _refuse(state, event, f"it is a {event.kind}", "a run starts with run.started, and only once")
    if state.ended and event.kind != "run.resumed":
        _refuse(state, event, f"a {event.kind} follows the end", f"the run had {state.status} and was not resumed")


# -- the run -------------------------------------------------------------------------------------------------------


def _run_started(state: RunState, event: Event, check: bool) -> Changes:
    data = event.data
    if check:
        _check_hash(state, event, data.payload, data.payload_hash)
    return {
        "agent": data.agent,
        "applier": data.applier,
        "stored_input": data.input,
        "stored_params": data.params,
        "stored_payload": data.payload,
        "payload_hash": data.payload_hash,
    }


def _run_forked(state: RunState, event: Event, check: bool) -> Changes:
    data = event.data
    due = [edit for edit in data.edits if isinstance(edit, Mapping) and edit.get("edit") in ("param", "input")]
    return {
        "forked_from": {"parent": data.parent, "seq": data.seq, "hash": data.hash},
        "edits_due": (*state.edits_due, *due),
    }


def _run_suspended(state: RunState, event: Event, check: bool) -> Changes:
    return {"status": "interrupted"}


def _run_resumed(state: RunState, event: Event, check: bool) -> Changes:
    answered = event.data.answers
    waiting = {key: value for key, value in state.open_interrupts.items() if key not in answered}
    again = {"in_round": True, "outcome": None} if state.outcome == "interrupted" else {}  # the round goes on
    changes = {"status": "running", "ended": False, "stop_reason": None, "error": None, "open_interrupts": waiting}
    return changes | again


def _run_finished(state: RunState, event: Event, check: bool) -> Changes:
    data = event.data
    if check and data.payload_hash is not None:
        _same_payload(state, event, data.payload_hash)
    return {
        "status": data.status,
        "ended": True,
        "stop_reason": data.stop_reason,
        "stored_value": data.value,
        "error": data.error,
    }


def _round_started(state: RunState, event: Event, check: bool) -> Changes:
    if state.in_round:
        _refuse(state, event, f"round {event.round} starts", f"round {state.round} has not finished")
    if event.round != state.round + 1:
        _refuse(state, event, f"round {event.round} starts", f"round {state.round + 1} comes next")
    changes = {"round": event.round, "in_round": True, "outcome": None, "stored_decision": None}
    return changes | _edited(state, event) if state.edits_due else changes


def _edited(state: RunState, event: Event) -> Changes:
    """What re-runs edit that no other event tells of: it takes effect with the first round of each."""
    changes: Changes = {"edits_due": ()}
    params = {
        edit["name"]: edit.get("value")
        for edit in state.edits_due
        if edit["edit"] == "param" and isinstance(edit.get("name"), str)
    }
    if params:
        changes["stored_params"] = _with_params(state, event, params)
    for edit in state.edits_due:
        if edit["edit"] == "input":
            changes["stored_input"] = edit.get("value")
    return changes


def _round_finished(state: RunState, event: Event, check: bool) -> Changes:
    if not state.in_round or event.round != state.round:
        at = f"round {state.round} is the one that goes on" if state.in_round else "no round goes on"
        _refuse(state, event, f"round {event.round} finishes", at)
    if check:
        _same_payload(state, event, event.data.payload_hash)
    return {"in_round": False, "outcome": event.data.outcome}


def _with_params(state: RunState, event: Event, new: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters, in stored form, with others in the place of those of the same names, or behind them."""
    known: Any = [*state.stored_params.items()]
    if is_tag(state.stored_params):  # one of them is called "$type"
        known = state.stored_params.get("items")
        if type(known) is not list or not all(type(pair) is list and len(pair) == 2 for pair in known):
            _refuse(state, event, "the parameters are damaged", "a re-run edits them here")
    pairs = [[key, new[key] if type(key) is str and key in new else value] for key, value in known]
    names = [key for key, _ in pairs]
    pairs += [[key, value] for key, value in new.items() if key not in names]
    if "$type" in new or any(type(key) is not str or key == "$type" for key in names):
        return {"$type": "dict", "items": pairs}
    return dict(pairs)


# -- calls ---------------------------------------------------------------------------------------------------------


def _called(state: RunState, event: Event, check: bool) -> Changes:
    data = event.data
    call = OpenCall(
        call=data.call,
        kind=event.kind.partition(".")[0],
        name=data.name,
        round=event.round,
        seq=event.seq,
        attempt=data.attempt,
        within=event.within,
        task=event.task,
    )
    return {"open_calls": {**state.open_calls, data.call: call}}


def _ended(state: RunState, event: Event, check: bool) -> Changes:
    call = event.data.call
    if call in state.open_calls:
        return {"open_calls": _without(state.open_calls, call)}
    if call in state.cancelled_calls:
        return {"cancelled_calls": state.cancelled_calls - {call}}
    _refuse(state, event, f"call {call} ends", "no such call is open: it was never made, or has ended before")


def _model_returned(state: RunState, event: Event, check: bool) -> Changes:
    changes = _ended(state, event, check)
    if event.data.usage:
        changes["usage"] = added_usage(state.usage, event.data.usage)
    return changes


def _call_cancelled(state: RunState, event: Event, check: bool) -> Changes:
    """A cancelled call is not waited for any more; one that swallows its cancellation may still return."""
    call = event.data.call
    return {"open_calls": _without(state.open_calls, call), "cancelled_calls": state.cancelled_calls | {call}}


def _without(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name != key}


def added_usage(total: Mapping[str, Any], usage: Mapping[str, Any]) -> dict[str, Any]:
    """Sum two usages key by key, nested ones too; of what is no number, the newer stays."""
    out = dict(total)
    for key, value in usage.items():
        before = out.get(key)
        if isinstance(value, dict) and "$type" not in value:
            out[key] = added_usage(before if isinstance(before, dict) else {}, value)
        elif _is_number(value) and _is_number(before):
            out[key] = before + value
        else:
            out[key] = value
    return out


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


# -- the payload ---------------------------------------------------------------------------------------------------


def _payload_changed(state: RunState, event: Event, check: bool) -> Changes:
    data = event.data
    if check:
        _same_payload(state, event, data.hash_before)
    payload = _applied(state, event)
    if check:
        _check_hash(state, event, payload, data.hash_after)
    return {"stored_payload": payload, "payload_hash": data.hash_after}


_FOLDED_OPTIONS: Final = ("allowed_paths", "ignore_stray_keys")
"""The options that decide what a change does; the others decide what is said about it."""


def _applied(state: RunState, event: Event) -> Any:
    """The payload after the event: its request applied, then its correction."""
    data, payload = event.data, state.stored_payload
    request = data.request if data.applied_request is None else data.applied_request
    name, version = data.applier.get("name"), data.applier.get("version")
    options = {key: data.options[key] for key in _FOLDED_OPTIONS if key in data.options}
    try:
        if request is not None or data.correction is None:
            payload = apply_change(payload, request, name, version=version, stored=True, **options).result
    except AgentReplayError as error:
        # A request in which a secret was redacted may not apply any more; then the correction says all that it did.
        if data.correction is None:
            _refuse(state, event, f"the change cannot be applied: {error}", "it was applied when recorded", error)
    if data.correction is None:
        return payload
    try:
        return apply_change(payload, data.correction, "json-patch", stored=True).result
    except AgentReplayError as error:
        _refuse(state, event, f"the correction cannot be applied: {error}", "it was computed for this payload", error)


def _same_payload(state: RunState, event: Event, expected: str) -> None:
    if state.payload_hash != expected:
        _refuse(
            state, event, f"the payload before it is {state.payload_hash}", f"the event was recorded over {expected}"
        )


def _check_hash(state: RunState, event: Event, payload: Any, expected: str) -> None:
    found = state.memo.hash_of(payload)
    if found != expected:
        _refuse(state, event, f"the payload after it is {found}", f"the event says {expected}")


# -- what a decision does ------------------------------------------------------------------------------------------


def _step_decided(state: RunState, event: Event, check: bool) -> Changes:
    return {"stored_decision": event.data.decision}


def _message_added(state: RunState, event: Event, check: bool) -> Changes:
    return {"stored_messages": state.stored_messages.appended(event.data.message)}


def _messages_replaced(state: RunState, event: Event, check: bool) -> Changes:
    data, messages = event.data, state.stored_messages
    start, stop, _ = slice(data.start, data.stop).indices(len(messages))
    return {"stored_messages": messages.edited(start, max(start, stop), data.messages)}


def _scratchpad_changed(state: RunState, event: Event, check: bool) -> Changes:
    return {"stored_scratchpad": event.data.scratchpad}


def _memory_written(state: RunState, event: Event, check: bool) -> Changes:
    return {"stored_memory": state.stored_memory.appended(event.data.write)}


def _skill_activated(state: RunState, event: Event, check: bool) -> Changes:
    return {"stored_skills": state.stored_skills.appended(event.data.skill)}


def _plan_proposed(state: RunState, event: Event, check: bool) -> Changes:
    return {"stored_plan": event.data.plan}


def _media_promoted(state: RunState, event: Event, check: bool) -> Changes:
    return {"stored_media": state.stored_media.appended(event.data.media)}


def _interrupt_raised(state: RunState, event: Event, check: bool) -> Changes:
    data = event.data
    raised = OpenInterrupt(data.interrupt, data.name, data.reason, event.round, event.seq)
    return {"open_interrupts": {**state.open_interrupts, data.interrupt: raised}}


def _interrupt_answered(state: RunState, event: Event, check: bool) -> Changes:
    return {"open_interrupts": _without(state.open_interrupts, event.data.interrupt)}


def _subrun_started(state: RunState, event: Event, check: bool) -> Changes:
    data = event.data
    child = ChildRun(data.run, data.name, data.call, event.round, event.seq)
    return {"children": state.children.appended(child)}


def _subrun_finished(state: RunState, event: Event, check: bool) -> Changes:
    """A child that was interrupted finishes again after it was resumed."""
    data = event.data
    for at in reversed(range(len(state.children))):
        child = state.children[at]
        if child.run == data.run:
            ended = ChildRun(
                child.run, child.name, child.call, child.round, child.seq, data.status, data.result, data.merge
            )
            return {"children": state.children.edited(at, at + 1, (ended,))}
    _refuse(state, event, f"child run {data.run} finishes", "it was never started")


Handler: TypeAlias = Callable[[RunState, Event, bool], Changes]

_HANDLERS: Final[dict[str, Handler]] = {
    "run.started": _run_started,
    "run.forked": _run_forked,
    "run.suspended": _run_suspended,
    "run.resumed": _run_resumed,
    "run.finished": _run_finished,
    "round.started": _round_started,
    "round.finished": _round_finished,
    "model.called": _called,
    "model.returned": _model_returned,
    "model.failed": _ended,
    "tool.called": _called,
    "tool.returned": _ended,
    "tool.failed": _ended,
    "call.cancelled": _call_cancelled,
    "step.decided": _step_decided,
    "payload.changed": _payload_changed,
    "message.added": _message_added,
    "messages.replaced": _messages_replaced,
    "scratchpad.changed": _scratchpad_changed,
    "memory.written": _memory_written,
    "skill.activated": _skill_activated,
    "plan.proposed": _plan_proposed,
    "media.promoted": _media_promoted,
    "interrupt.raised": _interrupt_raised,
    "interrupt.answered": _interrupt_answered,
    "subrun.started": _subrun_started,
    "subrun.finished": _subrun_finished,
}
