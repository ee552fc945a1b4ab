"""Whoever ends a replay from outside ends it, whatever the code does about it: Ctrl-C, or a caller that cancels.

To the code that is executed a Ctrl-C looks like any error, and in an event loop like a cancellation. Taken for what the
code did it would be a divergence, and whatever comes next, another file or another test, would go on. So the course is
stopped by it before the code hears of it: from then on nothing is compared, code that caught it is stopped at what it
does next, and it is raised where the replay was called. Once a run has gone live, it is the run's own, and recorded.

What a recording has of such an end is another thing; it comes again as the log has it (`cancelled_outside`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from ..recorder.errors import RecordedError
from ..recorder.signals import STOPS
from ..recorder.writer import on_event_loop

if TYPE_CHECKING:
    from ..recorder.events import RunFinishedData
    from .course import Course

FROM_OUTSIDE: Final = (KeyboardInterrupt, asyncio.CancelledError)
"""What ends a replay, and says nothing of the code."""

_OF_THE_CODE: Final[tuple[type[BaseException], ...]] = (
    Exception,
    asyncio.CancelledError,
    SystemExit,
    GeneratorExit,
    *STOPS,
)
"""What code raises, or what its own doings lead to. All else is somebody's who means to end more than the code, such as
a KeyboardInterrupt, or what a time limit of pytest raises in a test."""

_CTRL_C: Final = "builtins.KeyboardInterrupt"


@contextmanager
def interruptible(course: Course) -> Iterator[None]:
    """In this block, Ctrl-C ends a course for good. In other threads than the main one, which get none: nothing."""
    before: Any = None
    if threading.current_thread() is threading.main_thread():
        before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # it is ignored, or no handler of Python's
        yield
        return
    process = os.getpid()

    def interrupted(number: int, frame: FrameType | None) -> None:
        if os.getpid() == process:  # and not one that the code has forked
            # In an event loop, tasks that raised a KeyboardInterrupt would end the loop as often.
            ends(course, asyncio.CancelledError() if on_event_loop() else KeyboardInterrupt())
        before(number, frame)

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is interrupted:  # the code may have set its own, as a program would
            signal.signal(signal.SIGINT, before)


def ends(course: Course, error: BaseException) -> None:
    """End a course by what comes from outside, unless it is recorded from here on."""
    if not course.is_live:
        course.stops(error)


def raise_interruption(course: Course) -> None:
    """Raise what has ended a course from outside, if that is what did, as whoever called the replay expects it."""
    if isinstance(course.stopped, asyncio.CancelledError) and not on_event_loop():
        raise KeyboardInterrupt
    if isinstance(course.stopped, FROM_OUTSIDE):
        course.raise_stopped()


def as_recorded(course: Course, expected: RunFinishedData, actual: Any) -> Any:
    """How a run of the code has ended, to be compared with how the recorded one did; may end the course instead.

    One that Ctrl-C ended comes to the same end with another error: in an event loop Ctrl-C is a cancellation, and a
    call that it ended gives a `RecordedError` in its place, which says of which class it was.
    """
    error = None if actual.error is None else actual.error.value
    told = expected.error
    if told is None or told.type != _CTRL_C:
        if error is not None and not isinstance(error, _OF_THE_CODE):
            course.stop(error)
        return actual
    stands_for_it = isinstance(error, RecordedError) and error.type == _CTRL_C
    if not stands_for_it and not isinstance(error, asyncio.CancelledError):
        return actual
    same = told.model_copy(update={"value": RecordedError(told.type, told.message)})
    return actual.model_copy(update={"error": same, "status": expected.status, "stop_reason": expected.stop_reason})
