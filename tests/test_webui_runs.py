"""The list of runs: which are on which page, and what it says of them."""

from __future__ import annotations

from dataclasses import replace
from html import unescape

import agentreplay as ar
import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import RunInfo
from agentreplay.webui.run_list import SORTS, Wanted, agents_of, page_of
from agentreplay.webui.run_query import Asked, asked_by, term
from agentreplay.webui.searching import search_runs
from agentreplay.webui.usage import cost_in, tokens_in
from agentreplay.webui.views import short_cost, short_number
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


# -- tags ----------------------------------------------------------------------------------------------------------


def tagged() -> MemoryStore:
    """run1 is nightly, run2 has no tags, run3 is nightly and has one of two words; each holds its number as a value."""
    store = MemoryStore()
    for number, tags in enumerate((["nightly"], [], ["nightly", 'two "words"']), 1):
        with ar.record("tagged", payload={"said": f"needle {number}"}, store=store, tags=tags) as run, run.round() as r:
            r.change(update={"said": f"Needle {number} again"}, reason="said")
    return store


@given(st.lists(st.text(min_size=1).filter(lambda tag: tag.strip()), max_size=4))
def test_a_tag_is_typed_so_that_it_is_read_again(tags: list[str]) -> None:
    """Whatever is in it; several, and words around them."""
    typed = " ".join(map(term, tags))
    assert asked_by(typed) == Asked("", tuple(tags))
    assert asked_by(f"{typed} value:tag:a b") == Asked("tag:a b", tuple(tags), in_values=True)


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("", Asked("")),
        (" refund of 95 ", Asked("refund of 95")),
        ("tag:nightly", Asked("", ("nightly",))),
        ("boom tag:nightly", Asked("boom", ("nightly",))),
        ('tag:"two words" boom', Asked("boom", ("two words",))),
        ("value: boom", Asked("boom", in_values=True)),
        ("tag:a tag:b value:x", Asked("x", ("a", "b"), in_values=True)),
        ("a value:x", Asked("a value:x")),
        ("stage:a tag:", Asked("stage:a tag:")),
        ('tag:"', Asked('tag:"')),
    ],
)
def test_what_is_typed_is_read_as_words_tags_and_where_to_look(typed: str, asked: Asked) -> None:
    """What is none of these is a word."""
    assert asked_by(typed) == asked


def test_runs_are_found_by_their_tags() -> None:
    """By all that are wanted, each as a whole; with words beside them."""
    infos = [RunInfo(1, "u1", "a"), RunInfo(2, "u2", "b"), RunInfo(3, "u3", "b")]
    tags = {1: ("x", "y"), 2: ("x",), 3: ()}

    def found(text: str, tag: str = "") -> list[int]:
        chosen = page_of(infos, Wanted(text=text, tag=tag), lambda info: "", lambda info: tags[info.number])
        return [info.number for info in chosen.runs]

    assert found("tag:x") == [2, 1]
    assert found("tag:x tag:y") == [1]
    assert found("tag:x", "y") == [1]
    assert found("tag:x b") == [2]
    assert found("tag:X") == []


def test_the_list_and_the_head_of_a_run_show_tags_that_lead_to_their_runs() -> None:
    """Each is a link to the runs that have it."""
    client = client_of(tagged())
    text = page(client, "/runs")
    assert text.count('href="/runs?q=tag%3Anightly"') == 2
    for url in ("/runs", "/runs/run3"):
        assert 'two "words"' in unescape(page(client, url))
    only = page(client, "/runs?q=tag%3A%22two+%5C%22words%5C%22%22")
    assert (only.count("<tr data-key="), '<tr data-key="run3"' in only) == (1, True)


def test_a_fork_is_found_by_the_tags_of_the_run_it_came_from() -> None:
    """It shares the event in which they stand."""
    store = MemoryStore()

    @ar.agent("tagged", tags=["nightly"])
    def step(i: int, context: ar.Context) -> ar.Complete[int]:
        context.now()
        return ar.Complete(i)

    run = step.run({}, store=store).run.id
    ar.rerun(run, step, 1, store=store)
    assert page(client_of(store), "/runs?q=tag:nightly").count("<tr data-key=") == 2


# -- costs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"cost": 0.25}, 0.25),
        ({"cost_usd": 2, "cost": 9}, 2.0),
        ({"totalCostUsd": 0.5, "cost": 0.25}, 0.5),
        ({"total_cost": 0.0}, 0.0),
        ({"cost": "0.25"}, None),
        ({"cost": True}, None),
        ({"cost": 10**400}, None),
        ({"cost": float("nan")}, None),
        ({"input_tokens": 3}, None),
        (None, None),
    ],
)
def test_a_cost_is_what_a_usage_says(usage: object, cost: float | None) -> None:
    """The total before its parts; nothing is worked out."""
    assert cost_in(usage) == cost


def test_costs_are_shown_to_what_can_be_told() -> None:
    """To the cent, and further where they are small."""
    costs = [0, 12.4, 1234.5, 0.0031, 0.25, 0.99999, 0.00001]
    assert [short_cost(cost) for cost in costs] == ["0.00", "12.40", "1,234.50", "0.0031", "0.25", "1.00", "< 0.0001"]


def test_the_cost_of_a_run_is_that_of_its_model_calls() -> None:
    """In the list, at the head of the run and of the step; a list without costs has no place for them."""
    store = MemoryStore()
    with ar.record("priced", store=store) as run:
        for _ in range(2):
            with run.round() as r:
                r.model("m", {"q": 1}, lambda q: {"usage": {"input_tokens": 5, "cost": 0.125}})
    client = client_of(store)
    listed = page(client, "/runs")
    assert (">cost</th>" in listed, ">0.25</td>" in listed) == (True, True)
    assert "<span>cost 0.25</span>" in page(client, "/runs/run1/steps/1")
    assert "cost 0.125" in page(client, "/runs/run1/steps/1")
    assert ">cost</th>" not in page(client_of(), "/runs")


# -- searching in values -------------------------------------------------------------------------------------------


def test_values_are_found_in_the_newest_run_first_and_lead_to_their_steps() -> None:
    """In any case, by the choice beside the search or by what is typed; within what else is asked for."""
    client = client_of(tagged())
    text = page(client, "/runs?q=NEEDLE&in=values")
    assert "Searched 3 of 3 runs" in text
    assert [text.index(f'aria-label="run{number}"') for number in (3, 2, 1)] == sorted(
        text.index(f'aria-label="run{number}"') for number in (1, 2, 3)
    )
    assert 'href="/runs/run3/steps/1#e2"' in text
    only = page(client, "/runs?q=tag:nightly+value:needle+1")
    assert "Searched 2 of 2 runs" in only
    assert ('aria-label="run1"' in only, 'aria-label="run3"' in only) == (True, False)
    assert "No event holds it" in page(client, "/runs?q=value:nothing+of+that")
    assert "no such run to search in" in page(client, "/runs?q=tag:none+value:needle")
    assert "<tbody>" in page(client, "/runs?in=values")
    page(client, "/runs?q=value:needle&cursor=x", 400)


def test_a_run_with_many_hits_leads_to_the_rest_of_them() -> None:
    """Some are shown; the search within the run goes on behind them."""
    store = MemoryStore()
    with ar.record("a", store=store) as run:
        for number in range(9):
            run.report(f"needle {number}")
    client = client_of(store)
    text = page(client, "/runs?q=value:needle")
    assert text.count("<mark>needle</mark>") == 5
    assert 'href="/runs/run1/search?q=needle&amp;after=5"' in text
    assert page(client, "/runs/run1/search?q=needle&after=5").count("<mark>needle</mark>") == 4


@given(st.lists(st.integers(0, 7), min_size=1, max_size=5), st.integers(2, 9))
def test_a_search_that_stops_anywhere_goes_on_where_it_stopped(reports: list[int], each: int) -> None:
    """Without any time a request looks at one event; following `next` finds what a search without bounds does."""
    store = MemoryStore()
    for count in reports:
        with ar.record("a", store=store) as run:
            for number in range(count):
                run.report(f"needle {number}")
    infos = store.runs()[::-1]
    whole = search_runs(store, infos, "needle", each=100, seconds=60)
    assert [len(found.hits) for found in whole.runs] == [count for count in reversed(reports) if count]
    assert (whole.searched, whole.next) == (len(infos), "")
    pieces, searched, cursor = [], 0, ""
    while True:
        part = search_runs(store, infos, "needle", cursor, each, seconds=-1)
        pieces += [(found.info.id, hit.seq) for found in part.runs for hit in found.hits]
        assert part.searched >= searched
        searched, cursor = part.searched, part.next
        if not cursor:
            break
    assert pieces == [(found.info.id, hit.seq) for found in whole.runs for hit in found.hits]
    assert searched == len(infos)
