"""What tools of Strands agents hand to each other in `invocation_state` is there in a replay and in a re-run, too."""

from __future__ import annotations

from typing import Any

import agentreplay as ar
import pytest
from strands import Agent, tool
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
