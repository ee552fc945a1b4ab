"""Setting a value at a place of a payload: by the path that differences have, whatever it is in."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.hashes import same
from agentreplay.recorder.leaves import live_tree, take
from agentreplay.recorder.payload import apply_change
from agentreplay.recorder.values import encode, is_tag
from agentreplay.replay.changes import MISSING
from agentreplay.replay.diff import diff_values
from agentreplay.replay.edits import Edits
from agentreplay.replay.places import place_of
from agentreplay.replay.placing import placed
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict
from test_insides import VALUES, Client, Hue, Purchase, Spot, edited, places, stored


class Open(BaseModel):
    """A model that takes any field."""

    model_config = ConfigDict(extra="allow")
    name: str = "Ada"


class Coded:
    """A class of the agent's that nobody registered, with attributes."""

    def __init__(self, n: int) -> None:
        self.n = n


@dataclass
class Around:
    inner: Any


def set_stored(payload: Any, path: str, value: Any) -> Any:
    return Edits(set={path: value}).apply(stored(payload), stored=True)


def set_live(payload: Any, path: str, value: Any) -> Any:
    """As a re-run does it, with the values that the agent has."""
    return live_tree(Edits(set={path: value}).apply(take(payload).tree))


def at(tree: Any, path: str) -> Any:
    place = place_of(path, tree)
    return MISSING if place is None else place.nodes[-1]


# -- laws ------------------------------------------------------------------------------------------------------------


@given(VALUES, st.data())
def test_a_value_is_set_at_any_place_that_a_payload_has(value: Any, data: st.DataObject) -> None:
    """It is there afterwards, and nothing else is another; for stored values and for a user's own."""
    payload = {"p": value}
    path, _ = data.draw(st.sampled_from([*places(payload)][1:]))
    assume("$type" not in path.split("/"))
    before, new = stored(payload), 987_654
    after = set_stored(payload, path, new)
    assert at(after, path) == new
    for change in diff_values(before, after, inside_tags=True):
        assert change.path == path or change.path.startswith(f"{path}/") or change.kind == "replace"
    for other, there in places(payload):
        if not f"{path}/".startswith(f"{other}/") and not other.startswith(f"{path}/"):
            assert same(at(after, other), stored(there))
    assert same(stored(set_live(payload, path, new)), after)


@given(VALUES, st.data())
def test_what_is_there_is_set_without_a_change(value: Any, data: st.DataObject) -> None:
    """So setting touches nothing but its place: not the class, nor the order, nor what else there is."""
    payload = {"p": value}
    path, there = data.draw(st.sampled_from([*places(payload)]))
    after = set_stored(payload, path, there)
    assert same(after, stored(payload))
    assert same(stored(set_live(payload, path, there)), stored(payload))


@given(VALUES, st.randoms(use_true_random=False))
def test_the_path_of_a_difference_is_one_to_set(value: Any, chance: Any) -> None:
    """What became another value, set where the difference names it, is what it became."""
    before, after = {"p": edited(value, chance)}, {"p": value}
    for change in diff_values(stored(before), stored(after), inside_tags=True):
        if change.kind == "replace" and at(stored(before), change.path) is not MISSING:
            operation = placed(stored(before), change.path, change.new, stored=True)
            made = apply_change(stored(before), [operation], "json-patch", stored=True).result
            assert same(at(made, change.path), change.new)


# -- what comes of it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        (Purchase(1, [1]), "/n", 2, Purchase(2, [1])),
        (Purchase(1, [1]), "/lines/0", 2, Purchase(1, [2])),
        (Purchase(1, [1]), "/lines/-", 2, Purchase(1, [1, 2])),
        (Around(Around((1, {2: Purchase(1, [])}))), "/inner/inner/1/2/n", 5, Around(Around((1, {2: Purchase(5, [])})))),
        ((1, 2), "/1", 3, (1, 3)),
        ((1, 2), "/2", 3, (1, 2, 3)),
        (deque([1], 2), "/-", 2, deque([1, 2], 2)),
        ({1: "a", 2: "b"}, "/2", "c", {1: "a", 2: "c"}),
        ({1: "a"}, "/new", "b", {1: "a", "new": "b"}),
        ({1: "a", "1": "b"}, "/1", "c", {1: "a", "1": "c"}),
        ({1: "a", "1": "b"}, "/int(1)", "c", {1: "c", "1": "b"}),
        ({date(2026, 1, 2): 1}, "/2026-01-02", 2, {date(2026, 1, 2): 2}),
        ({Hue.RED: 1}, "/red", 2, {Hue.RED: 2}),
        (OrderedDict(a=1, b=2), "/a", 3, OrderedDict(a=3, b=2)),
        (defaultdict(list, a=1), "/b", 2, defaultdict(list, a=1, b=2)),
        (Counter(a=1), "/a", 2, Counter(a=2)),
        (Spot(1, 2), "/y", 3, Spot(1, 3)),
        (Spot(1, 2), "/1", 3, Spot(1, 3)),
        (Client(name="Ada"), "/name", "Bob", Client(name="Bob")),
        (Open(), "/since", 2026, Open(since=2026)),  # type: ignore[call-arg]  # it takes any
        ({"$type": "Order", "n": 1}, "/n", 2, {"$type": "Order", "n": 2}),
        ({"n": 1}, "/$type", "Order", {"n": 1, "$type": "Order"}),
        (Purchase(1, [1]), "/n", Decimal("1.10"), Purchase(Decimal("1.10"), [1])),  # type: ignore[arg-type]  # as code may
    ],
)
def test_a_value_is_set_inside_of_what_it_is_in(before: Any, path: str, value: Any, after: Any) -> None:
    """By field, index or key; what it is in stays of its class."""
    assert same(set_stored({"o": before}, f"/o{path}", value), stored({"o": after}))
    made = set_live({"o": before}, f"/o{path}", value)["o"]
    assert type(made) is type(after)
    assert made == after
    assert same(stored(made), stored(after))
    assert same(stored(before), stored(before))


def test_the_payload_itself_may_be_what_a_value_is_set_in() -> None:
    """A dataclass as the payload."""
    assert set_live(Purchase(1, [1]), "/n", 2) == Purchase(2, [1])
    assert same(set_stored(Purchase(1, [1]), "/n", 2), stored(Purchase(2, [1])))


def test_what_is_given_is_not_changed() -> None:
    """Neither the agent's objects nor those that a state shares."""
    order = Purchase(1, [1])
    payload = {"o": order, "rest": [order]}
    set_live(payload, "/o/lines/0", 2)
    assert order == Purchase(1, [1])
    before = stored(payload)
    after = set_stored(payload, "/o/n", 2)
    assert same(before, stored({"o": Purchase(1, [1]), "rest": [Purchase(1, [1])]}))
    assert is_tag(after["o"])


def test_the_patch_replaces_the_outermost_that_it_does_not_lead_into() -> None:
    """So the log of a re-run says the change in a form that any reader applies."""
    payload = {"a": [{"o": Purchase(1, [1])}]}
    assert placed(stored(payload), "/a/0/o/lines/0", 2, stored=True) == {
        "op": "replace",
        "path": "/a/0/o",
        "value": stored(Purchase(1, [2])),
    }
    assert placed({"a": [1]}, "/a/0", 2) == {"op": "replace", "path": "/a/0", "value": 2}
    assert placed({"a": [1]}, "/a/1", 2) == {"op": "add", "path": "/a/1", "value": 2}


@pytest.mark.parametrize(
    ("payload", "path", "why"),
    [
        ({"o": Purchase(1, [])}, "/o/total", "Purchase(n=1, lines=[]) at o has no such field; it has n, lines"),
        ({"o": Decimal("1.1")}, "/o/x", "Decimal('1.1') at o is one value; set that as a whole"),
        ({"o": {1, 2}}, "/o/0", "{1, 2} at o is one value; set that as a whole"),
        ({"o": (1, 2)}, "/o/5", "there is no object or list around it that has room for '5'"),
        ({"o": deque([1], 1)}, "/o/1", "is full"),
        ({"o": {1: 2}}, "/o/5/6", "has no key '5' on the way there"),
        ({"o": 5}, "/o/x", "there is no object or list around it, but 5 at o"),
        ({"o": [1]}, "/o/x/y", "the payload has nothing at 'x' on the way there"),
        ({"o": {"{a}": Decimal(1)}}, "/o/{a}/b", "Decimal('1') at o[\"{a}\"] is one value"),
        ({"o": {"x": object()}}, "/o/x/y", "one value"),
    ],
)
def test_a_place_that_there_is_not_says_what_there_is(payload: Any, path: str, why: str) -> None:
    """What it would be in, where that is, and what can be done instead."""
    with pytest.raises(UsageError) as told:
        set_stored(payload, path, 1)
    assert str(told.value).startswith(f"{path} cannot be set: ")
    assert why in str(told.value)


def test_what_cannot_be_made_anew_is_left_as_it_is() -> None:
    """A class that says how it is recorded and not how it is read: nothing stands in for it."""
    with pytest.raises(UsageError, match=r"cannot be set"):
        set_live({"o": (Coded(1), 2)}, "/o/0/n", 2)
    assert encode(Coded(1)).stored["$type"] == "opaque"
