"""Concurrent code replays in the order in which it was recorded: the whole trace, not only the results."""

from __future__ import annotations

import asyncio
import queue
import random
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.loop import Agent
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from random_programs import LEVELS, Program, Trace, World, program

PROGRAMS = 250
CHUNK = 25


class Recorded:
    """A random program's effects, as tools of a run. Each real one is counted."""

    def __init__(self, run: Any, real: list[str]) -> None:
        self.trace: Trace = []
        self._run = run
        self._world = World()
        self._real = real

    async def effect(self, name: str, args: dict[str, Any]) -> Any:
        async def act(**given: Any) -> Any:
            self._real.append(name)
            return await self._world.act(**given)

        return await self._run.atool(name, args, act, safety="pure")

    async def stream(self, name: str, args: dict[str, Any]) -> AsyncGenerator[Any, None]:
        async def tell(**given: Any) -> AsyncGenerator[Any, None]:
            self._real.append(name)
            async for value in self._world.tell(**given):
                yield value

        async for value in await self._run.atool(name, args, tell, safety="pure"):
            yield value


def app(written: Program, store: EventStore, real: list[str], traces: list[Trace]) -> Callable[[], Any]:
    """Code that runs a program in a run."""

    async def main() -> None:
        async with ar.record("program", payload={}, store=store) as run:
            with run.round():
                traces.append(await written(Recorded(run, real)))

    return main


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
@pytest.mark.parametrize("level", LEVELS)
def test_random_programs_replay_identically(level: str, first: int) -> None:
    """A thousand programs: the same trace to the last entry, no effect made, and no note of another order."""
    for seed in range(first, first + CHUNK):
        store, real, traces = MemoryStore(), list[str](), list[Trace]()
        code = app(program(seed, level), store, real, traces)
        asyncio.run(code())
        made = len(real)
        result = ar.replay("run1", code, store=store)
        assert traces[0] == traces[1], f"{level} {seed}"
        assert (result.verdict, result.coverage.notes, len(real)) == ("identical", [], made)


# -- calls that are missing ------------------------------------------------------------------------------------


@ar.tool(safety="pure")
async def look(name: str, pause: float) -> str:
    """An effect that takes a while."""
    await asyncio.sleep(pause)
    return name.upper()


def looking(*names: str, after: Callable[[], Any] | None = None) -> Agent:
    """An agent that looks at some things at once, and then perhaps does something else."""

    @ar.agent("looking")
    async def step(i: int, context: ar.Context) -> ar.Complete[list[str]]:
        found = await asyncio.gather(*[look(name, 0.001 * n) for n, name in enumerate(names, 1)])
        if after is not None:
            await after()
        return ar.Complete(list(found))

    return step


async def wait_for_ever() -> None:
    """Wait for what never comes."""
    await asyncio.Event().wait()


async def beat() -> None:
    """Something that goes on beside, for ever."""
    while True:
        await asyncio.sleep(0.5)


async def wait_beside_a_heartbeat() -> None:
    """Wait for what never comes, beside a task that never ends."""
    task = asyncio.create_task(beat())
    try:
        await asyncio.Event().wait()
    finally:
        task.cancel()


async def swallow_everything() -> None:
    """Retry whatever happens."""
    for _ in range(3):
        try:
            await asyncio.Event().wait()
        except BaseException:
            continue


@pytest.mark.parametrize("after", [None, wait_for_ever, wait_beside_a_heartbeat, swallow_everything])
def test_a_missing_call_is_found_where_all_wait(
    after: Callable[[], Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the log expects next is never asked for: said at once, whatever the code waits for instead."""
    monkeypatch.setattr("agentreplay.replay.turns.PATIENCE", 60.0)
    store = MemoryStore()
    asyncio.run(looking("a", "b").arun({}, store=store))
    started = time.perf_counter()
    with pytest.raises(ar.Divergence) as raised:
        ar.replay("run1", looking("a", after=after), store=store)
    assert time.perf_counter() - started < 30  # patience would be longer
    difference = raised.value.difference
    assert (difference.kind, difference.step, difference.call) == ("missing call", 1, "1.2")


def test_code_that_waits_for_what_was_not_recorded_is_stopped() -> None:
    """All calls are there, and then it waits for ever: no divergence of a call, and no hanging either."""
    store = MemoryStore()
    asyncio.run(looking("a").arun({}, store=store))
    with pytest.raises(ar.Divergence) as raised:
        ar.replay("run1", looking("a", after=wait_for_ever), store=store)
    assert raised.value.difference.kind == "another outcome"


def test_parallel_calls_that_became_sequential_are_no_divergence() -> None:
    """The results come in another order then, which is noted."""
    store = MemoryStore()

    @ar.agent("pair")
    async def parallel(i: int, context: ar.Context) -> ar.Complete[list[str]]:
        return ar.Complete(list(await asyncio.gather(look("a", 0.003), look("b", 0.001))))

    @ar.agent("pair")
    async def sequential(i: int, context: ar.Context) -> ar.Complete[list[str]]:
        return ar.Complete([await look("a", 0.003), await look("b", 0.001)])

    asyncio.run(parallel.arun({}, store=store))
    result = ar.replay("run1", sequential, store=store)
    assert result.verdict == "identical"
    assert result.coverage.notes == ["results came in another order than they were recorded in"]


def test_a_timeout_takes_no_time() -> None:
    """Timers fire by the log, so that waiting two seconds takes none."""
    store = MemoryStore()

    @ar.agent("patient")
    async def step(i: int, context: ar.Context) -> ar.Complete[str]:
        try:
            await asyncio.wait_for(look("a", 30), 2)
        except TimeoutError:
            return ar.Complete("timeout")
        return ar.Complete("found")

    asyncio.run(step.arun({}, store=store))
    started = time.perf_counter()
    assert ar.replay("run1", step, store=store).result.value == "timeout"  # type: ignore[union-attr]
    assert time.perf_counter() - started < 1.9


def test_a_replay_runs_in_the_loop_that_is_there() -> None:
    """`areplay` in a loop with tasks of others, which it leaves alone."""
    store = MemoryStore()

    async def main() -> tuple[str, bool]:
        await looking("a", "b").arun({}, store=store)
        other = asyncio.create_task(asyncio.sleep(0.05, "slept"))
        result = await ar.areplay("run1", looking("a", "b"), store=store)
        with pytest.raises(ar.Divergence):
            await ar.areplay("run1", looking("a"), store=store)
        return result.verdict, await other == "slept"

    assert asyncio.run(main()) == ("identical", True)


# -- threads -----------------------------------------------------------------------------------------------------


def pooled(
    seed: int, store: EventStore, real: list[int], skip: tuple[int, int] | None = None
) -> Callable[[], list[Any]]:
    """Code with threads in a pool that hand their results to another one."""
    chance = random.Random(seed)
    pauses = [[chance.choice([0.0, 0.001, 0.002]) for _ in range(3)] for _ in range(3)]

    def tool(who: int, number: int) -> int:
        real.append(1)
        time.sleep(pauses[who][number])
        return who * 10 + number

    def main() -> list[Any]:
        seen: list[Any] = []
        handed: queue.Queue[int] = queue.Queue()
        with ar.record("pooled", payload={}, store=store) as run, run.round():

            def work(who: int) -> None:
                for number in range(3):
                    if (who, number) != skip:
                        value = run.tool("tool", {"who": who, "number": number}, tool, safety="pure")
                        seen.append(value)
                        handed.put(value)

            def use() -> None:
                for _ in range(9 - (skip is not None)):
                    value = handed.get()
                    seen.append(("used", run.tool("use", {"value": value}, lambda value: value, safety="pure")))

            with ThreadPoolExecutor(8) as pool:
                futures = [*(pool.submit(work, who) for who in range(3)), pool.submit(use)]
                for future in as_completed(futures):
                    future.result()
            run.change(update={"seen": [str(value) for value in seen]})
        return seen

    return main


@pytest.mark.parametrize("seed", range(12))
def test_threads_replay_in_the_order_of_their_results(seed: int) -> None:
    """Answers are handed out one at a time, when all threads wait."""
    store, real = MemoryStore(), list[int]()
    code = pooled(seed, store, real)
    seen, made = code(), len(real)
    result = ar.replay("run1", code, store=store)
    assert (result.verdict, result.coverage.notes, len(real)) == ("identical", [], made)
    assert [str(value) for value in seen] == ar.state_at("run1", store=store).payload["seen"]


def test_a_call_that_no_thread_makes_is_found() -> None:
    """All threads wait for it in the end."""
    store, real = MemoryStore(), list[int]()
    pooled(1, store, real)()
    with pytest.raises(ar.Divergence) as raised:
        ar.replay("run1", pooled(1, store, real, skip=(1, 1)), store=store)
    assert raised.value.difference.kind == "missing call"


SAFE = ("pure", "idempotent", "compensable", "irreversible", None)


@pytest.mark.parametrize("second", SAFE)
@pytest.mark.parametrize("first", SAFE)
def test_tools_of_one_task_are_swapped_only_where_both_are_pure(first: Any, second: Any) -> None:
    """Anything else is a divergence, also across a change of the payload; the call that came too early is told."""
    pay = ar.wrap(lambda: 1, kind="tool", name="pay", safety=first)
    mail = ar.wrap(lambda: 2, kind="tool", name="mail", safety=second)
    order = [pay, mail]

    @ar.agent("clerk")
    def clerk(i: int, context: ar.Context) -> ar.Complete[str]:
        order[0]()
        context.change(new={"half": True}, reason="one is done")
        order[1]()
        return ar.Complete("done")

    store = MemoryStore()
    clerk.run({}, store=store)
    order.reverse()
    if first == second == "pure":
        result = ar.replay("run1", clerk, store=store)
        assert (result.verdict, len(result.coverage.notes)) == ("identical", 1)
        return
    with pytest.raises(ar.Divergence) as parted:
        ar.replay("run1", clerk, store=store)
    difference = parted.value.difference
    assert (difference.kind, difference.call, difference.expected["name"]) == ("another call", "1.1", "pay")
    assert difference.actual["name"] == "mail"


def test_a_tool_that_is_overtaken_and_never_called_is_missing() -> None:
    """The two are not told as swapped then."""
    pay = ar.wrap(lambda: 1, kind="tool", name="pay", safety="irreversible")
    mail = ar.wrap(lambda: 2, kind="tool", name="mail", safety="irreversible")
    calls = [pay, mail]

    @ar.agent("clerk")
    def clerk(i: int, context: ar.Context) -> ar.Complete[str]:
        for call in calls:
            call()
        return ar.Complete("done")

    store = MemoryStore()
    clerk.run({}, store=store)
    del calls[0]
    with pytest.raises(ar.Divergence) as parted:
        ar.replay("run1", clerk, store=store)
    assert (parted.value.difference.kind, parted.value.difference.call) == ("missing call", "1.1")
