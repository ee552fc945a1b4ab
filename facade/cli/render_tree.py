"""A tree of runs on a terminal: what each came from, what was edited, and how it ended."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from ..replay.forks import RunTree, TreeRun
from ..replay.readable import count, readable, visible
from .output import name_of, one_line, write_table
from .render_runs import error_text
from .render_steps import edit_text
from .runs import STATUS_STYLES

VALUE = 60
"""Characters of an edited value, and of what a run came to, that are shown."""


def render_tree(page: Console, tree: RunTree) -> None:
    """Write a tree of runs; the one that was asked for is marked."""
    branches: list[Tree] = []
    for one in tree.runs:
        label = _label(one, is_asked=one.run == tree.run)
        del branches[one.depth :]
        branches.append(branches[-1].add(label) if branches else Tree(label, guide_style="dim"))
    write_table(page, branches[0])


def _label(one: TreeRun, *, is_asked: bool) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    if one.kind != "root":
        step = "somewhere" if one.step is None else f"step {one.step}"
        line.append(f"{step}  ", "dim")
    if one.kind == "child":
        line.append("↳ ", "dim")
    line.append(visible(one.run), "bold reverse" if is_asked else "bold")
    if one.agent and one.kind != "fork":
        line.append(f"  {name_of(one.agent)}")
    if one.kind == "fork":
        edits = "; ".join([edit_text(edit, VALUE) for edit in one.edits]) or "nothing edited"
        line.append(f"  {edits}", "magenta")
    line.append(f"  {visible(one.status)}", STATUS_STYLES.get(one.status, "yellow"))
    if one.status != "missing":
        line.append(f"  {count(one.steps, 'step')}", "dim")
    ending = _ending(one)
    if ending:
        line.append(f"  {ending}", "red" if one.error is not None else "italic")
    if one.note:
        line.append(f"  {one_line(one.note, 200)}", "yellow")
    if is_asked:
        line.append("  (this run)", "dim")
    return line


def _ending(one: TreeRun) -> str:
    if one.error is not None:
        return one_line(error_text(one.error), VALUE)
    if one.value is not None:
        return readable(one.value, VALUE)
    return one_line(one.said, VALUE) if one.said else ""
