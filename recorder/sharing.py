"""Whether writing out everything that a value shares would multiply it.

Twenty lists that each hold the next one twice are twenty objects, and a million when written out. This is found out by
looking at each object once. The look goes where encoding goes, and runs nothing of the value's own.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from .builtin_types import BASES
from .frozen import FrozenDict, FrozenList
from .introspection import attributes_of, inherits
from .plain import MAX_REPEATS
from .structured_types import writer_for
from .type_registry import TypeRegistry

_SMALL: Final = 20_000
"""Up to so many items a value is simply written out."""

_DICTS: Final = frozenset(map(id, (dict, FrozenDict)))
_SEQUENCES: Final = frozenset(map(id, (list, FrozenList, tuple, set, frozenset, deque)))
_READERS: Final[tuple[tuple[type, Any], ...]] = (
    (dict, lambda value: [*dict.keys(value), *dict.values(value)]),
    (list, list.__iter__),
    (tuple, tuple.__iter__),
    (set, set.__iter__),
    (frozenset, frozenset.__iter__),
    (deque, deque.__iter__),
    (BaseException, lambda error: [*_args_of(error), _cause_of(error)]),
)
_args_of: Final[Any] = BaseException.__dict__["args"].__get__
_cause_of: Final[Any] = BaseException.__dict__["__cause__"].__get__
_EXACT: Final = frozenset(map(id, BASES))
_ATOMS: Final = frozenset(
    id(cls) for cls in (*BASES, bool, type(None)) if not any(inherits(cls, base) for base, _ in _READERS)
)
"""The ids of types with nothing in them to look into."""


def multiplies(root: Any, types: TypeRegistry) -> bool:
    """Say whether `root` is more than `MAX_REPEATS` larger when written out, or is large and contains itself."""
    return _is_large_and_shares(root, types) and _is_knot(root, types)


def _is_large_and_shares(root: Any, types: TypeRegistry) -> bool:
    """Rule out, quickly, nearly everything that is recorded."""
    count = 0
    shares = False
    seen: set[int] = set()
    todo = [root]
    while todo:
        value = todo.pop()
        inner = _inner(value, types)
        if inner:
            shares = shares or id(value) in seen
            seen.add(id(value))
            count += len(inner)
            if shares and count > _SMALL:
                return True
            todo.extend([item for item in inner if id(type(item)) not in _ATOMS])
    return False


def _is_knot(root: Any, types: TypeRegistry) -> bool:
    sizes: dict[int, int] = {}  # id → the items it is when written out
    within: dict[int, tuple[int, list[Any]]] = {}  # id → how many items are directly in it, and those to look into
    kept = []  # an id names an object only while it lives, and some are made by looking
    distinct = 0
    todo = [root]
    while todo:
        node = todo[-1]
        name = id(node)
        if name in sizes:
            todo.pop()
            continue
        looked_at = within.pop(name, None)
        if looked_at is None:
            found = _inner(node, types)
            looked_at = len(found), [item for item in found if id(type(item)) not in _ATOMS]
            distinct += 1 + len(found)
            kept.append(node)
            if looked_at[1]:
                within[name] = looked_at
                for item in looked_at[1]:
                    if id(item) in within:
                        return True
                todo.extend(looked_at[1])
                continue
        count, inner = looked_at
        sizes[name] = size = 1 + count + sum([sizes[id(item)] for item in inner])
        if size > distinct + MAX_REPEATS:
            return True
        todo.pop()
    return False


def _inner(value: Any, types: TypeRegistry) -> list[Any]:
    """Return what is directly in a value, as far as encoding writes it."""
    kind = type(value)
    if id(kind) in _SEQUENCES:
        return list(value)
    if id(kind) in _DICTS:
        return [*value, *value.values()]
    if id(kind) in _ATOMS:
        return []
    try:
        return _inner_of_object(value, kind, types)
    except Exception:  # a half-made object; it is written as opaque
        return []


def _inner_of_object(value: Any, kind: type, types: TypeRegistry) -> list[Any]:
    exact = id(kind) in _EXACT
    if not exact and types.of(kind) is None and writer_for(kind) is None:
        return []
    found: list[Any] = []
    for base, read in _READERS:
        if inherits(kind, base):
            found.extend(read(value))
            break
    if not exact:
        found.extend(attributes_of(value).values())
    return found
