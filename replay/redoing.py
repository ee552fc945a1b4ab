"""What happened inside an answered call and changed the run's state, done again from the log.

A call that is answered is not made, so what it calls is not called either. But a tool may also change the payload, or
add to the conversation, and code that runs on builds on that. Such changes are done again when the answer is handed
out, in the order of the log: what several calls changed at a time comes out as it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from ..recorder.copying import copy_value
from ..recorder.errors import LossyAnswer, UnknownType
from ..recorder.events import Data, Event
from ..recorder.scope import Scope, TaskPath, entered
from .exactly import exactly

if TYPE_CHECKING:
    from ..recorder.run_recorder import RunRecorder
    from .recorded_run import RecordedRun
    from .script import RecordedCall

Redo = Callable[["RunRecorder", Event], None]


def redo(recorder: RunRecorder, event: Event) -> None:
    """Do again, in the scope that is entered, what an event says.

    Raises:
        UnknownType, LossyAnswer: the log does not have a value exactly.
    """
    REDONE[event.kind](recorder, event)


class ToRedo:
    """What is still to be done again of the calls of one run that are answered.

    Args:
        run: the recording.
    """

    def __init__(self, run: RecordedRun) -> None:
        self._run = run
        self._waiting: list[tuple[int, Event]] = []

    def add(self, events: Iterable[Event]) -> None:
        """Add what happened inside a call that is answered now."""
        for event in events:
            heappush(self._waiting, (event.seq, event))

    def until(self, until: Event, turn: int | None = None) -> None:
        """Do again what happened up to an event, which is how one of the calls has ended.

        Args:
            until: the event.
            turn: before that was taken, where the log says it.
        """
        while self._waiting and self._waiting[0][0] < until.seq:
            taken = getattr(self._waiting[0][1].data, "after_turn", None)
            if turn is not None and taken is not None and taken >= turn:
                return
            _, event = heappop(self._waiting)
            recorder = self._run.recorder
            assert recorder is not None  # it has made the call
            try:
                with entered(Scope(recorder, event.within, TaskPath(event.task))):
                    redo(recorder, event)
            except (UnknownType, LossyAnswer) as error:
                self._run.course.stop(error)

    def before_item(self, recorded: RecordedCall, number: int) -> None:
        """Do again what happened before an item of a stream, which has no event of its own.

        Of what does not say when it was, all counts as before it that comes before the next event which reached the
        agent: a tool changes something, then says so.
        """
        ended = recorded.ended
        assert ended is not None  # it has items
        turns = getattr(ended.data, "turns", None) or ()
        turn = turns[number] if number < len(turns) else None
        after = None if turn is None else self._run.script.end_after(turn)
        self.until(ended if after is None else after, turn)


def _payload(recorder: RunRecorder, event: Event) -> None:
    data: Any = event.data
    recorded = data.request if data.applied_request is None else data.applied_request
    request = exactly(recorded, f"the change of the payload in event {event.seq}")
    name = data.applier["name"]

    def make() -> Data:
        payload = recorder.payload
        change = payload.change(request, name, dict(data.options))
        if change.hash_after != data.hash_after and data.correction:
            payload.change(exactly(data.correction, f"the correction in event {event.seq}"), "json-patch", {})
        redone: Data = data.model_copy(update={"hash_before": change.hash_before, "hash_after": payload.hash})
        return redone

    recorder.emit("payload.changed", make)


def _message(recorder: RunRecorder, event: Event) -> None:
    data: Any = event.data
    recorder.context.messages.append(exactly(data.message, f"the message in event {event.seq}"))


def _messages(recorder: RunRecorder, event: Event) -> None:
    data: Any = event.data
    messages = exactly(data.messages, f"the messages in event {event.seq}")
    recorder.context.messages.replace(messages, data.start, data.stop, data.why)


def _scratchpad(recorder: RunRecorder, event: Event) -> None:
    data: Any = event.data
    recorder.context.note(copy_value(exactly(data.change, f"the notes in event {event.seq}")))


def _decision(recorder: RunRecorder, event: Event) -> None:
    data: Any = event.data
    recorder.decide(exactly(data.decision, f"the decision in event {event.seq}"), data.raw)


REDONE: Final[dict[str, Redo]] = {
    "payload.changed": _payload,
    "message.added": _message,
    "messages.replaced": _messages,
    "scratchpad.changed": _scratchpad,
    "step.decided": _decision,
}
"""Kinds of events that are done again."""
