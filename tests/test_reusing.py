"""Recorded answers are used again where a live call asks just what was recorded, in child runs and in any form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.errors import LiveCallRefused, UnknownType
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.replay.edits import edits_of
from agentreplay.replay.planning import plan
from recorded import log_of

MADE: list[Any] = []
"""What was really called, in order."""


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    """Nothing was called yet."""
    MADE.clear()


# -- child runs --------------------------------------------------------------------------------------------


@ar.tool(safety="pure")
def look(x: Any) -> Any:
    MADE.append(x)
    return x


@ar.tool(safety="irreversible")
def wire(x: Any) -> str:
    MADE.append(f"wire {x}")
    return f"wired {x}"


@ar.agent("grandchild")
def grandchild(round_index: int, context: ar.Context) -> Any:
    return ar.Complete(wire(context.payload["x"]))


@ar.agent("child")
def child(round_index: int, context: ar.Context) -> Any:
    seen = look(context.payload["x"])
    if round_index == 1:
        return ar.Continue()
    return ar.Complete([seen, context.run_agent(grandchild, {"x": seen}).value])


@ar.agent("parent")
def parent(round_index: int, context: ar.Context) -> Any:
    context.change(update={str(round_index): context.run_agent(child, {"x": round_index}).value})
    look(round_index * 10)
    context.change(update={"twice": [context.run_agent(child, {"x": x}).value for x in context.payload["of"]]})
    return ar.Complete("done") if round_index == 2 else ar.Continue()


def recorded() -> MemoryStore:
    store = MemoryStore()
    parent.run({"of": [3, 4]}, store=store)
    MADE.clear()
    return store


@pytest.mark.parametrize("step", [1, 2])
def test_child_runs_are_answered_too(step: int) -> None:
    """Nothing is made, however deep, and nothing has to be allowed; what comes of it is the same, and replays."""
    store = recorded()
    result = ar.rerun("run1", parent, step, reuse=True, store=store)
    assert MADE == []
    assert result.payload == ar.state_at("run1", store=store).payload
    assert ar.replay(result.run.id, parent, store=store).verdict == "identical"
    assert store.verify() == []
    live = [event for event in log_of(store, result.run.id) if event.kind == "tool.returned" and event.round >= step]
    assert [event.data.reused for event in live] == [True] * (3 - step)


def test_a_child_run_that_asks_otherwise_is_made() -> None:
    """Those beside it are answered, in whatever order they come now; each recorded call answers once."""
    store = recorded()
    ar.rerun("run1", parent, 2, reuse=True, set={"/of": [4, 7, 3]}, allow=["wire"], store=store)
    assert MADE == [7, 7, "wire 7"]
    MADE.clear()
    ar.rerun("run1", parent, 2, reuse=True, set={"/of": [3, 3, 4]}, allow=["wire"], store=store)
    assert MADE == [3, 3, "wire 3"]
    with pytest.raises(LiveCallRefused):
        ar.rerun("run1", parent, 2, reuse=True, set={"/of": [3, 3, 4]}, store=store)


def test_a_child_run_in_an_event_loop_is_answered_too() -> None:
    """Several at a time, each from the recorded one that began with the same."""

    @ar.agent("worker")
    async def worker(round_index: int, context: ar.Context) -> Any:
        await asyncio.sleep(0.001 * context.payload["x"])
        return ar.Complete(await alook(context.payload["x"]))

    @ar.tool(safety="pure")
    async def alook(x: int) -> int:
        MADE.append(x)
        return x * 2

    @ar.agent("crowd")
    async def crowd(round_index: int, context: ar.Context) -> Any:
        results = await asyncio.gather(*[context.run_agent(worker, {"x": x}) for x in context.payload["of"]])
        return ar.Complete([one.value for one in results])

    store = MemoryStore()
    asyncio.run(crowd.arun({"of": [3, 1, 2]}, store=store))
    MADE.clear()
    assert ar.rerun("run1", crowd, 1, reuse=True, set={"/of": [2, 3, 5, 1]}, store=store).value == [4, 6, 10, 2]
    assert MADE == [5]
    assert ar.replay("run5", crowd, store=store).verdict == "identical"


def test_a_plan_tells_of_child_runs() -> None:
    """Their calls are answered as recorded, too, as far as they ask the same."""
    store = recorded()
    told = plan(store.events("run1"), 2, edits_of(), run="run1", reuse=True, child=store.events)
    assert {call.fate for call in told.calls} == {"reused"}
    assert told.refused == ()


# -- what calls change, and what is edited inside ----------------------------------------------------------


@ar.tool(safety="pure")
def add(x: int) -> int:
    MADE.append(f"add {x}")
    run_of_add[0].change(update={"sum": run_of_add[0].payload["sum"] + look(x)})
    return x


run_of_add: list[Any] = []


@ar.agent("adder")
def adder(round_index: int, context: ar.Context) -> Any:
    run_of_add[:] = [context]
    add(round_index)
    return ar.Complete(context.payload["sum"]) if round_index == 3 else ar.Continue()


def test_what_a_reused_call_had_changed_is_changed_again() -> None:
    """The code builds on it; a replay of the new run has it, too."""
    store = MemoryStore()
    assert adder.run({"sum": 0}, store=store).value == 6
    MADE.clear()
    result = ar.rerun("run1", adder, 2, reuse=True, store=store)
    assert (result.value, MADE) == (6, [])
    assert ar.replay(result.run.id, adder, store=store).verdict == "identical"


def test_a_call_in_which_something_is_edited_is_made() -> None:
    """Else what was given for the call inside of it would have no effect."""
    store = MemoryStore()
    adder.run({"sum": 0}, store=store)
    MADE.clear()
    run = ar.rerun("run1", adder, 2, reuse=True, tool_results={"2.2": 50}, store=store).run.id
    assert (ar.state_at(run, 2, store=store).payload, MADE) == ({"sum": 51}, ["add 2"])
    assert ar.replay(run, adder, store=store).verdict == "identical"


# -- forms -------------------------------------------------------------------------------------------------


@dataclass
class Order:
    """What a tool gives."""

    total: int


@ar.tool(safety="pure")
def plain(x: int) -> Order:
    MADE.append("plain")
    return Order(x)


@ar.tool(safety="pure")
def items(x: int) -> Iterator[int]:
    MADE.append("items")
    yield x
    yield x + 1
    return "end"  # type: ignore[return-value]  # which a generator may


@ar.tool(safety="pure")
def list_of(x: int) -> Any:
    MADE.append("list_of")
    return (n for n in range(x))


@ar.tool(safety="pure")
async def later(x: int) -> int:
    MADE.append("later")
    return x


@ar.tool(safety="pure")
def promised(x: int) -> Any:
    async def work() -> int:
        MADE.append("promised")
        return x

    return work()


@ar.tool(safety="pure")
def in_a_thread(x: int) -> Future[int]:
    MADE.append("in_a_thread")
    future: Future[int] = Future()
    future.set_result(x)
    return future


@ar.tool(safety="pure")
async def stream(x: int) -> AsyncIterator[int]:
    MADE.append("stream")
    for n in range(x):
        yield n


async def everything(x: int) -> list[Any]:
    def drive() -> Iterator[Any]:
        end = yield from items(x)  # type: ignore[misc]  # it returns something
        yield end

    return [
        plain(x),
        list(drive()),
        list(list_of(x)),
        await later(x),
        await promised(x),
        in_a_thread(x).result(),
        [n async for n in stream(x)],
    ]


@ar.agent("former")
async def former(round_index: int, context: ar.Context) -> Any:
    got = await everything(round_index + 1)
    context.change(update={"got": repr(got)})
    return ar.Complete(None) if round_index == 2 else ar.Continue()


@pytest.fixture
def formed() -> MemoryStore:
    """run1 has had an answer of each form in each of two rounds."""
    store = MemoryStore()
    asyncio.run(former.arun({"got": ""}, store=store))
    assert ar.state_at("run1", store=store).payload["got"] == (
        "[Order(total=3), [3, 4, 'end'], [0, 1, 2], 3, 3, 3, [0, 1, 2]]"
    )
    MADE.clear()
    return store


@pytest.mark.parametrize("step", [1, 2])
def test_an_answer_that_is_used_again_has_the_form_and_the_type_of_the_first(step: int, formed: MemoryStore) -> None:
    """A coroutine is awaited, a generator is read, an object is one; and the new run replays."""
    result = ar.rerun("run1", former, step, reuse=True, store=formed)
    assert MADE == []
    assert result.payload == ar.state_at("run1", store=formed).payload
    assert ar.replay(result.run.id, former, store=formed).verdict == "identical"


def test_an_answer_that_is_given_has_the_form_of_the_recorded_one(formed: MemoryStore) -> None:
    """Of a stream a list is its items, null none, and anything else is one; an object is made of its fields."""
    given = {"2.1": {"total": 1}, "2.2": [7, 8], "2.3": "one", "2.4": 4, "2.5": 5, "2.6": 6, "2.7": [9]}
    result = ar.rerun("run1", former, 2, tool_results=given, store=formed)
    assert MADE == []
    assert result.payload["got"] == "[Order(total=1), [7, 8, None], ['one'], 4, 5, 6, [9]]"
    assert ar.replay(result.run.id, former, store=formed).verdict == "identical"
    result = ar.rerun("run1", former, 2, skip=list(given), store=formed)
    assert result.payload["got"] == "[None, [None], [], None, None, None, []]"
    assert ar.replay(result.run.id, former, store=formed).verdict == "identical"


def test_an_answer_of_an_unknown_class_is_not_used_again() -> None:
    """Plain data in its place would lead the agent somewhere else."""

    @ar.tool(safety="pure")
    def book(x: int) -> Any:
        MADE.append("book")
        return Order(x)

    @ar.agent("booker")
    def booker(round_index: int, context: ar.Context) -> Any:
        return ar.Complete(book(1).total)

    store = MemoryStore()
    booker.run({}, store=store)
    MADE.clear()
    with pytest.raises(UnknownType, match="Order"):
        ar.rerun("run1", booker, 1, reuse=True, store=store)
    assert MADE == []


def test_a_call_that_had_failed_is_made_and_the_next_is_the_next() -> None:
    """A second attempt that asked the same was answered; it is the second again."""
    answers = [ValueError("busy"), 5]

    @ar.tool(safety="pure")
    def attempt() -> int:
        MADE.append("attempt")
        answer = answers[(len(MADE) - 1) % 2]
        if isinstance(answer, ValueError):
            raise answer
        return answer

    @ar.agent("retrying")
    def retrying(round_index: int, context: ar.Context) -> Any:
        try:
            return ar.Complete(attempt())
        except ValueError:
            return ar.Complete(attempt())

    store = MemoryStore()
    assert retrying.run({}, store=store).value == 5
    MADE.clear()
    assert ar.rerun("run1", retrying, 1, reuse=True, store=store).value == 5
    assert MADE == ["attempt"]
