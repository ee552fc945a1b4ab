"""Likenesses: equal bytes mean equal values, types and order included."""

from __future__ import annotations

import enum
import math
from collections import OrderedDict
from typing import Any

import pytest
from agentreplay.recorder.hashes import same
from agentreplay.recorder.likeness import likeness
from agentreplay.recorder.plain import dumps
from hypothesis import given
from hypothesis import strategies as st

texts = st.sampled_from(["a", "b"]) | st.text(st.characters(codec="utf-8"), max_size=3)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
plain_json = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)


@given(plain_json, plain_json)
def test_what_is_alike_is_the_same(one: Any, other: Any) -> None:
    """Of any two plain values."""
    if likeness(one) == likeness(other):
        assert dumps(one) == dumps(other)
        assert same(one, other)


@given(plain_json)
def test_a_value_is_like_itself(value: Any) -> None:
    """As long as nobody changes it."""
    assert likeness(value) == likeness(value) is not None


class Colour(enum.StrEnum):
    """A text, and more than that."""

    RED = "red"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        (0, None),
        ([1], (1,)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ("1", 1),
        ("a", b"a"),
        (math.nan, None),
        ([[], []], [[[]]]),
        ("\ud800", "?"),
        (2**63, float(2**63)),
    ],
)
def test_what_differs_is_not_alike(one: Any, other: Any) -> None:
    """Also where `==` or JSON takes two values for one; at the top and inside."""
    assert likeness(one) != likeness(other)
    assert likeness({"x": [one]}) != likeness({"x": [other]})


@pytest.mark.parametrize("value", [Colour.RED, OrderedDict(a=1), object(), [Colour.RED], {"x": OrderedDict()}, len])
def test_what_is_no_plain_data_has_no_likeness(value: Any) -> None:
    """A class of one's own is never taken for what it is derived from."""
    assert likeness(value) is None


def test_what_is_very_deep_or_goes_round_has_no_likeness() -> None:
    """It is looked at otherwise; nothing breaks."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    round_: list[Any] = []
    round_.append(round_)
    assert likeness(deep) is likeness(round_) is None


def test_sharing_makes_no_difference() -> None:
    """What occurs twice is as if there were two of it."""
    part = {"a": [1]}
    assert likeness([part, part]) == likeness([{"a": [1]}, {"a": [1]}])
