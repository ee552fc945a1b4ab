"""Re-run from the folded state: the rounds before the step are not executed, their outcome is taken from the log.

It is for code that has changed, which would part from the recording before the step is reached. What a step keeps in
variables of its own between rounds is not there then; the payload, the conversation and the notes are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..recorder.errors import UsageError
from ..recorder.events import Data, Event
from ..recorder.store import EventStore, RunInfo
from .edits import Edits
from .fork import Rerun
from .reading import state_at
from .recorded_run import RecordedRun


class FoldedRerun(Rerun):
    """A re-run whose first round is the step's. Arguments as for `Rerun`."""

    def __init__(self, store: EventStore, info: RunInfo, step: int, **options: Any) -> None:
        super().__init__(store, info, step, **options)
        self._state = state_at(info, step - 1, store)

    def events_of(self, info: RunInfo) -> Iterable[Event]:
        """The start of the run, and what was edited on the way."""
        return (event for event in super().events_of(info) if event.kind in ("run.started", "run.forked"))

    def goes_live_beyond(self, run: RecordedRun) -> bool:
        """Also what code does before its first round is done live: it belongs to no round of the recording."""
        return run.parent is None

    def attached(self, run: RecordedRun) -> None:
        """Put the recorder where the rounds before the step would have brought it."""
        recorder = run.recorder
        assert recorder is not None  # it attaches itself
        if recorder.watch is not None:
            self.stop(
                UsageError(
                    f"the payload of {self.info.id} is what a function of the code gives, so a state from the log "
                    "cannot be put in its place; re-run it without --prefix=fold"
                )
            )
        recorder.become(self._state.payload, round=self.step - 1, usage=self._state.usage)

    def catching_up(self, run: RecordedRun) -> list[tuple[str, Data]]:
        """Nothing: the code has what the log says."""
        return []

    def _edit(self, run: RecordedRun) -> None:
        recorder = run.recorder
        if recorder is not None and recorder.context is not None:
            recorder.context.restore(self._state.messages, self._state.scratchpad)
            for forked in run.script.forked:  # what they did to the payload and the conversation is in the state
                if forked.round + 1 < self.step:
                    edits = Edits.from_log(forked.data.edits)
                    recorder.context.edit((), edits.params, edits.input)
        super()._edit(run)
