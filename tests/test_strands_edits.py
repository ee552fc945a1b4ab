"""What a person gives a Strands agent in a re-run: every block of a model's message survives, or is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.store import EventStore
from strands import Agent
from strands_scripted import Use, World

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

CITATION = {"title": "A book", "location": {"documentPage": {"documentIndex": 0, "start": 1, "end": 2}}}


@pytest.fixture
def store() -> Iterator[EventStore]:
    store = ar.open_store("memory:")
    yield store
    store.close()


class Making:
    """Makes an agent that says one thing, and keeps the last one."""

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self.made: list[Agent] = []

    def __call__(self) -> Agent:
        self.made.append(World(lambda: [ar.strands.Recorder(store=self.store)]).agent(["one"]))
        return self.made[-1]

    def edited(self, **edits: Any) -> list[Any]:
        ar.rerun("run1", self, 1, store=self.store, **edits)
        return [message["content"] for message in self.made[-1].messages]


@pytest.mark.parametrize(
    "block",
    [
        {"text": "t"},
        {"reasoningContent": {"reasoningText": {"text": "th", "signature": "sg"}}},
        {"reasoningContent": {"reasoningText": {"text": "th"}}},
        {"reasoningContent": {"reasoningText": {"text": "", "signature": "sg"}}},
        {"reasoningContent": {"redactedContent": b"\x00"}},
        {"citationsContent": {"citations": [CITATION], "content": [{"text": "cited"}]}},
    ],
    ids=str,
)
def test_every_block_of_an_edited_response_reaches_the_agent(block: Any, store: EventStore) -> None:
    """As it was given, between others."""
    making = Making(store)
    making()("go")
    content = [{"text": "before"}, block, {"text": "after"}]
    assert making.edited(model_responses={"1.1": {"role": "assistant", "content": content}})[-1] == content


def test_a_tool_use_keeps_its_signature(store: EventStore) -> None:
    """Whatever stands in it."""
    making = Making(store)
    making()("go")
    use = {"toolUse": {"toolUseId": "u1", "name": "nope", "input": {"a": [1]}, "reasoningSignature": "sg"}}
    assert making.edited(model_responses={"1.1": {"role": "assistant", "content": [use]}})[1] == [use]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"foo": 1}, "found {'foo': 1}"),
        (None, "found None"),
        (5, "found 5"),
        ({"role": "user", "content": [{"text": "x"}]}, "found a message of the role 'user'"),
        ({"content": [{"image": {"format": "png"}}]}, "block 0 of a model's response is a text"),
        ({"content": [{"text": "x"}, {"text": ""}]}, "block 1 of a model's response is a text"),
        ({"content": [{"citationsContent": {"citations": [], "content": [{"text": "c"}]}}]}, "block 0"),
    ],
)
def test_a_response_that_no_model_gives_is_refused(given: Any, found: str, store: EventStore) -> None:
    """The message says what is expected."""
    making = Making(store)
    making()("go")
    with pytest.raises(ar.UsageError) as refused:
        making.edited(model_responses={"1.1": given})
    assert found in str(refused.value)


def test_a_text_that_is_added_is_a_message_of_the_user(store: EventStore) -> None:
    """It stands behind the prompt."""
    making = Making(store)
    making()("go")
    assert making.edited(messages=["be brief"])[1] == [{"text": "be brief"}]


@pytest.mark.parametrize("message", [5, {"role": "user", "content": "x"}, {"role": "user", "content": ["x"]}], ids=str)
def test_a_message_that_is_none_of_the_sdks_is_refused(message: Any, store: EventStore) -> None:
    """Instead of being put into the conversation."""
    making = Making(store)
    making()("go")
    with pytest.raises(ar.UsageError, match="a message that is added is a text"):
        making.edited(messages=[message])


def looping(store: EventStore, made: list[Agent]) -> Any:
    """Makes an agent that asks for a tool twice, and then ends."""

    def make() -> Agent:
        world = World(lambda: [ar.strands.Recorder(store=store)])
        made.append(world.agent([Use("nope", {}, "u1")], [Use("nope", {}, "u2")], ["done"]))
        return made[-1]

    return make


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_state_that_is_no_object_is_refused(step: int, store: EventStore) -> None:
    """Keys of it are set instead; the error is ours in every step, though the SDK's loop wraps what is raised in it."""
    made: list[Agent] = []
    make = looping(store, made)
    make()("go")
    with pytest.raises(ar.UsageError, match="holds values by their keys, so it cannot be 5"):
        ar.rerun("run1", make, step, store=store, set={"": 5})
    assert made[-1].model.world.calls == []


@pytest.mark.parametrize("step", [1, 2])
def test_a_refusal_inside_of_an_agent_that_is_a_tool_reaches_the_caller(step: int, store: EventStore) -> None:
    """The agent around takes what its tool raises for the tool's failure; a refusal is none, in whichever step."""
    backgrounds: list[bool] = []

    def make() -> Agent:
        world = World(lambda: [ar.strands.Recorder(store=store)])
        inner = world.agent(["inner says"], plugged=False, name="inner")
        if backgrounds:
            inner._background_tasks = object()
        uses = [[Use("nope", {}, "u0")]] if step == 2 else []
        return world.agent(*uses, [Use("inner", {"input": "hi"}, "u1")], ["done"], tools=[inner.as_tool()])

    make()("go")
    backgrounds.append(True)
    with pytest.raises(ar.UsageError, match="make the agent without background_tasks"):
        ar.replay("run1", make, store=store)


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("prefix", ["execute", "fold"])
def test_a_response_or_a_message_that_does_not_fit_is_refused_alike_in_every_step(
    step: int, prefix: Any, store: EventStore
) -> None:
    """Inside the loop of the SDK, too."""
    made: list[Agent] = []
    make = looping(store, made)
    make()("go")
    for edits, why in (
        ({"model_responses": {f"{step}.1": 5}}, "a model's response is a text"),
        ({"messages": [5]}, "a message that is added is a text"),
        ({"set": {"": [1]}}, "holds values by their keys"),
        ({"params": {"tone": 1}}, "tone of this run cannot be edited"),
    ):
        with pytest.raises(ar.UsageError, match=why):
            ar.rerun("run1", make, step, prefix=prefix, store=store, **edits)
    assert [one.model.world.calls for one in made[1:]] == [[]] * 4
