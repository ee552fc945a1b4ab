"""A divergence names the user's line, also where a call is made by an event loop or a pool of threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from opentelemetry.instrumentation.threading import ThreadingInstrumentor


@ar.tool(safety="pure")
async def get(number: int) -> int:
    """Awaits, and gives its number."""
    await asyncio.sleep(0)
    return number


@ar.tool(safety="pure")
def plain(number: int) -> int:
    """Gives its number."""
    return number


async def gathered(n: int) -> Any:
    return await asyncio.gather(get(0), get(n))  # here


async def in_a_task(n: int) -> Any:
    task = asyncio.create_task(get(n))  # here
    return await task


async def in_a_group(n: int) -> Any:
    async with asyncio.TaskGroup() as group:
        group.create_task(get(n))  # here


async def with_a_limit(n: int) -> Any:
    return await asyncio.wait_for(get(n), 5)  # here


async def gathered_in_a_task(n: int) -> Any:
    async def inner() -> Any:
        return await asyncio.gather(get(n))  # here

    return await asyncio.gather(inner())


async def in_a_coroutine(n: int) -> Any:
    async def inner() -> Any:
        return await get(n)  # here

    return await asyncio.gather(inner())


async def in_a_thread_of_the_loops(n: int) -> Any:
    return await asyncio.to_thread(plain, n)  # here


async def in_a_pool(n: int) -> Any:
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(plain, n).result()  # here


async def mapped(n: int) -> Any:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(plain, [0, n]))  # here


async def in_a_function_of_a_pool(n: int) -> Any:
    def work() -> int:
        return plain(n)  # here

    with ThreadPoolExecutor(2) as pool:
        return pool.submit(work).result()


async def in_a_thread(n: int) -> Any:
    thread = threading.Thread(target=plain, args=(n,))
    thread.start()  # here
    thread.join()


WAYS = [
    *(gathered, in_a_task, in_a_group, with_a_limit, gathered_in_a_task, in_a_coroutine, in_a_thread_of_the_loops),
    *(in_a_pool, mapped, in_a_function_of_a_pool, in_a_thread),
]


@pytest.fixture(params=[False, True], ids=["bare", "measured"])
def is_measured(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether OpenTelemetry, which comes with the SDK of Strands, has put itself between threads and what they run."""
    instrument = ThreadingInstrumentor()
    before = instrument.is_instrumented_by_opentelemetry
    _set_measuring(instrument, request.param)
    yield request.param
    _set_measuring(instrument, before)


def _set_measuring(instrument: Any, wanted: bool) -> None:
    if wanted and not instrument.is_instrumented_by_opentelemetry:
        instrument.instrument()
    elif instrument.is_instrumented_by_opentelemetry and not wanted:
        instrument.uninstrument()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.usefixtures("is_measured")
@pytest.mark.parametrize("way", WAYS)
def test_the_line_that_started_a_call_is_named(way: Callable[[int], Any]) -> None:
    """The innermost line of the task or of the thread's function; if it has none, the one that started it."""
    n = 1

    @ar.agent("ways")
    async def step(i: int, context: ar.Context) -> ar.Complete[int]:
        await way(n)
        return ar.Complete(1)

    store = MemoryStore()
    asyncio.run(step.arun({}, store=store))
    assert ar.replay("run1", step, store=store).verdict == "identical"
    n = 2
    with pytest.raises(ar.Divergence) as caught:
        ar.replay("run1", step, store=store)
    file, _, line = str(caught.value.difference.site).partition(":")
    with open(__file__, encoding="utf-8") as source:
        marked = [number for number, text in enumerate(source, 1) if text.endswith("# here\n")]
    code = way.__code__  # type: ignore[attr-defined]  # a function
    assert (file, int(line)) == ("test_replay_sites.py", min(at for at in marked if at > code.co_firstlineno))
