"""Where in a run the current code stands: which run, inside which call, in which task.

A context variable carries it, so that nothing has to be passed through the user's functions: asyncio copies it into
every task. Threads start with an empty context, so while a run is in progress `Thread.start` and `Executor.submit`
carry it across. Each task and thread gets a path by order of creation ("0" is the first, "0.2" the third that it
started), which is the same in every execution of the same code, unlike a thread's id.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import itertools
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run_recorder import RunRecorder


@dataclass(slots=True)
class TaskPath:
    """The path of one task or thread, and a count of those that it started."""

    path: str = "0"
    _children: Iterator[int] = field(default_factory=itertools.count)

    def child(self) -> TaskPath:
        """The path of the next task or thread that this one starts."""
        return TaskPath(f"{self.path}.{next(self._children)}")


@dataclass(frozen=True, slots=True)
class Scope:
    """What the code that runs now belongs to.

    Attributes:
        recorder: of the run.
        within: id of the call inside which the code runs, or None.
        task: the task or thread it runs in.
    """

    recorder: RunRecorder
    within: str | None = None
    task: TaskPath = field(default_factory=TaskPath)

    def inside(self, call: str) -> Scope:
        """The scope of code that runs inside a call."""
        return Scope(self.recorder, call, self.task)


current: contextvars.ContextVar[Scope | None] = contextvars.ContextVar("agentreplay_scope", default=None)
"""The scope of the running code, or None outside of any run."""


@contextmanager
def entered(scope: Scope | None) -> Iterator[None]:
    """Make `scope` the current one for the block."""
    token = current.set(scope)
    try:
        yield
    finally:
        current.reset(token)


def _child_context(scope: Scope) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(current.set, Scope(scope.recorder, scope.within, scope.task.child()))
    return context


# -- threads -----------------------------------------------------------------------------------------

_carry_lock = threading.Lock()
_runs_in_progress = 0
_thread_start = threading.Thread.start
_pool_submit = ThreadPoolExecutor.submit


@functools.wraps(_thread_start)
def _carrying_start(thread: threading.Thread) -> None:
    scope = current.get()
    if scope is not None and not isinstance(thread, BackgroundThread):
        context, run = _child_context(scope), thread.run
        thread.run = lambda: context.run(run)  # type: ignore[method-assign]  # an instance's own run, once
    _thread_start(thread)


@functools.wraps(_pool_submit)
def _carrying_submit(pool: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
    scope = current.get()
    if scope is None:
        return _pool_submit(pool, fn, *args, **kwargs)
    context = _child_context(scope)
    with entered(None):  # a worker thread that the pool starts now serves other callers later
        return _pool_submit(pool, context.run, fn, *args, **kwargs)


class BackgroundThread(threading.Thread):
    """A thread of ours, which belongs to no run."""


@contextmanager
def threads_carry_scope() -> Iterator[None]:
    """While any such block is active, threads and thread pools run their work in the scope that started it."""
    global _runs_in_progress
    with _carry_lock:
        if _runs_in_progress == 0:
            threading.Thread.start = _carrying_start  # type: ignore[method-assign]  # undone below
            ThreadPoolExecutor.submit = _carrying_submit  # type: ignore[method-assign,assignment]  # undone below
        _runs_in_progress += 1
    try:
        yield
    finally:
        with _carry_lock:
            _runs_in_progress -= 1
            if _runs_in_progress == 0:
                threading.Thread.start = _thread_start  # type: ignore[method-assign]
                ThreadPoolExecutor.submit = _pool_submit  # type: ignore[method-assign]


# -- asyncio -----------------------------------------------------------------------------------------


@contextmanager
def tasks_get_paths(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """While the block is active, tasks created on `loop` within a run get paths by order of creation."""
    before = loop.get_task_factory()

    def factory(
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, Any],
        *,
        context: contextvars.Context | None = None,
        **kwargs: Any,
    ) -> asyncio.Future[Any]:
        inner = context if context is not None else contextvars.copy_context()
        scope = inner.get(current)
        if scope is not None:
            inner.run(current.set, Scope(scope.recorder, scope.within, scope.task.child()))
        if before is None:
            return asyncio.Task(coro, loop=loop, context=inner, **kwargs)
        return before(loop, coro, context=inner, **kwargs)

    loop.set_task_factory(factory)
    try:
        yield
    finally:
        if loop.get_task_factory() is factory:
            loop.set_task_factory(before)
