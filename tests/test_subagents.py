"""Child runs: agents that run within another run."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from recorded import kinds, log_of, one, outline


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


PARENT = {"order": {"id": 1, "items": [{"sku": "a", "price": 2}]}, "customer": {"name": "Acme"}, "notes": []}


def seen_by_child(store: EventStore, **options: Any) -> Any:
    """What a child sees of PARENT."""
    seen: list[Any] = []

    @ar.agent("child")
    def child(i: int, context: ar.Context) -> Any:
        seen.append(context.payload)
        return ar.Complete(None)

    @ar.agent("parent")
    def parent(i: int, context: ar.Context) -> Any:
        context.run_agent(child, **options)
        return ar.Complete(None)

    parent.run(PARENT, store=store)
    return seen[0]


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({}, PARENT),
        ({"downstream": ["order.id", "customer.*"]}, {"order": {"id": 1}, "customer": {"name": "Acme"}}),
        ({"downstream": ["items.*"]}, {}),
        ({"scope": "/order"}, {"id": 1, "items": [{"sku": "a", "price": 2}]}),
        ({"downstream": ["order.id"], "scope": "/order"}, {"id": 1}),
        ({"scope": "/missing"}, None),
        ({"payload": {"own": 1}}, {"own": 1}),
        ({"payload": None}, None),
    ],
)
def test_what_a_child_sees(store: EventStore, options: Any, seen: Any) -> None:
    """By default everything; else what the paths and the scope select, or a payload of its own."""
    assert seen_by_child(store, **options) == seen
    assert one(store, "run.started", "run2").data.payload == seen
    assert ar.state_at("run1", store=store).payload == PARENT


def test_what_a_child_brings_back(store: EventStore) -> None:
    """As far as the paths allow, as one change of the parent's that names its source; the rest is named as blocked."""

    @ar.agent("inspector")
    def child(i: int, context: ar.Context) -> Any:
        context.change(new={"inspection": {"broken": ["a"]}, "price": 5})
        return ar.Complete({"ok": True})

    @ar.tool
    def inspect(context: ar.Context) -> Any:
        result = context.run_agent(
            child, scope="/order", upstream=["order.inspection.*"], input="in", params={"p": 1}, name="the inspector"
        )
        return result.value

    @ar.agent("parent")
    def parent(i: int, context: ar.Context) -> Any:
        assert inspect(context) == {"ok": True}
        return ar.Complete(None)

    result = parent.run(PARENT, store=store)
    assert result.payload == {**PARENT, "order": {**PARENT["order"], "inspection": {"broken": ["a"]}}}  # type: ignore[dict-item]  # a dict
    assert outline(store, "run1") == [
        "round.started",
        "tool.called 1.1 inspect",
        "subrun.started 1.1",
        "payload.changed",
        "subrun.finished",
        "tool.returned 1.1",
        "step.decided",
        "round.finished complete",
    ]
    child_uid = store.run("run2").uid
    started, finished = one(store, "subrun.started", "run1").data, one(store, "subrun.finished", "run1").data
    assert (started.run, started.name, started.call) == (child_uid, "the inspector", "1.1")
    assert (finished.run, finished.status, finished.result["structuredOutput"]) == (
        child_uid,
        "completed",
        {"ok": True},
    )
    assert finished.merge["upstream"] == ["order.inspection.*"]
    assert finished.merge["scope"] == "/order"
    assert [blocked["path"] for blocked in finished.merge["blocked"]] == ["order.price", "customer.name"]
    change = one(store, "payload.changed", "run1").data
    assert change.source == {"kind": "sub-agent", "run": child_uid, "call": "1.1"}
    assert change.request == [{"op": "add", "path": "/order/inspection", "value": {"broken": ["a"]}}]
    began = one(store, "run.started", "run2").data
    assert (began.parent, began.input, began.params) == ({"run": store.run("run1").uid, "call": "1.1"}, "in", {"p": 1})
    assert ar.state_at("run1", store=store).payload == result.payload


def test_values_that_are_no_json_go_down_and_up(store: EventStore) -> None:
    """A child works with the parent's values, on copies, and brings them back as they are."""

    @ar.agent("child")
    def child(i: int, context: ar.Context) -> Any:
        assert context.payload["price"] == Decimal("1.0")
        context.change(update={"price": Decimal("1.00")}, new={"seen": (1, [2])})
        return ar.Complete(None)

    @ar.agent("parent")
    def parent(i: int, context: ar.Context) -> Any:
        context.run_agent(child, upstream=["*"])
        return ar.Complete(None)

    result = parent.run({"price": Decimal("1.0"), "password": "hunter2"}, store=store)
    assert repr(result.payload) == "{'price': Decimal('1.00'), 'password': 'hunter2', 'seen': (1, [2])}"
    state = ar.state_at("run1", store=store).payload
    assert repr(state["price"]) == "Decimal('1.00')"
    assert state["password"].startswith("[redacted:")
    assert "hunter2" not in str([row.body for run in ("run1", "run2") for row in store.rows(run)])


def test_what_a_child_may_not_bring_back_is_redacted_where_it_is_reported(store: EventStore) -> None:
    """A value under a secret name is a secret in the list of what was blocked, too."""

    @ar.agent("child")
    def child(i: int, context: ar.Context) -> Any:
        context.change(update={"account": {"password": "hunter3"}})
        return ar.Complete(None)

    @ar.agent("parent")
    def parent(i: int, context: ar.Context) -> Any:
        context.run_agent(child, upstream=["other"])
        return ar.Complete(None)

    result = parent.run({"account": {"password": "hunter2"}}, store=store)
    assert result.payload == {"account": {"password": "hunter2"}}
    (blocked,) = one(store, "subrun.finished", "run1").data.merge["blocked"]
    assert (blocked["path"], blocked["operation"]) == ("account.password", "update")
    assert blocked["from"].startswith("[redacted:password:")
    assert blocked["to"].startswith("[redacted:password:")
    assert "hunter" not in str([row.body for run in ("run1", "run2") for row in store.rows(run)])


def test_a_child_that_fails_raises_what_it_raised(store: EventStore) -> None:
    """The parent records how it ended, and may go on; nothing is brought back."""
    error = ValueError("inside")

    @ar.agent("child")
    def child(i: int, context: ar.Context) -> Any:
        context.change(new={"half": "done"})
        raise error

    @ar.agent("parent")
    def parent(i: int, context: ar.Context) -> Any:
        with pytest.raises(ValueError) as caught:
            context.run_agent(child, upstream=["*"])
        assert caught.value is error
        return ar.Complete("went on")

    assert parent.run({}, store=store).payload == {}
    finished = one(store, "subrun.finished", "run1").data
    assert (finished.status, finished.merge, finished.error.message) == ("failed", None, "inside")
    assert finished.result["stopReason"] == "error"
    assert (store.run("run1").status, store.run("run2").status) == ("completed", "failed")


def test_a_child_that_ends_otherwise_gives_its_result(store: EventStore) -> None:
    """Failed by decision, at its bound, cancelled, or waiting for a person: a result; its payload stays its own."""

    @ar.agent("child", max_rounds=1)
    def child(i: int, context: ar.Context) -> Any:
        context.change(new={"half": "done"})
        if context.input == "interrupt":
            context.interrupt("approve")
        return {"Failed": ar.NextStep(step="Failed"), "bound": ar.Continue()}[context.input]

    @ar.agent("parent")
    def parent(i: int, context: ar.Context) -> Any:
        ways = ["Failed", "bound", "interrupt"]
        return ar.Complete([context.run_agent(child, input=way, upstream=["*"]).stop_reason for way in ways])

    result = parent.run({}, store=store)
    assert (result.value, result.payload) == (["failed", "limitTurns", "interrupt"], {})
    ended = [event.data.status for event in log_of(store, "run1") if event.kind == "subrun.finished"]
    assert ended == ["failed", "failed", "interrupted"]
    assert store.run("run1").status == "completed"


def test_a_question_of_the_parents_asked_in_a_child_stops_the_parent(store: EventStore) -> None:
    """An interrupt belongs to the run that raised it."""

    @ar.agent("parent")
    def parent(i: int, context: ar.Context) -> Any:
        child = ar.agent("child")(lambda i, own: context.interrupt("approve"))
        context.run_agent(child)

    result = parent.run({}, store=store)
    assert (result.stop_reason, [interrupt.name for interrupt in result.interrupts]) == ("interrupt", ["approve"])
    assert (store.run("run1").status, store.run("run2").status) == ("interrupted", "failed")


def test_an_agent_run_in_a_run_is_its_child(store: EventStore) -> None:
    """Without `run_agent` too, in whatever depth; in another store it is a run of its own."""
    elsewhere = MemoryStore()

    @ar.agent("leaf")
    def leaf(i: int, context: ar.Context) -> Any:
        return ar.Complete("leaf")

    @ar.agent("middle")
    def middle(i: int, context: ar.Context) -> Any:
        leaf.run(store=elsewhere)
        return ar.Complete(leaf.run().value)

    @ar.tool
    def delegate() -> Any:
        return middle.run({"x": 1}, store=store).value

    @ar.agent("top")
    def top(i: int, context: ar.Context) -> Any:
        return ar.Complete(delegate())

    assert top.run(store=store).value == "leaf"
    runs = {info.agent: info for info in store.runs()}
    assert [info.id for info in store.runs()] == ["run1", "run2", "run3"]
    assert (runs["middle"].parent, runs["leaf"].parent) == (runs["top"].uid, runs["middle"].uid)
    assert one(store, "run.started", "run2").data.parent == {"run": runs["top"].uid, "call": "1.1"}
    assert one(store, "run.started", "run3").data.parent == {"run": runs["middle"].uid, "call": None}
    assert "subrun.started" in kinds(store, "run2")
    assert elsewhere.runs()[0].parent is None


async def test_children_in_a_gather_are_told_apart(store: EventStore) -> None:
    """Each child has a run of its own; the parent's events of each lie in its own task; no result is lost."""

    @ar.tool
    async def look(n: int) -> int:
        await asyncio.sleep(0.001 * (3 - n))
        return n

    @ar.agent("child")
    async def child(i: int, context: ar.Context) -> Any:
        context.change(new={"found": {str(context.input): await look(context.input)}})
        return ar.Complete(context.input)

    @ar.agent("parent")
    async def parent(i: int, context: ar.Context) -> Any:
        waiting = [context.run_agent(child, {}, input=n, upstream=["found.*"]) for n in range(4)]
        results = await asyncio.gather(*waiting)
        return ar.Complete([result.value for result in results])

    result = await parent.arun({"found": {}}, store=store)
    assert result.value == [0, 1, 2, 3]
    for info in store.runs()[1:]:
        called = one(store, "tool.called", info.uid)
        assert called.data.arguments == {"n": one(store, "run.started", info.uid).data.input}
        assert info.status == "completed"
    started = [event for event in log_of(store, "run1") if event.kind == "subrun.started"]
    assert [event.task for event in started] == ["0.1:0", "0.1:1", "0.1:2", "0.1:3"]
    assert ar.state_at("run1", store=store).payload == result.payload


def test_children_in_threads_bring_everything_back(store: EventStore) -> None:
    """What each brings back is merged into what the payload is then."""

    @ar.agent("child")
    def child(i: int, context: ar.Context) -> Any:
        context.change(new={f"k{context.input}": context.input})
        return ar.Complete(None)

    @ar.agent("parent")
    def parent(i: int, context: ar.Context) -> Any:
        threads = [
            threading.Thread(target=lambda n=n: context.run_agent(child, {}, input=n, upstream=[f"k{n}"]))
            for n in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return ar.Complete(None)

    result = parent.run({}, store=store)
    assert result.payload == {f"k{n}": n for n in range(5)}
    assert ar.state_at("run1", store=store).payload == result.payload


async def test_a_cancelled_child_is_recorded_in_the_parent(store: EventStore) -> None:
    """A timeout around a child cancels the child; the parent goes on."""

    @ar.agent("child")
    async def child(i: int, context: ar.Context) -> Any:
        await asyncio.sleep(30)

    @ar.agent("parent")
    async def parent(i: int, context: ar.Context) -> Any:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(context.run_agent(child), 0.1)
        return ar.Complete("went on")

    assert (await parent.arun(store=store)).value == "went on"
    assert one(store, "subrun.finished", "run1").data.status == "cancelled"
    assert [info.status for info in store.runs()] == ["completed", "cancelled"]


async def test_an_agent_run_in_a_run_on_a_loop_is_its_child(store: EventStore) -> None:
    """`arun` within a run, and `run` in a thread of it."""

    @ar.agent("leaf")
    def leaf(i: int, context: ar.Context) -> Any:
        return ar.Complete(context.input)

    @ar.agent("top")
    async def top(i: int, context: ar.Context) -> Any:
        first = await leaf.arun(input=1)
        second = await asyncio.to_thread(leaf.run, input=2)
        return ar.Complete([first.value, second.value])

    assert (await top.arun(store=store)).value == [1, 2]
    uid = store.run("run1").uid
    assert [info.parent for info in store.runs()] == [None, uid, uid]
    assert [event.data.status for event in log_of(store, "run1") if event.kind == "subrun.finished"] == [
        "completed"
    ] * 2
