"""Values as trees: everything can be reached, what changed is never folded away, and a tree stays small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from agentreplay.recorder.values import encode
from agentreplay.replay.diff import diff_values
from agentreplay.replay.paths import keys_of, split
from agentreplay.webui.in_words import in_line, lines_of
from agentreplay.webui.trees import NODES, Node, rest_of, tree_of, value_at
from hypothesis import given
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=70) | st.dictionaries(st.text(max_size=3), inner, max_size=30),
    max_leaves=60,
)


def address(pointer: str, start: int) -> str:
    return f"/value?path={quote(pointer, safe='')}&from={start}"


def nodes_in(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from nodes_in(node.children)


def everything(value: Any, nodes: list[Node]) -> Iterator[Node]:
    """All nodes of a tree, those that load on demand included, as a reader would open them."""
    for node in nodes:
        if node.kind == "rest" or (node.href and not node.children and not node.lines and not node.rest):
            asked = parse_qs(urlsplit(node.href).query, keep_blank_values=True)
            pointer, start = asked["path"][0], int(asked["from"][0])
            found, stop = value_at(value, split(pointer)), asked.get("to")
            at = keys_of(pointer, value)
            more = rest_of(found, address, at=at, start=start, stop=int(stop[0]) if stop else None)
            yield from everything(value, more)
        yield from everything(value, node.children)
        if node.kind != "rest":
            yield node


def pointers(value: Any, at: str = "") -> Iterator[str]:
    children: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    for key, child in children:
        here = at + "/" + str(key).replace("~", "~0").replace("/", "~1")
        yield here
        yield from pointers(child, here)


@given(JSON.filter(lambda value: isinstance(value, (dict, list)) and value))
def test_every_value_can_be_reached(value: Any) -> None:
    """What is folded is at the address that the fold has; nothing is shown twice."""
    reached = [node.pointer for node in everything(value, tree_of(value, address))]
    assert sorted(reached) == sorted(pointers(value))


@given(JSON, JSON)
def test_what_changed_is_marked(old: Any, new: Any) -> None:
    """Every change has its mark in the tree, on the node that it is about, as far as the budget goes."""
    changes = diff_values(old, new)
    marked = {(node.pointer, node.mark) for node in nodes_in(tree_of(new, address, changes)) if node.mark}
    if len(changes) < 20 and isinstance(old, dict) and isinstance(new, dict):
        for change in changes:
            if change.kind in ("add", "replace") and not any(isinstance(key, int) for key in change.keys):
                assert (change.path, change.kind) in marked


@given(st.integers(1, 400), st.integers(1, 400))
def test_a_tree_is_small_however_large_the_value(width: int, depth: int) -> None:
    """A tree has no more nodes than its budget, but for one container's worth."""
    value: Any = {f"key{at}": [{"a": at}] * width for at in range(width)}
    for _ in range(min(depth, 60)):
        value = {"inner": value}
    assert len(list(nodes_in(tree_of(value, address)))) <= NODES + 51


def test_long_containers_and_texts_are_folded_by_rule() -> None:
    """Twenty keys, fifty items, six lines; then a count, and an address for the rest."""
    keys = tree_of({f"k{at}": at for at in range(23)}, address)
    assert [len(keys), keys[-1].rest, keys[-1].href] == [21, "3 more keys", "/value?path=&from=20"]
    items = tree_of(list(range(1_050)), address)
    assert [len(items), items[-1].rest] == [51, "1,000 more items"]
    (text,) = tree_of({"t": "\n".join(["line"] * 9)}, address)
    assert (text.lines, text.rest) == (("line",) * 6, "all 44 characters")
    (text,) = tree_of({"t": "x" * 500}, address)
    assert text.text == '"' + "x" * 400 + "…"


def test_a_change_beyond_the_fold_is_shown() -> None:
    """The last of a thousand items stands in the tree if it changed."""
    old = {"items": list(range(1_000))}
    new = {"items": [*range(999), "new"]}
    (items,) = tree_of(new, address, diff_values(old, new))
    assert items.open
    changed = [node for node in items.children if node.mark]
    assert [(node.pointer, node.text, node.was) for node in changed] == [("/items/999", '"new"', "999")]


@given(st.lists(st.booleans(), min_size=1, max_size=400), st.booleans())
def test_with_changes_behind_the_fold_everything_still_stands_once_and_in_order(
    changed: list[bool], is_list: bool
) -> None:
    """What is folded between two things that changed is between them, and loads as far as the second."""
    old: Any = {f"k{at}": at for at in range(len(changed))}
    new: Any = {f"k{at}": -1 - at if is_other else at for at, is_other in enumerate(changed)}
    if is_list:
        old, new = [{"v": item} for item in old.values()], [{"v": item} for item in new.values()]
    shown = everything(new, tree_of(new, address, diff_values(old, new)))
    assert [node.pointer for node in shown if node.pointer.count("/") == 1] == [
        f"/{at}" if is_list else f"/k{at}" for at in range(len(changed))
    ]


def test_a_fold_between_changes_says_how_much_is_in_it() -> None:
    """Forty keys before the change, nine behind it."""
    old = {f"k{at:02}": at for at in range(70)}
    nodes = tree_of(old | {"k60": "new"}, address, diff_values(old, old | {"k60": "new"}))
    assert [(node.key or node.rest, node.href) for node in nodes[20:]] == [
        ("40 more keys", "/value?path=&from=20&to=60"),
        ("k60", ""),
        ("9 more keys", "/value?path=&from=61"),
    ]


def test_what_was_removed_stands_where_it_was() -> None:
    """A removed key is a line of its own, marked."""
    (gone, kept) = tree_of({"a": 1}, address, diff_values({"a": 1, "b": {"c": 2}}, {"a": 1}))
    assert (gone.mark, gone.key, gone.text, gone.sign) == ("remove", "b", "{1 key}", "−")
    assert kept.mark == ""


def test_a_moved_item_is_marked_as_moved() -> None:
    """Not as one that is gone and another that is new."""
    old, new = [{"id": 1}, {"id": 2}, {"id": 3}], [{"id": 3}, {"id": 1}, {"id": 2}]
    marks = [(node.mark, node.was) for node in tree_of(new, address, diff_values(old, new)) if node.mark]
    assert marks == [("move", "2")]


@pytest.mark.parametrize(
    ("value", "shown", "kind"),
    [
        (2**53 + 1, "9007199254740993", "number"),
        (10**40, "1" + "0" * 40, "number"),
        (float("nan"), "nan", "number"),
        (-0.0, "-0.0", "number"),
        (1.0, "1.0", "number"),
        (1, "1", "number"),
        (True, "true", "word"),
        (None, "null", "word"),
        ("", '""', "text"),
        (b"\x00\xff", "b'\\x00\\xff'", "other"),
        ("\ud800", '"\\ud800"', "text"),
        ("\x1b[31m\u202e", '"\\x1b[31m\\u202e"', "text"),
        ("back\\slash", '"back\\\\slash"', "text"),
        ([], "[]", "list"),
        ({}, "{}", "object"),
        ((1,), "(1,)", "other"),
    ],
)
def test_values_are_shown_exactly(value: Any, shown: str, kind: str) -> None:
    """Also those that JSON or a browser would change."""
    (node,) = tree_of({"v": encode(value).stored}, address)
    assert (node.text, node.kind) == (shown, kind)


@pytest.mark.parametrize("key", ["$type", "half \ud800"])
def test_one_key_that_the_log_cannot_have_makes_no_other_object(key: str) -> None:
    """The object is opened, folded and marked as any other: by its keys."""
    old = {key: "fake", "a": {"b": 1}, **{f"k{at}": at for at in range(30)}}
    new = old | {"a": {"b": 2}, "k27": "new"}
    before, after = encode({"p": old}).stored, encode({"p": new}).stored
    (node,) = tree_of(before, address)
    assert (node.text, node.kind, node.is_branch, node.rest) == ("{32 keys}", "object", True, "")
    (node,) = tree_of(after, address, diff_values(before, after, inside_tags=True))
    assert [(each.key or each.rest, each.mark) for each in node.children if each.mark or each.rest] == [
        ("a", "inside"),
        ("9 more keys", ""),
        ("k27", "replace"),
        ("2 more keys", ""),
    ]
    assert [each.pointer for each in tree_of(encode({key: 1, "b": 2}).stored, address)] == [f"/{key}", "/b"]
    assert in_line(encode({key: 1}).stored) == "{1 key}"


def test_null_is_not_missing() -> None:
    """A value of null is there; what is not there says so."""
    assert value_at({"a": None}, ("a",)) is None
    assert repr(value_at({}, ("a",))) == "MISSING"
    assert repr(value_at([1], ("-1",))) == "MISSING"
    assert repr(value_at("text", ("0",))) == "MISSING"


def test_what_stands_elsewhere_is_told_by_its_size() -> None:
    """Large values and conversations are tags that load what they stand for."""
    blob = {"$type": "blob", "hash": "sha256:00", "size": 3_200_000}
    talk = {"$type": "messages", "hash": "sha256:00", "count": 12}
    first, second = tree_of({"a": blob, "b": talk}, address)
    assert (first.text, first.is_branch, second.text) == ("3.2 MB", True, "[12 messages]")


def test_a_name_of_any_length_takes_a_line() -> None:
    """And nothing below it is sent at once, where the name would be repeated."""
    (node,) = tree_of({"k" * 10_000: {"a": {"b": 1}}}, address)
    assert len(node.key) < 130
    assert node.children == []
    assert node.href


TEXTS = st.lists(
    st.sampled_from(["a", "\\", "n", "r", "t", "x1b", "u200b", "\n", "\r", "\t", "\u200b", "\x1b", "\xa0", "\ud800"])
)


@given(TEXTS.map("".join), TEXTS.map("".join))
def test_texts_of_several_lines_look_the_same_only_if_they_are(one: str, other: str) -> None:
    """A carriage return, a tab or a space of no width is no other text's backslash and letters."""
    assert (lines_of(one) == lines_of(other)) is (one == other)
    assert all(line.isprintable() for line in lines_of(one))


def test_lines_end_as_they_were_recorded() -> None:
    """The line breaks of Windows are not those of Unix; a backslash that escapes nothing stays single."""
    (dos,) = tree_of({"t": "a\r\nb"}, address)
    assert dos.lines == ("a\\r", "b")
    assert lines_of("C:\\data\\next\n\\d+ \\\n") == ["C:\\data\\\\next", "\\d+ \\", ""]


def test_a_text_with_half_a_surrogate_is_a_text() -> None:
    """It has lines, is cut where others are, and loads as characters."""
    long = encode("\ud800 one\ntwo\n" * 60).stored
    (node,) = tree_of({"t": long}, address)
    assert node.lines == ("\\ud800 one", "two") * 3
    assert node.rest == "all 600 characters"
    (whole,) = rest_of(long, address, at=("t",), start=0)
    assert whole.lines == ("\\ud800 one", "two") * 60 + ("",)
    assert in_line(long) == '"' + "\\ud800 one\\ntwo\\n" * 6 + "\\ud800 o…"


def test_a_number_of_any_length_is_shown_by_its_digits() -> None:
    """The first of them, how many there are, and all on demand: never as fields, which it has not."""
    (node,) = tree_of({"n": encode(16**1000).stored}, address)
    assert (node.text, node.rest, node.href) == (
        "0x1" + "0" * 397 + "…",
        "all 1,003 characters",
        "/value?path=%2Fn&from=0",
    )
    (whole,) = rest_of(encode(16**1000).stored, address, at=("n",), start=0)
    assert whole.lines == ("0x1" + "0" * 1000,)
    (raw,) = tree_of({"b": encode(b"x" * 500).stored}, address)
    assert raw.rest == "all 503 characters"


def test_in_line_a_long_text_is_cut() -> None:
    """With a sign that it was."""
    assert in_line("a" * 63) == '"' + "a" * 63 + '"'
    assert in_line("a" * 100) == '"' + "a" * 63 + "…"
    assert in_line([1, 2]) == "[2 items]"
