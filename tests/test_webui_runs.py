"""The list of runs: which are on which page, and what it says of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import RunInfo
from agentreplay.webui.run_list import SORTS, Wanted, agents_of, page_of
from agentreplay.webui.usage import tokens_in
from agentreplay.webui.views import short_number
from event_builder import EventBuilder
from hypothesis import given
from hypothesis import strategies as st
from web import client_of, page, recorded

INFOS = st.lists(
    st.builds(
        RunInfo,
        number=st.just(0),
        uid=st.just(""),
        agent=st.sampled_from(["a", "B", "c\u202e", ""]),
        status=st.sampled_from(["completed", "failed", "cancelled", "interrupted"]),
        steps=st.integers(0, 3),
        started=st.integers(0, 5),
        finished=st.none() | st.integers(5, 9),
    ),
    max_size=25,
).map(lambda infos: [replace(info, number=at, uid=f"u{at}") for at, info in enumerate(infos, 1)])


@given(INFOS, st.sampled_from(SORTS), st.integers(1, 7))
def test_pages_hold_every_run_once(infos: list[RunInfo], sort: str, limit: int) -> None:
    """Whatever the order and the size of the pages, following `next` gives each run once, in order."""
    found: list[RunInfo] = []
    cursor = ""
    while True:
        chosen = page_of(infos, Wanted(sort=sort, limit=limit, cursor=cursor), lambda info: "")
        assert len(chosen.runs) <= limit
        found += chosen.runs
        cursor = chosen.next
        if not cursor:
            break
    assert sorted(info.number for info in found) == sorted(info.number for info in infos)
    assert found == list(page_of(infos, Wanted(sort=sort, limit=500), lambda info: "").runs)


def test_a_page_stays_what_it_is_while_runs_are_added() -> None:
    """A cursor is a place in the order, not a number of a page."""
    infos = [RunInfo(number, f"u{number}") for number in range(1, 10)]
    first = page_of(infos, Wanted(limit=3), lambda info: "")
    more = [*infos, RunInfo(10, "u10"), RunInfo(11, "u11")]
    second = page_of(more, Wanted(limit=3, cursor=first.next), lambda info: "")
    assert [info.number for info in second.runs] == [6, 5, 4]


@pytest.mark.parametrize("cursor", ["x", "e30", "WzFd", "bnVsbA", "W1tdLDFd", "\udfff", "a" * 10_000])
def test_a_cursor_of_another_kind_is_refused(cursor: str) -> None:
    """Whatever stands there is no error of ours."""
    with pytest.raises(UsageError):
        page_of([RunInfo(1, "u"), RunInfo(2, "v")], Wanted(cursor=cursor), lambda info: "")


def test_runs_are_found_by_status_agent_name_and_error() -> None:
    """In any case; errors are asked for where a run failed only."""
    infos = [
        RunInfo(1, "aaaa-1", "Refunds", "failed", finished=1),
        RunInfo(2, "bbbb-2", "crawler", "completed", finished=1),
        RunInfo(3, "cccc-3", "crawler", "failed", finished=1),
    ]

    def found(**wanted: str) -> list[int]:
        return [info.number for info in page_of(infos, Wanted(**wanted), lambda i: f"Boom {i.number}").runs]

    assert found(status="failed") == [3, 1]
    assert found(agent="crawler") == [3, 2]
    assert found(text="REFUND") == [1]
    assert found(text="boom 3") == [3]
    assert found(text="run2") == [2]
    assert found(text="cccc") == [3]
    assert found(text="nothing of that") == []
    assert agents_of(infos) == ["crawler", "Refunds"]


def test_an_empty_store_says_how_to_record_the_first_run() -> None:
    """With commands to copy, instead of an empty table."""
    text = page(client_of(MemoryStore()), "/runs")
    assert "agentreplay demo" in text
    assert "agentreplay run agent.py:step" in text
    assert "<table" not in text


def test_the_list_says_what_is_known_of_each_run() -> None:
    """Number, agent, standing, steps, tokens, why it failed, whose child it is."""
    text = page(client_of(), "/runs")
    assert 'href="/runs/run1"' in text
    assert "refunds" in text
    assert "a refund of 95.50 is more than the 77.70 that was paid for A-17" in text
    assert "8.5k" in text
    assert 'child of <a href="/runs/run1">run1</a>' in text


def test_the_list_is_filtered_and_sorted_by_its_address() -> None:
    """Each choice has an address; one that there is not is refused."""
    client = client_of()
    assert "inspector" not in page(client, "/runs?status=failed").split("<tbody>")[1]
    assert "No run fits" in page(client, "/runs?q=nothing+of+that")
    text = page(client, "/runs?sort=run&limit=1")
    assert 'aria-sort="ascending"' in text
    assert "cursor=" in text
    for query in ("status=fine", "sort=colour", "limit=0", "limit=x", "cursor=x", "limit=99999999999999999999"):
        page(client, f"/runs?{query}", 400)


def test_the_table_comes_alone_for_a_page_that_is_open() -> None:
    """What is new is put into the page without loading it again."""
    text = page(client_of(), "/runs?part=table&status=failed")
    assert text.lstrip().startswith('<div class="wide"')
    assert "<html" not in text


def test_a_crashed_and_a_silent_run_say_so() -> None:
    """A run whose process is gone has crashed; one of another host has not been heard of since."""
    store = MemoryStore()
    for process in (None, {"host": "elsewhere", "boot": "b", "pid": 1, "start": 1}):
        log = EventBuilder({}, process=process)
        log.begin()
        store.append(store.create_run("refunds"), -1, log.events)
    text = page(client_of(store), "/runs")
    assert text.count("silent since 2026-01-01") == 2
    assert "run2" not in page(client_of(store), "/runs?status=running")


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 3, "output_tokens": 4}, 7),
        ({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 8}, 8),
        ({"inputTokens": 3}, 3),
        ({"cost": 1.5}, None),
        ({"input_tokens": "3"}, None),
        (None, None),
        ([], None),
    ],
)
def test_tokens_are_read_in_the_spellings_of_providers(usage: object, tokens: int | None) -> None:
    """The total if it is told, else its parts; nothing is made up."""
    assert tokens_in(usage) == tokens


def test_numbers_are_short_where_only_their_size_matters() -> None:
    """To a tenth."""
    numbers = [0, 999, 1_000, 5_120, 99_949, 1_000_000, 2_345_678, 5_000_000_000]
    assert [short_number(n) for n in numbers] == ["0", "999", "1.0k", "5.1k", "99.9k", "1.0M", "2.3M", "5.0G"]


def test_a_run_that_is_recorded_meanwhile_is_on_the_list() -> None:
    """What the list is made of is read again after half a second at most."""
    from agentreplay.webui.site import FRESH_SECONDS

    assert FRESH_SECONDS <= 0.5
    assert page(client_of(recorded()), "/runs").count("<tr data-key=") == 2
