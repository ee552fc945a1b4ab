"""Any conversation: random scripts of tools beside each other, with failures, retries and writes, record and replay."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strands import Agent, tool
from strands.hooks import AfterToolCallEvent
from strands.tools.executors import ConcurrentToolExecutor, SequentialToolExecutor
from strands_scripted import SCENARIOS, Use, World, respond

SCENARIO = {scenario.name: scenario for scenario in SCENARIOS}

deeds = st.fixed_dictionaries(
    {
        "key": st.sampled_from("abc"),
        "value": st.none() | st.integers(0, 9) | st.text(max_size=3) | st.lists(st.booleans(), max_size=2),
        "turns": st.integers(0, 4),
        "how": st.sampled_from(["set", "delete", "fail", "stream", "retry", "in a thread"]),
    }
)
rounds = st.lists(st.lists(deeds, min_size=1, max_size=4), max_size=3)


def make(world: World, script: list[list[dict[str, Any]]], sequential: bool) -> Agent:
    tried: dict[str, int] = {}

    @tool(context=True)
    async def act(key: str, value: Any, turns: int, how: str, tool_context: Any) -> Any:
        """Do something to the state, after a while."""
        world.real("act")
        for _ in range(turns):
            await asyncio.sleep(0 if turns % 2 else random.random() / 500)
        state = tool_context.agent.state
        use = tool_context.tool_use["toolUseId"]
        tried[use] = tried.get(use, 0) + 1
        if how == "stream":
            for number in range(turns):
                yield {"number": number}
        if how == "in a thread":
            await asyncio.to_thread(state.set, key, value)
        elif how == "delete":
            state.delete(key)
        else:
            state.set(key, value)
        if how == "fail" or (how == "retry" and tried[use] == 1):
            raise ValueError(f"{key} failed")
        yield f"{how} {key}"

    def again(event: AfterToolCallEvent) -> None:
        event.retry = event.exception is not None and event.tool_use["input"]["how"] == "retry"

    answers: list[Any] = [
        [Use("act", deed, f"r{number}-{place % 3}") for place, deed in enumerate(uses)]
        for number, uses in enumerate(script)
    ]
    executor = SequentialToolExecutor() if sequential else ConcurrentToolExecutor()
    agent = world.agent(*answers, ["done"], tools=[act], state={"a": 0}, tool_executor=executor)
    agent.hooks.add_callback(AfterToolCallEvent, again)
    return agent


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(script=rounds, sequential=st.booleans())
def test_any_conversation_replays(script: list[list[dict[str, Any]]], sequential: bool) -> None:
    """The same conversation and state, to the last byte, in the recorded interleaving, without a real call."""
    store = ar.open_store("memory:")
    world = World(lambda: [ar.strands.Recorder(store=store)])
    agent = make(world, script, sequential)
    agent("go")
    (run,) = store.runs()
    assert ar.state_at(run, store=store).payload == agent.state.get()
    dead = World(lambda: [ar.strands.Recorder(store=store)], live=False)
    assert ar.replay(run, lambda: make(dead, script, sequential), store=store).verdict == "identical"
    assert dead.calls == []
    assert dead.agents[0].messages == agent.messages
    assert dead.agents[0].state.get() == agent.state.get()
    assert dead.states == world.states
    store.close()


async def test_a_run_replays_in_an_event_loop() -> None:
    """Agents that are awaited replay where a loop runs: a notebook, a web server."""
    scenario = SCENARIO["asks before a tool"]
    store = ar.open_store("memory:")
    world = World(lambda: [ar.strands.Recorder(store=store)])
    agent = scenario.make(world)
    result = await agent.invoke_async("go")
    await agent.invoke_async([{"interruptResponse": {"interruptId": result.interrupts[0].id, "response": "yes"}}])
    (run,) = store.runs()
    dead = World(lambda: [ar.strands.Recorder(store=store)], live=False)
    replayed = await ar.areplay(run, lambda: scenario.make(dead), store=store)
    assert (replayed.verdict, dead.calls) == ("identical", [])
    other = World(lambda: [ar.strands.Recorder(store=store)], script=[["another way"]])
    assert (await ar.arerun(run, lambda: scenario.make(other), 2, store=store)).value == "another way "
    store.close()


@pytest.mark.parametrize("name", ["reverse", "asks twice", "structured output", "image", "graph"])
def test_a_cassette_is_a_test_of_the_agent(name: str, tmp_path: Path) -> None:
    """Exported, the run replays without its store; so it is a regression test."""
    store = ar.open_store("memory:")
    scenario = SCENARIO[name]
    scenario.invoke(scenario.make(World(lambda: [ar.strands.Recorder(store=store)])))
    (run,) = [one for one in store.runs() if one.parent is None]
    file = tmp_path / "run.jsonl"
    ar.export_run(run.id, file, store=store)
    dead = World(lambda: [ar.strands.Recorder()], live=False)
    ar.assert_replays(file, lambda: scenario.make(dead))
    assert dead.calls == []
    store.close()


def test_a_question_is_answered_from_a_cassette(tmp_path: Path) -> None:
    """Code that answers by itself gives the recorded responses again, and parts where it gives others."""
    store = ar.open_store("memory:")
    scenario = SCENARIO["asks in a tool"]
    respond(scenario.make(World(lambda: [ar.strands.Recorder(store=store)])))
    file = tmp_path / "run.jsonl"
    ar.export_run(store.runs()[0].id, file, store=store)
    dead = World(lambda: [ar.strands.Recorder()], live=False)
    ar.assert_replays(file, lambda: respond(scenario.make(dead)))

    def another() -> None:
        agent = scenario.make(World(lambda: [ar.strands.Recorder()], live=False))
        result = agent("go")
        agent([{"interruptResponse": {"interruptId": result.interrupts[0].id, "response": "no"}}])

    with pytest.raises(ar.Divergence):
        ar.assert_replays(file, another)
    store.close()
