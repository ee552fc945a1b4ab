"""A store in a SQL database, through SQLAlchemy Core; SQLite unless told otherwise, or PostgreSQL (see `databases`).

Appending is the hot path. The statements are compiled once by SQLAlchemy and run on one driver connection that the
store holds and guards with a lock; reading goes through the engine's pool beside it. An append is one transaction:
messages, blobs, and the rows, each of which takes the place of the run's end mark, if the mark stands where the writer
expects it. That is the version check. The connections themselves are in `sql_connection`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import sqlalchemy as sa

from .column_text import from_column, to_column
from .databases import Execute
from .errors import CorruptLog, VersionConflict
from .event_codec import StoredEvent
from .migrations import KEY_BYTES, blob, event, heartbeats, message, meta, run, snapshot, with_check
from .packing import pack, pack_small, unpack
from .sql_connection import ConnectedStore
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
from .store import FIRST, Addition, Head, RunInfo, Snapshot, Summary
from .verifying import LOST

PREFIX: Final = "sha256:"
PREFIX_LENGTH: Final = len(PREFIX)
MISSING: Final = "a message"
"""Stands for the content address of a message that the store has lost."""

REMEMBERED: Final = 8_000
"""How many messages' ids are kept in memory, to save looking them up; more while one conversation has more."""

NOTE: Final = "run:"
"""Begins the name, in the table `meta`, of what a store knows of a run beside its events."""

ALTERED: Final = "no hash"
"""Stands for a hash that is of no kind that a hash can be."""

FIRST_PAGE: Final = 20
PAGE: Final = 500
"""Rows read at a time, few at first: a reader holds no cursor while its caller works, and may need no more."""


class SqlStore(ConnectedStore):
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

    def _prepare(self, dialect: sa.Dialect) -> None:
        self._printable: set[tuple[str, str | None, str]] = set()
        self._append = append_statement(dialect)
        self._keep_statements = {
            table.name: Statement(ignoring(dialect, table, names[0]), dialect, names) for table, names in KEPT_ONCE
        }
        by_hash = sa.select(message.c.id).where(message.c.hash == sa.bindparam("h"))
        self._message_id = Statement(by_hash, dialect, ("h",))
        self._message_ids: dict[str, int] = {}
        self._kept_blobs: set[str] = set()
        self._message_addresses: dict[int, str] = {}
        self._summaries: dict[tuple[str, ...], Statement] = {}
        self._heartbeat = Statement(replacing(dialect, heartbeats, "run", "time"), dialect, ["run", "time"])

    def _rolled_back(self) -> None:
        self._message_ids.clear()  # some may be ids that the transaction gave
        self._kept_blobs.clear()

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
            if address not in self._kept_blobs:
                self._keep(execute, blob, address, content)
                if len(self._kept_blobs) > REMEMBERED:
                    self._kept_blobs.clear()
                self._kept_blobs.add(address)
        if not row.conversations:
            return None
        known = self._message_ids
        if len(known) > max(REMEMBERED, 2 * len(row.messages)):
            known.clear()
        for address in [address for address in row.messages if address not in known]:
            self._keep(execute, message, address, row.messages[address])
            found = execute(self._message_id.sql, self._message_id.bind((_digest(address),))).fetchone()
            known[address] = int(found[0])
        if ids is None:
            ids = known
        else:
            ids.update({address: known[address] for address in row.messages})
        return json.dumps(
            {name: _runs([ids[address] for address in addresses]) for name, addresses in row.conversations.items()},
            separators=(",", ":"),
        )

    def _keep(self, execute: Execute, table: sa.Table, address: str, content: bytes) -> None:
        statement = self._keep_statements[table.name]
        execute(statement.sql, statement.bind((_digest(address), pack(content))))

    # -- reading ------------------------------------------------------------------------------------

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
        found = [ids for text in texts for ids in (_message_ids(text) or {}).values()]
        wanted = {n for ids in found for some in ids for n in some}
        if len(self._message_addresses) > max(REMEMBERED, 2 * len(wanted)):
            self._message_addresses.clear()
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
        values = statement.bind((number << SEQ_BITS | kept.step, kept.seq, kept.state))
        self._in_transaction(lambda execute: execute(statement.sql, values))

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
    if ids and ids == list(range(ids[0], ids[0] + len(ids))):  # a plain history, nearly always
        return [[ids[0], len(ids)]]
    runs: list[list[int]] = []
    for n in ids:
        if runs and runs[-1][0] + runs[-1][1] == n:
            runs[-1][1] += 1
        else:
            runs.append([n, 1])
    return runs


def _chunks(items: Sequence[Any], size: int = 500) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
