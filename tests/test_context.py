"""The context: what a step sees, changes, decides, reads and says."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import random
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.errors import ChangeRefused, PayloadFrozen
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.recorder.values import decode
from recorded import kinds, log_of, one


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


def changes(store: EventStore) -> list[Any]:
    return [event.data for event in log_of(store) if event.kind == "payload.changed"]


# -- the payload -------------------------------------------------------------------------------------------------------


def test_the_payload_cannot_be_changed_in_place(store: EventStore) -> None:
    """Every mutator of every container raises, and names `context.change`."""
    with ar.record("a", {"d": {"x": 1}, "l": [1]}, store=store) as run:
        payload = run.payload
        for mutate in (
            lambda: payload.update(a=1),
            lambda: payload.pop("d"),
            lambda: payload["d"].clear(),
            lambda: payload["d"].setdefault("y", 2),
            lambda: payload.__setitem__("d", 1),
            lambda: payload["l"].append(2),
            lambda: payload["l"].sort(),
            lambda: payload["l"].__delitem__(0),
            lambda: payload["l"].__iadd__([1]),
        ):
            with pytest.raises(PayloadFrozen, match=r"context\.change"):
                mutate()
        assert run.payload is payload
        assert json.dumps(payload) == '{"d": {"x": 1}, "l": [1]}'
        mine = copy.deepcopy(payload)
        mine["l"].append(2)
        assert pickle.loads(pickle.dumps(payload)) == {"d": {"x": 1}, "l": [1]}
    assert changes(store) == []


def test_what_did_not_change_is_the_same_object_in_the_next_round(store: EventStore) -> None:
    """A step may compare parts of the payload by identity."""
    seen: list[Any] = []

    @ar.agent("a")
    def step(i: int, context: ar.Context) -> Any:
        seen.append(context.payload)
        assert context.payload is seen[-1]
        context.change(update={"n": i})
        return ar.Continue() if i < 3 else ar.Complete(None)

    step.run({"n": 0, "big": {"list": [{"x": 1}]}}, store=store)
    assert seen[0]["big"] is seen[1]["big"] is seen[2]["big"]
    assert [payload["n"] for payload in seen] == [0, 1, 2]


@pytest.mark.parametrize(
    ("given", "payload", "applier", "request_"),
    [
        ({"new": {"b": 2}}, {"a": {"x": 1}, "b": 2}, "memberjunction", {"newElements": {"b": 2}}),
        ({"update": {"a": {"x": 2}}}, {"a": {"x": 2}}, "memberjunction", {"updateElements": {"a": {"x": 2}}}),
        ({"replace": {"a": {}}}, {"a": {}}, "memberjunction", {"replaceElements": {"a": {}}}),
        ({"remove": "/a/x"}, {"a": {}}, "memberjunction", {"removeElements": {"a": {"x": "__DELETE__"}}}),
        (
            {"new": {"b": 2}, "remove": ["a"]},
            {"b": 2},
            "memberjunction",
            {"newElements": {"b": 2}, "removeElements": {"a": "__DELETE__"}},
        ),
        (
            {"patch": [{"op": "add", "path": "/b", "value": 2}]},
            {"a": {"x": 1}, "b": 2},
            "json-patch",
            [{"op": "add", "path": "/b", "value": 2}],
        ),
        ({"merge": {"a": None}}, {}, "merge-patch", {"a": None}),
        (
            {"payload": {"a": {"x": 1}, "c": 3}},
            {"a": {"x": 1}, "c": 3},
            "json-patch",
            [{"op": "add", "path": "/c", "value": 3}],
        ),
        ({"payload": None}, None, "json-patch", [{"op": "replace", "path": "", "value": None}]),
        (
            {"request": ar.PayloadChangeRequest(new_elements={"b": 2})},
            {"a": {"x": 1}, "b": 2},
            "memberjunction",
            {"newElements": {"b": 2}},
        ),
        (
            {"request": {"newElements": {"b": 2}}},
            {"a": {"x": 1}, "b": 2},
            "memberjunction",
            {"newElements": {"b": 2}},
        ),
    ],
)
def test_each_form_of_a_change(store: EventStore, given: Any, payload: Any, applier: str, request_: Any) -> None:
    """What was asked is recorded in the applier's form; the payload, returned and seen, is what came of it."""
    with ar.record("a", {"a": {"x": 1}}, store=store) as run:
        assert run.change(**given, reason="because") == payload
        assert run.payload == payload
    change = one(store, "payload.changed").data
    assert (change.applier, change.request) == ({"name": applier, "version": 1}, request_)
    assert (change.reason, change.source) == ("because", {"kind": "code"})
    assert ar.state_at("@last", store=store).payload == payload


@pytest.mark.parametrize(
    "given",
    [{}, {"reason": "none"}, {"new": {}, "patch": []}, {"payload": {}, "merge": {}}, {"request": {}, "new": {}}],
)
def test_a_change_takes_exactly_one_form(store: EventStore, given: Any) -> None:
    """None, and two, are refused before anything happens."""
    with ar.record("a", {}, store=store) as run, pytest.raises(ar.UsageError, match="takes one form"):
        run.change(**given)
    assert changes(store) == []


def test_a_request_is_in_the_form_of_the_runs_applier(store: EventStore) -> None:
    """With another applier, what a decision asks for is a patch; `new=` stays what it is."""

    @ar.agent("patcher", applier="json-patch")
    def step(i: int, context: ar.Context) -> Any:
        context.change([{"op": "add", "path": "/a", "value": 1}])
        context.change(new={"b": 2})
        return ar.NextStep(step="Success", payload_change_request=[{"op": "add", "path": "/c", "value": 3}])

    assert step.run({}, store=store).payload == {"a": 1, "b": 2, "c": 3}
    assert [change.applier["name"] for change in changes(store)] == ["json-patch", "memberjunction", "json-patch"]


def test_a_refused_change_changes_nothing_and_is_noted(store: EventStore) -> None:
    """The agent gets the refusal; the record says what was asked."""
    with ar.record("a", {"n": 1}, store=store) as run:
        with pytest.raises(ChangeRefused):
            run.change(patch=[{"op": "remove", "path": "/missing"}], reason="clean up")
        assert run.payload == {"n": 1}
    report = one(store, "report").data
    assert report.level == "error"
    assert report.message.startswith("a change was refused: json-patch: operation 0")
    assert report.content == {
        "applier": "json-patch",
        "request": [{"op": "remove", "path": "/missing"}],
        "reason": "clean up",
    }


def test_what_was_asked_and_did_not_come_is_a_visible_warning(
    store: EventStore, caplog: pytest.LogCaptureFixture
) -> None:
    """In the record, and through logging, with the run and the round."""
    with ar.record("a", {"items": [1]}, store=store) as run, run.round():
        run.change(update={"items": {"x": 2}, "n": 1})
    assert one(store, "payload.changed").data.warnings[-1] == (
        "requested, but not in the payload after the change: /items/x"
    )
    assert caplog.messages == ["run1, round 1: requested, but not in the payload after the change: /items/x"]


def test_a_models_request_is_held_to_the_same(store: EventStore, caplog: pytest.LogCaptureFixture) -> None:
    """What a decision asks for and the rules drop is named too."""
    with ar.record("a", {"items": [1]}, store=store) as run, run.round():
        run.decide(step="Retry", payloadChangeRequest={"updateElements": {"items": {"x": 2}}})
    assert caplog.messages == ["run1, round 1: requested, but not in the payload after the change: /items/x"]


@pytest.mark.parametrize("form", ["new", "merge", "payload", "decide"])
def test_permissions_hold_for_every_form(store: EventStore, form: str) -> None:
    """What the agent may not touch stays, whichever form asks; the log says what was denied, and folds to the same."""

    @ar.agent("restricted", allowed_paths=["open.*"])
    def step(i: int, context: ar.Context) -> Any:
        if form == "decide":
            context.decide(step="Retry", payloadChangeRequest={"newElements": {"closed": 1}})
        else:
            context.change(**{form: {"closed": 1} if form != "payload" else {"open": {}, "closed": 1}})
        return ar.Complete(None)

    result = step.run({"open": {}}, store=store)
    assert result.payload == {"open": {}}
    change = one(store, "payload.changed").data
    assert change.options == {"allowed_paths": ["open.*"]}
    assert [blocked["path"] for blocked in change.blocked] == ["closed"]
    assert one(store, "run.started").data.permissions == {"allowed_paths": ["open.*"]}
    assert ar.state_at("run1", store=store).payload == {"open": {}}


def test_strict_reports_what_the_rules_do_silently(store: EventStore) -> None:
    """The option reaches the log and the applier, in an agent and in a block."""

    @ar.agent("strict", strict=True)
    def step(i: int, context: ar.Context) -> Any:
        context.change(new={"m": "__DELETE__"})
        return ar.Complete(None)

    step.run({"n": 1}, store=store)
    with ar.record("strict", {"n": 1}, strict=True, store=store) as run:
        run.change(new={"m": "__DELETE__"})
    for name in ("run1", "run2"):
        change = one(store, "payload.changed", name).data
        assert change.options == {"strict": True}
        assert any(warning.startswith("[strict] ") for warning in change.warnings)
        assert ar.state_at(name, store=store).payload_hash == change.hash_after


def test_a_change_inside_a_call_names_the_call(store: EventStore) -> None:
    """Who asked is the call; a decision's change was asked by the model call of its round."""

    @ar.tool
    def act(context: ar.Context) -> None:
        context.change(new={"a": 1})

    @ar.model
    def ask() -> dict[str, Any]:
        return {"step": "Retry", "payloadChangeRequest": {"newElements": {"b": 2}, "reasoning": "it said so"}}

    with ar.record("a", {}, store=store) as run:
        with run.round():
            act(run)
            run.decide(ask())
        with run.round():
            run.decide(step="Retry", payloadChangeRequest={"newElements": {"c": 3}})
    assert [(change.source, change.reason) for change in changes(store)] == [
        ({"kind": "action", "call": "1.1"}, None),
        ({"kind": "model", "call": "1.2"}, "it said so"),
        ({"kind": "model"}, None),
    ]


def test_an_object_changed_in_place_is_recorded_at_the_end_of_the_round(store: EventStore) -> None:
    """What is no plain JSON can be mutated by the agent; the record says that it was, without being told."""
    with ar.record("a", {"seen": ({"n": 1},)}, store=store) as run, run.round():
        run.payload["seen"][0]["n"] = 2
    change = one(store, "payload.changed").data
    assert change.warnings == ["an object in the payload was changed in place; use context.change to say why"]
    assert ar.state_at("run1", 1, store=store).payload == {"seen": ({"n": 2},)}
    assert ar.state_at("run1", 0, store=store).payload == {"seen": ({"n": 1},)}


def test_threads_change_the_payload_one_at_a_time(store: EventStore) -> None:
    """No change is lost, and the log folds to what the agent has."""
    with ar.record("a", {"items": []}, store=store) as run, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: run.change(new={"items": [n]}), range(50)))
        assert sorted(run.payload["items"]) == list(range(50))
        last = list(run.payload["items"])
    assert ar.state_at("run1", store=store).payload == {"items": last}


# -- input and messages ------------------------------------------------------------------------------------------------


def test_input_and_params_are_frozen_copies(store: EventStore) -> None:
    """Later mutation by the caller does not reach the agent, nor the other way round."""
    given: dict[str, Any] = {"items": [1]}
    params: dict[str, Any] = {"deep": {"n": 1}}
    with ar.record("a", input=given, params=params, store=store) as run:
        given["items"].append(2)
        params["deep"]["n"] = 2
        assert run.input == {"items": [1]}
        assert run.params == {"deep": {"n": 1}}
        with pytest.raises(PayloadFrozen):
            run.input["items"].append(3)
        with pytest.raises(PayloadFrozen):
            run.params["x"] = 1  # type: ignore[index]  # the point
    started = one(store, "run.started").data
    assert (started.input, started.params) == ({"items": [1]}, {"deep": {"n": 1}})
    with pytest.raises(ar.UsageError, match="keys of params"), ar.record("a", params={1: 2}, store=store):  # type: ignore[dict-item]  # the point
        pass


def test_messages_are_appended_and_replaced(store: EventStore) -> None:
    """The conversation reads like a sequence; a compaction is an edit of it."""
    with ar.record("a", store=store) as run:
        messages = run.messages
        mine = {"role": "user", "content": ["a"]}
        messages.append(mine)
        mine["content"] = "later"
        for text in "bcd":
            messages.append({"role": "user", "content": text})
        messages.replace([{"role": "system", "content": "summary"}], 0, 2, why="compaction")
        messages.replace([{"role": "user", "content": "x"}], start=-1)
        messages.replace([{"role": "user", "content": "y"}], start=5, stop=2)
        assert len(messages) == 4
        assert [message["content"] for message in messages] == ["summary", "c", "x", "y"]
        assert (messages[0]["role"], messages[-1]["content"], messages[1:3]) == (
            "system",
            "y",
            [messages[1], messages[2]],
        )
        with pytest.raises(PayloadFrozen):
            messages[0]["role"] = "user"
        assert run.result is None
    events = log_of(store)
    assert events[1].data.message == {"role": "user", "content": ["a"]}
    replaced = [event.data for event in events if event.kind == "messages.replaced"]
    assert [(data.start, data.stop, data.why) for data in replaced] == [
        (0, 2, "compaction"),
        (2, 3, None),
        (3, 3, None),
    ]
    assert [message["content"] for message in ar.state_at("run1", store=store).messages] == ["summary", "c", "x", "y"]
    assert run.result is not None
    assert run.result.last_message == {"role": "user", "content": "y"}


def test_a_model_is_given_the_messages_as_they_are(store: EventStore) -> None:
    """Frozen messages in a request are stored once each, and come back plain."""

    @ar.model
    def ask(messages: list[Any]) -> str:
        return "ok"

    with ar.record("a", store=store) as run:
        for text in "ab":
            run.messages.append({"role": "user", "content": text})
            ask(list(run.messages))
    requests = [event.data.request for event in log_of(store) if event.kind == "model.called"]
    assert requests[1] == {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}
    row = list(store.rows("run1"))[5]
    assert len(row.conversations["messages"]) == 2


# -- decisions ---------------------------------------------------------------------------------------------------------


def test_a_decision_is_recorded_and_carried_out(store: EventStore) -> None:
    """Scratchpad, memory, skills, plan and media become their events, and parts of the state."""
    decision = {
        "step": "sub-agent",
        "reasoning": "why",
        "scratchpad": {"notes": "n1", "taskList": {"upsert": [{"id": 1, "text": "a"}, {"id": "1", "text": "b"}]}},
        "memoryWrites": [{"type": "Preference", "note": "likes tea"}],
        "skillActivations": {"name": "sql"},
        "planDetails": {"goal": "done"},
        "promoteMediaOutputs": [{"id": 7}],
        "myOwn": 1,
    }
    with ar.record("a", {}, store=store) as run:
        with run.round():
            step = run.decide(decision, raw="the text")
            assert step.step == "Sub-Agent"
        with run.round():
            run.decide(
                step="Plan",
                scratchpad={"taskList": {"upsert": [{"id": 1, "done": True}], "remove": ["1", {"id": [2]}]}},
            )
        assert run.scratchpad == {"notes": "n1", "taskList": [{"id": 1, "text": "a", "done": True}]}
        with run.round():
            run.decide(step="Plan", scratchpad="only notes")
        with pytest.raises(PayloadFrozen):
            run.scratchpad["notes"] = 1  # type: ignore[index]  # the point
    decided = next(event.data for event in log_of(store) if event.kind == "step.decided")
    assert decided.decision == {**decision, "step": "Sub-Agent"}
    assert decided.raw == "the text"
    state = ar.state_at("run1", 2, store=store)
    assert state.scratchpad == {"notes": "n1", "taskList": [{"id": 1, "text": "a", "done": True}]}
    assert state.memory == [{"type": "Preference", "note": "likes tea"}]
    assert (state.skills, state.plan, state.media) == ([{"name": "sql"}], {"goal": "done"}, [{"id": 7}])
    assert ar.state_at("run1", store=store).scratchpad["notes"] == "only notes"


def test_a_decision_may_be_given_in_parts(store: EventStore) -> None:
    """Fields may be added to a decision; what is none is refused."""
    with ar.record("a", {}, store=store) as run, run.round():
        base = ar.NextStep(step="Retry", message="m")
        assert run.decide(base) is base
        assert run.decide(base, reasoning="r").document() == {"step": "Retry", "message": "m", "reasoning": "r"}
        assert run.decide({"step": "Retry"}, message="x").message == "x"
        for wrong in ({}, {"step": 3}, {"message": "no step"}):
            with pytest.raises(ar.UsageError, match="no decision"):
                run.decide(wrong)
    assert len([kind for kind in kinds(store) if kind == "step.decided"]) == 3


# -- reads -------------------------------------------------------------------------------------------------------------


def test_what_is_read_is_recorded_with_its_place(store: EventStore) -> None:
    """Clock, chance, ids and values of one's own, each with the user's line."""
    with ar.record("a", store=store) as run:
        now = run.now()
        unique = run.uuid4()
        setting = run.read("setting", lambda: {"limit": Decimal("1.5")})
        number = run.random.random()
    line = test_what_is_read_is_recorded_with_its_place.__code__.co_firstlineno + 3
    reads = [event.data for event in log_of(store) if event.kind == "value.read"]
    assert [read.source for read in reads] == ["clock", "uuid", "setting", "random"]
    assert [read.site for read in reads] == [f"test_context.py:{line + n}" for n in range(4)]
    assert [decode(read.value) for read in reads] == [now, unique, setting, number]
    assert (now.tzinfo, type(unique), type(now)) == (UTC, uuid.UUID, datetime)


def test_every_draw_is_recorded(store: EventStore) -> None:
    """Whatever `random.Random` offers draws through the two recorded ways, and twice the same draws give the same."""
    with ar.record("a", store=store) as run:
        chance = run.random
        chance.seed(7)
        drawn = [
            chance.random(),
            chance.randint(1, 6),
            chance.choice("abc"),
            chance.sample(range(100), 3),
            chance.gauss(0, 1),
            chance.uniform(1, 2),
            chance.randbytes(3),
            chance.choices("ab", k=2),
        ]
        items = [1, 2, 3]
        chance.shuffle(items)
        drawn.append(items)

        class Twin(random.Random):
            def __init__(self, values: list[Any]) -> None:
                self.values = iter(values)

            def random(self) -> float:
                return next(self.values)

            def getrandbits(self, k: int, /) -> int:
                return next(self.values)

        reads = [decode(event.data.value) for event in store.events("run1") if event.kind == "value.read"]
        twin = Twin(reads)
        twin.gauss_next = None  # type: ignore[attr-defined]  # what seeding sets
        again = [
            twin.random(),
            twin.randint(1, 6),
            twin.choice("abc"),
            twin.sample(range(100), 3),
            twin.gauss(0, 1),
            twin.uniform(1, 2),
            twin.randbytes(3),
            twin.choices("ab", k=2),
        ]
        items = [1, 2, 3]
        twin.shuffle(items)
        again.append(items)
        assert again == drawn
        with pytest.raises(ar.UsageError, match="belongs to its run"):
            pickle.dumps(chance)


def test_built_in_sources_keep_their_names(store: EventStore) -> None:
    """A value of one's own cannot pass for the clock; what fails to be read is not recorded."""
    with ar.record("a", store=store) as run:
        for name in ("clock", "random", "uuid", "env"):
            with pytest.raises(ar.UsageError, match=name):
                run.read(name, lambda: 1)
        with pytest.raises(ZeroDivisionError):
            run.read("broken", lambda: 1 // 0)
    assert kinds(store) == ["run.started", "run.finished"]


# -- saying ------------------------------------------------------------------------------------------------------------


def test_what_a_step_says_is_recorded(store: EventStore, caplog: pytest.LogCaptureFixture) -> None:
    """Reports, lines of a log and notes are events of the round; the lines go to Python's logging as well."""
    caplog.set_level(logging.DEBUG)

    @ar.agent("talker", logger=True)
    def step(i: int, context: ar.Context) -> Any:
        context.report("half way")
        context.report({"progress": 0.5})
        context.logger.info("found %d orders", 3, order="A-17")
        context.logger.warning("100 % sure")
        context.logger.error("wrong %d", "arguments")
        context.logger.debug("detail")
        context.logger.log(25, "between")
        context.diagnostics.note("slow", seconds=3)
        assert (context.diagnostics.run, context.diagnostics.round, context.run_id, context.round) == (
            "run1",
            1,
            "run1",
            1,
        )
        part = context.create_sub_flow_logger()
        assert context.create_sub_flow_logger() is part
        part.info("in a part")
        context.event("x.mood", mood="good")
        return ar.Complete(None)

    step.run(store=store)
    reports = [event.data for event in log_of(store) if event.kind == "report"]
    assert [(report.source, report.level, report.message, report.content) for report in reports] == [
        ("report", None, "half way", None),
        ("report", None, None, {"progress": 0.5}),
        ("log", "info", "found 3 orders", {"order": "A-17"}),
        ("log", "warning", "100 % sure", None),
        ("log", "error", "wrong %d ('arguments',)", None),
        ("log", "debug", "detail", None),
        ("log", "level 25", "between", None),
        ("diagnostics", None, "slow", {"seconds": 3}),
        ("log", "info", "in a part", None),
    ]
    assert one(store, "x.mood").data.model_dump() == {"mood": "good"}
    assert ("agentreplay.agent.talker", logging.INFO, "found 3 orders") in caplog.record_tuples
    assert ("agentreplay.agent.talker.round1", logging.INFO, "in a part") in caplog.record_tuples
    assert Path(caplog.records[0].pathname).name == "test_context.py"


def test_a_sub_logger_lives_for_a_round(store: EventStore) -> None:
    """In a block of one's own as well."""
    with ar.record("a", logger=True, store=store) as run:
        loggers = []
        for _ in range(2):
            with run.round() as r:
                loggers.append(r.create_sub_flow_logger())
                assert r.create_sub_flow_logger() is loggers[-1]
    assert [logger.name for logger in loggers] == ["agentreplay.agent.a.round1", "agentreplay.agent.a.round2"]


@pytest.mark.parametrize("name", ["mood", "x.", "x", "tool.called"])
def test_events_of_ones_own_have_names_of_their_own(store: EventStore, name: str) -> None:
    """A kind of ours cannot be forged."""
    with ar.record("a", store=store) as run, pytest.raises(ar.UsageError, match=r"x\.<name>"):
        run.event(name, n=1)
    assert kinds(store) == ["run.started", "run.finished"]


def test_a_signal_keeps_the_first_reason() -> None:
    """However many threads abort at once."""
    for _ in range(20):
        signal = ar.Signal()
        barrier = threading.Barrier(4)

        def abort(n: int, signal: ar.Signal = signal, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            signal.abort(n)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(abort, range(4)))
        assert signal.aborted
        assert signal.reason in range(4)
        assert str(signal.cancellation()) == f"the run was cancelled: {signal.reason}"


# -- the logger --------------------------------------------------------------------------------------------------------


def says(i: int, context: ar.Context) -> Any:
    """A step that tells its logger, if it has one, and a logger of its round."""
    if context.logger is not None:
        context.logger.info("to %s", context.logger.name)
    part = context.create_sub_flow_logger()
    part.info("to %s", part.name)
    return ar.Complete(context.logger is None)


def lines(store: EventStore, run: str = "@last") -> list[str]:
    return [event.data.message for event in log_of(store, run) if event.kind == "report"]


def test_a_logger_is_there_only_if_one_was_given(store: EventStore, caplog: pytest.LogCaptureFixture) -> None:
    """It is never inferred from the diagnostics, which are there; a part's lines are recorded and go nowhere else."""
    caplog.set_level(logging.DEBUG)
    assert ar.agent("a")(says).run(store=store).value is True
    assert ar.agent("a", logger=False)(says).run(store=store).value is True
    with ar.record("a", store=store) as run, run.round() as r:
        assert says(1, r) == ar.Complete(True)
        r.diagnostics.note("a note")
    assert lines(store, "run1") == lines(store, "run2") == ["to agentreplay.agent.a.round1"]
    assert lines(store) == ["to agentreplay.agent.a.round1", "a note"]
    assert caplog.messages == []


MINE = logging.getLogger("mine")


@pytest.mark.parametrize(
    ("of_agent", "of_run", "name"),
    [
        (True, None, "agentreplay.agent.a"),
        (MINE, None, "mine"),
        (None, True, "agentreplay.agent.a"),
        (None, MINE, "mine"),
        (True, MINE, "mine"),
        (MINE, True, "agentreplay.agent.a"),
        (MINE, False, None),
        (None, logging.getLogger(), "root"),
    ],
)
def test_a_logger_is_given_to_an_agent_or_to_a_run(
    store: EventStore, caplog: pytest.LogCaptureFixture, of_agent: Any, of_run: Any, name: str | None
) -> None:
    """A run's own goes before; lines are recorded and go on to it. A replay has it, too, though nobody gives it one."""
    caplog.set_level(logging.DEBUG)
    agent = ar.agent("a", logger=of_agent)(says)
    assert agent.run(store=store, logger=of_run).value is (name is None)
    expected = [f"to {name}", f"to {name}.round1"] if name is not None else ["to agentreplay.agent.a.round1"]
    assert lines(store) == expected
    whose = {"root": ["root", "round1"]}.get(str(name), [name, f"{name}.round1"])
    told = [(logger, message) for logger, _, message in caplog.record_tuples]
    assert told == ([] if name is None else list(zip(whose, expected, strict=True)))
    assert one(store, "run.started").data.logger == (None if of_run is None else name or "")
    with pytest.raises(ar.NothingCaptured):  # all was the same, and there was no effect
        ar.replay("run1", agent, store=store)


@pytest.mark.parametrize("part", [False, True])
def test_lines_go_on_to_the_logger_once(store: EventStore, caplog: pytest.LogCaptureFixture, part: bool) -> None:
    """A replay touches no handler; a re-run, a fold and a resumed run give it what they do live."""
    caplog.set_level(logging.DEBUG)

    @ar.agent("a", logger=MINE)
    def counts(i: int, context: ar.Context) -> Any:
        logger = context.create_sub_flow_logger() if part else context.logger
        logger.info("round %d", i)
        context.now()
        if i == 3:
            context.interrupt("go on?")
            logger.info("answered")
        return ar.Continue() if i < 3 else ar.Complete(i)

    def told() -> list[str]:
        found = list(caplog.messages)
        caplog.clear()
        return found

    (question,) = counts.run(store=store).interrupts
    assert told() == ["round 1", "round 2", "round 3"]
    ar.resume("run1", counts, answers={question.id: "yes"}, store=store)
    assert told() == ["answered"]
    assert ar.replay("run1", counts, store=store).verdict == "identical"
    assert told() == []
    for prefix in ("execute", "fold"):
        ar.rerun("run1", counts, 2, store=store, prefix=prefix)  # type: ignore[arg-type]  # each is a prefix
        assert told() == ["round 2", "round 3"]
        assert lines(store) == ["round 1", "round 2", "round 3"]


def test_a_logger_of_no_hierarchy_gets_the_lines_of_parts_itself(store: EventStore) -> None:
    """One that was made by its class has no children of its own."""
    told: list[str] = []
    alone = logging.Logger("alone")
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]  # no file is needed
    alone.addHandler(handler)
    with ar.record("a", logger=alone, store=store) as run, run.round() as r:
        says(1, r)
    assert told == lines(store) == ["to alone", "to alone.round1"]


@pytest.mark.parametrize("logger", ["mine", 1, logging])
def test_what_is_no_logger_is_refused(store: EventStore, logger: Any) -> None:
    """Wherever it is given, and before anything is recorded."""
    for give in (
        lambda: ar.agent("a", logger=logger)(says),
        lambda: ar.agent("a")(says).run(logger=logger, store=store),
        lambda: ar.record("a", logger=logger, store=store),
        lambda: ar.CoreEngine(logger=logger),
        lambda: ar.join("run1", logger=logger, store=store),
    ):
        with pytest.raises(ar.UsageError, match=r"logger is a logging.Logger, or True for agentreplay.agent.NAME, not"):
            give()
    assert store.runs() == []
