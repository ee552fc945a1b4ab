"""Runs that were cancelled by whoever had started them: a time limit around the run, a user who left, Ctrl-C.

What the code cancels itself it cancels again when it is executed again. A cancellation from outside comes from nowhere
in a replay: the code would wait for ever where it reached it. It is in the log as what it led to, a call that was
cancelled in the main code of the run, or a run that ended as cancelled. So where all code waits at just that place and
nothing else can come, the task in which the run began is cancelled, as it was then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .recorded_run import RecordedRun
    from .threads import Key

_MAIN: Final = "0"
"""The task path of a run's main code."""


class OutsideCancellation:
    """Cancels the code of a run where it was cancelled from outside while it was recorded.

    Args:
        run: the run that the code has just begun, in the task that is to be cancelled, if it is in one.
    """

    def __init__(self, run: RecordedRun) -> None:
        self._run = run
        self._task = _current_task()
        self._done: set[Key | None] = set()

    def cancels(self, following: Key, waiting: Container[Key]) -> bool:
        """Cancel the code if what it waits for, a call or the beginning of a child run, was cancelled next in the log.

        Returns whether it was. That is what the main code waits for, or the run ended as cancelled: else it was code of
        the run that cancelled it.

        Args:
            following: what the log has next, of all that reached the code from outside.
            waiting: what the code waits for.
        """
        uid, what, call = following[:3]
        if what != "cancelled" or (uid, "to be cancelled", call) not in waiting:
            return False
        script = self._run.script
        made = script.calls[call].called if call in script.calls else script.stillborn.get(call)
        of_main_code = uid == self._run.info.uid and made is not None and made.task == _MAIN
        return (of_main_code or self._is_cancelled) and self._cancel(following)

    def ends(self) -> bool:
        """Cancel the code if the run ended as cancelled in the round in which it waits. Returns whether it was."""
        finished = self._run.script.finished
        return (
            self._is_cancelled and finished is not None and finished.round == self._run.log.round and self._cancel(None)
        )

    def _cancel(self, at: Key | None) -> bool:
        task = self._task
        if task is None or task.done() or self._run.log.ended or at in self._done:
            return False
        self._done.add(at)
        return task.cancel()

    @property
    def _is_cancelled(self) -> bool:
        finished = self._run.script.finished
        return finished is not None and finished.data.status == "cancelled"


def _current_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # there is no event loop here
        return None
