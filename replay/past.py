"""What a part of the payload was, version by version.

The payload is folded by itself: of a run's events only those that change it are looked at, and of those only the ones
are kept that changed the part in question, which is told by identity, since unchanged subtrees are the same objects.

Kept is not what the part was after each of them, but how to get back from each version to the one before. For most
parts that is the version before, which shares what did not change. A list shares its items, but not itself: a thousand
versions of a list of a thousand items are a million places. So of a list only the items are kept that differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, NoReturn

from ..recorder.errors import CorruptLog, UsageError
from ..recorder.events import Event
from .causes import Edit
from .changes import MISSING, Cause
from .origin import differing
from .paths import Keys
from .places import reached
from .reducer import reduce
from .state import RunState
from .timeline import resolve_step

FOLDED: Final = frozenset(("run.started", "round.started", "payload.changed"))
"""The kinds of the events that are looked at."""

_CHECKED_EVERY: Final = 256
"""So many changes are made before the hash of the payload is compared: a list of a thousand items is hashed whole."""


@dataclass(frozen=True, slots=True)
class Absent:
    """That there is no such part.

    Attributes:
        keys: as far as its path leads.
        holder: what is there, in which nothing of that name is; `MISSING` if there is no payload.
    """

    keys: Keys
    holder: Any


class Version(NamedTuple):
    """An event that changed a part of the payload.

    Attributes:
        cause: the event.
        before, after: the part, or `Absent`.
        differing: if both are lists that are compared item by item: the indexes of `before` from the first to the last
            item that is not in `after`.
    """

    cause: Cause
    before: Any
    after: Any
    differing: range | None = None


@dataclass(frozen=True, slots=True)
class Past:
    """What became of a part of the payload up to a step.

    Attributes:
        keys: of the part.
        step: counted from the start.
        payload: at that step.
    """

    keys: Keys
    step: int
    payload: Any
    _edits: list[_Edit]

    @property
    def part(self) -> Any:
        """The part at that step, or `Absent`."""
        return _look(self.payload, self.keys)

    def versions(self) -> Iterator[Version]:
        """The events that changed it, newest first; the last is the start of the run."""
        later = self.part
        for edit in reversed(self._edits):
            after = later if edit.absent_after is None else edit.absent_after
            if isinstance(edit.before, _Splice):
                later = edit.before.undone(later)
                yield Version(edit.cause, later, after, edit.before.place)
            else:
                later = edit.before
                yield Version(edit.cause, later, after)


def past_of(events: Iterable[Event], keys: Keys, step: int = -1, *, whole: bool = True, run: str = "") -> Past:
    """Fold the payload up to a step, and keep how a part of it came to be what it is.

    Args:
        events: of the run, in order; read no further than the step. Kinds not in `FOLDED` may be left out.
        keys: of the part: keys of objects only.
        step: from 0, the start; negative steps count from the end.
        whole: the versions will be compared as they are; otherwise, item by item.
        run: the run's name, for messages.

    Raises:
        UsageError: the run has no such step.
        CorruptLog: the log stops making sense before.
    """
    folded = _Payload(run)
    edits: list[_Edit] = []
    ends: deque[tuple[int, Any]] = deque(maxlen=max(-step, 1))
    number = 0
    payload: Any = MISSING
    part: Any = Absent((), MISSING)
    for event in events:
        if event.kind == "round.started":
            if 0 <= step < event.round:
                break
            if event.round != number + 1:
                folded.refuse(event, f"round {event.round} starts, but round {number + 1} comes next")
            ends.append((number, payload))
            number = event.round
        elif event.kind in FOLDED:
            before, payload = part, folded.fold(event)
            part = _look(payload, keys)
            if part is not before and not (isinstance(part, Absent) and isinstance(before, Absent)):
                edits.append(_edit(Edit(event, number, before, part), whole))
    if payload is MISSING:
        raise UsageError(f"{run or 'the run'} has no events yet")
    folded.check()
    ends.append((number, payload))
    wanted = resolve_step(step, number)
    return Past(keys, wanted, dict(ends)[wanted], [edit for edit in edits if edit.cause.step <= wanted])


def payloads_of(events: Iterable[Event], *, run: str = "") -> Iterator[tuple[int, Any]]:
    """The payload after each step, in stored form, from the start (step 0) on; what did not change is the same object.

    Args:
        events: of the run, in order. Kinds not in `FOLDED` may be left out.
        run: the run's name, for messages.

    Raises:
        CorruptLog: the log stops making sense; raised where that is noticed, at the latest after the last step.
    """
    folded = _Payload(run)
    number = 0
    payload: Any = MISSING
    for event in events:
        if event.kind == "round.started":
            if event.round != number + 1:
                folded.refuse(event, f"round {event.round} starts, but round {number + 1} comes next")
            yield number, payload
            number = event.round
        elif event.kind in FOLDED:
            payload = folded.fold(event)
    if payload is not MISSING:
        folded.check()
        yield number, payload


def _look(payload: Any, keys: Keys) -> Any:
    place = reached(keys, payload)
    if len(place.keys) < len(keys) or payload is MISSING:
        return Absent(place.keys, place.nodes[-1])
    return place.nodes[-1]


@dataclass(frozen=True, slots=True)
class _Splice:
    """How to get from a list back to the one before: put `items`, which were at `place`, between its two ends."""

    place: range
    items: list[Any]
    end: int

    @classmethod
    def between(cls, old: list[Any], new: list[Any]) -> _Splice:
        place = differing(old, new)
        return cls(place, old[place.start : place.stop], len(new) - len(old) + place.stop)

    def undone(self, new: list[Any]) -> list[Any]:
        return [*new[: self.place.start], *self.items, *new[self.end :]]


@dataclass(frozen=True, slots=True)
class _Edit:
    """An event that changed the part, and the part before it, or how to get there."""

    cause: Cause
    before: Any
    absent_after: Absent | None


def _edit(made: Edit, whole: bool) -> _Edit:
    before = made.before
    if not whole and type(before) is list and type(made.after) is list:
        before = _Splice.between(before, made.after)
    return _Edit(made.cause, before, made.after if isinstance(made.after, Absent) else None)


class _Payload:
    """Folds the payload by itself.

    Each change says by a hash over which payload it was made, so one that is missing is noticed. That each made the
    payload that it should is checked of some, and where that fails of all since the last that was checked.
    """

    def __init__(self, run: str) -> None:
        self._state = self._sound = RunState(run=run)
        self._unchecked: list[Event] = []

    def fold(self, event: Event) -> Any:
        """The payload after an event that gives or changes it."""
        follows = event.kind == "run.started" or event.data.hash_before == self._state.payload_hash
        self._state = _after(self._state, event, check=not follows)
        self._unchecked.append(event)
        if len(self._unchecked) == _CHECKED_EVERY:
            self.check()
        return self._state.stored_payload

    def check(self) -> None:
        """Make sure that the payload is the one that was recorded.

        Raises:
            CorruptLog: it is not; names the event.
        """
        state = self._state
        if state.memo.hash_of(state.stored_payload) != state.payload_hash:
            for event in self._unchecked:
                self._sound = _after(self._sound, event, check=True)
        self._sound = state
        self._unchecked.clear()

    def refuse(self, event: Event, why: str) -> NoReturn:
        """Say that an event cannot follow."""
        run = self._state.run
        raise CorruptLog(
            f"{run or 'the run'}: the log stops making sense at event {event.seq} ({event.kind}): {why}. "
            f"`agentreplay verify {run or 'RUN'}` checks the stored bytes.",
            run=run,
            seq=event.seq,
        )


def _after(state: RunState, event: Event, *, check: bool) -> RunState:
    # The events in between leave the payload alone; here the state passes over them.
    return reduce(replace(state, last_seq=event.seq - 1, round=event.round), event, check=check)
