"""Turns among threads: one recorded answer at a time, when every thread of the code has come to wait.

Between two effects threads run as the system likes, in a replay as in the recording. But if only one of them has got
its answer and all others wait, it is alone until it asks for the next one. So answers are handed out in the order of
the log, each when all is quiet: when every thread of the code waits here, or in `threading`, `queue`, `selectors` or
`concurrent.futures`, in two samples that are half a millisecond apart; or when nothing has moved for a while,
as where they wait for a lock. Preemption inside plain code is not replayed. Where nobody asks any more for the answer
that is next, that is seen elsewhere (`watch`).
"""

from __future__ import annotations

import concurrent.futures
import os
import queue
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from ..recorder.scope import BackgroundThread

Key: TypeAlias = tuple[Any, ...]
"""Names what is let through: (run's uid, what, …)."""

SAMPLE: Final = 0.0005
"""Seconds between two looks at the threads."""

QUIET: Final = 2
"""Looks that find the threads as they were, after which the next answer is handed out."""

STILL: Final = 60
"""Looks that find every thread where it was, after which one that does not seem to wait is taken to wait, too."""

WAITERS: Final = frozenset(
    (
        *(threading.__file__, queue.__file__, selectors.__file__, concurrent.futures._base.__file__),
        os.path.join(os.path.dirname(concurrent.futures.__file__), "thread.py"),
    )
)
"""Files of the standard library in which a thread waits for another one."""


class ThreadTurns:
    """Has threads wait for their turns.

    Args:
        idents: the threads of the code that are there.
        next_key: what is next in the log.
        in_order: of some keys the one that comes first in the log; None if it has none of them.
        check: raises what stops the code, if it was stopped.
        wake: has the event loops look whether it is their turn.
        note: told when an answer is handed out before its turn.
    """

    def __init__(
        self,
        idents: Callable[[], Iterable[int]],
        next_key: Callable[[], Key | None],
        in_order: Callable[[Iterable[Key]], Key | None],
        check: Callable[[], None],
        wake: Callable[[], None],
        note: Callable[[], None],
    ) -> None:
        self._idents = idents
        self._next_key = next_key
        self._in_order = in_order
        self._check = check
        self._wake = wake
        self._note = note
        self._changed = threading.Condition()
        self._waiting: dict[Key, int] = {}
        self._granted: set[Key] = set()
        self._steps = 0
        self._watching = False

    def wait(self, key: Key) -> None:
        """Wait for the turn of an answer."""
        with self._changed:
            self._check()
            self._waiting[key] = threading.get_ident()
            self._steps += 1
            if not self._watching:
                self._watching = True
                BackgroundThread(target=self._watch, name="agentreplay-turns", daemon=True).start()
            try:
                while key not in self._granted:
                    self._check()
                    self._changed.wait(1.0)
                self._steps += 1
            finally:
                self._granted.discard(key)  # of a thread that was stopped as well, which does not go on
                self._waiting.pop(key, None)

    def _watch(self) -> None:
        before, same = None, 0
        while True:
            time.sleep(SAMPLE)
            with self._changed:
                if not self._waiting:
                    self._watching = False
                    return
                now, all_wait = self._look()
                same = same + 1 if now == before else 0
                before = now
                if same >= (QUIET if all_wait else STILL) and self._hand_out():
                    same = 0

    def _look(self) -> tuple[Any, bool]:
        """Where the threads of the code are, and whether all of them wait, as far as can be seen.

        A thread that takes a lock of its own waits, too, but looks like one that computes; it only stays where it is.
        """
        frames, seen, all_wait = sys._current_frames(), [], True
        for ident in {*self._idents(), *self._waiting.values()}:
            frame = frames.get(ident)
            if frame is None:
                continue
            if ident not in self._waiting.values() and frame.f_code.co_filename not in WAITERS:
                all_wait = False
            seen.append((ident, id(frame), frame.f_lasti))
        return (self._steps, sorted(seen)), all_wait

    def _hand_out(self) -> bool:
        """Hand out the next answer, if a thread waits for it; says whether one does."""
        key = self._next_key()
        if key in self._waiting and key not in self._granted:
            self._grant(key)
            return True
        self._wake()
        return False

    def hand_out_another(self) -> bool:
        """Hand out an answer before its turn, since nobody asks for the one that is next; says whether there is one."""
        with self._changed:
            other = self._in_order(name for name in self._waiting if name not in self._granted)
            if other is not None:
                self._note()
                self._grant(other)
            return other is not None

    def wake(self) -> None:
        """Have threads that wait see that the code was stopped."""
        with self._changed:
            self._changed.notify_all()

    @property
    def goes_on(self) -> bool:
        """Whether a thread has its answer, and has not gone on yet."""
        return bool(self._granted)

    @property
    def steps(self) -> int:
        """How often a thread has begun to wait, or gone on."""
        return self._steps

    def _grant(self, key: Key) -> None:
        self._granted.add(key)
        self._changed.notify_all()
