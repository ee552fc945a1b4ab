"""The statements of a SQL store that are more than a line, and those that are compiled once.

A run's events are the rows whose keys are `run number << 32 | seq`, so a key says both and one index serves all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from .migrations import blob, event, message, run, snapshot

SEQ_BITS: Final = 32
SEQ_MASK: Final = (1 << SEQ_BITS) - 1

KEPT_ONCE: Final = ((message, ("hash", "body")), (blob, ("hash", "body")), (snapshot, ("key", "seq", "state")))
"""Tables whose rows are never written twice, and the columns of a new row; the first one names it."""

MARK: Final = {"key": 0, "round": 0, "kind": "", "version": 0, "time": 0, "task": "", "hash": b""}
"""An end mark; see `migrations`."""


class Statement:
    """A statement compiled once. `bind` takes values in the order of `names` and gives what the driver takes."""

    def __init__(self, clause: sa.ClauseElement, dialect: sa.Dialect, names: Sequence[str]) -> None:
        compiled: Any = clause.compile(
            dialect=dialect, column_keys=list(names) if isinstance(clause, sa.Insert) else None
        )
        self.sql = str(compiled)
        self._names = tuple(names)
        self._own = {name: value for name, value in compiled.params.items() if name not in self._names}
        self._order = compiled.positiontup and tuple(compiled.positiontup)
        self.in_order = self._order == self._names

    def bind(self, values: tuple[Any, ...]) -> Any:
        """Put values, and those that the statement has itself, into the order and form that the driver takes."""
        if self.in_order:
            return values
        named = self._own | dict(zip(self._names, values, strict=True))
        return named if self._order is None else [named[name] for name in self._order]


def runs_with_heads() -> sa.Select[Any]:
    """Every run, and the last row of its log: its end mark, unless somebody cut it off."""
    first = run.c.number * (1 << SEQ_BITS)
    last = sa.select(sa.func.max(event.c.key)).where(event.c.key.between(first, first + SEQ_MASK)).scalar_subquery()
    end = event.alias("end_mark")
    joined = run.outerjoin(end, sa.and_(end.c.key == last, end.c.kind == ""))
    return sa.select(run, end.c.key.label("end_key"), end.c.hash.label("end_hash")).select_from(joined)


def append_statement(dialect: sa.Dialect) -> Statement:
    """Turns a run's end mark into an event and puts a new one behind it: two rows, unless the log ends elsewhere."""
    names = [column.name for column in event.columns if column.name != "body_hash"]
    new: dict[str, Any] = {name: sa.bindparam(name) for name in names}
    mark: dict[str, Any] = {name: sa.literal_column(repr(MARK[name]) if name in MARK else "NULL") for name in names}
    mark |= {"key": sa.bindparam("mark"), "hash": sa.bindparam("mark_hash")}
    insert = dialect_insert(dialect)(event).values([new, mark])
    upsert = insert.on_conflict_do_update(
        index_elements=["key"],
        set_={name: insert.excluded[name] for name in names if name != "key"},
        where=sa.and_(event.c.kind == sa.literal_column("''"), insert.excluded.kind != sa.literal_column("''")),
    )
    return Statement(upsert, dialect, (*names, "mark", "mark_hash"))


def dialect_insert(dialect: sa.Dialect) -> Any:
    """The insert of a dialect that knows what to do about a row that is there already."""
    if dialect.name == "postgresql":  # each dialect takes a while to import, and a store needs one
        from sqlalchemy.dialects.postgresql import insert as insert_into_postgresql

        return insert_into_postgresql
    from sqlalchemy.dialects.sqlite import insert

    return insert


def ignoring(dialect: sa.Dialect, table: sa.Table, name: str) -> Any:
    """An insert that leaves a row that is there already as it is."""
    return dialect_insert(dialect)(table).on_conflict_do_nothing(index_elements=[name])


def replacing(dialect: sa.Dialect, table: sa.Table, name: str, value: str) -> Any:
    """An insert of a name and a value that takes the place of the row that is there already."""
    new = dialect_insert(dialect)(table)
    return new.on_conflict_do_update(index_elements=[name], set_={value: new.excluded[value]})
