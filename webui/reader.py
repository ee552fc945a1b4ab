"""Reading runs for pages: quickly, whichever step is asked for, and without holding much.

What a step did follows from its own events, which are found at once wherever they are (`replay.step_places`). Its
payload takes a fold, from the nearest state that is known: a snapshot in the store, or one of those that are kept
here because they were looked at, or because the run was gone through once (`overview`). What a fold would cost can be
asked beforehand: a page does not wait for a payload of a hundred megabytes. Hashes of payloads are not checked here,
which of a large one takes a second; `verify` and the command line do.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from ..recorder.errors import CorruptLog, UsageError
from ..recorder.event_codec import StoredEvent
from ..recorder.events import Event
from ..recorder.log_end import last_round
from ..recorder.store import FIRST, EventStore, RunInfo
from ..recorder.values import is_tag, loads
from ..replay.difference import Difference, of_one_run, of_two_runs
from ..replay.outline import RoundEntry, entries_of
from ..replay.snapshots import nearest
from ..replay.state import RunState
from ..replay.step_places import places_of
from ..replay.timeline import state_of
from .overview import Overviews, events_to_fold
from .sound import Sound, Unread, sound_part

QUICK: Final = 4_000_000
"""What a fold may cost at most for a page to wait for it, in bytes to read; an event counts as `EVENT` of them."""

EVENT: Final = 2_000

STATES: Final = 24
"""States that are kept because they were looked at."""

HEAVY: Final = 8_000_000
"""A state that weighs more bytes is kept only as long as no other that heavy is looked at."""

LOOKED_AHEAD: Final = 200
"""Events behind the steps of a list in which the ends of their calls are looked for."""

Damage = dict[int, str]
"""By step, the first of its events that cannot be read, and why."""

SHARE: Final = 4_000
SHARE_END: Final = 500
"""Events of one step that are read at most, and how many of these are its last."""


class Reader:
    """Reads the runs of one store; for any thread.

    Args:
        store: where they are.
        overviews: what was found out of whole runs.
    """

    def __init__(self, store: EventStore, overviews: Overviews) -> None:
        self.store = store
        self._overviews = overviews
        self._lock = threading.Lock()
        self._heavy = threading.Lock()
        self._states: OrderedDict[tuple[str, int], tuple[RunState, int]] = OrderedDict()

    def last_step(self, info: RunInfo) -> int:
        """The number of the last round that has started."""
        return last_round(self.store, info)

    def step(self, info: RunInfo, step: int) -> int:
        """A step that the run has.

        Raises:
            UsageError: it has no such step.
        """
        last = self.last_step(info)
        if not 0 <= step <= last:
            raise UsageError(f"{info.id} has no step {step}: it has steps 0 (the start) to {last}")
        return step

    def share_of(self, info: RunInfo, step: int, damage: Damage | None = None) -> tuple[list[Event], int]:
        """The events of a step, and how many there are; of very many the first and the last. Large values are tags.

        Args:
            info: the run.
            step: a step that it has.
            damage: takes what is wrong with events that cannot be read, which are left out then.

        Raises:
            CorruptLog: an event cannot be read, and `damage` is not given.
        """
        first, stop = places_of(self.store, info, step, step + 1)
        if stop - first <= SHARE:
            return list(self._decoded(info, first - 1, stop - 1, damage)), stop - first
        head = self._decoded(info, first - 1, first - 1 + SHARE - SHARE_END, damage)
        return [*head, *self._decoded(info, stop - 1 - SHARE_END, stop - 1, damage)], stop - first

    def entries(self, info: RunInfo, start: int, stop: int, damage: Damage | None = None) -> list[RoundEntry]:
        """What some steps did, but for their changes; also how calls ended whose end came after.

        With `damage`, as for `share_of`, every step has an entry, however little of it can be read.
        """
        places = places_of(self.store, info, start, stop)
        until = min(places.stop - 1 + LOOKED_AHEAD, info.head_seq)
        events = _until_settled(self._decoded(info, places.first - 1, until, damage), places.stop)
        found = [entry for entry in entries_of(events) if start <= entry.step < stop]
        if not damage:
            return found
        by_step = {entry.step: entry for entry in found}
        return [by_step.get(step) or RoundEntry(step) for step in range(start, stop)]

    def entry(self, info: RunInfo, step: int, share: list[Event], damage: Damage | None = None) -> RoundEntry:
        """What one step did, but for its changes, by its events; `damage` as for `share_of`."""
        if len(share) >= SHARE:
            return next(iter(entries_of(share)))
        return next(iter(self.entries(info, step, step + 1, damage)), RoundEntry(step))

    def events_after(self, info: RunInfo, after: int, limit: int) -> Iterator[Event | Unread]:
        """The events behind one, so many at most; large values are tags. Those that cannot be read say why."""
        for row in self.store.rows(info, after, min(after + limit, info.head_seq)):
            yield self._read(info, row, whole=False)

    def event(self, info: RunInfo, seq: int, *, whole: bool = False) -> Event:
        """One event; with `whole` also the large values and conversations that it refers to.

        Raises:
            UsageError: the run has no such event.
            CorruptLog: it cannot be read.
        """
        row = self._row(info, seq)
        return self.store.decode(info, row, conversations=whole, blobs=whole)

    def event_or_why(self, info: RunInfo, seq: int, *, whole: bool = False) -> Event | Unread:
        """Likewise, or why it cannot be read."""
        return self._read(info, self._row(info, seq), whole=whole)

    def _read(self, info: RunInfo, row: StoredEvent, *, whole: bool) -> Event | Unread:
        try:
            return self.store.decode(info, row, conversations=whole, blobs=whole)
        except CorruptLog as error:
            return Unread(row, str(error))

    def _row(self, info: RunInfo, seq: int) -> StoredEvent:
        row = next(self.store.rows(info, after=seq - 1, until=seq), None) if 0 <= seq <= info.head_seq else None
        if row is None:
            raise UsageError(f"{info.id} has no event {seq}: it has events 0 to {info.head_seq}")
        return row

    def _decoded(self, info: RunInfo, after: int, until: int, damage: Damage | None = None) -> Iterator[Event]:
        for row in self.store.rows(info, after, until):
            try:
                event = self.store.decode(info, row, conversations=False, blobs=False)
            except CorruptLog as error:
                if damage is None:
                    raise
                damage.setdefault(row.round, str(error))
            else:
                yield event

    # -- states -------------------------------------------------------------------------------------

    def state(self, info: RunInfo, step: int) -> RunState:
        """The state after a step, folded from the nearest one that is known.

        Raises:
            UsageError, CorruptLog: as for `replay.reading.state_at`.
        """
        with self._folding(info, step):
            state, events = self.begin(self.store, info, step)
            reached = state_of(events, step, state=state, check=False, run=info.id)
            self._keep(info, step, reached)
            return reached

    def sound(self, info: RunInfo, step: int, *, from_start: bool = False) -> Sound:
        """The last step, up to one, whose state can be worked out; of a sound run that is the step.

        Args:
            info: the run.
            step: a step that it has.
            from_start: not by the help of a state that is known: all events before it are sound then.
        """
        with self._heavy:
            state, events = (
                (None, events_to_fold(self.store, info, FIRST, self._overviews.give_way))
                if from_start
                else self.begin(self.store, info, step)
            )
            return sound_part(events, step, state=state, run=info.id)

    def difference(self, info: RunInfo, start: int, stop: int, parts: tuple[str, ...] = ()) -> Difference:
        """What lies between two steps of a run, what tags stand for included; see `replay.difference`."""
        with self._folding(info, min(start, stop)):
            found = of_one_run(self.store, info, start, stop, parts, begin=self.begin, check=False, inside_tags=True)
            for (_, step), state in zip((found.old, found.new), found.states, strict=True):
                self._keep(info, step, state)
            return found

    def difference_of_two(
        self, old: tuple[RunInfo, int], new: tuple[RunInfo, int], parts: tuple[str, ...] = ()
    ) -> Difference:
        """What lies between a step of one run and a step of another."""
        with self._heavy:
            return of_two_runs(self.store, old, new, parts, inside_tags=True)

    def _folding(self, info: RunInfo, step: int) -> AbstractContextManager[object]:
        """Held while a state is worked out: of those that take long, one at a time. Many readers have it once."""
        return nullcontext() if self.is_quick(info, step) else self._heavy

    def begin(self, store: EventStore, info: RunInfo, step: int) -> tuple[RunState | None, Iterable[Event]]:
        """The nearest state that is known, at a step or before, and the events after it."""
        state = self._known(info, step)
        kept = store.snapshot(info, step)
        if kept is not None and (state is None or kept.step > state.step):
            state = nearest(store, info, step) or state
        after = FIRST if state is None else state.last_seq
        return state, events_to_fold(store, info, after, self._overviews.give_way)

    def is_quick(self, info: RunInfo, step: int) -> bool:
        """Whether the state after a step can be had without keeping anybody waiting."""
        known, kept = self._known(info, step), self.store.snapshot(info, step)
        if known is not None and (kept is None or kept.step <= known.step):
            after, cost = known.last_seq, 0
        elif kept is not None:
            after, cost = kept.seq, 8 * len(kept.state)
        else:
            after, cost = FIRST, self.weight_of_start(info)
        if cost > QUICK:
            return False
        last = after + (QUICK - cost) // EVENT  # one look there says enough: where exactly the step ends takes thirty
        row = next(self.store.rows(info, last - 1, last), None) if last <= info.head_seq else None
        return row is None or row.round > step

    def weight_of_start(self, info: RunInfo) -> int:
        """The bytes of the payload that a run started with."""
        row = next(self.store.rows(info, until=0), None)
        if row is None or row.body is None:
            return 0
        try:
            body = loads(row.body)
        except ValueError:  # damaged; whoever reads it says so
            body = None
        payload: Any = body.get("payload") if type(body) is dict else None
        stored = payload.get("size") if is_tag(payload) and payload["$type"] == "blob" else None
        return len(row.body) + (stored if type(stored) is int else 0)

    def _known(self, info: RunInfo, step: int) -> RunState | None:
        with self._lock:
            steps = sorted(at for uid, at in self._states if uid == info.uid)
            place = bisect_right(steps, step)
            found = None
            if place:
                key = (info.uid, steps[place - 1])
                found = self._states[key][0]
                self._states.move_to_end(key)
        other = self._overviews.state(info, step)
        if other is not None and (found is None or other.step > found.step):
            return other
        return found

    def _keep(self, info: RunInfo, step: int, state: RunState) -> None:
        weight = max(self.weight_of_start(info), self._overviews.size(info, step))
        with self._lock:
            if weight > HEAVY:
                for key in [key for key, (_, other) in self._states.items() if other > HEAVY and key[0] != info.uid]:
                    del self._states[key]
            self._states[info.uid, step] = (state, weight)
            self._states.move_to_end((info.uid, step))
            while len(self._states) > STATES:
                self._states.popitem(last=False)


def _until_settled(events: Iterable[Event], stop: int) -> Iterator[Event]:
    """The events before `stop`, and behind it as far as calls of theirs have not ended."""
    open_calls: set[Any] = set()
    for event in events:
        if event.seq >= stop and not open_calls:
            return
        if event.kind in ("model.called", "tool.called"):
            if event.seq < stop:
                open_calls.add(event.data.call)
        elif event.kind.startswith(("model.", "tool.")):
            open_calls.discard(event.data.call)
        yield event
