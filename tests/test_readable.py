"""Values are shown short, exact about types, and harmless."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import uuid
from collections import Counter, OrderedDict
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from agentreplay.recorder.values import encode
from agentreplay.replay.readable import fingerprint, looks_like, readable, size_of, visible
from hypothesis import given
from hypothesis import strategies as st


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Order:
    number: int
    tags: tuple[str, ...]


class Name(str):
    __slots__ = ()


TEXTS = st.text(st.characters(codec=None), max_size=12)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (1, "1"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1e22, "1e+22"),
        ("1", '"1"'),
        ('say "hi"\n', '"say \\"hi\\"\\n"'),
        ("C:\\x1b", '"C:\\\\x1b"'),
        ({"a": [1, {"b": None}]}, '{"a": [1, {"b": null}]}'),
        ([], "[]"),
        (Decimal("1.10"), "Decimal('1.10')"),
        (uuid.UUID(int=1), "UUID('00000000-0000-0000-0000-000000000001')"),
        (datetime.date(2026, 1, 2), "date('2026-01-02')"),
        (datetime.datetime(2026, 1, 2, 3, 4), "datetime('2026-01-02T03:04:00')"),
        (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "datetime('2026-01-02T00:00:00+00:00')"),
        (
            datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone(-datetime.timedelta(hours=5, minutes=30))),
            "datetime('2026-01-02T00:00:00-05:30')",
        ),
        (
            datetime.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
            "datetime('2026-10-25T02:30:00 Europe/Berlin' (second time))",
        ),
        (datetime.timedelta(days=1), "timedelta(days=1, seconds=0, microseconds=0)"),
        (PurePosixPath("/a b"), "PurePosixPath('/a b')"),
        (2**70, "1180591620717411303424"),
        (float("inf"), "inf"),
        (b"a\x00", "b'a\\x00'"),
        ((), "()"),
        ((1,), "(1,)"),
        ((1, "a"), '(1, "a")'),
        (set(), "set()"),
        ({1, 2}, "{1, 2}"),
        (frozenset({1}), "frozenset({1})"),
        ({1: "a", "1": "b"}, '{1: "a", "1": "b"}'),
        (OrderedDict(a=1), 'OrderedDict({"a": 1})'),
        (Counter("aab"), 'Counter({"a": 2, "b": 1})'),
        (Color.RED, "Color.RED"),
        (Order(7, ("x",)), 'Order(number=7, tags=("x",))'),
        (Name("Ada"), 'Name("Ada")'),
        (ValueError("no", 3), 'ValueError("no", 3)'),
        (int, "<class builtins:int>"),
        ("lone \ud800 \\", '"lone \\ud800 \\\\"'),
    ],
)
def test_a_value_is_shown_as_what_it_is(value: Any, shown: str) -> None:
    """Plain values look like JSON, others like the Python that makes them."""
    assert readable(value) == shown
    assert readable(encode(value).stored) == shown


@pytest.mark.parametrize(
    ("tag", "shown"),
    [
        ({"$type": "from-the-future", "value": 1}, "from-the-future(value=1)"),
        ({"$type": "set"}, "set()"),
        ({"$type": "decimal", "value": 1}, "decimal(value=1)"),
        ({"$type": "decimal", "value": "1", "more": 2}, 'decimal(value="1", more=2)'),
        ({"$type": "bytes", "base64": "?"}, 'bytes(base64="?")'),
        ({"$type": "dict", "items": [1]}, "dict(items=[1])"),
        ({"$type": "dataclass", "class": "m:A\x1b", "fields": []}, "A\\x1b(fields=[])"),
        ({"$type": ["odd"]}, "['odd']()"),
    ],
)
def test_an_unknown_or_odd_tag_is_shown_field_by_field(tag: dict[str, Any], shown: str) -> None:
    """A tag that this version does not know, or that is not in its kind's shape, is still shown whole."""
    assert readable(tag) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": "x" * 200, "b": 1}, "{2 keys, 214 bytes}"),
        (list(range(2000)), "[2,000 items, 8.9 KB]"),
        ({"a": list(range(300_000))}, "{1 key, 2.0 MB}"),
        ("x" * 1204, '"xxxxxxxxxxxxxxxxxxxx"… (1,204 characters)'),
        (b"x" * 900, "bytes(1.2 KB)"),
    ],
)
def test_a_large_value_is_summed_up(value: Any, shown: str) -> None:
    """What does not fit is named by its kind and size."""
    assert readable(value, 40) == shown


def test_a_value_that_just_fits_is_whole() -> None:
    """The limit counts the characters that are written."""
    assert readable([1, 2, 3], 9) == "[1, 2, 3]"
    assert readable([1, 2, 3], 8) == "[3 items, 7 bytes]"


@given(TEXTS)
def test_no_character_acts_or_hides(text: str) -> None:
    """Whatever a text holds, what is shown can be printed, and stays on its line."""
    for shown in (visible(text), readable(text), readable({text: text}), readable([text], 10)):
        assert shown.isprintable()
    assert visible(text, strict=True).isascii()
    assert readable(text, strict=True).isascii()


@given(TEXTS, TEXTS)
def test_strict_text_tells_all_texts_apart(a: str, b: str) -> None:
    """Two texts that differ never look the same in ASCII."""
    assert (visible(a, strict=True) == visible(b, strict=True)) is (a == b)
    assert (readable(a) == readable(b)) is (a == b)


@pytest.mark.parametrize(
    ("a", "b", "alike"),
    [("é", "e\u0301", True), ("a b", "a\u00a0b", True), ("ﬁ", "fi", True), ("ab", "a\u200bb", True), ("a", "b", False)],
)
def test_texts_that_look_alike_are_known(a: str, b: str, alike: bool) -> None:
    """Composed and decomposed, wide and narrow, with and without marks of no width."""
    assert looks_like(a, b) is alike


def test_sizes_are_rounded_for_people() -> None:
    """Bytes below a thousand, then decimal units."""
    assert [size_of(n) for n in (0, 1, 999, 1000, 2345, 1_000_000)] == [
        "0 bytes",
        "1 byte",
        "999 bytes",
        "1.0 KB",
        "2.3 KB",
        "1.0 MB",
    ]


def test_a_fingerprint_follows_the_value() -> None:
    """Equal values have one fingerprint, whatever the order of their keys; others have another."""
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1}) == "43258cff"
    assert len({fingerprint(value) for value in (1, 1.0, True, "1", None, [1])}) == 6
