"""Ignore rules leave out what they name, and nothing else, on both sides alike."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.hashes import same
from agentreplay.recorder.values import encode
from agentreplay.replay.diff import diff_values
from agentreplay.replay.ignoring import KINDS, NAMED, IgnoreRules, rule_for, rules_for
from hypothesis import given
from hypothesis import strategies as st

DECIMAL = {"$type": "decimal", "value": "1.10"}
KEYS = st.sampled_from(["a", "b", "id", "a b", "0", "", "é", "'", '"', "\\", "\u200b", "~"])
LEAVES = st.one_of(
    st.sampled_from([None, True, 0, 1, 1.0, -0.0, "", "x", DECIMAL, {"$type": "set", "items": [{"id": 1}, {"a": 2}]}]),
    st.integers(-5, 5),
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)
SEGMENTS = st.lists(KEYS | st.integers(0, 3) | st.just(None), min_size=1, max_size=3).map(tuple)
"""Paths of names, indexes and None for `*`."""


def rule_of(segments: tuple[str | int | None, ...]) -> str:
    """The rule of such a path, for whatever is compared."""
    return "$" + "".join("[*]" if key is None else rule_for("payload", None, (key,))[9:] for key in segments)


def names(segments: tuple[str | int | None, ...], keys: tuple[str | int, ...]) -> bool:
    """Whether a path of names, indexes and `*` names a place, by the definition of JSONPath."""
    return len(segments) == len(keys) and all(
        segment is None or (segment == key and type(segment) is type(key))
        for segment, key in zip(segments, keys, strict=True)
    )


def without(tree: Any, rules: list[tuple[str | int | None, ...]], keys: tuple[str | int, ...] = ()) -> Any:
    """What is left of a tree, by the definition: place by place."""

    def gone(key: str | int) -> bool:
        return any(names(rule, (*keys, key)) for rule in rules)

    if isinstance(tree, list):
        return [None if gone(at) else without(item, rules, (*keys, at)) for at, item in enumerate(tree)]
    if isinstance(tree, dict) and "$type" not in tree:
        return {key: without(item, rules, (*keys, key)) for key, item in tree.items() if not gone(key)}
    return tree


def places(tree: Any, keys: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place of a tree but the whole."""
    if isinstance(tree, list):
        children: list[tuple[str | int, Any]] = list(enumerate(tree))
    else:
        children = list(tree.items()) if isinstance(tree, dict) and "$type" not in tree else []
    for key, item in children:
        yield (*keys, key)
        yield from places(item, (*keys, key))


# -- what rules mean -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "kind", "name", "left"),
    [
        ("$.timestamp", "tool", "search", {"q": "x", "options": {"id": 1, "limit": 5}}),
        ("$.timestamp", "payload", None, {"q": "x", "options": {"id": 1, "limit": 5}}),
        ("tool:$.timestamp", "tool", "search", {"q": "x", "options": {"id": 1, "limit": 5}}),
        ("tool:search:$.options.id", "tool", "search", {"q": "x", "options": {"limit": 5}, "timestamp": 7}),
        ("tool:*:$.options.id", "tool", "search", {"q": "x", "options": {"limit": 5}, "timestamp": 7}),
        ("tool:se*h:$..id", "tool", "search", {"q": "x", "options": {"limit": 5}, "timestamp": 7}),
        ("  tool:search:$['options']  ", "tool", "search", {"q": "x", "timestamp": 7}),
        ("tool:mcp::search:$.q", "tool", "mcp::search", {"options": {"id": 1, "limit": 5}, "timestamp": 7}),
        ("tool:search", "tool", "search", None),
        ("tool:search:$", "tool", "search", None),
        ("tool", "tool", "search", None),
        ("$", "decision", None, None),
        ("payload", "payload", None, None),
    ],
)
def test_a_rule_leaves_out_what_it_names(rule: str, kind: str, name: str | None, left: Any) -> None:
    """With or without a kind, a name and a path."""
    tree = {"q": "x", "options": {"id": 1, "limit": 5}, "timestamp": 7}
    rules = IgnoreRules([rule])
    assert rules.applies(kind, name)
    assert rules.strip(kind, name, tree) == left
    assert rules.used() == (rule.strip(),)
    assert tree == {"q": "x", "options": {"id": 1, "limit": 5}, "timestamp": 7}


@pytest.mark.parametrize(
    ("rule", "kind", "name"),
    [
        ("tool:search:$.q", "tool", "Search"),
        ("tool:search:$.q", "tool", "search2"),
        ("tool:search:$.q", "tool", None),
        ("tool:search:$.q", "model", "search"),
        ("tool:search", "tool", "searches"),
        ("tool:a.c:$.q", "tool", "abc"),
        ("payload:$.q", "decision", None),
        ("read:clock", "read", "random"),
    ],
)
def test_a_rule_leaves_alone_what_is_of_another_kind_or_name(rule: str, kind: str, name: str | None) -> None:
    """Then the very tree comes back, and the rule is unused."""
    tree = {"q": "x"}
    rules = IgnoreRules([rule])
    assert not rules.applies(kind, name)
    assert not rules.ignores(kind, name)
    assert rules.strip(kind, name, tree) is tree
    assert rules.unused() == (rule,)


def test_items_of_lists_become_null_and_keys_go() -> None:
    """So the other items keep their places."""
    rules = IgnoreRules(["$.ids[0]", "$.messages[*].id", "$.rows[?@.volatile].at", "$..trace_id"])
    tree = {
        "ids": ["a", "b"],
        "messages": [{"id": 1, "text": "x"}, {"text": "y"}],
        "rows": [{"volatile": True, "at": 1}, {"at": 2}],
        "deep": [[{"trace_id": 1, "k": 2}]],
    }
    assert rules.strip("payload", None, tree) == {
        "ids": [None, "b"],
        "messages": [{"text": "x"}, {"text": "y"}],
        "rows": [{"volatile": True}, {"at": 2}],
        "deep": [[{"k": 2}]],
    }


def test_what_no_rule_names_is_shared() -> None:
    """Only what lies above a place that is left out is made anew."""
    tree = {"a": {"id": 1, "big": [1, 2]}, "b": [3]}
    left = IgnoreRules(["$.a.id"]).strip("payload", None, tree)
    assert left == {"a": {"big": [1, 2]}, "b": [3]}
    assert left["b"] is tree["b"]
    assert left["a"]["big"] is tree["a"]["big"]


def test_a_tag_is_a_leaf() -> None:
    """No path leads into a tagged value, which is left out or stays as a whole."""
    order = {"$type": "dataclass", "class": "shop:Order", "fields": {"id": 1}}
    tree = {"order": order, "items": [DECIMAL]}
    inside = IgnoreRules(["$..id", "$.order.fields", "$.items[0].value", "$..['$type']"])
    assert inside.strip("payload", None, tree) is tree
    assert inside.used() == ()
    assert IgnoreRules(["$.order", "$.items[0]"]).strip("payload", None, tree) == {"items": [None]}
    assert IgnoreRules(["$.id", "$.*"]).strip("tool", "f", {"$type": "dict", "items": []}) == {
        "$type": "dict",
        "items": [],
    }


def test_a_rule_for_the_whole_needs_no_tree() -> None:
    """What is ignored as a whole can be asked for before there is anything to compare."""
    rules = IgnoreRules(["read:clock", "tool:now:$.zone"])
    assert rules.ignores("read", "clock")
    assert not rules.ignores("read", "random")
    assert not rules.ignores("tool", "now")
    assert rules.used() == ("read:clock",)
    assert rules.unused() == ("tool:now:$.zone",)


def test_no_rules_are_false_and_change_nothing() -> None:
    """The usual case costs nothing."""
    rules = IgnoreRules()
    tree = {"a": 1}
    assert not rules
    assert rules.strip("tool", "f", tree) is tree
    assert rules.used() == rules.unused() == ()


def test_a_value_that_is_no_container_has_no_places() -> None:
    """A path leads nowhere in a text or a number."""
    rules = IgnoreRules(["$.a", "$..*"])
    assert [rules.strip("read", "env", value) for value in ("text", 1, None)] == ["text", 1, None]


def test_rules_look_as_deep_as_stored_trees_go() -> None:
    """`..` reaches 250 levels; where it would stop it says so instead of leaving half."""
    deep: dict[str, Any] = {"x": 1}
    for _ in range(250):
        deep = {"a": deep}
    left = IgnoreRules(["$..x"]).strip("payload", None, deep)
    for _ in range(250):
        left = left["a"]
    assert left == {}
    for _ in range(100):
        deep = {"a": deep}
    with pytest.raises(UsageError) as error:
        IgnoreRules(["$..x"]).strip("payload", None, deep)
    assert str(error.value) == (
        "the ignore rule '$..x' meets a value nested more than 300 deep, where `..` stops; "
        "name the path to what it means"
    )


def test_the_library_is_loaded_for_a_path_only() -> None:
    """No rule, no import; a rule for the whole has no path to read."""
    code = (
        "import sys; from agentreplay.replay.ignoring import IgnoreRules; "
        "IgnoreRules([]); IgnoreRules(['read:clock', 'tool:now']).strip('read', 'clock', 1); "
        "print('jsonpath_rfc9535' in sys.modules); IgnoreRules(['$.a']); print('jsonpath_rfc9535' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


# -- laws ----------------------------------------------------------------------------------------------


@given(TREES, st.lists(SEGMENTS, min_size=1, max_size=3))
def test_what_is_left_is_what_no_rule_names(tree: Any, paths: list[tuple[str | int | None, ...]]) -> None:
    """By the definition, place by place; the tree itself stays as it was."""
    before = copy.deepcopy(tree)
    rules = IgnoreRules([rule_of(path) for path in paths])
    left = rules.strip("payload", None, tree)
    assert same(left, without(tree, paths))
    assert same(tree, before)
    named = any(names(path, place) for path in paths for place in places(tree))
    assert (left is tree) == (not named)
    assert bool(rules.used()) == named


@given(TREES, st.lists(SEGMENTS.map(rule_of) | st.sampled_from(["$..id", "$..[0]", "$..*", "$"]), max_size=3))
def test_stripping_twice_is_stripping_once(tree: Any, texts: list[str]) -> None:
    """What is left has nothing more to leave out."""
    rules = IgnoreRules(texts)
    left = rules.strip("payload", None, tree)
    assert same(rules.strip("payload", None, left), left)


@given(TREES, st.lists(SEGMENTS, min_size=1, max_size=3), st.data())
def test_values_that_differ_in_ignored_places_only_are_the_same(
    tree: Any, paths: list[tuple[str | int | None, ...]], data: st.DataObject
) -> None:
    """However they differ there."""

    def other(node: Any, keys: tuple[str | int, ...]) -> Any:
        if keys and any(names(path, keys) for path in paths):
            return data.draw(TREES)
        if isinstance(node, list):
            return [other(item, (*keys, at)) for at, item in enumerate(node)]
        if isinstance(node, dict) and "$type" not in node:
            return {key: other(item, (*keys, key)) for key, item in node.items()}
        return node

    rules = IgnoreRules([rule_of(path) for path in paths])
    assert same(rules.strip("payload", None, tree), rules.strip("payload", None, other(tree, ())))


def test_a_rule_names_the_whole_of_what_it_cannot_lead_into() -> None:
    """Of a tuple, or a dict with odd keys, in which something differs, the whole is left out."""
    old, new = [encode({"o": [OrderedDict(n=n), (1, (n, n))]}).stored for n in (1, 2)]
    changes = diff_values(old, new, inside_tags=True)
    assert [change.path for change in changes] == ["/o/0/n", "/o/1/1/0", "/o/1/1/1"]
    texts = rules_for("tool", "search", changes)
    assert texts == ("tool:search:$.o[0]", "tool:search:$.o[1]")
    assert not diff_values(*[IgnoreRules(texts).strip("tool", "search", tree) for tree in (old, new)])


@given(TREES, TREES)
def test_the_rules_for_some_changes_leave_no_difference(old: Any, new: Any) -> None:
    """What is suggested for a difference does ignore it."""
    rules = IgnoreRules(rules_for("tool", "search", diff_values(old, new)))
    assert same(rules.strip("tool", "search", old), rules.strip("tool", "search", new))
    assert rules.unused() == ()


@given(st.sampled_from(NAMED), st.text(max_size=8), st.lists(KEYS | st.text(max_size=3) | st.integers(0, 2)))
def test_a_rule_that_was_written_can_be_read(kind: str, name: str, keys: list[str | int]) -> None:
    """It names its place, whatever characters the name and the keys have."""
    tree: Any = {"kept": 1}
    for key in reversed(keys):
        tree = {key: tree} if isinstance(key, str) else [*[0] * key, tree]
    text = rule_for(kind, name, tuple(keys))
    rules = IgnoreRules([text])
    assert text.isprintable()
    assert same(rules.strip(kind, name, tree), without(tree, [tuple(keys)]) if keys else None)
    assert rules.used() == (text.strip(),)


@given(st.text(max_size=12) | st.text("$.[]*?@'\"()=&|!:<>1a ,-\\u", max_size=16).map("tool:f:$".__add__))
def test_a_rule_can_be_read_or_is_refused(text: str) -> None:
    """Whatever was typed."""
    try:
        outcome = IgnoreRules([text]).unused()
    except UsageError as error:
        outcome = (str(error)[:41],)
    assert outcome in [(text.strip(),), ("cannot read the ignore rule at character ",)]


# -- rules to type -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "keys", "text"),
    [
        ("tool", "search", ("options", "request_id"), "tool:search:$.options.request_id"),
        ("tool", "search", ("a b", 0, "it's", "é"), 'tool:search:$["a b"][0]["it\'s"]["é"]'),
        ("tool", "search", (), "tool:search"),
        ("tool", "mcp:/x", (), "tool:mcp:/x:$"),
        ("tool", "$ref", ("a",), "tool:*:$.a"),
        ("tool", "\x1b[2J", ("a\u202eb",), 'tool:*:$["a\\u202eb"]'),
        ("decision", None, ("confidence",), "decision:$.confidence"),
        ("payload", None, (), "payload"),
        ("read", "clock", (), "read:clock"),
    ],
)
def test_a_place_has_one_rule(kind: str, name: str | None, keys: tuple[str | int, ...], text: str) -> None:
    """In the short form where there is one; nothing in it hides."""
    assert rule_for(kind, name, keys) == text


def test_a_list_whose_items_moved_is_named_as_a_whole() -> None:
    """No place in it is the same on both sides; elsewhere the rules are exact."""
    old = {"ids": [1, 2], "items": [{"id": 1, "n": 1}, {"id": 2}], "at": 1, "list": [{"n": 1}]}
    new = {"ids": [1, 2, 3], "items": [{"id": 2}, {"id": 1, "n": 2}], "at": 2, "list": [{"n": 2}]}
    assert rules_for("payload", None, diff_values(old, new)) == (
        "payload:$.ids",
        "payload:$.items",
        "payload:$.at",
        "payload:$.list[0].n",
    )


# -- rules that cannot be read -------------------------------------------------------------------------

FORMS = "Rules look like $.timestamp, tool:search:$.options.request_id, payload:$.updated_at or read:clock."


@pytest.mark.parametrize(
    ("text", "position", "why"),
    [
        ("timestamp", 1, f'expected a path, which starts with "$", or one of {", ".join(KINDS)}'),
        (".timestamp", 1, f'expected a path, which starts with "$", or one of {", ".join(KINDS)}'),
        ("", 1, f'expected a path, which starts with "$", or one of {", ".join(KINDS)}'),
        ("tools:search:$.a", 1, f'expected a path, which starts with "$", or one of {", ".join(KINDS)}'),
        ("tool:", 6, 'expected a name, "*" for any, or a path, which starts with "$"'),
        ("tool::$.a", 6, 'expected a name, "*" for any, or a path, which starts with "$"'),
        ("tool:search:", 13, 'expected a path, which starts with "$"'),
        ("tool:search:.a", 13, 'expected a path, which starts with "$"'),
        ("tool:search:/a", 13, 'expected a path, which starts with "$"'),
        ("decision:confidence", 10, 'expected a path, which starts with "$"; a rule for decision has no name'),
        ("payload:x:$.a", 9, 'expected a path, which starts with "$"; a rule for payload has no name'),
        ("$.a[", 5, "unbalanced brackets"),
        ("tool:search:$.a[01]", 17, "leading zero in index selector"),
        ("tool:search:$.a b", 17, "expected '.', '..' or a bracketed selection, found 'b'"),
        ("$[?nope(@)]", 4, "function 'nope' is not defined"),
    ],
)
def test_a_rule_that_cannot_be_read_says_where(text: str, position: int, why: str) -> None:
    """With a mark under the place, and what rules look like."""
    with pytest.raises(UsageError) as error:
        IgnoreRules(["$.fine", text])
    assert str(error.value) == (
        f"cannot read the ignore rule at character {position}: {why}\n    {text}\n    {' ' * (position - 1)}^\n{FORMS}"
    )


def test_one_text_is_no_list_of_rules() -> None:
    """Its characters would be taken for rules."""
    with pytest.raises(UsageError) as error:
        IgnoreRules("$.a")
    assert str(error.value) == "ignore rules are a list of texts, not one text; write ['$.a']"
