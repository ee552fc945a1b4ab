"""Asking for a value in the place of a function that reads it: whether this read is captured, and if so, its value."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from .ambient_frames import Whose, module_of, seen_from, site_of
from .covered import covered, covering
from .reentry import appending
from .scope import current

if TYPE_CHECKING:
    from .run_recorder import RunRecorder


class Asking:
    """A read that the application makes, and that is captured."""

    __slots__ = ("_recorder", "_site", "_source")

    def __init__(self, recorder: RunRecorder, source: str, site: str) -> None:
        self._recorder = recorder
        self._source = source
        self._site = site

    def read(self, what: str, make: Callable[[], Any], arguments: dict[str, Any] | None = None) -> Any:
        """Read a value and record it, or take the recorded one; what `make` raises is recorded like a value.

        Args:
            what: is read, such as "time.time" or the name of a variable of the environment.
            make: reads it.
            arguments: that decide between which values chance chooses.
        """

        def outcome() -> Any:
            try:
                return make()
            except Exception as error:
                return error

        # Covered as a whole: recording it may read the clock, and through a function of the application's, where that
        # has put one in the clock's place.
        read = partial(self._recorder.read, self._source, outcome, what=what, arguments=arguments, site=self._site)
        value = covering(read)
        if isinstance(value, Exception):
            raise value
        return value


def capturing(*sources: str) -> RunRecorder | None:
    """The run that captures reads of one of these sources where the code stands.

    None outside of any run, inside a call, inside another read, and while an event is appended.
    """
    scope = current.get()
    if scope is None or scope.within is not None or scope.recorder.captured is None:
        return None
    captured, recorder = scope.recorder.captured, scope.recorder
    wanted = any(source in captured.sources for source in sources)
    return recorder if wanted and recorder.recording and not covered.get() and not appending.busy else None


def asking(recorder: RunRecorder, source: str, whose: Whose, frame: FrameType | None) -> Asking | None:
    """What to ask for a value that is read in a frame; None, and counted, if a library reads it for itself."""
    captured = recorder.captured
    if captured is None or frame is None or source not in captured.sources:
        return None
    if whose == "application":
        return Asking(recorder, source, site_of(frame))
    if whose == "library":
        captured.passed(source, module_of(frame))
    return None


def asked(source: str, through: frozenset[str] = frozenset()) -> Asking | None:
    """What to ask for a value in the place of the function that was called; None to call it as it is.

    Args:
        source: what it reads.
        through: files whose code only passes on what it asks for, see `ambient_frames.seen_from`.
    """
    recorder = capturing(source)
    if recorder is None or recorder.captured is None:
        return None
    whose, frame, _ = seen_from(sys._getframe(2), through, recorder.captured.home)
    return asking(recorder, source, whose, frame)
