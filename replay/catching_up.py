"""Where code goes on live, the log must say what the code has: what it lacks, or has too much of, is put right first.

The two are the same nearly always. They differ where a call was in flight when the recording ended and had changed
something by then: the call is made again, from the beginning, so what its first attempt changed is taken back. And they
differ in what ignore rules leave out. Events that follow build on the payload that the code has; without this, they
would not fit to the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..recorder.events import Data, MessagesReplacedData, PayloadChangedData
from ..recorder.payload import LATEST, STORED, difference
from ..recorder.values import already_stored, encode
from .equality import same

if TYPE_CHECKING:
    from ..recorder.run_recorder import RunRecorder
    from .state import RunState

REASON: Final = "brought to where the code is that goes on"


def catching_up(state: RunState, recorder: RunRecorder, by: str | None = None) -> list[tuple[str, Data]]:
    """The events, kind and data, that bring a log to where code is.

    Args:
        state: at the end of the log.
        recorder: the code's.
        by: the kind of the event that is appended next, which says by itself what it changes; see `instead_of`.
    """
    events: list[tuple[str, Data]] = []
    if by != "payload.changed" and recorder.payload.hash != state.payload_hash:
        events.append(("payload.changed", _changed(state, recorder)))
    if recorder.context is not None and by not in ("message.added", "messages.replaced"):
        messages = [*recorder.context.messages]
        if not same(recorder.store.redactor.redact(encode(messages).stored), list(state.stored_messages)):
            stop = len(state.stored_messages)
            replaced = MessagesReplacedData(start=0, stop=stop, messages=messages, why=REASON)
            events.append(("messages.replaced", replaced))
    return events


def instead_of(changed: Data, state: RunState, recorder: RunRecorder) -> Data:
    """A change of the payload, as it is to be appended: over another payload than the log has, it says all of it."""
    fits = isinstance(changed, PayloadChangedData) and changed.hash_before == state.payload_hash
    if fits:
        return changed
    said = {name: getattr(changed, name) for name in ("source", "reason", "warnings", "blocked")}
    return _changed(state, recorder).model_copy(update=said)


def _changed(state: RunState, recorder: RunRecorder) -> Data:
    payload = recorder.payload
    patch = difference(state.stored_payload, encode(payload.stored).stored, trees=STORED)
    return PayloadChangedData(
        applier={"name": "json-patch", "version": LATEST["json-patch"]},
        request=already_stored(patch),
        reason=REASON,
        hash_before=state.payload_hash,
        hash_after=payload.hash,
    )
