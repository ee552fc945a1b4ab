"""Re-run: a new run that shares another's events up to a step, and goes its own way from there.

The rounds before the step are executed against the log, since a step may keep state of its own from round to round;
they are compared and append nothing. With the step's round a new run begins, a fork, which copies nothing. Then the
edits take effect, and effects are made: those that are safe, or allowed by name. The other run is never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal, TypeAlias

from ..recorder.attaching import Answer, Guard
from ..recorder.calls import Call
from ..recorder.environment import code_version, process_identity
from ..recorder.errors import CompensationFailed, UsageError
from ..recorder.events import (
    Data,
    Event,
    RunForkedData,
)
from ..recorder.scope import Scope
from ..recorder.store import EventStore, RunInfo
from .catching_up import catching_up
from .compensating import Compensation, compensate
from .edited_answers import EditedAnswers
from .edits import Edits
from .folded import FoldedPrefix, folded_in
from .going_live import GoingLive
from .reading import state_at
from .recorded_run import RecordedRun
from .recorded_writer import RecordedWriter
from .reusing import Reuse, ReusingGuard
from .script import Script

Prefix: TypeAlias = Literal["execute", "fold"]
"""What is done with the rounds before: they are executed against the log, or their outcome is taken from it."""


class Rerun(GoingLive):
    """Rounds before a step from the log, from it on live, as a fork.

    Args:
        store, info: the run.
        step: the first round that is live, from 1.
        edits: what is changed there.
        reuse: give live calls that ask just what a recorded one did the recorded answer.
        compensations: are called before the step.
        prefix: what is done with the rounds before.
        options: of the course.

    Attributes:
        fork: the new run, once it has begun.
    """

    def __init__(
        self,
        store: EventStore,
        info: RunInfo,
        step: int,
        *,
        edits: Edits | None = None,
        reuse: bool = False,
        compensations: Sequence[Compensation] = (),
        prefix: Prefix = "execute",
        **options: Any,
    ) -> None:
        super().__init__(store, info, **options)
        self.step = step
        self.edits = edits or Edits()
        self.fork: RunInfo | None = None
        rest = Script(()) if not (reuse or self.edits.answers) else self._script_of(info)
        self._prefix: Prefix = prefix
        self._compensations = list(compensations)
        self._last_shared: int = self._shared(store, info, step)
        self._answers = EditedAnswers(self.edits, step, rest, info.id)
        self._reuse = Reuse(self, [rest], self._answers.around) if reuse else None
        self._children: dict[str, Script] = {}
        self._inherited: list[EditedAnswers] | None = None

    def _script_of(self, info: RunInfo) -> Script:
        return Script(self.store.events(info, conversations=False))

    @staticmethod
    def _shared(store: EventStore, info: RunInfo, step: int) -> int:
        """The last event that comes before the step's round."""
        for row in store.rows(info):
            if row.kind == "round.started" and row.round == step:
                return row.seq - 1
        raise UsageError(f"{info.id} has no step {step}")

    def attached(self, run: RecordedRun) -> None:
        """Refuse edits of a payload that the code keeps by itself, before anything of it is executed."""
        if run.parent is None and self.edits.touch_the_payload and run.recorder and run.recorder.watch is not None:
            self.stop(
                UsageError(
                    f"the payload of {self.info.id} is what a function gives, and cannot be edited; have the "
                    "code change its own state, or give another input or other parameters"
                )
            )
        super().attached(run)

    def events_of(self, info: RunInfo) -> Iterable[Event]:
        """Of the run itself, those before the step's round."""
        events = super().events_of(info)
        return events if info.uid != self.info.uid else takewhile(lambda event: event.seq <= self._last_shared, events)

    def _folds(self) -> FoldedPrefix | None:
        """All rounds before the step, if that is wanted; else those that were folded before."""
        if self._prefix == "fold":
            return FoldedPrefix(self.step, self._last_shared + 1, state_at(self.info, self.step - 1, self.store))
        return folded_in(self.store, self.info, self._last_shared)

    def goes_live_beyond(self, run: RecordedRun) -> bool:
        """Of a folded prefix also what code does before its first round, which belongs to none of the recording."""
        return self._prefix == "fold" and run.parent is None and not isinstance(run, RecordedWriter)

    @property
    def is_strict(self) -> bool:
        """The code was edited, perhaps to report more, or to ask another model from here on."""
        return False

    def goes_on_after(self, run: RecordedRun) -> bool:
        """The script was cut where the step begins."""
        return run.parent is None and not isinstance(run, RecordedWriter)

    @property
    def last_event(self) -> int:
        """The last that comes before the step."""
        return self._last_shared

    def goes_live_with(self, run: RecordedRun, round: int) -> bool:
        """The step's round is live."""
        return run.parent is None and round >= self.step

    def go_live(self, run: RecordedRun, by: str | None = None) -> None:
        """Begin the fork."""
        recorder = run.recorder
        assert recorder is not None  # it is attached
        taken = recorder.round_seconds
        self.through()
        parent = self.info
        (last,) = self.store.rows(parent, self._last_shared - 1, self._last_shared)
        self.fork = fork = self.store.create_run(
            parent.agent,
            parent=parent.parent,
            fork_of=parent.uid,
            fork_seq=self._last_shared,
            note=recorder.note,
        )
        catch_up = self.catching_up(run)
        recorder.info = fork
        run.info = fork
        self.turns.go_live()
        forked = RunForkedData(
            parent=parent.uid,
            seq=self._last_shared,
            hash=last.hash,
            edits=self.edits.described(),
            code=code_version("."),
            process=process_identity(),
            prefix=self._prefix,
            max_rounds=self.max_rounds,
            compensates=[one.event for one in self._compensations],
        )
        run.log.go_live(fork, self._last_shared, self.step - 1, [("run.forked", forked), *catch_up])
        recorder.round_seconds = taken
        if self.workers is not None:
            self.workers.goes_live(fork, self.asks_about, self._allow)
        run.log.after_round_starts = lambda: self._edit(run)

    def catching_up(self, run: RecordedRun) -> list[tuple[str, Data]]:
        """What brings the log to where the code is, if ignore rules have let it pass by."""
        recorder, folded = run.recorder, self.folded
        if folded is not None and folded.step == self.step:  # what the code has is what the log says
            return []
        if recorder is None or run.script.payload_hash == recorder.payload.hash:
            return []
        return catching_up(state_at(self.info, self.step - 1, self.store), recorder)

    def _edit(self, run: RecordedRun) -> None:
        """Let the edits take effect, at the beginning of the round, after those of the re-run that is re-run here."""
        run.edit_as_recorded(self.step)
        run.edit(self.edits)

    def round_has_started(self, run: RecordedRun, round: int) -> None:
        """Undo what the recorded run did from here on, before the step runs."""
        if self.fork is None or run.parent is not None or not self._compensations:
            return
        pending, self._compensations = self._compensations, []
        try:
            compensate(self.store, self.fork, pending)
        except CompensationFailed as error:
            self.stop(error)

    # -- live calls --------------------------------------------------------------------------------------

    @property
    def asks_about(self) -> str:
        """All that is live."""
        return f"step {self.step} and later"

    def live_call(self, run: RecordedRun, call: Call, data: Data) -> tuple[Data, Answer | None]:
        """As of any course; but what is to be undone must have been by then."""
        if self._compensations:
            self.stop(
                UsageError(
                    f"what {self.info.id} did cannot be undone here: a round that begins with a model call leaves no "
                    "time for it. Mark the rounds, with run.round()"
                )
            )
        return super().live_call(run, call, data)

    def edited_answers(self, run: RecordedRun) -> Iterator[EditedAnswers]:
        """Those of the step's round, given here or where the run was re-run before."""
        if run.parent is None and run.log.round == self.step:
            if self._inherited is None:
                told = [forked for forked in run.script.forked if forked.round + 1 == self.step]
                found = [EditedAnswers.in_log(self.store, forked) for forked in told]
                self._inherited = [answers for answers in found if answers is not None]
            yield self._answers
            yield from self._inherited

    def recorded_answer(self, run: RecordedRun, call: Call, data: Data) -> Answer | None:
        """That of a call which asked the same, if those are used again."""
        return None if self._reuse is None or run.parent is not None else self._reuse.answer_to(call, data)

    def guard_of_child(self, run: RecordedRun, name: str, begun_with: Mapping[str, Any], scope: Scope) -> Guard:
        """With recorded answers for what the child asks, if they are used again."""
        if self._reuse is None or run.parent is not None:
            return run
        return ReusingGuard(run, self._reuse.of_child(name, begun_with, scope))

    def children_of(self, script: Script, name: str, place: tuple[int, str | None]) -> Iterator[Script]:
        """The recorded child runs of a name that were started in a round, and inside a call, of a recorded run."""
        for strand, started in script.children.items():
            for event in started:
                if (strand.round, strand.within) == place and event.data.name == name:
                    child = self.store.run(event.data.run)
                    if child.uid not in self._children:
                        self._children[child.uid] = self._script_of(child)
                    yield self._children[child.uid]

    def unused_edits(self) -> list[str]:
        """The calls whose answers were edited and that were never asked for."""
        return self._answers.unused
