"""What tools of Strands agents give: it reaches the model as it does without the recorder, whatever its shape."""

from __future__ import annotations

import json
from typing import Any

import agentreplay as ar
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strands import Agent, tool
from strands.hooks import AfterToolCallEvent
from strands.types._events import ToolResultEvent
from strands.types.tools import AgentTool
from strands_scripted import Use, World

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

contents = (
    st.text(max_size=3)
    | st.none()
    | st.integers()
    | st.lists(st.fixed_dictionaries({"text": st.text(max_size=3)}), max_size=2)
    | st.lists(st.fixed_dictionaries({"text": st.text(max_size=3)}), max_size=2).map(tuple)
    | st.dictionaries(st.sampled_from("ab"), st.booleans(), max_size=2)
)
shapes = (
    st.fixed_dictionaries({"status": st.sampled_from(["success", "error"]), "content": contents})
    | st.fixed_dictionaries({"content": contents, "status": st.sampled_from(["success", "error", "odd"])})
    | st.fixed_dictionaries({}, optional={"status": st.just("error"), "content": contents, "more": st.integers(0, 3)})
    | contents
)


class Odd(AgentTool):
    """A tool that gives a result of any shape."""

    tool_name = "odd"  # type: ignore[assignment]  # as tools of one's own do
    tool_spec = {"name": "odd", "description": "Odd.", "inputSchema": {"json": {"type": "object"}}}  # type: ignore[assignment]  # noqa: RUF012
    tool_type = "odd"  # type: ignore[assignment]

    def __init__(self, result: Any, streams: bool) -> None:
        super().__init__()
        self.result = result
        self.streams = streams

    async def stream(self, tool_use: Any, invocation_state: Any, **kwargs: Any) -> Any:
        if self.streams:
            invocation_state["request_state"] = {"looked": True}
        yield ToolResultEvent(self.result)


def plain_or_own(result: Any, how: str) -> Any:
    if how != "function":
        return Odd(result, how == "own that does more")

    @tool
    def odd() -> Any:
        """Give something odd."""
        return result

    return odd


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(result=shapes, how=st.sampled_from(["function", "own", "own that does more"]))
def test_a_result_of_any_shape_reaches_the_model_as_without_the_recorder(result: Any, how: str) -> None:
    """Hooks and the model see the same, to the order of the keys; and a replay gives an equal one."""
    store = ar.open_store("memory:")
    came: list[Any] = []

    def ran(plugins: list[Any], live: bool = True) -> Agent:
        world = World(lambda: plugins, live=live)
        agent = world.agent([Use("odd")], ["done"], tools=[plain_or_own(result, how)])
        agent.hooks.add_callback(AfterToolCallEvent, lambda event: came.append(repr(event.result)))
        return agent

    without = ran([])
    ended = come_to_end(without)
    recorded = ran([ar.strands.Recorder(store=store)])
    assert come_to_end(recorded) == ended
    assert repr(contents_of(recorded)) == repr(contents_of(without))
    assert came[len(came) // 2 :] == came[: len(came) // 2]
    (run,) = store.runs()
    made: list[Agent] = []

    def make() -> Agent:
        made.append(ran([ar.strands.Recorder(store=store)], live=False))
        return made[-1]

    assert ar.replay(run, make, store=store).verdict == "identical"
    assert contents_of(made[0]) == contents_of(without)
    store.close()


def come_to_end(agent: Agent) -> str:
    try:
        return str(agent("go").stop_reason)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def contents_of(agent: Agent) -> list[Any]:
    return [(message["role"], message["content"]) for message in agent.messages]


def test_a_result_without_a_status_stays_without_one() -> None:
    """The recorder adds none."""
    store = ar.open_store("memory:")
    world = World(lambda: [ar.strands.Recorder(store=store)])
    agent = world.agent([Use("odd")], ["done"], tools=[Odd({"toolUseId": "use-1", "content": [{"text": "x"}]}, False)])
    agent("go")
    assert json.dumps(agent.messages[2]["content"]) == (
        '[{"toolResult": {"toolUseId": "use-1", "content": [{"text": "x"}]}}]'
    )
    store.close()
