"""The SQL store keeps the contract on PostgreSQL, and what only a server and many writers can break.

Where there is no server and none can be started, these tests are not collected, except in continuous integration; see
`conftest`.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial

import psycopg
import pytest
import sqlalchemy as sa
from agentreplay.recorder.errors import CorruptLog, StoreError, UnknownVersion, VersionConflict
from agentreplay.recorder.events import new_event
from agentreplay.recorder.hashes import content_address
from agentreplay.recorder.locate import open_store
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore, RunInfo
from agentreplay.recorder.values import dumps
from postgres_server import running, schema_on
from sqlalchemy.engine import make_url
from store_contract import StoreContract, model_called, started, tool_called


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a database of a server on which databases may be made."""
    with running() as url:
        yield url


@pytest.fixture
def url(server: str) -> Iterator[str]:
    with schema_on(server) as url:
        yield url


@pytest.fixture
def connection(url: str) -> Iterator[psycopg.Connection]:
    """A connection of somebody else's to the same schema."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    store = SqlStore(url)
    yield store
    store.close()


@pytest.fixture
def other(url: str, store: SqlStore) -> Iterator[SqlStore]:
    """The same store as another process has it open."""
    other = SqlStore(url)
    yield other
    other.close()


@pytest.fixture
def run(store: SqlStore) -> RunInfo:
    info = store.create_run("clerk")
    store.append(info, -1, [started({"a": 1})])
    return info


def rows_in(connection: psycopg.Connection, table: str) -> int:
    """How many rows a table has, or those of it that fit a condition."""
    found = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
    assert found is not None
    return int(found[0])


def run_all(calls: Sequence[Callable[[], object]]) -> None:
    """Call functions at the same time, each in a thread; raise what one of them raised."""
    with ThreadPoolExecutor(len(calls)) as pool:
        for future in [pool.submit(call) for call in calls]:
            future.result()


def run_processes(calls: Sequence[Callable[[], object]]) -> None:
    """Call functions at the same time, each in a process of its own."""
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=call) for call in calls]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * len(children)


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store(self, url: str) -> Iterator[EventStore]:
        store = SqlStore(url)
        yield store
        store.close()


def test_url_is_opened_like_any_other(url: str) -> None:
    """`open_store` takes a server's URL, by either of its names, and gives the same store each time."""
    store = open_store(url)
    assert open_store(url) is store
    assert store.create_run("clerk").id == "run1"
    other = open_store(url.replace("postgresql://", "postgres://"))
    assert [run.agent for run in other.runs()] == ["clerk"]
    for opened in (store, other):
        opened.close()


def test_events_are_visible_to_another_connection_at_once(
    store: SqlStore, run: RunInfo, connection: psycopg.Connection
) -> None:
    """An append has been committed when it returns, whether it is one statement or a transaction."""
    store.append(run, 0, [tool_called(1)])
    assert rows_in(connection, "event WHERE kind != ''") == 2
    store.append(run, 1, [model_called(2, [{"role": "user", "content": "hello"}])])
    assert rows_in(connection, "event WHERE kind != ''") == 3


# -- many writers ----------------------------------------------------------------------------------------


@contextmanager
def held_back(connection: psycopg.Connection, statement: str, writers: Sequence[Callable[[], None]]) -> Iterator[None]:
    """Start writers that have to wait for a statement's transaction, which the caller ends."""
    with ThreadPoolExecutor(len(writers)) as pool:
        connection.execute("BEGIN")
        connection.execute(statement.encode())
        futures = [pool.submit(writer) for writer in writers]
        waiting = (
            "pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = current_setting('application_name')"
        )
        while rows_in(connection, waiting) < len(writers):
            assert not any(future.done() for future in futures)
            time.sleep(0.005)
        yield
        for future in futures:
            future.result()


def mark_of(run: RunInfo, seq: int) -> str:
    """The condition that finds the end mark of a run, or the event that took its place, at `seq`."""
    return f"key = {(run.number << 32) + seq}"


def move_mark(run: RunInfo, seq: int) -> bytes:
    """The statement that puts an end mark behind the one at `seq`, which has become an event."""
    statement = (
        "INSERT INTO event (key, round, kind, version, time, task, hash) "
        f"SELECT key + 1, 0, '', 0, 0, '', hash FROM event WHERE {mark_of(run, seq)}"
    )
    return statement.encode()


@pytest.mark.parametrize("several", [False, True], ids=["statement", "transaction"])
def test_of_writers_that_expect_the_same_end_one_succeeds(
    store: SqlStore, other: SqlStore, run: RunInfo, connection: psycopg.Connection, several: bool
) -> None:
    """Two that reached the end mark at the same time: one event each way, and one mark."""
    outcomes: list[object] = []

    def writer(store: SqlStore, name: str) -> Callable[[], None]:
        events = [tool_called(1, by=name), tool_called(2, by=name)] if several else [tool_called(1, by=name)]

        def write() -> None:
            try:
                store.append(run, 0, events)
                outcomes.append(name)
            except VersionConflict as conflict:
                outcomes.append((conflict.expected, conflict.found))

        return write

    lock = f"SELECT 1 FROM event WHERE {mark_of(run, 1)} FOR UPDATE"
    with held_back(connection, lock, [writer(store, "one"), writer(other, "two")]):
        connection.execute("COMMIT")
    last = 2 if several else 1
    (winner,) = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert [outcome for outcome in outcomes if outcome != winner] == [(0, last)]
    assert [event.data.arguments["by"] for event in store.events(run, after=0)] == [winner] * last
    assert rows_in(connection, "event WHERE kind = ''") == 1
    assert store.verify() == []


def test_writer_that_waited_for_another_is_refused(
    store: SqlStore, run: RunInfo, connection: psycopg.Connection
) -> None:
    """The end mark became another writer's event while this one waited for it: the event stays as it is."""
    refused: list[int] = []

    def write() -> None:
        with pytest.raises(VersionConflict) as caught:
            store.append(run, 0, [tool_called(1)])
        refused.append(caught.value.found)

    with held_back(connection, f"UPDATE event SET kind = 'x.other' WHERE {mark_of(run, 1)}", [write]):
        connection.execute(move_mark(run, 1))
        connection.execute("COMMIT")
    assert refused == [1]
    assert [row.kind for row in store.rows(run)] == ["run.started", "x.other"]


def test_server_that_isolates_more_by_default_changes_nothing(
    url: str, store: SqlStore, run: RunInfo, connection: psycopg.Connection
) -> None:
    """Where transactions are serializable unless they say otherwise, a writer that waited is refused all the same."""
    strict = SqlStore(f"{url}%20-cdefault_transaction_isolation%3Dserializable")

    def write() -> None:
        with pytest.raises(VersionConflict):
            strict.append(run, 0, [tool_called(1)])

    with held_back(connection, f"UPDATE event SET kind = 'x.other' WHERE {mark_of(run, 1)}", [write]):
        connection.execute(move_mark(run, 1))
        connection.execute("COMMIT")
    strict.close()


def test_writer_that_waited_for_one_who_gave_up_succeeds(
    store: SqlStore, run: RunInfo, connection: psycopg.Connection
) -> None:
    """The other transaction was rolled back, so the end is where this writer expected it."""

    def write() -> None:
        store.append(run, 0, [tool_called(1)])

    with held_back(connection, f"UPDATE event SET kind = 'x.other' WHERE {mark_of(run, 1)}", [write]):
        connection.execute("ROLLBACK")
    assert [event.kind for event in store.events(run)] == ["run.started", "tool.called"]
    assert store.verify() == []


def test_racing_writers_append_every_event_once(store: SqlStore, other: SqlStore, run: RunInfo) -> None:
    """A hundred races, of single events and of batches: each is won once, and what was won is what is read."""
    won: dict[int, int] = {}
    end = threading.Barrier(4)

    def race(store: SqlStore, me: int) -> None:
        chance = random.Random(me)
        for _ in range(100):
            last = store.run(run.uid).head_seq
            end.wait()
            count = chance.choice((1, 1, 2))
            messages = [{"role": "user", "content": f"{me}"}]
            events = [tool_called(last + n, by=me) for n in range(1, count + 1)]
            if chance.random() < 0.3:
                events[0] = model_called(last + 1, messages, by=me)
            with suppress(VersionConflict):
                store.append(run, last, events)
                won.update((event.seq, me) for event in events)
            end.wait()

    run_all([partial(race, (store, other)[me % 2], me) for me in range(4)])
    read = {
        event.seq: (getattr(event.data, "arguments", None) or event.data.request)["by"]
        for event in store.events(run, after=0)
    }
    assert read == won
    assert len(won) >= 100
    assert store.verify() == []


def test_transactions_in_a_circle_are_carried_out_anew(
    store: SqlStore, run: RunInfo, connection: psycopg.Connection
) -> None:
    """A writer that the server ends, because it and another wait for each other, succeeds all the same."""
    first, second = ({"role": "user", "content": content} for content in ("first", "second"))

    def insert(message: dict[str, str]) -> str:
        digest = content_address(dumps(message)).removeprefix("sha256:")
        return f"INSERT INTO message (hash, body) VALUES ('\\x{digest}', '')"

    def write() -> None:
        store.append(run, 0, [model_called(1, [first, second])])

    connection.execute("SET deadlock_timeout = '10min'")  # the server ends who notices first, and shall not end us
    with held_back(connection, insert(second), [write]):
        connection.execute(insert(first).encode())  # waits for the writer, which waits for us
        connection.execute("ROLLBACK")
    (event,) = store.events(run, after=0)
    assert event.data.request["messages"] == [first, second]
    assert store.verify() == []


def test_new_messages_may_come_in_any_order(store: SqlStore, other: SqlStore) -> None:
    """Writers that store the same new messages in different orders all succeed."""

    def write(store: SqlStore, me: int) -> None:
        chance = random.Random(me)
        run = store.create_run("clerk")
        for seq in range(15):
            messages = [{"role": "user", "content": f"{seq}.{n}"} for n in range(12)]
            chance.shuffle(messages)
            store.append(run, seq - 1, [model_called(seq, messages)])

    run_all([partial(write, (store, other)[me % 2], me) for me in range(4)])
    assert [info.head_seq for info in store.runs()] == [14] * 4
    assert store.verify() == []


def _write_into_a_run(url: str, uid: str, name: str, count: int) -> None:
    store = SqlStore(url)

    def write(thread: int) -> None:
        for n in range(count):
            while True:
                last = store.run(uid).head_seq
                with suppress(VersionConflict):
                    store.append(uid, last, [tool_called(last + 1, by=[name, thread, n])])
                    break

    run_all([partial(write, thread) for thread in range(3)])
    store.close()


def test_processes_and_threads_write_one_run(url: str, store: SqlStore, run: RunInfo) -> None:
    """Four processes of three threads each, who try again when another was first: every event is there, once."""
    run_processes([partial(_write_into_a_run, url, run.uid, name, 10) for name in "abcd"])
    events = list(store.events(run))
    assert [event.seq for event in events] == list(range(121))
    wrote = sorted(event.data.arguments["by"] for event in events[1:])
    assert wrote == [[name, thread, n] for name in "abcd" for thread in range(3) for n in range(10)]
    assert store.verify() == []


def test_a_forked_child_connects_anew(store: SqlStore, run: RunInfo) -> None:
    """A process forked with an open store writes to it, and so does its parent, at the same time and after."""
    child = os.fork()
    if child == 0:
        try:
            own = store.create_run("child")
            for seq in range(50):
                store.append(own, seq - 1, [tool_called(seq)])
            os._exit(0)
        except BaseException:
            os._exit(1)
    for seq in range(1, 51):
        store.append(run, seq - 1, [tool_called(seq)])
    assert os.waitpid(child, 0)[1] == 0
    store.append(run, 50, [tool_called(51)])
    assert [(info.agent, info.head_seq) for info in store.runs()] == [("clerk", 51), ("child", 49)]
    assert store.verify() == []


def test_openers_that_race_make_one_store(url: str, connection: psycopg.Connection) -> None:
    """Many who find no store at the same time make its tables and its redaction key once."""
    stores: list[SqlStore] = []
    run_all([lambda: stores.append(SqlStore(url))] * 8)
    tokens = {store.redactor.redact_text("password=opensesame1") for store in stores}
    assert (len(stores), len(tokens)) == (8, 1)
    assert rows_in(connection, "migration") == rows_in(connection, "meta") == 1
    for store in stores:
        store.close()


# -- what a database takes -------------------------------------------------------------------------------


def test_large_and_small_values_fit(store: SqlStore, run: RunInfo) -> None:
    """A body of 20 MB that nothing compresses, a round beyond 31 bits, a time of long ago."""
    document = random.Random(1).randbytes(10_000_000).hex()
    far = new_event(
        "tool.called", seq=2, round=2**40, time=datetime(1, 1, 1, tzinfo=UTC), data={"call": "c", "name": "t"}
    )
    store.append(run, 0, [tool_called(1, document=document), far])
    first, second = store.events(run, after=0)
    assert first.data.arguments == {"document": document}
    assert (second.round, second.time.year) == (2**40, 1)
    assert store.verify() == []


def test_a_number_too_large_is_refused(store: SqlStore, run: RunInfo) -> None:
    """A number that no column holds is an error of ours; nothing is written."""
    far = new_event("tool.called", seq=1, round=2**70, time=datetime.now(UTC), data={"call": "c", "name": "t"})
    for events in ([far], [far, tool_called(2)]):
        with pytest.raises(StoreError, match="out of range"):
            store.append(run, 0, events)
    assert store.run(run.uid).head_seq == 0
    store.append(run, 0, [tool_called(1)])


def test_full_durability_waits_for_the_disk(url: str) -> None:
    """Where the server does not wait by default, "full" has it wait, and "commit" leaves it as it is."""
    relaxed = f"{url}%20-csynchronous_commit%3Doff"
    for durability, expected in (("commit", "off"), ("full", "on")):
        store = SqlStore(relaxed, durability=durability)
        (setting,) = store._driver.execute("SHOW synchronous_commit").fetchone()
        assert setting == expected
        store.close()


def test_database_of_another_encoding_is_refused(server: str) -> None:
    """A database that cannot hold every text says so before anything is written to it."""
    name = f"test_{secrets.token_hex(8)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING LATIN1 LOCALE 'C'".encode())
        try:
            with pytest.raises(StoreError, match=r"LATIN1.*createdb"):
                SqlStore(f"{server.rpartition('/')[0]}/{name}")
        finally:
            connection.execute(f"DROP DATABASE {name}".encode())


def test_tables_of_somebody_else_are_left_alone(url: str, connection: psycopg.Connection) -> None:
    """A schema that has a table of the name of one of ours is no place for a store."""
    connection.execute("CREATE TABLE event (what text)")
    with pytest.raises(StoreError, match="already exists"):
        SqlStore(url)
    assert rows_in(connection, "pg_tables WHERE schemaname = current_schema()") == 1


def test_reader_makes_no_store(url: str, connection: psycopg.Connection) -> None:
    """Who only reads finds that there is no store, and leaves the database as it is."""
    with pytest.raises(StoreError, match="there is no store"):
        open_store(url, create=False)
    assert rows_in(connection, "pg_tables WHERE schemaname = current_schema()") == 0


def test_a_newer_store_is_refused(url: str, store: SqlStore, connection: psycopg.Connection) -> None:
    """A migration that this version does not know is named."""
    connection.execute("INSERT INTO migration VALUES ('9999-from-the-future', 1)")
    with pytest.raises(UnknownVersion, match="9999-from-the-future"):
        SqlStore(url)


# -- a server is far away --------------------------------------------------------------------------------


def cut_off(connection: psycopg.Connection) -> None:
    """End all connections to the schema under test but this one."""
    connection.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE application_name = current_setting('application_name') AND pid != pg_backend_pid()"
    )


def test_lost_connection_is_one_error(store: SqlStore, run: RunInfo, connection: psycopg.Connection) -> None:
    """Whatever is called first says that the connection was lost; what is called next connects anew."""
    question = [{"role": "user", "content": "hello"}]
    writers: list[Callable[[int], object]] = [
        lambda seq: store.append(run, seq - 1, [tool_called(seq)]),
        lambda seq: store.append(run, seq - 1, [model_called(seq, question), tool_called(seq + 1)]),
    ]
    seq = 1
    for write in writers:
        write(seq)
        seq = store.run(run.uid).head_seq + 1
        cut_off(connection)
        with pytest.raises(StoreError, match=r"was lost.*connects anew") as caught:
            write(seq)
        assert not isinstance(caught.value, CorruptLog | VersionConflict)
        write(seq)
        seq = store.run(run.uid).head_seq + 1
    cut_off(connection)
    with pytest.raises(StoreError, match=r"cannot reach.*connects anew") as caught:
        store.runs()
    assert not isinstance(caught.value, CorruptLog)
    writers[0](seq)
    assert [event.seq for event in store.events(run)] == list(range(seq + 1))
    assert store.verify() == []


def test_server_that_is_gone_is_one_error_each_time(
    store: SqlStore, run: RunInfo, connection: psycopg.Connection
) -> None:
    """As long as nobody answers each call says so; the first one after that works."""

    def refuse(*_: object) -> None:
        raise psycopg.OperationalError("nobody answers")

    sa.event.listen(store._engine, "do_connect", refuse)
    cut_off(connection)
    for _ in range(2):
        with pytest.raises(StoreError):
            store.append(run, 0, [tool_called(1)])
    with pytest.raises(StoreError, match="nobody answers"):
        store.runs()
    sa.event.remove(store._engine, "do_connect", refuse)
    store.append(run, 0, [tool_called(1)])
    assert store.verify() == []


def test_no_message_of_an_open_store_shows_its_password(
    url: str, store: SqlStore, run: RunInfo, connection: psycopg.Connection
) -> None:
    """Nor does one about what is missing, lost, newer, damaged or closed."""
    password = make_url(url).password
    assert password
    messages = []

    def note(call: Callable[[], object]) -> None:
        with pytest.raises(StoreError) as caught:
            call()
        messages.append(str(caught.value))

    note(lambda: store.run("run99"))
    note(lambda: store.create_run("again", uid=run.uid))
    cut_off(connection)
    note(store.runs)
    connection.execute("DELETE FROM meta")
    with closing(SqlStore(url)) as keyless:
        note(lambda: keyless.redactor)
    connection.execute("INSERT INTO migration VALUES ('9999-from-the-future', 1)")
    note(lambda: SqlStore(url))
    store.close()
    note(store.runs)
    assert len(messages) == 6
    assert all("postgresql://tester:***@" in message and password not in message for message in messages)


def test_command_line_shows_no_password(url: str) -> None:
    """What the commands print about a store on a server, hints of what to type next included, has no password."""
    password = make_url(url).password
    assert password
    printed = ""
    for verb, expected in (("ls", 3), ("demo", 0), ("ls", 0), ("show run9", 3), ("verify", 0)):
        command = [sys.executable, "-m", "agentreplay", *verb.split(), "--store", url]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == expected, done.stderr
        printed += done.stdout + done.stderr
    assert "***" in printed
    assert password not in printed
