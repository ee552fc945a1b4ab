"""The parameters and the input in the states of re-runs are those that the code got, round by round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.locate import open_store
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.packing import pack, unpack
from agentreplay.recorder.store import EventStore, Snapshot
from agentreplay.recorder.values import dumps, loads
from agentreplay.replay.reading import state_at
from agentreplay.replay.reducer import fold
from agentreplay.replay.snapshots import dump_state, load_state, nearest
from cli_runs import json_of
from event_builder import EventBuilder
from web import client_of

Seen = dict[int, tuple[Any, Any]]


def agent(seen: Seen, rounds: int = 4) -> Any:
    """An agent that notes the parameters and the input that it gets in each round."""

    @ar.agent("settings", max_rounds=9)
    def step(number: int, context: ar.Context) -> ar.Continue | ar.Complete:
        seen[number] = (dict(context.params), context.input)
        context.change(new={f"round{number}": number}, reason="counted")
        return ar.Complete("done") if number == rounds else ar.Continue()

    return step


def states_of(store: EventStore, run: str) -> Seen:
    return {step: (state_at(run, step, store).params, state_at(run, step, store).input) for step in range(1, 5)}


@pytest.mark.parametrize("prefix", ["execute", "fold"])
def test_the_state_of_a_re_run_has_what_it_was_given(prefix: Any) -> None:
    """From its first live round on; before that, what the recorded run had. The parent stays as it is."""
    store, seen = MemoryStore(), Seen()
    agent(seen).run({}, "IN", {"tone": "kind", "t": 1}, store=store)
    assert states_of(store, "run1") == seen
    again = Seen()
    ar.rerun("run1", agent(again), 3, params={"t": 0.5, "more": (1,)}, input="INP", prefix=prefix, store=store)
    before, after = ({"tone": "kind", "t": 1}, "IN"), ({"tone": "kind", "t": 0.5, "more": (1,)}, "INP")
    assert again | {1: before, 2: before} == {1: before, 2: before, 3: after, 4: after}
    assert states_of(store, "run2") == {1: before, 2: before, 3: after, 4: after}
    assert states_of(store, "run1") == seen
    answer = client_of(store).get("/api/v1/runs/run2/steps/4/state?part=params").get_json()
    assert answer["t"] == 0.5


def test_re_runs_of_re_runs_add_up() -> None:
    """From a later round, and from the same one, where both take effect at once."""
    store = MemoryStore()
    agent({}).run({}, None, {"a": 1}, store=store)
    ar.rerun("run1", agent({}), 2, params={"a": 2, "b": 2}, store=store)
    later, same = Seen(), Seen()
    ar.rerun("run2", agent(later), 4, params={"b": 4}, input=4, store=store)
    ar.rerun("run2", agent(same), 2, params={"c": 3}, store=store)
    assert states_of(store, "run3") == later
    assert later[4] == ({"a": 2, "b": 4}, 4)
    assert states_of(store, "run4") == same
    assert same[2] == ({"a": 2, "b": 2, "c": 3}, None)


def test_a_resumed_re_run_keeps_what_it_was_given() -> None:
    """Also where it stopped in the round in which the edits took effect."""
    store, seen = MemoryStore(), Seen()

    def asking(rounds: int) -> Any:
        @ar.agent("asking", max_rounds=9)
        def step(number: int, context: ar.Context) -> ar.Continue | ar.Complete:
            if number == 2:
                context.interrupt("sure")
            seen[number] = (dict(context.params), context.input)
            return ar.Complete("done") if number == rounds else ar.Continue()

        return step

    asking(4).run({}, "IN", {"t": 1}, store=store)
    ar.rerun("run1", asking(4), 2, params={"t": 2}, store=store)
    ar.resume("run2", asking(4), answers={"sure": "yes"}, store=store)
    assert {step: states_of(store, "run2")[step] for step in (2, 3, 4)} == {
        step: ({"t": 2}, "IN") for step in (2, 3, 4)
    }
    assert {step: seen[step] for step in (2, 3, 4)} == {step: ({"t": 2}, "IN") for step in (2, 3, 4)}


def test_a_parameter_may_be_called_like_a_tag() -> None:
    """And a secret one is in the state as its token."""
    store, seen = MemoryStore(), Seen()
    agent(seen).run({}, None, {"t": 1}, store=store)
    ar.rerun("run1", agent(seen), 4, params={"$type": "tuple", "password": "correct-horse-9"}, store=store)
    found = state_at("run2", 4, store).params
    assert found | {"password": ""} == {"t": 1, "$type": "tuple", "password": ""}
    assert found["password"].startswith("[redacted:password:")
    ar.rerun("run2", agent(seen), 4, params={"t": 2}, store=store)
    assert state_at("run3", 4, store).params == found | {"t": 2}


def forked_log() -> EventBuilder:
    """Between `run.forked` and the round in which its edits take effect a snapshot may be taken."""
    log = EventBuilder({}, params={"t": 1})
    log.begin()
    log.end()
    edits = [
        {"edit": "param", "name": "t", "value": 2},
        {"edit": "input", "value": "IN"},
        {"edit": "skip", "call": "2.1"},
    ]
    log.add("run.forked", parent="u", seq=2, hash="h", edits=edits)
    log.begin()
    log.end()
    return log


def test_a_snapshot_keeps_edits_that_are_due() -> None:
    """A state that is read back is the one that was kept, and goes on as it would have."""
    events = forked_log().events
    before = fold(events[:4])
    assert (before.params, before.input) == ({"t": 1}, None)
    read = load_state(dump_state(before), before.run)
    assert read == before
    assert read is not None
    whole = fold(events[4:], read)
    assert (whole.params, whole.input, whole.edits_due) == ({"t": 2}, "IN", ())


def test_a_snapshot_from_before_is_used_unless_edits_may_be_missing_in_it() -> None:
    """Stores that are there already keep theirs; those of re-runs are folded anew."""
    store = MemoryStore()
    events = forked_log().events
    info = store.create_run("settings")
    store.append(info, -1, events)
    info = store.run(info.uid)

    def keep(step: int, until: int) -> None:
        document = loads(unpack(dump_state(fold(events[:until], run=info.id)))) | {
            "version": 1,
            "stored_params": {"old": 1},
        }
        del document["edits_due"]
        store.keep_snapshot(info, Snapshot(until - 1, step, pack(dumps(document))))

    keep(1, 3)
    found = nearest(store, info, 1)
    assert found is not None
    assert found.params == {"old": 1}
    keep(2, 6)
    assert nearest(store, info, 2) is None
    assert state_at(info, 2, store).params == {"t": 2}


def test_the_terminal_shows_the_parameters_of_a_re_run(tmp_path: Path) -> None:
    """With the whole state of a step."""
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    agent({}).run({}, None, {"t": 1}, store=store)
    ar.rerun("run1", agent({}), 3, params={"t": 0.5}, input="INP", store=store)
    shown = json_of("state", "run2", "--all", "--store", store.url)
    assert (shown["params"], shown["input"]) == ({"t": 0.5}, "INP")
    shown = json_of("state", "run2", "--step", 2, "--all", "--store", store.url)
    assert (shown["params"], shown["input"]) == ({"t": 1}, None)
