"""How to measure on a noisy machine: arms interleaved in one process in shuffled order, medians, ratios.

A time alone says little where the load changes from minute to minute; the ratio of two arms that ran in turns says
more. An arm is a function that does one operation. What is a size says enough by itself.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        gate: its name, such as "G1".
        what: was measured.
        measured: for people.
        value: what the goal is about: a ratio, or a size in bytes.
        goal: the most that `value` may be; None where it is shown for comparison only.
        written: how a goal that is no ratio is written; None for a ratio.
    """

    gate: str
    what: str
    measured: str
    value: float
    goal: float | None
    written: Callable[[float], str] | None = None

    @classmethod
    def of_size(cls, gate: str, what: str, size: float, goal: float) -> Row:
        """A row about a size in bytes, which is compared to nothing but its goal."""
        return cls(gate, what, size_of(size), size, goal, size_of)

    @property
    def passed(self) -> bool:
        """Whether the value is within the goal."""
        return self.goal is None or self.value <= self.goal

    @property
    def cells(self) -> tuple[str, ...]:
        """The line: gate, what, measured, ratio, goal."""
        goal = "" if self.goal is None else f"≤ {self.written(self.goal) if self.written else f'{self.goal:g}x'}"
        return self.gate, self.what, self.measured, "" if self.written else ratio(self.value), goal


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


def size_of(size: float) -> str:
    """Bytes for people."""
    if size >= 1e9:
        return f"{size / 1e9:.3g} GB"
    return f"{size / 1e6:.3g} MB" if size >= 1e5 else f"{size / 1e3:.3g} KB"


def ratio(value: float) -> str:
    """A ratio for people: three digits where two would not do."""
    return f"{value:.2f}x" if value >= 0.1 else f"{value:.4f}x"
