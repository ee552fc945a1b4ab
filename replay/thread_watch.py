"""Sees that code stands still which waits for what never comes, in plain functions and threads, and ends it.

An event loop shows when it is idle. Plain code does not: it sits in a queue, a lock, a process that it waits for, and
looks as it would if it worked. So a thread of ours looks every few milliseconds where the threads of the code are. If
nothing is asked and nothing answered, and none of them comes to a place where it was not before, then nothing comes
any more; how soon that is believed depends on where they are. In a queue or before a lock it is a matter of a moment.
What cannot be told from a system call is given longer, and what uses the processor very long. All of it is given some
times as long as the code was silent while it was recorded (`pauses`).

Code that was stopped has to learn of it. What it does next tells it; but a thread that waits does nothing next. The
main thread is woken by a signal, whose handler raises there what has stopped the code. Other threads are told when they
come to the next line; one that waits for ever is left behind, and does not keep the process from ending.
"""

from __future__ import annotations

import concurrent.futures.thread
import ctypes
import dis
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final

from ..recorder import turns
from ..recorder.ambient_frames import whose_file
from ..recorder.attaching import waiting
from ..recorder.reads import OWN_FOLDERS, place
from ..recorder.scope import BackgroundThread, current
from ..recorder.signals import ReplayStopped
from .insisting import ENOUGH, EXECUTES
from .stacks import Stack, stacks_of
from .threads import WAITERS

if TYPE_CHECKING:
    from .course import Course

LOOK: Final = 0.004
"""Seconds between two looks."""

MOMENT: Final = 0.05
"""Seconds after which code that waits in a queue or before a lock, and stays there, waits for what never comes."""

LONG: Final = 2.0
"""The same of code that waits for it is not known what, such as the system or another process."""

PROCESS: Final = 6.0
"""The same of code that waits for a process, which on a busy machine may take seconds to start."""

BUSY: Final = 60.0
"""The same of code that uses the processor."""

_DEPTH: Final = 60
_SIGNAL: Final = getattr(signal, "SIGURG", None)
"""Wakes the main thread. A process that knows nothing of it ignores it."""

_PROCESSES: Final = (subprocess.__file__, os.path.join(os.path.dirname(subprocess.__file__), "multiprocessing", ""))
_LOCKS: Final = ("acquire", "wait", "join", "get", "put", "result")
_set_async_exc: Final = ctypes.pythonapi.PyThreadState_SetAsyncExc


class Watch:
    """Watches over the code of one course, from when it is entered until it is left.

    Args:
        course: asked whether the code was stopped.
        moves: a number that grows with whatever the code asks or is answered.
        idents: the threads of the code.
        at_work: whether threads that the code has started are at work; an event loop alone sees by itself.
        is_due: whether a thread is about to begin, or to go on.
        loop_waits: whether there is an event loop that may be woken from outside.
    """

    def __init__(
        self,
        course: Course,
        moves: Callable[[], int],
        idents: Callable[[], Iterable[int]],
        at_work: Callable[[], bool],
        is_due: Callable[[], bool],
        loop_waits: Callable[[], bool],
    ) -> None:
        self._course = course
        self._moves = moves
        self._idents = idents
        self._at_work = at_work
        self._is_due = is_due
        self._loop_waits = loop_waits
        self._over = threading.Event()
        self._before: Any = None
        self._is_woken = False
        self._at = -1
        self._now = self._looked = 0.0
        self._seen: set[Any] = set()
        self._since = 0.0
        self._ready = 0.0
        self._cpu = self._wall = 0.0
        self._told = False

    def __enter__(self) -> None:
        if _SIGNAL is not None and threading.current_thread() is threading.main_thread():
            self._before, self._is_woken = signal.signal(_SIGNAL, self._woken), True
        BackgroundThread(target=self._watch, name="agentreplay-watch", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._course.only_replays and self._course.stopped is not None:
            _leave_behind(self._idents())
        if self._is_woken and _SIGNAL is not None:
            signal.signal(_SIGNAL, signal.SIG_DFL if self._before is None else self._before)
        self._course.turns.insistence.over()

    def _woken(self, number: int, frame: FrameType | None) -> None:
        """In the main thread: raise what has stopped the code, unless that is where it is dealt with."""
        stopped = self._course.stopped
        if stopped is None or self._over.is_set():
            if callable(self._before):
                self._before(number, frame)
        elif self._is_here(frame):
            self._course.turns.insistence.told(stopped, often=ENOUGH // 2)
            raise ReplayStopped(stopped)

    def _is_here(self, frame: FrameType | None) -> bool:
        """Whether the main thread is at work for the code, and an error there reaches nobody else."""
        if self._course.turns.main is not None:  # one of many tasks in somebody's event loop
            scope = current.get()
            if (
                self._course is not waiting.get()
                if scope is None
                else scope.recorder.attachment not in self._course.runs
            ):
                return False
        return _is_the_codes(frame, itself=self._course.turns.insistence.insists)

    @property
    def _main(self) -> int:
        return self._course.turns.starter

    # -- looking -----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._over.wait(LOOK):
            with suppress(ReplayStopped):
                self._course.look_around()
                self._look()

    def _look(self) -> None:
        idents = {self._main, *self._idents()}
        threads = stacks_of(idents)
        places = {(ident, id(spot.code), spot.at) for ident, stack in threads.items() for spot in stack[:_DEPTH]}
        self._now += min(time.monotonic() - self._looked, 2 * LOOK)  # if nobody could look, the code may not have run
        self._looked = time.monotonic()
        now, cpu, moves = self._now, time.process_time(), self._moves()
        course = self._course
        if course.stopped is not None and course.turns.insistence.insists:
            self._tell(threads)
        if moves != self._at or not places <= self._seen or self._is_due():
            self._seen = places if moves != self._at else self._seen | places
            self._at, self._since, self._cpu, self._wall = moves, now, cpu, self._looked
            return
        if _are_ready(threads):
            self._ready = now
        silent = now - self._since
        if course.stopped is not None and not self._told and silent > 3 * LOOK:
            self._tell(threads)
        if silent < MOMENT or silent < self._patience(threads.values(), self._busy(cpu), course.pause()):
            return
        if course.stopped is not None:
            self._tell(threads)
        elif course.is_under_way and not (_in_event_loop(threads.get(self._main, ())) and not self._at_work()):
            with suppress(ReplayStopped):
                self._course.turns.stands_still(self._site(threads))
            self._tell(threads)
        self._since = now

    def _busy(self, cpu: float) -> float:
        """How much of a processor the process has used since nothing moves any more."""
        return (cpu - self._cpu) / max(self._looked - self._wall, LOOK)

    def _patience(self, stacks: Collection[Stack], busy: float, pause: float) -> float:
        """How long to wait for code that stands like that."""
        if self._course.stopped is not None:  # it only has to come to its end
            busy, pause = 0.0, 0.0
        if busy > 0.5:
            return BUSY + 20 * pause
        ready = self._now - self._ready < MOMENT / 2
        sure = not ready and all(_waits_for_another(stack) for stack in stacks) and not self._loop_waits()
        if sure:
            return MOMENT + 3 * pause
        return (PROCESS if any(map(_waits_for_a_process, stacks)) else LONG) + 10 * pause

    def _site(self, threads: dict[int, Stack]) -> str | None:
        """The line of the application's at which the main code stands, or else that of another thread."""
        sites = [_site_in(threads[ident]) for ident in sorted(threads, key=lambda one: one != self._main)]
        return next((site for site in sites if site is not None), None)

    # -- telling -----------------------------------------------------------------------------------------

    def _tell(self, threads: dict[int, Stack]) -> None:
        """Have code learn that it was stopped, if it was, which stays where it is."""
        if self._course.stopped is None:
            return
        self._told = True
        self._since = self._now
        if self._is_woken and self._main in threads:
            signal.pthread_kill(self._main, _SIGNAL)  # type: ignore[arg-type]  # there is one, or nothing is woken
        for ident, stack in threads.items():
            if ident != self._main and not _waits_for_another(stack) and _site_in(stack) is not None:
                _raise_in(ident, self._course.stopped)


def _site_in(stack: Stack) -> str | None:
    """The line of the application's at which a thread stands; None of one that only serves others, as in a pool."""
    spots = iter(stack)
    found = next((spot for spot in spots if whose_file(spot.code.co_filename) == "application"), None)
    if found is None:
        return None
    if found.code.co_filename.startswith("<"):  # generated: the line that calls it, if that is in a file
        outer = next((spot for spot in spots if not spot.code.co_filename.startswith("<")), None)
        found = found if outer is None or whose_file(outer.code.co_filename) != "application" else outer
    return place(found.code.co_filename, found.line)


def _raise_in(ident: int, stopped: BaseException | None) -> None:
    """Raise in another thread, at its next line, what has stopped the code."""
    if stopped is not None:
        here = type("ReplayStopped", (ReplayStopped,), {"__init__": lambda self: ReplayStopped.__init__(self, stopped)})
        _set_async_exc(ctypes.c_ulong(ident), ctypes.py_object(here))


def _leave_behind(idents: Iterable[int]) -> None:
    """Have the interpreter end although threads of a pool are still at work, which wait for what was stopped."""
    of_pools: Any = getattr(concurrent.futures.thread, "_threads_queues", {})
    left = set(idents)
    for thread in [thread for thread in list(of_pools) if thread.ident in left]:
        of_pools.pop(thread, None)


def _are_ready(idents: Iterable[int]) -> bool:
    """Whether one of these threads could go on, but has no processor; False where the system does not say."""
    natives = {thread.ident: thread.native_id for thread in threading.enumerate()}
    for ident in idents:
        try:
            with open(f"/proc/self/task/{natives.get(ident)}/stat", "rb") as file:
                state = file.read(512).rpartition(b")")[2].split(None, 1)[0]
        except (OSError, IndexError):
            continue
        if state == b"R":
            return True
    return False


def _in_event_loop(stack: Stack) -> bool:
    """Whether a thread is at the bottom of an event loop, which waits for its selector."""
    return _caller(stack) == "_run_once"


def _is_the_codes(frame: FrameType | None, itself: bool = False) -> bool:
    """Whether it is the code that is executed, or unless `itself`, its event loop, which stands there, and not ours."""
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(OWN_FOLDERS):
            return not itself and (path == turns.__file__ or frame.f_code.co_name == EXECUTES)
        if whose_file(path) == "application":
            return True
        frame = frame.f_back
    return False


def _caller(stack: Stack) -> str | None:
    outside = (spot.code for spot in stack[1:] if not spot.code.co_filename.startswith(OWN_FOLDERS))
    code = next(outside, None)
    return None if code is None else code.co_name


def _waits_for_another(stack: Stack) -> bool:
    """Whether a thread surely waits for another one of this process, as far as can be seen: for a lock or a queue."""
    if not stack:
        return False
    if stack[0].code.co_filename in WAITERS:
        return not _waits_for_a_process(stack)
    return _takes_a_lock(stack[0].code, stack[0].at)


def _waits_for_a_process(stack: Stack) -> bool:
    return any(spot.code.co_filename.startswith(_PROCESSES) for spot in stack)


def _takes_a_lock(code: CodeType, at: int) -> bool:
    """Whether code stands at `with lock:` or `lock.acquire()`."""
    name = None
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_METHOD", "LOAD_ATTR"):
            name = step.argval
        if step.offset == at:
            return step.opname in ("BEFORE_WITH", "LOAD_SPECIAL") or (step.opname.startswith("CALL") and name in _LOCKS)
    return False
