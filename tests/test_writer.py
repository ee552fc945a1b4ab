"""Appending to the log of a run: order, failure, and what may happen in the middle."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.event_codec import StoredEvent
from agentreplay.recorder.events import ReportData
from agentreplay.recorder.log_end import LogEnd
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.reentry import appending
from agentreplay.recorder.run_log import BACKLOG, RunLog
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import Head, RunInfo, Summary
from agentreplay.recorder.writer import BackgroundWriter, in_thread, off_the_loop, until_done
from our_threads import wait_until_no_thread_of_ours
from recorded import SpyStore, kinds, log_of, one


def row(kind: str = "report") -> StoredEvent:
    return StoredEvent(seq=-1, round=0, kind=kind, version=1, time=0, within=None, task="0", body=b"{}")


# -- the background writer ---------------------------------------------------------------------------------------------


def test_events_are_numbered_and_written_in_order() -> None:
    """From where the log ends, whatever gathers in the meantime together."""
    store = SpyStore()
    writer = BackgroundWriter(LogEnd(store, store.create_run("a"), -1), "run1")
    futures = [writer.submit(row(), Summary()) for _ in range(50)]
    writer.stop()
    writer.finished.result(5)
    assert all(future.done() and future.exception() is None for future in futures)
    assert [stored.seq for stored in store.rows("run1")] == list(range(50))
    wait_until_no_thread_of_ours()


def test_after_a_failure_nothing_is_written() -> None:
    """The first failure is given to everything submitted after it: a log has no hole."""
    store = SpyStore()
    store.fails = lambda kind: kind == "x.broken"
    writer = BackgroundWriter(LogEnd(store, store.create_run("a"), -1), "run1")
    first = writer.submit(row(), Summary())
    first.result(5)
    broken, after = writer.submit(row("x.broken"), Summary()), writer.submit(row(), Summary())
    writer.stop()
    writer.finished.result(5)
    assert str(broken.exception()) == "the disk is full"
    assert after.exception() is broken.exception()
    assert len(list(store.rows("run1"))) == 1


def test_nobody_can_cancel_a_write() -> None:
    """Who waits for an event may stop waiting; the event is written."""
    store = MemoryStore()
    writer = BackgroundWriter(LogEnd(store, store.create_run("a"), -1), "run1")
    future = writer.submit(row(), Summary())
    assert future.cancel() is False
    writer.stop()
    writer.finished.result(5)
    assert future.exception() is None


async def test_waiting_for_a_thread_may_be_cancelled() -> None:
    """The thread goes on, and its result is there."""
    go = threading.Event()
    future = in_thread(lambda: go.wait(5), "agentreplay-test")
    waiting = asyncio.create_task(until_done(future))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go.set()
    await until_done(future)
    assert future.result() is True
    with pytest.raises(ZeroDivisionError):
        off_the_loop(lambda: 1 // 0)
    wait_until_no_thread_of_ours()


def test_a_loop_that_is_gone_is_not_woken() -> None:
    """A thread that ends after the loop that waited for it ends quietly."""
    go = threading.Event()
    future = in_thread(lambda: go.wait(5), "agentreplay-test")
    loop = asyncio.new_event_loop()
    task = loop.create_task(until_done(future))
    loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
    go.set()
    assert future.result(5) is True


async def test_a_loop_that_hands_over_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits to be written is bounded; nothing is dropped."""
    monkeypatch.setattr("agentreplay.recorder.run_log.BACKLOG", 5)
    store = SpyStore()
    most = 0
    async with ar.record("a", store=store) as run:
        for n in range(200):
            run.report(str(n))
            most = max(most, run.recorder.log._writer.backlog)  # type: ignore[union-attr]  # it writes by now
    assert most <= 7
    assert [event.data.message for event in log_of(store) if event.kind == "report"] == [str(n) for n in range(200)]
    assert BACKLOG == 1_000


# -- what happens in the middle ----------------------------------------------------------------------------------------


def test_ctrl_c_in_the_middle_of_a_commit_loses_nothing() -> None:
    """Whether or not the event got through, the log goes on without a gap."""

    class Interrupting(SpyStore):
        def append_rows(self, info: RunInfo, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> Head:
            before = rows[0].kind == "x.before"
            if before:
                raise KeyboardInterrupt
            head = super().append_rows(info, expected_seq, rows, summary)
            if rows[0].kind == "x.after":
                raise KeyboardInterrupt
            return head

    store = Interrupting()
    with ar.record("a", store=store) as run:
        for name in ("x.before", "x.after"):
            with pytest.raises(KeyboardInterrupt):
                run.event(name)
        run.report("went on")
    assert kinds(store) == ["run.started", "x.after", "report", "run.finished"]


def test_code_of_the_users_may_append_in_the_middle_of_an_append(tmp_path: Any) -> None:
    """A `__repr__` that reports while an event is encoded: its report comes after that event."""
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")

    class Talkative:
        __slots__ = ("run",)

        def __init__(self, run: Any) -> None:
            self.run = run

        def __repr__(self) -> str:
            self.run.report("I was looked at")
            return "talkative"

    look = ar.tool(lambda thing: None)
    with ar.record("outer", store=store) as outer:
        look(Talkative(outer))
        with ar.record("inner", store=store):
            look(Talkative(outer))
    assert kinds(store, "run1") == [
        "run.started",
        "tool.called",
        "report",
        "tool.returned",
        "subrun.started",
        "report",
        "subrun.finished",
        "run.finished",
    ]
    assert kinds(store, "run2") == ["run.started", "tool.called", "tool.returned", "run.finished"]
    store.close()


@pytest.mark.parametrize("on_a_loop", [False, True])
def test_a_collector_may_end_a_generator_in_the_middle_of_an_append(on_a_loop: bool) -> None:
    """A garbage collection while an event is stored ends an abandoned generator, which is a recorded call."""

    class Collecting(SpyStore):
        def append_rows(self, info: RunInfo, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> Head:
            if rows[0].kind == "x.collect":
                gc.collect()
            return super().append_rows(info, expected_seq, rows, summary)

    store = Collecting()

    @ar.tool
    def numbers() -> Iterator[int]:
        yield from range(5)

    def abandon() -> None:
        running: Any = numbers()
        next(running)
        cycle = [running]
        cycle.append(cycle)

    async def main() -> None:
        async with ar.record("a", store=store) as run:
            use(run)
            while "tool.returned" not in store.written:  # a collection takes its time
                await asyncio.sleep(0.005)

    def use(run: Any) -> None:
        abandon()
        run.event("x.collect")

    gc.collect()
    gc.disable()
    try:
        if on_a_loop:
            asyncio.run(main())
        else:
            with ar.record("a", store=store) as run:
                use(run)
    finally:
        gc.enable()
    but_timers = [kind for kind in kinds(store) if kind != "timer.fired"]
    assert but_timers == ["run.started", "tool.called", "x.collect", "tool.returned", "run.finished"]
    assert one(store, "tool.returned").data.abandoned is True


def test_what_is_put_off_is_done_afterwards() -> None:
    """In order, also when the append failed; what is put off meanwhile too."""
    done: list[Any] = []

    def append() -> None:
        with appending:
            assert appending.put_off(lambda: done.append(1))
            assert appending.put_off(lambda: done.append(2))
            raise ValueError

    with pytest.raises(ValueError):
        append()
    assert not appending.put_off(lambda: done.append(3))
    assert done == []
    appending.catch_up()
    assert done == [1, 2]


def test_an_event_made_when_it_is_appended_sees_what_came_before() -> None:
    """The function that makes the data runs when no other event can come between; it may make none."""
    store = MemoryStore()
    log = RunLog(store, store.create_run("a"), "raise")
    made: list[int] = []

    def make() -> ReportData | None:
        made.append(len(made))
        return ReportData(content=made[-1]) if made[-1] % 2 else None

    for _ in range(4):
        log.emit("report", make)
    log.close()
    log.emit("report", make)
    assert [event.data.content for event in store.events("run1")] == [1, 3]
    assert made == [0, 1, 2, 3, 4]


def test_a_hook_that_fails_costs_the_run_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who is told of appends cannot break them."""

    def hook(*_: Any) -> None:
        raise ValueError("broken")

    monkeypatch.setattr("agentreplay.recorder.run_log.when_appended", hook)
    store = MemoryStore()
    with ar.record("a", store=store):
        pass
    assert kinds(store) == ["run.started", "run.finished"]
    assert "no snapshot will be taken" in caplog.text
