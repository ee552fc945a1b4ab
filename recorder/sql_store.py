"""A store in a SQL database, through SQLAlchemy Core; SQLite unless told otherwise, or PostgreSQL (see `databases`).

Appending is the hot path. The statements are compiled once by SQLAlchemy and run on one driver connection that the
store holds and guards with a lock; reading goes through the engine's pool beside it. An append is one transaction:
messages, blobs, and the rows, each of which takes the place of the run's end mark, if the mark stands where the writer
expects it. That is the version check.

Nothing is carried across `fork`: a child process connects anew, as does one whose connection was lost.
"""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sqlalchemy as sa

from .column_text import from_column, to_column
from .databases import Database, Execute, database_at, without_password
from .errors import CorruptLog, StoreError, VersionConflict
from .event_codec import StoredEvent
from .migrations import KEY_BYTES, blob, event, heartbeats, message, meta, migrate, run, snapshot, with_check
from .packing import pack, pack_small, unpack
from .sql_reading import RUN_COLUMNS, HeldReader, Row
from .sql_statements import (
    KEPT_ONCE,
    MARK,
    SEQ_BITS,
    SEQ_MASK,
    Statement,
    append_statement,
    ignoring,
    replacing,
    runs_with_heads,
)
from .store import FIRST, Addition, EventStore, Head, RunInfo, Snapshot, Summary
from .verifying import LOST

if TYPE_CHECKING:
    from .redaction import RedactionRules

Value = TypeVar("Value")

ATTEMPTS: Final = 20
"""How often a transaction is carried out that has to give way to others."""

OUT_OF_REACH: Final = (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError)
"""What reading raises where a server is out of reach."""

PREFIX: Final = "sha256:"
PREFIX_LENGTH: Final = len(PREFIX)
MISSING: Final = "a message"
"""Stands for the content address of a message that the store has lost."""

REMEMBERED: Final = 20_000
"""How many messages' ids are kept in memory, to save looking them up."""

NOTE: Final = "run:"
"""Begins the name, in the table `meta`, of what a store knows of a run beside its events."""

ALTERED: Final = "no hash"
"""Stands for a hash that is of no kind that a hash can be."""

FIRST_PAGE: Final = 20
PAGE: Final = 2_000
"""Rows read at a time, few at first: a reader holds no cursor while its caller works, and may need no more."""

_open_stores: weakref.WeakSet[SqlStore] = weakref.WeakSet()


def _reconnect_children() -> None:
    for store in list(_open_stores):
        store._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reconnect_children)


class _GaveWay(Exception):
    """A transaction was ended by the server in favour of another; carried out anew it succeeds."""


class _Transaction:
    """One transaction on a store's held connection: all or nothing, and errors in our own words."""

    __slots__ = ("_store",)

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def __enter__(self) -> Execute:
        store = self._store
        store._lock.acquire()
        try:
            execute: Execute = store._connected().execute
            execute(store._database.begin, ())
        except BaseException as error:
            store._lock.release()
            store._explain(error)
            raise
        return execute

    def __exit__(self, _cls: Any, error: BaseException | None, _traceback: Any) -> None:
        store = self._store
        try:
            if error is None:
                try:
                    store._driver.execute("COMMIT", ())
                    return
                except BaseException as failure:
                    error = failure
            store._message_ids.clear()  # some may be ids that this transaction gave
            with suppress(store._driver_error):  # a lost connection has ended the transaction already
                store._driver.execute("ROLLBACK", ())
            if store._database.gave_way(error):
                raise _GaveWay from error
            store._explain(error)
            raise error
        finally:
            store._lock.release()


class SqlStore(EventStore):
    """Keeps runs in the database at `url`, making its tables on first use.

    Args:
        url: "sqlite:////home/me/store.db" or "postgresql://me:password@host/database", as SQLAlchemy reads them.
        rules: what to redact; see `EventStore`.
        durability: "commit" (default: committed before the call returns, survives a killed process) or "full" (also
            a power loss).
        create: make the store's tables if there are none.

    Raises:
        StoreError: the database cannot be opened, or is no store.
    """

    def __init__(
        self, url: str, rules: RedactionRules | None = None, durability: str = "commit", *, create: bool = True
    ) -> None:
        super().__init__(rules)
        if durability not in ("commit", "full"):
            raise StoreError(f'durability is "commit" or "full", not "{durability}"')
        self.url = url
        self._durability = durability
        self._create = create
        self._lock = threading.RLock()
        self._stale = self._replaced = False
        self.closed = False
        self._printable: set[tuple[str, str | None, str]] = set()
        self._fairy: Any = None
        self._reader: HeldReader | None = None
        self._inherited: list[Any] = []
        self._choose(*database_at(url))
        self._open()
        _open_stores.add(self)

    @property
    def name(self) -> str:
        return without_password(self.url)

    # -- connecting ---------------------------------------------------------------------------------

    def _choose(self, database: Database, driver_url: str) -> None:
        """Prepare to open what is in a database, by that URL."""
        try:
            engine = sa.create_engine(driver_url, **database.options)
        except ImportError as error:
            raise StoreError(
                f"cannot open the store {self.name}: {_reason(error)}. The extra `postgres` brings the driver: "
                "`pip install 'agentreplay-debugger[postgres]'`."
            ) from error
        except (sa.exc.ArgumentError, ValueError) as error:
            raise StoreError(f"{self.name} is no URL of a store: {_reason(error)}") from error
        sa.event.listen(engine, "connect", self._set_up)
        self._database, self._engine = database, engine

    def _open(self) -> None:
        """Connect: at first, again in a forked child, when the connection was lost, and when it no longer serves."""
        self._disconnect()
        if self._database.is_outdated():
            self._choose(*database_at(self.url))
        try:
            try:
                self._connect()
            except sa.exc.OperationalError as error:
                if (other := self._database.for_reading(error)) is None:
                    raise
                self._disconnect()
                self._choose(*other)
                self._connect()
        except BaseException as error:
            self._disconnect()
            if isinstance(error, (sa.exc.SQLAlchemyError, UnicodeError, TypeError)):  # the latter two: a damaged file
                raise StoreError(
                    f"cannot open the store {self.name}: {_reason(error)}. {self._database.hint}"
                ) from error
            raise
        self._stale = False
        self._heads.clear()
        dialect = self._engine.dialect
        self._append = append_statement(dialect)
        self._keep_statements = {
            table.name: Statement(ignoring(dialect, table, names[0]), dialect, names) for table, names in KEPT_ONCE
        }
        by_hash = sa.select(message.c.id).where(message.c.hash == sa.bindparam("h"))
        self._message_id = Statement(by_hash, dialect, ("h",))
        self._message_ids: dict[str, int] = {}
        self._message_addresses: dict[int, str] = {}
        self._summaries: dict[tuple[str, ...], Statement] = {}
        self._heartbeat = Statement(replacing(dialect, heartbeats, "run", "time"), dialect, ["run", "time"])
        self._driver_error: type[Exception] = dialect.loaded_dbapi.Error

    def _connect(self) -> None:
        self._migrate()
        self._driver = self._hold()
        self._cursor = self._driver.cursor()
        self._reader = HeldReader(self._engine)
        self._database.opened()

    def _set_up(self, connection: Any, _record: Any) -> None:
        try:
            self._database.set_up(connection, self._durability)
        except BaseException:
            connection.close()
            raise

    def _migrate(self) -> None:
        with self._engine.connect() as connection:
            connection.exec_driver_sql(self._database.begin)
            self._database.exclude_openers(connection.exec_driver_sql)
            migrate(connection, self.name, create=self._create)
            connection.commit()

    def _disconnect(self) -> None:
        """Close what is open, and never mind what is closed already."""
        with suppress(Exception):
            if self._fairy is not None:
                self._fairy.close()
        if self._reader is not None:
            self._reader.close()
        self._fairy = self._reader = None
        self._engine.dispose()

    def _hold(self) -> Any:
        """One driver connection for writing, kept out of the pool."""
        fairy = self._engine.raw_connection()
        fairy.detach()
        self._fairy = fairy
        return fairy.dbapi_connection

    def _connected(self) -> Any:
        if self._stale or self.closed or self._database.is_outdated():
            with self._lock:
                if self.closed:
                    raise StoreError(f"the store {self.name} was closed")
                self._look_after_file()
                if self._replaced:
                    raise StoreError(
                        f"the store {self.name} was deleted, moved or replaced while it was open: what was written to "
                        "it since is lost. Put it back, or open anew what is there now."
                    )
                if self._stale or self._database.is_outdated():
                    self._open()
        return self._driver

    def _look_after_file(self) -> None:
        """Have the next call fail if nobody will find what it would write."""
        if self._database.was_replaced():
            self._replaced = self._stale = True

    def _after_fork(self) -> None:
        """In a forked child: let go of the parent's connections without closing them, which would end its work."""
        self._lock = threading.RLock()
        self._inherited.extend((self._cursor, self._driver, self._fairy, self._reader, self._engine.pool))
        self._fairy = self._reader = None
        self._engine.dispose(close=False)
        self._stale = True

    def close(self) -> None:
        with self._lock:
            if not self.closed:
                self.closed = True
                self._disconnect()

    # -- writing ------------------------------------------------------------------------------------

    def _redaction_key(self) -> bytes:
        found = self._read(sa.select(meta.c.value).where(meta.c.name == "redaction_key"))
        stored = found[0].value if found else None
        if type(stored) is not bytes or stored != with_check(key := stored[:KEY_BYTES]):
            raise CorruptLog(
                f"the store {self.name} has lost its redaction key, or it was changed: secrets would get other tokens "
                "than in the runs that are there. Record into another store."
            )
        return key

    def _insert_run(self, info: RunInfo, note: Mapping[str, Any] | None = None) -> int:
        return self._add([Addition(info, (), note=note)])[0]

    def _add(self, additions: Sequence[Addition]) -> list[int]:
        def add(execute: Execute) -> list[int]:
            ids: dict[str, int] = {}
            return [self._add_one(execute, addition, ids) for addition in additions]

        return self._in_transaction(add)

    def _add_one(self, execute: Execute, addition: Addition, ids: dict[str, int]) -> int:
        info, dialect = addition.info, self._engine.dialect
        names = tuple(column.name for column in run.columns if column.name != "number")
        values = tuple(to_column(getattr(info, name)) for name in names)
        number, after = info.number, addition.after
        if number:
            end = Statement(sa.select(event.c.kind).where(event.c.key == sa.bindparam("k")), dialect, ("k",))
            if execute(end.sql, end.bind((number << SEQ_BITS | after + 1,))).fetchone() != (MARK["kind"],):
                raise VersionConflict(info.uid, after, self._read_head(number).seq)
            statement = self._summary_statement(names)
            execute(statement.sql, statement.bind((*values, number)))
        else:
            statement = Statement(sa.insert(run).returning(run.c.number), dialect, names)
            number = int(execute(statement.sql, statement.bind(values)).fetchone()[0])
            after = info.fork_seq if info.fork_seq is not None else FIRST
            ending = {"key": number << SEQ_BITS | after + 1, "hash": _digest(info.head_hash)}  # for a run without rows
            mark = Statement(sa.insert(event), dialect, list(MARK))
            execute(mark.sql, mark.bind(tuple((MARK | ending).values())))
        self._write_rows(execute, number, after, addition.rows, ids)
        if (note := addition.written_note) is not None:
            statement = Statement(replacing(dialect, meta, "name", "value"), dialect, ["name", "value"])
            execute(statement.sql, statement.bind((to_column(NOTE + info.uid), note)))
        return number

    def _in_transaction(self, work: Callable[[Execute], Value]) -> Value:
        """Do something all or not at all; anew if the transaction had to give way to another one."""
        for _ in range(ATTEMPTS):
            try:
                with _Transaction(self) as execute:
                    return work(execute)
            except _GaveWay:
                continue
        raise StoreError(f"cannot write to the store {self.name}: other writers were given way {ATTEMPTS} times")

    def _explain(self, error: BaseException) -> None:
        """Raise a driver's error as one of ours; return for any other."""
        if isinstance(error, OverflowError):
            raise StoreError(f"cannot write to the store {self.name}: a number is too large for it") from error
        if isinstance(error, self._driver_error):
            if self._database.is_lost(self._driver):
                self._stale = True
                raise StoreError(
                    f"the connection to the store {self.name} was lost: {_reason(error)}. What was being written is "
                    "there whole or not at all; the next call connects anew."
                ) from error
            what_to_do = ""
            if self._database.is_protected(error):
                what_to_do = (
                    ". The file or its folder is write-protected, so it can only be read here; "
                    "record into another store, which --store or AGENTREPLAY_STORE names."
                )
            raise StoreError(f"cannot write to the store {self.name}: {_reason(error)}{what_to_do}") from error

    def _write(self, number: int, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> None:
        row = rows[0]
        if len(rows) == 1 and not (summary.fields or row.conversations or row.blobs):
            with self._lock:  # one statement is a transaction of its own
                if self._stale or self.closed:
                    self._connected()
                try:
                    self._cursor.execute(self._append.sql, self._append_values(number, row, None))
                except (self._driver_error, OverflowError) as error:
                    self._explain(error)
                if self._cursor.rowcount != 2:
                    raise VersionConflict(f"number {number}", expected_seq, self._read_head(number).seq)
            return

        if summary.fields:
            self._look_after_file()  # as often as a round ends

        def write(execute: Execute) -> None:
            self._write_rows(execute, number, expected_seq, rows)
            if summary.fields:
                statement = self._summary_statement(tuple(summary.fields))
                values = (to_column(value) for value in summary.fields.values())
                execute(statement.sql, statement.bind((*values, number)))

        self._in_transaction(write)

    def _summary_statement(self, names: tuple[str, ...]) -> Statement:
        statement = self._summaries.get(names)
        if statement is None:
            clause = sa.update(run).where(run.c.number == sa.bindparam("n"))
            values: dict[str, Any] = {name: sa.bindparam(f"v_{name}") for name in names}
            statement = Statement(clause.values(values), self._engine.dialect, (*(f"v_{name}" for name in names), "n"))
            self._summaries[names] = statement
        return statement

    def _write_rows(
        self,
        execute: Execute,
        number: int,
        expected_seq: int,
        rows: Iterable[StoredEvent],
        ids: dict[str, int] | None = None,
    ) -> None:
        for row in rows:
            conversations = self._keep_contents(execute, row, ids) if row.conversations or row.blobs else None
            if execute(self._append.sql, self._append_values(number, row, conversations)).rowcount != 2:
                raise VersionConflict(f"number {number}", expected_seq, self._read_head(number).seq)
            if row.body is None:
                clause = sa.update(event).where(event.c.key == sa.bindparam("k")).values(body_hash=sa.bindparam("h"))
                pruned = Statement(clause, self._engine.dialect, ("h", "k"))
                execute(pruned.sql, pruned.bind((_digest(row.body_hash), number << SEQ_BITS | row.seq)))

    def _append_values(self, number: int, row: StoredEvent, conversations: str | None) -> Any:
        key, digest = number << SEQ_BITS | row.seq, bytes.fromhex(row.hash[PREFIX_LENGTH:])
        kind, within, task = texts = row.kind, row.within, row.task
        if texts not in self._printable:
            if f"{kind}{within}{task}".isprintable():
                if len(self._printable) > REMEMBERED:
                    self._printable.clear()
                self._printable.add(texts)
            else:
                kind, within, task = to_column(kind), to_column(within), to_column(task)
        values = (
            key,
            row.round,
            kind,
            row.version,
            row.time,
            within,
            task,
            None if row.body is None else pack_small(row.body),
            digest,
            conversations,
            key + 1,
            digest,
        )
        return values if self._append.in_order else self._append.bind(values)

    def _keep_contents(self, execute: Execute, row: StoredEvent, ids: dict[str, int] | None = None) -> str | None:
        """Store the messages and blobs that are new; return the row's lists of message ids.

        `ids` knows the messages that came with earlier rows, and learns those of this one.
        """
        for address, content in row.blobs.items():
            self._keep(execute, blob, address, content)
        if not row.conversations:
            return None
        ids = {} if ids is None else ids
        if len(self._message_ids) > REMEMBERED:
            self._message_ids.clear()
        for address, content in row.messages.items():
            known = self._message_ids.get(address)
            if known is None:
                self._keep(execute, message, address, content)
                found = execute(self._message_id.sql, self._message_id.bind((_digest(address),))).fetchone()
                known = int(found[0])
            ids[address] = self._message_ids[address] = known
        return json.dumps(
            {name: _runs([ids[address] for address in addresses]) for name, addresses in row.conversations.items()},
            separators=(",", ":"),
        )

    def _keep(self, execute: Execute, table: sa.Table, address: str, content: bytes) -> None:
        statement = self._keep_statements[table.name]
        execute(statement.sql, statement.bind((_digest(address), pack(content))))

    # -- reading ------------------------------------------------------------------------------------

    def _read(self, clause: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        self._connected()
        try:
            with self._engine.connect() as connection:
                return connection.execute(clause).all()
        except (sa.exc.SQLAlchemyError, UnicodeError) as error:
            raise self._unreadable(error, self._database.is_remote and isinstance(error, OUT_OF_REACH)) from error

    def _ask(self, question: Callable[[HeldReader], Value]) -> Value:
        """Ask one of the questions whose statements are compiled."""
        self._connected()
        reader = self._reader
        assert reader is not None  # connected
        try:
            return question(reader)
        except (self._driver_error, UnicodeError) as error:
            raise self._unreadable(error, self._database.is_lost(reader.connection)) from error

    def _unreadable(self, error: BaseException, is_out_of_reach: bool) -> StoreError:
        if not is_out_of_reach:
            return CorruptLog(f"cannot read the store {self.name}: {_reason(error)}")
        self._stale = True
        return StoreError(f"cannot reach the store {self.name}: {_reason(error)}. The next call connects anew.")

    def _read_note(self, uid: str) -> bytes | None:
        found = self._read(sa.select(meta.c.value).where(meta.c.name == to_column(NOTE + uid)))
        return found[0].value if found else None

    def _read_head(self, number: int) -> Head:
        info = self._find_runs(number=number)[0]
        return Head(info.head_seq, info.head_hash)

    def _read_rows(self, number: int, after: int, until: int | None) -> Iterator[StoredEvent]:
        first = number << SEQ_BITS
        last = first | (SEQ_MASK if until is None else until)
        key = first + after  # -1 gives the last possible key of the run before, which no event has
        size = FIRST_PAGE
        while True:
            try:
                page = self._ask(partial(HeldReader.rows, after=key, last=last, size=size))
            except CorruptLog:
                if size == 1:
                    raise
                size = 1  # up to the row that cannot be read, the others can
                continue
            self._learn_addresses([row[-1] for row in page if row[-1]])
            for row in page:
                yield self._stored(row)
            if len(page) < size:
                return
            key = page[-1][0]
            size = 1 if size == 1 else min(4 * size, PAGE)

    def _stored(self, row: Row) -> StoredEvent:
        key, round, kind, version, time, within, task, body, body_hash, digest, conversations = row
        return StoredEvent(
            key & SEQ_MASK,
            round,
            from_column(kind),
            version,
            time,
            from_column(within),
            from_column(task),
            _unpacked(body),
            "" if body_hash is None else _address(body_hash) or ALTERED,
            _address(digest),
            self._addresses(conversations) if conversations else {},
        )

    def _addresses(self, text: str) -> dict[str, list[str]]:
        """Turn a row's runs of message ids into content addresses."""
        runs = _message_ids(text)
        if runs is None:
            return {"": []}  # it was changed: a reader misses its conversation, verifying names the event
        self._learn_addresses([text])
        known = self._message_addresses
        return {name: [known.get(n, MISSING) for some in ids for n in some] for name, ids in runs.items()}

    def _learn_addresses(self, texts: Sequence[str]) -> None:
        """Look up what rows say of messages, all at once."""
        if len(self._message_addresses) > REMEMBERED:
            self._message_addresses.clear()
        found = [ids for text in texts for ids in (_message_ids(text) or {}).values()]
        wanted = {n for ids in found for some in ids for n in some}
        for chunk in _chunks(sorted(wanted - self._message_addresses.keys())):
            for row in self._read(sa.select(message.c.id, message.c.hash).where(message.c.id.in_(chunk))):
                self._message_addresses[row.id] = _address(row.hash)

    def read_contents(self, addresses: Sequence[str]) -> Mapping[str, bytes]:
        contents: dict[str, bytes] = {}
        for table in (message, blob):
            wanted = [_digest(address) for address in addresses if address not in contents and address != MISSING]
            for chunk in _chunks(wanted):
                for found in self._read(sa.select(table).where(table.c.hash.in_(chunk))):
                    contents[PREFIX + found.hash.hex()] = _unpacked(found.body) if type(found.body) is bytes else b""
        for address in addresses:
            if address not in contents:
                what = address if address == MISSING else f"the content {address[:19]}…"
                raise CorruptLog(f"{what} is missing from the store {self.name}")
        return contents

    def _numbers_without_runs(self) -> list[int]:
        bits = sa.literal(SEQ_BITS, sa.Integer)  # PostgreSQL does not shift by a larger type
        number = event.c.key.op(">>")(bits).label("number")
        clause = sa.select(number).distinct().where(number.not_in(sa.select(run.c.number))).order_by(number)
        return [row.number for row in self._read(clause)]

    def _read_snapshot(self, number: int, step: int | None, until: int | None) -> Snapshot | None:
        found = self._ask(partial(HeldReader.snapshot, number=number, step=step, until=until))
        return Snapshot(found[1], found[0] & SEQ_MASK, found[2]) if found else None

    def _write_snapshot(self, number: int, kept: Snapshot) -> None:
        statement = self._keep_statements[snapshot.name]
        with _Transaction(self) as execute:
            execute(statement.sql, statement.bind((number << SEQ_BITS | kept.step, kept.seq, kept.state)))

    def _write_heartbeats(self, numbers: Sequence[int], time: int) -> None:
        self._look_after_file()
        if not numbers:
            return

        def write(execute: Execute) -> None:
            for number in numbers:
                execute(self._heartbeat.sql, self._heartbeat.bind((number, time)))

        self._in_transaction(write)

    def _read_heartbeat(self, number: int) -> int | None:
        found = self._read(sa.select(heartbeats.c.time).where(heartbeats.c.run == number))
        return found[0].time if found else None

    def _list_runs(self) -> list[RunInfo]:
        return [_info(row._mapping) for row in self._read(runs_with_heads().order_by(run.c.number))]

    def _find_runs(self, *, number: int | None = None, prefix: str | None = None, last: bool = False) -> list[RunInfo]:
        if number is not None:
            row = self._ask(partial(HeldReader.run, number=number))
            return [_info(dict(zip(RUN_COLUMNS, row, strict=True)))] if row else []
        clause = runs_with_heads().order_by(run.c.number.desc()).limit(1 if last else 6)
        if last:
            clause = clause.where(run.c.parent.is_(None))
        elif prefix is not None:
            clause = clause.where(run.c.uid.startswith(to_column(prefix), autoescape=True))
        return [_info(row._mapping) for row in self._read(clause)]


def _info(row: Mapping[Any, Any]) -> RunInfo:
    fields = {name: from_column(value) for name, value in row.items()}
    if type(fields["number"]) is not int or type(fields["uid"]) is not str:
        raise CorruptLog("the list of runs is damaged: a run has no number or no name")
    key, digest = fields.pop("end_key"), fields.pop("end_hash")
    if key is None:
        return RunInfo(**fields, head_seq=LOST, head_hash="")
    return RunInfo(**fields, head_seq=(key & SEQ_MASK) - 1, head_hash=PREFIX + digest.hex() if digest else "")


def _message_ids(text: str) -> dict[str, list[range]] | None:
    """Field → runs of message ids, as a row tells them; None if it was changed into something else."""
    try:
        return {n: [range(first, first + count) for first, count in ids] for n, ids in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        return None


def _digest(address: str) -> bytes:
    try:
        return bytes.fromhex(address.removeprefix(PREFIX))
    except (ValueError, TypeError, AttributeError):
        raise CorruptLog(f"{address!r} is no content address") from None


def _address(digest: Any) -> str:
    """The content address or hash that a column holds; empty if it was changed into something else."""
    return PREFIX + digest.hex() if type(digest) is bytes else ""


def _unpacked(stored: Any) -> Any:
    """What was packed. Bytes that were changed come back as they are: verifying finds that they are not the same."""
    try:
        return unpack(stored) if type(stored) is bytes else stored
    except ValueError:
        return stored


def _runs(ids: Sequence[int]) -> list[list[int]]:
    """[5, 6, 7, 2] → [[5, 3], [2, 1]]."""
    runs: list[list[int]] = []
    for n in ids:
        if runs and runs[-1][0] + runs[-1][1] == n:
            runs[-1][1] += 1
        else:
            runs.append([n, 1])
    return runs


def _chunks(items: Sequence[Any], size: int = 500) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _reason(error: BaseException) -> str:
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]
