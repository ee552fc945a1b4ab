"""A diff misses nothing, invents nothing, and can be applied."""

from __future__ import annotations

import copy
import json
import pickle
import random
import subprocess
import sys
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import jsonpatch
import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.hashes import same
from agentreplay.recorder.values import encode, freeze
from agentreplay.replay.diff import (
    MISSING,
    Cause,
    Change,
    diff_states,
    diff_values,
    to_json,
    to_json_patch,
    with_cause,
)
from agentreplay.replay.state import RunState
from hypothesis import given
from hypothesis import strategies as st

KEYS = st.sampled_from(["", "0", "1", "01", "-", "a/b", "~", "~1", "é", "id", "name", "x"]) | st.text(max_size=3)
LEAVES = st.one_of(
    st.sampled_from([None, True, False, 0, 1, 0.0, -0.0, 1.0, "", "1", "a", "text " * 30]),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
    st.sampled_from(["1.1", "1.10"]).map(lambda text: {"$type": "decimal", "value": text}),
    st.permutations([1, 1.5, "x"]).map(lambda items: {"$type": "set", "items": items}),
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.builds(lambda number, value: {"id": number, "v": value}, st.integers(0, 5), inner)
    return st.one_of(
        st.lists(inner, max_size=6),
        st.lists(named, max_size=6),
        st.dictionaries(KEYS, inner, max_size=4),
    )


TREES = st.recursive(LEAVES, _containers, max_leaves=25)


def edited(tree: Any, chance: random.Random) -> Any:
    """A tree that shares some of its parts with `tree` and differs here and there."""
    if chance.random() < 0.06:
        return chance.choice([None, True, 1, 1.0, "new", [1, {"id": 3}], {"0": [None]}])
    if isinstance(tree, dict) and "$type" not in tree:
        items = [(key, edited(value, chance)) for key, value in tree.items() if chance.random() > 0.05]
        if chance.random() < 0.1:
            items.insert(0, (chance.choice(["0", "x", "a/b"]), chance.choice([None, 2, []])))
        return dict(items)
    if isinstance(tree, list):
        items = [edited(item, chance) for item in tree if chance.random() > 0.1]
        if chance.random() < 0.3:
            items.insert(chance.randint(0, len(items)), chance.choice([None, 7, {"id": 9}]))
        if items and chance.random() < 0.3:
            items.insert(chance.randint(0, len(items) - 1), items.pop(chance.randrange(len(items))))
        if chance.random() < 0.1:
            chance.shuffle(items)
        return items
    return tree if chance.random() < 0.5 else copy.deepcopy(tree)


def _ordered(tree: Any) -> Any:
    """A tree with its keys, and the items of its sets, in order: two of them print alike if they are the same."""
    if isinstance(tree, dict):
        items = {key: _ordered(tree[key]) for key in sorted(tree)}
        return {**items, "items": sorted(items["items"], key=repr)} if tree.get("$type") == "set" else items
    return [_ordered(item) for item in tree] if isinstance(tree, list) else tree


def assert_law(a: Any, b: Any) -> None:
    """The laws of a diff, for one pair of trees."""
    untouched = copy.deepcopy((a, b))
    changes = diff_values(a, b)
    # As a document: a tree in memory may hold one object in two places, and a patch in place would change both.
    patched = jsonpatch.apply_patch(json.loads(json.dumps(a)), to_json_patch(changes))
    assert same(patched, b)
    assert repr(_ordered(patched)) == repr(_ordered(b))
    assert (not changes) is same(a, b)
    assert not diff_values(a, untouched[0])
    assert repr((a, b)) == repr(untouched)
    assert diff_values(a, b) == changes


@given(TREES, TREES)
def test_a_diff_applied_to_the_old_value_gives_the_new_one(a: Any, b: Any) -> None:
    """For any two values the patch leads from one to the other, types included."""
    assert_law(a, b)


@given(TREES, st.randoms(use_true_random=False))
def test_a_diff_of_an_edited_value_gives_it_back(a: Any, chance: random.Random) -> None:
    """Also where the two share most of what they hold, and lists were reordered."""
    assert_law(a, edited(a, chance))


@given(st.lists(TREES, max_size=8), st.randoms(use_true_random=False))
def test_a_diff_of_lists_within_moved_items_gives_them_back(items: list[Any], chance: random.Random) -> None:
    """Moves of items, and moves within the moved items, apply in one order."""
    a = [{"id": at, "list": list(items), "v": item} for at, item in enumerate(items)]
    b = [{**item, "list": edited(item["list"], chance)} for item in a]
    chance.shuffle(b)
    assert_law(a, edited(b, chance))


def test_an_object_with_numeric_keys_is_no_list() -> None:
    """Removing a key "0" does not shift the keys beside it, not even for a list inside that is reordered."""
    a = {
        "d": {"0": "gone", "1": {"list": [{"n": 1}, {"n": 2}, {"n": 3}]}},
        "l": ["gone", {"list": [{"n": 1}, {"n": 2}]}],
    }
    b = {"d": {"1": {"list": [{"n": 3}, {"n": 1}, {"n": 2}]}}, "l": [{"list": [{"n": 2}, {"n": 1}]}]}
    assert_law(a, b)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ({"x": 1}, {"x": 1}, []),
        ({"x": 1}, {"x": 1.0}, [("replace", "/x", 1, 1.0)]),
        ({"x": 1}, {"x": True}, [("replace", "/x", 1, True)]),
        ({"x": 0.0}, {"x": -0.0}, [("replace", "/x", 0.0, -0.0)]),
        ({"x": None}, {}, [("remove", "/x", None, MISSING)]),
        ({}, {"x": None}, [("add", "/x", MISSING, None)]),
        ({"x": "a"}, {"x": ["a"]}, [("replace", "/x", "a", ["a"])]),
        (1, "1", [("replace", "", 1, "1")]),
        ({}, [], [("replace", "", {}, [])]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"a/b": {"~": 1}}, {"a/b": {"~": 2}}, [("replace", "/a~1b/~0", 1, 2)]),
        ({"": {"": 1}}, {"": {"": 2}}, [("replace", "//", 1, 2)]),
        ([[1, 2], [3]], [[1, 2], [3, 4]], [("add", "/1/1", MISSING, 4)]),
        ([{"a": 1}], [{"b": 1}], [("replace", "/0", {"a": 1}, {"b": 1})]),
        (
            {"$type": "decimal", "value": "1.1"},
            {"$type": "decimal", "value": "1.10"},
            [("replace", "", {"$type": "decimal", "value": "1.1"}, {"$type": "decimal", "value": "1.10"})],
        ),
        (
            {"gone": 1, "list": [1, 2, 3], "kept": {"x": 1}},
            {"kept": {"x": 2, "y": 3}, "list": [1, 3], "new": 4},
            [
                ("replace", "/kept/x", 1, 2),
                ("add", "/kept/y", MISSING, 3),
                ("add", "/new", MISSING, 4),
                ("remove", "/list/1", 2, MISSING),
                ("remove", "/gone", 1, MISSING),
            ],
        ),
    ],
)
def test_a_diff_says_what_changed_and_where(a: Any, b: Any, expected: list[tuple[str, str, Any, Any]]) -> None:
    """Changes stand in the order of the new value, removals after them, types and null as they are."""
    found = diff_values(a, b)
    assert repr([(change.kind, change.path, change.old, change.new) for change in found]) == repr(expected)


def test_one_inserted_item_is_one_change() -> None:
    """In a list of 1,150 items, an insertion is not a change of all that follow."""
    a = {"items": [{"n": n, "text": "same text"} for n in range(1150)]}
    b = copy.deepcopy(a)
    b["items"].insert(400, {"n": -1})
    (change,) = diff_values(a, b)
    assert (change.kind, change.path, change.new) == ("add", "/items/400", {"n": -1})


def test_a_moved_item_is_moved() -> None:
    """A move says where the item was and where it is, and what changed inside it follows."""
    a = {"items": [{"id": "a", "n": 1}, {"id": "b", "n": 1}, {"id": "c", "n": 1}]}
    b = {"items": [{"id": "c", "n": 2}, {"id": "a", "n": 1}, {"id": "b", "n": 1}]}
    moved, inside = diff_values(a, b)
    assert (moved.kind, moved.from_path, moved.path) == ("move", "/items/2", "/items/0")
    assert moved.old == moved.new == {"id": "c", "n": 1}
    assert moved.from_display == "items[2]"
    assert (inside.kind, inside.path, inside.old, inside.new) == ("replace", "/items/0/n", 1, 2)


def test_a_change_inside_an_item_is_shown_there() -> None:
    """An item that is still the same one, by its id or its place, is not removed and added."""
    a = [{"id": 1, "v": 1}, {"id": 2, "v": 1}, {"id": 3, "v": 1}]
    b = [{"id": 0, "v": 0}, {"id": 1, "v": 1}, {"id": 2, "v": 5}, {"id": 3, "v": 1}]
    assert [(change.kind, change.path) for change in diff_values(a, b)] == [("add", "/0"), ("replace", "/2/v")]


def test_the_most_similar_item_is_the_changed_one() -> None:
    """Where an item changed beside a new one, and neither has an identity, the closer one is the changed one."""
    a = [{"title": "Refund", "lines": [1, 2, 3], "open": True}]
    b = [{"title": "Invoice", "lines": [7], "open": False}, {"title": "Refund", "lines": [1, 2, 4], "open": True}]
    assert [(change.kind, change.path) for change in diff_values(a, b)] == [("add", "/0"), ("replace", "/1/lines/2")]
    texts = ["The parcel was sent on Monday."], ["Hello!", "The parcel was sent on Friday."]
    assert [(change.kind, change.path) for change in diff_values(*texts)] == [("add", "/0"), ("replace", "/1")]
    mixed = [[1, 2]], ["x", [1, 2, 3]]
    assert [(change.kind, change.path) for change in diff_values(*mixed)] == [("add", "/0"), ("add", "/1/2")]


def test_values_that_are_not_stored_are_compared_exactly() -> None:
    """A payload as Python code holds it can be compared as it is; its changes hold the values themselves."""
    (change,) = diff_values({"total": Decimal("1.10"), "t": (1, 2)}, {"total": Decimal("1.1"), "t": (1, 2)})
    assert repr(change.new) == "Decimal('1.1')"
    assert to_json(change)["new"] == {"$type": "decimal", "value": "1.1"}
    assert diff_values({"total": Decimal("1.10")}, {"total": encode(Decimal("1.10")).stored}) == ()
    assert [change.path for change in diff_values({1: "a"}, {"1": "a"})] == [""]
    assert [change.path for change in diff_values(freeze({"a": [{"b": 1}]}), {"a": [{"b": 2}]})] == ["/a/0/b"]


def test_changes_know_an_index_from_a_key() -> None:
    """The path shown says whether a number is a place in a list."""
    a = {"list": [{"0": 1}], "object": {"0": [1]}}
    b = {"list": [{"0": 2}], "object": {"0": [2]}}
    assert [change.display for change in diff_values(a, b)] == ['list[0]["0"]', 'object["0"][0]']
    assert Change("/list/0/x", "add", new=1).display == "list[0].x"
    assert Change("", "replace", 1, 2).display == "(payload)"


def test_a_change_as_json_has_the_documented_fields() -> None:
    """`{path, display, kind, old, new, cause}`, with `from` for a move and no value where there is none."""
    cause = Cause(41, 7, "payload.changed", "c3", "needed for the policy check")
    added, removed = with_cause(diff_values({"a": [{"x": None}]}, {"a": [{"y": 1, "x": None}], "b": None}), cause)
    assert [to_json(added), to_json(removed)] == [
        {
            "path": "/a/0/y",
            "display": "a[0].y",
            "kind": "add",
            "new": 1,
            "cause": {"seq": 41, "step": 7, "kind": "payload.changed", "call": "c3"},
        },
        {
            "path": "/b",
            "display": "b",
            "kind": "add",
            "new": None,
            "cause": {"seq": 41, "step": 7, "kind": "payload.changed", "call": "c3"},
        },
    ]
    (moved,) = diff_values(["a", "b", "c"], ["c", "a", "b"])
    assert to_json(moved) == {
        "path": "/0",
        "display": "[0]",
        "kind": "move",
        "from": "/2",
        "old": "c",
        "new": "c",
        "cause": None,
    }


def test_missing_stays_missing_in_a_copy() -> None:
    """There is one `MISSING`, also after a copy and after pickling."""
    (change,) = diff_values({}, {"x": 1})
    assert copy.deepcopy(change).old is MISSING
    assert pickle.loads(pickle.dumps(change)).old is MISSING
    assert repr(MISSING) == "MISSING"


def test_states_differ_in_their_payload_unless_asked_for_more() -> None:
    """Without `parts`, paths are into the payload; with them, they start with the part's name."""
    a = SimpleNamespace(payload={"x": 1}, messages=({"role": "user"},), open_calls={}, status="running")
    b = SimpleNamespace(payload={"x": 2}, messages=({"role": "user"}, {"role": "tool"}), open_calls={}, status="failed")
    assert [change.path for change in diff_states(a, b)] == ["/x"]
    assert [change.path for change in diff_states(a, b, parts=("payload",))] == ["/payload/x"]
    parts = ("messages", "status", "open_calls", "payload")
    assert [change.path for change in diff_states(a, b, parts=parts)] == ["/messages/1", "/status", "/payload/x"]
    with pytest.raises(UsageError):
        diff_states(a, b, parts=("nothing",))


def test_states_of_a_run_are_compared_in_stored_form() -> None:
    """A change between two states shows a Decimal as the tag that the log holds."""
    a, b = RunState(stored_payload={"n": 1}), RunState(stored_payload={"n": {"$type": "decimal", "value": "1"}})
    (change,) = diff_states(a, b)
    assert change.new == {"$type": "decimal", "value": "1"}
    assert diff_states(a, b, parts=("messages", "usage", "children", "decision")) == ()


def test_changes_show_as_a_table_in_a_notebook() -> None:
    """The table holds the readable path and values, and nothing in them becomes markup."""
    shown = diff_values({"a": [1, 2, 3], "t": "x"}, {"a": [3, 1, 2], "t": "<script>"})._repr_html_()
    assert "<caption>2 changes: 1 replaced, 1 moved</caption>" in shown
    assert "<td>a[0]</td><td>at a[2]: 3</td>" in shown
    assert "&lt;script&gt;" in shown
    assert "<script>" not in shown


def test_deepdiff_is_loaded_only_when_it_decides() -> None:
    """A plain diff does not pay for a library it does not need."""
    code = (
        "import sys; from agentreplay.replay.diff import diff_values\n"
        "diff_values({'a': [{'id': 1, 'v': 2}], 'b': 1}, {'a': [{'id': 1, 'v': 3}, {'id': 2}], 'c': 1})\n"
        "assert 'deepdiff' not in sys.modules\n"
        "diff_values([{'a': 1, 'b': 2}], [{'a': 3, 'b': 4}, {'a': 1, 'b': 4}])\n"
        "assert 'deepdiff' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
