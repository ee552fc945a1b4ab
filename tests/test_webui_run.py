"""The page of a run: its steps, the chosen one, and what loads on demand."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import RunInfo
from agentreplay.webui.overview import Overviews
from agentreplay.webui.reader import SHARE, Reader
from agentreplay.webui.run_pages import BLOCK
from event_builder import EventBuilder
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st
from web import client_of, page

PART = {"X-Part": "1"}


def store_of(log: EventBuilder, **options: Any) -> tuple[MemoryStore, RunInfo]:
    """A store with that log as run1."""
    store = MemoryStore()
    info = store.create_run("refunds", **options)
    store.append(info, -1, log.events)
    return store, store.run(info.uid)


def part(client: FlaskClient, url: str, status: int = 200) -> str:
    answer = client.get(url, headers=PART)
    assert answer.status_code == status, answer.get_data(as_text=True)[:1_000]
    return answer.get_data(as_text=True)


def long_log(steps: int) -> EventBuilder:
    log = EventBuilder({"seen": 0})
    for step in range(steps):
        log.begin()
        log.change({"updateElements": {"seen": step}}, reason="read")
        log.add("step.decided", decision={"step": "Actions", "reasoning": f"page {step}"})
        log.end()
    return log


# -- the chosen step ------------------------------------------------------------------------------------------------


def test_a_failed_run_opens_where_it_failed() -> None:
    """The address of a run is its last step's; what failed, failed there."""
    text = page(client_of(), "/runs/run1")
    assert "failed at step 10" in text
    assert 'data-chosen="10"' in text
    assert 'aria-current="step"' in text


@pytest.mark.parametrize("name", ["run1", "1", "@last"])
def test_a_run_has_the_names_that_it_has_everywhere(name: str) -> None:
    """A number, an alias, the last one."""
    assert "refunds" in page(client_of(), f"/runs/{name}/steps/7")


def test_a_step_shows_what_it_decided_and_changed_and_why() -> None:
    """The decision, its reason, the changes with what made them, the call, the payload with its changes marked."""
    text = page(client_of(), "/runs/run1/steps/7")
    assert "The coupon SPRING takes 40 % off the total." in text
    assert re.search(
        r'class="change replace" data-path="/order/total".*?129\.5.*?77\.7.*?#c60"[^>]*>model ask<', text, re.S
    )
    assert re.search(r'class="change add" data-path="/totals_checked"', text)
    assert re.search(r'class="node leaf replace" data-path="/order/total".*?77\.7.*?was <bdi>129\.5', text, re.S)
    assert 'id="c60"' in text
    assert 'id="e64"' in text
    assert "agentreplay diff run1 --step 7" in text


def test_a_failed_call_shows_its_error() -> None:
    """Marked for the eye, and told in words."""
    text = page(client_of(), "/runs/run1/steps/9")
    assert "RefundRejected: a refund of 95.50 is more than the 77.70 that was paid for A-17" in text
    assert 'issue_refund</bdi>(<bdi class="quiet">order_id=&#34;A-17&#34;, amount=95.5, paid=77.7</bdi>)' in text


def test_a_child_run_is_linked() -> None:
    """From the step that started it, and back."""
    assert 'child run <a href="/runs/run2">run2</a>' in page(client_of(), "/runs/run1/steps/5")
    assert 'child of <a href="/runs/run1">run1</a>' in page(client_of(), "/runs/run2")


def test_warnings_of_a_change_are_seen_at_once() -> None:
    """In the list of steps, and in the request, which is open then."""
    log = EventBuilder({"a": 1})
    log.begin()
    log.change({"updateElements": {"b": 2}}, warnings=["b was not there"], blocked=[{"op": "add", "path": "/c"}])
    log.end()
    text = page(client_of(store_of(log)[0]), "/runs/run1/steps/1")
    assert "b was not there" in text
    assert "blocked: op add, path /c" in text
    assert re.search(r'class="step[^"]* warned"', text)
    assert re.search(r'id="e2">\s*<details class="fold" open', text)


def test_step_0_is_the_start() -> None:
    """Its payload is what the run started with, and nothing changed."""
    text = page(client_of(), "/runs/run1/steps/0")
    assert "This is what the run started with." in text
    assert "The desk lamp arrived broken." in text


@pytest.mark.parametrize("url", ["/runs/run99", "/runs/run1/steps/11", "/runs/run1/steps/11/detail", "/runs/x"])
def test_what_is_not_there_is_not_found(url: str) -> None:
    """With a page that says what there is."""
    page(client_of(), url, 404)


@pytest.mark.parametrize("url", ["/runs/run1/steps/-1", "/runs/run1/steps/x", "/runs/run1/steps/1.5"])
def test_an_address_of_no_step_is_not_found(url: str) -> None:
    """Steps are counted from 0."""
    page(client_of(), url, 404)


def test_another_part_of_the_state_has_its_address() -> None:
    """Messages, usage and so on, where they hold something."""
    text = page(client_of(), "/runs/run1/steps/2?part=messages")
    assert "Work the request through." in text
    assert re.search(r"Messages 5", text)
    assert "8,465" not in page(client_of(), "/runs/run1/steps/2?part=usage")
    page(client_of(), "/runs/run1/steps/2?part=colour", 400)


def test_a_run_without_steps_has_a_page() -> None:
    """One that has just begun, or broke off before its first round."""
    store = MemoryStore()
    store.create_run("empty")
    page(client_of(store), "/runs/run1", 200)
    log = EventBuilder({"a": 1})
    assert 'data-last="0"' in page(client_of(store_of(log)[0]), "/runs/run1")


def test_what_was_in_flight_at_a_crash_is_said() -> None:
    """A call that nobody answered, in the last step of a run that did not end."""
    log = EventBuilder({})
    log.begin()
    log.call("1.1", "charge_card", arguments={"amount": 5})
    text = page(client_of(store_of(log)[0]), "/runs/run1")
    assert re.search(r"In flight.*charge_card", text)
    assert "no answer yet" in text


def test_a_damaged_log_shows_what_can_be_seen() -> None:
    """The event that is damaged is named; steps before it are as they are."""
    log = long_log(6)
    store, info = store_of(log)
    row = store._logs[info.number][14]
    row.body = b'{"request": 1'
    client = client_of(store)
    broken = page(client, f"/runs/run1/steps/{row.round}")
    assert f"event {row.seq} (payload.changed)" in broken
    assert "page 0" in page(client, "/runs/run1/steps/1")


def test_a_damaged_log_has_all_its_steps_in_the_list() -> None:
    """That which is damaged is marked, and shows what can be read of it but no payload; the others are as they are."""
    log = long_log(6)
    store, info = store_of(log)
    row = store._logs[info.number][14]
    row.body = b'{"request": 1'
    client = client_of(store)
    text = part(client, "/runs/run1/rows")
    assert re.findall(r'data-step="(\d+)"', text) == [str(step) for step in range(7)]
    assert re.findall(r'class="step damaged"[^>]* data-step="(\d+)"', text) == [str(row.round)]
    assert f'aria-label="step {row.round}, Actions, damaged' in text
    broken = page(client, f"/runs/run1/steps/{row.round}")
    assert f"Step {row.round} · <bdi>Actions</bdi>" in broken
    assert "It cannot be worked out" in broken
    assert "Not known." in broken


# -- the list of steps ----------------------------------------------------------------------------------------------


def test_the_list_holds_the_steps_around_the_chosen_one() -> None:
    """Of a long run not all: the page is small, and each block of rows has its address."""
    store, _ = store_of(long_log(1_000))
    answer = client_of(store).get("/runs/run1/steps/500")
    text = answer.get_data(as_text=True)
    steps = [int(step) for step in re.findall(r'data-step="(\d+)"', text.split('id="detail"')[0])]
    assert 500 in steps
    assert len(steps) <= 2 * BLOCK
    assert steps == list(range(steps[0], steps[-1] + 1))
    assert len(answer.data) < 300_000


def test_rows_come_in_blocks() -> None:
    """Those that are asked for, up to the last."""
    client = client_of(store_of(long_log(200))[0])
    text = part(client, "/runs/run1/rows?start=100&stop=110")
    assert re.findall(r'data-step="(\d+)"', text) == [str(step) for step in range(100, 110)]
    assert re.findall(r'data-step="(\d+)"', part(client, "/runs/run1/rows?start=199&stop=400")) == ["199", "200"]
    part(client, "/runs/run1/rows?start=202", 400)
    part(client, "/runs/run1/rows?start=-1", 400)


def test_a_row_is_heard_as_a_sentence() -> None:
    """Step, decision, changes, calls."""
    assert 'aria-label="step 7, Retry, 2 changes, 1 call"' in page(client_of(), "/runs/run1/steps/7")
    assert 'aria-label="step 9, Actions, 1 change, 2 calls, 1 failed"' in page(client_of(), "/runs/run1/steps/7")


def test_a_call_that_ends_in_a_later_step_is_shown_as_it_ended() -> None:
    """In the list and in the step that made it, although its end is in another one's events."""
    log = EventBuilder({})
    log.begin()
    log.call("1.1", "slow")
    log.end()
    log.begin()
    log.give("1.1", result="at last", in_round=1)
    log.end()
    text = page(client_of(store_of(log)[0]), "/runs/run1/steps/1")
    assert "at last" in text
    assert "no answer yet" not in text


def test_the_picture_of_a_run_has_a_column_for_each_step() -> None:
    """Bars for time, a line for the size of the payload, marks where something failed."""
    text = part(client_of(), "/runs/run1/picture?wait=5")
    assert 'viewBox="0 0 11 24"' in text
    assert 'data-complete="yes"' in text
    assert "polyline" in text
    assert text.split('class="failures"')[1].count("<rect") == 2


# -- values on demand -----------------------------------------------------------------------------------------------


def test_a_value_loads_where_it_is_folded() -> None:
    """As a part for a page that is open, as a page of its own for who follows the link."""
    client = client_of()
    assert 'data-path="/order/items/0"' in part(client, "/runs/run1/steps/7/value?path=/order/items")
    assert "Back to the step" in page(client, "/runs/run1/steps/7/value?path=/order/items")
    part(client, "/runs/run1/steps/7/value?path=/order/nothing", 404)
    part(client, "/runs/run1/steps/7/value?path=order", 400)
    part(client, "/runs/run1/steps/7/value?path=/order&from=x", 400)


def test_the_data_of_an_event_loads_on_demand() -> None:
    """All of it, or what stands at a path; a conversation by its messages."""
    client = client_of()
    assert "12 unchanged" not in part(client, "/runs/run1/events/64/value")
    assert "Work the request through." in part(client, "/runs/run1/events/4/value?path=/request/messages")
    part(client, "/runs/run1/events/92/value", 404)
    part(client, "/runs/run1/events/64/value?path=/nothing", 404)


def test_a_long_text_loads_in_pieces() -> None:
    """A text of a megabyte comes a hundred thousand characters at a time."""
    store, _ = store_of(EventBuilder({"text": "x" * 250_000}))
    client = client_of(store)
    first = part(client, "/runs/run1/steps/0/value?path=/text")
    assert first.count("x") - first.count("text") <= 100_100
    assert "150,000 more characters" in first
    assert "from=200000" in part(client, "/runs/run1/steps/0/value?path=/text&from=100000")
    assert "more characters" not in part(client, "/runs/run1/steps/0/value?path=/text&from=200000")


def test_a_large_payload_is_not_waited_for() -> None:
    """The page of a step comes without it, and says where it is."""
    store, info = store_of(EventBuilder({"docs": [{"text": "word " * 1_000} for _ in range(2_000)]}))
    client = client_of(store)
    text = page(client, "/runs/run1")
    assert 'data-src="/runs/run1/steps/0/payload"' in text
    assert len(text) < 40_000
    late = part(client, "/runs/run1/steps/0/payload")
    assert "[2,000 items]" in late
    assert len(late) < 300_000
    assert client.get("/runs/run1/steps/0/payload").headers["Location"] == "/runs/run1/steps/0"
    assert Reader(store, Overviews(store)).is_quick(info, 0) is False


def test_a_step_with_very_many_events_is_read_in_part() -> None:
    """Its first events and its last; the others are on the page of events."""
    log = EventBuilder({})
    log.begin()
    for at in range(SHARE + 500):
        log.add("x.note", at=at)
    log.add("step.decided", decision={"step": "Success", "reasoning": "at the very end"})
    log.end("complete")
    client = client_of(store_of(log)[0])
    text = page(client, "/runs/run1/steps/1")
    assert "at the very end" in text
    assert len(text) < 600_000
    assert "4,504 " not in text
    assert 'id="e0"' in page(client, "/runs/run1/events?after=-1")


# -- events and search ----------------------------------------------------------------------------------------------


def test_all_events_are_listed_page_by_page() -> None:
    """From the first on, or from a step on."""
    client = client_of(store_of(long_log(100))[0])
    first = page(client, "/runs/run1/events")
    assert first.count("<details>") == 200
    assert "after=199" in first
    assert page(client, "/runs/run1/events?after=390").count("<details>") == 10
    page(client, "/runs/run1/events?after=401", 400)
    assert 'id="e197"' in page(client, "/runs/run1/events?step=50")


def test_a_run_is_searched_for_what_it_recorded() -> None:
    """Each hit is an event, with its step and what stands around it; in any case."""
    text = page(client_of(), "/runs/run1/search?q=SPRING")
    assert "<mark>SPRING</mark>" in text
    assert 'href="/runs/run1/steps/7#e64"' in text
    assert "No event" in page(client_of(), "/runs/run1/search?q=nothing+of+that")
    assert "<mark>" not in page(client_of(), "/runs/run1/search?q=")
    assert "<mark>arrived</mark>" in page(client_of(), "/runs/run1/search?q=Arrived")


# -- differences and blame ------------------------------------------------------------------------------------------


def test_a_difference_has_an_address() -> None:
    """Between any two steps, of one run or of two, with what made each change."""
    text = page(client_of(), "/diff?from=run1:2&to=run1:9")
    assert "8 changes: 7 added, 1 replaced" in text
    assert "model ask, step 7" in text
    assert "agentreplay diff run1 --from 2 --to 9" in text
    assert "4 unchanged" in text
    two = page(client_of(), "/diff?from=run1:3&to=run2:1")
    assert "run1 step 3" in two
    assert "changes" in two
    assert "order.total" in page(client_of(), "/diff?to=run1:7")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("from=run1:6&to=run9:7", 404),
        ("from=run1:6&to=run1:77", 404),
        ("from=run1:x&to=run1:7", 400),
        ("to=run1:7&part=colour", 400),
        ("to=run1:99999999999999999999", 400),
        ("to=:7", 400),
        ("", 200),
        ("from=run1", 200),
        ("to=run1:-1", 200),
    ],
)
def test_a_difference_that_there_is_not_is_refused(query: str, status: int) -> None:
    """A run, step or part that is not there; without a `to` there is a form."""
    page(client_of(), f"/diff?{query}", status)


def test_a_path_leads_to_everything_that_ever_changed_it() -> None:
    """Newest first, each with its step and reason; also of a value that is gone."""
    text = part(client_of(), "/runs/run1/blame?path=/order/total&step=9")
    assert text.index("model ask, step 7") < text.index("step 1")
    assert "The coupon SPRING takes 40 % off the total." in text
    assert "<html" in page(client_of(), "/runs/run1/blame?path=/order/total")
    part(client_of(), "/runs/run1/blame?path=/nothing", 404)
    part(client_of(), "/runs/run1/blame?path=nothing", 400)


def test_from_the_failure_to_its_cause_it_is_two_clicks() -> None:
    """The list of runs, the failed run, the blame of the total that the failed call was given."""
    client = client_of()
    run = re.search(r'href="(/runs/run1)"', page(client, "/runs"))
    assert run is not None
    url = re.search(r'data-blame="([^"]+)"', page(client, run[1]))
    assert url is not None
    assert "129.5" in part(client, f"{url[1]}&path=/order/total")


RULES = [
    rule.rule
    for rule in client_of().application.url_map.iter_rules()
    if rule.endpoint.split(".")[0] in ("pages", "run", "diff", "events", "health") and "GET" in (rule.methods or ())
]
NAMES = ["path", "from", "to", "step", "part", "after", "start", "stop", "q", "limit", "sort", "status", "cursor"]
WORDS = st.sampled_from(["run1", "1", "@last", "run1:7", "7", "-1", "/order", "/order/items/0", "payload", "messages"])


@given(
    st.sampled_from(RULES),
    st.lists(WORDS | st.text(max_size=8), min_size=2, max_size=2),
    st.dictionaries(st.sampled_from(NAMES), WORDS | st.text(max_size=8), max_size=4),
    st.booleans(),
)
def test_whatever_is_asked_for_is_no_error_of_ours(
    rule: str, names: list[str], query: dict[str, str], alone: bool
) -> None:
    """Any text in an address: a page, or a refusal in words."""
    parts = iter(names)
    url = re.sub(r"<[^>]+>", lambda _: quote(next(parts), safe="") or "x", rule)
    answer = client_of().get(url, query_string=query, headers=PART if alone else {})
    assert answer.status_code < 500
