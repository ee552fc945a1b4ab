"""The payload while it is recorded: what the agent sees, what the record says, and where the two part."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from agentreplay.recorder.errors import ChangeRefused, PayloadFrozen
from agentreplay.recorder.hashes import comparison_hash
from agentreplay.recorder.live_payload import LivePayload
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.payload import apply_change
from agentreplay.recorder.redaction import Redactor
from agentreplay.recorder.values import InStoredForm, encode
from recorded import Hostile

SECRET = "sk-proj-" + "A1b2C3d4" * 4
REDACTOR = Redactor(b"k" * 32)


@dataclass
class Box:
    items: list[int] = field(default_factory=list)


def live(start: Any) -> LivePayload:
    return LivePayload(start, REDACTOR)


def mj(payload: LivePayload, **sections: Any) -> Any:
    return payload.change(sections, "memberjunction", {})


def test_a_plain_payload_is_one_tree() -> None:
    """While nothing is secret and all is plain, what the agent has is what is stored."""
    payload = live({"a": {"b": 1}})
    change = mj(payload, updateElements={"a": {"b": 2}})
    assert payload.plain
    assert payload.stored is payload.live
    assert payload.live == {"a": {"b": 2}}
    assert change.request == {"updateElements": {"a": {"b": 2}}}
    assert change.correction is None
    assert change.hash_before == comparison_hash({"a": {"b": 1}})
    assert change.hash_after == payload.hash == comparison_hash({"a": {"b": 2}})


def test_what_was_given_may_be_mutated_afterwards() -> None:
    """Neither the start nor a request is shared with the caller."""
    start: dict[str, Any] = {"items": [1]}
    request: dict[str, Any] = {"newElements": {"more": [2]}}
    payload = live(start)
    payload.change(request, "memberjunction", {})
    start["items"].append("later")
    request["newElements"]["more"].append("later")
    assert payload.live == {"items": [1], "more": [2]}


def test_the_view_is_frozen_and_shares_what_did_not_change() -> None:
    """Mutators raise and name `change`; parts that stayed are the same objects in the next view."""
    payload = live({"big": {"list": [1, 2]}, "n": 1})
    before = payload.view()
    mj(payload, updateElements={"n": 2})
    after = payload.view()
    assert after["big"] is before["big"]
    assert after is payload.view()
    with pytest.raises(PayloadFrozen, match=r"context\.change"):
        after["big"]["list"].append(3)
    with pytest.raises(PayloadFrozen, match=r"context\.change"):
        after["n"] = 3


def test_parts_of_a_view_given_back_keep_the_payload_plain() -> None:
    """A view is made of frozen containers; put back, they count as the plain ones that they stand for."""
    payload = live({"order": {"id": 1}})
    mj(payload, newElements={"copy": payload.view()["order"]})
    payload.become({**payload.view(), "n": 1}, {})
    assert payload.plain
    assert payload.live == {"order": {"id": 1}, "copy": {"id": 1}, "n": 1}
    assert type(payload.live["copy"]) is dict


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (Decimal("1.0"), Decimal("1.00")),
        ((1, 2), (True, 2)),
        (datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1)))),
        (frozenset({1}), frozenset({1.0})),
    ],
)
@pytest.mark.parametrize("form", ["become", "update", "replace", "merge-patch"])
def test_values_that_are_equal_but_not_the_same_are_replaced(old: Any, new: Any, form: str) -> None:
    """What Python calls equal may be stored differently; the agent gets the very value it put in."""
    payload = live({"x": old})
    if form == "become":
        change = payload.become({"x": new}, {})
    elif form == "update":
        change = mj(payload, updateElements={"x": new})
    elif form == "replace":
        change = payload.change({"x": new}, "replace", {})
    else:
        change = payload.change({"x": new}, "merge-patch", {})
    assert repr(payload.live["x"]) == repr(new)
    assert change.hash_after == comparison_hash(encode({"x": new}).stored) != change.hash_before


def test_a_dict_whose_keys_are_equal_but_not_the_same_is_replaced() -> None:
    """Where a dict is put and not merged, its keys come with their types; merged into, it keeps the keys it has."""
    for change in (
        lambda it: it.become({"x": {True: "a"}}, {}),
        lambda it: it.change({"x": {True: "a"}}, "replace", {}),
    ):
        payload = live({"x": {1: "a"}})
        assert change(payload).correction is None
        assert repr(payload.live) == "{'x': {True: 'a'}}"
    payload = live({"x": {1: "a"}})
    assert mj(payload, updateElements={"x": {True: "b"}}).correction is not None
    assert repr(payload.live) == "{'x': {1: 'b'}}"


def fold(stored: Any, change: Any, applier: str) -> Any:
    """What a reader of the log makes of a change."""
    with suppress(ChangeRefused):
        request = change.request if change.applied_request is None else change.applied_request
        stored = apply_change(stored, encode(request).stored, applier, stored=True).result
    correction = encode(change.correction or []).stored
    return apply_change(stored, correction, "json-patch", stored=True).result


@pytest.mark.parametrize(
    ("old", "request_", "applier", "new"),
    [
        ({"b": 2}, {"updateElements": {"x": {"b": 3}}}, "memberjunction", {"b": 3}),
        ({"b": 2}, {"newElements": {"x": {"c": 3}}}, "memberjunction", {"b": 2, "c": 3}),
        ({"b": 2}, {"removeElements": {"x": {"b": "__DELETE__"}}}, "memberjunction", {}),
        ({"b": 2}, {"x": {"b": None, "c": 3}}, "merge-patch", {"c": 3}),
        ({"b": 2}, [{"op": "replace", "path": "/x/b", "value": (3,)}], "json-patch", {"b": (3,)}),
        ({"b": Box([1])}, [{"op": "add", "path": "/x/c", "value": 1}], "json-patch", {"b": Box([1]), "c": 1}),
    ],
)
@pytest.mark.parametrize("odd", [{"$type": "order"}, {"$type": "dict", "items": [[1, 2]]}, {1: "a"}, {None: (1,)}])
def test_a_change_inside_a_dict_that_is_stored_as_a_tag(
    odd: Any, old: Any, request_: Any, applier: str, new: Any
) -> None:
    """The agent's dict is changed like any other; the record corrects that one value for the reader, and no other."""
    beside = {"big": [1, {"y": (2,)}]}
    payload = live({"x": {**odd, **old}, "beside": beside})
    before = encode(payload.stored).stored
    change = payload.change(request_, applier, {})
    assert payload.live == {"x": {**odd, **new}, "beside": beside}
    assert [(operation["op"], operation["path"]) for operation in change.correction] == [("replace", "/x")]
    folded = fold(before, change, applier)
    assert comparison_hash(folded) == payload.hash == comparison_hash(encode(payload.live).stored)


def test_a_patch_that_makes_a_dict_into_one_that_is_stored_as_a_tag() -> None:
    """From plain values too a path may name the key that marks a tag; taken away again, the payload is plain again."""
    payload = live({"x": {"items": [1]}})
    change = payload.change([{"op": "add", "path": "/x/$type", "value": "set"}], "json-patch", {})
    assert payload.live == {"x": {"items": [1], "$type": "set"}}
    value = {"$type": "dict", "items": [["items", [1]], ["$type", "set"]]}
    assert encode(change.correction).stored == [{"op": "replace", "path": "/x", "value": value}]
    assert payload.hash == comparison_hash({"x": value})
    payload.change([{"op": "remove", "path": "/x/$type"}], "json-patch", {})
    assert payload.live == {"x": {"items": [1]}}
    assert payload.plain


def test_a_whole_new_payload_is_recorded_so_that_a_reader_needs_no_correction() -> None:
    """The difference goes as deep as a reader can follow: to the dict that is one value in the log."""
    payload = live({"x": {"$type": "order", "b": 1}, "y": {1: {"a": 1}, "c": [1]}, "z": 1})
    change = payload.become({"x": {"$type": "order", "b": 2}, "y": {1: {"a": 1}, "c": [2]}, "z": 2}, {})
    assert [operation["path"] for operation in encode(change.request).stored] == ["/x", "/y", "/z"]
    assert change.correction is None
    assert payload.live == {"x": {"$type": "order", "b": 2}, "y": {1: {"a": 1}, "c": [2]}, "z": 2}


def test_a_change_in_place_is_found_inside_any_dict() -> None:
    """An object under a key without a path is recorded with the dict that it is in."""
    payload = live({"m": {1: {"box": Box([1])}, "b": [Box([5])]}, "n": 1})
    payload.view()["m"][1]["box"].items.append(2)
    change = payload.changed_in_place()
    assert [operation["path"] for operation in encode(change.request).stored] == ["/m"]
    assert change.correction is None
    assert payload.live["m"] == {1: {"box": Box([1, 2])}, "b": [Box([5])]}
    assert payload.changed_in_place() is None


def test_recorded_values_are_in_stored_form_once() -> None:
    """Tags in a payload and a request are recorded as tags, not as user data that looks like one."""
    payload = live({"when": (1, 2)})
    assert type(payload.stored) is InStoredForm
    assert encode(payload.stored).stored == {"when": {"$type": "tuple", "items": [1, 2]}}
    change = mj(payload, newElements={"price": Decimal("1.5")})
    assert encode(change.request).stored == {"newElements": {"price": {"$type": "decimal", "value": "1.5"}}}


def test_user_data_that_looks_like_a_tag_is_data() -> None:
    """A dict with our marker key comes through as the dict it is."""
    payload = live({"x": {"$type": "tuple", "items": [1]}})
    assert payload.live == {"x": {"$type": "tuple", "items": [1]}}
    mj(payload, updateElements={"n": 1})
    assert payload.view() == {"x": {"$type": "tuple", "items": [1]}, "n": 1}


def test_a_secret_is_live_for_the_agent_and_a_token_in_the_record() -> None:
    """The agent goes on with the secret; the record never holds it."""
    payload = live({"password": "hunter2", "n": 1})
    change = mj(payload, updateElements={"password": "hunter3"})
    assert payload.live == {"password": "hunter3", "n": 1}
    assert "hunter" not in str(encode([payload.stored, change.request]).stored)
    assert change.correction is None
    assert change.hash_after == comparison_hash(REDACTOR.redact({"password": "hunter3", "n": 1}))


@pytest.mark.parametrize("secret", ["hunter2", "tok-7f3a9c-blue", 77])
@pytest.mark.parametrize("op", ["copy", "move"])
def test_a_secret_that_a_patch_copies_stays_a_token(secret: Any, op: str) -> None:
    """Also one that is known by its name only, in a place without that name: no correction puts it there in clear."""
    payload = live({"token": secret, "list": [1]})
    token = encode(payload.stored).stored["token"]

    change = payload.change([{"op": op, "from": "/token", "path": "/plain"}], "json-patch", {})
    assert payload.live["plain"] == secret
    assert encode(payload.stored).stored["plain"] == token
    assert change.correction is None

    change = payload.change([{"op": "copy", "from": "/plain", "path": "/list/0"}], "json-patch", {})
    assert payload.live["list"] == [secret, 1]
    assert encode(payload.stored).stored["list"] == [token, 1]
    assert change.correction is None
    assert payload.hash == comparison_hash(encode(payload.stored).stored)


def test_a_secret_in_what_is_said_about_a_change_leaves_the_payload_plain() -> None:
    """A reasoning that names a secret is redacted; the payload, which has none, stays one tree."""
    payload = live({"n": 1})
    change = mj(payload, updateElements={"n": 2}, reasoning=f"the key is {SECRET}")
    assert SECRET not in str(change.request)
    assert payload.plain
    assert change.correction is None


def test_a_payload_that_lost_its_secret_is_plain_again() -> None:
    """Once nothing is redacted any more, changes cost their path again."""
    payload = live({"password": "hunter2", "n": 1})
    assert not payload.plain
    payload.change([{"op": "remove", "path": "/password"}], "json-patch", {})
    assert payload.plain
    assert payload.live == {"n": 1}


def test_a_test_on_a_secret_becomes_an_explicit_correction() -> None:
    """A reader cannot test a secret, so the record says what the patch did."""
    payload = live({"note": f"{SECRET} or not", "n": 1})
    patch = [
        {"op": "test", "path": "/note", "value": f"{SECRET} or not"},
        {"op": "replace", "path": "/n", "value": 2},
    ]
    change = payload.change(patch, "json-patch", {})
    assert payload.live["n"] == 2
    assert change.correction is None  # one secret has one token, so the test holds for readers too
    mixed = live({"a": {"password": 17}, "b": 17})
    change = mixed.change(
        [{"op": "copy", "from": "/a/password", "path": "/c"}, {"op": "test", "path": "/c", "value": 17}],
        "json-patch",
        {},
    )
    assert mixed.live["c"] == 17
    assert change.correction == [{"op": "add", "path": "/c", "value": 17}]


def test_a_refused_change_leaves_everything_as_it_was() -> None:
    """Neither tree moves when the applier refuses."""
    payload = live({"n": 1, "when": (1,)})
    before = payload.hash
    with pytest.raises(ChangeRefused):
        payload.change([{"op": "remove", "path": "/missing"}], "json-patch", {})
    assert payload.hash == before
    assert payload.live == {"n": 1, "when": (1,)}


def test_blocked_values_under_secret_names_are_redacted() -> None:
    """What permissions denied is reported with the tokens of secrets, not with the secrets."""
    payload = live({"account": {"password": "hunter2"}})
    patch = [{"op": "replace", "path": "/account/password", "value": "hunter3"}]
    change = payload.change(patch, "json-patch", {"allowed_paths": ["other"]})
    (blocked,) = change.outcome.blocked_operations
    assert blocked["path"] == "account.password"
    assert blocked["to"].startswith("[redacted:password:")
    assert payload.live == {"account": {"password": "hunter2"}}


def test_a_change_in_place_is_found_with_its_path() -> None:
    """An object that the agent mutated itself becomes a patch of just that value."""
    payload = live({"boxes": [{"box": Box([1])}, {"n": 1}], "price": Decimal("1")})
    assert payload.changed_in_place() is None
    payload.view()["boxes"][0]["box"].items.append(2)
    change = payload.changed_in_place()
    assert change is not None
    (operation,) = encode(change.request).stored
    assert (operation["op"], operation["path"]) == ("replace", "/boxes/0/box")
    assert operation["value"]["fields"] == {"items": [1, 2]}
    assert payload.changed_in_place() is None
    assert payload.live["boxes"][0]["box"] == Box([1, 2])


def test_an_object_keeps_its_identity_between_changes() -> None:
    """The agent finds the same object in the payload after a change elsewhere."""
    payload = live({"box": Box([1]), "n": 1})
    box = payload.view()["box"]
    mj(payload, updateElements={"n": 2})
    assert payload.view()["box"] is box


def test_values_that_cannot_be_stored_are_kept_for_the_agent() -> None:
    """A socket, or an object that raises whatever is asked of it, stays what it is; the record describes it."""
    with socket.socket() as first, socket.socket() as second:
        hostile = Hostile()
        payload = live({"socket": first, "hostile": [hostile], "n": 1})
        assert payload.view()["socket"] is first
        assert payload.view()["hostile"][0] is hostile
        mj(payload, updateElements={"socket": second, "n": 2})
        assert payload.view()["socket"] is second
        assert payload.changed_in_place() is None
    stored = encode(payload.stored)
    assert stored.stored["socket"]["class"] == "socket:socket"
    assert stored.lossy == ("/socket", "/hostile/0")


@pytest.mark.parametrize("depth", [90, 150, 400])
def test_deep_payloads_are_recorded(depth: int) -> None:
    """However deep a payload is, a value beside it can be changed and the record can be written."""
    tree: Any = {"price": Decimal("1")}
    for _ in range(depth):
        tree = [tree]
    payload = live({"tree": tree})
    payload.become({"n": 2}, {})
    assert payload.live == {"n": 2}


def test_a_change_that_nests_too_deeply_is_refused() -> None:
    """Deeper than anything can be worked with: the change is refused, the payload stays, and can be changed."""
    payload = live({"price": Decimal("1"), "password": "hunter2", "deep": []})
    nested: list[Any] = []
    for _ in range(80):
        nested = [nested]
    before = []

    def nest() -> None:
        path = "/deep"
        for _ in range(30):
            before.append(payload.hash)
            payload.change([{"op": "add", "path": path + "/-", "value": nested}], "json-patch", {})
            path += "/0" * 81

    with pytest.raises(ChangeRefused, match="too deeply"):
        nest()
    assert payload.hash == before[-1]
    mj(payload, newElements={"n": 1})
    assert payload.live["n"] == 1


def test_a_payload_in_a_cycle_does_not_break_the_agent() -> None:
    """A container that holds itself is stored as far as that goes."""
    cycle: dict[str, Any] = {"n": 1}
    cycle["self"] = cycle
    payload = live(cycle)
    assert payload.view()["n"] == 1


def test_what_was_asked_and_is_not_there_is_named() -> None:
    """A requested leaf that the rules dropped is among `lacking`."""
    change = mj(live({"items": [1]}), updateElements={"items": {"x": 2}})
    assert change.lacking == ["/items/x"]


def test_a_change_costs_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a wide payload with values that are no JSON, a change looks at few of them."""
    payload = live({"wide": [{"n": i, "price": Decimal(i)} for i in range(2000)], "n": 0})
    mj(payload, updateElements={"n": 1})
    looked: list[Any] = []

    def counting(leaf: Any) -> Any:
        looked.append(leaf.live)
        return leaf.stored

    monkeypatch.setattr(payload._stored, "_of_leaf", counting)
    mj(payload, updateElements={"n": 2})
    assert looked == []
    payload.change([{"op": "replace", "path": "/wide/7/n", "value": -1}], "json-patch", {})
    assert looked == [Decimal(7)]


def test_a_token_is_kept_by_key_where_a_payload_becomes_a_tagged_mapping() -> None:
    """Its items are pairs then, and what stood beside a secret at the same place is none."""
    redactor = MemoryStore().redactor
    payload = LivePayload({"a": [], "b": None, "c": None}, redactor)
    payload.change([{"op": "add", "path": "/items", "value": [None, [{"n": (1,)}]]}], "json-patch", {})
    payload.change({"$type": [], "a": [], "x": 0, "password": [None, [{"n": (1,)}]]}, "merge-patch", {})
    shadow = {key: json.dumps(value) for key, value in payload._shadow["items"]}
    assert {key for key, text in shadow.items() if "[redacted:" in text} == {"password"}
