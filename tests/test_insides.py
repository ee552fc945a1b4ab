"""Blame, diff and patch find their way wherever the payload itself has something."""

from __future__ import annotations

import copy
import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from itertools import pairwise
from typing import Any, NamedTuple

import jsonpatch
import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.hashes import same
from agentreplay.recorder.payload import apply_change
from agentreplay.recorder.values import encode, register_type
from agentreplay.replay.blame import blame_of
from agentreplay.replay.diff import diff_states, diff_values, to_json_patch
from agentreplay.replay.insides import inside_of, named, opened
from agentreplay.replay.paths import escape, join
from agentreplay.replay.state import RunState
from event_builder import EventBuilder
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict


@dataclass
class Purchase:
    n: Any
    lines: Any


class Spot(NamedTuple):
    x: Any
    y: Any


class Client(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: Any
    tags: Any = None


class Hamper(dict[str, Any]):
    """A dict of a class of its own."""


class Hue(Enum):
    RED = "red"


for _cls in (Purchase, Spot, Client, Hamper, Hue):
    register_type(_cls)


TEXTS = st.sampled_from(["$type", "n", "items", "a/b", "~", "0", "id", "\ud800"]) | st.text(max_size=2)
ODD = st.sampled_from([7, None, True, 1.5, date(2026, 1, 2), Decimal("1.10"), (1, 2), Hue.RED])
LEAVES = st.sampled_from([None, 1, 1.0, True, "x", Decimal("1.1"), {1, 2}, frozenset(), b"b", float("inf"), 2**60, ""])


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    texts = st.dictionaries(TEXTS, inner, max_size=3)
    return st.one_of(
        texts,
        st.dictionaries(TEXTS | ODD, inner, max_size=3),
        texts.map(OrderedDict),
        texts.map(lambda items: defaultdict(list, items)),
        st.dictionaries(TEXTS | ODD, st.integers(0, 3), max_size=3).map(Counter),
        texts.map(Hamper),
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(deque),
        st.builds(Purchase, inner, inner),
        st.builds(Spot, inner, inner),
        st.builds(lambda name, more: Client.model_construct(name=name, more=more), inner, inner),
    )


VALUES = st.recursive(LEAVES, _containers, max_leaves=12)


def edited(value: Any, chance: random.Random) -> Any:
    """A value that differs from another here and there, of the same types nearly everywhere."""
    if chance.random() < 0.08:
        return chance.choice([None, 1, "new", (1, 2), {"$type": "tuple"}, OrderedDict(a=1)])
    if isinstance(value, Spot):
        return Spot(*[edited(item, chance) for item in value])
    if isinstance(value, list | tuple | deque):
        items = [edited(item, chance) for item in value if chance.random() > 0.1]
        if chance.random() < 0.3:
            items.insert(chance.randint(0, len(items)), chance.choice([7, {"id": 9}, {"$type": "x", "id": 3}]))
        if chance.random() < 0.2:
            chance.shuffle(items)
        return type(value)(items)
    if isinstance(value, Counter):
        return Counter({**value, "n": chance.randint(0, 3)})
    if isinstance(value, dict):
        made = {key: edited(item, chance) for key, item in value.items() if chance.random() > 0.1}
        if chance.random() < 0.2:
            made[chance.choice(["$type", "n", 7])] = chance.choice([1, []])
        return defaultdict(list, made) if isinstance(value, defaultdict) else type(value)(made)
    if isinstance(value, Purchase):
        return Purchase(edited(value.n, chance), edited(value.lines, chance))
    if isinstance(value, Client):
        return value.model_copy(update={"name": edited(value.name, chance)})
    return value


def stored(value: Any) -> Any:
    return encode(value).stored


def places(value: Any) -> Iterator[tuple[str, Any]]:
    """Each place of a payload as a user would write it, and what is there."""
    yield "", value
    inside: list[tuple[str, Any]] = []
    if isinstance(value, Spot | Purchase | Client):
        names = (
            value._fields
            if isinstance(value, Spot)
            else [field.name for field in fields(value)]
            if is_dataclass(value)
            else [*value.__dict__, *(value.model_extra or {})]
        )
        inside = [(name, getattr(value, name)) for name in names]
    elif isinstance(value, dict):
        texts = {key for key in value if isinstance(key, str)}
        for key, item in value.items():
            name = key if isinstance(key, str) else key.value if isinstance(key, Hue) else str(key)
            if isinstance(key, str) or name not in texts:
                inside.append((name, item))
    elif isinstance(value, list | tuple | deque):
        inside = [(str(at), item) for at, item in enumerate(value)]
    for name, item in inside:
        for path, found in places(item):
            yield f"/{escape(name)}{path}", found


def log_of(*payloads: Any) -> EventBuilder:
    """A run that starts with the first of the payloads and becomes the others, round by round."""
    log = EventBuilder(stored(payloads[0]), applier="replace")
    for payload in payloads[1:]:
        log.begin()
        log.change(stored(payload), "replace")
        log.end()
    return log


def states(a: Any, b: Any) -> tuple[RunState, RunState]:
    return RunState(stored_payload=stored(a)), RunState(stored_payload=stored(b))


# -- laws --------------------------------------------------------------------------------------------


@given(VALUES, st.randoms(use_true_random=False))
def test_blame_finds_a_path_wherever_the_payload_has_it(value: Any, chance: random.Random) -> None:
    """Into whatever is a container for a user, however it is stored; what is blamed leads to what is there."""
    log = log_of({"p": edited(value, chance)}, {"p": edited(value, chance)}, {"p": value})
    for path, there in places({"p": value}):
        found = blame_of(log.events, path)
        assert same(found[0].new, stored(there))
        for newer, older in pairwise(found):
            assert newer.old is older.new or same(newer.old, older.new)


@given(VALUES, st.randoms(use_true_random=False))
def test_the_patch_of_two_states_leads_from_one_payload_to_the_other(value: Any, chance: random.Random) -> None:
    """The payloads themselves, types included, for our applier and for the library that many use."""
    a, b = states({"p": value}, {"p": edited(value, chance)})
    patch = to_json_patch(diff_states(a, b))
    assert same(stored(apply_change(a.payload, patch, "json-patch").result), b.stored_payload)
    assert same(stored(jsonpatch.apply_patch(copy.deepcopy(a.payload), patch)), b.stored_payload)


@given(VALUES, st.randoms(use_true_random=False))
def test_the_patch_of_two_stored_trees_leads_from_one_to_the_other(value: Any, chance: random.Random) -> None:
    """Also where the changes are told inside of tags, which a patch for stored trees does not lead into."""
    a, b = stored({"p": value}), stored({"p": edited(value, chance)})
    changes = diff_values(a, b, inside_tags=True)
    assert same(apply_change(a, to_json_patch(changes), "json-patch", stored=True).result, b)
    assert (not changes) is same(a, b)


@given(VALUES, st.randoms(use_true_random=False))
def test_values_are_compared_as_they_are(value: Any, chance: random.Random) -> None:
    """A difference of two live payloads is told in the same places as that of the states that hold them."""
    a, b = {"p": (value,)}, {"p": (edited(value, chance),)}
    told, expected = diff_values(a, b), diff_states(*states(a, b))
    assert [(change.kind, change.path) for change in told] == [(change.kind, change.path) for change in expected]


# -- what is said ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ({"$type": "Order", "n": 1}, {"$type": "Order", "n": 2}, [("replace", "/o/n")]),
        ({"$type": "Order", "n": 1}, {"n": 1}, [("remove", "/o/$type")]),
        ({"n": 1}, {"$type": "Order", "n": 1}, [("add", "/o/$type")]),
        ({1: "a", "m": 1}, {1: "b", "m": 1}, [("replace", "/o/1")]),
        ({1: "a", "1": "a"}, {1: "b", "1": "a"}, [("replace", "/o/int(1)")]),
        ({Hue.RED: 1, (1, 2): 1}, {Hue.RED: 2, (1, 2): 2}, [("replace", "/o/red"), ("replace", "/o/(1, 2)")]),
        ({date(2026, 1, 2): 1}, {date(2026, 1, 2): 2}, [("replace", "/o/2026-01-02")]),
        (OrderedDict(a=1, b=1), OrderedDict(a=1, b=2), [("replace", "/o/b")]),
        (OrderedDict(a=1, b=1), OrderedDict(b=1, a=1), [("replace", "/o")]),
        (OrderedDict(a=1), {"a": 2}, [("replace", "/o")]),
        (defaultdict(list, a=1), defaultdict(list, a=1, b=2), [("add", "/o/b")]),
        (defaultdict(list, a=1), defaultdict(dict, a=1), [("replace", "/o")]),
        (Counter(a=1, b=2), Counter(b=3), [("replace", "/o/b"), ("remove", "/o/a")]),
        ((1, {"x": 1}), (1, {"x": 2}), [("replace", "/o/1/x")]),
        ((1, 2, 3), (1, 3), [("remove", "/o/1")]),
        ((1, 2), [1, 2], [("replace", "/o")]),
        (deque([1, 2], 5), deque([1, 3], 5), [("replace", "/o/1")]),
        (deque([1], 5), deque([2], 6), [("replace", "/o")]),
        (Spot(1, 2), Spot(1, 3), [("replace", "/o/y")]),
        (Purchase(1, [1]), Purchase(1, [1, 2]), [("add", "/o/lines/1")]),
        (Client(name="Ada"), Client(name="Bob"), [("replace", "/o/name")]),
        (Client(name="Ada", age=1), Client(name="Ada", age=2), [("replace", "/o/age")]),
        (Client(name="Ada"), Client(name="Ada", tags=None), [("replace", "/o")]),
        (Hamper(a=1), Hamper(a=2), [("replace", "/o/a")]),
        ({1, 2}, {1, 3}, [("replace", "/o")]),
        ([Purchase(1, [])], [Purchase(0, []), Purchase(1, [])], [("add", "/o/0")]),
        (
            [{"$type": "L", "id": 1, "n": 1}, {"$type": "L", "id": 2, "n": 1}],
            [{"$type": "L", "id": 2, "n": 2}, {"$type": "L", "id": 1, "n": 1}],
            [("move", "/o/0"), ("replace", "/o/0/n")],
        ),
    ],
)
def test_a_diff_says_where_in_a_container_something_changed(a: Any, b: Any, expected: list[tuple[str, str]]) -> None:
    """By key, by index or by field; as a whole where the types differ, or nothing else says how they do."""
    found = diff_states(*states({"o": a}, {"o": b}))
    assert [(change.kind, change.path) for change in found] == expected


def test_a_patch_leads_into_any_dict_and_replaces_other_containers() -> None:
    """A key `$type` is a key like any other for a patch of the payload; a tuple cannot be changed in part."""
    a = {"order": {"$type": "Order", "n": 1}, "pair": (1, Decimal("1.1")), "list": [Spot(1, 2)]}
    b = {"order": {"$type": "Order", "n": 2}, "pair": (1, Decimal("1.2")), "list": [Spot(1, 3)]}
    changes = diff_states(*states(a, b))
    assert [change.path for change in changes] == ["/order/n", "/pair/1", "/list/0/y"]
    assert to_json_patch(changes) == [
        {"op": "replace", "path": "/order/n", "value": 2},
        {"op": "replace", "path": "/pair", "value": (1, Decimal("1.2"))},
        {"op": "replace", "path": "/list/0", "value": Spot(1, 3)},
    ]


def test_the_changes_of_a_part_say_what_a_patch_replaces_in_it() -> None:
    """A change that is told of the whole is one inside of the same tuple there."""
    (change,) = diff_values({"t": (1, 2)}, {"t": (1, 3)})
    assert to_json_patch([change.under(("a", 0))]) == [{"op": "replace", "path": "/a/0/t", "value": (1, 3)}]


@pytest.mark.parametrize(
    ("payload", "path", "name"),
    [
        ({Hue.RED: 1}, "RED", "red"),
        ({Hue.RED: 1}, "Hue.RED", "red"),
        ({("a", 1): 1}, "('a', 1)", '("a", 1)'),
        ({Decimal("1.10"): 1}, "Decimal('1.10')", "1.10"),
        ({None: 1}, "None", "None"),
        ({None: 1}, "null", "None"),
        ({True: 1}, "true", "True"),
        (Spot(5, 6), "1", "y"),
    ],
)
def test_a_key_may_be_written_in_several_ways(payload: Any, path: str, name: str) -> None:
    """As it is shown, as Python writes it, as an enumeration calls it; an item of a named tuple also by its index."""
    assert named(stored(payload), path) == name
    log = log_of({"o": payload})
    assert [change.path for change in blame_of(log.events, join(("o", path)))] == [join(("o", name))]


def test_a_path_that_is_not_in_a_container_says_what_is_near() -> None:
    """Keys of a tagged value are corrected like those of any other."""
    log = log_of({"order": OrderedDict(total=1), "pair": (1, 2)})
    with pytest.raises(UsageError, match=r"no order\.totl .* did you mean order\.total\?"):
        blame_of(log.events, "order.totl")
    with pytest.raises(UsageError, match=r"no pair\[5\] .* did you mean pair\[1\]\?"):
        blame_of(log.events, "pair[5]")


def test_what_is_no_container_has_nothing_inside() -> None:
    """A set, a Decimal, a damaged tag: one value each. A tag of an unknown kind is handed out as the dict it is."""
    for value in ({1}, Decimal(1), b"x", Hue.RED, ValueError("x")):
        assert inside_of(stored(value)) is None
        assert named(stored(value), "items") is None
    for damaged in ({"$type": "tuple"}, {"$type": "tuple", "items": 1}, {"$type": "dict", "items": [1]}):
        assert opened(damaged) is None
    unknown = {"$type": "from tomorrow", "x": [1]}
    assert inside_of(unknown) is unknown
    assert inside_of({"$type": ["no", "kind"]}) == {"$type": ["no", "kind"]}


def test_an_item_of_a_tuple_is_followed_like_one_of_a_list() -> None:
    """What was put in front of it is no change of it, and neither is that the list became a tuple."""
    lamp, bulb = {"id": "lamp", "price": 95}, {"id": "bulb", "price": 17}
    log = log_of({"o": [lamp]}, {"o": (bulb, lamp)}, {"o": (bulb, {**lamp, "price": 90})})
    assert [(change.cause and change.cause.step, change.path) for change in blame_of(log.events, "o[1].price")] == [
        (2, "/o/1/price"),
        (0, "/o/0/price"),
    ]
