"""A recording is laid out as what code will ask: by round, call and task, each thing to be met once and in order."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from agentreplay.replay.script import RecordedCall, Script, Strand, key_of
from event_builder import EventBuilder, build
from hypothesis import given
from hypothesis import strategies as st

MAIN = Strand(1, None, "0")


def script_of(log: EventBuilder) -> Script:
    return Script(log.events)


def asked(script: Script, name: str, arguments: Any, strand: Strand = MAIN, kind: str = "tool") -> str | None:
    """Ask for a call as code does: the id of the one that it is, which is not given again."""
    found = script.find(kind, name, key_of(arguments), strand)
    if found is not None:
        found.asked = True
    return None if found is None else found.call


def ids(calls: list[RecordedCall]) -> list[str]:
    return [call.call for call in calls]


def test_a_call_is_found_by_what_it_asks() -> None:
    """In its round, within the same call, by kind, name and arguments; the order of keys says nothing."""
    log = EventBuilder({})
    log.begin()
    log.call("1.1", "look", arguments={"a": 1, "b": {"c": [1, 2]}})
    log.give("1.1", result=1)
    log.call("1.2", "look", "model", request={"a": 1, "b": {"c": [1, 2]}})
    log.give("1.2", "model", response=2)
    log.add("tool.called", within="1.1", call="1.3", name="look", arguments={"a": 2})
    log.end()
    log.begin()
    log.call("2.1", "look", arguments={"a": 2})
    script = script_of(log)
    same = {"b": {"c": [1, 2]}, "a": 1}
    assert asked(script, "look", same | {"a": 1.0}) is None
    assert asked(script, "look", same | {"a": True}) is None
    assert asked(script, "look", {"b": {"c": [2, 1]}, "a": 1}) is None
    assert asked(script, "find", same) is None
    assert asked(script, "look", same, Strand(2, None, "0")) is None
    assert asked(script, "look", same) == "1.1"
    assert asked(script, "look", same) is None
    assert asked(script, "look", same, kind="model") == "1.2"
    assert asked(script, "look", {"a": 2}) is None
    assert asked(script, "look", {"a": 2}, Strand(1, "1.1", "0")) == "1.3"
    assert asked(script, "look", {"a": 2}, Strand(2, None, "0")) == "2.1"
    assert script.calls["2.1"].ended is None


def in_task(log: EventBuilder, task: str, kind: str, **data: Any) -> None:
    log.events.append(build(len(log.events), log.round, kind, data, task=task))


def test_of_equal_calls_that_of_the_same_task_is_meant() -> None:
    """Else the first that is left, so that calls may be made in other tasks than they were."""
    log = EventBuilder({})
    log.begin()
    for number, task in enumerate(("0.1:0", "0.1:1", "0", "0.1:1"), 1):
        in_task(log, task, "tool.called", call=f"1.{number}", name="look", arguments={})
    script = script_of(log)
    strands = [Strand(1, None, task) for task in ("0.1:1", "0", "0.1:1", "0.1:7", "0")]
    assert [asked(script, "look", {}, strand) for strand in strands] == ["1.2", "1.3", "1.4", "1.1", None]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=12), st.randoms(use_true_random=False))
def test_each_call_is_found_once_in_whatever_order_code_asks(calls: list[tuple[int, int]], chance: Any) -> None:
    """Calls of some tasks, many of them equal: asked in any order, each is found, in its task, in the order there."""
    log = EventBuilder({})
    log.begin()
    for number, (task, what) in enumerate(calls):
        in_task(log, f"0.1:{task}", "tool.called", call=f"1.{number}", name="look", arguments={"what": what})
    script = script_of(log)
    left = {task: [f"1.{n}" for n, call in enumerate(calls) if call[0] == task] for task in range(3)}
    order = list(range(len(calls)))
    chance.shuffle(order)
    found: dict[int, list[str | None]] = {0: [], 1: [], 2: []}
    for number in order:
        task, what = calls[number]
        found[task].append(asked(script, "look", {"what": what}, Strand(1, None, f"0.1:{task}")))
    for task, whole in left.items():
        assert sorted(map(str, found[task])) == sorted(whole)
        for wanted in range(3):
            mine = [f"1.{n}" for n, call in enumerate(calls) if call == (task, wanted)]
            assert [call for call in found[task] if call in mine] == mine
    assert script.unasked(MAIN) == []


def test_what_was_not_asked_for_is_known_in_order() -> None:
    """Of the round and within the call; what was told as missed counts no more, and those inside count there."""
    log = EventBuilder({})
    log.begin()
    for call in ("1.1", "1.2", "1.3"):
        log.call(call, arguments={"n": call})
    log.add("tool.called", within="1.2", call="1.4", name="inner", arguments={})
    script = script_of(log)
    assert ids(script.unasked(MAIN)) == ["1.1", "1.2", "1.3"]
    assert ids(script.unasked(Strand(1, "1.2", "0"))) == ["1.4"]
    asked(script, "lookup", {"n": "1.2"})
    script.calls["1.3"].missed = True
    assert ids(script.unasked(MAIN)) == ["1.1"]
    assert ids(script.unasked(Strand(2, None, "0"))) == []
    assert ids(list(script.with_those_inside(script.calls["1.2"]))) == ["1.2", "1.4"]


def test_a_call_overtakes_those_of_its_own_task_only() -> None:
    """Tasks do not wait for each other; one that asks for its second call before its first has changed its order."""
    log = EventBuilder({})
    log.begin()
    for number, task in enumerate(("0", "0.1:0", "0", "0"), 1):
        in_task(log, task, "tool.called", call=f"1.{number}", name="look", arguments={"n": number})
    script = script_of(log)
    first, of_another, second, third = script.calls.values()
    assert script.overtaken(of_another) is None
    assert script.overtaken(second) is first
    second.asked = True
    assert script.overtaken(first) is None
    first.asked = True
    assert script.overtaken(third) is None


def test_reads_and_questions_are_met_one_after_the_other() -> None:
    """Reads by strand and source, questions by round and name; each once, and what is left is known."""
    log = EventBuilder({})
    log.begin()
    log.add("value.read", source="clock", value=1)
    log.add("value.read", source="limit", value=7)
    log.add("value.read", source="clock", value=2)
    log.add("interrupt.raised", interrupt="1.ok.1", name="ok", reason=None)
    log.add("interrupt.raised", interrupt="1.ok.2", name="ok", reason=None)
    log.add("interrupt.answered", interrupt="1.ok.1", response="yes")
    script = script_of(log)

    def value(source: str) -> Any:
        event = script.read(MAIN, source, None)
        return None if event is None else event.data.value

    assert [value("clock"), value("clock"), value("clock"), value("limit")] == [1, 2, None, 7]
    questions = script.round(1).questions
    assert script.has_unmet(questions)
    first = script.question(1, "ok")
    assert first is not None
    assert (first.data.interrupt, script.responses) == ("1.ok.1", {"1.ok.1": "yes"})
    assert [event.data.interrupt for event in script.unmet(questions, before=first.seq)] == []
    assert [event.data.interrupt for event in script.unmet(questions)] == ["1.ok.2"]
    assert script.next_unmet(questions) is None
    assert not script.has_unmet(questions)


def test_child_runs_are_met_wherever_they_begin() -> None:
    """Those of a strand first; what other tasks of the round have started is beside it."""
    log = EventBuilder({})
    log.begin()
    in_task(log, "0", "subrun.started", run="u1", name="a")
    in_task(log, "0.1:1", "subrun.started", run="u2", name="b")
    in_task(log, "0.1:0", "subrun.started", run="u3", name="c")
    in_task(log, "0", "subrun.finished", run="u1", status="completed")
    script = script_of(log)
    assert [event.data.run for event in script.children[MAIN]] == ["u1"]
    assert [event.data.run for event in script.children_beside(MAIN)] == ["u2", "u3"]
    script.begun(script.children_beside(MAIN)[0])
    assert [event.data.run for event in script.children_beside(MAIN)] == ["u3"]
    assert [event.data.run for event in script.unmet(script.round(1).children)] == ["u1", "u3"]
    started, _, other, finished = log.events[2:6]
    assert [script.has_child(event.data) for event in (started, other, finished)] == [True, True, True]
    assert not script.has_child(finished.data.model_copy(update={"status": "failed"}))


def test_a_call_that_was_made_again_is_one_call() -> None:
    """The process that resumed the run made a second attempt; its answer counts, and the interruption does not."""
    log = EventBuilder({})
    log.begin()
    log.call("1.1", arguments={})
    log.add("payload.changed", within="1.1", applier=log.applier, hash_before="a", hash_after="b")
    log.end("interrupted")
    log.add("run.suspended", reason="interrupt")
    log.add("run.resumed", answers={"1.ok.1": 5})
    script = script_of(log)
    assert (script.calls["1.1"].ended, script.round(1).finished) == (None, None)
    assert script.changes_inside(script.calls["1.1"]) == []
    log.call("1.1", arguments={}, attempt=2)
    log.add("payload.changed", within="1.1", applier=log.applier, hash_before="b", hash_after="c")
    log.give("1.1", result=3)
    log.end()
    log.finish()
    script = script_of(log)
    (call,) = script.calls.values()
    assert call.ended is not None
    assert (call.called.data.attempt, call.ended.data.result) == (1, 3)
    assert [event.data.hash_after for event in script.changes_inside(call)] == ["c"]
    assert (script.round(1).outcome, script.payload_hash, script.responses) == ("continue", "c", {"1.ok.1": 5})
    assert [script.meets(MAIN, "round.finished") for _ in range(2)] == [True, False]
    assert script.finished is log.events[-1]


def test_what_joined_processes_did_is_no_part_of_the_script() -> None:
    """The code that is executed did not do it, so it is not expected to do it again."""
    log = EventBuilder({})
    log.begin()
    log.call("1.1", arguments={})
    log.give("1.1")
    log.add("writer.joined", writer="w1")
    in_task(log, "w1", "tool.called", call="w1.1", name="lookup", arguments={"n": 1})
    in_task(log, "w1.0", "tool.returned", call="w1.1", result=1)
    in_task(log, "w10", "value.read", source="clock", value=1)
    script = script_of(log)
    assert list(script.calls) == ["1.1"]
    assert ids(script.unasked(MAIN)) == ["1.1"]
    assert [event.data.call for event in script.wakes] == ["1.1"]
    assert script.last is log.events[-1]
    assert script.read(Strand(1, None, "w10"), "clock", None) is log.events[-1]


def test_an_answer_that_came_too_late_is_superseded() -> None:
    """The agent was cancelled before it had it."""
    log = EventBuilder({})
    log.begin()
    log.call("1.1", arguments={})
    returned = log.give("1.1", result=1)
    cancelled = log.add("call.cancelled", call="1.1")
    script = script_of(log)
    assert script.superseded == {returned.seq}
    assert script.calls["1.1"].ended is cancelled


@pytest.mark.parametrize(
    ("events", "turns"),
    [
        ([], 0),
        ([("tool.returned", {}), ("timer.fired", {"timer": 1})], 2),
        ([("tool.returned", {}), ("tool.returned", {"turn": 5})], 5),
        ([("model.returned", {"turns": [1, 2, 4], "turn": 5}), ("tool.returned", {})], 6),
        ([("model.returned", {"turns": [1, 2, 9], "turn": 5})], 9),
    ],
)
def test_the_turns_that_were_taken_are_counted(events: list[tuple[str, dict[str, Any]]], turns: int) -> None:
    """Each thing that reached the agent from outside took one, items of streams, too; those within calls took none."""
    log = EventBuilder({})
    log.begin()
    for (kind, data), number in zip(events, itertools.count(1)):
        if kind != "timer.fired":
            log.call(f"1.{number}", kind=kind.partition(".")[0], arguments={}, request={})
            data = {"call": f"1.{number}", **data}
        log.add(kind, **data)
    log.add("tool.called", within="1.1", call="1.9", name="inner", arguments={})
    log.add("tool.returned", within="1.1", call="1.9")
    assert script_of(log).turns == turns


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_the_order_of_keys_says_nothing(tree: Any) -> None:
    """A tree and the same with all its keys the other way round ask the same."""

    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(item) for item in value] if isinstance(value, list) else value

    assert key_of(turned(tree)) == key_of(tree)
    assert key_of([tree]) != key_of(tree)
