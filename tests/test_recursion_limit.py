"""An agent that runs into the recursion limit, and catches that, is recorded to its end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.store import EventStore


@pytest.fixture
def store(tmp_path: Any) -> EventStore:
    """An empty store."""
    return ar.open_store(f"sqlite:///{tmp_path}/runs.db")


def kinds_of(store: EventStore, run: str) -> Counter[str]:
    """How many events of each kind a run has, which has to be whole."""
    events = list(store.events(run))
    assert [event.seq for event in events] == list(range(len(events)))
    assert events[-1].kind == "run.finished"
    return Counter(event.kind for event in events)


def endless(kind: str) -> Callable[[int], Any]:
    """An effect that calls itself for ever."""

    def again(n: int) -> Any:
        return effect(n + 1)

    effect = ar.wrap(again, kind, name="again")  # type: ignore[arg-type]  # "tool" or "model"
    return effect


def endless_later(kind: str) -> Callable[[int], Any]:
    """A coroutine function that awaits itself for ever."""

    async def again(n: int) -> Any:
        return await effect(n + 1)

    effect = ar.wrap(again, kind, name="again")  # type: ignore[arg-type]  # "tool" or "model"
    return effect


@pytest.mark.parametrize("kind", ["tool", "model"])
def test_a_call_that_recurses_endlessly_fails_alone(store: EventStore, kind: str) -> None:
    """Each call that began has failed in the record, and the run goes on."""
    effect = endless(kind)

    @ar.agent("d")
    def step(index: int, context: ar.Context) -> Any:
        with pytest.raises(RecursionError):
            effect(0)
        return ar.Complete("went on")

    result = step.run({}, store=store)
    assert result.value == "went on"
    kinds = kinds_of(store, result.run.uid)
    assert kinds[f"{kind}.called"] == kinds[f"{kind}.failed"] > 50


@pytest.mark.parametrize("kind", ["tool", "model"])
@pytest.mark.parametrize("on_a_loop", [True, False])
def test_a_coroutine_that_recurses_endlessly_fails_alone(store: EventStore, kind: str, on_a_loop: bool) -> None:
    """The same holds for coroutines, on a loop of the caller's or of the run's."""
    effect = endless_later(kind)

    @ar.agent("d")
    async def step(index: int, context: ar.Context) -> Any:
        with pytest.raises(RecursionError):
            await effect(0)
        return ar.Complete("went on")

    result = asyncio.run(step.arun({}, store=store)) if on_a_loop else step.run({}, store=store)
    assert result.value == "went on"
    kinds = kinds_of(store, result.run.uid)
    assert kinds[f"{kind}.called"] == kinds[f"{kind}.failed"] > 50


def test_a_function_that_recurses_outside_of_its_tool_calls_leaves_none_open(store: EventStore) -> None:
    """Tools that are called ever deeper down return, or never begin."""

    @ar.tool
    def double(n: int) -> int:
        return 2 * n

    def down(n: int) -> None:
        double(n)
        down(n + 1)

    with ar.record("d", store=store) as run, pytest.raises(RecursionError):
        down(0)
    kinds = kinds_of(store, run.uid)
    assert kinds["tool.called"] == kinds["tool.returned"] + kinds["tool.failed"] > 200


def test_reports_and_changes_at_the_edge_of_the_stack_keep_their_order(store: EventStore) -> None:
    """None is lost or doubled: the payload is what the last change that did not raise made of it."""
    reported = []

    def down(n: int) -> None:
        run.report({"n": n})
        reported.append(n)
        run.change(update={"n": n})
        down(n + 1)

    with ar.record("d", payload={"n": -1}, store=store) as run:
        with pytest.raises(RecursionError):
            down(0)
        last = run.payload["n"]
    events = list(store.events(run.uid))
    notes = [event.data.content["n"] for event in events if event.kind == "report"]
    assert notes[: len(reported)] == reported
    assert last in (reported[-1], reported[-1] - 1)
    kinds_of(store, run.uid)


def test_agents_that_start_themselves_endlessly_all_end(store: EventStore) -> None:
    """A child run begins only where there is the stack to end it."""

    @ar.agent("d")
    def step(index: int, context: ar.Context) -> Any:
        with suppress(RecursionError):
            context.run_agent(step, {})
        return ar.Complete("went on")

    assert step.run({}, store=store).value == "went on"
    runs = store.runs()
    assert len(runs) > 5
    for run in runs:
        kinds_of(store, run.uid)
