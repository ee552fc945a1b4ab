"""A run that is built from a sample: what its events need beyond what every imported run has.

Calls stand inside calls: a tool that runs an agent, whose model and tools are called `within` it. A call may return
after its round, for tools may run on while the next model call is made. A patch of the payload is recorded as the file
has it, where it applies; its difference is recorded where only that does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from ..errors import ChangeRefused
from ..events import CallFailedData, Data, ErrorInfo, MessagesReplacedData, PayloadChangedData
from ..payload import LATEST
from ..values import already_stored
from .builder import RunBuilder, duration_between
from .source import clean_text


class SampleRun(RunBuilder):
    """The log of one run, made from a sample.

    Attributes:
        within: the call inside which the next event happens, or None.
        latest: the latest time that an event was given.
    """

    within: str | None = None
    latest: datetime | None = None
    _round_began: datetime | None = None

    def _add(self, kind: str, data: Data) -> None:
        super()._add(kind, data)
        if self.within is not None:
            self.events[-1] = self.events[-1].model_copy(update={"within": self.within})

    def at(self, time: datetime | None) -> None:
        """Give the next event this time; None goes on from the last one."""
        super().at(time)
        if time is not None and (self.latest is None or time > self.latest):
            self.latest = time

    @contextmanager
    def inside(self, call: str | None) -> Iterator[None]:
        """What is added meanwhile happens within a call."""
        before, self.within = self.within, call
        try:
            yield
        finally:
            self.within = before

    def note(self, **fields: Any) -> None:
        """Add fields to the data of the last event; None is left out."""
        event = self.events[-1]
        known = {name: value for name, value in fields.items() if value is not None}
        if known:
            self.events[-1] = event.model_copy(update={"data": event.data.model_copy(update=known)})

    # -- rounds and calls ------------------------------------------------------------------------------

    def begin_round(self) -> int:
        """Begin the next round; returns its number, from 1."""
        self._round_began = self.time
        return super().begin_round()

    def end_round(self, outcome: str = "continue") -> None:
        """End the round, with the time since it began."""
        ended = self.time
        super().end_round(outcome)
        if self.timed:
            self.note(duration=duration_between(self._round_began, ended))

    def ends_in_its_round(self, call: str) -> None:
        """Make the last event, the end of a call, belong to the round in which the call was made."""
        made = int(call.partition(".")[0])
        if made != self.round:
            self.events[-1] = self.events[-1].model_copy(update={"round": made})

    def model_failed(self, call: str, error: ErrorInfo, duration: float | None = None) -> None:
        """Record that the model gave no answer."""
        self._open.pop(call)
        self._add("model.failed", CallFailedData(call=call, error=error, duration=duration))

    # -- the state ---------------------------------------------------------------------------------------

    @property
    def payload(self) -> Any:
        """The payload as it is now, in the file's values. Shared; not to be mutated."""
        return self._payload.live

    def patch_payload(self, patch: Sequence[Any], *, call: str | None, reason: str) -> bool:
        """Apply a JSON Patch to the payload and record it, even if it changes nothing.

        Args:
            patch: operations that apply to the payload.
            call: the id of the tool call that changed it; None for the code around it.
            reason: why.

        Returns:
            Whether it could be recorded as a patch; if not, nothing was recorded.
        """
        try:
            change = self._payload.change(patch, "json-patch", {})
        except ChangeRefused:  # a path that only the values have, not what is stored of them: a lone surrogate, a tag
            return False
        self._add(
            "payload.changed",
            PayloadChangedData(
                applier={"name": "json-patch", "version": LATEST["json-patch"]},
                request=already_stored(change.request),
                applied_request=already_stored(change.applied_request),
                source={"kind": "code"} if call is None else {"kind": "action", "call": call},
                reason=reason,
                counts=change.outcome.applied,
                correction=already_stored(change.correction),
                hash_before=change.hash_before,
                hash_after=change.hash_after,
            ),
        )
        return True

    def replace_messages(self, start: int, stop: int, messages: Sequence[Any], why: str) -> None:
        """Record that messages[start:stop] of the conversation became others."""
        data = MessagesReplacedData(start=start, stop=stop, messages=list(messages), why=why)
        self._add("messages.replaced", data)

    # -- the end -----------------------------------------------------------------------------------------

    def fail_with(self, error: Mapping[str, Any] | str) -> None:
        """Add the error that ended the run to its last event."""
        self.note(error=error_info(error))


def error_info(error: Any, default: str = "Error") -> ErrorInfo:
    """An error of the file: a text, or an object with `message` and `traceback`.

    Its type is the one that the message begins with, as in `ValueError('no tea')`.
    """
    message = error.get("message") if type(error) is dict else error
    traceback = error.get("traceback") if type(error) is dict else None
    text = clean_text(message) if type(message) is str else repr(error)[:1000]
    name, bracket, _ = text.partition("(")
    typed = bool(bracket) and all(part.isidentifier() for part in name.split("."))
    return ErrorInfo(
        type=name if typed else default,
        message=text,
        traceback=clean_text(traceback) if type(traceback) is str else None,
    )
