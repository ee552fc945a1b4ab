"""One recorded run that code is executed against: what the code does is met in the script, or parts from it.

While the recording lasts, nothing is appended. An effect is found by what it asks and answered; a read gets the value
that was read; a decision, a payload and an outcome are compared. What comes then is up to the course of the whole
(`course`): a replay ends there, a re-run and a resumed run go on live, and from then on everything is appended.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import nullcontext
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ..recorder.attaching import Answer, Attachment, Guard
from ..recorder.calls import Call, Effect
from ..recorder.delays import Asked
from ..recorder.errors import LossyAnswer, UnknownType, UsageError
from ..recorder.events import Data, ReportData
from ..recorder.introspection import name_as_recorded
from ..recorder.leaves import live_tree
from ..recorder.live_payload import LivePayload
from ..recorder.log_end import LogEnd
from ..recorder.reentry import appending
from ..recorder.run_log import RunLog
from ..recorder.run_recorder import RunRecorder
from ..recorder.scope import Scope
from ..recorder.store import RunInfo
from ..recorder.timers import create_timer
from ..recorder.turns import Turns
from .answered_streams import AnsweredStream
from .answering import RecordedAnswer
from .asked_keys import key_of_stored, redacted_by
from .beginnings import compare_beginning
from .beside import Beside
from .collector import collector_at_rest
from .edits import Edits
from .exactly import exactly, stored_as_field
from .redoing import ToRedo
from .restored_cache import restored_cache
from .script import RecordedCall, Script, Strand

if TYPE_CHECKING:
    from .course import Course

_OF_THE_RUN: Final = ("run.started", "run.forked", "run.resumed")


class ReplayedLog(RunLog):
    """Has what the code does compared, until the run goes on live; from then on it appends.

    Attributes:
        live: whether it appends.
        after_round_starts: called once, when the next round has started live.
    """

    def __init__(self, run: RecordedRun) -> None:
        super().__init__(run.store, run.info, "raise")
        self._run = run
        self.live = False
        self.may_go_on = run.course.go_on
        self.after_round_starts: Callable[[], None] | None = None

    def go_live(self, info: RunInfo, seq: int, round: int, events: Iterable[tuple[str, Data]]) -> None:
        """Append from now on, behind event `seq` of a run: some events first, then what the code does."""
        self.info = info
        self._end = LogEnd(self.store, info, seq)
        self.live = True
        self.turns = self._turns_told = self._run.script.turns
        for kind, data in events:
            try:
                with nullcontext() if appending.busy else appending:  # what makes it go live may be an append itself
                    super()._append(kind, data, round, None)
            except Exception as error:
                self._fail(error, kind)

    def _fail(self, error: BaseException, kind: str = "an event") -> None:
        if self.live:
            super()._fail(error, kind)
        else:  # of comparing, not of a store
            self._run.course.stop(error)

    def _append(self, kind: str, data: Data, round: int, scope: Scope | None) -> Future[None] | None:
        was_live = self.live
        if was_live and self._run.script.has_child(data):
            return None
        if was_live or not self._run.meets(kind, data, round, scope):
            if not was_live and kind == "payload.changed":
                data = self._run.course.first_change(self._run, data)
            future = super()._append(kind, data, round, scope)
            if kind == "round.started" and self.after_round_starts is not None:
                edit, self.after_round_starts = self.after_round_starts, None
                edit()
            return future
        if kind == "round.started":
            self._run.edit_as_recorded(round)
        self.ended = kind in ("run.finished", "run.suspended")
        self._run.is_answered_up_to_here()
        return None


class RecordedRun(Attachment):
    """A recorded run, and how far code that is executed against it has come.

    Args:
        course: of the whole execution.
        info: the run.
        parent: the recorded run that it is a child run of, or None.

    Attributes:
        script: the recording.
        foreign: whether its redaction tokens were made with another store's key; they are compared by kind then.
        recorder: the code's.
    """

    def __init__(self, course: Course, info: RunInfo, parent: RecordedRun | None = None) -> None:
        self.course = course
        self.store = course.store
        self.info = info
        self.parent = parent
        self.script = self._read_script()
        started = self.script.started
        if started is None:
            raise course.nothing_recorded(info)
        key_check = (started.data.redaction or {}).get("key_check", self.store.redactor.key_check)
        self.foreign = key_check != self.store.redactor.key_check
        self.payload = exactly(started.data.payload, f"the payload of {info.id}")
        self.input = exactly(started.data.input, f"the input of {info.id}")
        self.params = exactly(started.data.params, f"the parameters of {info.id}")
        self.max_rounds = (None if parent else course.max_rounds) or self.script.max_rounds
        self.logger_name = started.data.logger
        self.agent_cache, missing = restored_cache(started.data, info.id)
        course.lacking += missing
        for note in missing:
            course.coverage.note(note)
        self.log: ReplayedLog = ReplayedLog(self)
        self.recorder: RunRecorder | None = None
        self.to_redo = ToRedo(self)
        self.beside = Beside(self)
        self.open_streams: dict[AnsweredStream, None] = {}  # which the code has begun to read
        self._child_turns: dict[tuple[str, str], int] = {}

    @property
    def only_replays(self) -> bool:
        """As the course says."""
        return self.course.only_replays

    @property
    def is_answered(self) -> bool:
        """Until the code goes on live."""
        return not self.log.live

    def _read_script(self) -> Script:
        with collector_at_rest():
            return Script(self.course.events_of(self.info))

    def begins_with(self, given: Mapping[str, Any]) -> None:
        """Have it compared with what was recorded, unless it is the course that has begun the run."""
        if self.parent is None and self.course.is_begun_by_code:
            compare_beginning(self.course, self, given)

    def attach(self, recorder: RunRecorder) -> None:
        """Take the code's recorder."""
        self.recorder = recorder
        if self.parent is None:
            self._call_its_module_as_recorded(recorder)
        self.course.attached(self)

    def _call_its_module_as_recorded(self, recorder: RunRecorder) -> None:
        """Have the classes of the code's module go by the name that it had: a program is `__main__`, and imported."""
        here = ((recorder.note or {}).get("code") or {}).get("module")
        recorded = self.script.started.data.code.get("module") if self.script.started is not None else None
        if here and type(recorded) is str and recorded:
            name_as_recorded(here, recorded)

    def restores(self) -> bool:
        """Whether the rounds before are folded; then the conversation and the notes are those of the folded state."""
        folded = self.course.folded
        if folded is None or self.parent is not None:
            return False
        folded.restore(self)
        return True

    # -- events ----------------------------------------------------------------------------------------

    def meets(self, kind: str, data: Data, round: int, scope: Scope | None) -> bool:
        """Meet an event of the code in the script. False if the run has gone live, and the event is to be appended."""
        self.course.go_on()
        if kind in _OF_THE_RUN or (isinstance(data, ReportData) and data.source == "capture"):
            return True
        folded = self.course.folded
        if kind == "round.started" and folded is not None and self.parent is None:
            folded.restore(self)
        if kind == "round.started" and self.course.goes_live_with(self, round):
            self.course.go_live(self, by=kind)
            return False
        strand = Strand(round, *((scope.within, scope.task.text) if scope is not None else (None, "0")))
        if kind == "interrupt.raised":  # those that were answered are not raised again
            known = self.script.has_unmet(self.script.round(round).questions)
        else:
            known = self.script.meets(strand, kind)
        if not known and self.course.goes_live_beyond(self):
            self.course.go_live(self, by=kind)
            return False
        self.course.comparison_of(self).event(kind, data, strand, known)
        return True

    def is_answered_up_to_here(self) -> None:
        """Note that nothing of the round so far was live: if it goes on live, that is how long it takes."""
        if self.recorder is not None and not self.log.live:
            self.recorder.round_seconds = 0.0

    # -- edits -----------------------------------------------------------------------------------------

    def round_has_started(self, round: int) -> None:
        """Tell the course."""
        self.course.round_has_started(self, round)

    def edit_as_recorded(self, round: int) -> None:
        """Edit what was edited at the beginning of a round, where the run is a re-run or goes on from one."""
        for forked in self.script.forked:
            if forked.round + 1 == round:
                self.edit(Edits.from_log(forked.data.edits))

    def edit(self, edits: Edits) -> None:
        """Let edits take effect on the payload, the conversation, the parameters and the input."""
        recorder = self.recorder
        assert recorder is not None
        if edits.touch_the_payload:
            if recorder.watch is not None:
                told = f"the payload of {self.info.id} is what a function gives, and cannot be edited"
                self.course.stop(UsageError(told))

            def edited(payload: LivePayload) -> Any:
                return live_tree(edits.apply(payload.tree))

            recorder.change_whole(edited, source={"kind": "edit"}, reason="edited before the re-run")
        if recorder.context is not None:
            try:
                recorder.context.edit(edits.messages, edits.params, edits.input)
            except UsageError as refused:
                self.course.stop(refused)

    # -- calls -----------------------------------------------------------------------------------------

    def call(self, call: Call) -> Answer | None:
        """The recorded answer to a call, or None if it is to be made."""
        with self.log.lock:
            data, answer = self._asked(call)
        if answer is None:
            self.log.emit(f"{call.effect.kind}.called", data, scope=call.scope, wait=True)
        return answer

    async def acall(self, call: Call) -> Answer | None:
        """The recorded answer to a call, or None if it is to be made."""
        with self.log.lock:
            data, answer = self._asked(call)
        if answer is None:
            await self.log.aemit(f"{call.effect.kind}.called", data, scope=call.scope)
        return answer

    def _asked(self, call: Call) -> tuple[Data, Answer | None]:
        """The data of a call and its answer, if it is not to be made."""
        self.course.go_on()
        data: Any = call.make()
        strand = Strand(self.log.round, call.scope.within, call.scope.task.text)
        if not self.log.live:
            recorded = self._find(call, data, strand)
            if recorded is not None:
                self.course.comparison_of(self).asked(recorded, data)
                self.beside.asked(recorded)
                return self._met(call, data, recorded)
            self.course.go_live(self)
            assert self.recorder is not None  # it makes the call
            call.id = self.recorder.number_call()  # which the recording does not have
            data = data.model_copy(update={"call": call.id})
        elif self.course.answers_when_live:
            recorded = self.script.find(call.effect.kind, data.name, self.key_of_call(call.effect.kind, data), strand)
            if recorded is not None:
                recorded.asked = True
                return self._met(call, data, recorded)
        return self.course.live_call(self, call, data)

    def _find(self, call: Call, data: Any, strand: Strand) -> RecordedCall | None:
        """The recorded call; None if the recording is over for this code, and it goes on live."""
        arguments = self.stored_arguments(data)
        kind = call.effect.kind
        found = self.script.find(kind, data.name, key_of_stored(kind, arguments), strand)
        if found is not None:
            self.course.coverage.answered(found)
            return found
        return self.course.comparison_of(self).unmatched(kind, data.name, arguments, strand)

    def _met(self, call: Call, data: Any, recorded: RecordedCall) -> tuple[Data, Answer | None]:
        if recorded.ended is None and self.course.goes_live_beyond(self):
            settled = self.course.settled(self, call, data, recorded)
            if settled is not None:
                return data, settled
            self.course.go_live(self)
            call.id = recorded.call
            attempt = recorded.called.data.attempt + 1
            return data.model_copy(update={"call": recorded.call, "attempt": attempt}), None
        self._count(recorded)
        self.is_answered_up_to_here()
        self.to_redo.add(self.script.changes_inside(recorded))
        return data, RecordedAnswer(self, recorded, call)

    def _count(self, recorded: RecordedCall) -> None:
        """Count an answered call, and those inside it, as if they had been made."""
        recorder = self.recorder
        assert recorder is not None  # it makes the call
        for call in self.script.with_those_inside(recorded):
            ended = call.ended
            if ended is not None and ended.kind in ("tool.returned", "tool.failed"):
                recorder.measured.count_tool(call.name, ended.data.duration or 0.0, ended.kind == "tool.returned")
            elif ended is not None and ended.kind == "model.returned":
                recorder.answered(call.call, call.called.round, call.called.within, ended.data.usage or {})

    def stored_arguments(self, data: Any) -> Any:
        """The arguments of a call in stored form, redacted."""
        return self.as_field(data.request if hasattr(data, "request") else data.arguments)

    def key_of_call(self, kind: str, data: Any) -> bytes:
        """What a script finds a call by."""
        return key_of_stored(kind, self.stored_arguments(data))

    def as_field(self, value: Any) -> Any:
        """A value as a field of an event's data holds it, in stored form and redacted."""
        return self.redacted(stored_as_field(value))

    def redacted(self, stored: Any) -> Any:
        """A tree as the store would hold it."""
        return redacted_by(self.store.redactor, stored)

    def stop(self, failure: BaseException) -> NoReturn:
        """Stop the code, for good."""
        self.course.stop(failure)

    def go_on(self) -> None:
        """Raise what has stopped the code, if anything has."""
        self.course.go_on()

    def may_be_made(self, call: Call, data: Data) -> None:
        """Raise what stops a call of a run that this one has started live, if it may not be made."""
        self.course.go_on()
        self.course.may_be_made(self, call, data)

    def of_child(self, name: str, begun_with: Mapping[str, Any], scope: Scope) -> Guard:
        """What guards a run that this one starts."""
        return self.course.guard_of_child(self, name, begun_with, scope)

    def outside(self, effect: Effect) -> None:
        """Stop an effect after the end of a run that has not gone live."""
        if not self.log.live:
            self.course.outside(effect)

    # -- event loops -----------------------------------------------------------------------------------

    def comes_to(self, turns: Turns) -> None:
        """The code has come to an event loop."""
        self.course.turns.comes_to(turns)

    def timer(
        self,
        loop: AbstractEventLoop,
        call_at: Callable[..., TimerHandle],
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        scope: Scope,
        asked: Asked | None = None,
    ) -> TimerHandle:
        """Keep a timer until the log says that it fires."""
        if self.log.live:
            return create_timer(loop, call_at, when, callback, args, context, scope, asked and asked.recorded)
        return self.course.turns.timer(self, loop, call_at, when, callback, args, context, scope, asked)

    async def turn(self, kind: str, child: str, scope: Scope) -> bool:
        """Wait for the turn of a child run that begins or has ended."""
        if self.log.live:
            return False
        if scope.within is None or child in self.script.stillborn:
            number = self._child_turns[kind, child] = self._child_turns.get((kind, child), 0) + 1
            await self.course.turns.aturn(self, kind, child, number)
        return not self.log.live

    # -- reads, questions and child runs -----------------------------------------------------------------

    def captures(self, wanted: frozenset[str]) -> frozenset[str]:
        """The sources whose reads the recording has."""
        started = self.script.started
        captured = frozenset[str]() if started is None else frozenset(started.data.captured)
        if captured != wanted:
            words = [", ".join(sorted(sources)) or "nothing" for sources in (wanted, captured)]
            self.course.coverage.note(
                f"the code captures {words[0]}; {self.info.id} was recorded with {words[1]} captured, which counts here"
            )
        return captured

    def read(
        self,
        source: str,
        what: str | None,
        site: str | None,
        scope: Scope | None,
        arguments: dict[str, Any] | None = None,
    ) -> tuple[Any] | None:
        """The recorded value, in a tuple, or None if it is to be read."""
        with self.log.lock:
            self.course.go_on()
            strand = Strand(self.log.round, *((scope.within, scope.task.text) if scope is not None else (None, "0")))
            if self.log.live and not self.course.answers_when_live:
                return None
            event = self.script.read(strand, source, what)
            if event is not None:
                self.script.meets(strand, "value.read")
                self.course.comparison_of(self).reads.met(event, arguments, site, strand)
                self.course.coverage.read()
                self.is_answered_up_to_here()
                return self._exactly(event.data.value, f"{source}, as {self.info.id} read it in event {event.seq},")
            if self.log.live or self.course.goes_live_beyond(self):
                self.course.go_live(self)
                return None
            self.course.comparison_of(self).reads.unmatched(source, what, site, strand)
            return None

    def aborted(self, scope: Scope, looks: int) -> tuple[()] | tuple[Any] | None:
        """Whether the code found its signal aborted there, and why; None once the run is live."""
        with self.log.lock:
            self.course.go_on()
            if self.log.live:
                return None
            event, round = self.script.aborted, self.log.round
            if event is None or event.round > round:
                return ()
            if event.round == round and (event.task != scope.task.text or looks < event.data.value["looks"]):
                return ()
            self.script.meets(Strand(event.round, event.within, event.task), event.kind)
            self.course.coverage.read()
            return self._exactly(event.data.value["reason"], f"why {self.info.id} was cancelled")

    def answer_to(self, name: str, reason: Any) -> tuple[Any] | None:
        """The recorded or given answer to a question, in a tuple, or None if it is to be asked."""
        with self.log.lock:
            self.course.go_on()
            if self.log.live:
                return None
            asked = self.script.questions.get((self.log.round, name))
            if not asked:
                return None
            interrupt = asked[0].data.interrupt
            if interrupt in self.script.responses:
                response = self.script.responses[interrupt]
                answer: tuple[Any] | None = self._exactly(response, f"the answer to {interrupt}")
            else:
                answer = self.course.response_to(self, interrupt)
            if answer is not None:
                self.is_answered_up_to_here()
                self.course.comparison_of(self).asks(name, reason, Strand(self.log.round, None, "0"))
                self.course.coverage.read()
            return answer

    def is_answered_with(self, name: str, recorded: Any, given: Any) -> None:
        """Tell of another answer to a question than the recorded one."""
        self.course.comparison_of(self).answers(name, recorded, given, Strand(self.log.round, None, "0"))

    def _exactly(self, stored: Any, what: str) -> tuple[Any]:
        """A recorded value in a tuple; one that the code cannot have as it was stops it."""
        try:
            return (exactly(stored, what),)
        except (UnknownType, LossyAnswer) as error:
            self.course.stop(error)

    def child(self, name: str, begun_with: Mapping[str, Any], scope: Scope) -> Attachment | None:
        """The recording of the child run that begins here, or None if it is to be recorded."""
        with self.log.lock:
            self.course.go_on()
            if self.log.live and not self.course.answers_when_live:
                return None
            strand = Strand(self.log.round, scope.within, scope.task.text)
            event = self.course.comparison_of(self).begins_child(name, begun_with, strand)
            if event is not None:
                self.script.begun(event)
                return self.course.child_of(self, event)
            self.course.go_live(self)
            return None
