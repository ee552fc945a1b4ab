"""A store that fails: one clear error, or a warning and an unrecorded agent; never a tool that seems to fail."""

from __future__ import annotations

import asyncio
import threading
import warnings
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.signals import RecordingStopped
from agentreplay.recorder.store import EventStore, RunInfo
from our_threads import wait_until_no_thread_of_ours
from recorded import SpyStore, kinds, one


class Agent:
    """An agent that guards its tools with `except Exception`, as many do."""

    def __init__(self) -> None:
        self.worked = 0
        self.mistaken: list[BaseException] = []

    def work(self) -> str:
        self.worked += 1
        return "done"

    def run(self, store: EventStore, policy: str, form: str) -> Any:
        tool = ar.tool(self.work)

        @ar.tool
        async def atool() -> str:
            return self.work()

        def guarded(context: ar.Context) -> str:
            try:
                context.change(update={"n": 1})
                return tool()
            except Exception as error:
                self.mistaken.append(error)
                return "failed"

        async def aguarded(context: ar.Context) -> str:
            try:
                context.change(update={"n": 1})
                return await atool()
            except Exception as error:
                self.mistaken.append(error)
                return "failed"

        options: dict[str, Any] = {"on_store_error": policy}
        if form == "step":
            step = ar.agent("a", **options)(lambda i, context: ar.Complete(guarded(context)))
            return step.run({}, store=store).value
        if form == "async step":

            @ar.agent("a", **options)
            async def astep(i: int, context: ar.Context) -> Any:
                return ar.Complete(await aguarded(context))

            return asyncio.run(astep.arun({}, store=store)).value
        if form == "block":
            with ar.record("a", {}, store=store, **options) as run, run.round():
                return guarded(run)

        async def main() -> str:
            async with ar.record("a", {}, store=store, **options) as run:
                with run.round():
                    return await aguarded(run)

        return asyncio.run(main())


FORMS = ["step", "async step", "block", "async block"]
KINDS = [
    "run.started",
    "round.started",
    "payload.changed",
    "tool.called",
    "tool.returned",
    "step.decided",
    "round.finished",
    "run.finished",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_failing_store_is_one_clear_error(form: str, kind: str) -> None:
    """The run raises RecordingFailed, caused by the store's error; no tool seems to fail, and none runs unrecorded."""
    store, agent = SpyStore(), Agent()
    store.fails = lambda stored: stored == kind
    with pytest.raises(ar.RecordingFailed, match="the disk is full") as caught:
        agent.run(store, "raise", form)
    assert type(caught.value.__cause__) is ar.StoreError
    assert agent.mistaken == []
    assert store.failed == 1
    if kind in KINDS[: KINDS.index("tool.returned")]:
        assert agent.worked == 0
    assert kind not in [stored.kind for stored in store.rows("run1")]
    wait_until_no_thread_of_ours()
    assert threading.Thread.start.__module__ == "threading"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_with_warn_the_agent_goes_on(form: str, kind: str) -> None:
    """Exactly one warning; the agent's result is its own."""
    store, agent = SpyStore(), Agent()
    store.fails = lambda stored: stored == kind
    with pytest.warns(
        UserWarning, match="run1 goes on unrecorded: .* could not be recorded: the disk is full"
    ) as caught:
        assert agent.run(store, "warn", form) == "done"
    assert len(caught) == 1
    assert (agent.mistaken, agent.worked, store.failed) == ([], 1, 1)
    wait_until_no_thread_of_ours()


@pytest.mark.parametrize("form", FORMS)
def test_a_run_that_cannot_be_made(form: str) -> None:
    """Where not even the run can be made, raising stops the agent before it begins, and warning lets it run."""

    class Full(MemoryStore):
        def _insert_run(self, run: RunInfo, note: Any = None) -> int:
            raise ar.StoreError("no room")

    agent = Agent()
    with pytest.raises(ar.StoreError, match="no room"):
        agent.run(Full(), "raise", form)
    assert agent.worked == 0
    with pytest.warns(UserWarning, match="goes on unrecorded: the run could not be recorded: no room") as caught:
        assert agent.run(Full(), "warn", form) == "done"
    assert (len(caught), agent.worked) == (1, 1)


def test_a_store_that_cannot_be_opened(tmp_path: Any) -> None:
    """A file that is no store: by policy an error, or a run without a name."""
    path = tmp_path / "store.db"
    path.write_text("this is no database" * 100)
    step = ar.agent("a", on_store_error="warn")(lambda i, context: ar.Complete(context.payload))
    with pytest.warns(UserWarning, match="goes on unrecorded"):
        result = step.run({"n": 1}, store=str(path))
    assert result.value == {"n": 1}
    with pytest.raises(ar.UsageError, match="not recorded"):
        _ = result.run
    strict = ar.agent("a")(lambda i, context: ar.Complete(None))
    with pytest.raises(ar.StoreError):
        strict.run(store=str(path))


def test_endings_that_are_no_errors_stay_what_they_are_without_a_record() -> None:
    """A question and a signal end an unrecorded run as they end a recorded one."""
    store = SpyStore()
    store.fails = lambda kind: kind == "round.started"
    signal = ar.Signal()

    def cancel(i: int, context: ar.Context) -> Any:
        signal.abort("enough")
        return ar.Continue()

    asks = ar.agent("a", on_store_error="warn")(lambda i, context: context.interrupt("approve"))
    cancels = ar.agent("a", on_store_error="warn")(cancel)
    with pytest.warns(UserWarning, match="goes on unrecorded"):
        assert asks.run(store=store).stop_reason == "interrupt"
    with pytest.warns(UserWarning, match="goes on unrecorded"):
        assert cancels.run(store=store, signal=signal).stop_reason == "cancelled"


def test_the_error_of_the_agent_is_seen_beside_that_of_the_store() -> None:
    """When both fail, the store's error is raised, and the agent's is behind it."""
    store = SpyStore()
    store.fails = lambda kind: kind == "tool.failed"

    @ar.tool
    def broken() -> None:
        raise ValueError("own")

    with pytest.raises(ar.RecordingFailed) as caught, ar.record("a", store=store):
        broken()
    behind: list[BaseException] = [caught.value]
    while (context := behind[-1].__context__) is not None:
        behind.append(context)
    assert [type(error) for error in behind] == [ar.RecordingFailed, RecordingStopped, ar.StoreError, ValueError]


def test_a_failure_reaches_the_run_through_threads_and_groups() -> None:
    """A TaskGroup, a thread pool and a future hand the stop on."""
    store = SpyStore()
    store.fails = lambda kind: kind == "tool.called"
    tool = ar.tool(lambda: None)

    @ar.tool
    async def atool() -> None: ...

    @ar.agent("a")
    async def step(i: int, context: ar.Context) -> Any:
        async with asyncio.TaskGroup() as group:
            group.create_task(atool())
            group.create_task(atool())

    with pytest.raises(ar.RecordingFailed):
        step.run(store=store)

    async def in_threads(i: int, context: ar.Context) -> Any:
        await asyncio.to_thread(tool)

    with pytest.raises(ar.RecordingFailed):
        ar.agent("b")(in_threads).run(store=store)


def test_a_failing_child_store_fails_the_child_only() -> None:
    """The parent sees the child's RecordingFailed as an error like any other, and is recorded itself."""
    store, other = MemoryStore(), SpyStore()
    other.fails = lambda kind: kind == "tool.called"
    tool = ar.tool(lambda: None)
    child = ar.agent("child")(lambda i, context: tool())

    def parent(i: int, context: ar.Context) -> Any:
        with pytest.raises(ar.RecordingFailed):
            child.run(store=other)
        return ar.Complete("went on")

    assert ar.agent("parent")(parent).run(store=store).value == "went on"
    assert one(store, "run.finished").data.status == "completed"


def test_warnings_as_errors_raise_once() -> None:
    """Who turns warnings into errors gets one, where the recording ended; the run is then the agent's to end."""
    store = SpyStore()
    store.fails = lambda kind: kind == "report"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ar.record("a", store=store, on_store_error="warn") as run:
            with pytest.raises(UserWarning, match="unrecorded"):
                run.report("one")
            run.report("two")
    assert kinds(store) == ["run.started"]
