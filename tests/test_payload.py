"""Applying payload change requests: what every applier promises, and what each of the four does."""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict
from datetime import datetime
from typing import Any

import pytest
from agentreplay.recorder.errors import ChangeRefused, UsageError
from agentreplay.recorder.frozen import FrozenDict, FrozenList
from agentreplay.recorder.payload import APPLIERS, LATEST, Permissions, analyze, apply_change

WHEN = {"$type": "datetime", "value": "2026-01-02T03:04:05"}
LATER = {"$type": "datetime", "value": "2026-06-07T08:09:10"}


def counts(additions: int = 0, updates: int = 0, deletions: int = 0) -> dict[str, int]:
    return {"additions": additions, "updates": updates, "deletions": deletions}


# -- what every applier promises ---------------------------------------------------------------------------------------


def test_appliers_are_named_and_versioned() -> None:
    """A log names the applier and its version, so both are part of the interface."""
    assert set(APPLIERS) == {"memberjunction", "json-patch", "merge-patch", "replace"}
    assert LATEST == {"memberjunction": 1, "json-patch": 1, "merge-patch": 1, "replace": 1}
    assert apply_change({"a": 1}, {"a": 2}, "merge-patch", version=1).result == {"a": 2}


def test_an_unknown_applier_is_named_with_those_there_are() -> None:
    """A misspelt applier is a usage error that lists the right spellings."""
    with pytest.raises(UsageError) as caught:
        apply_change({}, {}, "json_patch")
    assert "'json_patch'" in str(caught.value)
    assert "memberjunction, json-patch, merge-patch, replace" in str(caught.value)


def test_an_unknown_version_is_named_with_those_there_are() -> None:
    """A log from a newer agentreplay says which version it needs."""
    with pytest.raises(UsageError) as caught:
        apply_change({}, {}, version=7)
    assert str(caught.value) == "the applier 'memberjunction' has no version 7; this agentreplay has 1"


REQUESTS: list[tuple[str, Any]] = [
    ("memberjunction", {"updateElements": {"order": {"total": 12}}}),
    ("json-patch", [{"op": "replace", "path": "/order/total", "value": 12}]),
    ("merge-patch", {"order": {"total": 12}}),
    ("replace", {"order": {"total": 12, "lines": [1, {"sku": "x"}]}, "customer": {"name": "Ada"}, "notes": ["n"]}),
]


@pytest.mark.parametrize(("applier", "request_"), REQUESTS)
def test_what_does_not_change_stays_the_same_object(applier: str, request_: Any) -> None:
    """Only the containers on the way to the change are new; the payload itself is as it was."""
    payload = {"order": {"total": 10, "lines": [1, {"sku": "x"}]}, "customer": {"name": "Ada"}, "notes": ["n"]}
    outcome = apply_change(payload, request_, applier)
    assert outcome.result == {**payload, "order": {"total": 12, "lines": [1, {"sku": "x"}]}}
    assert outcome.result["customer"] is payload["customer"]
    assert outcome.result["notes"] is payload["notes"]
    assert outcome.result["order"]["lines"] is payload["order"]["lines"]
    assert payload["order"]["total"] == 10
    assert outcome.applied == counts(updates=1)
    assert outcome.applied_request is request_


@pytest.mark.parametrize(
    ("applier", "request_"),
    [
        ("memberjunction", {"reasoning": "nothing to do"}),
        ("memberjunction", {"updateElements": {"a": {}, "l": [{}, {}]}}),
        ("json-patch", []),
        ("json-patch", [{"op": "test", "path": "/a/b", "value": 1}]),
        ("merge-patch", {}),
        ("merge-patch", {"a": {"b": 1, "zz": None}}),
        ("replace", {"a": {"b": 1}, "l": [1, {"x": 2}]}),
    ],
)
def test_a_request_without_effect_returns_the_payload_itself(applier: str, request_: Any) -> None:
    """Nothing is copied where nothing changes."""
    payload = {"a": {"b": 1}, "l": [1, {"x": 2}]}
    outcome = apply_change(payload, request_, applier)
    assert outcome.result is payload
    assert outcome.applied == counts()


@pytest.mark.parametrize(("applier", "request_"), REQUESTS)
def test_a_frozen_view_is_read_like_the_payload(applier: str, request_: Any) -> None:
    """The payload an agent sees can be applied to; what is new in the result are plain containers."""
    frozen = FrozenDict(
        order=FrozenDict(total=10, lines=FrozenList([1, {"sku": "x"}])),
        customer=FrozenDict(name="Ada"),
        notes=FrozenList(["n"]),
    )
    result = apply_change(frozen, request_, applier).result
    assert result["order"]["total"] == 12
    assert result["customer"] is frozen["customer"]
    assert type(result) is dict
    assert type(result["order"]) is dict


@pytest.mark.parametrize(
    "leaf",
    [
        (1, 2),
        OrderedDict(b=1),
        Counter("aab"),
        datetime(2026, 1, 2),
    ],
    ids=["tuple", "OrderedDict", "Counter", "datetime"],
)
def test_a_leaf_is_put_as_a_whole(leaf: Any) -> None:
    """Whatever is no plain object or array is neither merged into nor merged from."""
    for old in (leaf, {"b": 2}, [3]):
        for section in ("updateElements", "replaceElements"):
            outcome = apply_change({"a": old, "c": 1}, {section: {"a": leaf}})
            assert outcome.result["a"] is leaf
    assert apply_change({"a": leaf}, {"updateElements": {"a": {"b": 3}}}).result == {"a": {"b": 3}}
    assert apply_change({"a": leaf}, {"a": {"b": 3}}, "merge-patch").result == {"a": {"b": 3}}
    assert apply_change({"a": {"b": 3}}, {"a": leaf}, "merge-patch").result["a"] is leaf


@pytest.mark.parametrize("tag", [WHEN, {"$type": "set", "items": [1]}, {"$type": "dict", "items": [[1, "a"]]}])
def test_a_tag_in_stored_form_is_a_leaf(tag: Any) -> None:
    """It is put as a whole, neither merged into nor merged from, and no path leads into it."""
    for section in ("updateElements", "newElements"):
        assert apply_change({"a": WHEN}, {section: {"a": LATER}}, stored=True).result == {"a": LATER}
        assert apply_change({"a": tag}, {section: {"a": {"b": 3}}}, stored=True).result == {"a": {"b": 3}}
        assert apply_change({"a": {"b": 3}}, {section: {"a": tag}}, stored=True).result["a"] is tag
    assert apply_change({"a": tag}, {"a": {"b": 3}}, "merge-patch", stored=True).result == {"a": {"b": 3}}
    assert apply_change({"a": {"b": 3}}, {"a": tag}, "merge-patch", stored=True).result["a"] is tag
    with pytest.raises(ChangeRefused, match="'/a' is one value, which has nothing below it"):
        apply_change({"a": tag}, [{"op": "remove", "path": "/a/items"}], "json-patch", stored=True)
    with pytest.raises(ChangeRefused, match="a memberjunction request is an object"):
        apply_change({"a": tag}, tag, stored=True)


def test_no_patch_makes_a_tag_in_stored_form() -> None:
    """A key `$type` that a path names would make a value of another kind out of an object."""
    patch = [{"op": "add", "path": "/a/$type", "value": "set"}]
    with pytest.raises(ChangeRefused, match=r"no object in stored form has the key '\$type'"):
        apply_change({"a": {"items": []}}, patch, "json-patch", stored=True)
    assert apply_change({"a": {}}, patch, "json-patch").result == {"a": {"$type": "set"}}


ORDER = {"$type": "order", "b": 2, "c": 3}


@pytest.mark.parametrize(
    ("payload", "request_", "applier", "result"),
    [
        ({"x": ORDER}, {"updateElements": {"x": {"b": 3}}}, "memberjunction", {"x": {**ORDER, "b": 3}}),
        ({"x": [ORDER]}, {"updateElements": {"x": [{"b": 3}]}}, "memberjunction", {"x": [{**ORDER, "b": 3}]}),
        ({"x": ORDER}, {"newElements": {"x": {"d": 4}}}, "memberjunction", {"x": {**ORDER, "d": 4}}),
        ({"x": ORDER}, {"removeElements": {"x": {"$type": "__DELETE__"}}}, "memberjunction", {"x": {"b": 2, "c": 3}}),
        ({"x": ORDER}, {"x": {"b": 3}}, "merge-patch", {"x": {**ORDER, "b": 3}}),
        ({"x": ORDER}, [{"op": "replace", "path": "/x/b", "value": 3}], "json-patch", {"x": {**ORDER, "b": 3}}),
        (
            {"x": ORDER},
            {"updateElements": {"x": {"$type": "tuple"}}},
            "memberjunction",
            {"x": {**ORDER, "$type": "tuple"}},
        ),
        (ORDER, {"newElements": {"d": 4}}, "memberjunction", {**ORDER, "d": 4}),
        (ORDER, {"c": None, "d": 4}, "merge-patch", {"$type": "order", "b": 2, "d": 4}),
        ({1: "a", "b": 2}, {"newElements": {"c": 3}}, "memberjunction", {1: "a", "b": 2, "c": 3}),
        ({1: "a", "b": 2}, {"e": 1}, "merge-patch", {1: "a", "b": 2, "e": 1}),
        ({1: "a", "b": 2}, {1: None, None: 3}, "merge-patch", {"b": 2, None: 3}),
        ({1: "a", "1": "b"}, [{"op": "replace", "path": "/1", "value": "c"}], "json-patch", {1: "a", "1": "c"}),
        (
            {1: {"q": [1, {2: 3}]}},
            {"updateElements": {1: {"q": [5, {2: 4}]}}},
            "memberjunction",
            {1: {"q": [5, {2: 4}]}},
        ),
        ({None: 1, (1, 2): 2}, {"removeElements": {(1, 2): "__DELETE__"}}, "memberjunction", {None: 1}),
        ({1.5: {"a": 1}}, {"replaceElements": {1.5: {"b": 2}}}, "memberjunction", {1.5: {"b": 2}}),
        ({1: {"l": [1]}}, {"newElements": {1: {"l": [2]}, b"k": 0}}, "memberjunction", {1: {"l": [1, 2]}, b"k": 0}),
        ({1: {"a": 1}}, {"updateElements": {1: {"a": "__DELETE__"}}}, "memberjunction", {1: {}}),
        ({1: "a"}, {"updateElements": {True: "b"}}, "memberjunction", {1: "b"}),
    ],
)
def test_a_live_dict_is_an_object_whatever_its_keys(payload: Any, request_: Any, applier: str, result: Any) -> None:
    """`$type` is a key like any other in it, and a key that is no text is found by itself."""
    assert repr(apply_change(payload, request_, applier, strict=True).result) == repr(result)


def test_no_path_leads_to_a_key_that_is_no_text() -> None:
    """The segment "1" of a JSON Pointer is the key "1"; the key 1 is not taken for it."""
    with pytest.raises(ChangeRefused, match="there is no '1' in the payload"):
        apply_change({1: "a"}, [{"op": "replace", "path": "/1", "value": "b"}], "json-patch")


def test_permissions_hold_below_keys_that_are_no_texts() -> None:
    """Such a key stands in a path by its `repr`, dots and brackets in it as underscores."""
    payload: dict[Any, Any] = {"m": {1: {"q": 1}, 1.5: {"q": 1}}}
    request = {"updateElements": {"m": {1: {"q": 2}, 1.5: {"q": 2}}}}
    outcome = apply_change(payload, request, allowed_paths=["m", "m.1.*"])
    assert outcome.result == {"m": {1: {"q": 2}, 1.5: {"q": 1}}}
    assert [blocked["path"] for blocked in outcome.blocked_operations] == ["m.1_5"]


class Unspeakable:
    """A key that says nothing of itself."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_a_key_that_cannot_be_shown_is_named_by_its_type() -> None:
    """Whatever a key is, a change of what is under it is carried out, and warnings can name it."""
    key = Unspeakable()
    outcome = apply_change({key: {"a": 1}}, {"updateElements": {key: {"a": 2}, "b": {key: "__DELETE__"}}}, strict=True)
    assert outcome.result == {key: {"a": 2}, "b": {key: "__DELETE__"}}
    assert any("'b.<Unspeakable>' is now the text" in warning for warning in outcome.warnings)


@pytest.mark.parametrize(
    ("request_", "applier"),
    [
        ({"updateElements": {"missing": "__DELETE__"}}, "memberjunction"),
        ({"updateElements": {"n": 1000, "t": "text", "f": 1.5, "l": [5000]}}, "memberjunction"),
        ([{"op": "replace", "path": "/f", "value": 1.5}], "json-patch"),
    ],
)
def test_what_comes_to_the_same_copies_nothing(request_: Any, applier: str) -> None:
    """Deleting what is not there, and putting an equal value of the same type, give back the payload itself."""
    payload = {"n": int("1000"), "t": "".join(["te", "xt"]), "f": float("1.5"), "l": [int("5000")]}
    assert apply_change(payload, request_, applier).result is payload


@pytest.mark.parametrize(("old", "new"), [(1, True), (True, 1), (1, 1.0), (1.0, 1), (0, False), (0.0, -0.0)])
def test_a_change_of_type_is_a_change(old: Any, new: Any) -> None:
    """Values that Python takes for equal are put in place of each other all the same."""
    requests: list[tuple[str, Any]] = [
        ("memberjunction", {"updateElements": {"a": new}}),
        ("json-patch", [{"op": "replace", "path": "/a", "value": new}]),
        ("merge-patch", {"a": new}),
        ("replace", {"a": new}),
    ]
    for applier, request in requests:
        outcome = apply_change({"a": old}, request, applier)
        assert repr(outcome.result) == repr({"a": new})
        assert outcome.applied == counts(updates=1)


@pytest.mark.parametrize("applier", ["memberjunction", "merge-patch", "replace", "json-patch"])
def test_a_tree_without_end_is_refused(applier: str) -> None:
    """A request deeper than the stack is an error of ours, not a crash."""
    deep: Any = 1
    for _ in range(100_000):
        deep = {"a": deep}
    request = {
        "memberjunction": {"updateElements": deep},
        "json-patch": [{"op": "test", "path": "/a", "value": deep["a"]}],
    }.get(applier, deep)
    other: Any = 2
    for _ in range(100_000):
        other = {"a": other}
    with pytest.raises(ChangeRefused, match="nested too deeply"):
        apply_change(other, request, applier)


def calls_of(function: Any) -> int:
    made = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal made
        made += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return made


@pytest.mark.parametrize(
    ("applier", "request_"),
    [
        ("memberjunction", {"updateElements": {"section7": {"field3": {"text": "new"}}}}),
        ("memberjunction", {"newElements": {"items": [1]}, "removeElements": {"section2": {"field1": "__DELETE__"}}}),
        ("json-patch", [{"op": "replace", "path": "/section7/field3/text", "value": "new"}]),
        ("merge-patch", {"section7": {"field3": {"text": "new"}}}),
    ],
)
def test_a_change_costs_its_path_and_not_the_payload(applier: str, request_: Any) -> None:
    """A payload a hundred times as large takes not one step more in Python."""

    def payload(size: int) -> dict[str, Any]:
        sections = {f"section{i}": {f"field{j}": {"text": "old"} for j in range(size)} for i in range(size)}
        return {**sections, "items": [{"n": i} for i in range(size)]}

    small, large = payload(10), payload(100)
    for value in (small, large):
        apply_change(value, request_, applier)  # so that paths are parsed already
    assert calls_of(lambda: apply_change(large, request_, applier)) == calls_of(
        lambda: apply_change(small, request_, applier)
    )


# -- memberjunction ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [None, [], "text", 3, OrderedDict(updateElements={})])
def test_a_memberjunction_request_is_an_object(request_: Any) -> None:
    """Anything else is refused, and the message says what was expected."""
    with pytest.raises(ChangeRefused, match="a memberjunction request is an object with newElements"):
        apply_change({"a": 1}, request_)


def test_a_stray_key_for_a_section_that_is_a_text_is_refused() -> None:
    """Where the original stops with an error about JavaScript's `in`, we say what is wrong with the request."""
    with pytest.raises(ChangeRefused) as caught:
        apply_change({}, {"newElements": "none", "status": "done"})
    assert "'status' beside its sections" in str(caught.value)
    assert "newElements is 'none'" in str(caught.value)


def test_the_request_is_corrected_in_a_copy() -> None:
    """Stray keys are moved in the request as applied; the request as sent stays as it was."""
    request = {"updateElements": {"a": {"x": 1}}, "a": {"x": 2, "y": 3}, "b": 4, "_note": 5}
    outcome = apply_change({"a": {}}, request)
    assert outcome.applied_request == {"updateElements": {"a": {"x": 1, "y": 3}}, "newElements": {"b": 4}, "_note": 5}
    assert request == {"updateElements": {"a": {"x": 1}}, "a": {"x": 2, "y": 3}, "b": 4, "_note": 5}


def test_a_stray_key_beside_an_array_is_kept_where_it_has_an_effect() -> None:
    """The request as applied, applied again, does the same, even where the original relies on what JSON cannot say."""
    request = {"updateElements": [1], "order": {"total": 12}}
    outcome = apply_change({"order": {"total": 10}}, request)
    assert outcome.result == {"order": {"total": 12}}
    assert apply_change({"order": {"total": 10}}, outcome.applied_request).result == outcome.result
    assert apply_change({"order": 1}, request).applied_request == {"updateElements": [1]}


def test_gaps_are_filled_from_a_stray_key_in_arrays_too() -> None:
    """Where both are containers the explicit value wins item by item; an array may become longer."""
    request = {
        "updateElements": {"a": {"l": [1], "m": {"1": "one"}}},
        "a": {"l": [5, 6], "m": ["zero", "x"], "n": None},
    }
    outcome = apply_change({"a": 0}, request)
    assert outcome.applied_request["updateElements"] == {"a": {"l": [1, 6], "m": {"1": "one", "0": "zero"}, "n": None}}


def test_a_dotted_key_is_found_by_a_path_too() -> None:
    """The original finds what it has to do by joined paths, so a nested request reaches a dotted key as well."""
    outcome = apply_change({"x": {"y": {"v": 1}}}, {"updateElements": {"x.y": {"v": 2}}})
    assert outcome.result == {"x": {"y": {"v": 1}}, "x.y": {"v": 2}}
    outcome = apply_change({"x": {"y": {"v": 1}}}, {"updateElements": {"x.y": {"v": "__DELETE__"}}})
    assert outcome.result == {"x": {"y": {}}, "x.y": {"v": "__DELETE__"}}
    outcome = apply_change({"x.y": {"v": 1}}, {"updateElements": {"x": {"y": {"v": 2}}}})
    assert outcome.result == {"x.y": {"v": 2}, "x": {"y": {"v": 2}}}


def test_keys_that_are_indexes_are_handled_first() -> None:
    """JavaScript orders such keys before all others, which shows in the order of the warnings."""
    outcome = apply_change({}, {"updateElements": {"b": 1, "10": 2, "2": 3, "01": 4}})
    assert [warning.split("'")[1] for warning in outcome.warnings] == ["2", "10", "b", "01"]


def test_a_length_is_counted_and_rounded_as_javascript_does() -> None:
    """Characters beyond the basic plane count twice, and a half per mille is rounded up."""
    outcome = apply_change({"t": "😀" * 80}, {"updateElements": {"t": "x" * 30}})
    assert outcome.warnings == ["[high] Content reduced by 81.3% (from 160 to 30 characters)"]


def test_a_text_that_did_not_change_is_never_a_placeholder() -> None:
    """Unlike the original, the analysis looks only at what the change touched."""
    note = "[" + "a long remark in brackets " * 3 + "]"
    assert apply_change({"note": note, "n": 1}, {"updateElements": {"n": 2}}).warnings == []
    assert [str(finding) for finding in analyze({"t": "x" * 51}, {"t": note})] == [
        "[medium] Complex content replaced with placeholder"
    ]


def test_an_item_that_moved_is_compared_with_what_stood_there() -> None:
    """The analysis compares arrays by position, after a deletion too."""
    payload = {"l": [{"a": 1}, [1, 2], {"b": 2, "c": 3}]}
    outcome = apply_change(payload, {"removeElements": {"l": ["__DELETE__", {}, {"b": "__DELETE__"}]}})
    assert outcome.result == {"l": [[1, 2], {"c": 3}]}
    assert outcome.warnings == [
        "[critical] 1 non-empty keys removed (100.0% reduction)",
        "[critical] 2 non-empty keys removed (100.0% reduction)",
    ]


def test_allowed_paths_are_a_list() -> None:
    """One text where a list is meant would allow its letters."""
    with pytest.raises(UsageError, match="not the text 'status'"):
        apply_change({}, {"newElements": {"a": 1}}, allowed_paths="status")


def test_an_allowed_path_that_is_no_pattern_refuses_the_change() -> None:
    """The original fails with a syntax error of its regular expressions; the message names the pattern."""
    with pytest.raises(ChangeRefused, match=r"the allowed path 'a\(b' cannot be matched"):
        apply_change({}, {"newElements": {"a": 1}}, allowed_paths=["a(b"])


@pytest.mark.parametrize(
    ("spec", "path", "allowed"),
    [
        ("items.*", "items[0].price", True),
        ("items.*.price", "items.0.price", True),
        ("items[0].price", "items[0].price", False),
        ("items[]", "items", False),
        ("items[^]", "itemsx", True),
        ("a$", "a", True),
        ("a|b", "ab", True),
        ("[[]x", "[x", True),
        ("[&&]", "&", True),
        ("a\\.b", "a.b", False),
        ("a.*", "a\nb", False),
    ],
)
def test_a_pattern_matches_as_a_javascript_expression(spec: str, path: str, allowed: bool) -> None:
    """Special characters mean what they mean there, in classes as well."""
    assert Permissions([spec]).allows(path, "update") is allowed


# -- json-patch --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "patch", "result", "applied"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": [1]}], {"a": 1, "b": [1]}, counts(additions=1)),
        ({"a": 1}, [{"op": "add", "path": "/a", "value": 2}], {"a": 2}, counts(updates=1)),
        ([1, 3], [{"op": "add", "path": "/1", "value": 2}], [1, 2, 3], counts(additions=1)),
        ([1], [{"op": "add", "path": "/1", "value": 2}], [1, 2], counts(additions=1)),
        ([1], [{"op": "add", "path": "/-", "value": 2}], [1, 2], counts(additions=1)),
        ({"a": 1}, [{"op": "add", "path": "", "value": [1]}], [1], counts(updates=1)),
        ({"a": 1}, [{"op": "replace", "path": "", "value": None}], None, counts(updates=1)),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}, counts(deletions=1)),
        (
            {"a/b": 1, "~": 2},
            [{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/~0"}],
            {},
            counts(deletions=2),
        ),
        ({"": 1}, [{"op": "replace", "path": "/", "value": 2}], {"": 2}, counts(updates=1)),
        ({"0": 1}, [{"op": "replace", "path": "/0", "value": 2}], {"0": 2}, counts(updates=1)),
        ({"-": 1}, [{"op": "remove", "path": "/-"}], {}, counts(deletions=1)),
        ({"a": {"x": 1}}, [{"op": "move", "from": "/a/x", "path": "/b"}], {"a": {}, "b": 1}, counts(1, 0, 1)),
        ({"a": 1, "b": 2}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}, counts(0, 1, 1)),
        ([1, 2, 3], [{"op": "move", "from": "/0", "path": "/2"}], [2, 3, 1], counts(1, 0, 1)),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}, counts()),
        ({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}, counts(additions=1)),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}, counts()),
        ({"w": WHEN}, [{"op": "test", "path": "/w", "value": WHEN}], {"w": WHEN}, counts()),
        ({"w": WHEN}, [{"op": "replace", "path": "/w", "value": LATER}], {"w": LATER}, counts(updates=1)),
        ({}, [{"op": "add", "path": "/a", "value": 1, "comment": "kept out"}], {"a": 1}, counts(additions=1)),
    ],
)
def test_a_json_patch_does_what_its_operations_say(
    payload: Any, patch: list[dict[str, Any]], result: Any, applied: dict[str, int]
) -> None:
    """RFC 6902, with the operations counted by what they did."""
    outcome = apply_change(payload, patch, "json-patch")
    assert repr(outcome.result) == repr(result)
    assert outcome.applied == applied


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ({"op": "remove", "path": "/b"}, "operation 1 (remove '/b'): there is no 'b' in the payload"),
        (
            {"op": "replace", "path": "/a/x/y", "value": 1},
            "(replace '/a/x/y'): '/a/x' is a number, which has nothing below it",
        ),
        ({"op": "add", "path": "/l/3", "value": 1}, "'3' is no place in the array '/l' of 2 items"),
        ({"op": "add", "path": "/l/01", "value": 1}, "'01' is no place in the array '/l' of 2 items"),
        ({"op": "remove", "path": "/l/-"}, "there is no item '-' in the array '/l' of 2 items"),
        ({"op": "remove", "path": "/l/2"}, "there is no item '2' in the array '/l' of 2 items"),
        ({"op": "remove", "path": ""}, "the payload as a whole cannot be removed"),
        ({"op": "move", "from": "/a", "path": "/a/x"}, "(move '/a/x' from '/a'): a value cannot be moved into itself"),
        ({"op": "move", "from": "/zz", "path": "/a"}, "there is no 'zz' in the payload"),
        ({"op": "copy", "from": "/l/9", "path": "/a"}, "there is no item '9' in the array '/l' of 2 items"),
        ({"op": "test", "path": "/a/x", "value": True}, "(test '/a/x'): expected True, found 1"),
        ({"op": "test", "path": "/a", "value": {"x": True}}, "expected {'x': True}, found {'x': 1}"),
        ({"op": "test", "path": "/a/x", "value": 1.5}, "expected 1.5, found 1"),
        ({"op": "test", "path": "/l", "value": [1]}, "expected [1], found [1, 'two']"),
        ({"op": "replace", "path": "/a/x/y", "value": 1}, "'/a/x' is a number, which has nothing below it"),
        ({"op": "add", "path": "/b"}, "'value' is missing"),
        ({"op": "add", "path": "b", "value": 1}, "'b' is no JSON Pointer"),
        ({"op": "add", "path": "/~2", "value": 1}, "'/~2' is no JSON Pointer"),
        ({"op": "add", "path": None, "value": 1}, "'path' must be a JSON Pointer, found None"),
        ({"op": "move", "path": "/a"}, "'from' must be a JSON Pointer, found None"),
        (
            {"op": "increment", "path": "/a"},
            "there is no such operation; there are add, remove, replace, move, copy, test",
        ),
        ({"path": "/a"}, "there is no such operation"),
        ("remove /a", "an operation is an object"),
    ],
)
def test_a_json_patch_is_refused_as_a_whole(operation: Any, said: str) -> None:
    """One impossible operation refuses all, and the message names it, its path and the reason."""
    payload = {"a": {"x": 1}, "l": [1, "two"], "w": WHEN}
    with pytest.raises(ChangeRefused) as caught:
        apply_change(payload, [{"op": "add", "path": "/first", "value": 1}, operation], "json-patch")
    assert str(caught.value).startswith("json-patch: operation 1 (")
    assert said in str(caught.value)
    assert payload == {"a": {"x": 1}, "l": [1, "two"], "w": WHEN}


@pytest.mark.parametrize(
    ("found", "expected"),
    [(1, 1.0), (1.0, 1), (0.0, -0.0), ({"a": [1, {"b": 2.0}]}, {"a": [1.0, {"b": 2}]}), (float("nan"), float("nan"))],
)
def test_a_test_takes_numbers_for_numbers(found: Any, expected: Any) -> None:
    """RFC 6902 takes two numbers for equal if they are numerically equal, however deep they stand."""
    payload = {"x": found}
    outcome = apply_change(payload, [{"op": "test", "path": "/x", "value": expected}], "json-patch")
    assert outcome.result is payload


def test_a_json_patch_is_a_list() -> None:
    """A single operation by itself is not taken for a patch."""
    with pytest.raises(ChangeRefused, match="a patch is a list of operations, not dict"):
        apply_change({}, {"op": "add", "path": "/a", "value": 1}, "json-patch")


def test_a_copy_is_a_value_of_its_own() -> None:
    """What is copied and what it was copied from change apart from then on, in one patch too."""
    patch = [
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/a/y", "value": 2},
        {"op": "add", "path": "/b/z", "value": 3},
    ]
    result = apply_change({"a": {}}, patch, "json-patch").result
    assert result == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "z": 3}}


def test_a_value_of_a_patch_is_not_written_to() -> None:
    """A later operation that changes what an earlier one added leaves the patch as it was."""
    patch = [{"op": "add", "path": "/a", "value": {"l": []}}, {"op": "add", "path": "/a/l/-", "value": 1}]
    assert apply_change({}, patch, "json-patch").result == {"a": {"l": [1]}}
    assert patch[0]["value"] == {"l": []}


# -- merge-patch -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "patch", "result", "applied"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}, counts(updates=1)),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, counts(additions=1)),
        ({"a": "b"}, {"a": None}, {}, counts(deletions=1)),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}, counts(deletions=1)),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}, counts(updates=1)),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}, counts(updates=1)),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, counts(updates=1)),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, counts(updates=1)),
        (["a", "b"], ["c", "d"], ["c", "d"], counts(updates=1)),
        ({"a": "b"}, ["c"], ["c"], counts(updates=1)),
        ({"a": "foo"}, None, None, counts(updates=1)),
        ({"a": "foo"}, "bar", "bar", counts(updates=1)),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}, counts(additions=1)),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}, counts(updates=1)),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, counts(additions=1)),
    ],
)
def test_a_merge_patch_does_what_its_standard_says(
    payload: Any, patch: Any, result: Any, applied: dict[str, int]
) -> None:
    """The examples of RFC 7396, with what really changed counted."""
    outcome = apply_change(payload, patch, "merge-patch")
    assert outcome.result == result
    assert outcome.applied == applied


# -- replace -----------------------------------------------------------------------------------------------------------


def test_a_new_payload_is_built_of_the_old_one() -> None:
    """What is the same, order of keys included, stays the same object; the rest is the request's."""
    payload = {"a": {"x": 1, "y": [1, 2]}, "b": {"k": 1, "l": 2}, "c": [{"z": 1}, {"z": 2}], "d": WHEN}
    wanted = {"a": {"x": 1, "y": [1, 2]}, "b": {"l": 2, "k": 1}, "c": [{"z": 1}, {"z": 3}, 4], "d": dict(WHEN)}
    outcome = apply_change(payload, wanted, "replace")
    assert repr(outcome.result) == repr(wanted)
    assert outcome.result["a"] is payload["a"]
    assert outcome.result["c"][0] is payload["c"][0]
    assert outcome.result["d"] is payload["d"]
    assert list(outcome.result["b"]) == ["l", "k"]
    assert outcome.applied == counts(additions=1, updates=1)


# -- permissions of the appliers that work whole -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("applier", "request_"),
    [
        ("json-patch", [{"op": "replace", "path": "/a/x", "value": 2}, {"op": "add", "path": "/b", "value": 3}]),
        ("merge-patch", {"a": {"x": 2}, "b": 3}),
        ("replace", {"a": {"x": 2}, "b": 3}),
    ],
)
def test_a_whole_request_is_done_or_blocked_as_a_whole(applier: str, request_: Any) -> None:
    """A part that is not allowed blocks the rest, and is named."""
    payload = {"a": {"x": 1}}
    assert apply_change(payload, request_, applier, allowed_paths=["*"]).result == {"a": {"x": 2}, "b": 3}
    outcome = apply_change(payload, request_, applier, allowed_paths=["a.*", "b:delete"])
    assert outcome.result is payload
    assert outcome.applied == counts()
    assert outcome.warnings == ["Operation denied: Cannot add 'b' - operation 'add' not allowed"]
    assert outcome.blocked_operations == [
        {"path": "b", "operation": "add", "to": 3, "reason": "operation 'add' not allowed"}
    ]
