"""Values of every kind that a log holds exactly, and what it means that two are the same.

`values` draws any of them, nested in each other; `keys` those that may be keys; `plain_values` plain JSON only.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import struct
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

from agentreplay.recorder.values import TypeRegistry, encode_bytes
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, PrivateAttr, RootModel, model_validator

types = TypeRegistry()


# -- classes of a user -------------------------------------------------------------------------------------------------


@types.register
class Color(enum.Enum):
    RED = "red"
    SCARLET = RED
    PAIR = (1, 2)


@types.register
class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@types.register
class Mood(enum.StrEnum):
    GOOD = "good"
    ODD = "o\udc80dd"


@types.register
class Permission(enum.Flag):
    READ = 1
    WRITE = 2


@types.register
class Bits(enum.IntFlag):
    A = 1
    B = 4


Pair = types.register(namedtuple("Pair", ["left", "right"]))


@types.register
class Point(NamedTuple):
    x: Any
    y: Any = 0


@types.register
@dataclasses.dataclass
class Order:
    sku: Any
    amount: Any = 1
    total: Any = dataclasses.field(init=False, default=None)
    made: list[str] = dataclasses.field(default_factory=list, compare=False)

    def __post_init__(self) -> None:
        self.made.append("post_init")


@types.register
@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    name: Any
    number: Any = 0


@types.register
class Model(BaseModel):
    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)

    a: Any
    b: Any = 5
    _secret: Any = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _no_second_look(self) -> Model:
        if getattr(self, "seen", None):
            raise ValueError("validated twice")
        return self


@types.register
class FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True)

    a: Any


@types.register
class Names(RootModel[list[str]]):
    pass


T = TypeVar("T")


@types.register
class Text(str):
    __slots__ = ("note",)


@types.register
class Money(int):
    currency: str


@types.register
class Ratio(float):
    pass


@types.register
class Blob(bytes):
    pass


@types.register
class Row(dict[Any, Any]):
    pass


@types.register
class Rows(list[Any]):
    pass


@types.register
class Cells(tuple[Any, ...]):
    pass


@types.register
class Tags(set[Any]):
    pass


@types.register
class FrozenTags(frozenset[Any]):
    pass


@types.register
class Queue(deque[Any]):
    pass


@types.register
class Ordered(OrderedDict[Any, Any]):
    pass


@types.register
class Tally(Counter[Any]):
    pass


@types.register
class Groups(defaultdict[Any, Any]):
    pass


@types.register
class Instant(datetime):
    pass


@types.register
class Day(date):
    pass


@types.register
class Clock(time):
    pass


@types.register
class Span(timedelta):
    pass


@types.register
class Price(Decimal):
    pass


@types.register
class Share(Fraction):
    pass


@types.register
class Ident(UUID):
    pass


@types.register
class Phase(complex):
    pass


@types.register
class Buffer(bytearray):
    pass


@types.register
class Refused(Exception):
    def __init__(self, code: Any, *, detail: Any = None) -> None:
        super().__init__(code)
        self.detail = detail


@types.register
class DiskFull(OSError):
    def __init__(self, *args: Any, free: Any = 0) -> None:
        super().__init__(*args)
        self.free = free


@types.register
class Plain(Generic[T]):
    __slots__ = ("_Plain__hidden", "__dict__", "shown")

    def __init__(self, hidden: Any, shown: Any, **more: Any) -> None:
        self._Plain__hidden = hidden
        self.shown = shown
        self.__dict__.update(more)


@dataclasses.dataclass
class Celsius:
    degrees: Any


types.register(Celsius, name="celsius", encode=lambda value: [value.degrees], decode=lambda data: Celsius(data[0]))


# -- what "the same" means ---------------------------------------------------------------------------------------------


def assert_same(a: Any, b: Any, path: str = "value") -> None:
    """Equal all the way down, types and order of keys included; NaN equals NaN, -0.0 is not 0.0."""
    assert type(a) is type(b), f"{path}: {type(a)} is not {type(b)}"
    if isinstance(a, enum.Enum | type):
        assert a is b, path
        return
    if isinstance(a, float):
        assert struct.pack("d", float(a)) == struct.pack("d", float(b)) or (math.isnan(a) and math.isnan(b)), path
    elif isinstance(a, complex):
        assert_same(a.real, b.real, path + ".real")
        assert_same(a.imag, b.imag, path + ".imag")
    elif isinstance(a, Decimal):
        assert a.as_tuple() == b.as_tuple(), path
    elif isinstance(a, datetime | time):
        assert a.replace(tzinfo=None) == b.replace(tzinfo=None), path
        assert (a.fold, repr(a.tzinfo)) == (b.fold, repr(b.tzinfo)), path
        assert_same(a.tzinfo, b.tzinfo, path + ".tzinfo")
    elif isinstance(a, dict):
        assert len(a) == len(b), path
        for (key, value), (other_key, other) in zip(a.items(), b.items(), strict=True):
            assert_same(key, other_key, path + " key")
            assert_same(value, other, f"{path}[{key!r}]")
        if isinstance(a, defaultdict):
            assert a.default_factory is b.default_factory, path
    elif isinstance(a, list | tuple | deque):
        assert len(a) == len(b), path
        for place, (item, other) in enumerate(zip(a, b, strict=True)):
            assert_same(item, other, f"{path}[{place}]")
        if isinstance(a, deque):
            assert a.maxlen == b.maxlen, path
    elif isinstance(a, set | frozenset):
        # NaN and objects without equality are no keys to look up, so items are matched by what they are written as.
        ordered = [sorted(items, key=lambda item: encode_bytes(item, types)[0]) for items in (a, b)]
        assert_same(*ordered, path)
    elif isinstance(a, BaseException):
        assert_same(a.args, b.args, path + ".args")
        for name in ("errno", "filename", "filename2", "name", "path", "reason", "start", "value", "exceptions"):
            assert_same(getattr(a, name, None), getattr(b, name, None), f"{path}.{name}")
        assert_same(a.__cause__, b.__cause__, path + ".__cause__")
        assert a.__suppress_context__ == b.__suppress_context__, path
    elif isinstance(a, UUID):
        assert (a.int, a.is_safe) == (b.int, b.is_safe), path
    elif isinstance(a, slice):
        assert_same((a.start, a.stop, a.step), (b.start, b.stop, b.step), path)
    elif isinstance(a, BaseModel):
        assert a.model_fields_set == b.model_fields_set, path
        assert_same(a.__pydantic_extra__, b.__pydantic_extra__, path + " extra")
        assert_same(a.__pydantic_private__, b.__pydantic_private__, path + " private")
    elif not dataclasses.is_dataclass(a) and type(a) is not Plain:
        assert a == b, path
    own, other_own = attributes(a), attributes(b)
    if own or other_own:
        assert_same(own, other_own, path + " attributes")


def attributes(value: Any) -> dict[str, Any]:
    slots = [name for cls in type(value).__mro__ for name in _listed(cls.__dict__.get("__slots__", ()))]
    mangled = [name for name in slots if not name.endswith("__") and type(value).__module__ == __name__]
    found = {name: getattr(value, name) for name in sorted(set(mangled)) if hasattr(value, name)}
    return {**found, **getattr(value, "__dict__", {})}


def _listed(slots: Any) -> list[str]:
    return [slots] if isinstance(slots, str) else list(slots)


# -- all the types, nested in each other and as keys -------------------------------------------------------------------

any_text = st.text(st.characters(exclude_categories=()), max_size=8)
zones = st.sampled_from(
    [
        UTC,
        timezone(timedelta(hours=-3, minutes=-30, microseconds=7)),
        timezone(timedelta(hours=1), "here"),
        ZoneInfo("Europe/Paris"),
        ZoneInfo("America/New_York"),
    ]
)
integers = (
    st.integers() | st.integers(-(2**70), 2**70) | st.sampled_from([2**53 - 1, 2**53, -(2**53), 2**64, -(2**3000)])
)
numbers = integers | st.floats() | st.booleans()
datetimes = st.datetimes(timezones=st.none() | zones, allow_imaginary=True)
times = st.builds(time.replace, st.times(timezones=st.none() | zones), fold=st.sampled_from([0, 1]))
decimals = st.decimals() | st.sampled_from(["-0E+5", "NaN123", "-Infinity", "1E-999999"]).map(Decimal)
safe_ids = st.uuids().map(lambda value: UUID(int=value.int, is_safe=SafeUUID.safe))
_scalars = st.one_of(
    st.none(),
    numbers,
    any_text,
    st.sampled_from(["$type", "", "\0", "\ud83d", "\\ud83d", "\ud83d\ude00", "</script>", "\x1b[31m"]),
    st.binary(max_size=8),
    decimals,
    st.fractions(),
    datetimes,
    st.dates(),
    times,
    st.timedeltas(),
    st.uuids(),
    safe_ids,
    st.sampled_from([Path("a/b"), Path(), PurePosixPath("/x/../y\udc80"), PureWindowsPath("C:\\a")]),
    st.complex_numbers(allow_nan=True),
    st.builds(complex, st.just(-0.0), st.just(-0.0)),
    st.builds(range, st.integers(), st.integers(), st.integers(1, 2**70)),
    st.sampled_from([*Color, *Level, *Mood, *Permission, *Bits, Permission.READ | Permission.WRITE, Permission(0)]),
    st.sampled_from([Bits.A | Bits.B, Bits(0), Bits(18)]),
    st.sampled_from([int, type(None), ValueError, Order, Celsius, Ellipsis, NotImplemented]),
    st.builds(Money, st.integers(-(2**70), 2**70)),
    st.builds(Ratio, st.floats()),
    st.builds(Text, any_text),
    st.builds(Blob, st.binary(max_size=5)),
    st.builds(Phase, st.complex_numbers(allow_nan=True)),
    st.builds(lambda moment: Instant.combine(moment.date(), moment.timetz()), datetimes),
    st.builds(lambda day: Day(day.year, day.month, day.day), st.dates()),
    st.builds(lambda moment: Clock(moment.hour, moment.minute, tzinfo=moment.tzinfo, fold=moment.fold), times),
    st.builds(lambda span: Span(span.days, span.seconds, span.microseconds), st.timedeltas()),
    st.builds(Price, decimals),
    st.builds(Share, st.fractions()),
    st.builds(lambda ident: Ident(int=ident.int), st.uuids()),
    zones,
)


@st.composite
def any_scalar(draw: Any) -> Any:
    """Under a short name: hypothesis spells strategies out in its messages."""
    return draw(_scalars)


scalars = any_scalar()


def is_key(value: Any) -> bool:
    try:
        hash(value)
    except (TypeError, ValueError):  # unhashable, or a signaling NaN
        return False
    return True


scalar_keys = scalars.filter(is_key)
_keys = st.recursive(
    scalar_keys,
    lambda inner: st.one_of(
        st.tuples(inner, inner),
        st.frozensets(inner, max_size=3),
        st.builds(Point, inner, inner),
        st.builds(Pair, inner, inner),
        st.builds(Key, inner, inner),
        st.builds(Cells, st.lists(inner, max_size=2)),
        st.builds(FrozenTags, st.lists(inner, max_size=2)),
        st.builds(FrozenModel, a=inner),
    ),
    max_leaves=4,
)


@st.composite
def any_key(draw: Any) -> Any:
    return draw(_keys)


keys = any_key()


def with_attribute(cls: Any, *args: Any) -> Any:
    made = cls(*args)
    made.note = ("a", 1)
    return made


def exceptions(inner: Any) -> Any:
    def caused(error: BaseException, cause: BaseException | None, note: str | None) -> BaseException:
        if cause is not None:
            error.__cause__ = cause
        if note is not None:
            error.add_note(note)
        return error

    simple = st.one_of(
        st.builds(ValueError, inner, inner),
        st.builds(KeyError, inner),
        st.builds(StopIteration, inner),
        st.builds(Refused, inner, detail=inner),
        st.builds(OSError, st.integers(1, 200), any_text, any_text),
        st.builds(OSError, st.integers(1, 200), any_text, any_text, st.none(), any_text),
        st.builds(OSError, any_text),
        st.builds(DiskFull, st.integers(1, 200), any_text, free=inner),
        st.builds(lambda name: ImportError("no", name=name, path="/x"), any_text),
        st.builds(lambda at: UnicodeDecodeError("utf-8", b"ab", at, at + 1, "why"), st.integers(0, 1)),
        st.builds(lambda why: ExceptionGroup(why, [ValueError(why), TypeError()]), any_text),
        st.builds(json.JSONDecodeError, any_text, any_text, st.just(1)),
    )
    return st.builds(caused, simple, st.none() | simple, st.none() | any_text)


def models(inner: Any) -> Any:
    def made(a: Any, b: Any, extra: dict[str, Any], secret: Any) -> Model:
        model = Model.model_construct(a=a, b=b, **extra)
        model._secret = secret
        return model

    names = st.sampled_from(["more", "$type", "other"])
    return st.builds(made, inner, inner, st.dictionaries(names, inner, max_size=2), inner) | st.builds(Model, a=inner)


values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=3) | st.just("$type"), inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3),
        st.sets(keys, max_size=3),
        st.frozensets(keys, max_size=3),
        st.builds(deque, st.lists(inner, max_size=3), st.sampled_from([None, 3, 2**60])),
        st.builds(OrderedDict, st.lists(st.tuples(keys, inner), max_size=3)),
        st.builds(Counter, st.dictionaries(keys, integers | st.floats(), max_size=3)),
        st.builds(
            defaultdict, st.sampled_from([None, list, int, dict, set, str]), st.dictionaries(keys, inner, max_size=2)
        ),
        st.builds(bytearray, st.binary(max_size=4)),
        st.builds(slice, inner, inner),
        st.builds(Point, inner, inner),
        st.builds(Pair, inner, inner),
        st.builds(Order, inner, inner),
        st.builds(with_attribute, st.just(Order), inner),
        st.builds(with_attribute, st.just(Text), any_text),
        st.builds(with_attribute, st.just(Row), st.dictionaries(keys, inner, max_size=2)),
        st.builds(Row, st.dictionaries(st.text(max_size=2), inner, max_size=2)),
        st.builds(Rows, st.lists(inner, max_size=2)),
        st.builds(Cells, st.lists(inner, max_size=2)),
        st.builds(Tags, st.sets(keys, max_size=2)),
        st.builds(Queue, st.lists(inner, max_size=2), st.sampled_from([None, 5])),
        st.builds(Ordered, st.lists(st.tuples(keys, inner), max_size=2)),
        st.builds(Tally, st.dictionaries(keys, st.integers(), max_size=2)),
        st.builds(Groups, st.sampled_from([None, list]), st.dictionaries(keys, inner, max_size=2)),
        st.builds(Buffer, st.binary(max_size=3)),
        st.builds(Plain, inner, inner, more=inner),
        st.builds(Celsius, inner),
        st.builds(Names, st.lists(st.text(max_size=3), max_size=2)),
        exceptions(inner),
        models(inner),
    ),
    max_leaves=12,
)

plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=4)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=15,
)  # fmt: skip


# -- versions of a payload ---------------------------------------------------------------------------------------------


def edited(tree: dict[str, Any], kind: str, place: int, value: Any) -> dict[str, Any]:
    rows, keys = list(tree["rows"]), dict(tree["keys"])
    key = f"k{place}"
    at = slice(place % (len(rows) + 1), place % (len(rows) + 1) + 1)
    if kind == "set":
        rows[at], keys[key] = [value], value
    elif kind == "add":
        rows.append(value)
        keys[f"new {place}"] = value
    elif kind == "remove":
        del rows[at]
        keys.pop(key, None)
    elif kind == "insert":
        rows.insert(place, value)
        keys = {f"first {place}": value, **keys}
    elif kind == "swap":
        rows[:1], rows[-1:] = rows[-1:], rows[:1]
        keys["k0"], keys["k1"] = keys.get("k1"), keys.get("k0")
    elif kind == "equal":
        # Equal to Python, and not the same.
        rows[at], keys[key] = [[1.0]], [1.0]
    elif kind == "reorder":
        keys = dict(sorted(keys.items(), key=lambda pair: hash(pair[0])))
    return {"rows": rows, "keys": keys}


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Versions of a wide tree, each changed from the one before by copying, or gone back to."""
    size = draw(st.sampled_from([1, 60, 64, 65, 130]))
    versions = [{"rows": [[1] for _ in range(size)], "keys": {f"k{number}": [1] for number in range(size)}}]
    kinds = st.sampled_from(["set", "add", "remove", "insert", "swap", "same", "equal", "back", "reorder"])
    for kind, place, value in draw(st.lists(st.tuples(kinds, st.integers(0, 199), plain_values), max_size=8)):
        if kind == "back":
            versions.append(versions[place % len(versions)])
        else:
            versions.append(edited(versions[-1], kind, place, value))
    return versions
