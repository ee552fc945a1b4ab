"""Paths into a payload: JSON Pointer for machines, a readable form for people.

A JSON Pointer (RFC 6901) is exact and ugly: `/order/items/0/a~1b`. People read and type
`order.items[0]["a/b"]`. Both name the same place; this module turns one into the other.

| pointer | shown |
|---|---|
| `` (the whole) | `(payload)` |
| `/order/items/0/price` | `order.items[0].price` |
| `/rates/EUR~1USD` | `rates["EUR/USD"]` |
| `/seats/0` where `seats` is an object | `seats["0"]` |

A pointer does not say whether `0` is a list index or a key. Given the tree, `display` looks; without it a
number is taken for an index. Where code walks a tree itself it keeps *keys* instead: a tuple with an `int` for
every list index and a `str` for every object key. Nothing shown can hide: a key that is not plain letters and
digits stands in quotes, with everything invisible escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

from ..recorder.errors import UsageError
from .insides import inside_of, named

Keys: TypeAlias = tuple[str | int, ...]
"""A path whose list indexes are `int` and whose object keys are `str`."""

WHOLE = "(payload)"
"""How the empty pointer is shown."""

_INDEX = re.compile(r"0|[1-9][0-9]*")
_BARE = re.compile(r"[^.\[\]\"']+")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SINGLE = re.compile(r"'(?:[^'\\]|\\.)*'")
_BAD_ESCAPE = re.compile(r"~(?![01])")


def escape(key: str) -> str:
    """Write an object key as a reference token: `a/b` gives `a~1b`."""
    return key.replace("~", "~0").replace("/", "~1")


def unescape(token: str) -> str:
    """Read a reference token: `a~1b` gives `a/b`."""
    return token.replace("~1", "/").replace("~0", "~")


def join(keys: Iterable[str | int]) -> str:
    """Make the pointer of a path: `("items", 0)` gives `/items/0`, no keys give the empty pointer."""
    return "".join(["/" + (escape(key) if isinstance(key, str) else str(key)) for key in keys])


def split(pointer: str) -> tuple[str, ...]:
    """Take a pointer apart into unescaped tokens; an index stays text.

    Raises:
        UsageError: it is no JSON Pointer.
    """
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise UsageError(f'{pointer!r} is no JSON Pointer: expected it to be empty or to start with "/"')
    if _BAD_ESCAPE.search(pointer):
        raise UsageError(f'{pointer!r} is no JSON Pointer: "~" must be followed by 0 or 1; a tilde is written "~0"')
    return tuple([unescape(token) for token in pointer[1:].split("/")])


def keys_of(pointer: str, tree: Any = None) -> Keys:
    """Take a pointer apart into keys, an `int` wherever it passes through a list.

    Args:
        pointer: a JSON Pointer.
        tree: the value it points into, of which tags are looked into (`insides`). Where that is None, or ends before
            the pointer does, a number is taken for an index.
    """
    keys: list[str | int] = []
    node, known = tree, tree is not None
    for token in split(pointer):
        numeric = _INDEX.fullmatch(token) is not None
        if known and isinstance(node, dict) and "$type" not in node:
            keys.append(token)
            known = token in node
            node = node.get(token)
        elif known and isinstance(node, list):
            keys.append(int(token) if numeric else token)
            known = numeric and int(token) < len(node)
            node = node[int(token)] if known else None
        elif known and (found := named(node, token)) is not None:
            keys.append(found)
            node = inside_of(node)[found]  # type: ignore[index]  # something of that name is in it
        elif known and isinstance(inside_of(node), dict):
            keys.append(token)
            known = False
        else:
            keys.append(int(token) if numeric else token)
            known = False
    return tuple(keys)


def display_keys(keys: Iterable[str | int]) -> str:
    """Show a path to a person: `("items", 0, "a key")` gives `items[0]["a key"]`."""
    shown = ""
    for key in keys:
        if not isinstance(key, str):
            shown += f"[{key}]"
        elif _is_plain(key):
            shown += f".{key}" if shown else key
        else:
            shown += f"[{quote(key)}]"
    return shown or WHOLE


def display(pointer: str, tree: Any = None) -> str:
    """Show a pointer to a person; `tree`, if given, tells list indexes from numeric keys.

    Raises:
        UsageError: it is no JSON Pointer.
    """
    return display_keys(keys_of(pointer, tree))


def quote(text: str) -> str:
    """Write text as a JSON string in which nothing is invisible: control and format characters are escaped."""
    return "".join(
        [char if char.isprintable() else json.dumps(char)[1:-1] for char in json.dumps(text, ensure_ascii=False)]
    )


def to_pointer(text: str) -> str:
    """Read a path in either form and give the pointer.

    `order.items[0].price`, `order["a key"]` and `/order/items/0` are understood, the empty text and `(payload)` mean
    the whole. Between dots any key may stand that has none of `. [ ] " '` in it (`order-id`, `items.0`).

    Raises:
        UsageError: neither form; the message says where reading stopped.
    """
    if not text or text.startswith("/"):
        split(text)
        return text
    if text == WHOLE:
        return ""
    keys: list[str | int] = []
    position = 0
    while position < len(text):
        if text[position] == "[":
            key, position = _in_brackets(text, position)
        else:
            start = position + 1 if keys and text[position] == "." else position
            bare = _BARE.match(text, start)
            if bare is None or (keys and start == position):
                raise _unreadable(text, position, 'expected ".key", "[0]" or \'["a key"]\'')
            key, position = bare.group(), bare.end()
        keys.append(key)
    return join(keys)


def _in_brackets(text: str, position: int) -> tuple[str | int, int]:
    start = position + 1
    key: str | int
    if found := _STRING.match(text, start):
        try:
            key = str(json.loads(found.group()))
        except ValueError:
            raise _unreadable(text, start, "expected a JSON string") from None
    elif found := _SINGLE.match(text, start):
        key = re.sub(r"\\(.)", r"\1", found.group()[1:-1], flags=re.DOTALL)
    elif found := _INDEX.match(text, start):
        key = int(found.group())
    else:
        raise _unreadable(text, start, 'expected an index, which counts from 0, or a key in quotes, and "]"')
    if text[found.end() : found.end() + 1] != "]":
        raise _unreadable(text, found.end(), 'expected "]"')
    return key, found.end() + 1


def _is_plain(key: str) -> bool:
    # Combining marks and the like are part of some identifiers; next to the letters they change they can be
    # invisible, so only letters, digits and the underscore stand unquoted.
    return key.isidentifier() and key.replace("_", "a").isalnum()


def _unreadable(text: str, position: int, expected: str) -> UsageError:
    return UsageError(f"cannot read the path {text!r} at character {position + 1}: {expected}")
