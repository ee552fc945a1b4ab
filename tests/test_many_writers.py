"""Many writers at once, as processes, threads, tasks and forks: no loss, no gap, no lock error, and the chain verifies.

Each law holds for every kind of database; PostgreSQL's part needs a server, see `conftest`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.events import Event
from agentreplay.recorder.store import EventStore
from agentreplay.replay.outline import outline
from postgres_server import is_at_hand, running, schema_on
from recorded import log_of

DATABASES = ["sqlite"]
if os.environ.get("CI") or (is_at_hand() and find_spec("psycopg") is not None):
    DATABASES.append("postgresql")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as url:
        yield url


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a store may be made."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    with schema_on(request.getfixturevalue("server")) as url:
        yield url


@pytest.fixture
def store(url: str) -> Iterator[EventStore]:
    """An empty store; other processes open it by its URL."""
    store = ar.open_store(url)
    yield store
    store.close()


@ar.tool
def note(text: str) -> str:
    return text


@ar.tool
async def anote(text: str) -> str:
    await asyncio.sleep(0)
    return text


def in_processes(calls: Sequence[Callable[[], None]]) -> Sequence[BaseProcess]:
    """Start processes that have nothing of this one."""
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=call) for call in calls]
    for child in children:
        child.start()
    return children


def all_well(children: Sequence[BaseProcess]) -> bool:
    """Wait for processes; whether all of them ended well."""
    for child in children:
        child.join()
    return [child.exitcode for child in children] == [0] * len(children)


def in_child(work: Callable[[], None]) -> int:
    """Fork, and work in the child; returns its pid."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def ended_well(pid: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def sound(store: EventStore, run: str) -> list[Event]:
    """The events of a run: without a gap, in a chain, each call with an id of its own and ended once."""
    events = log_of(store, run)
    assert [event.seq for event in events] == list(range(len(events)))
    called = Counter(event.data.call for event in events if event.kind == "tool.called")
    returned = Counter(event.data.call for event in events if event.kind == "tool.returned")
    assert set(called.values()) <= {1}
    assert called == returned
    return events


def texts_by_task(events: Sequence[Event]) -> dict[str, list[str]]:
    """What was noted, in order, by the task that noted it."""
    texts: dict[str, list[str]] = defaultdict(list)
    for event in events:
        if event.kind == "tool.called":
            texts[event.task].append(event.data.arguments["text"])
    return dict(texts)


def numbered(name: str, count: int) -> list[str]:
    return [f"{name} {n}" for n in range(count)]


# -- one store ---------------------------------------------------------------------------------------------------------


def record_a_run(url: str, name: str, count: int) -> None:
    """Append `count` events between the first and the last; every fifth one asks a model what others ask it too."""
    with ar.record(name, store=url) as run:
        for n in range(0, count, 5):
            for more in range(3):
                run.event("x.counted", n=n + more)
            question = {"role": "user", "content": f"question {n % 7}"}
            run.model("m", {"messages": [question]}, lambda messages: {"role": "assistant", "content": "answer"})


def test_eight_processes_record_a_thousand_events_each(url: str) -> None:
    """Into one store, which one of them makes, each a run of its own: every event is in its run, once and in order."""
    names = [f"agent{n}" for n in range(8)]
    assert all_well(in_processes([partial(record_a_run, url, name, 1_000) for name in names]))
    store = ar.open_store(url, create=False)
    infos = store.runs()
    assert sorted(info.agent for info in infos) == names
    assert [(info.id, info.status, info.head_seq) for info in infos] == [
        (f"run{n}", "completed", 1_001) for n in range(1, 9)
    ]
    for info in infos:
        events = sound(store, info.id)
        assert [event.data.n for event in events if event.kind == "x.counted"] == counted(1_000)
        asked = [event.data.request["messages"][0]["content"] for event in events if event.kind == "model.called"]
        assert asked == [f"question {n % 7}" for n in range(0, 1_000, 5)]
    store.close()


def counted(count: int) -> list[int]:
    return [n for n in range(count) if n % 5 < 3]


# -- one run -----------------------------------------------------------------------------------------------------------


def test_four_threads_and_a_hundred_tasks_write_into_one_run(store: EventStore) -> None:
    """At the same time: what each of them does is in the log in its order, under a task path of its own."""

    def in_thread(name: str) -> None:
        for text in numbered(name, 50):
            note(text)

    async def in_task(name: str) -> None:
        for text in numbered(name, 5):
            await anote(text)

    async def tasks() -> None:
        await asyncio.gather(*[in_task(f"task{n}") for n in range(100)])

    with ar.record("a", store=store) as run, run.round():
        threads = [threading.Thread(target=in_thread, args=(f"thread{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        asyncio.run(tasks())
        for thread in threads:
            thread.join()
    by_task = texts_by_task(sound(store, "run1"))
    expected = [numbered(f"thread{n}", 50) for n in range(4)] + [numbered(f"task{n}", 5) for n in range(100)]
    assert sorted(by_task.values()) == sorted(expected)


def note_in_run(run: str, store: EventStore | str, name: str, count: int) -> None:
    with ar.join(run, store=store):
        for text in numbered(name, count):
            note(text)


def test_a_run_goes_on_while_it_forks(store: EventStore) -> None:
    """A child that was forked in the middle joins the run, its parent goes on, and a child of the child joins too."""

    def child() -> None:
        note("of nobody")  # in a child nothing is recorded before it joins
        grandchild = in_child(partial(note_in_run, "run1", store, "grandchild", 100))
        note_in_run("run1", store, "child", 100)
        assert ended_well(grandchild)

    @ar.tool
    def forks(text: str) -> bool:
        pid = in_child(child)
        for part in numbered("parent", 100):
            note(part)
        return ended_well(pid)

    with ar.record("a", {"n": 0}, store=store) as run, run.round() as r:
        note("before")
        assert forks("in the middle")
        r.change(update={"n": 1})
        note("after")
    events = sound(store, "run1")
    assert sorted(texts_by_task(events).values()) == sorted(
        [
            ["before", "in the middle", *numbered("parent", 100), "after"],
            numbered("child", 100),
            numbered("grandchild", 100),
        ]
    )
    # All of it happened inside the call that forked.
    assert {event.within for event in events if event.task != "0"} == {"1.2"}
    assert ar.state_at("run1", store=store).payload == {"n": 1}


async def test_a_run_on_an_event_loop_goes_on_while_it_forks(store: EventStore) -> None:
    """The background writer of the parent and the child append to the same run."""
    async with ar.record("a", store=store):
        await anote("before")
        pid = in_child(partial(note_in_run, "run1", store, "child", 100))
        for text in numbered("parent", 100):
            await anote(text)
        assert ended_well(pid)
    by_task = texts_by_task(sound(store, "run1"))
    assert sorted(by_task.values()) == sorted([["before", *numbered("parent", 100)], numbered("child", 100)])


def take_part(url: str, run: str, name: str) -> None:
    """Join a run, with threads and with tasks at the same time, and once more."""

    def in_thread(name: str) -> None:
        for text in numbered(name, 10):
            note(text)

    async def in_task(name: str) -> None:
        for text in numbered(name, 5):
            await anote(text)

    async def tasks() -> None:
        async with ar.join(run, store=url):
            await asyncio.gather(*[in_task(f"{name}.task{n}") for n in range(8)])

    with ar.join(run, store=url) as joined:
        threads = [threading.Thread(target=in_thread, args=(f"{name}.thread{n}",)) for n in range(3)]
        for thread in threads:
            thread.start()
        asyncio.run(tasks())
        for thread in threads:
            thread.join()
        joined.event("x.done", by=name)


def test_processes_take_part_in_a_run_that_is_recorded(store: EventStore) -> None:
    """Rounds and changes of who records it, calls of others' threads and tasks: all are there, and fold to what was."""
    with ar.record("a", {"n": 0}, store=store) as run:
        others = in_processes([partial(take_part, store.url, run.id, f"other{n}") for n in range(4)])
        step = 0
        while any(child.is_alive() for child in others) or step < 20:
            step += 1
            with run.round() as r:
                r.tool("note", {"text": f"own {step}"}, lambda text: text)
                r.change(update={"n": step})
            time.sleep(0.002)  # as an agent does that waits for its model
        assert all_well(others)
    events = sound(store, "run1")
    own = texts_by_task(events).pop("0")
    assert own == [f"own {n}" for n in range(1, step + 1)]
    expected = [numbered(f"other{k}.thread{n}", 10) for k in range(4) for n in range(3)]
    expected += [numbered(f"other{k}.task{n}", 5) for k in range(4) for n in range(8)]
    assert sorted([texts for task, texts in texts_by_task(events).items() if task != "0"]) == sorted(expected)
    joined = [event.data.writer for event in events if event.kind == "writer.joined"]
    assert sorted(joined) == sorted(event.data.writer for event in events if event.kind == "writer.left")
    assert len(set(joined)) == 8
    assert {event.task.partition(".")[0] for event in events} == {"0", *joined}
    assert [ar.state_at("run1", n, store=store).payload for n in (0, 1, step // 2, step)] == [
        {"n": n} for n in (0, 1, step // 2, step)
    ]
    assert sum(len(entry.calls) for entry in outline(store.events("run1"))) == step + 4 * (3 * 10 + 8 * 5)
    state = ar.state_at("run1", store=store)
    assert (state.status, state.open_calls) == ("completed", {})


def be_killed(url: str, run: str) -> None:
    with ar.join(run, store=url) as joined:
        for text in numbered("other", 20):
            note(text)
        joined.tool("die", {}, lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_who_is_killed_takes_nothing_with_it(store: EventStore) -> None:
    """A process that joined and is killed in a call: the run goes on, and shows the call as the one in flight."""
    with ar.record("a", store=store) as run, run.round():
        (other,) = in_processes([partial(be_killed, store.url, run.id)])
        other.join()
        note("own")
    assert other.exitcode == -signal.SIGKILL
    events = log_of(store, "run1")
    assert [event.seq for event in events] == list(range(len(events)))
    assert texts_by_task([event for event in events if event.kind == "tool.called" and event.data.name == "note"]) == {
        "w2": numbered("other", 20),
        "0": ["own"],
    }
    state = ar.state_at("run1", store=store)
    assert (state.status, [call.name for call in state.open_calls.values()]) == ("completed", ["die"])
    assert "writer.left" not in {event.kind for event in events}


def hold_the_store(url: str, go: Any, done: Any) -> None:
    """Append as fast as can be to one run until told to stop."""
    with ar.record("greedy", store=url) as run:
        go.set()
        while not done.is_set():
            run.event("x.more")


def test_a_busy_store_is_nobodys_problem(store: EventStore) -> None:
    """While two processes append without a pause, a third one's events wait for their turn, and come through."""
    context: Any = multiprocessing.get_context("spawn")
    started: list[Any] = [context.Event() for _ in range(2)]
    done = context.Event()
    others = in_processes([partial(hold_the_store, store.url, go, done) for go in started])
    for go in started:
        assert go.wait(60)
    record_a_run(store.url, "patient", 200)
    done.set()
    assert all_well(others)
    assert [info.status for info in store.runs()] == ["completed"] * 3
    patient = next(info for info in store.runs() if info.agent == "patient")
    assert [event.data.n for event in sound(store, patient.id) if event.kind == "x.counted"] == counted(200)
    assert store.verify() == []
