"""A re-run that took the rounds before its step from the log says so, and so they are not executed later either."""

from __future__ import annotations

from typing import Any

import agentreplay as ar
import pytest
import replay_agents
from agentreplay.recorder.errors import Divergence
from agentreplay.recorder.loop import Agent
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay.replayer import replay
from agentreplay.replay.rerunning import rerun, resume
from changed_code import changed
from journal import Journal
from recorded import log_of


def prefix_of(store: EventStore, run: str) -> list[str]:
    return [event.data.prefix for event in store.events(run) if event.kind == "run.forked"]


def recorded() -> MemoryStore:
    store = MemoryStore()
    replay_agents.desk.run({"left": 0}, store=store)
    return store


def other_desk() -> Agent:
    """The desk with another first step."""
    agent, _ = changed("desk", ("what is there?", "what is here?"))
    assert isinstance(agent, Agent)
    return agent


@ar.tool(safety="pure")
def price(of: str) -> float:
    return 12.5


def talker(said: str = "round") -> Agent:
    """Four rounds, in which it talks, notes and pays heed to its parameters; `said` changes all but the last two."""

    @ar.agent("talker", max_rounds=9)
    def step(round_index: int, context: ar.Context) -> Any:
        word = "round" if round_index > 2 else said
        context.messages.append({"role": "user", "content": f"{word} {round_index}"})
        context.decide(step="Retry", scratchpad={"notes": f"{word} {round_index}"})
        price(f"{context.params.get('tone')} {[one['content'] for one in context.messages]} {context.input}")
        context.change(update={"at": round_index, "notes": context.scratchpad["notes"]})
        return ar.Complete(round_index) if round_index == 4 else ar.Continue()

    return step


def test_a_fork_says_what_was_done_with_the_rounds_before() -> None:
    """They were executed, or folded; a fork of it says it once more, of its own."""
    store = recorded()
    executed = rerun("run1", replay_agents.desk, 2, store=store).run.id
    folded = rerun("run1", replay_agents.desk, 3, prefix="fold", store=store).run.id
    assert prefix_of(store, executed) == ["execute"]
    assert prefix_of(store, folded) == ["fold"]
    assert prefix_of(store, rerun(folded, replay_agents.desk, 4, store=store).run.id) == ["fold", "execute"]


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_folded_fork_replays_with_the_code_that_made_it(step: int) -> None:
    """Though that has another first step than the run that it comes from; and the coverage says what was left out."""
    store = recorded()
    with pytest.raises(Divergence):
        replay("run1", other_desk(), store=store)
    run = rerun("run1", other_desk(), step, prefix="fold", store=store).run.id
    told = replay(run, other_desk(), store=store)
    assert (told.verdict, told.complete) == ("identical", True)
    assert told.coverage.notes == [
        f"{run} began with step {step} (--prefix=fold), so what comes before is taken from the log here, too"
    ]
    assert told.coverage.unused == 0


def test_what_a_folded_fork_did_is_compared() -> None:
    """From the step of the fork on, its code is held to the log."""
    store = recorded()
    run = rerun("run1", other_desk(), 2, prefix="fold", store=store).run.id
    agent, _ = changed("desk", ('str(context.payload["order"]["total"])', '"free"'))
    with pytest.raises(Divergence):
        replay(run, agent, store=store)


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_conversation_goes_on_where_it_was_folded(step: int) -> None:
    """With the notes, and the parameters and the input that were edited on the way; in a replay as in the re-run."""
    store = MemoryStore()
    talker().run({"at": 0, "notes": ""}, params={"tone": "plain"}, store=store)
    first = rerun("run1", talker(), 2, params={"tone": "kind"}, input="hurry", store=store).run.id
    asked = [event.data.arguments for event in log_of(store, first) if event.kind == "tool.called"]
    run = rerun(first, talker("turn"), step, prefix="fold", store=store).run.id
    said = "turn" if step < 3 else "round"
    if said == "round":
        assert [event.data.arguments for event in log_of(store, run) if event.kind == "tool.called"] == asked
    assert replay(run, talker("turn"), store=store).verdict == "identical"
    assert store.verify() == []


@pytest.mark.parametrize("step", [2, 3, 4])
def test_a_fork_of_a_folded_fork_executes_what_was_executed(step: int) -> None:
    """From the step at which it was folded on; what came before is folded again."""
    store = MemoryStore()
    talker().run({"at": 0, "notes": ""}, store=store)
    folded = rerun("run1", talker("turn"), 2, prefix="fold", store=store).run.id
    run = rerun(folded, talker("turn"), step, store=store).run.id
    assert replay(run, talker("turn"), store=store).verdict == "identical"
    assert ar.state_at(run, store=store).payload == ar.state_at(folded, store=store).payload
    assert [dict(one) for one in ar.state_at(run, store=store).messages] == [
        dict(one) for one in ar.state_at(folded, store=store).messages
    ]
    with pytest.raises(Divergence):  # that of the first run is executed from its start
        rerun("run1", talker("turn"), 2, store=store)


def test_a_folded_fork_that_is_cut_off_is_resumed() -> None:
    """After each write: it ends as it would have, and replays."""
    journal = Journal()
    talker().run({"at": 0, "notes": ""}, store=journal)
    start = len(journal.entries)
    run = rerun("run1", talker("turn"), 3, prefix="fold", set={"/x": 1}, store=journal).run.id
    expected = ar.state_at(run, store=journal)
    for count in range(start + 2, len(journal.entries)):
        store = journal.until(count)
        assert resume(run, talker("turn"), store=store, take_over=True).value == 4
        state = ar.state_at(run, store=store)
        assert (state.payload, state.messages) == (expected.payload, expected.messages)
        assert [event.kind for event in store.events(run) if event.kind == "messages.replaced"] == []
        assert store.verify() == []
        assert replay(run, talker("turn"), store=store).verdict == "identical"


def test_a_loop_of_its_own_replays_from_where_it_was_folded() -> None:
    """What it does before its first round is done anew by the re-run, and compared by the replay."""

    def loop(store: EventStore | None = None) -> Any:
        with ar.record("loop", payload={"at": 0}, store=store) as run:
            price("before")
            for _ in range(run.payload["at"], 3):
                with run.round() as r:
                    price(f"{r.payload['at']}")
                    r.change(update={"at": r.payload["at"] + 1})
            run.complete(run.payload["at"])
        return run.result

    store = MemoryStore()
    loop(store)
    run = rerun("run1", loop, 2, store=store, prefix="fold").run.id
    told = replay(run, loop, store=store)
    assert (told.verdict, told.coverage.recorded, told.coverage.unused) == ("identical", 3, 0)


KEY = "sk-proj-" + "a1B2c3D4" * 6
got: list[str] = []


@ar.tool(safety="pure")
def sign(api_key: str) -> str:
    got.append(api_key)
    return "signed"


@ar.agent("signer", max_rounds=5)
def signer(round_index: int, context: ar.Context) -> Any:
    if round_index == 2:
        context.interrupt("now", None)
    sign(context.payload["api_key"])
    return ar.Complete(round_index) if round_index == 2 else ar.Continue()


def test_a_folded_fork_is_resumed_with_a_secret() -> None:
    """It stands where the token does in the payload with which the fork began."""
    store = MemoryStore()
    signer.run({"api_key": KEY}, store=store)
    run = rerun("run1", signer, 2, prefix="fold", store=store).run.id
    got.clear()
    resume(run, signer, answers={"now": True}, secrets={"/api_key": KEY}, store=store)
    assert got == [KEY]
    assert replay(run, signer, store=store).verdict == "identical"
