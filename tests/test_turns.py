"""Turns: the idle moments of an event loop, and what is let through in them."""

from __future__ import annotations

import asyncio
import gc
import selectors
import threading
from collections.abc import Callable, Sequence
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.event_codec import StoredEvent
from agentreplay.recorder.events import Event
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.scope import entered
from agentreplay.recorder.store import EventStore, Head, RunInfo, Summary
from agentreplay.recorder.turns import BUSY, Turns
from recorded import SpyStore, kinds, log_of, outline, turns_here, until


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


@ar.tool
async def look(n: int) -> int:
    return n


@ar.tool
async def fail() -> None:
    raise ValueError("no")


@ar.tool
def plain(n: int) -> int:
    return n


def here() -> Turns | None:
    return Turns.of(asyncio.get_running_loop())


def selects() -> bool:
    """Whether the running loop's selector is as it was made."""
    return "select" not in vars(asyncio.get_running_loop()._selector)  # type: ignore[attr-defined]  # a selector loop


def told(store: EventStore, *kinds: str) -> list[Event]:
    return [event for event in log_of(store) if event.kind in kinds]


class Driving:
    """A driver that does what it is told and notes how it was asked."""

    def __init__(self, goes: Callable[[], bool] = lambda: False) -> None:
        self.asked: list[bool] = []
        self._goes = goes

    def idle(self, forced: bool) -> bool:
        self.asked.append(forced)
        return self._goes()


# -- when there are turns ----------------------------------------------------------------------------------------------


async def test_a_loop_has_turns_while_a_run_is_in_progress_on_it(store: EventStore) -> None:
    """From the first that is entered to the last that is left; then the selector is as it was."""
    assert here() is None
    async with ar.record("outer", store=store):
        turns = turns_here()
        assert not selects()
        async with ar.record("inner", store=store):
            assert here() is turns
        with ar.record("plain block", store=store):
            assert here() is turns
        assert here() is turns
    assert here() is None
    assert turns.closed
    assert selects()


async def test_runs_side_by_side_share_the_turns_of_their_loop(store: EventStore) -> None:
    """The first to end takes nothing from the others."""
    begun, seen = asyncio.Barrier(3), []

    async def run(number: int) -> None:
        async with ar.record(f"run {number}", store=store):
            await begun.wait()
            await until(lambda: len(seen) == number)
            seen.append(turns_here())

    with entered(None):
        await asyncio.gather(*(run(number) for number in range(3)))
    assert seen == [seen[0]] * 3
    assert here() is None


@pytest.mark.parametrize("form", ["run", "asyncio.run", "in a thread", "a failing run"])
def test_a_loop_that_starts_within_a_run_has_turns(store: EventStore, form: str) -> None:
    """Whoever starts it, and before anything happens on it."""
    seen: list[bool] = []

    async def work() -> None:
        seen.append(here() is not None)
        await look(1)
        if form == "a failing run":
            raise ValueError("no")

    @ar.agent("worker")
    async def agent(i: int, context: ar.Context) -> Any:
        await work()
        return ar.Complete(None)

    @ar.agent("plain")
    def starter(i: int, context: ar.Context) -> Any:
        if form == "in a thread":
            thread = threading.Thread(target=asyncio.run, args=(work(),))
            thread.start()
            thread.join()
        else:
            asyncio.run(work())
        return ar.Complete(None)

    if form == "a failing run":
        with pytest.raises(ValueError):
            agent.run(store=store)
    else:
        (agent if form == "run" else starter).run(store=store)
    assert seen == [True]
    assert "tool.returned" in kinds(store)


def test_a_loop_of_another_thread_takes_part_until_the_run_ends(store: EventStore) -> None:
    """A plain run that hands its coroutines to a loop in the background."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    with ar.record("a", store=store):
        assert asyncio.run_coroutine_threadsafe(look(1), loop).result(10) == 1
        assert Turns.of(loop) is not None
    assert Turns.of(loop) is None
    assert "select" not in vars(loop._selector)  # type: ignore[attr-defined]  # a selector loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    assert [event.data.inline for event in told(store, "tool.returned")] == [False]


def test_a_loop_inside_a_call_has_none(store: EventStore) -> None:
    """What happens inside a call is the call's own."""
    seen: list[Turns | None] = []

    async def work() -> None:
        await asyncio.sleep(0.001)
        seen.append(here())
        await look(1)

    @ar.tool
    def start() -> None:
        asyncio.run(work())

    with ar.record("a", store=store):
        start()
    assert seen == [None]
    assert "timer.fired" not in kinds(store)


class Silent:
    """A selector that does not say when it is asked, as those of other loops."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)


def test_a_loop_without_a_selector_is_noted_once(store: EventStore) -> None:
    """Results come as they come there, and the record says so."""
    loop = asyncio.new_event_loop()
    loop._selector = Silent(loop._selector)  # type: ignore[attr-defined]  # a selector loop

    async def main() -> list[int]:
        async with ar.record("a", store=store):
            plain(1)
            assert here() is None
            return list(await asyncio.gather(look(2), look(3)))

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(main()) == [2, 3]
    (note,) = told(store, "report")
    assert (note.data.source, note.data.level) == ("order", "warning")
    assert note.data.message.startswith("asyncio.unix_events._UnixSelectorEventLoop does not show when it is idle")


class Unasked(selectors.DefaultSelector):
    """A selector that nobody intercepts, as that of a loop that is driven by a user interface."""

    def __getattribute__(self, name: str) -> Any:
        return super().select if name == "select" else super().__getattribute__(name)


def test_a_loop_that_does_not_ask_its_selector_is_found_out(store: EventStore) -> None:
    """Nothing waits for an idle moment that nobody would ever see."""

    async def main() -> list[int]:
        async with ar.record("a", store=store) as run:
            first = await asyncio.gather(look(1), look(2))
            await asyncio.sleep(0.001)
            assert here() is None
            with pytest.raises(ValueError):
                await fail()
            async with ar.record("child", store=store):
                run.report("beside it")
            return [*first, await look(3)]

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(Unasked())) as runner:
        assert runner.run(main()) == [1, 2, 3]
        assert "select" not in vars(runner.get_loop()._selector)  # type: ignore[attr-defined]  # a selector loop
    assert [event.data.source for event in store.events("run1") if event.kind == "report"] == ["order", "report"]
    assert "timer.fired" not in kinds(store, "run1")


async def test_who_wraps_the_selector_meanwhile_keeps_the_wrapper(store: EventStore) -> None:
    """It goes on working, and what others had put there before is put back."""
    selector: Any = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]  # a selector loop
    original = selector.select

    def theirs(timeout: float | None = None) -> Any:
        return original(timeout)

    selector.select = theirs
    async with ar.record("a", store=store):
        assert selector.select is not theirs
        await look(1)
    assert selector.select is theirs
    async with ar.record("b", store=store):
        ours = selector.select
        wrapping: list[float | None] = []

        def around(timeout: float | None = None) -> Any:
            wrapping.append(timeout)
            return ours(timeout)

        selector.select = around
        await look(1)
    assert selector.select is around
    assert await asyncio.sleep(0.001, "slept") == "slept"
    assert wrapping
    del selector.select


async def test_what_waits_when_the_last_run_ends_is_let_through(store: EventStore) -> None:
    """A task that outlives its run is not left waiting, nor is a timer."""
    async with ar.record("a", store=store), turns_here().inbox.turn():
        task, sleeping = asyncio.create_task(look(1)), asyncio.create_task(asyncio.sleep(0.001, "slept"))
        await until(lambda: "tool.called" in kinds(store))
        await until(lambda: len(turns_here().inbox._waiting) == 2)
    assert await task == 1
    assert await sleeping == "slept"
    assert kinds(store) == ["run.started", "tool.called", "run.finished"]


# -- drivers -----------------------------------------------------------------------------------------------------------


async def test_drivers_are_asked_in_order_until_one_sets_something_going(store: EventStore) -> None:
    """At each idle moment; what it has set going runs before the loop waits for anything else."""
    loop = asyncio.get_running_loop()
    async with ar.record("a", store=store):
        turns = turns_here()
        done = loop.create_future()
        before = Driving()
        going = Driving(lambda: not done.done() and loop.call_soon(done.set_result, len(before.asked)) is not None)
        after = Driving()
        for driver in (before, going, after):
            turns.enter(driver)
        assert turns.drivers == [turns.inbox, before, going, after]
        assert await done == 1
        assert (before.asked, going.asked, after.asked) == ([False], [False], [])
        turns.leave(going)
        turns.leave(going)
        await until(lambda: after.asked)
        assert len(going.asked) == 1
        assert turns.drivers == [turns.inbox, before, after]


async def test_a_loop_that_is_never_idle_gives_forced_turns(store: EventStore) -> None:
    """After a hundred busy looks for something to do; a look that finds the loop idle begins the count anew."""
    async with ar.record("a", store=store):
        driver = Driving()
        turns_here().enter(driver)
        for _ in range(BUSY - 1):
            await asyncio.sleep(0)
        assert driver.asked == []
        for _ in range(3 * BUSY + 3):
            await asyncio.sleep(0)
        assert driver.asked == [True, True, True]
    assert BUSY == 100


async def test_ticks_tell_whether_something_suspended(store: EventStore) -> None:
    """They count the loop's looks for something to do."""

    async def nothing() -> None: ...

    async with ar.record("a", store=store):
        turns = turns_here()
        before = turns.ticks
        await nothing()
        assert turns.ticks == before
        await asyncio.sleep(0)
        assert turns.ticks == before + 1


# -- results -----------------------------------------------------------------------------------------------------------


class Gated(SpyStore):
    """A store that commits events of one kind only once it may."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.reached, self.may = threading.Event(), threading.Event()

    def append_rows(self, info: RunInfo, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> Head:
        if any(row.kind == self.kind for row in rows):
            self.reached.set()
            assert self.may.wait(10)
        return super().append_rows(info, expected_seq, rows, summary)


async def test_one_result_is_let_through_at_a_time_once_it_is_committed() -> None:
    """Meanwhile no other is appended, not even where the loop is busy for long."""
    store = Gated("tool.returned")
    seen: list[int] = []

    async def note(n: int) -> None:
        seen.append(await look(n))

    async with ar.record("a", store=store) as run:
        tasks = [asyncio.create_task(note(n)) for n in range(3)]
        await until(store.reached.is_set)
        for _ in range(3 * BUSY):
            await asyncio.sleep(0)
        assert seen == []
        assert run.recorder.log.turns == 1
        store.may.set()
        await asyncio.gather(*tasks)
    assert seen == [event.data.result for event in told(store, "tool.returned")]
    assert sorted(seen) == [0, 1, 2]


async def test_who_is_cancelled_while_a_result_waits_never_gets_it(store: EventStore) -> None:
    """The call was cancelled, and others have their turn."""
    async with ar.record("a", store=store):
        turns = turns_here()
        async with turns.inbox.turn():
            task = asyncio.create_task(look(1))
            await until(lambda: turns.inbox._waiting)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await look(2) == 2
    assert outline(store) == ["tool.called 0.1 look", "call.cancelled 0.1", "tool.called 0.2 look", "tool.returned 0.2"]


async def test_who_is_cancelled_when_the_turn_was_given_gives_it_back(store: EventStore) -> None:
    """Between the idle moment and the task's next step; the next one is let through."""
    async with ar.record("a", store=store):
        turns = turns_here()
        async with turns.inbox.turn():
            task = asyncio.create_task(look(1))
            await until(lambda: turns.inbox._waiting)
            turns.drivers.insert(0, Driving(lambda: turns.inbox.idle(False) and (task.cancel() or True)))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await look(2) == 2
    assert outline(store) == ["tool.called 0.1 look", "call.cancelled 0.1", "tool.called 0.2 look", "tool.returned 0.2"]


async def test_who_is_cancelled_while_a_result_is_committed_never_gets_it() -> None:
    """It did return, and then it was cancelled; the same for what failed."""
    for kind, effect in (("tool.returned", lambda: look(1)), ("tool.failed", fail)):
        store = Gated(kind)
        async with ar.record("a", store=store):
            task: asyncio.Task[Any] = asyncio.create_task(effect())  # type: ignore[operator]  # a coroutine function
            await until(store.reached.is_set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            store.may.set()
            assert await look(2) == 2
        assert [event.kind for event in log_of(store)][1:4] == ["tool.called", kind, "call.cancelled"]


async def test_a_coroutine_that_is_closed_while_it_waits_holds_up_nobody(store: EventStore) -> None:
    """Nobody drives it any more."""
    async with ar.record("a", store=store):
        turns = turns_here()
        async with turns.inbox.turn():
            abandoned = turns.inbox.turn().__aenter__()
            abandoned.send(None)
            abandoned.close()
        assert await look(1) == 1


def test_nothing_of_a_run_is_kept_when_its_loop_is_gone(store: EventStore) -> None:
    """Neither the loop nor what waited on it."""
    freed: list[str] = []

    class Loop(asyncio.SelectorEventLoop):
        def __del__(self, *_: Any) -> None:
            freed.append("loop")

    async def main() -> None:
        async with ar.record("a", store=store):
            await asyncio.sleep(0.001)
            asyncio.get_running_loop().call_later(100, print)
            await look(1)

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main())
    del runner
    gc.collect()
    assert freed == ["loop"]
