"""Show stored values to people: short, exact about types, and harmless.

A value is written as JSON where it is JSON, so that `1`, `1.0`, `"1"` and `null` look different, and a tag as what it
stands for: `Decimal('1.10')`, `{1, 2}`, `Color.RED`. What would be too long is summed up by its size.

Recorded text comes from models and tools, so it may hold anything: escape sequences that rewrite a terminal, marks
that turn text round, characters that show as nothing, lone surrogates that cannot even be printed. All of that is
written as backslash escapes. `strict` text is ASCII only; it tells apart what merely looks alike.
"""

from __future__ import annotations

import json
import re
import unicodedata
from base64 import b64decode
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from .equality import stored_tree

_ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|\\)")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_VALUE_IN_QUOTES = {"decimal": "Decimal", "uuid": "UUID", "date": "date"}
_ITEMS = {"tuple": ("(", ")"), "set": ("{", "}"), "frozenset": ("frozenset({", "})")}
_PAIRS = {"dict": ("{", "}"), "ordereddict": ("OrderedDict({", "})"), "counter": ("Counter({", "})")}


class _Full(Exception):
    """The text would be longer than there is room for."""


def visible(text: str, *, strict: bool = False) -> str:
    """Write text so that nothing in it acts or hides: every character that is not printable as a backslash escape.

    Args:
        text: any text.
        strict: also escape backslashes and whatever is not ASCII.
    """
    if text.isprintable() and not strict:
        return text
    return "".join([_visible_char(char, strict) for char in text])


def quoted(text: str, *, strict: bool = False) -> str:
    """Write text in double quotes, so that it is clear where it starts and ends."""
    escaped = text if strict else text.replace("\\", "\\\\")
    return '"' + visible(escaped, strict=strict).replace('"', '\\"') + '"'


def looks_like(a: str, b: str) -> bool:
    """Say whether two texts may look the same on a screen although they are not the same."""
    return _look(a) == _look(b)


def readable(value: Any, limit: int | None = None, *, strict: bool = False) -> str:
    """Write a value on one line.

    Args:
        value: in stored form; anything else is shown by its stored form.
        limit: most characters; what is longer is summed up (see `summary`). None for no limit.
        strict: ASCII only.
    """
    stored = stored_tree(value)
    writer = _Writer(limit, strict)
    try:
        writer.write(stored)
    except _Full:
        return summary(stored, limit or 0, strict=strict)
    return "".join(writer.parts)


def readable_pair(old: Any, new: Any, limit: int | None = None) -> tuple[str, str]:
    """Write two values that are not the same so that they do not look the same. Arguments as for `readable`."""
    before, after = readable(old, limit), readable(new, limit)
    if looks_like(before, after):
        before, after = readable(old, limit, strict=True), readable(new, limit, strict=True)
    if before == after:
        return f"{before} #{fingerprint(old)}", f"{after} #{fingerprint(new)}"
    return before, after


def summary(stored: Any, limit: int, *, strict: bool = False) -> str:
    """Say what kind of value this is and how large; of a text also how it starts, in up to `limit` characters."""
    if isinstance(stored, str):
        return f"{quoted(stored[: max(limit // 2, 8)], strict=strict)}… ({len(stored):,} characters)"
    size = size_of(len(_dump(stored)))
    if isinstance(stored, list):
        return f"[{count(len(stored), 'item')}, {size}]"
    if "$type" in stored:
        return f"{visible(_name(stored), strict=strict)}({size})"
    return f"{{{count(len(stored), 'key')}, {size}}}"


def fingerprint(value: Any) -> str:
    """Give eight hexadecimal digits that differ, but for rare chance, for values that are not the same."""
    return sha256(_dump(stored_tree(value))).hexdigest()[:8]


def count(number: int, noun: str) -> str:
    """Say how many: `1 item`, `1,150 items`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_of(length: int) -> str:
    """Say how large: `812 bytes`, `2.3 KB`, `1.0 MB`."""
    if length < 1000:
        return count(length, "byte")
    return f"{length / 1000:.1f} KB" if length < 1_000_000 else f"{length / 1_000_000:.1f} MB"


def _dump(stored: Any) -> bytes:
    text = json.dumps(stored, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _visible_char(char: str, strict: bool) -> str:
    code = ord(char)
    if char == "\\":
        return "\\\\" if strict else char
    if char.isprintable() and (code < 0x7F or not strict):
        return char
    if char in _NAMED:
        return _NAMED[char]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _look(text: str) -> str:
    # Compatibility forms, combining marks and characters of no width are what differs unseen most often.
    return "".join(
        [char for char in unicodedata.normalize("NFKD", text) if unicodedata.category(char) not in ("Mn", "Me", "Cf")]
    )


def _name(tag: dict[str, Any]) -> str:
    """The short name of what a tag stands for: `Order` for the class "shop:Order"."""
    known = tag.get("class")
    return known.rpartition(":")[2].rpartition(".")[2] if isinstance(known, str) and known else str(tag["$type"])


class _Writer:
    """Writes a stored tree into `parts` until there is no more room."""

    def __init__(self, limit: int | None, strict: bool) -> None:
        self.parts: list[str] = []
        self._room = limit
        self._strict = strict

    def write(self, value: Any) -> None:
        if isinstance(value, str):
            if self._room is not None and len(value) > self._room:
                raise _Full
            self._put(quoted(value, strict=self._strict))
        elif isinstance(value, list):
            self._put("[")
            self._items(value)
            self._put("]")
        elif not isinstance(value, dict):
            self._put(json.dumps(value))
        elif "$type" in value:
            self._tag(value)
        else:
            self._put("{")
            for at, (key, item) in enumerate(value.items()):
                self._put(", " if at else "")
                self._put(quoted(key, strict=self._strict) + ": ")
                self.write(item)
            self._put("}")

    def _put(self, text: str) -> None:
        if self._room is not None:
            self._room -= len(text)
            if self._room < 0:
                raise _Full
        self.parts.append(text)

    def _text(self, text: Any) -> None:
        self._put(visible(str(text), strict=self._strict))

    def _items(self, items: Iterable[Any]) -> None:
        for at, item in enumerate(items):
            self._put(", " if at else "")
            self.write(item)

    def _tag(self, tag: dict[str, Any]) -> None:
        """Write a tag by its kind; one that is not what that kind looks like is written field by field."""
        start = len(self.parts), self._room
        try:
            self._known_tag(str(tag["$type"]), tag)
        except (KeyError, TypeError, ValueError, AttributeError):  # a kind we do not know, or not in its shape
            del self.parts[start[0] :]
            self._room = start[1]
            self._call(_name(tag), {key: item for key, item in tag.items() if key not in ("$type", "class")})

    def _known_tag(self, kind: str, tag: dict[str, Any]) -> None:
        if kind in _VALUE_IN_QUOTES and tag.keys() == {"$type", "value"}:
            self._text(f"{_VALUE_IN_QUOTES[kind]}({_single(tag['value'])})")
        elif kind in ("datetime", "time"):
            fold = " (second time)" if tag.get("fold") else ""
            self._text(f"{kind}({_single(tag['value'] + _zone(tag.get('zone')))}{fold})")
        elif kind == "path":
            self._text(f"{tag['kind']}({_single(tag['value'])})")
        elif kind in ("int", "float"):
            self._text(tag["value"] if "value" in tag else tag["hex"])
        elif kind == "str":
            self.write(_ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\\", tag["escaped"]))
        elif kind in ("bytes", "bytearray"):
            shown = repr(b64decode(tag["base64"], validate=True))
            self._put(shown if kind == "bytes" else f"bytearray({shown})")
        elif kind in _ITEMS:
            opening, closing = _ITEMS[kind]
            self._put(opening if tag["items"] or kind == "tuple" else f"{kind}(")
            self._items(tag["items"])
            if kind == "tuple" and len(tag["items"]) == 1:
                self._put(",")
            self._put(closing if tag["items"] or kind == "tuple" else ")")
        elif kind in _PAIRS:
            opening, closing = _PAIRS[kind]
            self._put(opening)
            for at, (key, item) in enumerate(tag["items"]):
                self._put(", " if at else "")
                self.write(key)
                self._put(": ")
                self.write(item)
            self._put(closing)
        elif kind == "enum" and isinstance(tag["name"], str):
            self._text(f"{_name(tag)}.{tag['name']}")
        elif kind in ("dataclass", "model", "namedtuple") and type(tag["fields"]) is dict:
            self._call(_name(tag), {**tag["fields"], **(tag.get("extra") or {}), **(tag.get("state") or {})})
        elif kind in ("subclass", "registered"):
            self._text(_name(tag))
            self._put("(")
            self.write(tag["value"])
            self._put(")")
        elif kind == "exception":
            self._text(_name(tag))
            self._put("(")
            self._items(tag["args"])
            self._put(")")
        elif kind == "opaque":
            self._text(f"<not recorded: {tag['class']} {tag['repr']}>")
        elif kind == "class":
            self._text(f"<class {tag['class']}>")
        else:
            raise KeyError(kind)

    def _call(self, name: str, fields: dict[str, Any]) -> None:
        self._text(f"{name}(")
        for at, (key, item) in enumerate(fields.items()):
            self._put(", " if at else "")
            self._text(key if key.isidentifier() else quoted(key))
            self._put("=")
            self.write(item)
        self._put(")")


def _zone(tag: Any) -> str:
    if tag is None:
        return ""
    if tag["$type"] == "zoneinfo":
        return f" {tag['key']}"
    if "name" in tag or tag["$type"] != "timezone":
        raise ValueError("more than an offset")
    minutes, rest = divmod(abs(tag["offset_microseconds"]), 60_000_000)
    seconds = f":{rest / 1_000_000:09.6f}" if rest else ""
    return f"{'-' if tag['offset_microseconds'] < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}{seconds}"


def _single(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError("not a text")
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
