"""An answer that a person gave, or that is used again, in the place of a call that would be made.

The code gets it in the form in which the call gave its own: a coroutine is awaited, a generator is read. It stands in
the log in that form, too, so that the run replays.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import AsyncGenerator, Generator
from typing import Any, Literal, NamedTuple, TypeAlias

from ..recorder.calls import Call
from ..recorder.copying import copy_value
from ..recorder.events import Data, ModelReturnedData, ToolReturnedData
from ..recorder.writer import on_event_loop
from .fitting import fitted
from .script import RecordedCall

Mark: TypeAlias = Literal["edited", "assumed", "reused"]
"""Where an answer comes from that is not the call's own, as its last event says."""


class Given(NamedTuple):
    """What a call gives without being made.

    Attributes:
        value: its result.
        items: what it gives one by one, if it is a stream.
        form: as what a plain function gives an answer for later, as in its last event; None where it gives it at once.
    """

    value: Any
    items: list[Any] | None = None
    form: str | None = None


def given_for(call: Call, value: Any, recorded: RecordedCall | None) -> Given:
    """A value that somebody gave for a call, in the form in which the recorded one gave its own.

    Of a stream a list is its items, null is a stream without any, and anything else is its one item.

    Args:
        call: the code's.
        value: what was given.
        recorded: the call that it was given for, if there is one.

    Raises:
        UsageError: it does not fit the type of what the recorded one gave.
    """
    value = fitted(value, recorded, call.effect, call.fn)
    call.accepts(value)
    ended = None if recorded is None or recorded.ended is None else recorded.ended.data
    form = getattr(ended, "form", None)
    streams = inspect.isgeneratorfunction(call.fn) or inspect.isasyncgenfunction(call.fn)
    if not streams and getattr(ended, "stream", None) is None:
        return Given(value, None, form)
    if value is None:
        return Given(None, [], form)
    return Given(None, [*value] if isinstance(value, list | tuple) else [value], form)


def append_end(call: Call, id: str, given: Given, mark: Mark) -> GivenAnswer:
    """Append how a call has ended that is not made.

    Args:
        call: the code's, in a run that is live.
        id: of the call in the log.
        given: the answer.
        mark: where it comes from.
    """
    kind, recorder = call.effect.kind, call.scope.recorder

    def make() -> Data:
        told: dict[str, Any] = {"call": id, "stream": given.items, mark: True, **_turns(call, given)}
        if given.form is not None:
            told["form"] = given.form
        if kind == "model":
            return ModelReturnedData(response=given.value, **told)
        return ToolReturnedData(result=given.value, **told)

    recorder.log.emit(f"{kind}.returned", make, scope=call.scope)
    if kind == "tool":
        recorder.measured.count_tool(call.effect.name, 0.0, True)
    return GivenAnswer(id, given)


def _turns(call: Call, given: Given) -> dict[str, Any]:
    """When the answer reaches the agent, as a call that is made would say: at its own turns, or at once."""
    if call.scope.within is not None:
        return {}
    log, told = call.scope.recorder.log, dict[str, Any]()
    if on_event_loop():
        told["inline"] = at_once = not call.is_awaited and given.form in (None, "generator")
        if given.items and not at_once:
            told["turns"] = [log.turn() for _ in given.items]
    return {**told, "turn": log.turn_of_event()}


class GivenAnswer:
    """An answer that was given or taken from elsewhere, in place of making a call; see `attaching.Answer`."""

    def __init__(self, call: str, given: Given) -> None:
        self.call = call
        self._given = Given(given.value, None if given.items is None else copy_value(given.items), given.form)

    def give(self) -> Any:
        """The value, or what gives it."""
        match self._given.form:
            case "coroutine":
                return self.agive()
            case "future":
                return asyncio.ensure_future(self.agive())
            case "thread future":
                future: concurrent.futures.Future[Any] = concurrent.futures.Future()
                future.set_result(self._given.value)
                return future
            case "async generator":
                return self.astream()
        return self._given.value if self._given.items is None else self.stream()

    async def agive(self) -> Any:
        """The value, or the stream that gives it."""
        if self._given.form == "async generator":
            return self.astream()
        return self._given.value if self._given.items is None else self.stream()

    def stream(self) -> Generator[Any, Any, Any]:
        """The items, then the value."""
        yield from self._given.items or ()
        return self._given.value

    async def astream(self) -> AsyncGenerator[Any, Any]:
        """The items."""
        for item in self._given.items or ():
            yield item
