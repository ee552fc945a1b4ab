"""Memory of what was computed for each part of a tree, from one version of the tree to the next.

Payloads are changed by copying: a new version shares every subtree that did not change with the one before, as the
same objects. So whatever is computed of a tree part by part (a hash, a frozen view) need only be computed for the path
of a change, if the results for the rest are found by identity. Two things keep even wide containers cheap: siblings are
passed over by calls that loop in C, and the version before says where to look (`changed_places`).
"""

from __future__ import annotations

from itertools import compress, count, islice
from operator import is_not
from typing import Any


class SubtreeCache:
    """What was computed for a part of a tree, remembered by the part's identity.

    For trees that share their unchanged parts and are never changed in place. One cache serves one function, and one
    tree through its versions. It keeps the parts it knows alive, since an id names an object only that long; `settle`
    drops those that a new version has left behind, now and then, so that a change costs the same however long the run
    is, and the run does not grow.

    Attributes:
        values: id of a part → what was computed for it. To be read; `put` adds to it.
        pieces: id of a part → anything from which the value of its next version can be computed faster.
        latest: the version that was settled last.
    """

    __slots__ = ("_limit", "_parts", "latest", "pieces", "values")

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}
        self.pieces: dict[int, Any] = {}
        self.latest: Any = None
        self._parts: dict[int, Any] = {}
        self._limit = 8

    def __len__(self) -> int:
        return len(self.values)

    def get(self, part: Any) -> Any:
        """Return what was computed for this very object, or None."""
        return self.values.get(id(part))

    def put(self, part: Any, value: Any, pieces: Any = None) -> None:
        """Remember what was computed for a part, and its pieces if it has any."""
        self._parts[id(part)] = part
        self.values[id(part)] = value
        if pieces is not None:
            self.pieces[id(part)] = pieces

    def settle(self, root: Any) -> None:
        """Say which version is the current one: what is not part of it may be forgotten."""
        self.latest = root
        if len(self.values) <= self._limit:
            return
        current: set[int] = set()
        todo = [root]
        while todo:
            part = todo.pop()
            if id(part) in self.values and id(part) not in current:
                current.add(id(part))
                todo.extend(part.values() if type(part) is dict else part if type(part) is list else ())
        self.values = {key: self.values[key] for key in current}
        self.pieces = {key: piece for key, piece in self.pieces.items() if key in current}
        self._parts = {key: self._parts[key] for key in current}
        self._limit = 2 * len(current) + 8


def changed_places(old: Any, new: Any) -> list[int] | None:
    """Return at which positions `new` holds another object than `old`; None when they do not line up.

    They do when `new` is `old` with items replaced and items added at the end; a dict has to have the same keys in the
    same order at its beginning.
    """
    size = len(old) if type(old) is type(new) else -1
    if not 0 <= size <= len(new):
        return None
    if type(new) is dict:
        keys = list(new)
        if list(old) != (keys if size == len(keys) else keys[:size]):
            return None
        old, new = old.values(), new.values()
    return [*compress(count(), map(is_not, old, new)), *range(size, len(new))]


def counterpart(old: Any, node: Any, place: int) -> Any:
    """Return what `old` holds where `node` has its item at `place`; None when it holds nothing there."""
    if type(old) is not type(node):
        return None
    if type(node) is dict:
        return old.get(next(islice(node, place, None)))
    return old[place] if place < len(old) else None
