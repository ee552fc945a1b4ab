"""The laws of the adapter for Strands, on the real SDK: whatever a scenario does, it is recorded, and replays."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.store import EventStore
from strands_scripted import SCENARIOS, Scenario, World, come_to

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

EVERY = pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
AGENTS = pytest.mark.parametrize("scenario", [one for one in SCENARIOS if one.stop != "completed"], ids=str)


@pytest.fixture
def store() -> Iterator[EventStore]:
    store = ar.open_store("memory:")
    yield store
    store.close()


def plugged(store: EventStore) -> Any:
    return lambda: [ar.strands.Recorder(store=store)]


def recorded(scenario: Scenario, store: EventStore) -> tuple[Any, World, tuple[str, Any]]:
    world = World(plugged(store))
    subject = scenario.make(world)
    came_to = come_to(scenario, subject)
    assert store.runs(), came_to
    (info,) = [one for one in store.runs() if one.parent is None]
    return info, world, came_to


def conversations(world: World) -> list[Any]:
    return [copy.deepcopy(agent.messages) for agent in world.agents]


def states(world: World) -> list[Any]:
    return [agent.state.get() for agent in world.agents]


@EVERY
def test_a_scenario_is_recorded_to_its_end(scenario: Scenario, store: EventStore) -> None:
    """One run, with a round for each model call, ends as the invocation did."""
    info, world, (stop, result) = recorded(scenario, store)
    assert stop == scenario.stop
    assert len(world.calls) == scenario.real
    state = ar.state_at(info, store=store)
    assert state.round == scenario.rounds
    failed = isinstance(result, Exception)
    assert store.run(info.id).status == ("failed" if failed else "cancelled" if stop == "cancelled" else "completed")
    if not failed:
        assert state.stop_reason == stop


@AGENTS
def test_the_log_rebuilds_state_and_conversation(scenario: Scenario, store: EventStore) -> None:
    """What is folded is what the agent had, when each model call began, and at the end."""
    info, world, _ = recorded(scenario, store)
    agent = world.agents[-1]
    if len(world.agents) == 1:
        before = [ar.state_at(info, step, store=store).payload for step in range(scenario.rounds)]
        assert before == world.states
    end = ar.state_at(info, store=store)
    assert end.payload == agent.state.get()
    assert [dict(message) for message in end.messages] == agent.messages


@EVERY
def test_a_scenario_replays_without_a_real_call(scenario: Scenario, store: EventStore) -> None:
    """The code, executed against the record, has the same conversation to the last byte, the same state and end."""
    info, world, (stop, _) = recorded(scenario, store)
    dead = World(plugged(store), live=False)
    ended = []

    def app() -> None:
        ended.append(come_to(scenario, scenario.make(dead)))
        if isinstance(ended[0][1], Exception):
            raise ended[0][1]

    replayed = ar.replay(info, app, store=store)
    assert replayed.verdict == "identical"
    assert replayed.coverage.live == 0
    assert replayed.coverage.unused == 0
    assert dead.calls == []
    assert conversations(dead) == conversations(world)
    assert states(dead) == states(world)
    assert ended[0][0] == stop
    assert dead.hooked == world.hooked


@EVERY
def test_code_that_only_makes_the_agent_is_invoked_as_it_was(scenario: Scenario, store: EventStore) -> None:
    """An app may give an agent, a graph or a swarm; what it was asked, and what a person answered, is in the record."""
    info, world, _ = recorded(scenario, store)
    dead = World(plugged(store), live=False)
    replayed = ar.replay(info, lambda: scenario.make(dead), store=store)
    assert replayed.verdict == "identical"
    assert dead.calls == []
    assert conversations(dead) == conversations(world)
    assert states(dead) == states(world)


@EVERY
def test_a_scenario_forks_at_every_round(scenario: Scenario, store: EventStore) -> None:
    """A re-run answers the rounds before from the record, and goes its own way from the step on."""
    info, _, _ = recorded(scenario, store)
    for step in range(1, scenario.rounds + 1):
        other = World(plugged(store), script=scenario.another)
        result = ar.rerun(info, lambda other=other: scenario.make(other), step, store=store)
        fork = store.run(result.run.id)
        assert fork.fork_of == info.uid
        shared = ar.state_at(info, step - 1, store=store)
        assert ar.state_at(fork, step - 1, store=store).payload == shared.payload
        assert ar.state_at(fork, step - 1, store=store).messages == shared.messages
        assert set(other.calls) == {"model"}


@EVERY
def test_the_recorder_changes_nothing(scenario: Scenario, store: EventStore) -> None:
    """With it and without, the agent says the same, in the same order, with the same hooks and the same end."""
    _, world, (stop, result) = recorded(scenario, store)
    plain = World()
    ended, other = come_to(scenario, scenario.make(plain))
    assert (ended, type(other)) == (stop, type(result))
    assert str(other) == str(result) or hasattr(result, "status")
    assert [list(map(shown, one)) for one in conversations(plain)] == [
        list(map(shown, one)) for one in conversations(world)
    ]
    assert states(plain) == states(world)
    if scenario.name not in ("graph", "reverse"):  # what runs beside each other is in any order there
        assert plain.hooked == world.hooked
    assert plain.calls == world.calls


def shown(message: Any) -> Any:
    """A message without what is different each time."""
    metadata = {key: value for key, value in message.get("metadata", {}).items() if key != "metrics"}
    return {"role": message["role"], "content": message["content"], "metadata": metadata}
