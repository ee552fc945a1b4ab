"""Child runs: executed against their own recordings, or answered as wholes."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore

PAUSES = [0.001, 0.0012, 0.0005, 0.0011]


def gathering(seen: list[Any], real: list[Any]) -> Any:
    """An agent that runs four children at once, twice."""

    @ar.tool(safety="pure")
    async def look(n: int, pause: float) -> int:
        real.append(n)
        await asyncio.sleep(pause)
        return n * 2

    @ar.agent("child")
    async def child(i: int, context: ar.Context) -> Any:
        found = await look(context.input * 10 + i, PAUSES[context.input] * i)
        seen.append((context.input, i, found))
        context.change(update={"found": found})
        return ar.Complete(found) if i == 3 else ar.Continue()

    @ar.agent("parent")
    async def parent(i: int, context: ar.Context) -> Any:
        results = await asyncio.gather(*[context.run_agent(child, {"found": 0}, input=n) for n in range(4)])
        context.change(update={"sum": sum(result.value for result in results) + await look(1000, 0.001)})
        seen.append(("parent", i))
        return ar.Complete("done") if i == 2 else ar.Continue()

    return parent


@pytest.mark.parametrize("attempt", range(5))
def test_gathered_children_replay_in_their_common_order(attempt: int) -> None:
    """What the children saw interleaves again as it did."""
    store, seen, real = MemoryStore(), list[Any](), list[Any]()
    agent = gathering(seen, real)
    asyncio.run(agent.arun({"sum": 0}, store=store))
    recorded, made = list(seen), len(real)
    seen.clear()
    result = ar.replay("run1", agent, store=store)
    assert (result.verdict, result.coverage.notes, len(real)) == ("identical", [], made)
    assert seen == recorded


def test_a_shallow_replay_executes_no_child() -> None:
    """Children give what they gave, and only the parent's own code runs."""
    store, seen, real = MemoryStore(), list[Any](), list[Any]()
    agent = gathering(seen, real)
    asyncio.run(agent.arun({"sum": 0}, store=store))
    seen.clear()
    result = ar.replay("run1", agent, store=store, shallow=True)
    assert result.verdict == "identical"
    assert seen == [("parent", 1), ("parent", 2)]
    assert result.coverage.to_json() == {"recorded": 10, "live": 0, "uncaptured": 0, "unused": 0}


def test_children_bring_back_what_they_brought_and_raise_what_they_raised() -> None:
    """Answered as a whole, a child's payload is merged as it was, and its error is one that can be caught."""
    executed: list[Any] = []

    @ar.agent("child")
    def child(i: int, context: ar.Context) -> Any:
        executed.append(context.input)
        context.uuid4()
        context.change(new={"refund": {"amount": 5}, "other": 1})
        if context.input == "fail":
            raise ValueError("no refund")
        return ar.Complete({"paid": True})

    @ar.agent("parent")
    def parent(i: int, context: ar.Context) -> Any:
        result = context.run_agent(child, {}, upstream=["refund.*:add,update"], input="ok")
        try:
            context.run_agent(child, {}, input="fail")
        except ValueError as error:
            context.change(new={"error": str(error)})
        return ar.Complete(result.value)

    store = MemoryStore()
    payload = parent.run({}, store=store).payload
    assert payload == {"refund": {"amount": 5}, "error": "no refund"}
    executed.clear()
    for shallow in (False, True):
        result = ar.replay("run1", parent, store=store, shallow=shallow)
        assert result.verdict == "identical"
        assert result.result is not None
        assert (result.result.payload, result.result.value) == (payload, {"paid": True})
    assert executed == ["ok", "fail"]


class Gated(MemoryStore):
    """Lets no child run begin before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may = threading.Event(), threading.Event()

    def _insert_run(self, run: Any, note: Any = None) -> int:
        if run.parent is not None:
            self.asked.set()
            assert self.may.wait(30)
        return super()._insert_run(run, note)


@ar.tool(safety="pure")
def ready(n: int) -> int:
    return n


def abandoning(store: Gated, form: str, *, cancels: bool = True) -> Any:
    """An agent that starts three children, and cancels them before the first has begun."""

    @ar.agent("child")
    async def child(i: int, context: ar.Context) -> Any:
        return ar.Complete(i)

    async def block() -> None:
        async with ar.record("child"):
            pass

    @ar.agent("parent")
    async def parent(i: int, context: ar.Context) -> Any:
        ready(3)
        tasks = [asyncio.create_task(block() if form == "block" else child.arun()) for _ in range(3)]
        for _ in range(3):
            await asyncio.sleep(0)  # they have come to where they begin
        for task in tasks if cancels else ():
            task.cancel()
        store.may.set()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        return ar.Complete([type(one).__name__ for one in ended])

    return parent


@pytest.mark.parametrize("form", ["arun", "block"])
def test_children_that_are_cancelled_where_they_begin_are_recorded_and_replay(form: str) -> None:
    """They have begun and not got anywhere, whether they were being written by then or waited for that."""
    store = Gated()
    result = asyncio.run(abandoning(store, form).arun(store=store))
    assert result.value == ["CancelledError"] * 3
    started = [event for event in store.events("run1") if event.kind == "subrun.started"]
    assert [event.data.cancelled for event in started] == [True] * 3
    for number in (2, 3, 4):
        assert store.run(f"run{number}").status == "cancelled"
        assert [event.kind for event in store.events(f"run{number}")] == ["run.started", "run.finished"]
    replayed = ar.replay("run1", abandoning(store, form), store=store)
    assert (replayed.verdict, replayed.coverage.notes) == ("identical", [])


@pytest.mark.parametrize("form", ["arun", "block"])
def test_children_that_are_not_cancelled_any_more_are_a_divergence(form: str) -> None:
    """They would go on where the recorded ones did not."""
    store = Gated()
    asyncio.run(abandoning(store, form).arun(store=store))
    with pytest.raises(ar.Divergence):
        ar.replay("run1", abandoning(store, form, cancels=False), store=store)


def test_a_child_that_was_cancelled_from_outside_where_it_began_replays() -> None:
    """The cancellation comes where it came, to the main code, which waits for its child to begin."""
    store = Gated()

    @ar.agent("child")
    async def child(i: int, context: ar.Context) -> Any:
        raise AssertionError("it never ran")

    @ar.agent("parent")
    async def parent(i: int, context: ar.Context) -> Any:
        ready(1)
        await child.arun()

    async def left() -> None:
        task = asyncio.create_task(parent.arun(store=store))
        await asyncio.to_thread(store.asked.wait, 30)
        task.cancel()
        await asyncio.sleep(0)
        store.may.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(left())
    assert [store.run(name).status for name in ("run1", "run2")] == ["cancelled", "cancelled"]
    assert ar.replay("run1", parent, store=store).verdict == "identical"
