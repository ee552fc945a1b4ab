"""Reading runs for pages: the numbers of the whole run, and states that are gone on from."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.event_codec import StoredEvent
from agentreplay.recorder.events import Event
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import RunInfo
from agentreplay.recorder.values import dumps
from agentreplay.replay.diff import diff_values
from agentreplay.replay.reading import state_at
from agentreplay.replay.reducer import fold
from agentreplay.webui.overview import LARGE, STATES, Overview, Overviews
from agentreplay.webui.reader import Reader
from agentreplay.webui.views import picture_of
from event_builder import EventBuilder, refund_log
from hypothesis import given
from hypothesis import strategies as st
from web import client_of, recorded

VALUES = st.recursive(st.integers(0, 9) | st.text(max_size=4), lambda inner: st.lists(inner, max_size=3), max_leaves=4)


def stored(log: EventBuilder) -> tuple[MemoryStore, RunInfo]:
    store = MemoryStore()
    info = store.create_run("refunds")
    store.append(info, -1, log.events)
    return store, store.run(info.uid)


def gone_through(store: MemoryStore, info: RunInfo) -> Overview:
    overview = Overview()
    list(overview.extend(store, info))
    return overview


@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), max_size=6))
def test_the_numbers_of_a_step_are_those_of_its_states(requests: list[dict[str, Any]]) -> None:
    """Changes as a comparison finds them, the size of the payload as it is written, to some bytes."""
    log = EventBuilder({"a": 1})
    for request in requests:
        log.begin()
        log.change({"replaceElements": request, "newElements": request})
        log.end()
    store, info = stored(log)
    overview = gone_through(store, info)
    assert len(overview) == len(requests) + 1
    assert overview.covers(info)
    states = [state_at(info, step, store).stored_payload for step in range(len(requests) + 1)]
    for step, payload in enumerate(states):
        facts = overview.step(step)
        assert facts is not None
        assert abs(facts.size - len(dumps(payload))) <= 2 * step
        assert facts.changes == (len(diff_values(states[step - 1], payload)) if step else 0)


def test_what_failed_is_known() -> None:
    """A call that failed, and the step with which the run failed."""
    info = recorded().run("run1")
    overview = gone_through(recorded(), info)
    assert [step for step in range(len(overview)) if overview.failed[step]] == [9, 10]
    assert overview.tokens[7] == 1_102


def test_an_overview_grows_with_its_run() -> None:
    """What was gone through before the run went on is as if it had been gone through at once."""
    log = refund_log()
    store = MemoryStore()
    info = store.create_run("refunds")
    grown = Overview()
    for at, event in enumerate(log.events):
        store.append(info, at - 1, [event])
        if at % 3 == 0:
            list(grown.extend(store, store.run(info.uid)))
    info = store.run(info.uid)
    list(grown.extend(store, info))
    whole = gone_through(store, info)
    for name in ("durations", "changes", "sizes", "tokens", "failed", "seq"):
        assert getattr(grown, name) == getattr(whole, name), name


def test_a_damaged_run_is_known_as_far_as_it_can_be_read() -> None:
    """With why it ends there; it is not read again and again."""
    log = EventBuilder({})
    for _ in range(4):
        log.begin()
        log.end()
    store, info = stored(log)
    store._logs[info.number][5].body = b"{"
    overview = gone_through(store, info)
    assert "event 5" in overview.problem
    assert len(overview) == 2
    assert overview.covers(info)


def test_states_are_kept_within_bounds_all_along_the_run() -> None:
    """Of a run of a thousand steps some hundred, none far from the next."""
    log = EventBuilder({"n": 0})
    for step in range(1_000):
        log.begin()
        log.change({"updateElements": {"n": step}})
        log.end()
    store, info = stored(log)
    overview = gone_through(store, info)
    steps = [state.step for state in overview.states]
    assert STATES / 2 <= len(steps) <= STATES
    assert max(after - before for before, after in pairwise(steps)) <= 8
    kept = overview.state(777)
    assert kept is not None
    assert kept.step <= 777
    assert kept.stored_payload == {"n": kept.step - 1}


def test_of_runs_with_a_large_payload_few_are_kept() -> None:
    """The last two that were looked at; of others, and of their states, nothing stays in memory."""
    store = MemoryStore()
    for at in range(5):
        log = EventBuilder({"text": f"{at}" * (LARGE + 1)})
        store.append(store.create_run("large"), -1, log.events)
    overviews = Overviews(store)
    for at in range(1, 6):
        overviews.complete(store.run(at), 10)
        Reader(store, overviews).state(store.run(at), 0)
    kept = [at for at in range(1, 6) if overviews.size(store.run(at), 0)]
    assert kept == [4, 5]
    assert len(Reader(store, overviews).state(store.run(1), 0).stored_payload["text"]) == LARGE + 1


class GateStore(MemoryStore):
    """Gives no rows of its first run before it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.gate = threading.Event()

    def _read_rows(self, number: int, after: int, until: int | None) -> Iterator[StoredEvent]:
        if number == 1 and after == -1 and until:  # who asks for a run reads its first and last event
            self.asked.set()
            assert self.gate.wait(20)
        yield from super()._read_rows(number, after, until)


def test_runs_that_are_wanted_at_once_are_all_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """In turns, each of which gets a run on by a step at least; those that are asked for while another is read, too."""
    monkeypatch.setattr("agentreplay.webui.overview.TURN_SECONDS", 0)
    store = GateStore()
    for number in range(1, 7):
        log = EventBuilder({"n": 0})
        for step in range(10 * number):
            log.begin()
            log.change({"updateElements": {"n": step + 1}})
            log.end()
        store.append(store.create_run("busy"), -1, log.events)
    overviews = Overviews(store)
    overviews.of(store.run(1))
    assert store.asked.wait(20)
    for number in (2, 3, 4, 5):
        overviews.of(store.run(number))
    store.gate.set()
    assert len(overviews.complete(store.run(6), 20)) == 61
    for number in range(1, 6):
        found = overviews.complete(store.run(number), 20)
        assert found.covers(store.run(number))
        assert list(found.changes) == [0] + [1] * 10 * number


def test_a_log_that_breaks_the_fold_stops_no_other_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong with one run is its own; the thread goes on with the next."""

    def fold_or_fail(share: list[Event], state: Any, **options: Any) -> Any:
        if any(event.kind == "run.started" and event.data.payload == {"bad": 1} for event in share):
            raise RecursionError("deep")
        return fold(share, state, **options)

    monkeypatch.setattr("agentreplay.webui.overview.fold", fold_or_fail)
    store = MemoryStore()
    for payload in ({"bad": 1}, {"good": 1}):
        store.append(store.create_run("mixed"), -1, EventBuilder(payload).events)
    overviews = Overviews(store)
    assert overviews.complete(store.run(1), 20).problem == "step 0 cannot be worked out: RecursionError"
    assert len(overviews.complete(store.run(2), 20)) == 1


def test_the_last_step_is_not_known_while_it_may_have_gone_on() -> None:
    """What was counted of it before is no fact about what it is now; of the steps before it is."""
    log = EventBuilder({"n": 0})
    for step in range(2):
        log.begin()
        log.change({"updateElements": {"n": step + 1}})
        log.end()
    store, info = stored(log)
    cut = replace(info, head_seq=log.events[-2].seq)
    overview = gone_through(store, cut)
    known = overview.known(cut, 2)
    assert known is not None
    assert known.changes == 1
    assert overview.known(info, 2) is None
    assert overview.known(info, 1) == overview.step(1)


def test_a_state_is_the_same_from_wherever_it_is_folded() -> None:
    """From the start, from a state that was looked at, from one that is kept of the whole run."""
    info = recorded().run("run1")
    overviews = Overviews(recorded())
    for step in (9, 3, 10, 0, 7, 7):
        reader = Reader(recorded(), overviews)
        assert reader.state(info, step) == state_at(info, step, recorded())
    overviews.complete(info, 10)
    reader = Reader(recorded(), overviews)
    for step in (9, 3, 10, 0, 7, 7):
        assert reader.state(info, step) == state_at(info, step, recorded())
        if step:
            found = reader.difference(info, step - 1, step)
            assert found.states[1] == state_at(info, step, recorded())


def test_a_running_run_is_read_as_far_as_it_is() -> None:
    """A state that was looked at before the run went on is gone on from."""
    log = EventBuilder({"n": 0})
    store = MemoryStore()
    info = store.create_run("refunds")
    reader = Reader(store, Overviews(store))
    log.begin()
    log.change({"updateElements": {"n": 1}})
    store.append(info, -1, log.events)
    assert reader.state(store.run("run1"), 1).stored_payload == {"n": 1}
    known = len(log.events)
    log.change({"updateElements": {"n": 2}})
    log.end()
    store.append(info, known - 1, log.events[known:])
    assert reader.state(store.run("run1"), 1).stored_payload == {"n": 2}


def test_a_step_or_event_that_there_is_not_is_said() -> None:
    """With what there is."""
    reader = Reader(recorded(), Overviews(recorded()))
    info = recorded().run("run1")
    with pytest.raises(UsageError) as refused:
        reader.step(info, 11)
    assert "steps 0 (the start) to 10" in str(refused.value)
    with pytest.raises(UsageError) as refused:
        reader.event(info, 92)
    assert "events 0 to 91" in str(refused.value)


def test_a_picture_has_no_more_columns_than_can_be_seen() -> None:
    """Of many steps each column stands for some, and shows the longest, the largest, any failure."""
    durations = [0.0] * 30_001
    durations[15_000] = 2.0
    failed = [0] * 30_001
    failed[29_999] = 1
    picture = picture_of(durations, range(30_001), failed)
    assert picture is not None
    assert (picture.columns, picture.bars, picture.failures) == (240, ((120, 24),), (239,))
    assert picture.most == 30_000
    assert picture_of([0.0], [1], [0]) is None


def counts_twice(steps: int) -> MemoryStore:
    """Of each step the applier counts two changes, of which one is of a value to what it was before."""
    log = EventBuilder({"n": 0, "same": 1})
    for step in range(steps):
        log.begin()
        log.change({"updateElements": {"n": step + 1}})
        log.change({"updateElements": {"same": 1}})
        log.end()
    return stored(log)[0]


def test_the_first_answer_has_exact_counts() -> None:
    """Of a small run: what a comparison finds, in the API and in the list, however soon after the start it is asked."""
    answer = client_of(counts_twice(5)).get("/api/v1/runs/run1/steps").get_json()
    assert [step["changes"] for step in answer["steps"]] == [0, 1, 1, 1, 1, 1]
    assert client_of(counts_twice(5)).get("/api/v1/runs/run1/steps/2").get_json()["step"]["changes"] == 1
    text = client_of(counts_twice(5)).get("/runs/run1/rows?start=2&stop=3", headers={"X-Part": "1"}).get_data(True)
    assert 'aria-label="step 2, –, 1 change, 0 calls"' in text


def test_a_count_that_is_not_known_yet_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long run, before it was gone through: null in the API, a mark in the list, and no other number instead."""
    monkeypatch.setattr(Overview, "extend", lambda self, store, info: iter(()))
    client = client_of(counts_twice(1_000))
    answer = client.get("/api/v1/runs/run1/steps?start=7&limit=1").get_json()
    assert [step["changes"] for step in answer["steps"]] == [None]
    text = client.get("/runs/run1/rows?start=7&stop=8", headers={"X-Part": "1"}).get_data(True)
    assert 'aria-label="step 7, –, changes not counted yet, 0 calls"' in text
    assert '<span class="quiet" title="changes not counted yet">…</span>' in text
