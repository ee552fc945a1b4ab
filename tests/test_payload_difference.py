"""The JSON Patch between two trees: exact, short, and cheap where the trees share."""

from __future__ import annotations

import copy
import time
from typing import Any

import jsonpatch
import pytest
from agentreplay.recorder.frozen import FrozenDict, FrozenList
from agentreplay.recorder.payload import LIVE_AS_STORED, STORED, apply_change, difference
from agentreplay.recorder.payload.trees import same


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"a": 1}, {"a": 2}, [{"op": "replace", "path": "/a", "value": 2}]),
        ({"a": None}, {}, [{"op": "remove", "path": "/a"}]),
        ({}, {"a": None}, [{"op": "add", "path": "/a", "value": None}]),
        (1, [1], [{"op": "replace", "path": "", "value": [1]}]),
        ({"a": [1]}, {"a": {"0": 1}}, [{"op": "replace", "path": "/a", "value": {"0": 1}}]),
        ({"a/b": {"~": 1}}, {"a/b": {"~": 2}}, [{"op": "replace", "path": "/a~1b/~0", "value": 2}]),
        ({"": 1}, {"": 2}, [{"op": "replace", "path": "/", "value": 2}]),
        ([1, 2, 3], [2, 3], [{"op": "remove", "path": "/0"}]),
        ([1, 2, 3], [1, 2], [{"op": "remove", "path": "/2"}]),
        ([1, 3], [1, 2, 3], [{"op": "add", "path": "/1", "value": 2}]),
        ([1], [1, 2, 3], [{"op": "add", "path": "/1", "value": 2}, {"op": "add", "path": "/2", "value": 3}]),
        ([1, 1], [1, 1, 1], [{"op": "add", "path": "/2", "value": 1}]),
        ([], [{}], [{"op": "add", "path": "/0", "value": {}}]),
        (
            [{"id": 1, "n": 1}, {"id": 2, "n": 1}, {"id": 3, "n": 1}],
            [{"id": 2, "n": 1}, {"id": 3, "n": 9}],
            [{"op": "remove", "path": "/0"}, {"op": "replace", "path": "/1/n", "value": 9}],
        ),
        (
            ["a", "b", "c", "d", "e"],
            ["x", "b", "c", "e", "y"],
            [
                {"op": "replace", "path": "/0", "value": "x"},
                {"op": "remove", "path": "/3"},
                {"op": "add", "path": "/4", "value": "y"},
            ],
        ),
        ([{"a": 1}], [{"b": 1}], [{"op": "replace", "path": "/0", "value": {"b": 1}}]),
        ([[1, 2], [3]], [[1, 2], [3, 4]], [{"op": "add", "path": "/1/1", "value": 4}]),
    ],
)
def test_a_difference_is_what_a_person_would_write(old: Any, new: Any, patch: list[dict[str, Any]]) -> None:
    """One operation for each thing that changed, as deep as it changed."""
    assert difference(old, new) == patch
    assert jsonpatch.apply_patch(old, patch) == new


@pytest.mark.parametrize(
    ("old", "new"),
    [(1, True), (True, 1), (1, 1.0), (0, False), (0.0, -0.0), (None, {}), ([], {}), ("1", 1), (0, None)],
)
def test_a_type_is_a_difference(old: Any, new: Any) -> None:
    """What Python takes for equal is told apart, by itself, in objects and in lists."""
    assert repr(difference(old, new)) == repr([{"op": "replace", "path": "", "value": new}])
    assert repr(difference({"a": old}, {"a": new})) == repr([{"op": "replace", "path": "/a", "value": new}])
    assert repr(difference([0, old, 0], [0, new, 0])) == repr([{"op": "replace", "path": "/1", "value": new}])
    assert same(old, new) is False


def test_a_tag_is_one_value() -> None:
    """Two tags that differ in a part are replaced, never patched inside."""
    old = {"w": {"$type": "datetime", "value": "2026-01-01"}}
    new = {"w": {"$type": "datetime", "value": "2026-01-02"}}
    assert difference(old, new, trees=STORED) == [{"op": "replace", "path": "/w", "value": new["w"]}]
    assert difference(old, copy.deepcopy(old), trees=STORED) == []
    assert difference(old, new) == [{"op": "replace", "path": "/w/value", "value": "2026-01-02"}]
    assert difference(old, new, trees=LIVE_AS_STORED) == [{"op": "replace", "path": "/w", "value": new["w"]}]


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({1: "a", "b": {2: 1, "c": 1}}, {1: "a", "b": {2: 1, "c": 2}}, [{"op": "replace", "path": "/b/c", "value": 2}]),
        (
            {"x": {1: "a", "b": 2}},
            {"x": {1: "z", "b": 2}},
            [{"op": "replace", "path": "/x", "value": {1: "z", "b": 2}}],
        ),
        ({"x": {1: "a"}}, {"x": {True: "a"}}, [{"op": "replace", "path": "/x", "value": {True: "a"}}]),
        ([{1: 0}, 5], [{1.0: 0}, 5], [{"op": "replace", "path": "/0", "value": {1.0: 0}}]),
        ({None: [1]}, {None: [1]}, []),
    ],
)
def test_a_dict_that_differs_at_a_key_without_a_path_is_replaced(old: Any, new: Any, patch: Any) -> None:
    """Keys that are no texts are in no JSON Pointer; they too are compared with their types."""
    assert repr(difference(old, new)) == repr(patch)
    assert repr(apply_change(old, patch, "json-patch").result) == repr(new)
    assert repr(apply_change(old, new, "replace").result) == repr(new)


def test_values_of_a_difference_are_those_of_the_new_tree() -> None:
    """Nothing is copied into the patch."""
    new = {"a": {"b": [1]}, "c": [{"d": 1}]}
    patch = difference({"c": []}, new)
    assert [operation["value"] for operation in patch] == [new["a"], new["c"][0]]
    assert patch[0]["value"] is new["a"]


def test_a_frozen_view_does_not_differ_from_its_tree() -> None:
    """Frozen containers are the same as plain ones."""
    tree = {"a": {"b": [1, {"c": 2}]}}
    frozen = FrozenDict(a=FrozenDict(b=FrozenList([1, FrozenDict(c=2)])))
    assert difference(tree, frozen) == difference(frozen, tree) == []
    assert difference(frozen, {"a": {"b": [1, {"c": 3}]}}) == [{"op": "replace", "path": "/a/b/1/c", "value": 3}]


class Peculiar:
    """A leaf that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("neither equal nor not")

    __hash__ = None  # type: ignore[assignment]


def test_a_leaf_that_cannot_be_compared_is_only_the_same_as_itself() -> None:
    """Live values may answer == with anything."""
    one, other = Peculiar(), Peculiar()
    assert difference([one], [one]) == []
    patch = difference([1, one, 2, 3], [other, 1, one, 3])
    assert apply_change([1, one, 2, 3], patch, "json-patch").result[0] is other


def test_not_a_number_is_itself() -> None:
    """A live payload may hold NaN, which is no change from NaN."""
    assert difference({"a": float("nan")}, {"a": float("nan")}) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (list(range(1500)), list(range(1499, -1, -1))),
        ([i % 2 for i in range(3000)], [i % 3 % 2 for i in range(2800)]),
        (list(range(50_000)), list(range(1, 50_001))),
        ([{"n": i % 7} for i in range(1200)], [{"n": i % 5} for i in range(1300)]),
    ],
    ids=["reversed", "two values", "long and shifted", "few shapes"],
)
def test_lists_that_are_hard_to_align_take_no_time(old: list[Any], new: list[Any]) -> None:
    """The effort is bounded; beyond it lists are compared by position, exactly all the same."""
    start = time.perf_counter()
    patch = difference(old, new)
    assert time.perf_counter() - start < 5
    assert apply_change(old, patch, "json-patch").result == new


def test_what_is_shared_is_not_looked_into() -> None:
    """Of two states the difference costs what they do not share."""
    shared = [{"n": Peculiar()} for _ in range(1000)]
    old = {"big": shared, "list": [*shared, 1, *shared], "x": {"y": 1}}
    new = {"big": shared, "list": [*shared, 2, *shared], "x": {"y": 2}}
    assert difference(old, new) == [
        {"op": "replace", "path": "/list/1000", "value": 2},
        {"op": "replace", "path": "/x/y", "value": 2},
    ]
