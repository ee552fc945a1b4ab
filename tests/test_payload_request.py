"""Making a request out of Python values, and finding what of it the payload does not have."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.frozen import FrozenDict
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.payload import apply_change, build_request, missing_leaves

NEW, UPDATE, REPLACE, REMOVE = "newElements", "updateElements", "replaceElements", "removeElements"


def test_only_what_is_given_is_in_the_request() -> None:
    """A request has the sections that were named, and the values themselves."""
    value = {"b": [1]}
    request = build_request(new=value, reason="because")
    assert request == {"newElements": {"b": [1]}, "reasoning": "because"}
    assert request["newElements"] is value
    assert build_request() == {}
    assert build_request(update={}, replace={"a": None}) == {"updateElements": {}, "replaceElements": {"a": None}}


@pytest.mark.parametrize(
    ("remove", "section"),
    [
        ("a", {"a": "__DELETE__"}),
        (["a", "b.c"], {"a": "__DELETE__", "b.c": "__DELETE__"}),
        (("/a/b", "/a/c/0", "d"), {"a": {"b": "__DELETE__", "c": {"0": "__DELETE__"}}, "d": "__DELETE__"}),
        (["/a~1b/~0"], {"a/b": {"~": "__DELETE__"}}),
        (["/a/b", "a", "/a/c"], {"a": "__DELETE__"}),
        ({"a"}, {"a": "__DELETE__"}),
        ([], {}),
        ({"a": ["__DELETE__"]}, {"a": ["__DELETE__"]}),
        ([{}, "__DELETE__"], [{}, "__DELETE__"]),
        (["__DELETE__"], ["__DELETE__"]),
    ],
)
def test_what_to_remove_can_be_said_by_key_by_pointer_or_by_mark(remove: Any, section: Any) -> None:
    """Keys and pointers become marks in the shape of the payload; marks stay as they are."""
    assert build_request(remove=remove) == {"removeElements": section}


def changed(payload: Any, **change: Any) -> Any:
    """The payload of a run after one `context.change`."""

    @ar.agent("changing")
    def step(round_index: int, context: ar.Context) -> ar.Complete[Any]:
        return ar.Complete(context.change(**change))

    return step.run(payload, store=MemoryStore()).value


def test_a_merge_patch_of_none_makes_the_payload_none() -> None:
    """None is a merge patch, as RFC 7396 has it; for a section of a change request it means not given."""
    assert changed({"a": 1}, merge=None) is None
    assert changed({"a": 1}, new=None, update={"a": 2}, patch=None) == {"a": 2}
    with pytest.raises(UsageError, match="takes one form"):
        changed({"a": 1}, new=None)
    with pytest.raises(UsageError, match="takes one form"):
        changed({"a": 1}, new={"b": 1}, merge=None)


def test_a_change_that_would_do_nothing_is_a_usage_error() -> None:
    """What the payload is shaped like decides what a section may be; the raw form of a request is not looked at."""
    with pytest.raises(UsageError, match="new takes a dict shaped like the payload, not list"):
        changed({"a": 1}, new=[1])
    with pytest.raises(UsageError, match="update takes a list or a dict shaped like the payload, not str"):
        changed([1], update="x")
    assert changed([1], new=[2]) == [1, 2]
    assert changed({"a": 1}, request={"newElements": [1]}) == {"a": 1}


def test_pointers_remove_items_of_arrays() -> None:
    """A pointer into an array names the item by its index."""
    payload = {"l": [1, {"a": 2, "b": 3}, 4]}
    request = build_request(remove=["/l/1/a", "/l/2"])
    assert apply_change(payload, request).result == {"l": [1, {"b": 3}]}


@pytest.mark.parametrize("remove", ["/~x", ["/a", "/~"], 7])
def test_what_cannot_be_meant_is_a_usage_error(remove: Any) -> None:
    """A malformed pointer, or a number, is refused before anything is recorded."""
    with pytest.raises(UsageError, match="remove"):
        build_request(remove=remove)


@pytest.mark.parametrize("section", ["new", "update", "replace", "remove"])
def test_a_section_that_would_change_nothing_is_a_usage_error(section: str) -> None:
    """A text, or a list for a payload that is none, is refused by name; what the payload is shaped like is taken."""
    for value in ("x", 7, (1,), OrderedDict(a=1)) if section != "remove" else (OrderedDict(a=1),):
        with pytest.raises(
            UsageError, match=f"{section} takes a dict shaped like the payload, not {type(value).__name__}"
        ):
            build_request(**{section: value})
    with pytest.raises(UsageError, match=f"{section} takes a dict shaped like the payload, not list"):
        build_request(**{section: [{}]}, payload={"a": 1})
    assert list(build_request(**{section: [{}]}, payload=[1]).values()) == [[{}]]
    assert list(build_request(**{section: FrozenDict()}, payload=[1]).values()) == [{}]


@pytest.mark.parametrize(
    ("payload", "request_", "missing"),
    [
        # What was put where it was meant to be.
        ({"a": 1}, {UPDATE: {"a": 2}, NEW: {"b": {"c": [1]}}, REPLACE: {"d": {}}}, []),
        ({"a": {"x": 1}}, {UPDATE: {"a": {"x": "__DELETE__"}}, REMOVE: {"zz": "__DELETE__"}}, []),
        ({"l": [1, 2]}, {NEW: {"l": [{}, 3, None]}}, []),
        ({"l": [1, 2, 3, 4]}, {UPDATE: {"l": ["__DELETE__", {}, 9]}, REMOVE: {"l": {"3": "__DELETE__"}}}, []),
        ({"l": [1]}, {UPDATE: {"l": [9, {}, 3]}}, []),
        ({"l": [{"t": ["x", "y"]}]}, {REMOVE: {"l": [{"t": ["__DELETE__"]}]}}, []),
        ({"a": {"x": 1}}, {REMOVE: {"a": "__DELETE__"}, NEW: {"a": 3}}, []),
        ({"a": {"x": 1}}, {UPDATE: {"a": {}, "b": {}}}, []),
        ({"a": 1}, {"reasoning": "none", "stray": 1}, []),
        ({"a": 1}, {UPDATE: "text", NEW: None, REMOVE: 5}, []),
        # What was dropped.
        ({"o": {"a": 1}}, {UPDATE: {"o": [1, {"b": 2}]}}, ["/o/0", "/o/1/b"]),
        ({"l": [1]}, {UPDATE: {"l": {"a": 1, "7": 2}}}, ["/l/a", "/l/7"]),
        ({"o": {"a": 1}}, {NEW: {"o": None}}, ["/o"]),
        ({"o": {"a": 1}}, {NEW: {"o": [5]}}, ["/o/0"]),
        ({"o": {"a": 1}}, {UPDATE: {"o": []}}, ["/o"]),
        ({"l": [1]}, {UPDATE: {"l": {}}}, ["/l"]),
        ({"a": {"b.c": 1}}, {UPDATE: {"a": {"b.c": 2}}}, ["/a/b.c"]),
        ({"a": {"b.c": 1}}, {REMOVE: {"a": {"b.c": "__DELETE__"}}}, ["/a/b.c"]),
        ({"l": [{"a": 1, "b": 2}]}, {UPDATE: {"l": [{"a": 9}]}, REMOVE: {"l": [{"b": "__DELETE__"}]}}, ["/l/0/b"]),
        ({"a": 1}, {REMOVE: {"a": "_DELETE_"}}, ["/a"]),
        ({"a": 1}, {NEW: {"b": 1}, UPDATE: {"b": 2}}, ["/b"]),
        ({"a": 1}, {REPLACE: {"a": 2}, UPDATE: {"a": 3}}, ["/a"]),
        ({"a": 1}, {UPDATE: {"b": {"c": "__DELETE__"}}}, ["/b/c"]),
        ({"a/b": {"x": 1}}, {UPDATE: {"a/b": ["~"]}}, ["/a~1b/0"]),
    ],
)
def test_what_was_asked_for_and_is_not_there_is_found(payload: Any, request_: Any, missing: list[str]) -> None:
    """The pointers name the leaves of the request that the result lacks, in the request's order."""
    assert missing_leaves(request_, apply_change(payload, request_).result) == missing


@pytest.mark.parametrize(
    ("payload", "request_", "allowed", "missing"),
    [
        ({"a": {"b": 1}}, {UPDATE: {"a": {"b": 2}}}, ["a.b"], ["/a/b"]),
        ({"l": [{"v": 1}, {"v": 2}]}, {UPDATE: {"l": [{"v": 2}, {"w": 3}]}}, ["l"], ["/l/0/v", "/l/1/w"]),
        ({"a": 1}, {NEW: {"n": {"x": {}, "y": [], "z": 1}}}, [], ["/n/x", "/n/y", "/n/z"]),
        ({"a": {"b": 1}}, {REMOVE: {"a": {"b": "__DELETE__"}}}, [], ["/a/b"]),
        ({"a": {"b": 1}}, {REPLACE: {"a": {"b": 1, "c": [2]}}}, [], ["/a/c/0"]),
        ({"a": 1}, {UPDATE: {"b": {}}}, [], ["/b"]),
    ],
)
def test_what_was_denied_is_found(payload: Any, request_: Any, allowed: list[str], missing: list[str]) -> None:
    """Permissions are one more reason why a leaf is not there."""
    assert missing_leaves(request_, apply_change(payload, request_, allowed_paths=allowed).result) == missing


@pytest.mark.parametrize(("wanted", "found"), [(1, True), (1, 1.0), (None, {}), ({}, [])])
def test_a_leaf_of_another_type_is_not_the_leaf(wanted: Any, found: Any) -> None:
    """1, 1.0 and true are three values here as everywhere."""
    assert missing_leaves({REPLACE: {"a": wanted}}, {"a": found}) == ["/a"]


def test_a_removal_is_looked_for_where_deletions_moved_its_item() -> None:
    """After an item was deleted the next one is one place lower, and its parts are looked for there."""
    payload = {"l": [{"a": 1}, {"b": 2, "c": 3}]}
    request = {REMOVE: {"l": ["__DELETE__", {"b": "__DELETE__"}]}}
    assert apply_change(payload, request).result == {"l": [{"c": 3}]}
    assert missing_leaves(request, {"l": [{"c": 3}]}) == []
    assert missing_leaves(request, {"l": [{"b": 2, "c": 3}]}) == []
    assert missing_leaves({REMOVE: {"l": [{}, {"b": "__DELETE__"}]}}, payload) == ["/l/1/b"]
