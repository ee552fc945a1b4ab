"""Recorded values as the data of a page in a file: exact, and as text.

A browser reads JSON with less than JSON says: it rounds integers beyond 2^53, takes `1.0` for `1`, and puts keys that
look like numbers first. So values are written in a form of their own, of which nothing is lost on the way:

| written | is |
|---|---|
| a text, also with half a surrogate pair, `true`, `false`, `null`, a small integer, a list | itself |
| `{"n": "1.0"}` | a number, as its JSON has it |
| `{"o": [key, value, key, value]}` | an object, its keys in order, whatever texts they are |
| `{"t": "Decimal('1.10')", "j": "{…}"}` | a tagged value: as people read it, and its stored form as JSON |
| `{"o": […], "t": "Request"}` | a tagged value that holds messages: what is in it, and of what class it is |
| `{"m": [0, 1]}` | messages of a request, by their numbers |
| `{"x": "text, 31,204 characters", "s": "It was a"}` | left out, because it is large; of a text how it starts |

What is large is decided here, by rule: so a file can be opened, and says what is not in it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Final

from ..recorder.values import dumps, encode
from ..replay.readable import readable, size_of, summary
from .in_words import plain, text_in

LIMIT: Final = 20_000
"""A value of more bytes than this is left out."""

ENTRIES: Final = 1_000
"""So many items or keys may a large list or object in a payload have for its parts to be looked at one by one."""

ROOM: Final = 25_000_000
"""Bytes of values that a file has room for; when it is full, what is larger than `CRUMB` is left out."""

CRUMB: Final = 400

START: Final = 300
"""Characters of a text that is left out that are kept."""

SAFE: Final = 2**53 - 1
"""The largest integer that a browser reads as it is."""


_HALVES: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""Two halves of a surrogate pair, which a browser takes for the character that they would be together."""


class ValueWriter:
    """Writes the values of one file.

    Attributes:
        room: bytes that are left.
        left_out: how many values were left out, by why: "large", "long" or "full".
    """

    def __init__(self, room: int = ROOM) -> None:
        self.room = room
        self.left_out: Counter[str] = Counter()

    def value(self, stored: Any) -> Any:
        """A value in stored form: as a whole, or left out."""
        size = len(dumps(stored))
        if size > self._limit:
            return self._left_out(stored, "large" if size > LIMIT else "full")
        self.room -= size
        return written(stored)

    def payload(self, stored: Any) -> Any:
        """A payload, or a part of one: of an object or list that is large the parts that are not."""
        inner = plain(stored)
        if inner is None or len(dumps(stored)) <= self._limit:
            return self.value(stored)
        if len(inner) > ENTRIES:
            return self._left_out(stored, "long")
        if isinstance(inner, list):
            return [self.payload(item) for item in inner]
        return {"o": [part for key, item in inner.items() for part in (key, self.payload(item))]}

    def blob(self, tag: dict[str, Any]) -> Any:
        """A large value that stands for itself by its size, and is left out unread."""
        self.left_out["large"] += 1
        return {"x": f"a value of {size_of(tag['size'])}"}

    @property
    def _limit(self) -> int:
        return LIMIT if self.room > 0 else CRUMB

    def _left_out(self, stored: Any, why: str) -> dict[str, str]:
        self.left_out[why] += 1
        text = text_in(stored)
        if text is not None:
            return {"x": f"text, {len(text):,} characters", "s": text[:START]}
        return {"x": summary(stored, 0).strip("[]{}")}


def written(stored: Any) -> Any:
    """A value in stored form, as a file holds it."""
    kind = type(stored)
    if kind is int:
        return stored if -SAFE <= stored <= SAFE else {"n": str(stored)}
    if kind is float:
        return {"n": json.dumps(stored)}
    if kind is list:
        return [written(item) for item in stored]
    if kind is not dict:
        return stored
    inner, text = plain(stored), text_in(stored)
    if text is not None and not _HALVES.search(text):
        return text
    if text is not None or not isinstance(inner, dict) or any(_HALVES.search(key) for key in inner):
        return {"t": readable(stored), "j": dumps(stored).decode("utf-8", "surrogatepass")}
    return {"o": [part for key, item in inner.items() for part in (key, written(item))]}


def read_back(data: Any) -> Any:
    """The value that `written` wrote.

    Raises:
        ValueError: it was left out.
    """
    if type(data) is list:
        return [read_back(item) for item in data]
    if type(data) is not dict:
        return encode(data).stored if type(data) is str else data
    if "n" in data:
        return json.loads(data["n"])
    if "j" in data:
        return json.loads(data["j"])
    if "o" in data:
        keys, items = data["o"][::2], [read_back(value) for value in data["o"][1::2]]
        stored_keys = [encode(key).stored for key in keys]
        if "$type" in keys or stored_keys != keys:  # which the log cannot have as an object
            return {"$type": "dict", "items": [list(pair) for pair in zip(stored_keys, items, strict=True)]}
        return dict(zip(keys, items, strict=True))
    raise ValueError(f"left out: {data.get('x')}")


def as_script(data: Any) -> str:
    """Data as the text of a script element: JSON in ASCII, in which nothing ends the element."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
