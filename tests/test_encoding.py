"""Encoding survives any value: it never raises, never hangs, never runs the value's code, and says what it lost."""

from __future__ import annotations

import _thread
import asyncio
import dataclasses
import gc
import json
import socket
import sys
import threading
import weakref
from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from unittest.mock import MagicMock, Mock
from zoneinfo import ZoneInfo

import pydantic
import pydantic_core
import pytest
from agentreplay.recorder.values import (
    MAX_DEPTH,
    InStoredForm,
    Opaque,
    TypeRegistry,
    decode,
    dumps,
    encode,
    encode_bytes,
    freeze,
    is_plain,
    loads,
)


def opaque(cls: str, text: str) -> dict[str, str]:
    return {"$type": "opaque", "class": cls, "repr": text}


# -- hostile objects ---------------------------------------------------------------------------------------------------


class Trap:
    """Every hook an object has, and each raises."""

    def _spring(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the value's own code ran")

    __class__ = property(_spring)
    __eq__ = __ne__ = __hash__ = __bool__ = __len__ = __iter__ = __contains__ = __getitem__ = _spring
    __str__ = __format__ = __dir__ = __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __sizeof__ = _spring
    __getattribute__ = __getattr__ = __call__ = __enter__ = __next__ = __index__ = __int__ = __float__ = _spring
    keys = items = values = property(_spring)

    def __repr__(self) -> str:
        return "<Trap>"


class MetaTrap(type):
    def _spring(cls, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the metaclass's code ran")

    __eq__ = __hash__ = __instancecheck__ = __subclasscheck__ = __iter__ = __len__ = _spring
    __getattribute__ = _spring


class OfMetaTrap(metaclass=MetaTrap):
    def __repr__(self) -> str:
        return "<OfMetaTrap>"


class Repr:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


class Endless:
    def __repr__(self) -> str:
        return repr(self)


class Long:
    def __repr__(self) -> str:
        return "x" * 10_000_000


class Lying(str):
    """A str whose methods lie."""

    def __str__(self) -> str:
        return Lying("a lie")

    def isascii(self) -> bool:
        raise AssertionError

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


class LyingDict(dict[Any, Any]):
    def __iter__(self) -> Any:
        raise AssertionError

    keys = items = values = __len__ = __getitem__ = __iter__


class LyingOrderedDict(OrderedDict[Any, Any]):
    def __getitem__(self, key: Any) -> Any:
        raise AssertionError

    items = values = __getitem__


class LyingList(list[Any]):
    def __iter__(self) -> Any:
        raise AssertionError

    __len__ = __getitem__ = __iter__


UNSTORABLE: dict[str, tuple[Callable[[], Any], Any]] = {
    "trap": (Trap, opaque("test_encoding:Trap", "<Trap>")),
    "metaclass": (OfMetaTrap, opaque("test_encoding:OfMetaTrap", "<OfMetaTrap>")),
    "repr raises": (
        lambda: Repr(ValueError("no")),
        opaque("test_encoding:Repr", "<its repr raised builtins:ValueError>"),
    ),
    "repr exits": (lambda: Repr(SystemExit(3)), opaque("test_encoding:Repr", "<its repr raised builtins:SystemExit>")),
    "endless repr": (Endless, opaque("test_encoding:Endless", "<its repr raised builtins:RecursionError>")),
    "long repr": (Long, opaque("test_encoding:Long", "x" * 1000 + "…")),
    "function": (lambda: len, opaque("builtins:builtin_function_or_method", "<built-in function len>")),
    "lock": (_thread.allocate_lock, opaque("_thread:lock", "<unlocked _thread.lock object at 0x…>")),
    "object": (object, opaque("builtins:object", "<object object at 0x…>")),
    "module": (lambda: sys, opaque("builtins:module", "<module 'sys' (built-in)>")),
    "memoryview": (lambda: memoryview(b"a"), opaque("builtins:memoryview", "<memory at 0x…>")),
    "generic": (lambda: list[int], opaque("types:GenericAlias", "list[int]")),
    "user's dict": (lambda: UserDict(a=1), opaque("collections:UserDict", "{'a': 1}")),
}


@pytest.mark.parametrize("kind", UNSTORABLE)
def test_what_cannot_be_stored_is_described(kind: str) -> None:
    """An object that has no stored form becomes a description, wherever it stands, and is listed as lossy."""
    make, stored = UNSTORABLE[kind]
    assert encode(make()) == (stored, ("",))
    assert encode({"a": [make()]}) == ({"a": [stored]}, ("/a/0",))
    assert encode((make(), 1)) == ({"$type": "tuple", "items": [stored, 1]}, ("/items/0",))


def test_subclasses_are_read_past_their_own_methods() -> None:
    """What a subclass of a builtin overrides is not called: the data is what the builtin holds."""
    assert encode(Lying("truth")).stored["value"] == "truth"
    assert encode(LyingDict(a=1)).stored["value"] == {"a": 1}
    assert encode(LyingList([1])).stored["value"] == [1]
    moved = LyingOrderedDict(a=1, b=2)
    moved.move_to_end("a")
    assert encode(moved).stored["value"] == {"$type": "ordereddict", "items": [["b", 2], ["a", 1]]}
    assert encode({Lying("$type"): 1}).stored["$type"] == "dict"


def test_properties_and_descriptors_are_not_evaluated() -> None:
    """Fields are read from where the instance keeps them; a property of the same name stays unasked."""
    asked = []

    @dataclasses.dataclass
    class Lazy:
        loaded: int

        def __getattribute__(self, name: str) -> Any:
            asked.append(name)
            return object.__getattribute__(self, name)

        @property
        def total(self) -> int:
            raise AssertionError

    value = Lazy(3)
    asked.clear()
    assert encode(value).stored["fields"] == {"loaded": 3}
    assert asked == []


def test_generators_and_iterators_are_not_consumed() -> None:
    """Recording a generator, a map or a file leaves it where it was."""
    generator = (item for item in [1, 2])
    iterator = iter([1, 2])
    assert encode([generator, iterator]).lossy == ("/0", "/1")
    assert list(generator) == [1, 2]
    assert list(iterator) == [1, 2]


def test_coroutines_are_not_awaited() -> None:
    """Recording a coroutine neither starts nor closes it."""

    async def answer() -> int:
        return 5

    coroutine = answer()
    assert encode(coroutine).lossy == ("",)
    assert asyncio.run(coroutine) == 5


def test_mocks_stay_what_they_are() -> None:
    """A mock with the class of a dict is neither a dict nor asked for anything."""
    mock = Mock(spec=dict)
    assert encode(mock).stored["class"] == "unittest.mock:Mock"
    assert mock.mock_calls == []
    assert encode(MagicMock()).lossy == ("",)


def test_a_keyboard_interrupt_gets_through() -> None:
    """Pressing Ctrl-C while an object describes itself stops the program, as it should."""
    with pytest.raises(KeyboardInterrupt):
        encode(Repr(KeyboardInterrupt()))


def test_two_runs_describe_equal_things_equally() -> None:
    """A description has no memory address in it, so requests that hold functions can be compared."""
    assert encode([object(), len]) == encode([object(), len])


def test_descriptions_are_clean_text() -> None:
    """A lone surrogate or a NUL in a `repr` does not break the log."""

    class Odd:
        def __repr__(self) -> str:
            return "\ud83d\0"

    assert json.loads(encode_bytes(Odd())[0])["repr"] == "\\ud83d\0"


def test_a_half_made_object_is_described() -> None:
    """Objects whose constructor never ran, or whose parts were deleted, do not raise."""
    broken = [
        object.__new__(type("Made", (), {"__slots__": ("a",)})),
        ZoneInfo.no_cache("Europe/Paris"),
        OSError.__new__(OSError),
        pydantic.BaseModel.__new__(type("Model", (pydantic.BaseModel,), {})),
        dataclasses.make_dataclass("D", ["a"]).__new__(dataclasses.make_dataclass("D", ["a"])),
    ]
    data, stored, _ = encode_bytes(broken)
    assert loads(data) == stored


# -- cycles, depth, repetition -----------------------------------------------------------------------------------------


def test_a_cycle_ends_in_a_description() -> None:
    """A value that contains itself is written once; where it meets itself again stands a description."""
    tree: dict[str, Any] = {"a": 1}
    tree["self"] = tree
    stored, lossy = encode(tree)
    assert stored == {"a": 1, "self": opaque("builtins:dict", "<contains itself>")}
    assert lossy == ("/self",)
    assert not is_plain(tree)
    assert encode(freeze([tree])).lossy != ()


def test_a_cycle_through_any_kind_of_value_ends() -> None:
    """Cycles through dataclasses, exceptions, attributes and many branches all end."""

    @dataclasses.dataclass
    class Node:
        parent: Any = None

    node = Node()
    node.parent = {"children": [node]}
    error = ValueError()
    error.args = (error,)
    error.__cause__ = error
    branches: list[Any] = []
    branches.extend([branches] * 50)
    for value in (node, error, branches, (branches, error)):
        assert encode(value).lossy != ()


def test_depth_is_no_limit() -> None:
    """Ten thousand containers within each other come back exactly, and the file stays readable by any parser."""
    tree: Any = "bottom"
    for level in range(10_000):
        tree = [tree] if level % 2 else {"k": tree, "n": level}
    data, stored, lossy = encode_bytes(tree)
    assert lossy == ()
    assert len(data) < 700_000
    assert json.loads(data) == stored
    back = decode(loads(data))
    for level in reversed(range(10_000)):
        assert type(back) is (list if level % 2 else dict)
        if level % 2:
            assert len(back) == 1
        else:
            assert list(back.items())[1] == ("n", level)
        back = back[0] if level % 2 else back["k"]
    assert back == "bottom"


def test_deep_tags_and_keys_come_back() -> None:
    """Depth is no limit for tuples, sets of frozen sets, and dicts with keys that are no strings either."""
    nested: Any = ()
    frozen: Any = frozenset()
    pairs: Any = {}
    for level in range(3_000):
        nested = (nested, level)
        frozen = frozenset([frozen])
        pairs = {level: pairs}
    back = decode(loads(encode_bytes([nested, frozen, pairs])[0]))
    for _ in range(3_000):
        assert (type(back[0]), type(back[1]), type(back[2])) == (tuple, frozenset, dict)
        back = [back[0][0], next(iter(back[1])), next(iter(back[2].values()))]
    assert back == [(), frozenset(), {}]


@pytest.mark.parametrize("depth", [1, 20, 21, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 253, 254, 255, 1024])
def test_every_depth_around_a_limit_comes_back(depth: int) -> None:
    """Up to `MAX_DEPTH` containers a value is plain; beyond it is stored in parts; it comes back either way."""
    tree: Any = [1]
    for _ in range(depth - 1):
        tree = [tree]
    assert is_plain(tree) == (depth <= MAX_DEPTH)
    data, _, lossy = encode_bytes({"a": tree} if depth > MAX_DEPTH else tree)
    assert lossy == ()
    back = decode(loads(data))
    tree, back = (tree, back["a"]) if depth > MAX_DEPTH else (tree, back)
    for _ in range(depth):
        assert len(back) == len(tree) == 1
        tree, back = tree[0], back[0]
    assert (tree, back) == (1, 1)


def test_shallow_parts_of_a_deep_value_stay_plain() -> None:
    """Only what is too deep becomes a tag; the rest of a payload can still be changed by path."""
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    stored = encode({"order": {"id": 7}, "deep": deep}).stored
    assert stored["order"] == {"id": 7}
    inner = stored["deep"]
    for _ in range(MAX_DEPTH - 1):
        inner = inner[0]
    assert inner["$type"] == "deep"


def test_values_that_multiply_when_written_out_are_cut() -> None:
    """Sixty lists that each hold the next twice would be 2**60 lists in JSON: the value is cut, and says so."""
    tree: Any = []
    for _ in range(60):
        tree = [tree, tree, (1,)]
    assert not is_plain(tree)
    data, stored, lossy = encode_bytes(tree)
    assert 10 < len(lossy) < 2000
    assert len(data) < 1_000_000
    found: Any = stored
    for key in lossy[0].split("/")[1:]:
        found = found[int(key)] if type(found) is list else found[key]
    assert found["repr"] == "<occurs too often to be written each time>"


def test_encoding_works_with_little_stack_left() -> None:
    """An agent that is deep in a recursion of its own can still be recorded."""
    value = {"a": [(1, {2: datetime(2026, 1, 1, tzinfo=UTC)})]}

    def descend() -> Any:
        try:
            return descend()
        except RecursionError:
            return encode_bytes(value)[1]

    assert descend() in (encode_bytes(value)[1], opaque("?", "<could not be read>"))


# -- while other things happen -----------------------------------------------------------------------------------------


def test_a_value_that_changes_meanwhile_does_not_raise() -> None:
    """Another thread that keeps changing a dict cannot break the recording of it."""
    changing: dict[Any, Any] = {"base": (1,)}
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            changing[f"k{number % 50}"] = [number]
            changing.pop(f"k{(number * 7) % 50}", None)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            data, _, lossy = encode_bytes(changing)
            assert lossy == ()
            assert loads(data)["base"] == {"$type": "tuple", "items": [1]}
    finally:
        stop.set()
        thread.join()


def test_nothing_converted_is_shared_with_the_value() -> None:
    """The agent may go on mutating what it handed over: the stored tree does not follow."""
    inner = {"a": [1]}
    value = (inner, {3: inner})
    stored = encode(value).stored
    before = dumps(stored)
    inner["a"].append(2)
    inner["b"] = 3
    assert dumps(stored) == before


def test_classes_are_not_kept_alive() -> None:
    """A program that makes a class at each step does not leak them into the recorder."""

    def one() -> weakref.ref[type]:
        cls = dataclasses.make_dataclass("Once", ["a"])
        encode(cls(1))
        return weakref.ref(cls)

    made = one()
    gc.collect()
    assert made() is None


def test_a_text_with_a_lone_surrogate_is_not_plain() -> None:
    """A text cut in the middle of an emoji, as a value or as a key, takes the exact way round."""
    value = {"tool": {"out": "ok \ud83d"}, "k\ud83d": [1]}
    assert not is_plain(value)
    data, stored, lossy = encode_bytes(value)
    assert lossy == ()
    assert encode(value).stored == stored
    assert decode(loads(data)) == value
    assert list(decode(loads(data))) == ["tool", "k\ud83d"]


def test_nan_within_a_text_is_just_text() -> None:
    """A stringified NaN, or JSON in a string, is a string like any other; a real NaN next to it is a tag."""
    value = {"raw": '{"a": NaN}', "v": float("inf")}
    assert encode(value).stored == {"raw": '{"a": NaN}', "v": {"$type": "float", "value": "inf"}}


def test_text_for_other_places_is_kept_as_it_is() -> None:
    """Markup, escapes and links in tool output are data; making them safe is the business of those who show them."""
    value = ["</script><script>", "\x1b[31mred", "javascript:alert(1)", "\u2028\0\x7f"]
    assert decode(loads(encode_bytes(value)[0])) == value


# -- what is lost, exactly ---------------------------------------------------------------------------------------------


def test_an_exception_with_an_unstorable_part_keeps_the_rest() -> None:
    """An error that carries a socket is stored with its message, and the socket's place is listed."""
    with socket.socket() as connection:
        error = ConnectionError("reset", connection)
        error.request = {"url": "/a", "lock": connection}  # as client libraries do
        stored, lossy = encode({"error": error})
    assert stored["error"]["args"][0] == "reset"
    assert stored["error"]["state"]["request"]["url"] == "/a"
    assert lossy == ("/error/args/1", "/error/state/request/lock")
    back = decode(stored)["error"]
    assert type(back) is ConnectionError
    assert back.args[0] == "reset"
    assert isinstance(back.args[1], Opaque)


def test_an_attribute_error_does_not_drag_its_object_along() -> None:
    """The object on which an attribute was missing is the agent's, and is not part of the error."""
    try:
        Long().missing  # noqa: B018  # that is the point
    except AttributeError as error:
        stored, lossy = encode(error)
    assert lossy == ()
    assert stored["state"] == {"name": "missing"}


def test_an_exception_of_c_code_with_hidden_parts_is_lossy() -> None:
    """What only C code can read of an exception is not stored, which is said; its message is kept."""

    class Strict(pydantic.BaseModel):
        number: int

    with pytest.raises(pydantic_core.ValidationError) as caught:
        Strict(number="no")  # that is the point
    stored, lossy = encode(caught.value)
    assert lossy == ("",)
    assert stored["class"] == "pydantic_core._pydantic_core:ValidationError"
    assert "valid integer" in stored["message"]


def test_a_factory_that_is_no_builtin_is_lossy() -> None:
    """The function of a defaultdict cannot be stored; its items are."""
    stored, lossy = encode({"d": defaultdict(lambda: 5, {1: 2})})
    assert stored["d"] == {"$type": "defaultdict", "factory": None, "lossy": True, "items": [[1, 2]]}
    assert lossy == ("/d",)
    assert decode(stored) == {"d": defaultdict(None, {1: 2})}


def test_a_time_zone_of_a_users_own_is_lossy() -> None:
    """A time zone that is neither fixed nor named cannot be stored; its code is not run to find out more."""

    class Moody(tzinfo):
        def utcoffset(self, moment: datetime | None) -> timedelta:
            raise AssertionError

        def __repr__(self) -> str:
            return "Moody()"

    stored, lossy = encode(datetime(2026, 1, 1, tzinfo=Moody()))
    assert stored["value"] == "2026-01-01T00:00:00"
    assert stored["zone"]["repr"] == "Moody()"
    assert lossy == ("/zone",)


def test_an_encode_of_a_users_own_that_fails_is_lossy() -> None:
    """A registered type whose encode raises, or returns what cannot be stored, breaks nothing."""
    types = TypeRegistry()
    types.register(Long, encode=lambda value: value.missing, decode=lambda data: data)
    types.register(Endless, encode=lambda value: [value, len], decode=lambda data: data)
    assert encode(Long(), types).lossy == ("",)
    stored, lossy = encode(Endless(), types)
    assert lossy == ("/value/0", "/value/1")
    assert stored["$type"] == "registered"


def test_a_tree_that_is_not_in_stored_form_is_not_written() -> None:
    """Something that claims to be in stored form and is not becomes a description instead of a broken file."""
    data, stored, lossy = encode_bytes([InStoredForm({"a": object()})])
    assert lossy == ("",)
    assert loads(data) == stored
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    assert encode_bytes({1: InStoredForm(deep)})[2] == ("",)


def test_sets_are_written_in_one_order() -> None:
    """The order of a set depends on the process; what is written does not."""
    names = {f"name-{number}" for number in range(50)}
    assert encode(names).stored["items"] == sorted(names)
    assert encode({frozenset(["b", "a"]), 10, 9, "9", (1,)}).stored["items"] == [
        "9",
        10,
        9,
        {"$type": "frozenset", "items": ["a", "b"]},
        {"$type": "tuple", "items": [1]},
    ]
