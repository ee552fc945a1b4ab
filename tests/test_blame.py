"""Blame lists exactly the events that changed a value, wherever it stood."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from agentreplay.recorder.errors import CorruptLog, UsageError
from agentreplay.recorder.events import Event
from agentreplay.recorder.hashes import same
from agentreplay.replay.blame import FOLDED, Blamed, blame_of
from agentreplay.replay.changes import MISSING, Cause, Changes
from agentreplay.replay.paths import Keys, display_keys, join
from event_builder import EventBuilder, build, refund_log
from hypothesis import given, settings
from hypothesis import strategies as st
from test_diff import TREES, edited

LAMP = {"id": "lamp", "price": 95}
BULB = {"id": "bulb", "price": 17}


def log_of(start: Any, *payloads: Any) -> EventBuilder:
    """A run whose rounds each make the payload what is given, as a whole."""
    log = EventBuilder(start, applier="replace")
    for payload in payloads:
        log.begin()
        log.change(copy.deepcopy(payload), "replace")
        log.end()
    return log


def rows(found: Changes) -> list[tuple[Any, ...]]:
    """What a blame says, in short: (step, kind, where, old, new, note)."""
    return [
        (
            change.cause.step if change.cause else None,
            change.kind,
            change.display,
            change.old,
            change.new,
            note_of(change),
        )
        for change in found
    ]


def note_of(change: Any) -> str | None:
    assert isinstance(change, Blamed)
    return change.note


def blamed(log: EventBuilder, path: str, step: int = -1) -> list[tuple[Any, ...]]:
    return rows(blame_of(log.events, path, step, run="run1"))


# -- what is said ------------------------------------------------------------------------------------


def test_every_event_that_changed_a_value_is_listed_newest_first() -> None:
    """With its step, its cause, and the value before and after; what changed something else is not listed."""
    log = EventBuilder({"order": {"total": 1}})
    log.begin()
    log.change(
        {"updateElements": {"order": {"total": 2}}}, source={"kind": "model", "call": "1.1"}, reason="the coupon"
    )
    log.change({"newElements": {"note": "x"}})
    log.end()
    log.change({"updateElements": {"order": {"total": 3}}})
    found = blame_of(log.events, "order.total")
    assert [change.cause for change in found] == [
        Cause(5, 1, "payload.changed"),
        Cause(2, 1, "payload.changed", "1.1", "the coupon"),
        Cause(0, 0, "run.started"),
    ]
    assert rows(found) == [
        (1, "replace", "order.total", 2, 3, None),
        (1, "replace", "order.total", 1, 2, None),
        (0, "add", "order.total", MISSING, 1, None),
    ]


def test_a_value_that_never_changed_came_with_the_start() -> None:
    """Its one entry is the start of the run."""
    log = log_of({"a": 1, "b": 1}, {"a": 1, "b": 2})
    assert blamed(log, "a") == [(0, "add", "a", MISSING, 1, None)]


def test_the_path_may_be_written_either_way() -> None:
    """A JSON Pointer and the form for people name the same place; the empty path is the whole payload."""
    log = log_of({"a": [{"b c": 1}]}, {"a": [{"b c": 2}]})
    assert blamed(log, "/a/0/b c") == blamed(log, 'a[0]["b c"]')
    assert blamed(log, "")[0] == (1, "replace", "(payload)", {"a": [{"b c": 1}]}, {"a": [{"b c": 2}]}, None)


def test_a_change_inside_the_value_is_a_change_of_it() -> None:
    """The whole value before and after is given."""
    log = log_of({"order": {"items": [LAMP]}}, {"order": {"items": [LAMP, BULB]}})
    assert blamed(log, "order")[0] == (
        1,
        "replace",
        "order",
        {"items": [LAMP]},
        {"items": [LAMP, BULB]},
        None,
    )


def test_what_a_value_came_and_went_with_is_said() -> None:
    """A container above that was added, removed, or put in place of something else is named."""
    whole = {"order": {"customer": {"name": "Ada"}}}
    log = log_of({}, whole, {}, {"order": None}, whole, {"order": "cancelled"}, whole)
    assert blamed(log, "order.customer.name") == [
        (6, "add", "order.customer.name", MISSING, "Ada", 'with order, which was "cancelled" before'),
        (5, "remove", "order.customer.name", "Ada", MISSING, 'with order, which is "cancelled" after it'),
        (4, "add", "order.customer.name", MISSING, "Ada", "with order, which was null before"),
        (2, "remove", "order.customer.name", "Ada", MISSING, "with order"),
        (1, "add", "order.customer.name", MISSING, "Ada", "with order"),
    ]


def test_a_payload_that_was_nothing_is_replaced() -> None:
    """A run may start without a payload, or with one that is no object."""
    log = log_of(None, {"a": {"b": 1}}, [1], {"a": {"b": 1}})
    assert blamed(log, "a.b") == [
        (3, "add", "a.b", MISSING, 1, "with (payload), which was [1] before"),
        (2, "remove", "a.b", 1, MISSING, "with (payload), which is [1] after it"),
        (1, "add", "a.b", MISSING, 1, "with (payload), which was null before"),
    ]
    assert blamed(log, "")[-1] == (0, "add", "(payload)", MISSING, None, None)


def test_types_are_told_apart() -> None:
    """A `1` that became `1.0` or `true` changed; keys in another order did not."""
    log = log_of({"n": {"x": 1, "y": 0.0}}, {"n": {"x": 1.0, "y": 0.0}}, {"n": {"y": 0.0, "x": 1.0}})
    log.begin()
    log.change({"n": {"y": -0.0, "x": 1.0}}, "replace")
    assert [row[0] for row in blamed(log, "n")] == [3, 1, 0]
    assert [row[0] for row in blamed(log, "n.y")] == [3, 0]


def test_a_tag_is_one_value() -> None:
    """A Decimal changes as a whole, and no path leads into it."""
    old, new = [{"$type": "decimal", "value": value} for value in ("1.1", "1.10")]
    log = log_of({"total": old}, {"total": new})
    assert blamed(log, "total")[0] == (1, "replace", "total", old, new, None)
    with pytest.raises(UsageError, match=r"no total\.value .* did you mean total\?"):
        blame_of(log.events, "total.value")


def test_the_path_is_that_of_the_step_that_is_looked_at() -> None:
    """As of an earlier step, the path names what was there then; what happened later is not looked at."""
    log = log_of({"items": [LAMP]}, {"items": [BULB, LAMP]}, {"items": [BULB, {**LAMP, "price": 90}]})
    assert [row[2:5] for row in blamed(log, "items[0].price")] == [("items[0].price", MISSING, 17)]
    assert [row[2:5] for row in blamed(log, "items[0].price", 0)] == [("items[0].price", MISSING, 95)]
    assert [row[2:5] for row in blamed(log, "items[1].price", -2)] == [("items[0].price", MISSING, 95)]
    assert [row[2:5] for row in blamed(log, "items[1].price")] == [
        ("items[1].price", 95, 90),
        ("items[0].price", MISSING, 95),
    ]


@pytest.mark.parametrize("step", [4, -5])
def test_a_step_that_the_run_does_not_have_is_a_usage_error(step: int) -> None:
    """As everywhere, the error names the steps there are."""
    with pytest.raises(UsageError, match=r"no step -?\d: this run has steps 0 \(the start\) to 3"):
        blame_of(refund_log().events, "order", step)


def test_a_run_without_events_has_nobody_to_blame() -> None:
    """A run that was only made room for has no payload yet."""
    with pytest.raises(UsageError, match="run1 has no events yet"):
        blame_of([], "order", run="run1")


# -- what is gone ------------------------------------------------------------------------------------


def test_a_path_that_is_gone_is_followed_from_its_removal() -> None:
    """The newest entry is the removal; its `new` is what is there now, nothing."""
    log = log_of({"draft": 1}, {"draft": 2}, {"x": 1}, {"x": 2})
    assert blamed(log, "draft") == [
        (2, "remove", "draft", 2, MISSING, None),
        (1, "replace", "draft", 1, 2, None),
        (0, "add", "draft", MISSING, 1, None),
    ]


def test_a_key_that_came_back_keeps_its_history() -> None:
    """Removed and added again, a key is one place; both events are part of its history."""
    log = log_of({"a": 1}, {}, {"a": 2})
    assert [row[:5] for row in blamed(log, "a")] == [
        (2, "add", "a", MISSING, 2),
        (1, "remove", "a", 1, MISSING),
        (0, "add", "a", MISSING, 1),
    ]


def test_an_item_that_came_back_is_known_by_its_identity() -> None:
    """An item that was removed and added again, elsewhere, is the same item if it says so."""
    log = log_of(
        {"items": [LAMP, BULB]}, {"items": [BULB]}, {"items": []}, {}, {"items": [BULB, {**LAMP, "price": 80}]}
    )
    assert [row[:5] for row in blamed(log, "items[1].price")] == [
        (4, "add", "items[1].price", MISSING, 80),
        (1, "remove", "items[0].price", 95, MISSING),
        (0, "add", "items[0].price", MISSING, 95),
    ]


def test_an_item_that_says_nothing_was_added_once() -> None:
    """Without an identity, an item that came is not looked for before that."""
    log = log_of({"tags": ["a", "b"]}, {"tags": ["b"]}, {"tags": ["b", "a"]})
    assert blamed(log, "tags[1]") == [(2, "add", "tags[1]", MISSING, "a", None)]


def test_two_items_of_one_identity_are_not_confused() -> None:
    """Where several items say that they are the one, none is taken for it."""
    twins = [{"id": 1, "v": "x"}, {"id": 1, "v": "y"}]
    log = log_of({"items": twins}, {"items": []}, {"items": [{"id": 1, "v": "z"}]})
    assert [row[0] for row in blamed(log, "items[0].v")] == [2]


def test_an_index_beyond_the_end_says_where_its_item_went() -> None:
    """What stood there when the path last led somewhere is still in the list, at another index."""
    log = log_of({"items": [LAMP, BULB]}, {"items": [BULB]})
    assert blamed(log, "items[1].price") == [
        (1, "remove", "items[1].price", 17, MISSING, "from then on it is items[0].price"),
        (0, "add", "items[1].price", MISSING, 17, None),
    ]


def test_an_item_that_was_removed_went_with_its_parts() -> None:
    """A removal in a list is one, and not a shift, if the item is in it no more."""
    log = log_of({"items": [LAMP, BULB]}, {"items": [LAMP]})
    assert blamed(log, "items[1].price")[0] == (1, "remove", "items[1].price", 17, MISSING, "with items[1]")


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("order.totl", "order.total"),
        ("Order.total", "order.total"),
        ("ordr.items[0].price", "order.items[0].price"),
        ("order.items[7].price", "order.items[1].price"),
        ("items[1].price", "order.items[1].price"),
        ("price", "order.items[0].price"),
        ("order.items[0].colour", "order.items[0]"),
        ("order.total.currency", "order.total"),
        ("something/else", "(payload)"),
    ],
)
def test_a_path_that_never_was_is_a_usage_error_that_says_what_may_be_meant(path: str, meant: str) -> None:
    """The nearest path that exists: one key corrected, the same end elsewhere, or as far as it leads."""
    log = log_of({"order": {"total": 1, "items": [LAMP, BULB]}})
    with pytest.raises(UsageError) as raised:
        blame_of(log.events, path, run="run1")
    assert str(raised.value).startswith("run1 has no ")
    assert str(raised.value).endswith(f" at step 0, and had none before; did you mean {meant}?")


# -- items of lists ----------------------------------------------------------------------------------


def test_an_item_is_followed_through_what_happens_around_it() -> None:
    """Insertions, removals and moves of other items, and its own moves, are no changes of it."""
    cup = {"id": "cup", "price": 5}
    log = log_of(
        {"items": [LAMP, BULB]},
        {"items": [cup, LAMP, BULB]},
        {"items": [cup, LAMP, {**BULB, "price": 16}]},
        {"items": [{**BULB, "price": 16}, cup, LAMP]},
        {"items": [{**BULB, "price": 16}, LAMP]},
    )
    assert [row[:5] for row in blamed(log, "items[0].price")] == [
        (2, "replace", "items[2].price", 17, 16),
        (0, "add", "items[1].price", MISSING, 17),
    ]


def test_another_identity_in_the_same_place_is_another_item() -> None:
    """An item that took the place of one with another `id` was added, however alike they are."""
    log = log_of({"items": [LAMP]}, {"items": [{**LAMP, "id": "lamp 2"}]})
    assert blamed(log, "items[0].price") == [(1, "add", "items[0].price", MISSING, 95, "with items[0]")]


def test_an_item_may_be_renamed() -> None:
    """A name may change while the rest stays; with the rest changed too it is another item."""
    log = log_of({"items": [{"name": "lamp", "price": 95}]}, {"items": [{"name": "Lamp", "price": 95}]})
    assert [row[0] for row in blamed(log, "items[0].price")] == [0]
    log = log_of({"items": [{"name": "lamp", "price": 95}]}, {"items": [{"name": "bulb", "price": 17}]})
    assert [row[0] for row in blamed(log, "items[0].price")] == [1]


def test_an_item_may_get_an_identity() -> None:
    """That an item says who it is does not make it another one."""
    log = log_of({"items": [{"price": 95}]}, {"items": [LAMP]})
    assert [row[0] for row in blamed(log, "items[0].price")] == [0]


def test_a_list_that_was_replaced_as_a_whole_is_said_to_be() -> None:
    """Where no item has anything in common with one before, they are followed by their order, as a note says."""
    log = log_of(
        {"rows": [{"t": "a", "n": 0}, {"t": "b", "n": 0}]},
        {"rows": [{"t": "a", "n": 1}, {"t": "b", "n": 0}]},
        {"rows": [{"t": "c", "n": 2}, {"t": "d", "n": 3}]},
        {"rows": [{"t": "c", "n": 4}, {"t": "d", "n": 3}]},
    )
    assert blamed(log, "rows[0].n") == [
        (3, "replace", "rows[0].n", 2, 4, None),
        (2, "replace", "rows[0].n", 1, 2, "event 5 replaced rows as a whole, its items are followed by their order"),
        (1, "replace", "rows[0].n", 0, 1, None),
        (0, "add", "rows[0].n", MISSING, 0, None),
    ]
    log = log_of({"rows": [{"t": "a", "n": 0}]}, {"rows": [{"t": "c", "n": 2}, {"t": "d", "n": 3}, {"t": "e", "n": 3}]})
    assert blamed(log, "rows[2].n") == [
        (1, "add", "rows[2].n", MISSING, 3, "with rows[2]; event 2 replaced rows as a whole")
    ]


def test_an_item_that_went_with_the_whole_list_is_said_to_have() -> None:
    """Of a place that is gone is said, too, that no item of the list was left."""
    log = log_of({"rows": [{"t": "a"}, {"t": "b"}, {"t": "c"}]}, {"rows": [{"t": "d"}]})
    assert blamed(log, "rows[2].t")[0] == (
        1,
        "remove",
        "rows[2].t",
        "c",
        MISSING,
        "with rows[2]; event 2 replaced rows as a whole",
    )


def test_a_list_that_was_replaced_without_changing_the_value_is_said_to_be() -> None:
    """The note then stands at the next older entry, which may be of another item."""
    log = log_of(
        {"rows": [{"t": "a", "n": {"x": 1}}, {"t": "b", "n": {"x": 2}}]},
        {"rows": [{"t": "a", "n": {"x": 1}}, {"t": "b", "n": {"x": 3}}]},
        {"rows": [{"t": "c", "n": {"x": 9, "y": 1}}, {"t": "d", "n": {"x": 3, "y": 1}}]},
    )
    assert blamed(log, "rows[1].n.x") == [
        (1, "replace", "rows[1].n.x", 2, 3, "event 5 replaced rows as a whole, its items are followed by their order"),
        (0, "add", "rows[1].n.x", MISSING, 2, None),
    ]


def test_an_object_with_numeric_keys_is_no_list() -> None:
    """A key "0" is a key, and stays one when keys come and go beside it."""
    log = log_of({"d": {"0": "a", "1": "b"}}, {"d": {"1": "b"}}, {"d": {"1": "c", "5": "x"}})
    assert [row[:5] for row in blamed(log, "d.1")] == [
        (2, "replace", 'd["1"]', "b", "c"),
        (0, "add", 'd["1"]', MISSING, "b"),
    ]
    assert [row[:5] for row in blamed(log, "/d/0")] == [
        (1, "remove", 'd["0"]', "a", MISSING),
        (0, "add", 'd["0"]', MISSING, "a"),
    ]


def test_an_object_that_was_a_list_was_replaced() -> None:
    """A list is another place than an object of the same keys; before both, the list may have been there."""
    log = log_of({"d": ["a"]}, {"d": {"0": "a"}}, {"d": ["a"]})
    assert blamed(log, "d[0]") == [
        (2, "add", "d[0]", MISSING, "a", 'with d, which was {"0": "a"} before'),
        (1, "remove", "d[0]", "a", MISSING, 'with d, which is {"0": "a"} after it'),
        (0, "add", "d[0]", MISSING, "a", None),
    ]


# -- the log -----------------------------------------------------------------------------------------


def test_only_some_events_are_looked_at() -> None:
    """Without the others the answer is the same."""
    log = refund_log()
    some = [event for event in log.events if event.kind in FOLDED]
    for path in ("order", "status", "notes", "notes[0]", ""):
        assert blame_of(some, path) == blame_of(log.events, path)


def test_a_log_is_read_no_further_than_the_step() -> None:
    """What comes after it may be broken, or endless."""
    log = refund_log()

    def endless() -> Iterator[Event]:
        yield from log.events
        raise AssertionError("read past the step that was asked for")

    assert rows(blame_of(endless(), "status", 2)) == blamed(log, "status")


def test_a_change_that_is_missing_or_was_altered_is_noticed() -> None:
    """The error names the event at which the log stops making sense."""
    log = EventBuilder({str(n): 0 for n in range(300)}, applier="json-patch")
    for n in range(300):
        log.begin()
        log.change([{"op": "replace", "path": f"/{n}", "value": n}])
        log.end()
    changed = [at for at, event in enumerate(log.events) if event.kind == "payload.changed"]
    broken = [*log.events[: changed[90]], *log.events[changed[90] + 1 :]]
    with pytest.raises(CorruptLog) as missing:
        blame_of(broken, "/7", run="run1")
    assert missing.value.seq == log.events[changed[91]].seq
    event = log.events[changed[90]]
    altered = build(event.seq, event.round, event.kind, {**dict(event.data), "request": []})
    for after in (1, 50, len(log.events) - changed[90]):
        events = [*log.events[: changed[90]], altered, *log.events[changed[90] + 1 : changed[90] + after]]
        with pytest.raises(CorruptLog) as wrong:
            blame_of(events, "/7", run="run1")
        assert wrong.value.seq == event.seq


def test_a_change_that_was_altered_is_noticed_on_the_way() -> None:
    """The payload is checked now and then, not at the end of a long run only."""
    log = EventBuilder({"n": 0, "m": 0}, applier="json-patch")
    log.begin()
    for n in range(600):
        log.change([{"op": "replace", "path": "/n", "value": n}])
    event = log.change([{"op": "replace", "path": "/m", "value": 1}])
    altered = build(event.seq, event.round, event.kind, {**dict(event.data), "request": []})
    for n in range(600):
        log.change([{"op": "replace", "path": "/n", "value": n}])

    def read() -> Iterator[Event]:
        yield from [*log.events[: event.seq], altered, *log.events[event.seq + 1 : event.seq + 300]]
        raise AssertionError("read on past the altered event")

    with pytest.raises(CorruptLog) as wrong:
        blame_of(read(), "n")
    assert wrong.value.seq == event.seq


def test_a_round_that_is_missing_is_noticed() -> None:
    """Steps are counted by rounds, so none may be left out."""
    log = log_of({"n": 0}, *[{"n": n} for n in range(1, 8)])
    skipping = [event for event in log.events if event.round != 5]
    with pytest.raises(CorruptLog, match="round 6 starts, but round 5 comes next"):
        blame_of(skipping, "n")


def test_a_forks_shared_events_are_blamed_too() -> None:
    """A fork's log begins with its parent's events, and the event that says so changes nothing."""
    log = log_of({"n": 0}, {"n": 1})
    log.add("run.forked", parent="u-1", seq=log.events[-1].seq, hash="sha256:00")
    log.begin()
    log.change({"n": 2}, "replace")
    assert [row[0] for row in blamed(log, "n")] == [2, 1, 0]


# -- laws --------------------------------------------------------------------------------------------


def price_of(payload: Any, name: int) -> Any:
    """The price of the item of an id, wherever it stands, or `MISSING`."""
    return next((item["price"] for item in payload["shop"]["items"] if item["id"] == name), MISSING)


def shuffled_shop(chance: random.Random, events: int) -> EventBuilder:
    """A run that inserts, removes, moves and updates items with unique ids, several at a time."""
    shop = {
        "items": [{"id": name, "price": chance.randint(0, 3), "tags": ["x"]} for name in range(chance.randint(0, 6))]
    }
    log = EventBuilder({"shop": shop, "other": 0}, applier="json-patch")
    log.begin()
    for _ in range(events):
        payload = copy.deepcopy(log.payload)
        patch: list[dict[str, Any]] = []
        for _ in range(chance.choice([1, 1, 1, 2, 3, 6])):
            patch.append(shop_operation(payload["shop"]["items"], chance))
        log.change(patch, "json-patch")
    return log


def shop_operation(items: list[Any], chance: random.Random) -> dict[str, Any]:
    """An operation on the items, which is carried out on `items` too."""
    kind = chance.choice(["insert", "remove", "move", "price", "price", "tag"]) if items else "insert"
    at = chance.randrange(len(items)) if items else 0
    path = f"/shop/items/{at}"
    if kind == "insert":
        item = {
            "id": chance.choice([n for n in range(40) if all(n != one["id"] for one in items)]),
            "price": 1,
            "tags": [],
        }
        items.insert(at, item)
        return {"op": "add", "path": path, "value": copy.deepcopy(item)}
    if kind == "remove":
        del items[at]
        return {"op": "remove", "path": path}
    if kind == "move":
        to = chance.randrange(len(items))
        items.insert(to, items.pop(at))
        return {"op": "move", "from": path, "path": f"/shop/items/{to}"}
    if kind == "price":
        items[at]["price"] = chance.randint(0, 3)
        return {"op": "replace", "path": f"{path}/price", "value": items[at]["price"]}
    items[at]["tags"] = [*items[at]["tags"], "t"]
    return {"op": "add", "path": f"{path}/tags/-", "value": "t"}


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 25))
def test_the_price_of_an_item_is_blamed_on_what_changed_that_items_price(chance: random.Random, events: int) -> None:
    """For items with unique ids, wherever they stood, and also if they were away in between."""
    log = shuffled_shop(chance, events)
    for at, item in enumerate(log.payload["shop"]["items"]):
        prices = [price_of(payload, item["id"]) for payload in log.payloads]
        before = [MISSING, *prices[:-1]]
        expected = [
            (seq, old, new) for seq, (old, new) in enumerate(zip(before, prices, strict=True)) if old is not new
        ]
        found = blame_of(log.events, f"/shop/items/{at}/price")
        assert [(change.cause.seq, change.old, change.new) for change in found if change.cause] == expected[::-1]


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 12))
def test_a_list_sent_as_a_whole_is_blamed_like_one_that_was_patched(chance: random.Random, events: int) -> None:
    """That the objects are not the same ones in neighbouring states makes no difference."""
    log = shuffled_shop(chance, events)
    sent = EventBuilder(copy.deepcopy(log.payloads[0]), applier="replace")
    sent.begin()
    for payload in log.payloads[2:]:
        sent.change(copy.deepcopy(payload), "replace")
    for at in range(len(log.payload["shop"]["items"])):
        for path in (f"/shop/items/{at}/price", f"/shop/items/{at}"):
            assert blame_of(sent.events, path) == blame_of(log.events, path)


def every_path(tree: Any, at: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Every place of a tree, and what is there."""
    yield at, tree
    if isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from every_path(item, (*at, index))
    elif isinstance(tree, dict) and "$type" not in tree:
        for key, value in tree.items():
            yield from every_path(value, (*at, key))


def value_at(tree: Any, keys: Keys) -> Any:
    """What is at a path, or `MISSING`."""
    for key in keys:
        inside = dict(enumerate(tree)) if isinstance(tree, list) else tree
        if not isinstance(inside, dict) or "$type" in inside or key not in inside:
            return MISSING
        tree = inside[key]
    return tree


def history(start: Any, chance: random.Random) -> EventBuilder:
    """A run whose payload is edited at random."""
    payloads = [start]
    for _ in range(chance.randint(0, 6)):
        payloads.append(edited(payloads[-1], chance) if chance.random() < 0.9 else chance.choice(payloads))
    return log_of(*payloads)


@settings(deadline=None)
@given(TREES, st.randoms(use_true_random=False))
def test_a_blame_is_a_chain_from_what_is_there_to_where_it_came_from(start: Any, chance: random.Random) -> None:
    """For every place of any payload: its value, changes that follow on each other, and an addition at the end."""
    log = history(start, chance)
    for keys, value in every_path(log.payload):
        found = blame_of(log.events, join(keys))
        assert same(found[0].new, value)
        assert found[-1].kind == "add"
        for newer, older in pairwise(found):
            assert newer.cause is not None
            assert older.cause is not None
            assert newer.cause.seq > older.cause.seq
            assert newer.old is older.new or same(newer.old, older.new)
        for change in found:
            assert change.cause is not None
            before = MISSING if change.cause.seq == 0 else log.payloads[change.cause.seq - 1]
            after = log.payloads[change.cause.seq]
            assert (change.old is MISSING) == (change.kind == "add")
            assert (change.new is MISSING) == (change.kind == "remove")
            if change.kind == "remove":
                assert same(value_at(before, change.keys), change.old)
            else:
                assert same(value_at(after, change.keys), change.new)
            assert change.kind != "replace" or not same(change.old, change.new)


@settings(deadline=None)
@given(TREES, st.randoms(use_true_random=False))
def test_a_place_in_objects_is_blamed_on_exactly_what_changed_it(start: Any, chance: random.Random) -> None:
    """Where no list is on the way, blame is what comparing all neighbouring states finds; for places gone as well."""
    log = history(start, chance)
    places = {keys for payload in log.payloads for keys, _ in every_path(payload) if not any(map(is_number, keys))}
    for keys in places:
        values = [value_at(payload, keys) for payload in log.payloads]
        expected = [
            seq
            for seq, (old, new) in enumerate(zip([MISSING, *values[:-1]], values, strict=True))
            if not (old is new or (MISSING not in (old, new) and same(old, new)))
        ]
        found = blame_of(log.events, join(keys))
        assert [change.cause.seq for change in found if change.cause] == expected[::-1]
        assert {change.display for change in found} == {display_keys(keys)}


def is_number(key: str | int) -> bool:
    """Whether a key is an index, or would be one if there were a list."""
    return isinstance(key, int) or key.isdecimal()


@settings(deadline=None)
@given(TREES, st.randoms(use_true_random=False))
def test_a_blame_as_of_a_step_is_that_of_the_run_up_to_it(start: Any, chance: random.Random) -> None:
    """What comes after the step plays no part in it."""
    log = history(start, chance)
    step = chance.randint(0, log.round)
    until = [event for event in log.events if event.round <= step]
    for keys, _ in every_path(log.payloads[len(until) - 1]):
        expected = blame_of(until, join(keys))
        assert blame_of(log.events, join(keys), step) == expected
        assert blame_of(log.events, join(keys), step - log.round - 1) == expected
