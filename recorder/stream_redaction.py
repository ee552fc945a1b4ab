"""Secrets that a stream brings in pieces: `"sk-pr"`, then `"oj-…"`. No piece looks like one; all together do.

The texts that stand at the same place of each chunk are read as one text and redacted as one; what is left is dealt out
to the chunks again. A token goes to the chunk in which its secret began, so a stream keeps its number of chunks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, Final, TypeAlias

from .redaction import Redactor

Place: TypeAlias = tuple[str | int, ...]

_TOKEN: Final = re.compile(r"(\[redacted:[a-z0-9][a-z0-9-]{0,39}:[0-9a-f]{16}\])")
_DEEPEST: Final = 8
"""How deep in a chunk texts are looked for; deltas of models stand less deep."""


def redact_stream(chunks: list[Any], redactor: Redactor) -> list[Any]:
    """Return the chunks, in stored form and each redacted by itself, without secrets that reach over several of them.

    The same object when there are none.
    """
    texts: dict[Place, list[tuple[int, str]]] = {}
    for number, chunk in enumerate(chunks):
        _gather(chunk, (), number, texts)
    made = chunks
    for place, pieces in texts.items():
        if len(pieces) < 2:
            continue
        whole = "".join(text for _, text in pieces)
        redacted = redactor.redact_text(whole)
        if redacted == whole:
            continue
        made = list(made)
        for (number, _), text in zip(pieces, _dealt_out(whole, redacted, pieces), strict=True):
            made[number] = _with_text(made[number], place, text)
    return made


def _gather(node: Any, place: Place, number: int, texts: dict[Place, list[tuple[int, str]]]) -> None:
    if type(node) is str:
        texts.setdefault(place, []).append((number, node))
    elif type(node) is dict and len(place) < _DEEPEST and "$type" not in node:
        for key, item in node.items():
            _gather(item, (*place, key), number, texts)
    elif type(node) is list and len(place) < _DEEPEST:
        for index, item in enumerate(node):
            _gather(item, (*place, index), number, texts)


def _dealt_out(whole: str, redacted: str, pieces: list[tuple[int, str]]) -> list[str]:
    """Split the redacted text where the pieces of the whole one met, as far as what is left of it tells where."""
    parts = _TOKEN.split(redacted)
    pattern = "".join("(.*?)" if number % 2 else re.escape(part) for number, part in enumerate(parts))
    match = re.fullmatch(pattern, whole, re.DOTALL)
    ends, at = [], 0
    for _, text in pieces:
        at += len(text)
        ends.append(at)
    if match is None:
        return [redacted, *[""] * (len(pieces) - 1)]
    dealt = [""] * len(pieces)
    at = 0
    for number, part in enumerate(parts):
        if number % 2:  # a token: whole, where its secret began
            dealt[_owner(ends, at)] += part
            at = match.end(number // 2 + 1)
            continue
        stop, done = at + len(part), 0
        while at < stop:
            owner = _owner(ends, at)
            length = min(ends[owner], stop) - at
            dealt[owner] += part[done : done + length]
            at, done = at + length, done + length
    return dealt


def _owner(ends: list[int], at: int) -> int:
    """The piece in which a letter stands."""
    return min(bisect_right(ends, at), len(ends) - 1)


def _with_text(node: Any, place: Place, text: str) -> Any:
    """A copy of a chunk with another text at a place; the rest is shared."""
    if not place:
        return text
    key, *rest = place
    if type(node) is dict:
        return {**node, key: _with_text(node[key], tuple(rest), text)}
    made = list(node)
    made[int(key)] = _with_text(node[int(key)], tuple(rest), text)
    return made
