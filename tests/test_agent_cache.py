"""`context.agent_cache`: what a run finds there is recorded, and is there when the run is executed again."""

from __future__ import annotations

import asyncio
import socket
import threading
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.agent_cache import MOST, stored_cache
from agentreplay.recorder.loop import Agent
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from hypothesis import given
from hypothesis import strategies as st
from recorded import log_of, one


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


@ar.tool(safety="pure")
def fetch(page: str) -> str:
    return page.upper()


def fetching(name: str = "caching", rounds: int = 2) -> Agent:
    """An agent that fetches a page once, and asks a person whose cache it is."""

    @ar.agent(name)
    def step(i: int, context: ar.Context) -> Any:
        cache = context.agent_cache
        for page in context.payload["pages"]:
            if page not in cache:
                cache[page] = fetch(page)
        context.change(update={"seen": sorted(map(str, cache.values()))})
        return ar.Continue() if i < rounds else ar.Complete([*cache.values(), fetch("last")])

    return step


def begin(agent: Agent, *pages: Any, store: EventStore) -> Any:
    return agent.run({"pages": list(pages), "seen": []}, store=store).value


def test_a_run_is_replayed_with_what_its_cache_held_then(store: EventStore) -> None:
    """Whatever this process has put there since, or has not: in the agent that recorded it, and in a fresh one."""
    agent = fetching()
    assert begin(agent, "a", store=store) == ["A", "LAST"]
    assert begin(agent, "a", "b", store=store) == ["A", "B", "LAST"]
    assert begin(agent, "c", store=store) == ["A", "B", "C", "LAST"]
    assert [one(store, "run.started", f"run{n}").data.agent_cache for n in (1, 2, 3)] == [
        None,
        {"a": "A"},
        {"a": "A", "b": "B"},
    ]
    for run, calls in (("run3", 2), ("run1", 2), ("run2", 2)):
        for again in (agent, fetching()):
            result = ar.replay(run, again, store=store)
            assert (result.verdict, result.coverage.recorded, result.coverage.notes) == ("identical", calls, [])
    assert agent.cache == {"a": "A", "b": "B", "c": "C"}


def test_what_is_executed_again_has_a_cache_of_its_own(store: EventStore) -> None:
    """A re-run and a resumed run leave the agent's cache alone, and each other's; also live."""
    agent = fetching()
    begin(agent, "a", store=store)
    begin(agent, "b", store=store)
    before = dict(agent.cache)
    for _ in range(2):
        assert ar.rerun("run2", agent, 2, set={"/pages": ["x"]}, store=store).value == ["A", "B", "X", "LAST"]
        assert ar.replay("@last", agent, store=store).verdict == "identical"
    assert agent.cache == before == {"a": "A", "b": "B"}

    @ar.agent("asks")
    def asking(i: int, context: ar.Context) -> Any:
        found = context.agent_cache.setdefault("n", 0)
        context.agent_cache["n"] += 1
        return ar.Complete([found, context.interrupt("on?"), fetch("z")])

    for run in range(2):
        asking.run({}, store=store)
        assert asking.cache == {"n": run + 1}
    assert ar.resume("@last", asking, answers={"on?": "yes"}, store=store).value == [1, "yes", "Z"]
    assert asking.cache == {"n": 2}


def test_a_child_run_has_the_cache_that_it_had(store: EventStore) -> None:
    """Each child by its own start, also where several run one after the other."""
    inner = fetching("inner", 1)

    @ar.agent("outer")
    def outer(i: int, context: ar.Context) -> Any:
        found = [context.run_agent(inner, {"pages": [page], "seen": []}).value for page in ("a", "b")]
        return ar.Complete(found)

    for values in ([["A", "LAST"], ["A", "B", "LAST"]], [["A", "B", "LAST"], ["A", "B", "LAST"]]):
        assert outer.run({}, store=store).value == values
    for run in ("run1", "run4"):
        assert ar.replay(run, outer, store=store).verdict == "identical"


def test_in_an_event_loop_the_cache_is_taken_as_the_run_begins(store: EventStore) -> None:
    """Where concurrent runs share a cache, each is recorded with what it began with."""

    @ar.agent("counts")
    async def counts(i: int, context: ar.Context) -> Any:
        found = list(context.agent_cache.get("seen", []))
        context.agent_cache.setdefault("seen", []).append(len(found))
        return ar.Complete([found, fetch("a")])

    async def both() -> None:
        await counts.arun({}, store=store)
        await counts.arun({}, store=store)

    asyncio.run(both())
    assert one(store, "run.started", "run2").data.agent_cache == {"seen": [0]}
    assert ar.replay("run2", counts, store=store).verdict == "identical"


@dataclass
class Page:
    text: str


@dataclass
class Registered:
    text: str


ar.register_type(Registered)


def test_what_cannot_be_kept_is_left_out_and_named(store: EventStore) -> None:
    """A lock and a socket are no facts; a class that is not registered cannot be made again. A cache may miss."""

    @ar.agent("keeps")
    def keeps(i: int, context: ar.Context) -> Any:
        cache = context.agent_cache
        found = len(cache)
        cache.setdefault("lock", threading.Lock())
        cache.setdefault("page", Page("x"))
        cache.setdefault("known", Registered("y"))
        cache.setdefault((1, "tuple"), Decimal("1.50"))
        cache.setdefault(socket, "a module as a key")
        return ar.Complete([fetch("a"), found, cache["known"], cache[1, "tuple"]])

    keeps.run({}, store=store)
    keeps.run({}, store=store)
    started = one(store, "run.started").data
    assert len(started.agent_cache_without) == 2
    assert started.agent_cache_without[0] == "lock"
    assert started.agent_cache_without[1].startswith("<module 'socket'")
    with pytest.raises(ar.Divergence) as caught:  # it looks how much is there
        ar.replay("run2", keeps, store=store)
    assert [note for note in caught.value.notes if "agent_cache" in note] == [
        "run2 began with 'lock' in context.agent_cache; the code begins without it",
        f"run2 began with {started.agent_cache_without[1]!r} in context.agent_cache; the code begins without it",
        "run2 began with 'page' in context.agent_cache; the code begins without it",
    ]


def test_a_large_cache_is_kept_up_to_a_bound(store: EventStore) -> None:
    """Entries are kept in order, as long as they fit; what comes then is named, and not even looked at."""
    half = "x" * (MOST // 2)
    kept = stored_cache({"a": half, "b": half, "c": "small"})
    assert (list(kept.entries), kept.without) == (["a", "c"], ["b"])


def test_a_cached_secret_is_not_written(store: EventStore) -> None:
    """It is redacted like all else, by its name and by its looks."""

    @ar.agent("keeps")
    def keeps(i: int, context: ar.Context) -> Any:
        context.agent_cache["api_key"] = "quite-some-secret-4711"
        return ar.Complete(fetch("a"))

    for _ in range(2):
        keeps.run({}, store=store)
    assert one(store, "run.started", "run2").data.agent_cache["api_key"].startswith("[redacted:")
    assert all("quite-some-secret-4711" not in str(event) for event in log_of(store, "run2"))
    assert ar.replay("run2", keeps, store=store).verdict == "identical"


def test_later_mutation_changes_nothing_of_the_record(store: EventStore) -> None:
    """What a run began with is frozen as it begins, nested values included."""
    cache: dict[str, Any] = {"deep": {"list": [1]}}
    kept = stored_cache(cache)
    cache["deep"]["list"].append(2)
    assert kept.entries == {"deep": {"list": [1]}}


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=6,
)


@given(st.dictionaries(st.text() | st.integers() | st.tuples(st.integers(), st.text()), PLAIN, min_size=1, max_size=4))
def test_a_cache_comes_back_exactly(cache: dict[Any, Any]) -> None:
    """A law: keys and values of any built-in types, type and order included."""
    store = MemoryStore()
    seen: list[Any] = []

    @ar.agent("looks")
    def looks(i: int, context: ar.Context) -> Any:
        seen.append(list(context.agent_cache.items()))
        return ar.Complete(fetch("a"))

    looks.cache.update(cache)
    looks.run({}, store=store)
    assert ar.replay("run1", looks, store=store).verdict == "identical"
    assert repr(seen[1]) == repr(seen[0])
