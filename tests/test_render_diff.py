"""Changes are shown one line each, types in sight, and nothing recorded can act on the terminal."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import pytest
from agentreplay.cli.render_diff import render_changes
from agentreplay.replay.diff import Cause, Change, diff_values, with_cause
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

HOSTILE = st.text(st.characters(codec=None), max_size=30) | st.sampled_from(
    ["\x1b[2J", "\x1b]0;title\x07", "\u202egnp", "\ud800", "a\r\nb", "\x9b31m", "[bold]not markup[/bold]", ":smile:"]
)


def shown(changes: Sequence[Change], *, limit: int | None = 160, encoding: str = "utf-8", colours: bool = False) -> str:
    """What `render_changes` writes to a file, or to a terminal of 40 columns."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="")
    console = Console(file=file, width=40, force_terminal=colours, color_system="standard" if colours else None)
    render_changes(changes, console, limit=limit)
    file.flush()
    return raw.getvalue().decode(encoding)


def lines(a: Any, b: Any, **options: Any) -> list[str]:
    return shown(diff_values(a, b), **options).splitlines()


def test_each_kind_of_change_has_its_sign() -> None:
    """Added, removed, replaced and moved values stand on a line of their own, and the last line counts them."""
    a = {"order": {"total": 120.0, "draft": True, "items": [{"id": 1}, {"id": 2}, {"id": 3}]}}
    b = {"order": {"total": 95.5, "items": [{"id": 3}, {"id": 1}, {"id": 2}], "refund": {"amount": 24.5}}}
    assert lines(a, b) == [
        "~ order.total  120.0 → 95.5",
        '> order.items[0]  from order.items[2]  {"id": 3}',
        '+ order.refund  {"amount": 24.5}',
        "- order.draft  true",
        "4 changes: 1 added, 1 removed, 1 replaced, 1 moved",
    ]


def test_no_difference_is_said_only_if_there_is_none() -> None:
    """An empty diff says so; a single change is not called changes."""
    assert lines({"a": 1}, {"a": 1}) == ["no difference"]
    assert lines(1, True) == ["~ (payload)  1 → true", "1 change: 1 replaced"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (1, 1.0, "1 → 1.0"),
        ("1", 1, '"1" → 1'),
        (True, "true", 'true → "true"'),
        (0.0, -0.0, "0.0 → -0.0"),
        (None, "null", 'null → "null"'),
        (None, {}, "null → {}"),
        ("é", "e\u0301", '"\\xe9" → "e\\u0301"'),
        ("a b", "a\u00a0b", '"a b" → "a\\xa0b"'),
        ("\\x1b", "\x1b", '"\\\\x1b" → "\\x1b"'),
        ("❤", "❤\ufe0f", '"\\u2764" → "\\u2764\\ufe0f"'),
        ({"$type": "decimal", "value": "1.1"}, "Decimal('1.1')", "Decimal('1.1') → \"Decimal('1.1')\""),
        (
            {"$type": "decimal", "value": "1.1"},
            {"$type": "decimal", "value": "1.10"},
            "Decimal('1.1') → Decimal('1.10')",
        ),
    ],
)
def test_old_and_new_never_look_the_same(old: Any, new: Any, line: str) -> None:
    """Types are visible, and texts that would look alike are written in ASCII."""
    assert lines({"x": old}, {"x": new})[0] == f"~ x  {line}"


def test_large_values_are_summed_up_and_still_told_apart() -> None:
    """Two values with the same summary carry a fingerprint of what is in them."""
    a = {"x": {"$type": "tuple", "items": ["a" * 200]}, "gone": [0] * 100}
    b = {"x": {"$type": "tuple", "items": ["b" * 200]}, "new": "text " * 100}
    first, second, third, _ = lines(a, b)
    assert re.fullmatch(r"~ x  tuple\(230 bytes\) #[0-9a-f]{8} → tuple\(230 bytes\) #[0-9a-f]{8}", first)
    assert second == f'+ new  "{"text " * 16}"… (500 characters)'
    assert third == "- gone  [100 items, 201 bytes]"


def test_nothing_is_summed_up_without_a_limit() -> None:
    """With no limit every value and every line of a text is written whole."""
    assert lines({}, {"x": [0] * 100}, limit=None)[0] == f"+ x  [{', '.join(['0'] * 100)}]"
    a, b = {"t": "a" * 500 + "old" + "z" * 500}, {"t": "a" * 500 + "new" + "z" * 500}
    assert lines(a, b, limit=None)[1:3] == [f"    - {a['t']}", f"    + {b['t']}"]


def test_a_long_text_shows_what_differs_in_it() -> None:
    """Of a long line, the changed middle with some context."""
    a = {"notes": "x" * 300 + " was shipped to " + "y" * 300}
    b = {"notes": "x" * 300 + " was delivered to " + "y" * 300}
    assert lines(a, b) == [
        "~ notes  text, 616 → 618 characters",
        f"    - …{'x' * 25} was shipped to {'y' * 24}…",
        f"    + …{'x' * 25} was delivered to {'y' * 24}…",
        "1 change: 1 replaced",
    ]


def test_a_long_text_of_lines_shows_the_lines_that_differ() -> None:
    """Changed, new and lost lines stand under the number of the line, after the line before them."""
    before = [f"line number {n}" for n in range(1, 31)]
    after = [*before[:9], "line NUMBER 10", *before[10:20], "one more", *before[20:29]]
    assert lines({"t": "\n".join(before)}, {"t": "\n".join(after)}) == [
        "~ t  text, 440 → 434 characters",
        "    @ line 10",
        "      line number 9",
        "    - line number 10",
        "    + line NUMBER 10",
        "    @ line 21",
        "      line number 20",
        "    + one more",
        "    @ line 31",
        "      line number 29",
        "    - line number 30",
        "1 change: 1 replaced",
    ]


def test_a_text_that_changed_everywhere_is_cut_with_a_count() -> None:
    """Past forty lines, the rest is counted, not hidden."""
    a, b = "\n".join([f"old {n}" for n in range(100)]), "\n".join([f"new {n}" for n in range(100)])
    found = lines({"t": a}, {"t": b})
    assert found[-2] == "    … 161 more lines"
    assert len(found) == 1 + 40 + 1 + 1


def test_a_difference_in_line_ends_is_seen() -> None:
    """Carriage returns and missing last newlines are differences like any other."""
    text = "a line of text\n" * 20
    assert lines({"t": text}, {"t": text[:-1]})[1:4] == ["    @ line 21", "      a line of text", "    - "]
    found = lines({"t": text}, {"t": text.replace("\n", "\r\n")})
    assert found[2:4] == ["    - a line of text", "    + a line of text\\r"]


def test_a_long_text_may_differ_unseen() -> None:
    """What only looks alike within a long text is written in ASCII, where it differs."""
    a, b = {"t": "x" * 200 + "é" + "y" * 200}, {"t": "x" * 200 + "e\u0301" + "y" * 200}
    assert [line.strip("… xy") for line in lines(a, b)[1:3]] == [
        f"- …{'x' * 30}\\xe9",
        f"+ …{'x' * 30}e\\u0301",
    ]


def test_changes_stand_under_their_cause() -> None:
    """Changes are grouped by the event that made them, in the order of events, with the reason it gave."""
    first = with_cause(diff_values({"a": 1, "b": 1}, {"a": 2, "b": 2}), Cause(41, 7, "payload.changed", "c3", "found"))
    second = with_cause(diff_values({"c": 1}, {"c": 2}), Cause(12, 2, "run.started"))
    rest = diff_values({"d": 1}, {"d": 2})
    assert shown([first[0], *rest, *second, first[1]]).splitlines() == [
        "step 2, event 12: run.started",
        "~ c  1 → 2",
        "step 7, event 41: payload.changed in call c3 — found",
        "~ a  1 → 2",
        "~ b  1 → 2",
        "~ d  1 → 2",
        "4 changes: 4 replaced",
    ]


def test_piped_output_is_plain_and_uncut() -> None:
    """No colours, and lines longer than the width of the terminal stay whole."""
    text = shown(diff_values({}, {"a": {"b" * 70: "c" * 70}}))
    assert text == f'+ a  {{"{"b" * 70}": "{"c" * 70}"}}\n1 change: 1 added\n'


def test_a_terminal_gets_colours_and_the_same_text() -> None:
    """Without its colour codes, a terminal shows what a file gets."""
    a, b = {"a": 1, "t": "x" * 300, "g": 0}, {"a": 2, "t": "x" * 150 + "y" * 150, "n": [1]}
    coloured = shown(diff_values(a, b), colours=True)
    assert "\x1b[31m" in coloured
    assert "\x1b[32m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == shown(diff_values(a, b))


@given(HOSTILE, HOSTILE, HOSTILE)
def test_nothing_recorded_acts_on_the_terminal(key: str, old: str, new: str) -> None:
    """Whatever stands in keys, values and reasons, only our own lines and printable characters come out."""
    changes = with_cause(
        diff_values({"k": {key: old}, "t": old * 20}, {"k": {key: new}, "t": new * 20, "n": [new]}),
        Cause(1, 1, "x.own", key, new),
    )
    text = shown(changes)
    assert all(line.isprintable() for line in text.split("\n"))
    assert text.count("\n") == len(text.splitlines())
    coloured = shown(changes, colours=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == text


@given(HOSTILE, HOSTILE)
def test_any_encoding_of_the_output_will_do(old: str, new: str) -> None:
    """Where the output cannot hold a character, its escape is written instead."""
    changes = with_cause(diff_values({"t": old, "l": old * 20}, {"t": new, "l": new * 20}), Cause(1, 1, "x", None, new))
    assert shown(changes, encoding="ascii").isascii()


def test_our_own_signs_have_an_ascii_form() -> None:
    """Where the output is ASCII, arrows are drawn with it, and those in values are escaped."""
    changes = with_cause(diff_values({"é": "→"}, {"é": "->"}), Cause(1, 1, "x", None, "why"))
    assert shown(changes, encoding="ascii").splitlines()[:2] == [
        "step 1, event 1: x - why",
        '~ \\xe9  "\\u2192" -> "->"',
    ]
