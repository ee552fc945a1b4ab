"""Answers from the log: a call's recorded outcome, in the form and with the type in which the agent got it."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, Any

from ..recorder.calls import Call
from ..recorder.errors import LossyAnswer, UnknownType
from ..recorder.events import Event
from .answers import AnswerTypes
from .divergence import Difference, value_difference
from .script import RecordedCall

if TYPE_CHECKING:
    from .recorded_run import RecordedRun


class RecordedAnswer:
    """Stands in for a call; see `attaching.Answer`.

    Args:
        run: the recording.
        recorded: the call in it.
        call: the code's.
    """

    def __init__(self, run: RecordedRun, recorded: RecordedCall, call: Call) -> None:
        self.call = recorded.call
        self._run = run
        self._recorded = recorded
        self._types = AnswerTypes.of(call.effect, call.fn)
        self._where = f"{run.info.id}, call {recorded.call} ({recorded.name})"

    def give(self) -> Any:
        """Return or raise what the callable did."""
        ended = self._recorded.ended
        form = None if ended is None else getattr(ended.data, "form", None)
        match form:
            case "coroutine":
                return self.agive()
            case "future":
                return asyncio.ensure_future(self.agive())
            case "thread future":
                return self._future()
            case "generator":
                return self.stream()
            case "async generator":
                return self.astream()
        return self._outcome(self._run.course.turns.take(self._run, self._recorded))

    async def agive(self) -> Any:
        """Return or raise what was awaited."""
        form = None if self._recorded.ended is None else getattr(self._recorded.ended.data, "form", None)
        if form == "async generator":
            return self.astream()
        if form == "generator":
            return self.stream()
        return self._outcome(await self._run.course.turns.atake(self._run, self._recorded))

    def stream(self) -> Generator[Any, Any, Any]:
        """The items that the generator gave, and what it returned."""
        ended = self._run.course.turns.take(self._run, self._recorded)
        chunks = self._chunks(ended)
        for number, chunk in enumerate(chunks, 1):
            try:
                yield chunk
            except GeneratorExit:
                self._left(ended, number, len(chunks))
                raise
        self._read_on(ended, len(chunks))
        return self._outcome(ended)

    async def astream(self) -> AsyncGenerator[Any, Any]:
        """The items that the async generator gave, each in its turn."""
        turns = self._run.course.turns
        ended = self._recorded.ended
        chunks = self._chunks(ended) if ended is not None else []
        for number, chunk in enumerate(chunks):
            await turns.achunk(self._run, self._recorded, number)
            self._run.open_streams[self] = number + 1, len(chunks)
            try:
                yield chunk
            except GeneratorExit:
                self._run.open_streams.pop(self, None)
                self._left(ended, number + 1, len(chunks))
                await turns.aclosed(self._run, self._recorded)
                raise
        self._run.open_streams.pop(self, None)
        self._read_on(ended, len(chunks))
        self._outcome(await turns.atake(self._run, self._recorded))

    def left_open(self, number: int, count: int) -> Difference | None:
        """What differs where the run ends while the code has read so many items, and has not closed the stream."""
        ended = self._recorded.ended
        if ended is None or number == count:
            return None
        return self._other_end(f"left after {number} of {count} items", ended)

    def _left(self, ended: Event | None, number: int, count: int) -> None:
        """The code leaves a stream; the recording may have read on."""
        if ended is not None and number < count:
            self._run.course.parts_while_closing(self._other_end(f"left after {number} of {count} items", ended))

    def _read_on(self, ended: Event | None, count: int) -> None:
        """The code wants another item; the recording may have left the stream."""
        if ended is not None and getattr(ended.data, "abandoned", False):
            self._run.course.parts(self._other_end(f"read on after {count} items, where the recording left it", ended))

    def _other_end(self, what: str, ended: Event) -> Difference:
        call = self._recorded
        return value_difference(
            "another outcome",
            "left" if getattr(ended.data, "abandoned", False) else "read to its end",
            what,
            step=call.called.round,
            seq=ended.seq,
            call=call.call,
            name=call.name,
            run=self._run.info.id,
        )

    def _future(self) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            future.set_result(self._outcome(self._run.course.turns.take(self._run, self._recorded)))
        except Exception as error:
            future.set_exception(error)
        return future

    def _chunks(self, ended: Event) -> list[Any]:
        self._run.redo(ended)
        stream = getattr(ended.data, "stream", None)
        if not stream:
            return []
        try:
            return self._types.chunks(stream, self._where)
        except (UnknownType, LossyAnswer) as error:
            self._run.course.stop(error)

    def _outcome(self, ended: Event) -> Any:
        """Return or raise what was recorded. What cannot be given as the agent got it stops the code instead."""
        self._run.redo(ended)
        if ended.kind == "call.cancelled":
            raise asyncio.CancelledError
        try:
            if ended.kind in ("model.failed", "tool.failed"):
                error = self._types.error(ended.data.error, self._where)
            else:
                name = "response" if ended.kind == "model.returned" else "result"
                return self._types.value(getattr(ended.data, name), self._where)
        except (UnknownType, LossyAnswer) as unanswerable:
            self._run.course.stop(unanswerable)
        raise error
