"""Looking at a signal: whether a run was asked to stop is read from outside, like the time, and so it is recorded.

A step may look at `context.signal` a thousand times, and the loop looks between rounds. Only one of these looks says
something: the first that finds the run aborted. It is a `value.read` of source "signal", with the number of looks that
the task took in that round. Code that is executed again finds its signal aborted at that look, whoever aborted it then.

What is seen inside of a call is covered by the call's answer, and not recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from .events import ValueReadData
from .reads import call_site
from .scope import Scope, current

if TYPE_CHECKING:
    from .run_recorder import RunRecorder
    from .signals import Signal

SOURCE: Final = "signal"
WHAT: Final = "aborted"
"""Source of such a read, and what is read there."""


class Looks:
    """The looks that a run takes at its signal.

    Args:
        recorder: of the run.
    """

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder
        self._round = -1
        self._taken: Counter[str] = Counter()
        self._seen = False

    def look(self, signal: Signal, ask: Callable[[], bool], scope: Scope) -> bool:
        """Whether the signal is aborted, as far as the code is to know.

        Args:
            signal: of the run.
            ask: looks, or waits.
            scope: of the code that looks.
        """
        recorder = self._recorder
        if self._seen or scope.within is not None or not recorder.recording:
            return ask()
        with recorder.log.lock:
            if self._round != recorder.round:
                self._round = recorder.round
                self._taken.clear()
            self._taken[scope.task.text] += 1
            number = self._taken[scope.task.text]
        attachment = recorder.attachment
        if attachment is not None and (said := attachment.aborted(scope, number)) is not None:
            if said:
                signal.abort(said[0])
            self._seen = signal.peek()
            return self._seen
        if not ask():
            return False
        with recorder.log.lock:
            first, self._seen = not self._seen, True
        if first:
            value: dict[str, Any] = {"looks": number, "reason": signal.reason}
            recorder.emit("value.read", ValueReadData(source=SOURCE, what=WHAT, site=call_site(), value=value))
        return True


def look(signal: Signal, ask: Callable[[], bool]) -> bool:
    """Look at a signal; if it is that of the run in which the code stands, the run is told."""
    scope = current.get()
    context = None if scope is None else scope.recorder.context
    if scope is None or context is None or context.signal is not signal:
        return ask()
    found: bool = context.looks.look(signal, ask, scope)
    return found
