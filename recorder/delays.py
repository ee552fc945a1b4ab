"""How long a timer was meant to take, where the application's own code said so: `sleep(5)`, `wait_for(x, 30)`.

What code asks for is what a later execution can be held to. A time at which a timer is due is none of that: it was
worked out from the clock. So the length is taken from where asyncio was given it, and only if it was the application
that gave it: what a library sleeps between two attempts is the library's affair.
"""

from __future__ import annotations

import asyncio
import os
from math import isfinite
from types import FrameType
from typing import Any, Final, NamedTuple

_ASYNCIO: Final = os.path.join(os.path.dirname(asyncio.__file__), "")
_CARRIES: Final = os.path.join(os.path.dirname(__file__), "timers.py")
"""What stands between asyncio's own functions; see `carrying_reschedule`."""

_RUNS_TASKS: Final = os.path.join(_ASYNCIO, "events.py")

_GIVEN: Final = ("call_later", "delay")
"""The function of event loops that is given a length, and the name of that argument."""

_NAMES: Final = {
    "sleep": "asyncio.sleep",
    "wait_for": "asyncio.wait_for",
    "wait": "asyncio.wait",
    "__aenter__": "asyncio.timeout",
}
"""The functions of asyncio's that make timers for others, as they are called where they are used."""


class Asked(NamedTuple):
    """A length of time that the application asked for.

    Attributes:
        by: the function that it called.
        delay: seconds.
        exact: whether that is the very number; else it was worked out, and is some microseconds short.
        frame: where it did.
    """

    by: str
    delay: float
    exact: bool
    frame: FrameType

    @property
    def recorded(self) -> float:
        """The length as it is recorded."""
        return self.delay if self.exact else round(self.delay, 3)


def asked_for(frame: FrameType | None, left: float) -> Asked | None:
    """What the application asked for where a timer is created; None if it was not the application, or gave no length.

    Args:
        frame: that calls `call_at`.
        left: seconds until the timer is due.
    """
    from .ambient_frames import whose_file

    if frame is None or not frame.f_code.co_filename.startswith(_ASYNCIO):
        return None
    delay: Any = left
    exact, by = False, "loop.call_later"
    if frame.f_code.co_name == _GIVEN[0]:
        delay, exact = frame.f_locals.get(_GIVEN[1]), True
    elif frame.f_code.co_name != "reschedule":
        return None
    outer = frame.f_back
    while outer is not None and outer.f_code.co_filename.startswith((_ASYNCIO, _CARRIES)):
        if outer.f_code.co_filename == _RUNS_TASKS:  # a task that only sleeps; who made it is not known any more
            return None
        by = _NAMES.get(outer.f_code.co_name, by)
        if by == "asyncio.wait_for":  # in newer versions of Python it hands on a time that it has worked out
            own = outer.f_locals.get("timeout", delay)
            delay, exact = own, exact or own is not delay
        outer = outer.f_back
    if outer is None or type(delay) not in (int, float) or not isfinite(delay):
        return None
    if by == "loop.call_later" and not exact:  # a timeout that is moved
        return None
    return Asked(by, float(delay), exact, outer) if whose_file(outer.f_code.co_filename) == "application" else None
