"""Turn any value into its stored form, whatever it is, without ever raising.

Built-in types are written exactly. So are enums, dataclasses, pydantic models, named tuples, exceptions and subclasses
of builtins: their class is noted by name, their fields are read past any property. What is left (a socket, a lambda,
a generator, a cycle) becomes an *opaque* description, and the value counts as lossy.

The work is a list of slots still to fill, not a recursion, so depth costs no stack. JSON parsers do stop at some
depth: what is deeper than `MAX_DEPTH` goes into a tag "deep" as a list of parts that refer to each other by index.

An object that occurs in several places is written in each. Where objects share so much that this would multiply
(`sharing`), it is written where it is first met, and mostly opaque in the other places.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from .builtin_types import WRITERS, Slots, put
from .introspection import class_name, describe
from .plain import MAX_DEPTH, Stored, as_plain, dumps, shallow_copy_of
from .renamed_fields import as_in_logs
from .sharing import multiplies
from .structured_types import write_object, writer_for
from .type_registry import TypeRegistry, default_types
from .verbatim import LOSSY_KEY, InStoredForm, Opaque, lossy_in

_LEVELS_OF_A_TAG: Final = 4
"""How much deeper than a tag its inner values may stand."""

_DEPTH_OF_COPIES: Final = 12
"""Down to here a container is asked whether it is plain, and copied in one go: once per level above what is not."""

_REPEATS_OF_A_KNOT: Final = 1_000
"""Objects that are written again where writing each again would multiply."""

_WITHOUT_INNER: Final = frozenset(map(id, (str, int, float, bool, type(None), complex, bytes, bytearray)))


class Encoded(NamedTuple):
    """A value in stored form, and the JSON Pointers in it of what could not be stored exactly."""

    stored: Stored
    lossy: tuple[str, ...]


def encode(value: Any, types: TypeRegistry | None = None) -> Encoded:
    """Return the stored form of any value; plain input is returned as it is, not copied. Never raises."""
    _, stored, lossy = encode_bytes(value, types)
    return Encoded(stored, lossy)


def encode_bytes(value: Any, types: TypeRegistry | None = None) -> tuple[bytes, Stored, tuple[str, ...]]:
    """Return the strict JSON of any value, the tree it is the JSON of, and the pointers of what is lossy in it.

    The way for everything that is recorded: plain values are looked at once and written at once. The tree of plain
    input is the input itself, which its owner may still mutate; take `loads` of the bytes to keep one. Never raises.
    """
    plain = as_plain(value)
    if plain is not None:
        return plain[0], plain[1], ()
    try:
        stored, may_be_lossy = _Encoder(types or default_types).encode(value)
        return dumps(stored), stored, lossy_in(stored) if may_be_lossy else ()
    except Exception:  # a tree that was said to be in stored form and is not; no stack left
        stored = {"$type": "opaque", "class": "?", "repr": "<could not be read>"}
        return dumps(stored), stored, ("",)


class _Encoder:
    """One encoding: the slots to fill, and the values being written right now, which a cycle would meet again."""

    def __init__(self, types: TypeRegistry) -> None:
        self._types = types
        self._lossy = False
        self._within: set[int] = set()
        # Values are kept, not only their ids: an id names an object only while it lives.
        self._met: dict[int, Any] = {}
        self._repeats = 0
        self._is_knot = False

    def encode(self, root: Any) -> tuple[Stored, bool]:
        self._is_knot = multiplies(root, self._types)
        out: list[Any] = [None]
        # (value, container, place in it, depth of the value, parts of the "deep" tag that it is in).
        # A container of None: all within the value is written, and the place holds its stored form.
        todo: list[tuple[Any, Any, Any, int, list[Any] | None]] = [(root, out, 0, 1, None)]
        while todo:
            value, where, place, depth, parts = todo.pop()
            if where is None:
                self._within.discard(id(value))
                _order_set(place)
                continue
            if depth > MAX_DEPTH and id(type(value)) not in _WITHOUT_INNER:
                if parts is None:
                    parts = []
                    where[place] = {"$type": "deep", "parts": parts}
                else:
                    where[place] = {"$type": "part", "index": len(parts)}
                where, place, depth = parts, len(parts), 1
                parts.append(None)
            if 1 < depth <= _DEPTH_OF_COPIES and not self._is_knot:
                copied = shallow_copy_of(value)
                if copied is not None:
                    where[place] = copied
                    continue
            slots: Slots = []
            stored = where[place] = self._write(value, slots)
            if not slots:
                _order_set(stored)
            else:
                self._within.add(id(value))
                todo.append((value, None, stored, 0, None))
                depth += _LEVELS_OF_A_TAG if type(stored) is dict and "$type" in stored else 1
                todo.extend((inner, into, at, depth, parts) for inner, into, at in reversed(slots))
        return out[0], self._lossy

    def _write(self, value: Any, slots: Slots) -> Stored:
        if id(value) in self._within:
            return self._give_up(value, "<contains itself>")
        if self._is_knot and id(value) in self._met:
            self._repeats += 1
            if self._repeats > _REPEATS_OF_A_KNOT:
                return self._give_up(value, "<occurs too often to be written each time>")
        try:
            stored = self._write_by_type(value, slots)
        except Exception:  # whatever a hostile or half-made object makes of being read
            slots.clear()
            return self._give_up(value)
        if self._is_knot and id(type(value)) not in _WITHOUT_INNER:
            self._met[id(value)] = value
        if type(stored) is dict and "$type" in stored and LOSSY_KEY in stored:
            self._lossy = True
        return stored

    def _write_by_type(self, value: Any, slots: Slots) -> Stored:
        cls = type(value)
        writer = WRITERS.get(id(cls))
        if writer is not None:
            return writer(value, slots)
        if value is None or cls is bool:
            return value
        if cls is InStoredForm:
            self._lossy = True  # perhaps: it is looked through at the end
            return value.tree
        if cls is Opaque:
            self._lossy = True
            return {"$type": "opaque", "class": value.cls, "repr": value.text}
        entry = self._types.of(cls)
        if entry is not None and entry.encode is not None:
            tag: dict[str, Any] = {"$type": "registered", "class": entry.name_in_logs, "value": None}
            put(entry.encode(value), tag, "value", slots)
            return tag
        writer = writer_for(cls) or (write_object if entry is not None else None)
        if writer is None:
            return self._give_up(value)
        stored = writer(value, slots)
        if entry is not None:
            stored["class"] = entry.name_in_logs
            if entry.fields:
                as_in_logs(stored, entry.fields, slots)
        return stored

    def _give_up(self, value: Any, why: str | None = None) -> Stored:
        self._lossy = True
        return _opaque(value, why)


def _opaque(value: Any, text: str | None = None) -> Stored:
    return {"$type": "opaque", "class": class_name(type(value)), "repr": describe(value) if text is None else text}


def _order_set(stored: Stored) -> None:
    """Put the items of a set into the one order that does not depend on the process."""
    if type(stored) is dict and stored.get("$type") == "subclass":
        stored = stored["value"]
    if type(stored) is dict and stored.get("$type") in ("set", "frozenset"):
        try:
            stored["items"].sort(key=dumps)
        except TypeError:  # a tree in it that was said to be in stored form and is not
            return
