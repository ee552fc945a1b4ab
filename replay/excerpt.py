"""What of two runs side by side is worth a look: steps that differ, some around them, and how many there are else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from .compare import Status, StepPair
from .readable import count

_LIKE: Final[tuple[Status, ...]] = ("same", "payload")
"""Statuses of steps that do the same."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Pairs that are not shown, between those that are: how many there are of each status."""

    counts: Counter[Status]

    @property
    def steps(self) -> int:
        """How many pairs."""
        return self.counts.total()

    @property
    def different(self) -> int:
        """How many of them differ in what they did."""
        return self.steps - sum(self.counts[status] for status in _LIKE)

    def __str__(self) -> str:
        if self.counts["same"] == self.steps:
            return f"{count(self.steps, 'step')} the same"
        if self.counts["payload"] == self.steps:
            return f"{count(self.steps, 'step')} the same on another payload"
        different = f", {self.different:,} of them different" if self.different else ""
        return f"{count(self.steps, 'more step')}{different}"


def excerpt(
    pairs: Sequence[StepPair], first: int | None, *, context: int, most: int, full: bool = False
) -> Iterator[tuple[int, StepPair] | Skipped]:
    """Yield what is to be shown of two runs, in order: pairs with their numbers, and what is between them.

    Args:
        pairs: the steps.
        first: the number of the first pair that differs.
        context: how many pairs to show on either side of one that differs.
        most: how many that differ to show.
        full: show all.
    """
    odd = [at for at, pair in enumerate(pairs) if pair.status not in _LIKE or at == first]
    shown = {at + by for at in odd[:most] for by in range(-context, context + 1)}
    skipped: list[StepPair] = []
    for at, pair in enumerate(pairs):
        is_start = pair.numbers == (0, 0) and at not in odd  # nothing happened there
        if full or (at in shown and not is_start):
            if skipped:
                yield Skipped(Counter(one.status for one in skipped))
                skipped = []
            yield at, pair
        elif not is_start:
            skipped.append(pair)
    if skipped:
        yield Skipped(Counter(one.status for one in skipped))
