"""Secrets that a stream brings in pieces: `"sk-pr"`, then `"oj-…"`. No piece looks like one; all together do.

The texts that stand at the same place of each chunk are read as one text and redacted as one; what is left is dealt out
to the chunks again. A token goes to the chunk in which its secret began, so a stream keeps its number of chunks.

A stream may hold several others whose chunks alternate: answers, parallel tool calls, blocks of content. What tells
them apart stands beside the text or above it, `{"index": 1, "delta": {"text": "…"}}`: an index, an id or a type, here
called a *mark*. Providers differ in which of them says it (an id may be on the first chunk only, or another on every
chunk), so the texts are put together in several ways, by more marks first, and in the end by their place alone. What
one way puts together wrongly another puts together rightly, and a token is never a secret.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from .redaction import Redactor
from .secret_names import words_of

Place: TypeAlias = tuple[str | int, ...]

_TOKEN: Final = re.compile(r"(\[redacted:[a-z0-9][a-z0-9-]{0,39}:[0-9a-f]{16}\])")
_DEEPEST: Final = 16
"""How deep in a chunk texts are looked for; a delta in the objects of a provider's package stands 12 deep."""

_ROUNDS: Final = 4
_LONGEST_MARK: Final = 256
_IN_TAGS: Final = ("fields", "extra", "state", "items")
"""What of the stored form of an object is looked into: its fields and items, not its class."""

_MARKS: Final = frozenset(("index", "id", "type"))
_WAYS: Final = (_MARKS, frozenset(("index",)), frozenset(("id",)), None)
"""Which marks the texts are put together by, one way after the other; None: by their place alone."""


class _Mark(NamedTuple):
    """What tells a stream from others: where it stands, whether it is an index, an id or a type, and its value."""

    place: tuple[Hashable, ...]
    kind: str
    value: str | int


class _Piece(NamedTuple):
    """A text in a chunk.

    Attributes:
        number: of the chunk.
        place: where the text stands in it.
        among: likewise, but an item of a list that says its index stands at that, not at its position.
        marks: those beside the text and beside what it is in.
    """

    number: int
    place: Place
    text: str
    among: tuple[Hashable, ...]
    marks: tuple[_Mark, ...]


def redact_stream(chunks: list[Any], redactor: Redactor) -> list[Any]:
    """Return the chunks, in stored form and each redacted by itself, without secrets that reach over several of them.

    The same object when there are none.
    """
    made = chunks
    for _ in range(_ROUNDS):  # what one way replaced may let another read differently
        before = made
        looked_at: set[tuple[int, ...]] = set()
        pieces = _pieces_of(made)
        for way in _WAYS:
            start = made
            for group in _together(pieces, way):
                if len(group) > 1 and group not in looked_at:
                    looked_at.add(group)
                    made = _with_group_redacted(made, [pieces[index] for index in group], redactor)
            if made is not start:
                pieces = _pieces_of(made)
        if made is before:
            break
    return made


def _with_group_redacted(chunks: list[Any], group: list[_Piece], redactor: Redactor) -> list[Any]:
    texts = [piece.text for piece in group]
    whole = "".join(texts)
    redacted = redactor.redact_text(whole)
    if redacted == whole:
        return chunks
    made = list(chunks)
    for piece, text in zip(group, _dealt_out(whole, redacted, texts), strict=True):
        if text != piece.text:
            made[piece.number] = _with_text(made[piece.number], piece.place, text)
    return made


def _together(pieces: list[_Piece], way: frozenset[str] | None) -> list[tuple[int, ...]]:
    """Group the pieces, given by their index, that are of one text if these kinds of marks tell texts apart."""
    groups: dict[Hashable, list[int]] = {}
    for index, piece in enumerate(pieces):
        own = piece.place if way is None else (piece.among, *[mark for mark in piece.marks if mark.kind in way])
        groups.setdefault(own, []).append(index)
    return [tuple(group) for group in groups.values()]


def _pieces_of(chunks: list[Any]) -> list[_Piece]:
    """Return the texts of all chunks, without the marks that tell nothing because no two of their values are equal."""
    seen: Counter[_Mark] = Counter()
    pieces = [piece for number, chunk in enumerate(chunks) for piece in _gather(chunk, number, (), (), (), seen)]
    telling = {mark.place for mark, count in seen.items() if count > 1}
    kept: dict[tuple[_Mark, ...], tuple[_Mark, ...]] = {}
    for marks in {piece.marks for piece in pieces}:
        kept[marks] = tuple(mark for mark in marks if mark.place in telling)
    return [piece._replace(marks=kept[piece.marks]) for piece in pieces]


def _gather(
    node: Any,
    number: int,
    place: Place,
    among: tuple[Hashable, ...],
    marks: tuple[_Mark, ...],
    seen: Counter[_Mark],
) -> Iterator[_Piece]:
    if type(node) is str:
        yield _Piece(number, place, node, among, marks)
    elif len(place) >= _DEEPEST:
        return
    elif type(node) is dict and "$type" in node:
        for key in _IN_TAGS:
            if type(item := node.get(key)) in (dict, list):
                yield from _gather(item, number, (*place, key), (*among, key), marks, seen)
    elif type(node) is dict:
        own = [_Mark((*among, key), kind, value) for key, kind, value in _marks_in(node)]
        seen.update(own)
        marks = (*marks, *own)
        for key, item in node.items():
            yield from _gather(item, number, (*place, key), (*among, key), marks, seen)
    elif type(node) is list:
        for index, item in enumerate(node):
            fields = item.get("fields", item) if type(item) is dict else None
            said = tuple((key, value) for key, kind, value in _marks_in(fields) if kind == "index")
            yield from _gather(item, number, (*place, index), (*among, said or index), marks, seen)


def _marks_in(node: Any) -> Iterator[tuple[str, str, str | int]]:
    """Give key, kind and value of each mark that stands in a dict."""
    if type(node) is dict:
        for key, value in node.items():
            if type(value) is int or (type(value) is str and len(value) <= _LONGEST_MARK):
                kind = _kind_of_mark(key)
                if kind is not None:
                    yield key, kind, value


@lru_cache(maxsize=4096)
def _kind_of_mark(key: str) -> str | None:
    """The last word of `output_index`, `toolCallId` or `type`, if it is one that marks what stands beside it."""
    words = words_of(key[-_LONGEST_MARK:])
    return words[-1] if words and words[-1] in _MARKS else None


def _dealt_out(whole: str, redacted: str, texts: list[str]) -> list[str]:
    """Split the redacted text where the pieces of the whole one met, as far as what is left of it tells where."""
    parts = _TOKEN.split(redacted)
    pattern = "".join("(.*?)" if number % 2 else re.escape(part) for number, part in enumerate(parts))
    match = re.fullmatch(pattern, whole, re.DOTALL)
    ends, at = [], 0
    for text in texts:
        at += len(text)
        ends.append(at)
    if match is None:
        return [redacted, *[""] * (len(texts) - 1)]
    dealt = [""] * len(texts)
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
