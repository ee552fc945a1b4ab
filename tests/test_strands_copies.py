"""A recorded agent of Strands stays what it is: of its class, with its method, and copied as without the recorder."""

from __future__ import annotations

import asyncio
import copy
import inspect
from typing import Any

import agentreplay as ar
import pytest
from strands import Agent
from strands_scripted import World

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Loud(Agent):
    """An agent that shouts."""

    async def stream_async(self, prompt: Any = None, **options: Any) -> Any:
        """Give every text in capitals."""
        async for event in super().stream_async(prompt, **options):
            yield {**event, "data": event["data"].upper()} if "data" in event else event


def test_a_copy_of_a_recorded_agent_runs_itself() -> None:
    """What the copy is asked goes to the copy, and its run is none of the original's."""
    store = ar.open_store("memory:")
    original = World(lambda: [ar.strands.Recorder(store=store)]).agent(["hello"])
    other = copy.copy(original)
    other.messages = []
    other("to the copy")
    assert [message["role"] for message in other.messages] == ["user", "assistant"]
    assert original.messages == []
    assert store.runs() == []
    assert type(other) is Agent
    assert not hasattr(other, "__agentreplay_begin__")
    original("to the original")
    assert [run.agent for run in store.runs()] == ["scripted"]
    store.close()


def test_the_method_of_a_recorded_agent_is_an_asynchronous_generator() -> None:
    """Whoever asks what it is hears what the class says."""
    store = ar.open_store("memory:")
    agent = World(lambda: [ar.strands.Recorder(store=store)]).agent(["hello"])
    assert inspect.isasyncgenfunction(agent.stream_async)
    assert inspect.signature(agent.stream_async) == inspect.signature(World().agent(["hello"]).stream_async)
    assert isinstance(agent, Agent)
    store.close()


def test_a_subclass_that_changes_the_events_is_recorded_once() -> None:
    """Its events come to the caller as it makes them."""
    store = ar.open_store("memory:")
    world = World()
    agent = Loud(
        model=world.model(["hello"]), callback_handler=None, name="loud", plugins=[ar.strands.Recorder(store=store)]
    )

    async def heard() -> list[str]:
        return [event["data"] async for event in agent.stream_async("go") if "data" in event]

    assert asyncio.run(heard()) == ["HELLO "]
    assert [run.agent for run in store.runs()] == ["loud"]
    store.close()


def test_deep_copies_and_pickles_fail_or_work_as_without() -> None:
    """The recorder is in the way of neither."""
    store = ar.open_store("memory:")
    plain, recorded = World().agent(["hello"]), World(lambda: [ar.strands.Recorder(store=store)]).agent(["hello"])
    ended = []
    for agent in (plain, recorded):
        try:
            ended.append(type(copy.deepcopy(agent)).__name__)
        except TypeError as error:
            ended.append(str(error))
    assert ended[0] == ended[1]
    store.close()
