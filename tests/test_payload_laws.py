"""Laws of payload changes, on payloads and requests that nobody would think of."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import jsonpatch
import pytest
from agentreplay.recorder.errors import ChangeRefused
from agentreplay.recorder.hashes import comparison_hash
from agentreplay.recorder.payload import (
    LIVE_AS_STORED,
    STORED,
    apply_change,
    build_request,
    deep_merge,
    difference,
    extract_downstream,
    merge_upstream,
    missing_leaves,
)
from agentreplay.recorder.values import encode
from hypothesis import given
from hypothesis import strategies as st

TEXT_KEYS = st.sampled_from(["a", "b", "c", "items", "id", "", "0", "1", "a.b", "items.0", "a[0]", "~/"])
KEYS: st.SearchStrategy[Any] = TEXT_KEYS | st.sampled_from(["a", "b", "$type", 0, 1, True, 1.5, None, (1, 2), b"a.b"])
LEAVES = st.sampled_from(
    [None, True, False, 0, 1, 1.0, 0.0, -0.0, 2.5, "", "x", "__DELETE__", "_DELETE_", "TBD", "long " * 30, {}, []]
)
TAGS = st.builds(
    lambda year: {"$type": "datetime", "value": f"{year}-01-01"}, st.integers(2020, 2022)
) | st.sampled_from(
    [
        {"$type": "decimal", "value": "1.0"},
        {"$type": "decimal", "value": "1.00"},
        {"$type": "dict", "items": [["$type", "x"], ["a", 1]]},
        {"$type": "dict", "items": [["a", 1], ["$type", "x"]]},
        {"$type": "set", "items": [1, 2]},
        {"$type": "blob", "hash": "x"},
        {"$type": "messages", "items": [{"a": 1}]},
        {"$type": "deep", "parts": [[]]},
    ]
).map(copy.deepcopy)  # the library that judges patches copies aliases as aliases, and writes to both
TREES = st.recursive(
    LEAVES | TAGS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=16,
)
STORED_TREES = st.recursive(
    LEAVES | TAGS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXT_KEYS, below, max_size=4),
    max_leaves=16,
)
OBJECTS = st.dictionaries(KEYS, TREES, max_size=5)
SECTIONS = ["newElements", "updateElements", "replaceElements", "removeElements"]


def requests(trees: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from([*SECTIONS, *SECTIONS, "stray", "a", "_x", "reasoning"]), trees, max_size=4)


REQUESTS = requests(TREES)
SPECS = st.lists(
    st.sampled_from(["*", "a", "a.*", "items.*:add", "*:update", "*:delete", "**.id", "b.*.c", ""]), max_size=3
)


def operations(trees: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    paths = ["", "/a", "/a/b", "/a/0", "/items/-", "/b", "/items", "/a~1b", "/a/-", "x", "/1", "/a/$type"]
    return st.lists(
        st.fixed_dictionaries(
            {
                "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
                "path": st.sampled_from(paths),
                "from": st.sampled_from(["", "/a", "/a/b", "/items/0", "/b"]),
                "value": trees,
            }
        ),
        max_size=4,
    )


OPERATIONS = operations(TREES)


def exact(tree: Any) -> str:
    """A text that is equal for equal trees only: 1, 1.0 and true differ, in keys as well, and -0.0 from 0.0."""
    if isinstance(tree, dict):
        return "{" + ",".join(sorted(f"{key!r}:{exact(value)}" for key, value in tree.items())) + "}"
    return "[" + ",".join(map(exact, tree)) + "]" if isinstance(tree, list) else repr(tree)


def ordered(*trees: Any) -> str:
    """A text that also tells the order of keys."""
    return repr(trees)


def attempt(payload: Any, request: Any, applier: str, **options: Any) -> Any:
    try:
        return apply_change(payload, request, applier, **options)
    except ChangeRefused as refused:
        return str(refused)


def subtrees(tree: Any) -> list[Any]:
    found = [tree]
    if isinstance(tree, dict):
        found += [below for value in tree.values() for below in subtrees(value)]
    elif isinstance(tree, list):
        found += [below for value in tree for below in subtrees(value)]
    return found


def changes(trees: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, Any]]:
    return st.one_of(
        st.tuples(st.just("memberjunction"), requests(trees)),
        st.tuples(st.just("json-patch"), operations(trees)),
        st.tuples(st.just("merge-patch"), trees),
        st.tuples(st.just("replace"), trees),
    )


CHANGES = changes(TREES)


@given(TREES, CHANGES, st.none() | SPECS, st.booleans())
def test_no_applier_changes_what_it_is_given(
    payload: Any, change: tuple[str, Any], allowed: list[str] | None, strict: bool
) -> None:
    """Payload and request are afterwards what they were, order of keys included, whatever came of it."""
    applier, request = change
    before = ordered(payload, request)
    attempt(payload, request, applier, allowed_paths=allowed, strict=strict)
    assert ordered(payload, request) == before


@given(TREES, CHANGES, st.none() | SPECS)
def test_applying_is_deterministic(payload: Any, change: tuple[str, Any], allowed: list[str] | None) -> None:
    """The same payload and request give the same outcome, from copies as well."""
    applier, request = change
    first = attempt(payload, request, applier, allowed_paths=allowed)
    second = attempt(*copy.deepcopy((payload, request)), applier, allowed_paths=allowed)
    assert repr(first) == repr(second)


@given(OBJECTS, TREES, CHANGES)
def test_what_a_request_does_not_name_stays_the_same_object(
    payload: dict[str, Any], other: Any, change: tuple[str, Any]
) -> None:
    """A subtree beside the change is in the result as it is in the payload, not as a copy."""
    applier, request = change
    payload = {**payload, "untouched": other}
    if applier == "replace" and isinstance(request, dict):
        request = {**request, "untouched": copy.deepcopy(other)}
    outcome = attempt(payload, request, applier)
    if not isinstance(outcome, str) and isinstance(outcome.result, dict) and "untouched" in outcome.result:
        assert outcome.result["untouched"] is other


@given(TREES, REQUESTS, st.none() | SPECS)
def test_the_request_as_applied_does_the_same(payload: Any, request: dict[str, Any], allowed: list[str] | None) -> None:
    """Folding a log applies the corrected request; it gives the payload that the request as sent gave."""
    outcome = attempt(payload, request, "memberjunction", allowed_paths=allowed)
    if isinstance(outcome, str):
        return
    again = apply_change(payload, outcome.applied_request, allowed_paths=allowed, analyze=False)
    assert exact(again.result) == exact(outcome.result)
    assert again.applied == outcome.applied


@given(TREES, REQUESTS, st.none() | SPECS)
def test_analysis_and_strict_mode_only_add_warnings(
    payload: Any, request: dict[str, Any], allowed: list[str] | None
) -> None:
    """What is looked at has no influence on what is done."""
    plain = attempt(payload, request, "memberjunction", allowed_paths=allowed, analyze=False)
    full = attempt(payload, request, "memberjunction", allowed_paths=allowed, strict=True)
    if isinstance(plain, str) or isinstance(full, str):
        assert plain == full
        return
    assert ordered(full.result, full.applied, full.blocked_operations) == ordered(
        plain.result, plain.applied, plain.blocked_operations
    )
    assert full.warnings[: len(plain.warnings)] == plain.warnings


@given(OBJECTS, st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), LEAVES, max_size=4))
def test_what_was_replaced_is_there(payload: dict[str, Any], values: dict[str, Any]) -> None:
    """No leaf of a replacement is missing afterwards, and the rest of the payload is untouched."""
    request = build_request(replace=values)
    result = apply_change(payload, request).result
    assert missing_leaves(request, result) == []
    assert exact(result) == exact({**payload, **values})


@given(TREES, TREES)
def test_a_difference_turns_one_tree_into_the_other(old: Any, new: Any) -> None:
    """Applied by an independent library and by our own applier, it gives the new tree, types included."""
    before = ordered(old, new)
    patch = difference(old, new)
    judged = jsonpatch.apply_patch(old, copy.deepcopy(patch))
    assert exact(judged) == exact(new)
    outcome = apply_change(old, patch, "json-patch")
    assert exact(outcome.result) == exact(new)
    assert (patch == []) == (exact(old) == exact(new))
    assert ordered(old, new) == before
    assert {operation["op"] for operation in patch} <= {"add", "remove", "replace"}


def tags_in(tree: Any) -> list[str]:
    return [exact(below) for below in subtrees(tree) if isinstance(below, dict) and "$type" in below]


@given(STORED_TREES, changes(STORED_TREES))
def test_in_stored_form_a_tag_stays_whole(payload: Any, change: tuple[str, Any]) -> None:
    """Every tag in the result is one of the payload or of the request, never a mixture or a part of one."""
    outcome = attempt(payload, change[1], change[0], stored=True)
    if not isinstance(outcome, str):
        assert set(tags_in(outcome.result)) <= {*tags_in(payload), *tags_in(change[1])}


@given(STORED_TREES, STORED_TREES)
def test_a_difference_in_stored_form_leads_to_the_other_tree(old: Any, new: Any) -> None:
    """It goes into no tag, is empty just when the hashes are equal, and shorter ways through tags are not taken."""
    patch = difference(old, new, trees=STORED)
    assert comparison_hash(apply_change(old, patch, "json-patch", stored=True).result) == comparison_hash(new)
    assert (patch == []) == (comparison_hash(old) == comparison_hash(new))


@given(TREES, TREES)
def test_a_difference_for_readers_goes_into_no_dict_that_is_a_tag(old: Any, new: Any) -> None:
    """Said of live values, it does to the stored form what it does to them."""
    patch = difference(old, new, trees=LIVE_AS_STORED)
    assert exact(apply_change(old, patch, "json-patch").result) == exact(new)
    folded = apply_change(encode(old).stored, encode_values(patch), "json-patch", stored=True).result
    assert comparison_hash(folded) == comparison_hash(encode(new).stored)


def encode_values(patch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: encode(value).stored for name, value in operation.items()} for operation in patch]


LISTS = st.lists(
    st.integers(0, 4) | st.fixed_dictionaries({"id": st.integers(0, 3), "n": st.integers(0, 2)}), max_size=9
)


@given(LISTS, LISTS)
def test_a_difference_of_lists_is_exact(old: list[Any], new: list[Any]) -> None:
    """Insertions, deletions and changes at any place are told apart without an error of index."""
    assert exact(jsonpatch.apply_patch(old, difference(old, new))) == exact(new)


@given(TREES, CHANGES)
def test_the_difference_of_a_change_leads_to_its_result(payload: Any, change: tuple[str, Any]) -> None:
    """Whatever an applier did can be said as a JSON Patch."""
    outcome = attempt(payload, change[1], change[0])
    if not isinstance(outcome, str):
        again = apply_change(payload, difference(payload, outcome.result), "json-patch").result
        assert exact(again) == exact(outcome.result)


@given(TREES, OPERATIONS)
def test_a_json_patch_agrees_with_an_independent_library(payload: Any, patch: list[dict[str, Any]]) -> None:
    """What both can apply gives the same; what the library refuses is refused."""
    if any(operation["op"] == "test" for operation in patch):
        return  # the library's tests take 1 for true
    try:
        judged = jsonpatch.apply_patch(payload, copy.deepcopy(patch))
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
        with pytest.raises(ChangeRefused):
            apply_change(payload, patch, "json-patch")
        return
    outcome = attempt(payload, patch, "json-patch")
    assert isinstance(outcome, str) or exact(outcome.result) == exact(judged)


@given(TREES, TREES)
def test_a_merge_patch_applied_twice_changes_nothing_more(payload: Any, patch: Any) -> None:
    """Merging is idempotent, and the second time every part is the same object."""
    once = apply_change(payload, patch, "merge-patch").result
    twice = apply_change(once, patch, "merge-patch")
    assert twice.result is once or exact(twice.result) == exact(once)
    assert twice.applied == {"additions": 0, "updates": 0, "deletions": 0}


@given(TREES, TREES, SPECS)
def test_no_merge_changes_what_it_is_given(parent: Any, child: Any, paths: list[str]) -> None:
    """What goes down to a sub-agent and comes back leaves both payloads as they were."""
    before = ordered(parent, child)
    extract_downstream(parent, ["a", "items[*]", "**.id", "a.*", "items[0].a"])
    for merge in (lambda: merge_upstream(parent, child, paths), lambda: deep_merge(parent, child)):
        with suppress(ChangeRefused):  # keys cannot be merged into a scalar
            merge()
    assert ordered(parent, child) == before


PLAIN_KEYS = st.sampled_from(["a", "b", "c", "items", "id", "0"])
PLAIN_TREES = st.recursive(
    LEAVES | TAGS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(PLAIN_KEYS, below, max_size=4),
    max_leaves=16,
)


@given(st.dictionaries(PLAIN_KEYS, PLAIN_TREES, max_size=5), SPECS)
def test_a_child_that_changes_nothing_gives_the_parent_back(parent: dict[str, Any], paths: list[str]) -> None:
    """Merging a copy of the payload into it leaves it as it is, but for `{}` in arrays, which are taken out."""
    result = merge_upstream(parent, copy.deepcopy(parent), paths).result
    if not any(isinstance(tree, list) and {} in tree for tree in subtrees(parent)):
        assert exact(result) == exact(parent)
        assert all(result[key] is value for key, value in parent.items())
