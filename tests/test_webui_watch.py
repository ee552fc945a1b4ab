"""Watching an expression on the page of a run and in the API: what it came to, a little at a time, and bounded."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import quote

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.recorder.values import encode, loads
from agentreplay.replay.changes import MISSING
from agentreplay.replay.watching import Expression
from agentreplay.webui import run_pages, watching
from agentreplay.webui.watch_views import HEIGHT, LISTED, chart_of, watch_context
from agentreplay.webui.watching import Seen, Watching, Watchings
from event_builder import EventBuilder
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st
from test_watching import HOSTILE
from test_webui_api import described, problems
from test_webui_damage import DAMAGED, damaged
from web import client_of, page, recorded

VALUES = st.lists(
    st.sampled_from([MISSING, None, True, 0, 1, 2.5, -3, "a", "b", [1], {"k": 1}]), min_size=1, max_size=40
)


def store_of(values: list[Any]) -> MemoryStore:
    """A store with a run whose payload has these values as `v`, one after each step; the first at the start."""
    payloads = [{} if value is MISSING else {"v": encode(value).stored} for value in values]
    log = EventBuilder(payloads[0], applier="replace")
    for payload in payloads[1:]:
        log.begin()
        log.change(payload)
        log.end()
    store = MemoryStore()
    store.append(store.create_run("watched"), -1, log.events)
    return store


def looked_through(store: EventStore, text: str) -> Watching:
    """What an expression came to, looked at a step at a time."""
    found = Watching(store, store.run("run1"), Expression(text))
    while not found.is_over:
        found.advance(0)
    return found


def asked(client: FlaskClient, expression: str, status: int = 200, **more: Any) -> Any:
    answer = client.get("/api/v1/runs/run1/watch", query_string={"expression": expression, **more})
    assert answer.status_code == status, answer.get_data(as_text=True)
    found = answer.get_json()
    if status == 200:
        schema = described("/runs/run1/watch")["responses"]["200"]["content"]["application/json"]["schema"]
        assert problems(found, schema) == []
    return found


# -- what it comes to -------------------------------------------------------------------------------------------------


@given(VALUES.filter(lambda values: any(value is not MISSING for value in values)))
def test_a_page_and_the_library_see_the_same(values: list[Any]) -> None:
    """The spans of `ar.watch`, however the looking was cut in pieces."""
    store = store_of(values)
    found, told = looked_through(store, "v"), ar.watch("run1", "v", store)
    assert [(seen.first, seen.last) for seen in found.seen] == [(span.first, span.last) for span in told.spans]
    assert [MISSING if seen.is_missing else loads(seen.stored or b"") for seen in found.seen] == [
        span.value for span in told.spans
    ]
    for step in range(len(values)):
        here = found.at(step)
        assert here is not None
        assert here.first <= step <= here.last
    assert (found.at(len(values)), found.error, found.problem) == (None, "", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("order..", "this is no JMESPath expression"),
        ("order.totl", "run1 has no order.totl at any step; did you mean order.total?"),
        ("sum(order)", "applies to no step of run1"),
        ("a" * 2_001, "2,000 characters at most"),
        *[(text, "500,000 parts") for text in HOSTILE],
    ],
)
def test_an_expression_that_says_nothing_says_why(text: str, said: str) -> None:
    """On the page it stands where the chart would, with the step as it is; the API refuses it."""
    client = client_of()
    for _ in range(10):  # each time it is looked a little further
        found = html.unescape(page(client, "/runs/run1/watch?watch=" + quote(text)))
        if 'data-complete="no"' not in found:
            break
    assert re.search(rf'role="alert".*{re.escape(said)}', found, re.S)
    assert 'data-path="/order/total"' in page(client, "/runs/run1/steps/7?watch=" + quote(text))
    refused = asked(client, text, 400)["error"]["message"]
    assert said in refused or len(text) > 2_000


def test_a_damaged_run_is_watched_up_to_the_damage() -> None:
    """The event is named, and what came before is told."""
    client = client_of(damaged()[0])
    found = asked(client, "seen")
    assert [(span["first"], span["value"]) for span in found["spans"]] == [(at, at) for at in range(4)]
    assert f"event {DAMAGED} (payload.changed)" in found["problem"]
    assert f"event {DAMAGED} (payload.changed)" in page(client, "/runs/run1/steps/2?watch=seen")


def test_a_run_that_goes_on_is_watched_on() -> None:
    """What was found out before is not taken for all."""
    store = store_of([1, 2])
    watchings = Watchings(store, lambda: None)
    assert [seen.shown for seen in watchings.of(store.run("run1"), "v", 1).seen] == ["1", "2"]
    log = EventBuilder({"v": 1}, applier="replace")
    for value in (2, 3):
        log.begin()
        log.change({"v": value})
        log.end()
    info = store.run("run1")
    store.append(info, info.head_seq, log.events[info.head_seq + 1 :])
    assert [seen.shown for seen in watchings.of(store.run("run1"), "v", 1).seen] == ["1", "2", "3"]


# -- bounded ----------------------------------------------------------------------------------------------------------


def test_what_is_kept_is_small_however_large_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long value is a line, and its JSON is left out; after some changes it is enough; few expressions are kept."""
    store = store_of(["x" * 5_000 + str(at) for at in range(8)])
    found = looked_through(store, "v")
    assert len(found.seen) == 8
    assert all(len(seen.shown) <= 66 and seen.stored is None and len(seen.key) < 40 for seen in found.seen)
    spans = asked(client_of(store), "v")["spans"]
    assert {(span["value"], span["left_out"]) for span in spans} == {(None, True)}
    monkeypatch.setattr(watching, "SPANS", 5)
    cut = looked_through(store, "v")
    assert (len(cut.seen), cut.problem) == (5, "after 5 changes it is not watched any further")
    watchings = Watchings(store, lambda: None)
    for number in range(20):
        watchings.of(store.run("run1"), f"v || `{number}`", 0)
    assert len(watchings._known) == watching.KEPT
    held = [one for one in watchings._known.values() if one._payloads is not None]
    assert len(held) <= watching.UNFINISHED


def test_an_answer_leads_on_to_the_rest() -> None:
    """By `next`, whether that was not looked at yet or is only not in the answer."""
    client = client_of(store_of(list(range(10))))
    steps: list[int] = []
    start: int | None = 0
    while start is not None:
        found = asked(client, "v", start=start, limit=3)
        steps += [span["first"] for span in found["spans"]]
        start = found["next"]
    assert steps == list(range(10))


# -- the chart --------------------------------------------------------------------------------------------------------


@given(VALUES, st.integers(0, 300))
def test_bars_stand_where_their_steps_are(values: list[Any], more: int) -> None:
    """In the columns of the picture, one after the other, within the chart; without a value there is nothing."""
    seen = looked_through(store_of(values), "v || v").seen
    steps = len(values) + more
    chart = chart_of(seen, steps)
    ends = [0.0, *[bar.x + bar.width for bar in chart.bars]]
    for bar, end in zip(chart.bars, ends, strict=False):
        assert bar.x >= end - 0.001
        assert 0 <= bar.y < bar.y + bar.height <= HEIGHT + 0.001
    assert ends[-1] <= 100.001
    if steps <= 240:
        width = 100 / steps
        drawn = {round(step) for bar in chart.bars for step in _steps(bar.x / width, (bar.x + bar.width) / width)}
        present = {step for span in seen if not span.is_missing for step in range(span.first, span.last + 1)}
        assert drawn == present


def _steps(start: float, end: float) -> range:
    return range(round(start), round(end))


def test_numbers_are_bars_and_other_values_are_letters() -> None:
    """The least and the largest are told; the same value has the same letter."""
    numbers = chart_of([Seen(0, 4, "1", 1.0, "1"), Seen(5, 5, "9.5", 9.5, "9.5"), Seen(6, 9)], 10)
    assert [(bar.x, round(bar.width), bar.height, bar.title) for bar in numbers.bars] == [
        (0, 50, 2, "steps 0 to 4: 1"),
        (50, 10, 24, "step 5: 9.5"),
    ]
    assert (numbers.is_numeric, numbers.scale) == (True, "1 to 9.5")
    words = chart_of([Seen(0, 3, '"a"', key="a"), Seen(4, 6, '"b"', key="b"), Seen(7, 9, '"a"', key="a")], 10)
    assert [(bar.letter, bar.tint, bar.title) for bar in words.bars] == [
        ("a", 0, 'steps 0 to 3: a, "a"'),
        ("b", 1, 'steps 4 to 6: b, "b"'),
        ("a", 0, 'steps 7 to 9: a, "a"'),
    ]


def test_no_peak_is_lost_where_a_column_stands_for_several_steps() -> None:
    """One step of a thousand is seen."""
    seen = [Seen(0, 500, "1", 1.0, "1"), Seen(501, 501, "9", 9.0, "9"), Seen(502, 999, "1", 1.0, "1")]
    assert max(bar.height for bar in chart_of(seen, 1_000).bars) == HEIGHT


# -- the page ---------------------------------------------------------------------------------------------------------


def test_a_step_shows_what_a_watched_expression_came_to() -> None:
    """The value, how often it changed, the changes before and behind, each with a link to its step and its blame."""
    client = client_of(recorded())
    text = html.unescape(page(client, "/runs/run1/steps/5?watch=order.total"))
    assert '<bdi class="data">129.5</bdi>' in text
    assert "changed in 2 of 10 steps, 77.7 to 129.5" in text
    assert re.search(r'href="/runs/run1/steps/1\?watch=order.total" data-to-step="1" data-change="-1"', text)
    assert re.search(r'href="/runs/run1/steps/7\?watch=order.total" data-to-step="7" data-change="1"', text)
    assert 'href="/runs/run1/blame?step=7&path=%2Forder%2Ftotal" data-blame' in text
    assert 'aria-label=""order.total" over the steps: step 0 nothing, step 1 129.5, step 7 77.7"' in text
    start = html.unescape(page(client, "/runs/run1/steps/0?watch=order.total"))
    assert "nothing there" in start
    assert 'data-change="-1"' not in start
    assert 'id="watch"' in page(client, "/runs/run1/steps/5")
    assert (
        client.get("/runs/run1?step=3&watch=order.total").headers["Location"] == "/runs/run1/steps/3?watch=order.total"
    )


def test_markup_in_an_expression_or_a_value_stays_text() -> None:
    """Wherever it is said again."""
    bad = "</script><script>x()</script>"
    client = client_of(store_of([bad, bad + "1"]))
    for text in ("v", f"'{bad}'", f'"{bad}"'):
        assert "<script>x()" not in page(client, "/runs/run1/steps/1?watch=" + quote(text))


def test_of_many_changes_those_around_the_step_are_listed() -> None:
    """And the others are counted."""
    store = store_of(list(range(200)))
    watchings = Watchings(store, lambda: None)
    for step, first in ((0, 1), (100, 70), (199, 140)):
        told = watch_context(store.run("run1"), step, "v", watchings.of, 5, 199)["watched"]
        steps = [change.step for change in told["changes"]]
        assert (steps[0], len(steps), told["left_out"]) == (first, LISTED, 199 - LISTED)
        assert steps == list(range(first, first + LISTED))


def test_a_page_does_not_wait_for_a_large_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent before anything was looked at, and the part that it asks for then goes on."""
    monkeypatch.setattr(run_pages, "SMALL_PAYLOAD", 10)
    client = client_of(store_of([1, 2]))
    first = page(client, "/runs/run1/steps/1?watch=v")
    assert 'data-complete="no"' in first
    assert "not looked at yet" in first
    assert 'data-complete="yes"' in page(client, "/runs/run1/watch?watch=v")
    assert 'data-complete="yes"' in page(client, "/runs/run1/steps/1?watch=v")
