"""The changes of one value on a terminal, newest first: each under the event that made it.

    order.total  77.7

    step 7, event 64: payload.changed in call 7.1 — The coupon SPRING takes 40 % off the total.
    ~ order.total  129.5 → 77.7
    step 1, event 9: payload.changed — The request names an order.
    + order.total  129.5
      with order

Of an object or a list is shown what changed inside. Where no reason was given, what the step decided stands for it.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rich.console import Console

from ..recorder.store import EventStore, RunInfo
from ..replay.blame import Blamed
from ..replay.changes import MISSING, Change, Changes, summary_of, to_json
from ..replay.diff import diff_values
from ..replay.outline import entry_of
from ..replay.paths import WHOLE
from ..replay.readable import count, readable, visible
from .hints import command
from .output import one_line, write
from .render_diff import LIMIT, render_group
from .runs import status_of

SHOWN: Final = 30
"""So many changes are shown unless it is said how many."""

INSIDE: Final = 8
"""So many changes inside an object or list are shown of each change of it."""

REASON: Final = 200
"""Characters of a reason that are shown."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for: `path` as it was typed, `step` counted from the start, `limit` if one was given."""

    run: RunInfo
    path: str
    step: int
    limit: int | None


def json_rows(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """The changes as JSON data: each as in a diff, and with `why` and `note`, which may be null."""
    return [
        {**to_json(change), "why": change.cause.why if change.cause else None, "note": _note(change)}
        for change in changes
    ]


def render_blame(page: Console, store: EventStore, asked: Asked, changes: Changes, *, full: bool) -> None:
    """Write the changes of a value.

    Args:
        page: where to.
        store: where the run is.
        asked: what they are an answer to.
        changes: newest first, at least one.
        full: write every value and reason whole.
    """
    _head(page, asked, changes[0])
    shown = changes[: SHOWN if asked.limit is None else asked.limit]
    unexplained = {change.cause.step for change in shown if change.cause and not change.cause.why}
    decisions = _decisions(store, asked.run, unexplained)
    for change in shown:
        _one(page, change, decisions, full=full)
    write(page, (summary_of(changes), "bold"))
    if len(shown) < len(changes):
        typed = command(f"blame {asked.run.id} {shlex.quote(asked.path)} --step {asked.step} -n {len(changes)}")
        write(page, (f"The newest {len(shown):,} are shown; all: ", "dim"), (visible(typed), "bold"))


def _note(change: Change) -> str | None:
    return change.note if isinstance(change, Blamed) else None


def _head(page: Console, asked: Asked, newest: Change) -> None:
    info = asked.run
    step = (f"step {asked.step}", "bold")
    write(page, (info.id, "bold"), "  ", (visible(info.agent), "bold"), "  ", status_of(info), "  ", step)
    path = (visible(asked.path or WHOLE), "bold")
    if newest.new is MISSING and newest.cause is not None:
        write(page, path, "  ", (f"gone since event {newest.cause.seq} of step {newest.cause.step}", "yellow"))
    else:
        write(page, path, "  ", readable(newest.new, LIMIT))
    write(page)


def _decisions(store: EventStore, info: RunInfo, steps: Collection[int]) -> dict[int, str]:
    """What these steps decided, and why."""
    decided = {}
    for row in store.rows(info) if steps else ():
        if row.kind == "step.decided" and row.round in steps:
            entry = entry_of(row.round, [store.decode(info, row)])
            decided[row.round] = ": ".join(filter(None, (entry.word, entry.reasoning)))
    return decided


def _one(page: Console, change: Change, decisions: dict[int, str], *, full: bool) -> None:
    cause = change.cause
    if cause is not None:
        why = cause.why or decisions.get(cause.step)
        cause = replace(cause, why=why if full or not why else one_line(why, REASON))
    inside = _inside(change) if change.kind == "replace" else (change,)
    shown = inside if full else inside[:INSIDE]
    render_group(cause, shown, page, limit=None if full else LIMIT)
    if len(shown) < len(inside):
        write(page, (f"  … {count(len(inside) - len(shown), 'more change')}", "dim"))
    if note := _note(change):
        write(page, (f"  {note}", "dim"))


def _inside(change: Change) -> Sequence[Change]:
    """What differs between the two versions of a value, as changes of the payload."""
    return [inner.under(change.keys) for inner in diff_values(change.old, change.new, inside_tags=True)]
