"""A run that was interrupted or cut off goes on in place: what was done is not done again, and it ends as it would have."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import agentreplay as ar
import pytest
import replay_agents
import world
from agentreplay.recorder.errors import Divergence, LiveCallRefused, UsageError
from agentreplay.recorder.loop import Agent
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay.reducer import fold
from agentreplay.replay.replayer import replay
from agentreplay.replay.rerunning import NOT_DONE, aresume, resume
from journal import Journal
from recorded import log_of

# -- cut off anywhere ------------------------------------------------------------------------------------

AGENTS: dict[str, Callable[[], Any]] = {
    "a step function": lambda: replay_agents.desk,
    "tools and models within each other": lambda: replay_agents.nested,
    "a sub-agent": lambda: replay_agents.chief,
    "state in a closure": replay_agents.counting,
    "state in an object": lambda: replay_agents.Clerk().step,
    "an error that ends it": lambda: replay_agents.falls,
    "a loop of its own": lambda: replay_agents.triage,
    "a loop that is not touched": lambda: replay_agents.plain_loop,
}


def executed(agent: Any, store: EventStore) -> None:
    with contextlib.suppress(ValueError):
        agent.run({"left": 0}, store=store) if isinstance(agent, Agent) else agent(store)


def resumed(agent: Any, store: EventStore, **options: Any) -> Any:
    with contextlib.suppress(ValueError):
        return resume("run1", agent, store=store, take_over=True, **options)


def outcome(store: EventStore, run: str = "run1") -> Any:
    """How a run ended, but for times and for what chance gave."""
    state = ar.state_at(run, store=store)
    payload = {key: value for key, value in state.payload.items() if key not in ("at", "key", "draw")}
    data = log_of(store, run)[-1].data
    tools = {name: {**counts, "totalTime": 0} for name, counts in data.metrics.get("toolMetrics", {}).items()}
    error = data.error and (data.error.type, data.error.message)
    messages = list(state.messages)
    return data.status, data.stop_reason, data.value, error, payload, messages, {**data.metrics, "toolMetrics": tools}


def ended_calls(store: EventStore) -> list[str]:
    """The names of the calls of all runs that have returned or failed."""
    names = []
    for info in store.runs():
        called = {}
        for event in store.events(info):
            if event.kind.endswith(".called"):
                called[event.data.call] = event.data.name
            elif event.kind in ("tool.returned", "tool.failed", "model.returned", "model.failed"):
                names.append(called[event.data.call])
            elif event.kind == "value.read" and event.data.source == "limit":
                names.append("read_limit")
    return names


EFFECT_OF = {"small-model": "call_model"}


@pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS)
def test_a_run_that_is_cut_off_anywhere_ends_as_it_would_have(make: Callable[[], Any]) -> None:
    """After each write of the log: no effect that has ended is made again, each other one is, and the end is the same."""
    journal = Journal()
    world.made.clear()
    executed(make(), journal)
    whole = list(world.made)
    expected = outcome(journal)
    for count in range(2, len(journal.entries)):
        store = journal.until(count)
        done = [EFFECT_OF.get(name, name) for name in ended_calls(store)]
        world.made.clear()
        resumed(make(), store)
        assert sorted(world.made) == sorted(remaining(whole, done)), count
        assert outcome(store) == expected
        assert store.verify() == []
        assert fold(store.events("run1")).ended
        assert [event.kind for event in log_of(store)].count("run.resumed") == 1
        with world.closed() as made:
            result = replay("run1", make(), store=store)
        assert (made, result.verdict, result.complete) == ([], "identical", True)


def remaining(whole: list[str], done: list[str]) -> list[str]:
    left = list(whole)
    for name in done:
        for effect in [name] * (3 if name == "pages" else 1):
            left.remove(effect)
    return left
