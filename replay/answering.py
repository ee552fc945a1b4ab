"""Answers from the log: a call's recorded outcome, in the form and with the type in which the agent got it."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, Any

from ..recorder.calls import Call
from ..recorder.errors import LossyAnswer, UnknownType
from ..recorder.events import Event
from .answered_streams import AnsweredStream
from .answers import AnswerTypes
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
        if self._run.script.is_never_used(self._recorded):
            form = "coroutine"
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
        ended = self._run.course.turns.take(self._run, self._recorded)
        self._run.beside.given(self._recorded, awaited=False)
        return self._outcome(ended)

    async def agive(self) -> Any:
        """Return or raise what was awaited."""
        form = None if self._recorded.ended is None else getattr(self._recorded.ended.data, "form", None)
        if form == "async generator":
            return self.astream()
        if form == "generator":
            return self.stream()
        try:
            ended = await self._run.course.turns.atake(self._run, self._recorded)
        finally:
            self._run.beside.given(self._recorded, awaited=True)
        return self._outcome(ended)

    def stream(self) -> Generator[Any, Any, Any]:
        """The items that the generator gave, and what it returned."""
        ended = self._run.course.turns.take(self._run, self._recorded)
        stream = AnsweredStream(self._run, self._recorded, ended)
        self._run.to_redo.until(ended)
        for number, chunk in enumerate(self._chunks(ended), 1):
            stream.reads(number)
            try:
                stream.is_given((yield chunk))
            except GeneratorExit:
                stream.is_left()
                raise
            except BaseException as error:
                stream.is_thrown(error)
        stream.is_read_on()
        return self._end_of(stream, ended)

    async def astream(self) -> AsyncGenerator[Any, Any]:
        """The items that the async generator gave, each in its turn."""
        turns = self._run.course.turns
        ended = self._recorded.ended
        stream = AnsweredStream(self._run, self._recorded, ended)
        for number, chunk in enumerate(self._chunks(ended) if ended is not None else ()):
            await turns.achunk(self._run, self._recorded, number)
            self._run.to_redo.before_item(self._recorded, number)
            stream.reads(number + 1)
            try:
                stream.is_given((yield chunk))
            except GeneratorExit:
                stream.is_left()
                await turns.aclosed(self._run, self._recorded)
                raise
            except BaseException as error:
                stream.is_thrown(error)
        stream.is_read_on()
        self._end_of(stream, await turns.atake(self._run, self._recorded))

    def _end_of(self, stream: AnsweredStream, ended: Event) -> Any:
        """Return what the stream returned, or raise what it raised; that is the consumer's own if it threw it."""
        if ended.kind in ("model.failed", "tool.failed") and stream.raises_what_was_thrown(ended.data.error):
            self._run.to_redo.until(ended)
            assert stream.thrown is not None
            raise stream.thrown
        return self._outcome(ended)

    def _future(self) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            future.set_result(self._outcome(self._run.course.turns.take(self._run, self._recorded)))
        except Exception as error:
            future.set_exception(error)
        return future

    def _chunks(self, ended: Event) -> list[Any]:
        stream = getattr(ended.data, "stream", None)
        if not stream:
            return []
        if dropped := getattr(ended.data, "dropped", 0):
            self._run.course.stop(
                LossyAnswer(f"{self._where}: of the stream, the last {dropped:,} items were not kept", effect=self.call)
            )
        try:
            return self._types.chunks(stream, self._where)
        except (UnknownType, LossyAnswer) as error:
            self._run.course.stop(error)

    def _outcome(self, ended: Event) -> Any:
        """Return or raise what was recorded. What cannot be given as the agent got it stops the code instead."""
        self._run.to_redo.until(ended)
        if ended.kind == "call.cancelled":
            raise asyncio.CancelledError
        try:
            if ended.kind in ("model.failed", "tool.failed"):
                error = self._types.error(ended.data.error, self._where)
                self._run.course.error_lacks(self._types.lacks(ended.data.error, error, self._where))
            else:
                name = "response" if ended.kind == "model.returned" else "result"
                return self._types.value(getattr(ended.data, name), self._where)
        except (UnknownType, LossyAnswer) as unanswerable:
            self._run.course.stop(unanswerable)
        raise error
