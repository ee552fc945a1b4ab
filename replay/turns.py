"""Whose turn it is: recorded answers reach the code in the order in which they did while recording.

While recording, what came from outside reached the agent one by one, each when its event loop was idle (the recorder's
`turns`). Here it is the same, in the order of the log: results, errors, chunks of streams, timers, child runs and
cancellations. A timer does not run by the clock; it fires when the log says so, and so a timeout of 30 seconds takes no
time. Plain code that waits for nothing but the call it makes gets its answer at once.

Idle is also when it shows that something is missing. If all wait and nothing can be let through, the code has not made
a call that the recording has, and never will.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import Context, copy_context
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..recorder.ambient_frames import site_of
from ..recorder.delays import Asked
from ..recorder.errors import Divergence
from ..recorder.events import Event
from ..recorder.scope import Scope
from ..recorder.signals import ReplayStopped
from ..recorder.timers import CallAt, create_timer
from ..recorder.turns import BUSY, Turns
from .arrivals import Arrival, arrivals_of, end_key
from .delays import PAUSE, compare, unexpected
from .insisting import ENOUGH, Insistence
from .script import RecordedCall
from .standstill import MOMENT, NEVER, Standstill, data_may_come, something_may_come, waits_of
from .thread_watch import Watch
from .threads import Key, ThreadTurns

if TYPE_CHECKING:
    from ..recorder.run_recorder import RunRecorder
    from .course import Course
    from .recorded_run import RecordedRun

DUE: Final = 0.5
"""Seconds within which a thread that was started, or work for one that was submitted, is thought to begin."""

PATIENCE: Final = 2.0
"""Seconds to wait for something that the recording knows nothing of, before the code is stopped."""

OUT_OF_ORDER: Final = "results came in another order than they were recorded in"


class _Timer(NamedTuple):
    loop: asyncio.AbstractEventLoop
    call_at: CallAt
    when: float
    handle: asyncio.TimerHandle
    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: Context
    scope: Scope
    run: RecordedRun
    by: str | None
    delay: float | None
    site: str

    def fire(self) -> None:
        if not self.handle.cancelled():
            self.handle.cancel()
            self.callback(*self.args)


class Deliveries:
    """Lets through what the recordings of one course say, in their order. A driver of event loops' idle moments.

    Args:
        course: asked what to do when nothing can be let through.

    Attributes:
        starter: the thread in which the code is begun.
        main: the task in which it is, where it is one among others.
        insistence: ends code that catches what stops it.
        give_up: leaves tasks behind that do not end in spite of that; by default their event loops end.
    """

    def __init__(self, course: Course) -> None:
        self._course = course
        self._arrivals: list[Arrival] = []
        self._arrivals_of: dict[RecordedRun, list[Arrival]] = {}
        self._next = 0
        self._done: set[Key] = set()
        self._waiting: dict[Key, asyncio.Future[None]] = {}
        self._held: dict[Key, asyncio.Future[None]] = {}
        self._timers: dict[Key, _Timer] = {}
        self._fired: dict[Key, Event] = {}
        self._turns: list[Turns] = []
        self._impatient: asyncio.TimerHandle | None = None
        self._ready = 0
        self._standstill = Standstill(self.moves, course.pause)
        self.starter = threading.get_ident()
        self.insistence = Insistence()
        self.give_up = self._stop_loops
        self._threads = ThreadTurns(
            self._idents,
            self._peek,
            self._first_of,
            course.raise_if_stopped,
            self._wake_loops,
            lambda: course.coverage.note(OUT_OF_ORDER),
        )
        self.main: asyncio.Task[Any] | None = None

    def add(self, run: RecordedRun) -> None:
        """Add what a run's recording says; a child run's goes between that of its parent, by time."""
        own = self._arrivals_of[run] = list(arrivals_of(run.info.uid, run.script))
        self._fired.update({arrival.key: arrival.event for arrival in own if arrival.key[1] == "timer"})
        self._arrivals = list(heapq.merge(self._arrivals[self._next :], own, key=lambda one: one.time))
        self._next = 0

    def read_anew(self, run: RecordedRun) -> None:
        """A run has another recording from now on."""
        if self._arrivals_of.pop(run, None) is not None:
            rest = [arrival for arrivals in self._arrivals_of.values() for arrival in arrivals]
            self._arrivals = sorted(
                [arrival for arrival in rest if arrival.key not in self._done], key=lambda one: one.time
            )
            self._next = 0
            self.add(run)

    @property
    def waits(self) -> bool:
        """Whether a coroutine waits for its turn."""
        return bool(self._waiting)

    def moves(self) -> int:
        """How often the code has asked for something, or was answered."""
        return self._course.moves + len(self._done) + self._threads.steps

    def stands_still(self, site: str | None) -> None:
        """All code waits, as far as can be seen, at a line if that is known. May stop it.

        Raises:
            ReplayStopped: it is stopped.
        """
        if self._threads.hand_out_another():
            return
        try:
            if not self._course.nothing_comes(waits=self._waits_for_the_end) and not self._course.goes_on_live():
                self._course.stuck(site)
        finally:
            self._threads.wake()

    def watched(self) -> Watch:
        """What sees that code stands still which is in no event loop, for as long as the code is executed."""
        of_threads = self.threads_at_work, self._threads_are_due
        return Watch(self._course, self.moves, self._idents, *of_threads, self._something_may_come)

    def _something_may_come(self) -> bool:
        return any(something_may_come(turns.loop) for turns in self._turns if not turns.closed)

    # -- for plain code ----------------------------------------------------------------------------------

    def take(self, run: RecordedRun, call: RecordedCall) -> Event:
        """The end of a call that plain code waits for."""
        if call.ended is None:
            run.course.in_flight(run, call)
        assert call.ended is not None
        key = end_key(run.info.uid, call.ended)
        if call.called.within is None and self.threads_at_work() and key[1] != "cancelled":
            self._threads.wait(key)
        self._is_through(key)
        return call.ended

    def threads_at_work(self) -> bool:
        """Whether threads that the code has started are at work."""
        return any(recorder.threads for recorder in self._recorders()) or self._threads_begin()

    def _threads_begin(self) -> bool:
        since = monotonic() - DUE
        return any(started > since for recorder in self._recorders() for started in list(recorder.due_threads.values()))

    def _threads_are_due(self) -> bool:
        """Whether a thread is about to begin, or was handed its answer and is about to go on."""
        return self._threads.goes_on or self._threads_begin()

    def _recorders(self) -> list[RunRecorder]:
        return [run.recorder for run in self._course.runs if run.recorder is not None]

    def _idents(self) -> list[int]:
        started = [ident for recorder in self._recorders() for ident in recorder.threads]
        return [*started, self.starter]

    def _first_of(self, keys: Iterable[Key]) -> Key | None:
        wanted = set(keys)
        return next((arrival.key for arrival in self._arrivals[self._next :] if arrival.key in wanted), None)

    def _wake_loops(self) -> None:
        for turns in self._turns:
            if not turns.closed and self._waiting:
                with suppress(RuntimeError):
                    turns.loop.call_soon_threadsafe(_nothing)

    # -- for coroutines ----------------------------------------------------------------------------------

    async def atake(self, run: RecordedRun, call: RecordedCall) -> Event:
        """The end of a call that a coroutine awaits, in its turn."""
        uid = run.info.uid
        if call.ended is None:
            await self._wait((uid, "in flight", call.call), None)
        assert call.ended is not None
        if call.called.within is not None or getattr(call.ended.data, "inline", False):
            return self.take(run, call)
        if call.ended.kind == "call.cancelled":  # by the code itself; nothing comes
            await self._wait((uid, "to be cancelled", call.call), call)
        await self._wait(end_key(uid, call.ended), call)
        return call.ended

    async def achunk(self, run: RecordedRun, call: RecordedCall, number: int) -> None:
        """Wait for the turn of an item of a stream."""
        if call.called.within is None:
            await self._wait((run.info.uid, "chunk", call.call, number), call)

    async def aclosed(self, run: RecordedRun, call: RecordedCall) -> None:
        """The code has closed a stream before its end, and waits until that is done as it did while recording."""
        if call.ended is None or self._course.stopped is not None:
            return
        if call.called.within is not None or run.log.ended or getattr(call.ended.data, "inline", False):
            self._is_through(end_key(run.info.uid, call.ended))  # nobody sees to turns behind the end of the run
        else:
            await self._wait(end_key(run.info.uid, call.ended), call)

    async def aturn(self, run: RecordedRun, kind: str, child: str, number: int) -> None:
        """Wait for the turn of a child run that begins or has ended; of one that was cancelled, for that."""
        uid = run.info.uid
        key: Key = (uid, kind, child, number)
        began = kind == "subrun.finished" or child not in run.script.stillborn
        try:
            await self._wait(key if began else (uid, "to be cancelled", child), None)
        except asyncio.CancelledError:
            if self._course.stopped is None and not run.log.ended and key not in self._done:
                await self._in_order(key if began else (uid, "cancelled", child))
            raise

    async def _wait(self, key: Key, call: RecordedCall | None) -> None:
        self._course.go_on()  # nothing comes any more once the code was stopped
        future = asyncio.get_running_loop().create_future()
        self._waiting[key] = future
        try:
            await future
        except asyncio.CancelledError:
            if self._course.stopped is None and key not in self._done:
                await self._cancelled(key, call)
            raise
        finally:
            self._waiting.pop(key, None)

    async def _cancelled(self, key: Key, call: RecordedCall | None) -> None:
        """The code has cancelled what waits. That has its turn in the log, too: tasks are cancelled in any order."""
        self._waiting.pop(key, None)
        if call is None or call.ended is None:
            return
        if call.ended.kind != "call.cancelled":
            self._course.cancelled_early(call)
            return
        await self._in_order(end_key(key[0], call.ended))

    async def _in_order(self, cancelled: Key) -> None:
        """Hold what the code has cancelled until its turn."""
        if self._peek() != cancelled:
            held = self._held[cancelled] = asyncio.get_running_loop().create_future()
            await held
        self._is_through(cancelled)

    # -- timers ------------------------------------------------------------------------------------------

    def timer(
        self,
        run: RecordedRun,
        loop: asyncio.AbstractEventLoop,
        call_at: CallAt,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        scope: Scope,
        asked: Asked | None,
    ) -> asyncio.TimerHandle:
        """Keep a timer that the code creates until the log says that it fires."""
        self._course.raise_if_stopped()  # nor does any other come
        context = context or copy_context()
        round = run.log.round
        handle = call_at(NEVER, callback, *args, context=context)
        key = (run.info.uid, "timer", round, scope.task.text, scope.task.timer(round))
        told = (None, None, "") if asked is None else (asked.by, asked.recorded, site_of(asked.frame))
        self._timers[key] = _Timer(loop, call_at, when, handle, callback, args, context, scope, run, *told)
        fired = self._fired.get(key)
        if asked is not None and fired is not None and not self._course.is_live:
            compare(run, asked, fired)
        return handle

    def go_live(self) -> None:
        """The recording is over: timers that wait go by the clock from now on."""
        for (_, _, round, _, number), timer in self._timers.items():
            if not timer.handle.cancelled():
                given = (timer.fire, (), timer.context, timer.scope, timer.delay)
                when = max(timer.when, timer.loop.time())
                create_timer(timer.loop, timer.call_at, when, *given, numbered=(round, number))
        self._timers.clear()
        expected = {arrival.key for arrival in self._arrivals[self._next :]}
        for key, future in self._waiting.items():
            if key not in expected and not future.done():
                future.set_result(None)

    # -- idle moments --------------------------------------------------------------------------------------

    def comes_to(self, turns: Turns) -> None:
        """Code has come to an event loop."""
        if turns not in self._turns:
            self._turns.append(turns)
            turns.enter(self)

    def leave(self) -> None:
        """The code is through."""
        for turns in self._turns:
            turns.leave(self)

    def idle(self, forced: bool) -> bool:
        """Let the next one through; see `turns.Driver`."""
        forced = forced and not self._stands_still()
        if self._course.stopped is not None:
            return self._cancel()
        if not forced and self._data_is_there():
            return True
        key = self._peek()
        if key is not None and self._let_through(key):
            return True
        if forced:
            return False
        for arrival in self._arrivals[self._next :]:
            if arrival.key in self._waiting and self._let_through(arrival.key):
                self._course.coverage.note(OUT_OF_ORDER)
                return True
        return False if self._course.is_live else self._nothing_comes()

    def _data_is_there(self) -> bool:
        """Whether the code has yet to take up what has come: calls take no time here, sent data is soon overtaken."""
        here = Turns.of(asyncio.get_running_loop())
        if here is None or self._ready == BUSY or not here.something_is_ready():
            self._ready = 0
            return False
        self._ready += 1  # what is not taken up, such as a socket that may be written to, is so each time
        return True

    def _stands_still(self) -> bool:
        """Whether the loop that is busy here only looks for what never comes."""
        return not self._course.is_live and self._standstill.seen(asyncio.get_running_loop())

    def _let_through(self, key: Key) -> bool:
        waiting = self._waiting.get(key)
        timer = self._timers.pop(key, None)
        held = self._held.pop(key, None)
        if waiting is not None and not waiting.done():
            self._is_through(key)
            waiting.set_result(None)
        elif timer is not None:
            self._is_through(key)
            timer.loop.call_soon(timer.fire, context=timer.context)
        elif held is not None and not held.done():
            held.set_result(None)
        else:
            return False
        return True

    def _nothing_comes(self) -> bool:
        """All wait, and nothing can be let through: a call is missing, or the recording is over."""
        if self.threads_at_work():
            return False
        if self._course.is_cancelled_here(self._peek(), self._waiting):
            return True
        if not any(data_may_come(turns.loop) for turns in self._turns if not turns.closed):
            try:
                if self._course.nothing_comes(waits=self._waits_for_the_end):
                    return False
            except ReplayStopped:
                return self._cancel()
            if self._course.goes_on_live() or self._course.ends_cancelled(self._peek()):
                return True  # timers go by the clock now, and the loop must look at them again
        if self._impatient is None and self._turns:  # perhaps something comes that was not recorded
            loop = self._turns[-1].loop
            pause = self._course.pause()
            patience = PATIENCE + 10 * pause if something_may_come(loop) else MOMENT + 3 * pause
            self._impatient = loop.call_later(patience, self._lose_patience, self.moves(), context=Context())
            return True  # the loop has worked out how long to wait already, and must do so again
        return False

    @property
    def _waits_for_the_end(self) -> bool:
        return any(key[1] == "in flight" for key in self._waiting)

    def _lose_patience(self, then: int) -> None:
        self._impatient = None
        if then == self.moves() and self._course.stopped is None and not self._course.is_live:
            try:
                if self._course.nothing_comes(waits=self._waits_for_the_end) or self._course.goes_on_live():
                    return
                if self._course.ends_cancelled(self._peek()):
                    return
                self._tell_of_wait()
            except ReplayStopped:
                self._cancel()

    def _tell_of_wait(self) -> None:
        """Stop code that waits for what does not come: for a `sleep` that was not recorded, or for anything else."""
        expected = {arrival.key for arrival in self._arrivals[self._next :]}
        asleep = {
            id(timer.args[0]): (key[3] == "0", timer)
            for key, timer in self._timers.items()
            if timer.by == PAUSE and key not in expected and not timer.handle.cancelled() and timer.args
        }
        ours = {id(future) for future in (*self._waiting.values(), *self._held.values())}
        waits = waits_of([turns.loop for turns in self._turns if not turns.closed])
        others = [wait for wait in waits if id(wait.future) not in asleep and id(wait.future) not in ours]
        for of_main_code, timer in sorted(asleep.values(), key=lambda one: not one[0]):
            if of_main_code or not others:  # beside others, a task of its own may sleep as it did while recording
                self._course.stop(Divergence(unexpected(timer.run, timer.by or "", timer.delay or 0.0, timer.site)))
        self._course.stuck(next((wait.site for wait in (*others, *waits) if wait.site is not None), None))

    def _stop_loops(self) -> None:
        for turns in self._turns:
            if not turns.closed:
                turns.loop.stop()

    def _cancel(self) -> bool:
        """Cancel the code, which was stopped."""
        for held in self._held.values():
            if not held.done():
                held.cancel()
        tasks = [task for turns in self._turns if not turns.closed for task in asyncio.all_tasks(turns.loop)]
        if self.main is not None:
            tasks = [] if self.main.done() else [self.main]
        if self._course.stopped is not None and self.insistence.told_tasks(tasks, self._course.stopped) > 2 * ENOUGH:
            self.give_up()
        return sum(task.cancel() for task in tasks) > 0

    def _peek(self) -> Key | None:
        """What is next; what is through already is passed over."""
        while self._next < len(self._arrivals):
            key = self._arrivals[self._next].key
            if key not in self._done:
                return key
            self._next += 1
        return None

    def _is_through(self, key: Key) -> None:
        self._done.add(key)
        if self._impatient is not None:
            self._impatient.cancel()
            self._impatient = None
        held = self._held.pop(following, None) if (following := self._peek()) is not None else None
        if held is not None and not held.done():
            held.set_result(None)


def _nothing() -> None:
    """Wakes an event loop."""
