"""The JSON Patch that turns one tree into another.

Subtrees that are the same object in both are skipped, so the difference of neighbouring states costs what changed.
In a list, what is the same at both ends is set aside; what is left in between is aligned by the items that occur in
both, and items that do not are compared pair by pair.

The result is exact as to types (1, 1.0 and true differ; null differs from nothing) and says nothing of the order of
keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from difflib import SequenceMatcher
from itertools import compress
from operator import is_not
from typing import Any, Final, TypeAlias

from jsonpointer import escape

from .trees import LIVE, Trees, exact_key, has_text_keys, is_array, same

Change: TypeAlias = dict[str, Any]

_MOST_CELLS: Final = 4_000_000
_MOST_PAIRS: Final = 100_000
"""The product of two lists' lengths, and the number of pairs of equal items, up to which lists are aligned. Beyond
them aligning would take seconds, and the lists are compared by position."""


def difference(old: Any, new: Any, *, trees: Trees = LIVE) -> list[Change]:
    """Return the operations (RFC 6902: add, remove, replace) that turn `old` into `new`.

    Values in them are subtrees of `new`, shared. Empty when the two are the same. A dict that differs at keys which are
    no texts, and so in no path, is replaced as a whole.

    Args:
        old, new: the two trees.
        trees: how to look at them: as live values, or as trees in stored form.
    """
    return list(_changes(old, new, "", trees))


def _changes(old: Any, new: Any, path: str, trees: Trees) -> Iterator[Change]:
    if old is new:
        return
    if trees.is_object(old) and trees.is_object(new):
        if (has_text_keys(old) and has_text_keys(new)) or same(_unnamed(old), _unnamed(new)):
            yield from _object_changes(old, new, path, trees)
        else:
            yield {"op": "replace", "path": path, "value": new}
    elif is_array(old) and is_array(new):
        yield from _array_changes(old, new, path, trees)
    elif not trees.same(old, new):
        yield {"op": "replace", "path": path, "value": new}


def _unnamed(value: dict[Any, Any]) -> dict[Any, Any]:
    """What is in a dict under keys that are no texts."""
    return {key: below for key, below in value.items() if type(key) is not str}


def _object_changes(old: dict[Any, Any], new: dict[Any, Any], path: str, trees: Trees) -> Iterator[Change]:
    for key in old:
        if key not in new:
            yield {"op": "remove", "path": f"{path}/{escape(key)}"}
    for key, value in new.items():
        if key not in old:
            yield {"op": "add", "path": f"{path}/{escape(key)}", "value": value}
        elif old[key] is not value and type(key) is str:
            yield from _changes(old[key], value, f"{path}/{escape(key)}", trees)


def _array_changes(old: list[Any], new: list[Any], path: str, trees: Trees) -> Iterator[Change]:
    start = _alike(old, new, min(len(old), len(new)), trees)
    end = _alike(old[::-1], new[::-1], min(len(old), len(new)) - start, trees)
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    at = start
    for first, last, from_, to in _blocks(before, after):
        paired = min(last - first, to - from_)
        for old_item, new_item in zip(before[first : first + paired], after[from_ : from_ + paired], strict=True):
            objects = trees.is_object(old_item) and trees.is_object(new_item)
            if objects and old_item.keys().isdisjoint(new_item):
                yield {"op": "replace", "path": f"{path}/{at}", "value": new_item}
            else:
                yield from _changes(old_item, new_item, f"{path}/{at}", trees)
            at += 1
        for _ in range(last - first - paired):
            yield {"op": "remove", "path": f"{path}/{at}"}
        for value in after[from_ + paired : to]:
            yield {"op": "add", "path": f"{path}/{at}", "value": value}
            at += 1


def _alike(old: list[Any], new: list[Any], most: int, trees: Trees) -> int:
    """How many items at the beginning of two lists are the same, of so many at most."""
    for i in compress(range(most), map(is_not, old, new)):
        if not trees.same(old[i], new[i]):
            return i
    return most


def _blocks(before: list[Any], after: list[Any]) -> list[tuple[int, int, int, int]]:
    """Blocks that cover both lists: items first to last of one stand for items from_ to to of the other."""
    whole = [(0, len(before), 0, len(after))]
    if not before or not after or len(before) == len(after) == 1 or len(before) * len(after) > _MOST_CELLS:
        return whole
    left, right = list(map(_key, before)), list(map(_key, after))
    counts = Counter(right)
    if sum(counts[key] for key in left) > _MOST_PAIRS:
        return whole
    return [block[1:] for block in SequenceMatcher(None, left, right, autojunk=False).get_opcodes()]


def _key(value: Any) -> Hashable:
    """Something to hash and compare in place of a tree, exact as to types."""
    if is_array(value):
        return list, tuple(map(_key, value))
    if type(value) is float:
        return float, repr(value)
    if isinstance(value, dict):
        return dict, frozenset((exact_key(key), _key(below)) for key, below in value.items())
    try:
        hash(value)
    except TypeError:
        return type(value), repr(value)
    return type(value), value
