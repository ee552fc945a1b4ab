"""Timers of the agent's own: numbered, fired in turn, recorded; and otherwise what asyncio's are."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.events import Event
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.scope import TaskPath, entered
from agentreplay.recorder.store import EventStore
from agentreplay.recorder.turns import Turns
from recorded import SpyStore, kinds, log_of, one, turns_here, until


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


@ar.tool
async def look(n: int) -> int:
    return n


def fired(store: EventStore) -> list[Event]:
    return [event for event in log_of(store) if event.kind == "timer.fired"]


class Cancelling:
    """A driver that cancels a timer as soon as something was let through."""

    def __init__(self, turns: Turns, handle: asyncio.TimerHandle) -> None:
        self._turns = turns
        self._handle = handle

    def idle(self, forced: bool) -> bool:
        going = self._turns.inbox.idle(forced)
        if going:
            self._handle.cancel()
        return going


def test_timers_are_numbered_by_creation_in_each_round() -> None:
    """From 1, by task, whatever other tasks create."""
    main = TaskPath()
    assert [main.timer(0), main.timer(0), main.timer(1), main.timer(1)] == [1, 2, 1, 2]
    assert [main.child(1).timer(1), main.timer(1)] == [1, 3]


async def test_timers_are_recorded_where_they_were_created(store: EventStore) -> None:
    """By number, round and task, in the order in which they fire."""

    async def twice() -> None:
        await asyncio.sleep(0.02)
        await asyncio.sleep(0.02)

    async with ar.record("a", store=store) as run:
        late = asyncio.get_running_loop().create_future()
        with run.round():
            asyncio.get_running_loop().call_later(0.1, late.set_result, "late")
            await asyncio.gather(asyncio.sleep(0.001), twice())
        with run.round():
            await asyncio.sleep(0.001)
            await late
    assert [(event.round, event.task, event.data.timer) for event in fired(store)] == [
        (1, "0.1:0", 1),
        (1, "0.1:1", 1),
        (1, "0.1:1", 2),
        (2, "0", 1),
        (1, "0", 1),
    ]


async def test_other_timers_are_left_alone(store: EventStore) -> None:
    """Those of calls, those from before the run or of no run, and `sleep(0)`, which is none."""
    loop = asyncio.get_running_loop()
    before = loop.create_future()
    loop.call_later(0.01, before.set_result, None)

    @ar.tool
    async def slow() -> None:
        await asyncio.wait_for(asyncio.sleep(0.001), 5)

    async with ar.record("a", store=store):
        await before
        await slow()
        await asyncio.sleep(0)
        with entered(None):
            await asyncio.sleep(0.001)
    assert kinds(store) == ["run.started", "tool.called", "tool.returned", "run.finished"]
    await asyncio.sleep(0.001)


async def test_a_timer_is_what_it_would_be_without_being_recorded(store: EventStore) -> None:
    """Its handle, its time, the context that it runs in, and what the loop says where its callback fails."""
    loop = asyncio.get_running_loop()
    complaints: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda loop, context: complaints.append(context))
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("mine")
    seen: list[Any] = []

    def note(text: str) -> None:
        seen.append((text, variable.get()))
        variable.set("changed")

    def broken(text: str) -> None:
        raise ValueError(text)

    async with ar.record("a", store=store):
        variable.set("at creation")
        own = contextvars.copy_context()
        own.run(variable.set, "own")
        when = loop.time() + 0.001
        handle = loop.call_at(when, note, "x")
        loop.call_later(0.002, note, "y", context=own)
        loop.call_later(0.003, broken, "no")
        variable.set("later")
        assert isinstance(handle, asyncio.TimerHandle)
        assert (handle.when(), handle.cancelled()) == (when, False)
        await until(lambda: complaints)
    assert seen == [("x", "at creation"), ("y", "own")]
    assert own[variable] == "changed"
    assert not handle.cancelled()
    (complaint,) = complaints
    assert str(complaint["exception"]) == "no"
    assert "broken" in complaint["message"]
    assert [event.data.timer for event in fired(store)] == [1, 2, 3]


async def test_a_timer_may_be_cancelled_between_due_and_fired(store: EventStore) -> None:
    """It does not run, and was never recorded: neither while it waits nor when its turn has just been given."""
    loop = asyncio.get_running_loop()
    ran: list[str] = []
    async with ar.record("a", store=store):
        turns = turns_here()
        async with turns.inbox.turn():
            waiting = loop.call_later(0.001, ran.append, "waiting")
            given = loop.call_later(0.002, ran.append, "given")
            await until(lambda: len(turns.inbox._waiting) == 2)
            waiting.cancel()
            turns.drivers.insert(0, Cancelling(turns, given))
        loop.call_later(0.001, ran.append, "other")
        await until(lambda: ran)
    assert ran == ["other"]
    assert one(store, "timer.fired").data.timer == 3
    assert (waiting.cancelled(), given.cancelled()) == (True, True)


async def test_timers_of_a_run_that_cannot_be_recorded_fire_all_the_same() -> None:
    """The next call says what is wrong."""
    store = SpyStore()
    ran: list[str] = []
    loop = asyncio.get_running_loop()

    async def main() -> None:
        async with ar.record("a", store=store):
            store.fails = lambda kind: kind == "tool.called"
            with pytest.raises(BaseException, match="could not be recorded"):
                await look(1)
            loop.call_later(0.001, ran.append, "fired")
            loop.call_later(0.002, ran.append, "fired")
            await until(lambda: len(ran) == 2)

    with pytest.raises(ar.RecordingFailed):
        await main()
    assert ran == ["fired", "fired"]


async def test_an_attachment_makes_the_timers_of_its_code(store: EventStore) -> None:
    """It is given what the loop was, and what makes them."""
    loop = asyncio.get_running_loop()
    asked: list[tuple[Any, ...]] = []

    class Stub:
        def timer(
            self, loop: Any, call_at: Any, when: float, callback: Any, args: Any, context: Any, scope: Any, delay: Any
        ) -> Any:
            asked.append((loop, when, callback, args, context, scope.task.timer(scope.recorder.round), delay))
            return call_at(when, callback, *args, context=context)

    ran: list[str] = []
    async with ar.record("a", store=store) as run:
        run.recorder.attachment = Stub()  # type: ignore[assignment]  # the part that counts
        when = loop.time() + 0.001
        loop.call_at(when, ran.append, "x")
        await until(lambda: ran)
        run.recorder.attachment = None
    assert asked == [(loop, when, ran.append, ("x",), None, 1, None)]
    assert "timer.fired" not in kinds(store)
