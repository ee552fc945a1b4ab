"""Are two stored values the same, types included? Fast enough to ask of every subtree.

`==` is not the question: `1 == 1.0 == True` and `0.0 == -0.0`, while a diff must tell them apart. But `==` runs in C
and a plain *no* from it stands, so it is asked first. A *yes* is settled by comparing the bytes of both, again in C:
the dump of a stored tree writes `1`, `1.0`, `true`, `0.0` and `-0.0` differently. Only where that says no because
keys stand in another order are the keys sorted too. Both steps together cost about twice the `==` alone.

Stored trees are what these functions are for. Values of other types (a `Decimal` that somebody decoded, a frozen
payload) are looked at in their stored form where one is met. A *yes* stands, but for enumeration members inside plain
containers, which count as their values. A *no* may be too early for containers that hold such values, or sets whose
items are in another order: it costs a comparer a closer look, and never a change.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from math import copysign
from operator import is_
from types import NoneType
from typing import Any

import orjson

from ..recorder import hashes
from ..recorder.values import encode

PLAIN_TYPES = frozenset({dict, list, str, int, float, bool, NoneType})
"""The types a stored tree is made of."""

# With these, orjson refuses what it would otherwise write like plain data, and the slow comparison decides.
_EXACT = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_EXACT_SORTED = _EXACT | orjson.OPT_SORT_KEYS

# Marshal copies texts where orjson reads them through; numbers and keys cost it more. This version of its format
# writes equal values alike, however often they are referred to.
_MARSHAL = 2
_LONG_TEXT = 400

# A slice of this many items is compared in one go. Short lists, and the values of a dict, which may each be half the
# payload, are compared one by one: a slice that differs is read twice.
_SLICE = 64
_SHORT = 32


def as_stored(value: Any) -> Any:
    """Give a value in stored form, as far as its own type goes: one of `PLAIN_TYPES`, the children as they are."""
    if type(value) not in PLAIN_TYPES or (type(value) is dict and not {str}.issuperset(map(type, value))):
        return encode(value).stored
    return value


def stored_tree(value: Any) -> Any:
    """Give a value in stored form all the way down: the same object if it is, its tags as they are."""
    if type(value) is dict and "$type" in value:
        return value
    stored = as_stored(value)
    if type(stored) is list:
        items = [stored_tree(item) for item in stored]
        return stored if all(map(is_, items, stored)) else items
    if type(stored) is dict and "$type" not in stored:
        values = {key: stored_tree(item) for key, item in stored.items()}
        return stored if all(map(is_, values.values(), stored.values())) else values
    return stored if type(stored) is dict else encode(stored).stored


def same(a: Any, b: Any) -> bool:
    """Say whether two values are the same: equal types and values all the way down, whatever the order of keys."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b) or kind not in PLAIN_TYPES:
        return (kind not in PLAIN_TYPES or type(b) not in PLAIN_TYPES) and same(*_both_stored(a, b))
    if kind is float:
        return (a == b and copysign(1.0, a) == copysign(1.0, b)) or (a != a and b != b)
    if kind is dict or kind is list:
        if _equal(a, b):
            return _same_bytes(a, b)
        # The items of some tags have no order: a set, a dict whose keys are numbers.
        return kind is dict and "$type" in a and "$type" in b and hashes.same(a, b)
    return bool(a == b)


def differing(a: Sequence[Any], b: Sequence[Any]) -> list[int]:
    """Compare two lists of one length item by item and give the positions at which they are not the same."""
    if len(a) <= _SHORT:
        return [at for at, (x, y) in enumerate(zip(a, b, strict=True)) if x is not y and not same(x, y)]
    found: list[int] = []
    for start in range(0, len(a), _SLICE):
        x, y = a[start : start + _SLICE], b[start : start + _SLICE]
        if not _same_slice(x, y):
            found += [at for at, (p, q) in enumerate(zip(x, y, strict=True), start) if p is not q and not same(p, q)]
    return found


def common_prefix(a: Sequence[Any], b: Sequence[Any], start_a: int, start_b: int, limit: int) -> int:
    """Count the items from the two starts on that are the same, up to `limit`."""
    count = 0
    while count < limit:
        size = min(_SLICE, limit - count)
        x, y = a[start_a + count : start_a + count + size], b[start_b + count : start_b + count + size]
        if size == _SLICE and _same_slice(x, y):
            count += size
            continue
        for p, q in zip(x, y, strict=True):
            if p is not q and not same(p, q):
                return count
            count += 1
    return count


def common_suffix(a: Sequence[Any], b: Sequence[Any], limit: int) -> int:
    """Count the items at the two ends that are the same, up to `limit`."""
    count = 0
    while count < limit:
        size = min(_SLICE, limit - count)
        end_a, end_b = len(a) - count, len(b) - count
        x, y = a[end_a - size : end_a], b[end_b - size : end_b]
        if size == _SLICE and _same_slice(x, y):
            count += size
            continue
        for p, q in zip(reversed(x), reversed(y), strict=True):
            if p is not q and not same(p, q):
                return count
            count += 1
    return count


def token(value: Any) -> object:
    """Give something hashable that is equal for values that are the same."""
    value = as_stored(value)
    if type(value) is str:
        return value
    if type(value) is dict and "$type" in value:
        return "tag", hashes.comparison_hash(value)
    if type(value) is dict or type(value) is list:
        try:
            return orjson.dumps(value, option=_EXACT_SORTED)
        except TypeError:
            return id(value), "object"
    return repr(value), type(value).__name__


def _same_slice(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return all(map(is_, a, b)) or (_equal(a, b) and _same_bytes(a, b))


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # the `==` of a foreign type may do anything, an array's raises; then look closer
        return False


def _same_bytes(a: Any, b: Any) -> bool:
    if _has_long_text(a):
        try:
            if marshal.dumps(a, _MARSHAL) == marshal.dumps(b, _MARSHAL):
                return True
        except ValueError:  # something in it is not of a built-in type
            pass
    try:
        return orjson.dumps(a, option=_EXACT) == orjson.dumps(b, option=_EXACT) or orjson.dumps(
            a, option=_EXACT_SORTED
        ) == orjson.dumps(b, option=_EXACT_SORTED)
    except TypeError:  # nothing orjson would write like plain data, or nested too deep for it
        return hashes.same(stored_tree(a), stored_tree(b))


def _has_long_text(value: Any) -> bool:
    """Guess from the first of the innermost values, and those beside it, whether most of this tree is text."""
    while type(value) is list and value:
        value = value[0]
    if type(value) is dict:
        for item in value.values():
            if type(item) is list or type(item) is dict:
                return _has_long_text(item)
            if type(item) is str and len(item) > _LONG_TEXT:
                return True
    return type(value) is str and len(value) > _LONG_TEXT


def _both_stored(a: Any, b: Any) -> tuple[Any, Any]:
    return as_stored(a), as_stored(b)
