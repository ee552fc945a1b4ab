"""Columns of text hold any string, in a form that every database takes."""

from __future__ import annotations

from agentreplay.recorder.column_text import from_column, to_column
from hypothesis import given
from hypothesis import strategies as st

ANY_TEXT = st.text(st.characters(exclude_categories=()) | st.sampled_from("\0\x10\\\ud800\udcff"))


@given(ANY_TEXT)
def test_any_text_comes_back_and_what_is_kept_is_plain(text: str) -> None:
    """What is kept has neither NUL nor lone surrogate, and is read back as the text that it was."""
    kept = to_column(text)
    assert "\0" not in kept
    assert kept.encode("utf-8").decode("utf-8") == kept
    assert from_column(kept) == text


def test_text_is_kept_as_it_is_where_that_can_be() -> None:
    """Only what a database would refuse, and what looks like its escape, is escaped."""
    for text in ("", "refunds", "é 😀", "a\\x00b", "line\nbreak", "\x01"):
        assert to_column(text) == text
    assert to_column("a\0b") == "\x10a\\x00b"
    assert to_column("\x10") == "\x10\\x10"
    assert to_column(None) is None
    assert from_column(7) == 7


def test_a_damaged_escape_is_read_as_it_is() -> None:
    """What was changed in the database is given as it is found; verifying names it."""
    assert from_column("\x10é") == "\x10é"
    assert from_column("\x10\\x0") == "\x10\\x0"
