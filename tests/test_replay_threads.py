"""Threads that the code starts in every way replay, and none of them makes a replay hang."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore

PAUSE = 0.001


@ar.tool(safety="pure")
def slow(n: int) -> int:
    """A tool that takes a moment."""
    time.sleep(PAUSE)
    return n * 2


@pytest.mark.parametrize("attempt", range(8))
def test_plain_tools_in_threads_of_an_event_loop_replay(attempt: int) -> None:
    """Work that was submitted and has not begun is no missing call."""

    @ar.agent("to_thread")
    async def step(i: int, context: ar.Context) -> ar.Complete[list[int]]:
        return ar.Complete(list(await asyncio.gather(*[asyncio.to_thread(slow, n) for n in range(5)])))

    store = MemoryStore()
    asyncio.run(step.arun({}, store=store))
    assert ar.replay("run1", step, store=store).verdict == "identical"


def test_threads_that_wait_for_a_lock_do_not_hold_up_a_replay() -> None:
    """A lock around a call is held by the one that waits for its answer; the others look as if they computed."""

    @ar.agent("locked")
    def step(i: int, context: ar.Context) -> ar.Complete[list[int]]:
        lock = threading.Lock()

        def work(n: int) -> int:
            with lock:
                return slow(n)

        with ThreadPoolExecutor(4) as pool:
            return ar.Complete(list(pool.map(work, range(6))))

    store = MemoryStore()
    step.run({}, store=store)
    assert ar.replay("run1", step, store=store).verdict == "identical"


def test_a_re_run_whose_prefix_raises_says_so() -> None:
    """The log goes on there, which the code does not: another error, and not the end of a recording."""
    broken = False

    @ar.agent("raising")
    def step(i: int, context: ar.Context) -> Any:
        slow(i)
        if broken and i == 2:
            raise ValueError("boom")
        return ar.Complete(1) if i == 4 else ar.Continue()

    store = MemoryStore()
    step.run({}, store=store)
    broken = True
    with pytest.raises(ar.Divergence) as raised:
        ar.rerun("run1", step, 3, store=store)
    assert (raised.value.difference.kind, raised.value.difference.step) == ("another error", 2)
    assert [info.id for info in store.runs()] == ["run1"]
