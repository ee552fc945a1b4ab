"""Runs as a table: the newest last, where the prompt is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..recorder.store import EventStore, RunInfo
from ..replay.listing import error_text, relation
from ..replay.readable import count, readable, visible
from .hints import command
from .output import NAME, name_of, one_line, write, write_commands, write_table
from .runs import Names, how_long, status_of, step_to_look_at, when

__all__ = ["error_text", "relation", "render_next", "render_recorded", "render_runs"]

ROOMY: Final = 100
"""Columns that a table of runs takes."""

END: Final = 300
"""Characters of a run's value or error that are shown when it ends."""


def render_runs(page: Console, rows: Sequence[tuple[RunInfo, Sequence[str]]], names: Names, *, total: int) -> None:
    """Write runs as a table, or what to do when there are none.

    Args:
        page: where to.
        rows: the runs to show, in order, and the tags of each.
        names: what runs are called.
        total: of how many runs they are the last.
    """
    if not rows:
        write(page, "There are no runs in this store yet.")
        write_commands(
            page, {command("demo"): "record a small one", command("run agent.py:step"): "record an agent of yours"}
        )
        return
    narrow = page.width < ROOMY
    # Where there is little room, what says least goes first.
    origins = not narrow or any(info.origin != "recorded" for info, _ in rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold dim")
    table.add_column("run", no_wrap=True)
    table.add_column("agent", no_wrap=True, min_width=8)
    table.add_column("status", no_wrap=True)
    table.add_column("steps", justify="right", no_wrap=True)
    table.add_column("started", no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True)
    if origins:
        table.add_column("origin", no_wrap=True)
    table.add_column("parent", no_wrap=True)
    tagged = any(tags for _, tags in rows)
    if tagged:
        table.add_column("tags", no_wrap=True)
    for info, tags in rows:
        started = when(info.started)
        cells = [
            Text(info.id, "bold"),
            Text("↳ " if info.parent else "", "dim").append(name_of(info.agent), ""),
            Text(*status_of(info, short=narrow)),
            Text(f"{info.steps:,}"),
            Text(started[5:16] if narrow else started),
            Text(how_long(info.duration)),
        ]
        if origins:
            cells.append(Text(name_of(info.origin), "dim" if info.origin == "recorded" else ""))
        cells.append(Text(visible((names.of(info.parent) or "") if narrow else relation(info, names)), "dim"))
        table.add_row(*cells, *([Text(name_of(", ".join(tags), 2 * NAME), "cyan")] if tagged else []))
    write_table(page, table)
    if len(rows) < total:
        write(page, (f"The last {len(rows):,} of {total:,} runs.", "dim"))


def render_recorded(page: Console, store: EventStore, infos: Sequence[RunInfo], *, error_shown: bool) -> None:
    """Write which runs were recorded, how they ended, and what to do next.

    Args:
        page: where to.
        store: where they were recorded.
        infos: the runs.
        error_shown: what the last one failed with is on the screen already.
    """
    for info in infos:
        rounds = count(info.steps, "round")
        write(
            page,
            ("recorded as ", "dim"),
            (info.id, "bold"),
            f"  {visible(info.agent)}  ",
            status_of(info),
            f"  {rounds}" + (f" in {how_long(info.duration)}" if info.duration is not None else ""),
        )
        end = next(iter(store.events(info, after=info.head_seq - 1)), None)
        if end is None or end.kind != "run.finished":
            continue
        if end.data.error is not None and not (error_shown and info is infos[-1]):
            write(page, ("  " + one_line(error_text(end.data.error), END), "red"))
        elif end.data.value is not None:
            write(page, "  " + readable(end.data.value, END))
    render_next(page, store, infos[-1])


def render_next(page: Console, store: EventStore, info: RunInfo) -> None:
    """Write what to do next with a run that was just recorded or imported."""
    commands = {command(f"show {info.id}"): "what it did, round by round"}
    if step := step_to_look_at(store, info):
        commands[command(f"diff {info.id} --step {step}")] = "what a step changed, and why"
    if info.status == "interrupted":
        commands[command(f"resume {info.id} --answer NAME=JSON")] = "go on with the answer that it waits for"
    if info.status == "failed":
        commands[command(f"rerun {info.id} --from-failure --edit")] = "run it again from where it failed, with a change"
    write(page)
    write_commands(page, commands)
