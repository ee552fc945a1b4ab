"""Searching what runs recorded: in events, and in what is stored once for many of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore
from agentreplay.webui.searching import LARGE, search, search_runs
from hypothesis import given
from hypothesis import strategies as st
from web import client_of, page


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    made = MemoryStore() if request.param == "memory" else SqlStore(f"sqlite:///{tmp_path}/store.db")
    yield made
    made.close()


def answer(**request: Any) -> dict[str, str]:
    """A model that says nothing of what it was asked."""
    return {"role": "assistant", "content": "It is on its way."}


def record_prompts(store: EventStore, *prompts: str, system: str = "") -> None:
    """A run with a model call for each prompt, which repeats all prompts before; none is a message of the run."""
    history: list[dict[str, str]] = []
    with ar.record("plain", store=store) as run:
        for prompt in prompts:
            history.append({"role": "user", "content": prompt})
            with run.round() as r:
                r.model("some-model", {"system": system, "messages": list(history)}, answer)


def seqs(store: EventStore, text: str) -> list[tuple[int, int]]:
    return [(hit.step, hit.seq) for hit in search(store, store.run(1), text).hits]


def check_prompts(store: EventStore) -> None:
    """In a store that is empty: each prompt, and the system prompt, is found in the request that has it first."""
    record_prompts(store, "Where is parcel ALPHA?", 'And "BETA"?', "GAMMA\nin two lines", system="Be KIND. " * 300)
    assert [event.kind for event in store.events(1)][2::5] == ["model.called"] * 3
    assert seqs(store, "parcel alpha") == [(1, 2)]
    assert seqs(store, '"beta"') == [(2, 7)]
    assert seqs(store, "gamma\nin") == [(3, 12)]
    assert seqs(store, "be kind. be") == [(1, 2)]
    assert seqs(store, "DELTA") == []
    hit = search(store, store.run(1), "beta").hits[0]
    assert (hit.kind, hit.before[-5:], hit.found, hit.after[:2]) == ("model.called", 'And "', "BETA", '"?')
    found = search_runs(store, store.runs()[::-1], "GAMMA")
    assert [(one.info.id, [hit.seq for hit in one.hits]) for one in found.runs] == [("run1", [12])]
    assert found.left_out == 0


def test_what_is_stored_once_is_found_where_it_stands_first(store: EventStore) -> None:
    """Prompts that are in model calls only, repeated by each call behind; and long texts, kept apart as blobs."""
    check_prompts(store)


def test_pages_and_api_find_prompts() -> None:
    """The search within a run, that over runs, and the one for programs."""
    store = MemoryStore()
    record_prompts(store, "Where is parcel NEEDLE?", "And now?")
    client = client_of(store)
    text = page(client, "/runs/run1/search?q=needle")
    assert 'href="/runs/run1/steps/1#e2"' in text
    assert text.count("<mark>NEEDLE</mark>") == 1
    assert "not searched" not in text
    assert "<mark>NEEDLE</mark>" in page(client, "/runs?q=value:needle")
    found = client.get("/api/v1/search?q=needle").get_json()
    assert [(hit["run"], hit["seq"], hit["kind"]) for hit in found["hits"]] == [("run1", 2, "model.called")]
    assert found["left_out"] == 0


def test_large_values_are_searched_up_to_a_bound(store: EventStore) -> None:
    """And those beyond are counted: nobody takes what was not looked into for what is not there."""
    with ar.record("large", payload={"text": "x" * 200_000 + "INSIDE"}, store=store) as run:
        run.change(update={"text": "y" * LARGE + "BEYOND"}, reason="larger")
    assert [hit.seq for hit in search(store, store.run(1), "inside").hits] == [0]
    beyond = search(store, store.run(1), "beyond")
    assert (beyond.hits, beyond.left_out) == ([], 1)
    assert search_runs(store, store.runs(), "beyond").left_out == 1
    client = client_of(store)
    assert "1 value, too large or lost, was not searched." in page(client, "/runs/run1/search?q=beyond")
    assert "1 value, too large or lost, not searched" in page(client, "/runs?q=value:beyond")
    assert client.get("/api/v1/search?q=beyond").get_json()["left_out"] == 1


def test_what_a_store_has_lost_is_counted() -> None:
    """The messages beside it are searched all the same."""
    store = MemoryStore()
    record_prompts(store, "ALPHA", "BETA")
    row = next(row for row in store.rows(1) if len(row.conversations.get("messages", ())) == 2)
    del store._contents[row.conversations["messages"][0]]
    assert search(store, store.run(1), "alpha") == ([], None, 1)
    beta = search(store, store.run(1), "beta")
    assert ([hit.seq for hit in beta.hits], beta.left_out) == ([row.seq], 1)


@given(st.lists(st.sampled_from(["needle", "hay"]), min_size=1, max_size=6))
def test_a_search_in_pieces_finds_each_prompt_once(words: list[str]) -> None:
    """However it is cut: a request that repeats what was searched before is no hit."""
    store = MemoryStore()
    record_prompts(store, *[f"{word} {number}" for number, word in enumerate(words)])
    whole = search_runs(store, store.runs(), "needle", each=100, seconds=60)
    pieces, cursor = [], ""
    while True:
        part = search_runs(store, store.runs(), "needle", cursor, 100, seconds=-1)
        pieces += [hit.seq for found in part.runs for hit in found.hits]
        cursor = part.next
        if not cursor:
            break
    assert pieces == [hit.seq for found in whole.runs for hit in found.hits]
    assert len(pieces) == words.count("needle")
