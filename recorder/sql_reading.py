"""Reading what is asked for again and again: a run, a stretch of its rows, the snapshot nearest to a step.

Building a SELECT, and fetching a connection for it, costs ten times what the database takes to answer. So these few are
compiled once and run on a driver connection that is held for reading, beside the one that is held for writing.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from .migrations import event, run, snapshot
from .sql_statements import SEQ_BITS, SEQ_MASK, Statement, runs_with_heads

Row: TypeAlias = tuple[Any, ...]

EVENT_COLUMNS: Final = tuple(column.name for column in event.columns)
RUN_COLUMNS: Final = (*(column.name for column in run.columns), "end_key", "end_hash")


class HeldReader:
    """A driver connection to read with, for any thread; its transactions end with their statement.

    Args:
        engine: makes the connection, which leaves its pool.
    """

    def __init__(self, engine: sa.Engine) -> None:
        dialect, n = engine.dialect, sa.bindparam
        self._lock = threading.Lock()
        self._run = Statement(runs_with_heads().where(run.c.number == n("number")), dialect, ("number",))
        stretch = sa.select(event).where(event.c.key > n("after"), event.c.key <= n("last"), event.c.kind != "")
        self._rows = Statement(stretch.order_by(event.c.key).limit(n("size")), dialect, ("after", "last", "size"))
        kept = sa.select(snapshot).where(snapshot.c.key.between(n("first"), n("last")), snapshot.c.seq <= n("until"))
        self._snapshot = Statement(kept.order_by(snapshot.c.key.desc()).limit(1), dialect, ("first", "last", "until"))
        self.fairy = engine.raw_connection()
        self.fairy.detach()
        self.connection: Any = self.fairy.dbapi_connection

    def close(self) -> None:
        """Let go of the connection, whatever became of it, once nobody reads: the driver would crash otherwise."""
        with self._lock, suppress(Exception):
            self.fairy.close()

    def run(self, number: int) -> Row | None:
        """The run of a number, in `RUN_COLUMNS`."""
        found = self._fetch(self._run, (number,))
        return found[0] if found else None

    def rows(self, after: int, last: int, size: int) -> Sequence[Row]:
        """At most `size` events with `after` < key <= `last`, in order, in `EVENT_COLUMNS`."""
        return self._fetch(self._rows, (after, last, size))

    def snapshot(self, number: int, step: int | None, until: int | None) -> Row | None:
        """The last snapshot of a run at a step or before, at a seq or before: its key, its seq, its state."""
        first = number << SEQ_BITS
        last = first | (SEQ_MASK if step is None else min(step, SEQ_MASK))
        found = self._fetch(self._snapshot, (first, last, SEQ_MASK if until is None else until))
        return found[0] if found else None

    def _fetch(self, statement: Statement, values: Row) -> Sequence[Row]:
        with self._lock:
            rows: Sequence[Row] = self.connection.execute(statement.sql, statement.bind(values)).fetchall()
            return rows
