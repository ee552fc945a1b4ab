"""Reading what is different each time: the clock, chance, a setting. What was read is recorded, and where."""

from __future__ import annotations

import os
import random
import sys
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
        read: makes each draw by the function that it is given, and records it; or gives one that was recorded.
    """

    def __init__(self, read: Callable[[Callable[[], Any]], Any]) -> None:
        self._read: Callable[[Callable[[], Any]], Any] = lambda draw: draw()  # what seeds it is no draw
        super().__init__()
        self._read = read

    def random(self) -> float:
        """The next float in [0, 1)."""
        drawn: float = self._read(super().random)
        return drawn

    def getrandbits(self, k: int, /) -> int:
        """An int of `k` random bits."""
        drawn: int = self._read(partial(super().getrandbits, k))
        return drawn

    def __reduce__(self) -> NoReturn:
        raise UsageError("context.random belongs to its run; keep the numbers it gives, not the generator")


_HERE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OWN_FOLDERS: Final = tuple(os.path.join(_HERE, name, "") for name in ("recorder", "replay", "webui", "cli", "facade"))
_LOOP: Final = os.path.join(_HERE, "recorder", "loop.py")
_NOT_THE_USERS: Final = (*_OWN_FOLDERS, random.__file__, "<frozen ")


def call_site() -> str | None:
    """The place of the nearest frame that is the user's own, as "file.py:line"; None between two steps of an agent."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if path == _LOOP:  # what is beyond it runs the agent, and is no part of it
            return None
        if not path.startswith(_NOT_THE_USERS):
            return clean(f"{os.path.basename(path)}:{frame.f_lineno}")
        frame = frame.f_back
    return None
