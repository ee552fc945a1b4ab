"""The texts in the chunks of a stream: where each stands, what tells it from others beside it, and how to replace some.

Texts are handled as bytes, in UTF-8, since a stream of bytes may be cut in the middle of a letter. What is replaced is
given by *edits* of all pieces put together; what is left is dealt out to the pieces again, so that a stream keeps its
number of chunks. What an edit puts in goes to the piece in which it begins.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from .secret_names import words_of

Place: TypeAlias = tuple[str | int, ...]

_DEEPEST: Final = 16
"""How deep in a chunk texts are looked for; a delta in the objects of a provider's package stands 12 deep."""

_LONGEST_MARK: Final = 256
_IN_TAGS: Final = ("fields", "extra", "state", "items")
"""What of the stored form of an object is looked into: its fields and items, not its class."""

_BYTES: Final = frozenset(("bytes", "bytearray"))
MARKS: Final = frozenset(("index", "id", "type"))


class Mark(NamedTuple):
    """What tells a stream from others: where it stands, whether it is an index, an id or a type, and its value."""

    place: tuple[Hashable, ...]
    kind: str
    value: str | int


class Piece(NamedTuple):
    """A text in a chunk.

    Attributes:
        number: of the chunk.
        place: where the text stands in it.
        data: the text, in UTF-8; or bytes as they are.
        is_bytes: whether they are bytes.
        among: likewise, but an item of a list that says its index stands at that, not at its position.
        marks: those beside the text and beside what it is in.
    """

    number: int
    place: Place
    data: bytes
    is_bytes: bool
    among: tuple[Hashable, ...]
    marks: tuple[Mark, ...]


class Edit(NamedTuple):
    """What takes the place of the bytes from `start` to `stop`."""

    start: int
    stop: int
    new: bytes


def encoded(text: str) -> bytes:
    """A text as the data of a piece."""
    return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes, is_bytes: bool) -> str:
    """The text that pieces are together, and back: `encoded_like`."""
    return data.decode("utf-8", "surrogateescape" if is_bytes else "surrogatepass")


def encoded_like(text: str, is_bytes: bool) -> bytes:
    """A text that `decoded` gave, or a part of it, as data."""
    try:
        return text.encode("utf-8", "surrogateescape" if is_bytes else "surrogatepass")
    except UnicodeEncodeError:  # half a character, which JSON in bytes had as an escape
        return text.encode("utf-8", "surrogatepass")


# -- finding -------------------------------------------------------------------------------------------


def pieces_of(chunks: Sequence[Any], *, plain: bool = False) -> list[Piece]:
    """The texts of all chunks, without the marks that tell nothing because no two of their values are equal.

    Args:
        chunks: in stored form.
        plain: they are JSON that somebody else wrote: `$type` is a key like any other in it.
    """
    seen: Counter[Mark] = Counter()
    gather = _Gathering(plain, seen)
    pieces = [piece for number, chunk in enumerate(chunks) for piece in gather.texts(chunk, number, (), (), ())]
    telling = {mark.place for mark, count in seen.items() if count > 1}
    kept: dict[tuple[Mark, ...], tuple[Mark, ...]] = {}
    for marks in {piece.marks for piece in pieces}:
        kept[marks] = tuple(mark for mark in marks if mark.place in telling)
    return [piece._replace(marks=kept[piece.marks]) for piece in pieces]


class _Gathering:
    def __init__(self, plain: bool, seen: Counter[Mark]) -> None:
        self._plain = plain
        self._seen = seen

    def texts(
        self, node: Any, number: int, place: Place, among: tuple[Hashable, ...], marks: tuple[Mark, ...]
    ) -> Iterator[Piece]:
        if type(node) is str:
            yield Piece(number, place, encoded(node), False, among, marks)
        elif len(place) >= _DEEPEST:
            return
        elif type(node) is dict and "$type" in node and not self._plain:
            data = _bytes_in(node)
            if data is not None:
                yield Piece(number, place, data, True, among, marks)
            for key in _IN_TAGS:
                if type(item := node.get(key)) in (dict, list):
                    yield from self.texts(item, number, (*place, key), (*among, key), marks)
        elif type(node) is dict:
            own = [Mark((*among, key), kind, value) for key, kind, value in _marks_in(node)]
            self._seen.update(own)
            marks = (*marks, *own)
            for key, item in node.items():
                yield from self.texts(item, number, (*place, key), (*among, key), marks)
        elif type(node) is list:
            for index, item in enumerate(node):
                fields = item.get("fields", item) if type(item) is dict else None
                said = tuple((key, value) for key, kind, value in _marks_in(fields) if kind == "index")
                yield from self.texts(item, number, (*place, index), (*among, said or index), marks)


def _bytes_in(tag: dict[str, Any]) -> bytes | None:
    kind, text = tag["$type"], tag.get("base64")
    if type(kind) is not str or kind not in _BYTES or type(text) is not str:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


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
    return words[-1] if words and words[-1] in MARKS else None


def together(pieces: Sequence[Piece], way: frozenset[str] | None) -> list[tuple[int, ...]]:
    """Group the pieces, given by their index, that are of one text if these kinds of marks tell texts apart."""
    groups: dict[Hashable, list[int]] = {}
    for index, piece in enumerate(pieces):
        own = piece.place if way is None else (piece.among, *[mark for mark in piece.marks if mark.kind in way])
        groups.setdefault((piece.is_bytes, own), []).append(index)
    return [tuple(group) for group in groups.values()]


# -- replacing -----------------------------------------------------------------------------------------


def with_edits(chunks: list[Any], group: Sequence[Piece], edits: Sequence[Edit]) -> list[Any]:
    """The chunks after edits of the text that the pieces of a group are together."""
    made = list(chunks)
    for piece, data in zip(group, _dealt_out([piece.data for piece in group], edits), strict=True):
        if data != piece.data:
            made[piece.number] = _with_data(made[piece.number], piece.place, data, piece.is_bytes)
    return made


def _dealt_out(datas: Sequence[bytes], edits: Sequence[Edit]) -> list[bytes]:
    whole, ends, at = b"".join(datas), [], 0
    for data in datas:
        at += len(data)
        ends.append(at)
    dealt = [bytearray() for _ in datas]

    def owner(place: int) -> int:
        return min(bisect_right(ends, place), len(ends) - 1)

    def keep(start: int, stop: int) -> None:
        while start < stop:
            own = owner(start)
            end = max(min(ends[own], stop), start + 1)
            dealt[own] += whole[start:end]
            start = end

    at = 0
    for edit in edits:
        keep(at, edit.start)
        dealt[owner(edit.start)] += edit.new
        at = edit.stop
    keep(at, len(whole))
    return [bytes(data) for data in dealt]


def _with_data(node: Any, place: Place, data: bytes, is_bytes: bool) -> Any:
    """A copy of a chunk with another text, or other bytes, at a place; the rest is shared."""
    if not place:
        return {**node, "base64": base64.b64encode(data).decode("ascii")} if is_bytes else decoded(data, False)
    key, *rest = place
    made: Any = dict(node) if type(node) is dict else list(node)
    made[key] = _with_data(node[key], tuple(rest), data, is_bytes)
    return made
