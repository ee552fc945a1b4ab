"""Joining a run: what who joins may add, where it stands in the log, and what is refused."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.environment import process_identity
from agentreplay.recorder.event_codec import StoredEvent
from agentreplay.recorder.events import EVENT_OF_KIND, OpenData
from agentreplay.recorder.joining import JoinedRun
from agentreplay.recorder.log_end import may_be_added
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.scope import current
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore, Head, RunInfo, Summary
from agentreplay.replay.reducer import fold
from cli_runs import output
from event_builder import EventBuilder
from recorded import SpyStore, kinds, log_of, one, outline


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


@ar.tool
def note(text: str) -> str:
    return text


def elsewhere(work: Callable[[], None]) -> None:
    """Do something in a thread that belongs to no run, as another process would; raises what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        current.set(None)
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


# -- what is added -----------------------------------------------------------------------------------------------------


def test_what_a_worker_does_is_in_the_run(store: EventStore) -> None:
    """Calls, values, reports, child runs and events of one's own, between its coming and its going."""

    @ar.agent("helper")
    def helper(round_index: int, context: ar.Context) -> ar.Complete[int]:
        return ar.Complete(round_index)

    def work() -> None:
        with ar.join("run1", store=store, logger=True) as run:
            assert (run.id, run.uid, run.run_id, run.writer) == ("run1", store.run("run1").uid, "run1", "w4")
            assert (run.input, run.params) == ("go", {"a": (1, 2)})
            assert note("as ever") == "as ever"
            assert run.tool("search", {"q": "x"}, lambda q: [q], safety="pure") == ["x"]
            assert run.model("m", {"n": 1}, lambda n: n) == 1
            assert run.read("setting", lambda: 5) == 5
            run.report("half way")
            run.logger.info("a line")
            run.event("x.mine", n=1)
            result = run.run_agent(helper, {"p": 1})
            assert (result.value, result.run.id) == (1, "run2")

    with ar.record("a", {"n": 0}, input="go", params={"a": (1, 2)}, store=store) as run, run.round() as r:
        r.tool("own", {}, lambda: None)
        elsewhere(work)
        r.tool("own", {}, lambda: None)
        r.change(update={"n": 1})
    assert outline(store, "run1") == [
        "round.started",
        "tool.called 1.1 own",
        "tool.returned 1.1",
        "writer.joined",
        "tool.called 1.w4.1 note",
        "tool.returned 1.w4.1",
        "tool.called 1.w4.2 search",
        "tool.returned 1.w4.2",
        "model.called 1.w4.3 m",
        "model.returned 1.w4.3",
        "value.read",
        "report half way",
        "report a line",
        "x.mine",
        "subrun.started None",
        "subrun.finished",
        "writer.left",
        "tool.called 1.2 own",
        "tool.returned 1.2",
        "payload.changed",
        "step.decided",
        "round.finished continue",
    ]
    events = log_of(store, "run1")
    assert [event.task for event in events[3:19]] == ["0", *["w4"] * 14, "0"]
    assert {event.round for event in events[1:]} == {1}
    assert one(store, "run.started", "run2").data.parent == {"run": store.run("run1").uid, "call": None}
    came = one(store, "writer.joined", "run1").data
    assert (came.writer, came.process["pid"]) == ("w4", os.getpid())
    assert came.entry_point.endswith("test_joining.py:test_what_a_worker_does_is_in_the_run.<locals>.work")
    assert one(store, "writer.left", "run1").data.error is None
    state = fold(events)
    assert (state.status, state.payload, len(state.children)) == ("completed", {"n": 1}, 1)


def test_what_is_added_belongs_to_the_round_in_which_it_was_joined(store: EventStore) -> None:
    """Before the first round that is 0, between two the one just finished; a later round changes nothing about it."""
    rounds = {}
    with ar.record("a", store=store) as run:
        for step in range(3):
            with ar.join("run1", store=store) as joined:
                rounds[joined.writer] = step
                joined.report("between rounds")
            with ExitStack() as stack, run.round():
                joined = stack.enter_context(ar.join("run1", store=store))
                rounds[joined.writer] = step + 1
        late = ExitStack()
        with run.round():
            joined = late.enter_context(ar.join("run1", store=store))
            rounds[joined.writer] = 4
        with run.round():
            joined.tool("late", {}, lambda: None)
        late.close()
    events = log_of(store)
    assert {event.task: event.round for event in events if event.task != "0"} == rounds
    assert one(store, "tool.called").data.call == f"4.{joined.writer}.1"
    assert fold(events).step == 5


def test_threads_and_tasks_of_a_worker_have_paths_of_their_own(store: EventStore) -> None:
    """Below that of the worker; what runs outside of any of them is the worker's own."""

    async def tasks(run: JoinedRun) -> None:
        await asyncio.gather(*[run.atool("task", {}, lambda: None) for _ in range(2)])

    with ar.record("a", store=store), ar.join("run1", store=store) as joined:
        asyncio.run(tasks(joined))
        thread = threading.Thread(target=note, args=("thread",))
        thread.start()
        thread.join()
        elsewhere(lambda: joined.report("from nowhere"))
        elsewhere(lambda: joined.tool("from nowhere", {}, lambda: None))
    where = [(event.kind, event.task) for event in log_of(store) if event.kind in ("tool.called", "report")]
    tasks_of = [task for kind, task in where[:2]]
    assert len(set(tasks_of)) == 2
    assert all(task.startswith("w1.") for task in tasks_of)
    assert where[2][1].startswith("w1.")
    assert where[2][1] not in tasks_of
    assert where[3:] == [("report", "w1"), ("tool.called", "w1")]


def test_an_exception_that_leaves_the_block_is_recorded_and_goes_on_its_way(store: EventStore) -> None:
    """The run that was joined is no worse for it."""
    error = ValueError("broken")
    with ar.record("a", store=store):
        with pytest.raises(ValueError) as caught, ar.join("run1", store=store):
            raise error
        assert caught.value is error
    left = one(store, "writer.left").data
    assert (left.writer, left.error.type, left.error.message) == ("w1", "builtins.ValueError", "broken")
    assert store.run("run1").status == "completed"


async def test_a_worker_on_an_event_loop(store: EventStore) -> None:
    """`async with`, and nothing is committed on the loop."""
    spy = SpyStore()
    async with ar.record("a", store=spy), ar.join("run1", store=spy) as joined:
        assert await joined.atool("t", {"n": 1}, lambda n: n) == 1
        assert await joined.amodel("m", {"n": 2}, lambda n: n) == 2
        joined.report("plain")
    here = threading.current_thread().name
    assert {kind for kind, threads in spy.written.items() if here in threads} == set()
    assert outline(spy) == [
        "writer.joined",
        "tool.called 0.w1.1 t",
        "tool.returned 0.w1.1",
        "model.called 0.w1.2 m",
        "model.returned 0.w1.2",
        "report plain",
        "writer.left",
    ]


class Slow(MemoryStore):
    """A store that does not get on with `writer.joined` before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may = threading.Event(), threading.Event()

    def append_rows(self, info: RunInfo, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> Head:
        if rows[0].kind == "writer.joined":
            self.asked.set()
            assert self.may.wait(30)
        return super().append_rows(info, expected_seq, rows, summary)


async def test_joining_that_is_cancelled_leaves_the_run_again() -> None:
    """Nobody is in the run who is not there."""
    store = Slow()

    async def work() -> None:
        async with ar.join("run1", store=store):
            raise AssertionError("it was cancelled before")

    async with ar.record("a", store=store):
        task = asyncio.create_task(work())
        await asyncio.to_thread(store.asked.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        store.may.set()
        while "writer.left" not in {row.kind for row in store.rows("run1")}:
            await asyncio.sleep(0.005)
    assert [kind for kind in kinds(store) if kind.startswith("writer.")] == ["writer.joined", "writer.left"]


def test_a_forked_child_stands_where_it_was_forked(tmp_path: Path) -> None:
    """It finds the run in the store of its parent, and what it adds happened inside the call that forked it."""
    store = ar.open_store(tmp_path / "elsewhere.db")

    @ar.tool
    def fork() -> int:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with ar.join("run1"):
                    note("in the child")
                code = 0
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    with ar.record("a", store=store) as run, run.round():
        assert fork() == 0
    assert [(event.kind, event.within) for event in log_of(store)[2:-3]] == [
        ("tool.called", None),
        ("writer.joined", "1.1"),
        ("tool.called", "1.1"),
        ("tool.returned", "1.1"),
        ("writer.left", "1.1"),
        ("tool.returned", None),
    ]
    store.close()


def test_a_run_with_workers_is_a_run_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown, verified and exported, and is the same elsewhere."""
    monkeypatch.chdir(tmp_path)
    with ar.record("a", {"n": 0}) as run, run.round() as r:
        with ar.join(run.id) as joined:
            note("added")
        with pytest.raises(ValueError), ar.join(run.id):
            raise ValueError("broken")
        r.change(update={"n": 1})
    assert joined.writer == "w2"
    shown = [line.strip() for line in output("show", "run1").splitlines()]
    assert any(line.startswith("├ 1.w2.1  tool note  returned") for line in shown)
    assert "└ · w6 left: ValueError: broken" in shown
    assert "nothing was changed" in output("verify")
    output("export", "run1", "run.jsonl")
    output("import", "run.jsonl", "--store", "other.db")
    here, there = ar.open_store(), ar.open_store("other.db")
    assert list(there.events("run1")) == list(here.events("run1"))
    for opened in (here, there):
        opened.close()


# -- what is not added -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda run: run.change(update={"n": 1}), "payload is changed by the process that records it"),
        (lambda run: run.payload, r'ar.state_at\("run1"\).payload'),
        (lambda run: run.decide(step="Retry"), "report it here"),
        (lambda run: run.round(), "the round in which you joined"),
        (lambda run: run.interrupt("approve"), "ask there"),
        (lambda run: run.messages.append({"role": "user"}), "message.added"),
        (lambda run: run.messages.replace([]), "messages.replaced"),
        (lambda run: run.run_agent(None), "payload=…"),
        (lambda run: run.run_agent(None, {}, upstream=["*"]), "payload=…"),
        (lambda run: run.event("mine"), "x.<name>"),
    ],
)
def test_what_belongs_to_the_process_that_records_is_refused(
    store: EventStore, use: Callable[[JoinedRun], Any], says: str
) -> None:
    """With what to do instead; nothing of it is in the log, and the block goes on."""
    with ar.record("a", {"n": 0}, store=store), ar.join("run1", store=store) as joined:
        with pytest.raises(ar.UsageError, match=says):
            use(joined)
        joined.report("went on")
    assert outline(store) == ["writer.joined", "report went on", "writer.left"]


@pytest.mark.parametrize("kind", [kind for kind in EVENT_OF_KIND if not may_be_added(kind)])
def test_no_other_way_leads_around_that(store: EventStore, kind: str) -> None:
    """Whatever would append such an event, it is refused where all events pass."""
    with ar.record("a", store=store), ar.join("run1", store=store) as joined, pytest.raises(ar.UsageError, match=kind):
        joined._recorder.emit(kind, OpenData())
    assert outline(store) == ["writer.joined", "writer.left"]


def test_what_comes_after_the_end_of_the_run_is_not_recorded(
    store: EventStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker works on, as if nothing were recorded; `logging` is told once."""
    came, over = threading.Event(), threading.Event()

    def work() -> None:
        with ar.join("run1", store=store) as run:
            note("in time")
            came.set()
            assert over.wait(30)
            assert note("late") == "late"
            assert run.tool("later", {}, lambda: 5) == 5

    with ThreadPoolExecutor(1) as pool:
        with ar.record("a", store=store):
            worker = pool.submit(elsewhere, work)
            assert came.wait(30)
        over.set()
        worker.result()
    assert kinds(store) == ["run.started", "writer.joined", "tool.called", "tool.returned", "run.finished"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "run1 has ended; tool.called came after it" in caplog.text


# -- which runs are joined ---------------------------------------------------------------------------------------------


def ended(store: EventStore, error: BaseException | None = None) -> None:
    with pytest.raises(type(error)) if error else ExitStack(), ar.record("a", store=store):
        if error:
            raise error


def interrupted(store: EventStore) -> None:
    with ar.record("a", store=store) as run:
        run.interrupt("approve")


def imported(store: EventStore) -> None:
    log = EventBuilder({}, origin="imported")
    store.append(store.create_run("a"), -1, log.events)


def not_begun(store: EventStore) -> None:
    store.create_run("a")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (ended, "it is completed"),
        (lambda store: ended(store, ValueError()), "it is failed"),
        (interrupted, "it is interrupted"),
        (not_begun, "has not begun"),
        (imported, "came from a file"),
    ],
)
def test_only_a_run_in_progress_is_joined(store: EventStore, make: Callable[[EventStore], Any], says: str) -> None:
    """Any other is left as it is, with the reason."""
    make(store)
    before = store.run("run1").head_seq
    with pytest.raises(ar.UsageError, match=says), ar.join("run1", store=store):
        pass
    assert store.run("run1").head_seq == before


def begun(store: EventStore, **process: Any) -> None:
    """A run that is in progress in the process that is told."""
    log = EventBuilder({}, process={**process_identity(), **process}, redaction=store.redactor.describe())
    store.append(store.create_run("a"), -1, log.events)


def test_a_run_whose_process_is_gone_is_not_joined(tmp_path: Path) -> None:
    """Nobody would end it; where nothing is known of the process, as on another machine, it may go on."""
    store = ar.open_store(tmp_path / "store.db")
    begun(store, start=1)
    with pytest.raises(ar.UsageError, match="the process that recorded it is gone"), ar.join("run1", store=store):
        pass
    begun(store, host="elsewhere")
    with ar.join("run2", store=store):
        note("from here")
    assert kinds(store, "run1") == ["run.started"]
    assert len(kinds(store, "run2")) == 5
    store.close()


def test_the_copy_of_a_store_in_memory_is_not_written_to(store: EventStore) -> None:
    """A forked child has one, and what it added there would be nowhere."""
    begun(store, pid=1)
    with pytest.raises(ar.UsageError, match="in memory"), ar.join("run1", store=store):
        pass
    assert kinds(store) == ["run.started"]


def test_other_redaction_rules_are_refused(tmp_path: Path) -> None:
    """A secret that the run replaces would stand there in clear, written by a process that does not know it for one."""
    url = f"sqlite:///{tmp_path}/store.db"
    strict = SqlStore(url, ar.RedactionRules(keys=("iban",)))
    lax, same = SqlStore(url), SqlStore(url, ar.RedactionRules(keys=("iban",)))
    with ar.record("a", store=strict):
        with pytest.raises(ar.UsageError, match=r"open_store\(…, redaction=…\)"), ar.join("run1", store=lax):
            pass
        with ar.join("run1", store=same) as joined:
            joined.tool("pay", {"iban": "DE02 1203"}, lambda iban: None)
    assert one(strict, "tool.called").data.arguments["iban"].startswith("[redacted:iban:")
    for opened in (strict, lax, same):
        opened.close()


def test_a_run_that_is_not_there_makes_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joining looks for a store, and leaves the folder as it was."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ar.StoreError, match="there is no store"), ar.join("run1"):
        pass
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ar.RunNotFound), ar.join("run7", store=MemoryStore()):
        pass


class Racing(MemoryStore):
    """A store in which something happens just before somebody joins."""

    before: Callable[[], object] | None = None

    def append_rows(self, info: RunInfo, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> Head:
        if rows[0].kind == "writer.joined" and self.before is not None:
            before, self.before = self.before, None
            before()
        return super().append_rows(info, expected_seq, rows, summary)


def test_who_joins_knows_all_that_came_before() -> None:
    """A round that begins at the same time is that of the worker, if it began before it came."""
    store = Racing()
    with ar.record("a", store=store) as run:
        store.before = run.recorder.start_round
        with ar.join("run1", store=store) as joined:
            joined.tool("t", {}, lambda: None)
    assert outline(store)[:3] == ["round.started", "writer.joined", "tool.called 1.w2.1 t"]
    assert [event.round for event in log_of(store)[1:4]] == [1, 1, 1]


def test_who_comes_too_late_does_not_join() -> None:
    """A run that ends at the same time has ended."""
    store = Racing()
    with ExitStack() as stack:
        stack.enter_context(ar.record("a", store=store))
        store.before = stack.pop_all().close
        with pytest.raises(ar.UsageError, match="it is completed"), ar.join("run1", store=store):
            pass
    assert kinds(store) == ["run.started", "run.finished"]


# -- the block ---------------------------------------------------------------------------------------------------------


def test_a_block_is_entered_once(store: EventStore) -> None:
    """Each part that is taken in a run has a block of its own."""
    with ar.record("a", store=store):
        block = ar.join("run1", store=store)
        with block:
            pass
        with pytest.raises(ar.UsageError, match="entered before"), block:
            pass
        with pytest.raises(ar.UsageError, match="before it was entered"):
            ar.join("run1", store=store).__exit__(None, None, None)
    assert kinds(store) == ["run.started", "writer.joined", "writer.left", "run.finished"]


def test_an_unknown_policy_is_refused(store: EventStore) -> None:
    """Before anything is written."""
    with ar.record("a", store=store):
        block = ar.join("run1", store=store, on_store_error="ignore")  # type: ignore[arg-type]  # the point
        with pytest.raises(ar.UsageError, match='"raise" or "warn"'), block:
            pass
    assert kinds(store) == ["run.started", "run.finished"]


def test_a_store_that_fails_is_one_error_of_the_block() -> None:
    """Or one warning, by policy; the run that was joined goes on."""
    store = SpyStore()
    with ar.record("a", store=store):
        store.fails = lambda kind: kind == "tool.called"
        with pytest.raises(ar.RecordingFailed, match="the disk is full"), ar.join("run1", store=store):
            note("never made")
        with pytest.warns(UserWarning, match="goes on unrecorded"), ar.join("run1", store=store, on_store_error="warn"):
            assert note("unrecorded") == "unrecorded"
    assert kinds(store) == ["run.started", "writer.joined", "writer.joined", "run.finished"]


def test_a_run_that_cannot_be_joined_is_one_warning_by_policy(tmp_path: Path) -> None:
    """The worker works, unrecorded, where it was told that recording does not matter."""
    block = ar.join("run1", store=str(tmp_path / "nowhere.db"), on_store_error="warn")
    with ExitStack() as stack:
        with pytest.warns(UserWarning, match="there is no store"):
            joined = stack.enter_context(block)
        assert note("unrecorded") == "unrecorded"
        assert joined.tool("t", {}, lambda: 5) == 5
        joined.report("unheard")
    assert list(tmp_path.iterdir()) == []
