"""Effects: calls that touch the world, made recordable without changing what they do.

A wrapped callable does what it did before. When a run is active around it, it also appends `*.called`, committed before
the callable runs, and `*.returned` or `*.failed` after. Outside of a run it costs one lookup. What comes back is the
object itself; exceptions are raised as they are. Coroutines, generators and async generators stay what they are, and
their events are appended as they are driven: an abandoned generator is one that returned what it had given so far.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, get_args

from .copying import copy_value
from .errors import UsageError
from .events import (
    CallCancelledData,
    CallFailedData,
    CallKind,
    Data,
    ModelCalledData,
    ModelReturnedData,
    Safety,
    ToolCalledData,
    ToolReturnedData,
)
from .run_recorder import RunRecorder, error_info
from .scope import Scope, current, entered

Function = TypeVar("Function", bound=Callable[..., Any])

STREAM_LIMIT: Final = 100_000
"""Chunks of one stream that are kept; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What is known of an effect besides the callable.

    Attributes:
        kind: "model" or "tool".
        name: as events show it.
        safety: for tools: pure, idempotent, compensable or irreversible; None when not declared.
        model: for models: the model's name, unless the call has a `model` argument.
        returns, raises: types of its results and errors, for replaying.
        compensate: undoes a compensable tool's work.
    """

    kind: CallKind
    name: str
    safety: Safety | None = None
    model: str | None = None
    returns: Any = None
    raises: tuple[type[BaseException], ...] = ()
    compensate: Callable[..., Any] | None = None


@dataclass(slots=True)
class Call:
    """One call of an effect in a run: builds its events."""

    effect: Effect
    recorder: RunRecorder
    outer: Scope
    arguments: Any
    model: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    round: int = 0
    started: float = 0.0

    def called(self) -> tuple[str, Data]:
        """The event before the effect, and the start of its clock."""
        self.id, self.round = self.recorder.next_call(self.effect.kind, self.outer.within)
        self.started = time.perf_counter()
        if self.effect.kind == "tool":
            return "tool.called", ToolCalledData(
                call=self.id,
                name=self.effect.name,
                arguments=self.arguments,
                safety=self.effect.safety,
                **self.extra,
            )
        return "model.called", ModelCalledData(
            call=self.id,
            name=self.effect.name,
            model=self.model or self.effect.model or _model_of(self.arguments),
            parameters=self.parameters,
            request=self.arguments,
            **self.extra,
        )

    def returned(self, value: Any, stream: list[Any] | None = None, **extra: Any) -> tuple[str, Data]:
        """The event after it, with what came back."""
        duration = self._count(True)
        if self.effect.kind == "tool":
            return "tool.returned", ToolReturnedData(
                call=self.id, result=value, stream=stream, duration=duration, **extra
            )
        if self.outer.within is None:
            self.recorder.last_model_call = self.round, self.id
        usage = usage_of(value)
        self.recorder.usage.update({key: n for key, n in (usage or {}).items() if type(n) is int})
        if usage:
            size = usage.get("input_tokens", usage.get("prompt_tokens", usage.get("inputTokens")))
            self.recorder.context_size = size if type(size) is int else self.recorder.context_size
        return "model.returned", ModelReturnedData(
            call=self.id,
            response=value,
            stream=stream,
            usage=usage,
            stop_reason=_stop_reason_of(value),
            duration=duration,
            **extra,
        )

    def failed(self, error: BaseException, stream: list[Any] | None = None) -> tuple[str, Data]:
        """The event after it, with what was raised."""
        duration = self._count(False)
        if isinstance(error, asyncio.CancelledError):
            return "call.cancelled", CallCancelledData(call=self.id)
        return f"{self.effect.kind}.failed", CallFailedData(
            call=self.id, error=error_info(error), stream=stream, duration=duration
        )

    def _count(self, success: bool) -> float:
        duration = time.perf_counter() - self.started
        if self.effect.kind == "tool":
            empty = {"callCount": 0, "successCount": 0, "errorCount": 0, "totalTime": 0.0}
            counts = self.recorder.tools.setdefault(self.effect.name, empty)
            counts["callCount"] += 1
            counts["successCount" if success else "errorCount"] += 1
            counts["totalTime"] += duration
        return duration

    def emit(self, kind: str, data: Data) -> None:
        """Append one of the call's events."""
        with entered(self.outer):
            self.recorder.emit(kind, data, round=self.round)

    async def aemit(self, kind: str, data: Data) -> None:
        """Append one of the call's events, awaiting the commit."""
        with entered(self.outer):
            await self.recorder.aemit(kind, data, round=self.round)

    @property
    def inside(self) -> Scope:
        """The scope of what happens inside the call."""
        return self.outer.inside(self.id)


def perform(call: Call, fn: Callable[[], Any]) -> Any:
    """Make a call of a plain function and record it; generators and awaitables that it returns are recorded as used."""
    call.emit(*call.called())
    try:
        with entered(call.inside):
            value = fn()
    except BaseException as error:
        call.emit(*call.failed(error))
        raise
    if inspect.isgenerator(value):
        return _record_generator(call, value)
    if inspect.isasyncgen(value):
        return _record_async_generator(call, value)
    if inspect.isawaitable(value):
        return _record_awaitable(call, value)
    call.emit(*call.returned(value))
    return value


async def aperform(call: Call, fn: Callable[[], Any]) -> Any:
    """Make a call of a function that may return an awaitable, await it, and record it."""
    await call.aemit(*call.called())
    try:
        with entered(call.inside):
            value = fn()
            if inspect.isawaitable(value):
                value = await value
    except BaseException as error:
        call.emit(*call.failed(error))  # a cancelled task may not await any more
        raise
    if inspect.isgenerator(value):
        return _record_generator(call, value)
    if inspect.isasyncgen(value):
        return _record_async_generator(call, value)
    await call.aemit(*call.returned(value))
    return value


async def _record_awaitable(call: Call, awaitable: Awaitable[Any]) -> Any:
    try:
        with entered(call.inside):
            value = await awaitable
    except BaseException as error:
        call.emit(*call.failed(error))
        raise
    await call.aemit(*call.returned(value))
    return value


def _record_generator(call: Call, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Drive a generator for its consumer, `send`, `throw` and `close` included."""
    stream = _Stream()
    step: Callable[[], Any] = functools.partial(next, generator)
    while True:
        try:
            with entered(call.inside):
                item = step()
        except StopIteration as stop:
            call.emit(*call.returned(stop.value, stream.chunks, **stream.extra()))
            return stop.value
        except BaseException as error:
            call.emit(*call.failed(error, stream.chunks))
            raise
        stream.add(item)
        try:
            sent = yield item
        except GeneratorExit:
            with entered(call.inside):
                generator.close()
            call.emit(*call.returned(None, stream.chunks, abandoned=True, **stream.extra()))
            raise
        except BaseException as error:
            step = functools.partial(generator.throw, error)
        else:
            step = functools.partial(generator.send, sent)


async def _record_async_generator(call: Call, generator: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, Any]:
    """Drive an async generator for its consumer."""
    stream = _Stream()
    step: Callable[[], Awaitable[Any]] = functools.partial(anext, generator)
    while True:
        try:
            with entered(call.inside):
                item = await step()
        except StopAsyncIteration:
            await call.aemit(*call.returned(None, stream.chunks, **stream.extra()))
            return
        except BaseException as error:
            call.emit(*call.failed(error, stream.chunks))
            raise
        stream.add(item)
        try:
            sent = yield item
        except GeneratorExit:
            with entered(call.inside):
                await generator.aclose()
            call.emit(*call.returned(None, stream.chunks, abandoned=True, **stream.extra()))
            raise
        except BaseException as error:
            step = functools.partial(generator.athrow, error)
        else:
            step = functools.partial(generator.asend, sent)


@dataclass(slots=True)
class _Stream:
    """The chunks of a stream, frozen as they pass."""

    chunks: list[Any] = field(default_factory=list)
    dropped: int = 0

    def add(self, item: Any) -> None:
        if len(self.chunks) >= STREAM_LIMIT:
            self.dropped += 1
            return
        # A consumer may mutate a chunk that it was given; the record keeps it as it was.
        self.chunks.append(copy_value(item))

    def extra(self) -> dict[str, Any]:
        return {"dropped": self.dropped} if self.dropped else {}


# -- wrapping ----------------------------------------------------------------------------------------


def wrap_effect(fn: Function, effect: Effect) -> Function:
    """Make a callable an effect. The wrapper is of the same sort: a coroutine function stays one, and so on."""
    bind = _binder(fn)

    def start(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        scope = current.get()
        if scope is None or not scope.recorder.recording:
            return None
        return Call(effect, scope.recorder, scope, bind(args, kwargs))

    if inspect.iscoroutinefunction(fn):

        @functools.wraps(fn)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            call = start(args, kwargs)
            if call is None:
                return await fn(*args, **kwargs)
            return await aperform(call, functools.partial(fn, *args, **kwargs))

        wrapper: Callable[..., Any] = coroutine
    elif inspect.isasyncgenfunction(fn):

        @functools.wraps(fn)
        async def async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            call, inner = start(args, kwargs), fn(*args, **kwargs)
            if call is not None:
                await call.aemit(*call.called())
                inner = _record_async_generator(call, inner)
            step: Awaitable[Any] = anext(inner)
            while True:  # what `yield from` does, which async generators lack
                try:
                    item = await step
                except StopAsyncIteration:
                    return
                try:
                    sent = yield item
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:
                    step = inner.athrow(error)
                else:
                    step = inner.asend(sent)

        wrapper = async_generator
    elif inspect.isgeneratorfunction(fn):

        @functools.wraps(fn)
        def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            call = start(args, kwargs)
            inner = fn(*args, **kwargs)
            if call is not None:
                call.emit(*call.called())
                inner = _record_generator(call, inner)
            return (yield from inner)

        wrapper = generator
    else:

        @functools.wraps(fn)
        def function(*args: Any, **kwargs: Any) -> Any:
            call = start(args, kwargs)
            if call is None:
                return fn(*args, **kwargs)
            return perform(call, functools.partial(fn, *args, **kwargs))

        wrapper = function
    wrapper.__agentreplay_effect__ = effect  # type: ignore[attr-defined]  # functions take attributes
    return wrapper  # type: ignore[return-value]  # same signature as fn, by construction


def effect_of(fn: Any) -> Effect | None:
    """The effect that a callable was made, or None."""
    found = getattr(fn, "__agentreplay_effect__", None)
    return found if isinstance(found, Effect) else None


def _binder(fn: Callable[..., Any]) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """How to name a call's arguments: by the signature, `self` excluded, defaults not filled in."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return lambda args, kwargs: {**({"args": list(args)} if args else {}), **kwargs}
    parameters = signature.parameters
    first = next(iter(parameters), None)
    own = first if first in ("self", "cls") else None
    rest = next((p.name for p in parameters.values() if p.kind is p.VAR_KEYWORD), None)

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            named = dict(signature.bind(*args, **kwargs).arguments)
        except TypeError:  # the call itself will raise the same, in the user's words
            return {"args": list(args), **kwargs}
        if own is not None:
            named.pop(own, None)
        if rest is not None:
            named.update(named.pop(rest, {}))
        return {name: list(value) if type(value) is tuple and _is_var(name) else value for name, value in named.items()}

    def _is_var(name: str) -> bool:
        parameter = parameters.get(name)
        return parameter is not None and parameter.kind is inspect.Parameter.VAR_POSITIONAL

    return bind


def check_safety(safety: str | None) -> Safety | None:
    """Refuse a word that is no safety.

    Raises:
        UsageError: naming the words there are.
    """
    if safety is None or safety in get_args(Safety):
        return safety  # type: ignore[return-value]  # checked on the line above
    raise UsageError(f'safety is one of {", ".join(get_args(Safety))}, not "{safety}"')


# -- what a model's answer tells ---------------------------------------------------------------------


def _part(value: Any, *names: str) -> Any:
    """A field of a response, mapping or object, without running code of the user's own."""
    fields: Any = value if isinstance(value, dict) else getattr(value, "__dict__", None)
    if not isinstance(fields, dict):
        return None
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def usage_of(response: Any) -> dict[str, Any] | None:
    """The token usage that a response carries, in the provider's own words."""
    usage = _part(response, "usage", "usageMetadata", "usage_metadata")
    if isinstance(usage, Mapping):
        return dict(usage)
    fields = getattr(usage, "__dict__", None)
    if not isinstance(fields, dict):
        return None
    return {key: value for key, value in fields.items() if type(value) in (int, float)} or None


def _stop_reason_of(response: Any) -> str | None:
    found = _part(response, "stop_reason", "stopReason", "finish_reason")
    if found is None:
        choices = _part(response, "choices")
        found = _part(choices[0], "finish_reason") if isinstance(choices, list) and choices else None
    return found if isinstance(found, str) else None


def _model_of(request: Any) -> str | None:
    found = request.get("model") if isinstance(request, dict) else None
    return found if isinstance(found, str) else None
