"""States decode to exactly the recorded types, share what they have in common, and show well."""

from __future__ import annotations

import copy
import json
import pickle
import tracemalloc
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from agentreplay.recorder.values import encode
from agentreplay.replay.reducer import fold
from agentreplay.replay.shared_list import WIDTH, SharedList
from agentreplay.replay.state import RunState
from event_builder import EventBuilder, refund_log
from hypothesis import given
from hypothesis import strategies as st


def stored(value: Any) -> Any:
    return encode(value).stored


def test_a_state_gives_values_of_the_recorded_types() -> None:
    """Decimals, dates and tuples in a payload come back as themselves."""
    payload = {"total": Decimal("30.00"), "due": datetime(2026, 1, 2), "pair": (1, 2), "tags": [{1, 2}]}
    state = fold(EventBuilder(stored(payload)).events)
    assert state.payload == payload
    assert type(state.payload["pair"]) is tuple
    assert state.stored_payload == stored(payload)


def test_plain_values_are_handed_out_as_they_are() -> None:
    """A payload that is plain JSON is not copied to be decoded."""
    state = fold(EventBuilder({"a": [1, {"b": None}]}).events)
    assert state.payload is state.stored_payload


def test_unchanged_subtrees_are_decoded_to_the_same_objects() -> None:
    """Neighbouring states share the decoded values of what did not change between them."""
    log = EventBuilder({"kept": stored({"sum": Decimal("1.10"), "list": [Decimal("2")]}), "n": 1})
    before = fold(log.events)
    log.begin()
    log.change({"updateElements": {"n": 2}})
    after = fold(log.events[1:], before)
    assert (before.payload["n"], after.payload["n"]) == (1, 2)
    assert before.payload["kept"] is after.payload["kept"]
    assert before.payload is before.payload


def test_every_part_of_a_state_is_decoded() -> None:
    """Messages, scratchpad, memory, skills, plan, media, decision, value, input and parameters all decode."""
    exact = {"when": datetime(2026, 1, 2)}
    log = EventBuilder({}, input=stored(exact), params={"p": stored(exact)})
    log.begin()
    log.add("message.added", message=stored(exact))
    log.add("scratchpad.changed", scratchpad=stored(exact))
    log.add("memory.written", write=stored(exact))
    log.add("skill.activated", skill=stored(exact))
    log.add("plan.proposed", plan=stored(exact))
    log.add("media.promoted", media=stored(exact))
    log.add("step.decided", decision={"step": "Success", "message": stored(exact)})
    log.end("complete")
    log.finish(value=stored(exact))
    state = fold(log.events)
    assert (state.input, state.params) == (exact, {"p": exact})
    assert state.messages == state.memory == state.skills == state.media == [exact]
    assert state.scratchpad == state.plan == state.value == exact
    assert state.decision == {"step": "Success", "message": exact}


def test_the_whole_state_is_json() -> None:
    """`to_json` names every part, and is JSON whatever the values are."""
    log = refund_log()
    log.events.pop()
    log.add("message.added", message=stored({"at": datetime(2026, 1, 2)}))
    log.call("c9", "pay")
    log.add("interrupt.raised", interrupt="i9", name="sure", reason=stored({1: 2}))
    error = {"type": "builtins.ValueError", "message": "late", "traceback": None, "value": None}
    log.finish("failed", error=error)
    document = json.loads(json.dumps(fold(log.events, run="run1").to_json(), allow_nan=False))
    assert document["run"] == "run1"
    assert document["step"] == 3
    assert document["status"] == "failed"
    assert document["payload"] == {"order": "A-17", "notes": ["paid"], "status": "found"}
    assert document["messages"][0] == {"role": "user", "content": "…"}
    assert document["open_calls"][0]["name"] == "pay"
    assert document["open_interrupts"][0]["interrupt"] == "i9"
    assert document["children"][0]["status"] == "completed"
    assert document["usage"] == {"input_tokens": 10, "output_tokens": 2}
    assert document["error"] == error


def test_a_state_in_a_notebook_is_small_and_escaped() -> None:
    """The table shows no markup of the payload's own, and not all of a large one."""
    log = EventBuilder({"html": "<script>alert(1)</script>", "long": "x" * 100_000})
    log.call("c1", "<b>bold</b>")
    log.add("step.decided", decision={"step": "<i>"})
    html = fold(log.events, run="<run>")._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert "<i>" not in html
    assert "&lt;script&gt;" in html
    assert len(html) < 5_000


def test_a_failed_run_shows_its_error() -> None:
    """The table of a failed run names the exception."""
    log = EventBuilder({})
    log.finish("failed", error={"type": "builtins.ValueError", "message": "a < b"})
    html = fold(log.events)._repr_html_()
    assert "builtins.ValueError: a &lt; b" in html
    assert repr(fold(log.events, run="run1")) == "<RunState run1: step 0, event 1, failed>"


def test_a_copy_of_a_state_is_equal_and_goes_on() -> None:
    """Pickled and deep-copied states fold on like the original, with a memo of their own."""
    log = refund_log()
    early = fold(log.events[:20])
    for twin in (pickle.loads(pickle.dumps(early)), copy.deepcopy(early)):
        assert twin == early
        assert twin.memo is not early.memo
        assert fold(log.events[20:], twin) == fold(log.events)


def test_the_state_before_the_first_event_is_empty() -> None:
    """Nothing is known before the run started."""
    state = RunState()
    assert (state.last_seq, state.step, state.payload, state.messages) == (-1, 0, None, [])


edits = st.lists(
    st.tuples(st.just("append"), st.integers())
    | st.tuples(st.just("edit"), st.integers(0, 400), st.integers(0, 400), st.lists(st.integers(), max_size=150)),
    max_size=60,
)


@given(st.lists(st.integers(), max_size=3 * WIDTH), edits)
def test_a_shared_list_is_like_a_list(items: list[int], edits: list[Any]) -> None:
    """Appends and edits give what they give on a list, and leave every earlier version as it was."""
    versions = [(SharedList(items), list(items))]
    for edit in edits:
        shared, plain = versions[-1]
        if edit[0] == "append":
            versions.append((shared.appended(edit[1]), [*plain, edit[1]]))
        else:
            start, stop = sorted((min(edit[1], len(plain)), min(edit[2], len(plain))))
            versions.append((shared.edited(start, stop, edit[3]), [*plain[:start], *edit[3], *plain[stop:]]))
    for shared, plain in versions:
        assert list(shared) == plain
        assert len(shared) == len(plain)
        assert [shared[at] for at in range(-len(plain), len(plain))] == [*plain, *plain]
        assert shared == plain == shared[:]
        assert shared == SharedList(plain)
        assert pickle.loads(pickle.dumps(shared)) == shared


@pytest.mark.parametrize("window", [None, 2_000])
def test_versions_of_a_shared_list_share_their_items(window: int | None) -> None:
    """5,000 versions of a growing list, or of a window that moves over one, cost below 2 KB each."""
    items = SharedList(range(window or 0))
    tracemalloc.start()
    try:
        versions = [items]
        for n in range(5_000):
            kept = items.edited(0, 1, ()) if window else items
            versions.append(items := kept.appended(n))
        assert tracemalloc.get_traced_memory()[0] < 5_000 * 2_048
    finally:
        tracemalloc.stop()


def test_a_shared_list_has_ends() -> None:
    """An index past either end is an IndexError that says how long the list is."""
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"index {index} is out of range for 3 items"):
            SharedList("abc")[index]
