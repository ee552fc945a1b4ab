"""The SQL store keeps the contract on SQLite, and what only a file can break."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from agentreplay.recorder import sql_store
from agentreplay.recorder.errors import CorruptLog, StoreError, UnknownVersion
from agentreplay.recorder.events import new_event
from agentreplay.recorder.locate import open_store
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore, RunInfo
from store_contract import START, StoreContract, model_called, started, tool_called


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[EventStore]:
        store = SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
        yield store
        store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqlStore]:
    store = SqlStore(f"sqlite:///{path}")
    yield store
    store.close()


@pytest.fixture
def run(store: SqlStore) -> RunInfo:
    """A run with an event of each sort that is stored in its own way."""
    info = store.create_run("clerk")
    store.append(info, -1, [started({"a": 1})])
    messages = [{"role": "user", "content": "a question " * 40}, {"role": "user", "content": "short"}]
    store.append(info, 0, [model_called(1, messages), tool_called(2, document="x" * 100_000), tool_called(3, y=2)])
    return info


def test_events_are_visible_to_another_connection_at_once(store: SqlStore, path: Path, run: RunInfo) -> None:
    """An append has been committed when it returns."""
    with sqlite3.connect(path) as other:
        count = "SELECT count(*) FROM event WHERE kind != ''"
        assert other.execute(count).fetchone() == (4,)
        store.append(run, 3, [tool_called(4)])
        assert other.execute(count).fetchone() == (5,)


def test_a_store_opens_again_as_it_was(store: SqlStore, path: Path, run: RunInfo) -> None:
    """Closing and opening changes nothing; the redaction key is the same."""
    before = [event.model_dump() for event in store.events(run)]
    token = store.redactor.redact({"password": "opensesame"})
    store.close()
    again = SqlStore(f"sqlite:///{path}")
    assert [event.model_dump() for event in again.events("run1")] == before
    assert again.redactor.redact({"password": "opensesame"}) == token
    again.append("run1", 3, [tool_called(4)])
    assert again.verify() == []
    again.close()


def test_migrations_are_remembered_by_name(store: SqlStore, path: Path) -> None:
    """A store knows which migrations were applied to it, and a newer one's is refused."""
    with sqlite3.connect(path) as other:
        assert [name for (name,) in other.execute("SELECT name FROM migration")] == ["0001-events"]
        other.execute("INSERT INTO migration VALUES ('9999-from-the-future', 1)")
    with pytest.raises(UnknownVersion, match="9999-from-the-future"):
        SqlStore(f"sqlite:///{path}")


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    """A foreign file is named, and left as it is."""
    foreign = tmp_path / "notes.txt"
    foreign.write_text("these are my notes, not a database\n" * 100)
    before = foreign.read_bytes()
    with pytest.raises(StoreError, match=r"notes\.txt"):
        SqlStore(f"sqlite:///{foreign}")
    assert foreign.read_bytes() == before


@pytest.mark.parametrize(
    ("table", "column", "where", "seq"),
    [
        *((("event"), column, "key & 4294967295 = 1", 1) for column in ("round", "version", "time")),
        *((("event"), column, "key & 4294967295 = 2", 2) for column in ("kind", "task", "body", "hash")),
        ("event", "within", "key & 4294967295 = 3", 3),
        ("event", "conversations", "key & 4294967295 = 1", 1),
        ("message", "body", "id = 1", 1),
        ("message", "body", "id = 2", 1),
        ("blob", "body", "1", 2),
        ("event", "hash", "kind = ''", 3),
        ("event", "kind", "kind = ''", 4),
    ],
)
def test_a_changed_byte_is_named(
    store: SqlStore, path: Path, run: RunInfo, table: str, column: str, where: str, seq: int
) -> None:
    """Whatever is changed in what is stored, `verify` names the run and the event."""
    assert store.verify() == []
    with sqlite3.connect(path) as other:
        (value,) = other.execute(f"SELECT {column} FROM {table} WHERE {where}").fetchone()
        changed: object
        if isinstance(value, int):
            changed = value ^ 1
        elif isinstance(value, bytes):
            changed = value[:-2] + bytes([value[-2] ^ 1]) + value[-1:]
        elif value is None:
            changed = "1.1"
        else:
            changed = value.replace("1", "2", 1) if "1" in value else chr(ord((value or "a")[0]) ^ 1) + value[1:]
        assert changed != value
        other.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (changed,))
    problems = store.verify()
    assert [problem.run for problem in problems][:1] == ["run1"]
    assert problems[0].seq == seq


@pytest.mark.parametrize(
    ("column", "value"),
    [("agent", "other"), ("status", "completed"), ("steps", 99), ("started", 1), ("parent", "y")],
)
def test_a_changed_list_of_runs_is_named(store: SqlStore, path: Path, run: RunInfo, column: str, value: object) -> None:
    """What `ls` shows follows from the events, so it cannot be changed unseen."""
    with sqlite3.connect(path) as other:
        other.execute(f"UPDATE run SET {column} = ?", (value,))
    (problem,) = store.verify()
    assert column in problem.what


def test_a_run_taken_out_of_the_list_is_named(store: SqlStore, path: Path, run: RunInfo) -> None:
    """Events without their run are missed by nobody but `verify`."""
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM run")
    assert [problem.run for problem in store.verify()] == ["run1"]


@pytest.mark.parametrize("value", [1, "x", b"x", b""])
def test_a_hash_beside_a_body_is_named(store: SqlStore, path: Path, run: RunInfo, value: object) -> None:
    """A body that is there has no hash beside it."""
    with sqlite3.connect(path) as other:
        other.execute("UPDATE event SET body_hash = ? WHERE key & 4294967295 = 2", (value,))
    assert [problem.seq for problem in store.verify()][:1] == [2]


@pytest.mark.parametrize("body", [b"\xff\xfe", b"", b"null", b"[1]", None, 7, "text"])
def test_a_replaced_body_is_named(store: SqlStore, path: Path, run: RunInfo, body: object) -> None:
    """Also a body of another type, or none."""
    with sqlite3.connect(path) as other:
        other.execute("UPDATE event SET body = ? WHERE key & 4294967295 = 2", (body,))
    assert [problem.seq for problem in store.verify()][:1] == [2]


@pytest.mark.parametrize("cut", ["key & 4294967295 >= 2", "key & 4294967295 = 2 OR key & 4294967295 = 3"])
def test_a_cut_tail_is_named(store: SqlStore, path: Path, run: RunInfo, cut: str) -> None:
    """Events that are missing at the end are missed, though the rest is a sound chain."""
    with sqlite3.connect(path) as other:
        other.execute(f"DELETE FROM event WHERE {cut}")
    (problem,) = store.verify()
    assert problem.seq == 2
    assert "cut off" in problem.what


def test_a_log_without_its_end_is_not_written_to(store: SqlStore, path: Path, run: RunInfo) -> None:
    """What was cut off is not papered over by a new event."""
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM event WHERE key & 4294967295 >= 2")
    fresh = SqlStore(f"sqlite:///{path}")
    for last in (1, 3):
        with pytest.raises(StoreError):
            fresh.append("run1", last, [tool_called(last + 1)])
    assert [event.seq for event in fresh.events("run1")] == [0, 1]
    fresh.close()


def test_a_hole_is_named(store: SqlStore, path: Path, run: RunInfo) -> None:
    """So is one in the middle."""
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM event WHERE key & 4294967295 = 2")
    problems = store.verify()
    assert problems[0].seq == 2
    assert "missing" in problems[0].what


def test_a_lost_message_is_named_and_no_traceback(store: SqlStore, path: Path, run: RunInfo) -> None:
    """A message that is gone is named by verifying, and by reading."""
    with sqlite3.connect(path) as other:
        other.execute("DELETE FROM message WHERE id = 2")
    fresh = SqlStore(f"sqlite:///{path}")
    assert fresh.verify()[0].seq == 1
    with pytest.raises(CorruptLog):
        list(fresh.events("run1"))
    fresh.close()


def test_a_damaged_event_is_an_error_with_its_name(store: SqlStore, path: Path, run: RunInfo) -> None:
    """Reading an event that no longer makes sense says which one it is."""
    with sqlite3.connect(path) as other:
        other.execute("UPDATE event SET body = ? WHERE key & 4294967295 = 3", (b'{"name":1}',))
    with pytest.raises(CorruptLog) as caught:
        list(store.events(run))
    assert caught.value.seq == 3


def test_a_forked_child_connects_anew(store: SqlStore, run: RunInfo) -> None:
    """A process forked with an open store writes to it, and so does its parent after."""
    child = os.fork()
    if child == 0:
        try:
            store.append(run, 3, [tool_called(4)])
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    store.append(run, 4, [tool_called(5)])
    assert [event.seq for event in store.events(run)] == [0, 1, 2, 3, 4, 5]
    assert store.verify() == []


def test_a_number_too_large_is_refused(store: SqlStore, run: RunInfo) -> None:
    """A number that no column holds is an error of ours; nothing is written."""
    far = new_event("tool.called", seq=4, round=2**70, time=START, data={"call": "c", "name": "t"})
    for events in ([far], [far, tool_called(5)]):
        with pytest.raises(StoreError, match="too large"):
            store.append(run, 3, events)
    assert store.run(run.uid).head_seq == 3
    store.append(run, 3, [tool_called(4)])


def test_tables_of_somebody_else_are_left_alone(path: Path) -> None:
    """A database that has a table of the name of one of ours is no place for a store."""
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE event (what TEXT)")
    with pytest.raises(StoreError, match="already exists"):
        SqlStore(f"sqlite:///{path}")
    assert [name for (name,) in other.execute("SELECT name FROM sqlite_master")] == ["event"]


def test_reader_makes_no_store(path: Path) -> None:
    """Who only reads a database that holds no store leaves it as it is."""
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (what TEXT)")
    with pytest.raises(StoreError, match="there is no store"):
        open_store(path, create=False)
    assert [name for (name,) in other.execute("SELECT name FROM sqlite_master")] == ["mine"]


def test_a_closed_store_says_so(store: SqlStore, run: RunInfo) -> None:
    """Writing to a closed store is an error of ours."""
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.append(run, 3, [tool_called(4)])


def test_a_store_is_closed_once_nobody_reads(tmp_path: Path) -> None:
    """A connection that is closed while another thread reads through it takes the process down."""
    store = SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
    run = store.create_run("agent")
    reading, going_on = threading.Event(), threading.Event()
    reader = store._reader
    assert reader is not None

    class Slow:
        """The connection, in the middle of a statement until it may go on."""

        def execute(self, *statement: object) -> sqlite3.Cursor:
            reading.set()
            assert going_on.wait(10)
            return driver.execute(*statement)

    driver, reader.connection = reader.connection, Slow()
    found: list[RunInfo] = []
    threads = [threading.Thread(target=lambda: found.append(store.run(run.id))), threading.Thread(target=store.close)]
    threads[0].start()
    assert reading.wait(10)
    threads[1].start()
    threads[1].join(0.2)
    closed_early = not threads[1].is_alive()
    going_on.set()
    for thread in threads:
        thread.join(10)
    assert (closed_early, [info.uid for info in found]) == (False, [run.uid])
    assert store.closed


def test_of_a_long_conversation_only_what_is_new_is_looked_up(
    store: SqlStore, run: RunInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of one with more messages than are kept in mind; and those of other conversations are forgotten."""
    monkeypatch.setattr(sql_store, "REMEMBERED", 10)
    written: list[str] = []
    keep = store._keep
    monkeypatch.setattr(store, "_keep", lambda *args: written.append(args[2]) or keep(*args))
    long = [{"role": "user", "content": f"question {n}"} for n in range(40)]
    for seq, count in ((4, 39), (5, 40)):
        store.append(run, seq - 1, [model_called(seq, long[:count])])
    assert len(written) == 40
    for seq in range(6, 30):
        store.append(run, seq - 1, [model_called(seq, [{"role": "user", "content": f"another {seq}"}])])
    assert len(written) == 64
    assert len(store._message_ids) < 20
    assert [event.data.request["messages"] for event in store.events(run, 4, 5)] == [long]
