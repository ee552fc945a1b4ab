"""A run is re-run from one of its steps: what came before is shared, what is edited takes effect there and is told."""

from __future__ import annotations

import contextlib
import importlib
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import agentreplay as ar
import pytest
import replay_agents
import world
from agentreplay.recorder.errors import ChangeRefused, Divergence, LiveCallRefused, RedactedValue, UsageError
from agentreplay.recorder.loop import Agent
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay.replayer import replay
from agentreplay.replay.rerunning import rerun
from changed_code import changed
from journal import Journal
from recorded import log_of

EXAMPLES = Path(__file__).parent.parent / "examples"

START: dict[str, Any] = {"desk": {"left": 0}}

AGENTS: dict[str, Callable[[], Any]] = {
    "a step function": lambda: replay_agents.desk,
    "tools and models within each other": lambda: replay_agents.nested,
    "a sub-agent": lambda: replay_agents.chief,
    "state in a closure": replay_agents.counting,
    "state in an object": lambda: replay_agents.Clerk().step,
    "state in the cache of the run": replay_agents.caching,
    "a loop of its own": lambda: replay_agents.triage,
    "a loop that is not touched": lambda: replay_agents.plain_loop,
}


def recorded(agent: Any, payload: Any = None, store: EventStore | None = None) -> EventStore:
    store = MemoryStore() if store is None else store
    agent.run(payload, store=store) if isinstance(agent, Agent) else agent(store)
    return store


def head(store: EventStore, run: str = "run1") -> tuple[int, str]:
    info = store.run(run)
    return info.head_seq, info.head_hash


def ending(store: EventStore, run: str) -> Any:
    """How a run ended, but for what a clock says."""
    data = log_of(store, run)[-1].data
    tools = {name: {**counts, "totalTime": 0} for name, counts in data.metrics.get("toolMetrics", {}).items()}
    metrics = {**data.metrics, "toolMetrics": tools}
    result = {**data.result, "metrics": metrics}
    return data.status, data.stop_reason, data.value, data.payload_hash, metrics, result


def forked(store: EventStore, run: str) -> Any:
    """The data of the event with which a re-run begins."""
    (event,) = [event for event in store.events(run) if event.kind == "run.forked"]
    return event.data


def without_chance(payload: Any) -> Any:
    return {key: value for key, value in payload.items() if key not in ("at", "key", "draw")}


# -- without edits ---------------------------------------------------------------------------------------


def state(store: EventStore, run: str, step: int) -> Any:
    """A state, but for what says in whose log it is, and where."""
    return replace(ar.state_at(run, step, store=store), run="", last_seq=0, forked_from=None)


def calls_from(store: EventStore, run: str, step: int) -> list[str]:
    return [e.data.name for e in log_of(store, run) if e.kind.endswith(".called") and e.round >= step]


@pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS)
def test_a_rerun_without_edits_ends_the_same_from_every_step(make: Callable[[], Any]) -> None:
    """The rounds before are executed against the log, so what the step keeps to itself is there; the rest is live."""
    store = recorded(make(), {"left": 0})
    before, last = head(store), store.run("run1").steps
    assert last >= 2
    for step in range(1, last + 1):
        world.made.clear()
        result = rerun("run1", make(), step, store=store)
        child = result.run.id
        assert head(store) == before
        assert world.made != []
        assert calls_from(store, child, step) == calls_from(store, "run1", step)
        assert result.stop_reason == "endTurn"
        if make is AGENTS["a step function"]:  # which draws numbers and looks at clocks
            assert without_chance(result.payload) == without_chance(ar.state_at("run1", store=store).payload)
        else:
            assert ending(store, child) == ending(store, "run1")
        assert [state(store, child, at) for at in range(step)] == [state(store, "run1", at) for at in range(step)]
        assert replay(child, make(), store=store).verdict == "identical"


@pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS)
def test_a_fork_shares_what_came_before_its_step(make: Callable[[], Any]) -> None:
    """Its log is its parent's up to the step, event by event, and then its own, which begins by naming the parent."""
    journal = Journal()
    recorded(make(), {"left": 0}, journal)
    parent = journal.run("run1")
    started = {event.round: event.seq for event in journal.events("run1") if event.kind == "round.started"}
    for step, seq in started.items():
        written = len(journal.entries)
        child = journal.run(rerun("run1", make(), step, store=journal).run.id)
        assert (child.fork_of, child.fork_seq) == (parent.uid, seq - 1)
        assert [row.hash for row in journal.rows(child, until=seq - 1)] == [
            row.hash for row in journal.rows(parent, until=seq - 1)
        ]
        own = [row.seq for entry in journal.entries[written:] if entry.number == child.number for row in entry.rows]
        assert own == list(range(seq, child.head_seq + 1))
        first = next(journal.events(child, after=seq - 1))
        assert (first.kind, first.round) == ("run.forked", step - 1)
        assert (first.data.parent, first.data.seq, first.data.edits) == (parent.uid, seq - 1, [])
        assert journal.verify() == []


def test_a_fork_of_a_long_run_costs_its_own_events(tmp_path: Path) -> None:
    """The last round of many is re-run: the store has the rows of that round more, and every other row as it was."""

    @ar.agent("long", max_rounds=500)
    def step(round_index: int, context: ar.Context) -> Any:
        context.change(update={"left": replay_agents.stock("lamp"), "round": round_index})
        return ar.Complete(1) if round_index == 300 else ar.Continue()

    def rows() -> dict[int, bytes]:
        with contextlib.closing(sqlite3.connect(file)) as database:
            return {row[0]: repr(row).encode() for row in database.execute("SELECT * FROM event")}

    file = tmp_path / "store.db"
    store = SqlStore(f"sqlite:///{file}")
    step.run({}, store=store)
    before = rows()
    child = rerun("run1", step, 300, store=store).run
    after = rows()
    own = ["run.forked", "round.started", "tool.called", "tool.returned", "payload.changed"]
    own += ["step.decided", "round.finished", "run.finished"]
    assert [event.kind for event in log_of(store, child.uid)][-8:] == own
    assert len(after) - len(before) == len(own) + 1  # and the end mark, which each run has
    assert {key: after[key] for key in before} == before
    store.close()
