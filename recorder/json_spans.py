"""Read JSON in a text and remember where each value stands, so that one can be replaced and the rest stay as it is."""

from __future__ import annotations

import json
import re
from typing import Any, Final, TypeAlias

Span: TypeAlias = tuple[int, int]

_PIECE: Final = re.compile(r'"((?:[^"\\]|\\.)*+)"|([{}\[\],:])|[^\s{}\[\],:"]++', re.DOTALL)
_START: Final = re.compile(r"\s*[\[{]")


class JsonText:
    """A text that is one JSON object or array.

    Attributes:
        holder: a list with what the text says as its one item.
        values, keys: (id of a container in the tree, key or index) → where the value, and the key, stand in the text.
    """

    def __init__(self) -> None:
        self.holder: list[Any] = []
        self.values: dict[tuple[int, str | int], Span] = {}
        self.keys: dict[tuple[int, str | int], Span] = {}


def looks_like_json(text: str) -> bool:
    """Say whether a text begins as a JSON object or array does."""
    return _START.match(text) is not None


def parse(text: str) -> JsonText | None:
    """Return what a text says that is a JSON object or array, or None when it is something else.

    Also None when an object has a key twice, since a tree could not hold both values.
    """
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return _read(text)


def quoted(value: str, like: str) -> str:
    """Return a text as a JSON string that is ASCII where `like` is."""
    return json.dumps(value, ensure_ascii=like.isascii())


def _read(text: str) -> JsonText | None:
    """Read JSON that is known to be valid."""
    out = JsonText()
    stack: list[tuple[Any, str | int, int]] = []  # (container around, the place in it, where the value starts)
    container: Any = out.holder
    key: str | None = None
    for piece in _PIECE.finditer(text):
        sign = piece[2]
        if sign == "," or sign == ":":
            continue
        if sign == "}" or sign == "]":
            container, place, start = stack.pop()
            out.values[id(container), place] = start, piece.end()
            key = None
            continue
        if type(container) is dict and key is None:
            key = json.loads(piece[0], strict=False)
            if key in container:
                return None
            out.keys[id(container), key] = piece.span()
            container[key] = None
            continue
        place = len(container) if key is None else key
        value = {} if sign == "{" else [] if sign == "[" else json.loads(piece[0], strict=False)
        if key is None:
            container.append(value)
        else:
            container[key] = value
        if sign is None:
            out.values[id(container), place] = piece.span()
            key = None
        else:
            stack.append((container, place, piece.start()))
            container, key = value, None
    return out
