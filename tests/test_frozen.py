"""A frozen payload reads like any other, refuses every change, and costs only what changed."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from agentreplay.recorder.errors import PayloadFrozen
from agentreplay.recorder.frozen import Freezer, FrozenDict, FrozenList, freeze
from agentreplay.recorder.hashes import SubtreeCache
from hypothesis import given, settings
from value_examples import histories, plain_values, values


def payload() -> dict[str, Any]:
    return {"order": {"id": 7, "items": [{"sku": "a"}, {"sku": "b"}]}, "tags": ["x", "y"], "when": ("t", [1])}


def _ior(target: Any, other: Any) -> None:
    target |= other


def _iadd(target: Any, other: Any) -> None:
    target += other


def _imul(target: Any, number: int) -> None:
    target *= number


DICT_CHANGES: dict[str, Callable[[Any], Any]] = {
    "set": lambda view: view.__setitem__("a", 1),
    "set the same": lambda view: view.__setitem__("id", 7),
    "delete": lambda view: view.__delitem__("id"),
    "|=": lambda view: _ior(view, {"a": 1}),
    "clear": lambda view: view.clear(),
    "pop": lambda view: view.pop("id"),
    "pop default": lambda view: view.pop("missing", None),
    "popitem": lambda view: view.popitem(),
    "setdefault": lambda view: view.setdefault("a", 1),
    "setdefault of what is there": lambda view: view.setdefault("id", 1),
    "update": lambda view: view.update({"a": 1}),
    "update nothing": lambda view: view.update(),
    "init": lambda view: view.__init__({"a": 1}),
}
LIST_CHANGES: dict[str, Callable[[Any], Any]] = {
    "set": lambda view: view.__setitem__(0, 1),
    "set slice": lambda view: view.__setitem__(slice(None), []),
    "delete": lambda view: view.__delitem__(0),
    "+=": lambda view: _iadd(view, [1]),
    "*=": lambda view: _imul(view, 2),
    "append": lambda view: view.append(1),
    "clear": lambda view: view.clear(),
    "extend": lambda view: view.extend([1]),
    "insert": lambda view: view.insert(0, 1),
    "pop": lambda view: view.pop(),
    "remove": lambda view: view.remove(view[0]),
    "reverse": lambda view: view.reverse(),
    "sort": lambda view: view.sort(key=str),
    "init": lambda view: view.__init__([1]),
}


@pytest.mark.parametrize("change", DICT_CHANGES)
def test_a_frozen_dict_refuses_every_change(change: str) -> None:
    """Each mutator of dict raises, names what to use instead, and changes nothing."""
    view = freeze(payload())
    with pytest.raises(PayloadFrozen, match=r"context\.change") as caught:
        DICT_CHANGES[change](view["order"])
    assert isinstance(caught.value, TypeError)
    assert view == payload()


@pytest.mark.parametrize("change", LIST_CHANGES)
def test_a_frozen_list_refuses_every_change(change: str) -> None:
    """Each mutator of list raises, names what to use instead, and changes nothing."""
    view = freeze(payload())
    with pytest.raises(PayloadFrozen, match=r"context\.change") as caught:
        LIST_CHANGES[change](view["order"]["items"])
    assert isinstance(caught.value, TypeError)
    assert view == payload()


def test_no_mutator_was_forgotten() -> None:
    """Whatever a dict or a list has beyond reading is refused, also what a newer Python adds."""
    reading = {
        *("__class__", "__class_getitem__", "__contains__", "__dir__", "__eq__", "__format__", "__ge__", "__getitem__"),
        *(
            "__getattribute__",
            "__getstate__",
            "__gt__",
            "__hash__",
            "__init_subclass__",
            "__iter__",
            "__le__",
            "__len__",
        ),
        *("__lt__", "__ne__", "__new__", "__or__", "__repr__", "__reversed__", "__ror__", "__sizeof__", "__str__"),
        *("__subclasshook__", "__add__", "__mul__", "__rmul__", "__reduce__", "__delattr__", "__setattr__", "__doc__"),
        *("get", "items", "keys", "values", "count", "index"),
    }
    for frozen, base in ((FrozenDict, dict), (FrozenList, list)):
        assert [name for name in dir(base) if name not in reading and name not in vars(frozen)] == []


@given(plain_values)
def test_a_view_reads_like_what_it_shows(tree: Any) -> None:
    """Equal, printed and serialised alike, of the same builtin types, all the way down."""
    view = freeze(tree)
    assert view == tree
    assert tree == view
    assert repr(view) == repr(tree)
    assert json.dumps(view) == json.dumps(tree)
    assert orjson.dumps(view) == orjson.dumps(tree)
    assert isinstance(view, type(tree))


@given(values)
def test_a_view_keeps_every_other_value_as_the_same_object(value: Any) -> None:
    """Only dicts and lists are replaced; dates, models, tuples and keys are the agent's own objects."""
    tree = [value, {"k": value}, {1: value, (2, 3): value}]
    view = freeze(tree)
    assert list(view[2]) == [1, (2, 3)]
    if type(value) not in (dict, list):
        assert view[0] is value
        assert view[1]["k"] is value
    else:
        assert type(view[0]) in (FrozenDict, FrozenList)


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda view: pickle.loads(pickle.dumps(view)), lambda view: pickle.loads(pickle.dumps(view, 0))],
    ids=["deepcopy", "pickle", "pickle 0"],
)
def test_a_deep_copy_is_the_callers_own(copied: Callable[[Any], Any]) -> None:
    """`copy.deepcopy` and `pickle` give plain dicts and lists all the way down."""
    view = freeze(payload())
    own = copied(view)
    assert own == payload()
    assert (type(own), type(own["order"]), type(own["order"]["items"])) == (dict, dict, list)
    own["order"]["items"].append(1)
    own["order"]["id"] = 8
    assert view == payload()


def test_a_shallow_copy_is_plain_over_frozen_parts() -> None:
    """`.copy()`, `copy.copy`, `dict()`, `|` and slices give a plain container; its parts are still the payload."""
    view = freeze(payload())
    for own in (view.copy(), copy.copy(view), dict(view), view | {}, {**view}):
        assert type(own) is dict
        own["new"] = 1
        with pytest.raises(PayloadFrozen):
            own["order"]["id"] = 1
    tags = view["tags"]
    for own in (tags.copy(), copy.copy(tags), list(tags), tags[:], tags * 1, sorted(tags)):
        assert type(own) is list
        own.append(1)
    assert type(FrozenDict.fromkeys(["a"])) is dict
    assert view == payload()


def test_shared_and_recursive_parts_survive_a_deep_copy() -> None:
    """A deep copy keeps what is shared shared, as it does for ordinary containers."""
    shared = [1]
    view = freeze({"a": shared, "b": shared})
    assert view["a"] is view["b"]
    own = copy.deepcopy(view)
    assert own["a"] is own["b"]


def test_frozen_containers_are_made_like_ordinary_ones() -> None:
    """Both can be made from anything that dict and list are made from, once."""
    assert FrozenDict([("a", 1)], b=2) == {"a": 1, "b": 2}
    assert FrozenDict() == {}
    assert FrozenList("ab") == ["a", "b"]
    assert FrozenList() == []


def test_unchanged_parts_keep_their_view() -> None:
    """From one state to the next, the same subtree has the same view: an agent may compare by identity."""
    freezer = Freezer()
    first = payload()
    second = {**first, "order": {**first["order"], "id": 8}}
    one, two = freezer.freeze(first), freezer.freeze(second)
    assert freezer.freeze(first) is one
    assert two["order"] is not one["order"]
    assert two["order"]["items"] is one["order"]["items"]
    assert two["tags"] is one["tags"]
    assert two == second


@settings(max_examples=100, deadline=None)
@given(histories())
def test_a_view_is_always_of_its_own_version(versions: list[Any]) -> None:
    """Along any run of versions, each view shows exactly its version, frozen all the way down."""

    def assert_view(view: Any, tree: Any) -> None:
        if type(tree) is dict:
            assert type(view) is FrozenDict
            assert list(view) == list(tree)
            for key, item in tree.items():
                assert_view(view[key], item)
        elif type(tree) is list:
            assert type(view) is FrozenList
            assert len(view) == len(tree)
            for place, item in enumerate(tree):
                assert_view(view[place], item)
        else:
            assert view is tree

    freezer = Freezer()
    for tree in versions:
        assert_view(freezer.freeze(tree), tree)


def test_freezing_a_change_costs_its_path() -> None:
    """In a payload of ten thousand containers, one change makes as many new views as it has parents."""
    tree: dict[str, Any] = {f"k{i}": {f"f{j}": [j] for j in range(100)} for i in range(100)}
    cache = SubtreeCache()
    freeze(tree, cache)
    before = len(cache)
    changed = {**tree, "k5": {**tree["k5"], "f7": ["new"]}}
    freeze(changed, cache)
    assert len(cache) - before == 3


def test_a_long_run_does_not_grow_the_memory_of_views() -> None:
    """Views of states that are gone are forgotten, however many changes there were."""
    freezer = Freezer()
    tree: dict[str, Any] = {"rows": [{"n": number} for number in range(20)], "count": 0}
    for count in range(5_000):
        rows = list(tree["rows"])
        rows[count % 20] = {"n": count}
        tree = {"rows": rows, "count": count}
        assert freezer.freeze(tree) == tree
        assert len(freezer._cache) <= 2 * 22 + 8 + 3


def test_deep_and_recursive_trees_can_be_frozen() -> None:
    """Depth needs no stack; where a tree contains itself, the inner occurrence stays as it is."""
    deep: Any = []
    for _ in range(50_000):
        deep = [deep]
    view = freeze(deep)
    for _ in range(50_000):
        assert type(view) is FrozenList
        view = view[0]
    tree: dict[str, Any] = {"a": [1]}
    tree["self"] = [tree]
    view = freeze(tree)
    assert view["self"][0] is tree
    assert type(view["a"]) is FrozenList
