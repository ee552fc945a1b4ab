"""Two runs side by side: what is the same is found to be, and what differs is named where it happened first."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.examples import refunds
from agentreplay.recorder.errors import CorruptLog, RunNotFound
from agentreplay.recorder.events import Event
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.redaction import RedactionRules
from agentreplay.recorder.store import EventStore, RunInfo
from agentreplay.replay.changes import MISSING
from agentreplay.replay.compare import RunComparison, compare_runs
from cassette_runs import UID, record_forks
from event_builder import EventBuilder, refund_log
from hypothesis import given, settings
from hypothesis import strategies as st


def kept(events: Sequence[Event], store: EventStore, uid: str | None = None) -> RunInfo:
    """Put events into a store as a run."""
    info = store.create_run(events[0].data.agent, uid=uid)
    store.append(info, -1, events)
    return store.run(info.uid)


def compared(old: Sequence[Event], new: Sequence[Event]) -> RunComparison:
    """Two runs that share nothing, compared."""
    store = MemoryStore()
    return compare_runs(kept(old, store), kept(new, store), store)


def told(found: RunComparison) -> list[tuple[int | None, str, str]]:
    """Of each difference of the first pair that differs: step, kind, path."""
    return [(difference.step, difference.kind, difference.path) for difference in found.differences]


# -- programs, to be made into logs ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Op:
    """Something that a round does: `kind` is call, change, read, message or decide."""

    kind: str
    name: str
    value: Any


def log_of(rounds: Sequence[Sequence[Op]], first_id: int = 1) -> EventBuilder:
    """The log of a run that does these things; every call gives back its arguments and its own name."""
    log = EventBuilder({"n": 0}, input="go")
    ids = first_id
    for ops in rounds:
        log.begin()
        for op in ops:
            if op.kind == "call":
                log.call(f"c{ids}", op.name, arguments={"q": op.value[0]})
                log.give(f"c{ids}", result={"found": op.value[1]}, duration=ids / 7)
                ids += 1
            elif op.kind == "change":
                log.change({"newElements": {op.name: op.value}})
            elif op.kind == "read":
                log.add("value.read", source=op.name, value=op.value)
            elif op.kind == "message":
                log.add("message.added", message={"role": "user", "content": op.value})
            else:
                log.add("step.decided", decision={"step": op.name, "reasoning": op.value})
        log.end()
    log.finish()
    return log


def op(number: int, kind: str) -> Op:
    """An operation like no other."""
    if kind == "call":
        return Op("call", ("search", "look")[number % 2], (number, number))
    return Op(kind, {"change": f"k{number}", "read": "limit", "message": "", "decide": "Actions"}[kind], number)


KINDS = st.sampled_from(["call", "call", "change", "read", "message"])
PROGRAMS = st.lists(st.lists(KINDS, max_size=4), min_size=1, max_size=4)


def program(kinds: Sequence[Sequence[str]]) -> list[list[Op]]:
    """Rounds of operations that all differ, each with a decision at its end."""
    number = 0
    rounds = []
    for some in kinds:
        ops = []
        for kind in (*some, "decide"):
            number += 1
            ops.append(op(number, kind))
        rounds.append(ops)
    return rounds


CHANGED = {
    "change": "another payload",
    "read": "another value read",
    "message": "another record",
    "decide": "another decision",
}


@given(PROGRAMS, st.data())
@settings(max_examples=150, deadline=None)
def test_the_first_difference_is_where_the_logs_part(kinds: list[list[str]], data: st.DataObject) -> None:
    """One thing that a run does is another one: that is the first difference, with its step, kind and event."""
    rounds = program(kinds)
    at = data.draw(st.integers(0, len(rounds) - 1))
    place = data.draw(st.integers(0, len(rounds[at]) - 1))
    was = rounds[at][place]
    other = copy.deepcopy(rounds)
    expected, skipped = CHANGED.get(was.kind, ""), 0
    if was.kind == "call":
        what = data.draw(st.sampled_from(["result", "arguments", "name"]))
        if what == "result":
            other[at][place], expected, skipped = replace(was, value=(was.value[0], -1)), "another result", 1
        elif what == "arguments":
            other[at][place], expected = replace(was, value=(-1, was.value[1])), "other arguments"
        else:
            other[at][place], expected = replace(was, name="elsewhere"), "another call"
    else:
        other[at][place] = replace(was, value=-1)
    old, new = log_of(rounds), log_of(other)
    found = compared(old.events, new.events).first_difference
    assert found is not None
    assert (found.kind, found.step, found.step2) == (expected, at + 1, at + 1)
    before = sum(2 if earlier.kind == "call" else 1 for ops in rounds[:at] for earlier in ops) + 2 * at
    inside = sum(2 if earlier.kind == "call" else 1 for earlier in rounds[at][:place])
    assert (found.seq, found.seq2) == (2 + before + inside + skipped,) * 2


@given(PROGRAMS, st.data())
@settings(max_examples=100, deadline=None)
def test_one_thing_more_is_found_in_its_step(kinds: list[list[str]], data: st.DataObject) -> None:
    """What only one of the runs does is told as that, whichever of them is the first."""
    rounds = program(kinds)
    at = data.draw(st.integers(0, len(rounds) - 1))
    kind = data.draw(KINDS)
    place = data.draw(st.integers(0, len(rounds[at]) - 1))
    more = [list(ops) for ops in rounds]
    more[at].insert(place, op(1000, kind))
    for one, other, expected in ((rounds, more, "extra call"), (more, rounds, "missing call")):
        found = compared(log_of(one).events, log_of(other).events).first_difference
        assert found is not None
        assert found.step == at + 1
        assert found.kind == (expected if kind == "call" else CHANGED[kind])


@given(PROGRAMS, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_independent_calls_in_another_order_are_no_difference(kinds: list[list[str]], chance: random.Random) -> None:
    """Calls of a round that ask and give the same are the same calls, in whatever order; so are their ids and times."""
    rounds = program(kinds)
    other = []
    for ops in rounds:
        calls = [one for one in ops if one.kind == "call"]
        chance.shuffle(calls)
        other.append([calls.pop() if one.kind == "call" else one for one in ops])
    later = [event.model_copy(update={"time": event.time + timedelta(hours=5)}) for event in log_of(other, 500).events]
    found = compared(log_of(rounds).events, later)
    assert found.is_same
    assert {pair.status for pair in found.pairs} == {"same"}


def test_a_run_compared_with_itself_has_no_difference() -> None:
    """Nothing is read for that, and nothing is found."""
    store = MemoryStore()
    info = kept(refund_log().events, store)
    found = compare_runs(info, info, store)
    assert (found.is_same, found.relation, found.first_difference) == (True, "same", None)
    assert found.counts == {"same": 3, "payload": 0, "differs": 0, "missing": 0, "extra": 0}
    assert found.to_json()["first"] is None


def test_a_run_recorded_twice_has_no_difference() -> None:
    """Ids, times, durations, the ids of child runs and what the clock said are other ones, and mean nothing."""
    store = MemoryStore()
    first, second = [refunds.step.run(refunds.START, store=store).run.uid for _ in range(2)]
    found = compare_runs(first, second, store)
    assert (found.is_same, found.relation, found.shared) == (True, "none", None)
    assert found.counts["same"] == 10


def test_every_kind_of_event_can_be_compared() -> None:
    """A log with an event of nearly every kind, twice, is the same log."""
    assert compared(refund_log().events, refund_log().events).is_same


# -- steps -----------------------------------------------------------------------------------------------------------


@given(st.integers(2, 7), st.data())
@settings(max_examples=40, deadline=None)
def test_a_step_more_in_the_middle_shifts_nothing(rounds: int, data: st.DataObject) -> None:
    """The later steps stand beside those that are like them; the extra step is the first difference."""
    steps = program([["call", "message"]] * rounds)
    at = data.draw(st.integers(0, rounds - 1))
    longer = [*steps[:at], [Op("call", "again", (99, 99)), Op("decide", "Retry", "once more")], *steps[at:]]
    found = compared(log_of(steps).events, log_of(longer).events)
    assert [pair.numbers for pair in found.pairs] == [
        (0, 0),
        *[(n, n) for n in range(1, at + 1)],
        (None, at + 1),
        *[(n, n + 1) for n in range(at + 1, rounds + 1)],
    ]
    assert found.counts == {"same": rounds, "payload": 0, "differs": 0, "missing": 0, "extra": 1}
    first = found.first_difference
    assert first is not None
    assert (first.kind, first.step2, first.seq) == ("extra step", at + 1, None)
    assert (first.expected, first.actual) == (MISSING, {"decision": "Retry", "calls": ["tool again"]})
    assert first.headline == f"step {at + 1} of run2: extra step"


def test_steps_after_a_change_of_the_payload_do_the_same_on_another_payload() -> None:
    """Where two runs go on alike after they have parted, that is said of each step."""
    rounds = program([["change"], ["call"], ["call"]])
    other = copy.deepcopy(rounds)
    other[0][0] = replace(other[0][0], value="else")
    found = compared(log_of(rounds).events, log_of(other).events)
    assert [pair.status for pair in found.pairs] == ["same", "differs", "payload", "payload"]
    assert [pair.differs for pair in found.pairs[1:3]] == [("changes", "payload"), ("payload",)]
    assert told(found) == [(1, "another payload", "/k1")]
    (later,) = found.differences_at(2)
    assert (later.step, later.kind, later.path, later.expected, later.actual) == (
        2,
        "another payload",
        "/k1",
        1,
        "else",
    )


def test_another_way_to_the_same_payload_is_no_difference() -> None:
    """Two changes, or one that does the same."""
    one, two = EventBuilder({"a": 1}), EventBuilder({"a": 1})
    one.begin()
    one.change({"updateElements": {"a": 3}})
    one.end()
    two.begin()
    two.change({"updateElements": {"a": 2}})
    two.change({"updateElements": {"a": 3}})
    two.end()
    assert compared(one.events, two.events).is_same


def test_a_run_that_ends_early_differs_where_it_ends() -> None:
    """First in how its last step ends; the steps after it are missing."""
    rounds = program([["call"]] * 3)
    long, short = log_of(rounds), log_of(rounds[:2])
    found = compared(long.events, short.events)
    assert told(found) == [(2, "another outcome", "")]
    assert [pair.status for pair in found.pairs] == ["same", "same", "differs", "missing"]


# -- what a step is given, asks and gets -------------------------------------------------------------------------------


def test_what_runs_are_started_with_is_compared() -> None:
    """Payload, input and parameters: each by itself."""
    start: dict[str, Any] = {"payload": {"a": [1, 2]}, "input": "go", "params": {"p": 1}}
    for name, value, expected in (
        ("payload", {"a": [1, 3]}, ("another payload", "/a/1", 2, 3)),
        ("input", "stay", ("another input", "/input", "go", "stay")),
        ("params", {"p": 2}, ("another input", "/params/p", 1, 2)),
    ):
        found = compared(EventBuilder(**start).events, EventBuilder(**{**start, name: value}).events)
        (first,) = found.differences
        assert (first.kind, first.path, first.expected, first.actual) == expected
        assert (first.step, first.headline) == (0, f"before step 1: {expected[0]}")


def one_round(*calls: tuple[str, Any, Any], **ended: Any) -> list[Event]:
    """A run of one round with calls of tools: name, arguments, result."""
    log = EventBuilder({})
    log.begin()
    for number, (name, arguments, result) in enumerate(calls, 1):
        log.call(f"1.{number}", name, arguments=arguments)
        log.give(f"1.{number}", result=result)
    log.end(**ended)
    return log.events


def test_a_change_of_arguments_is_told_from_another_path() -> None:
    """The same tool asked something else; another tool in its place; one call more; one call less."""
    ask = ("search", {"q": "a", "limit": 5}, 1)
    for calls, expected in (
        ([("search", {"q": "a", "limit": 9}, 1)], (1, "other arguments", "/limit")),
        ([("look", {"q": "a", "limit": 5}, 1)], (1, "another call", "")),
        ([("look", {"name": "b"}, 1)], (1, "another call", "")),
        ([ask, ("look", {}, 1)], (1, "extra call", "")),
        ([], (1, "missing call", "")),
    ):
        assert told(compared(one_round(ask), one_round(*calls))) == [expected]


def test_a_difference_names_what_both_runs_did() -> None:
    """In words that fit two runs: neither is a recording of the other."""
    first, second = ("search", {"q": "a"}, 1), ("look", {"q": "b"}, 1)
    found = compared(one_round(first, first), one_round(first, second)).first_difference
    assert found is not None
    assert found.message().splitlines() == [
        "step 1, call 1.2: another call",
        "  where     tool search",
        "  what      run2 calls something else",
        '  expected  tool search(q="a")',
        '  actual    tool look(q="b")',
    ]
    assert found.to_json()["other"] == {"step": 1, "seq": 4, "call": "1.2"}


def test_equal_calls_that_gave_the_same_belong_together() -> None:
    """Two calls that ask the same: of those in another order nothing differs, of one that gives something else that."""
    ask = {"q": "a"}
    old = one_round(("search", ask, 1), ("search", ask, 2))
    assert compared(old, one_round(("search", ask, 2), ("search", ask, 1))).is_same
    found = compared(old, one_round(("search", ask, 2), ("search", ask, 3)))
    (first,) = found.differences
    assert (first.kind, first.call, first.call2, first.expected, first.actual) == ("another result", "1.1", "1.2", 1, 3)


def test_a_call_that_fails_in_one_run_is_another_result() -> None:
    """How it ended stands with what it gave; of two failures the errors are compared, without their tracebacks."""

    def run(**ended: Any) -> list[Event]:
        log = EventBuilder({})
        log.begin()
        log.call("1.1", "pay")
        if ended:
            log.add("tool.failed", call="1.1", error=ended)
        else:
            log.give("1.1", result="paid")
        log.end()
        return log.events

    refused = {"type": "shop.Refused", "message": "no", "traceback": "line 1"}
    (found,) = compared(run(), run(**refused)).differences
    assert (found.kind, found.expected, found.actual) == (
        "another result",
        {"returned": "paid"},
        {"failed": {"type": "shop.Refused", "message": "no"}},
    )
    assert compared(run(**refused), run(**{**refused, "traceback": "line 2"})).is_same
    (found,) = compared(run(**refused), run(**{**refused, "message": "never"})).differences
    assert (found.kind, found.path, found.expected, found.actual) == ("another error", "/message", "no", "never")


def test_a_call_in_flight_is_another_result() -> None:
    """One run has an answer, the other stopped before."""
    log = EventBuilder({})
    log.begin()
    log.call("1.1", "search", arguments={"q": "a"})
    found = compared(one_round(("search", {"q": "a"}, 1)), log.events)
    assert told(found)[0] == (1, "another result", "")
    assert found.differences[0].actual is MISSING


def test_what_is_called_inside_a_call_is_compared_within_it() -> None:
    """An inner call that gives something else comes before what the outer one makes of it."""

    def run(inner: int, outer: int) -> list[Event]:
        log = EventBuilder({})
        log.begin()
        log.call("1.1", "summarise", arguments={"text": "t"})
        log.call("1.2", "ask", "model", within="1.1", request={"prompt": "p"}, model="m-1")
        log.add("model.returned", within="1.1", call="1.2", response=inner)
        log.give("1.1", result=outer)
        log.end()
        return log.events

    assert compared(run(1, 1), run(1, 1)).is_same
    found = compared(run(1, 1), run(2, 2))
    assert [(one.kind, one.call) for one in found.differences] == [("another result", "1.2"), ("another result", "1.1")]


def test_another_model_is_told_before_what_it_says() -> None:
    """The same request to a model of another name."""

    def run(model: str, said: str) -> list[Event]:
        log = EventBuilder({})
        log.begin()
        log.call("1.1", "ask", "model", request={"prompt": "p"}, model=model)
        log.give("1.1", "model", response=said)
        log.end()
        return log.events

    found = compared(run("m-1", "yes"), run("m-2", "no"))
    assert [(one.kind, one.expected, one.actual) for one in found.differences] == [
        ("another model", "m-1", "m-2"),
        ("another result", "yes", "no"),
    ]


def test_clock_and_chance_are_other_ones_in_every_run() -> None:
    """That they are is no difference; a value of the user's own is."""
    rounds = [[Op("read", "clock", 1.5), Op("read", "random", 4), Op("read", "limit", 7)]]
    later = [[Op("read", "clock", 2.5), Op("read", "random", 5), Op("read", "limit", 7)]]
    assert compared(log_of(rounds).events, log_of(later).events).is_same
    later[0][2] = Op("read", "limit", 8)
    (found,) = compared(log_of(rounds).events, log_of(later).events).differences
    assert (found.kind, found.name, found.expected, found.actual) == ("another value read", "limit", 7, 8)


def test_exact_values_are_told_apart() -> None:
    """`1`, `1.0` and `true`, null and missing, and what only looks alike."""
    for one, other in ((1, 1.0), (1, True), (0.0, -0.0), (None, {}), ("a", "\u0430"), ([], {})):
        found = compared(one_round(("t", {"v": one}, 0)), one_round(("t", {"v": other}, 0)))
        assert told(found) == [(1, "other arguments", "/v")]


def test_the_order_of_keys_is_no_difference_in_large_values_either() -> None:
    """A large value stands in the log by the hash of its bytes; it is looked into before it is called different."""
    text = "x" * 70_000
    found = compared(one_round(("t", {"a": 1}, {"p": text, "q": 1})), one_round(("t", {"a": 1}, {"q": 1, "p": text})))
    assert found.is_same
    assert [pair.status for pair in found.pairs] == ["same", "same"]


# -- forks -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def corrected() -> tuple[EventStore, RunInfo, RunInfo]:
    """The example, and its re-run from step 7 with what was missing."""
    store = MemoryStore()
    failed = refunds.step.run(refunds.START, store=store)
    again = ar.rerun(
        failed.run.uid, refunds.step, 7, set={"/order/coupon/used": True}, allow=["issue_refund"], store=store
    )
    return store, store.run(failed.run.uid), store.run(again.run.uid)


def test_a_fork_differs_first_in_its_edit(corrected: tuple[EventStore, RunInfo, RunInfo]) -> None:
    """Before all that follows from it, with the step, the place and the value; the steps before are shared events."""
    store, parent, fork = corrected
    found = compare_runs(parent, fork, store)
    assert (found.relation, found.shared) == ("fork", 6)
    assert [pair.numbers for pair in found.pairs] == [(7, 7), (8, 8), (9, 9), (10, 10)]
    first = found.first_difference
    assert first is not None
    assert (first.kind, first.step, first.path) == ("another payload", 7, "/order/coupon/used")
    assert (first.expected, first.actual, first.why) == (MISSING, True, "edited before the re-run")
    kinds = [difference.kind for difference in found.differences[1:]]
    assert kinds == ["another record", "other arguments", "another decision", "another payload"]
    assert found.differences[-1].path == "/order/total"


def test_a_comparison_can_be_turned_round(corrected: tuple[EventStore, RunInfo, RunInfo]) -> None:
    """The fork first: the parent lacks the edit."""
    store, parent, fork = corrected
    found = compare_runs(fork, parent, store)
    first = found.first_difference
    assert first is not None
    assert (found.relation, first.path, first.expected, first.actual) == ("parent", "/order/coupon/used", True, MISSING)


def test_two_forks_of_a_run_share_what_both_have_of_it(corrected: tuple[EventStore, RunInfo, RunInfo]) -> None:
    """Up to where the earlier one left; an edit of input or parameters, which no other event tells of, is found."""
    store, parent, fork = corrected
    other = ar.rerun(parent.uid, refunds.step, 9, params={"tone": "kind"}, allow=["issue_refund"], store=store)
    found = compare_runs(other.run.uid, fork, store)
    assert (found.relation, found.shared) == ("forks", 6)
    found = compare_runs(parent, other.run.uid, store)
    (first,) = found.differences
    assert (found.shared, first.kind, first.step) == (8, "another input", 9)
    assert (first.expected, first.actual) == (MISSING, {"params": {"tone": "kind"}})


def test_an_edited_answer_is_another_result(corrected: tuple[EventStore, RunInfo, RunInfo]) -> None:
    """What a tool was made to give stands where the tool gave something else."""
    store, parent, _ = corrected
    call = next(event.data.call for event in store.events(parent) if event.kind == "tool.called" and event.round == 1)
    order = {**refunds.ORDERS["A-17"], "total": 1.0}
    again = ar.rerun(parent.uid, refunds.step, 1, tool_results={call: order}, allow=["issue_refund"], store=store)
    first = compare_runs(parent, again.run.uid, store).first_difference
    assert first is not None
    assert (first.kind, first.step, first.call, first.path) == ("another result", 1, call, "/total")
    assert (first.expected, first.actual) == (129.5, 1.0)


def test_forks_of_forks_are_compared_by_what_they_share() -> None:
    """A fork of a fork and the run that both come from."""
    store = MemoryStore()
    later = record_forks(store)
    found = compare_runs(store.run(UID(1)), later, store)
    assert (found.relation, found.shared) == ("fork", 1)
    assert [pair.status for pair in found.pairs] == ["differs", "extra", "extra"]
    found = compare_runs(later, store.run(UID(0x10)), store)
    assert (found.relation, found.shared) == ("parent", 3)


def test_shared_steps_can_be_shown(corrected: tuple[EventStore, RunInfo, RunInfo]) -> None:
    """The last of them, without reading those before."""
    store, parent, fork = corrected
    found = compare_runs(parent, fork, store)
    assert [(step.step, step.word) for step in found.shared_steps(2)] == [(5, "Sub-Agent"), (6, "Retry")]
    assert [step.step for step in found.shared_steps(100)] == [1, 2, 3, 4, 5, 6]
    assert compare_runs(parent, parent, store).shared_steps(1)[0].step == 10


# -- other stores, damage ----------------------------------------------------------------------------------------------


def test_tokens_of_different_stores_are_compared_by_kind(tmp_path: Path) -> None:
    """A secret has another token in each store; a run that came in a cassette differs in nothing else."""
    agents = []
    for name in ("here", "there"):
        store = ar.open_store(tmp_path / f"{name}.db", redaction=RedactionRules(keys=("iban",)))
        with ar.record("refund", payload={"iban": "DE02", "n": 1}, store=store) as run:
            for number in (2, 3):
                with run.round() as r:
                    r.tool("pay", {"iban": "DE02"}, lambda iban: f"paid to {iban}", safety="pure")
                    r.change(update={"n": number}, reason="counted")
        agents.append((store, run.id))
    (here, first), (there, second) = agents
    ar.export_run(second, tmp_path / "there.jsonl", store=there)
    (imported,) = ar.import_file(tmp_path / "there.jsonl", store=here)
    assert "[redacted:iban:" in str(ar.state_at(imported, store=here).payload)
    found = compare_runs(first, imported, here)
    assert found.is_same
    assert [pair.status for pair in found.pairs] == ["same", "same", "same"]


def test_an_event_that_lacks_what_its_kind_has_is_named() -> None:
    """A damaged run is not compared; the message says which event."""
    store = MemoryStore()
    good, bad = kept(refund_log().events, store), kept(refund_log().events, store)
    row = next(row for row in store.rows(bad) if row.kind == "round.finished")
    row.body = b'{"outcome":"continue"}'
    with pytest.raises(CorruptLog) as caught:
        compare_runs(good, bad, store)
    assert (caught.value.seq, "run2, event" in str(caught.value)) == (row.seq, True)
    row.body = b"{"
    with pytest.raises(CorruptLog) as caught:
        compare_runs(good, bad, store)
    assert caught.value.seq == row.seq


def test_a_payload_that_does_not_follow_is_named() -> None:
    """A changed request is found where the payload is shown, by its hash."""
    store = MemoryStore()
    old, new = log_of(program([["change"], ["change"]])), log_of(program([["change"], ["call"]]))
    bad, good = kept(old.events, store), kept(new.events, store)
    row = next(row for row in store.rows(bad) if row.kind == "payload.changed")
    row.body = (row.body or b"").replace(b'"k1":1', b'"k1":2')
    with pytest.raises(CorruptLog, match="run1: the payload after event") as caught:
        compare_runs(bad, good, store)
    assert caught.value.run == "run1"


def test_a_run_that_is_not_there_is_named() -> None:
    """Either of them."""
    store = MemoryStore()
    info = kept(refund_log().events, store)
    for names in (("run9", info), (info, "run9")):
        with pytest.raises(RunNotFound, match="run9"):
            compare_runs(*names, store)
