"""G12: what executing a recorded run again costs, against recording it: 1,000 rounds with effects that do nothing."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agentreplay as ar

from .measuring import Row, duration

ROUNDS = 1_000
TIMES = 7


@ar.tool(safety="pure")
def look(n: int) -> dict[str, Any]:
    """A tool that costs nothing."""
    return {"found": n, "text": "The parcel was left with a neighbour."}


@ar.model
def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """A model that costs nothing."""
    return {"role": "assistant", "content": "Go on.", "usage": {"input_tokens": 12, "output_tokens": 3}}


@ar.agent("trivial", max_rounds=ROUNDS)
def step(round_index: int, context: ar.Context) -> Any:
    """A tool, a model, a change and a decision."""
    found = look(round_index)
    answer = ask([{"role": "user", "content": f"what of {found['found']}?"}])
    context.change(update={"n": found["found"]}, reason=answer["content"])
    return ar.Complete("done") if round_index == ROUNDS else ar.NextStep(step="Actions", reasoning="more")


def rows() -> Iterator[Row]:
    """Measure recording and replaying in turns, each time in a new store."""
    recorded, replayed = [], []
    for _ in range(TIMES):
        with tempfile.TemporaryDirectory() as folder:
            store = ar.open_store(Path(folder) / "store.db")
            start = time.perf_counter()
            step.run({"n": 0}, store=store)
            recorded.append(time.perf_counter() - start)
            start = time.perf_counter()
            result = ar.replay("run1", step, store=store)
            replayed.append(time.perf_counter() - start)
            if result.verdict != "identical" or result.coverage.recorded != 2 * ROUNDS:
                raise AssertionError(f"the replay is not of the whole run: {result.to_json()}")
            store.close()
    took, ratio = statistics.median(replayed), statistics.median(replayed) / statistics.median(recorded)
    yield Row("G12", f"replay of {ROUNDS:,} rounds", duration(took), ratio, 2.0)
