"""Takes snapshots while runs are recorded, so that the first look at a long run is as quick as the second.

The recorder says how much it appended and to which run. When that weighs as much as the run's last snapshot, a thread
folds what is new and keeps a snapshot where one is due (`replay.snapshots`). The agent waits for none of this. The
thread ends when there is nothing to do, and a program that ends waits for it: a snapshot under way is finished.

This stands above both because the recorder must not know of folding, nor folding of recording.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from .recorder import run_log
from .recorder.scope import BackgroundThread

if TYPE_CHECKING:
    from .recorder.store import EventStore, RunInfo

FIRST_WEIGHT: Final = 8 * 1024
"""Bytes of events before the first look; `replay.snapshots` takes none for less."""

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

    def appended(self, store: EventStore, info: RunInfo, size: int) -> None:
        """Take note of `size` more bytes of events in a run."""
        uid = info.uid
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

        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                uid, (store, info) = self._waiting.popitem()
            try:
                take_due(store, info)
                last = store.snapshot(info)
            except Exception:
                # The log itself tells its readers what is wrong with it; a snapshot would only have saved work.
                continue
            with self._lock:
                if len(self._due) >= REMEMBERED:
                    self._due.clear()
                    self._weights.clear()
                self._due[uid] = max(FIRST_WEIGHT, len(last.state) if last is not None else 0)

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
