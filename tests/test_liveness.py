"""A run whose process is gone has crashed; of one that may be alive nothing is claimed but when it was heard of."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from agentreplay.recorder import liveness
from agentreplay.recorder.environment import process_identity
from agentreplay.recorder.events import new_event
from agentreplay.recorder.exporting import export_run
from agentreplay.recorder.hashes import comparison_hash
from agentreplay.recorder.importers import import_file
from agentreplay.recorder.liveness import SILENT_AFTER, Standing, is_gone, is_there, standing_of
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore, RunInfo
from cassette_runs import UID, record_forks
from cli_runs import json_of, output

WORKER = """
import sys, time
import agentreplay as ar
with ar.record("worker", payload={"n": 0}, store=ar.open_store(sys.argv[1])) as run:
    with run.round() as r:
        r.change(update={"n": 1})
        print("ready", flush=True)
        r.tool("wait", {"seconds": 60}, lambda seconds: time.sleep(seconds))
"""

HERE = process_identity()
GONE = {**HERE, "start": 1}
ELSEWHERE = {**HERE, "host": "elsewhere"}
HOUR = 3_600_000_000


def now() -> int:
    return time.time_ns() // 1_000


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    store = MemoryStore() if request.param == "memory" else SqlStore(f"sqlite:///{tmp_path}/store.db")
    yield store
    store.close()


def event(kind: str, seq: int, time: int, /, **data: Any) -> Any:
    """An event at a time in microseconds."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)
    return new_event(kind, seq=seq, round=0, time=at, data=data)


def started(store: EventStore, process: Any, time: int) -> RunInfo:
    """A run whose start names a process, at a time."""
    run = store.create_run("clerk")
    data = {"agent": "clerk", "payload": {}, "payload_hash": comparison_hash({}), "process": process}
    store.append(run, -1, [event("run.started", 0, time, **data)])
    return run


def seen(store: EventStore, run: RunInfo) -> tuple[str, int | None]:
    """The status of a run as the store gives it, and since when it is silent; the same alone and in the list."""
    info = store.run(run.uid)
    assert info in store.runs()
    return info.status, info.silent_since


# -- what can be proved --------------------------------------------------------------------------------------------


def test_this_process_is_there() -> None:
    """What runs is not gone."""
    assert is_there(HERE) is True
    assert not is_gone(HERE)


@pytest.mark.parametrize(
    "other",
    [{"host": "elsewhere"}, {"namespace": "pid:[1]"}, {"boot": None}, {"pid": None}, {"pid": "7"}, {"start": None}],
)
def test_nothing_is_claimed_without_proof(other: dict[str, Any]) -> None:
    """A process on another host, in another namespace, or of unknown boot, number or time may be alive."""
    assert is_gone(GONE)
    assert is_there({**GONE, **other}) is None
    assert not is_gone({**GONE, **other})
    assert not is_gone(None)
    assert not is_gone({})


def test_a_host_that_was_started_anew_has_no_old_processes() -> None:
    """Another boot of the same host proves it."""
    assert is_gone({**HERE, "boot": "another"})


def test_a_process_that_cannot_be_looked_at_may_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where /proc hides the processes of other users, that one is not seen there proves nothing."""
    monkeypatch.setattr(liveness, "process_start", lambda pid: None)
    assert is_there(HERE) is False  # it is ours, so it would be seen

    def refuse(pid: int, signal: int) -> None:
        assert (pid, signal) == (HERE["pid"], 0)
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert is_there(HERE) is None


def test_another_machine_of_the_same_name_is_found_out() -> None:
    """Nothing of an earlier boot is heard of after this one; if it is, it was another machine, and may go on."""
    old = {**HERE, "boot": "another"}
    assert standing_of(old, lambda: now()) == Standing()
    assert standing_of(old, lambda: 0) == Standing(crashed=True)


def test_a_living_process_is_asked_for_no_other_sign() -> None:
    """What is proved needs no look at the log."""
    assert standing_of(HERE, lambda: pytest.fail("asked")) == Standing()


# -- what a store says ---------------------------------------------------------------------------------------------


def test_a_run_from_another_host_is_silent_since_its_last_event(store: EventStore) -> None:
    """An event is a sign of life; without another for a while, the run is silent since then."""
    long_ago = now() - HOUR
    run = started(store, ELSEWHERE, long_ago - HOUR)
    store.append(run, 0, [event("x.work", 1, long_ago)])
    assert seen(store, run) == ("running", long_ago)
    assert not store.run(run.uid).is_live
    store.append(run, 1, [event("x.work", 2, now())])
    assert seen(store, run) == ("running", None)
    assert store.run(run.uid).is_live


@pytest.mark.parametrize("process", [ELSEWHERE, {**GONE, "namespace": "pid:[1]"}, None])
def test_a_heartbeat_is_a_sign_of_life(store: EventStore, process: Any) -> None:
    """Whoever waits is heard of by it; when that ends, too, the run is silent since the last one."""
    run = started(store, process, now() - HOUR)
    store.keep_heartbeats([run.number])
    assert seen(store, run) == ("running", None)
    last = now() - int(SILENT_AFTER * 1e6) - 1
    store._write_heartbeats([run.number], last)
    assert seen(store, run) == ("running", last)
    assert store.verify() == []


def test_silence_is_not_said_before_its_time(store: EventStore) -> None:
    """A run that was heard of less than a minute ago is running, as far as anybody knows."""
    run = started(store, ELSEWHERE, now() - int(SILENT_AFTER * 1e6) + 30_000_000)
    assert seen(store, run) == ("running", None)


def test_a_heartbeat_proves_nothing_against_a_process_that_is_gone(store: EventStore) -> None:
    """It was the last one."""
    run = started(store, GONE, now())
    store.keep_heartbeats([run.number])
    assert seen(store, run) == ("crashed", None)


def test_a_run_without_events_is_silent_since_it_was_created(tmp_path: Path) -> None:
    """Its process was killed before it could say which one it is."""
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    run = store.create_run("clerk")
    assert seen(store, run) == ("running", None)
    created = now() - HOUR
    with sqlite3.connect(tmp_path / "store.db") as other:
        other.execute("UPDATE run SET started = ?", (created,))
    assert seen(store, run) == ("running", created)
    store.close()
    assert output("show", "run1", "--store", tmp_path / "store.db").startswith("run1  clerk  silent since ")


def test_the_process_that_resumed_a_run_is_the_one_that_counts(store: EventStore) -> None:
    """The one that started it may be gone for long."""
    run = started(store, GONE, now())
    assert seen(store, run) == ("crashed", None)
    store.append(run, 0, [event("run.resumed", 1, now(), process=HERE), event("x.work", 2, now())])
    assert seen(store, run) == ("running", None)
    store.append(run, 2, [event("run.resumed", 3, now(), process=GONE)])
    assert seen(store, run) == ("crashed", None)
    assert store.verify() == []


def test_the_process_that_records_a_fork_is_its_own(store: EventStore) -> None:
    """Not that of the run it was forked from."""
    parent = started(store, GONE, now())
    (row,) = store.rows(parent)
    for process, status in ((HERE, "running"), ({**HERE, "start": 2}, "crashed")):
        fork = store.create_run("clerk", fork_of=parent.uid, fork_seq=0)
        assert seen(store, fork) == ("running", None)
        data = {"parent": parent.uid, "seq": 0, "hash": row.hash, "process": process}
        store.append(fork, 0, [event("run.forked", 1, now(), **data)])
        assert seen(store, fork) == (status, None)
    assert seen(store, parent) == ("crashed", None)
    assert store.verify() == []


# -- what came from a file -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("process", [HERE, GONE, ELSEWHERE])
def test_a_run_from_a_file_is_neither_live_nor_crashed(process: Any, store: EventStore, tmp_path: Path) -> None:
    """It was exported while it was running; whatever became of its process since, nobody records it here."""
    other = MemoryStore()
    run = started(other, process, now() - HOUR)
    export_run(run, tmp_path / "run.jsonl", store=other)
    import_file(tmp_path / "run.jsonl", store)
    info = store.run(run.uid)
    assert (info.status, info.silent_since, info.is_partial, info.is_live) == ("running", None, True, False)
    assert store.verify() == []
    store.append(info, 0, [event("run.resumed", 1, now(), process=HERE)])
    info = store.run(run.uid)
    assert (info.status, info.is_partial, info.is_live) == ("running", False, True)
    assert store.verify() == []


def test_what_continues_a_run_from_a_file_makes_it_one_of_a_file(tmp_path: Path) -> None:
    """It crashed here, was resumed elsewhere, and came back: the process that is gone has no more to do with it."""
    here, elsewhere = MemoryStore(), MemoryStore()
    run = started(here, GONE, now())
    export_run(run, tmp_path / "crashed.jsonl", store=here)
    import_file(tmp_path / "crashed.jsonl", elsewhere)
    assert seen(here, run) == ("crashed", None)
    elsewhere.append(run.uid, 0, [event("run.resumed", 1, now(), process=ELSEWHERE)])
    export_run(run.uid, tmp_path / "resumed.jsonl", store=elsewhere)
    import_file(tmp_path / "resumed.jsonl", here)
    info = here.run(run.uid)
    assert (info.status, info.head_seq, info.is_partial) == ("running", 1, True)
    assert here.verify() == []


def test_the_shared_part_of_a_fork_is_partial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of origin `prefix` ends where the fork left it, and `ls` and `show` say that the rest is elsewhere."""
    other = MemoryStore()
    fork = record_forks(other)
    export_run(fork, tmp_path / "fork.jsonl", store=other)
    monkeypatch.chdir(tmp_path)
    output("import", "fork.jsonl", "--store", "store.db")
    rows = {row["uid"]: row for row in json_of("ls", "--store", "store.db")}
    assert (rows[UID(1)]["origin"], rows[UID(1)]["status"], rows[UID(1)]["partial"]) == ("prefix", "running", True)
    assert {row["silent_since"] for row in rows.values()} == {None}
    name = rows[UID(1)]["run"]
    (line,) = [line for line in output("ls", "--store", "store.db").splitlines() if line.startswith(f"{name} ")]
    assert "partial" in line
    shown = output("show", name, "--store", "store.db")
    assert shown.splitlines()[0] == f"{name}  refunds  partial"
    assert "the rest, after event " in shown


def test_a_salvaged_run_is_partial(tmp_path: Path) -> None:
    """Its file had lost its end; that it has none is no crash."""
    other, store = MemoryStore(), MemoryStore()
    run = started(other, HERE, now())
    other.append(run, 0, [event("x.work", seq, now(), n=seq) for seq in range(1, 9)])
    export_run(run, tmp_path / "run.jsonl", store=other)
    lines = (tmp_path / "run.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_bytes(b"".join(lines[:6]))
    import_file(tmp_path / "cut.jsonl", store, salvage=True)
    info = store.run(run.uid)
    assert (info.origin, info.status, info.is_partial, info.silent_since) == ("salvaged", "running", True, None)


# -- what people see -----------------------------------------------------------------------------------------------


def test_a_killed_run_has_crashed(tmp_path: Path) -> None:
    """While the process lives the run is running; after it was killed it has crashed, with its call in flight."""
    path = tmp_path / "store.db"
    url = f"sqlite:///{path}"
    worker = subprocess.Popen([sys.executable, "-c", WORKER, url], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"ready\n"
    store = SqlStore(url)
    deadline = time.monotonic() + 30
    while store.run("run1").head_seq < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert store.run("run1").status == "running"
    assert "tool wait, called in round 1" in output("show", "run1", "--store", path)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    assert store.run("run1").status == "crashed"
    assert [info.status for info in store.runs()] == ["crashed"]
    assert list(store.events("run1"))[-1].kind == "tool.called"
    assert store.verify() == []
    store.close()
    in_flight = [{"call": "1.1", "kind": "tool", "name": "wait", "step": 1, "within": None}]
    shown = json_of("show", "run1", "--store", path)
    assert (shown["status"], shown["silent_since"], shown["in_flight"]) == ("crashed", None, in_flight)
    text = output("show", "run1", "--store", path).splitlines()
    assert text[0] == "run1  worker  crashed"
    assert "  in flight 1.1  tool wait, called in round 1" in text


def test_a_silent_run_says_since_when_and_what_was_in_flight(tmp_path: Path) -> None:
    """In `ls` and `show`, for people and programs; its status is still one of a run's."""
    path = tmp_path / "store.db"
    store = SqlStore(f"sqlite:///{path}")
    last = now() - HOUR
    run = started(store, ELSEWHERE, last - 1)
    call = {"call": "0.1", "name": "pay", "arguments": {"amount": 30}}
    store.append(run, 0, [event("tool.called", 1, last, **call)])
    store.close()
    since = datetime.fromtimestamp(last / 1e6, UTC)
    (row,) = json_of("ls", "--store", path)
    assert (row["status"], datetime.fromisoformat(row["silent_since"])) == ("running", since)
    shown = json_of("show", "run1", "--store", path)
    assert (shown["status"], datetime.fromisoformat(shown["silent_since"])) == ("running", since)
    assert [call["name"] for call in shown["in_flight"]] == ["pay"]
    said = f"silent since {since.astimezone():%Y-%m-%d %H:%M:%S}"
    assert said in output("ls", "--store", path)
    text = output("show", "run1", "--store", path).splitlines()
    assert text[0] == f"run1  clerk  {said}"
    assert "  in flight 0.1  tool pay, called in round 0" in text
