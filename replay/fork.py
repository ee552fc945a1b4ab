"""Re-run: a new run that shares another's events up to a step, and goes its own way from there.

The rounds before the step are executed against the log, since a step may keep state of its own from round to round;
they are compared and append nothing. With the step's round a new run begins, a fork, which copies nothing. Then the
edits take effect, and effects are made: those that are safe, or allowed by name. The other run is never touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from ..recorder.attaching import Answer
from ..recorder.calls import Call
from ..recorder.environment import code_version, process_identity
from ..recorder.errors import CompensationFailed, LiveCallRefused, RedactedValue, UsageError
from ..recorder.events import (
    Data,
    Event,
    ModelReturnedData,
    RunForkedData,
    ToolReturnedData,
)
from ..recorder.redaction import find_tokens
from ..recorder.store import EventStore, RunInfo
from ..recorder.values import decode, encode
from .catching_up import catching_up
from .compensating import Compensation, compensate
from .course import Course
from .edits import Edits
from .given import GivenAnswer
from .reading import state_at
from .recorded_run import RecordedRun
from .script import Script, Strand

SAFE: Final = ("pure", "idempotent", "compensable")
"""Tools that a re-run may call without being asked; any other, undeclared ones included, only by name."""


class Rerun(Course):
    """Rounds before a step from the log, from it on live, as a fork.

    Args:
        store, info: the run.
        step: the first round that is live, from 1.
        edits: what is changed there.
        allow: names of tools that may be called though they are irreversible.
        reuse: give live calls that ask just what a recorded one did the recorded answer.
        compensations: are called before the step.
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
        allow: Collection[str] = (),
        reuse: bool = False,
        compensations: Sequence[Compensation] = (),
        **options: Any,
    ) -> None:
        super().__init__(store, info, **options)
        self.step = step
        self.edits = edits or Edits()
        self.fork: RunInfo | None = None
        self._allow = frozenset(allow)
        self._answers = self.edits.answers
        self._rest = Script(()) if not (reuse or self._answers) else Script(store.events(info, conversations=False))
        self._reuse = reuse
        self._compensations = list(compensations)
        self._last_shared = self._shared(store, info, step)
        self._check_answers()

    def _check_answers(self) -> None:
        for name, (kind, _) in self._answers.items():
            recorded = self._rest.calls.get(name)
            if recorded is None or recorded.called.round != self.step:
                calls = [call for call in self._rest.calls if self._rest.calls[call].called.round == self.step]
                raise UsageError(
                    f"step {self.step} of {self.info.id} has no call {name}; it has {', '.join(calls) or 'none'}"
                )
            if kind not in ("", recorded.kind):
                raise UsageError(f"call {name} is a {recorded.kind} call ({recorded.name}), not one of a {kind}")

    @staticmethod
    def _shared(store: EventStore, info: RunInfo, step: int) -> int:
        """The last event that comes before the step's round."""
        for row in store.rows(info):
            if row.kind == "round.started" and row.round == step:
                return row.seq - 1
        raise UsageError(f"{info.id} has no step {step}")

    def events_of(self, info: RunInfo) -> Iterable[Event]:
        """Of the run itself, those before the step's round."""
        if info.uid == self.info.uid:
            return self.store.events(info, until=self._last_shared, conversations=False)
        return super().events_of(info)

    def goes_live_with(self, run: RecordedRun, round: int) -> bool:
        """The step's round is live."""
        return run.parent is None and round >= self.step

    def go_live(self, run: RecordedRun, by: str | None = None) -> None:
        """Begin the fork."""
        recorder = run.recorder
        assert recorder is not None  # it is attached
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
        )
        run.log.go_live(fork, self._last_shared, self.step - 1, [("run.forked", forked), *catch_up])
        run.log.after_round_starts = lambda: self._edit(run)

    def catching_up(self, run: RecordedRun) -> list[tuple[str, Data]]:
        """What brings the log to where the code is, if ignore rules have let it pass by."""
        recorder = run.recorder
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

    def live_call(self, run: RecordedRun, call: Call, data: Data) -> tuple[Data, Answer | None]:
        """An edited answer, or one to use again; else the call is made, if it may be."""
        given: Any = data
        if self._compensations:
            self.stop(
                UsageError(
                    f"what {self.info.id} did cannot be undone here: a round that begins with a model call leaves no "
                    "time for it. Mark the rounds, with run.round()"
                )
            )
        edited = self._edited(run, call, given) if run.parent is None and run.log.round == self.step else None
        if edited is None and self._reuse:
            edited = self._reused(run, call, given)
        if edited is not None:
            self._append_answered(run, call, given, edited[0])
            self.coverage.recorded += 1
            return data, GivenAnswer(given.call, edited[0])
        self.may_be_made(run, call, given)
        return data, None

    def may_be_made(self, run: RecordedRun, call: Call, data: Any) -> None:
        """Stop a call that may do harm, or that would send what stands for a secret."""
        self._refuse_if_unsafe(call, data)
        arguments = encode(data.request if hasattr(data, "request") else data.arguments).stored
        if tokens := find_tokens(arguments):
            self.stop(
                RedactedValue(
                    f"{self.info.id}, step {run.log.round}: {call.effect.kind} {call.effect.name} would be called with "
                    f"a token in place of a secret, at {', '.join(tokens[:3])}. Give the secret where it stands in the "
                    "payload: --secret /path/in/payload=env:VARIABLE",
                    pointers=tuple(tokens),
                )
            )
        self.coverage.live += 1

    def _refuse_if_unsafe(self, call: Call, data: Any) -> None:
        effect = call.effect
        if effect.kind != "tool" or effect.safety in SAFE or effect.name in self._allow:
            return
        declared = "is irreversible" if effect.safety else "declares no safety, so it counts as irreversible"
        self.stop(
            LiveCallRefused(
                f"step {self.step} and later run live, and the tool {effect.name} {declared}: allow it with "
                f"--allow {effect.name}, give its result with --tool-result {data.call}=JSON, or declare it: "
                '@ar.tool(safety="pure")',
                name=effect.name,
                call=data.call,
            )
        )

    def _edited(self, run: RecordedRun, call: Call, data: Any) -> tuple[Any] | None:
        """The answer that was given for a call of the step's round: the one of that id, or that asks the same."""
        for name, (_, value) in self._answers.items():
            recorded = self._rest.calls[name]
            if (recorded.kind, recorded.name) == (call.effect.kind, data.name) and (
                name == data.call or run.key_of_call(recorded.kind, data) == recorded.key
            ):
                del self._answers[name]
                return (value,)
        return None

    def _reused(self, run: RecordedRun, call: Call, data: Any) -> tuple[Any] | None:
        if run.parent is not None:
            return None
        strand = Strand(run.log.round, call.scope.within, call.scope.task.text)
        found = self._rest.find(call.effect.kind, data.name, run.key_of_call(call.effect.kind, data), strand)
        if found is None or found.ended is None or not found.ended.kind.endswith(".returned"):
            return None
        found.asked = True
        ended: Any = found.ended.data
        return (decode(ended.response if found.kind == "model" else ended.result),)

    def _append_answered(self, run: RecordedRun, call: Call, data: Any, value: Any) -> None:
        kind = call.effect.kind
        run.log.emit(f"{kind}.called", data, scope=call.scope)
        marked: dict[str, Any] = {"edited": True}
        returned: Data = (
            ModelReturnedData(call=data.call, response=value, **marked)
            if kind == "model"
            else ToolReturnedData(call=data.call, result=value, **marked)
        )
        run.log.emit(f"{kind}.returned", returned, scope=call.scope)

    def unused_edits(self) -> list[str]:
        """The calls whose answers were edited and that were never asked for."""
        return list(self._answers)
