"""Workflows that are executed again: replayed, run again from a step, resumed, as sub-agents, from the command line."""

from __future__ import annotations

import asyncio
import os
import random
import signal as signals
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay.changes import MISSING
from click.testing import CliRunner
from recorded import one
from web import client_of, page
from workflows import CALLS, DELIVER, ENGINE, START, TO, State, ask, decisions, draft, engine_of, made, turns, write


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


@pytest.fixture(autouse=True)
def nothing_made_yet() -> None:
    made.clear()


# -- replay ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("replays_awaited", [False, True])
def test_a_workflow_replays(store: EventStore, awaited: bool, replays_awaited: bool) -> None:
    """Recorded with `run` or in an event loop, replayed with either: identical, and nothing is called."""
    if awaited:
        asyncio.run(ENGINE.arun(START, store=store))
    else:
        ENGINE.run(START, store=store)
    made.clear()
    if replays_awaited:
        result = asyncio.run(ar.areplay("run1", ENGINE, store=store))
    else:
        result = ar.replay("run1", ENGINE, store=store)
    assert (result.verdict, result.coverage.recorded, result.coverage.notes) == ("identical", 6, [])
    assert made == []


def test_another_route_is_a_divergence(store: EventStore) -> None:
    """Told as another node, at its step, before anything that follows from it."""
    ENGINE.run(START, store=store)
    other = engine_of(routes=[TO("sign", when=lambda state: len(state["notes"]) == 2), TO("draft")])
    with pytest.raises(ar.Divergence) as caught:
        ar.replay("run1", other, store=store)
    assert (caught.value.kind, caught.value.step, caught.value.path) == ("another node", 2, "")
    assert (caught.value.difference.expected, caught.value.difference.actual) == (
        MISSING,
        {"node": "sign", "visit": 1},
    )


def test_another_next_node_is_a_divergence_at_the_step_that_chose_it(store: EventStore) -> None:
    """What a round decides says where the next one begins."""

    def leading_to(target: str) -> ar.CoreEngine[Any]:
        unlikely = [TO(one, when=lambda state: False) for one in ("b", "c")]
        nodes = [
            ar.node("a", run=lambda state: {"x": write("a", [])}, routes=[*unlikely, TO(target)]),
            ar.node("b", run=lambda state: {"y": 1}, starts_round=True, routes=[DELIVER("y")]),
            ar.node("c", run=lambda state: {"y": 1}, starts_round=True, routes=[DELIVER("y")]),
        ]
        return ar.CoreEngine(workflow=ar.define_workflow("w", nodes))

    leading_to("b").run({}, store=store)
    with pytest.raises(ar.Divergence) as caught:
        ar.replay("run1", leading_to("c"), store=store)
    assert (caught.value.kind, caught.value.step) == ("another decision", 1)


def test_a_description_may_change(store: EventStore) -> None:
    """It is for people; a replay does not look at it."""
    ENGINE.run(START, store=store)

    def described(state: State) -> State:
        """Say something else."""
        return draft(state)

    assert ar.replay("run1", engine_of(draft=described), store=store).verdict == "identical"


def test_a_workflow_that_failed_replays(store: EventStore) -> None:
    """To the same error, with what it says of itself."""
    nodes = [
        ar.node("ask", run=lambda state: {"x": ask("a")}, routes=[DELIVER("y", when=lambda state: "y" in state)]),
    ]
    engine = ar.CoreEngine(workflow=ar.define_workflow("w", nodes))
    with pytest.raises(ar.WorkflowError, match="has no route that holds"):
        engine.run({}, store=store)
    assert ar.replay("run1", engine, store=store).verdict == "identical"


def test_what_nodes_read_is_captured(store: EventStore) -> None:
    """Of code that does not know the context, where the engine asks for it; and its runs have its tags."""

    def guess(state: State) -> State:
        return {"guess": [time.time(), random.random()]}

    nodes = [ar.node("guess", run=guess, routes=[DELIVER("guess")])]
    engine = ar.CoreEngine(workflow=ar.define_workflow("w", nodes), capture={"clock", "random"}, tags=["nightly"])
    value = engine.run({}, store=store, tags=["eu"]).value
    result = ar.replay("run1", engine, store=store)
    assert (result.verdict, result.coverage.recorded) == ("identical", 2)
    assert result.result is not None
    assert result.result.value == value
    assert one(store, "run.started").data.tags == ["nightly", "eu"]


def test_the_browser_shows_the_way(store: EventStore) -> None:
    """The nodes of a step, what each changed, and the decision in words."""
    ENGINE.run(START, store=store)
    text = page(client_of(store), "/runs/run1/steps/2")
    for told in ("draft (visit 2): Write a text.", "review (visit 2)", "draft → review → draft"):
        assert told in text


# -- taken up again ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["execute", "fold"])
def test_a_workflow_is_run_again_from_every_step(store: EventStore, prefix: Any) -> None:
    """The round begins with the node that it began with, also where no round before it is executed."""
    ENGINE.run(START, store=store)
    for step, text in ((1, "coffee with 2 notes"), (2, "coffee with 2 notes"), (3, "coffee with 2 notes")):
        made.clear()
        result = ar.rerun("run1", ENGINE, step, set={"/topic": "coffee"}, prefix=prefix, store=store)
        assert result.value == f"{text}, signed in round 3"
        assert made == [call.replace("tea", "coffee") for call in CALLS[2 * step - 2 :]]
        fork = result.run.id
        assert decisions(store, fork)[-1]["workflow"] == {
            "visited": [{"node": "draft", "times": 3}, {"node": "review", "times": 3}, {"node": "sign", "times": 1}]
        }
        assert ar.replay(fork, ENGINE, store=store).verdict == "identical"
        assert ar.rerun(fork, ENGINE, 3, store=store).value == result.value


def test_which_node_comes_next_is_in_the_state(store: EventStore) -> None:
    """A folded prefix goes on with the right node and the right visit of it, from each step."""
    engine = turns(7, ask)
    assert engine.run({"seen": []}, store=store).value == ["a1", "b1", "c1", "a2", "b2", "c2", "a3"]
    for step in range(1, 8):
        made.clear()
        result = ar.rerun("run1", engine, step, prefix="fold", store=store)
        assert result.value == ["a1", "b1", "c1", "a2", "b2", "c2", "a3"]
        assert made == ["a1", "b1", "c1", "a2", "b2", "c2", "a3"][step - 1 :]


def test_nodes_may_have_any_names(store: EventStore) -> None:
    """One that looks like the name of a secret, half an emoji: where the run stands comes back as it was."""
    end = DELIVER("n", when=lambda state: state["n"] == 4)

    def count(state: State, context: ar.Context) -> State:
        assert (context.node, context.visit) == (("password", "\\ud83d")[state["n"] % 2], state["n"] // 2 + 1)
        return {"n": state["n"] + 1, "seen": ask(str(state["n"]))}

    engine = ar.CoreEngine(
        workflow=ar.define_workflow(
            "token",
            [
                ar.node("password", run=count, starts_round=True, routes=[end, TO("\ud83d")]),
                ar.node("\ud83d", run=count, starts_round=True, routes=[end, TO("password")]),
            ],
        )
    )
    assert engine.run({"n": 0}, store=store).value == 4
    for step in range(1, 5):
        assert ar.rerun("run1", engine, step, prefix="fold", store=store).value == 4
    assert ar.replay("run1", engine, store=store).verdict == "identical"


def test_a_workflow_without_the_node_that_comes_next_says_so(store: EventStore) -> None:
    """Where the code was changed and the prefix is folded."""
    turns(7, ask).run({"seen": []}, store=store)
    other = ar.CoreEngine(
        workflow=ar.define_workflow("turns", [ar.node("a", run=lambda state: None, routes=[DELIVER("seen")])])
    )
    with pytest.raises(ar.WorkflowError, match=r"round 3 is to begin with node 'c', .* workflow 'turns' has 'a'"):
        ar.rerun("run1", other, 3, prefix="fold", store=store)
    with pytest.raises(ar.UsageError):
        ar.rerun("run1", ar.CoreEngine(), 3, prefix="fold", store=store)


def test_a_step_of_no_workflow_cannot_go_on_as_one(store: EventStore) -> None:
    """The round before does not say which node comes next."""
    ar.agent("turns")(lambda i, context: ar.Continue() if i < 3 else ar.Complete(ask("x"))).run({}, store=store)
    with pytest.raises(ar.WorkflowError, match="round 3 is to begin with no node"):
        ar.rerun("run1", turns(7, ask), 3, prefix="fold", store=store)


@pytest.mark.parametrize("swallowed", [False, True])
def test_an_interrupted_workflow_is_resumed_in_its_node(store: EventStore, swallowed: bool) -> None:
    """The question stops the walk, even if the node swallows it; the answer is given to the visit that asked."""

    def sign(state: State, context: ar.Context) -> State:
        try:
            answer = context.interrupt("may it go?")
        except BaseException:
            if not swallowed:
                raise
            return {"letter": "swallowed"}
        return {"letter": f"{state['text']}: {answer}"}

    engine = engine_of(sign=sign)
    result = engine.run(START, store=store)
    assert (result.stop_reason, store.run("run1").status) == ("interrupt", "interrupted")
    made.clear()
    assert ar.resume("run1", engine, answers={"may it go?": "yes"}, store=store).value == "tea with 2 notes: yes"
    assert made == []
    assert ar.replay("run1", engine, store=store).verdict == "identical"


def test_concurrent_runs_of_one_engine_keep_apart(store: EventStore) -> None:
    """In threads and in tasks; each run has its own position."""
    engine = turns(5, ask)
    expected = ["a1", "b1", "c1", "a2", "b2"]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: engine.run({"seen": []}, store=store).value, range(8)))
    assert results == [expected] * 8

    async def all_of() -> list[Any]:
        return [one.value for one in await asyncio.gather(*(ENGINE.arun(START, store=store) for _ in range(4)))]

    assert asyncio.run(all_of()) == ["tea with 2 notes, signed in round 3"] * 4
    for number in range(1, 13):
        agent = engine if number <= 8 else ENGINE
        assert ar.replay(f"run{number}", agent, store=store).verdict == "identical"


@pytest.mark.parametrize("awaited", [False, True])
def test_a_workflow_is_a_sub_agent(store: EventStore, awaited: bool) -> None:
    """With its own log; what it brings back is merged, and all of it replays."""

    @ar.agent("chief")
    def plain(i: int, context: ar.Context) -> Any:
        done = context.run_agent(turns(4, ask), {"seen": []}, upstream=["*"])
        return ar.Complete([done.value, context.payload])

    @ar.agent("chief")
    async def chief(i: int, context: ar.Context) -> Any:
        done = await context.run_agent(ENGINE, START, upstream=["letter"])
        return ar.Complete([done.value, context.payload])

    agent = chief if awaited else plain
    result = asyncio.run(agent.arun({}, store=store)) if awaited else agent.run({}, store=store)
    letter = "tea with 2 notes, signed in round 3"
    assert result.value == (
        [letter, {"letter": letter}] if awaited else [["a1", "b1", "c1", "a2"], {"seen": ["a1", "b1", "c1", "a2"]}]
    )
    made.clear()
    assert ar.replay("run1", agent, store=store).verdict == "identical"
    assert made == []


def test_a_workflow_may_run_agents_in_its_nodes(store: EventStore) -> None:
    """A node runs an agent, or another engine, as a child run."""
    inner = turns(2, ask)

    def whole(state: State, context: ar.Context) -> State:
        return {"seen": context.run_agent(inner, {"seen": []}).value}

    engine = ar.CoreEngine(
        workflow=ar.define_workflow("outer", [ar.node("whole", run=whole, routes=[DELIVER("seen")])])
    )
    assert engine.run({}, store=store).value == ["a1", "b1"]
    assert [info.agent for info in store.runs()][::-1] in (["outer", "turns"], ["turns", "outer"])
    assert ar.replay("run1", engine, store=store).verdict == "identical"


def test_caches_are_there_as_they_were(store: EventStore) -> None:
    """`cache` lives as long as the run and is made again by executing it; `agent_cache` is what it was at its start."""

    def count(state: State, context: ar.Context) -> State:
        for cache in (context.cache, context.agent_cache):
            cache["n"] = cache.get("n", 0) + 1
        return {"seen": [*state["seen"], ask(f"{context.cache['n']} {context.agent_cache['n']}")]}

    end = DELIVER("seen", when=lambda state: len(state["seen"]) == 3)
    engine = ar.CoreEngine(
        workflow=ar.define_workflow("w", [ar.node("count", run=count, starts_round=True, routes=[end, TO("count")])])
    )
    assert engine.run({"seen": []}, store=store).value == ["1 1", "2 2", "3 3"]
    assert engine.run({"seen": []}, store=store).value == ["1 4", "2 5", "3 6"]
    assert ar.replay("run1", engine, store=store).verdict == "identical"
    assert ar.replay("run2", engine, store=store).verdict == "identical"
    assert ar.rerun("run2", engine, 3, store=store).value == ["1 4", "2 5", "3 6"]
    assert engine.cache == {"n": 6}


# -- the command line --------------------------------------------------------------------------------------------------

PROGRAM = """
import os
import time

import agentreplay as ar


@ar.tool(safety="pure")
def look(page):
    if page == 2 and not os.path.exists("seen"):
        open("seen", "w").close()
        time.sleep(60)
    return f"page {page}"


@ar.node("first", routes=[ar.route.to("second")])
def first(state):
    return {"pages": [look(1)]}


@ar.node("second", starts_round=True, routes=[ar.route.to("third")])
def second(state):
    return {"pages": [*state["pages"], look(2)]}


@ar.node("third", routes=[ar.route.deliver("pages")])
def third(state):
    return {"pages": [*state["pages"], look(3)]}


reader = ar.CoreEngine(workflow=ar.define_workflow("reading", [first, second, third]), capture="clock")


spare = ar.CoreEngine()


def elsewhere():
    return ar.CoreEngine(workflow=ar.define_workflow("hidden", [third, second, first]))


if __name__ == "__main__":
    reader.run({})
"""


def agentreplay(*arguments: str) -> tuple[int, str]:
    from agentreplay.cli import main

    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.output


def test_a_killed_workflow_is_resumed_by_the_code_that_recorded_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine in a file is known by its name there: `resume`, `replay` and `rerun` find it by themselves."""
    monkeypatch.chdir(tmp_path)
    Path("reading.py").write_text(PROGRAM)
    process = subprocess.Popen([sys.executable, "reading.py"], env={**os.environ, "PYTHONPATH": ""})
    while not os.path.exists("seen"):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signals.SIGKILL)
    process.wait()
    assert one(ar.open_store(), "run.started", "run1").data.entry_point == "reading.py:reader"
    code, output = agentreplay("resume", "run1")
    assert (code, "executing reading.py:reader, as recorded" in output) == (0, True), output
    assert ar.state_at("run1").payload == {"pages": ["page 1", "page 2", "page 3"]}
    code, output = agentreplay("replay", "run1")
    assert (code, "identical" in output) == (0, True), output
    code, output = agentreplay("rerun", "run1", "--step", "2", "--set", "/pages=[]", "--prefix", "fold")
    assert code == 0, output
    assert ar.state_at("@last").payload == {"pages": ["page 2", "page 3"]}
    assert ar.state_at("@last").decision["workflow"] == {
        "visited": [{"node": "first", "times": 1}, {"node": "second", "times": 1}, {"node": "third", "times": 1}]
    }
    code, output = agentreplay("run", "reading.py", "--payload", '{"pages": ["cover"]}')
    assert (code, ar.state_at("@last").value) == (0, ["page 1", "page 2", "page 3"])
    code, output = agentreplay("show", "run1")
    assert "“first → second”" in output
    assert "“second → third, delivers pages”" in output
    assert "node: third" in output


def test_an_engine_that_only_its_own_code_can_reach_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a function makes has no name from outside, and nothing else is called in its place."""
    monkeypatch.chdir(tmp_path)
    Path("seen").touch()
    code = PROGRAM.replace("    reader.run({})", "    elsewhere().run({'pages': []})").replace(
        "[third, second, first]", "[ar.node('third', run=third.run, routes=third.routes)]"
    )
    Path("reading.py").write_text(code)
    subprocess.run([sys.executable, "reading.py"], check=True)
    assert one(ar.open_store(), "run.started", "run1").data.entry_point == "reading.py:elsewhere.<locals>.hidden"
    code_, output = agentreplay("replay", "run1")
    assert (code_, "which only its own code can reach" in output) == (2, True), output
