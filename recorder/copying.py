"""Copies of the user's values, so that what they mutate later changes nothing that was taken."""

from __future__ import annotations

import copy
from typing import Any

from .frozen import FrozenDict, FrozenList

_IMMUTABLE = frozenset((str, int, float, bool, bytes, complex, type(None)))


def copy_value(value: Any) -> Any:
    """Copy containers, and other values as far as they can be copied; one that cannot stays the user's own.

    Frozen containers come out as plain ones.
    """
    cls = type(value)
    if cls in _IMMUTABLE:
        return value
    try:
        if cls is dict or cls is FrozenDict:
            return {key: copy_value(item) for key, item in value.items()}
        if cls is list or cls is FrozenList:
            return [copy_value(item) for item in value]
        return copy.deepcopy(value)
    except Exception:  # a user's type may raise anything from its copy hooks, and data may be its own child
        return value
