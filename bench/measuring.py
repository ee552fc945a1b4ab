"""How to measure on a noisy machine: arms interleaved in one process in shuffled order, medians, ratios.

A time alone says little where the load changes from minute to minute; the ratio of two arms that ran in turns says
more. An arm is a function that does one operation.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table: a gate, what was measured, what it was compared to."""

    gate: str
    what: str
    measured: str
    ratio: float
    goal: float

    @property
    def passed(self) -> bool:
        """Whether the ratio is within the goal."""
        return self.ratio <= self.goal


def medians(arms: Mapping[str, Callable[[], object]], *, rounds: int = 11, repeat: int = 200) -> dict[str, float]:
    """Seconds per operation of each arm: the median over shuffled rounds of the mean over `repeat` operations."""
    times: dict[str, list[float]] = {name: [] for name in arms}
    for arm in arms.values():
        arm()
    for _ in range(rounds):
        order = list(arms)
        random.shuffle(order)
        for name in order:
            arm = arms[name]
            start = time.perf_counter()
            for _ in range(repeat):
                arm()
            times[name].append((time.perf_counter() - start) / repeat)
    return {name: statistics.median(series) for name, series in times.items()}


def duration(seconds: float) -> str:
    """Seconds for people."""
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"
