"""G6: what it costs to keep the state of every step, against copying the state at every step.

States share what they have in common, so one more costs the path of its change. Measured is `timeline.states` over the
events of a run, with all that a fold does but for checking the hash of each state, which keeping it does not need; what
that costs, which is the default, is shown beside. Memory is that of a process which keeps 10,000 states, as the
system counts it.
"""

from __future__ import annotations

import copy
import gc
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import agentreplay as ar
from agentreplay.replay import timeline

from .measuring import Row, duration, medians
from .memory import resident
from .state_size import state

ROUNDS = 10_000
COPIES = 100
SIZE = 100_000
PROGRAM = "import sys; from bench.keeping import kept_bytes; print(kept_bytes(sys.argv[1]))"


def record(path: Path, *, inside: bool) -> None:
    """Record a run whose every round changes a counter, or a record inside the list of records."""
    payload = state(SIZE)
    count = len(payload["rows"])
    with ar.record("keeping", payload=payload, store=str(path)) as run:
        for number in range(ROUNDS):
            with run.round() as r:
                if inside:
                    r.change(patch=[{"op": "replace", "path": f"/rows/{number % count}/score", "value": number}])
                else:
                    r.change(update={"n": number, "last": f"the parcel left depot {number}"})


def kept_bytes(path: str) -> float:
    """Bytes of memory that each of the states of a recorded run takes, all kept; in a process of its own."""
    with closing(ar.open_store(path)) as store:
        for _ in timeline.states(store.events("run1", until=100)):
            pass  # what the first reading loads is no state
        gc.collect()
        before = resident()
        kept = [reached for _, reached in timeline.states(store.events("run1"))]
        gc.collect()
        return (resident() - before) / len(kept)


def _timed(events: list[Any], payload: Any) -> dict[str, float]:
    """Seconds per step of keeping the states, with and without checks, and of copying one."""

    def kept(check: bool) -> None:
        if len([reached for _, reached in timeline.states(events, check=check)]) != ROUNDS + 1:
            raise AssertionError(f"{ROUNDS} rounds and the start have as many states")

    def copied() -> None:
        for _ in range(COPIES):
            copy.deepcopy(payload)

    found = medians({"checked": lambda: kept(True), "unchecked": lambda: kept(False), "copied": copied}, repeat=1)
    return {name: seconds / (COPIES if name == "copied" else ROUNDS) for name, seconds in found.items()}


def rows(*, inside: bool) -> Iterator[Row]:
    """Measure time and memory with a counter that changes, or with records inside a list."""
    what = f"a state kept, {'an item of a list' if inside else 'a counter'} changed"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        record(path, inside=inside)
        with closing(ar.open_store(path)) as store:
            events = list(store.events("run1"))
            payload = ar.state_at("run1", ROUNDS, store).payload
        times = _timed(events, payload)
        for name, also, goal in (("unchecked", "", 0.03), ("checked", ", and its hash checked", None)):
            yield Row("G6", f"{what}{also}", duration(times[name]), times[name] / times["copied"], goal)
        command = [sys.executable, "-c", PROGRAM, str(path)]
        size = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        yield Row.of_size("G6", f"{what}, memory", size, 8_000)
