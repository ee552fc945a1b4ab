"""What happened between two steps: the states at both ends, and the events that edited a part of them.

Nothing but those is kept, so the last steps of a run of thousands cost one fold and little memory; what the states
share they go on sharing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..recorder.errors import UsageError
from ..recorder.events import Event
from .causes import Edit
from .reducer import fold
from .state import RunState

EDITS: Final[Mapping[str, Collection[str]]] = {
    "payload": ("payload.changed",),
    "messages": ("message.added", "messages.replaced"),
    "scratchpad": ("scratchpad.changed",),
    "memory": ("memory.written",),
    "skills": ("skill.activated",),
    "plan": ("plan.proposed",),
    "media": ("media.promoted",),
    "usage": ("model.returned",),
}
"""The parts of a state that can be followed, and the kinds of the events that edit each."""


@dataclass(frozen=True, slots=True)
class Between:
    """What happened between two steps.

    Attributes:
        before: the state at the earlier step.
        after: the state at the later one.
        edits: of each part that was asked for, in order.
        kept: the events in between of the kinds that were asked for, in order.
    """

    before: RunState
    after: RunState
    edits: Mapping[str, tuple[Edit, ...]]
    kept: tuple[Event, ...]


def between(
    events: Iterable[Event],
    start: int,
    stop: int,
    *,
    parts: Collection[str] = ("payload",),
    keep: Callable[[Event], bool] = lambda event: False,
    state: RunState | None = None,
    check: bool = True,
    run: str = "",
) -> Between:
    """Fold a log up to a step, and keep what happened since an earlier one.

    Args:
        events: of the run, in order; with `state`, those after it. They are read no further than they must.
        start: the earlier step; 0 is the start.
        stop: the later one, at least `start`.
        parts: the parts of the state whose edits are wanted; names in `EDITS`.
        keep: which of the events in between to hand out as well.
        state: a snapshot to go on from, of `start` or a step before.
        check: verify payload hashes.
        run: the run's name, for messages.

    Raises:
        UsageError: the run has no such step, or a state no such part.
        CorruptLog: the log stops making sense before the later step.
    """
    if unknown := [part for part in parts if part not in EDITS]:
        raise UsageError(f'changes of "{unknown[0]}" cannot be followed; choose from {", ".join(EDITS)}')
    part_of = {kind: part for part in parts for kind in EDITS[part]}
    edits: dict[str, list[Edit]] = {part: [] for part in parts}
    kept: list[Event] = []
    reader = _Reader(events, run, state, check)
    reader.read_to(start)
    before = reader.state
    waiting: list[Event] = []
    for event in reader.share_up_to(stop):
        if keep(event):
            kept.append(event)
        part = part_of.get(event.kind)
        if part is None:
            waiting.append(event)
            continue
        previous = reader.fold(waiting)
        state = reader.fold([event])
        waiting.clear()
        edits[part].append(Edit(event, state.step, stored_part(previous, part), stored_part(state, part)))
    reader.fold(waiting)
    reader.must_be_at(stop)
    return Between(before, reader.state, {part: tuple(made) for part, made in edits.items()}, tuple(kept))


def stored_part(state: RunState, part: str) -> Any:
    """A part of a state as a tree in stored form."""
    value = getattr(state, f"stored_{part}", None) if hasattr(state, f"stored_{part}") else getattr(state, part)
    return value if value is None or isinstance(value, (str, dict, list, int, float)) else list(value)


class _Reader:
    """Folds the shares of steps, one step after the other."""

    def __init__(self, events: Iterable[Event], run: str, state: RunState | None, check: bool) -> None:
        self._events = iter(events)
        self._run = run
        self._check = check
        self._next: Event | None = next(self._events, None)
        self.state = RunState(run=run) if state is None else state

    def fold(self, events: Iterable[Event]) -> RunState:
        """Go on to the state after these events."""
        self.state = fold(events, self.state, check=self._check, run=self._run)
        return self.state

    def read_to(self, step: int) -> None:
        """Fold everything that belongs to steps up to `step`."""
        self.fold(self.share_up_to(step))
        self.must_be_at(step)

    def share_up_to(self, step: int) -> Iterator[Event]:
        """The events that come next and belong to steps up to `step`."""
        while self._next is not None and not (self._next.kind == "round.started" and self._next.round > step):
            event, self._next = self._next, next(self._events, None)
            yield event

    def must_be_at(self, step: int) -> None:
        """Make sure that the log went that far."""
        if self.state.step != step:
            raise UsageError(f"there is no step {step}: this run has steps 0 (the start) to {self.state.step}")
