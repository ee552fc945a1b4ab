"""What differs between the databases that a store can be in, so that everything else is one text of SQL for both.

SQLite lets one writer in at a time, whose transaction begins with the lock on the whole file. PostgreSQL lets all of
them in, and they meet at rows: two writers of one run at its end mark, two openers at a lock of our own. There,
transactions can also wait for each other in a circle; the server then ends one of them, which is carried out anew.

On every connection a statement is a transaction of its own unless a `BEGIN` was sent.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from .errors import StoreError

Execute: TypeAlias = Callable[[str, Any], Any]
"""Runs one statement with its values."""

BUSY_SECONDS: Final = 60
"""How long a writer waits for another process's transaction before it gives up."""

CHECKPOINT_PAGES: Final = 4_000
"""SQLite: how many pages of write-ahead log (16 MB) are gathered before they are moved into the file."""

OPENING: Final = 0x61726570
"""PostgreSQL: the number of the lock that openers of a store take ("arep")."""

ENCODINGS: Final = ("UTF8", "SQL_ASCII")
"""PostgreSQL: the encodings of a database that keep any text as it is."""

GAVE_WAY: Final = ("40P01", "40001")
"""PostgreSQL: the codes of errors after which the same transaction, carried out anew, succeeds."""


class Database(Protocol):
    """A kind of database.

    Attributes:
        options: arguments for SQLAlchemy's `create_engine`.
        begin: the statement that begins a transaction that writes.
        is_remote: whether it can be out of reach though it is whole.
        hint: what to do when it cannot be opened.
    """

    options: Mapping[str, Any]
    begin: str
    is_remote: bool
    hint: str

    def set_up(self, connection: Any, durability: str) -> None:
        """Prepare a new driver connection."""

    def exclude_openers(self, execute: Execute) -> None:
        """Have the transaction that runs wait for others that open the store."""

    def gave_way(self, error: BaseException) -> bool:
        """Whether a transaction failed only because of another one."""

    def is_lost(self, connection: Any) -> bool:
        """Whether a driver connection no longer leads anywhere."""


class Sqlite:
    """A file on this machine, with a write-ahead log, so that readers and the writer do not wait for each other."""

    options: Mapping[str, Any] = {"connect_args": {"timeout": BUSY_SECONDS, "check_same_thread": False}}
    begin = "BEGIN IMMEDIATE"
    is_remote = False
    hint = "Is it an agentreplay store? Name another one with --store."

    def set_up(self, connection: Any, durability: str) -> None:
        """Use a write-ahead log; "full" has its every commit wait for the disk."""
        connection.isolation_level = None
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                break
            except Exception as error:
                # Switching to WAL takes the whole file and does not heed the busy timeout.
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA synchronous={'FULL' if durability == 'full' else 'NORMAL'}")

    def exclude_openers(self, execute: Execute) -> None:
        """`BEGIN IMMEDIATE` did."""

    def gave_way(self, error: BaseException) -> bool:
        """Nothing ever does: writers come one by one."""
        return False

    def is_lost(self, connection: Any) -> bool:
        """It is a file."""
        return False


class Postgresql:
    """A server. "commit" leaves it to the server's settings whether a commit waits for the disk; "full" insists."""

    # Values by position, as with SQLite; text as UTF-8, whatever the environment says.
    options: Mapping[str, Any] = {"paramstyle": "format", "connect_args": {"client_encoding": "utf8"}}
    begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
    is_remote = True
    hint = "Is the server running, and is this an agentreplay store? Name another one with --store."

    def set_up(self, connection: Any, durability: str) -> None:
        """Bound the waiting, and refuse a database that would change a text.

        A single statement is a transaction too: it must see what it waited for, whatever the server's default is.
        """
        connection.autocommit = True
        (encoding,) = connection.execute("SELECT current_setting('server_encoding')").fetchone()
        if encoding not in ENCODINGS:
            raise StoreError(
                f"the database's encoding is {encoding}, which does not hold every text; "
                "make one for the store with `createdb -T template0 -E UTF8 NAME`"
            )
        settings = {"default_transaction_isolation": "read committed", "lock_timeout": f"{BUSY_SECONDS}s"}
        if durability == "full":
            settings["synchronous_commit"] = "on"
        for setting in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", setting)

    def exclude_openers(self, execute: Execute) -> None:
        """Take a lock that goes with the transaction."""
        execute(f"SELECT pg_advisory_xact_lock({OPENING})", ())

    def gave_way(self, error: BaseException) -> bool:
        """The server found a circle of waiting transactions, and this was the one that it ended."""
        return getattr(error, "sqlstate", None) in GAVE_WAY

    def is_lost(self, connection: Any) -> bool:
        """The driver knows, once a statement has failed."""
        return bool(connection.closed)


def database_at(url: str) -> tuple[Database, str]:
    """The kind of database that a URL names, and the URL with the driver that is used.

    Raises:
        StoreError: it is of another kind, or the URL is ambiguous.
    """
    scheme, separator, rest = url.partition("://")
    if separator and scheme in ("sqlite", "sqlite+pysqlite"):
        return Sqlite(), url
    if separator and scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        if rest.partition("?")[0].count("@") > 1:
            raise StoreError(f'in the URL {without_password(url)} an "@" within the password must be written "%40"')
        return Postgresql(), f"postgresql+psycopg://{rest}"
    raise StoreError(f"{without_password(url)} is no store: its URL begins with sqlite:/// or postgresql://")


def without_password(url: str) -> str:
    """The URL as it may be shown: "postgresql://me:***@here/runs"."""
    shown = re.sub(r"(://[^:/?#@]*):.*@", r"\1:***@", url)
    return re.sub(r"(?i)((?:^|[?&])\w*(?:password|passwd|pwd)=)[^&]*", r"\1***", shown)
