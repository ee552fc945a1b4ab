"""Where in a run the current code stands: which run, inside which call, in which task.

A context variable carries it, so that nothing has to be passed through the user's functions. It has to follow the work
into other tasks and threads, which get paths of their own, by order of creation: "0" is where the run began, "0.3:1"
the second task that it started in round 3. In every execution of the same code they are the same, unlike ids. So while
a run is in progress four functions look for a scope where they are called: `Thread.start` and
`ThreadPoolExecutor.submit`, which carry it over (a thread starts without context), and asyncio's `create_task` and
`call_at`, whose timers are numbered in the task.

Only this variable is carried, and what a run that begins there is attached to (`attaching`). Whatever else the context
of the caller holds, the new thread does without, as it would if nothing were recorded.
"""

from __future__ import annotations

import contextvars
import functools
import itertools
import os
import threading
import time
from asyncio import BaseEventLoop, Timeout, _get_running_loop
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from .attaching import waiting, waits
from .reads import starting_site
from .signals import ReplayStopped
from .timers import carrying_call_at, carrying_reschedule
from .turns import joined, left

if TYPE_CHECKING:
    from .run_recorder import RunRecorder


class TaskPath:
    """The path of one task or thread.

    Attributes:
        text: as events show it.
        site: where it was started, in code that is executed against a recording; else None.
        visit: of the node of a workflow to which it belongs, if it does to one; what it starts belongs there, too.
    """

    __slots__ = ("_children", "_round", "_timers", "site", "text", "visit")

    def __init__(self, text: str = "0", round: int = -1) -> None:
        self.text = text
        self.site: str | None = None
        self.visit: Visit | None = None
        self._round = round
        self._children = (round, itertools.count())
        self._timers = (round, itertools.count(1))

    def child(self, round: int) -> TaskPath:
        """The path of the next task or thread that this one starts, which it does in that round."""
        if self._children[0] != round:
            self._children = (round, itertools.count())
        number = next(self._children[1])
        # Counted by round, so that a task more in one round changes nothing in the others.
        path = TaskPath(f"{self.text}.{number}" if round == self._round else f"{self.text}.{round}:{number}", round)
        path.visit = self.visit
        return path

    def timer(self, round: int) -> int:
        """The number, from 1, of the next timer that this one creates, which it does in that round."""
        if self._timers[0] != round:
            self._timers = (round, itertools.count(1))
        return next(self._timers[1])


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit of a node of a workflow.

    Attributes:
        node: its id.
        number: which visit of that node in the run it is, from 1.
        round: in which it is.
    """

    node: str
    number: int
    round: int


class Scope:
    """What the code that runs now belongs to.

    Attributes:
        recorder: of the run.
        within: id of the call inside which the code runs, or None.
        task: the task or thread it runs in.
    """

    __slots__ = ("recorder", "task", "within")

    def __init__(self, recorder: RunRecorder, within: str | None = None, task: TaskPath | None = None) -> None:
        self.recorder = recorder
        self.within = within
        self.task = task or TaskPath()

    def inside(self, call: str) -> Scope:
        """The scope of code that runs inside a call."""
        return Scope(self.recorder, call, self.task)

    def in_new_task(self) -> Scope:
        """The scope of a task or thread that this code starts now."""
        task = self.task.child(self.recorder.round)
        if self.recorder.attachment is not None:
            task.site = starting_site()
        return Scope(self.recorder, self.within, task)


current: contextvars.ContextVar[Scope | None] = contextvars.ContextVar("agentreplay_scope", default=None)
"""The scope of the running code, or None outside of any run."""


class entered:
    """`with entered(scope):` makes a scope the current one for the block. One may be entered again and again."""

    __slots__ = ("_scope", "_token")

    def __init__(self, scope: Scope | None) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        self._token = current.set(self._scope)

    def __exit__(self, *_: object) -> None:
        try:
            current.reset(self._token)
        except ValueError:
            # A coroutine that nobody awaited to its end is closed from elsewhere, where this scope never was.
            return


# -- carrying it -------------------------------------------------------------------------------------


_thread: Final = threading.local()


def task_of_thread() -> TaskPath | None:
    """The path with which the running thread was started; `to_thread` puts the scope of its caller in its place."""
    task: TaskPath | None = _thread.__dict__.get("task")
    return task


class BackgroundThread(threading.Thread):
    """A thread of ours, which belongs to no run."""


@contextmanager
def at_work(scope: Scope) -> Iterator[None]:
    """In a block of a thread that the run started: who attaches code to a recording may ask which of them there are."""
    threads, own = scope.recorder.threads, threading.get_ident()
    threads[own] = threads.get(own, 0) + 1
    before = _thread.__dict__.get("task")
    _thread.task = scope.task
    try:
        yield
    finally:
        _thread.task = before
        if threads[own] == 1:
            del threads[own]
        else:
            threads[own] -= 1


_Place: TypeAlias = Callable[[], AbstractContextManager[None]]


def _carrying_start(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @functools.wraps(start)
    def carrying(thread: threading.Thread) -> None:
        placed = None if isinstance(thread, BackgroundThread) else _place_of_new_thread()
        if placed is None:
            if _for_pool.get():
                thread.daemon = True
            return start(thread)
        if _may_be_left_behind():
            thread.daemon = True
        run, own = thread.run, "run" in vars(thread)

        def restore() -> None:
            if own:
                thread.run = run  # type: ignore[method-assign]  # as it was
            else:
                vars(thread).pop("run", None)

        def run_in_scope() -> None:
            restore()
            with placed(), suppress(ReplayStopped):  # which whoever replays the code tells, and once is enough
                run()

        thread.run = run_in_scope  # type: ignore[method-assign]  # until it runs
        try:
            return start(thread)
        except BaseException:
            restore()
            raise

    return carrying


def _carrying_submit(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    @functools.wraps(submit)
    def carrying(pool: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        placed = _place_of_new_thread()
        if placed is None:
            return submit(pool, fn, *args, **kwargs)
        token = _for_pool.set(_may_be_left_behind())
        try:
            with entered(None), waits(None):  # a worker that the pool starts now will serve others too
                return submit(pool, _run_in, placed, fn, *args, **kwargs)
        finally:
            _for_pool.reset(token)

    return carrying


_for_pool: contextvars.ContextVar[bool] = contextvars.ContextVar("agentreplay_for_pool", default=False)
"""Whether a thread that a pool starts now may be left behind."""


def _may_be_left_behind() -> bool:
    """Whether what is started here is only replayed: it may wait for ever for what was stopped, and nobody for it."""
    scope, awaited = current.get(), waiting.get()
    if scope is not None:
        attachment = scope.recorder.attachment
        return attachment is not None and attachment.only_replays
    return awaited is not None and awaited.only_replays


def _place_of_new_thread() -> _Place | None:
    """What puts a thread that is started here where this code stands: in its run, or where one waits to begin."""
    scope, awaited = current.get(), waiting.get()
    if scope is None and awaited is None:
        return None
    inner = None if scope is None else scope.in_new_task()
    due = object()
    if scope is not None:
        scope.recorder.due_threads[due] = time.monotonic()

    @contextmanager
    def placed() -> Iterator[None]:
        with waits(awaited), entered(inner), nullcontext() if inner is None else at_work(inner):
            if inner is not None:
                inner.recorder.due_threads.pop(due, None)
            yield

    return placed


def _run_in(placed: _Place, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    with placed():
        return fn(*args, **kwargs)


def _carrying_create_task(create_task: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create_task)
    def carrying(loop: BaseEventLoop, coro: Any, **options: Any) -> Any:
        scope = current.get()
        if scope is None:
            return create_task(loop, coro, **options)
        if scope.within is None:  # a loop that the run has come to, perhaps to start it with this very task
            joined(loop, scope.recorder)
        # A context that is given is the caller's own, and perhaps other tasks' too; it is left as it is.
        if options.get("context") is not None:
            return create_task(loop, coro, **options)
        with entered(scope.in_new_task()):  # which the task copies
            return create_task(loop, coro, **options)

    return carrying


_CARRIERS: Final[tuple[tuple[type, str, Callable[[Any], Any]], ...]] = (
    (threading.Thread, "start", _carrying_start),
    (ThreadPoolExecutor, "submit", _carrying_submit),
    (BaseEventLoop, "create_task", _carrying_create_task),
    (BaseEventLoop, "call_at", functools.partial(carrying_call_at, current=current)),
    (Timeout, "reschedule", functools.partial(carrying_reschedule, current=current)),
)

_lock = threading.Lock()
_in_progress: dict[object, RunRecorder | None] = {}
_replaced: list[tuple[type, str, Any, Any]] = []


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)  # the thread that held it is not there


@contextmanager
def scope_is_carried(recorder: RunRecorder | None = None) -> Iterator[None]:
    """While any such block is active, threads, thread pools and asyncio tasks run in the scope that started them.

    Args:
        recorder: of the run that the block is; it takes part in the turns of the event loop that runs here.
    """
    block = object()
    with _lock:
        if not _in_progress:
            for cls, name, carrier in _CARRIERS:
                before = vars(cls)[name]
                ours = carrier(getattr(cls, name))  # bound to the class: a wrapper of others' may go by that
                setattr(cls, name, ours)
                _replaced.append((cls, name, before, ours))
        _in_progress[block] = recorder
    try:
        if recorder is not None and (loop := _get_running_loop()) is not None:
            joined(loop, recorder)
        yield
    finally:
        if recorder is not None:
            left(recorder)
        _over([block])


def abandoned(recorders: Collection[RunRecorder]) -> None:
    """The blocks of some runs are over, although their code will never leave them."""
    blocks = [block for block, recorder in list(_in_progress.items()) if recorder in recorders]
    for recorder in recorders:
        left(recorder)
    _over(blocks)


def _over(blocks: Iterable[object]) -> None:
    with _lock:
        for block in blocks:
            _in_progress.pop(block, None)
        while _replaced and not _in_progress:
            cls, name, before, ours = _replaced.pop()
            if vars(cls)[name] is ours:  # else somebody wrapped it since, and keeps it
                setattr(cls, name, before)
