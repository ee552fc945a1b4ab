"""Two values are the same when their types are too, all the way down."""

from __future__ import annotations

import copy
import enum
import math
from decimal import Decimal
from typing import Any

import pytest
from agentreplay.recorder.values import encode, freeze
from agentreplay.replay.equality import differing, same, stored_tree, token
from hypothesis import given
from hypothesis import strategies as st

SCALARS: list[Any] = [None, True, False, 1, 0, 1.0, 0.0, -0.0, "1", "", "null", "0.0"]
TREES = st.recursive(
    st.sampled_from(SCALARS) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: {"k": [{"v": v}]}, lambda v: [v, "x" * 900]])
def test_no_two_scalars_are_the_same(wrap: Any) -> None:
    """`1`, `1.0` and `true`, `0.0` and `-0.0`, null and empty are apart, at any depth and beside any text."""
    for i, a in enumerate(SCALARS):
        for j, b in enumerate(SCALARS):
            assert same(wrap(a), copy.deepcopy(wrap(b))) is (i == j), (a, b)
            assert (token(wrap(a)) == token(copy.deepcopy(wrap(b)))) is (i == j), (a, b)


def test_the_order_of_keys_is_no_difference() -> None:
    """An object is its keys and values; a text as long as a page beside them changes nothing."""
    assert same({"a": 1, "b": [2.0]}, {"b": [2.0], "a": 1})
    assert same([{"t": "x" * 900, "b": 1}], [{"b": 1, "t": "x" * 900}])
    assert not same({"a": 1, "b": 2.0}, {"b": 2, "a": 1})
    assert not same([1, 2], [2, 1])


def test_null_is_not_missing() -> None:
    """A key that holds null is there."""
    assert not same({"a": None}, {})
    assert not same({"a": None, "b": 1}, {"b": 1, "c": None})


def test_a_tag_is_compared_like_any_tree() -> None:
    """A stored Decimal is the same only as the very same Decimal."""
    assert same({"$type": "decimal", "value": "1.10"}, {"$type": "decimal", "value": "1.10"})
    assert not same({"$type": "decimal", "value": "1.10"}, {"$type": "decimal", "value": "1.1"})


def test_a_tag_without_order_is_the_same_in_any_order() -> None:
    """The items of a set, and of an object whose keys are numbers, are compared as what they are."""
    for kind, a, b in (("set", 1, 2), ("dict", [1, "x"], [2, "y"])):
        one, other = {"$type": kind, "items": [a, b]}, {"$type": kind, "items": [b, a]}
        assert same(one, other)
        assert token(one) == token(other)
    assert not same({"$type": "set", "items": [1, 2]}, {"$type": "set", "items": [2.0, 1]})
    assert not same({"$type": "tuple", "items": [1, 2]}, {"$type": "tuple", "items": [2, 1]})


def test_values_of_other_types_are_compared_by_their_stored_form() -> None:
    """A decoded value and its stored form are the same; so are a payload and its frozen view."""

    class Color(enum.Enum):
        RED = 1

    assert same(Decimal("1.10"), encode(Decimal("1.10")).stored)
    assert not same([Decimal("1.10")], [Decimal("1.1")])
    assert same((1, 2), (1, 2))
    assert not same((1, 2), [1, 2])
    assert not same((1, 2), (1, 2.0))
    assert same(math.nan, math.nan)
    assert same(Color.RED, Color.RED)
    assert not same({1: "a"}, {"1": "a"})
    assert same(freeze({"a": [1, {"b": 2}]}), {"a": [1, {"b": 2}]})


def test_an_unruly_comparison_is_not_trusted() -> None:
    """A type whose `==` raises is compared by its stored form like any other."""

    class Unruly:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no")

        __hash__ = None  # type: ignore[assignment]  # as Python itself does for such a class

    assert same(Unruly(), Unruly()) is same(encode(Unruly()).stored, encode(Unruly()).stored)
    assert not same([Unruly(), 1], [Unruly(), 2])


def test_differing_positions_are_found_in_long_lists() -> None:
    """Of a thousand items that are equal but not shared, exactly the changed ones are named."""
    a: list[Any] = [{"n": n, "x": 1.0, "t": "text"} for n in range(1000)]
    b = copy.deepcopy(a)
    assert differing(a, b) == []
    b[0]["x"] = 1
    b[500]["n"] = True
    b[999]["t"] = "other"
    assert differing(a, b) == [0, 500, 999]
    assert differing(a, [*a[:700], None, *a[701:]]) == [700]


@given(TREES, TREES)
def test_same_agrees_with_a_plain_walk(a: Any, b: Any) -> None:
    """The fast answer is the one that comparing every node by hand gives."""

    def by_hand(x: Any, y: Any) -> bool:
        if type(x) is not type(y):
            return False
        if type(x) is dict:
            return x.keys() == y.keys() and all(by_hand(x[key], y[key]) for key in x)
        if type(x) is list:
            return len(x) == len(y) and all(map(by_hand, x, y))
        return repr(x) == repr(y)

    assert same(a, b) is by_hand(a, b)
    assert same(a, copy.deepcopy(a))
    assert (token(a) == token(b)) is by_hand(a, b)


@given(TREES)
def test_a_stored_tree_is_its_own_stored_form(tree: Any) -> None:
    """Nothing that is stored already is copied."""
    assert stored_tree(tree) is tree


def test_the_stored_form_reaches_every_leaf() -> None:
    """Tags stay as they are, and what is not stored yet becomes a tag where it stands."""
    tag = {"$type": "decimal", "value": "1.10"}
    tree = {"a": tag, "b": [Decimal("2.5"), 1], "c": [1]}
    stored = stored_tree(tree)
    assert stored == {"a": tag, "b": [{"$type": "decimal", "value": "2.5"}, 1], "c": [1]}
    assert stored["a"] is tag
    assert stored["c"] is tree["c"]
