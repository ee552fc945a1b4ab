"""A tree of a user's values as the payload core wants it: plain JSON, with one `Leaf` for each value that is none.

The core takes anything but dicts and lists for a leaf and compares leaves with `==`. The user's own values are not fit
for that: `Decimal("1.0") == Decimal("1.00")`, `True == 1` in a set, and an array's `==` raises. A `Leaf` compares by
what is stored, which is exact and runs no code of the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from .copying import copy_value
from .hashes import SubtreeCache, comparison_hash, same
from .introspection import describe
from .values import encode, encode_bytes, has_tags, loads, lossy_in

_FIXED: Final = frozenset(
    (
        *("str", "int", "float", "complex", "decimal", "fraction", "bytes", "uuid", "path", "class", "constant"),
        *("date", "time", "datetime", "timedelta", "timezone", "zoneinfo", "range", "enum"),
    )
)
"""Tags of values that nobody can change in place."""


class Leaf:
    """A value that is no plain JSON.

    Attributes:
        live: the value itself.
        stored: its stored form, a tag.
        lossy: whether the stored form holds a part of it only; then only the very same object is equal.
    """

    __slots__ = ("live", "lossy", "stored")

    def __init__(self, live: Any, stored: Any) -> None:
        self.live = live
        self.stored = stored
        self.lossy = bool(lossy_in(stored))

    def __eq__(self, other: object) -> bool:
        return type(other) is Leaf and (
            self.live is other.live if self.lossy or other.lossy else same(self.stored, other.stored)
        )

    def __hash__(self) -> int:
        return hash(comparison_hash(self.stored))

    def __repr__(self) -> str:
        return describe(self.live)

    def renewed(self) -> Leaf | None:
        """The leaf of the same value as it is now, or None when it was not changed in place."""
        if self.stored.get("$type") in _FIXED:
            return None
        stored = encode(self.live).stored
        return None if same(stored, self.stored) else Leaf(self.live, stored)


class Taken(NamedTuple):
    """A copy of a value: as such a tree, and in stored form; one object where there are no leaves."""

    tree: Any
    stored: Any


def take(value: Any) -> Taken:
    """Copy a value."""
    stored = loads(encode_bytes(value)[0])
    if not has_tags(stored):
        return Taken(stored, stored)
    live = copy_value(value)
    stored = loads(encode_bytes(live)[0])
    return Taken(_with_leaves(live, stored), stored)


def _with_leaves(live: Any, stored: Any) -> Any:
    """Put leaves where a stored tree has tags; `live` is what it was encoded from."""
    if type(stored) is dict:
        if "$type" in stored:
            return Leaf(live, stored)
        return {key: _with_leaves(live[key], item) for key, item in stored.items()}
    if type(stored) is list:
        return [_with_leaves(*pair) for pair in zip(live, stored, strict=True)]
    return stored


class LeafMap:
    """Maps one version of such a tree after the other, putting something in the place of each leaf.

    What has no leaf in it is not copied, and what did not change since the last version is not looked at again.

    Args:
        of_leaf: what to put in a leaf's place.
    """

    def __init__(self, of_leaf: Callable[[Leaf], Any]) -> None:
        self._of_leaf = of_leaf
        self._known = SubtreeCache()

    def __call__(self, tree: Any) -> Any:
        """The tree without leaves; itself when it has none."""
        mapped = self._mapped(tree)
        if type(tree) is dict or type(tree) is list:
            self._known.settle(tree)
        return mapped

    def _mapped(self, node: Any) -> Any:
        kind = type(node)
        if kind is Leaf:
            return self._of_leaf(node)
        if kind is not dict and kind is not list:
            return node
        known = self._known.get(node)
        if known is None:
            before = list(node.values()) if kind is dict else node
            after = [self._mapped(item) for item in before]
            if all(a is b for a, b in zip(before, after, strict=True)):
                known = node
            else:
                known = dict(zip(node, after, strict=True)) if kind is dict else after
            self._known.put(node, known)
        return known

    def leaves(self, node: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Leaf]]:
        """The leaves of the version that was mapped last, with their paths."""
        if type(node) is Leaf:
            yield path, node
        elif (type(node) is dict or type(node) is list) and self._known.get(node) is not node:
            for key, item in node.items() if type(node) is dict else enumerate(node):
                yield from self.leaves(item, (*path, key))


def live_tree(tree: Any) -> Any:
    """The user's values that such a tree stands for, in plain containers."""
    return LeafMap(live_of)(tree)


def stored_of(leaf: Leaf) -> Any:
    """The stored form of a leaf."""
    return leaf.stored


def live_of(leaf: Leaf) -> Any:
    """The value that a leaf stands for."""
    return leaf.live
