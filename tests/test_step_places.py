"""Where steps begin: the same as reading the whole log says, whatever the log looks like."""

from __future__ import annotations

from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import RunInfo
from agentreplay.replay.step_places import Places, places_of, start_of
from event_builder import EventBuilder
from hypothesis import given
from hypothesis import strategies as st


def stored(log: EventBuilder) -> tuple[MemoryStore, RunInfo]:
    store = MemoryStore()
    info = store.create_run("refunds")
    store.append(info, -1, log.events)
    return store, store.run(info.uid)


def log_of(sizes: list[int], late: list[int]) -> EventBuilder:
    """Rounds with so many events each, and after them so many that belong to the first round."""
    log = EventBuilder({})
    for size, ends in zip(sizes, late, strict=True):
        log.begin()
        for _ in range(size):
            log.add("x.note", anything=1)
        for _ in range(ends):
            log.add("x.note", in_round=1, anything=2)
        log.end()
    return log


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 40)), min_size=0, max_size=12))
def test_a_step_begins_where_its_round_starts(rounds: list[tuple[int, int]]) -> None:
    """For rounds of any length, with any number of events of earlier rounds among theirs."""
    log = log_of([size for size, _ in rounds], [late for _, late in rounds])
    store, info = stored(log)
    starts = {event.round: event.seq for event in log.events if event.kind == "round.started"}
    for step in range(1, len(rounds) + 1):
        assert start_of(store, info, step) == starts[step]
    assert start_of(store, info, len(rounds) + 1) == len(log.events)


def test_the_events_of_steps_are_a_stretch_of_the_log() -> None:
    """Step 0 is what comes before the first round; behind the last step there is nothing."""
    store, info = stored(log_of([2, 0, 3], [0, 0, 0]))
    assert places_of(store, info, 0, 1) == Places(0, 1)
    assert places_of(store, info, 1, 3) == Places(1, 7)
    assert places_of(store, info, 3, 4) == Places(7, 12)
    assert places_of(store, info, 4, 9) == Places(12, 12)


def test_a_step_of_a_long_run_is_found_in_few_looks() -> None:
    """Finding one reads a small part of the log: of 20,000 events not 400."""
    store, info = stored(log_of([8] * 2_000, [0] * 2_000))
    read: list[int] = []
    rows = store.rows

    def counting(*args: object) -> object:
        for row in rows(*args):  # type: ignore[arg-type]  # handed through
            read.append(row.seq)
            yield row

    store.rows = counting  # type: ignore[method-assign,assignment]  # watched
    assert start_of(store, info, 1_500) == 1 + 10 * 1_499
    assert len(read) < 400
