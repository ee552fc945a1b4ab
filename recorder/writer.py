"""A background writer, so that an event loop never waits for a commit.

Events of one run are numbered and written in the order in which they were submitted; whatever has gathered while a
commit was under way goes into the next one together, and stays together where another process writes to the run. The
first failure is kept and given to everything submitted after it: an event that cannot be stored must not be followed by
ones that can.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from .event_codec import StoredEvent
from .reentry import appending
from .scope import BackgroundThread
from .store import Summary

if TYPE_CHECKING:
    from .log_end import LogEnd

Value = TypeVar("Value")


class _Batch:
    """What has gathered for the next commit.

    Attributes:
        rows: the events, in order.
        fields: what they change in the summary of the run.
        done: of all of them.
    """

    __slots__ = ("done", "fields", "rows")

    def __init__(self) -> None:
        self.rows: list[StoredEvent] = []
        self.fields: dict[str, Any] = {}
        self.done: Future[None] = _running_future()


class BackgroundWriter:
    """Writes one run's events in a thread of its own.

    Args:
        end: the end of the run's log, which is the writer's alone from here on.
        name: of the run.
    """

    def __init__(self, end: LogEnd, name: str) -> None:
        self._end = end
        self._lock = threading.Lock()
        self._batch = _Batch()
        self._woken: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        self.finished = in_thread(self._work, f"agentreplay-writer-{name}")

    @property
    def backlog(self) -> int:
        """How many events wait to be written."""
        return len(self._batch.rows)

    def submit(self, row: StoredEvent, summary: Summary) -> Future[None]:
        """Have an event written; the future is done when it is committed, or has the error."""
        with self._lock:
            batch = self._batch
            batch.rows.append(row)
            if summary.fields:
                batch.fields.update(summary.fields)
            is_first = len(batch.rows) == 1
        if is_first:
            self._woken.put(True)
        return batch.done

    def stop(self) -> None:
        """Let the thread write what was submitted and end; `finished` is done when it has."""
        self._woken.put(False)

    def _work(self) -> None:
        goes_on = True
        while goes_on:
            goes_on = self._woken.get()
            with self._lock:
                batch, self._batch = self._batch, _Batch()
            if batch.rows:
                self._write(batch)

    def _write(self, batch: _Batch) -> None:
        if self._failure is None:
            try:
                with appending:
                    self._end.append(batch.rows, Summary(batch.fields))
            except BaseException as error:
                self._failure = error
        if self._failure is None:
            batch.done.set_result(None)
        else:
            batch.done.set_exception(self._failure)
        appending.catch_up()


# -- threads of ours, and waiting for them ---------------------------------------------------------------


def _running_future() -> Future[Any]:
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()  # from here on nobody can cancel it
    return future


def in_thread(fn: Callable[[], Value], name: str, after: Future[Any] | None = None) -> Future[Value]:
    """Call a function in a new thread, once another is through if one is given; the future gets what it comes to."""
    future = _running_future()

    def work() -> None:
        try:
            value = fn()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(value)

    def start(_: object = None) -> None:
        BackgroundThread(target=work, name=name, daemon=True).start()

    start() if after is None else after.add_done_callback(start)
    return future


def off_the_loop(fn: Callable[[], Value]) -> Value:
    """Call a function where it may commit: here, or where an event loop runs here in another thread, waiting for it."""
    return in_thread(fn, "agentreplay-start").result() if on_event_loop() else fn()


async def begun_in_turn(
    begin: Callable[[], Value], abandon: Callable[[Value], object] | None = None
) -> tuple[Value, BaseException | None]:
    """Call a function that commits in a thread of its own, one after the other in the order of the calls.

    Threads would race, and what runs on one event loop in a certain order is to begin in that order. Cancelling this
    does not keep from beginning what was asked to: code that is executed again comes to this place, too, and the
    recording is to have it.

    Args:
        begin: what to call.
        abandon: called with what came of it, if this is cancelled, which is raised at once then.

    Returns:
        What came of it; and what has cancelled this meanwhile, to be raised once it is recorded, or None.
    """
    loop = asyncio.get_running_loop()
    cancelled: BaseException | None = None
    begun = _last_begun[loop] = in_thread(begin, "agentreplay-start", _last_begun.get(loop))
    while not begun.done():
        try:
            await until_done(begun)
        except BaseException as error:
            if abandon is not None:
                begun.add_done_callback(lambda done: abandon(done.result()) if done.exception() is None else None)
                raise
            cancelled = error
            if not isinstance(error, asyncio.CancelledError):  # a coroutine that is closed may not await
                _block_until_done(begun)
    if _last_begun.get(loop) is begun:
        del _last_begun[loop]
    if cancelled is not None and begun.exception() is not None:
        raise cancelled
    return begun.result(), cancelled


_last_begun: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Future[Any]] = weakref.WeakKeyDictionary()
"""What was asked to begin last on a loop, until that is through."""


def on_event_loop() -> bool:
    """Whether an asyncio event loop runs in this thread."""
    return asyncio._get_running_loop() is not None  # the public function takes longer to say no


async def until_done(future: Future[Any]) -> None:
    """Wait for a future of another thread without holding up the event loop. Cancelling the wait is no matter to it."""
    if future.done() or not on_event_loop():  # a loop that is not asyncio's cannot be woken from here
        return _block_until_done(future)
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake(_: Future[Any]) -> None:
        try:
            loop.call_soon_threadsafe(_set, waiter)
        except RuntimeError:  # the loop was closed meanwhile, so nobody waits
            return

    future.add_done_callback(wake)
    await waiter
    return None


def _set(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _block_until_done(future: Future[Any]) -> None:
    future.exception()
