"""The tool seam: each tool that runs is a call of the run, keyed by round, place in the message and attempt.

The seam is the SDK's middleware around a tool: it puts a `RecordedTool` in the place of the tool that was chosen, so
what is around it (hooks, other middleware, metrics, the order of results) is the SDK's own in a replay, too. A tool's
id for a call is no key: ids come twice in one message, and a retry has the same. So the place in the model's message
and the attempt are told with each call.

A tool may do more than give a result: stream, fail while it gives a result, ask a person, have the agent stop. Such a
call is recorded as a stream of items, each a dict with one of the keys below; a plain result is recorded as it is.

Some tools steer the loop that runs them: the one that takes structured output, a swarm's handoff. Answering them from
a log would leave the loop where it was; so they are recorded as all others, and run in a replay all the same. An agent
as a tool is no call at all: its own run is recorded, as a child.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strands import Agent
from strands.interrupt import Interrupt, InterruptException
from strands.types._events import ToolInterruptEvent, ToolResultEvent, ToolStreamEvent
from strands.types.tools import AgentTool, ToolSpec, ToolUse

from ..calls import Call, Effect, check_safety
from ..effects import effect_of
from ..encoding import encode
from ..scope import Scope, current
from .strands_calls import SdkCall, answer_to, stand_in
from .strands_deeds import Deeds, redo
from .strands_model import ERRORS

if TYPE_CHECKING:
    from .strands_agents import AgentRun

RESULT: Final = "toolResult"
RAW: Final = "rawResult"
STREAMED: Final = "streamed"
VALUE: Final = "value"
ASKED: Final = "interrupts"
DID: Final = "did"
"""The keys of items: the result, one that has not the shape of results, what is streamed on the way, a value of a tool
that speaks no events, questions to a person, and what the tool did beside its result."""

STEERING_MODULES: Final = ("strands.tools.structured_output.", "strands.multiagent.", "strands.vended_tools.stop")
"""Tools of these modules steer the loop that runs them."""


@dataclass(frozen=True, slots=True)
class Place:
    """Which of the model's requests a tool call is.

    Attributes:
        index: its place among the tool uses of the message, from 0; None if it is in none.
        attempt: how often it has been tried, from 1.
    """

    index: int | None
    attempt: int


place: ContextVar[Place] = ContextVar("agentreplay_strands_place", default=Place(None, 1))  # noqa: B039  # immutable
"""That of the tool which the running task calls."""


class RecordedTool(AgentTool):
    """A tool whose work is a call of the run around it; else it is the tool.

    Args:
        tool: the tool.
        run: around it.
    """

    def __init__(self, tool: AgentTool, run: AgentRun) -> None:
        super().__init__()
        self._tool = tool
        self._run = run

    @property  # type: ignore[misc]  # nobody writes it
    def __class__(self) -> type[Any]:
        """That of the tool, for middleware further in that asks for it."""
        return type(self._tool)

    @property
    def tool_name(self) -> str:
        """Of the tool."""
        return self._tool.tool_name

    @property
    def tool_spec(self) -> ToolSpec:
        """Of the tool."""
        return self._tool.tool_spec

    @property
    def tool_type(self) -> str:
        """Of the tool."""
        return self._tool.tool_type

    @property
    def supports_hot_reload(self) -> bool:
        """Of the tool."""
        return self._tool.supports_hot_reload

    @property
    def is_dynamic(self) -> bool:
        """Of the tool."""
        return self._tool.is_dynamic

    def mark_dynamic(self) -> None:
        """Mark the tool."""
        self._tool.mark_dynamic()

    def get_display_properties(self) -> dict[str, str]:
        """Of the tool."""
        return self._tool.get_display_properties()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    async def stream(
        self, tool_use: ToolUse, invocation_state: dict[str, Any], **kwargs: Any
    ) -> AsyncGenerator[Any, None]:
        """What the tool gives, recorded; or what it gave while it was recorded."""
        scope = current.get() or self._run.scope
        call = self._call(tool_use, scope)
        work = _Work(self._tool, tool_use, invocation_state, kwargs, self._run.agent)
        if is_steering(self._tool, self._run.steering):
            async for event in self._steer(call, work):
                yield event
            return
        given = await answer_to(call, work.begin)
        self._run.state.follow()
        if not inspect.isasyncgen(given):
            yield ToolResultEvent(work.result if work.has_result else result_of(given, tool_use))
            return
        result: Any = None
        has_result = is_raised = False
        asked_for: list[Interrupt] = []
        try:
            async for item in given:
                self._run.state.follow()
                match item:
                    case {"streamed": data}:
                        yield work.passing or ToolStreamEvent(tool_use, data)
                    case {"value": value}:
                        yield value
                    case {"did": did}:
                        if not work.is_done:
                            self._run.redo(did, invocation_state)
                    case {"interrupts": [*asked], **rest}:
                        asked_for, is_raised = [work.asked_for(one) for one in asked], bool(rest.get("raised"))
                    case _:
                        result, has_result = (work.result if work.has_result else result_of(item, tool_use)), True
        except Exception as error:
            self._run.state.follow()
            told: Any = stand_in(error)
            if not has_result:
                if told is error:
                    raise
                raise told from error.__cause__
            yield ToolResultEvent(result, exception=told)
            return
        finally:
            await given.aclose()
        if is_raised:
            raise InterruptException(asked_for[0])
        if asked_for:
            yield ToolInterruptEvent(tool_use, asked_for)
        elif has_result:
            yield ToolResultEvent(result)

    async def _steer(self, call: Call, work: _Work) -> AsyncIterator[Any]:
        """Run a tool that steers the loop, whether its call is answered or not."""
        answer = await call.acalled()
        result: Any = None
        async for event in self._tool.stream(work.tool_use, work.invocation_state, **work.kwargs):
            if isinstance(event, ToolResultEvent):
                result = event
                break
            yield event
        if answer is None:
            error = None if result is None else result.exception
            await (
                call.areturned(None if result is None else result.tool_result) if error is None else call.araised(error)
            )
        else:
            await _drained(answer)
        if result is not None:
            yield ToolResultEvent(result.tool_result, exception=result.exception)

    def _call(self, tool_use: ToolUse, scope: Scope) -> Call:
        asked = place.get()
        told: dict[str, Any] = {"tool_call": str(tool_use.get("toolUseId")), "attempt": asked.attempt}
        if asked.index is not None:
            told["index"] = asked.index
        given = tool_use["input"]
        if not given and (raw := self._run.raw_input_of(asked.index)) is not None:
            told["raw"] = raw
        arguments = dict(given) if isinstance(given, Mapping) else {"input": given}
        return SdkCall(self._run.effect_of(self._tool), scope, arguments, None, told)


class _Work:
    """What one attempt of a tool does, as items of a stream or as a plain result.

    Args:
        tool, tool_use, invocation_state, kwargs: as for the tool's `stream`.
        agent: that runs it.

    Attributes:
        passing: the very event that an item tells of, while that is on its way; None where it comes from a log.
        result, has_result: the very object that the tool gave, which goes on as it is, whatever its shape; nothing
            where the call is answered from a log or by a person.
        is_done: whether the tool is run here, so that what it does is done.
    """

    def __init__(
        self, tool: AgentTool, tool_use: ToolUse, invocation_state: dict[str, Any], kwargs: dict[str, Any], agent: Agent
    ) -> None:
        self.tool = tool
        self.tool_use = tool_use
        self.invocation_state = invocation_state
        self.kwargs = kwargs
        self.passing: ToolStreamEvent | None = None
        self.result: Any = None
        self.has_result = False
        self.is_done = False
        self._agent = agent
        self._interrupts: dict[str, Interrupt] = {}

    async def begin(self) -> Any:
        """The result, if the tool gives nothing else; else a generator of items."""
        self.is_done = True
        before = Deeds.of(self._agent, self.invocation_state)
        events = self.tool.stream(self.tool_use, self.invocation_state, **self.kwargs)
        try:
            first: Any = await anext(events)
        except StopAsyncIteration:
            return self._items((), events, before)
        except InterruptException as interrupt:
            return self._items((interrupt,), events, before)
        is_plain = isinstance(first, ToolResultEvent) and first.exception is None
        if is_plain and before.since(self._agent, self.invocation_state) is None:
            await _closed(events)
            return self._gave(first.tool_result)
        return self._items((first,), events, before)

    async def _items(self, first: tuple[Any, ...], events: Any, before: Deeds) -> AsyncGenerator[Any, None]:
        """What the tool gives, item by item; raises its error behind the result that it gave for that."""
        try:
            async for event in _chained(first, events):
                if isinstance(event, ToolResultEvent):
                    if (did := before.since(self._agent, self.invocation_state)) is not None:
                        yield {DID: did}
                    recorded = self._gave(event.tool_result)
                    yield recorded if RAW in recorded else {RESULT: recorded}
                    if event.exception is not None:
                        raise event.exception
                    return
                if isinstance(event, ToolInterruptEvent | InterruptException):
                    if (did := before.since(self._agent, self.invocation_state)) is not None:
                        yield {DID: did}
                    raised = isinstance(event, InterruptException)
                    asked = [event.interrupt] if isinstance(event, InterruptException) else event.interrupts
                    self._interrupts.update({one.id: one for one in asked})
                    told = [{"id": one.id, "name": one.name, "reason": one.reason} for one in asked]
                    yield {ASKED: told, **({"raised": True} if raised else {})}
                    return
                if isinstance(event, ToolStreamEvent):
                    self.passing = event
                    yield {STREAMED: telling(event["tool_stream_event"]["data"])}
                else:
                    yield {VALUE: event}
            if (did := before.since(self._agent, self.invocation_state)) is not None:
                yield {DID: did}
        finally:
            await _closed(events)

    def _gave(self, result: Any) -> Any:
        """Keep the tool's result; as it is recorded."""
        self.result, self.has_result = result, True
        return result if is_whole(result) else {RAW: result}

    def asked_for(self, told: Mapping[str, Any]) -> Interrupt:
        """The very question that the tool asked, or one like it."""
        known = self._interrupts.get(told["id"])
        return known or Interrupt(told["id"], told["name"], told.get("reason"))


async def _chained(first: tuple[Any, ...], events: Any) -> AsyncIterator[Any]:
    for event in first:
        yield event
    while True:
        try:
            event = await anext(events)
        except StopAsyncIteration:
            return
        except InterruptException as interrupt:
            event = interrupt
        yield event


async def _closed(events: Any) -> None:
    if hasattr(events, "aclose"):
        await events.aclose()


async def _drained(answer: Any) -> None:
    """Take an answer for the sake of its turn."""
    try:
        given = await answer.agive()
        if inspect.isasyncgen(given):
            async for _ in given:
                pass
    except Exception:  # it is the tool's own, which has run
        return


# -- values --------------------------------------------------------------------------------------------


def is_whole(result: Any) -> bool:
    """Whether a result has the shape of one: with the call's id, a status, and a list as its content."""
    return (
        isinstance(result, Mapping)
        and "toolUseId" in result
        and "status" in result
        and isinstance(result.get("content"), list)
    )


def result_of(given: Any, tool_use: ToolUse) -> Any:
    """The result of a tool: as recorded, or made of what a person has given: a text, JSON, or content."""
    if isinstance(given, Mapping) and set(given) == {RAW}:
        return given[RAW]
    if isinstance(given, Mapping) and set(given) == {RESULT}:
        given = given[RESULT]
    if is_whole(given):
        return given
    if isinstance(given, Mapping) and isinstance(given.get("content"), list):
        return {"toolUseId": tool_use["toolUseId"], "status": "success", **given}
    content = {"text": given} if isinstance(given, str) else {"json": given}
    return {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [content]}


def telling(data: Any, depth: int = 6) -> Any:
    """What a tool streams, as plain data that can be recorded: live objects in it are described."""
    if data is None or isinstance(data, bool | int | float | str | bytes):
        return data
    if depth and isinstance(data, Mapping):
        return {str(key): telling(value, depth - 1) for key, value in data.items()}
    if depth and isinstance(data, list | tuple):
        return [telling(value, depth - 1) for value in data]
    return data if not encode(data).lossy else f"<{type(data).__module__}.{type(data).__qualname__}>"


def is_steering(tool: AgentTool, named: Collection[str]) -> bool:
    """Whether a tool steers the loop that runs it."""
    function = getattr(tool, "_tool_func", None)
    modules = (type(tool).__module__ + ".", getattr(function, "__module__", "") or "")
    return tool.tool_name in named or any(module.startswith(STEERING_MODULES) for module in modules)


def effect_for(tool: AgentTool, safety: Mapping[str, Any], steering: Collection[str]) -> Effect:
    """A tool as an effect: its safety is what the recorder was told, or what its function was made with `ar.tool`.

    One that steers the loop is run in every replay, so it is pure unless somebody says otherwise.
    """
    declared = effect_of(getattr(tool, "_tool_func", None))
    assumed = "pure" if is_steering(tool, steering) else None
    said = safety.get(tool.tool_name, assumed if declared is None else declared.safety)
    return Effect("tool", tool.tool_name, check_safety(said), raises=ERRORS)


async def unknown_tool(tool_use: ToolUse, run: AgentRun) -> None:
    """Record that the model asked for a tool that there is not; the SDK tells the model so."""
    asked = place.get()
    told = {"tool_call": str(tool_use.get("toolUseId")), "index": asked.index, "attempt": asked.attempt}
    arguments = dict(tool_use["input"]) if isinstance(tool_use["input"], Mapping) else {"input": tool_use["input"]}
    effect = Effect("tool", str(tool_use["name"]), "pure")
    call = SdkCall(effect, current.get() or run.scope, arguments, None, told)
    answer = await call.acalled()
    if answer is not None:
        await _drained(answer)
        return
    await call.araised(LookupError(f"Unknown tool: {tool_use['name']}"))


__all__ = [
    "Place",
    "RecordedTool",
    "effect_for",
    "is_steering",
    "place",
    "redo",
    "result_of",
    "unknown_tool",
]
