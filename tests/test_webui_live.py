"""Following what is recorded: pages are told, streams end, and nothing is left behind."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agentreplay.recorder.environment import process_identity
from agentreplay.recorder.locate import open_store
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.webui import live
from agentreplay.webui.app import create_app
from agentreplay.webui.live import FOLLOWERS, LIST, Watch
from event_builder import EventBuilder
from werkzeug.exceptions import ServiceUnavailable


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def running() -> tuple[MemoryStore, EventBuilder]:
    """A store with a run that this process records, in its first round."""
    store = MemoryStore()
    log = EventBuilder({"n": 0}, process=process_identity())
    log.begin()
    store.append(store.create_run("refunds"), -1, log.events)
    return store, log


def append(store: MemoryStore, log: EventBuilder) -> None:
    info = store.run("run1")
    store.append(info, info.head_seq, log.events[info.head_seq + 1 :])


def told(stream: Any) -> tuple[str, Any]:
    """The next event of a stream: its name and data."""
    for chunk in stream:
        lines = dict(line.split(": ", 1) for line in chunk.decode().strip().splitlines() if not line.startswith(":"))
        if "event" in lines:
            return lines["event"], json.loads(lines["data"])
    raise AssertionError("the stream has ended")


def test_a_run_that_grows_is_news_until_it_ends() -> None:
    """Its head, its step and its status; then the stream ends, and nobody follows any more."""
    store, log = running()
    app = create_app(store)
    watch = app.extensions["agentreplay"].watch
    answer = app.test_client().get("/api/v1/runs/run1/live?after=1", buffered=False)
    assert answer.mimetype == "text/event-stream"
    stream = iter(answer.response)
    assert next(stream) == b"retry: 2000\n\n"
    assert watch.followers == 1
    log.end()
    log.begin()
    append(store, log)
    assert told(stream) == ("new", {"head": 3, "step": 2, "status": "running"})
    log.end("complete")
    log.finish()
    append(store, log)
    assert told(stream) == ("new", {"head": 5, "step": 2, "status": "completed"})
    assert told(stream)[0] == "end"
    assert list(stream) == []
    answer.close()
    until(lambda: watch.followers == 0)


def test_a_run_that_has_ended_is_news_to_who_knows_less() -> None:
    """And the stream ends at once."""
    store, log = running()
    log.finish()
    append(store, log)
    answer = create_app(store).test_client().get("/api/v1/runs/run1/live")
    text = answer.get_data(as_text=True)
    assert '"status": "completed"' in text
    assert text.endswith("event: end\ndata: {}\n\n")


def test_a_reader_who_leaves_is_forgotten() -> None:
    """Whether the stream has begun or not, closing it leaves nothing."""
    store, _ = running()
    app = create_app(store)
    watch = app.extensions["agentreplay"].watch
    for chunks in (0, 1):
        answer = app.test_client().get("/api/v1/runs/run1/live?after=1", buffered=False)
        stream = iter(answer.response)
        for _ in range(chunks):
            next(stream)
        answer.close()
        assert watch.followers == 0
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "agentreplay-watch"])


def test_a_stream_whose_reader_has_gone_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is asked for that, so that no thread waits for nobody."""
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.01)
    store, _ = running()
    gone: list[int] = []
    app = create_app(store)
    environ = {"waitress.client_disconnected": lambda: bool(gone)}
    answer = app.test_client().get("/api/v1/runs/run1/live?after=1", buffered=False, environ_overrides=environ)
    stream = iter(answer.response)
    next(stream)
    gone.append(1)
    assert list(stream) == []
    answer.close()
    assert app.extensions["agentreplay"].watch.followers == 0


def test_followers_are_bounded() -> None:
    """One too many is told to come again later, and those who are there stay."""
    store, _ = running()
    watch = Watch(store, store.runs)
    for _ in range(FOLLOWERS):
        watch.join(LIST, None)
    with pytest.raises(ServiceUnavailable):
        watch.join(1, None)
    assert watch.followers == FOLLOWERS
    for _ in range(FOLLOWERS):
        watch.leave(LIST)
    assert watch.followers == 0
    watch.close()


def test_one_too_many_is_answered_with_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A status that a browser understands, and when to come again."""
    monkeypatch.setattr(live, "FOLLOWERS", 0)
    store, _ = running()
    answer = create_app(store).test_client().get("/api/v1/live")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"


def test_another_run_is_news_to_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that goes on. The list as it is is told first: a page may have been made of an older one."""
    monkeypatch.setattr(live, "LIST_SECONDS", 0.01)
    store, log = running()
    watch = Watch(store, store.runs)
    version = watch.join(LIST, None)
    found = watch.wait(LIST, version, 10)
    assert found.told == {"runs": 1}
    version = found.version
    store.create_run("another")
    found = watch.wait(LIST, version, 10)
    assert found.told == {"runs": 2}
    version = found.version
    assert watch.join(LIST, None) == -1
    watch.leave(LIST)
    log.end()
    append(store, log)
    assert watch.wait(LIST, version, 10).version > version
    watch.leave(LIST)
    watch.close()


def test_streams_end_when_the_server_stops() -> None:
    """At once, without waiting for news."""
    store, _ = running()
    app = create_app(store)
    answer = app.test_client().get("/api/v1/runs/run1/live?after=1", buffered=False)
    stream = iter(answer.response)
    next(stream)
    threading.Timer(0.05, app.extensions["agentreplay"].watch.close).start()
    assert [chunk for chunk in stream if chunk.startswith(b"event")] == []
    answer.close()


def test_a_store_that_fails_ends_no_stream() -> None:
    """It is asked again: a database may be busy."""
    from agentreplay.recorder.errors import StoreError

    store, log = running()
    watch = Watch(store, store.runs)
    run = store.run
    fails = [True]

    def failing(name: Any) -> Any:
        if fails[0]:
            raise StoreError("busy")
        return run(name)

    store.run = failing  # type: ignore[method-assign]  # fails for a while
    version = watch.join(1, {"head": 1, "step": 1, "status": "running"})
    time.sleep(0.25)
    fails[0] = False
    log.end()
    append(store, log)
    assert watch.wait(1, version, 10).told["head"] == 2
    watch.leave(1)
    watch.close()


WAITS = """
import sys, time
import agentreplay as ar
with ar.record("waits", store=sys.argv[1]) as run, run.round() as r:
    r.tool("pay", {}, lambda: (print("in flight", flush=True), time.sleep(600)))
"""


def test_a_run_whose_process_is_killed_is_news(tmp_path: Path) -> None:
    """Who watches is told that it has crashed, though nobody has written that; then nothing more comes."""
    url = f"sqlite:///{tmp_path}/s.db"
    store = open_store(url)
    process = subprocess.Popen([sys.executable, "-c", WAITS, url], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in flight\n"
        head = store.run("run1").head_seq
        app = create_app(store)
        answer = app.test_client().get(f"/api/v1/runs/run1/live?after={head}", buffered=False)
        stream = iter(answer.response)
        assert next(stream) == b"retry: 2000\n\n"
        process.kill()  # and nobody asks how it ended: it stays a zombie meanwhile
        assert told(stream) == ("new", {"head": head, "step": 1, "status": "crashed"})
        assert told(stream)[0] == "end"
        answer.close()
        page = app.test_client().get("/runs/run1/head").get_data(as_text=True)
        assert "crashed at step 1" in page
    finally:
        process.kill()
        process.communicate()


def test_few_wait_for_pictures_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are left for pages: more than some are answered at once with what is known."""
    from agentreplay.webui import overview

    monkeypatch.setattr(overview.Overview, "extend", lambda self, store, info: iter(()))
    store, _ = running()
    overviews, info = overview.Overviews(store), store.run("run1")
    waiting = [
        threading.Thread(target=overviews.complete, args=(info, 600), kwargs={"patiently": True}, daemon=True)
        for _ in range(overview.PATIENT)
    ]
    for thread in waiting:
        thread.start()
    until(lambda: overviews._patient == overview.PATIENT)
    assert not overviews.complete(info, 600, patiently=True).covers(info)
