"""The tables of a SQL store, and the named steps that made them.

A store remembers the names of the migrations that were applied to it. Opening one applies what is missing, each in a
transaction of its own; a store with a name that is unknown here was made by a newer agentreplay and is left alone.
A migration that was released is never edited: the next change of the tables is a new one at the end.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    insert,
    inspect,
    select,
)

from .errors import StoreError, UnknownVersion

metadata = MetaData()

ROWID = BigInteger().with_variant(Integer, "sqlite")  # SQLite makes only INTEGER PRIMARY KEY the row's own id
NUMBER = Integer().with_variant(BigInteger, "postgresql")  # SQLite's is as large as need be
UID = String(36).with_variant(Text(collation="C"), "postgresql")  # collated by bytes, the index finds prefixes

KEY_BYTES: Final = 32
"""Of the key of the redaction tokens."""

migration = Table(
    "migration",
    metadata,
    Column("name", String(100), primary_key=True),
    Column("applied", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

meta = Table(
    "meta",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary),
    sqlite_with_rowid=False,
)

run = Table(
    "run",
    metadata,
    Column("number", ROWID, primary_key=True),
    Column("uid", UID, nullable=False, unique=True),
    Column("agent", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("steps", NUMBER, nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("finished", BigInteger),
    Column("origin", Text, nullable=False),
    Column("parent", UID),
    Column("fork_of", UID),
    Column("fork_seq", BigInteger),
    Column("process_seq", BigInteger),  # of the event that names the process that records the run; NULL if none does
)

# Beside the log, of runs in progress whose agent waits: see `heartbeat`.
heartbeats = Table(
    "heartbeat",
    metadata,
    Column("run", ROWID, primary_key=True, autoincrement=False),  # its number
    Column("time", BigInteger, nullable=False),
)

# A run's log ends in an end mark: a row without a kind, whose seq is the next event's and whose hash is the last one's.
# An append turns the mark into its event and puts a new one behind it. So the head costs no second page of the file,
# and a tail that was cut off is missed, because the mark went with it.
event = Table(
    "event",
    metadata,
    Column("key", ROWID, primary_key=True, autoincrement=False),  # run number << 32 | seq
    Column("round", NUMBER, nullable=False),
    Column("kind", Text, nullable=False),
    Column("version", NUMBER, nullable=False),
    Column("time", BigInteger, nullable=False),
    Column("within", Text),
    Column("task", Text, nullable=False),
    Column("body", LargeBinary),
    Column("body_hash", LargeBinary(32)),  # only where the body was pruned
    Column("hash", LargeBinary(32), nullable=False),
    Column("conversations", Text),  # JSON: field → runs of message ids, [[first, count], …]
)

message = Table(
    "message",
    metadata,
    Column("id", ROWID, primary_key=True),
    Column("hash", LargeBinary(32), nullable=False, unique=True),
    Column("body", LargeBinary, nullable=False),  # packed, as are those of blobs and the small ones of events
)

blob = Table(
    "blob",
    metadata,
    Column("hash", LargeBinary(32), primary_key=True),
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

snapshot = Table(
    "snapshot",
    metadata,
    Column("key", ROWID, primary_key=True, autoincrement=False),  # run number << 32 | step
    Column("seq", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
)

Migration: TypeAlias = Callable[[Connection], None]


def _first_tables(connection: Connection) -> None:
    # Without a look at what is there: a table of that name is somebody else's, and then this is no place for a store.
    tables = [meta, run, heartbeats, event, message, blob, snapshot]
    metadata.create_all(connection, tables=tables, checkfirst=False)
    connection.execute(insert(meta).values(name="redaction_key", value=with_check(secrets.token_bytes(KEY_BYTES))))


def with_check(key: bytes) -> bytes:
    """The redaction key as it is stored, so that one that was damaged or replaced is found out."""
    return key + hmac.digest(key, b"agentreplay redaction key", "sha256")


MIGRATIONS: Final[dict[str, Migration]] = {"0001-events": _first_tables}


def migrate(connection: Connection, name: str, *, create: bool) -> None:
    """Bring the store behind `connection` to this version's tables. The caller holds the write lock and commits.

    Args:
        connection: in a transaction.
        name: of the store, for messages.
        create: make the tables if there are none.

    Raises:
        UnknownVersion: a newer agentreplay made the store.
        StoreError: there is no store, and none may be made.
    """
    if not inspect(connection).has_table("migration"):
        if not create:
            raise StoreError(f"there is no store in {name}. Record a run into it first, or name another with --store.")
        metadata.create_all(connection, tables=[migration], checkfirst=False)
    applied = set(connection.scalars(select(migration.c.name)))
    if unknown := sorted(applied - MIGRATIONS.keys()):
        raise UnknownVersion(
            f"the store {name} was changed by a newer agentreplay "
            f"({', '.join(unknown)}); install that version, or use another store with --store"
        )
    for step, apply in MIGRATIONS.items():
        if step not in applied:
            apply(connection)
            connection.execute(insert(migration).values(name=step, applied=int(time.time() * 1_000_000)))
