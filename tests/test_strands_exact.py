"""`1`, `1.0` and `True` are three values, in the conversation of a Strands agent as in its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.store import EventStore
from strands import Agent, tool
from strands.hooks import AfterInvocationEvent
from strands_scripted import Use, World

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def store() -> Iterator[EventStore]:
    store = ar.open_store("memory:")
    yield store
    store.close()


@tool
def number() -> dict[str, Any]:
    """Give a number."""
    return {"status": "success", "content": [{"json": {"n": 1}}]}


def making(store: EventStore, to: Any = 1, state: Any = None) -> Any:
    def make() -> Agent:
        world = World(lambda: [ar.strands.Recorder(store=store)])
        agent = world.agent([Use("number")], ["done"], tools=[number], state=state or {})

        def rewrite(event: AfterInvocationEvent) -> None:
            agent.messages[2]["content"][0]["toolResult"]["content"][0]["json"]["n"] = to

        agent.hooks.add_callback(AfterInvocationEvent, rewrite)
        return agent

    return make


@pytest.mark.parametrize("to", [True, 1.0])
def test_a_message_that_is_rewritten_with_an_equal_value_of_another_type_is_recorded(
    to: Any, store: EventStore
) -> None:
    """The record has what the agent has, and code that writes another type parts from it."""
    making(store, to)()("go")
    message: Any = ar.state_at("run1", 2, store=store).messages[2]
    found = message["content"][0]["toolResult"]["content"][0]["json"]["n"]
    assert (type(found), found) == (type(to), 1)
    with pytest.raises(ar.Divergence):
        ar.replay("run1", making(store), store=store)
    assert ar.replay("run1", making(store, to), store=store).verdict == "identical"


@pytest.mark.parametrize("value", [True, 1.0])
def test_an_agent_begins_again_with_the_type_that_was_recorded(value: Any, store: EventStore) -> None:
    """Whatever the agent that is made now has."""
    making(store, state={"n": 1})()("go")
    made: list[Agent] = []

    def make() -> Agent:
        made.append(making(store, state={"n": value})())
        return made[-1]

    assert ar.replay("run1", make, store=store).verdict == "identical"
    assert type(made[0].state.get("n")) is int
