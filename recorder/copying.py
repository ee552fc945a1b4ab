"""Copies of the user's values, so that what they mutate later changes nothing that was taken."""

from __future__ import annotations

import copy
from typing import Any

from .frozen import FrozenDict, FrozenList
from .values import encode_bytes, has_tags, loads

_IMMUTABLE = frozenset((str, int, float, bool, bytes, complex, type(None)))


def copy_value(value: Any) -> Any:
    """Copy containers, and other values as far as they can be copied; one that cannot stays the user's own.

    Frozen containers come out as plain ones.
    """
    if type(value) in _IMMUTABLE:
        return value
    stored = loads(encode_bytes(value)[0])
    if not has_tags(stored):
        return stored  # it was plain JSON, which reading back copies fastest
    try:
        return _copied(value)
    except RecursionError:  # what cannot be copied is in a cycle, or very deep
        return value


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # a user's type may raise anything from its hooks; then its neighbours at least are copied
        if type(value) is dict or type(value) is FrozenDict:
            return {key: _copied(item) for key, item in value.items()}
        if type(value) is list or type(value) is FrozenList:
            return [_copied(item) for item in value]
        return value
