"""The order of the log is the order in which the agent's code saw what reached it, whatever runs at the same time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.events import Event
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.scope import current
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore
from random_programs import LEVELS, Program, World, program
from recorded import log_of

TAKES_A_TURN = frozenset(
    ("tool.returned", "tool.failed", "call.cancelled", "timer.fired", "subrun.started", "subrun.finished")
)

Seen = tuple[Any, ...]


class Noting(list[Seen]):
    """A trace that notes in which task each entry was appended."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[str] = []

    def append(self, entry: Seen) -> None:
        scope = current.get()
        self.tasks.append("" if scope is None else scope.task.text)
        super().append(entry)


class Recorded:
    """The effects of a program, recorded in the run around it."""

    def __init__(self) -> None:
        self.trace = Noting()
        self._world = World()

    async def effect(self, name: str, args: dict[str, Any]) -> Any:
        return await ar.wrap(self._world.act, kind="tool", name=name)(**args)

    def stream(self, name: str, args: dict[str, Any]) -> AsyncGenerator[Any, None]:
        stream: AsyncGenerator[Any, None] = ar.wrap(self._world.tell, kind="tool", name=name)(**args)
        return stream


def numbered(log: list[Event]) -> list[tuple[int, Event, int | None]]:
    """What took a turn, in order: its number, the event, and which chunk of the event's it is."""
    turns: list[tuple[int, Event, int | None]] = []
    number = 0
    for event in log:
        if event.kind in TAKES_A_TURN and event.within is None:
            number = event.data.turn or number + 1
            turns.append((number, event, None))
            chunks = getattr(event.data, "turns", None) or ()
            turns.extend((turn, event, chunk) for chunk, turn in enumerate(chunks))
    return sorted(turns, key=lambda turn: turn[0])


def seen_by_log(log: list[Event]) -> list[Seen]:
    """What the agent's code was given, in order, by what the log says."""
    called = {event.data.call: event.data for event in log if event.kind == "tool.called"}
    seen: list[Seen] = []
    for _, event, chunk in numbered(log):
        data = event.data
        if chunk is not None:
            seen.append(("chunk", data.stream[chunk]))
        elif event.kind == "timer.fired":
            seen.append(("fired", event.task, data.timer))
        elif event.kind == "tool.failed":
            seen.append(("failed", called[data.call].name, data.error.message))
        elif event.kind == "tool.returned" and data.stream is None:
            seen.append(("returned", called[data.call].name, data.result))
        elif event.kind == "tool.returned" and not getattr(data, "abandoned", False):
            seen.append(("ended", called[data.call].arguments["id"]))
    return seen


def seen_by_code(trace: Noting) -> list[Seen]:
    """The same by what the agent's code has noted."""
    return [
        ("fired", task, entry[1]) if entry[0] == "fired" else entry
        for entry, task in zip(trace, trace.tasks, strict=True)
        if entry[0] in ("returned", "failed", "chunk", "ended", "fired")
    ]


async def record(written: Program, store: EventStore) -> Noting:
    """Execute a program as a run."""
    api = Recorded()
    async with asyncio.timeout(60):  # of no run, so it is a timer like any other
        async with ar.record("random", store=store):
            assert await written(api) is api.trace
    return api.trace


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("first", range(0, 30, 10))
def test_the_log_has_the_order_in_which_the_code_saw_it(level: str, first: int) -> None:
    """Results, errors, chunks and timers of random programs, with commits that take next to no time."""
    for seed in range(first, first + 10):
        store = MemoryStore()
        trace = asyncio.run(record(program(seed, level), store))
        log = log_of(store)
        assert seen_by_log(log) == seen_by_code(trace), (level, seed)
        assert len(seen_by_code(trace)) > 1


def test_a_store_on_a_disk_changes_nothing_about_it(tmp_path: Path) -> None:
    """The same with commits that take their time."""
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    for seed, level in itertools.product(range(100, 105), LEVELS):
        trace = asyncio.run(record(program(seed, level), store))
        assert seen_by_log(log_of(store)) == seen_by_code(trace), (level, seed)
    store.close()


@pytest.mark.parametrize("level", LEVELS)
def test_no_event_is_lost_and_no_turn(level: str) -> None:
    """Every call ends, and the turns are numbered from 1 without a gap; those of no chunk are the events', in order."""
    for seed in range(200, 210):
        store = MemoryStore()
        asyncio.run(record(program(seed, level), store))
        log = log_of(store)
        called = [event.data.call for event in log if event.kind == "tool.called"]
        ended = [event for event in log if event.kind in ("tool.returned", "tool.failed", "call.cancelled")]
        assert sorted(called) == sorted({event.data.call for event in ended}), (level, seed)
        turns = numbered(log)
        assert [number for number, _, _ in turns] == list(range(1, len(turns) + 1))
        assert [event.seq for _, event, chunk in turns if chunk is None] == [
            event.seq for event in log if event.kind in TAKES_A_TURN
        ]
        assert log[-1].data.status == "completed"


@pytest.mark.parametrize("beside", ["a task that never waits", "a heartbeat", "timers without end"])
def test_no_task_starves_the_others(beside: str) -> None:
    """Results, streams and child runs get through beside a task that keeps the loop busy."""
    store = MemoryStore()
    finished: list[int] = []

    async def spin() -> None:
        while len(finished) < 3:
            await asyncio.sleep(0)

    async def beat() -> None:
        while len(finished) < 3:
            await asyncio.sleep(0.0001)

    def again() -> None:
        if len(finished) < 3:
            asyncio.get_running_loop().call_later(0, again)

    @ar.agent("child")
    async def child(i: int, context: ar.Context) -> Any:
        await ar.tool(World().act)(pause=0, suspends=True)
        return ar.Complete(None)

    async def work(number: int) -> None:
        world = World()
        assert await ar.tool(world.act)(pause=0.001, suspends=True) == 1
        assert [value async for value in ar.tool(world.tell)(pause=0, count=3)] == [2, 3, 4]
        await child.arun()
        finished.append(number)

    async def main() -> None:
        async with asyncio.timeout(60), ar.record("a", store=store):
            if beside == "timers without end":
                again()
            tasks = [work(number) for number in range(3)]
            await asyncio.gather(*tasks, *([spin()] if beside == "a task that never waits" else [beat()]))

    asyncio.run(main())
    log = log_of(store, "run1")
    assert sorted(finished) == [0, 1, 2]
    assert [event.kind for event in log].count("tool.returned") == 6
    assert [event.kind for event in log].count("subrun.finished") == 3
    assert ("timer.fired" in [event.kind for event in log]) is (beside != "a task that never waits")
