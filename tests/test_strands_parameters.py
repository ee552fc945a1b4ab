"""What a model is configured with is part of what is asked: it is recorded, and another one is a difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.store import EventStore
from strands import Agent
from strands_scripted import World

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def store() -> Iterator[EventStore]:
    store = ar.open_store("memory:")
    yield store
    store.close()


def making(store: EventStore, **config: Any) -> Any:
    def make() -> Agent:
        agent = World(lambda: [ar.strands.Recorder(store=store)]).agent(["hello"])
        agent.model.update_config(**config)
        return agent

    return make


def parameters(store: EventStore) -> Any:
    (called,) = [event for event in store.events("run1") if event.kind == "model.called"]
    return called.data.parameters


def test_what_a_model_is_configured_with_is_recorded(store: EventStore) -> None:
    """Plain data as it is, live objects by their class, secrets not at all."""
    client = object()
    making(store, temperature=0.0, guardrail={"id": "g"}, client=client, api_key="sk-1234567890abcdef")()("go")
    found = parameters(store)
    assert "sk-1234567890abcdef" not in str(found)
    assert {name: found[name] for name in ("temperature", "guardrail", "client")} == {
        "temperature": 0.0,
        "guardrail": {"id": "g"},
        "client": "<builtins.object>",
    }
    assert (
        ar.replay(
            "run1",
            making(store, temperature=0.0, guardrail={"id": "g"}, client=object(), api_key="sk-1234567890abcdef"),
            store=store,
        ).verdict
        == "identical"
    )


@pytest.mark.parametrize(
    "config", [{"temperature": 1.0}, {"temperature": 0}, {}, {"temperature": 0.0, "top_p": 1.0}], ids=str
)
def test_another_configuration_is_a_difference(config: Any, store: EventStore) -> None:
    """The temperature, its type, and what is there or not."""
    making(store, temperature=0.0)()("go")
    with pytest.raises(ar.Divergence) as parted:
        ar.replay("run1", making(store, **config), store=store)
    assert str(parted.value).startswith("step 1, call 1.1: other arguments")
    assert "/parameters/" in str(parted.value)
