"""What differs between the databases that a store can be in, so that everything else is one text of SQL for both.

SQLite lets one writer in at a time, whose transaction begins with the lock on the whole file. PostgreSQL lets all of
them in, and they meet at rows: two writers of one run at its end mark, two openers at a lock of our own. There,
transactions can also wait for each other in a circle; the server then ends one of them, which is carried out anew.

On every connection a statement is a transaction of its own unless a `BEGIN` was sent.

A SQLite file that may not be written can be read all the same. SQLite itself reads it where the files of its write-
ahead log are there or can be made. Where they are neither, as on a read-only medium, the file is opened as one that
nobody changes (`immutable`), and opened anew when it did change. What a write-ahead log holds is never left out.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import quote, unquote

from .errors import StoreError

Execute: TypeAlias = Callable[[str, Any], Any]
"""Runs one statement with its values."""

BUSY_SECONDS: Final = 60
"""How long a writer waits for another process's transaction before it gives up."""

SQLITE: Final = "sqlite:///"
"""What the URL of a SQLite file begins with."""

UNKNOWN: Final = (-1, -1)
"""The identity of a file at which we may not look."""

CACHE_KILOBYTES: Final = 512
"""SQLite: how much of the file each connection keeps in memory. What is appended is not read again, and the system
keeps the file too."""

OPENING: Final = 0x61726570
"""PostgreSQL: the number of the lock that openers of a store take ("arep")."""

ENCODINGS: Final = ("UTF8", "SQL_ASCII")
"""PostgreSQL: the encodings of a database that keep any text as it is."""

CANNOT_WRITE: Final = 8
CANNOT_OPEN: Final = 14
"""SQLite: the codes of errors where a file or its folder may not be written (`SQLITE_READONLY`, `SQLITE_CANTOPEN`)."""

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

    def opened(self) -> None:
        """Take note of what was opened; it is open now."""

    def was_replaced(self) -> bool:
        """Whether what is open is no longer what the URL names, so that nobody will find what is written to it."""

    def is_outdated(self) -> bool:
        """Whether it must be opened anew to see what others have written."""

    def is_protected(self, error: BaseException) -> bool:
        """Whether a statement failed because nothing may be written."""

    def for_reading(self, error: BaseException) -> tuple[Database, str] | None:
        """What to open instead, and by which URL, where opening failed because nothing may be written; else None.

        Raises:
            StoreError: it cannot even be read, without leaving something out.
        """


class Sqlite:
    """A file on this machine, with a write-ahead log, so that readers and the writer do not wait for each other.

    Args:
        path: the file; None where the URL says more than that.
    """

    options: Mapping[str, Any] = {"connect_args": {"timeout": BUSY_SECONDS, "check_same_thread": False}}
    begin = "BEGIN IMMEDIATE"
    is_remote = False
    hint = "Is it an agentreplay store? Name another one with --store."

    def __init__(self, path: Path | None) -> None:
        self._path = None if path is None else path.absolute()
        self._file: tuple[int, int] | None = None

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
        connection.execute(f"PRAGMA cache_size=-{CACHE_KILOBYTES}")
        connection.execute(f"PRAGMA synchronous={'FULL' if durability == 'full' else 'NORMAL'}")

    def exclude_openers(self, execute: Execute) -> None:
        """`BEGIN IMMEDIATE` did."""

    def gave_way(self, error: BaseException) -> bool:
        """Nothing ever does: writers come one by one."""
        return False

    def is_lost(self, connection: Any) -> bool:
        """It is a file."""
        return False

    def opened(self) -> None:
        """Note which file it is. While it is open, no other file gets its number."""
        self._file = file_identity(self._path)

    def was_replaced(self) -> bool:
        """Whether the file was deleted, or another one is in its place. SQLite goes on with one that nobody sees."""
        return self._file is not None and file_identity(self._path) not in (self._file, UNKNOWN)

    def is_outdated(self) -> bool:
        """Never: SQLite looks itself."""
        return False

    def is_protected(self, error: BaseException) -> bool:
        """Whether the file or its folder may not be written."""
        return _code(error) == CANNOT_WRITE

    def for_reading(self, error: BaseException) -> tuple[Database, str] | None:
        """The same file as one that nobody changes, if its write-ahead log holds nothing."""
        path = self._path
        if path is None or _code(error) not in (CANNOT_WRITE, CANNOT_OPEN) or not os.access(path, os.R_OK):
            return None
        if _size(_log_of(path)):
            raise StoreError(
                f"the store {path} may not be written here, and what {_log_of(path).name} holds is not in it yet. "
                "Copy both files to where you may write, and open the store there."
            )
        return ImmutableSqlite(path), f"sqlite:///file:{quote(str(path))}?immutable=1&uri=true"


class ImmutableSqlite(Sqlite):
    """A file that may only be read, in a folder in which nothing can be made.

    SQLite takes it for one that nobody changes. Whoever may write it does so by way of a write-ahead log, which shows.
    """

    begin = "BEGIN"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._state = _state(path)

    def set_up(self, connection: Any, durability: str) -> None:
        """Nothing is written."""
        connection.isolation_level = None

    def was_replaced(self) -> bool:
        """Nothing is written, so nothing is lost."""
        return False

    def is_outdated(self) -> bool:
        """Whether somebody has changed the file, or begun to."""
        assert self._path is not None
        return self._state != _state(self._path)

    def for_reading(self, error: BaseException) -> None:
        """There is no further way."""
        return None


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

    def opened(self) -> None:
        """The connection says all there is to know."""

    def was_replaced(self) -> bool:
        """A server ends its connections to a database before that is dropped."""
        return False

    def is_outdated(self) -> bool:
        """A server shows what was committed."""
        return False

    def is_protected(self, error: BaseException) -> bool:
        """The server says so in its own words."""
        return False

    def for_reading(self, error: BaseException) -> None:
        """There is no other way to open it."""
        return None


def database_at(url: str) -> tuple[Database, str]:
    """The kind of database that a URL names, and the URL with the driver that is used.

    Raises:
        StoreError: it is of another kind, or the URL is ambiguous.
    """
    scheme, separator, rest = url.partition("://")
    if separator and scheme in ("sqlite", "sqlite+pysqlite"):
        return Sqlite(path_of(url)), url
    if separator and scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        if rest.partition("?")[0].count("@") > 1:
            raise StoreError(f'in the URL {without_password(url)} an "@" within the password must be written "%40"')
        return Postgresql(), f"postgresql+psycopg://{rest}"
    raise StoreError(f"{without_password(url)} is no store: its URL begins with sqlite:/// or postgresql://")


def path_of(url: str) -> Path | None:
    """The file of a SQLite URL; None for what has no file, or says more than the file."""
    text = url.removeprefix(SQLITE)
    return None if text == url or text in ("", "memory:", ":memory:") or "?" in text else Path(unquote(text))


def file_identity(path: Path | None) -> tuple[int, int] | None:
    """What tells a file from another of the same name; None if there is none, `UNKNOWN` if nobody may look."""
    try:
        status = os.stat(path) if path is not None else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return UNKNOWN
    return None if status is None else (status.st_dev, status.st_ino)


def _log_of(path: Path) -> Path:
    """The write-ahead log of a SQLite file."""
    return path.with_name(path.name + "-wal")


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _state(path: Path) -> tuple[Any, ...]:
    """What changes when a file does, or its write-ahead log comes to hold something."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size, _size(_log_of(path))


def _code(error: BaseException) -> int:
    """The primary code of a SQLite error; 0 of any other."""
    code = getattr(getattr(error, "orig", error), "sqlite_errorcode", 0)
    return code & 0xFF if type(code) is int else 0


def without_password(url: str) -> str:
    """The URL as it may be shown: "postgresql://me:***@here/runs"."""
    shown = re.sub(r"(://[^:/?#@]*):.*@", r"\1:***@", url)
    return re.sub(r"(?i)((?:^|[?&])\w*(?:password|passwd|pwd)=)[^&]*", r"\1***", shown)
