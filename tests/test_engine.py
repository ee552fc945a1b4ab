"""The engine: workflows that run and are recorded, what goes wrong in them, and steps that run in it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.frozen import FrozenDict
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from recorded import log_of, one, outline
from workflows import CALLS, DELIVER, ENGINE, START, TO, State, ask, decisions, made


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


@pytest.fixture(autouse=True)
def nothing_made_yet() -> None:
    made.clear()


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
    assert made == CALLS
    going_on = {"step": "Retry", "reasoning": "draft → review → draft"}
    assert decisions(store) == [
        {
            **going_on,
            "workflow": {"next": "draft", "visited": [{"node": "draft", "times": 1}, {"node": "review", "times": 1}]},
        },
        {
            **going_on,
            "workflow": {"next": "draft", "visited": [{"node": "draft", "times": 2}, {"node": "review", "times": 2}]},
        },
        {
            "step": "Success",
            "terminate": True,
            "reasoning": "draft → review → sign, delivers letter",
            "workflow": {
                "visited": [{"node": "draft", "times": 3}, {"node": "review", "times": 3}, {"node": "sign", "times": 1}]
            },
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
    result = ar.CoreEngine(workflow=workflow).run(OrderedDict(x=1), store=store)
    assert (result.value, result.payload) == (2, {"x": 1, "y": 2})
    assert type(ar.state_at("run1", store=store).payload) is dict


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def failing(run: Any, *routes: ar.Route, **options: Any) -> ar.CoreEngine[Any]:
    nodes = [ar.node("n", run=run, routes=routes or (DELIVER("x"),), starts_round=True)]
    return ar.CoreEngine(workflow=ar.define_workflow("w", nodes), **options)


NEVER = ar.route.deliver("x", when=lambda state: False)


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


@pytest.mark.parametrize("state", [3, [1], {1: 2}])
def test_a_state_is_a_dict_with_texts_as_keys(store: EventStore, state: Any) -> None:
    """Anything else is refused before a run begins, wherever it is given."""
    with pytest.raises(ar.UsageError, match="the state of writing is a dict with texts as keys"):
        ENGINE.run(state, store=store)
    with pytest.raises(ar.UsageError, match="the state of writing is a dict with texts as keys"):
        asyncio.run(ENGINE.arun(state, store=store))
    assert store.runs() == []


def test_an_engine_is_called_what_its_runs_are() -> None:
    """And described by its class; calling it calls a round of it, as with any agent."""
    assert (ENGINE.name, ENGINE.__name__, ENGINE.__module__) == ("writing", "writing", "workflows")
    assert str(ENGINE.__doc__).startswith("Runs a workflow")
    assert ar.CoreEngine(name="mine").name == "mine"
    assert ar.CoreEngine(workflow=ENGINE.workflow, name="mine").name == "mine"  # type: ignore[arg-type]  # it has one


def test_a_workflow_that_is_none_is_refused() -> None:
    """An engine is told what it got instead."""
    with pytest.raises(ar.UsageError, match=r"workflow is what ar.define_workflow\(…\) makes, not dict"):
        ar.CoreEngine(workflow={"id": "w"})  # type: ignore[call-overload]  # the point


def test_a_node_may_remove_a_key_and_decide_for_itself(store: EventStore) -> None:
    """Through the context; what it changes there is there when its own changes come, and the way is decided last."""

    def tidy(state: State, context: ar.Context) -> State:
        context.change(remove="/scrap", reason="of no use")
        context.decide(step="Actions", reasoning="tidied up")
        return {"kept": [*context.payload]}

    nodes = [ar.node("tidy", run=tidy, routes=[DELIVER("kept")])]
    engine = ar.CoreEngine(workflow=ar.define_workflow("w", nodes))
    assert engine.run({"scrap": 1, "kept": None}, store=store).value == ["kept"]
    assert [one["reasoning"] for one in decisions(store)] == ["tidied up", "tidy, delivers kept"]


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


def test_what_a_visit_starts_belongs_to_it(store: EventStore) -> None:
    """Tasks and threads that go on beside the nodes after it, too; a child run belongs to no node."""

    async def start(state: State, context: ar.Context) -> None:
        mine = context.create_sub_flow_logger()

        async def later() -> None:
            for _ in range(20):
                await asyncio.sleep(0)
            assert context.create_sub_flow_logger() is mine
            context.report(f"task of {context.node}")

        tasks.append(asyncio.create_task(later()))

    async def then(state: State, context: ar.Context) -> None:
        await asyncio.to_thread(lambda: context.report(f"thread of {context.node}"))
        await asyncio.gather(*tasks)
        context.report(f"node {context.node}")
        await context.run_agent(ar.agent("child")(lambda i, child: ar.Complete(child.report(str(child.node)))), {})

    tasks: list[asyncio.Task[None]] = []
    nodes = [ar.node("start", run=start, routes=[TO("then")]), ar.node("then", run=then, routes=[DELIVER("x")])]
    asyncio.run(ar.CoreEngine(workflow=ar.define_workflow("w", nodes)).arun({"x": 1}, store=store))
    told = {event.data.message: event.data.node for event in store.events("run1") if event.kind == "report"}
    assert told == {
        "start": "start",
        "then": "then",
        "task of start": "start",
        "thread of then": "then",
        "node then": "then",
    }
    child = one(store, "report", "run2").data
    assert (child.message, child.node) == ("None", None)


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
