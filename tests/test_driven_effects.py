"""Effects that are driven: generators, coroutines, async generators, and functions that return one."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import inspect
from collections.abc import AsyncGenerator, Awaitable, Generator, Iterator
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.calls import STREAM_LIMIT
from agentreplay.recorder.events import Event
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from recorded import log_of, one


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


def calls(store: EventStore) -> list[Event]:
    """The events of calls in the last run."""
    return [event for event in log_of(store) if event.kind.startswith(("tool.", "model.", "call."))]


def ends(store: EventStore) -> list[str]:
    return [event.kind for event in calls(store)]


class Given:
    """An argument and a result that are told by identity."""


# -- generators --------------------------------------------------------------------------------------------------------


@ar.model
def stream(n: int) -> Generator[dict[str, Any], str, str]:
    said = []
    for i in range(n):
        said.append((yield {"delta": i}))
    return f"end {said}"


def test_a_generator_gives_send_throw_and_its_value_on(store: EventStore) -> None:
    """`send` arrives inside, thrown exceptions too, and the return value comes out; the chunks are recorded."""
    caught = []

    @ar.tool
    def talk() -> Generator[Any, Any, str]:
        try:
            got = yield 1
        except ValueError as error:
            caught.append(error)
            got = yield 2
        return f"got {got}"

    thrown = ValueError("thrown in")
    with ar.record("a", store=store):
        talking = talk()
        assert inspect.isgenerator(talking)
        assert next(talking) == 1
        assert talking.throw(thrown) == 2
        with pytest.raises(StopIteration) as stop:
            talking.send("x")
    assert stop.value.value == "got x"
    assert caught[0] is thrown
    returned = one(store, "tool.returned").data
    assert (returned.result, returned.stream) == ("got x", [1, 2])


def test_yield_from_an_effect_gives_its_value(store: EventStore) -> None:
    """A generator effect can be delegated to."""

    def outer() -> Generator[Any, Any, Any]:
        return (yield from stream(2))

    with ar.record("a", store=store):
        outside = outer()
        assert [next(outside), outside.send("a")] == [{"delta": 0}, {"delta": 1}]
        with pytest.raises(StopIteration) as stop:
            outside.send("b")
    assert stop.value.value == "end ['a', 'b']"


def test_chunks_are_recorded_as_they_passed(store: EventStore) -> None:
    """A consumer that mutates a chunk does not change the record; usage and stop reason come with the last chunks."""

    @ar.model
    def answer() -> Iterator[dict[str, Any]]:
        yield {"delta": "a"}
        yield {"delta": "b", "stop_reason": "end_turn"}
        yield {"usage": {"input_tokens": 5}}

    with ar.record("a", store=store):
        for chunk in answer():
            chunk.clear()
    returned = one(store, "model.returned").data
    assert returned.stream == [
        {"delta": "a"},
        {"delta": "b", "stop_reason": "end_turn"},
        {"usage": {"input_tokens": 5}},
    ]
    assert (returned.usage, returned.stop_reason) == ({"input_tokens": 5}, "end_turn")


def test_an_abandoned_generator_returned_what_it_had_given(store: EventStore) -> None:
    """A consumer that stops early closes the generator, whose cleanup runs."""
    cleaned = []

    @ar.tool
    def numbers() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            cleaned.append(True)

    with ar.record("a", store=store):
        for n in numbers():
            if n == 1:
                break
        gc.collect()
    assert cleaned == [True]
    returned = one(store, "tool.returned").data
    assert (returned.stream, returned.abandoned, returned.result) == ([0, 1], True, None)


def test_a_generator_that_raises_half_way_failed_after_its_chunks(store: EventStore) -> None:
    """The chunks before the error are kept with it."""

    @ar.tool
    def numbers() -> Iterator[int]:
        yield 1
        raise ValueError("stuck")

    with ar.record("a", store=store), pytest.raises(ValueError, match="stuck"):
        list(numbers())
    failed = one(store, "tool.failed").data
    assert (failed.stream, failed.error.message) == ([1], "stuck")


def test_a_generator_that_fails_while_it_is_closed_failed(store: EventStore) -> None:
    """What the cleanup of a generator raises reaches who closes it, and the record."""

    @ar.tool
    def numbers() -> Iterator[int]:
        try:
            yield 1
        finally:
            raise ValueError("not clean")

    with ar.record("a", store=store):
        running = numbers()
        next(running)
        with pytest.raises(ValueError, match="not clean"):
            running.close()  # type: ignore[attr-defined]  # it is a generator
    assert ends(store) == ["tool.called", "tool.failed"]


def test_nothing_happens_before_a_generator_is_driven(store: EventStore) -> None:
    """Calling a generator function runs nothing and records nothing."""
    with ar.record("a", store=store):
        never = stream(3)
        assert inspect.getgeneratorstate(never) == "GEN_CREATED"
        del never
    assert ends(store) == []


def test_a_function_that_returns_a_generator_is_recorded_as_it_is_used(store: EventStore) -> None:
    """A client that gives a stream is recorded with its chunks."""

    @ar.model
    def ask(prompt: str) -> Iterator[str]:
        return (word for word in prompt.split())

    with ar.record("a", store=store):
        assert list(ask("to be or")) == ["to", "be", "or"]
    assert one(store, "model.returned").data.stream == ["to", "be", "or"]


def test_a_long_stream_is_kept_up_to_a_limit(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond the limit is counted."""
    monkeypatch.setattr("agentreplay.recorder.calls.STREAM_LIMIT", 3)

    @ar.tool
    def numbers() -> Iterator[int]:
        yield from range(5)

    with ar.record("a", store=store):
        assert list(numbers()) == [0, 1, 2, 3, 4]
    returned = one(store, "tool.returned").data
    assert (returned.stream, returned.dropped) == ([0, 1, 2], 2)
    assert STREAM_LIMIT == 100_000


def test_outside_of_a_run_generators_are_just_driven() -> None:
    """Without a run the wrapper delegates, and returns the value."""
    running = stream(1)
    assert next(running) == {"delta": 0}
    with pytest.raises(StopIteration) as stop:
        running.send("x")
    assert stop.value.value == "end ['x']"


# -- coroutines and async generators -----------------------------------------------------------------------------------


async def test_a_coroutine_effect_is_recorded_where_it_is_awaited(store: EventStore) -> None:
    """Result and exception are the very objects."""
    thing, error = Given(), ValueError("no")

    @ar.tool
    async def look(fail: bool) -> Any:
        await asyncio.sleep(0)
        if fail:
            raise error
        return thing

    async with ar.record("a", store=store):
        assert await look(False) is thing
        with pytest.raises(ValueError) as caught:
            await look(True)
    assert caught.value is error
    assert ends(store) == ["tool.called", "tool.returned", "tool.called", "tool.failed"]


async def test_a_coroutine_that_is_never_awaited_says_so(store: EventStore) -> None:
    """Python's own warning names the function, as without recording; nothing is recorded."""

    @ar.tool
    async def look() -> None: ...

    async with ar.record("a", store=store):
        with pytest.warns(RuntimeWarning, match=r"coroutine '.*look' was never awaited"):
            del [look()][0]
    assert ends(store) == []


async def test_an_async_generator_gives_everything_on(store: EventStore) -> None:
    """`asend`, `athrow` and `aclose` reach the inside; chunks are recorded."""
    seen: list[Any] = []

    @ar.model
    async def talk() -> AsyncGenerator[Any, Any]:
        try:
            seen.append((yield 1))
            yield 2
        except ValueError as error:
            seen.append(error)
            yield 3
        finally:
            await asyncio.sleep(0)
            seen.append("cleaned")

    thrown = ValueError("in")
    async with ar.record("a", store=store):
        talking = talk()
        assert inspect.isasyncgen(talking)
        assert await anext(talking) == 1
        assert await talking.asend("x") == 2
        assert await talking.athrow(thrown) == 3
        await talking.aclose()
    assert seen == ["x", thrown, "cleaned"]
    returned = one(store, "model.returned").data
    assert (returned.stream, returned.abandoned) == ([1, 2, 3], True)


async def test_async_generators_end_fail_and_are_abandoned(store: EventStore) -> None:
    """Each end is recorded for what it is."""

    @ar.tool
    async def numbers(fail: bool = False) -> AsyncGenerator[int, None]:
        yield 1
        yield 2
        if fail:
            raise ValueError("stuck")

    async with ar.record("a", store=store):
        assert [n async for n in numbers()] == [1, 2]
        with pytest.raises(ValueError, match="stuck"):
            [n async for n in numbers(fail=True)]
        async for _ in numbers():
            break
        gc.collect()
        await asyncio.sleep(0.01)
    assert ends(store)[:4] == ["tool.called", "tool.returned", "tool.called", "tool.failed"]
    data = [event.data for event in calls(store)]
    assert [data[1].stream, data[3].stream] == [[1, 2], [1, 2]]
    assert (data[5].stream, data[5].abandoned) == ([1], True)


async def test_outside_of_a_run_async_generators_are_just_driven() -> None:
    """Without a run the wrapper only hands on."""

    @ar.tool
    async def numbers(n: int) -> AsyncGenerator[int, None]:
        yield n

    assert [n async for n in numbers(5)] == [5]


@pytest.mark.parametrize("kind", ["task", "executor", "coroutine", "awaitable"])
async def test_functions_that_return_something_to_await(store: EventStore, kind: str) -> None:
    """A task or future is given back itself, since it is more than something to await; its result is recorded."""

    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    class Later:
        def __await__(self) -> Generator[Any, None, str]:
            return work().__await__()

    made: list[Any] = []

    @ar.tool
    def start() -> Awaitable[str]:
        loop = asyncio.get_running_loop()
        made.append(
            {
                "task": lambda: loop.create_task(work()),
                "executor": lambda: loop.run_in_executor(None, lambda: "done"),
                "coroutine": work,
                "awaitable": Later,
            }[kind]()
        )
        result: Awaitable[str] = made[0]
        return result

    async with ar.record("a", store=store):
        started = start()
        assert (started is made[0]) is (kind != "coroutine")
        assert inspect.iscoroutine(started) is (kind == "coroutine")
        assert await started == "done"
    result = one(store, "tool.returned").data.result
    assert result == "done" if kind != "awaitable" else result["$type"] == "opaque"


async def test_a_failed_task_nobody_looks_at_still_complains(store: EventStore) -> None:
    """A loop reports an exception that was never retrieved, as it does without recording."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context["exception"]))
    error = ValueError("unseen")

    async def work() -> None:
        raise error

    @ar.tool
    def start() -> Any:
        return asyncio.get_running_loop().create_task(work())

    async with ar.record("a", store=store):
        task = start()
        await asyncio.sleep(0.01)
        del task
        gc.collect()
    assert complaints == [error]
    assert one(store, "tool.failed").data.error.message == "unseen"


def test_a_future_of_a_pool_is_given_back_itself(store: EventStore) -> None:
    """`pool.submit` may be a tool; the record has what came of it."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool, ar.record("a", store=store):
        future = ar.wrap(pool.submit, kind="tool")(pow, 2, 5)
        assert isinstance(future, concurrent.futures.Future)
        assert future.result() == 32
        pool.shutdown()
    assert one(store, "tool.returned").data.result == 32
