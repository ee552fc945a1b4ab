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

FEW_CONTAINERS: Final = 60
"""So many containers can be no deeper than `MAX_DEPTH`, and a walk over them soon ends even in a cycle."""

_SHALLOW: Final = 8

MAX_REPEATS: Final = 200_000
"""Items and containers that may be written again, where containers occur more than once."""

_NOT_PLAIN: Final = -1
_TOO_DEEP: Final = -2
_FROZEN_PART: Final = 1 << 40
"""Counts a frozen container; no walk meets so many items."""

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
    """Say whether JSON holds `value` exactly, types included."""
    return as_plain(value) is not None


def as_plain(value: Any) -> tuple[bytes, Stored] | None:
    """Return the strict JSON of a value that is plain, frozen or not, and the tree it is the JSON of; else None.

    The tree of a value without frozen containers is the value itself. What the writer refuses in passing is left to
    it: keys that are no str, and lone surrogates.
    """
    kind = type(value)
    try:
        if kind is dict and _is_small_and_plain(value):
            data = orjson.dumps(value, None, _EXACT_TYPES_ONLY)
        elif kind is dict or kind is list or kind is FrozenDict or kind is FrozenList:
            items = _look_into(value, 1)
            if items < 0:
                items = _NOT_PLAIN if items == _NOT_PLAIN else _look_carefully(value)
                if items < 0:
                    return None
            if items >= _FROZEN_PART:
                data = dumps_frozen(value)
                value = loads(data)
            else:
                data = orjson.dumps(value, None, _EXACT_TYPES_ONLY)
        else:
            return (dumps(value), value) if _is_plain_scalar(value) else None
        return None if b"$" in data and b'"$type"' in data and has_tags(loads(data)) else (data, value)
    except (TypeError, ValueError, RuntimeError):  # refused; changed by another thread meanwhile; no stack left
        return None


def shallow_copy_of(value: Any) -> Stored | None:
    """Return a copy of a container that is plain, frozen or not, and not deep; else None."""
    kind = type(value)
    if not (kind is dict or kind is list or kind is FrozenDict or kind is FrozenList):
        return None
    try:
        items = _look_into(value, QUICK_DEPTH - _SHALLOW)
        if items < 0:
            return None
        data = dumps_frozen(value) if items >= _FROZEN_PART else dumps(value)
        copied = loads(data)
    except (TypeError, ValueError, RuntimeError):
        return None
    return None if b"$" in data and b'"$type"' in data and has_tags(copied) else copied


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


def _is_small_and_plain(root: dict[str, Any]) -> bool:
    """Say whether a dict has few containers, none of them frozen, and what else is in it is plain but for large ints.

    That is what nearly every event is. The walk calls nothing, looks up no names outside, and counts no levels: there
    are no more than containers. The writer refuses large ints itself.
    """
    dict_, list_, str_, type_ = dict, list, str, type
    found: list[Any] = [root]
    add = found.append
    for container in found:
        for value in container.values() if type_(container) is dict_ else container:
            kind = type_(value)
            if kind is str_:
                continue
            if kind is dict_ or kind is list_:
                if len(found) >= FEW_CONTAINERS:
                    return False
                add(value)
            elif kind is int:
                continue
            elif kind is float:
                if value - value != 0.0:
                    return False
            elif value is not None and value is not True and value is not False:
                return False
    return True


def _look_into(container: Any, depth: int) -> int:
    """Look at the values in a container and in those within it.

    `value - value` is 0.0 for finite floats only.

    Returns:
        How many items it would be, written out, and `_FROZEN_PART` for each frozen container; or below 0, why not:
        `_NOT_PLAIN`, or `_TOO_DEEP` or large for a walk that looks at shared containers again and again.
    """
    if depth > QUICK_DEPTH:
        return _TOO_DEEP
    items = len(container)
    values = container
    kind = type(container)
    if kind is dict:
        values = container.values()
    elif kind is not list:
        items += _FROZEN_PART
        if kind is FrozenDict:
            values = container.values()
    for value in values:
        kind = type(value)
        if kind is str:
            continue
        if kind is dict or kind is list:
            inner = _look_into(value, depth + 1)
        elif kind is int:
            if -MAX_INT <= value <= MAX_INT:
                continue
            return _NOT_PLAIN
        elif kind is float:
            if value - value == 0.0:
                continue
            return _NOT_PLAIN
        elif value is None or value is True or value is False:
            continue
        elif kind is FrozenDict or kind is FrozenList:
            inner = _look_into(value, depth + 1)
        else:
            return _NOT_PLAIN
        if inner < 0:
            return inner
        items += inner
        if items > QUICK_ITEMS and items % _FROZEN_PART > QUICK_ITEMS:
            return _TOO_DEEP
    return items


def _look_carefully(root: Any) -> int:
    """Look at a deep or large tree: without recursion, each container once, and never round a cycle.

    Returns:
        `_FROZEN_PART` if anything in it is frozen, else 0; or `_NOT_PLAIN`.
    """
    found = 0
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
                return _NOT_PLAIN
            distinct += 1 + len(node)
            if type(node) is FrozenDict or type(node) is FrozenList:
                found = _FROZEN_PART
            if inner:
                within[name] = inner
                for child in inner:
                    if id(child) in within:
                        return _NOT_PLAIN
                todo.extend(inner)
                continue
        height, size = 1, 1 + len(node)
        for child in inner:
            its_height, its_size = measured[id(child)]
            height = max(height, its_height + 1)
            size += its_size
        if height > MAX_DEPTH or size > distinct + MAX_REPEATS:
            return _NOT_PLAIN
        measured[name] = height, size
        todo.pop()
    return found


def _containers_in(node: Any) -> list[Any] | None:
    """Return the containers directly within one, or None when something in it is not plain."""
    values: Any = node
    if type(node) is dict or type(node) is FrozenDict:
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
