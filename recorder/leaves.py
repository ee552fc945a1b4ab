"""A tree of a user's values as the payload core wants it: dicts, lists, and a `Leaf` for each value that JSON lacks.

Every dict of the user's is a dict in it, also one whose stored form is a tag because of its keys. The core takes
anything but dicts and lists for a leaf and compares leaves with `==`. The user's own values are not fit for that:
`Decimal("1.0") == Decimal("1.00")`, `True == 1` in a set, and an array's `==` raises. A `Leaf` compares by what is
stored, which is exact and runs no code of the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import is_not
from typing import Any, Final, NamedTuple

from .copying import copy_value
from .hashes import SubtreeCache, comparison_hash, same
from .introspection import describe
from .payload.trees import is_object, is_stored_as_object
from .plain import MAX_DEPTH
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
        kind = self.stored["$type"]
        if kind in _FIXED:
            return None
        stored = _deep_form(self.live) if kind == "deep" else encode(self.live).stored
        return None if same(stored, self.stored) else Leaf(self.live, stored)


def _deep_form(value: Any) -> Any:
    """The stored form of a container that stands deeper than JSON is written in one piece, whatever its own depth."""
    for _ in range(MAX_DEPTH):
        value = [value]
    stored = encode(value).stored
    for _ in range(MAX_DEPTH):
        stored = stored[0]
    return stored


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
    """Put leaves where a stored tree has tags, but for those of dicts; `live` is what it was encoded from."""
    if type(stored) is dict:
        if "$type" in stored:
            if stored["$type"] != "dict" or not is_object(live):
                return Leaf(live, stored)
            return {
                key: _with_leaves(value, item)
                for (key, value), (_, item) in zip(live.items(), stored["items"], strict=True)
            }
        return {key: _with_leaves(live[key], item) for key, item in stored.items()}
    if type(stored) is list:
        return [_with_leaves(*pair) for pair in zip(live, stored, strict=True)]
    return stored


class LeafMap:
    """Maps one version of such a tree after the other, putting something in the place of each leaf.

    What has no leaf in it is not copied, and what did not change since the last version is not looked at again.

    Args:
        of_leaf: what to put in a leaf's place.
        of_dict: what to put in the place of a dict whose stored form is no object, given its keys and its values as
            they are mapped; by default a dict of them.
    """

    def __init__(
        self, of_leaf: Callable[[Leaf], Any], of_dict: Callable[[Iterable[Any], list[Any]], Any] | None = None
    ) -> None:
        self._of_leaf = of_leaf
        self._of_dict = of_dict
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
            # What is known is passed over in one call; what is neither container nor leaf is never known.
            after: list[Any] = list(map(self._known.values.get, map(id, before)))
            for at in [at for at, item in enumerate(after) if item is None]:
                after[at] = self._mapped(before[at])
            if self._of_dict is not None and kind is dict and not is_stored_as_object(node):
                known = self._of_dict(node, after)
            elif not any(map(is_not, before, after)):
                known = node
            else:
                known = dict(zip(node, after, strict=True)) if kind is dict else after
            self._known.put(node, known)
        return known

    def leaves(self, node: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
        """What is no JSON in the version that was mapped last, leaves and dicts, with the paths."""
        if type(node) is Leaf or (type(node) is dict and not is_stored_as_object(node)):
            yield path, node
        elif (type(node) is dict or type(node) is list) and self._known.get(node) is not node:
            for key, item in node.items() if type(node) is dict else enumerate(node):
                yield from self.leaves(item, (*path, key))


def stored_map() -> LeafMap:
    """Maps such trees to their stored form."""
    return LeafMap(stored_of, stored_of_dict)


def renewed(node: Any) -> Any:
    """Such a tree with what was changed in place as it is now, or None when nothing was."""
    if type(node) is Leaf:
        return node.renewed()
    if type(node) is not dict and type(node) is not list:
        return None
    values = list(node.values()) if type(node) is dict else node
    found = list(map(renewed, values))
    if all(new is None for new in found):
        return None
    now = [old if new is None else new for old, new in zip(values, found, strict=True)]
    return dict(zip(node, now, strict=True)) if type(node) is dict else now


def live_tree(tree: Any) -> Any:
    """The user's values that such a tree stands for, in plain containers."""
    return LeafMap(live_of)(tree)


def stored_of(leaf: Leaf) -> Any:
    """The stored form of a leaf."""
    return leaf.stored


def stored_of_dict(keys: Iterable[Any], values: list[Any]) -> Any:
    """The tag of a dict that is no JSON object, given its keys and its values in stored form."""
    return {"$type": "dict", "items": [[encode(key).stored, item] for key, item in zip(keys, values, strict=True)]}


def live_of(leaf: Leaf) -> Any:
    """The value that a leaf stands for."""
    return leaf.live
