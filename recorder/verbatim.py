"""Two stand-ins that pass through encoding: trees that are stored already, and values that could not be.

Without the first, recording a tree that came out of a log would escape its tags as if a user had written them. Without
the second, reading and recording again would lose the difference between a description of a socket and a dict.
"""

from __future__ import annotations

from typing import Any, Final

from .plain import MAX_DEPTH, Stored

LOSSY_KEY: Final = "lossy"
"""A tag with this key set to true holds a part of its value only."""


_DEEPEST: Final = MAX_DEPTH - 10
"""Trees of fewer levels have room for the levels of an event around them."""


class InStoredForm:
    """A tree in stored form among ordinary values: `encode` puts it in place as it is."""

    __slots__ = ("tree",)

    def __init__(self, tree: Stored) -> None:
        self.tree = tree


def already_stored(tree: Stored) -> Any:
    """Return a tree in stored form as a value to record: itself when it is written as it is anyway, else wrapped.

    Not so written are tags, which would be escaped, and what is nearly as deep as JSON is written in one piece: within
    an event it would be taken apart where by itself it is not.
    """
    return tree if _is_plain_and_flat(tree) else InStoredForm(tree)


def _is_plain_and_flat(tree: Stored) -> bool:
    level = [tree]
    for _ in range(_DEEPEST):
        if not level:
            return True
        below: list[Any] = []
        for node in level:
            if type(node) is dict:
                if "$type" in node:
                    return False
                below += [item for item in node.values() if type(item) is dict or type(item) is list]
            elif type(node) is list:
                below += [item for item in node if type(item) is dict or type(item) is list]
        level = below
    return False


class Opaque:
    """What a log knows of a value that could not be stored: its class by name, and its `repr`.

    Attributes:
        cls: "module:Qualname".
        text: the `repr`, bounded, without memory addresses.
    """

    __slots__ = ("cls", "text")

    def __init__(self, cls: str, text: str) -> None:
        self.cls = cls
        self.text = text

    def __eq__(self, other: object) -> bool:
        return type(other) is Opaque and (self.cls, self.text) == (other.cls, other.text)

    def __hash__(self) -> int:
        return hash((self.cls, self.text))

    def __repr__(self) -> str:
        return f"<not recorded: {self.cls} {self.text}>"


def lossy_in(stored: Stored) -> tuple[str, ...]:
    """Return the JSON Pointers, within a tree in stored form, of the values that were not stored exactly."""
    found = []
    todo: list[tuple[Any, tuple[Any, ...]]] = [(stored, ())]  # a path is (its parent's path, key)
    while todo:
        node, path = todo.pop()
        if type(node) is dict:
            if "$type" in node and (node["$type"] == "opaque" or node.get(LOSSY_KEY) is True):
                found.append(_pointer(path))
            inner = list(node.items())
        else:
            inner = list(enumerate(node)) if type(node) is list else []
        todo.extend((item, (path, key)) for key, item in reversed(inner) if type(item) is dict or type(item) is list)
    return tuple(found)


def _pointer(path: tuple[Any, ...]) -> str:
    keys = []
    while path:
        path, key = path
        keys.append(str(key).replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{key}" for key in reversed(keys))
