"""How a run ends: the way in which the agent's code was left becomes a status, the last event and the AgentResult."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from .agent_result import AgentResult, Interrupt, RunHandle
from .attaching import Outcome
from .context import Context
from .introspection import inherits, isinstance_of
from .run_recorder import RunRecorder
from .signals import Cancelled, Interrupted, RecordingStopped, ReplayStopped, all_in, is_cancellation
from .structured_types import dataclass_fields, is_model


class Ending:
    """The end of one run, whose code runs its own loop or ours.

    Attributes:
        status: running until it ended; then completed, failed, cancelled or interrupted.
        result: what it came to, once it ended.
    """

    def __init__(self, recorder: RunRecorder, context: Context, state: Mapping[str, Any] | None = None) -> None:
        self.status = "running"
        self.result: AgentResult | None = None
        self._recorder = recorder
        recorder.ending = self
        self._context = context
        self._state = dict(state or {})

    def reached(
        self,
        status: str,
        stop_reason: str,
        *,
        value: Any = None,
        text: Any = None,
        error: BaseException | None = None,
    ) -> AgentResult:
        """Record the end of a run that goes no further.

        Args:
            value: what it came to.
            text: what stands for the last message where the conversation has none.
            error: what ended it.
        """
        self.status = status
        cls = type(value)
        has_fields = inherits(cls, dict) or inherits(cls, list) or dataclass_fields(cls) is not None or is_model(cls)
        self.result = result = self._result(
            stop_reason, value=value, text=text, error=error, structured_output=value if has_fields else None
        )
        self._recorder.finish(status, stop_reason, value=value, error=error, result=result.document())
        return result

    def answered(self, outcome: Outcome) -> AgentResult:
        """Take over how a run ended whose code was not executed."""
        self.status = outcome.status
        handle = RunHandle(self._recorder.info.id, self._recorder.info.uid)
        result = AgentResult.model_validate(dict(outcome.result))
        payload = self._context.payload
        self.result = result.attach(run=handle, payload=payload, value=outcome.value, error=outcome.error)
        return self.result

    def by(self, error: BaseException, value: Any = None) -> bool:
        """Record the end that an exception made.

        Returns:
            Whether the exception only said how the run ends; else it is to be raised as it is.

        Raises:
            RecordingFailed: the run could not be recorded.
        """
        if halted := all_in(error, ReplayStopped):
            self._stopped(halted[0], value)
        try:
            dealt_with = self._recorder.failure is None and self._by(error, value)
        except RecordingStopped as stopped:
            if stopped.failure is not self._recorder.failure:
                raise
        if (failure := self._recorder.failure) is not None:
            self.status = "failed"
            raise failure from failure.__cause__
        return dealt_with

    def _by(self, error: BaseException, value: Any) -> bool:
        recorder = self._recorder
        asked = all_in(error, Interrupted)
        if asked and all(one.run == recorder.info.uid for one in asked):
            self.suspended()
            return True
        if is_cancellation(error):
            recorder.finish_round("cancelled")
            self.reached("cancelled", "cancelled", value=value, error=error)
            return bool(all_in(error, Cancelled))
        recorder.finish_round("failed")
        self.reached("failed", "error", value=value, error=error)
        return False

    def _stopped(self, stopped: ReplayStopped, value: Any) -> NoReturn:
        """Record the end of a run that goes on from a recording, where it may go no further; then say why."""
        self._recorder.log.stopping = True
        with suppress(ReplayStopped):  # of a run that is only compared
            self._recorder.finish_round("failed")
            self.reached("failed", "error", value=value, error=stopped.failure)
        raise stopped.failure

    def suspended(self) -> AgentResult:
        """Record that the run waits for answers to its questions."""
        self._recorder.finish_round("interrupted")
        self.status = "interrupted"
        questions = [
            Interrupt(id=raised.interrupt, name=raised.name, reason=raised.reason)
            for raised in self._recorder.interrupts
        ]
        self.result = self._result("interrupt", interrupts=questions)
        self._recorder.suspend("interrupt")
        return self.result

    def _result(
        self,
        stop_reason: str,
        *,
        value: Any = None,
        text: Any = None,
        error: BaseException | None = None,
        **fields: Any,
    ) -> AgentResult:
        recorder, messages = self._recorder, self._context.messages
        text = text if isinstance_of(text, str) else value
        spoken = {"role": "assistant", "content": [{"text": text}]} if isinstance_of(text, str) else None
        result = AgentResult(
            stop_reason=stop_reason,
            last_message=messages[-1] if len(messages) else spoken,
            metrics=recorder.metrics(),
            invocation_state=self._state,
            **{name: field for name, field in fields.items() if field is not None},
        )
        # A run that never reached its store has no name there.
        handle = RunHandle(recorder.info.id, recorder.info.uid) if recorder.info.number else None
        return result.attach(run=handle, payload=self._context.payload, value=value, error=error)
