"""Timers of the agent's own: those that its code creates outside of calls, with `sleep`, `wait_for` or `call_later`.

When one of them is due is a fact of the outside world, like a result. So they are numbered where they are created, in
each task and round from 1; one that is due waits for its turn (`turns`), and firing is an event, `timer.fired`. Whoever
created the timer holds the handle that asyncio made, and may cancel it at any time, also between due and fired; a
cancelled timer is never recorded. How long it was meant to take is recorded with it where the application said so.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .delays import asked_for
from .events import Data, TimerFiredData
from .signals import RecordingStopped
from .turns import Turns, joined

if TYPE_CHECKING:
    from .scope import Scope

CallAt = Callable[..., asyncio.TimerHandle]
"""The loop's own `call_at`, bound to it."""


def create_timer(
    loop: asyncio.AbstractEventLoop,
    call_at: CallAt,
    when: float,
    callback: Callable[..., object],
    args: tuple[Any, ...],
    context: contextvars.Context | None,
    scope: Scope,
    delay: float | None = None,
    *,
    numbered: tuple[int, int] | None = None,
) -> asyncio.TimerHandle:
    """Do what `loop.call_at(when, callback, *args, context=context)` does, with a timer that fires in its turn.

    Args:
        loop, when, callback, args, context: as there.
        call_at: what makes the timer.
        scope: where it is created.
        delay: seconds that it is meant to take, if the application said so.
        numbered: the round in which it was created, and its number there, if it has one from a recording.
    """
    turns = joined(loop, scope.recorder)
    if turns is None:
        return call_at(when, callback, *args, context=context)
    if context is None:
        context = contextvars.copy_context()
    timer = _Timer(turns, callback, context, scope, delay, numbered)
    timer.handle = call_at(when, timer, *args, context=context)
    return timer.handle


class _Timer:
    """What the loop calls when a timer is due, and again when it has its turn."""

    __slots__ = ("__wrapped__", "_args", "_context", "_delay", "_number", "_round", "_scope", "_turns", "handle")

    def __init__(
        self,
        turns: Turns,
        callback: Callable[..., object],
        context: contextvars.Context,
        scope: Scope,
        delay: float | None,
        numbered: tuple[int, int] | None,
    ) -> None:
        self.__wrapped__ = callback  # so asyncio names the callback where it complains of it
        self.handle: asyncio.TimerHandle | None = None
        self._turns = turns
        self._context = context
        self._scope = scope
        self._delay = delay
        round = scope.recorder.round
        self._round, self._number = numbered or (round, scope.task.timer(round))
        self._args: tuple[Any, ...] | None = None

    def __call__(self, *args: Any) -> None:
        if self._args is None:
            self._args = args
            self._turns.inbox.put(self)
        else:
            self._fire()

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def take(self) -> bool:
        """Fire, if it was not cancelled meanwhile; see `turns.Arrival`."""
        if self.handle is None or self.handle.cancelled():
            return False
        self._turns.loop.call_soon(self, *(self._args or ()), context=self._context)
        return True

    def _fire(self) -> None:
        handle, self.handle = self.handle, None  # which held each other
        try:
            if handle is not None and not handle.cancelled():
                with suppress(RecordingStopped):  # the next call of the agent's says so
                    log = self._scope.recorder.log
                    log.emit("timer.fired", self._data, round=self._round, scope=self._scope)
                self.__wrapped__(*(self._args or ()))
        finally:
            self._turns.inbox.over(self)

    def _data(self) -> Data:
        return TimerFiredData(timer=self._number, delay=self._delay, turn=self._scope.recorder.log.turn_of_event())


def carrying_call_at(call_at: CallAt, current: contextvars.ContextVar[Scope | None]) -> CallAt:
    """`BaseEventLoop.call_at` that tells the agent's timers from all others."""

    @functools.wraps(call_at)
    def carrying(
        loop: asyncio.AbstractEventLoop,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        scope = current.get()
        if scope is None or scope.within is not None or not scope.recorder.recording:
            return call_at(loop, when, callback, *args, context=context)
        attachment, own = scope.recorder.attachment, functools.partial(call_at, loop)
        when = float(when)
        asked = asked_for(sys._getframe(1), when - loop.time())
        if attachment is not None:
            return attachment.timer(loop, own, when, callback, args, context, scope, asked)
        return create_timer(loop, own, when, callback, args, context, scope, asked and asked.recorded)

    return carrying


class _Overdue(float):
    """A time of an event loop's clock that has passed, which `Timeout.reschedule` takes for one that has not."""

    def __le__(self, other: object) -> bool:
        return False


def carrying_reschedule(
    reschedule: Callable[[asyncio.Timeout, float | None], None], current: contextvars.ContextVar[Scope | None]
) -> Callable[[asyncio.Timeout, float | None], None]:
    """`asyncio.Timeout.reschedule` that makes a timer of a time limit also where it is over already.

    Otherwise asyncio makes none, and whether it is over is a fact of the clock: code that is executed again would be
    interrupted where it was not, or not where it was.
    """

    @functools.wraps(reschedule)
    def carrying(timeout: asyncio.Timeout, when: float | None) -> None:
        scope = current.get()
        if when is None or scope is None or scope.within is not None or not scope.recorder.recording:
            return reschedule(timeout, when)
        reschedule(timeout, _Overdue(when))
        timeout._when = when  # type: ignore[attr-defined]  # what `when()` gives
        return None

    return carrying
