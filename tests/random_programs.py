"""Random asyncio programs: what agents do concurrently, in every mixture, the same for the same seed.

A program is its tasks, each a list of steps, and what they share: a queue with a consumer, a lock, an event, and one
trace, to which every task appends whatever reaches it. The world that it touches is `World`; a test gives it through an
`Api` of its own, recorded or replayed. Two executions in which everything arrives in the same order have one trace.

In a trace stand: `("returned", name, value)`, `("failed", name, message)`, `("chunk", value)` and `("ended", id)` of a
stream, `("fired", n)` for the n-th timer of the task that appends it; and other things, which follow from those.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

_ALWAYS: Final = ("effect", "effect", "effect", "same", "put", "lock", "fail", "stream", "event", "gather", "group")
_TIMERS: Final = ("sleep", "wait_for", "timeout")

LEVELS: Final = {
    "usual": (*_ALWAYS, "wait_for"),
    "hops": (*_ALWAYS, "hop", "hop"),
    "timers": (*_ALWAYS, *_TIMERS),
    "hostile": (*_ALWAYS, *_TIMERS, "hop", "hop", "close"),
}
"""What the steps of a program may be. In "hostile" ones the timeouts are about as long as what they wait for."""

Trace = list[tuple[Any, ...]]


class Api(Protocol):
    """How a program touches the world."""

    @property
    def trace(self) -> Trace:
        """Empty before the program runs; what it appends to and returns."""

    async def effect(self, name: str, args: dict[str, Any]) -> Any:
        """Call an effect: what `World.act` gives."""

    def stream(self, name: str, args: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """Call an effect that gives a stream: what `World.tell` gives."""


Program = Callable[[Api], Awaitable[Trace]]


class World:
    """The effects themselves. No two of their values are equal, so that a value says which call it came from."""

    def __init__(self) -> None:
        self._values = itertools.count(1)

    async def act(self, pause: float, suspends: bool, fails: bool = False, **_: Any) -> int:
        """Give a value after a pause, or fail; without suspending, or after a pause of 0 or more seconds."""
        if suspends:
            await asyncio.sleep(pause)
        value = next(self._values)
        if fails:
            raise ValueError(f"failure {value}")
        return value

    async def tell(self, pause: float, count: int, cleanup: float = 0, **_: Any) -> AsyncGenerator[int, None]:
        """Give so many values, a pause before each; cleaning up takes time, too."""
        try:
            for _number in range(count):
                await asyncio.sleep(pause)
                yield next(self._values)
        finally:
            if cleanup:
                await asyncio.sleep(cleanup)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a task: `kind` is a word of `LEVELS`, `pause` in seconds, `count` from 1 to 4."""

    kind: str
    pause: float
    count: int


def program(seed: int, level: str) -> Program:
    """The program of a seed, at one of `LEVELS`."""
    chance = random.Random(f"{level} {seed}")
    pauses = (0, 0, 0.001, 0.002, 0.002, 0.003)
    tasks = [
        [
            Step(chance.choice(LEVELS[level]), chance.choice(pauses), chance.randint(1, 4))
            for _ in range(chance.randint(2, 6))
        ]
        for _ in range(chance.randint(2, 5))
    ]
    factor, timeout = (2, 0.0025) if level == "hostile" else (4, 0.006)

    async def main(api: Api) -> Trace:
        return await _Execution(api, factor, timeout).run(tasks)

    return main


class _Execution:
    def __init__(self, api: Api, factor: int, timeout: float) -> None:
        self.api = api
        self.trace = api.trace
        self.factor = factor
        self.timeout = timeout
        self.queue: asyncio.Queue[str] = asyncio.Queue()
        self.lock = asyncio.Lock()
        self.event = asyncio.Event()

    async def run(self, tasks: list[list[Step]]) -> Trace:
        background = [asyncio.create_task(self.consume()), asyncio.create_task(self.wake())]
        await asyncio.gather(*(self.task(number, steps) for number, steps in enumerate(tasks)))
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        return self.trace

    async def task(self, number: int, steps: list[Step]) -> None:
        timers = itertools.count(1)
        for at, step in enumerate(steps):
            place = f"{number}.{at}"
            await getattr(self, f"do_{step.kind}")(place, step, timers)
            self.trace.append(("done", place))

    async def consume(self) -> None:
        while True:
            item = await self.queue.get()
            self.trace.append(("got", item))
            await self.call("use", id=item, pause=0.001, suspends=True)

    async def wake(self) -> None:
        while True:
            await self.event.wait()
            self.trace.append(("woke",))
            await asyncio.sleep(0)

    async def call(self, name: str, **args: Any) -> Any:
        try:
            value = await self.api.effect(name, args)
        except ValueError as error:
            self.trace.append(("failed", name, str(error)))
            raise
        self.trace.append(("returned", name, value))
        return value

    def act(self, name: str, place: str, step: Step, factor: float = 1, **args: Any) -> Awaitable[Any]:
        pause = step.pause * factor
        return self.call(name, id=place, pause=pause, suspends=bool(pause) or step.count > 2, **args)

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def do_effect(self, place: str, step: Step, _: Iterator[int]) -> None:
        await self.act("effect", place, step)

    async def do_same(self, place: str, step: Step, _: Iterator[int]) -> None:
        await self.act("same", "anywhere", step)  # so others make the very same call

    async def do_fail(self, place: str, step: Step, _: Iterator[int]) -> None:
        try:
            await self.act("fail", place, step, fails=True)
        except ValueError:
            self.trace.append(("caught", place))

    async def do_hop(self, place: str, step: Step, _: Iterator[int]) -> None:
        for _number in range(step.count):
            await asyncio.sleep(0)

    async def do_put(self, place: str, step: Step, _: Iterator[int]) -> None:
        await self.queue.put(place)

    async def do_event(self, place: str, step: Step, _: Iterator[int]) -> None:
        self.event.set()
        self.event.clear()

    async def do_lock(self, place: str, step: Step, _: Iterator[int]) -> None:
        async with self.lock:
            self.trace.append(("in", place))
            await self.act("locked", place, step)

    async def do_stream(self, place: str, step: Step, _: Iterator[int]) -> None:
        number = 0
        async for value in self.api.stream("stream", {"id": place, "pause": step.pause, "count": step.count}):
            self.trace.append(("chunk", value))
            number += 1
            if number == 3:
                return  # and nobody closes it
        self.trace.append(("ended", place))

    async def do_close(self, place: str, step: Step, _: Iterator[int]) -> None:
        cleanup = step.pause if step.count > 1 else 0
        args = {"id": place, "pause": step.pause, "count": step.count, "cleanup": cleanup}
        stream = self.api.stream("closed", args)
        self.trace.append(("chunk", await anext(stream)))
        await stream.aclose()
        self.trace.append(("closed", place))

    async def do_gather(self, place: str, step: Step, _: Iterator[int]) -> None:
        calls = [self.act("gathered", f"{place}.{n}", step, fails=n == 1) for n in range(step.count)]
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            self.trace.append(("of all", str(outcome)))

    async def do_group(self, place: str, step: Step, _: Iterator[int]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for n in range(step.count):
                    group.create_task(self.in_group(place, n, step))
        except* ValueError as errors:
            self.trace.append(("group", place, len(errors.exceptions)))

    async def in_group(self, place: str, n: int, step: Step) -> None:
        await self.act("grouped", f"{place}.{n}", step, factor=1 + n % 2, fails=n == 2)

    async def do_sleep(self, place: str, step: Step, timers: Iterator[int]) -> None:
        timer = next(timers)
        await asyncio.sleep(step.pause + 0.0005)
        self.trace.append(("fired", timer))

    async def do_wait_for(self, place: str, step: Step, timers: Iterator[int]) -> None:
        timer = next(timers)
        try:
            await asyncio.wait_for(self.act("waited", place, step, self.factor), self.timeout)
        except TimeoutError:
            self.trace.append(("fired", timer))

    async def do_timeout(self, place: str, step: Step, timers: Iterator[int]) -> None:
        timer = next(timers)
        try:
            async with asyncio.timeout(self.timeout):
                await self.act("timed", place, step, self.factor / 2)
                await self.act("timed again", place, step, self.factor / 2)
        except TimeoutError:
            self.trace.append(("fired", timer))
