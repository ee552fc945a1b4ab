"""Signs of life of the runs that this process records, for readers who cannot look at the process.

A run whose agent waits for an hour appends nothing for an hour. So that a reader on another host can tell it from one
that was killed, a thread notes the time beside the log, in a table of its own: a heartbeat is no event and in no hash,
and the next one takes its place. An event has a time too, so only runs that appended nothing since the last look get
one; a busy run costs nothing, and appending never waits for this but for one such small commit.

There is one thread for all runs of all stores, while there are any, and the end of a program does not wait for it.
Whatever fails in it is no matter to the agent: the next append finds out for itself whether the store can still be
written. A forked child has no runs in progress and no such thread.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from .reentry import appending

if TYPE_CHECKING:
    from .store import EventStore, RunInfo

INTERVAL: Final = 15.0
"""Seconds between two looks at the runs in progress, and at least between two heartbeats of one."""

NOT_SEEN: Final = -2
"""Stands for the last event of a run that was not looked at yet."""

logger = logging.getLogger("agentreplay")


class Recorded(Protocol):
    """What is asked of a run in progress: what it is, and where it is recorded."""

    store: EventStore
    info: RunInfo


class Heartbeat:
    """Keeps signs of life of runs in progress."""

    def __init__(self) -> None:
        self.start_anew()

    def start_anew(self) -> None:
        """At first, and in a forked child."""
        self._changed = threading.Condition()  # its lock may be taken again: a finaliser may end a run anywhere
        self._runs: weakref.WeakKeyDictionary[Recorded, int] = weakref.WeakKeyDictionary()
        self._thread: threading.Thread | None = None

    def begin(self, run: Recorded) -> None:
        """From now on a run is in progress in this process; until `end`, or as long as somebody holds `run`."""
        with self._changed:
            self._runs[run] = NOT_SEEN
            if self._thread is None:
                from .scope import BackgroundThread  # who only reads does without

                with suppress(RuntimeError):  # no thread can be started any more: the program ends
                    thread = BackgroundThread(target=self._work, name="agentreplay-heartbeat", daemon=True)
                    thread.start()
                    self._thread = thread

    def end(self, run: Recorded) -> None:
        """It is no longer."""
        with self._changed:
            self._runs.pop(run, None)
            if not self._runs:
                self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: not self._runs, INTERVAL):
                    self._thread = None
                    return
            self.beat()

    def beat(self) -> None:
        """Look at each run in progress, and keep a heartbeat of those without an event since the last look."""
        with appending:  # what the user's finalisers record meanwhile must not land in the middle of a transaction
            for store, numbers in self._quiet_by_store().items():
                try:
                    store.keep_heartbeats(numbers)
                except Exception as error:
                    logger.debug("no heartbeat in %s: %s", store.name, error)
        with suppress(BaseException):  # it is nobody's here; whoever records the run is told by its own next append
            appending.catch_up()

    def _quiet_by_store(self) -> dict[EventStore, list[int]]:
        """The stores of all runs in progress, each with those of its runs that had no event since the last look."""
        quiet: dict[EventStore, list[int]] = {}
        with self._changed:
            for run, seen in list(self._runs.items()):
                last = self._runs[run] = run.store.last_known(run.info.number)
                numbers = quiet.setdefault(run.store, [])
                if last == seen:
                    numbers.append(run.info.number)
        return quiet


heartbeat: Final = Heartbeat()
"""That of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=heartbeat.start_anew)
