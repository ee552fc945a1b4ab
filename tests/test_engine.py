"""The engine: workflows that run, are recorded, replayed and taken up again, and steps that run in it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal as signals
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.frozen import FrozenDict
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay.changes import MISSING
from click.testing import CliRunner
from recorded import log_of, one, outline

State = dict[str, Any]
TO, DELIVER = ar.route.to, ar.route.deliver


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


# -- a workflow that goes in circles -----------------------------------------------------------------------------------


class Desk:
    """Two models, and how often they were really called."""

    def __init__(self) -> None:
        self.calls: list[str] = []


DESK = Desk()


@pytest.fixture(autouse=True)
def fresh_desk() -> None:
    DESK.calls.clear()


@ar.model
def write(topic: str, notes: list[str]) -> str:
    DESK.calls.append(f"write {topic} {len(notes)}")
    return f"{topic} with {len(notes)} notes"


@ar.model
async def judge(text: str) -> str | None:
    DESK.calls.append(f"judge {text}")
    await asyncio.sleep(0)
    return None if text.endswith("2 notes") else f"more about {text}"


def draft(state: State) -> State:
    """Write a text."""
    return {"text": write(state["topic"], state["notes"])}


async def review(state: State) -> State:
    note = await judge(state["text"])
    return {"good": True} if note is None else {"notes": [*state["notes"], note]}


def sign(state: State, context: ar.Context) -> State:
    return {"letter": f"{state['text']}, signed in round {context.round}"}


def nodes(**instead: Any) -> list[ar.Node[State]]:
    """The nodes, some of them with another function."""
    return [
        ar.node("draft", run=instead.get("draft", draft), starts_round=True, routes=[TO("review")]),
        ar.node(
            "review",
            run=instead.get("review", review),
            routes=instead.get("routes", [TO("sign", when=lambda state: state.get("good")), TO("draft")]),
        ),
        ar.node("sign", run=instead.get("sign", sign), routes=[DELIVER("letter")]),
    ]


def engine_of(name: str = "writing", max_rounds: int = 9, **instead: Any) -> ar.CoreEngine[State]:
    return ar.CoreEngine(workflow=ar.define_workflow(name, nodes(**instead)), max_rounds=max_rounds)


ENGINE = engine_of()
START = {"topic": "tea", "notes": []}
CALLS = [
    "write tea 0",
    "judge tea with 0 notes",
    "write tea 1",
    "judge tea with 1 notes",
    "write tea 2",
    "judge tea with 2 notes",
]


def decisions(store: EventStore, run: str = "@last") -> list[Any]:
    return [event.data.decision for event in log_of(store, run) if event.kind == "step.decided"]


def test_a_workflow_runs_round_by_round(store: EventStore) -> None:
    """Nodes follow each other in a round until one comes that starts the next; each decision says the way in words."""
    start = {"topic": "tea", "notes": []}
    result = ENGINE.run(start, store=store)
    assert start == {"topic": "tea", "notes": []}
    assert result.value == "tea with 2 notes, signed in round 3"
    assert result.payload == {
        "topic": "tea",
        "notes": ["more about tea with 0 notes", "more about tea with 1 notes"],
        "text": "tea with 2 notes",
        "good": True,
        "letter": "tea with 2 notes, signed in round 3",
    }
    assert (result.stop_reason, result.run.id, store.run("run1").agent, store.run("run1").steps) == (
        "endTurn",
        "run1",
        "writing",
        3,
    )
    assert DESK.calls == CALLS
    going_on = {"step": "Retry", "reasoning": "draft → review → draft"}
    assert decisions(store) == [
        {**going_on, "workflow": {"next": "draft", "visits": {"draft": 1, "review": 1}}},
        {**going_on, "workflow": {"next": "draft", "visits": {"draft": 2, "review": 2}}},
        {
            "step": "Success",
            "terminate": True,
            "reasoning": "draft → review → sign, delivers letter",
            "workflow": {"visits": {"draft": 3, "review": 3, "sign": 1}},
        },
    ]


def test_each_visit_is_told_before_its_node_runs(store: EventStore) -> None:
    """With the node, which visit of it this is, and what it does; what it changes names them, too."""
    ENGINE.run(START, store=store)
    assert outline(store)[11:] == [
        "round.started",
        "report draft (visit 2): Write a text.",
        "model.called 2.1 write",
        "model.returned 2.1",
        "payload.changed",
        "report review (visit 2)",
        "model.called 2.2 judge",
        "model.returned 2.2",
        "payload.changed",
        "step.decided",
        "round.finished continue",
        "round.started",
        "report draft (visit 3): Write a text.",
        "model.called 3.1 write",
        "model.returned 3.1",
        "payload.changed",
        "report review (visit 3)",
        "model.called 3.2 judge",
        "model.returned 3.2",
        "payload.changed",
        "report sign",
        "payload.changed",
        "step.decided",
        "round.finished complete",
    ]
    reports = [event.data for event in log_of(store) if event.kind == "report"]
    assert [(report.source, report.node, report.visit) for report in reports] == [
        ("node", "draft", 1),
        ("node", "review", 1),
        ("node", "draft", 2),
        ("node", "review", 2),
        ("node", "draft", 3),
        ("node", "review", 3),
        ("node", "sign", 1),
    ]
    changes = [event.data for event in log_of(store) if event.kind == "payload.changed"]
    assert changes[2].source == {"kind": "node", "node": "draft", "visit": 2}
    assert (changes[2].reason, changes[-1].reason) == ("draft", "sign")


def test_only_what_changed_is_passed_on_and_recorded(store: EventStore) -> None:
    """Keys with exactly the value that they have are left out, and of a nested value only what differs is recorded."""
    seen: list[Any] = []

    def change(state: State) -> Any:
        seen.append(state)
        return {**state, "deep": {**state["deep"], "n": 1.0}, "same": [1, {"x": 2}], "new": None}

    def look(state: State) -> Any:
        seen.append(state)
        return {}

    def nothing(state: State) -> Any:
        seen.append(state)

    workflow = ar.define_workflow(
        "w",
        [
            ar.node("change", run=change, routes=[TO("look")]),
            ar.node("look", run=look, routes=[TO("nothing")]),
            ar.node("nothing", run=nothing, routes=[DELIVER("deep")]),
        ],
    )
    start = {"deep": {"n": 1, "big": {"a": [1, 2]}}, "same": [1, {"x": 2}], "exact": Decimal("1.0")}
    result = ar.CoreEngine(workflow=workflow).run(start, store=store)
    change_ = one(store, "payload.changed").data
    assert change_.request == [
        {"op": "replace", "path": "/deep/n", "value": 1.0},
        {"op": "add", "path": "/new", "value": None},
    ]
    assert seen[1] is seen[2]
    assert seen[0]["deep"]["big"] is seen[1]["deep"]["big"]
    assert seen[0]["same"] is seen[1]["same"]
    assert json.dumps(result.value) == '{"n": 1.0, "big": {"a": [1, 2]}}'
    assert ar.state_at("run1", store=store).payload == {**start, "deep": {"n": 1.0, "big": {"a": [1, 2]}}, "new": None}


def test_a_state_may_have_keys_that_mark_tags(store: EventStore) -> None:
    """It is a dict like any other, for the nodes and in the record."""
    nodes = [
        ar.node("a", run=lambda state: {"$type": state["$type"] + "!", "n": 1}, routes=[TO("b")]),
        ar.node("b", run=lambda state: {"n": state["n"] + 1}, routes=[DELIVER("$type")]),
    ]
    result = ar.CoreEngine(workflow=ar.define_workflow("w", nodes)).run({"$type": "mine"}, store=store)
    assert (result.value, result.payload) == ("mine!", {"$type": "mine!", "n": 2})
    assert ar.state_at("run1", store=store).payload == {"$type": "mine!", "n": 2}


def test_one_equals_no_other_number_nor_true(store: EventStore) -> None:
    """Exactly equal means of the same type: 1, 1.0 and True are three values, `-0.0` is not 0.0."""
    turns: list[Any] = [1.0, True, 1, 1, -0.0, 0.0]

    def turn(state: State, context: ar.Context) -> Any:
        return {"n": turns[context.round - 1]}

    workflow = ar.define_workflow(
        "w",
        [
            ar.node(
                "turn",
                run=turn,
                starts_round=True,
                routes=[DELIVER("n", when=lambda state: len(turns) == len(store_rounds(store))), TO("turn")],
            )
        ],
    )
    ar.CoreEngine(workflow=workflow).run({"n": 1}, store=store)
    changes = [event.data.request[0]["value"] for event in log_of(store) if event.kind == "payload.changed"]
    assert [repr(value) for value in changes] == ["1.0", "True", "1", "-0.0", "0.0"]


def store_rounds(store: EventStore) -> list[Any]:
    return [event for event in store.events("@last") if event.kind == "round.started"]


def test_the_state_is_read_only_for_a_node(store: EventStore) -> None:
    """And for a condition; a state of another class than dict is taken as one, a mapping may be what a node returns."""

    def node(state: State) -> Any:
        with pytest.raises(ar.PayloadFrozen):
            state["x"] = 2
        return FrozenDict({"y": 2})

    def condition(state: State) -> bool:
        with pytest.raises(ar.PayloadFrozen):
            state.clear()
        return True

    workflow = ar.define_workflow("w", [ar.node("n", run=node, routes=[DELIVER("y", when=condition)])])
    from collections import OrderedDict

    result = ar.CoreEngine(workflow=workflow).run(OrderedDict(x=1), store=store)
    assert (result.value, result.payload) == (2, {"x": 1, "y": 2})
    assert type(ar.state_at("run1", store=store).payload) is dict


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def failing(run: Any, *routes: ar.Route, **options: Any) -> ar.CoreEngine[Any]:
    nodes = [ar.node("n", run=run, routes=routes or (DELIVER("x"),), starts_round=True)]
    return ar.CoreEngine(workflow=ar.define_workflow("w", nodes), **options)


NEVER = ar.route.deliver("x", when=lambda state: False)


async def truth() -> bool:
    return True


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (failing(lambda state: None, NEVER), "has no route that holds, of the route that delivers 'x'; add a last one"),
        (failing(lambda state: None), "delivers 'x', which the state does not have; it has a"),
        (failing(lambda state: [1]), "returned list; expected the keys of the state that change"),
        (failing(lambda state: ar.Complete(1)), "returned Complete; expected the keys of the state that change"),
        (failing(lambda state: {1: 2}), r"returned keys that are no texts: \[1\]"),
        (failing(lambda state, context: context.change(payload=3) and None), "something else than a dict"),
        (failing(lambda state: {}, ar.route.deliver("a", when=lambda s: Waits())), "a condition that is to be awaited"),
    ],
)
def test_what_a_node_cannot_mean_fails_the_run(store: EventStore, engine: ar.CoreEngine[Any], message: str) -> None:
    """With an error that names the workflow, the round and the node, and says what was expected."""
    with pytest.raises(ar.WorkflowError, match=f"workflow 'w', round 1: node 'n' .*{message}") as caught:
        engine.run({"a": 1}, store=store)
    assert (caught.value.node, caught.value.round) == ("n", 1)
    finished = log_of(store)[-1].data
    assert (finished.status, finished.stop_reason, finished.error.message) == ("failed", "error", str(caught.value))


class Waits:
    def __await__(self) -> Any:
        yield


def test_what_a_node_raises_is_raised_as_it_is(store: EventStore) -> None:
    """`StopIteration` too, also from a condition, plain or awaited; the run has failed where it was raised."""

    def raising(error: BaseException) -> Callable[[State], Any]:
        def run(state: State) -> Any:
            raise error

        return run

    def condition(error: BaseException) -> ar.Route:
        return ar.route.deliver("x", when=raising(error))

    for engine_with in (
        lambda error: failing(raising(error)),
        lambda error: failing(lambda state: None, condition(error)),
    ):
        for error in (KeyError("x"), StopIteration(3)):
            with pytest.raises(type(error)) as caught:
                engine_with(error).run({}, store=store)
            assert caught.value is error
            assert store.run("@last").status == "failed"


def test_a_workflow_is_bounded(store: EventStore) -> None:
    """A run that reaches its bound has failed, and says so in its result; a run may be given another one."""
    engine = failing(lambda state: None, NEVER, TO("n"), max_rounds=3)
    result = engine.run({}, store=store)
    assert (result.stop_reason, result.value, store.run("run1").steps) == ("limitTurns", None, 3)
    assert "w did not complete within 3 rounds (max_rounds)" in str(result.error)
    assert engine.run({}, max_rounds=2, store=store).metrics["cycleCount"] == 2
    with pytest.raises(ar.UsageError, match="max_rounds is at least 1, not 0"):
        ar.CoreEngine(max_rounds=0)


@pytest.mark.parametrize("state", [3, [1], {1: 2}])
def test_a_state_is_a_dict_with_texts_as_keys(store: EventStore, state: Any) -> None:
    """Anything else is refused before a run begins, wherever it is given."""
    with pytest.raises(ar.UsageError, match="the state of writing is a dict with texts as keys"):
        ENGINE.run(state, store=store)
    with pytest.raises(ar.UsageError, match="the state of writing is a dict with texts as keys"):
        asyncio.run(ENGINE.arun(state, store=store))
    assert store.runs() == []


def test_a_workflow_that_is_none_is_refused() -> None:
    """An engine is told what it got instead."""
    with pytest.raises(ar.UsageError, match=r"workflow is what ar.define_workflow\(…\) makes, not dict"):
        ar.CoreEngine(workflow={"id": "w"})  # type: ignore[call-overload]  # the point


# -- abort -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("awaited", [False, True])
def test_a_signal_ends_a_workflow_between_two_nodes(store: EventStore, awaited: bool) -> None:
    """The visit that is under way comes to its end, and what it changes is kept; the next does not begin."""
    signal = ar.Signal()

    def first(state: State, context: ar.Context) -> Any:
        assert context.signal.aborted is False
        signal.abort("enough")
        return {"x": 1}

    nodes = [
        ar.node("first", run=first, routes=[TO("second")]),
        ar.node("second", run=lambda state: {"x": 2}, routes=[DELIVER("x")]),
    ]
    engine = ar.CoreEngine(workflow=ar.define_workflow("w", nodes))
    if awaited:
        result = asyncio.run(engine.arun({}, signal=signal, store=store))
    else:
        result = engine.run({}, signal=signal, store=store)
    assert (result.stop_reason, result.payload, result.value) == ("cancelled", {"x": 1}, None)
    assert "the run was cancelled: enough" in str(result.error)


# -- replay ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("replays_awaited", [False, True])
def test_a_workflow_replays(store: EventStore, awaited: bool, replays_awaited: bool) -> None:
    """Recorded with `run` or in an event loop, replayed with either: identical, and nothing is called."""
    if awaited:
        asyncio.run(ENGINE.arun(START, store=store))
    else:
        ENGINE.run(START, store=store)
    DESK.calls.clear()
    if replays_awaited:
        result = asyncio.run(ar.areplay("run1", ENGINE, store=store))
    else:
        result = ar.replay("run1", ENGINE, store=store)
    assert (result.verdict, result.coverage.recorded, result.coverage.notes) == ("identical", 6, [])
    assert DESK.calls == []


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


# -- taken up again ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["execute", "fold"])
def test_a_workflow_is_run_again_from_every_step(store: EventStore, prefix: Any) -> None:
    """The round begins with the node that it began with, also where no round before it is executed."""
    ENGINE.run(START, store=store)
    for step, text in ((1, "coffee with 2 notes"), (2, "coffee with 2 notes"), (3, "coffee with 2 notes")):
        DESK.calls.clear()
        result = ar.rerun("run1", ENGINE, step, set={"/topic": "coffee"}, prefix=prefix, store=store)
        assert result.value == f"{text}, signed in round 3"
        assert DESK.calls == [call.replace("tea", "coffee") for call in CALLS[2 * step - 2 :]]
        fork = result.run.id
        assert decisions(store, fork)[-1]["workflow"] == {"visits": {"draft": 3, "review": 3, "sign": 1}}
        assert ar.replay(fork, ENGINE, store=store).verdict == "identical"
        assert ar.rerun(fork, ENGINE, 3, store=store).value == result.value


def turns(count: int, ask: Callable[[str], str]) -> ar.CoreEngine[Any]:
    """Nodes that each start a round, in a circle of three."""

    def visit(name: str) -> Callable[[State, ar.Context], Any]:
        return lambda state, context: {"seen": [*state["seen"], ask(f"{name}{context.visit}")]}

    end = DELIVER("seen", when=lambda state: len(state["seen"]) == count)
    return ar.CoreEngine(
        workflow=ar.define_workflow(
            "turns",
            [
                ar.node(one, run=visit(one), starts_round=True, routes=[end, TO(then)])
                for one, then in (("a", "b"), ("b", "c"), ("c", "a"))
            ],
        )
    )


@ar.tool(safety="pure")
def ask(what: str) -> str:
    DESK.calls.append(what)
    return what


def test_which_node_comes_next_is_in_the_state(store: EventStore) -> None:
    """A folded prefix goes on with the right node and the right visit of it, from each step."""
    engine = turns(7, ask)
    assert engine.run({"seen": []}, store=store).value == ["a1", "b1", "c1", "a2", "b2", "c2", "a3"]
    for step in range(1, 8):
        DESK.calls.clear()
        result = ar.rerun("run1", engine, step, prefix="fold", store=store)
        assert result.value == ["a1", "b1", "c1", "a2", "b2", "c2", "a3"]
        assert DESK.calls == ["a1", "b1", "c1", "a2", "b2", "c2", "a3"][step - 1 :]


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
    DESK.calls.clear()
    assert ar.resume("run1", engine, answers={"may it go?": "yes"}, store=store).value == "tea with 2 notes: yes"
    assert DESK.calls == []
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
    DESK.calls.clear()
    assert ar.replay("run1", agent, store=store).verdict == "identical"
    assert DESK.calls == []


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


# -- what a step is given ----------------------------------------------------------------------------------------------


def test_a_visit_has_one_sub_logger_and_reports_say_where_they_are(
    store: EventStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The same within one visit, another in the next; reports, lines and notes name the node and the visit."""
    caplog.set_level(logging.INFO)
    loggers: list[Any] = []

    def say(state: State, context: ar.Context) -> None:
        loggers.append(context.create_sub_flow_logger())
        assert context.create_sub_flow_logger() is loggers[-1]
        loggers[-1].info("a line")
        context.report("a report")
        context.diagnostics.note("a note")
        assert (context.node, context.visit) == ("say", context.round)

    again = ar.route.to("say", when=lambda state: len(loggers) < 4)
    nodes = [
        ar.node("say", run=say, starts_round=True, routes=[TO("then")]),
        ar.node(
            "then",
            run=lambda state, context: loggers.append(context.create_sub_flow_logger()),
            routes=[again, DELIVER("x")],
        ),
    ]
    engine = ar.CoreEngine(workflow=ar.define_workflow("w", nodes), logger=logging.getLogger("mine"))
    engine.run({"x": 1}, store=store)
    assert [logger.name for logger in loggers] == [
        "mine.round1.say",
        "mine.round1.then",
        "mine.round2.say",
        "mine.round2.then",
    ]
    reports = [event.data for event in log_of(store) if event.kind == "report" and event.data.source != "node"]
    assert [(report.source, report.message, report.node, report.visit) for report in reports] == [
        (source, message, "say", visit)
        for visit in (1, 2)
        for source, message in (("log", "a line"), ("report", "a report"), ("diagnostics", "a note"))
    ]
    assert ("mine.round1.say", logging.INFO, "a line") in caplog.record_tuples


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


# -- steps -------------------------------------------------------------------------------------------------------------


def counting(i: int, context: ar.Context) -> Any:
    """A step that says `Continue` twice."""
    context.agent_cache["rounds"] = context.agent_cache.get("rounds", 0) + 1
    if context.logger is not None:
        context.logger.info("round %d", i)
    return ar.Continue() if i < 3 else ar.Complete(ask(f"after {i}"))


async def counting_later(i: int, context: ar.Context) -> Any:
    return counting(i, context)


@pytest.mark.parametrize("step", [counting, counting_later])
@pytest.mark.parametrize("awaited", [False, True])
def test_an_engine_runs_a_step(store: EventStore, step: Any, awaited: bool) -> None:
    """Awaited or not, both outcomes; the run is named after the step, the cache is the engine's."""
    engine = ar.CoreEngine()
    result = asyncio.run(engine.arun(step, store=store)) if awaited else engine.run(step, store=store)
    assert (result.value, store.run("run1").agent, store.run("run1").steps) == ("after 3", step.__name__, 3)
    assert engine.cache == {"rounds": 3}
    assert ar.replay("run1", engine.agent(step), store=store).verdict == "identical"
    assert ar.rerun("run1", engine.agent(step), 2, store=store).value == "after 3"


def test_the_same_step_object_runs_every_round(store: EventStore) -> None:
    """What it keeps between rounds is there, and in every replay its own."""

    class Step:
        def __init__(self) -> None:
            self.calls: list[int] = []

        def __call__(self, i: int, context: ar.Context) -> Any:
            self.calls.append(i)
            return ar.Continue() if i < 3 else ar.Complete(ask(str(self.calls)))

    step = Step()
    assert ar.CoreEngine(name="counted").run(step, store=store).value == "[1, 2, 3]"
    assert store.run("run1").agent == "counted"
    assert ar.replay("run1", ar.CoreEngine().agent(Step()), store=store).verdict == "identical"


def test_what_an_engine_gives_a_step_is_recorded(store: EventStore) -> None:
    """The bound and the logger; so the step alone, as the command line finds it, replays."""
    engine = ar.CoreEngine(max_rounds=2, logger=logging.getLogger("mine"), tags=["nightly"])
    result = engine.run(counting, store=store)
    assert result.stop_reason == "limitTurns"
    started = one(store, "run.started").data
    assert (started.max_rounds, started.logger, started.tags) == (2, "mine", ["nightly"])
    alone = ar.agent("counting")(counting)
    with pytest.raises(ar.NothingCaptured):  # no effect was made: all else was the same
        ar.replay("run1", alone, store=store)
    assert ar.rerun("run1", alone, 2, max_rounds=3, store=store).value == "after 3"


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: ar.CoreEngine().run(), r"this engine has no workflow, .* engine.run\(step\)"),
        (lambda: ar.CoreEngine().run(3), r"this engine has no workflow"),
        (lambda: ar.CoreEngine().run(ENGINE), r"writing is an agent already: writing.run\(\)"),
        (lambda: ENGINE.agent(counting), r"writing runs its workflow, and is an agent itself"),
        (lambda: ENGINE.run(counting), r"the state of writing is a dict with texts as keys"),
        (lambda: ar.agent("a")(lambda i, c: c.run_agent(ar.CoreEngine(), {})).run(), "engine has no workflow"),
    ],
)
def test_an_engine_says_what_it_runs(
    use: Callable[[], Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step where it has a workflow, nothing where it has none: refused, with what to do."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ar.UsageError, match=message):
        use()


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
    assert ar.state_at("@last").decision["workflow"] == {"visits": {"first": 1, "second": 1, "third": 1}}
    code, output = agentreplay("run", "reading.py:reader", "--payload", '{"pages": ["cover"]}')
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
