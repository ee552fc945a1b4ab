"""The end of a run's log, as one of its writers knows it.

A store refuses an append behind an event that is not the last one (`VersionConflict`). A writer that is refused looks
at what others have added, gives its own events the next numbers, and appends them again. So nothing is lost or there
twice, and the events of one writer keep their order, whatever comes between them.

Not everything may come between them. The process that records a run works out its payload, rounds and conversation
from what it knows of them; those who join the run add only what changes none of that (`may_be_added`). Anything else
that has turned up was written by somebody who takes the run for theirs, such as a process that resumed it. Then the
conflict stands: two who record the same run would leave a log that makes no sense.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from .errors import VersionConflict

if TYPE_CHECKING:
    from .event_codec import StoredEvent
    from .store import EventStore, RunInfo, Summary

PATIENCE: Final = 60.0
"""Seconds that a writer goes on trying while others are first."""

SHORTEST_PAUSE: Final = 0.000_2
LONGEST_PAUSE: Final = 0.02
"""Seconds between two attempts, at most: first and in the end."""

LAST_KINDS: Final = ("run.finished", "run.suspended")
"""Kinds of events with which a run ends, until it is resumed."""

_ADDED: Final = frozenset(("call.cancelled", "timer.fired", "value.read", "report"))
_FAMILIES: Final = ("model.", "tool.", "subrun.", "writer.", "x.")

_WINDOW: Final = 256

_chance: Final = SystemRandom()  # the agent may have seeded Python's own generator, whose draws are then its own


class RunHasEnded(Exception):
    """The run that a writer has joined was ended by the process that records it."""


def may_be_added(kind: str) -> bool:
    """Whether an event of that kind changes nothing that the process which records the run must know of."""
    return kind.startswith(_FAMILIES) or kind in _ADDED


class Patience:
    """What a writer has that was refused: it tries again at once, then after pauses of chance that get longer."""

    __slots__ = ("_deadline", "_pause")

    def __init__(self) -> None:
        self._deadline = time.monotonic() + PATIENCE
        self._pause = 0.0

    def wait(self, conflict: VersionConflict) -> None:
        """Wait before the next attempt.

        Raises:
            VersionConflict: the one that is given, if others have been first for too long.
        """
        if self._pause:
            if time.monotonic() > self._deadline:
                raise conflict
            time.sleep(_chance.uniform(0, self._pause))
        self._pause = min(2 * self._pause, LONGEST_PAUSE) or SHORTEST_PAUSE


class LogEnd:
    """Appends behind the last event of a run, whoever else does the same.

    Args:
        store: where the run is.
        info: the run.
        seq: the last event that the writer knows of, -1 for none.
        joined: whether another process records the run.
    """

    __slots__ = ("_info", "_joined", "_store", "seq")

    def __init__(self, store: EventStore, info: RunInfo, seq: int, *, joined: bool = False) -> None:
        self.seq = seq
        self._store = store
        self._info = info
        self._joined = joined

    def append(self, rows: Sequence[StoredEvent], summary: Summary) -> None:
        """Append events, all or none, next to each other and in this order; they get their numbers here.

        Args:
            rows: at least one.
            summary: what they change of what is known of the run.

        Raises:
            RunHasEnded: the writer has joined the run, which was ended meanwhile; nothing was written.
            VersionConflict: somebody else records this run; or others were first all the time. Nothing was written.
            StoreError: the store could not be written.
        """
        patience: Patience | None = None
        while True:
            for seq, row in enumerate(rows, self.seq + 1):
                row.seq = seq
            try:
                self._store.append_rows(self._info, self.seq, rows, summary)
                self.seq = rows[-1].seq
                return
            except VersionConflict as conflict:
                patience = patience or Patience()
                patience.wait(conflict)
                self._catch_up(conflict)
            except Exception:
                raise
            except BaseException:  # such as Ctrl-C, which leaves open whether the events were committed
                with suppress(Exception):
                    self.seq = self._store.run(self._info.uid).head_seq
                raise

    def _catch_up(self, conflict: VersionConflict) -> None:
        """Take note of what others have added; who has joined need not see all of it."""
        last = None
        known = max(self.seq, conflict.found - 1) if self._joined else self.seq
        for last in self._store.rows(self._info, after=known):
            if not self._joined and not may_be_added(last.kind):
                raise conflict
        if last is None:  # the log is shorter than it was: its end was cut off
            raise conflict
        if self._joined and last.kind in LAST_KINDS:
            raise RunHasEnded(f"{self._info.id} has ended")
        self.seq = last.seq


_LOOKS: Final = (16, 64, 256)
"""Events at the end of a log among which one says which round goes on; nearly always it is in the first look."""


def rounds_begun(info: RunInfo, rows_between: Callable[[int, int], Iterable[StoredEvent]]) -> int:
    """The number of the last round that has started, of a run that has not ended.

    Args:
        info: with `steps` as the last of its events has them that says so: no more than one round has started since.
        rows_between: gives its own stored events with `after` < seq <= `until`; a fork does not share a round that
            has not finished.
    """
    until = info.head_seq
    for look in _LOOKS:
        after = max(until - look, -1)
        rows = list(rows_between(after, until))
        if any(row.round == info.steps + 1 for row in rows):
            return info.steps + 1
        if any(row.kind == "round.finished" and row.round == info.steps for row in rows):
            break
        until = after
    return info.steps


def last_round(store: EventStore, info: RunInfo) -> int:
    """The number of the last round that has started, 0 if none has; reads the end of the log only."""
    window, until = _WINDOW, info.head_seq
    while until >= 0:
        after = max(until - window, -1)
        started = [row.round for row in store.rows(info, after, until) if row.kind == "round.started"]
        if started:
            return started[-1]
        window, until = window * 4, after
    return 0
