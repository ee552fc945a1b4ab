"""A run that was cancelled by whoever had started it replays: the cancellation comes where it came."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from recorded import kinds, until

reached: list[bool] = []
"""Whether the code of a run that is to be cancelled has come to where it waits."""


@ar.tool(safety="pure")
async def ask(what: str) -> str:
    """A tool that answers, or hangs."""
    if what.startswith("hang"):
        reached.append(True)
        await asyncio.Event().wait()
    return what


def cancelled(step: Callable[..., Any]) -> tuple[MemoryStore, Any]:
    """A store with a run of a step function that was cancelled while it waited, and the agent."""
    store, agent = MemoryStore(), ar.agent("waiting")(step)

    async def run() -> None:
        reached.clear()
        task = asyncio.create_task(agent.arun({}, store=store))
        await until(lambda: reached)
        await asyncio.sleep(0.02)  # for what goes on beside
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())
    return store, agent


async def at_a_call(round_index: int, context: ar.Context) -> Any:
    if round_index == 1:
        await ask("first")
        return ar.Continue()
    await ask("hang")


async def at_several_calls(round_index: int, context: ar.Context) -> Any:
    await asyncio.gather(ask("hang 1"), ask("first"), ask("hang 2"))


async def at_a_pause(round_index: int, context: ar.Context) -> Any:
    await ask("first")
    reached.append(True)
    await asyncio.sleep(60)


async def at_what_is_not_recorded(round_index: int, context: ar.Context) -> Any:
    await ask("first")
    reached.append(True)
    await asyncio.Event().wait()


async def with_something_to_tidy_up(round_index: int, context: ar.Context) -> Any:
    try:
        await ask("hang")
    finally:
        context.report("the lamp is turned off")
        await ask("last")


async def within_a_child(round_index: int, context: ar.Context) -> Any:
    await context.run_agent(ar.agent("child")(at_a_call))


async def beside_a_task(round_index: int, context: ar.Context) -> Any:
    async with asyncio.TaskGroup() as group:
        group.create_task(ask("hang 1"))
        await ask("hang 2")


@pytest.mark.parametrize(
    "step",
    [
        at_a_call,
        at_several_calls,
        at_a_pause,
        at_what_is_not_recorded,
        with_something_to_tidy_up,
        within_a_child,
        beside_a_task,
    ],
)
def test_a_run_that_was_cancelled_from_outside_replays(step: Callable[..., Awaitable[Any]]) -> None:
    """Wherever it waited; as a plain function and in an event loop."""
    store, agent = cancelled(step)
    assert store.run("run1").status == "cancelled"
    for result in (ar.replay("run1", agent, store=store), asyncio.run(ar.areplay("run1", agent, store=store))):
        assert (result.verdict, result.complete, result.coverage.unused) == ("identical", True, 0)


async def catching(round_index: int, context: ar.Context) -> Any:
    try:
        await ask("hang")
    except asyncio.CancelledError:
        return ar.Complete("stopped early")


def test_code_that_makes_something_of_its_cancellation_replays() -> None:
    """The run is completed; the log still says where the cancellation came."""
    store, agent = cancelled(catching)
    assert store.run("run1").status == "completed"
    assert "call.cancelled" in kinds(store, "run1")
    assert ar.replay("run1", agent, store=store).verdict == "identical"


def test_a_call_that_is_missing_before_the_cancellation_is_told() -> None:
    """The cancellation does not cover what the code left out."""
    store, _ = cancelled(at_a_call)

    @ar.agent("waiting")
    async def changed(round_index: int, context: ar.Context) -> Any:
        if round_index == 1:
            await ask("first")
            return ar.Continue()
        await asyncio.Event().wait()

    with pytest.raises(ar.Divergence) as raised:
        ar.replay("run1", changed, store=store)
    assert (raised.value.kind, raised.value.step, raised.value.call) == ("missing call", 2, "2.1")


def test_code_that_waits_in_an_earlier_round_is_not_cancelled() -> None:
    """What the log has between comes first."""
    store, _ = cancelled(at_a_call)

    @ar.agent("waiting")
    async def changed(round_index: int, context: ar.Context) -> Any:
        await ask("first")
        await asyncio.Event().wait()

    with pytest.raises(ar.Divergence) as raised:
        ar.replay("run1", changed, store=store)
    assert (raised.value.kind, raised.value.step) == ("another outcome", 1)


def test_a_call_that_code_has_stopped_cancelling_is_told() -> None:
    """A call of another task is cancelled by the code itself, which no replay does for it."""
    store = MemoryStore()

    def agent(cancels: bool) -> Any:
        @ar.agent("waiting")
        async def step(round_index: int, context: ar.Context) -> Any:
            task = asyncio.create_task(ask("hang"))
            await ask("first")
            if cancels:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            return ar.Complete("done")

        return step

    agent(True).run({}, store=store)
    assert ar.replay("run1", agent(True), store=store).verdict == "identical"
    with pytest.raises(ar.Divergence) as raised:
        ar.replay("run1", agent(False), store=store)
    assert (raised.value.kind, raised.value.step) == ("another outcome", 1)
