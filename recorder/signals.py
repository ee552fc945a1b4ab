"""What stops a run: a signal from outside, a question to a person, a cancellation, a store that fails.

Some of them unwind the agent's code although it did nothing wrong. They derive from BaseException, so that a step that
catches `Exception` around its tools takes neither for a tool's failure.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any, Final, TypeVar, cast

from .errors import AgentReplayError, RecordingFailed
from .introspection import isinstance_of

Stop = TypeVar("Stop", bound=BaseException)

_CANCELLATIONS: Final = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)
_exceptions_of: Final[Any] = BaseExceptionGroup.__dict__["exceptions"].__get__


class Interrupted(BaseException):
    """Unwinds a step that waits for a person's answer.

    Attributes:
        run: uid of the run that asked.
        interrupt, name, reason: what it asked, as in `interrupt.raised`.
    """

    def __init__(self, run: str, interrupt: str, name: str, reason: Any) -> None:
        super().__init__(f"waiting for an answer to {name!r}")
        self.run = run
        self.interrupt = interrupt
        self.name = name
        self.reason = reason


class RecordingStopped(BaseException):
    """Unwinds an agent whose run can no longer be recorded; the run raises `failure` in its place."""

    def __init__(self, failure: RecordingFailed) -> None:
        super().__init__(str(failure))
        self.failure = failure


class ReplayStopped(BaseException):
    """Unwinds code that is executed against a recording and goes no further; whoever executes it raises `failure`."""

    def __init__(self, failure: BaseException) -> None:
        super().__init__(str(failure))
        self.failure = failure


class ProcessStopped(ReplayStopped, SystemExit):
    """`ReplayStopped` in a process that replayed code has started, which ends with a line instead of a traceback.

    What it was stopped by is told, at length, by the process that replays.
    """

    def __init__(self, failure: BaseException | str) -> None:
        self.failure = failure if isinstance(failure, BaseException) else AgentReplayError(failure)
        first = str(failure).partition("\n")[0]
        SystemExit.__init__(self, f"agentreplay: this process was stopped, as the whole replay is: {first}")


STOPS: Final[tuple[type[BaseException], ...]] = (Interrupted, RecordingStopped, ReplayStopped)
"""What unwinds an agent's code although nothing failed."""


class Cancelled(AgentReplayError):
    """The run was cancelled through its signal."""


class Signal:
    """Asks a run to stop. The loop looks at it between rounds; a step may look at it at any time.

    That code of the run finds it aborted is recorded, so a replay of that code finds it aborted at the same look.

    Attributes:
        reason: why, as the first who asked said; None before.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self.reason: Any = None

    @property
    def aborted(self) -> bool:
        """Whether the run was asked to stop."""
        from .looking import look  # it knows of runs, which know of signals

        return look(self, self.peek)

    def peek(self) -> bool:
        """`aborted`, for code that is no part of the run: nothing is recorded of this look."""
        return self._event.is_set()

    def abort(self, reason: Any = None) -> None:
        """Ask the run to stop. Safe from any thread; the first reason counts."""
        with self._lock:
            if not self.peek():
                self.reason = reason
                self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds; says whether the run was asked to stop."""
        from .looking import look

        return look(self, functools.partial(self._event.wait, timeout))

    def throw_if_aborted(self) -> None:
        """Raise `Cancelled` if the run was asked to stop."""
        if self.aborted:
            raise self.cancellation()

    def cancellation(self) -> Cancelled:
        """The exception that stands for this signal."""
        return Cancelled("the run was cancelled" if self.reason is None else f"the run was cancelled: {self.reason}")


def all_in(error: BaseException, cls: type[Stop]) -> list[Stop]:
    """The exceptions of a class that an exception consists of, and of nothing else: itself, or those of a group.

    A TaskGroup raises what its tasks raised as a group. One with anything else in it is a failure like any other.
    """
    if isinstance_of(error, cls):
        return [cast(Stop, error)]
    if not isinstance_of(error, BaseExceptionGroup):
        return []
    found = [all_in(inner, cls) for inner in _exceptions_of(error)]
    return [one for inner in found for one in inner] if all(found) else []


def is_cancellation(error: BaseException) -> bool:
    """Whether an exception says that somebody wanted the work to stop, rather than that it went wrong."""
    return any(isinstance_of(error, cls) for cls in _CANCELLATIONS) or bool(all_in(error, Cancelled))
