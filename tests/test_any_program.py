"""Whatever an agent does at once, its log makes sense: it folds, verifies, and tells each call from the others."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.replay.reducer import fold


class Oops(Exception):
    """What tools of these programs raise."""


class Program:
    """A random program of tasks, threads and calls, in an async agent. Equal seeds give equal programs."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.pool = ThreadPoolExecutor(2)
        self.tool = ar.tool(self._tool)
        self.atool = ar.tool(self._atool)
        self.numbers = ar.tool(self._numbers)
        self.anumbers = ar.tool(self._anumbers)

    def draw(self, *choices: str) -> str:
        with self.lock:
            return self.chance.choice(choices)

    def count(self, name: str) -> None:
        with self.lock:
            self.calls[name] += 1

    def _tool(self, depth: int) -> int:
        self.count("_tool")
        if self.draw("fail", "work", "work") == "fail":
            raise Oops
        return self.tool(depth - 1) if depth > 0 and self.draw("call", "rest") == "call" else depth

    async def _atool(self, depth: int) -> Any:
        self.count("_atool")
        if self.draw("fail", "work", "work", "work") == "fail":
            raise Oops
        await asyncio.sleep(0.001 * depth)
        return await self.action(depth - 1)

    def _numbers(self, n: int) -> Iterator[int]:
        self.count("_numbers")
        for i in range(n):
            if self.draw("fail", *["go on"] * 9) == "fail":
                raise Oops
            yield i

    async def _anumbers(self, n: int) -> AsyncGenerator[int, None]:
        self.count("_anumbers")
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    async def action(self, depth: int) -> Any:
        if depth <= 0:
            return None
        what = self.draw(
            "tool", "atool", "gather", "group", "timeout", "thread", "pool", "numbers", "anumbers", "cancel"
        )
        try:
            return await getattr(self, f"do_{what}")(depth)
        except (Oops, TimeoutError, BaseExceptionGroup):
            return what

    async def do_tool(self, depth: int) -> None:
        self.tool(depth)

    async def do_atool(self, depth: int) -> None:
        await self.atool(depth)

    async def do_gather(self, depth: int) -> None:
        await asyncio.gather(*(self.action(depth - 1) for _ in range(3)), return_exceptions=True)

    async def do_group(self, depth: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(self.atool(depth - 1))

    async def do_timeout(self, depth: int) -> None:
        async with asyncio.timeout(0.002):
            await self.atool(depth)

    async def do_thread(self, depth: int) -> None:
        await asyncio.to_thread(self.tool, depth)

    async def do_pool(self, depth: int) -> None:
        loop = asyncio.get_running_loop()
        both = (loop.run_in_executor(self.pool, self.tool, depth) for _ in range(2))
        # A call that went on when one of them fails would end before the other one is even called.
        for ended in await asyncio.gather(*both, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def do_numbers(self, depth: int) -> None:
        for _ in self.numbers(5):
            if self.draw("stop", "go on") == "stop":
                break

    async def do_anumbers(self, depth: int) -> None:
        running = self.anumbers(5)
        async for _ in running:
            if self.draw("stop", "go on") == "stop":
                break
        await running.aclose()

    async def do_cancel(self, depth: int) -> None:
        task = asyncio.create_task(self.atool(depth))
        await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def run(self, store: SqlStore) -> str:
        @ar.agent("random")
        async def step(i: int, context: ar.Context) -> Any:
            context.change(update={"round": i})
            await asyncio.gather(*(self.action(4) for _ in range(3)), return_exceptions=True)
            context.change(new={f"after {i}": True})
            if i < 3:
                return ar.Continue()
            # What was cancelled may still be at work, in tasks and threads; what it does after the run is not recorded.
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)
            await asyncio.to_thread(self.pool.shutdown)
            await asyncio.get_running_loop().shutdown_default_executor()
            return ar.Complete(None)

        with self.pool:
            return step.run({}, store=store).run.id


@pytest.mark.parametrize("seed", range(20))
def test_the_log_of_any_program_makes_sense(seed: int, tmp_path: Any) -> None:
    """Gapless, chained, folding; each effect that ran has its call; what is within a call happens while it is open."""
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    program = Program(seed)
    run = program.run(store)
    events = list(store.events(run))
    assert store.verify() == []
    assert [event.seq for event in events] == list(range(len(events)))
    assert events[-1].kind == "run.finished"
    state = fold(events)
    assert state.payload == {"round": 3, "after 1": True, "after 2": True, "after 3": True}
    called = {event.data.call: event for event in events if event.kind == "tool.called"}
    assert len(called) == sum(event.kind == "tool.called" for event in events)
    # A call may be cancelled between its event and its effect; no effect runs without one.
    assert not program.calls - Counter(event.data.name for event in called.values())
    ended: dict[str, int] = {}
    cancelled = {event.data.call for event in events if event.kind == "call.cancelled"}
    for event in events:
        if event.kind in ("tool.returned", "tool.failed", "call.cancelled"):
            call = called[event.data.call]
            ended.setdefault(event.data.call, event.seq)
            assert (event.round, event.within, event.task) == (call.round, call.within, call.task)
    for event in called.values():
        if event.within is not None:
            around = called[event.within]
            # A thread goes on where the call that waited for it was cancelled.
            assert around.seq < event.seq < (len(events) if event.within in cancelled else ended[event.within])
            assert event.task == around.task or event.task.startswith(around.task + ".")
    assert set(state.open_calls) == set(called) - set(ended)
    store.close()
