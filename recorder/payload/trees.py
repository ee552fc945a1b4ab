"""What the payload core sees when it looks at a value: an object, an array, or a leaf.

Payloads are trees of JSON. Only an exact `dict` or `list`, or the frozen view of one, is walked into. Everything else
is a *leaf*, taken and put as a whole: numbers and texts, but also a tag (`{"$type": …}`, the stored form of a value
that JSON cannot express), a dict with keys that are no strings (it is stored as a tag), and every other Python object
when a payload is alive and not read from a log. So a change does the same to a live payload as to its stored form.

The core never writes into a tree it was given. Two trees that share a subtree share it for good, and `is` is the
fastest way to see that nothing changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final, TypeGuard

from jsonpointer import escape

from ..frozen import FrozenDict, FrozenList
from ..hashes import same as same_stored

TAG: Final = "$type"
"""The key that makes a dict a tag."""


class Undefined(Enum):
    """The type of `UNDEFINED`."""

    UNDEFINED = "undefined"


UNDEFINED: Final = Undefined.UNDEFINED
"""No value at all, which is not None: what JavaScript calls undefined."""


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Say whether the value is an array to walk into."""
    kind = type(value)
    return kind is list or kind is FrozenList


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Say whether the value is an object to walk into: a dict with string keys, none of them `$type`."""
    return key_text(value) is not None


def key_text(value: Any) -> str | None:
    """The keys of an object run together, or None for what is no object.

    Joining them is the fastest way to ask each whether it is a string, and the text to ask for a character in any.
    """
    kind = type(value)
    if (kind is not dict and kind is not FrozenDict) or TAG in value:
        return None
    try:
        return "".join(value)
    except TypeError:
        return None


def is_container(value: object) -> bool:
    """Say whether the value is an object or an array, so that there is something below it."""
    return is_array(value) or is_object(value)


def same(a: Any, b: Any) -> bool:
    """Say whether two trees are equal in value and in type: 1, 1.0 and True differ, and so do 0.0 and -0.0.

    The order of keys does not count. Leaves that are no JSON are the same if they have one type and compare equal.
    """
    if a is b:
        return True
    if is_array(a):
        return is_array(b) and len(a) == len(b) and all(map(same, a, b))
    kind, other = _kind(a), _kind(b)
    if kind is not other:
        return False
    if kind is dict:
        if TAG in a:
            return same_stored(a, b)
        return len(a) == len(b) and all(key in b and same(value, b[key]) for key, value in a.items())
    if kind is float:
        return (a == b and math.copysign(1.0, a) == math.copysign(1.0, b)) or (a != a and b != b)
    try:
        return bool(a == b)
    except Exception:  # a user's type may answer == with anything; then only identity counts
        return False


def _kind(value: Any) -> type:
    kind = type(value)
    return dict if kind is FrozenDict else kind


def pointer(keys: Iterable[str | int]) -> str:
    """The JSON Pointer of a path: `("a/b", 0)` is `/a~1b/0`."""
    return "".join(f"/{escape(str(key))}" for key in keys)


def share(old: Any, new: Any) -> Any:
    """Return `new`, built from the subtrees of `old` wherever they are the same, order of keys included."""
    if old is new:
        return old
    if is_object(old) and is_object(new):
        made: Any = {key: share(old.get(key, UNDEFINED), value) for key, value in new.items()}
        unchanged = len(old) == len(made) and all(
            a == b and old[a] is value for a, (b, value) in zip(old, made.items(), strict=True)
        )
        return old if unchanged else made
    if is_array(old) and is_array(new):
        made = [share(old[i] if i < len(old) else UNDEFINED, item) for i, item in enumerate(new)]
        return old if len(old) == len(made) and all(a is b for a, b in zip(old, made, strict=True)) else made
    return old if not is_container(new) and same(old, new) else new
