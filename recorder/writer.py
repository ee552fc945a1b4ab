"""A background writer, so that an event loop never waits for a commit.

Events of one run are written in the order in which they were submitted; whatever has gathered while a commit was under
way goes into the next one together. The first failure is kept and given to everything submitted after it: an event that
cannot be stored must not be followed by ones that can.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .event_codec import StoredEvent
from .scope import BackgroundThread
from .store import Summary

if TYPE_CHECKING:
    from .store import EventStore, RunInfo


@dataclass(slots=True)
class _Entry:
    row: StoredEvent
    summary: Summary
    done: Future[None]


class BackgroundWriter:
    """Writes one run's events in a thread of its own.

    Args:
        store: where to.
        info: the run.
    """

    def __init__(self, store: EventStore, info: RunInfo) -> None:
        self._store = store
        self._info = info
        self._queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        self._thread = BackgroundThread(target=self._work, name=f"agentreplay-writer-{info.id}", daemon=True)
        self._thread.start()

    def submit(self, row: StoredEvent, summary: Summary) -> Future[None]:
        """Have an event written; the future is done when it is committed, or has the error."""
        entry = _Entry(row, summary, Future())
        self._queue.put(entry)
        return entry.done

    def close(self) -> None:
        """Write what was submitted, and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (entry := self._queue.get()) is not None:
            batch, last = [entry], False
            while not self._queue.empty():
                more = self._queue.get()
                if more is None:
                    last = True
                    break
                batch.append(more)
            self._write(batch)
            if last:
                return

    def _write(self, batch: list[_Entry]) -> None:
        if self._failure is None:
            fields = {name: value for entry in batch for name, value in entry.summary.fields.items()}
            rows = [entry.row for entry in batch]
            try:
                self._store.append_rows(self._info, rows[0].seq - 1, rows, Summary(fields))
            except BaseException as error:
                self._failure = error
        for entry in batch:
            _finish(entry.done, self._failure)


def _finish(done: Future[None], failure: BaseException | None) -> None:
    deliver: Callable[[], None] = (
        (lambda: done.set_result(None)) if failure is None else (lambda: done.set_exception(failure))
    )
    if not done.cancelled():
        deliver()
