"""What goes down to a sub-agent and what comes back, beyond the vectors."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from agentreplay.recorder.errors import ChangeRefused
from agentreplay.recorder.payload import apply_scope, deep_merge, extract_downstream, merge_upstream, reverse_scope


def test_what_goes_down_is_shared() -> None:
    """Nothing is copied; where two paths overlap, the containers between are new and the payload is as it was."""
    payload = {"customer": {"name": "Ada", "address": {"city": "London"}}, "items": [{"id": 1, "n": 2}, {"id": 3}]}
    given = extract_downstream(payload, ["customer", "items[*].id", "items[0]"])
    assert given == {"customer": payload["customer"], "items": [{"id": 1, "n": 2}, {"id": 3}]}
    assert given["customer"] is payload["customer"]
    assert given["items"][0] is payload["items"][0]
    assert extract_downstream(payload, ["*"]) is payload
    assert payload["items"] == [{"id": 1, "n": 2}, {"id": 3}]


@pytest.mark.parametrize("payload", [None, "", 0, False])
def test_no_payload_gives_none(payload: Any) -> None:
    """What JavaScript takes for false is no payload."""
    assert extract_downstream(payload, ["*"]) is None


def test_what_did_not_come_back_changed_is_shared() -> None:
    """Only the containers on the way to a written leaf are new."""
    parent = {"analysis": {"score": 1, "detail": {"k": [1]}}, "order": {"id": 2}}
    child = {"analysis": {"score": 9, "detail": {"k": [1]}}, "order": {"id": 2}}
    outcome = merge_upstream(parent, child, ["analysis.*"], "critic")
    assert outcome.result == {"analysis": {"score": 9, "detail": {"k": [1]}}, "order": {"id": 2}}
    assert outcome.result["analysis"]["detail"] is parent["analysis"]["detail"]
    assert outcome.result["order"] is parent["order"]
    assert outcome.applied_request is None
    assert parent["analysis"]["score"] == 1
    assert merge_upstream(parent, child, ["*"]).result["order"] is parent["order"]


def test_what_was_blocked_is_shown_as_it_is_afterwards() -> None:
    """A blocked operation names the container itself, in which a later deletion shows."""
    outcome = merge_upstream({"a": {"x": 1}, "b": 2}, {"a": "text", "b": 2}, ["a.*:delete"], "critic")
    assert outcome.result == {"a": {}, "b": 2}
    assert outcome.blocked_operations == [
        {"path": "a", "operation": "update", "from": {}, "to": "text", "reason": "operation 'update' not allowed"}
    ]
    assert outcome.warnings == ['Sub-agent "critic" attempted 1 unauthorized operation(s)']


def test_the_length_of_an_array_is_not_written() -> None:
    """A key `length` in the child's payload does not cut the parent's array off."""
    assert merge_upstream({"l": [1, 2]}, {"l": {"length": 0}}, ["l.*:add,update"]).result == {"l": [1, 2]}


def test_a_type_is_a_change_upstream_too() -> None:
    """True for 1 is written, or blocked, though Python takes them for equal."""
    assert repr(merge_upstream({"a": 1}, {"a": True}, ["a"]).result) == "{'a': True}"
    assert merge_upstream({"a": 1}, {"a": True}, ["b"]).blocked_operations == [
        {"path": "a", "operation": "update", "from": 1, "to": True, "reason": "path not allowed"}
    ]


def test_a_leaf_comes_back_as_a_whole() -> None:
    """A value that is no dict or list is one leaf on the way up."""
    old, new = (datetime(2026, 1, day) for day in (1, 2))
    outcome = merge_upstream({"w": old}, {"w": new}, ["w"])
    assert outcome.result == {"w": new}
    assert outcome.applied == {"additions": 1, "updates": 0, "deletions": 0}
    assert deep_merge({"w": old}, {"w": new})["w"] is new


def test_keys_are_not_merged_into_a_scalar() -> None:
    """Where the original fails, the message says what cannot be merged into what."""
    with pytest.raises(ChangeRefused, match="an object cannot be merged into a str"):
        deep_merge("text", {"a": 1})
    assert deep_merge("text", {}) == "text"
    assert deep_merge([1, 2], [9]) == [9, 2]


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ("/order/items/0", {"id": 1}),
        ("order", {"items": [{"id": 1}]}),
        ("/order/none", None),
        ("/order/items/x", None),
        ("", {"order": {"items": [{"id": 1}]}}),
    ],
)
def test_a_scope_is_a_part_of_the_payload(scope: str, found: Any) -> None:
    """The slash at the beginning may be left out; what is not there is None."""
    payload = {"order": {"items": [{"id": 1}]}}
    assert apply_scope(payload, scope) == found
    if scope == "order":
        assert apply_scope(payload, scope) is payload["order"]


def test_a_scope_is_wrapped_around_what_comes_back() -> None:
    """Going into a scope and back gives the part at its place."""
    assert reverse_scope({"id": 1}, "/order/first") == {"order": {"first": {"id": 1}}}
    assert apply_scope(reverse_scope([1], "/a/b"), "/a/b") == [1]
