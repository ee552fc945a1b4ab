"""Damaged runs on the pages: the event that is damaged is named, and all that does not follow from it is shown."""

from __future__ import annotations

import html
import json
import re
from functools import cache
from typing import Any

import pytest
from agentreplay.examples import refunds
from agentreplay.recorder.errors import CorruptLog
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import RunInfo, Snapshot
from agentreplay.replay.reading import state_at
from agentreplay.replay.snapshots import dump_state
from agentreplay.replay.timeline import states
from agentreplay.webui.export_html import html_of
from agentreplay.webui.overview import Overviews
from agentreplay.webui.reader import Reader
from agentreplay.webui.sound import NO_STEP, sound_part
from event_builder import EventBuilder
from flask.testing import FlaskClient
from hypothesis import given, settings
from hypothesis import strategies as st
from test_export_html import Page, states_in
from test_webui_api import described, problems
from web import client_of, page

STEPS = 6
DAMAGED = 14
"""The event of step 4 that changes the payload."""


def log_of(*, first: int = 0) -> EventBuilder:
    """A run of six steps that count; each step is four events."""
    log = EventBuilder({"seen": first, "steady": [1, 2]})
    for step in range(1, STEPS + 1):
        log.begin()
        log.change({"updateElements": {"seen": first + step}}, reason=f"step {step}")
        log.add("step.decided", decision={"step": "Actions", "reasoning": f"page {step}"})
        log.end()
    return log


def damaged(seq: int = DAMAGED, *, snapshot: int | None = None) -> tuple[MemoryStore, RunInfo]:
    """A store with a run of which an event is damaged, as run1, and a sound one that counts from 10, as run2.

    With `snapshot` a state of that step is kept, from before the damage was done.
    """
    store = MemoryStore()
    for first in (0, 10):
        store.append(store.create_run("reader"), -1, log_of(first=first).events)
    info = store.run("run1")
    if snapshot is not None:
        state = state_at(info, snapshot, store)
        store.keep_snapshot(info, Snapshot(state.last_seq, state.step, dump_state(state)))
    store._logs[info.number][seq].body = b'{"request": 1'
    return store, info


def get(client: FlaskClient, url: str, status: int = 200) -> Any:
    """An answer of the API, which must be as its document says."""
    answer = client.get(f"/api/v1{url}")
    assert answer.status_code == status, answer.get_data(as_text=True)[:1_000]
    found = answer.get_json()
    if status == 200:
        schema = described(url)["responses"]["200"]["content"]["application/json"]["schema"]
        assert problems(found, schema) == []
    return found


# -- how far a run is sound ------------------------------------------------------------------------------------------


@given(st.integers(0, 4 * STEPS))
def test_a_run_is_sound_up_to_the_step_before_the_damage(seq: int) -> None:
    """Its last event is that of the step; the event that is damaged is named. Up to that, nothing is wrong."""
    store, info = damaged(seq)
    reader = Reader(store, Overviews(store))
    step = (seq + 3) // 4
    if seq == 0:
        assert reader.sound(info, STEPS)[:2] == (NO_STEP, -1)
        return
    # What begins a step ends the one before, so of that nothing is known without it.
    last = step - 1 - (seq % 4 == 1)
    assert reader.sound(info, STEPS)[:2] == (last, 4 * last if last >= 0 else -1)
    assert f"event {seq} " in reader.sound(info, STEPS).problem
    if last >= 0:
        assert reader.sound(info, last) == (last, 4 * last, "")


def test_behind_a_snapshot_a_damaged_run_is_sound_again() -> None:
    """All that follows from the snapshot; but not from the start."""
    store, info = damaged(snapshot=5)
    reader = Reader(store, Overviews(store))
    assert reader.sound(info, 6) == (6, 24, "")
    assert reader.sound(info, 4)[:2] == (3, 12)
    assert reader.sound(info, 6, from_start=True)[:2] == (3, 12)
    assert reader.state(info, 6).stored_payload["seen"] == 6


def test_a_sound_run_is_sound_to_the_step_that_is_asked_for() -> None:
    """And no further is read."""
    events = log_of().events
    reached = [state for _, state in states(events)]
    assert sound_part(events, 2) == (2, 8, "")
    assert sound_part(iter(()), 3, state=reached[3]) == (3, 12, "")
    assert sound_part(iter(()), 3) == (NO_STEP, -1, "")


# -- differences -----------------------------------------------------------------------------------------------------


def test_a_difference_across_a_damaged_event_is_told_as_far_as_it_is_sound() -> None:
    """The event is named; the changes up to the last sound step are there, with their causes."""
    client = client_of(damaged()[0])
    text = page(client, "/diff?from=run1:1&to=run1:6")
    assert f"event {DAMAGED} (payload.changed)" in text
    assert "from run1 step 1 to run1 step 3" in re.sub(r"\s+", " ", text)
    assert re.search(r'class="change replace" data-path="/seen".*?1</bdi>.*?3</bdi>', text, re.S)
    assert '<th scope="col">run1 step 3</th>' in text
    answer = get(client, "/diff?from=run1:1&to=run1:6")
    assert (answer["from"], answer["to"], answer["compared"]) == ("run1:1", "run1:6", ["run1:1", "run1:3"])
    assert f"event {DAMAGED} " in answer["problem"]
    assert [(change["path"], change["new"], change["cause"]["seq"]) for change in answer["changes"]] == [
        ("/seen", 3, 10)
    ]


@pytest.mark.parametrize("places", ["from=run1:3&to=run1:4", "from=run1:5&to=run1:6", "from=run1:6&to=run1:5"])
def test_where_nothing_between_can_be_told_that_is_said(places: str) -> None:
    """With links to the last sound state, and to what can be read of the step."""
    client = client_of(damaged()[0])
    text = page(client, f"/diff?{places}")
    assert f"event {DAMAGED} " in text
    assert "Nothing between these steps can be worked out." in text
    assert '<a href="/runs/run1/steps/3">run1 step 3</a>' in text
    assert "Both are the same" not in text
    answer = get(client, f"/diff?{places}")
    assert (answer["changes"], answer["compared"]) == ([], None)


def test_two_states_that_are_known_are_compared_across_the_damage() -> None:
    """From a snapshot behind it; only what made the changes is not known."""
    client = client_of(damaged(snapshot=5)[0])
    text = page(client, "/diff?from=run1:2&to=run1:6")
    assert f"event {DAMAGED} " in text
    assert "without what made each change" in text
    answer = get(client, "/diff?from=run1:2&to=run1:6")
    assert answer["compared"] == ["run1:2", "run1:6"]
    assert [(change["old"], change["new"], change["cause"]) for change in answer["changes"]] == [(2, 6, None)]


def test_a_damaged_run_is_compared_with_another_as_far_as_it_is_sound() -> None:
    """A step of two runs, whichever of them is damaged."""
    client = client_of(damaged()[0])
    for query, compared in [
        ("from=run1:5&to=run2:5", ["run1:3", "run2:5"]),
        ("from=run2:5&to=run1:5", ["run2:5", "run1:3"]),
    ]:
        assert f"event {DAMAGED} " in page(client, f"/diff?{query}")
        answer = get(client, f"/diff?{query}")
        assert answer["compared"] == compared
        assert {change["path"] for change in answer["changes"]} == {"/seen"}


def test_where_not_even_the_start_is_known_there_is_still_a_page() -> None:
    """The first event is damaged: it is named, and nothing is made up."""
    client = client_of(damaged(0)[0])
    text = page(client, "/diff?from=run1:1&to=run1:6")
    assert "event 0 (run.started)" in text
    assert "Nothing between these steps can be worked out." in text
    assert get(client, "/diff?from=run1:1&to=run1:6")["changes"] == []
    assert "event 0 (run.started)" in page(client, "/runs/run1/blame?path=/seen", 422)
    assert "event 0 (run.started)" in page(client, "/runs/run1/export", 422)


def test_a_value_is_blamed_as_far_as_the_run_is_sound() -> None:
    """Its history before the damage, and which event hides the rest."""
    client = client_of(damaged(snapshot=5)[0])
    text = page(client, "/runs/run1/blame?path=/seen")
    assert f"event {DAMAGED} " in text
    assert "up to step 3" in text
    answer = get(client, "/runs/run1/blame?path=/seen")
    assert f"event {DAMAGED} " in answer["problem"]
    assert (answer["until"], [change["new"] for change in answer["changes"]]) == (3, [3, 2, 1, 0])
    assert f"event {DAMAGED} " in page(client, "/runs/run1/blame?path=/nothing", 404)
    assert "problem" not in get(client, "/runs/run1/blame?path=/seen&step=3")


# -- steps and events ------------------------------------------------------------------------------------------------


def test_the_list_of_steps_is_given_with_the_damage_named() -> None:
    """All of them; the one with the event that cannot be read says so, and what can be read of it."""
    client = client_of(damaged()[0])
    steps = get(client, "/runs/run1/steps")["steps"]
    assert [step["step"] for step in steps] == list(range(STEPS + 1))
    assert [step["reasoning"] for step in steps[1:]] == [f"page {step}" for step in range(1, STEPS + 1)]
    assert [step["step"] for step in steps if "problem" in step] == [4]
    assert f"event {DAMAGED} (payload.changed)" in steps[4]["problem"]
    one = get(client, "/runs/run1/steps/4")
    assert (one["step"]["problem"], one["decision"]["reasoning"], one["requests"]) == (
        steps[4]["problem"],
        "page 4",
        [],
    )
    assert get(client, "/runs/run1")["last_step"] == STEPS
    assert f"event {DAMAGED} " in get(client, "/runs/run1/steps/5/state", 422)["error"]["message"]
    assert get(client, "/runs/run1/steps/3/state?path=/seen") == 3


def test_events_are_listed_with_the_damaged_one_among_them() -> None:
    """What stands beside its data is there; so is the beginning of what is stored."""
    client = client_of(damaged()[0])
    events = get(client, "/runs/run1/events")["events"]
    assert [event["seq"] for event in events] == list(range(4 * STEPS + 1))
    (odd,) = [event for event in events if "problem" in event]
    assert (odd["seq"], odd["round"], odd["kind"], odd["data"]) == (DAMAGED, 4, "payload.changed", None)
    assert odd == get(client, f"/runs/run1/events/{DAMAGED}")
    assert events[DAMAGED - 1]["hash"] != odd["hash"]
    assert "cannot be read" in get(client, f"/runs/run1/events/{DAMAGED}?path=/request", 422)["error"]["message"]
    text = page(client, "/runs/run1/events")
    assert re.search(rf'id="e{DAMAGED}".*?damaged.*?cannot be read', text)
    assert text.count("<details>") == 4 * STEPS + 1
    shown = page(client, f"/runs/run1/events/{DAMAGED}/value")
    assert "{&#34;request&#34;: 1" in shown
    assert "cannot be read" in shown


def test_a_step_behind_the_damage_says_which_is_the_last_sound_one() -> None:
    """Its own events are as they are; of the payload that follows from a snapshot nothing is missing."""
    text = page(client_of(damaged()[0]), "/runs/run1/steps/6")
    assert "page 6" in text
    assert f"event {DAMAGED} " in text
    assert '<a href="/runs/run1/steps/3">Step 3</a> is the last one before that.' in text
    store, _ = damaged(snapshot=5)
    behind = page(client_of(store), "/runs/run1/steps/5")
    assert 'data-path="/seen"' in behind
    assert "Not known." in behind
    assert f"event {DAMAGED} " in behind
    assert re.search(r'class="change replace" data-path="/seen"', page(client_of(store), "/runs/run1/steps/6"))


def test_a_payload_that_was_tampered_with_is_told_as_in_the_terminal() -> None:
    """The event can be read and says something else than was recorded; steps before it are sound."""
    store = MemoryStore()
    store.append(store.create_run("reader"), -1, log_of().events)
    row = store._logs[1][DAMAGED]
    assert row.body is not None
    row.body = row.body.replace(b'"seen":4', b'"seen":9')
    client = client_of(store)
    assert "is not the one that was recorded" not in page(client, "/runs/run1/steps/3")
    with pytest.raises(CorruptLog):
        state_at("run1", 4, store)
    assert "the payload after step 4 is not the one that was recorded" in page(client, "/runs/run1/steps/4")


def test_a_damaged_step_is_run_again_from_the_last_one_that_is_sound() -> None:
    """Behind the damage there is nothing to edit: the page says so, and leads to the step from which it can be run."""
    client = client_of(damaged()[0])
    assert "Run from step 4" in page(client, "/runs/run1/steps/4/rerun")
    told = html.unescape(page(client, "/runs/run1/steps/6/rerun", 422))
    assert f"event {DAMAGED} (payload.changed)" in told
    assert '<a href="/runs/run1/steps/4/rerun">run it again from step 4</a>' in told
    nothing = page(client_of(damaged(0)[0]), "/runs/run1/steps/2/rerun", 422)
    assert "run it again from step" not in nothing


# -- runs as a whole -------------------------------------------------------------------------------------------------


def test_a_damaged_run_is_compared_as_a_whole_as_far_as_it_is_sound() -> None:
    """Step by step up to the damage; that no sound step differs does not make the runs the same."""
    store, _ = damaged()
    store.append(store.create_run("reader"), -1, log_of().events)
    client = client_of(store)
    answer = get(client, "/compare/run1/run3")
    assert f"event {DAMAGED} " in answer["problem"]
    assert (answer["same"], answer["first"]["kind"]) == (False, "extra step")
    assert [pair["steps"] for pair in answer["steps"] if pair["status"] != "same"] == [[None, 4], [None, 5], [None, 6]]
    text = page(client, "/compare/run1/run3")
    assert f"event {DAMAGED} " in text
    assert "Compared is what came before." in text
    assert get(client, "/compare/run1/run2")["first"]["step"] == 0
    assert "problem" not in get(client, "/compare/run2/run3")


def test_a_damaged_run_is_exported_as_far_as_it_is_sound() -> None:
    """From the page, which says so; whoever asks for the run as a whole is refused."""
    store, info = damaged()
    data = Page(page(client_of(store), "/runs/run1/export")).data
    assert [step["n"] for step in data["steps"]] == [0, 1, 2, 3]
    assert [state["seen"] for state in states_in(data)] == [0, 1, 2, 3]
    assert f"event {DAMAGED} (payload.changed)" in data["left_out"]["damage"]
    assert Page(page(client_of(store), "/runs/run2/export")).data["left_out"]["damage"] is None
    with pytest.raises(CorruptLog):
        html_of(store, info)


# -- the law ---------------------------------------------------------------------------------------------------------


@cache
def example() -> MemoryStore:
    store = MemoryStore()
    refunds.step.run(refunds.START, store=store)
    refunds.step.run(refunds.START, store=store)
    return store


ASKED = [
    "/runs/run1",
    "/runs/run1/steps/10",
    "/runs/run1/steps/10/detail",
    "/runs/run1/steps/10/payload",
    "/runs/run1/rows",
    "/runs/run1/events",
    "/runs/run1/tree",
    "/diff?from=run1:0&to=run1:10",
    "/diff?from=run1:10&to=run1:0&part=messages",
    "/diff?from=run1:10&to=run2:1",
    "/compare/run1/run3",
    "/api/v1/runs/run1",
    "/api/v1/runs/run1/steps",
    "/api/v1/runs/run1/events",
    "/api/v1/diff?from=run1:0&to=run1:10",
    "/api/v1/compare/run1/run3",
]
NAMING = ["/runs/run1/events", "/diff?from=run1:0&to=run1:10", "/api/v1/runs/run1/steps", "/api/v1/runs/run1/events"]


@given(st.integers(0, 91), st.sampled_from([b'{"a": 1', b"", b"[]", b"\xff", b"null", b'{"$type": "tuple"}']))
@settings(max_examples=25, deadline=None)
def test_whichever_event_is_damaged_the_pages_of_the_run_are_there(seq: int, body: bytes) -> None:
    """Each of them is answered, and those that hold the event name it."""
    store = example()
    row = store._logs[1][seq]
    before, row.body = row.body, body
    try:
        ask_for_all(store, row)
    finally:
        row.body = before


def ask_for_all(store: MemoryStore, row: Any) -> None:
    try:
        store.decode(store.run("run1"), row)
    except CorruptLog:
        is_damaged = True
    else:
        is_damaged = False  # what is stored now may be read in its place
    client = client_of(store)
    for url in ASKED:
        answer = client.get(url, headers={"X-Part": "1"} if url.endswith("payload") else {})
        may_be = (200, 422) if row.seq == 0 else (200,)  # without its start two runs cannot be compared
        assert answer.status_code in may_be, (url, answer.get_data(as_text=True)[:600])
        if is_damaged and url in NAMING:
            told = answer.get_data(as_text=True)
            assert f"event {row.seq} (" in (json.dumps(answer.get_json()) if "/api/" in url else html.unescape(told)), (
                url
            )
