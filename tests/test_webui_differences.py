"""Differences to look at: words, rows, and two states side by side."""

from __future__ import annotations

from typing import Any

from agentreplay.replay.changes import Cause, with_cause
from agentreplay.replay.diff import diff_values
from agentreplay.webui.differences import Piece, cause_row, change_rows, side_by_side, words_between
from hypothesis import given
from hypothesis import strategies as st

WORDS = st.lists(st.sampled_from(["one", "two", "three", " ", "\n", ".", "x"]), max_size=30).map("".join)
TREES = st.recursive(
    st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


def rows(old: Any, new: Any, **options: Any) -> list[Any]:
    def address(pointer: str, start: int) -> str:
        return f"{pointer}@{start}"

    return list(change_rows(diff_values(old, new), lambda change: None, address, address, **options))


@given(WORDS, WORDS)
def test_the_pieces_of_two_texts_make_both(old: str, new: str) -> None:
    """What is the same and what is only in one, put together, is that one; nothing is lost or made up."""
    pieces = list(words_between(old, new))
    if all(piece.kind != "fold" for piece in pieces):
        assert "".join(piece.text for piece in pieces if piece.kind in ("same", "old")) == old
        assert "".join(piece.text for piece in pieces if piece.kind in ("same", "new")) == new


def test_what_is_the_same_for_long_is_folded() -> None:
    """Some words before and after the difference stay, the others are a count."""
    old = "word " * 500 + "old " + "tail " * 500
    new = "word " * 500 + "new " + "tail " * 500
    pieces = list(words_between(old, new))
    assert [piece.kind for piece in pieces] == ["fold", "same", "old", "new", "same", "fold"]
    assert pieces[0].text == "494 words"
    assert pieces[2:4] == [Piece("old", "old"), Piece("new", "new")]


def test_texts_of_any_length_are_compared_in_pieces() -> None:
    """Two texts of a megabyte that have nothing in common are shown by their beginnings."""
    pieces = list(words_between("a " * 500_000, "b " * 500_000))
    assert [piece.kind for piece in pieces] == ["old", "fold", "new", "fold", "same"]
    assert sum(len(piece.text) for piece in pieces) < 3_000


def test_values_that_look_alike_look_apart() -> None:
    """1 and 1.0, and texts that differ in what cannot be seen."""
    assert [(row.old, row.new) for row in rows({"a": 1}, {"a": 1.0})] == [("1", "1.0")]
    (row,) = rows({"a": "x"}, {"a": "x\u200b"})
    assert (row.old, row.new) == ('"x"', '"x\\u200b"')


def test_each_kind_of_change_has_its_row() -> None:
    """With a sign beside its colour, and addresses of what is not said in a line."""
    found = rows({"a": 1, "b": {"c": 1}, "l": [{"id": 1}, {"id": 2}]}, {"a": 2, "d": [1], "l": [{"id": 2}, {"id": 1}]})
    assert [(row.kind, row.sign, row.path) for row in found] == [
        ("replace", "~", "a"),
        ("add", "+", "d"),
        ("move", "⇄", "l[1]"),
        ("remove", "−", "b"),
    ]
    assert (found[2].was_at, found[1].new, found[1].new_href) == ("l[0]", "[1 item]", "/d@0")
    assert (found[3].old, found[3].old_href) == ("{1 key}", "/b@0")


def test_a_long_text_is_a_row_of_words() -> None:
    """Short ones are written out."""
    (row,) = rows({"a": "a b c"}, {"a": "a b d"})
    assert (row.old, row.words) == ('"a b c"', ())
    (row,) = rows({"a": "word " * 30}, {"a": "word " * 30 + "end"})
    assert [piece.kind for piece in row.words][-1] == "new"


def test_a_cause_is_told_and_linked() -> None:
    """The call by its name where it is known, else by its id; without a call what kind of event it was."""
    calls = {"7.1": (60, "model ask")}
    known = cause_row(Cause(64, 7, "payload.changed", "7.1", "because"), "/runs/run1/steps", calls, 7)
    assert known is not None
    assert (known.text, known.href, known.why) == ("model ask", "/runs/run1/steps/7#c60", "because")
    other = cause_row(Cause(64, 7, "payload.changed", "9.9"), "/s", calls, None, "run2")
    assert other is not None
    assert (other.text, other.href) == ("call 9.9, run2, step 7", "/s/7#e64")
    plain = cause_row(Cause(3, 1, "payload.changed"), "/s", {}, 1)
    assert plain is not None
    assert plain.text == "request"
    assert cause_row(None, "/s", {}) is None


def test_side_by_side_folds_what_did_not_change() -> None:
    """Unchanged siblings are a count; the way to what changed is open."""
    old = {"a": {"x": 1, "y": 2, "z": 3}, "b": 1, "c": 2}
    new = {"a": {"x": 1, "y": 5, "z": 3}, "b": 1, "d": 4}
    sides = side_by_side(new, diff_values(old, new))
    assert [(side.depth, side.kind, side.key, side.old, side.new, side.text) for side in sides] == [
        (0, "remove", "c", "2", "", ""),
        (0, "inside", "a", "", "", "{3 keys}"),
        (1, "replace", "y", "2", "5", ""),
        (1, "fold", "", "", "", "2 unchanged"),
        (0, "add", "d", "", "4", ""),
        (0, "fold", "", "", "", "1 unchanged"),
    ]


def test_side_by_side_is_bounded() -> None:
    """Ten thousand changes are not ten thousand rows."""
    old, new = {str(at): at for at in range(10_000)}, {str(at): at + 1 for at in range(10_000)}
    sides = side_by_side(new, diff_values(old, new))
    assert len(sides) <= 402
    assert sides[-1].kind == "fold"


@given(TREES, TREES)
def test_every_change_stands_side_by_side(old: Any, new: Any) -> None:
    """Whatever changed, in lists that moved too, has a row."""
    changes = with_cause(diff_values(old, new), None)
    shown = [(side.kind, side.pointer) for side in side_by_side(new, changes)]
    for change in changes:
        assert (change.kind, change.path) in shown or ("replace", change.path) in shown
