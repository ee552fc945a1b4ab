"""Code that catches all that stops it ends nevertheless, and its difference is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 60.0
"""Seconds after which a process counts as one that never ends."""

PROGRAM = """
import asyncio, sys, threading, time
from contextlib import suppress
from multiprocessing.pool import ThreadPool
import agentreplay as ar
from agentreplay.recorder.memory_store import MemoryStore

@ar.tool(safety="pure")
def get(n):
    return n

@ar.tool(safety="pure")
async def aget(n):
    return n

other = 0

def a_pool():
    with ThreadPool(2) as pool:
        pool.map(get, [1, 2, 3 + other])

def tried_again():
    while True:
        try:
            get(other)
            break
        except:
            continue

def tried_again_around():
    def inner():
        while True:
            try:
                return get(other)
            except:
                continue
    while True:
        try:
            while True:
                try:
                    return inner()
                except BaseException:
                    pass
        except BaseException:
            pass

def suppressed():
    done = []
    while not done:
        with suppress(BaseException):
            done.append(get(other))

def tried_at_the_end():
    while True:
        try:
            get(other)
            return
        except:
            pass
        finally:
            try:
                get(other)
            except:
                pass

def asleep():
    with suppress(BaseException):
        get(other)
    while other:
        try:
            time.sleep(0.01)
        except:
            pass

def in_a_thread():
    thread = threading.Thread(target=tried_again)
    thread.start()
    thread.join()

def waiting_for_a_thread():
    done = []
    def work():
        tried_again()
        done.append(1)
    threading.Thread(target=work).start()
    while not done:
        try:
            time.sleep(0.01)
        except:
            pass

async def awaited_again():
    while True:
        try:
            await aget(other)
            break
        except:
            continue

async def slept_between():
    while True:
        try:
            await aget(other)
            break
        except:
            try:
                await asyncio.sleep(0.01)
            except:
                pass

async def work_of(done):
    if not other:
        done.append(await aget(1))

async def looked_now_and_then():
    done = []
    task = asyncio.create_task(work_of(done))
    while not done:
        try:
            await asyncio.sleep(0.001)
        except BaseException:
            pass

async def looked_all_the_time():
    done, looks = [], 0
    task = asyncio.create_task(work_of(done))
    while not done:
        try:
            looks += 1
            await asyncio.sleep(0)
        except BaseException:
            pass

async def waited_again():
    done, event = [], asyncio.Event()
    async def work():
        await work_of(done)
        if done:
            event.set()
    task = asyncio.create_task(work())
    while True:
        try:
            await event.wait()
            break
        except BaseException:
            pass

async def in_a_group():
    async with asyncio.TaskGroup() as group:
        group.create_task(slept_between())
        group.create_task(slept_between())

async def gathered():
    await asyncio.gather(slept_between(), slept_between())

async def in_a_thread_of_a_loop():
    await asyncio.to_thread(tried_again)

program = globals()[sys.argv[1]]
store = MemoryStore()

@ar.agent("a")
def step(i, context):
    return ar.Complete(program())

@ar.agent("a")
async def astep(i, context):
    return ar.Complete(await program())

agent = astep if asyncio.iscoroutinefunction(program) else step
asyncio.run(agent.arun({}, store=store)) if agent is astep else agent.run({}, store=store)

def replay():
    try:
        if sys.argv[2] == "beside":
            print(asyncio.run(ar.areplay("run1", agent, store=store)).verdict)
        else:
            print(ar.replay("run1", agent, store=store).verdict)
    except ar.Divergence as parted:
        print(parted.difference.kind)

def both():
    global other
    for other in (0, 1):
        replay()

if sys.argv[2] == "apart":
    thread = threading.Thread(target=both)
    thread.start()
    thread.join()
else:
    both()
assert sys.gettrace() is None
"""

ANOTHER = [
    *("a_pool", "tried_again", "tried_again_around", "suppressed", "tried_at_the_end", "asleep", "in_a_thread"),
    *("waiting_for_a_thread", "awaited_again", "slept_between", "in_a_group", "gathered", "in_a_thread_of_a_loop"),
]
MISSING = ["looked_now_and_then", "looked_all_the_time", "waited_again"]
PROGRAMS = [(name, "other arguments") for name in ANOTHER] + [(name, "missing call") for name in MISSING]


@pytest.mark.parametrize("where", ["main", "apart", "beside"])
@pytest.mark.parametrize(("program", "kind"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
def test_code_that_catches_everything_ends_with_its_difference(
    program: str, kind: str, where: str, tmp_path: Path
) -> None:
    """In the main thread, in another one, and as a task of somebody's event loop; and nothing else is said."""
    (tmp_path / "program.py").write_text(PROGRAM)
    asked = [sys.executable, "program.py", program, where]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert (done.stdout, done.stderr, done.returncode) == (f"identical\n{kind}\n", "", 0)
