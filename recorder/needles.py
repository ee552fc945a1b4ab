"""Find any of a hundred short byte strings in a text, in one fast pass each.

The automata below skip through a text with vector instructions, but only while they hold few and not too short
strings: with more than about 60 of them, or with one of two bytes, the same search takes ten times as long. So the
needles are spread over several automata, the shortest in one of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

Hit: TypeAlias = tuple[int, int, int]
"""The number of a needle, where it starts, where it ends."""

_SHORT: Final = 3
_MANY: Final = 56


class Needles:
    """Searches for needles, which are numbered from 0; of those that start at the same place the first counts.

    Args:
        groups: the needles. What is in one automaton is from one group, but for the shortest.
        apart: those of them that go into an automaton of their own, the last.

    Attributes:
        automata: for each, the search, which numbers its own needles, and the needles' numbers among all.
    """

    def __init__(self, groups: Sequence[Sequence[str]], apart: Sequence[str] = ()) -> None:
        needles = [needle for group in groups for needle in group]
        chunks: list[list[int]] = []
        short: list[int] = []
        number = 0
        for group in groups:
            long: list[int] = []
            for needle in group:
                if needle not in apart:
                    (short if len(needle.encode()) <= _SHORT else long).append(number)
                number += 1
            chunks += [long[start : start + _MANY] for start in range(0, len(long), _MANY)]
        chunks += [short, [number for number, needle in enumerate(needles) if needle in apart]]
        self.automata: tuple[tuple[Callable[[bytes], list[Hit]], list[int]], ...] = tuple(
            (_search([needles[number] for number in chunk]), chunk) for chunk in chunks if chunk
        )

    def find(self, data: bytes) -> list[Hit]:
        """Return the hits in order of where they start. Hits may overlap."""
        hits: list[Hit] = []
        for search, numbers in self.automata:
            hits += [(numbers[own], start, end) for own, start, end in search(data)]
        hits.sort(key=lambda hit: hit[1])
        return hits


def _search(needles: list[str]) -> Callable[[bytes], list[Hit]]:
    patterns = [needle.encode() for needle in needles]
    found: Callable[[bytes], list[Hit]] = BytesAhoCorasick(
        patterns, MatchKind.LeftmostFirst, Implementation.DFA
    ).find_matches_as_indexes
    return found
