"""Whose turn it is: recorded answers are handed out in the order in which they arrived while recording.

Code that waits for nothing but the call it makes gets its answer at once. Where several tasks or threads wait at a
time, the order of the log decides (`deliveries`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..recorder.events import Event

if TYPE_CHECKING:
    from .recorded_run import RecordedRun
    from .script import RecordedCall


class Turns:
    """Hands out the outcomes of recorded calls."""

    def take(self, run: RecordedRun, call: RecordedCall) -> Event:
        """The end of a call that plain code waits for."""
        if call.ended is None:
            run.course.recording_ends(run)
        assert call.ended is not None
        return call.ended

    async def atake(self, run: RecordedRun, call: RecordedCall) -> Event:
        """The end of a call that is awaited."""
        return self.take(run, call)

    async def achunk(self, run: RecordedRun, call: RecordedCall, number: int) -> None:
        """Wait for the turn of an item of a stream."""
