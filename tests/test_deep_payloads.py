"""Payloads that are nested about as deeply as JSON is written in one piece, and deeper, are as exact as any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.hashes import same
from agentreplay.recorder.plain import MAX_DEPTH
from agentreplay.recorder.values import encode
from hypothesis import given, settings
from hypothesis import strategies as st

DEPTHS = (1, 60, *range(MAX_DEPTH - 12, MAX_DEPTH + 4), 150, 210, 300)


def nested(depth: int, leaf: Any, as_lists: bool) -> Any:
    for _ in range(depth):
        leaf = [leaf] if as_lists else {"k": leaf}
    return leaf


def within(keys: list[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(DEPTHS),
            st.sampled_from((1, "text", (1, 2), b"bytes", {1: 2})),
            st.booleans(),
            st.sampled_from(("update", "merge", "patch", "payload")),
            st.sampled_from((0, 1, 30)),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_what_is_folded_is_what_the_agent_had_however_deep_it_is(
    changes: list[tuple[int, Any, bool, str, int]],
) -> None:
    """Also where the place of a value is deep itself."""
    store, seen, keys = ar.open_store("memory:"), [], []
    with ar.record("deep", payload={}, store=store) as run:
        for number, (depth, leaf, as_lists, how, further) in enumerate(changes):
            value = nested(depth, leaf, as_lists)
            with run.round() as current:
                if how == "patch":
                    place = "".join(f"/{key}" for key in [*keys, f"v{number}"])
                    current.change(patch=[{"op": "add", "path": place, "value": value}])
                else:
                    current.change(**{how: within([*keys, f"v{number}"], value)})
                keys = keys if how != "payload" else []
                for _ in range(further):
                    keys = [*keys, f"p{len(keys)}"]
                current.change(merge=within([*keys, "here"], number))
            seen.append(encode(run.payload).stored)

    assert store.verify("run1") == []
    for step, stored in enumerate(seen, 1):
        assert same(encode(ar.state_at("run1", step, store=store).payload).stored, stored)


@pytest.mark.parametrize("depth", DEPTHS)
def test_what_is_deep_and_was_not_changed_in_place_is_no_change(depth: int, tmp_path: Path) -> None:
    """At the end of each round objects are looked at again, a deep list as it was looked at first."""
    store = ar.open_store(tmp_path / "store.db")
    with ar.record("deep", payload={"deep": nested(depth, (1,), True)}, store=store) as run:
        for number in range(3):
            with run.round() as current:
                current.change(update={"n": number})

    requests = [event.data.request for event in store.events("run1") if event.kind == "payload.changed"]
    assert requests == [{"updateElements": {"n": number}} for number in range(3)]


def test_what_is_changed_in_place_deep_below_is_seen(tmp_path: Path) -> None:
    """In an object in the deepest of the lists."""
    store, inner = ar.open_store(tmp_path / "store.db"), bytearray(b"before")
    with ar.record("deep", payload={"deep": nested(150, inner, True)}, store=store) as run:
        with run.round():
            deepest = run.payload["deep"]
            while type(deepest) is not bytearray:
                deepest = deepest[0]
            deepest[:] = b"after"
        seen = encode(run.payload).stored

    assert same(encode(ar.state_at("run1", 1, store=store).payload).stored, seen)
    assert [event.data.warnings for event in store.events("run1") if event.kind == "payload.changed"] != []
