"""Which step of one run is which step of another.

Steps of a fork are those of its parent, by number. Two runs that share nothing are put side by side by what their steps
did: one with a step more in the middle has its later steps beside those that are like them, whatever their numbers.

Steps happen one after the other, so nothing moves: an alignment keeps the order on both sides. It is made in rounds,
each between what the one before has matched: steps that are the same as a whole; that decided and asked the same; that
have the same decision and the same calls. Steps that occur once on either side are sure, and hold apart what is
between them. What is left in a gap is matched so that it fits best, or, where there is too much of it, in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise, zip_longest
from operator import attrgetter
from typing import Final, TypeAlias

from .align import longest_in_order
from .step_prints import StepPrint

Pair: TypeAlias = tuple[int | None, int | None]
"""Positions in both runs; None where a run has no such step."""

_TABLE: Final = 40_000
"""Cells of a table in which the best fit of a gap is looked up: a fiftieth of a second."""

_LEVELS: Final[tuple[Callable[[StepPrint], Hashable], ...]] = (
    attrgetter("whole"),
    attrgetter("path"),
    attrgetter("shape"),
)


def by_number(old: Sequence[StepPrint], new: Sequence[StepPrint]) -> list[Pair]:
    """Pair the steps of the same number."""
    places = {step.step: at for at, step in enumerate(new)}
    numbers = {step.step for step in old}
    pairs: list[Pair] = [(at, places.get(step.step)) for at, step in enumerate(old)]
    return pairs + [(None, at) for at, step in enumerate(new) if step.step not in numbers]


def by_content(old: Sequence[StepPrint], new: Sequence[StepPrint]) -> list[Pair]:
    """Pair the steps that are like each other, in order. The starts of both runs are one pair."""
    start = 1 if old and new and old[0].step == new[0].step == 0 else 0
    rest = _matched(old, new, range(start, len(old)), range(start, len(new)), 0)
    return [(at, at) for at in range(start)] + list(rest)


def _matched(
    old: Sequence[StepPrint], new: Sequence[StepPrint], olds: range, news: range, level: int
) -> Iterator[Pair]:
    """Pair what is in two stretches."""
    if not olds or not news:
        yield from [(at, None) for at in olds] + [(None, at) for at in news]
        return
    if level == len(_LEVELS):
        yield from _fitting(old, new, olds, news)
        return
    key = _LEVELS[level]
    a, b = [key(old[at]) for at in olds], [key(new[at]) for at in news]
    fixed = [(-1, -1), *_agreeing(a, b), (len(a), len(b))]
    for (i, j), (x, y) in pairwise(fixed):
        if i >= 0:
            yield olds[i], news[j]
        yield from _matched(old, new, olds[i + 1 : x], news[j + 1 : y], level + 1)


def _agreeing(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Match equal items in order: those at both ends, then those that occur once, and between them again."""
    found: list[tuple[int, int]] = []
    todo = [(0, len(a), 0, len(b))]
    while todo:
        start_a, end_a, start_b, end_b = todo.pop()
        while start_a < end_a and start_b < end_b and a[start_a] == b[start_b]:
            found.append((start_a, start_b))
            start_a, start_b = start_a + 1, start_b + 1
        while start_a < end_a and start_b < end_b and a[end_a - 1] == b[end_b - 1]:
            end_a, end_b = end_a - 1, end_b - 1
            found.append((end_a, end_b))
        once = _once(a, b, start_a, end_a, start_b, end_b)
        found += once
        ends = [(start_a - 1, start_b - 1), *once, (end_a, end_b)]
        if once:
            todo += [(i + 1, x, j + 1, y) for (i, j), (x, y) in pairwise(ends) if i + 1 < x and j + 1 < y]
    return sorted(found)


def _once(
    a: Sequence[Hashable], b: Sequence[Hashable], start_a: int, end_a: int, start_b: int, end_b: int
) -> list[tuple[int, int]]:
    """The items that occur once on either side of a stretch, as far as they keep their order."""
    counts_a, counts_b = Counter(a[start_a:end_a]), Counter(b[start_b:end_b])
    places = {item: at for at, item in enumerate(b[start_b:end_b], start_b) if counts_b[item] == 1}
    pairs = [(at, places[a[at]]) for at in range(start_a, end_a) if counts_a[a[at]] == 1 and a[at] in places]
    return longest_in_order(pairs) if pairs else []


def _fitting(old: Sequence[StepPrint], new: Sequence[StepPrint], olds: range, news: range) -> Iterator[Pair]:
    """Pair what is left of two stretches so that steps which are like each other stand side by side."""
    if len(olds) == len(news) or len(olds) * len(news) > _TABLE:
        yield from zip_longest(olds, news)
        return
    width = len(news) + 1
    best = [[0.0] * width for _ in range(len(olds) + 1)]
    likes = [[_alike(old[i], new[j]) for j in news] for i in olds]
    for i in reversed(range(len(olds))):
        for j in reversed(range(len(news))):
            best[i][j] = max(likes[i][j] + best[i + 1][j + 1], best[i + 1][j], best[i][j + 1])
    i = j = 0
    while i < len(olds) and j < len(news):
        if best[i][j] == likes[i][j] + best[i + 1][j + 1]:
            yield olds[i], news[j]
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            yield olds[i], None
            i += 1
        else:
            yield None, news[j]
            j += 1
    yield from [(at, None) for at in olds[i:]] + [(None, at) for at in news[j:]]


def _alike(a: StepPrint, b: StepPrint) -> float:
    """How much two steps have in common. Any two have a little: a step that was replaced stands beside the new one."""
    shared = sum((Counter(a.calls) & Counter(b.calls)).values())
    most = max(len(a.calls), len(b.calls), 1)
    alike = 0.5 + 2.0 * (a.word == b.word and a.word is not None) + 2.0 * shared / most
    return alike + (a.decided == b.decided) + (a.changed == b.changed)
