"""A run is re-run from one of its steps: what came before is shared, what is edited takes effect there and is told."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import random
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import agentreplay as ar
import pytest
import replay_agents
import world
from agentreplay.recorder.errors import ChangeRefused, Divergence, LiveCallRefused, RedactedValue, UsageError
from agentreplay.recorder.loop import Agent
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay.reading import changes_at
from agentreplay.replay.reducer import fold
from agentreplay.replay.replayer import replay
from agentreplay.replay.rerunning import arerun, rerun, resume
from changed_code import changed
from journal import Journal
from recorded import log_of

EXAMPLES = Path(__file__).parent.parent / "examples"

START: dict[str, Any] = {"desk": {"left": 0}}

AGENTS: dict[str, Callable[[], Any]] = {
    "a step function": lambda: replay_agents.desk,
    "tools and models within each other": lambda: replay_agents.nested,
    "a sub-agent": lambda: replay_agents.chief,
    "several things at a time": lambda: replay_agents.fleet,
    "streams at a time": lambda: replay_agents.ticker,
    "state in a closure": replay_agents.counting,
    "state in an object": lambda: replay_agents.Clerk().step,
    "state in the cache of the run": replay_agents.caching,
    "a loop of its own": lambda: replay_agents.triage,
    "a loop that is not touched": lambda: replay_agents.plain_loop,
}


def recorded(agent: Any, payload: Any = None, store: EventStore | None = None) -> EventStore:
    store = MemoryStore() if store is None else store
    agent.run(payload, store=store) if isinstance(agent, Agent) else agent(store)
    return store


def head(store: EventStore, run: str = "run1") -> tuple[int, str]:
    info = store.run(run)
    return info.head_seq, info.head_hash


def ending(store: EventStore, run: str) -> Any:
    """How a run ended, but for what a clock says."""
    data = log_of(store, run)[-1].data
    tools = {name: {**counts, "totalTime": 0} for name, counts in data.metrics.get("toolMetrics", {}).items()}
    metrics = {**data.metrics, "toolMetrics": tools}
    result = {**data.result, "metrics": metrics}
    return data.status, data.stop_reason, data.value, data.payload_hash, metrics, result


def forked(store: EventStore, run: str) -> Any:
    """The data of the event with which a re-run begins."""
    (event,) = [event for event in store.events(run) if event.kind == "run.forked"]
    return event.data


def without_chance(payload: Any) -> Any:
    return {key: value for key, value in payload.items() if key not in ("at", "key", "draw")}


# -- without edits ---------------------------------------------------------------------------------------


def state(store: EventStore, run: str, step: int) -> Any:
    """A state, but for what says in whose log it is, and where."""
    return replace(ar.state_at(run, step, store=store), run="", last_seq=0, forked_from=None)


def calls_from(store: EventStore, run: str, step: int) -> list[str]:
    return [e.data.name for e in log_of(store, run) if e.kind.endswith(".called") and e.round >= step]


@pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS)
def test_a_rerun_without_edits_ends_the_same_from_every_step(make: Callable[[], Any]) -> None:
    """The rounds before are executed against the log, so what the step keeps to itself is there; the rest is live."""
    store = recorded(make(), {"left": 0})
    before, last = head(store), store.run("run1").steps
    assert last >= 2
    for step in range(1, last + 1):
        world.made.clear()
        result = rerun("run1", make(), step, store=store)
        child = result.run.id
        assert head(store) == before
        assert world.made != []
        assert calls_from(store, child, step) == calls_from(store, "run1", step)
        assert result.stop_reason == "endTurn"
        if make is AGENTS["a step function"]:  # which draws numbers and looks at clocks
            assert without_chance(result.payload) == without_chance(ar.state_at("run1", store=store).payload)
        elif make is not AGENTS["streams at a time"]:  # whose words come in the order in which they happen to come
            assert ending(store, child) == ending(store, "run1")
        assert [state(store, child, at) for at in range(step)] == [state(store, "run1", at) for at in range(step)]
        again = replay(child, make(), store=store)
        assert (again.verdict, again.complete, again.coverage.notes) == ("identical", True, [])


@pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS)
def test_a_fork_shares_what_came_before_its_step(make: Callable[[], Any]) -> None:
    """Its log is its parent's up to the step, event by event, and then its own, which begins by naming the parent."""
    journal = Journal()
    recorded(make(), {"left": 0}, journal)
    parent = journal.run("run1")
    started = {event.round: event.seq for event in journal.events("run1") if event.kind == "round.started"}
    for step, seq in started.items():
        written = len(journal.entries)
        child = journal.run(rerun("run1", make(), step, store=journal).run.id)
        assert (child.fork_of, child.fork_seq) == (parent.uid, seq - 1)
        assert [row.hash for row in journal.rows(child, until=seq - 1)] == [
            row.hash for row in journal.rows(parent, until=seq - 1)
        ]
        own = [row.seq for entry in journal.entries[written:] if entry.number == child.number for row in entry.rows]
        assert own == list(range(seq, child.head_seq + 1))
        first = next(journal.events(child, after=seq - 1))
        assert (first.kind, first.round) == ("run.forked", step - 1)
        assert (first.data.parent, first.data.seq, first.data.edits) == (parent.uid, seq - 1, [])
        assert journal.verify() == []


def test_a_fork_of_a_long_run_costs_its_own_events(tmp_path: Path) -> None:
    """The last round of many is re-run: the store has the rows of that round more, and every other row as it was."""

    @ar.agent("long", max_rounds=500)
    def step(round_index: int, context: ar.Context) -> Any:
        context.change(update={"left": replay_agents.stock("lamp"), "round": round_index})
        return ar.Complete(1) if round_index == 300 else ar.Continue()

    def rows() -> dict[int, bytes]:
        with contextlib.closing(sqlite3.connect(file)) as database:
            return {row[0]: repr(row).encode() for row in database.execute("SELECT * FROM event")}

    file = tmp_path / "store.db"
    store = SqlStore(f"sqlite:///{file}")
    step.run({}, store=store)
    before = rows()
    child = rerun("run1", step, 300, store=store).run
    after = rows()
    own = ["run.forked", "round.started", "tool.called", "tool.returned", "payload.changed"]
    own += ["step.decided", "round.finished", "run.finished"]
    assert [event.kind for event in log_of(store, child.uid)][-8:] == own
    assert len(after) - len(before) == len(own) + 1  # and the end mark, which each run has
    assert {key: after[key] for key in before} == before
    store.close()


# -- edits -----------------------------------------------------------------------------------------------


@ar.tool(safety="pure")
def price(sku: str) -> Decimal:
    world.touch("price")
    return Decimal("9.50")


@ar.tool(safety="pure")
def weigh(sku: str) -> float:
    world.touch("weigh")
    return 1.25


@ar.tool(safety="irreversible")
def charge(amount: Any) -> str:
    world.touch("charge")
    return f"charged {amount}"


@ar.tool
def notify(text: str) -> str:
    world.touch("notify")
    return "sent"


@ar.tool(safety="compensable", compensate=lambda sku: None)
def hold(sku: str) -> str:
    world.touch("hold")
    return "held"


@ar.model
def think(messages: list[dict[str, Any]]) -> dict[str, Any]:
    world.touch("think")
    return {"text": f"{len(messages)}: {messages[-1]['content']}", "usage": {"input_tokens": 2}}


def shopper() -> Agent:
    """Three rounds that look at all that can be edited, and keep what they saw in a closure."""
    seen: list[Any] = []

    @ar.agent("shopper", max_rounds=9)
    def step(round_index: int, context: ar.Context) -> Any:
        context.messages.append({"role": "user", "content": f"round {round_index}"})
        thought = think(list(context.messages))
        cost, first = price("lamp"), price(context.payload["order"]["skus"][0])
        seen.append([thought["text"], cost, context.input, context.params["tries"], context.params["tone"]])
        context.change(update={"rounds": round_index, "cost": cost, "first": first})
        return ar.Complete(seen) if round_index == 3 else ar.Continue()

    return step


BASKET = {"order": {"skus": ["bulb", "nail"], "total": 3, "notes": {"a/b": 1}}, "draft": True, "list": [1, 2, 3]}
PRICE = Decimal("9.50")
SEEN = [
    ["1: round 1", PRICE, "first", 1, "kind"],
    ["2: round 2", PRICE, "first", 1, "kind"],
    ["3: round 3", PRICE, "first", 1, "kind"],
]


def shopped() -> MemoryStore:
    store = MemoryStore()
    result = shopper().run(BASKET, input="first", params={"tries": 1, "tone": "kind"}, store=store)
    assert result.value == SEEN
    world.made.clear()
    return store


@pytest.mark.parametrize(
    ("edits", "at", "before", "after"),
    [
        ({"set": {"/draft": False}}, "draft", True, False),
        ({"set": {"draft": None}}, "draft", True, None),
        ({"set": {"/order/total": 5}}, "order.total", 3, 5),
        ({"set": {"order.total": {"net": 4}}}, "order.total", 3, {"net": 4}),
        ({"set": {"/order/tax": 7}}, "order.tax", None, 7),
        ({"set": {"/order/skus/0": "plug"}}, "order.skus", ["bulb", "nail"], ["plug", "nail"]),
        ({"set": {"/order/skus/-": "plug"}}, "order.skus", ["bulb", "nail"], ["bulb", "nail", "plug"]),
        ({"set": {"order.skus[2]": "plug"}}, "order.skus", ["bulb", "nail"], ["bulb", "nail", "plug"]),
        ({"set": {"/order/skus": ["plug"]}}, "order.skus", ["bulb", "nail"], ["plug"]),
        ({"set": {"/order/notes/a~1b": 2}}, "order.notes", {"a/b": 1}, {"a/b": 2}),
        ({"set": {"/order/notes": {"c": 3}}}, "order.notes", {"a/b": 1}, {"c": 3}),
        ({"set": {"/draft": Decimal("1.0")}}, "draft", True, Decimal("1.0")),
        ({"patch": [{"op": "remove", "path": "/draft"}]}, "draft", True, None),
        ({"patch": [{"op": "add", "path": "/list/1", "value": 9}]}, "list", [1, 2, 3], [1, 9, 2, 3]),
        ({"patch": [{"op": "move", "from": "/list/0", "path": "/list/2"}]}, "list", [1, 2, 3], [2, 3, 1]),
        ({"set": {"/list": []}, "patch": [{"op": "add", "path": "/list/-", "value": 1}]}, "list", [1, 2, 3], [1]),
    ],
)
@pytest.mark.parametrize("prefix", ["execute", "fold"])
def test_the_payload_is_edited_in_the_round(
    edits: dict[str, Any], at: str, before: Any, after: Any, prefix: Literal["execute", "fold"]
) -> None:
    """It is as it was up to the step before, and as it was edited from then on: replaced, never merged."""
    store = shopped()
    original = head(store)
    run = rerun("run1", shopper(), 2, store=store, prefix=prefix, **edits).run.id

    def value(step: int) -> Any:
        found = ar.state_at(run, step, store=store).payload
        for key in at.split("."):
            found = found.get(key)
        return found

    assert [value(step) for step in range(4)] == [before, before, after, after]
    assert type(value(2)) is type(after)
    assert head(store) == original
    edit = next(event for event in store.events(run) if event.kind == "payload.changed" and event.round == 2)
    assert (edit.data.source, edit.data.reason) == ({"kind": "edit"}, "edited before the re-run")
    first = changes_at(run, 2, store).payload_changes[0]
    assert first.event.seq == edit.seq
    assert {one.path.split("/")[1] for one in ar.diff_values(first.before, first.after)} == {at.split(".")[0]}
    told = [one["edit"] for one in forked(store, run).edits]
    assert told == [kind for kind in ("set", "patch") if kind in edits]
    assert replay(run, shopper(), store=store, collect=prefix == "fold").coverage.live == 0


def answered(store: EventStore, run: str, call: str) -> Any:
    (event,) = [e for e in store.events(run) if e.kind.endswith(".returned") and e.data.call == call]
    return event.data


def test_a_tool_result_is_edited_in_the_round() -> None:
    """The call is not made, and gives what was said; it is recorded as edited. In the next round it is made again."""
    store = shopped()
    result = rerun("run1", shopper(), 2, store=store, tool_results={"2.2": Decimal("1.25")})
    run = result.run.id
    assert [one[1] for one in result.value] == [PRICE, Decimal("1.25"), PRICE]
    assert world.made == ["think", "price", "think", "price", "price"]
    assert (answered(store, run, "2.2").result, answered(store, run, "2.2").edited) == (
        {"$type": "decimal", "value": "1.25"},
        True,
    )
    assert not hasattr(answered(store, run, "2.3"), "edited")
    assert forked(store, run).edits == [
        {"edit": "tool result", "call": "2.2", "value": {"$type": "decimal", "value": "1.25"}}
    ]
    assert ar.state_at(run, 2, store=store).payload["cost"] == Decimal("1.25")
    assert replay(run, shopper(), store=store).verdict == "identical"
    for step in (2, 3):
        world.made.clear()
        assert rerun(run, shopper(), step, store=store).value == result.value
        assert world.made == ["think", "price", "think", "price", "price"][(step - 2) * 2 :]


def test_a_model_response_is_edited_in_the_round() -> None:
    """So is what a model says."""
    store = shopped()
    result = rerun("run1", shopper(), 2, store=store, model_responses={"2.1": {"text": "no"}})
    assert [one[0] for one in result.value] == ["1: round 1", "no", "3: round 3"]
    assert world.made == ["price", "price", "think", "price", "price"]
    assert forked(store, result.run.id).edits == [{"edit": "model response", "call": "2.1", "value": {"text": "no"}}]
    assert answered(store, result.run.id, "2.1").response == {"text": "no"}
    assert replay(result.run.id, shopper(), store=store).verdict == "identical"


def test_a_call_is_skipped_in_the_round() -> None:
    """It is not made, and gives None."""
    store = shopped()
    result = rerun("run1", shopper(), 3, store=store, skip=["3.2"])
    assert [one[1] for one in result.value] == [PRICE, PRICE, None]
    assert world.made == ["think", "price"]
    assert forked(store, result.run.id).edits == [{"edit": "skip", "call": "3.2"}]
    assert replay(result.run.id, shopper(), store=store).verdict == "identical"


def test_messages_are_added_in_the_round() -> None:
    """They stand behind what was said before the round, for this round and the next ones."""
    store = shopped()
    said = [{"role": "user", "content": "and be brief"}, {"role": "system", "content": "please"}]
    result = rerun("run1", shopper(), 2, store=store, messages=said)
    run = result.run.id
    assert [one[0] for one in result.value] == ["1: round 1", "4: round 2", "5: round 3"]
    contents = [[one["content"] for one in ar.state_at(run, step, store=store).messages] for step in range(3)]
    assert contents == [[], ["round 1"], ["round 1", "and be brief", "please", "round 2"]]
    assert forked(store, run).edits == [{"edit": "message", "message": message} for message in said]
    assert replay(run, shopper(), store=store).verdict == "identical"


def test_parameters_and_input_are_edited_from_the_round_on() -> None:
    """Those that are named are replaced, the others stay; the rounds before have seen what was there."""
    store = shopped()
    result = rerun("run1", shopper(), 2, store=store, params={"tries": 5}, input={"second": [1]})
    assert [one[2:] for one in result.value] == [
        ["first", 1, "kind"],
        [{"second": [1]}, 5, "kind"],
        [{"second": [1]}, 5, "kind"],
    ]
    run = result.run.id
    assert forked(store, run).edits == [
        {"edit": "param", "name": "tries", "value": 5},
        {"edit": "input", "value": {"second": [1]}},
    ]
    assert replay(run, shopper(), store=store).verdict == "identical"
    for prefix in ("execute", "fold"):
        again = rerun(run, shopper(), 3, store=store, prefix=prefix)
        assert again.value[-1] == result.value[-1]


def test_the_first_round_can_be_edited() -> None:
    """What is edited at step 1 is there from the start, and state 0 is what it was."""
    store = shopped()
    result = rerun(
        "run1", shopper(), 1, store=store, set={"/order/skus": ["cup"]}, input="other", tool_results={"1.3": 0}
    )
    assert [one[2] for one in result.value] == ["other"] * 3
    assert ar.state_at(result.run.id, 0, store=store).payload == BASKET
    assert ar.state_at(result.run.id, 1, store=store).payload["first"] == 0
    assert replay(result.run.id, shopper(), store=store).verdict == "identical"


def test_a_fork_of_a_fork_has_the_edits_of_both() -> None:
    """Those of the first take effect where they did, again, and the new ones after them."""
    store = shopped()
    first = rerun("run1", shopper(), 2, store=store, set={"/draft": 1}, messages=[{"role": "user", "content": "a"}])
    for step in (2, 3):
        second = rerun(first.run.id, shopper(), step, store=store, set={"/order/total": 9}, params={"tries": 2}).run.id
        payloads = [ar.state_at(second, at, store=store).payload for at in range(4)]
        assert [payload["draft"] for payload in payloads] == [True, True, 1, 1]
        assert [payload["order"]["total"] for payload in payloads] == [3, 3, 9 if step == 2 else 3, 9]
        assert len(ar.state_at(second, store=store).messages) == 4
        assert replay(second, shopper(), store=store).verdict == "identical"
        assert store.verify() == []
    again = rerun(first.run.id, shopper(), 2, store=store)
    assert again.payload == first.payload
    assert again.value == first.value


# -- edits that cannot be meant --------------------------------------------------------------------------


def nothing_happened(store: EventStore) -> bool:
    return world.made == [] and [info.id for info in store.runs()] == ["run1"]


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ({"set": {"/nothing/here": 1}}, "/nothing/here cannot be set: the payload has nothing at 'nothing' on the way"),
        ({"set": {"/list/7": 1}}, "/list/7 cannot be set"),
        ({"set": {"/draft/x": 1}}, "/draft/x cannot be set"),
        ({"set": {"/order/total/x": 1}}, "/order/total/x cannot be set"),
        ({"set": {"/order~2": 1}}, "~2"),
        ({"set": {"order.skus[": 1}}, "order.skus["),
        ({"secrets": {"/nothing/here": "s"}}, "/nothing/here cannot be set"),
        ({"patch": {"op": "remove", "path": "/draft"}}, "patch is a JSON Patch: a list of operations"),
        ({"tool_results": {"1.2": 1}}, "step 2 of run1 has no call 1.2; it has 2.1, 2.2, 2.3"),
        ({"tool_results": {"2.1": 1}}, "call 2.1 is a model call (think), not one of a tool"),
        ({"model_responses": {"2.2": 1}}, "call 2.2 is a tool call (price), not one of a model"),
        ({"model_responses": {"2.9": 1}}, "step 2 of run1 has no call 2.9; it has 2.1, 2.2, 2.3"),
        ({"skip": ["3.1"]}, "step 2 of run1 has no call 3.1; it has 2.1, 2.2, 2.3"),
        ({"skip": "2.1"}, "skip is a list of call ids, not one text; write ['2.1']"),
        ({"prefix": "folded"}, 'prefix is "execute" or "fold", not "folded"'),
    ],
)
def test_an_edit_that_cannot_be_meant_is_refused_before_anything_runs(edits: dict[str, Any], says: str) -> None:
    """A place that is not there, a call of another step: no code is executed and no run begun."""
    store = shopped()
    with pytest.raises(UsageError) as caught:
        rerun("run1", shopper(), 2, store=store, **edits)
    assert says in str(caught.value)
    assert nothing_happened(store)


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "remove", "path": "/nothing"}],
        [{"op": "test", "path": "/draft", "value": False}],
        [{"op": "replace", "path": "/order/tax", "value": 1}],
        [{"op": "add", "path": "/list/9", "value": 1}],
        [{"op": "conjure", "path": "/draft"}],
    ],
)
def test_a_patch_that_does_not_fit_is_refused_before_anything_runs(patch: list[dict[str, Any]]) -> None:
    """An operation on what is not there, or none of the operations there are."""
    store = shopped()
    with pytest.raises(ChangeRefused):
        rerun("run1", shopper(), 2, store=store, patch=patch)
    assert nothing_happened(store)


@pytest.mark.parametrize(("step", "says"), [(0, "step 0 is its start"), (4, "no step 4"), (9, "no step 9"), (-9, "-9")])
def test_a_step_that_the_run_does_not_have_is_refused(step: int, says: str) -> None:
    """It is re-run from a step that it has; negative ones count from the end."""
    store = shopped()
    with pytest.raises(UsageError) as caught:
        rerun("run1", shopper(), step, store=store)
    assert says in str(caught.value)
    assert nothing_happened(store)
    assert store.run(rerun("run1", shopper(), -1, store=store).run.id).fork_seq == last_before(store, 3)


def last_before(store: EventStore, step: int) -> int:
    (event,) = [one for one in store.events("run1") if one.kind == "round.started" and one.round == step]
    return event.seq - 1


def test_an_answer_that_was_never_asked_for_is_an_error() -> None:
    """What was meant did not happen, though the run ended: the error names the run and the call."""
    store = shopped()

    @ar.agent("shopper", max_rounds=9)
    def step(round_index: int, context: ar.Context) -> Any:
        return ar.Complete(None)

    with pytest.raises(UsageError) as caught:
        rerun("run1", step, 1, store=store, tool_results={"1.2": 5}, skip=["1.3"])
    assert "run2 ended without asking for 1.2, 1.3, so what was given for it had no effect" in str(caught.value) or (
        "run2 ended without asking for 1.3, 1.2" in str(caught.value)
    )
    assert store.run("run2").status == "completed"


# -- what may be made live -------------------------------------------------------------------------------


def spender(swallow: tuple[type[BaseException], ...] = ()) -> Agent:
    """Two rounds; the second pays, tells, holds, and may swallow what stops it."""

    @ar.agent("spender", max_rounds=9)
    def step(round_index: int, context: ar.Context) -> Any:
        if round_index == 1:
            context.change(new={"sum": price("lamp")})
            return ar.Continue()
        for work in (lambda: hold("lamp"), lambda: charge(context.payload["sum"]), lambda: notify("done")):
            try:
                work()
            except swallow:
                context.change(update={"swallowed": True})
        return ar.Complete("spent")

    return step


def spent() -> MemoryStore:
    store = MemoryStore()
    spender().run({}, store=store)
    world.made.clear()
    return store


@pytest.mark.parametrize(
    ("allow", "made", "refused", "says"),
    [
        ((), ["hold"], ("charge", "2.2"), "the tool charge is irreversible: allow it with --allow charge"),
        (("notify",), ["hold"], ("charge", "2.2"), "the tool charge is irreversible"),
        (("charge",), ["hold", "charge"], ("notify", "2.3"), "the tool notify declares no safety"),
    ],
)
@pytest.mark.parametrize("swallow", [(), (Exception,), (BaseException,)], ids=["", "exceptions", "everything"])
def test_what_cannot_be_undone_is_refused_unless_it_is_allowed(
    allow: tuple[str, ...],
    made: list[str],
    refused: tuple[str, str],
    says: str,
    swallow: tuple[type[BaseException], ...],
) -> None:
    """An irreversible tool, or one that declares nothing, is not called; the re-run is there and has failed."""
    store = spent()
    with pytest.raises(LiveCallRefused) as caught:
        rerun("run1", spender(swallow), 2, store=store, allow=allow)
    assert world.made == made
    assert (caught.value.name, caught.value.call) == refused
    assert says in str(caught.value)
    assert store.run("run2").status == "failed"
    *_, finished = log_of(store, "run2")
    assert (finished.kind, finished.data.stop_reason) == ("run.finished", "error")
    assert finished.data.error.type == "agentreplay.recorder.errors.LiveCallRefused"
    assert [one.data.name for one in store.events("run2") if one.kind == "tool.called" and one.round == 2] == made
    assert store.verify() == []


def test_what_is_allowed_by_name_is_called() -> None:
    """All that is named is called; and nothing needs to be named that its answer is given for."""
    store = spent()
    result = rerun("run1", spender(), 2, store=store, allow=["charge", "notify"])
    assert (world.made, result.stop_reason) == (["hold", "charge", "notify"], "endTurn")
    world.made.clear()
    result = rerun("run1", spender(), 2, store=store, tool_results={"2.2": "free"}, skip=["2.3"])
    assert (world.made, result.stop_reason) == (["hold"], "endTurn")
    world.made.clear()
    result = rerun("run1", spender(), 2, store=store, reuse=True)
    assert (world.made, result.stop_reason) == ([], "endTurn")


def test_a_name_that_nobody_knows_is_warned_of() -> None:
    """It may be that of a tool to come, so that is no error; one that the code declares is known."""
    store = spent()
    with pytest.warns(UserWarning, match="run1 has called no tool named chrage, and the code declares none; it has"):
        rerun("run1", spender(), 2, store=store, allow=["charge", "notify", "chrage"])
    rerun("run1", spender(), 2, store=store, allow=["charge", "notify", "pay"])


def test_a_tool_that_may_not_be_called_is_not_called_by_a_child_run() -> None:
    """What holds for the run holds for the runs that it starts; they have failed, too."""

    @ar.agent("payer")
    def payer(round_index: int, context: ar.Context) -> Any:
        return ar.Complete(charge(3))

    @ar.agent("boss")
    def boss(round_index: int, context: ar.Context) -> Any:
        with contextlib.suppress(Exception):
            context.run_agent(payer, {})
        return ar.Complete("done")

    store = MemoryStore()
    boss.run({}, store=store)
    world.made.clear()
    with pytest.raises(LiveCallRefused):
        rerun("run1", boss, 1, store=store)
    assert world.made == []
    assert [(info.id, info.agent, info.status) for info in store.runs()][2:] == [
        ("run3", "boss", "failed"),
        ("run4", "payer", "failed"),
    ]
    world.made.clear()
    rerun("run1", boss, 1, store=store, allow=["charge"])
    assert world.made == ["charge"]


def test_reuse_answers_what_asks_the_same() -> None:
    """A call that asks just what one of the round did takes its answer; any other is made, also one that failed."""
    store = shopped()
    result = rerun("run1", shopper(), 2, store=store, reuse=True, set={"/order/skus/0": "cup"})
    assert result.value == SEEN
    assert world.made == ["price", "price"]
    assert replay(result.run.id, shopper(), store=store).verdict == "identical"

    store = MemoryStore()
    with pytest.raises(ValueError, match="no bulb"):
        replay_agents.falls.run({}, store=store)
    world.made.clear()
    with pytest.raises(ValueError, match="no bulb"):
        rerun("run1", replay_agents.falls, 2, store=store, reuse=True)
    assert world.made == ["stock"]


# -- secrets ---------------------------------------------------------------------------------------------

KEY = "sk-proj-" + "a1B2c3D4" * 6
got: list[str] = []


@ar.tool(safety="pure")
def sign(text: str, api_key: str) -> str:
    world.touch("sign")
    got.append(api_key)
    return f"signed {text}"


@ar.agent("signer", max_rounds=5)
def signer(round_index: int, context: ar.Context) -> Any:
    signed = sign(f"text {round_index}", context.payload["credentials"]["api_key"])
    context.change(update={"signed": signed})
    return ar.Complete(signed) if round_index == 3 else ar.Continue()


def signed() -> MemoryStore:
    got.clear()
    store = MemoryStore()
    signer.run({"credentials": {"api_key": KEY}}, store=store)
    assert got == [KEY] * 3
    got.clear()
    world.made.clear()
    return store


def test_a_token_is_not_sent_in_the_place_of_a_secret() -> None:
    """The secret is not in the log, so a live call would send what stands for it; it is refused and says where."""
    store = signed()
    with pytest.raises(RedactedValue) as caught:
        rerun("run1", signer, 2, store=store)
    assert caught.value.pointers == ("/api_key",)
    assert "--secret" in str(caught.value)
    assert (world.made, got, store.run("run2").status) == ([], [], "failed")


@pytest.mark.parametrize("prefix", ["execute", "fold"])
def test_a_secret_that_is_given_is_sent_and_not_recorded(prefix: Literal["execute", "fold"]) -> None:
    """The tool gets the secret; the log has its token, and that a secret was given, and where."""
    store = signed()
    result = rerun("run1", signer, 2, store=store, secrets={"credentials.api_key": KEY}, prefix=prefix)
    run = result.run.id
    assert got == [KEY, KEY]
    assert result.value == "signed text 3"
    bodies = b"".join(row.body or b"" for row in store.rows(run)) + b"".join(store._contents.values())
    assert KEY.encode() not in bodies
    assert forked(store, run).edits == [{"edit": "secret", "path": "/credentials/api_key"}]
    assert ar.state_at(run, store=store).payload == ar.state_at("run1", store=store).payload
    if prefix == "execute":
        assert replay(run, signer, store=store).verdict == "identical"


# -- after a change of the code --------------------------------------------------------------------------


def test_a_changed_prefix_diverges_and_offers_to_fold() -> None:
    """The rounds before are compared; where they part, nothing is recorded, and the message says what can be done."""
    store = recorded(replay_agents.desk, {"left": 0})
    world.made.clear()
    agent, _ = changed("desk", ("what is there?", "what is here?"))
    with pytest.raises(Divergence) as caught:
        rerun("run1", agent, 3, store=store)
    assert (caught.value.difference.step, caught.value.difference.path) == (1, "/reasoning")
    assert "agentreplay rerun run1 --step 1 --prefix=fold" in str(caught.value)
    assert nothing_happened(store)


def test_a_folded_prefix_is_not_executed() -> None:
    """The step's round is the first that runs, on the payload, the conversation and the notes that were recorded."""
    seen: list[Any] = []

    @ar.agent("noter", max_rounds=9)
    def step(round_index: int, context: ar.Context) -> Any:
        seen.append((round_index, [one["content"] for one in context.messages], context.payload.get("at")))
        context.messages.append({"role": "user", "content": f"round {round_index}"})
        price("lamp")
        context.change(update={"at": round_index})
        context.decide(step="Retry", scratchpad={"notes": f"notes of {round_index}"})
        seen.append(context.scratchpad["notes"])
        return ar.Complete(round_index) if round_index == 4 else ar.Continue()

    store = recorded(step, {"at": 0})
    before = head(store)
    recorded_states = [state(store, "run1", at) for at in range(5)]
    seen.clear()
    world.made.clear()
    result = rerun("run1", step, 3, store=store, prefix="fold", set={"/at": 70})
    run = result.run.id
    assert seen == [
        (3, ["round 1", "round 2"], 70),
        "notes of 3",
        (4, ["round 1", "round 2", "round 3"], 3),
        "notes of 4",
    ]
    assert world.made == ["price", "price"]
    assert head(store) == before
    assert [state(store, run, at) for at in range(3)] == recorded_states[:3]
    assert store.verify() == []
    finished = log_of(store, run)[-1].data
    assert finished.metrics["cycleCount"] == 4


def test_after_a_fix_the_run_goes_on_from_the_folded_state() -> None:
    """Code that was changed from its first step on ends from the recorded state as it would from the start."""
    store = recorded(replay_agents.desk, {"left": 0})
    agent, _ = changed(
        "desk", ("what is there?", "what is here?"), ('str(context.payload["order"]["total"])', '"free"')
    )
    for step in (1, 2, 3, 4):
        result = rerun("run1", agent, step, store=store, prefix="fold")
        assert result.value == {"receipt": "free"}
        run = result.run.id
        assert [state(store, run, at) for at in range(step)] == [state(store, "run1", at) for at in range(step)]
        assert without_chance(result.payload) == without_chance(ar.state_at("run1", store=store).payload)
        assert store.verify() == []


def test_a_loop_of_its_own_goes_on_from_the_folded_payload() -> None:
    """The block has the recorded payload from its beginning, and the edits in its first round, which is the step's.

    What the code does before its first round it does anew.
    """
    seen: list[Any] = []

    def loop(store: EventStore | None = None) -> Any:
        with ar.record("loop", payload={"at": 0}, store=store) as run:
            seen.append(("begins", run.payload["at"], price("lamp")))
            for _ in range(run.payload["at"], 3):
                with run.round() as r:
                    seen.append(("round", r.payload["at"], weigh("lamp")))
                    r.change(update={"at": r.payload["at"] + 1})
            run.complete(run.payload["at"])
        return run.result

    store = MemoryStore()
    loop(store)
    assert seen == [("begins", 0, PRICE), ("round", 0, 1.25), ("round", 1, 1.25), ("round", 2, 1.25)]
    seen.clear()
    world.made.clear()
    result = rerun("run1", loop, 2, store=store, prefix="fold", set={"/at": 7})
    assert seen == [("begins", 1, PRICE), ("round", 7, 1.25), ("round", 8, 1.25)]
    assert world.made == ["price", "weigh", "weigh"]
    run = result.run.id
    assert [ar.state_at(run, step, store=store).payload["at"] for step in range(4)] == [0, 1, 8, 9]
    assert store.verify() == []


def test_a_payload_that_a_function_gives_cannot_be_folded_or_edited() -> None:
    """It is what the code's own variables hold, which no log can put there."""
    store = recorded(replay_agents.plain_loop)
    world.made.clear()
    with pytest.raises(UsageError, match="without --prefix=fold"):
        rerun("run1", replay_agents.plain_loop, 2, store=store, prefix="fold")
    assert nothing_happened(store)
    with pytest.raises(UsageError, match="what a function gives, and cannot be edited"):
        rerun("run1", replay_agents.plain_loop, 2, store=store, set={"/left": 1})
    assert world.made == []


def test_what_is_ignored_does_not_spoil_the_new_log() -> None:
    """Code whose payload is another one each time is re-run by a rule; what it has is what the new log says."""

    def forgetful() -> Agent:
        @ar.agent("forgetful", max_rounds=9)
        def step(round_index: int, context: ar.Context) -> Any:
            context.change(update={"nonce": random.random(), "at": round_index})
            price("lamp")
            context.change(update={"cost": round_index})
            return ar.Complete(context.payload["nonce"]) if round_index == 3 else ar.Continue()

        return step

    journal = Journal()
    recorded(forgetful(), {"nonce": 0.5}, journal)
    rules = ["payload:$.nonce", "outcome:$.value"]
    with pytest.raises(Divergence):
        replay("run1", forgetful(), store=journal)
    assert replay("run1", forgetful(), store=journal, ignore=rules).verdict == "identical"
    for step in (1, 2, 3):
        result = rerun("run1", forgetful(), step, store=journal, ignore=rules)
        states = [ar.state_at(result.run.id, at, store=journal).payload for at in range(4)]
        assert states[3]["nonce"] == result.value
        assert [state.get("cost") for state in states] == [None, 1, 2, 3]
        assert fold(journal.events(result.run.id)).ended
    for count in range(2, len(journal.entries)):
        if journal.entries[count - 1].number > 1:
            break
        store = journal.until(count)
        if store.run("run1").status == "running":
            value = resume("run1", forgetful(), store=store, ignore=rules, take_over=True).value
            assert fold(store.events("run1")).payload["nonce"] == value


# -- runs that ended otherwise ---------------------------------------------------------------------------


def test_a_run_that_failed_is_rerun_from_where_it_failed() -> None:
    """With another answer it completes; with the same one it fails again, and the new run says so."""
    store = MemoryStore()
    with pytest.raises(ValueError, match="no bulb"):
        replay_agents.falls.run({}, store=store)
    with pytest.raises(ValueError, match="no bulb"):
        rerun("run1", replay_agents.falls, 2, store=store)
    assert [info.status for info in store.runs()] == ["failed", "failed"]
    result = rerun("run1", replay_agents.falls, 2, store=store, tool_results={"2.1": 3})
    assert (result.value, store.run(result.run.id).status) == ("unreachable", "completed")


def test_a_run_that_waits_for_a_person_is_rerun() -> None:
    """From the step before, or the one that asked: the new run asks again, and can be resumed by itself."""
    store = recorded(replay_agents.gate, {})
    for step in (1, 2):
        result = rerun("run1", replay_agents.gate, step, store=store)
        assert [interrupt.id for interrupt in result.interrupts or []] == ["2.approve.1"]
        assert store.run(result.run.id).status == "interrupted"
    assert store.run("run1").status == "interrupted"


def test_a_run_that_crashed_is_rerun() -> None:
    """Cut off after each event: each round that has started is re-run, and ends like the run that was not cut."""
    journal = Journal()
    recorded(replay_agents.counting(), {}, journal)
    whole = ending(journal, "run1")
    for count in range(3, len(journal.entries)):
        store = journal.until(count)
        for step in range(1, 1 + max(row.round for row in store.rows("run1"))):
            before = head(store)
            run = rerun("run1", replay_agents.counting(), step, store=store).run.id
            assert ending(store, run) == whole
            assert head(store) == before
        assert store.verify() == []


def test_a_child_run_is_rerun_by_itself() -> None:
    """Its fork is a run of the same parent; nothing of the parent is executed."""
    store = recorded(replay_agents.chief, {})
    world.made.clear()
    before = head(store), head(store, "run2")
    result = rerun("run2", replay_agents.inspector, 2, store=store)
    assert world.made == ["ask"]
    assert result.value == {"verdict": "about is 12.50 fair?"}
    child = store.run(result.run.id)
    assert (child.parent, child.fork_of) == (store.run("run1").uid, store.run("run2").uid)
    assert (head(store), head(store, "run2")) == before


# -- the example -----------------------------------------------------------------------------------------


@pytest.fixture
def refunds(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module("refunds")
    del sys.modules["refunds"]


def test_one_edit_at_step_seven_turns_the_failed_run_into_one_that_completes(refunds: ModuleType) -> None:
    """The example's mistake is made in step 7: without the coupon, which was paid with already, the refund is paid."""
    store = MemoryStore()
    refunds.step.run(refunds.START, store=store)
    assert store.run("run1").status == "failed"
    before = head(store), head(store, "run2")
    result = rerun("run1", refunds.step, 7, store=store, set={"/order/coupon": None}, allow=["issue_refund"])
    run = result.run.id
    assert (result.stop_reason, store.run(run).status) == ("endTurn", "completed")
    assert result.payload["receipt"] == {"receipt": "R-A-17", "amount": 95.5}
    assert result.payload["order"]["total"] == 129.5
    assert (head(store), head(store, "run2")) == before
    assert replay(run, refunds.step, store=store).verdict == "identical"


def test_the_folded_example_completes_too(refunds: ModuleType) -> None:
    """Its step keeps nothing to itself, so the folded state is all that it needs."""
    store = MemoryStore()
    refunds.step.run(refunds.START, store=store)
    result = rerun(
        "run1", refunds.step, 7, store=store, set={"/order/coupon": None}, allow=["issue_refund"], prefix="fold"
    )
    assert result.payload["receipt"] == {"receipt": "R-A-17", "amount": 95.5}


def test_a_rerun_inside_an_event_loop_says_what_to_use() -> None:
    """There the async twin is meant."""
    store = shopped()

    async def inside() -> ar.AgentResult:
        with pytest.raises(UsageError, match=r"use `await ar\.arerun\(…\)`"):
            rerun("run1", shopper(), 2, store=store)
        assert nothing_happened(store)
        return await arerun("run1", shopper(), 2, store=store, set={"/draft": 2})

    result = asyncio.run(inside())
    assert (result.value, result.payload["draft"]) == (SEEN, 2)
