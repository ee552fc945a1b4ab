"""Snapshots save work and change nothing: every state is the same with them as without."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore, RunInfo, Snapshot
from agentreplay.replay.reading import changes_at, state_at
from agentreplay.replay.snapshots import LIGHTEST, dump_state, from_nearest, load_state, nearest, take_due
from agentreplay.replay.state import RunState
from agentreplay.replay.timeline import states

ROUNDS = 120


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    store = MemoryStore() if request.param == "memory" else SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
    yield store
    store.close()


@pytest.fixture
def _no_taker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take no snapshots while recording: the test takes them."""
    from agentreplay.recorder import run_log

    assert ar.record  # loading the name starts the taker, so that it must come first
    monkeypatch.setattr(run_log, "when_appended", None)


def record(store: EventStore, rounds: int = ROUNDS, size: int = 40) -> RunInfo:
    """A run with everything that a state holds, of about a kilobyte of events a round."""
    rng = random.Random(5)
    payload = {"rows": [{"id": n, "text": "x" * 200} for n in range(size)], "n": 0, "when": None}
    with ar.record("clerk", payload=payload, store=store, input={"q": 1}, params={"p": (1, 2)}) as run:
        for number in range(rounds):
            with run.round() as r:
                r.messages.append({"role": "user", "content": f"message {number} " + "y" * 100})
                r.tool("look", {"n": number}, lambda n: {"found": "z" * 500, "n": n})
                r.change(update={"n": number, "rows": [{}] * (number % size) + [{"text": f"t{rng.random()}"}]})
                r.model("m", {"messages": list(r.messages)[-3:]}, lambda messages: {"usage": {"input_tokens": 3}})
                scratchpad: dict[str, Any] = {"notes": f"note {number}"}
                r.decide(step="Actions", scratchpad=scratchpad, memory_writes=[{"note": number}])
    return store.run(run.uid)


def plain(state: RunState) -> Any:
    return state.to_json()


@pytest.mark.usefixtures("_no_taker")
def test_states_are_the_same_with_snapshots_as_without(store: EventStore) -> None:
    """Going to any step from the nearest snapshot gives the state that a fold from the start gives."""
    run = record(store)
    folded = dict(states(store.events(run, conversations=False), run=run.id))
    assert take_due(store, run) >= 2
    for step, expected in folded.items():
        assert plain(state_at(run, step, store)) == plain(expected)
        assert state_at(run, step, store).payload_hash == expected.payload_hash
    assert plain(state_at(run, -1, store)) == plain(folded[ROUNDS])


@pytest.mark.usefixtures("_no_taker")
def test_what_a_step_did_is_the_same_from_a_snapshot(store: EventStore) -> None:
    """The changes, calls and decision of a step do not depend on where the fold began."""
    run = record(store)
    without = {step: changes_at(run, step, store) for step in (1, 60, 61, ROUNDS)}
    take_due(store, run)
    for step, expected in without.items():
        found = changes_at(run, step, store)
        assert [change.event for change in found.payload_changes] == [
            change.event for change in expected.payload_changes
        ]
        assert [call.call for call in found.calls] == [call.call for call in expected.calls]
        assert plain(found.before) == plain(expected.before)


def test_a_state_comes_back_from_its_snapshot_whole(store: EventStore) -> None:
    """Every field of a state is in its snapshot."""
    run = record(store, rounds=3)
    for _, state in states(store.events(run, conversations=False), run=run.id):
        assert load_state(dump_state(state), run.id) == state


@pytest.mark.usefixtures("_no_taker")
def test_snapshots_go_by_weight(store: EventStore) -> None:
    """All snapshots together weigh no more than the events, and a small run has none."""
    assert take_due(store, record(store, rounds=1, size=1)) == 0
    run = record(store)
    events = sum(len(row.body or b"") for row in store.rows(run))
    taken = take_due(store, run)
    weights = []
    last: Snapshot | None = store.snapshot(run)
    while last is not None:
        weights.append(len(last.state))
        last = store.snapshot(run, last.step - 1)
    assert len(weights) == taken
    assert sum(weights) <= events
    assert take_due(store, run) == 0


@pytest.mark.usefixtures("_no_taker")
def test_a_seek_reads_about_one_snapshot_of_events(store: EventStore) -> None:
    """From the nearest snapshot, the events that are left weigh no more than a snapshot and a round."""
    run = record(store)
    take_due(store, run)
    for step in range(ROUNDS):
        state, _ = from_nearest(store, run, step)
        after = -1 if state is None else state.last_seq
        left = [row for row in store.rows(run, after=after) if row.round <= step]
        heaviest = max(LIGHTEST, 0 if state is None else len(dump_state(state)))
        assert sum(len(row.body or b"") for row in left) <= heaviest + 8_000


@pytest.mark.usefixtures("_no_taker")
def test_a_damaged_snapshot_is_ignored(store: EventStore) -> None:
    """What cannot be read, or does not say what its row says, is as good as none."""
    run = record(store, rounds=5)
    expected = plain(state_at(run, 5, store))
    for seq, bad in enumerate((b"", b"{}", b"\xff", b"[1]", b'{"version":99}', b'{"version":1,"run":3}'), start=10):
        store.keep_snapshot(run, Snapshot(seq, seq - 8, bad))
        assert nearest(store, run) is None
        assert plain(state_at(run, 5, store)) == expected


def test_a_recorded_run_has_its_snapshots_when_it_ends(tmp_path: Path) -> None:
    """They are taken while the run goes on; nobody has to look at it first."""
    from agentreplay.snapshotting import taker

    store = SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
    run = record(store)
    taker.wait()
    assert store.snapshot(run) is not None
    assert store.verify() == []
    store.close()
