"""The second execution of a graph or a swarm begins with what the first one left, and replays from what makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.store import EventStore
from strands import ToolContext, tool
from strands.multiagent import GraphBuilder, Swarm
from strands_scripted import IMAGE, Use, World

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@tool(context=True)
def note(what: str, tool_context: ToolContext) -> str:
    """Keep a note beside those that are there."""
    state = tool_context.agent.state
    state.set("notes", [*(state.get("notes") or []), what])
    return f"{len(state.get('notes'))} notes"


@pytest.fixture
def store() -> Iterator[EventStore]:
    store = ar.open_store("memory:")
    yield store
    store.close()


def noting(made: World, name: str) -> Any:
    uses = [[Use("note", {"what": f"{name} {turn}"}, f"u{turn}")] for turn in (1, 2)]
    return made.agent(uses[0], ["noted"], uses[1], ["noted again"], plugged=False, name=name, tools=[note])


def graph(made: World, *, inner: Any = None) -> Any:
    builder = GraphBuilder()
    builder.add_node(noting(made, "first"), "first")
    builder.add_node(inner or noting(made, "second"), "second")
    builder.add_edge("first", "second")
    builder.set_entry_point("first")
    builder.set_max_node_executions(9)
    builder.set_plugins(made.plugins())
    return builder.build()


def nested(made: World) -> Any:
    builder = GraphBuilder()
    builder.add_node(noting(made, "deep"), "deep")
    builder.set_entry_point("deep")
    builder.set_max_node_executions(9)
    return graph(made, inner=builder.build())


def swarm(made: World) -> Any:
    """Its agents begin afresh each time; what they share does not."""
    handing = Use("handoff_to_agent", {"agent_name": "second", "message": "take it", "context": {"told": "once"}})
    first = made.agent([handing], ["handed"], [handing], ["handed"], plugged=False, name="first")
    return Swarm([first, noting(made, "second")], plugins=made.plugins())


BUILDS = pytest.mark.parametrize("build", [graph, nested, swarm])


def executed_twice(build: Callable[[World], Any], store: EventStore) -> tuple[Any, Any]:
    subject = build(World(lambda: [ar.strands.Recorder(store=store, safety={"note": "pure"})]))
    subject("one")
    subject("two")
    first, second = [run for run in store.runs() if run.parent is None]
    return first, second


@BUILDS
def test_each_execution_replays_from_what_makes_it(build: Any, store: EventStore) -> None:
    """In any order, and also by an object that was executed meanwhile."""
    first, second = executed_twice(build, store)
    dead: list[World] = []

    def make() -> Any:
        dead.append(World(lambda: [ar.strands.Recorder(store=store, safety={"note": "pure"})], live=False))
        return build(dead[-1])

    for run in (second, first):
        result = ar.replay(run, make, store=store)
        assert (result.verdict, result.coverage.notes) == ("identical", [])
        assert dead[-1].calls == []
    subject = make()
    for run in (first, second, first):
        assert ar.replay(run, lambda: subject, store=store).verdict == "identical"


def test_the_record_holds_what_was_kept_and_only_that(store: EventStore) -> None:
    """The first execution of a graph keeps nothing, and says nothing of it."""
    first, second = executed_twice(graph, store)
    assert ar.state_at(first, 0, store=store).params == {}
    kept = ar.state_at(second, 0, store=store).params["kept"]["nodes"]
    assert {name: [*one] for name, one in kept.items()} == {
        "first": ["state", "messages"],
        "second": ["state", "messages"],
    }
    assert kept["first"]["state"] == {"notes": ["first 1"]}
    assert [message["role"] for message in kept["second"]["messages"]] == ["user", "assistant", "user", "assistant"]


def test_a_swarm_keeps_what_its_agents_share(store: EventStore) -> None:
    """And nothing of the agents themselves, which it makes as they were."""
    _, second = executed_twice(swarm, store)
    assert ar.state_at(second, 0, store=store).params == {"kept": {"shared": {"first": {"told": "once"}}}}


def test_the_second_execution_is_run_again_with_what_was_kept(store: EventStore) -> None:
    """The nodes go on from it live, with another task."""
    _, second = executed_twice(graph, store)
    made = World(lambda: [ar.strands.Recorder(store=store, safety={"note": "pure"})])
    ar.rerun(second, lambda: graph(made), 1, input="three", store=store)
    assert made.agents[0].state.get("notes") == ["first 1", "first 1"]  # the script of the models begins anew
    brought = 4
    assert made.agents[0].messages[brought]["content"] == [{"text": "three"}]


def test_a_picture_in_what_was_kept_comes_back_as_its_bytes(store: EventStore) -> None:
    """Messages hold what JSON does not."""
    made = World(lambda: [ar.strands.Recorder(store=store, safety={"note": "pure"})])
    subject = graph(made)
    subject(IMAGE)
    subject("two")
    second = [run for run in store.runs() if run.parent is None][1]
    dead = World(lambda: [ar.strands.Recorder(store=store, safety={"note": "pure"})], live=False)
    assert ar.replay(second, lambda: graph(dead), store=store).verdict == "identical"
    assert dead.agents[0].messages[0]["content"] == IMAGE
