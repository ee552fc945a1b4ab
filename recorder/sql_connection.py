"""The connections of a SQL store: opened, held, lost and opened anew, and transactions on the one that writes.

One driver connection is held for writing, guarded by a lock, and one for the questions that are asked again and again;
everything else goes through the engine's pool. Errors of the driver come out in our own words.

Nothing is carried across `fork`: a child process connects anew, as does one whose connection was lost. A file that was
deleted, moved or replaced while it was open is not opened anew: what is written from then on would be lost in silence.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sqlalchemy as sa

from .databases import Database, Execute, database_at, without_password
from .errors import CorruptLog, StoreError
from .migrations import migrate
from .sql_reading import HeldReader
from .store import EventStore

if TYPE_CHECKING:
    from .redaction import RedactionRules

Value = TypeVar("Value")

ATTEMPTS: Final = 20
"""How often a transaction is carried out that has to give way to others."""

OUT_OF_REACH: Final = (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError)
"""What reading raises where a server is out of reach."""

_open_stores: weakref.WeakSet[ConnectedStore] = weakref.WeakSet()


def _reconnect_children() -> None:
    for store in list(_open_stores):
        store._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reconnect_children)


class _GaveWay(Exception):
    """A transaction was ended by the server in favour of another; carried out anew it succeeds."""


class Transaction:
    """One transaction on a store's held connection: all or nothing, and errors in our own words."""

    __slots__ = ("_store",)

    def __init__(self, store: ConnectedStore) -> None:
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
            store._rolled_back()
            with suppress(store._driver_error):  # a lost connection has ended the transaction already
                store._driver.execute("ROLLBACK", ())
            if store._database.gave_way(error):
                raise _GaveWay from error
            store._explain(error)
            raise error
        finally:
            store._lock.release()


class ConnectedStore(EventStore):
    """A store in a SQL database, as far as its connections go; the arguments are those of `SqlStore`."""

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
        self._fairy: Any = None
        self._reader: HeldReader | None = None
        self._inherited: list[Any] = []
        self._choose(*database_at(url))
        self._open()
        _open_stores.add(self)

    @property
    def name(self) -> str:
        """The URL without its password."""
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
        self._driver_error: type[Exception] = dialect.loaded_dbapi.Error
        self._prepare(dialect)

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
        """Close the connections, once and for all."""
        with self._lock:
            if not self.closed:
                self.closed = True
                self._disconnect()

    # -- transactions and questions -----------------------------------------------------------------

    def _in_transaction(self, work: Callable[[Execute], Value]) -> Value:
        """Do something all or not at all; anew if the transaction had to give way to another one."""
        for _ in range(ATTEMPTS):
            try:
                with Transaction(self) as execute:
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

    # -- what the store itself does -------------------------------------------------------------------

    @abstractmethod
    def _prepare(self, dialect: sa.Dialect) -> None:
        """Compile statements, and forget what was known of what is stored: the store was opened, perhaps anew."""

    @abstractmethod
    def _rolled_back(self) -> None:
        """Forget what a transaction gave that did not come about."""


def _reason(error: BaseException) -> str:
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]
