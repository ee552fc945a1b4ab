"""A replay ends whatever the code waits for, and says what is missing."""

from __future__ import annotations

import asyncio
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore

LIMIT = 30.0
"""Seconds after which a replay counts as one that never ends."""


@ar.tool(safety="pure")
def get(n: int) -> int:
    return n


@ar.tool(safety="pure")
async def aget(n: int) -> int:
    await asyncio.sleep(0.001)
    return n


class Code:
    """What the programs below do: all that was recorded, or less."""

    less = False


@pytest.fixture(autouse=True)
def whole() -> Iterator[None]:
    """Each test begins with the whole program."""
    Code.less = False
    yield
    Code.less = False


def ends(work: Callable[[], Any], apart: bool) -> Any:
    """What some work came to, here or in another thread; it must end."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    if not apart:
        run()
        return found[0]
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert found, "the replay has not ended"
    return found[0]


def parted(program: Callable[[], Any], apart: bool = True) -> Any:
    """The difference that a replay of a program finds which makes less than was recorded."""
    store = MemoryStore()

    @ar.agent("a")
    def step(i: int, context: ar.Context) -> Any:
        return ar.Complete(program())

    @ar.agent("a")
    async def astep(i: int, context: ar.Context) -> Any:
        return ar.Complete(await program())

    agent = astep if asyncio.iscoroutinefunction(program) else step
    agent.run({}, store=store) if agent is step else asyncio.run(agent.arun({}, store=store))
    assert ar.replay("run1", agent, store=store).verdict == "identical"
    Code.less = True
    found = ends(lambda: ar.replay("run1", agent, store=store), apart)
    assert isinstance(found, ar.Divergence), found
    return found.difference


def in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work).start()


def from_a_queue() -> int:
    told: queue.Queue[int] = queue.Queue()

    def work() -> None:
        get(1)
        if not Code.less:
            told.put(get(2))

    in_thread(work)
    return told.get()


def before_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()

    def work() -> None:
        get(1)
        if not Code.less:
            get(2)
            lock.release()

    in_thread(work)
    with lock:
        return


def at_a_condition() -> None:
    changed, done = threading.Condition(), list[int]()

    def work() -> None:
        get(1)
        if Code.less:
            threading.Event().wait()
        done.append(get(2))
        with changed:
            changed.notify_all()

    in_thread(work)
    with changed:
        changed.wait_for(lambda: done)


def at_a_barrier() -> None:
    barrier = threading.Barrier(2)

    def work() -> None:
        get(1)
        if not Code.less:
            get(2)
            barrier.wait()

    in_thread(work)
    barrier.wait()


def in_a_pool() -> list[int]:
    last = threading.Event()

    def work(n: int) -> int:
        if n == 2 and Code.less:
            last.wait()
        return get(n)

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(work, range(3)))


def looking_again() -> None:
    done: list[int] = []

    def work() -> None:
        get(1)
        if not Code.less:
            done.append(get(2))

    in_thread(work)
    while not done:
        time.sleep(0.005)


def for_a_process() -> None:
    get(1)
    if Code.less:
        subprocess.run([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, capture_output=True)
        reader, _ = os.pipe()
        os.read(reader, 1)
    get(2)


async def at_an_asyncio_queue() -> int:
    told: asyncio.Queue[int] = asyncio.Queue()

    async def work() -> None:
        await aget(1)
        if not Code.less:
            await told.put(await aget(2))

    task = asyncio.create_task(work())
    found = await told.get()
    await task
    return found


async def in_nested_gathers() -> None:
    async def two(n: int) -> None:
        if Code.less and n == 1:
            await asyncio.Event().wait()
        await asyncio.gather(aget(n), aget(n + 10))

    await asyncio.gather(*[two(n) for n in range(3)])


async def in_a_group_with_a_limit() -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(aget(1))
            group.create_task(asyncio.sleep(0) if Code.less else aget(2))
            if Code.less:
                group.create_task(asyncio.Event().wait())


async def polling() -> None:
    tasks = [asyncio.create_task(aget(n)) for n in ((2,) if Code.less else (1, 2))]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)


async def polling_and_counting() -> None:
    done = asyncio.Event()

    async def work() -> None:
        await aget(1)
        if not Code.less:
            await aget(2)
            done.set()

    task = asyncio.create_task(work())
    looks = 0
    while not done.is_set():
        looks += 1
        await asyncio.sleep(0)
    await task


async def in_another_thread() -> None:
    def work() -> None:
        get(1)
        if Code.less:
            threading.Event().wait()
        get(2)

    await asyncio.to_thread(work)


async def in_plain_code_of_a_loop() -> None:
    await aget(1)
    if Code.less:
        threading.Event().wait()
    await aget(2)


PROGRAMS = [
    *(from_a_queue, before_a_lock, at_a_condition, at_a_barrier, in_a_pool, looking_again, for_a_process),
    *(at_an_asyncio_queue, in_nested_gathers, in_a_group_with_a_limit, polling, polling_and_counting),
    *(in_another_thread, in_plain_code_of_a_loop),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_missing_call_is_told_of_wherever_the_code_waits(program: Callable[[], Any]) -> None:
    """For another thread, a process, a task, or for nothing that could ever come."""
    difference = parted(program)
    assert (difference.kind, difference.step) == ("missing call", 1)


@pytest.mark.parametrize("program", [from_a_queue, before_a_lock, in_another_thread, polling])
def test_the_main_thread_is_woken_as_well(program: Callable[[], Any]) -> None:
    """Where code waits in the main thread, which cannot be left behind."""
    assert parted(program, apart=False).kind == "missing call"


SCRIPT = """
import queue, threading
from concurrent.futures import ThreadPoolExecutor
import agentreplay as ar
from agentreplay.recorder.memory_store import MemoryStore

@ar.tool(safety="pure")
def get(n):
    return n

asked = 1

@ar.agent("a")
def step(i, context):
    told, lock, pool = queue.Queue(), threading.Lock(), ThreadPoolExecutor(1)
    lock.acquire()
    def produce():
        told.put(get(asked))
        lock.release()
    threads = [threading.Thread(target=produce), threading.Thread(target=told.get)]
    for thread in threads:
        thread.start()
    locked = pool.submit(lock.acquire)
    for thread in threads:
        thread.join()
    locked.result()
    return ar.Complete(1)

store = MemoryStore()
step.run({}, store=store)
asked = 2
try:
    ar.replay("run1", step, store=store)
except ar.Divergence as parted:
    print(parted.difference.kind)
"""


def test_threads_that_wait_for_ever_do_not_keep_a_process_from_ending() -> None:
    """They are left behind; nothing of what they do reaches anybody."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=LIMIT)
    assert (done.stdout, done.returncode) == ("other arguments\n", 0)


def test_code_that_computes_is_waited_for() -> None:
    """Also where a task that polls, and all that it holds stays the same, leaves the event loop no idle moment."""
    store, rounds = MemoryStore(), 1

    @ar.agent("a")
    async def step(i: int, context: ar.Context) -> Any:
        await aget(1)
        for number in range(rounds):
            sum(range(2_000 + number))
            await asyncio.sleep(0)
        return ar.Complete(await aget(2))

    asyncio.run(step.arun({}, store=store))
    rounds = 5_000
    assert ar.replay("run1", step, store=store).verdict == "identical"


def test_code_that_sleeps_as_it_did_is_waited_for() -> None:
    """How long it was silent while it was recorded is known."""
    store = MemoryStore()

    @ar.agent("a")
    def step(i: int, context: ar.Context) -> Any:
        def work() -> None:
            get(1)
            time.sleep(0.4)
            get(2)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return ar.Complete(get(3))

    step.run({}, store=store)
    result = ar.replay("run1", step, store=store)
    assert (result.verdict, result.coverage.notes) == ("identical", [])


def test_a_sleep_that_was_not_recorded_is_told_of_with_its_line(tmp_path: Path) -> None:
    """The code waits for a timer that does not fire."""
    store = MemoryStore()

    @ar.agent("a")
    async def step(i: int, context: ar.Context) -> Any:
        await aget(1)
        if Code.less:
            await asyncio.sleep(30)
        return ar.Complete(1)

    asyncio.run(step.arun({}, store=store))
    Code.less = True
    with pytest.raises(ar.Divergence) as raised:
        ar.replay("run1", step, store=store)
    difference = raised.value.difference
    assert (difference.kind, difference.where.partition(":")[0]) == ("extra call", "test_standstill.py")
    assert difference.actual == {"kind": "timer", "name": "asyncio.sleep", "arguments": {"delay": 30.0}}


def test_what_the_code_waits_for_otherwise_is_told_of_with_its_line() -> None:
    """Something that the recording knows nothing of."""
    store = MemoryStore()

    @ar.agent("a")
    async def step(i: int, context: ar.Context) -> Any:
        await aget(1)
        if Code.less:
            await asyncio.Event().wait()
        return ar.Complete(1)

    asyncio.run(step.arun({}, store=store))
    Code.less = True
    with pytest.raises(ar.Divergence) as raised:
        ar.replay("run1", step, store=store)
    difference = raised.value.difference
    assert (difference.kind, str(difference.site).partition(":")[0]) == ("another outcome", "test_standstill.py")
