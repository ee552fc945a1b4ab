"""Turn stored trees back into values, whatever a file may hold.

A tag becomes a value only through the fixed table of readers below, and a class only through a registry: nothing is
imported, nothing is looked up by name anywhere else. What cannot be read comes back as data, with a warning: the
plain data of a class that is not registered, or the tag itself when it is damaged or newer than this version.

Readers do not recurse. Each is given a tag whose inner values are read already.
"""

from __future__ import annotations

import re
import warnings
from base64 import b64decode
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from .builtin_types import CONSTANTS, FACTORIES, PATHS
from .errors import UnreadableValue, UnregisteredType
from .plain import Stored, has_tags
from .rebuilding import PLAIN_DATA, rebuild
from .renamed_fields import as_in_code
from .structured_types import BUILTIN_ERRORS
from .type_registry import TypeRegistry, default_types
from .verbatim import Opaque

Fields: TypeAlias = dict[str, Any]
Reader: TypeAlias = Callable[[Fields], Any]

_DEPTH_OF_LOOKS: Final = 8
"""Down to here a container is asked whether it has tags at all, and left as it is if not: once per level."""

_DIGITS: Final = re.compile(r"-?[0-9]{1,640}")
_HEX: Final = re.compile(r"-?0x[0-9a-f]+")
_ESCAPE: Final = re.compile(r"\\(?:\\|u(d[89a-f][0-9a-f]{2}))")
_STRICT_DECIMAL: Final = Context(traps=[InvalidOperation])


def decode(stored: Stored, types: TypeRegistry | None = None) -> Any:
    """Return the value that a stored tree stands for; plain subtrees are returned as the same objects.

    Warns:
        UnregisteredType: a class is not registered; its plain data is handed out: a dataclass or model as a dict,
            an enum as its value, a subclass as its builtin, a named tuple as a tuple.
        UnreadableValue: a tag is damaged or from a newer version; it is handed out as it is.
    """
    if not has_tags(stored):
        return stored
    value, unread = decode_noting(stored, types)
    for message, what in unread.items():
        warnings.warn(message, what.category, stacklevel=2)
    return value


class Unread(NamedTuple):
    """A tag that was not read as what it stands for; the first one, where a warning is of several.

    Attributes:
        category: of the warning that `decode` would give.
        tag: in stored form.
        why: what went wrong; empty for a class that is not registered.
    """

    category: type[Warning]
    tag: Stored
    why: str


def decode_noting(
    stored: Stored, types: TypeRegistry | None = None, given: Mapping[int, Any] | None = None
) -> tuple[Any, dict[str, Unread]]:
    """Like `decode`, but what it would warn of is returned, by message.

    Args:
        stored: a tree in stored form.
        types: the classes that may come back.
        given: values to put in the place of containers of the tree, by their id; nothing in these is read.
    """
    decoder = _Decoder(types or default_types, given or {})
    return decoder.decode(stored), decoder.unread


class _Decoder:
    def __init__(self, types: TypeRegistry, given: Mapping[int, Any]) -> None:
        self._types = types
        # By id of the stored container; the tree keeps them alive.
        self._values = dict(given)
        self._used_parts: set[tuple[int, int]] = set()
        self._plain_data_of_classes: set[int] = set()
        self.unread: dict[str, Unread] = {}

    def decode(self, root: Stored) -> Any:
        # (node, whether all in it is read, the parts of the "deep" tag that it is in, depth)
        todo: list[tuple[Any, bool, list[Any] | None, int]] = [(root, False, None, 0)]
        while todo:
            node, ready, parts, depth = todo.pop()
            if id(node) in self._values:
                continue
            if ready:
                self._values[id(node)] = self._value_of(node, parts)
                continue
            todo.append((node, True, parts, depth))
            inner: Any = node.values() if type(node) is dict else node
            if type(node) is dict and node.get("$type") == "deep" and type(node.get("parts")) is list:
                # Parts refer to later ones only, so these are read first.
                inner = parts = node["parts"]
            todo.extend(
                (item, False, parts, depth + 1)
                for item in inner
                if (type(item) is dict or type(item) is list) and (depth > _DEPTH_OF_LOOKS or has_tags(item))
            )
        return self._read(root)

    def _read(self, item: Stored) -> Any:
        return self._values.get(id(item), item)

    def _value_of(self, node: Any, parts: list[Any] | None) -> Any:
        if type(node) is list:
            items = [self._read(item) for item in node]
            return node if _all_same(items, node) else items
        if "$type" in node:
            try:
                return self._value_of_tag(node, parts)
            except Exception as error:  # a file may hold anything
                message = f"a stored value is damaged and stays as it is: {_excerpt(node)} ({error})"
                self._note(message, Unread(UnreadableValue, node, f"it is damaged ({error})"))
                return node
        fields = {key: self._read(item) for key, item in node.items()}
        return node if _all_same(list(fields.values()), list(node.values())) else fields

    def _value_of_tag(self, tag: Fields, parts: list[Any] | None) -> Any:
        kind = tag["$type"]
        if kind == "part" and parts is not None:
            return self._part(parts, tag["index"])
        if kind == "deep":
            return self._part(tag["parts"], 0)
        fields = {name: self._read(item) for name, item in tag.items()}
        reader = READERS.get(kind) if type(kind) is str else None
        if reader is not None:
            return reader(fields)
        if type(kind) is str and kind in PAIRED:
            return self._mapping(PAIRED[kind], tag, fields)
        if type(kind) is str and kind in COLLECTED:
            return self._collection(COLLECTED[kind], tag, fields)
        if type(kind) is str and kind in PLAIN_DATA:
            return self._instance(kind, tag, fields)
        why = f"this version does not know stored values of type {kind!r}"
        self._note(f"{why}; they stay as they are", Unread(UnreadableValue, tag, why))
        return tag

    def _part(self, parts: list[Any], index: int) -> Any:
        part = parts[_exactly(int, index)]
        # Each is referred to once. A file could otherwise make a small value that is endless when written out.
        if (id(parts), index) in self._used_parts:
            raise ValueError("a part is used twice")
        self._used_parts.add((id(parts), index))
        if id(part) not in self._values and has_tags(part):
            raise ValueError("a part refers to an earlier one")
        return self._read(part)

    def _instance(self, kind: str, tag: Fields, fields: Fields) -> Any:
        name = _exactly(str, tag["class"])
        plain = PLAIN_DATA[kind](fields)
        entry = self._types.find_error(name) if kind == "exception" else self._types.find(name)
        cls: Any = entry.cls if entry is not None else None
        if cls is None and kind == "exception":
            cls = BUILTIN_ERRORS.get(name)
        if cls is None and kind == "class":
            cls = _BUILTIN_CLASSES.get(name) or BUILTIN_ERRORS.get(name)
        if cls is None:
            self._note(
                f"{name} is not registered, so its plain data is handed out; "
                f"call agentreplay.register_type({name.rpartition(':')[2]}) first to get its own type",
                Unread(UnregisteredType, tag, ""),
            )
        else:
            try:
                if kind != "registered":
                    renamed = {} if entry is None else entry.fields
                    return rebuild(kind, cls, as_in_code(fields, renamed) if renamed else fields)
                if entry is None or entry.decode is None:
                    raise TypeError("it was recorded by its own encode=, and is registered without decode=")
                return entry.decode(fields["value"])
            except Exception as error:  # the class has changed, or its decode fails
                message = f"{name} cannot be built from its data, which is handed out: {error}"
                self._note(message, Unread(UnreadableValue, tag, str(error)))
        self._plain_data_of_classes.add(id(tag))
        return plain

    def _mapping(self, make: Callable[[list[Any], Fields], Any], tag: Fields, fields: Fields) -> Any:
        pairs = [(self._read(key), self._read(item)) for key, item in map(_pair, tag["items"])]
        return self._unless_plain_keys(pairs, [key for key, _ in map(_pair, tag["items"])], lambda: make(pairs, fields))

    def _collection(self, make: Callable[[list[Any]], Any], tag: Fields, fields: Fields) -> Any:
        items = list(_exactly(list, fields["items"]))
        return self._unless_plain_keys(items, tag["items"], lambda: make(items))

    def _unless_plain_keys(self, items: list[Any], keys: list[Any], make: Callable[[], Any]) -> Any:
        """Make a container of hashed keys; a list of its items when unregistered classes left keys that cannot be."""
        try:
            made = make()
        except TypeError:
            made = None
        if made is None or len(made) != len(items):
            if not any(self._lost_its_class(key) for key in keys):
                raise ValueError("its keys cannot be hashed or are not distinct")
            return items
        return made

    def _lost_its_class(self, node: Any) -> bool:
        todo = [node]
        while todo:
            node = todo.pop()
            if type(node) is dict or type(node) is list:
                if id(node) in self._plain_data_of_classes:
                    return True
                todo.extend(node.values() if type(node) is dict else node)
        return False

    def _note(self, message: str, what: Unread) -> None:
        self.unread.setdefault(message, what)


# -- readers -----------------------------------------------------------------------------------------------------------


def _exactly(cls: type, value: Any) -> Any:
    if type(value) is not cls:
        raise TypeError(f"expected {cls.__name__}, found {type(value).__name__}")
    return value


def _matching(pattern: re.Pattern[str], text: Any) -> str:
    if not pattern.fullmatch(_exactly(str, text)):
        raise ValueError("not a number of the expected form")
    return str(text)


def _pair(row: Any) -> tuple[Any, Any]:
    key, item = _exactly(list, row)
    return key, item


def _int(fields: Fields) -> int:
    if "hex" in fields:
        return int(_matching(_HEX, fields["hex"]), 16)
    return int(_matching(_DIGITS, fields["value"]))


def _float(fields: Fields) -> float:
    # A new object each time: as dict keys, two NaNs are two keys, but the same NaN is one.
    return float({"nan": "nan", "inf": "inf", "-inf": "-inf"}[fields["value"]])


def _str(fields: Fields) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else "\\", _exactly(str, fields["escaped"]))


def _bytes(fields: Fields) -> bytes:
    return b64decode(_exactly(str, fields["base64"]), validate=True)


def _decimal(fields: Fields) -> Decimal:
    return Decimal(_exactly(str, fields["value"]), _STRICT_DECIMAL)


def _fraction(fields: Fields) -> Fraction:
    return Fraction(_exactly(int, fields["numerator"]), _exactly(int, fields["denominator"]))


def _complex(fields: Fields) -> complex:
    return complex(_exactly(float, fields["real"]), _exactly(float, fields["imag"]))


def _uuid(fields: Fields) -> UUID:
    return UUID(_exactly(str, fields["value"]), is_safe=SafeUUID[fields.get("is_safe", "unknown")])


def _path(fields: Fields) -> Any:
    cls = PATHS[fields["kind"]]
    text = _exactly(str, fields["value"])
    try:
        return cls(text)
    except NotImplementedError:  # a path of another system than this one
        return PATHS["PureWindowsPath" if cls.__name__ == "WindowsPath" else "PurePosixPath"](text)


def _constant(fields: Fields) -> Any:
    return CONSTANTS[fields["name"]]


def _timedelta(fields: Fields) -> timedelta:
    return timedelta(*(_exactly(int, fields[name]) for name in ("days", "seconds", "microseconds")))


def _timezone(fields: Fields) -> timezone:
    offset = timedelta(microseconds=_exactly(int, fields["offset_microseconds"]))
    return timezone(offset, fields["name"]) if "name" in fields else timezone(offset)


def _zoneinfo(fields: Fields) -> ZoneInfo:
    try:
        return ZoneInfo(_exactly(str, fields["key"]))
    except ZoneInfoNotFoundError:
        raise ValueError(f"this system does not know the time zone {fields['key']!r}") from None


def _zone(fields: Fields) -> tzinfo | None:
    zone = fields.get("zone")
    if zone is not None and not isinstance(zone, tzinfo):
        raise ValueError("its time zone could not be read")
    return zone


def _date(fields: Fields) -> date:
    return date.fromisoformat(fields["value"])


def _datetime(fields: Fields) -> datetime:
    return datetime.fromisoformat(fields["value"]).replace(tzinfo=_zone(fields), fold=fields.get("fold", 0))


def _time(fields: Fields) -> time:
    return time.fromisoformat(fields["value"]).replace(tzinfo=_zone(fields), fold=fields.get("fold", 0))


def _deque(fields: Fields) -> deque[Any]:
    made = deque(_exactly(list, fields["items"]), fields["maxlen"])
    if len(made) != len(fields["items"]):
        raise ValueError("more items than it may hold")
    return made


def _range(fields: Fields) -> range:
    return range(*(_exactly(int, fields[name]) for name in ("start", "stop", "step")))


def _slice(fields: Fields) -> slice:
    return slice(fields["start"], fields["stop"], fields["step"])


def _opaque(fields: Fields) -> Opaque:
    return Opaque(_exactly(str, fields["class"]), _exactly(str, fields["repr"]))


READERS: Final[dict[str, Reader]] = {
    "int": _int,
    "float": _float,
    "str": _str,
    "bytes": _bytes,
    "bytearray": lambda fields: bytearray(_bytes(fields)),
    "decimal": _decimal,
    "fraction": _fraction,
    "complex": _complex,
    "uuid": _uuid,
    "path": _path,
    "constant": _constant,
    "timedelta": _timedelta,
    "timezone": _timezone,
    "zoneinfo": _zoneinfo,
    "date": _date,
    "datetime": _datetime,
    "time": _time,
    "tuple": lambda fields: tuple(_exactly(list, fields["items"])),
    "deque": _deque,
    "range": _range,
    "slice": _slice,
    "opaque": _opaque,
}
"""How a tag becomes a value, where its inner values may be anything."""


def _counter(pairs: list[Any], fields: Fields) -> Counter[Any]:
    made: Counter[Any] = Counter()
    dict.update(made, pairs)
    return made


def _defaultdict(pairs: list[Any], fields: Fields) -> defaultdict[Any, Any]:
    name = fields["factory"]
    return defaultdict(None if name is None else FACTORIES[name], pairs)


PAIRED: Final[dict[str, Callable[[list[Any], Fields], Any]]] = {
    "dict": lambda pairs, fields: dict(pairs),
    "ordereddict": lambda pairs, fields: OrderedDict(pairs),
    "counter": _counter,
    "defaultdict": _defaultdict,
}
"""How a list of pairs becomes a mapping."""

COLLECTED: Final[dict[str, Callable[[list[Any]], Any]]] = {"set": set, "frozenset": frozenset}
"""How a list of items becomes a set."""

_DATA_CLASSES: Final[tuple[type, ...]] = (
    bool,
    bytearray,
    bytes,
    complex,
    dict,
    float,
    frozenset,
    int,
    list,
    object,
    set,
    str,
    tuple,
    type,
    type(None),
)

_BUILTIN_CLASSES: Final[dict[str, type]] = {f"builtins:{cls.__name__}": cls for cls in _DATA_CLASSES}


def _all_same(items: list[Any], others: list[Any]) -> bool:
    return all(item is other for item, other in zip(items, others, strict=True))


def _excerpt(tag: Fields) -> str:
    text = repr({name: item for name, item in tag.items() if type(item) is str or type(item) is int})
    return text if len(text) <= 200 else text[:200] + "…"
