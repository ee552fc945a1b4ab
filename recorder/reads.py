"""Reading what is different each time: the clock, chance, a setting. What was read is recorded, and where."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import random
import re
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, Final, NoReturn, TypeVar

from .errors import UsageError
from .introspection import clean

Value = TypeVar("Value")


class RecordedRandom(random.Random):
    """A random generator, seeded by the system, whose every draw is a `value.read` event.

    Args:
        read: makes each draw by the function that it is given, and records it, with its arguments by name if it can
            have any; or gives one that was recorded.
    """

    def __init__(self, read: Callable[[Callable[[], Any], dict[str, Any] | None], Any]) -> None:
        self._read: Callable[[Callable[[], Any], dict[str, Any] | None], Any] = lambda draw, _: draw()  # seeding it
        super().__init__()
        self._read = read

    def random(self) -> float:
        """The next float in [0, 1)."""
        drawn: float = self._read(super().random, None)
        return drawn

    def getrandbits(self, k: int, /) -> int:
        """An int of `k` random bits."""
        drawn: int = self._read(partial(super().getrandbits, k), {"k": k})
        return drawn

    def __reduce__(self) -> NoReturn:
        raise UsageError("context.random belongs to its run; keep the numbers it gives, not the generator")


_HERE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OWN_FOLDERS: Final = tuple(os.path.join(_HERE, name, "") for name in ("recorder", "replay", "webui", "cli", "facade"))
"""Folders with code of ours."""

_LOOP: Final = os.path.join(_HERE, "recorder", "loop.py")
_NOT_THE_USERS: Final = (*OWN_FOLDERS, random.__file__, "<frozen ")
_MEASURES: Final = re.compile(
    r"-packages[/\\](?:opentelemetry|wrapt|sentry_sdk|ddtrace|newrelic|elasticapm)[/\\]"
).search
"""Finds in a path the packages that put themselves between pools of threads and what these run, to measure it."""

_EVENT_LOOPS: Final = (
    os.path.join(os.path.dirname(asyncio.__file__), ""),
    os.path.join(os.path.dirname(concurrent.futures.__file__), ""),
    threading.__file__,
)
"""What runs tasks and threads."""

_RUNS: Final = frozenset(
    (
        (asyncio.events.__file__, "_run"),
        (threading.__file__, "_bootstrap_inner"),
        (os.path.join(_HERE, "recorder", "loop.py"), "run"),
    )
)
"""The functions beyond which something else than the running task or thread is at work."""


def call_site(*, of_child: bool = False) -> str | None:
    """The place of the nearest frame that is the user's own, as "file.py:line"; None between two steps of an agent.

    Args:
        of_child: the place where the agent is run that is about to begin.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if path == _LOOP and not of_child:  # what is beyond it runs the agent, and is no part of it
            return None
        if path.startswith(_EVENT_LOOPS):  # a task that stands by itself; its loop was started for whatever reason
            return None
        if not path.startswith(_NOT_THE_USERS) and not _MEASURES(path):
            return place(path, frame.f_lineno)
        frame = frame.f_back
    return None


def starting_site() -> str | None:
    """The place of the user's code that starts a task or a thread here, perhaps through asyncio, as in `call_site`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename, frame.f_code.co_name) not in _RUNS:
        path = frame.f_code.co_filename
        if not path.startswith((*_NOT_THE_USERS, *_EVENT_LOOPS)) and not _MEASURES(path):
            return place(path, frame.f_lineno)
        frame = frame.f_back
    return None


def raise_site(error: BaseException) -> str | None:
    """The place in the user's own code from which an exception came, as in `call_site`."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        if not path.startswith((*_NOT_THE_USERS, *_EVENT_LOOPS)) and not _MEASURES(path):
            found = place(path, trace.tb_lineno)
        trace = trace.tb_next
    return found


def place(path: str, line: int) -> str:
    """A line of code, as "file.py:line"."""
    return clean(f"{os.path.basename(path)}:{line}")
