"""What the payload core sees when it looks at a value: an object, an array, or a leaf.

Only an exact `dict` or `list`, or the frozen view of one, is walked into. Everything else is a *leaf*, taken and put as
a whole: numbers and texts, and every other Python object. Payloads come in two forms, and a function that walks one is
told which (`Trees`):

- *live* values, the user's own: every dict is an object, whatever its keys are.
- trees in *stored form*, out of a log: a dict with the key `$type` is a tag, which stands for a value that JSON cannot
  express, and so it is a leaf. Keys are texts.

A key that is no text has no place in a JSON Pointer or a path of keys joined by dots. What is said about it is found
by the key itself; where it must be named, its `repr` is.

The core never writes into a tree it was given. Two trees that share a subtree share it for good, and `is` is the
fastest way to see that nothing changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from enum import Enum
from typing import Any, Final, NamedTuple, TypeGuard

from jsonpointer import escape

from ..frozen import FrozenDict, FrozenList
from ..hashes import same as same_stored

TAG: Final = "$type"
"""The key that makes a dict in stored form a tag."""

_TEXT: Final = frozenset((str,))
_SCALARS: Final = frozenset((str, int, float))
_CUTS: Final = str.maketrans(".[]", "___")


class Undefined(Enum):
    """The type of `UNDEFINED`."""

    UNDEFINED = "undefined"


UNDEFINED: Final = Undefined.UNDEFINED
"""No value at all, which is not None: what JavaScript calls undefined."""


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Say whether the value is an array to walk into."""
    kind = type(value)
    return kind is list or kind is FrozenList


def is_object(value: object) -> TypeGuard[dict[Any, Any]]:
    """Say whether a live value is an object to walk into: a dict, whatever its keys are."""
    kind = type(value)
    return kind is dict or kind is FrozenDict


def is_container(value: object) -> bool:
    """Say whether a live value is an object or an array, so that there is something below it."""
    kind = type(value)
    return kind is dict or kind is list or kind is FrozenDict or kind is FrozenList


def is_stored_object(value: object) -> TypeGuard[dict[Any, Any]]:
    """Say whether a part of a tree in stored form is an object, and no tag."""
    kind = type(value)
    return (kind is dict or kind is FrozenDict) and TAG not in value  # type: ignore[operator]  # it is a dict


def is_stored_as_object(value: object) -> TypeGuard[dict[Any, Any]]:
    """Say whether a live value is a dict whose stored form is an object; of other dicts it is a tag."""
    if not is_stored_object(value) or not has_text_keys(value):
        return False
    names = "".join(value)
    try:
        return names.isascii() or bool(names.encode())
    except UnicodeEncodeError:  # half a character, which JSON cannot express
        return False


def has_text_keys(value: dict[Any, Any]) -> bool:
    """Say whether every key of a dict is a `str`, and of no class derived from it."""
    return _TEXT.issuperset(map(type, value))


def key_text(value: dict[Any, Any]) -> str:
    """The keys of an object that are texts, run together: the fastest way to look for a character in any of them."""
    try:
        return "".join(value)
    except TypeError:
        return "".join([key for key in value if isinstance(key, str)])


def key_name(key: Any) -> str:
    """What stands for a key in a path: a text for itself, any other key by its `repr`, which does not cut the path."""
    return key if isinstance(key, str) else _shown(key).translate(_CUTS)


def exact_key(key: Any) -> Hashable:
    """Something to compare in place of a key, exact as to types: 1, 1.0 and True are one key of a dict."""
    return key if type(key) is str else (type(key), _shown(key), key)


def _shown(key: Any) -> str:
    try:
        return repr(key) or "?"
    except Exception:  # a user's type may raise anything
        return f"<{type(key).__name__}>"


def same(a: Any, b: Any) -> bool:
    """Say whether two live values are equal in value and in type: 1, 1.0 and True differ, and so do 0.0 and -0.0.

    The order of keys does not count. Leaves that are no JSON are the same if they have one type and compare equal.
    """
    if a is b:
        return True
    if is_array(a):
        return is_array(b) and len(a) == len(b) and all(map(same, a, b))
    if is_object(a):
        if not is_object(b) or len(a) != len(b):
            return False
        if not all(key in b and same(value, b[key]) for key, value in a.items()):
            return False
        return (has_text_keys(a) and has_text_keys(b)) or set(map(exact_key, a)) == set(map(exact_key, b))
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return (a == b and math.copysign(1.0, a) == math.copysign(1.0, b)) or (a != a and b != b)
    try:
        return bool(a == b)
    except Exception:  # a user's type may answer == with anything; then only identity counts
        return False


class Trees(NamedTuple):
    """How to look at values: what is an object to walk into, and when two values are the same."""

    is_object: Callable[[Any], TypeGuard[dict[Any, Any]]]
    same: Callable[[Any, Any], bool]

    def is_container(self, value: Any) -> bool:
        """Say whether the value is an object or an array, so that there is something below it."""
        return is_array(value) or self.is_object(value)


LIVE: Final = Trees(is_object, same)
"""Values of the user's own."""

STORED: Final = Trees(is_stored_object, same_stored)
"""Trees in stored form."""

LIVE_AS_STORED: Final = Trees(is_stored_as_object, same)
"""Live values, of which only what will be an object in stored form is walked into: so that what is said of them can be
said of their stored form too."""


def is_unchanged(old: Any, new: Any) -> bool:
    """Say whether a value is the one it takes the place of, or a number or text just like it."""
    return old is new or (type(old) in _SCALARS and type(old) is type(new) and same(old, new))


def pointer(keys: Iterable[Any]) -> str:
    """The JSON Pointer of a path: `("a/b", 0)` is `/a~1b/0`."""
    return "".join(f"/{escape(key_name(key))}" for key in keys)


def share(old: Any, new: Any, trees: Trees = LIVE) -> Any:
    """Return `new`, built from the subtrees of `old` wherever they are the same, order of keys included."""
    if old is new:
        return old
    if trees.is_object(old) and trees.is_object(new):
        made: Any = {key: share(old.get(key, UNDEFINED), value, trees) for key, value in new.items()}
        unchanged = len(old) == len(made) and all(
            (a is b or exact_key(a) == exact_key(b)) and old[a] is value
            for a, (b, value) in zip(old, made.items(), strict=True)
        )
        return old if unchanged else made
    if is_array(old) and is_array(new):
        made = [share(old[i] if i < len(old) else UNDEFINED, item, trees) for i, item in enumerate(new)]
        return old if len(old) == len(made) and all(a is b for a, b in zip(old, made, strict=True)) else made
    return old if not trees.is_container(new) and trees.same(old, new) else new
