"""Recorded answers, used again by a re-run: for live calls that ask just what a recorded one of the same place asked.

The place is the round, and the call inside of which it is made. Each recorded call answers once. Child runs are started
anew, and have logs of their own; what they ask is looked for in the child runs of the same name that the recorded run
had started there, first in one that was started with the same payload, input and parameters.

What an answered call had changed in the run is changed again, from the log: it is not made, but code builds on that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..recorder.attaching import Answer, Guard
from ..recorder.calls import Call
from ..recorder.errors import ChangeRefused, LossyAnswer, UnknownType
from ..recorder.events import Data
from ..recorder.scope import Scope, entered
from ..recorder.values import encode
from .answers import AnswerTypes
from .asked_keys import key_of_arguments
from .given import Given, append_end
from .redoing import redo
from .script import RecordedCall, Script, Strand

if TYPE_CHECKING:
    from .fork import Rerun
    from .recorded_run import RecordedRun


class Reuse:
    """The recorded calls that the calls of one live run may be answered by.

    Args:
        course: the re-run.
        scripts: of the recorded runs in which they are looked for, in that order.
        without: ids of calls that are not answered as wholes, since something inside of them is edited.
    """

    def __init__(self, course: Rerun, scripts: Sequence[Script], without: frozenset[str] = frozenset()) -> None:
        self._course = course
        self._scripts = scripts
        self._without = without

    def answer_to(self, call: Call, data: Data | None = None) -> Answer | None:
        """The answer to a call that is about to be made, and then is in the log; None to make it.

        Args:
            call: the code's.
            data: of its `*.called`, if it has been given its number.
        """
        recorder = call.scope.recorder
        key = key_of_arguments(recorder.store.redactor, call.effect.kind, call.arguments)
        strand = Strand(recorder.round, call.scope.within, call.scope.task.text)
        with recorder.log.lock:
            found, script = self._find(call, key, strand)
            if found is None or script is None:
                return None
            given = self._given(call, found)
            data = call.make() if data is None else data
        recorder.log.emit(f"{call.effect.kind}.called", data, scope=call.scope)
        self._redo(call, script, found)
        self._course.coverage.recorded += 1
        return append_end(call, call.id, given, "reused")

    def of_child(self, name: str, begun_with: Mapping[str, Any], scope: Scope) -> Reuse:
        """What the calls of a child run that begins here may be answered by."""
        place = (scope.recorder.round, scope.within)
        children = [child for script in self._scripts for child in self._course.children_of(script, name, place)]
        stored = _begun(scope, begun_with)
        return Reuse(self._course, sorted(children, key=lambda child: _started(child) != stored))

    def _find(self, call: Call, key: bytes, strand: Strand) -> tuple[RecordedCall | None, Script | None]:
        for script in self._scripts:
            found = script.find(call.effect.kind, call.name, key, strand)
            if found is not None and found.call not in self._without:
                found.asked = True  # also of one that failed: the next that asks the same is the next in the recording
                if found.ended is not None and found.ended.kind.endswith(".returned"):
                    return found, script
                return None, None
        return None, None

    def _given(self, call: Call, found: RecordedCall) -> Given:
        """The recorded answer, as the agent got it; what cannot be given so stops the re-run."""
        assert found.ended is not None  # it has returned
        data: Any = found.ended.data
        types, where = AnswerTypes.of(call.effect, call.fn), f"the recorded call {found.call} ({found.name})"
        try:
            items = None if data.stream is None else types.chunks(data.stream, where)
            value = types.value(data.response if found.kind == "model" else data.result, where)
        except (UnknownType, LossyAnswer) as error:
            self._course.stop(error)
        return Given(value, items, getattr(data, "form", None))

    def _redo(self, call: Call, script: Script, found: RecordedCall) -> None:
        for event in script.changes_inside(found):
            try:
                with entered(call.inside):
                    redo(call.scope.recorder, event)
            except (UnknownType, LossyAnswer, ChangeRefused) as error:
                self._course.stop(error)


class ReusingGuard(Guard):
    """Answers the calls of a child run that a re-run has started; asks the re-run before the others are made.

    Args:
        run: the re-run.
        reuse: what the child's calls may be answered by.
    """

    def __init__(self, run: RecordedRun, reuse: Reuse) -> None:
        self._run = run
        self._reuse = reuse

    def go_on(self) -> None:
        """Raise what has stopped the code."""
        self._run.go_on()

    def answer_to_call(self, call: Call) -> Answer | None:
        """The recorded answer, if there is one."""
        self.go_on()
        return self._reuse.answer_to(call)

    def may_be_made(self, call: Call, data: Data) -> None:
        """Raise what stops a call."""
        self._run.may_be_made(call, data)

    def of_child(self, name: str, begun_with: Mapping[str, Any], scope: Scope) -> Guard:
        """The guard of a run that the child starts."""
        return ReusingGuard(self._run, self._reuse.of_child(name, begun_with, scope))


def _started(script: Script) -> Any:
    data: Any = None if script.started is None else script.started.data
    return None if data is None else [data.payload, data.input, data.params]


def _begun(scope: Scope, begun_with: Mapping[str, Any]) -> Any:
    redactor = scope.recorder.store.redactor
    return [redactor.redact(encode(begun_with[name]).stored) for name in ("payload", "input", "params")]
