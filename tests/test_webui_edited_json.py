"""Edited JSON as the edits of a re-run: they make of the payload what was typed, and replace no more than they must."""

from __future__ import annotations

import json
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
from agentreplay.recorder.values import already_stored, encode
from agentreplay.replay.edits import edits_of as asked_for
from agentreplay.webui.edited_json import changes_to, edits_of, text_of
from hypothesis import given
from hypothesis import strategies as st

Spot = namedtuple("Spot", "x y")


@dataclass
class Basket:
    lines: Any
    total: float


def stored(value: Any) -> Any:
    return encode(value).stored


def edits_between(before: Any, after: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the form asks for, if somebody types the one in the place of the other."""
    text = text_of(stored(after))
    return edits_of(changes_to(stored(before), text), text, "", stored(before))


def applied(before: Any, places: dict[str, Any], patch: list[dict[str, Any]]) -> Any:
    kept = [{name: already_stored(part) if name == "value" else part for name, part in one.items()} for one in patch]
    edits = asked_for(set={at: already_stored(value) for at, value in places.items()}, patch=kept or None)
    return edits.apply(stored(before), stored=True)


@pytest.mark.parametrize(
    ("before", "after", "places"),
    [
        (Basket(["a", "b"], 1.0), Basket(["b"], 2.0), {"/b/lines": ["b"], "/b/total": 2.0}),
        (Basket(["a"], 1.0), Basket(["b", "a"], 1.0), {"/b/lines": ["b", "a"]}),
        (Basket(["a", "b", "c"], 1.0), Basket(["c", "a", "b"], 1.0), {"/b/lines": ["c", "a", "b"]}),
        (Basket({"x": 1, "y": [1]}, 1.0), Basket({"y": [2]}, 1.0), {"/b/lines": {"y": [2]}}),
        (Basket((1, 2, 3), 1.0), Basket((1, 3), 1.0), {"/b/lines": stored((1, 3))}),
        ((1, {"q": [1, 2]}), (1, {"q": [2]}), {"/b/1/q": [2]}),
    ],
)
def test_a_list_inside_of_a_tag_is_set_and_not_the_tag(before: Any, after: Any, places: dict[str, Any]) -> None:
    """Items that were added, removed or moved shift their neighbours; the object around them stays the agent's own."""
    found, patch = edits_between({"b": before, "n": 1}, {"b": after, "n": 1})
    assert (found, patch) == (places, [])
    assert applied({"b": before, "n": 1}, found, patch) == stored({"b": after, "n": 1})


ITEMS = st.lists(st.integers(0, 3), max_size=5)
PAYLOADS = st.builds(
    lambda lines, more, pair: {
        "b": Basket([{"at": line} for line in lines], 1.0),
        "l": more,
        "t": (pair, Spot(1, more)),
    },
    ITEMS,
    ITEMS,
    ITEMS,
)


@given(PAYLOADS, PAYLOADS)
def test_the_edits_make_what_was_typed(before: Any, after: Any) -> None:
    """Inside of tags and outside, whatever shifted."""
    places, patch = edits_between(before, after)
    assert json.dumps(applied(before, places, patch)) == json.dumps(stored(after))
