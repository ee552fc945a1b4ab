"""Effects: calls that touch the world, made recordable without changing what they do.

A wrapped callable does what it did before. When a run is active around it, it also appends `*.called`, committed before
the callable runs, and `*.returned` or `*.failed` after. Outside of a run it costs one lookup. What comes back is the
object itself; exceptions are raised as they are. Coroutines, generators and async generators stay what they are, and
their events are appended as they are driven: an abandoned generator is one that returned what it had given so far.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import nullcontext
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Final, TypeVar

from .attaching import may_be_made_late, may_be_made_outside
from .binding import binder
from .calls import Call, Effect
from .introspection import is_awaitable
from .scope import current, entered
from .signals import RecordingStopped

Function = TypeVar("Function", bound=Callable[..., Any])

_FUTURES = (asyncio.Future, concurrent.futures.Future)


def perform(call: Call, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make a call of a plain function and record it; what it returns for later is recorded as it is used."""
    if (answer := call.called()) is not None:
        return answer.give()
    try:
        with entered(call.inside):
            value = fn(*args, **kwargs)
    except BaseException as error:
        call.raised(error)
        raise
    if type(value) is CoroutineType:
        call.gives("coroutine")
        return _record_coroutine(call, value)
    if issubclass(type(value), _FUTURES):
        call.gives("future" if issubclass(type(value), asyncio.Future) else "thread future")
        value.add_done_callback(functools.partial(_record_future, call))
        return value
    if (driven := _driven(call, value)) is not None:
        return driven
    call.returned(value)
    return value


async def aperform(call: Call, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make a call of a function that may return an awaitable, await it, and record it."""
    try:
        answer = await call.acalled()
    except BaseException as error:
        await call.araised(error)
        raise
    if answer is not None:
        return await answer.agive()
    try:
        with entered(call.inside):
            value = fn(*args, **kwargs)
            if is_awaitable(value):
                value = await value
    except BaseException as error:
        await call.araised(error)
        raise
    if (driven := _driven(call, value)) is not None:
        return driven
    await call.areturned(value)
    return value


def _driven(call: Call, value: Any) -> Any:
    """A generator that a call returned, recorded as it is used; None for anything else."""
    if type(value) is GeneratorType:
        call.gives("generator")
        call.begins_stream()
        return _record_generator(call, value)
    if type(value) is not AsyncGeneratorType:
        return None
    call.gives("async generator")
    call.begins_stream()

    async def begin() -> tuple[Call, AsyncGenerator[Any, Any]]:
        return call, value

    return _driving(begin)()


async def _record_coroutine(call: Call, coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        with entered(call.inside):
            value = await coroutine
    except BaseException as error:
        await call.araised(error)
        raise
    await call.areturned(value)
    return value


def _record_future(call: Call, future: Any) -> None:
    try:
        if future.cancelled():
            call.finished(None, asyncio.CancelledError())
        else:
            # Not `future.exception()`: asyncio would take the error for seen, and be silent if the agent never looks.
            error = future._exception
            call.finished(None if error is not None else future.result(), error)
    except RecordingStopped:  # the next event of the run raises it where it stops the agent
        return


def _record_generator(call: Call, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Drive a generator for its consumer, `send`, `throw` and `close` included."""
    inside = entered(call.inside)
    step: Callable[[Any], Any] = generator.send
    given: Any = None
    while True:
        try:
            with inside:
                item = step(given)
        except StopIteration as stop:
            call.returned(stop.value)
            return stop.value
        except BaseException as error:
            call.raised(error)
            raise
        given = None  # an exception that was thrown in is kept no longer than needed
        call.gave(item)
        try:
            step, given = generator.send, (yield item)
            if given is not None:
                call.was_sent(given)
        except GeneratorExit:
            try:
                with inside:
                    generator.close()
            except BaseException as error:
                call.raised(error)
                raise
            call.returned(None, abandoned=True)
            raise
        except BaseException as error:
            step, given = generator.throw, error
            call.was_thrown(error)


def _driving(begin: Callable[..., Awaitable[tuple[Call | None, AsyncGenerator[Any, Any]]]]) -> Callable[..., Any]:
    """Make the async generator function that drives, and records, what `begin` gives: the `yield from` they lack."""

    async def async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        call, generator = await begin(*args, **kwargs)
        inside: Any = nullcontext() if call is None else entered(call.inside)
        step: Callable[[Any], Awaitable[Any]] = generator.asend
        given: Any = None
        while True:
            try:
                with inside:
                    item = await step(given)
            except StopAsyncIteration:
                if call is not None:
                    await call.areturned(None)
                return
            except BaseException as error:
                if call is not None:
                    await call.araised(error)
                raise
            given = None
            if call is not None:
                try:
                    await call.agave(item)
                except BaseException as error:  # cancelled before the item had its turn: as if where the item was made
                    step, given = generator.athrow, error
                    continue
            try:
                step, given = generator.asend, (yield item)
                if given is not None and call is not None:
                    call.was_sent(given)
            except GeneratorExit:
                moment = None if call is None else call.moment()
                try:
                    with inside:
                        await generator.aclose()
                except BaseException as error:
                    if call is not None:
                        await call.aclosed(moment, error)
                    raise
                if call is not None:
                    await call.aclosed(moment)
                raise
            except BaseException as error:
                step, given = generator.athrow, error
                if call is not None:
                    call.was_thrown(error)

    return async_generator


# -- wrapping ----------------------------------------------------------------------------------------

declared_tools: Final[set[str]] = set()
"""The names of the tools of this process that were made such, with `tool` or `wrap`; others are named in a call."""

declared_compensable: Final[dict[str, Effect]] = {}
"""The tools of this process that say how their work is undone, by name; of two of one name the one declared last."""


declared_functions: Final[dict[tuple[str, str], tuple[Effect, Any]]] = {}
"""The effects of this process and the callables that were made such, by kind and name; of two those declared last."""


def wrap_effect(fn: Function, effect: Effect) -> Function:
    """Make a callable an effect. The wrapper is of the same sort: a coroutine function stays one, and so on."""
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(wrap_effect(fn.__func__, effect))
    bind = binder(fn)

    def start(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        scope = current.get()
        if scope is None:
            may_be_made_outside(effect)
            return None
        if not scope.recorder.recording:
            may_be_made_late(effect, scope.recorder.attachment)
            return None
        return Call(effect, scope, bind(args, kwargs), fn)

    if inspect.iscoroutinefunction(fn):

        @functools.wraps(fn)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            call = start(args, kwargs)
            return await (fn(*args, **kwargs) if call is None else aperform(call, fn, args, kwargs))

        wrapper: Callable[..., Any] = coroutine
    elif inspect.isasyncgenfunction(fn):

        async def begin(*args: Any, **kwargs: Any) -> tuple[Call | None, AsyncGenerator[Any, Any]]:
            call = start(args, kwargs)
            if call is None:
                return None, fn(*args, **kwargs)
            try:
                if (answer := await call.acalled()) is not None:
                    return None, answer.astream()
                generator = fn(*args, **kwargs)  # which runs nothing of it yet
            except BaseException as error:
                await call.araised(error)
                raise
            call.begins_stream()
            return call, generator

        wrapper = functools.wraps(fn)(_driving(begin))
    elif inspect.isgeneratorfunction(fn):

        @functools.wraps(fn)
        def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            call = start(args, kwargs)
            if call is None:
                return (yield from fn(*args, **kwargs))
            return (yield from perform(call, fn, args, kwargs))

        wrapper = generator
    else:

        @functools.wraps(fn)
        def function(*args: Any, **kwargs: Any) -> Any:
            call = start(args, kwargs)
            return fn(*args, **kwargs) if call is None else perform(call, fn, args, kwargs)

        wrapper = function
    wrapper.__agentreplay_effect__ = effect  # type: ignore[attr-defined]  # functions take attributes
    declared_functions[effect.kind, effect.name] = effect, fn
    if effect.kind == "tool":
        declared_tools.add(effect.name)
    if effect.compensate is not None:
        declared_compensable[effect.name] = effect
    return wrapper  # type: ignore[return-value]  # same signature as fn, by construction


def effect_of(fn: Any) -> Effect | None:
    """The effect that a callable was made, or None."""
    found = getattr(fn, "__agentreplay_effect__", None)
    return found if isinstance(found, Effect) else None
