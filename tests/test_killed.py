"""A process that is killed, at whatever moment, leaves everything in the log that its agent had seen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore, RunInfo
from cli_runs import json_of

KILLS = 50
MODES = ("step", "async", "threads")

# One process imports everything and then only forks, which it may since it has no threads. So a recording takes no
# longer to begin than a kill takes to come. What a tool call returned is written down, in a file, when it has.
NURSERY = """
import asyncio, os, random, signal, sys, threading, time
import agentreplay as ar
import agentreplay.recorder.sql_store

folder, kills, modes = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")

def record(name, mode, stopped, pause):
    progress = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def seen(n):
        os.write(progress, f"{n}\\n".encode())
        time.sleep(pause)

    @ar.tool
    def work(n):
        return n * n

    @ar.tool
    async def awork(n):
        await asyncio.sleep(0)
        return n * n

    if mode == "step":
        @ar.agent(name, max_rounds=1_000_000)
        def step(i, context):
            seen(work(i))
            return ar.Complete(i) if stopped() else ar.Continue()
        step.run({"n": 0})
    elif mode == "async":
        async def several(i):
            async def one(n):
                seen(await awork(n) if n % 2 else work(n))
            await asyncio.gather(*(one(4 * i + k) for k in range(4)))
        @ar.agent(name, max_rounds=1_000_000)
        async def step(i, context):
            await several(i)
            context.change(update={"n": i})
            return ar.Complete(i) if stopped() else ar.Continue()
        asyncio.run(step.arun({"n": 0}))
    else:
        with ar.record(name, payload={"n": 0}) as run, run.round():
            def loop(first):
                n = first
                while not stopped():
                    seen(work(n))
                    n += 3
            threads = [threading.Thread(target=loop, args=(k,)) for k in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

def fork(name, mode, stopped=lambda: False, pause=0):
    pid = os.fork()
    if pid == 0:
        try:
            record(name, mode, stopped, pause)
        except BaseException as error:
            print(name, repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return pid

survivors = [fork(f"survivor-{mode}", mode, lambda: os.path.exists(f"{folder}/stop"), 0.01) for mode in modes]
alive = []
for number in range(kills):
    name = f"killed-{number}"
    pid = fork(name, modes[number % len(modes)])
    alive.append((pid, name, random.uniform(0.0, 0.15)))
    if len(alive) == 3 or number == kills - 1:
        for pid, name, delay in alive:
            while not os.path.exists(f"{folder}/{name}") or os.path.getsize(f"{folder}/{name}") == 0:
                assert os.waitpid(pid, os.WNOHANG) == (0, 0)
                time.sleep(0.001)
            time.sleep(delay)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        alive.clear()
open(f"{folder}/stop", "w").close()
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in survivors))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store in which runs were killed while others went on, and what the agents had seen by then."""
    folder = tmp_path_factory.mktemp("killed")
    environment = {**os.environ, "AGENTREPLAY_STORE": str(folder / "store.db")}
    command = [sys.executable, "-c", NURSERY, str(folder), str(KILLS), ",".join(MODES)]
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture
def store(folder: Path) -> Iterator[SqlStore]:
    store = SqlStore(f"sqlite:///{folder}/store.db", create=False)
    yield store
    store.close()


def runs(store: EventStore, kind: str) -> list[RunInfo]:
    return [info for info in store.runs() if info.agent.startswith(kind)]


def test_no_killed_process_loses_what_its_agent_saw(folder: Path, store: SqlStore) -> None:
    """SIGKILL at fifty random moments: each result that an agent got is in the log of its run, exactly once."""
    killed = runs(store, "killed")
    assert len(killed) == KILLS
    for info in killed:
        seen = Counter(int(line) for line in (folder / info.agent).read_text().splitlines())
        events = list(store.events(info))
        returned = Counter(event.data.result for event in events if event.kind == "tool.returned")
        assert seen.total() > 0
        assert seen <= returned
        # Of what came back at last, the process may have been killed before it could write it down.
        assert (returned - seen).total() <= 4


def test_a_killed_run_verifies_and_has_crashed(store: SqlStore) -> None:
    """No chain is broken or cut off, and each run whose process was killed says so."""
    assert store.verify() == []
    assert {info.status for info in runs(store, "killed")} == {"crashed"}


def test_a_crashed_run_shows_what_was_in_flight(folder: Path, store: SqlStore) -> None:
    """The calls that were made and never ended, and no others."""
    in_flight = 0
    for info in runs(store, "killed"):
        open_calls: dict[str, str] = {}
        for event in store.events(info):
            if event.kind == "tool.called":
                open_calls[event.data.call] = event.data.name
            elif event.kind == "tool.returned":
                del open_calls[event.data.call]
        shown = json_of("show", info.id, "--rounds", "-1", "--store", folder / "store.db")
        assert {call["call"]: call["name"] for call in shown["in_flight"]} == open_calls
        in_flight += len(open_calls)
    assert in_flight > 0


def test_other_runs_go_on_meanwhile(folder: Path, store: SqlStore) -> None:
    """Runs of other processes in the same store are complete, whoever is killed beside them."""
    survivors = runs(store, "survivor")
    assert sorted(info.agent for info in survivors) == ["survivor-async", "survivor-step", "survivor-threads"]
    for info in survivors:
        assert info.status == "completed"
        seen = Counter(int(line) for line in (folder / info.agent).read_text().splitlines())
        returned = Counter(event.data.result for event in store.events(info) if event.kind == "tool.returned")
        assert seen == returned
        assert seen.total() > 100
