"""Property lookups by path, as JavaScript and lodash do them.

MemberJunction finds what a request says about a place in the payload by joining the keys on the way there with dots
and asking lodash's `get` for that path. Some of what it does follows from how `get` reads a path, so this module reads
paths the same way: a literal key wins (`{"a.b": 1}` has `a.b`), otherwise the text is cut at dots and brackets.
Properties that JavaScript objects inherit (`constructor`, `toString`) do not exist here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from .trees import LIVE, UNDEFINED, Trees, is_array, is_container, is_object, same

_LONGEST_INDEX: Final = 16
_LARGEST_INDEX_KEY: Final = 2**32 - 2
_DEEP: Final = re.compile(r"\.|\[(?:[^\[\]]*|([\"'])(?:(?!\1)[^\\]|\\.)*?\1)\]")
_TOKEN: Final = re.compile(
    r"[^.\[\]]+"
    r"|\[(?:(?P<number>-?[0-9]+(?:\.[0-9]+)?)|(?P<quote>[\"'])(?P<text>(?:(?!(?P=quote))[^\\]|\\.)*?)(?P=quote))\]"
    r"|(?=(?:\.|\[\])(?:\.|\[\]|\Z))"
)
_ESCAPE: Final = re.compile(r"\\(\\)?")


def index_of(key: Any) -> int | None:
    """The index that a key names in an array, or None: `"7"` does, `"07"`, `"-1"`, `"x"` and 7 do not."""
    if not isinstance(key, str) or not key.isdigit() or not key.isascii() or len(key) > _LONGEST_INDEX:
        return None
    return int(key) if key[0] != "0" or key == "0" else None


def is_falsy(value: Any) -> bool:
    """Say whether JavaScript would take the value for false: None, False, 0, NaN and "", but no empty container."""
    if type(value) is float:
        return value == 0 or math.isnan(value)
    return value is None or value is False or (type(value) in (int, str) and not value)


def own_keys(value: Any) -> list[Any]:
    """The keys of an object in JavaScript's order: those that are indexes first, ascending, then as inserted."""
    keys = list(value)
    # The most frequent call of all, mostly with one key or two: a list is made faster than a generator.
    if not [key for key in keys if isinstance(key, str) and key[:1].isdigit()]:
        return keys
    found = {key: index for key in keys if (index := index_of(key)) is not None and index <= _LARGEST_INDEX_KEY}
    return sorted(found, key=found.__getitem__) + [key for key in keys if key not in found]


def prop(value: Any, key: Any, trees: Trees = LIVE) -> Any:
    """The property `key` of a value, or UNDEFINED."""
    if trees.is_object(value):
        return value.get(key, UNDEFINED)
    if is_array(value) or type(value) is str:
        if key == "length":
            return len(value)
        index = index_of(key)
        if index is not None and index < len(value):
            return value[index]
    return UNDEFINED


def item(value: Any, index: int, trees: Trees = LIVE) -> Any:
    """The property of a value that an index names, or UNDEFINED."""
    if is_array(value):
        return value[index] if index < len(value) else UNDEFINED
    return prop(value, str(index), trees)


@lru_cache(maxsize=8192)
def tokens(path: str) -> tuple[str, ...]:
    """The keys that a path names: `a.b[0]["x.y"]` is a, b, 0, x.y. A text without dots and brackets is one key."""
    if not _DEEP.search(path):
        return (path,)
    found = [""] if path.startswith(".") else []
    at = 0
    while at <= len(path):
        match = _TOKEN.search(path, at)
        if match is None:
            break
        if match["quote"]:
            found.append(_ESCAPE.sub(lambda escaped: escaped[1] or "", match["text"]))
        else:
            found.append(match["number"] or match[0])
        at = match.end() if match.end() > match.start() else match.end() + 1
    return tuple(found)


def walk(value: Any, keys: Sequence[str], trees: Trees = LIVE) -> Any:
    """Follow keys down from a value; UNDEFINED where one is missing, and where there are none."""
    if not keys:
        return UNDEFINED
    for key in keys:
        value = prop(value, key, trees)
        if value is UNDEFINED:
            return UNDEFINED
    return value


def get(value: Any, path: str, trees: Trees = LIVE) -> Any:
    """What is at a path, the literal key first, or UNDEFINED."""
    if trees.is_object(value) and path in value:
        return value[path]
    return walk(value, tokens(path), trees)


class WorkingCopy:
    """A tree to write into without touching the tree it started from.

    Containers are copied when first written to, the rest stays shared. As in JavaScript, an array may get holes, and
    an array may get properties that are no indexes: they can be read back here but are no part of the `finish`ed tree.
    """

    def __init__(self, root: Any) -> None:
        self.root = root
        self._owned: dict[int, Any] = {}
        self._names: dict[int, dict[str, Any]] = {}
        self._copies: dict[int, tuple[Any, Any]] = {}

    def get(self, keys: Sequence[str]) -> Any:
        """What is at a path, or UNDEFINED."""
        value = self.root
        for key in keys:
            value = self._prop(value, key)
            if value is UNDEFINED:
                return UNDEFINED
        return value

    def keys_of(self, path: str) -> Sequence[str]:
        """The keys that a path names in this tree, the literal key first."""
        return (path,) if is_object(self.root) and path in self.root else tokens(path)

    def set(self, keys: Sequence[str], value: Any) -> None:
        """Put a value at a path; what is missing on the way is made, an array where the next key is an index."""
        if not is_container(self.root):
            return
        if is_container(self.get(keys[:-1])) and value is not UNDEFINED and same(self.get(keys), value):
            return
        node = self.root = self._own(self.root)
        for key, following in pairwise(keys):
            below = self._prop(node, key)
            if is_container(below):
                below = self._own(below)
            else:
                below = self._keep([] if index_of(following) is not None else {})
            self._assign(node, key, below)
            node = below
        self._assign(node, keys[-1], value)

    def unset(self, keys: Sequence[str]) -> None:
        """Take away what is at a path; in an array that leaves a hole."""
        if self.get(keys) is UNDEFINED or not is_container(self.get(keys[:-1])):
            return
        node = self.root = self._own(self.root)
        for key in keys[:-1]:
            below = self._own(self._prop(node, key))
            self._assign(node, key, below)
            node = below
        if is_object(node):
            del node[keys[-1]]
        elif (index := index_of(keys[-1])) is not None:
            node[index] = UNDEFINED
        else:
            self._names.get(id(node), {}).pop(keys[-1], None)

    def drop_empty_items(self) -> None:
        """Take every `{}` out of every array."""
        self.root = self._without_empty_items(self.root)

    def now(self, value: Any) -> Any:
        """What has become of a container that was read from this tree earlier."""
        copied = self._copies.get(id(value))
        return copied[1] if copied else value

    def finish(self) -> Any:
        """The tree: holes are None, keys without a value are gone."""
        for node in self._owned.values():
            if is_array(node):
                node[:] = [None if value is UNDEFINED else value for value in node]
            else:
                for key in [key for key, value in node.items() if value is UNDEFINED]:
                    del node[key]
        return self.root

    def _prop(self, value: Any, key: str) -> Any:
        found = prop(value, key)
        if found is UNDEFINED and is_array(value):
            return self._names.get(id(value), {}).get(key, UNDEFINED)
        return found

    def _assign(self, node: Any, key: str, value: Any) -> None:
        if is_object(node):
            node[key] = value
            return
        index = index_of(key)
        if index is None:
            self._names.setdefault(id(node), {})[key] = value
            return
        node.extend([UNDEFINED] * (index + 1 - len(node)))
        node[index] = value

    def _own(self, node: Any) -> Any:
        if id(node) in self._owned:
            return node
        copy = self._keep(list(node) if is_array(node) else dict(node))
        self._copies[id(node)] = (node, copy)
        return copy

    def _keep(self, node: Any) -> Any:
        self._owned[id(node)] = node  # the reference keeps the id from being used again
        return node

    def _without_empty_items(self, node: Any) -> Any:
        pairs: Iterator[tuple[Any, Any]]
        if is_array(node):
            kept = [value for value in node if not (is_object(value) and not value)]
            cleaned = [self._without_empty_items(value) for value in kept]
            if len(cleaned) < len(node) or any(a is not b for a, b in zip(kept, cleaned, strict=True)):
                node = self._own(node)
                node[:] = cleaned
        elif is_object(node):
            pairs = ((key, self._without_empty_items(value)) for key, value in list(node.items()))
            changed = [(key, value) for key, value in pairs if value is not node[key]]
            if changed:
                node = self._own(node)
                node.update(changed)
        return node
