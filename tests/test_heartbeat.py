"""Runs in progress are heard of though they append nothing, and the agent notices nothing of it."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder import heartbeat as heartbeats
from agentreplay.recorder.errors import StoreError
from agentreplay.recorder.exporting import export_run
from agentreplay.recorder.heartbeat import INTERVAL, Heartbeat, heartbeat
from agentreplay.recorder.liveness import SILENT_AFTER
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore
from recorded import kinds
from store_contract import started, tool_called

LONG = "a page of text " * 10_000  # which takes a transaction to append


class Watched(MemoryStore):
    """A store in memory that notes which runs were given a heartbeat, look by look, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.beats: list[list[int]] = []
        self.failure: Exception | None = None

    def keep_heartbeats(self, numbers: Sequence[int]) -> None:
        self.beats.append(list(numbers))
        if self.failure is not None:
            raise self.failure
        super().keep_heartbeats(numbers)


@pytest.fixture
def sql_store(tmp_path: Path) -> Iterator[SqlStore]:
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    yield store
    store.close()


def beating() -> bool:
    """Whether the thread of the heartbeats runs."""
    return any(thread.name == "agentreplay-heartbeat" for thread in threading.enumerate())


def wait_until_still() -> None:
    deadline = time.monotonic() + 20
    while beating():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Run:
    """A run in progress, as its recorder holds it."""

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self.info = store.create_run("clerk")
        store.append(self.info, -1, [started()])

    def work(self) -> None:
        last = self.store.run(self.info.uid).head_seq
        self.store.append(self.info, last, [tool_called(last + 1)])


def test_silence_is_longer_than_heartbeats_are_apart() -> None:
    """A run that goes on has at least two signs of life before it could be called silent."""
    assert 2 * INTERVAL < SILENT_AFTER


def test_only_runs_without_a_new_event_are_given_a_heartbeat() -> None:
    """What was appended since the last look says as much, and who appends all the time has none written ever."""
    store, beats = Watched(), Heartbeat()
    busy, waiting, later = Run(store), Run(store), Run(store)
    for run in (busy, waiting):
        beats.begin(run)
    beats.beat()
    busy.work()
    beats.beat()
    beats.begin(later)
    busy.work()
    waiting.work()
    beats.beat()
    busy.work()
    beats.beat()
    for run in (busy, waiting, later):
        beats.end(run)
    beats.beat()
    assert store.beats == [[], [2], [], [2, 3]]
    assert store._read_heartbeat(1) is None
    assert abs((store._read_heartbeat(2) or 0) / 1e6 - time.time()) < 60
    assert store.verify() == []


def test_each_store_keeps_the_heartbeats_of_its_own_runs() -> None:
    """Numbers are those of a store."""
    first, second, beats = Watched(), Watched(), Heartbeat()
    runs = [Run(first), Run(second), Run(second)]
    for run in runs:
        beats.begin(run)
    beats.beat()
    beats.beat()
    assert (first.beats, second.beats) == ([[], [1]], [[], [1, 2]])
    for run in runs:
        beats.end(run)


def test_a_run_that_nobody_holds_is_in_progress_no_more() -> None:
    """An agent that was dropped in the middle is not kept alive by this, and its store neither."""
    store, beats = Watched(), Heartbeat()
    run = Run(store)
    beats.begin(run)
    gone = weakref.ref(store)
    del run, store
    gc.collect()
    assert gone() is None
    beats.beat()
    beats.end(Run(Watched()))
    wait_until_still()


@pytest.mark.parametrize("how", ["step", "block", "async block", "failing", "given up"])
def test_a_run_is_in_progress_from_its_start_to_its_end(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is recorded, and however it ends; then the thread ends, too."""
    monkeypatch.setattr(heartbeats, "INTERVAL", 0.001)
    store = Watched()

    def wait() -> str:
        deadline = time.monotonic() + 20
        while store._read_heartbeat(1) is None:  # until the thread has seen that nothing happens
            assert time.monotonic() < deadline
            time.sleep(0.001)
        if how == "given up":
            store._write = None  # type: ignore[assignment,method-assign]  # nothing can be written any more
        if how == "failing":
            raise ValueError("no")
        return "done"

    tool = ar.tool(wait)
    if how == "step":

        @ar.agent("a")
        def step(round: int, context: ar.Context) -> ar.Complete[Any]:
            return ar.Complete(tool())

        step.run({}, store=store)
    elif how == "async block":

        async def main() -> None:
            async with ar.record("a", {}, store=store):
                await asyncio.to_thread(tool)

        asyncio.run(main())
    elif how == "block":
        with ar.record("a", {}, store=store):
            tool()
    else:
        raised = {"failing": ValueError, "given up": ar.RecordingFailed}[how]
        with pytest.raises(raised), ar.record("a", {}, store=store):
            tool()
    wait_until_still()
    assert beats_of(store) == {1}


def beats_of(store: Watched) -> set[int]:
    return {number for look in store.beats for number in look}


def test_a_run_that_is_replayed_is_not_in_progress() -> None:
    """Nobody records it, though its code runs."""
    store = Watched()

    @ar.tool
    def look() -> bool:
        return beating()

    @ar.agent("a")
    def step(round: int, context: ar.Context) -> ar.Complete[Any]:
        return ar.Complete(look())

    assert step.run({}, store=store).value is True
    wait_until_still()
    again: list[bool] = []

    @ar.agent("a")
    def same(round: int, context: ar.Context) -> ar.Complete[Any]:
        again.append(beating())
        return ar.Complete(look())

    ar.replay("run1", same, store=store)
    assert again == [False]


def test_a_heartbeat_changes_nothing_of_the_log(sql_store: SqlStore, tmp_path: Path) -> None:
    """It is no event, in no hash, and in no file that is exported."""
    run = Run(sql_store)
    head = sql_store.run("run1").head_hash
    export_run("run1", tmp_path / "before.jsonl", store=sql_store)
    for _ in range(3):
        sql_store.keep_heartbeats([1])
    export_run("run1", tmp_path / "after.jsonl", store=sql_store)
    assert (tmp_path / "after.jsonl").read_bytes() == (tmp_path / "before.jsonl").read_bytes()
    assert sql_store.run("run1").head_hash == head
    run.work()
    assert sql_store.verify() == []
    with sql_store._engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM heartbeat").scalar() == 1


@pytest.mark.parametrize("failure", [StoreError("the disk is full"), OSError("no such device"), ValueError("a bug")])
def test_a_heartbeat_that_fails_is_no_matter_to_the_agent(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is recorded as if nothing had been."""
    monkeypatch.setattr(heartbeats, "INTERVAL", 0.001)
    store = Watched()
    store.failure = failure

    @ar.tool
    def wait() -> None:
        deadline = time.monotonic() + 20
        while len([look for look in store.beats if look]) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    with ar.record("a", {}, store=store):
        wait()
    assert kinds(store) == ["run.started", "tool.called", "tool.returned", "run.finished"]
    wait_until_still()


def test_a_closed_store_is_given_no_heartbeat(sql_store: SqlStore) -> None:
    """It may be closed while a run is in progress: that is for its recorder to find out."""
    beats = Heartbeat()
    run = Run(sql_store)
    beats.begin(run)
    beats.beat()
    sql_store.close()
    beats.beat()
    beats.end(run)
    with pytest.raises(StoreError, match="closed"):
        sql_store.keep_heartbeats([1])


def test_what_a_finaliser_records_does_not_land_in_a_heartbeat(tmp_path: Path) -> None:
    """An abandoned call of the user's may be collected in any thread, at any time; its end is recorded after it."""

    class Collecting(SqlStore):
        collect: Any = None

        def _in_transaction(self, work: Any) -> Any:
            def around(execute: Any) -> Any:
                if self.collect is not None:
                    self.collect()
                return work(execute)

            return super()._in_transaction(around)

    @ar.tool
    def pages() -> Iterator[str]:
        yield LONG
        yield LONG

    store = Collecting(f"sqlite:///{tmp_path}/store.db")
    with ar.record("a", {}, store=store) as run:
        abandoned = [pages()]
        assert next(abandoned[0]) == LONG
        heartbeat.beat()
        store.collect = abandoned.clear
        heartbeat.beat()
        store.collect = None
        assert abandoned == []
        assert store._read_heartbeat(1) is not None
        run.report("more")
    assert kinds(store) == ["run.started", "tool.called", "tool.returned", "report", "run.finished"]
    store.close()


def test_a_forked_child_has_no_run_in_progress(tmp_path: Path) -> None:
    """The runs go on in the parent, and are heard of from there; the child's own are heard of from the child."""
    url = f"sqlite:///{tmp_path}/store.db"
    store = SqlStore(url)
    with ar.record("parent", {}, store=store):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert not beating()
                heartbeat.beat()
                heartbeat.beat()
                own = SqlStore(url)
                with ar.record("child", {}, store=own):
                    assert beating()
                    heartbeat.beat()
                    heartbeat.beat()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert beating()
        assert [store._read_heartbeat(number) is not None for number in (1, 2)] == [False, True]
        heartbeat.beat()
        heartbeat.beat()
    assert [store._read_heartbeat(number) is not None for number in (1, 2)] == [True, True]
    assert [info.status for info in store.runs()] == ["completed", "completed"]
    store.close()
