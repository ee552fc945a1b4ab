"""Every event lands on the right step, call and task, whatever runs beside it."""

from __future__ import annotations

import asyncio
import contextvars
import decimal
import gc
import os
import threading
from asyncio import BaseEventLoop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.events import Event
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.scope import TaskPath, current, entered, scope_is_carried
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore
from recorded import log_of, one

ORIGINAL = (threading.Thread.start, ThreadPoolExecutor.submit, BaseEventLoop.create_task, BaseEventLoop.call_at)


def carriers() -> tuple[Any, ...]:
    return threading.Thread.start, ThreadPoolExecutor.submit, BaseEventLoop.create_task, BaseEventLoop.call_at


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


@ar.tool
def note(text: str) -> str:
    return text


@ar.tool
async def anote(text: str) -> str:
    await asyncio.sleep(0)
    return text


def where(store: EventStore, run: str = "@last") -> dict[str, tuple[int, str | None, str]]:
    """Of each noted text: the round, call and task that it was noted in."""
    called = [event for event in log_of(store, run) if event.kind == "tool.called" and event.data.name.endswith("note")]
    return {event.data.arguments["text"]: (event.round, event.within, event.task) for event in called}


# -- paths -------------------------------------------------------------------------------------------------------------


def test_paths_count_by_order_of_creation_within_a_round() -> None:
    """A task more in one round changes no path in the others; no two tasks of a run have one path."""
    main = TaskPath()
    first, second = main.child(1), main.child(1)
    assert [first.text, second.text] == ["0.1:0", "0.1:1"]
    assert [first.child(1).text, first.child(1).text, first.child(2).text] == ["0.1:0.0", "0.1:0.1", "0.1:0.2:0"]
    assert [main.child(2).text, main.child(2).text] == ["0.2:0", "0.2:1"]


# -- asyncio -----------------------------------------------------------------------------------------------------------


async def test_tasks_get_paths(store: EventStore) -> None:
    """gather, TaskGroup and create_task, nested; the order of creation counts, not the order of running."""

    async def slow_then(text: str) -> None:
        await asyncio.sleep(0.01)
        await anote(text)

    async def nested() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(anote("inner 0"))
            group.create_task(anote("inner 1"))

    async with ar.record("a", store=store) as run:
        with run.round():
            await asyncio.gather(slow_then("first"), anote("second"))
            await anote("main")
        with run.round():
            await asyncio.create_task(nested())
    assert where(store) == {
        "first": (1, None, "0.1:0"),
        "second": (1, None, "0.1:1"),
        "main": (1, None, "0"),
        "inner 0": (2, None, "0.2:0.0"),
        "inner 1": (2, None, "0.2:0.1"),
    }


async def test_concurrent_calls_keep_their_ids(store: EventStore) -> None:
    """Ids are unique, every return has its call's id and round, and nested calls are within the right one."""

    @ar.tool
    async def outer(n: int) -> int:
        await asyncio.sleep(0.001 * (5 - n))
        await anote(f"in {n}")
        return n

    async with ar.record("a", store=store) as run:
        for _ in range(3):
            with run.round():
                await asyncio.gather(*(outer(n) for n in range(5)))
    log = log_of(store)
    called = {event.data.call: event for event in log if event.kind == "tool.called"}
    returned = [event for event in log if event.kind == "tool.returned"]
    assert len(called) == len(returned) == 30
    for event in returned:
        call = called[event.data.call]
        assert (event.round, event.within, event.task) == (call.round, call.within, call.task)
        if call.data.name == "anote":
            around = called[call.within or ""]
            assert call.data.arguments["text"] == f"in {around.data.arguments['n']}"


async def test_a_call_that_returns_in_a_later_round_returns_to_its_own(store: EventStore) -> None:
    """The return of a call carries the round of the call."""
    go = asyncio.Event()

    @ar.tool
    async def slow() -> str:
        await go.wait()
        return "late"

    async with ar.record("a", store=store) as run:
        with run.round():
            task = asyncio.create_task(slow())
            await asyncio.sleep(0.01)
        with run.round():
            go.set()
            await task
    returned = one(store, "tool.returned")
    assert (returned.round, returned.data.call) == (1, "1.1")
    assert [event.kind for event in log_of(store)].index("tool.returned") > 5


async def test_a_context_of_the_agents_own_is_left_alone(store: EventStore) -> None:
    """Tasks that are given a context run in it; what the recorder puts into tasks never gets there."""
    mine = contextvars.copy_context()
    async with ar.record("a", store=store):
        await asyncio.create_task(anote("unrecorded"), context=mine)
        assert mine.get(current) is None
        await asyncio.create_task(anote("recorded"), context=contextvars.copy_context())
    assert where(store) == {"recorded": (0, None, "0")}


async def test_a_task_factory_of_the_agents_own_is_used(store: EventStore) -> None:
    """Whatever makes the loop's tasks goes on making them, also one of the old form."""
    made = []

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> asyncio.Task[Any]:
        made.append(coro)
        return asyncio.Task(coro, loop=loop, **kwargs)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(factory)
    async with ar.record("a", store=store):
        await asyncio.create_task(anote("x"))
        assert loop.get_task_factory() is factory
    loop.set_task_factory(None)
    assert len(made) == 1
    assert where(store) == {"x": (0, None, "0.0:0")}


def test_a_loop_that_the_agent_runs_itself_is_recorded(store: EventStore) -> None:
    """asyncio.run within a plain step: its tasks have paths, and its events come in order."""

    async def main() -> None:
        await asyncio.gather(anote("a"), anote("b"))

    with ar.record("a", store=store) as run, run.round():
        note("before")
        asyncio.run(main())
        note("after")
    assert {text: task for text, (_, _, task) in where(store).items()} == {
        "before": "0",
        "a": "0.1:0",
        "b": "0.1:1",
        "after": "0",
    }


# -- threads -----------------------------------------------------------------------------------------------------------


def test_threads_run_in_the_scope_that_started_them(store: EventStore) -> None:
    """A thread, one of a class of its own, and one started by a thread."""

    class Own(threading.Thread):
        def run(self) -> None:
            note("own class")

    def work() -> None:
        note("plain")
        inner = threading.Thread(target=note, args=("nested",))
        inner.start()
        inner.join()

    @ar.tool
    def start() -> None:
        threads = [threading.Thread(target=work), Own()]
        for thread in threads:
            thread.start()
            thread.join()
            assert "run" not in vars(thread)

    with ar.record("a", store=store) as run, run.round():
        start()
    assert where(store) == {
        "plain": (1, "1.1", "0.1:0"),
        "nested": (1, "1.1", "0.1:0.0"),
        "own class": (1, "1.1", "0.1:1"),
    }


def test_a_thread_has_no_other_context_than_without_recording(store: EventStore) -> None:
    """Only the scope is carried: a thread starts with default values of every other context variable."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("mine", default="default")
    seen: list[Any] = []

    def look() -> None:
        seen.append((variable.get(), decimal.getcontext().prec))

    with ar.record("a", store=store), decimal.localcontext() as context, ThreadPoolExecutor(1) as pool:
        context.prec = 5
        variable.set("set")
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        pool.submit(look).result()
    assert seen == [("default", 28), ("default", 28)]


def test_a_pool_serves_the_scope_of_each_submit(store: EventStore) -> None:
    """Workers started before, in and after runs record what is submitted where it is submitted, and nothing else."""
    with ThreadPoolExecutor(2) as pool:
        assert pool.submit(note, "before").result() == "before"
        with ar.record("first", store=store) as run, run.round():
            list(pool.map(note, ["a", "b", "c"]))
        assert pool.submit(note, "between").result() == "between"
        with ar.record("second", store=store):
            pool.submit(note, text="d").result()
        assert pool.submit(note, "after").result() == "after"
    assert where(store, "run1") == {
        "a": (1, None, "0.1:0"),
        "b": (1, None, "0.1:1"),
        "c": (1, None, "0.1:2"),
    }
    assert where(store, "run2") == {"d": (0, None, "0.0:0")}


def test_a_worker_that_is_started_in_a_run_belongs_to_none(store: EventStore) -> None:
    """A worker outlives the run whose submit happened to start it."""
    pool = ThreadPoolExecutor(1)
    with ar.record("first", store=store):
        pool.submit(note, "a").result()
    assert pool.submit(current.get).result() is None
    pool.shutdown()


async def test_work_given_to_threads_by_a_loop_is_recorded(store: EventStore) -> None:
    """`to_thread` and `run_in_executor` keep the call and the task they were called in."""

    @ar.tool
    async def outer() -> None:
        await asyncio.to_thread(note, "to_thread")
        with ThreadPoolExecutor(1) as pool:
            await asyncio.get_running_loop().run_in_executor(pool, note, "executor")

    async with ar.record("a", store=store) as run:
        with run.round():
            await outer()
    assert where(store)["to_thread"] == (1, "1.1", "0")
    assert where(store)["executor"][:2] == (1, "1.1")


def test_many_threads_record_at_once(store: EventStore) -> None:
    """No event is lost, none twice, ids are unique, and every return follows its call."""
    with ar.record("a", store=store), ThreadPoolExecutor(8) as pool:
        list(pool.map(note, map(str, range(200))))
    log = [event for event in log_of(store) if event.kind.startswith("tool.")]
    assert len({event.data.call for event in log}) == 200
    assert len(log) == 400
    assert len(where(store)) == 200


def test_a_thread_that_cannot_start_is_as_it_was(store: EventStore) -> None:
    """Starting a thread twice is refused as ever, and leaves nothing behind in the thread."""
    with ar.record("a", store=store):
        thread = threading.Thread(target=note, args=("x",))
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match="once"):
            thread.start()
        assert "run" not in vars(thread)
    assert list(where(store)) == ["x"]


# -- several runs ------------------------------------------------------------------------------------------------------


def test_runs_in_two_threads_never_mix(store: EventStore) -> None:
    """Two runs at a time, in threads that know of no run: each has its own events only."""
    both = threading.Barrier(2)

    def run(name: str) -> None:
        with ar.record(name, store=store) as run:
            for n in range(20):
                with run.round():
                    both.wait()
                    note(f"{name} {n}")

    threads = [threading.Thread(target=run, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for info in store.runs():
        assert list(where(store, info.uid)) == [f"{info.agent} {n}" for n in range(20)]


async def test_runs_in_two_tasks_never_mix(store: EventStore) -> None:
    """Two runs of one agent, gathered: each has its own events only, and nothing of the other as parent."""

    @ar.agent("twin", max_rounds=10)
    async def step(round_index: int, context: ar.Context) -> Any:
        await asyncio.gather(anote(f"{context.input} {round_index} a"), anote(f"{context.input} {round_index} b"))
        return ar.Continue() if round_index < 5 else ar.Complete(context.input)

    results = await asyncio.gather(*(step.arun(input=n, store=store) for n in (1, 2)))
    for result in results:
        texts = where(store, result.run.id)
        assert set(texts) == {f"{result.value} {i} {x}" for i in range(1, 6) for x in "ab"}
        assert {task for _, _, task in texts.values()} == {f"0.{i}:{n}" for i in range(1, 6) for n in (0, 1)}
        assert next(iter(store.events(result.run.id))).data.parent is None


# -- leaving no trace --------------------------------------------------------------------------------------------------


def test_everything_is_restored(store: EventStore) -> None:
    """Nested and overlapping runs put the very functions back, when the last one ends."""
    with ar.record("outer", store=store):
        during = carriers()
        assert all(one is not other for one, other in zip(during, ORIGINAL, strict=True))
        with ar.record("inner", store=store):
            assert carriers() == during
        assert carriers() == during
    assert carriers() == ORIGINAL
    first, second = scope_is_carried(), scope_is_carried()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert carriers() != ORIGINAL
    second.__exit__(None, None, None)
    assert carriers() == ORIGINAL


def test_a_failing_run_restores_everything(store: EventStore) -> None:
    """However the block is left."""
    with pytest.raises(ValueError), ar.record("a", store=store):
        raise ValueError
    assert carriers() == ORIGINAL


def test_a_function_wrapped_by_others_meanwhile_stays_wrapped() -> None:
    """Who wraps `Thread.start` during a run keeps the wrapper, which still works afterwards."""
    started = []
    with scope_is_carried():
        ours = threading.Thread.start

        def theirs(thread: threading.Thread) -> None:
            started.append(thread)
            ours(thread)

        threading.Thread.start = theirs  # type: ignore[method-assign]  # what tracing libraries do
    try:
        assert threading.Thread.start is theirs
        thread = threading.Thread(target=list)
        thread.start()
        thread.join()
        assert started == [thread]
    finally:
        threading.Thread.start = ORIGINAL[0]  # type: ignore[method-assign]  # as it was


def test_a_wrapper_from_before_is_put_back() -> None:
    """What others had put in the place of `submit` before the run is what is there after it."""

    def theirs(pool: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return ORIGINAL[1](pool, fn, *args, **kwargs)

    ThreadPoolExecutor.submit = theirs  # type: ignore[method-assign]  # what tracing libraries do
    try:
        with scope_is_carried():
            assert ThreadPoolExecutor.submit is not theirs
        assert ThreadPoolExecutor.submit is theirs
    finally:
        ThreadPoolExecutor.submit = ORIGINAL[1]  # type: ignore[method-assign]  # as it was


def test_a_coroutine_closed_from_elsewhere_closes_quietly(store: EventStore) -> None:
    """A tool that still waits when its loop is gone is closed without an error of ours."""

    @ar.tool
    async def forever() -> None:
        await asyncio.Event().wait()

    with ar.record("a", store=store):
        loop = asyncio.new_event_loop()
        task = loop.create_task(forever())
        loop.call_later(0.05, loop.stop)
        loop.run_forever()
        coroutine = task.get_coro()
        contextvars.Context().run(coroutine.close)  # type: ignore[union-attr]  # a coroutine
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is meant to be left
        del task, coroutine
        gc.collect()
        loop.close()
    assert [event.kind for event in log_of(store)][-2:] == ["call.cancelled", "run.finished"]


def test_a_scope_left_in_another_context_is_left_quietly() -> None:
    """Leaving a scope where it never was changes nothing there."""
    scope = entered(None)
    contextvars.Context().run(scope.__enter__)
    scope.__exit__(None, None, None)
    assert current.get() is None


# -- forks -------------------------------------------------------------------------------------------------------------


def child_exit_code(work: Callable[[], None]) -> int:
    """Fork; the code with which the child ends after doing the work: 0, or 1 if it raised."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_does_not_write_into_the_run(tmp_path: Any) -> None:
    """In a child process effects go on unrecorded; it may record runs of its own."""
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")

    def child() -> None:
        assert note("in the child") == "in the child"
        with ar.record("the child's", store=store) as own:
            assert note("its own") == "its own"
        assert own.id == "run2"

    with ar.record("parent", store=store) as run, run.round():
        note("before")
        assert child_exit_code(child) == 0
        note("after")
    assert list(where(store, "run1")) == ["before", "after"]
    assert list(where(store, "run2")) == ["its own"]
    assert one(store, "run.started", "run2").data.parent is None
    store.close()


async def test_a_child_forked_from_an_event_loop_does_not_hang(tmp_path: Any) -> None:
    """The writer thread is not there in the child, and nobody waits for it."""
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    async with ar.record("parent", store=store):
        await anote("before")
        assert child_exit_code(lambda: print(note("in the child"))) == 0
        await anote("after")
    assert list(where(store, "run1")) == ["before", "after"]
    store.close()


def test_no_event_is_lost_while_another_thread_forks(tmp_path: Any) -> None:
    """A run goes on while the process is forked again and again."""
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    done = threading.Event()
    forked = 0

    def fork() -> None:
        nonlocal forked
        while not done.is_set():
            assert child_exit_code(lambda: None) == 0
            forked += 1

    forking = threading.Thread(target=fork)
    forking.start()
    with ar.record("parent", store=store):
        for n in range(300):
            note(str(n))
        while forked < 3:
            note("more")
    done.set()
    forking.join()
    events: list[Event] = log_of(store)
    assert [event.seq for event in events] == list(range(len(events)))
    texts = [event.data.arguments["text"] for event in events if event.kind == "tool.called"]
    assert texts[:300] == [str(n) for n in range(300)]
    store.close()


class Instrumented:
    """A method that a tracer has wrapped: it works as what it is bound to, and by itself not at all."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__name__ = "start"
        self.started: list[Any] = []

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., Any]:
        def bound(*args: Any) -> Any:
            thread = args[0] if instance is None else instance
            self.started.append(thread)
            return self.method(thread)

        return bound


def test_a_method_that_others_have_wrapped_keeps_working(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracers put descriptors in the place of `Thread.start`; threads start through them, and carry the scope."""
    wrapped = Instrumented(threading.Thread.start)
    monkeypatch.setattr(threading.Thread, "start", wrapped)
    store = MemoryStore()
    with ar.record("traced", store=store) as run, run.round():
        thread = threading.Thread(target=note, args=("in a thread",))
        thread.start()
        thread.join()
    assert thread in wrapped.started
    assert vars(threading.Thread)["start"] is wrapped
    assert list(where(store, "run1")) == ["in a thread"]
