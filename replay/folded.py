"""A folded prefix: the rounds before a step are not executed, their outcome is taken from the log.

It is for code that has changed, which would part from the recording before the step is reached. What a step keeps in
variables of its own between rounds is not there then; the payload, the conversation and the notes are.

A run that began like that says so in its log (`run.forked`). Its own code has never executed these rounds, so neither
does whatever comes later: a replay of that run, a re-run from a later step, and a resumption take them from the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ..recorder.errors import UsageError
from ..recorder.events import Event
from ..recorder.store import EventStore, RunInfo
from .edits import Edits
from .reducer import fold
from .state import RunState

if TYPE_CHECKING:
    from .recorded_run import RecordedRun

OF_THE_RUN: Final = ("run.started", "run.forked", "run.resumed")
"""What is told of the run before the step, and counts all the same."""


class FoldedPrefix:
    """The rounds of a run that are taken from its log.

    Args:
        step: the first round that is executed.
        seq: the first event that the code is compared with, in or before that round.
        state: of the run before that event.

    Attributes:
        step, seq, state: as above.
    """

    def __init__(self, step: int, seq: int, state: RunState) -> None:
        self.step = step
        self.seq = seq
        self.state = state
        self._restored = False

    def left(self, events: Iterable[Event]) -> Iterator[Event]:
        """Of the events of the run those that the code is compared with, and what is told of the run."""
        return (event for event in events if event.seq >= self.seq or event.kind in OF_THE_RUN)

    def attach(self, run: RecordedRun, secrets: Edits) -> None:
        """Put the recorder where the rounds before the step would have brought it."""
        recorder = run.recorder
        assert recorder is not None  # it attaches itself
        if recorder.watch is not None:
            run.course.stop(
                UsageError(
                    f"the payload of {run.info.id} is what a function of the code gives, so a state from the log "
                    "cannot be put in its place; re-run it without --prefix=fold"
                )
            )
        payload = secrets.apply(self.state.payload)
        state = self.state
        recorder.become(payload, round=self.step - 1, usage=state.usage, decided=state.decision)

    def restore(self, run: RecordedRun) -> None:
        """Give the code, before its first round, the conversation, the notes, the parameters and the input; once."""
        recorder = run.recorder
        if self._restored or recorder is None or recorder.context is None:
            return
        self._restored = True
        recorder.context.restore(self.state.messages, self.state.scratchpad)
        for forked in run.script.forked:  # what they did to the payload and the conversation is in the state
            if forked.round + 1 < self.step:
                edits = Edits.from_log(forked.data.edits)
                recorder.context.edit((), edits.params, edits.input)


def folded_in(store: EventStore, info: RunInfo, until: int | None = None) -> FoldedPrefix | None:
    """The rounds that were folded when a run, or one that it comes from, was re-run; None if all were executed.

    Args:
        store, info: the run.
        until: the last event that counts; all do unless given.
    """
    if info.fork_of is None:
        return None
    found = None
    for row in store.rows(info, until=until):
        if row.kind == "run.forked" and store.decode(info, row).data.prefix == "fold":
            found = row
    if found is None:
        return None
    state = fold(store.events(info, until=found.seq - 1, conversations=False), check=False)
    return FoldedPrefix(found.round + 1, found.seq, state)
