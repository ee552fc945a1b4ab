"""Lines of a text that say something by themselves, as streams over a wire have them.

    data: {"choices": [{"delta": {"content": "sk-pr"}}]}        server-sent events; also with a plain text
    {"message": {"content": "oj-1"}}                            a JSON document on each line
    0:"23"                                                      a name, and JSON

A text that is one JSON array is read as a line for each of its items. What a line says is a *document*: a tree, or a
text. When documents have changed, only the texts in them that did are replaced in the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from . import json_spans
from .stream_pieces import Edit, decoded, encoded_like

_LINE: Final = re.compile(rb"[^\r\n]+")
_NAMED: Final = re.compile(rb"\s*(?:([A-Za-z0-9_.-]{1,32}):[ ]?)?")
_JSON: Final = ("{", "[", '"')
_TEXT: Final = b"data"
"""The name of lines that need not be JSON."""


class Line(NamedTuple):
    """A line, or an item of an array.

    Attributes:
        at: where what it says begins, in bytes.
        text: that.
        said: the document.
        is_json: whether `text` is JSON; else it is the document.
        is_broken: whether it begins as JSON does, and is none.
    """

    at: int
    text: str
    said: Any
    is_json: bool
    is_broken: bool = False


def may_say_something(data: bytes) -> bool:
    """Whether it is worth looking for lines in a text that say something: any JSON has one of these, and any name."""
    return b'"' in data or b"data:" in data


def lines_in(data: bytes, at: int, is_bytes: bool) -> Iterator[Line]:
    """The lines of a text that say something.

    Args:
        data: the text.
        at: where it begins.
        is_bytes: whether it is bytes (`stream_pieces`).
    """
    items = [*_items_of(data, at, is_bytes)]
    if items:
        yield from items
        return
    for found in _LINE.finditer(data):
        name = _NAMED.match(data, found.start(), found.end())
        assert name is not None  # it may be empty
        start = name.end()
        text = decoded(data[start : found.end()], is_bytes).rstrip()
        said = _read(text)
        if said is not None:
            yield Line(at + start, text, said, True)
        elif text.startswith(_JSON):
            yield Line(at + start, text, None, True, is_broken=True)
        elif name[1] == _TEXT and text:
            text = decoded(data[start : found.end()], is_bytes)
            yield Line(at + start, text, text, False)


def _read(text: str) -> Any:
    """What JSON says that is an object, an array or a text; None if it is something else."""
    if not text.startswith(_JSON):
        return None
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _items_of(data: bytes, at: int, is_bytes: bool) -> Iterator[Line]:
    """The items of a text that is one JSON array of several objects."""
    if not data.lstrip().startswith(b"["):
        return
    text = decoded(data, is_bytes)
    parsed = json_spans.parse(text)
    items = None if parsed is None else parsed.holder[0]
    if parsed is None or type(items) is not list or len(items) < 2 or not all(type(item) is dict for item in items):
        return
    copied = 0
    for index, item in enumerate(items):
        start, stop = parsed.values[id(items), index]
        at += len(encoded_like(text[copied:start], is_bytes))
        yield Line(at, text[start:stop], item, True)
        at += len(encoded_like(text[start:stop], is_bytes))
        copied = stop


def documents(lines: Sequence[Line]) -> list[Any]:
    """What the lines say."""
    return [line.said for line in lines]


def edits_to(lines: Sequence[Line], said: Sequence[Any], is_bytes: bool) -> list[Edit]:
    """The edits of the text after which its lines say something else, in order."""
    edits: list[Edit] = []
    for line, new in zip(lines, said, strict=True):
        if new is line.said:
            continue
        at, copied = line.at, 0
        for start, stop, text in _replaced(line, new):
            at += len(encoded_like(line.text[copied:start], is_bytes))
            end = at + len(encoded_like(line.text[start:stop], is_bytes))
            edits.append(Edit(at, end, encoded_like(text, is_bytes)))
            at, copied = end, stop
    return edits


def _replaced(line: Line, new: Any) -> list[tuple[int, int, str]]:
    """What of a line is replaced by what: (start, stop, text), in order."""
    if not line.is_json:
        return [(0, len(line.text), new)]
    parsed = None if type(new) is str else json_spans.parse(line.text)
    if parsed is None:  # a text; or an object that has a key twice, of which one is told
        return [(0, len(line.text), json.dumps(new, ensure_ascii=line.text.isascii()))]
    found: list[tuple[int, int, str]] = []
    todo = [(parsed.holder[0], new)]
    while todo:
        old, other = todo.pop()
        places: Any = other.items() if type(other) is dict else enumerate(other)
        for key, value in places:
            before = old[key]
            if type(value) is str and value != before:
                start, stop = parsed.values[id(old), key]
                found.append((start, stop, json_spans.quoted(value, line.text[start:stop])))
            elif type(value) is dict or type(value) is list:
                todo.append((before, value))
    return sorted(found)
