"""`1`, `1.0` and `True` are three values, in the conversation of a Strands agent as in its state."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.store import EventStore
from strands import Agent, tool
from strands.hooks import AfterInvocationEvent, BeforeModelCallEvent
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


def rewriting(store: EventStore, place: str, value: Any) -> Any:
    """Makes an agent that has an image in its first message, of which a hook rewrites something before call 2."""

    def make() -> Agent:
        agent = World(lambda: [ar.strands.Recorder(store=store)]).agent([Use("number")], ["done"], tools=[number])

        def rewrite(event: BeforeModelCallEvent) -> None:
            message: Any = agent.messages[0]
            if len(agent.messages) > 1 and value is not None:
                target = message["content"][1]["image"]["source"] if place == "bytes" else message
                target[place] = value

        agent.hooks.add_callback(BeforeModelCallEvent, rewrite)
        return agent

    return make


@pytest.mark.parametrize(
    ("place", "value"),
    [("bytes", bytearray(b"PNG")), ("bytes", b"JPG"), ("own", 1), ("metadata", {"custom": {"a": 1}}), ("role", "odd")],
)
def test_whatever_is_rewritten_of_a_message_is_recorded(place: str, value: Any, store: EventStore) -> None:
    """Its image, its metadata, a key that no provider is sent; code that leaves it as it is parts from the record."""
    prompt: Any = [{"text": "go"}, {"image": {"format": "png", "source": {"bytes": b"PNG"}}}]
    rewriting(store, place, value)()(copy.deepcopy(prompt))
    before: Any = ar.state_at("run1", 1, store=store).messages[0]
    after: Any = ar.state_at("run1", 2, store=store).messages[0]
    found = after["content"][1]["image"]["source"]["bytes"] if place == "bytes" else after[place]
    assert (type(found), found) == (type(value), value)
    assert before["content"] == prompt
    assert ar.replay("run1", rewriting(store, place, value), store=store).verdict == "identical"
    with pytest.raises(ar.Divergence):
        ar.replay("run1", rewriting(store, place, None), store=store)
