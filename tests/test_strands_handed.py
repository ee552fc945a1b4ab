"""What tools of Strands agents hand to each other in `invocation_state` is there in a replay and in a re-run, too."""

from __future__ import annotations

import threading
from array import array
from typing import Any

import agentreplay as ar
import pytest
from strands import Agent, tool
from strands.hooks import BeforeModelCallEvent
from strands.multiagent import GraphBuilder
from strands_scripted import Use, World

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@tool(context=True)
def count(tool_context: Any) -> str:
    """Count the calls."""
    state = tool_context.invocation_state
    state["n"] = state.get("n", 0) + 1
    state.setdefault("seen", []).append(state["n"])
    state.pop("gone", None)
    return f"n={state['n']} {state['seen']}"


def script(start: int = 0) -> list[Any]:
    return [*[[Use("count", {}, f"u{at}")] for at in range(start, 3)], ["done"]]


def said(agent: Agent) -> list[str]:
    blocks = [block for message in agent.messages for block in message["content"]]
    return [block["toolResult"]["content"][0]["text"] for block in blocks if "toolResult" in block]


def test_a_fork_has_what_answered_tools_had_put_into_the_invocation_state() -> None:
    """Tools that run on from there go on from it."""
    store = ar.open_store("memory:")
    made: list[Agent] = []

    def make(start: int = 0) -> Agent:
        world = World(lambda: [ar.strands.Recorder(store=store, safety={"count": "pure"})])
        made.append(world.agent(*script(start), tools=[count]))
        return made[-1]

    state = {"user": "ann", "gone": 1}
    make()("go", invocation_state=state)
    expected = ["n=1 [1]", "n=2 [1, 2]", "n=3 [1, 2, 3]"]
    assert said(made[0]) == expected
    (run,) = store.runs()
    for step in (1, 2, 3):
        ar.rerun(run, lambda step=step: make(step - 1), step, store=store)
        assert said(made[-1]) == expected
    assert ar.replay(run, make, store=store).verdict == "identical"
    store.close()


def test_what_cannot_be_recorded_of_the_invocation_state_is_named() -> None:
    """The call tells the key and the class, and a replay warns."""
    store = ar.open_store("memory:")

    @tool(context=True)
    def connect(tool_context: Any) -> str:
        """Put something alive into the state."""
        tool_context.invocation_state["client"] = object()
        return "connected"

    def make() -> Agent:
        return World(lambda: [ar.strands.Recorder(store=store)]).agent([Use("connect")], ["done"], tools=[connect])

    make()("go")
    (run,) = store.runs()
    (returned,) = [event for event in store.events(run) if event.kind == "tool.returned"]
    assert returned.data.stream[0] == {"did": {"invocation_state": {"not recorded": {"client": "builtins.object"}}}}
    with pytest.warns(UserWarning, match=r"a tool put a builtins\.object into invocation_state\['client'\]"):
        assert ar.replay(run, make, store=store).verdict == "identical"
    store.close()


VALUES: Any = [b"q", bytearray(b"q"), (1, [2]), {1, 2}, 2**70, float("inf"), {"a": (1,)}, [True, 1, 1.0], "text", None]
"""Data of which JSON holds some, and a record all."""


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_hooks_find_in_a_replay_what_the_caller_gave(value: Any) -> None:
    """Of its type, whatever data it is."""
    store = ar.open_store("memory:")
    found: list[Any] = []

    def make() -> Agent:
        agent = World(lambda: [ar.strands.Recorder(store=store)]).agent(["done"])
        agent.hooks.add_callback(
            BeforeModelCallEvent, lambda event: found.append(event.invocation_state.get("given", "nothing"))
        )
        return agent

    make()("go", invocation_state={"given": value})
    assert ar.replay("run1", make, store=store).verdict == "identical"
    recorded, replayed = found
    assert (type(replayed), repr(replayed)) == (type(recorded), repr(recorded))
    store.close()


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_hooks_find_in_a_replay_what_a_tool_put(value: Any) -> None:
    """In the place of something else, in the middle of a list that the caller gave."""
    store = ar.open_store("memory:")
    found: list[Any] = []

    @tool(context=True)
    def put(tool_context: Any) -> str:
        """Put a value."""
        tool_context.invocation_state["rows"][1] = value
        return "put"

    def make() -> Agent:
        agent = World(lambda: [ar.strands.Recorder(store=store)]).agent([Use("put")], ["done"], tools=[put])
        agent.hooks.add_callback(
            BeforeModelCallEvent, lambda event: found.append(repr(event.invocation_state.get("rows")))
        )
        return agent

    make()("go", invocation_state={"rows": [0, "before", (2,)]})
    assert ar.replay("run1", make, store=store).verdict == "identical"
    assert found == ["[0, 'before', (2,)]", f"[0, {value!r}, (2,)]"] * 2
    store.close()


def test_a_replay_warns_of_what_the_caller_gave_and_a_recording_cannot_hold() -> None:
    """It names the key and the class; something is there, and whoever makes use of it is told."""
    store = ar.open_store("memory:")

    asks: list[Any] = [lambda client: client is not None, lambda client: client.get]

    def make() -> Agent:
        agent = World(lambda: [ar.strands.Recorder(store=store)]).agent(["done"])
        agent.hooks.add_callback(BeforeModelCallEvent, lambda event: asks[0](event.invocation_state["client"]))
        return agent

    make()("go", invocation_state={"client": threading.Lock()})
    told = r"was given a _thread\.lock in invocation_state\['client'\], which a recording cannot hold"
    with pytest.warns(UserWarning, match=told):
        assert ar.replay("run1", make, store=store).verdict == "identical"
    del asks[0]
    with pytest.warns(UserWarning, match=told), pytest.raises(ar.UsageError, match=told):
        ar.replay("run1", make, store=store)
    store.close()


@pytest.mark.parametrize("by_name", [True, False])
def test_a_graph_hands_through_in_a_replay_what_it_was_given(by_name: bool) -> None:
    """Given by its name, or as the second argument."""
    store = ar.open_store("memory:")
    found: list[Any] = []

    def make() -> Any:
        world = World(lambda: [ar.strands.Recorder(store=store)])
        agent = world.agent(["done"], name="writer")
        agent.hooks.add_callback(
            BeforeModelCallEvent, lambda event: found.append(event.invocation_state.get("given", "nothing"))
        )
        builder = GraphBuilder()
        builder.add_node(agent, "writer")
        builder.set_entry_point("writer")
        builder.set_max_node_executions(5)
        builder.set_plugins([ar.strands.Recorder(store=store)])
        return builder.build()

    state = {"given": (1, b"x")}
    make()("go", invocation_state=state) if by_name else make()("go", state)
    assert ar.replay("run1", make, store=store).verdict == "identical"
    assert found == [(1, b"x")] * 2
    with pytest.raises(TypeError, match="positional argument"):
        make()("go", {}, {})
    store.close()


class Odd:
    """As arrays of numbers do: what comes of a comparison is neither true nor false."""

    def __eq__(self, other: object) -> Any:
        return self

    def __ne__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")

    __hash__ = object.__hash__


@pytest.mark.parametrize("make_value", [Odd, lambda: array("d", [1.0])], ids=["odd", "array"])
def test_an_agent_does_what_it_did_whatever_is_handed_through_or_in_a_message(make_value: Any) -> None:
    """What cannot be compared or stored: in the place of data, within data, and in a message."""
    given, added, said = make_value(), make_value(), make_value()
    seen: list[Any] = []

    @tool(context=True)
    def put(tool_context: Any) -> str:
        """Put values in the place of others."""
        state = tool_context.invocation_state
        seen.append(state["given"] is given)
        state["number"], state["rows"][1] = added, added
        tool_context.agent.messages[0]["own"] = said
        return "put"

    store = ar.open_store("memory:")
    world = World(lambda: [ar.strands.Recorder(store=store)])
    agent = world.agent([Use("put")], [Use("put", {}, "u2")], ["done"], tools=[put])
    state = {"given": given, "number": 1, "rows": [0, "before"]}
    result = agent("go", invocation_state=state)
    assert result.stop_reason == "end_turn"
    assert [run.status for run in store.runs()] == ["completed"]
    assert store.verify() == []
    store.close()
    assert seen == [True, True]
    assert state["number"] is state["rows"][1] is added
    assert agent.messages[0]["own"] is said
