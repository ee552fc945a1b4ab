"""A difference on a terminal: what was decided and done in between, then the changes under their causes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rich.console import Console

from ..recorder.store import RunInfo
from ..replay.changes import Change
from ..replay.outline import entry_of
from ..replay.readable import count, visible
from .output import one_line, write
from .render_diff import LIMIT, render_changes
from .render_steps import TEXT, RunPage
from .runs import Names, status_of

if TYPE_CHECKING:
    from .diff import Difference


MANY_STEPS: Final = 12
"""Of more steps than this the decisions are not listed."""


def render_difference(page: Console, difference: Difference, names: Names, *, full: bool) -> None:
    """Write a difference.

    Args:
        page: where to.
        difference: what to write.
        names: what runs are called.
        full: write every value whole.
    """
    (old, start), (new, stop) = difference.old, difference.new
    changes: list[Change] = list(difference.changes)
    if old.uid != new.uid:
        _heading(page, old, f"step {start}")
        _heading(page, new, f"step {stop}")
        changes = [_naming_run(*pair) for pair in zip(changes, difference.cause_runs, strict=True)]
    elif stop - start == 1:
        _heading(page, new, f"step {stop}")
        write(page)
        RunPage(page, names, width=len(str(stop)), full=True, detail=LIMIT).round(entry_of(stop, difference.entered))
    else:
        _heading(page, new, f"from step {start} to step {stop}")
        _decisions(page, difference)
        for event, warning in difference.warnings:
            write(page, (f"! event {event.seq}: {one_line(warning, 400)}", "yellow"))
    write(page)
    render_changes(changes, page, limit=None if full else LIMIT)


def _heading(page: Console, info: RunInfo, steps: str) -> None:
    agent = (visible(info.agent), "bold")
    write(page, (info.id, "bold"), "  ", agent, "  ", status_of(info), "  ", (steps, "bold"))


def _decisions(page: Console, difference: Difference) -> None:
    decided = {event.round: event for event in difference.entered if event.kind == "step.decided"}
    if len(decided) > MANY_STEPS:
        write(page, (f"{count(len(decided), 'step')} in between", "dim"))
        return
    for step, event in decided.items():
        entry = entry_of(step, [event])
        reasoning = f"  “{one_line(entry.reasoning, TEXT)}”" if entry.reasoning else ""
        write(page, (f"{step:>3}  ", "bold"), f"{visible(entry.word or '–'):11}", (reasoning, "italic"))


def _naming_run(change: Change, info: RunInfo) -> Change:
    """The change, its cause saying of which run it is an event."""
    if change.cause is None:
        return change
    why = f"{info.id}: {change.cause.why}" if change.cause.why else info.id
    return replace(change, cause=replace(change.cause, why=why))
