"""G3: what the agent waits for when it makes the same small change of a small and of a large state.

A change should cost its path, and a tool call nothing of the state at all. Two runs in two files, one with a state of
1 KB and one of 1 MB, record the same events in turns; so both logs are in the same phase at any time. Measured is what
the agent calls: `change` and `tool`. What is in the state matters, so it is measured with plain JSON only, and with one
value beside it that is redacted, or is no JSON.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import agentreplay as ar

from .measuring import Row, duration, medians

SMALL, LARGE = 1_000, 1_000_000
RECORD = 163
"""Bytes of JSON of one of the records, about."""

OF_A_ROUND = 100
"""Operations."""


def state(size: int) -> dict[str, Any]:
    """A state of about `size` bytes: records, a counter, and a text."""
    records = [{"id": n, "name": f"name {n}", "text": "x" * 100, "score": n / 7} for n in range(size // RECORD)]
    return {"rows": records, "n": 0, "last": ""}


class _Run:
    """A run, and what is done in its rounds; each has a hundred operations, so that rounds hardly count."""

    def __init__(self, stack: ExitStack, path: Path, payload: dict[str, Any]) -> None:
        self._path = path
        self._run = stack.enter_context(ar.record("state-size", payload=payload, store=str(path)))
        self._rounds = stack.enter_context(ExitStack())
        self._number = 0
        self._events = 1

    def _begin(self, events: int) -> None:
        if self._number % OF_A_ROUND == 0:
            self._rounds.close()
            self._rounds.enter_context(self._run.round())
            self._events += 3 if self._number else 1  # the last one decided and finished, and this one started
        self._number += 1
        self._events += events

    def change(self) -> None:
        """One event."""
        self._begin(1)
        self._run.change(update={"n": self._number, "last": f"the parcel left depot {self._number}"})

    def tool(self) -> None:
        """Two events."""
        self._begin(2)
        self._run.tool("look", {"number": self._number}, lambda number: {"found": "in the depot", "number": number})

    def check(self) -> None:
        """Fail unless another connection sees every event."""
        with sqlite3.connect(self._path) as other:
            seen = other.execute("SELECT count(*) FROM event WHERE kind != ''").fetchone()[0]
        if seen != self._events:
            raise AssertionError(f"another connection sees {seen} of the {self._events} events of {self._path.name}")


def _compared(
    name: str, payload: Callable[[int], dict[str, Any]], operations: Mapping[str, Callable[[_Run], None]], repeat: int
) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        runs = {size: _Run(stack, Path(folder) / f"{size}.db", payload(size)) for size in (SMALL, LARGE)}
        for what, operation in operations.items():
            arms = {str(size): partial(operation, run) for size, run in runs.items()}
            for arm in arms.values():
                for _ in range(repeat):
                    arm()
            for run in runs.values():
                run.check()
            times = medians(arms, repeat=repeat)
            for run in runs.values():
                run.check()
            large = times[str(LARGE)]
            yield Row("G3", f"{what}, 1 MB of state{name}, to 1 KB", duration(large), large / times[str(SMALL)], 1.3)


def rows() -> Iterator[Row]:
    """Measure changes and tool calls over plain state."""
    return _compared("", state, {"change": _Run.change, "tool call": _Run.tool}, repeat=2_000)


def rows_beside(what: str, extra: dict[str, Any]) -> Iterator[Row]:
    """Measure changes over plain state and something beside it."""
    return _compared(f" and {what}", lambda size: state(size) | extra, {"change": _Run.change}, repeat=50)


SECRET: dict[str, Any] = {"password": "tea-for-2-at-4-with-7-spoons"}
DATE: dict[str, Any] = {"since": datetime(2026, 11, 30, 12)}
