"""The tree of forks as a picture: a line for each run, from the step at which it parted to the one at which it ended.

Steps go from left to right, on one scale for all runs of the tree, so that what stands below each other happened after
as many steps. A fork hangs from the line of the run that it left, at the step at which it did; a child run is a mark at
the step that started it, since its steps are its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from ..replay import edits_told
from ..replay.forks import RunTree, TreeRun
from ..replay.listing import error_text, how_long
from ..replay.readable import count, readable, visible
from .addresses import run_url
from .rendering import path_url
from .views import MARKS

ROW: Final = 64
"""Height of a run, in pixels."""

WIDTH: Final = 360
"""Width of the picture, and of its margins on either side, in pixels."""
MARGIN: Final = 12

DEEP: Final = 8
"""Runs that are further down are not indented any more."""

VALUE: Final = 100
EDITS: Final = 3
"""Characters of a value, and edits, that are told of a run."""


@dataclass(frozen=True, slots=True)
class Line:
    """A run in the picture: from where to where, and what hangs from it; in pixels, within its own row.

    Attributes:
        left, right: ends of the line; the same of a child run.
        drops: of each run that hangs from it where that is, and how far down. They are drawn first, with the run that
            is above: so they lie below all lines and ends.
    """

    left: float
    right: float
    drops: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A run of the tree.

    Attributes:
        href: its page; empty if it is not in the store.
        where: at which step it parted, or was started.
        edits: what was edited there, in a line.
        ending: how it ended; `is_error` if that is an error.
        note: what else is to be known.
        compare: the page that compares it with the run above it, or empty.
    """

    run: str
    href: str
    kind: str
    depth: int
    agent: str
    status: str
    mark: str
    facts: str
    where: str
    edits: str
    ending: str
    is_error: bool
    note: str
    compare: str
    is_asked: bool
    line: Line


@dataclass(frozen=True, slots=True)
class TreeView:
    """The tree: its rows, how large its picture is, and the steps at which it has a mark, with where they are."""

    rows: tuple[TreeRow, ...]
    summary: str
    width: int
    row_height: int
    marks: tuple[tuple[int, float], ...]


def tree_view(tree: RunTree) -> TreeView:
    """A tree as a picture."""
    last = max([max(run.steps, run.step or 0) for run in tree.runs if run.kind != "child"], default=0) or 1
    lines: dict[str, Line] = {}
    for run in tree.runs:
        lines[run.run] = _line(run, last, lines.get(run.above or ""))
    drops: dict[str, list[tuple[float, int]]] = {}
    places = {run.run: at for at, run in enumerate(tree.runs)}
    for at, run in enumerate(tree.runs):
        if run.above in places:
            drops.setdefault(run.above, []).append((lines[run.run].left, (at - places[run.above]) * ROW))
    rows = []
    for run in tree.runs:
        line = replace(lines[run.run], drops=tuple(drops.get(run.run, ())))
        rows.append(_row(run, line, is_asked=run.run == tree.run))
    kinds = [run.kind for run in tree.runs]
    told = [count(len(kinds), "run"), count(kinds.count("fork"), "fork"), count(kinds.count("child"), "child run")]
    steps = sorted({0, last // 2, last})
    return TreeView(tuple(rows), ", ".join(told), WIDTH, ROW, tuple([(step, _x(step, last)) for step in steps]))


def _x(step: float, last: int) -> float:
    return round(MARGIN + step / last * (WIDTH - 2 * MARGIN), 1)


def _line(run: TreeRun, last: int, above: Line | None) -> Line:
    if run.kind == "child":
        start = _x(run.step or 0, last) if above is None or above.left != above.right else above.left
        return Line(start, start)
    start = _x(0 if run.kind == "root" else max((run.step or 1) - 1, 0), last)
    return Line(start, max(_x(run.steps, last), start))


def _row(run: TreeRun, line: Line, *, is_asked: bool) -> TreeRow:
    is_here = run.status != "missing"
    facts = [count(run.steps, "step"), how_long(run.duration)] if is_here else []
    return TreeRow(
        visible(run.run),
        run_url(run.run) if is_here else "",
        run.kind,
        min(run.depth, DEEP),
        run.agent,
        run.status,
        MARKS.get(run.status, "●"),
        " · ".join(filter(None, facts)),
        _where(run),
        _edits(run),
        _ending(run),
        run.error is not None,
        run.note or "",
        path_url("compare", run.above, run.run) if run.kind == "fork" and is_here and run.above else "",
        is_asked,
        line,
    )


def _where(run: TreeRun) -> str:
    if run.kind == "root":
        return ""
    if run.step is None:
        return "at a step that is not known"
    return f"from step {run.step}" if run.kind == "fork" else f"started in step {run.step}"


def _edits(run: TreeRun) -> str:
    more = [f"{len(run.edits) - EDITS} more"] if len(run.edits) > EDITS else []
    return "; ".join([*[edit_in_words(edit) for edit in run.edits[:EDITS]], *more])


def edit_in_words(edit: Any) -> str:
    """An edit of a re-run: `set /order/total 129.5`."""
    return edits_told.edit_in_words(edit, VALUE)


def _ending(run: TreeRun) -> str:
    if run.error is not None:
        return visible(error_text(run.error)[: 2 * VALUE])
    if run.value is not None:
        return readable(run.value, VALUE)
    return visible(run.said[: 2 * VALUE]) if run.said else ""
