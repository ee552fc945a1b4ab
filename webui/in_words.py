"""Recorded values in words: in a line, in lines, by their size.

What cannot be seen is an escape, here as everywhere (`replay.readable`), so that two values that are not the same do
not look the same. A text is a text also where JSON cannot say it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ..recorder.decoding import decode_noting
from ..recorder.values import is_tag
from ..replay.changes import Change
from ..replay.insides import Children, opened
from ..replay.paths import display_keys, quote
from ..replay.readable import count, quoted, readable, size_of, visible

INLINE: Final = 64
"""Characters of a value that is shown in one line, and of what a folded one is told by."""

NAME: Final = 120
"""Characters of a key that are shown."""

WRITTEN: Final = frozenset(("int", "float", "decimal", "bytes", "bytearray", "path"))
"""Tags that have nothing inside, and are a text when they are written."""

ELSEWHERE: Final = ("blob", "messages")
"""Tags that stand for what is stored elsewhere."""


def told_elsewhere(tag: Mapping[str, Any]) -> str:
    """What such a tag stands for: how large a value, how many messages."""
    if tag["$type"] == "messages":
        return f"[{count(int(tag.get('count', 0)), 'message')}]"
    return size_of(int(tag.get("size", 0)))


def plain(value: Any) -> Children | None:
    """The list or object that a stored value is, to whoever wrote it; None if it is neither.

    Whether the log has to spell an object as a tag is a matter of its keys (`$type`, half a surrogate), and of no
    interest here. All other tags are one value.
    """
    if type(value) is list or (type(value) is dict and not is_tag(value)):
        return value
    if tag_kind(value) == "dict":
        found = opened(value)
        return found.children if found is not None and found.is_dict else None
    return None


def is_container(value: Any) -> bool:
    """Whether a value has children of its own; a tag is one value, but for one that is an object (`plain`)."""
    return plain(value) is not None


def tag_kind(value: Any) -> str:
    """The kind of a tag; empty of what is none, or of a tag that is damaged."""
    kind = value["$type"] if is_tag(value) else ""
    return kind if type(kind) is str else ""


def text_in(value: Any) -> str | None:
    """The text that a stored value is, also where JSON cannot say it as it is; None if it is no text."""
    if type(value) is str:
        return value
    if tag_kind(value) == "str":
        text, unread = decode_noting(value)
        return text if type(text) is str and not unread else None
    return None


def size_in_line(value: Any) -> str:
    """How large a value is that has something inside: a container by its count, a tag as it is read."""
    inner = plain(value)
    return in_line(value) if inner is None else count_of(inner)


def in_line(value: Any, limit: int = INLINE) -> str:
    """A value in a line, as it is or by its size."""
    inner = plain(value)
    if inner is not None:
        if not inner:
            return "[]" if type(inner) is list else "{}"
        return count_of(inner)
    text = text_in(value)
    if text is not None:
        return quoted(text) if len(text) <= limit else f"{quoted(text[: limit - 1])[:-1]}…"
    if tag_kind(value) in WRITTEN:
        written = readable(value)
        return written if len(written) <= limit else f"{written[: limit - 1]}…"
    return readable(value, max(limit, 24))


def count_of(value: Children) -> str:
    """How large a container is: `{4 keys}`, `[9 items]`."""
    return f"[{count(len(value), 'item')}]" if type(value) is list else f"{{{count(len(value), 'key')}}}"


def kind_of(value: Any) -> str:
    """What kind of value it is, for its colour."""
    if type(value) is str:
        return "text"
    if type(value) is list:
        return "list"
    if type(value) is dict:
        if is_container(value):
            return "object"
        return {"int": "number", "float": "number", "str": "text"}.get(str(value["$type"]), "other")
    return "word" if value is None or isinstance(value, bool) else "number"


def shown_key(key: str | int) -> str:
    """A key as it is shown: an index in brackets, a plain word as it is, anything else in quotes."""
    if isinstance(key, int):
        return str(key)
    name = key if len(key) <= NAME else f"{key[:NAME]}…"
    return name if display_keys((name,)) == name else quote(name)


_READS_AS_ESCAPE: Final = re.compile(r"\\(?=[\\nrtuUx])")


def lines_of(text: str) -> list[str]:
    r"""The lines of a text, in which nothing acts or hides, and different texts look different.

    What is not printable is an escape, also the `\r` before a line break. A backslash that would read as the start of
    one stands twice; all others, as in `C:\data` or `\d+`, as they are.
    """
    return [_visible_line(line) for line in text.split("\n")]


def in_lines(text: str) -> str:
    """Likewise, as one text, which may be a piece of a longer one."""
    return "\n".join(lines_of(text)) + ("\\" if text.endswith("\\") else "")


def _visible_line(line: str) -> str:
    if "\\" not in line:
        return visible(line)
    if line.isprintable():
        return _READS_AS_ESCAPE.sub(r"\\\\", line)
    parts = [
        "\\\\" if char == "\\" and (after in "\\nrtuUx" or not after.isprintable()) else visible(char)
        for char, after in zip(line, [*line[1:], " "], strict=True)
    ]
    return "".join(parts)


def is_short(change: Change) -> bool:
    """Whether both values of a change are no containers and no long texts."""
    return not any(is_container(value) or len(text_in(value) or "") > INLINE for value in (change.old, change.new))
