"""Ends code that catches what stops it, again and again: from then on, each of its lines raises.

What stops a replay derives from BaseException, and is raised again by whatever the code does next. Code that says
`except:` in a loop, such as one that tries a call again until it succeeds, gets along with that for ever. But it cannot
get along with a line that raises: the line behind `except:` does so as well, and so the error leaves the `try`. Python
offers that to debuggers: a function is called before each line of a frame, and what it raises is raised there.

Python forgets such a function once it has raised. If the error is caught, the function is set again when the error is
dropped, when the code comes to the next call, and now and then by who watches; so code leaves one `try` after another.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any, Final

from ..recorder.ambient_frames import whose_file
from ..recorder.reads import OWN_FOLDERS
from ..recorder.signals import ReplayStopped

ENOUGH: Final = 100
"""So often code may catch what stops it, in one thread or event loop, before its lines raise."""

EXECUTES: Final = "execute"
"""The function of ours that calls the code."""

_BEGINNINGS: Final = (asyncio.Handle._run.__code__, threading.Thread.run.__code__)


class Insistence:
    """Counts how often the code of one course was told that it is stopped."""

    def __init__(self) -> None:
        self._told: dict[int, int] = {}
        self._before: dict[int, Any] = {}
        self._left: set[int] = set()

    @property
    def insists(self) -> bool:
        """Whether code was told often enough in some thread."""
        return any(often > ENOUGH for often in list(self._told.values()))

    def told(self, failure: BaseException, often: int = 1) -> None:
        """The code in this thread is told; if that was often enough, its lines raise from now on.

        Args:
            failure: what has stopped it.
            often: for how many times this counts.
        """
        if self._is_enough(often):
            self.insist(_outwards(sys._getframe(1)), failure)

    def told_tasks(self, tasks: Iterable[asyncio.Task[Any]], failure: BaseException) -> int:
        """`told`, of tasks of the event loop in this thread, which go on in a moment. Returns how often they were."""
        if self._is_enough(1):
            self.insist([frame for task in tasks for frame in _inwards(task.get_coro())], failure)
        return self._told[threading.get_ident()]

    def _is_enough(self, often: int) -> bool:
        here = threading.get_ident()
        self._told[here] = self._told.get(here, 0) + often
        return self._told[here] > ENOUGH

    def insist(self, frames: Iterable[FrameType], failure: BaseException) -> None:
        """Have the lines of the application raise in some frames of this thread, until its code is left."""
        here = threading.get_ident()
        if here in self._left:
            return

        def before_line(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line" and here not in self._left:
                raise _Insisted(self, failure)
            return before_line

        for frame in frames:
            if whose_file(frame.f_code.co_filename) == "application":
                frame.f_trace = before_line
        self._before.setdefault(here, sys.gettrace())
        sys.settrace(_pass_by)

    def over(self) -> None:
        """The code of this thread is left."""
        here = threading.get_ident()
        self._left.add(here)
        if here in self._before:
            sys.settrace(self._before.pop(here))


class _Insisted(ReplayStopped):
    """Raised by a line. Once it was caught, and dropped, the next line raises."""

    def __init__(self, insistence: Insistence, failure: BaseException) -> None:
        super().__init__(failure)
        self._insistence = insistence
        self._thread = threading.get_ident()

    def __del__(self) -> None:
        if self._thread == threading.get_ident():
            self._insistence.insist(_outwards(sys._getframe().f_back), self.failure)


def _pass_by(frame: FrameType, event: str, argument: Any) -> None:
    """Python calls the functions of frames only where the thread has one, too."""


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and those around it, as far as they belong to the code: to where it is executed, or its event loop."""
    while frame is not None and frame.f_code not in _BEGINNINGS:
        if frame.f_code.co_name == EXECUTES and frame.f_code.co_filename.startswith(OWN_FOLDERS):
            return
        yield frame
        frame = frame.f_back


def _inwards(awaited: Any) -> Iterator[FrameType]:
    """The frames of what a coroutine awaits, the outermost first."""
    while (frame := getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)) is not None:
        yield frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
