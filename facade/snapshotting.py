"""Takes snapshots while runs are recorded, so that the first look at a long run is as quick as the second.

The recorder says how much it appended and to which run. When that weighs as much as the run's last snapshot, a thread
folds what is new and keeps a snapshot where one is due (`replay.snapshots`). It works only while nothing is appended,
as when the agent waits for its model, and stops at the next append: the agent waits for none of this. The thread ends
when there is nothing to do. A program that ends leaves it two seconds; what is missing then costs its readers time, and
nothing else.

This stands above both because the recorder must not know of folding, nor folding of recording.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

from .recorder import run_log
from .recorder.scope import BackgroundThread

if TYPE_CHECKING:
    from .recorder.store import EventStore, RunInfo

FIRST_WEIGHT: Final = 8 * 1024
"""Bytes of events before the first look; `replay.snapshots` takes none for less."""

IDLE_SECONDS: Final = 0.02
"""Without an append for so long, nobody is in a hurry."""

LAST_SECONDS: Final = 2.0
"""How long the end of a program may wait for snapshots."""

REMEMBERED: Final = 1_000
"""Runs whose weight is kept in mind."""


class SnapshotTaker:
    """Weighs what is appended, and takes the snapshots that are due in a thread of its own."""

    def __init__(self) -> None:
        self._start_anew()

    def _start_anew(self) -> None:
        """At first, and in a forked child, where no thread goes on."""
        self._lock = threading.Lock()
        self._weights: dict[str, int] = {}
        self._due: dict[str, int] = {}
        self._waiting: dict[str, tuple[EventStore, RunInfo]] = {}
        self._thread: BackgroundThread | None = None
        self._last_append = 0.0

    def appended(self, store: EventStore, info: RunInfo, size: int) -> None:
        """Take note of `size` more bytes of events in a run."""
        uid = info.uid
        self._last_append = monotonic()
        weight = self._weights.get(uid, 0) + size
        if weight < self._due.get(uid, FIRST_WEIGHT):
            self._weights[uid] = weight
            return
        with self._lock:
            self._weights[uid] = 0
            self._waiting[uid] = (store, info)
            if self._thread is None:
                self._thread = BackgroundThread(target=self._work, name="agentreplay-snapshots")
                self._thread.start()

    def _work(self) -> None:
        from .replay.snapshots import take_due

        main, leave_at = threading.main_thread(), float("inf")
        while True:
            if not main.is_alive():
                leave_at = min(leave_at, monotonic() + LAST_SECONDS)
            elif not self._is_idle():
                sleep(IDLE_SECONDS)
                continue
            with self._lock:
                if not self._waiting or monotonic() > leave_at:
                    self._thread = None
                    return
                uid, (store, info) = next(iter(self._waiting.items()))
            quiet = self._last_append
            try:
                # An append in the meantime ends this; the run waits on, and is taken up where it was left.
                take_due(store, info, partial(self._may_go_on, quiet, leave_at))
                last = store.snapshot(info)
            except Exception:
                # The log itself tells its readers what is wrong with it; a snapshot would only have saved work.
                last = None
            with self._lock:
                if self._last_append == quiet:
                    self._waiting.pop(uid, None)
                if len(self._due) >= REMEMBERED:
                    self._due.clear()
                    self._weights.clear()
                self._due[uid] = max(FIRST_WEIGHT, len(last.state) if last is not None else 0)

    def _may_go_on(self, quiet: float, leave_at: float) -> bool:
        return self._last_append == quiet and monotonic() < leave_at

    def _is_idle(self) -> bool:
        return monotonic() - self._last_append > IDLE_SECONDS

    def wait(self) -> None:
        """Wait until the snapshots that are due have been taken."""
        while (thread := self._thread) is not None:
            thread.join()


taker = SnapshotTaker()


def start() -> None:
    """Have every run that this process records from now on weighed."""
    run_log.when_appended = taker.appended


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=taker._start_anew)
