"""The strict mode says what MemberJunction's rules do silently, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from agentreplay.recorder.payload import apply_change

NEW, UPDATE, REPLACE, REMOVE = "newElements", "updateElements", "replaceElements", "removeElements"


def strict_notes(payload: Any, request: Any, allowed_paths: list[str] | None = None) -> list[str]:
    plain = apply_change(payload, request, allowed_paths=allowed_paths)
    strict = apply_change(payload, request, allowed_paths=allowed_paths, strict=True)
    notes = [warning for warning in strict.warnings if warning.startswith("[strict] ")]
    assert strict.result == plain.result
    assert strict.applied == plain.applied
    assert strict.blocked_operations == plain.blocked_operations
    assert strict.warnings == [*plain.warnings, *notes]
    return [note.removeprefix("[strict] ") for note in notes]


@pytest.mark.parametrize(
    ("payload", "request_", "note"),
    [
        (
            {"items": [1, 2]},
            {UPDATE: {"items": {"a": 1}}},
            "updateElements gives an object for the array 'items'; 'a' in it was ignored",
        ),
        (
            {"items": [1, 2]},
            {UPDATE: {"items": {"1": 9, "5": 7}}},
            "updateElements gives an object for the array 'items'; '5' in it was ignored",
        ),
        ({"o": {"a": 1}}, {UPDATE: {"o": [1]}}, "updateElements gives an array for the object 'o'; it was ignored"),
        ({"o": {"a": 1}}, {UPDATE: {"o": []}}, "updateElements gives an array for the object 'o'; it was ignored"),
        ({"o": {"a": 1}}, {UPDATE: [1]}, "updateElements gives an array for the object the payload; it was ignored"),
        ({"s": {"x": 1}}, {NEW: {"s": [1]}}, "newElements gives an array for the object 's'; it was ignored"),
        (
            {"s": [1]},
            {NEW: {"s": {"0": 5}}},
            "newElements gives an object for the array 's'; '0' in it was ignored",
        ),
        ({"o": {"a": 1}}, {NEW: {"o": None}}, "newElements gives null for the object 'o'; it was ignored"),
        ({"s": [1]}, {NEW: {"s": None}}, "newElements gives null for the array 's'; null took its place"),
    ],
)
def test_a_change_of_kind_that_vanishes_is_noted(payload: Any, request_: Any, note: str) -> None:
    """An object for an array, an array for an object, and null for either."""
    assert strict_notes(payload, request_) == [note]


@pytest.mark.parametrize(
    ("payload", "request_", "place"),
    [
        ({"items": [1]}, {UPDATE: {"items": [9, "__DELETE__"]}}, "items.1"),
        ({"items": [1, 2]}, {UPDATE: {"items": ["__DELETE__", {}, {}, "__DELETE__"]}}, "items.1"),
        ({"a": 1}, {UPDATE: {"b": {"c": "__DELETE__", "d": 1}}}, "b.c"),
        ({"a": 1}, {REPLACE: {"a": "__DELETE__"}}, "a"),
        ({"a": 1}, {REPLACE: {"a": {"b": ["__DELETE__"]}}}, "a.b.0"),
        ({"a": 1}, {NEW: {"b": "__DELETE__"}}, "b"),
        ({"a": [1]}, {NEW: {"a": ["__DELETE__"]}}, "a.1"),
        ({"l": [[1]]}, {UPDATE: {"l": [["__DELETE__"]]}}, "l.0.0"),
        ({"l": [{"a": 1}]}, {UPDATE: {"l": [{"n": {"x": "__DELETE__"}}]}}, "l.0.n.x"),
    ],
)
def test_a_mark_that_becomes_a_value_is_noted(payload: Any, request_: Any, place: str) -> None:
    """`__DELETE__` where nothing reads it ends up in the payload, as a text."""
    assert strict_notes(payload, request_) == [
        f"'{place}' is now the text '__DELETE__'; nothing reads it as a deletion there"
    ]


@pytest.mark.parametrize(
    ("request_", "note"),
    [
        (
            {REMOVE: {"a": "_DELETE_"}},
            "/removeElements/a is '_DELETE_' with one underscore at each end; it deletes nothing",
        ),
        (
            {UPDATE: {"a": "_DELETE_"}},
            "/updateElements/a is '_DELETE_' with one underscore at each end; here it is an ordinary value",
        ),
        (
            {NEW: {"l": [{"b": "_DELETE_"}]}},
            "/newElements/l/0/b is '_DELETE_' with one underscore at each end; here it is an ordinary value",
        ),
        ({REMOVE: {"a": True}}, "/removeElements/a is not '__DELETE__', so it deletes nothing"),
    ],
)
def test_a_mark_that_is_none_is_noted(request_: Any, note: str) -> None:
    """Documentation elsewhere writes `_DELETE_`; models write true."""
    assert strict_notes({"a": 1}, request_) == [note]


def test_a_removal_beside_an_update_of_the_same_item_is_noted() -> None:
    """Of an array's item either parts are updated or parts are removed."""
    payload = {"l": [{"a": 1, "b": 2}]}
    request = {UPDATE: {"l": [{"a": 9}]}, REMOVE: {"l": [{"b": "__DELETE__"}]}}
    assert strict_notes(payload, request) == [
        "removeElements has an entry for 'l.0' beside the one in updateElements; it was ignored"
    ]


def test_entries_beside_a_replacement_are_noted() -> None:
    """A replacement wins over everything else that is said about its key."""
    request = {REPLACE: {"a": 2}, UPDATE: {"a": 3}, REMOVE: {"a": "__DELETE__"}}
    assert strict_notes({"a": 1}, request) == [
        "removeElements has an entry for 'a' beside the one in replaceElements; it was ignored",
        "updateElements has an entry for 'a' beside the one in replaceElements; it was ignored",
    ]


def test_a_replacement_that_reaches_further_than_it_says_is_noted() -> None:
    """A nested path in replaceElements replaces the whole top key."""
    assert strict_notes({"a": {"x": 1, "y": 2}}, {REPLACE: {"a": {"x": 9}}}) == [
        "replaceElements replaced 'a' as a whole; 'y' in it is gone"
    ]
    assert strict_notes({"a": {"x": 1}}, {REPLACE: {"a": {"x": 9, "y": 2}}}) == []


@pytest.mark.parametrize(
    ("payload", "request_", "allowed", "note"),
    [
        (
            {"a": {"b": 1}},
            {UPDATE: {"a": {"b": 2}}},
            ["a.b"],
            "'update' of 'a' was denied, and so was 'a.b' in it, which is allowed",
        ),
        (
            {"l": [{"v": 1}]},
            {UPDATE: {"l": [{"v": 2}]}},
            ["l"],
            "'update' of 'l.0.v' was asked for as 'v', counted from the item of the array, and denied",
        ),
        (
            {"l": [{"v": 1}]},
            {UPDATE: {"l": [{"v": 2}]}},
            ["l", "l.*"],
            "'update' of 'l.0.v' was asked for as 'v', counted from the item of the array, and denied; "
            "under its full path it is allowed",
        ),
        (
            {"l": [{"v": 1}]},
            {UPDATE: {"l": [{"v": 2}]}},
            ["l", "v"],
            "'update' of 'l.0.v' was asked for as 'v', counted from the item of the array, and allowed; "
            "under its full path it is not allowed",
        ),
        (
            {"l": [1, 2]},
            {REMOVE: {"l": ["__DELETE__"]}},
            ["nothing"],
            "'delete' of 'l.0' is not allowed, but was not checked and was done",
        ),
        (
            {"l": [1, 2]},
            {NEW: {"l": [3]}},
            ["nothing"],
            "'add' of 'l.2' is not allowed, but was not checked and was done",
        ),
        (
            {"a": 1},
            {UPDATE: {"a": "__DELETE__"}},
            ["nothing"],
            "'delete' of 'a' is not allowed, but was not checked and was done",
        ),
    ],
)
def test_a_hole_in_the_permissions_is_noted(payload: Any, request_: Any, allowed: list[str], note: str) -> None:
    """Permission that is asked for the wrong path, too early, or not at all."""
    assert strict_notes(payload, request_, allowed) == [note]


def test_stray_keys_that_became_data_are_noted() -> None:
    """A model's message inside the request is payload from then on."""
    assert strict_notes({"s": 1}, {"message": "done", "s": 2}) == [
        "'message' stands beside the sections of the request; its value was taken for payload data",
        "'s' stands beside the sections of the request; its value was taken for payload data",
    ]


@pytest.mark.parametrize(
    ("payload", "request_", "allowed"),
    [
        (
            {"a": {"x": 1, "y": [1, {"z": 2}]}},
            {UPDATE: {"a": {"x": 2, "y": [{}, {"z": 3}, 4]}}, NEW: {"n": {"k": [{}]}, "a": {"q": 1}}},
            None,
        ),
        ({"l": [1, 2, 3]}, {UPDATE: {"l": {"1": 9}}, REMOVE: {"l": {"0": "__DELETE__"}}}, None),
        ({"a": 1, "b": {"c": 2}}, {UPDATE: {"a": "__DELETE__", "b": {"c": "__DELETE__"}}}, ["*"]),
        ({"l": [{"v": 1}]}, {REMOVE: {"l": ["__DELETE__"]}, NEW: {"l": [2]}}, ["l:add,delete"]),
        ({"a": {"b": 1}}, {UPDATE: {"a": {"b": 2}}}, ["c"]),
        ({"a": 1}, {NEW: {"zz": 1}, UPDATE: {"zz": "__DELETE__"}}, None),
    ],
)
def test_an_ordinary_request_has_no_notes(payload: Any, request_: Any, allowed: list[str] | None) -> None:
    """What is done as it was meant needs no remark."""
    assert strict_notes(payload, request_, allowed) == []
