"""Lists are aligned as a person would: one insertion is one change."""

from __future__ import annotations

import random
from typing import Any

import pytest
from agentreplay.replay.align import Alignment, align
from hypothesis import given
from hypothesis import strategies as st

ITEMS = st.one_of(
    st.integers(0, 4),
    st.sampled_from([None, True, False, 1.0, "a", "b", [], [1]]),
    st.builds(lambda i, v: {"id": i, "v": v}, st.integers(0, 4), st.integers(0, 2)),
    st.builds(lambda v: {"v": v, "w": 1}, st.integers(0, 2)),
)


def apply(alignment: Alignment, old: list[Any], new: list[Any]) -> list[Any]:
    """Rebuild the new list from the old one and what the alignment says is new, moved or changed."""
    moved = {to: start for start, to in alignment.moved}
    changed = {to for _, to in alignment.changed}
    gone = {*alignment.removed, *moved.values()}
    staying = iter([item for at, item in enumerate(old) if at not in gone])
    rebuilt = []
    for at in range(len(new)):
        if at in alignment.added:
            rebuilt.append(new[at])
            continue
        item = old[moved[at]] if at in moved else next(staying)
        rebuilt.append(new[at] if at in changed else item)
    assert next(staying, "nothing left") == "nothing left"
    return rebuilt


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([], [], Alignment()),
        ([1, 2, 3], [1, 2, 3], Alignment()),
        ([], ["x"], Alignment(added=(0,))),
        (["x"], [], Alignment(removed=(0,))),
        ([1, 2, 3], [1, 9, 2, 3], Alignment(added=(1,))),
        ([1, 2, 3], [1, 3], Alignment(removed=(1,))),
        ([1, 2, 3], [1, 9, 3], Alignment(changed=((1, 1),))),
        ([1, 2, 3], [3, 1, 2], Alignment(moved=((2, 0),))),
        ([1, 2, 3, 4, 5], [2, 3, 4, 5, 1], Alignment(moved=((0, 4),))),
        ([1, True, 1.0, 0.0], [1.0, True, 1, -0.0], Alignment(changed=((0, 0), (2, 2), (3, 3)))),
        ([1, 2, 3, 4, 5], [9, 2, 8, 4, 5], Alignment(changed=((0, 0), (2, 2)))),
        ([0, 0, 0], [0, 0], Alignment(removed=(2,))),
        (["a", "b", "a", "b"], ["a", "b", "x", "a", "b"], Alignment(added=(2,))),
    ],
)
def test_a_small_edit_is_told_as_it_was_made(old: list[Any], new: list[Any], expected: Alignment) -> None:
    """Insertions, removals, replacements and moves are each found as what they are."""
    assert align(old, new) == expected


def test_one_insertion_in_a_long_list_is_one_addition() -> None:
    """Wherever an item is inserted among 1,150, nothing else is reported."""
    old = [{"n": n, "text": f"item {n % 7}"} for n in range(1150)]
    for at in (0, 1, 575, 1149, 1150):
        new = [*old[:at], {"n": -1}, *[dict(item) for item in old[at:]]]
        assert align(old, new) == Alignment(added=(at,))


def test_scattered_edits_of_a_long_list_are_found_one_by_one() -> None:
    """An insertion does not hide a removal and a change elsewhere."""
    old = [{"n": n} for n in range(1000)]
    new = [*old[:100], {"n": -1}, *old[100:500], *old[501:900], {"n": -2}, *old[901:]]
    assert align(old, new) == Alignment(added=(100,), removed=(500,), changed=((900, 900),))


def test_a_swap_of_two_objects_far_apart_is_two_moves() -> None:
    """Objects are followed to where they went, even past hundreds of others."""
    old = [{"n": n} for n in range(300)]
    new = [old[299], *old[1:299], old[0]]
    assert align(old, new) == Alignment(moved=((299, 0), (0, 299)))


def test_flags_that_flip_do_not_move() -> None:
    """A number or truth value in its place has changed, even if the same value vanished elsewhere."""
    assert align([True, 5, 6, 7, False], [False, 5, 6, 7, True]) == Alignment(changed=((0, 0), (4, 4)))


@pytest.mark.parametrize("key", ["id", "uuid", "name", "tool_call_id"])
def test_an_object_is_known_by_its_identity_key(key: str) -> None:
    """An object that changed inside is the same one as long as it says who it is."""
    old = [{key: "a", "v": 1}, {key: "b", "v": 1}, {key: "c", "v": 1}]
    new = [{key: "c", "v": 2}, {key: "x", "v": 1}, {key: "a", "v": 1}, {key: "b", "v": 2}]
    found = align(old, new)
    assert found == Alignment(added=(1,), moved=((2, 0),), changed=((2, 0), (1, 3)))


def test_an_identity_that_is_not_unique_says_nothing() -> None:
    """Two objects of one id are told apart by their place."""
    old = [{"id": 1, "v": 1}, {"id": 1, "v": 2}]
    new = [{"id": 1, "v": 3}, {"id": 1, "v": 4}]
    assert align(old, new) == Alignment(changed=((0, 0), (1, 1)))


def test_identities_are_compared_with_their_type() -> None:
    """`1`, `true` and `"1"` are three identities."""
    old = [{"id": 1, "v": "x"}, {"id": "1", "v": "y"}, {"id": True, "v": "z"}]
    new = [{"id": True, "v": 0}, {"id": 1, "v": 0}, {"id": "1", "v": 0}]
    assert set(align(old, new).changed) == {(2, 0), (0, 1), (1, 2)}


def test_the_closest_items_belong_together() -> None:
    """Where one side has more items, the given distance decides, in order."""
    far = {("a", "x"): 0.9, ("a", "y"): 0.1, ("b", "x"): 0.1, ("b", "y"): 0.9}

    def distance(old: Any, new: Any) -> float:
        return far.get((old, new), 0.5)

    assert align(["a"], ["x", "y"], distance) == Alignment(added=(0,), changed=((0, 1),))
    assert align(["b"], ["x", "y"], distance) == Alignment(added=(1,), changed=((0, 0),))
    assert align(["a", "b"], ["x"], distance) == Alignment(removed=(0,), changed=((1, 0),))
    assert align(["a"], ["x", "y"]) == Alignment(added=(1,), changed=((0, 0),))


@given(st.lists(ITEMS, max_size=14), st.lists(ITEMS, max_size=14))
def test_an_alignment_accounts_for_every_item(old: list[Any], new: list[Any]) -> None:
    """Following an alignment turns the old list into the new one, types included."""
    assert repr(apply(align(old, new), old, new)) == repr(new)


@given(st.lists(ITEMS, max_size=14), st.randoms(use_true_random=False))
def test_an_alignment_accounts_for_a_shuffled_list(old: list[Any], chance: random.Random) -> None:
    """However items were reordered, dropped and repeated, the alignment leads from one list to the other."""
    new = [*old, *chance.choices(old, k=2)] if old else []
    chance.shuffle(new)
    new = new[: len(new) - 1]
    assert repr(apply(align(old, new), old, new)) == repr(new)


@given(st.lists(ITEMS, max_size=10), st.lists(ITEMS, max_size=10))
def test_rows_show_every_item_once(old: list[Any], new: list[Any]) -> None:
    """Side by side, each item of either list has one row, new items in their order."""
    found = align(old, new)
    rows = list(found.rows(len(old), len(new)))
    assert sorted([left for left, _ in rows if left is not None]) == list(range(len(old)))
    assert [right for _, right in rows if right is not None] == list(range(len(new)))


def test_rows_put_two_lists_side_by_side() -> None:
    """A removed item has a row of its own, a moved one stands beside where it is now."""
    found = Alignment(added=(1,), removed=(0,), moved=((3, 0),))
    assert list(found.rows(4, 4)) == [(0, None), (3, 0), (None, 1), (1, 2), (2, 3)]


def test_many_repeated_items_do_not_take_for_ever() -> None:
    """Two lists of ten thousand coin tosses, where every item resembles half of the others, are aligned at once."""
    chance = random.Random(1)
    old = [chance.randint(0, 1) for _ in range(10_000)]
    new = [chance.randint(0, 1) for _ in range(10_003)]
    assert apply(align(old, new), old, new) == new
