"""What a session brings back in another process is recorded with the run, and a replay needs no session for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.errors import Divergence, UsageError
from agentreplay.recorder.integrations import strands_agents
from agentreplay.recorder.store import EventStore
from strands import Agent
from strands.multiagent import GraphBuilder, Swarm
from strands.session.file_session_manager import FileSessionManager
from strands_scripted import Use, World

Make = Callable[[World, Any], Any]


@pytest.fixture
def store() -> Iterator[EventStore]:
    store = ar.open_store("memory:")
    yield store
    store.close()


def world(store: EventStore, *, live: bool = True) -> World:
    return World(lambda: [ar.strands.Recorder(store=store, safety={"approve": "pure"})], live=live)


def asking(made: World, **options: Any) -> Agent:
    """An agent that asks a person in a tool; in its second process it is past the call of the model."""
    answers = [["done"]] if options.pop("again", False) else [[Use("approve", {"what": "this"}, "t1")], ["done"]]
    return made.agent(*answers, tools=made.tools("approve"), agent_id="a", state={"n": 1}, **options)


def graph(made: World, **options: Any) -> Any:
    builder = GraphBuilder()
    script = [["it may"]] if options.pop("again", False) else [[Use("approve", {"what": "this"})], ["it may"]]
    builder.add_node(made.agent(*script, plugged=False, name="first", tools=made.tools("approve")), "first")
    builder.add_node(made.agent(["second did it"], plugged=False, name="second"), "second")
    builder.add_edge("first", "second")
    builder.set_entry_point("first")
    builder.set_max_node_executions(9)
    builder.set_plugins(made.plugins())
    if "session_manager" in options:
        builder.set_session_manager(options["session_manager"])
    return builder.build()


def swarm(made: World, **options: Any) -> Any:
    script = [["it may"]] if options.pop("again", False) else [[Use("approve", {"what": "this"})], ["it may"]]
    first = made.agent(*script, plugged=False, name="first", tools=made.tools("approve"))
    return Swarm([first], plugins=made.plugins(), **options)


MAKES = pytest.mark.parametrize("make", [asking, graph, swarm])


def session(folder: Path) -> FileSessionManager:
    return FileSessionManager("s", storage_dir=str(folder))


def respond(subject: Any) -> Any:
    """Answer what a session says was asked."""
    ids = [*subject._interrupt_state.interrupts]
    return subject([{"interruptResponse": {"interruptId": id, "response": "yes"}} for id in ids])


def asked_and_answered(make: Any, store: EventStore, folder: Path) -> tuple[Any, Any]:
    """The run that asked, and the one that goes on with the answer, from what the session has kept."""
    make(world(store), session_manager=session(folder))("go")
    shutil.copytree(folder / "session_s", folder / "asked" / "session_s")
    respond(make(world(store), session_manager=session(folder), again=True))
    first, second = [run for run in store.runs() if run.parent is None]
    return first, second


@MAKES
def test_a_run_that_goes_on_after_a_question_in_another_process_replays(
    make: Any, store: EventStore, tmp_path: Path
) -> None:
    """What had been asked, and what was done before, is in the record; nothing is reached but that."""
    first, second = asked_and_answered(make, store, tmp_path)
    assert (first.status, second.status) == ("interrupted", "completed")
    dead = world(store, live=False)
    assert ar.replay(second, lambda: make(dead), store=store).verdict == "identical"
    assert dead.calls == []


@MAKES
@pytest.mark.parametrize("state", ["asked", "answered"])
def test_a_replay_goes_by_the_record_whatever_the_session_holds_by_now(
    make: Any, state: str, store: EventStore, tmp_path: Path
) -> None:
    """Both runs begin as they began then, from an agent that has the session as it was, or as it became."""
    runs = asked_and_answered(make, store, tmp_path)
    folder = tmp_path / "asked" if state == "asked" else tmp_path
    for run in runs:
        copy = tmp_path / "copies" / run.id
        shutil.copytree(folder / "session_s", copy / "session_s")
        dead = world(store, live=False)
        result = ar.replay(run, lambda: make(dead, session_manager=session(copy)), store=store)  # noqa: B023  # at once
        assert result.verdict == "identical"
        assert result.coverage.recorded > 0
        assert dead.calls == []


def test_code_that_answers_by_itself_replays_with_the_session_that_asked(store: EventStore, tmp_path: Path) -> None:
    """The parameters are the recorded ones then, too."""
    _, second = asked_and_answered(asking, store, tmp_path)
    dead = world(store, live=False)

    def answer() -> Any:
        return respond(asking(dead, session_manager=session(tmp_path / "asked")))

    assert ar.replay(second, answer, store=store).verdict == "identical"


def test_a_run_that_went_on_is_run_again_from_each_step(store: EventStore, tmp_path: Path) -> None:
    """From the tool that had asked, with another result, and from the answer of the model, executed or folded."""
    _, second = asked_and_answered(asking, store, tmp_path)
    made = world(store)
    result = ar.rerun(
        second, lambda: asking(made, again=True), step=1, tool_results={"1.1": "this: never"}, store=store
    )
    assert (result.stop_reason, made.calls) == ("end_turn", ["model"])
    assert made.agents[0].messages[2]["content"][0]["toolResult"]["content"] == [{"text": "this: never"}]
    for prefix in ("execute", "fold"):
        made = world(store)
        result = ar.rerun(second, lambda: asking(made, again=True), step=2, prefix=prefix, store=store)  # noqa: B023  # at once
        assert (result.stop_reason, made.calls) == ("end_turn", ["model"])
        assert [one["role"] for one in made.agents[0].messages] == ["user", "assistant", "user", "assistant"]


def test_a_conversation_that_a_session_has_kept_replays_when_it_has_grown(store: EventStore, tmp_path: Path) -> None:
    """The agent is given the messages that it had then."""
    for prompt in ("first", "second", "third"):
        world(store).agent([f"to the {prompt}"], session_manager=session(tmp_path), agent_id="a")(prompt)
    for run, brought in zip(store.runs(), (0, 2, 4), strict=True):
        dead = world(store, live=False)
        made = dead.agent(session_manager=session(tmp_path), agent_id="a")
        assert ar.replay(run, lambda: made, store=store).verdict == "identical"  # noqa: B023  # at once
        assert len(made.messages) == brought + 2


def test_an_answer_without_its_question_is_refused_and_says_what_to_do(
    store: EventStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording of an older release does not hold what had been asked."""
    monkeypatch.setattr(strands_agents, "is_plain", lambda value: False)
    _, second = asked_and_answered(asking, store, tmp_path)
    with pytest.raises(UsageError, match="does not hold what the agent had brought with it") as refused:
        ar.replay(second, lambda: asking(world(store, live=False)), store=store)
    assert "agentreplay resume RUN --answer NAME=JSON" in str(refused.value)


def test_code_that_brings_another_conversation_is_told_so(store: EventStore, tmp_path: Path) -> None:
    """It has asked an agent whose session went on; the divergence says what to name in its place."""
    for prompt in ("first", "second"):
        world(store).agent([f"to the {prompt}"], session_manager=session(tmp_path), agent_id="a")(prompt)
    run = store.runs()[1]
    dead = world(store, live=False)
    with pytest.raises(Divergence) as parted:
        ar.replay(run, lambda: dead.agent(session_manager=session(tmp_path), agent_id="a")("second"), store=store)
    said = " ".join(str(parted.value).split())
    assert "The conversation that the code brings with it is another one than then" in said
    assert "name what makes the agent instead of what invokes it" in said


def test_code_that_brings_no_conversation_is_told_so(store: EventStore, tmp_path: Path) -> None:
    """A session that is gone has brought one, when the run was recorded."""
    for prompt in ("first", "second"):
        world(store).agent([f"to the {prompt}"], session_manager=session(tmp_path), agent_id="a")(prompt)
    dead = world(store, live=False)
    with pytest.raises(Divergence) as parted:
        ar.replay(store.runs()[1], lambda: dead.agent(agent_id="a")("second"), store=store)
    assert "The conversation that the code brings with it is another one than then" in str(parted.value)
    assert dead.calls == []


def test_code_that_brings_a_conversation_where_there_was_none_is_told_so(store: EventStore, tmp_path: Path) -> None:
    """Both are asked the same; the session has gone on since."""
    for _ in range(2):
        world(store).agent(["hello"], session_manager=session(tmp_path), agent_id="a")("again")
    dead = world(store, live=False)
    with pytest.raises(Divergence) as parted:
        ar.replay(
            store.runs()[0], lambda: dead.agent(session_manager=session(tmp_path), agent_id="a")("again"), store=store
        )
    assert "The conversation that the code brings with it is another one than then" in str(parted.value)
