"""What a live payload records is what it would record if it searched the whole payload at each change."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

from agentreplay.recorder.errors import ChangeRefused
from agentreplay.recorder.live_payload import LivePayload
from agentreplay.recorder.payload.trees import pointer
from agentreplay.recorder.redaction import Redactor
from agentreplay.recorder.values import dumps, encode
from hypothesis import given, settings
from hypothesis import strategies as st

KEYS = ("password", "token", "name", "value", "path", "op", "user", "pass", "a", "b", "c", "headers", "items", "$type")
TEXTS = (
    *("tea-for-2-at-4-with-7-spoons", "password", "wine4you1", "sk-proj-A1b2C3d4A1b2C3d4A1b2C3d4", "--password", "bob"),
    *("the word is tea-for-2-at-4-with-7-spoons", "token", "add", "/a/password", "/a/b", "curl", "-u", "bob:wine4you2"),
    *("hunter2", "prose without anything in it", '{"password": "wine4you3"}', "a", ""),
)
SCALARS = st.one_of(
    st.sampled_from(TEXTS),
    st.sampled_from([None, True, 1, 77, 4821, 1.0, 123456789012345]),
    st.sampled_from([date(2026, 11, 30), Decimal("1.0"), (1, "wine4you1"), frozenset({1, "a"}), b"wine4you4"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
        st.dictionaries(st.sampled_from([*KEYS, 1, None, (1, 2)]), inner, max_size=3),
        st.lists(inner, max_size=4),
        st.lists(st.sampled_from(TEXTS), max_size=6),
        st.lists(st.tuples(st.sampled_from(KEYS), inner).map(list), max_size=3),
        st.fixed_dictionaries({"name": st.sampled_from(TEXTS), "value": inner}),
    ),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.sampled_from(KEYS[:-1]), VALUES, max_size=3)
STARTS = st.one_of(
    OBJECTS,
    st.builds(lambda value, other: {"rows": [{"n": n, "a": value} for n in range(40)], "b": other}, VALUES, VALUES),
)
PLACES = st.lists(st.integers(0, 60), max_size=4)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("json-patch"), st.sampled_from(["add", "replace", "in front", "at the end"]), PLACES, VALUES),
        st.tuples(st.just("json-patch"), st.sampled_from(["remove", "copy", "move"]), PLACES, PLACES),
        st.tuples(
            st.just("memberjunction"),
            st.sampled_from(["newElements", "updateElements", "replaceElements", "removeElements"]),
            PLACES,
            VALUES,
        ),
        st.tuples(st.sampled_from(["merge-patch", "replace", "become"]), st.just(""), PLACES, VALUES),
    ),
    min_size=1,
    max_size=6,
)


class Defined(LivePayload):
    """The definition: each version of the payload is searched as a whole."""

    def _redacted_payload(self, stored: Any, work: Any) -> Any:
        return self._redacted(stored, work)


def keys_of(value: Any) -> list[Any]:
    """The keys or places in a container; none of anything else."""
    return list(value) if type(value) is dict else list(range(len(value))) if type(value) is list else []


def path_in(value: Any, places: list[int]) -> list[Any]:
    """A path in a payload, as far as it goes."""
    path = []
    for number in places:
        keys = keys_of(value)
        if not keys:
            break
        path.append(keys[number % len(keys)])
        value = value[path[-1]]
    return path


def put(value: Any, path: list[Any], new: Any) -> Any:
    """A payload with another value at a path."""
    if not path:
        return new
    out = value.copy()
    out[path[0]] = put(value[path[0]], path[1:], new)
    return out


def request_of(live: Any, applier: str, how: str, places: list[int], value: Any) -> Any:
    """A request that does something to this payload."""
    path = path_in(live, places)
    if applier == "json-patch":
        if how in ("copy", "move"):
            return [{"op": how, "from": pointer(path), "path": pointer([*path_in(live, value)[:-1], "new"])}]
        if how == "remove":
            return [{"op": how, "path": pointer(path)}]
        behind = {"in front": "/0", "at the end": "/-"}.get(how, "")
        return [{"op": "replace" if how == "replace" else "add", "path": pointer(path) + behind, "value": value}]
    if applier == "memberjunction":
        for key in reversed(path):
            value = {key: value}
        return {how: value, "reasoning": "as it is"}
    if applier == "merge-patch":
        for key in reversed(path):
            value = {key: value}
        return value
    return put(live, path, value)


def recorded(payload: LivePayload, applier: str, request: Any) -> Any:
    """Everything that is recorded of a change and of the payload after it; why it was refused if it was."""
    try:
        done = payload.become(request, {}) if applier == "become" else payload.change(request, applier, {})
    except ChangeRefused as refused:
        return str(refused)
    said = [done.request, done.applied_request, done.correction, done.lacking, done.outcome.blocked_operations]
    return dumps(encode([*said, payload.stored]).stored), done.hash_before, done.hash_after, payload.hash, payload.plain


@settings(deadline=None, max_examples=100)
@given(start=STARTS, changes=CHANGES)
def test_what_is_recorded_is_what_searching_the_whole_gives(start: Any, changes: list[Any]) -> None:
    """Whatever is changed and however: requests, corrections, hashes and the stored payload are the same."""
    one, other = LivePayload(start, Redactor(b"k" * 32)), Defined(start, Redactor(b"k" * 32))
    assert one.hash == other.hash
    for applier, how, places, value in changes:
        request = request_of(one.live, applier, how, places, value)
        assert recorded(one, applier, request) == recorded(other, applier, request)
