"""How values of built-in types are written: each exactly, as plain JSON or as a tag.

A *writer* takes a value and a list of slots, and returns its stored form. What it contains is not yet in there: for
each inner value the writer adds a slot (the value, the container it goes to, the place in it). So no writer
recurses, however deep a value is. Writers read through the methods of the builtin type, never the value's own; so
they serve subclasses too, whose overridden methods stay uncalled.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any, Final, TypeAlias
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

from .frozen import FrozenDict, FrozenList
from .introspection import class_name
from .plain import MAX_INT

Slots: TypeAlias = list[tuple[Any, Any, Any]]
Writer: TypeAlias = Callable[[Any, Slots], Any]

FACTORIES: Final = {
    "list": list,
    "dict": dict,
    "set": set,
    "frozenset": frozenset,
    "tuple": tuple,
    "int": int,
    "float": float,
    "str": str,
    "bytes": bytes,
    "bool": bool,
    "deque": deque,
    "Counter": Counter,
    "OrderedDict": OrderedDict,
}
"""What a defaultdict may call for a missing key, by the name it has in a log."""

PATHS: Final[dict[str, type[PurePath]]] = {
    cls.__name__: cls for cls in (PurePosixPath, PureWindowsPath, PosixPath, WindowsPath)
}

CONSTANTS: Final = {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}

_FACTORY_NAMES: Final = {id(factory): name for name, factory in FACTORIES.items()}
_DECIMAL_BITS: Final = 2048  # below Python's limits on the digits of integers, whatever a process sets them to
_MICROSECOND: Final = timedelta(microseconds=1)
_WHOLE: Final = slice(None)


# -- scalars -----------------------------------------------------------------------------------------------------------


def write_str(value: str, slots: Slots) -> Any:
    r"""Lone surrogates are no Unicode text: with them, a backslash is written `\\` and a surrogate as `\udXXX`."""
    text = str.__str__(value)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        escaped = text.replace("\\", "\\\\").encode("utf-8", "backslashreplace").decode("utf-8")
        return {"$type": "str", "escaped": escaped}
    return text


def write_int(value: int, slots: Slots) -> Any:
    """Beyond 53 bits, as decimal digits; beyond 2048 bits as hexadecimal ones, which Python does not limit."""
    number = int.__index__(value)
    if -MAX_INT <= number <= MAX_INT:
        return number
    if number.bit_length() <= _DECIMAL_BITS:
        return {"$type": "int", "value": str(number)}
    return {"$type": "int", "hex": hex(number)}


def write_float(value: float, slots: Slots) -> Any:
    """Finite ones are plain, -0.0 included; the others are "nan", "inf" or "-inf"."""
    number = float.__float__(value)
    return number if number - number == 0.0 else {"$type": "float", "value": float.__repr__(number)}


def _write_complex(value: complex, slots: Slots) -> Any:
    number = complex.__pos__(value)
    return {"$type": "complex", "real": write_float(number.real, slots), "imag": write_float(number.imag, slots)}


def _write_bytes(value: bytes, slots: Slots) -> Any:
    return {"$type": "bytes", "base64": b64encode(bytes.__getitem__(value, _WHOLE)).decode("ascii")}


def _write_bytearray(value: bytearray, slots: Slots) -> Any:
    return {"$type": "bytearray", "base64": b64encode(bytearray.__getitem__(value, _WHOLE)).decode("ascii")}


def _write_decimal(value: Decimal, slots: Slots) -> Any:
    return {"$type": "decimal", "value": Decimal.__str__(Decimal(value))}


def _write_fraction(value: Fraction, slots: Slots) -> Any:
    # The slots behind the properties, which a subclass may override.
    parts = Fraction.__dict__
    tag: dict[str, Any] = {"$type": "fraction", "numerator": None, "denominator": None}
    tag["numerator"] = write_int(parts["_numerator"].__get__(value), slots)
    tag["denominator"] = write_int(parts["_denominator"].__get__(value), slots)
    return tag


def _write_uuid(value: UUID, slots: Slots) -> Any:
    parts = UUID.__dict__
    tag = {"$type": "uuid", "value": str(UUID(int=parts["int"].__get__(value)))}
    safety = parts["is_safe"].__get__(value)
    if safety is not SafeUUID.unknown:
        tag["is_safe"] = safety.name
    return tag


def _write_path(value: PurePath, slots: Slots) -> Any:
    return {"$type": "path", "kind": type(value).__name__, "value": write_str(PurePath.__str__(value), slots)}


def _write_constant(value: Any, slots: Slots) -> Any:
    return {"$type": "constant", "name": "Ellipsis" if value is Ellipsis else "NotImplemented"}


# -- time --------------------------------------------------------------------------------------------------------------


def _write_timedelta(value: timedelta, slots: Slots) -> Any:
    span = timedelta.__pos__(value)
    return {"$type": "timedelta", "days": span.days, "seconds": span.seconds, "microseconds": span.microseconds}


def _write_timezone(value: timezone, slots: Slots) -> Any:
    offset, *name = value.__getinitargs__()  # type: ignore[attr-defined]  # what pickle asks for; the name only if given
    tag: dict[str, Any] = {"$type": "timezone", "offset_microseconds": offset // _MICROSECOND}
    if name:
        tag["name"] = write_str(name[0], slots)
    return tag


def _write_zoneinfo(value: ZoneInfo, slots: Slots) -> Any:
    if type(value.key) is not str:
        raise TypeError("a zone read from a file has no name to find it by")
    return {"$type": "zoneinfo", "key": write_str(value.key, slots)}


def _write_date(value: date, slots: Slots) -> Any:
    return {"$type": "date", "value": date.isoformat(value)}


def _write_datetime(value: datetime, slots: Slots) -> Any:
    local = datetime.combine(datetime.date(value), datetime.time(value))
    return _with_zone({"$type": "datetime", "value": local.isoformat()}, local.fold, datetime, value, slots)


def _write_time(value: time, slots: Slots) -> Any:
    parts = [time.__dict__[name].__get__(value) for name in ("hour", "minute", "second", "microsecond")]
    fold: int = time.__dict__["fold"].__get__(value)
    return _with_zone({"$type": "time", "value": time(*parts).isoformat()}, fold, time, value, slots)


def _with_zone(tag: dict[str, Any], fold: int, cls: type, value: Any, slots: Slots) -> Any:
    if fold:
        tag["fold"] = fold
    zone = cls.__dict__["tzinfo"].__get__(value)
    if zone is not None:
        tag["zone"] = None
        slots.append((zone, tag, "zone"))
    return tag


# -- containers --------------------------------------------------------------------------------------------------------


def put(value: Any, where: Any, place: Any, slots: Slots) -> None:
    """Put a value into its place: at once when it is an easy one, else by way of a slot."""
    kind = type(value)
    if (
        (kind is str and value.isascii())
        or value is None
        or value is True
        or value is False
        or (kind is int and -MAX_INT <= value <= MAX_INT)
    ):
        where[place] = value
    else:
        slots.append((value, where, place))


def write_items(items: Iterable[Any], slots: Slots) -> list[Any]:
    """A JSON list of values."""
    values = list(items)
    written: list[Any] = [None] * len(values)
    for place, value in enumerate(values):
        put(value, written, place, slots)
    return written


def write_mapping(pairs: list[tuple[Any, Any]], slots: Slots) -> Any:
    """A JSON object when every key is an ordinary str, else a tag "dict" with a list of pairs."""
    if not all(_is_ordinary_key(key) for key, _ in pairs):
        return {"$type": "dict", "items": write_pairs(pairs, slots)}
    written: dict[str, Any] = dict.fromkeys([key for key, _ in pairs])
    for key, value in pairs:
        put(value, written, key, slots)
    return written


def write_pairs(pairs: Iterable[tuple[Any, Any]], slots: Slots) -> list[list[Any]]:
    """A JSON list of [key, value]."""
    return [write_items(pair, slots) for pair in pairs]


def _is_ordinary_key(key: Any) -> bool:
    return type(key) is str and key != "$type" and type(write_str(key, [])) is str


def _write_dict(value: dict[Any, Any], slots: Slots) -> Any:
    return write_mapping(list(dict.items(value)), slots)


def _write_list(value: list[Any], slots: Slots) -> Any:
    return write_items(list.__getitem__(value, _WHOLE), slots)


def _write_tuple(value: tuple[Any, ...], slots: Slots) -> Any:
    return {"$type": "tuple", "items": write_items(tuple.__getitem__(value, _WHOLE), slots)}


def _write_set(value: set[Any], slots: Slots) -> Any:
    return {"$type": "set", "items": write_items(set.__iter__(value), slots)}


def _write_frozenset(value: frozenset[Any], slots: Slots) -> Any:
    return {"$type": "frozenset", "items": write_items(frozenset.__iter__(value), slots)}


def _write_deque(value: deque[Any], slots: Slots) -> Any:
    longest = deque.__dict__["maxlen"].__get__(value)
    items = write_items(deque.__iter__(value), slots)
    return {"$type": "deque", "items": items, "maxlen": None if longest is None else write_int(longest, slots)}


def _write_ordered_dict(value: OrderedDict[Any, Any], slots: Slots) -> Any:
    # The order is that of the OrderedDict, which `move_to_end` changes; the values come past any own `__getitem__`.
    values = {id(key): item for key, item in dict.items(value)}
    pairs = [(key, values[id(key)]) for key in OrderedDict.__iter__(value)]
    return {"$type": "ordereddict", "items": write_pairs(pairs, slots)}


def _write_counter(value: Counter[Any], slots: Slots) -> Any:
    return {"$type": "counter", "items": write_pairs(list(dict.items(value)), slots)}


def _write_defaultdict(value: defaultdict[Any, Any], slots: Slots) -> Any:
    factory = defaultdict.__dict__["default_factory"].__get__(value)
    tag: dict[str, Any] = {"$type": "defaultdict", "factory": None, "items": None}
    if factory is not None:
        tag["factory"] = _FACTORY_NAMES.get(id(factory))
        if tag["factory"] is None:  # a function cannot be stored, and without it a missing key is an error
            tag["lossy"] = True
    tag["items"] = write_pairs(list(dict.items(value)), slots)
    return tag


def _write_range(value: range, slots: Slots) -> Any:
    tag: dict[str, Any] = {"$type": "range"}
    for name in ("start", "stop", "step"):
        tag[name] = write_int(getattr(value, name), slots)
    return tag


def _write_slice(value: slice, slots: Slots) -> Any:
    tag: dict[str, Any] = {"$type": "slice"}
    for name in ("start", "stop", "step"):
        tag[name] = None
        put(getattr(value, name), tag, name, slots)
    return tag


def write_class(cls: type, slots: Slots) -> Any:
    """A class that is itself a value, such as the expected type of an answer: by name."""
    return {"$type": "class", "class": class_name(cls)}


BASES: Final[dict[type, Writer]] = {
    str: write_str,
    int: write_int,
    float: write_float,
    complex: _write_complex,
    bytes: _write_bytes,
    bytearray: _write_bytearray,
    Decimal: _write_decimal,
    Fraction: _write_fraction,
    UUID: _write_uuid,
    timedelta: _write_timedelta,
    datetime: _write_datetime,
    date: _write_date,
    time: _write_time,
    dict: _write_dict,
    list: _write_list,
    tuple: _write_tuple,
    set: _write_set,
    frozenset: _write_frozenset,
    deque: _write_deque,
    OrderedDict: _write_ordered_dict,
    Counter: _write_counter,
    defaultdict: _write_defaultdict,
}
"""The types whose subclasses are written too: as the base's value, and the attributes that the subclass adds."""

_OTHERS: Final[dict[type, Writer]] = {
    FrozenDict: _write_dict,
    FrozenList: _write_list,
    timezone: _write_timezone,
    ZoneInfo: _write_zoneinfo,
    **dict.fromkeys(PATHS.values(), _write_path),
    range: _write_range,
    slice: _write_slice,
    type: write_class,
    type(Ellipsis): _write_constant,
    type(NotImplemented): _write_constant,
}

WRITERS: Final[dict[int, Writer]] = {id(cls): writer for cls, writer in (*BASES.items(), *_OTHERS.items())}
"""The writer of values of exactly a type, by the type's id: hashing a class would call its metaclass."""
