"""Turns: what comes to an agent from outside comes one at a time, each when its event loop has nothing else to do.

Results that arrive together could be taken up in any order, and between two of them an agent that is still at work on
the first could be at any point. Nobody could do that again in a replay. So the recorder owns the order: a result waits
in the inbox of its loop until the loop is idle, which means that every task has come to wait for something. Then one is
let through, and the next when the loop is idle again. A replay lets the recorded results through in the same way, in
the order of the log.

A loop asks its selector to `select()` with a timeout of None or more than 0 exactly when no callback is ready. That
call is intercepted on the selector, so an idle moment is seen without polling. A task that never waits (`while not
done: await sleep(0)`) leaves no idle moment; after 100 busy ones the inbox is served anyway, by force.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import threading
import weakref
from collections import deque
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from .events import ReportData

if TYPE_CHECKING:
    from .run_recorder import RunRecorder
    from .scope import Scope

BUSY: Final = 100
"""So many times in a row a loop may find callbacks ready; then a turn is given all the same."""

_ATTRIBUTE: Final = "_agentreplay_turns"
_AT_ONCE: Final = nullcontext()


class Driver(Protocol):
    """Sets things going when a loop is idle."""

    def idle(self, forced: bool) -> bool:
        """Set one thing going, if there is one; says whether there was.

        Args:
            forced: whether the loop is not idle at all, but has been busy for long.
        """


class Arrival(Protocol):
    """What waits in an inbox."""

    def take(self) -> bool:
        """Set it going; False if nobody waits for it any more. When it is through it says so to `Inbox.over`."""


class Turns:
    """The idle moments of one event loop, and who makes use of them.

    There is one for each loop on which runs are in progress, or code is attached to a recording.

    Attributes:
        loop: the loop.
        drivers: asked in this order at each idle moment, until one has set something going.
        inbox: the driver that lets through what comes while recording.
        ticks: how often the loop has looked for something to do. The same number before and after something that is
            awaited says that it did not suspend.
        runs: the recorders that take part.
        closed: whether there are no turns on this loop any more.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, selector: selectors.BaseSelector) -> None:
        self.loop = loop
        self.inbox = Inbox(loop)
        self.drivers: list[Driver] = [self.inbox]
        self.ticks = 0
        self.runs: set[RunRecorder] = set()
        self.closed = False
        self._busy = 0
        self._selector = selector
        self._before = vars(selector).get("select")
        self._select = selector.select
        self._intercept = self._selects  # the very object, to be told from what others put there later
        selector.select = self._intercept  # type: ignore[method-assign]  # on this instance only
        setattr(loop, _ATTRIBUTE, self)
        loop.call_soon(self._check)

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> Turns | None:
        """The turns of a loop, if it has any now."""
        turns: Turns | None = getattr(loop, _ATTRIBUTE, None)
        return None if turns is None or turns.closed else turns

    def enter(self, driver: Driver) -> None:
        """Have a driver asked, after those that are there."""
        self.drivers.append(driver)

    def leave(self, driver: Driver) -> None:
        """Have a driver asked no more."""
        if driver in self.drivers:
            self.drivers.remove(driver)

    def something_is_ready(self) -> bool:
        """Whether something has come that the loop takes up once it looks: data on a socket, word of a thread."""
        return bool(self._select(0))

    def _selects(self, timeout: float | None = None) -> Any:
        self.ticks += 1
        if timeout is None or timeout > 0:
            self._busy = 0
            if self._set_going(False):
                timeout = 0
        else:
            self._busy += 1
            if self._busy > BUSY:
                self._busy = 0
                self._set_going(True)
        return self._select(timeout)

    def _set_going(self, forced: bool) -> bool:
        return any(driver.idle(forced) for driver in tuple(self.drivers))

    def _check(self, ticks: int | None = None) -> None:
        """See whether the loop asks its selector between two callbacks; one that does not would never be idle."""
        if ticks is None:
            self.loop.call_soon(self._check, self.ticks)
        elif ticks == self.ticks:
            self.close()

    def close(self) -> None:
        """Take no more notice of the loop, and let through what waits."""
        if self.closed:
            return
        self.closed = True
        if vars(self._selector).get("select") is self._intercept:  # else somebody wrapped it since, and keeps it
            if self._before is None:
                del self._selector.select
            else:
                self._selector.select = self._before  # type: ignore[method-assign]  # as it was
        self.drivers.clear()
        if asyncio._get_running_loop() is self.loop:
            self.inbox.close()
            return
        with suppress(RuntimeError):  # if the loop is closed, nobody waits
            self.loop.call_soon_threadsafe(self.inbox.close)


class Inbox:
    """What has come from outside and waits for its turn: results, errors, chunks of streams, due timers, child runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[Arrival] = deque()
        self._under_way: Arrival | None = None
        self._closed = False

    def put(self, arrival: Arrival) -> None:
        """Have something wait for its turn, behind what waits already."""
        if self._closed:
            arrival.take()
        else:
            self._waiting.append(arrival)

    def turn(self) -> AbstractAsyncContextManager[None]:
        """`async with inbox.turn():` waits for a turn; until the block is left nothing else is let through."""
        return _Turn(self)

    def idle(self, forced: bool) -> bool:
        """Let the next one through, unless one is under way."""
        if self._under_way is not None:
            return False
        while self._waiting:
            arrival = self._waiting.popleft()
            if arrival.take():
                self._under_way = arrival
                return True
        return False

    def over(self, arrival: Arrival) -> None:
        """What was let through has reached the agent."""
        if self._under_way is arrival:
            self._under_way = None

    def close(self) -> None:
        """Let everything through, from now on at once."""
        self._closed = True
        while self._waiting:
            self._waiting.popleft().take()


class _Turn(AbstractAsyncContextManager[None]):
    __slots__ = ("_future", "_gone", "_inbox")

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._future = inbox.loop.create_future()
        self._gone = False

    async def __aenter__(self) -> None:
        self._inbox.put(self)
        try:
            await self._future
        except BaseException:  # cancelled, perhaps when the turn had been given already; or closed
            self._gone = True
            self._inbox.over(self)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._inbox.over(self)

    def take(self) -> bool:
        if self._gone or self._future.done():
            return False
        self._future.set_result(None)
        return True


# -- taking part -------------------------------------------------------------------------------------------------------

_lock = threading.RLock()
_all: set[Turns] = set()
_told: weakref.WeakSet[RunRecorder] = weakref.WeakSet()


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)  # the thread that held it is not there


def joined(loop: asyncio.AbstractEventLoop, recorder: RunRecorder) -> Turns | None:
    """The turns of a loop, in which a run takes part from now on; to be called in the loop's thread.

    Returns:
        None on a loop that has none, or if the run is over.
    """
    turns = Turns.of(loop)
    if turns is not None and recorder in turns.runs:
        return turns
    if not recorder.recording or (turns is None and hasattr(loop, _ATTRIBUTE)):
        return None
    with _lock:
        if turns is None or turns.closed:  # closed by the end of another run in another thread
            selector = _selector_of(loop)
            if selector is None:
                return None
            turns = Turns(loop, selector)
            _all.add(turns)
        turns.runs.add(recorder)
    if recorder.attachment is not None:
        recorder.attachment.comes_to(turns)
    return turns


def left(recorder: RunRecorder) -> None:
    """A run is over: the loops that no other run is in have no turns any more, and their selectors are as they were."""
    with _lock:
        for turns in [turns for turns in tuple(_all) if recorder in turns.runs]:
            turns.runs.discard(recorder)
            if not turns.runs:
                _all.discard(turns)
                turns.close()
                delattr(turns.loop, _ATTRIBUTE)


def _selector_of(loop: asyncio.AbstractEventLoop) -> selectors.BaseSelector | None:
    """What an event loop of asyncio's own waits with; none of uvloop's, or of one for Windows' completion ports."""
    selector = getattr(loop, "_selector", None)
    return selector if isinstance(selector, selectors.BaseSelector) and hasattr(selector, "__dict__") else None


def on_this_loop(scope: Scope) -> Turns | None:
    """The turns that what happens in a scope takes; None inside a call, whose result is what comes from outside."""
    loop = asyncio._get_running_loop()
    if scope.within is not None or loop is None:
        return None
    turns = joined(loop, scope.recorder)
    if turns is None:
        _tell(scope, loop)
    return turns


def in_turn(scope: Scope) -> AbstractAsyncContextManager[None]:
    """`async with in_turn(scope):` waits until it is the turn of what comes there; where there are none, not at all."""
    turns = on_this_loop(scope)
    return _AT_ONCE if turns is None else turns.inbox.turn()


def _tell(scope: Scope, loop: asyncio.AbstractEventLoop) -> None:
    """Note once in a run that its order is not all recorded."""
    recorder = scope.recorder
    if recorder in _told or recorder.attachment is not None:
        return
    _told.add(recorder)
    kind = f"{type(loop).__module__}.{type(loop).__qualname__}"
    message = (
        f"{kind} does not show when it is idle, so results reach the agent as they come: their order is recorded, and "
        "what runs between two of them is not. A replay may differ there; asyncio's own event loop has it exact."
    )
    recorder.log.post("report", ReportData(source="order", level="warning", message=message), scope=scope)
