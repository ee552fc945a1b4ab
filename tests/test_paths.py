"""Paths are shown to people and read back without loss."""

from __future__ import annotations

import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.replay import paths
from hypothesis import given
from hypothesis import strategies as st

KEY = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["", "0", "01", "-", "~", "/", "~1", "a.b", "a]b", 'q"', "it's", "(payload)", "a\ufe0f", "\u202e", "\x1b[0m"]
    ),
)
KEYS = st.lists(KEY | st.integers(0, 10**6), max_size=6).map(tuple)


@pytest.mark.parametrize(
    ("pointer", "shown"),
    [
        ("", "(payload)"),
        ("/order/items/0/price", "order.items[0].price"),
        ("/rates/EUR~1USD", 'rates["EUR/USD"]'),
        ("/a~0b", '["a~b"]'),
        ("/", '[""]'),
        ("/a//b", 'a[""].b'),
        ("/0/x", "[0].x"),
        ("/items/01", 'items["01"]'),
        ("/items/-", 'items["-"]'),
        ("/order-id", '["order-id"]'),
        ("/straße/größe", "straße.größe"),
        ("/a key/class", '["a key"].class'),
        ("/(payload)", '["(payload)"]'),
        ("/esc\x1b[31m", '["esc\\u001b[31m"]'),
        ("/a\u202eb", '["a\\u202eb"]'),
        ("/a\ufe0f", '["a\ufe0f"]'),
        ('/say "hi"', '["say \\"hi\\""]'),
    ],
)
def test_a_pointer_is_shown_as_a_person_would_write_it(pointer: str, shown: str) -> None:
    """Identifiers stand bare, indexes in brackets, anything else in quotes."""
    assert paths.display(pointer) == shown
    assert paths.to_pointer(shown) == pointer


def test_the_tree_tells_an_index_from_a_numeric_key() -> None:
    """`/a/0` is an index in a list and a key in an object."""
    tree = {"list": [{"0": [1]}], "object": {"0": {"1": "x"}}}
    assert paths.display("/list/0/0/0", tree) == 'list[0]["0"][0]'
    assert paths.display("/object/0/1", tree) == 'object["0"]["1"]'
    assert paths.display("/object/7/1", tree) == 'object["7"][1]'
    assert paths.keys_of("/list/5/0", tree) == ("list", 5, 0)


@given(KEYS)
def test_joined_keys_split_again(keys: tuple[str | int, ...]) -> None:
    """Escaping a key and reading it back is the identity."""
    assert paths.split(paths.join(keys)) == tuple(str(key) for key in keys)


@given(KEYS)
def test_what_is_shown_can_be_typed(keys: tuple[str | int, ...]) -> None:
    """The readable form of any path gives the same pointer again, and hides no character."""
    shown = paths.display_keys(keys)
    assert paths.to_pointer(shown) == paths.join(keys)
    assert shown.isprintable()


@given(KEYS)
def test_a_pointer_reads_as_itself(keys: tuple[str | int, ...]) -> None:
    """The machine form is accepted wherever a path is typed."""
    pointer = paths.join(keys)
    assert paths.to_pointer(pointer) == pointer


@pytest.mark.parametrize(
    ("typed", "pointer"),
    [
        ("order-id", "/order-id"),
        ("items.0.price", "/items/0/price"),
        ("items['a key']", "/items/a key"),
        (r"['it\'s']", "/it's"),
        ("[0][1]", "/0/1"),
        ("a b", "/a b"),
        ("~", "/~0"),
    ],
)
def test_a_path_may_be_typed_loosely(typed: str, pointer: str) -> None:
    """Quotes are needed only where the key would be read otherwise."""
    assert paths.to_pointer(typed) == pointer


@pytest.mark.parametrize(
    "typed",
    [
        ".",
        "a.",
        "a..b",
        "a[",
        "a[0",
        "a[]",
        "a[-1]",
        "a[01]",
        "a[x]",
        'a["x]',
        r'a["\q"]',
        "a]b",
        "a[0]b",
        'a"b"',
        "/~",
        "/a~2",
    ],
)
def test_an_unreadable_path_is_refused(typed: str) -> None:
    """What is neither form is a usage error that repeats what was typed."""
    with pytest.raises(UsageError) as caught:
        paths.to_pointer(typed)
    assert repr(typed) in str(caught.value)


def test_a_pointer_must_start_with_a_slash() -> None:
    """The machine form has one spelling."""
    with pytest.raises(UsageError):
        paths.split("a/b")
