"""Align two lists: which item of the new list is which item of the old one.

Compared position by position, one insertion at the front changes every item after it. What a person sees is one
insertion. So items are matched first, in the order of how sure a match is:

1. Runs of equal items from both ends and, after each small edit, from where the lists agree again. This finds a few
   edits in a long list at the speed of comparing it once.
2. In what is left: equal items that occur once on either side. The longest chain of them that keeps its order stays;
   the others have *moved*. Scalars are not said to move as long as their place can have changed its value instead.
3. Equal items that occur several times, by difflib within each gap between what is matched.
4. Objects that say who they are: the same `id` (or `name`, …) on either side, found once. They are the same item,
   changed inside; out of order they moved too.
5. In each gap, the rest in order. If one side has more, the closest pairs win as long as there are few to try.

Nothing here is about meaning only: whatever is matched, applying the result to the old list gives the new one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise, zip_longest
from typing import Any, TypeAlias

from .equality import common_prefix, common_suffix, same, token
from .insides import fields_of

Distance: TypeAlias = Callable[[Any, Any], float]
"""How far two items are from each other: 0.0 for equal, 1.0 for nothing in common."""

_Pair: TypeAlias = tuple[int, int]

IDENTITY_KEYS = ("id", "_id", "uid", "uuid", "key", "call_id", "tool_call_id", "name")
"""The keys by which an object says who it is, most telling first."""

# After an edit, this many items are skipped in search of the place where the lists agree again. Two items in a row
# must agree, since one may by chance; one is enough where both lists went on equally far.
_LOOKAHEAD = 8
# difflib looks at each pair of equal items again and again; past this many looks its answer is not worth the wait.
_PATIENCE = 2_000_000
# A distance costs a third of a millisecond.
_DISTANCES = 16


@dataclass(frozen=True, slots=True)
class Alignment:
    """What happened to the items of a list. Everything it does not name stayed, unchanged and in its order.

    Attributes:
        added: positions in the new list, ascending.
        removed: positions in the old list, ascending.
        moved: (old, new) positions of items that stand in another order, ascending by new.
        changed: (old, new) positions of items that are the same item but not equal, ascending by new. An item may be
            in `moved` as well.
    """

    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    moved: tuple[_Pair, ...] = ()
    changed: tuple[_Pair, ...] = ()

    def rows(self, old_length: int, new_length: int) -> Iterator[tuple[int | None, int | None]]:
        """Yield both lists side by side, in the order of the new one, with removed items where they were.

        Yields:
            (old, new) positions; None on the side that has no such item.
        """
        removed, added = set(self.removed), set(self.added)
        moved_to = {new: old for old, new in self.moved}
        moved_from = set(moved_to.values())
        old = new = 0
        while old < old_length or new < new_length:
            if old in removed:
                yield old, None
                old += 1
            elif old in moved_from:
                old += 1
            elif new in added:
                yield None, new
                new += 1
            elif new in moved_to:
                yield moved_to[new], new
                new += 1
            else:
                yield old, new
                old, new = old + 1, new + 1


def align(old: Sequence[Any], new: Sequence[Any], distance: Distance | None = None) -> Alignment:
    """Match the items of two lists of stored values.

    Args:
        old: the list before.
        new: the list after.
        distance: decides which items belong together where nothing else does; without it they are taken in order.
    """
    return _Matching(old, new).align(distance)


@dataclass(slots=True)
class _Matching:
    """A matching in the making.

    `loose_*` are the positions that are not (yet) part of the chain of items that stay in order; the number of those
    that stay before a position, its *gap*, says between which of them it stands. `open_*` are the loose positions
    that have no partner.
    """

    old: Sequence[Any]
    new: Sequence[Any]
    loose_old: list[int] = field(default_factory=list)
    loose_new: list[int] = field(default_factory=list)
    open_old: list[int] = field(default_factory=list)
    open_new: list[int] = field(default_factory=list)
    moved: list[_Pair] = field(default_factory=list)
    changed: list[_Pair] = field(default_factory=list)

    def align(self, distance: Distance | None) -> Alignment:
        self._follow_runs()
        if len(self.open_old) == len(self.open_new) == 1:
            self._match_gaps(distance)
        if self.open_old and self.open_new:
            tokens_old = {at: token(self.old[at]) for at in self.open_old}
            tokens_new = {at: token(self.new[at]) for at in self.open_new}
            self._settle(self._once_each(tokens_old, tokens_new), equal=True, move_scalars=False)
            self._match_repeated(tokens_old, tokens_new)
            self._match_identities()
            self._match_gaps(distance)
            self._settle(self._once_each(tokens_old, tokens_new), equal=True, move_scalars=True)
        return Alignment(
            added=tuple(self.open_new),
            removed=tuple(self.open_old),
            moved=tuple(sorted(self.moved, key=_by_new)),
            changed=tuple(sorted(self.changed, key=_by_new)),
        )

    def _follow_runs(self) -> None:
        """Match runs of equal items from the front, jumping over small edits, and the run at the end."""
        old, new = self.old, self.new
        limit = min(len(old), len(new))
        x = y = common_prefix(old, new, 0, 0, limit)
        tail = common_suffix(old, new, limit - x)
        end_old, end_new = len(old) - tail, len(new) - tail
        while x < end_old and y < end_new:
            skip = self._next_agreement(x, y, end_old, end_new)
            if skip is None:
                break
            for i, j in zip_longest(range(x, x + skip[0]), range(y, y + skip[1])):
                if i is not None and j is not None and _stayed(old[i], new[j]):
                    self.changed += [(i, j)] if not same(old[i], new[j]) else []
                    continue
                if i is not None:
                    self.loose_old.append(i)
                if j is not None:
                    self.loose_new.append(j)
            x, y = x + skip[0], y + skip[1]
            run = common_prefix(old, new, x, y, min(end_old - x, end_new - y))
            x, y = x + run, y + run
        self.loose_old += range(x, end_old)
        self.loose_new += range(y, end_new)
        self.open_old, self.open_new = list(self.loose_old), list(self.loose_new)

    def _next_agreement(self, x: int, y: int, end_old: int, end_new: int) -> _Pair | None:
        """Say how many items of either list to skip until they agree again; None if that is not in sight."""
        grown = (end_new - y) - (end_old - x)
        if grown == 0 and x + 1 == end_old:
            return 1, 1
        in_place = None
        for n in range(1, _LOOKAHEAD + 1):
            ways = [(n, n), (n, 0), (0, n)] if grown == 0 else [(0, n), (n, n), (n, 0)]
            for skip_old, skip_new in ways if grown >= 0 else reversed(ways):
                i, j = x + skip_old, y + skip_new
                if i < end_old and j < end_new and same(self.old[i], self.new[j]):
                    at_end = i + 1 == end_old or j + 1 == end_new
                    if at_end or same(self.old[i + 1], self.new[j + 1]):
                        return skip_old, skip_new
                    if grown == 0 and skip_old == skip_new:
                        in_place = in_place or (n, n)
        return in_place

    def _once_each(self, tokens_old: dict[int, object], tokens_new: dict[int, object]) -> list[_Pair]:
        """Pair the open items that are equal, and equal to nothing else that is open."""
        counts_old = Counter([tokens_old[at] for at in self.open_old])
        counts_new = Counter([tokens_new[at] for at in self.open_new])
        where = {tokens_new[at]: at for at in self.open_new}
        pairs = []
        for at in self.open_old:
            name = tokens_old[at]
            if counts_old[name] == 1 and counts_new[name] == 1:
                pairs.append((at, where[name]))
        return pairs

    def _match_repeated(self, tokens_old: dict[int, object], tokens_new: dict[int, object]) -> None:
        """Match equal items that occur several times, in order, within each gap."""
        pairs: list[_Pair] = []
        for olds, news in self._gaps():
            a, b = [tokens_old[at] for at in olds], [tokens_new[at] for at in news]
            counts = Counter(b)
            looks = len(a) + sum([counts[name] for name in a])
            if looks > len(a) and looks * min(len(a), len(b)) <= _PATIENCE:
                blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
                pairs += [(olds[i + n], news[j + n]) for i, j, size in blocks for n in range(size)]
        self._settle(pairs, equal=True, move_scalars=False)

    def _match_identities(self) -> None:
        """Pair objects that have the same value under an identity key, found once on either side."""
        for key in IDENTITY_KEYS:
            names_old, names_new = _names(self.old, self.open_old, key), _names(self.new, self.open_new, key)
            pairs = [(at, names_new[name]) for name, at in names_old.items() if name in names_new]
            self._settle(pairs, equal=False, move_scalars=False)

    def _match_gaps(self, distance: Distance | None) -> None:
        pairs: list[_Pair] = []
        for olds, news in self._gaps():
            pairs += _closest(self.old, self.new, olds, news, distance)
        self._settle(pairs, equal=False, move_scalars=False)

    def _settle(self, pairs: list[_Pair], *, equal: bool, move_scalars: bool) -> None:
        """Accept pairs: those that keep their order stay, the others have moved."""
        if not pairs:
            return
        in_gap = [(i, j) for i, j in pairs if _gap(i, self.loose_old) == _gap(j, self.loose_new)]
        stay = set(longest_in_order(sorted(in_gap)))
        gone_old, gone_new = {i for i, _ in stay}, {j for _, j in stay}
        self.loose_old = [at for at in self.loose_old if at not in gone_old]
        self.loose_new = [at for at in self.loose_new if at not in gone_new]
        for i, j in pairs:
            if (i, j) not in stay:
                if not move_scalars and not isinstance(self.old[i], (dict, list)):
                    continue
                self.moved.append((i, j))
                gone_old.add(i)
                gone_new.add(j)
            if not equal:
                self.changed.append((i, j))
        self.open_old = [at for at in self.open_old if at not in gone_old]
        self.open_new = [at for at in self.open_new if at not in gone_new]

    def _gaps(self) -> list[tuple[list[int], list[int]]]:
        """Give the gaps that have open items on both sides."""
        gaps: dict[int, tuple[list[int], list[int]]] = {}
        for at in self.open_old:
            gaps.setdefault(_gap(at, self.loose_old), ([], []))[0].append(at)
        for at in self.open_new:
            gaps.setdefault(_gap(at, self.loose_new), ([], []))[1].append(at)
        return [gap for gap in gaps.values() if gap[0] and gap[1]]


def _stayed(old: Any, new: Any) -> bool:
    """Say whether unequal items between equal ones are surely one item: scalars, or objects of one identity."""
    if not isinstance(old, dict):
        return not isinstance(old, list) and not isinstance(new, (dict, list))
    a, b = fields_of(old), fields_of(new)
    if a is not None and b is not None:
        for key in IDENTITY_KEYS:
            if key in a or key in b:
                return key in a and key in b and same(a[key], b[key])
    return False


def _gap(at: int, loose: list[int]) -> int:
    return at - bisect_left(loose, at)


def _by_new(pair: _Pair) -> int:
    return pair[1]


def _names(items: Sequence[Any], positions: Iterable[int], key: str) -> dict[Hashable, int]:
    names: dict[Hashable, int] = {}
    repeated = set()
    for at in positions:
        fields = fields_of(items[at])
        if fields is not None and isinstance(fields.get(key), (str, int)):
            name = token(fields[key])
            if name in names:
                repeated.add(name)
            names[name] = at
    return {name: at for name, at in names.items() if name not in repeated}


def longest_in_order(pairs: list[_Pair]) -> list[_Pair]:
    """Give the longest part of `pairs`, which ascend on the old side, that ascends on the new side too."""
    if all(before[1] < after[1] for before, after in pairwise(pairs)):
        return pairs
    ends: list[int] = []  # ends[n]: the smallest new position at which a chain of n + 1 pairs can end
    which: list[int] = []
    previous: list[int] = []
    for index, (_, new) in enumerate(pairs):
        length = bisect_left(ends, new)
        previous.append(which[length - 1] if length else -1)
        ends[length : length + 1] = [new]
        which[length : length + 1] = [index]
    chain = []
    index = which[-1]
    while index >= 0:
        chain.append(pairs[index])
        index = previous[index]
    return chain[::-1]


def _closest(
    old: Sequence[Any], new: Sequence[Any], olds: list[int], news: list[int], distance: Distance | None
) -> list[_Pair]:
    """Pair as many items of a gap as there can be, in order, so that the distances of the pairs sum to the least."""
    if distance is None or len(olds) == len(news) or len(olds) * len(news) > _DISTANCES:
        return list(zip(olds, news, strict=False))
    short, long, turned = (olds, news, False) if len(olds) < len(news) else (news, olds, True)
    cost = [[distance(old[b], new[a]) if turned else distance(old[a], new[b]) for b in long] for a in short]
    # best[a][b]: the least sum for the items of `short` from a on, if `long` is used from b on.
    best = [[0.0] * (len(long) + 1)]
    for a in reversed(range(len(short))):
        row = [float("inf")] * (len(long) + 1)
        for b in reversed(range(len(long))):
            row[b] = min(row[b + 1], cost[a][b] + best[0][b + 1])
        best.insert(0, row)
    pairs, b = [], 0
    for a in range(len(short)):
        while best[a][b] != cost[a][b] + best[a + 1][b + 1]:
            b += 1
        pairs.append((long[b], short[a]) if turned else (short[a], long[b]))
        b += 1
    return pairs
