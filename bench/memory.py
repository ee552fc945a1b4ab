"""G10: how much a recording process grows, at most, from its 1,000th event to its 100,000th.

An ordinary agent: each round asks a model with the last twenty messages, calls a tool and changes the payload; both
answers become messages. It runs in a process of its own, whose resident memory is read as it goes. The same as
coroutines, and as an agent that pauses, as if it waited for its model: then snapshots are taken, by this process too.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import agentreplay as ar
import agentreplay.replay.snapshots  # loaded before anything is measured, as the first pause would load it
from agentreplay.snapshotting import taker

from .measuring import Row

FIRST, LAST = 1_000, 100_000
EVENTS = 8
"""Of a round: begun, a model called and returned, a tool likewise, the payload changed, decided, finished."""

WINDOW = 20
PAUSE, LOOK = 1_000, 100
"""Rounds between two pauses, and between two looks at the memory."""

PROGRAM = "import sys; from bench.memory import grown; print(grown(*sys.argv[1:]))"


def resident() -> int:
    """Bytes of memory of this process that are not paged out."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _look(number: int) -> dict[str, Any]:
    return {"found": "in the depot", "number": number}


def _ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "assistant", "content": f"after {messages[-1]['content']}, look again"}


async def _alook(number: int) -> dict[str, Any]:
    return _look(number)


async def _aask(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return _ask(messages)


class _Agent:
    """What the agent knows, and by how many bytes the process has grown at most since its first thousand events."""

    def __init__(self, *, pausing: bool) -> None:
        self.payload: dict[str, Any] = {"n": 0, "items": [{"id": n} for n in range(20)]}
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": "Where is my parcel?"}]
        self.number = 0
        self.growth = 0
        self._pausing = pausing
        self._first = 0

    def note(self, answer: dict[str, Any], found: dict[str, Any]) -> None:
        """Take what a round brought."""
        news = [answer, {"role": "tool", "content": str(found)}]
        self.messages = (self.messages + news)[-WINDOW:]
        self.number += 1

    def goes_on(self) -> bool:
        """Between two rounds: pause, look at the memory, and say whether there is another."""
        events = self.number * EVENTS
        if events < FIRST:
            return True
        if self._pausing and self.number % PAUSE == 0:
            time.sleep(0.1)
        if not self._first:
            if self._pausing:
                time.sleep(0.1)
                taker.wait()
            self._first = resident()
        elif self.number % LOOK == 0:
            self.growth = max(self.growth, resident() - self._first)
        return events < LAST


def _record(path: str, agent: _Agent) -> None:
    with ar.record("memory", payload=agent.payload, store=path) as run:
        while agent.goes_on():
            with run.round() as r:
                answer = r.model("m", {"messages": agent.messages}, _ask)
                found = r.tool("look", {"number": agent.number}, _look)
                r.change(update={"n": agent.number})
                agent.note(answer, found)


async def _arecord(path: str, agent: _Agent) -> None:
    async with ar.record("memory", payload=agent.payload, store=path) as run:
        while agent.goes_on():
            with run.round() as r:
                answer = await r.amodel("m", {"messages": agent.messages}, _aask)
                found = await r.atool("look", {"number": agent.number}, _alook)
                r.change(update={"n": agent.number})
                agent.note(answer, found)


def grown(path: str, how: str) -> int:
    """Record a run in this process; bytes by which it grew. `how`: "functions", "coroutines" or "pauses"."""
    agent = _Agent(pausing=how == "pauses")
    if how == "coroutines":
        asyncio.run(_arecord(path, agent))
    else:
        _record(path, agent)
    with closing(ar.open_store(path)) as store:
        recorded = sum(1 for _ in store.rows("run1"))
    if recorded != agent.number * EVENTS + 2:
        raise AssertionError(f"{recorded} events were recorded in {agent.number} rounds")
    return agent.growth


def rows(how: str, what: str) -> Iterator[Row]:
    """Measure one of the three, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", PROGRAM, str(Path(folder) / "store.db"), how]
        growth = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    yield Row.of_size("G10", f"1,000 to {LAST:,} events{what}", growth, 5_000_000)
