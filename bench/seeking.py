"""G5 and G9: what going to a step of a run of 10,000 rounds costs, and what the snapshots for it take."""

from __future__ import annotations

import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agentreplay as ar
import orjson
from agentreplay.snapshotting import taker

from .measuring import Row, duration, medians

ROUNDS = 10_000


def steady() -> dict[str, Any]:
    """A state of about 100 KB."""
    return {"rows": [{"id": n, "text": "x" * 180, "score": n / 7} for n in range(430)], "n": 0, "last": ""}


def record(path: Path, *, growing: bool) -> None:
    """Record events of about 1 KB a round over a state that keeps its size, or grows from nothing to 100 KB."""
    payload = {"rows": [], "n": 0, "last": ""} if growing else steady()
    with ar.record("seeking", payload=payload, store=str(path)) as run:
        for number in range(ROUNDS):
            with run.round() as r:
                r.tool("look", {"n": number}, lambda n: {"found": "z" * 350, "n": n})
                change: dict[str, Any] = {"n": number, "last": f"{'y' * 200}{number}"}
                if growing and number % 20 == 0:
                    r.change(new={"rows": [{"id": number, "text": "x" * 180}]}, update=change)
                else:
                    r.change(update=change)
    taker.wait()


def rows(*, growing: bool) -> Iterator[Row]:
    """Measure seeks at random steps, the room that the snapshots take, and `agentreplay diff`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        record(path, growing=growing)
        store = ar.open_store(path)
        name = "growing" if growing else "steady"
        state = orjson.dumps(ar.state_at("run1", ROUNDS // 2, store).payload)
        times, load = _seeks(store, state)
        for p in (50, 95):
            took = times[len(times) * p // 100]
            yield Row("G5", f"seek, p{p}, {name}", duration(took), took / load, {50: 12.0, 95: 20.0}[p])
        with sqlite3.connect(path) as connection:
            events, snapshots = connection.execute(
                "SELECT (SELECT sum(length(body)) FROM event), (SELECT sum(length(state)) FROM snapshot)"
            ).fetchone()
        ratio = (events + snapshots) / events
        yield Row("G5", f"storage, {name}", f"{(events + snapshots) / 1e6:.1f} MB", ratio, 2.2)
        if not growing:
            yield _diff(path)
        store.close()


def _seeks(store: Any, state: bytes) -> tuple[list[float], float]:
    """Seconds to go to each of 300 steps, sorted, and to load a state; all medians of five, in turns.

    So what is slow among the steps is slow by itself, and not because the machine was busy for a moment.
    """
    steps = random.sample(range(1, ROUNDS + 1), 300)
    seeks, loads = [], []
    for _ in range(5):
        loads.append(medians({"loads": lambda: orjson.loads(state)}, repeat=100)["loads"])
        seeks.append([_seek(store, step) for step in steps])
    return sorted(statistics.median(times) for times in zip(*seeks, strict=True)), statistics.median(loads)


def _seek(store: Any, step: int) -> float:
    start = time.perf_counter()
    ar.state_at("run1", step, store)
    return time.perf_counter() - start


def _diff(path: Path) -> Row:
    arms: dict[str, list[float]] = {"sqlalchemy": [], "diff": []}
    diff = [sys.executable, "-m", "agentreplay", "diff", "run1", "--step", "9000", "--store", str(path)]
    commands = {"sqlalchemy": [sys.executable, "-c", "import sqlalchemy"], "diff": diff}
    for _ in range(15):
        for name in random.sample(sorted(arms), 2):
            start = time.perf_counter()
            subprocess.run(commands[name], check=True, capture_output=True)
            arms[name].append(time.perf_counter() - start)
    took = statistics.median(arms["diff"])
    return Row("G9", "agentreplay diff --step 9000", duration(took), took / statistics.median(arms["sqlalchemy"]), 2.0)
