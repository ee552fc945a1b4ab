"""Decoding survives any file: nothing is imported, nothing raises, and what cannot be read is handed out as data."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import json
import sys
import uuid
import warnings
from collections import OrderedDict
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

import pydantic
import pytest
from agentreplay.recorder.errors import UnreadableValue, UnregisteredType
from agentreplay.recorder.values import TypeRegistry, decode, encode, encode_bytes, loads
from hypothesis import given, settings
from hypothesis import strategies as st
from value_examples import types, values


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Name(str):
    __slots__ = ()


class Pair(NamedTuple):
    a: int
    b: int


@dataclasses.dataclass(frozen=True)
class Key:
    name: str


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: int


class Refused(Exception):
    pass


def without_warning(stored: Any, types: TypeRegistry | None = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return decode(stored, types)


# -- classes that are not registered -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Color.RED, "red"),
        (Level.LOW, 1),
        (Name("a"), "a"),
        (Pair(1, 2), (1, 2)),
        (Key("a"), {"name": "a"}),
        (Model(a=1, b=2), {"a": 1, "b": 2}),
        (Refused("no", 1), {"class": "test_decoding:Refused", "args": ("no", 1), "state": {}}),
        (Key, "test_decoding:Key"),
        (type("Rows", (list,), {"__module__": "m"})([1]), [1]),
        (type("Moment", (datetime.date,), {"__module__": "m"})(2026, 1, 2), datetime.date(2026, 1, 2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_without_registration_the_plain_data_comes_back(value: Any, plain: Any) -> None:
    """A class that the reader did not register comes back as plain data, with a warning that says what to do."""
    stored = encode(value).stored
    with pytest.warns(UnregisteredType, match=r"register_type\(\w+\)") as caught:
        back = decode(stored)
    assert (type(back), back) == (type(plain), plain)
    assert stored["class"] in str(caught[0].message)


def test_one_warning_says_it_for_all_values_of_a_class() -> None:
    """A thousand enum members of one class warn once, where `decode` was called."""
    stored = encode([Color.RED] * 1000).stored
    with pytest.warns(UnregisteredType) as caught:
        decode(stored)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_keys_that_become_unhashable_or_alike_are_handed_out_as_pairs() -> None:
    """Nothing is lost when plain data cannot be keys: the mapping comes back as its pairs, the set as a list."""
    assert without_warning(encode({Key("a"): 1}).stored) == [({"name": "a"}, 1)]
    assert without_warning(encode({Color.RED: 1, "red": 2}).stored) == [("red", 1), ("red", 2)]
    assert without_warning(encode({(Key("a"), 1)}).stored) == [({"name": "a"}, 1)]
    assert without_warning(encode({Key("a")}).stored) == [{"name": "a"}]


def test_reading_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that names a class of an installed module gets neither the class nor the import."""
    monkeypatch.delitem(sys.modules, "antigravity", raising=False)
    for kind in ("enum", "dataclass", "model", "exception", "object", "registered", "class", "subclass", "namedtuple"):
        for name in ("antigravity:Thing", "os:system", "builtins:eval", "subprocess:Popen", "test_decoding:Key"):
            stored = {
                "$type": kind,
                "class": name,
                "value": "x",
                "fields": {},
                "state": {},
                "args": ["true"],
                "name": "x",
            }
            back = without_warning(stored)
            assert type(back) in (str, dict, tuple), (kind, name)
    assert "antigravity" not in sys.modules


def test_only_builtin_classes_and_exceptions_need_no_registration() -> None:
    """The fixed table has the data types and exceptions of Python; a function of that name is not one of them."""
    assert decode({"$type": "class", "class": "builtins:dict"}) is dict
    assert type(decode({"$type": "exception", "class": "builtins:KeyError", "args": ["a"]})) is KeyError
    assert decode({"$type": "exception", "class": "json.decoder:JSONDecodeError", "args": ["a"]}).args == ("a",)
    assert without_warning({"$type": "class", "class": "builtins:eval"}) == "builtins:eval"


def test_a_class_that_does_not_fit_gives_the_plain_data() -> None:
    """A registered class that is no longer what was recorded breaks nothing: the data is handed out."""
    types = TypeRegistry()
    types.register(Key)
    types.register(Pair)
    types.register(Color)
    for stored, plain in [
        ({"$type": "enum", "class": "test_decoding:Key", "name": "A", "value": 3}, 3),
        ({"$type": "enum", "class": "test_decoding:Color", "name": "GONE", "value": "gone"}, "gone"),
        ({"$type": "namedtuple", "class": "test_decoding:Pair", "fields": {"a": 1, "z": 2}}, (1, 2)),
        ({"$type": "dataclass", "class": "test_decoding:Color", "fields": {"a": 1}}, {"a": 1}),
        ({"$type": "subclass", "class": "test_decoding:Key", "value": [1]}, [1]),
        ({"$type": "model", "class": "test_decoding:Key", "fields": {"a": 1}, "fields_set": []}, {"a": 1}),
        ({"$type": "registered", "class": "test_decoding:Key", "value": [1]}, [1]),
    ]:
        with pytest.warns(UnreadableValue, match="cannot be built"):
            back = decode(stored, types)
        assert back == plain


def test_an_enum_comes_back_by_name_even_when_its_value_changed() -> None:
    """The name of a member is what the program means; its value may change between versions."""
    types = TypeRegistry()
    types.register(Color)
    assert decode({"$type": "enum", "class": "test_decoding:Color", "name": "RED", "value": 7}, types) is Color.RED
    assert decode({"$type": "enum", "class": "test_decoding:Color", "name": "OLD", "value": "red"}, types) is Color.RED


def test_a_decode_of_a_users_own_that_fails_gives_the_data() -> None:
    """A registered decode that raises does not stop the reading of the rest."""
    types = TypeRegistry()
    types.register(Key, encode=lambda key: key.name, decode=lambda data: 1 / 0)
    stored = encode([Key("a"), 1], types).stored
    with pytest.warns(UnreadableValue, match="division by zero"):
        assert decode(stored, types) == ["a", 1]


# -- damaged and hostile tags ------------------------------------------------------------------------------------------

DAMAGED: list[dict[str, Any]] = [
    {"$type": "int"},
    {"$type": "int", "value": 5},
    {"$type": "int", "value": "1_000"},
    {"$type": "int", "value": " 1"},
    {"$type": "int", "value": "٣"},
    {"$type": "int", "value": "9" * 10**7},
    {"$type": "int", "hex": "ff"},
    {"$type": "float", "value": "NaN"},
    {"$type": "float", "value": 1.5},
    {"$type": "float", "value": []},
    {"$type": "str", "escaped": 1},
    {"$type": "bytes", "base64": "no!"},
    {"$type": "bytes", "base64": None},
    {"$type": "decimal", "value": "one"},
    {"$type": "decimal", "value": 1.5},
    {"$type": "decimal", "value": "1E+99999999999999999999"},
    {"$type": "fraction", "numerator": 1, "denominator": 0},
    {"$type": "fraction", "numerator": "1", "denominator": 2},
    {"$type": "complex", "real": "1", "imag": 0.0},
    {"$type": "date", "value": "2026-13-01"},
    {"$type": "date", "value": 5},
    {"$type": "datetime", "value": "2026-01-01T00:00:00", "zone": "Europe/Paris"},
    {"$type": "datetime", "value": "2026-01-01T00:00:00", "fold": 7},
    {"$type": "datetime", "value": "2026-01-01", "zone": {"$type": "zoneinfo", "key": "No/Where"}},
    {"$type": "zoneinfo", "key": "../../etc/passwd"},
    {"$type": "zoneinfo", "key": "Europe"},
    {"$type": "timezone", "offset_microseconds": 10**15},
    {"$type": "time", "value": "25:00"},
    {"$type": "timedelta", "days": 10**10, "seconds": 0, "microseconds": 0},
    {"$type": "timedelta", "days": 1.5, "seconds": 0, "microseconds": 0},
    {"$type": "uuid", "value": "x"},
    {"$type": "uuid", "value": "00000000-0000-0000-0000-000000000001", "is_safe": "maybe"},
    {"$type": "path", "kind": "Path", "value": "a"},
    {"$type": "path", "kind": "PurePosixPath", "value": ["a"]},
    {"$type": "tuple", "items": {"a": 1}},
    {"$type": "tuple"},
    {"$type": "set", "items": [[1]]},
    {"$type": "set", "items": [1, 1]},
    {"$type": "set", "items": "ab"},
    {"$type": "deque", "items": [1, 2], "maxlen": 1},
    {"$type": "deque", "items": [1], "maxlen": -1},
    {"$type": "dict", "items": [[1]]},
    {"$type": "dict", "items": [["a", 1], ["a", 2]]},
    {"$type": "dict", "items": [[[1], 2]]},
    {"$type": "dict", "items": ["ab"]},
    {"$type": "dict", "items": {"a": 1}},
    {"$type": "counter", "items": [[{}, 2]]},
    {"$type": "defaultdict", "factory": "eval", "items": []},
    {"$type": "defaultdict", "factory": ["list"], "items": []},
    {"$type": "range", "start": 0, "stop": 1, "step": 0},
    {"$type": "constant", "name": "exit"},
    {"$type": "enum"},
    {"$type": "enum", "class": 5, "value": 1},
    {"$type": "dataclass", "class": "a:B", "fields": [1]},
    {"$type": "exception", "class": "builtins:ValueError", "args": 5},
    {"$type": "opaque"},
    {"$type": "opaque", "class": 1, "repr": "x"},
    {"$type": "deep"},
    {"$type": "deep", "parts": []},
    {"$type": "deep", "parts": 5},
    {"$type": "deep", "parts": [{"$type": "part", "index": 0}]},
    {"$type": "deep", "parts": [[{"$type": "part", "index": 1}], [{"$type": "part", "index": 0}]]},
    {"$type": "deep", "parts": [[{"$type": "part", "index": 1}, {"$type": "part", "index": 1}], [2]]},
    {"$type": "deep", "parts": [[{"$type": "part", "index": True}], [2]]},
    {"$type": "part", "index": 0},
    {"$type": "deep", "parts": [{"$type": "part", "index": 10**9}]},
    {"$type": "from the future", "value": 1},
    {"$type": None},
    {"$type": ["tuple"]},
    {"$type": {"a": 1}, "items": [1]},
]


@pytest.mark.parametrize("stored", DAMAGED, ids=lambda stored: json.dumps(stored)[:60])
def test_a_damaged_or_unknown_tag_comes_back_as_it_is(stored: dict[str, Any]) -> None:
    """Wrong fields, wrong types, absurd numbers, unknown kinds: the tag itself is handed out, with a warning."""
    before = json.dumps(stored)
    with pytest.warns(UnreadableValue):
        back = decode({"a": [stored], "b": {"$type": "tuple", "items": [1]}})
    assert back["b"] == (1,)
    if stored["$type"] != "deep":
        assert back["a"][0] is stored
    assert json.dumps(stored) == before


def test_what_cannot_be_built_from_an_exceptions_arguments_is_plain_data() -> None:
    """A builtin exception whose arguments do not fit it comes back as data, not as a crash."""
    stored = {"$type": "exception", "class": "builtins:UnicodeDecodeError", "args": [1]}
    with pytest.warns(UnreadableValue, match="cannot be built"):
        assert decode(stored) == {"class": "builtins:UnicodeDecodeError", "args": (1,), "state": {}}


def test_user_data_that_looks_like_a_tag_comes_back_as_it_was() -> None:
    """Whatever a user puts under the key "$type" is data, also when it is a tag of ours, to any depth."""
    for tag in [*DAMAGED[:20], {"$type": "tuple", "items": [1]}, {"$type": "dict", "items": [["$type", 1]]}]:
        value: Any = {"a": [tag], "$type": tag}
        back = value
        for _ in range(3):
            back = decode(loads(encode_bytes(back)[0]))
            assert back == value
        once = encode(tag).stored
        assert decode(encode(once).stored) == once


def test_a_file_nested_to_the_parsers_limit_is_read() -> None:
    """A thousand levels, plain or of tags, need no stack."""
    plain = loads("[" * 1024 + "]" * 1024)
    assert decode(plain) is plain
    tags = loads('{"$type": "tuple", "items": [' * 500 + "]}" * 500)
    back = decode(tags)
    for _ in range(499):
        assert type(back) is tuple
        back = back[0]
    assert back == ()


def test_parts_of_a_deep_value_are_put_together() -> None:
    """The parts of a value that was too deep refer to each other by index, later ones only."""
    stored = {"$type": "deep", "parts": [[{"$type": "part", "index": 1}, 1], {"k": {"$type": "part", "index": 2}}, [2]]}
    assert decode(stored) == [{"k": [2]}, 1]
    assert decode({"$type": "deep", "parts": [5]}) == 5
    inner = {"$type": "deep", "parts": [[{"$type": "part", "index": 1}], "inner"]}
    assert decode({"$type": "deep", "parts": [[{"$type": "part", "index": 1}, inner], "outer"]}) == ["outer", ["inner"]]


def test_a_path_of_another_system_comes_back_pure() -> None:
    """A concrete path of Windows, read elsewhere, is still a path of Windows."""
    stored = {"$type": "path", "kind": "WindowsPath", "value": "C:\\a"}
    assert isinstance(decode(stored), PureWindowsPath)
    assert isinstance(decode({"$type": "path", "kind": "PosixPath", "value": "/a"}), PurePosixPath)


def test_fields_that_a_newer_version_added_do_not_matter() -> None:
    """A known kind with more fields than this version writes is still read."""
    assert decode({"$type": "tuple", "items": [1], "note": "new"}) == (1,)
    assert decode({"$type": "uuid", "value": str(uuid.UUID(int=1)), "x": {"y": [1]}}) == uuid.UUID(int=1)


# -- anything at all ---------------------------------------------------------------------------------------------------

json_trees = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
KINDS = """
    int float str bytes decimal fraction complex datetime date time timedelta timezone zoneinfo uuid path tuple set
    frozenset deque dict ordereddict counter defaultdict range slice constant class enum namedtuple subclass dataclass
    model exception object registered deep part opaque
"""
FIELDS = """
    value hex escaped base64 items maxlen numerator denominator real imag zone fold key start stop step name class
    fields fields_set extra private args state cause parts index repr kind factory offset_microseconds
"""
kinds = st.sampled_from(KINDS.split())
fields = st.sampled_from(FIELDS.split())
registered_names = st.sampled_from(["value_examples:Order", "value_examples:Color", "value_examples:Model", "celsius"])
hostile = st.recursive(
    json_trees | registered_names,
    lambda inner: st.builds(
        lambda kind, rest: {"$type": kind, **rest}, kinds, st.dictionaries(fields, inner | st.lists(inner), max_size=5)
    ),
    max_leaves=6,
)


@settings(max_examples=500, deadline=None)
@given(hostile)
def test_no_tree_can_break_decoding(stored: Any) -> None:
    """Any JSON at all is read without an error, and read alike twice."""
    before = json.dumps(stored)
    back = without_warning(stored, types)
    assert json.dumps(stored) == before
    again = without_warning(loads(before), types)
    assert encode_bytes(back, types)[0] == encode_bytes(again, types)[0]


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """The stored form of a real value, with one place in it replaced or removed."""
    stored = loads(encode_bytes(draw(values), types)[0])
    places: list[tuple[Any, Any]] = []
    todo = [stored]
    while todo:
        node = todo.pop()
        if isinstance(node, dict | list):
            inside = list(node.items()) if isinstance(node, dict) else list(enumerate(node))
            places += [(node, key) for key, _ in inside]
            todo += [item for _, item in inside]
    if places:
        where, key = draw(st.sampled_from(places))
        if draw(st.booleans()):
            where[key] = draw(json_trees)
        else:
            del where[key]
    return stored


@settings(max_examples=300, deadline=None)
@given(damaged())
def test_no_damage_can_break_decoding(stored: Any) -> None:
    """A file that was damaged in one place is read without an error."""
    without_warning(stored, types)
    without_warning(stored)


def test_ordered_and_counted_mappings_keep_their_kind_when_empty() -> None:
    """Nothing in them is no reason to become a plain dict."""
    for value in (OrderedDict(), collections.Counter(), collections.defaultdict(list), set(), frozenset(), ()):
        back = decode(encode(value).stored)
        assert type(back) is type(value)
        assert back == value
