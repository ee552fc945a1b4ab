"""The loop on an event loop: cancellation, closing, and who commits."""

from __future__ import annotations

import asyncio
import functools
import os
import signal as os_signal
import threading
import time
from collections.abc import Callable
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.loop import Agent
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from recorded import SpyStore, kinds, log_of, one, outline


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


def stepping(step: Callable[[int, ar.Context], Any], **options: Any) -> Agent:
    return ar.agent("stepper", **options)(step)


async def double(i: int, context: ar.Context) -> Any:
    await asyncio.sleep(0)
    context.change(update={"n": i})
    return ar.Complete(2 * i) if i == 3 else ar.Continue()


class Doubler:
    async def __call__(self, i: int, context: ar.Context) -> Any:
        return await double(i, context)


@pytest.mark.parametrize(
    "step",
    [double, functools.partial(double), Doubler(), lambda i, context: double(i, context)],
    ids=["function", "partial", "object", "lambda"],
)
def test_an_async_step_runs_without_a_loop(store: EventStore, step: Any) -> None:
    """Whatever returns something to await is awaited, in one loop for the whole run."""
    loops = set()

    def noting(i: int, context: ar.Context) -> Any:
        async def run() -> Any:
            loops.add(asyncio.get_running_loop())
            return await step(i, context)

        return run()

    assert ar.agent("doubler")(step).run({"n": 0}, store=store).value == 6
    assert ar.agent("doubler")(noting).run({"n": 0}, store=store).payload == {"n": 3}
    assert len(loops) == 1


async def test_run_in_a_running_loop_says_what_to_use(store: EventStore) -> None:
    """A notebook or server has a loop; there it is `arun`, for plain steps too."""
    plain = stepping(lambda i, context: ar.Complete(i))
    with pytest.raises(ar.UsageError, match=r"await stepper\.arun"):
        plain.run(store=store)
    assert store.runs() == []
    assert (await plain.arun(store=store)).value == 1


@pytest.mark.parametrize("form", ["arun", "run", "record"])
def test_an_event_loop_never_commits(form: str) -> None:
    """Whatever is stored is stored by other threads, from the making of the run to its end."""
    store = SpyStore()
    loop_threads = set()

    @ar.tool
    async def look() -> None:
        loop_threads.add(threading.current_thread().name)

    @ar.tool
    def plain_look(context: ar.Context) -> None:
        context.report("on the loop")

    @ar.agent("looker")
    async def step(i: int, context: ar.Context) -> Any:
        await look()
        plain_look(context)
        context.change(update={"i": i})
        await context.run_agent(child, {"from": "child"})
        return ar.Complete(1) if i == 2 else ar.Continue()

    @ar.agent("child")
    async def child(i: int, context: ar.Context) -> Any:
        await look()
        return ar.Complete(1)

    async def recorded() -> None:
        with ar.record("plain block", store=store) as run, run.round():
            plain_look(run)
        async with ar.record("async block", store=store) as run:
            await look()

    def main() -> None:
        if form == "arun":
            asyncio.run(step.arun({}, store=store))
        elif form == "run":
            step.run({}, store=store)
        else:
            asyncio.run(recorded())

    thread = threading.Thread(target=main, name="the loop's")
    thread.start()
    thread.join()
    assert loop_threads == {"the loop's"}
    on_loop = {kind for kind, threads in store.written.items() if "the loop's" in threads}
    # `run` makes the run, and goes from round to round, before and after its loop runs.
    assert on_loop <= ({"create_run", "run.started", "round.started", "subrun.started"} if form == "run" else set())
    assert len(store.runs()) >= 2
    assert all(store.run(info.uid).status == "completed" for info in store.runs())


async def test_cancelling_a_run_closes_it_and_goes_on(store: EventStore) -> None:
    """task.cancel(): the call in flight is cancelled, the round and the run too, and CancelledError is raised."""

    @ar.tool
    async def forever() -> None:
        await asyncio.Event().wait()

    @ar.agent("waiter")
    async def step(i: int, context: ar.Context) -> Any:
        await forever()

    task = asyncio.create_task(step.arun(store=store))
    while len(store.runs()) == 0 or store.run("run1").head_seq < 2:
        await asyncio.sleep(0.001)
    task.cancel("stop it")
    with pytest.raises(asyncio.CancelledError, match="stop it"):
        await task
    assert task.cancelled()
    assert outline(store) == [
        "round.started",
        "tool.called 1.1 forever",
        "call.cancelled 1.1",
        "step.decided",
        "round.finished cancelled",
    ]
    assert one(store, "run.finished").data.status == "cancelled"


async def test_a_timeout_of_the_agents_own_cancels_the_call_only(store: EventStore) -> None:
    """wait_for and timeout: the call is cancelled, and the agent goes on with its TimeoutError."""

    @ar.model
    async def slow() -> str:
        await asyncio.sleep(30)
        return "late"

    @ar.agent("waiter")
    async def step(i: int, context: ar.Context) -> Any:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(slow(), 0.05)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await slow()
        return ar.Complete("went on")

    assert (await step.arun(store=store)).value == "went on"
    assert outline(store)[1:7] == [
        "model.called 1.1 slow",
        "timer.fired",
        "call.cancelled 1.1",
        "model.called 1.2 slow",
        "timer.fired",
        "call.cancelled 1.2",
    ]
    assert one(store, "run.finished").data.status == "completed"


async def test_a_call_that_swallows_its_cancellation_returns_after_it(store: EventStore) -> None:
    """The record has what happened: it went on, and returned."""

    @ar.tool
    async def stubborn() -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "anyway"
        return "never"

    async with ar.record("a", store=store):
        task = asyncio.create_task(stubborn())
        await asyncio.sleep(0.05)
        task.cancel()
        assert await task == "anyway"
    assert outline(store) == ["tool.called 0.1 stubborn", "timer.fired", "tool.returned 0.1"]


async def test_what_goes_on_after_the_end_is_not_recorded(store: EventStore, caplog: pytest.LogCaptureFixture) -> None:
    """A task that outlives its run cannot write after `run.finished`; a change that came too late is warned of."""
    go = asyncio.Event()

    @ar.tool
    async def late() -> str:
        await go.wait()
        return "late"

    tasks = []
    async with ar.record("a", store=store) as run:
        tasks.append(asyncio.create_task(late()))
        await asyncio.sleep(0.01)
    run.report("after the end")
    assert run.change(new={"n": 1}) is None
    assert "has ended" in caplog.text
    go.set()
    assert await tasks[0] == "late"
    assert kinds(store) == ["run.started", "tool.called", "timer.fired", "run.finished"]


async def test_a_run_cancelled_while_it_begins_is_recorded_as_cancelled(store: EventStore) -> None:
    """Between the making of the run and its first round."""
    slow = threading.Event()

    class Slow(MemoryStore):
        def _insert_run(self, run: Any, note: Any = None) -> int:
            slow.wait(5)
            return super()._insert_run(run, note)

    beginning = Slow()
    for begin in (lambda: stepping(lambda i, context: ar.Complete(1)).arun(store=beginning), lambda: block(beginning)):
        slow.clear()
        task = asyncio.create_task(begin())
        await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.sleep(0)
        slow.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    deadline = time.monotonic() + 5
    while len(beginning.runs()) < 2 or any(info.status == "running" for info in beginning.runs()):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    assert [info.status for info in beginning.runs()] == ["cancelled", "cancelled"]
    assert kinds(beginning, "run1") == ["run.started", "run.finished"]


async def block(store: EventStore) -> None:
    async with ar.record("a", store=store):
        raise AssertionError("not reached")


def test_a_run_whose_coroutine_is_closed_is_recorded_as_cancelled(store: EventStore) -> None:
    """A loop that goes away with the run in it closes its coroutine, which may not await any more."""

    @ar.agent("waiter")
    async def step(i: int, context: ar.Context) -> Any:
        await asyncio.Event().wait()

    async def recorded() -> None:
        async with ar.record("block", store=store):
            await asyncio.Event().wait()

    for make in (lambda: step.arun(store=store), recorded):
        loop = asyncio.new_event_loop()
        coroutine: Any = make()
        task = loop.create_task(coroutine)
        loop.call_later(0.1, loop.stop)
        loop.run_forever()
        coroutine.close()
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is meant to be left
        loop.close()
    assert [info.status for info in store.runs()] == ["cancelled", "cancelled"]
    ours = [thread for thread in threading.enumerate() if thread.name.startswith(("agentreplay-w", "agentreplay-h"))]
    for thread in ours:  # that of the heartbeat may be on its way out
        thread.join(5)
    assert [thread for thread in ours if thread.is_alive()] == []


def test_ctrl_c_cancels_an_async_run(store: EventStore) -> None:
    """SIGINT while a tool is awaited: the call is cancelled, the run too, and KeyboardInterrupt is raised."""

    @ar.tool
    async def slow() -> None:
        os.kill(os.getpid(), os_signal.SIGINT)
        await asyncio.sleep(30)

    @ar.agent("waiter")
    async def step(i: int, context: ar.Context) -> Any:
        await slow()

    with pytest.raises(KeyboardInterrupt):
        step.run(store=store)
    assert "call.cancelled" in kinds(store)
    assert one(store, "run.finished").data.status == "cancelled"


def test_nothing_is_left_open(store: EventStore) -> None:
    """After async runs, failed and cancelled ones too, no thread of ours lives; asyncio's debug mode is content."""

    @ar.tool
    async def look() -> None:
        await asyncio.sleep(0)

    @ar.agent("looker")
    async def step(i: int, context: ar.Context) -> Any:
        await asyncio.gather(look(), look())
        if context.input == "fail":
            raise ValueError
        return ar.Complete(1)

    async def main() -> None:
        await step.arun(store=store)
        with pytest.raises(ValueError):
            await step.arun(input="fail", store=store)
        task = asyncio.create_task(step.arun(store=store))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        while any(info.status == "running" for info in store.runs()):
            await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main(), debug=True)
    deadline = time.monotonic() + 5
    while any(thread.name.startswith(("agentreplay-w", "agentreplay-h")) for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def test_questions_of_several_tasks_suspend_the_run_together(store: EventStore) -> None:
    """A TaskGroup raises a group; all that was asked is in the result."""

    async def ask(context: ar.Context, name: str) -> None:
        context.interrupt(name)

    @ar.agent("asker")
    async def step(i: int, context: ar.Context) -> Any:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask(context, "one"))
            group.create_task(ask(context, "two"))

    result = await step.arun(store=store)
    assert result.stop_reason == "interrupt"
    assert [interrupt.name for interrupt in result.interrupts] == ["one", "two"]
    assert log_of(store)[-1].data.interrupts == ["1.one.1", "1.two.2"]


async def test_a_question_beside_a_failure_is_a_failure(store: EventStore) -> None:
    """A group with a real error in it fails the run."""

    async def ask(context: ar.Context) -> None:
        context.interrupt("one")

    async def fail() -> None:
        raise ValueError("broken")

    @ar.agent("asker")
    async def step(i: int, context: ar.Context) -> Any:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask(context))
            group.create_task(fail())

    with pytest.raises(BaseExceptionGroup):
        await step.arun(store=store)
    assert one(store, "run.finished").data.status == "failed"
