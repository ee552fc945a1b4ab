"""Whether tasks that never wait still do something, or only look again and again for what never comes.

A task that polls (`while not done: await sleep(0)`) leaves its event loop no idle moment, in which it would show that
nothing comes any more. But one that only looks stays where it is: at the same place of its code, with the same objects
in its variables. One that works at something moves, and is given much longer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from time import monotonic
from types import CoroutineType, GeneratorType, ModuleType
from typing import Any, Final, NamedTuple

from ..recorder.ambient_frames import site_of, whose_file

ENOUGH: Final = 8
"""Looks, each after a hundred busy turns of the loop, that find the tasks where they were."""

MOMENT: Final = 0.03
"""Seconds in which nothing happened, after which a task that stays where it is waits for what does not come."""

LONG: Final = 2.0
"""The same of a task that moves."""

NEVER: Final = 1e15
"""A time of an event loop's clock that does not come."""

_DEPTH: Final = 50
_PLAIN: Final = (int, float, bool, str, bytes, type(None))
_SIZED: Final = (list, dict, set, deque, bytearray)


class Standstill:
    """Looks at the tasks of busy event loops.

    Args:
        moves: a number that grows with whatever the code asks or is answered.
        pause: seconds that the code took by itself here while it was recorded.
    """

    def __init__(self, moves: Callable[[], int], pause: Callable[[], float]) -> None:
        self._moves = moves
        self._pause = pause
        self._at = -1
        self._since = 0.0
        self._places: Any = None
        self._same = 0

    def seen(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Look at a loop that has been busy for a hundred turns; says whether nothing comes of that any more."""
        moves, now = self._moves(), monotonic()
        if moves != self._at:
            self._at, self._since, self._places, self._same = moves, now, None, 0
            return False
        places = {id(task): _place(task) for task in asyncio.all_tasks(loop)}
        self._same = self._same + 1 if places == self._places else 0
        self._places = places
        silent, pause = now - self._since, self._pause()
        return silent > LONG + 10 * pause or (self._same >= ENOUGH and silent > MOMENT + 3 * pause)


def _place(task: asyncio.Task[Any]) -> list[Any]:
    """Where a task is, and what its variables hold."""
    place: list[Any] = []
    awaited: Any = task.get_coro()
    for _ in range(_DEPTH):
        if isinstance(awaited, CoroutineType):
            frame, awaited = awaited.cr_frame, awaited.cr_await
        elif isinstance(awaited, GeneratorType):
            frame, awaited = awaited.gi_frame, awaited.gi_yieldfrom
        else:
            break
        if frame is not None:
            place.append(frame.f_lasti)
            for value in frame.f_locals.values():
                place += [_print(value), *_attributes(value)]
    return place


def _print(value: Any) -> Any:
    """Something that is another one once a number, or a container's size, has changed; no code of the user's runs."""
    if type(value) in _PLAIN:
        return value
    return (id(value), len(value)) if type(value) in _SIZED else id(value)


def _attributes(value: Any) -> list[Any]:
    """The same of what an object keeps in attributes of its own."""
    reads: Any = type(value).__getattribute__
    if reads is not object.__getattribute__ or isinstance(value, type | ModuleType):
        return []
    kept = getattr(value, "__dict__", None)
    return [_print(one) for one in islice(kept.values(), _DEPTH)] if type(kept) is dict else []


def something_may_come(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether an idle event loop waits for something of which no recording knows: a socket, a process, a timer.

    Of a loop that does not say what it waits for, it is taken for granted.
    """
    timers = getattr(loop, "_scheduled", None)
    if timers is None or data_may_come(loop):
        return True
    return any(not timer.cancelled() and timer.when() < NEVER for timer in timers)


def data_may_come(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether an event loop waits for a socket or a pipe. Of a loop that does not say so, it is taken for granted."""
    selector = getattr(loop, "_selector", None)
    files = None if selector is None else selector.get_map()  # None of a selector that is closed
    return files is None or len(files) > 1  # one is how other threads wake the loop


class Waits(NamedTuple):
    """A task that waits for no other one.

    Attributes:
        future: what it waits for.
        site: the application's line at which it does.
    """

    future: asyncio.Future[Any]
    site: str | None


def waits_of(loops: Iterable[asyncio.AbstractEventLoop]) -> list[Waits]:
    """The tasks of some event loops that wait for something else than each other, in the order they were made in."""
    found = []
    for task in sorted([task for loop in loops for task in asyncio.all_tasks(loop)], key=_number):
        future = getattr(task, "_fut_waiter", None)
        if type(future) is asyncio.Future:
            found.append(Waits(future, _site_of(task)))
    return found


def _number(task: asyncio.Task[Any]) -> int:
    number = task.get_name().rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def _site_of(task: asyncio.Task[Any]) -> str | None:
    awaited: Any = task.get_coro()
    site = None
    for _ in range(_DEPTH):
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            break
        if whose_file(frame.f_code.co_filename) == "application":
            site = site_of(frame)
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return site
