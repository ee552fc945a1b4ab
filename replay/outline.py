"""A run round by round: what each decided, called and changed, in one pass over its log.

One state is kept at a time, and a round is handed out as soon as it is read, so a run of thousands of rounds can be
shown while it is read. A call may return in a later round than it was made in; its entry is brought up to date then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..recorder.events import ErrorInfo, Event
from .changes import MISSING, Changes
from .diff import diff_values
from .reducer import fold
from .state import RunState
from .streamed import Streamed, streamed_of
from .timeline import rounds


@dataclass(slots=True)
class CallEntry:
    """A call of a model or tool.

    Attributes:
        call: its id.
        kind: model or tool.
        status: open, returned, failed or cancelled.
        duration: seconds, once it ended and if that was measured.
        within: id of the call inside which it was made, or None.
        error: what it failed with.
        asked, answered: a tool's arguments, and what a call gave, in stored form; `MISSING` unless details are wanted.
        streamed: what it gave piece by piece, if that is wanted; `answered` is mostly null then.
        seq, end_seq: of the events with which it began and ended.
        model, usage: of a model call, the model and what its provider says that it used.
        safety: of a tool call, as it was declared.
    """

    call: str
    kind: str
    name: str
    status: str = "open"
    duration: float | None = None
    within: str | None = None
    error: ErrorInfo | None = None
    asked: Any = MISSING
    answered: Any = MISSING
    streamed: Streamed | None = None
    seq: int = 0
    end_seq: int | None = None
    model: str | None = None
    usage: Any = None
    safety: str | None = None


@dataclass(slots=True)
class ChildEntry:
    """A child run: its uid, its agent, and its status when its parent went on."""

    run: str
    name: str
    status: str = "running"
    call: str | None = None


@dataclass(slots=True)
class RoundEntry:
    """What one round did; round 0 is what came before the first.

    Attributes:
        decision: the NextStep, in stored form and camelCase, or None before there is one.
        outcome: continue, complete, failed, cancelled or interrupted; None while the round goes on.
        duration: seconds, if they were measured.
        calls: in order.
        changes: between the payload after the round before and after this one.
        requests: its `payload.changed` events.
        children: the child runs that it started.
        notes: events of other kinds that say something, such as reports, interrupts and a user's own.
    """

    step: int
    decision: dict[str, Any] | None = None
    outcome: str | None = None
    duration: float | None = None
    calls: list[CallEntry] = field(default_factory=list)
    changes: Changes = field(default_factory=Changes)
    requests: list[Event] = field(default_factory=list)
    children: list[ChildEntry] = field(default_factory=list)
    notes: list[Event] = field(default_factory=list)

    @property
    def word(self) -> str | None:
        """The step word of the decision, such as "Actions"."""
        step = (self.decision or {}).get("step")
        return step if isinstance(step, str) else None

    @property
    def reasoning(self) -> str | None:
        """Why, in the words of the decision; else its message."""
        for name in ("reasoning", "errorMessage", "message"):
            text = (self.decision or {}).get(name)
            if isinstance(text, str) and text.strip():
                return text
        return None

    @property
    def warnings(self) -> list[str]:
        """What the changes of the payload warned of, and which of their operations were blocked."""
        return [warning for event in self.requests for warning in warnings_of(event)]


def warnings_of(event: Event) -> list[str]:
    """The warnings and blocked operations of a `payload.changed` event, one text each."""
    blocked = [", ".join(f"{key} {value}" for key, value in operation.items()) for operation in event.data.blocked]
    return [*event.data.warnings, *(f"blocked: {text}" for text in blocked)]


_SILENT = frozenset(
    ("run.started", "run.finished", "round.started", "message.added", "value.read", "timer.fired", "call.cancelled")
)


def outline(
    events: Iterable[Event],
    run: str = "",
    *,
    wanted: Callable[[int], bool] = lambda step: True,
    details: bool = False,
) -> Iterator[RoundEntry]:
    """Yield the rounds of a run in order, from round 0 on.

    Args:
        events: of the run, in order.
        run: its name, for messages.
        wanted: the rounds to yield, by number.
        details: keep what calls were asked and answered.

    Raises:
        CorruptLog: when the event at which the log stops making sense is reached.
    """
    state = RunState(run=run)
    calls: dict[str, CallEntry] = {}
    children: dict[str, ChildEntry] = {}
    for share in rounds(events):
        before, state = state, fold(share, state, run=run)
        entry = RoundEntry(state.step)
        if before.last_seq >= 0 and wanted(entry.step):
            entry.changes = diff_values(before.stored_payload, state.stored_payload, inside_tags=True)
        for event in share:
            _enter(entry, event, calls, children, details)
        if wanted(entry.step):
            yield entry


def entries_of(events: Iterable[Event]) -> Iterator[RoundEntry]:
    """What rounds did in detail, from their events alone: everything but their `changes`.

    An entry is brought up to date when a later event ends one of its calls.
    """
    calls: dict[str, CallEntry] = {}
    children: dict[str, ChildEntry] = {}
    for share in rounds(events):
        entry = RoundEntry(share[0].round if share[0].kind == "round.started" else 0)
        for event in share:
            _enter(entry, event, calls, children, details=True)
        yield entry


def entry_of(step: int, events: Iterable[Event]) -> RoundEntry:
    """What a round did in detail, from its events alone: everything but its `changes`."""
    entry = RoundEntry(step)
    calls: dict[str, CallEntry] = {}
    children: dict[str, ChildEntry] = {}
    for event in events:
        _enter(entry, event, calls, children, details=True)
    return entry


def _enter(
    entry: RoundEntry, event: Event, calls: dict[str, CallEntry], children: dict[str, ChildEntry], details: bool
) -> None:
    kind, data = event.kind, event.data
    if kind in ("model.called", "tool.called"):
        call = CallEntry(data.call, kind.partition(".")[0], data.name, within=event.within, seq=event.seq)
        call.model, call.safety = getattr(data, "model", None), getattr(data, "safety", None)
        if details and kind == "tool.called":
            call.asked = data.arguments if data.raw is None else data.raw
        calls[data.call] = call
        entry.calls.append(call)
    elif kind in ("model.returned", "tool.returned", "model.failed", "tool.failed", "call.cancelled"):
        _end_call(calls, event, details)
    elif kind == "step.decided":
        entry.decision = data.decision
    elif kind == "round.finished":
        entry.outcome, entry.duration = data.outcome, data.duration
    elif kind == "payload.changed":
        entry.requests.append(event)
    elif kind == "subrun.started":
        children[data.run] = ChildEntry(data.run, data.name, call=data.call)
        entry.children.append(children[data.run])
    elif kind == "subrun.finished" and data.run in children:
        children[data.run].status = data.status
    elif kind not in _SILENT:
        entry.notes.append(event)


def _end_call(calls: dict[str, CallEntry], event: Event, details: bool) -> None:
    kind, data = event.kind, event.data
    call = calls.pop(data.call, None) if kind != "call.cancelled" else calls.get(data.call)
    if call is not None:
        call.status = kind.partition(".")[2]
        call.duration = getattr(data, "duration", None)
        call.error = getattr(data, "error", None)
        call.end_seq, call.usage = event.seq, getattr(data, "usage", None)
        if details:
            call.streamed = streamed_of(data)
        if details and kind.endswith(".returned"):
            call.answered = data.result if kind == "tool.returned" else data.response
