"""Laws of values: what is encoded, written, read and decoded is what it was, whatever it was."""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, UserString, defaultdict, deque
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from agentreplay.recorder.values import (
    FrozenDict,
    FrozenList,
    InStoredForm,
    Opaque,
    already_stored,
    decode,
    dumps,
    encode,
    encode_bytes,
    freeze,
    is_plain,
    is_tag,
    loads,
    lossy_in,
)
from hypothesis import HealthCheck, given, settings
from value_examples import (
    Celsius,
    Color,
    Key,
    Model,
    Money,
    Order,
    Point,
    Refused,
    Row,
    Text,
    assert_same,
    keys,
    plain_values,
    types,
    values,
)


def strict(data: bytes) -> Any:
    """Parse as the strictest of readers do: no NaN, no key twice."""

    def refuse(text: str) -> Any:
        raise ValueError(f"{text} is not JSON")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in items}) == len(items), f"a key twice: {items}"
        return dict(items)

    return json.loads(data, parse_constant=refuse, object_pairs_hook=pairs)


def round_trip(value: Any) -> Any:
    data, stored, lossy = encode_bytes(value, types)
    assert lossy == ()
    assert_same(strict(data), stored)
    return decode(loads(data), types)


thorough = settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow], deadline=None)


# -- the laws ----------------------------------------------------------------------------------------------------------


@thorough
@given(values)
def test_every_value_comes_back_exactly(value: Any) -> None:
    """Encoding, writing, strict parsing and decoding give the same value, of the same types, in the same order."""
    assert_same(round_trip(value), value)


@thorough
@given(keys)
def test_every_hashable_value_may_be_a_key(key: Any) -> None:
    """A dict with any key comes back with that key."""
    back = round_trip({key: "value", "other": [key]})
    assert_same(back, {key: "value", "other": [key]})


@thorough
@given(values)
def test_encoding_is_deterministic_and_stable(value: Any) -> None:
    """The same value is written the same way, also after it came back once."""
    first = encode_bytes(value, types)[0]
    assert encode_bytes(value, types)[0] == first
    again = decode(loads(first), types)
    assert encode_bytes(again, types)[0] == first
    assert_same(decode(loads(encode_bytes(again, types)[0]), types), again)


@given(plain_values)
def test_plain_input_is_kept_as_the_same_object(value: Any) -> None:
    """Plain JSON is stored as itself: nothing is copied on the way in or out."""
    assert is_plain(value)
    stored, lossy = encode(value, types)
    assert stored is value
    assert lossy == ()
    assert decode(stored, types) is value
    assert_same(loads(dumps(stored)), value)


@thorough
@given(values)
def test_only_what_json_keeps_exactly_is_plain(value: Any) -> None:
    """`is_plain` is exact: it holds just when the standard library's JSON gives the same value back."""

    def kept(value: Any) -> bool:
        try:
            assert_same(json.loads(json.dumps(value, allow_nan=False)), value)
        except (AssertionError, TypeError, ValueError):
            return False
        return not _beyond_plain(value)

    assert is_plain(value) == kept(value)


def _beyond_plain(value: Any) -> bool:
    """What Python's JSON keeps and other readers, or our tags, do not."""
    if type(value) is dict:
        return "$type" in value or any(map(_beyond_plain, value.values()))
    if type(value) is list:
        return any(map(_beyond_plain, value))
    return type(value) is int and abs(value) >= 2**53


@given(plain_values)
def test_frozen_containers_are_stored_as_plain_ones(value: Any) -> None:
    """The view that an agent gets of its payload is written like the payload."""
    data, stored, lossy = encode_bytes({"view": freeze(value)}, types)
    assert lossy == ()
    assert data == dumps({"view": value})
    assert_same(stored, {"view": value})


# -- examples, literal -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (2**53, {"$type": "int", "value": "9007199254740992"}),
        (-(2**2048), {"$type": "int", "hex": "-0x1" + "0" * 512}),
        (math.nan, {"$type": "float", "value": "nan"}),
        (-math.inf, {"$type": "float", "value": "-inf"}),
        ("a\ud83d\\", {"$type": "str", "escaped": "a\\ud83d\\\\"}),
        (b"\x00\xff", {"$type": "bytes", "base64": "AP8="}),
        (bytearray(b"a"), {"$type": "bytearray", "base64": "YQ=="}),
        (Decimal("1.50"), {"$type": "decimal", "value": "1.50"}),
        (Fraction(1, 3), {"$type": "fraction", "numerator": 1, "denominator": 3}),
        (1 - 0.5j, {"$type": "complex", "real": 1.0, "imag": -0.5}),
        (date(2026, 1, 2), {"$type": "date", "value": "2026-01-02"}),
        (datetime(2026, 1, 2, 3, 4), {"$type": "datetime", "value": "2026-01-02T03:04:00"}),
        (
            datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Paris")),
            {
                "$type": "datetime",
                "value": "2026-10-25T02:30:00",
                "fold": 1,
                "zone": {"$type": "zoneinfo", "key": "Europe/Paris"},
            },
        ),
        (
            time(1, 2, tzinfo=timezone(timedelta(hours=1), "here")),
            {
                "$type": "time",
                "value": "01:02:00",
                "zone": {"$type": "timezone", "offset_microseconds": 3600000000, "name": "here"},
            },
        ),
        (timedelta(-1, 2, 3), {"$type": "timedelta", "days": -1, "seconds": 2, "microseconds": 3}),
        (UUID(int=1), {"$type": "uuid", "value": "00000000-0000-0000-0000-000000000001"}),
        (PureWindowsPath("C:/a"), {"$type": "path", "kind": "PureWindowsPath", "value": "C:\\a"}),
        ((1, (2,)), {"$type": "tuple", "items": [1, {"$type": "tuple", "items": [2]}]}),
        ({"b", "a", 1}, {"$type": "set", "items": ["a", "b", 1]}),
        (frozenset([2, 10]), {"$type": "frozenset", "items": [10, 2]}),
        (deque([1], 5), {"$type": "deque", "items": [1], "maxlen": 5}),
        ({1: "a", "1": "b"}, {"$type": "dict", "items": [[1, "a"], ["1", "b"]]}),
        ({"$type": "tuple"}, {"$type": "dict", "items": [["$type", "tuple"]]}),
        (OrderedDict(b=1, a=2), {"$type": "ordereddict", "items": [["b", 1], ["a", 2]]}),
        (Counter("aab"), {"$type": "counter", "items": [["a", 2], ["b", 1]]}),
        (defaultdict(list, a=[1]), {"$type": "defaultdict", "factory": "list", "items": [["a", [1]]]}),
        (range(1, 5, 2), {"$type": "range", "start": 1, "stop": 5, "step": 2}),
        (slice(None, 2), {"$type": "slice", "start": None, "stop": 2, "step": None}),
        (..., {"$type": "constant", "name": "Ellipsis"}),
        (dict, {"$type": "class", "class": "builtins:dict"}),
        (Color.RED, {"$type": "enum", "class": "value_examples:Color", "name": "RED", "value": "red"}),
        (Point(1, 2), {"$type": "namedtuple", "class": "value_examples:Point", "fields": {"x": 1, "y": 2}}),
        (Money(5), {"$type": "subclass", "class": "value_examples:Money", "value": 5}),
        (Key("a"), {"$type": "dataclass", "class": "value_examples:Key", "fields": {"name": "a", "number": 0}}),
        (
            Model(a=1, more=2),
            {
                "$type": "model",
                "class": "value_examples:Model",
                "fields": {"a": 1, "b": 5},
                "fields_set": ["a", "more"],
                "extra": {"more": 2},
                "private": {"_secret": None},
            },
        ),
        (ValueError("no", 1), {"$type": "exception", "class": "builtins:ValueError", "args": ["no", 1]}),
        (
            Refused(7, detail="x"),
            {"$type": "exception", "class": "value_examples:Refused", "args": [7], "state": {"detail": "x"}},
        ),
        (Celsius(20), {"$type": "registered", "class": "celsius", "value": [20]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_stored_form_does_not_drift(value: Any, stored: Any) -> None:
    """Each kind of value is written in the form that old logs have."""
    assert encode(value, types) == (stored, ())
    assert next(iter(encode(value, types).stored)) == "$type"
    assert_same(decode(stored, types), value)


def test_integers_have_no_limit_on_their_digits() -> None:
    """Integers beyond what Python itself turns into text come back exactly."""
    assert_same(round_trip([10**5000, -(10**100_000)]), [10**5000, -(10**100_000)])


def test_a_dataclass_comes_back_without_running_its_code() -> None:
    """Neither `__init__` nor `__post_init__` runs again: fields set later, and only those, come back."""
    order = Order("a", 2)
    order.total = 9.5
    order.__dict__["looked_up"] = True
    back = round_trip(order)
    assert back.made == ["post_init"]
    assert (back.total, back.looked_up) == (9.5, True)


def test_a_model_comes_back_without_validation() -> None:
    """What was constructed with values that the validators refuse is what comes back."""
    model = Model.model_construct(a=object, seen=True)
    back = round_trip(model)
    assert back == model
    assert back.model_extra == {"seen": True}


def test_a_field_that_the_class_got_since_has_its_default() -> None:
    """A recorded dataclass still comes back after the class was given new fields."""
    stored = {"$type": "dataclass", "class": "value_examples:Order", "fields": {"sku": "a"}}
    back = decode(stored, types)
    assert (back.sku, back.amount, back.made) == ("a", 1, [])
    key = decode({"$type": "dataclass", "class": "value_examples:Key", "fields": {"name": "a"}}, types)
    assert key == Key("a", 0)


def test_shared_parts_may_be_stored_twice() -> None:
    """A value that occurs twice comes back equal in both places."""
    shared = (1, [2])
    assert_same(round_trip([shared, shared, {"a": shared}]), [shared, shared, {"a": shared}])


def test_decoding_leaves_plain_parts_alone() -> None:
    """Around a tag only the containers on its path are new; plain subtrees are the stored objects."""
    plain = {"a": [1, 2]}
    stored = {"plain": plain, "other": [{"$type": "tuple", "items": [plain]}]}
    back = decode(stored)
    assert back["plain"] is plain
    assert back["other"][0][0] is plain
    assert stored["other"][0] == {"$type": "tuple", "items": [plain]}


def test_frozen_containers_are_plain_ones_wherever_they_stand() -> None:
    """Frozen containers within tags, and with values that are not plain, are written as dict and list."""
    stored = encode((FrozenDict({"a": FrozenList([(1,)])}),)).stored
    assert stored == {"$type": "tuple", "items": [{"a": [{"$type": "tuple", "items": [1]}]}]}


def test_a_tree_in_stored_form_is_not_escaped_again() -> None:
    """What came out of a log can be recorded again as it is, and what is lossy in it stays listed."""
    stored = {"a": {"$type": "tuple", "items": [1]}, "b": {"$type": "opaque", "class": "m:C", "repr": "<C>"}}
    data, again, lossy = encode_bytes({"request": InStoredForm(stored), "at": (1,)})
    assert again["request"] is stored
    assert loads(data)["request"] == stored
    assert lossy == ("/request/b",)
    assert already_stored([1, {"a": 2}]) == [1, {"a": 2}]
    assert isinstance(already_stored(stored), InStoredForm)


def test_an_opaque_value_stays_one() -> None:
    """The description of what could not be stored is read and recorded again without becoming a dict."""
    first = encode([len]).stored
    back = decode(first)
    assert back == [Opaque("builtins:builtin_function_or_method", "<built-in function len>")]
    assert {back[0]: 1} == {decode(first)[0]: 1}
    assert encode(back) == (first, ("/0",))


def test_is_tag_knows_tags_only() -> None:
    """A tag is a dict with the key "$type"; nothing else is one."""
    assert is_tag({"$type": "tuple", "items": []})
    assert not is_tag({"type": 1})
    assert not is_tag(["$type"])
    assert not is_tag(None)


def test_lossy_pointers_lead_to_the_descriptions() -> None:
    """Each pointer is a JSON Pointer into the stored tree, its keys escaped."""
    stored, lossy = encode({"a/b": [1, len], "c~d": (UserString, {2: iter([])})})
    assert lossy == ("/a~1b/1", "/c~0d/items/1/items/0/1")
    assert lossy_in(stored) == lossy


def test_dumps_refuses_what_is_not_in_stored_form() -> None:
    """The writer takes exact types only: no subclass, no date, no large integer slips through as something else."""
    for value in (Text("a"), Row(), date(2026, 1, 1), 2**53, {1: 2}, "\ud800", Key("a")):
        with pytest.raises(TypeError):
            dumps([value])


def test_loads_refuses_what_is_not_strict_json() -> None:
    """NaN, a cut-off text and a byte that is no UTF-8 are errors."""
    for data in (b"NaN", b'{"a": 1', b'"\xff"', b"1e999"):
        with pytest.raises(ValueError):
            loads(data)
