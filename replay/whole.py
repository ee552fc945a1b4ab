"""A child run that is answered as a whole: its code is not executed, and it gives what it gave."""

from __future__ import annotations

from ..recorder.attaching import Outcome
from ..recorder.calls import Effect
from ..recorder.errors import CorruptLog, LossyAnswer, UnknownType
from ..recorder.store import RunInfo
from .answers import AnswerTypes
from .course import Course
from .exactly import exactly
from .recorded_run import RecordedRun


class WholeRun(RecordedRun):
    """A recorded child run that gives its outcome at once. Arguments as for `RecordedRun`."""

    def __init__(self, course: Course, info: RunInfo, parent: RecordedRun) -> None:
        super().__init__(course, info, parent)
        finished = self.script.finished
        if finished is None:
            raise CorruptLog(f"{info.id} has not ended, so it cannot be answered as a whole", run=info.id)
        self._finished = finished
        self.payload = exactly(course.payload_at(self, finished.seq), f"the last payload of {info.id}")
        self.script.wakes.clear()  # nothing of it is waited for
        self.script.calls.clear()
        course.coverage.read()

    def outcome(self) -> Outcome:
        """How the run ended."""
        data, where = self._finished.data, f"{self.info.id}, the outcome"
        types = AnswerTypes.of(Effect("tool", self.info.agent), None)
        try:
            error = None if data.error is None else types.error(data.error, where)
            if data.error is not None and error is not None:
                self.course.error_lacks(types.lacks(data.error, error, where))
            value = exactly(data.value, f"the value of {self.info.id}")
        except (UnknownType, LossyAnswer) as unanswerable:
            self.course.stop(unanswerable)
        return Outcome(data.status, data.result or {}, value, error)
