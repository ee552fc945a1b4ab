"""A Strands agent re-run from its first step with another prompt or other limits, and what is refused of that later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.store import EventStore
from strands.hooks import BeforeInvocationEvent
from strands.multiagent import GraphBuilder, Swarm
from strands_scripted import Use, World

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def store() -> Iterator[EventStore]:
    store = ar.open_store("memory:")
    yield store
    store.close()


class Making:
    """Makes an agent that asks for tools twice, and ends; keeps what it made."""

    def __init__(self, store: EventStore, **options: Any) -> None:
        self.store = store
        self.options = options
        self.worlds: list[World] = []

    def world(self) -> World:
        self.worlds.append(World(lambda: [ar.strands.Recorder(store=self.store)]))
        return self.worlds[-1]

    def __call__(self) -> Any:
        return self.world().agent([Use("nope", {}, "u1")], [Use("nope", {}, "u2")], ["done"], **self.options)

    @property
    def agent(self) -> Any:
        return self.worlds[-1].agents[-1]

    @property
    def asked(self) -> list[Any]:
        """What each real call of the model in the last execution was sent: role and content of its messages."""
        return [[[one["role"], one["content"]] for one in messages] for messages in self.agent.model.asked]


def text(said: str) -> list[Any]:
    return ["user", [{"text": said}]]


def replays(run: Any, make: Any, store: EventStore) -> None:
    """A replay of the re-run is the same, and reaches no model."""
    result = ar.replay(run, make, store=store)
    assert (result.verdict, result.coverage.notes) == ("identical", [])
    assert make.worlds[-1].calls == []


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        ("another question", [text("another question")]),
        ([{"text": "one"}, {"text": "two"}], [["user", [{"text": "one"}, {"text": "two"}]]]),
        (
            [
                {"role": "user", "content": [{"text": "a"}]},
                {"role": "assistant", "content": [{"text": "b"}]},
                {"role": "user", "content": [{"text": "c"}]},
            ],
            [text("a"), ["assistant", [{"text": "b"}]], text("c")],
        ),
    ],
    ids=["text", "content", "messages"],
)
def test_another_prompt_reaches_the_model_in_the_place_of_the_recorded_one(
    given: Any, messages: Any, store: EventStore
) -> None:
    """From step 1 on; the record says that it was edited, and a replay needs no model."""
    make = Making(store)
    make()("go")
    result = ar.rerun("run1", make, 1, input=given, store=store)
    assert make.asked[0] == messages
    assert len(make.asked) == 3
    assert [[one["role"], one["content"]] for one in make.agent.messages][: len(messages)] == messages
    forked = next(event for event in store.events(store.run("run2")) if event.kind == "run.forked")
    assert forked.data.edits == [{"edit": "input", "value": given}]
    state = ar.state_at("run2", 1, store=store)
    assert state.input == given
    assert [state.messages[at]["content"] for at in range(len(messages))] == [content for _, content in messages]
    assert result.stop_reason == "end_turn"
    replays("run2", make, store)


def test_no_prompt_goes_on_with_the_conversation(store: EventStore) -> None:
    """Null is a prompt of the SDK's, too: what the agent brought is asked as it is."""
    make = Making(store, messages=[{"role": "user", "content": [{"text": "before"}]}])
    make()("go")
    ar.rerun("run1", make, 1, input=None, store=store)
    assert make.asked[0] == [text("before")]
    replays("run2", make, store)
    ar.rerun("run2", make, 1, input="again", store=store)
    assert make.asked[0] == [text("before"), text("again")]
    replays("run3", make, store)


def test_a_prompt_stands_behind_what_the_agent_brought_and_before_what_is_added(store: EventStore) -> None:
    """Also where the same words were said before."""
    make = Making(store, messages=[{"role": "user", "content": [{"text": "go"}]}])
    make()("go")
    ar.rerun("run1", make, 1, input="stop", messages=["be brief"], store=store)
    assert make.asked[0] == [text("go"), text("stop"), text("be brief")]
    replays("run2", make, store)


def test_code_that_invokes_the_agent_is_given_the_other_prompt_too(store: EventStore) -> None:
    """The application itself says the recorded one."""
    make = Making(store)
    make()("go")
    ar.rerun("run1", lambda: make()("go"), 1, input="stop", store=store)
    assert make.asked[0] == [text("stop")]


@pytest.mark.parametrize("prefix", ["execute", "fold"])
def test_a_rerun_of_a_rerun_has_the_prompt_that_was_given_last(prefix: Any, store: EventStore) -> None:
    """From step 1 with a third one; from a later step with the second."""
    make = Making(store)
    make()("go")
    ar.rerun("run1", make, 1, input="second", store=store)
    ar.rerun("run2", make, 1, input="third", prefix=prefix, store=store)
    assert make.asked[0] == [text("third")]
    ar.rerun("run2", make, 3, prefix=prefix, store=store)
    assert [len(make.asked[0]), make.asked[0][0]] == [5, text("second")]
    assert ar.state_at("run4", 3, store=store).input == "second"


@pytest.mark.parametrize(("recorded", "given", "calls"), [(None, 1, 1), (1, 2, 2), (1, 5, 3)])
def test_other_limits_hold_from_the_first_step_on(
    recorded: int | None, given: int, calls: int, store: EventStore
) -> None:
    """Fewer turns end the run, more let it go on; the record has them, and a replay ends there, too."""
    make = Making(store)
    make()("go", limits=None if recorded is None else {"turns": recorded})
    result = ar.rerun("run1", make, 1, params={"limits": {"turns": given}}, store=store)
    assert len(make.asked) == calls
    assert result.stop_reason == ("end_turn" if calls == 3 else "limit_turns")
    assert ar.state_at("run2", 1, store=store).params == {"limits": {"turns": given}}
    replays("run2", make, store)


def test_limits_are_taken_away_by_null(store: EventStore) -> None:
    """The agent then comes to its end."""
    make = Making(store)
    make()("go", limits={"turns": 1})
    result = ar.rerun("run1", make, 1, params={"limits": None}, store=store)
    assert (result.stop_reason, len(make.asked)) == ("end_turn", 3)
    replays("run2", make, store)


@pytest.mark.parametrize("prefix", ["execute", "fold"])
def test_edited_limits_hold_in_a_rerun_from_a_later_step(prefix: Any, store: EventStore) -> None:
    """They were given to the invocation."""
    make = Making(store)
    make()("go")
    ar.rerun("run1", make, 1, params={"limits": {"turns": 2}}, store=store)
    result = ar.rerun("run2", make, 2, prefix=prefix, store=store)
    assert ar.state_at("run3", 2, store=store).params == {"limits": {"turns": 2}}
    if prefix == "execute":  # the SDK counts the turns that it has made, and a folded prefix is not made
        assert (result.stop_reason, len(make.asked)) == ("limit_turns", 1)


@pytest.mark.parametrize(
    ("step", "edits", "why"),
    [
        (2, {"input": "x"}, "input of this run cannot be edited in step 2: .* Edit them in step 1; or add a message"),
        (2, {"params": {"limits": {"turns": 1}}}, "limits of this run cannot be edited in step 2"),
        (1, {"params": {"tone": "kind"}}, "tone of this run cannot be edited: .* only limits can"),
        (1, {"params": {"limits": {"turn": 1}}}, "cannot be .*turn.*: limits keys .* not recognized caps"),
        (1, {"params": {"limits": 3}}, "limits of an invocation are such as .*; found 3"),
        (1, {"input": 5}, "the prompt of an agent is a text.*; found 5"),
        (1, {"input": {"role": "user", "content": []}}, "the prompt of an agent is a text"),
        (1, {"input": [{"interruptResponse": {"interruptId": "i", "response": 1}}]}, "the answer to a question"),
    ],
)
def test_what_an_invocation_cannot_be_given_is_refused(step: int, edits: Any, why: str, store: EventStore) -> None:
    """As our own error, which says why, before a model is asked."""
    make = Making(store)
    make()("go")
    with pytest.raises(ar.UsageError, match=why):
        ar.rerun("run1", make, step, store=store, **edits)
    assert make.worlds[-1].calls == []


def graph(made: World) -> Any:
    builder = GraphBuilder()
    builder.add_node(made.agent(["first did it"], plugged=False, name="first"), "first")
    builder.add_node(made.agent(["second did it"], plugged=False, name="second"), "second")
    builder.add_edge("first", "second")
    builder.set_entry_point("first")
    builder.set_max_node_executions(9)
    builder.set_plugins(made.plugins())
    return builder.build()


def swarm(made: World) -> Any:
    return Swarm([made.agent(["first did it"], plugged=False, name="first")], plugins=made.plugins())


@pytest.mark.parametrize(("build", "calls"), [(graph, 2), (swarm, 1)])
def test_another_task_reaches_the_nodes(build: Any, calls: int, store: EventStore) -> None:
    """Of a graph and of a swarm; a later step refuses it."""
    make = Making(store)
    make.__class__ = type("MakingAll", (Making,), {"__call__": lambda self: build(self.world())})
    make()("go")
    ar.rerun("run1", make, 1, input="another task", store=store)
    world = make.worlds[-1]
    assert len(world.calls) == calls
    for one in world.agents:
        assert "another task" in str(one.messages[0])
        assert "go" not in str(one.messages[0]["content"]).split()
    fork = [run for run in store.runs() if run.fork_of is not None]
    assert len(fork) == 1
    replays(fork[0], make, store)
    with pytest.raises(ar.UsageError, match="the task of a graph or swarm is a text"):
        ar.rerun("run1", make, 1, input=5, store=store)
    if build is graph:
        with pytest.raises(ar.UsageError, match="input of this run cannot be edited in step 2: a graph or swarm"):
            ar.rerun("run1", make, 2, input="late", store=store)
    with pytest.raises(ar.UsageError, match="limits of this run cannot be edited"):
        ar.rerun("run1", make, 1, params={"limits": {"turns": 1}}, store=store)


def test_a_folded_first_step_takes_another_prompt_too(store: EventStore) -> None:
    """What comes before it is then taken from the record, with the recorded prompt in it."""
    make = Making(store)
    make()("go")
    ar.rerun("run1", make, 1, input="stop", params={"limits": {"turns": 1}}, prefix="fold", store=store)
    assert make.asked == [[text("stop")]]
    assert ar.replay("run2", make, store=store).verdict == "identical"
    assert make.worlds[-1].calls == []


def test_a_prompt_that_a_hook_has_rewritten_is_not_replaced(store: EventStore) -> None:
    """Nothing says which messages are the prompt's then."""

    def rewrite(event: BeforeInvocationEvent) -> None:
        event.messages = [{"role": "user", "content": [{"text": "rewritten"}]}]

    make = Making(store, hooks=[Rewriting(rewrite)])
    make()("go")
    with pytest.raises(ar.UsageError, match="the agent had changed its prompt by then"):
        ar.rerun("run1", make, 1, input="stop", store=store)
    assert make.worlds[-1].calls == []


class Rewriting:
    """A hook of an application."""

    def __init__(self, rewrite: Any) -> None:
        self.rewrite = rewrite

    def register_hooks(self, registry: Any, **given: Any) -> None:
        registry.add_callback(BeforeInvocationEvent, self.rewrite)


def test_an_interrupted_run_takes_another_prompt_and_its_answers(store: EventStore) -> None:
    """The recorded answer is for the question that the edited run asks anew."""
    worlds: list[World] = []

    def make(*, again: bool = False) -> Any:
        worlds.append(World(lambda: [ar.strands.Recorder(store=store, safety={"approve": "pure"})]))
        world = worlds[-1]
        asking = [] if again else [[Use("approve", {"what": "this"}, "t1")]]
        return world.agent(*asking, ["done"], tools=world.tools("approve"))

    agent = make()
    asked = agent("go")
    agent([{"interruptResponse": {"interruptId": asked.interrupts[0].id, "response": "yes"}}])
    result = ar.rerun("run1", make, 1, input="stop", store=store)
    assert result.stop_reason == "interrupt"
    answered = ar.resume("run2", lambda: make(again=True), answers={result.interrupts[0].name: "no"}, store=store)
    assert answered.stop_reason == "end_turn"
    assert worlds[-1].agents[-1].messages[0]["content"] == [{"text": "stop"}]
    assert ar.replay("run2", make, store=store).verdict == "identical"
    assert worlds[-1].calls == []
