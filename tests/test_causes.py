"""The event that made a change is found, however its place moved since."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from agentreplay.recorder.events import Event
from agentreplay.replay.causes import Edit, last_edits, with_causes
from agentreplay.replay.changes import Change
from agentreplay.replay.diff import diff_values
from event_builder import build
from hypothesis import given
from hypothesis import strategies as st

SCALARS = st.sampled_from([None, True, 0, 1, 1.0, "a", "b"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)
FLAT = st.dictionaries(st.sampled_from("abcdef"), SCALARS, max_size=6)


def changed(seq: int, **data: Any) -> Event:
    """A `payload.changed` event, of which only the envelope and who asked matter here."""
    fields = {"applier": {"name": "replace", "version": 1}, "hash_before": "", "hash_after": ""}
    return build(seq, 1, "payload.changed", {**fields, **data})


def edits_of(*values: Any) -> list[Edit]:
    """Edits that lead from each value to the next; their events have the seqs 0, 1, 2, …."""
    return [Edit(changed(seq), 1, before, after) for seq, (before, after) in enumerate(pairwise(values))]


def causes(*values: Any, backwards: bool = False) -> dict[str, int | None]:
    """Path and kind of each change from the first value to the last → seq of its cause."""
    old, new = (values[-1], values[0]) if backwards else (values[0], values[-1])
    changes = with_causes(diff_values(old, new), edits_of(*values), backwards=backwards)
    return {f"{change.kind} {change.path}": change.cause and change.cause.seq for change in changes}


def test_the_last_edit_of_a_place_is_its_cause() -> None:
    """A value that was changed several times was made by the last of its changes."""
    assert causes({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 3, "b": 1}, {"a": 3, "b": 2}) == {
        "replace /a": 1,
        "replace /b": 2,
    }


def test_an_edit_inside_an_added_value_is_its_cause() -> None:
    """What was added and changed afterwards is what the later change made of it."""
    assert causes({}, {"a": {"b": 1}}, {"a": {"b": 1}, "c": 1}, {"a": {"b": 2}, "c": 1}) == {"add /a": 2, "add /c": 1}


def test_a_removal_is_the_cause_of_what_is_gone() -> None:
    """What was changed and then removed was removed by the removal; put back and removed again, by the last."""
    assert causes({"a": 1}, {"a": 2}, {}, {"b": 1}) == {"remove /a": 1, "add /b": 2}
    assert causes({"a": 1}, {}, {"a": 2}, {}) == {"remove /a": 2}


def test_an_item_is_followed_through_insertions() -> None:
    """An item that others were put in front of is still the one that was changed before."""
    before = {"items": [{"id": 1, "price": 1}, {"id": 2, "price": 2}]}
    priced = {"items": [{"id": 1, "price": 1}, {"id": 2, "price": 9}]}
    pushed = {"items": [{"id": 0}, *priced["items"]]}
    assert causes(before, priced, pushed) == {"add /items/0": 1, "replace /items/2/price": 0}


def test_an_item_is_followed_through_moves() -> None:
    """A move makes the move; what changed inside the item has its own cause."""
    first, second, third = {"id": 1, "n": 1}, {"id": 2, "n": 1}, {"id": 3, "n": 1}
    before = {"items": [first, second, third]}
    edited = {"items": [first, second, {"id": 3, "n": 2}]}
    moved = {"items": [{"id": 3, "n": 2}, first, second]}
    assert causes(before, edited, moved) == {"move /items/0": 1, "replace /items/0/n": 0}


def test_a_removed_item_is_followed_from_where_it_was() -> None:
    """An item that moved up before it was removed was removed by its removal, not by what removed its neighbour."""
    assert causes({"l": ["a", "b", "c"]}, {"l": ["b", "c"]}, {"l": ["b", "c"], "x": 1}, {"l": ["b"], "x": 1}) == {
        "remove /l/0": 0,
        "remove /l/2": 2,
        "add /x": 1,
    }


def test_a_change_of_the_whole_is_the_cause_of_everything_in_it() -> None:
    """A payload that was replaced by something else altogether has that as its cause."""
    assert causes({"a": 1}, {"a": 2}, [1]) == {"replace ": 1}


def test_backwards_each_change_has_the_event_that_is_undone() -> None:
    """Compared from the later step to the earlier one, a change names the event that made the opposite of it."""
    assert causes({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 2}, {"a": 2, "c": 1}, backwards=True) == {
        "replace /a": 0,
        "add /b": 1,
        "remove /c": 2,
    }


def test_a_cause_says_who_asked_and_why() -> None:
    """The call that asked for a change, or inside which it happened, and the reason are part of the cause."""
    event = changed(7, source={"kind": "model", "call": "3.1"}, reason="because")
    (change,) = with_causes(diff_values({}, {"a": 1}), [Edit(event, 3, {}, {"a": 1})])
    assert change.cause is not None
    assert (change.cause.seq, change.cause.step, change.cause.kind) == (7, 3, "payload.changed")
    assert (change.cause.call, change.cause.why) == ("3.1", "because")


def test_without_edits_there_is_no_cause() -> None:
    """Two values that no event lies between differ without a cause."""
    (change,) = with_causes(diff_values({}, {"a": 1}), [])
    assert change.cause is None


def test_places_that_nothing_touched_have_no_last_edit() -> None:
    """Only what an edit touched is said to be its work."""
    (edit,) = edits_of({"a": 1, "b": 1}, {"a": 2, "b": 1})
    assert last_edits([Change("/a", "replace", 0, 2), Change("/b", "replace", 0, 1)], [edit]) == [edit, None]


@given(values=st.lists(VALUES, min_size=2, max_size=6), backwards=st.booleans())
def test_every_change_has_a_cause(values: list[Any], backwards: bool) -> None:
    """Whatever happened in between, in lists too, each difference names an event that changed something."""
    assert None not in causes(*values, backwards=backwards).values()


@given(values=st.lists(FLAT, min_size=2, max_size=8))
def test_the_cause_is_the_last_event_that_differs_at_the_place(values: list[dict[str, Any]]) -> None:
    """For places that cannot move, the cause is the last edit before and after which the value is not the same."""
    missing = object()
    for change in with_causes(diff_values(values[0], values[-1]), edits_of(*values)):
        key = change.keys[0]
        differing = [
            seq
            for seq, (before, after) in enumerate(pairwise(values))
            if repr(before.get(key, missing)) != repr(after.get(key, missing))
        ]
        assert change.cause is not None
        assert change.cause.seq == differing[-1]


def test_a_long_log_is_followed() -> None:
    """Of thousands of edits, each of another place or another item, every place finds its own."""
    count = 2_000
    values: list[Any] = [{"list": []}]
    for n in range(count):
        last = values[-1]
        items = {"list": [*last["list"], n]} if n % 10 == 0 else {}
        values.append({**last, f"k{n % 50}": n, **items})
    found = causes(*values)
    assert found["add /k7"] == count - 43
    assert found["add /list/0"] == 0
    assert len(found) == 50 + count // 10
