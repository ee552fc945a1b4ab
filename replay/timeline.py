"""The states of a run step by step, and what happened in between.

A step's share of the log ends where the next round starts: the state at step N is the state after everything that
belongs to round N, what happened between rounds N and N+1 included. Step 0 is the start: the run began, no round has.
The last step includes the end of the run.

All functions are pure, over an iterable of events in order; those that go forward read no further than they must.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..recorder.errors import UsageError
from ..recorder.events import Event
from .diff import Cause
from .reducer import fold, reduce
from .state import RunState


def rounds(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Split a log into the shares of its steps: what comes before the first round, then round by round."""
    share: list[Event] = []
    for event in events:
        if event.kind == "round.started" and share:
            yield share
            share = []
        share.append(event)
    if share:
        yield share


def states(
    events: Iterable[Event], state: RunState | None = None, *, check: bool = True, run: str = ""
) -> Iterator[tuple[int, RunState]]:
    """Yield (step, state) for every step, from the start on.

    Args:
        events: of the run, in order.
        state: a state to go on from (a snapshot); `events` are then those after it. It is yielded first when it is
            the state of a whole step.
        check: verify payload hashes.
        run: the run's name, for messages.

    Raises:
        CorruptLog: when the event at which the log stops making sense is reached.
    """
    fresh = state is not None
    for share in rounds(events):
        if fresh and state is not None and share[0].kind == "round.started":
            yield state.step, state
        fresh = False
        state = fold(share, state, check=check, run=run)
        yield state.step, state
    if fresh and state is not None:
        yield state.step, state


def resolve_step(step: int, last: int) -> int:
    """Turn a step that may count from the end (-1 is the last) into one that counts from the start.

    Raises:
        UsageError: the run has no such step.
    """
    if not -last - 1 <= step <= last:
        raise UsageError(
            f"there is no step {step}: this run has steps 0 (the start) to {last}; "
            f"-1 is the last, step {last}, and {-last - 1} is step 0"
        )
    return step if step >= 0 else last + 1 + step


def step_at(events: Iterable[Event], seq: int) -> int:
    """The step whose share of the log holds event `seq`.

    Raises:
        UsageError: there is no such event.
    """
    step, last = 0, -1
    for event in events:
        if event.kind == "round.started":
            step = event.round
        if event.seq == seq:
            return step
        last = event.seq
    raise UsageError(f"there is no event {seq}: the run has events 0 to {last}")


def state_of(
    events: Iterable[Event],
    step: int = -1,
    *,
    state: RunState | None = None,
    check: bool = True,
    run: str = "",
) -> RunState:
    """The state at a step; -1 is the last, and includes the end of the run.

    Args:
        events: of the run, in order; with `state`, those after it.
        step: from 0, the start; negative steps count from the end.
        state: a snapshot to go on from.
        check: verify payload hashes.
        run: the run's name, for messages.

    Raises:
        UsageError: the run has no such step.
        CorruptLog: the log stops making sense before it.
    """
    kept: deque[RunState] = deque(maxlen=max(-step, 1))
    for number, reached in states(events, state, check=check, run=run):
        if number == step:
            return reached
        kept.append(reached)
    last = kept[-1].step if kept else 0
    wanted = resolve_step(step, last)
    if not kept or kept[0].step != wanted:
        raise UsageError(f"step {wanted} is not among the given events: they begin after it")
    return kept[0]


@dataclass(frozen=True, slots=True)
class PayloadChange:
    """One change of the payload: its event, and the payload before and after it, in stored form."""

    event: Event
    step: int
    before: Any
    after: Any

    @property
    def cause(self) -> Cause:
        """What to name as the cause of every difference between `before` and `after`."""
        event = self.event
        call = event.data.source.get("call") or event.within
        return Cause(event.seq, self.step, event.kind, call, event.data.reason)


@dataclass(frozen=True, slots=True)
class CallOfStep:
    """A call that was made in a step.

    Attributes:
        called: its `*.called` event.
        ended: the event with which it returned, failed or was cancelled within the step's share of the log, or None.
    """

    called: Event
    ended: Event | None

    @property
    def call(self) -> str:
        """The call's id."""
        return str(self.called.data.call)

    @property
    def kind(self) -> str:
        """Model or tool."""
        return self.called.kind.partition(".")[0]

    @property
    def name(self) -> str:
        """Of the model function or tool."""
        return str(self.called.data.name)

    @property
    def status(self) -> str:
        """Open, returned, failed or cancelled."""
        return "open" if self.ended is None else self.ended.kind.partition(".")[2]

    @property
    def duration(self) -> float | None:
        """Seconds, if the call ended and they were measured."""
        return getattr(self.ended.data, "duration", None) if self.ended is not None else None


@dataclass(frozen=True, slots=True)
class StepChanges:
    """What one step did.

    Attributes:
        before, after: the states between which it happened.
        events: the step's share of the log.
        decision: the last `step.decided` event, or None.
        calls: the calls it made, in order.
        payload_changes: one by one, in order.
    """

    step: int
    before: RunState
    after: RunState
    events: tuple[Event, ...]
    decision: Event | None
    calls: tuple[CallOfStep, ...]
    payload_changes: tuple[PayloadChange, ...]


def changes_of_step(
    events: Iterable[Event],
    step: int = -1,
    *,
    state: RunState | None = None,
    check: bool = True,
    run: str = "",
) -> StepChanges:
    """What a step did: its decision, its calls, and every change of the payload with what was before and after.

    Args:
        events: of the run, in order; with `state`, those after it.
        step: from 0, the start; negative steps count from the end.
        state: a snapshot to go on from, of a step before.
        check: verify payload hashes.
        run: the run's name, for messages.

    Raises:
        UsageError, CorruptLog: as for `state_of`.
    """
    kept: deque[tuple[int, RunState, list[Event]]] = deque(maxlen=max(-step, 1))
    reached = RunState(run=run) if state is None else state
    for share in rounds(events):
        number = share[0].round if share[0].kind == "round.started" else reached.step
        if number == step:
            return _changes(number, reached, share, check)
        kept.append((number, reached, share))
        reached = fold(share, reached, check=check)
    wanted = resolve_step(step, reached.step)
    if not kept or kept[0][0] != wanted:
        raise UsageError(f"step {wanted} is not among the given events: they begin after it")
    return _changes(*kept[0], check)


def calls_of(events: Iterable[Event]) -> tuple[CallOfStep, ...]:
    """The calls that events begin, in order, each with the event that ended it, if that is among them."""
    called: dict[str, list[Event]] = {}
    made: list[list[Event]] = []
    for event in events:
        if event.kind in ("model.called", "tool.called"):
            called[event.data.call] = [event]
            made.append(called[event.data.call])
        elif event.kind in _CALL_ENDS and event.data.call in called:
            called[event.data.call].append(event)
    return tuple(CallOfStep(pair[0], pair[-1] if len(pair) > 1 else None) for pair in made)


_CALL_ENDS = frozenset(("model.returned", "model.failed", "tool.returned", "tool.failed", "call.cancelled"))


def _changes(step: int, before: RunState, share: list[Event], check: bool) -> StepChanges:
    after, decision = before, None
    payload_changes = []
    for event in share:
        previous, after = after, reduce(after, event, check=check)
        if event.kind == "step.decided":
            decision = event
        elif event.kind == "payload.changed":
            payload_changes.append(PayloadChange(event, step, previous.stored_payload, after.stored_payload))
    return StepChanges(step, before, after, tuple(share), decision, calls_of(share), tuple(payload_changes))
