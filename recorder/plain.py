"""Plain JSON: the values that a log holds as they are, and the bytes they become.

A value is *plain* when JSON gives it back exactly: only `dict` with keys of exactly `str`, `list`, `str`, `bool`,
`None`, finite `float`, and `int` up to 53 bits, beyond which other readers of JSON round. Subclasses are not plain,
although JSON writers take them: what comes back would be of another type. Neither is a dict with the key "$type",
which marks a tag, nor anything nested deeper than `MAX_DEPTH`, which parsers refuse.

Whether a value is plain is asked of everything that is recorded, so the question is made cheap: it looks at exact
types only, calls nothing of the value's own, and copies nothing.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import orjson

from .frozen import FrozenDict, FrozenList

Stored: TypeAlias = Any
"""A tree in stored form: plain JSON, or dicts with the key "$type" (tags) where plain JSON would lose something."""

MAX_INT: Final = 2**53 - 1
"""The largest integer that every reader of JSON keeps exact."""

MAX_DEPTH: Final = 100
"""Containers within containers, in one piece. Writers stop at 254; what is deeper is stored in pieces."""

QUICK_DEPTH: Final = 20
"""Down to here a look may simply recurse."""

QUICK_ITEMS: Final = 500_000
"""After so many items a look no longer walks as if nothing were shared: shared containers multiply."""

_SHALLOW: Final = 8

MAX_REPEATS: Final = 200_000
"""Items and containers that may be written again, where containers occur more than once."""

NOT_PLAIN: Final = 0
PLAIN: Final = 1
FROZEN: Final = 2
_TOO_DEEP: Final = 3

_EXACT_TYPES_ONLY: Final = (
    orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)
_WITH_FROZEN: Final = _EXACT_TYPES_ONLY & ~orjson.OPT_PASSTHROUGH_SUBCLASS


def is_tag(value: Any) -> bool:
    """Say whether a stored value is a tag: a dict that has the key "$type"."""
    return type(value) is dict and "$type" in value


def is_plain(value: Any) -> bool:
    """Say whether JSON holds `value` exactly, types included.

    One thing is left to `dumps`, which finds it faster: a str with a lone surrogate counts as plain here, and
    `dumps` raises TypeError on it.
    """
    try:
        return look(value) == PLAIN
    except RuntimeError:  # changed by another thread meanwhile, or no stack left
        return False


def look(value: Any) -> int:
    """Say whether `value` is PLAIN, FROZEN (plain but for frozen containers) or NOT_PLAIN."""
    kind = type(value)
    if kind is dict or kind is list or kind is FrozenDict or kind is FrozenList:
        found = _look_into(value, 1, [QUICK_ITEMS])
        return _look_carefully(value) if found == _TOO_DEEP else found
    return PLAIN if _is_plain_scalar(value) else NOT_PLAIN


def plain_copy(value: Any) -> Stored | None:
    """Return a copy of a container that is plain, frozen or not, and shallow; else None."""
    kind = type(value)
    if not (kind is dict or kind is list or kind is FrozenDict or kind is FrozenList):
        return None
    try:
        found = _look_into(value, QUICK_DEPTH - _SHALLOW, [QUICK_ITEMS])
        if found == PLAIN:
            return loads(dumps(value))
        if found == FROZEN:
            return loads(dumps_frozen(value))
    except (TypeError, RuntimeError):  # a lone surrogate; changed by another thread meanwhile
        return None
    return None


def dumps(stored: Stored) -> bytes:
    """Return a tree in stored form as strict JSON, key order kept.

    Raises:
        TypeError: the tree holds something that JSON does not, or is nested too deeply.
    """
    return orjson.dumps(stored, None, _EXACT_TYPES_ONLY)


def dumps_frozen(value: Any) -> bytes:
    """Like `dumps`, for what `look` found to be FROZEN."""
    return orjson.dumps(value, None, _WITH_FROZEN)


def loads(data: bytes | str) -> Stored:
    """Return the tree that `dumps` wrote.

    For our own files. JSON from elsewhere may hold larger integers, which this would round; read that with
    `json.loads` and encode the result.

    Raises:
        ValueError: the data is not strict JSON.
    """
    return orjson.loads(data)


def has_tags(stored: Stored) -> bool:
    """Say whether a tree in stored form has a tag anywhere."""
    todo = [stored]
    while todo:
        node = todo.pop()
        kind = type(node)
        if kind is dict:
            if "$type" in node:
                return True
            todo.extend([item for item in node.values() if type(item) is dict or type(item) is list])
        elif kind is list:
            todo.extend([item for item in node if type(item) is dict or type(item) is list])
    return False


def _is_plain_scalar(value: Any) -> bool:
    kind = type(value)
    if kind is int:
        return bool(-MAX_INT <= value <= MAX_INT)
    if kind is float:
        return bool(value - value == 0.0)
    return kind is str or value is None or value is True or value is False


def _look_into(container: Any, depth: int, left: list[int]) -> int:
    """Look at a container and what is in it. `value - value` is 0.0 for finite floats only.

    Args:
        left: one number, the items that may still be looked at.
    """
    left[0] = budget = left[0] - len(container)
    if depth > QUICK_DEPTH or budget < 0:
        return _TOO_DEEP
    kind = type(container)
    found = PLAIN
    if kind is dict or kind is FrozenDict:
        if kind is FrozenDict:
            found = FROZEN
        for key, value in container.items():
            if type(key) is not str:
                return NOT_PLAIN
            kind = type(value)
            if kind is str:
                continue
            if kind is int:
                if not -MAX_INT <= value <= MAX_INT:
                    return NOT_PLAIN
            elif kind is dict or kind is list or kind is FrozenDict or kind is FrozenList:
                inner = _look_into(value, depth + 1, left)
                if inner != PLAIN:
                    if inner != FROZEN:
                        return inner
                    found = FROZEN
            elif kind is float:
                if value - value != 0.0:
                    return NOT_PLAIN
            elif not (value is None or value is True or value is False):
                return NOT_PLAIN
        return NOT_PLAIN if "$type" in container else found
    if kind is FrozenList:
        found = FROZEN
    for value in container:
        kind = type(value)
        if kind is str:
            continue
        if kind is int:
            if not -MAX_INT <= value <= MAX_INT:
                return NOT_PLAIN
        elif kind is dict or kind is list or kind is FrozenDict or kind is FrozenList:
            inner = _look_into(value, depth + 1, left)
            if inner != PLAIN:
                if inner != FROZEN:
                    return inner
                found = FROZEN
        elif kind is float:
            if value - value != 0.0:
                return NOT_PLAIN
        elif not (value is None or value is True or value is False):
            return NOT_PLAIN
    return found


def _look_carefully(root: Any) -> int:
    """Look at a deep or large tree: without recursion, each container once, and never round a cycle."""
    found = PLAIN
    measured: dict[int, tuple[int, int]] = {}  # id → its height, and the items it is when written out
    within: dict[int, list[Any]] = {}  # id → the containers directly within it, of those that are being looked at
    distinct = 0
    todo = [root]
    while todo:
        node = todo[-1]
        name = id(node)
        if name in measured:
            todo.pop()
            continue
        inner = within.pop(name, None)
        if inner is None:
            inner = _containers_in(node)
            if inner is None:
                return NOT_PLAIN
            distinct += 1 + len(node)
            if type(node) is FrozenDict or type(node) is FrozenList:
                found = FROZEN
            if inner:
                within[name] = inner
                for child in inner:
                    if id(child) in within:
                        return NOT_PLAIN
                todo.extend(inner)
                continue
        height, size = 1, 1 + len(node)
        for child in inner:
            its_height, its_size = measured[id(child)]
            height = max(height, its_height + 1)
            size += its_size
        if height > MAX_DEPTH or size > distinct + MAX_REPEATS:
            return NOT_PLAIN
        measured[name] = height, size
        todo.pop()
    return found


def _containers_in(node: Any) -> list[Any] | None:
    """Return the containers directly within one, or None when something in it is not plain."""
    values: Any = node
    if type(node) is dict or type(node) is FrozenDict:
        for key in node:
            if type(key) is not str:
                return None
        if "$type" in node:
            return None
        values = node.values()
    inner = []
    for value in values:
        kind = type(value)
        if kind is str or value is None or value is True or value is False:
            continue
        if kind is dict or kind is list or kind is FrozenDict or kind is FrozenList:
            inner.append(value)
        elif not _is_plain_scalar(value):
            return None
    return inner
