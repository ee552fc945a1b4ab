"""Builds the log of a run that something else recorded, event by event, in the shapes that a live run writes.

An importer says what happened, in order: a round begins, the model is called, a tool is called and returns, the payload
becomes another. The builder numbers rounds, calls and events, keeps the payload with its hashes, and gives each event a
time: the one last read from the file (`at`), and a microsecond more for each event after it, so that the order shows.
Nothing is stored here; the events are appended together, when the whole file was understood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ..event_codec import MICROSECOND
from ..events import (
    EVENT_OF_KIND,
    CallFailedData,
    CallKind,
    Data,
    ErrorInfo,
    Event,
    MessageAddedData,
    ModelCalledData,
    ModelReturnedData,
    PayloadChangedData,
    ReportData,
    RoundFinishedData,
    RoundStartedData,
    RunFinishedData,
    RunStartedData,
    StepDecidedData,
    ToolCalledData,
    ToolReturnedData,
)
from ..live_payload import LivePayload
from ..payload import LATEST, difference
from ..redaction import Redactor
from ..run_recorder import UNDECIDED
from ..upcasters import version_of
from ..values import already_stored, encode
from .source import clean_text


class RunBuilder:
    """The log of one imported run.

    Attributes:
        agent: the agent's name.
        events: the log so far, complete once `finish` was called.
        round: the round that is being built, or the last.
        timed: whether its times are those of the file.
    """

    def __init__(
        self,
        redactor: Redactor,
        agent: str,
        *,
        payload: Any,
        input: Any,
        time: datetime,
        source: Mapping[str, Any],
    ) -> None:
        self.agent = clean_text(agent)
        self.events: list[Event] = []
        self.round = 0
        self.timed = source.get("times") == "recorded"
        self._time = time
        self._decided = False
        self._calls = 0
        self._open: dict[str, tuple[CallKind, str]] = {}
        self._usage: Counter[str] = Counter()
        self._tools: dict[str, dict[str, Any]] = {}
        self._payload = LivePayload(payload, redactor)
        self._add(
            "run.started",
            RunStartedData(
                agent=self.agent,
                input=input,
                payload=already_stored(self._payload.stored),
                payload_hash=self._payload.hash,
                applier={"name": "json-patch", "version": LATEST["json-patch"]},
                origin="imported",
                source=dict(source),
                redaction=redactor.describe(),
            ),
        )

    def _add(self, kind: str, data: Data) -> None:
        self.events.append(
            EVENT_OF_KIND[kind](
                seq=len(self.events),
                round=self.round,
                kind=kind,
                version=version_of(kind),
                time=self._time,
                data=data,
            )
        )
        self._time += MICROSECOND

    def at(self, time: datetime | None) -> None:
        """Give the next event this time; None goes on from the last one."""
        if time is not None:
            self._time = time

    @property
    def time(self) -> datetime:
        """The time that the next event will have."""
        return self._time

    # -- rounds -------------------------------------------------------------------------------------

    def begin_round(self) -> int:
        """Begin the next round; returns its number, from 1."""
        self.round += 1
        self._decided = False
        self._calls = 0
        self._add("round.started", RoundStartedData())
        return self.round

    def end_round(self, outcome: str = "continue") -> None:
        """End the round: continue, complete, failed, cancelled or interrupted. One without a decision says so."""
        if not self._decided:
            self.decide({"step": UNDECIDED, "message": "the file holds no decision of this round"})
        self._add("round.finished", RoundFinishedData(outcome=outcome, payload_hash=self._payload.hash))

    def decide(self, decision: Mapping[str, Any], raw: Any = None) -> None:
        """Record what the round decided, a NextStep in camelCase, and the model text it was parsed from."""
        self._decided = True
        text = clean_text(raw) if type(raw) is str else None
        self._add("step.decided", StepDecidedData(decision=dict(decision), raw=text))

    # -- calls --------------------------------------------------------------------------------------

    def model_called(
        self,
        request: Any,
        *,
        model: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        reconstructed: bool = False,
    ) -> str:
        """Record a call of the model; returns the call's id.

        Args:
            request: what it was asked, `{"messages": […]}`; None when the file does not say.
            model: the model's name, if known.
            parameters: such as temperature; keys that are no proper text are left out.
            reconstructed: whether the request was put together from the conversation and may have been another one.
        """
        model = clean_text(model) if model else None
        extra: dict[str, Any] = {"reconstructed": True} if reconstructed else {}
        call = self._next_call("model", model or "model")
        self._add(
            "model.called",
            ModelCalledData(
                call=call,
                name=model or "model",
                model=model,
                parameters={key: value for key, value in (parameters or {}).items() if key == clean_text(key)},
                request=request,
                **extra,
            ),
        )
        return call

    def model_returned(
        self, call: str, response: Any, *, usage: Any = None, stop_reason: Any = None, duration: float | None = None
    ) -> None:
        """Record what the model answered. Of `usage` the counts are taken, of `stop_reason` a text."""
        self._open.pop(call)
        counts = _counts(usage)
        self._usage.update(counts)
        self._add(
            "model.returned",
            ModelReturnedData(
                call=call,
                response=response,
                usage=counts or None,
                stop_reason=clean_text(stop_reason) if type(stop_reason) is str else None,
                duration=duration,
            ),
        )

    def tool_called(self, name: str, arguments: Any, *, raw: str | None = None, tool_call: Any = None) -> str:
        """Record a call of a tool; returns the call's id.

        Args:
            name: the tool's name.
            arguments: as JSON.
            raw: the text of the arguments where that was not valid JSON.
            tool_call: the model's own id for the call, if it is a text.
        """
        name = clean_text(name) or "unnamed"
        call = self._next_call("tool", name)
        self._add(
            "tool.called",
            ToolCalledData(
                call=call,
                name=name,
                arguments=arguments,
                raw=None if raw is None else clean_text(raw),
                tool_call=clean_text(tool_call) if type(tool_call) is str else None,
            ),
        )
        return call

    def tool_returned(self, call: str, result: Any, duration: float | None = None) -> None:
        """Record what a tool gave."""
        self._count(call, True, duration)
        self._add("tool.returned", ToolReturnedData(call=call, result=result, duration=duration))

    def tool_failed(self, call: str, type: str, message: str, duration: float | None = None) -> None:
        """Record that a tool failed, with the type and message of its error."""
        self._count(call, False, duration)
        error = ErrorInfo(type=clean_text(type), message=clean_text(message))
        self._add("tool.failed", CallFailedData(call=call, error=error, duration=duration))

    def _next_call(self, kind: CallKind, name: str) -> str:
        self._calls += 1
        call = f"{self.round}.{self._calls}"
        self._open[call] = (kind, name)
        return call

    def _count(self, call: str, success: bool, duration: float | None) -> None:
        _, name = self._open.pop(call)
        empty = {"callCount": 0, "successCount": 0, "errorCount": 0, "totalTime": 0.0}
        counts = self._tools.setdefault(name, empty)
        counts["callCount"] += 1
        counts["successCount" if success else "errorCount"] += 1
        counts["totalTime"] += duration or 0.0

    # -- the state ----------------------------------------------------------------------------------

    def change_payload(self, payload: Any, *, call: str | None = None, reason: str | None = None) -> None:
        """Make `payload` the payload; recorded as its difference where a JSON Patch can say it, and not at all if none.

        Args:
            payload: the whole new payload. Not to be mutated afterwards.
            call: the id of the tool call that changed it; None for the code around it.
            reason: why.
        """
        before = self._payload.hash
        # Plain is what is written as it is: a key with a lone surrogate, say, can stand in no path of a patch.
        if encode(payload).stored is payload and self._payload.plain:
            applier, request = "json-patch", difference(self._payload.live, payload)
            if not request:
                return
        else:
            applier, request = "replace", payload
        change = self._payload.change(request, applier, {})
        if change.hash_after == before:
            return
        self._add(
            "payload.changed",
            PayloadChangedData(
                applier={"name": applier, "version": LATEST[applier]},
                request=already_stored(change.request),
                applied_request=already_stored(change.applied_request),
                source={"kind": "code"} if call is None else {"kind": "action", "call": call},
                reason=reason,
                counts=change.outcome.applied,
                warnings=change.outcome.warnings,
                blocked=change.outcome.blocked_operations,
                correction=already_stored(change.correction),
                hash_before=change.hash_before,
                hash_after=change.hash_after,
            ),
        )

    def message(self, message: Any) -> None:
        """Record a message of the conversation."""
        self._add("message.added", MessageAddedData(message=message))

    def report(self, message: str, content: Any = None, *, level: str = "info", **extra: str) -> None:
        """Record what has no place elsewhere."""
        fields: dict[str, Any] = {name: clean_text(value) for name, value in extra.items()}
        self._add(
            "report", ReportData(source="importer", level=level, message=clean_text(message), content=content, **fields)
        )

    # -- the end ------------------------------------------------------------------------------------

    def finish(
        self,
        status: str,
        stop_reason: str,
        *,
        value: Any = None,
        usage: Mapping[str, int] | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> None:
        """Record the end of the run.

        Args:
            status: completed, failed, cancelled or interrupted.
            stop_reason: in the file's own word.
            value: what the run came to.
            usage: the run's totals, where the file has only those; the sum over the model calls unless given.
            metrics: more figures, in the file's own form.
        """
        counted: dict[str, Any] = {"cycleCount": self.round, "accumulatedUsage": dict(usage or self._usage)}
        if self._tools:
            counted["toolMetrics"] = self._tools
        self._add(
            "run.finished",
            RunFinishedData(
                status=status,
                stop_reason=clean_text(stop_reason),
                value=value,
                metrics={**counted, **(metrics or {})},
                payload_hash=self._payload.hash,
            ),
        )


def _counts(usage: Any) -> dict[str, int]:
    """The counts of a usage: its fields that are integers."""
    if type(usage) is not dict:
        return {}
    return {key: value for key, value in usage.items() if type(value) is int and key == clean_text(key)}


def duration_between(start: datetime | None, end: datetime | None) -> float | None:
    """Seconds from one time to another, or None when one is unknown or they run backwards."""
    if start is None or end is None or end < start:
        return None
    return (end - start) / timedelta(seconds=1)
