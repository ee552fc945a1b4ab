"""What takes turns and what does not: calls, chunks and ends of streams, the beginnings and ends of child runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.events import Event
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.scope import current
from agentreplay.recorder.store import EventStore
from recorded import kinds, log_of, one, outline, turns_here, until


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


@ar.tool
async def look(n: int) -> int:
    return n


@ar.tool
async def numbers(n: int, cleanup: float = 0) -> AsyncGenerator[int, None]:
    try:
        for i in range(n):
            yield i
    finally:
        if cleanup:
            await asyncio.sleep(cleanup)


@ar.tool
def plain(n: int) -> int:
    return n


def told(store: EventStore, *kinds: str) -> list[Event]:
    return [event for event in log_of(store) if event.kind in kinds]


# -- calls -------------------------------------------------------------------------------------------------------------


async def test_what_ends_inside_a_call_waits_for_no_turn(store: EventStore) -> None:
    """It is the call's own, as are timers there and child runs."""

    @ar.tool
    async def outer() -> int:
        await asyncio.sleep(0.001)
        await ar.agent("child")(lambda i, context: ar.Complete(None)).arun()
        assert [n async for n in numbers(2)] == [0, 1]
        return await look(2)

    async with ar.record("a", store=store) as run:
        async with turns_here().inbox.turn():
            task = asyncio.create_task(outer())
            await until(lambda: turns_here().inbox._waiting)
            assert run.recorder.log.turns == 0
        assert await task == 2
    log = log_of(store, "run1")
    assert [event.kind for event in log if event.within == "0.1"] == [
        "subrun.started",
        "subrun.finished",
        "tool.called",
        "tool.returned",
        "tool.called",
        "tool.returned",
    ]
    assert all(event.data.turn is None for event in log if event.kind == "tool.returned")
    assert all(event.data.turns is None for event in log if event.kind == "tool.returned")


async def test_what_came_without_suspending_is_inline(store: EventStore) -> None:
    """Plain functions, and plain generators, outside of other calls on an event loop."""

    @ar.tool
    def count() -> Any:
        yield 1

    @ar.tool
    def broken() -> None:
        raise ValueError("no")

    @ar.tool
    async def outer() -> None:
        plain(1)

    async with ar.record("a", store=store):
        plain(1)
        list(count())
        with pytest.raises(ValueError):
            broken()
        await outer()
        await asyncio.to_thread(plain, 2)
    ended = told(store, "tool.returned", "tool.failed")
    assert [event.data.inline for event in ended] == [True, True, True, False, False, False]
    with ar.record("b", store=store):
        await asyncio.to_thread(plain, 1)
    assert [event.data.inline for event in told(store, "tool.returned")] == [False]


def test_off_a_loop_nothing_is_inline(store: EventStore) -> None:
    """There is nothing else that could have come before it."""
    with ar.record("a", store=store):
        plain(1)
    assert one(store, "tool.returned").data.inline is False


# -- streams -----------------------------------------------------------------------------------------------------------


async def test_chunks_have_turns_of_their_own(store: EventStore) -> None:
    """The call's last event has their numbers; its own is the next, and so on."""
    async with ar.record("a", store=store):
        await look(0)
        assert [n async for n in numbers(3)] == [0, 1, 2]
        await look(1)
        assert [n async for n in numbers(0)] == []
    returned = [event.data for event in told(store, "tool.returned")]
    assert [(data.turns, data.turn) for data in returned] == [(None, None), ([2, 3, 4], 5), (None, None), (None, None)]


async def test_a_stream_that_is_open_when_its_run_ends_is_told_then(store: EventStore) -> None:
    """Until then its chunks leave their numbers out, so what comes after them says its own."""
    async with ar.record("a", store=store):
        running = numbers(3)
        assert [await anext(running), await anext(running)] == [0, 1]
        await look(1)
        await look(2)
    *looked, left = [event.data for event in told(store, "tool.returned")]
    assert [data.turn for data in looked] == [3, None]
    assert (left.stream, left.turns, left.abandoned) == ([0, 1], [1, 2], True)
    await running.aclose()


async def test_who_is_cancelled_while_a_chunk_waits_never_gets_it(store: EventStore) -> None:
    """The generator is cancelled where it gave it, and cleans up."""
    cleaned: list[BaseException] = []

    @ar.tool
    async def talk() -> AsyncGenerator[int, None]:
        try:
            yield 1
        except BaseException as error:
            cleaned.append(error)
            raise

    async with ar.record("a", store=store):
        turns = turns_here()
        async with turns.inbox.turn():
            task = asyncio.create_task(anext(talk()))  # type: ignore[arg-type]  # a coroutine
            await until(lambda: turns.inbox._waiting)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await look(1)
    assert [type(error) for error in cleaned] == [asyncio.CancelledError]
    assert outline(store)[:2] == ["tool.called 0.1 talk", "call.cancelled 0.1"]


async def test_closing_a_stream_takes_a_turn_if_it_takes_time(store: EventStore) -> None:
    """What closes at once is inline; its consumer was not suspended."""
    async with ar.record("a", store=store):
        for cleanup in (0, 0.001):
            running = numbers(3, cleanup)
            await anext(running)
            await running.aclose()
    at_once, later = [event.data for event in told(store, "tool.returned")]
    assert (at_once.abandoned, at_once.inline) == (True, True)
    assert (later.abandoned, later.inline) == (True, False)


async def test_a_stream_that_fails_while_it_is_closed_fails_in_its_turn(store: EventStore) -> None:
    """Whether or not that took time."""

    @ar.tool
    async def talk(cleanup: bool) -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            if cleanup:
                await asyncio.sleep(0.001)
            raise ValueError("not clean")

    async with ar.record("a", store=store):
        for cleanup in (False, True):
            running = talk(cleanup)
            await anext(running)
            with pytest.raises(ValueError, match="not clean"):
                await running.aclose()
    assert [event.data.inline for event in told(store, "tool.failed")] == [True, False]


# -- child runs --------------------------------------------------------------------------------------------------------


@ar.agent("child")
async def child(i: int, context: ar.Context) -> Any:
    await look(context.input)
    return ar.Complete(context.input)


async def in_a_block(n: int) -> None:
    async with ar.record("block"):
        await look(n)


@pytest.mark.parametrize("form", ["arun", "block"])
async def test_child_runs_begin_and_end_in_turn(store: EventStore, form: str) -> None:
    """Their parent's log has the order in which its code saw them begin and end."""
    seen: list[tuple[str, str]] = []

    async def run(n: int) -> None:
        await (child.arun(input=n) if form == "arun" else in_a_block(n))
        scope = current.get()
        assert scope is not None
        seen.append(("subrun.finished", scope.task.text))

    async with ar.record("parent", store=store):
        await asyncio.gather(*(run(n) for n in range(5)))
    log = [event for event in log_of(store, "run1") if event.kind.startswith("subrun.")]
    assert len(log) == 10
    assert [(event.kind, event.task) for event in log if event.kind == "subrun.finished"] == seen


@pytest.mark.parametrize("form", ["arun", "block"])
async def test_a_child_cancelled_before_its_turn_has_begun_and_ended(store: EventStore, form: str) -> None:
    """Its own log says so, and so does its parent's."""
    start: Callable[[], Awaitable[Any]] = (lambda: child.arun(input=1)) if form == "arun" else lambda: in_a_block(1)
    async with ar.record("parent", store=store):
        turns = turns_here()
        async with turns.inbox.turn():
            task = asyncio.ensure_future(start())
            await until(lambda: turns.inbox._waiting)
            assert [event.kind for event in log_of(store, "run1")] == ["run.started"]
            task.cancel()
            await until(lambda: turns.inbox._waiting[-1] is not turns.inbox._waiting[0])
        with pytest.raises(asyncio.CancelledError):
            await task
    assert kinds(store, "run1")[1:-1] == ["subrun.started", "subrun.finished"]
    assert one(store, "subrun.finished", "run1").data.status == "cancelled"
    assert store.run("run2").status == "cancelled"


async def test_a_child_cancelled_while_its_end_waits_is_told_of_at_once(store: EventStore) -> None:
    """It has completed, and who awaited it never gets that."""
    go = asyncio.Event()

    @ar.agent("child")
    async def waiting(i: int, context: ar.Context) -> Any:
        await go.wait()
        return ar.Complete(None)

    async with ar.record("parent", store=store):
        turns = turns_here()
        task = asyncio.create_task(waiting.arun())
        await until(lambda: "subrun.started" in kinds(store, "run1"))
        async with turns.inbox.turn():
            go.set()
            await until(lambda: turns.inbox._waiting)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert kinds(store, "run1")[1:-1] == ["subrun.started", "subrun.finished"]
    assert one(store, "subrun.finished", "run1").data.status == "completed"
