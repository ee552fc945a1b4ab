"""A divergence on a terminal: where, what, how it differs, and what to do next; then what a replay covered.

    step 7, call 7.2: other arguments
      agent.py:123, tool search
      key "limit" of options has another value
    ~ options.limit  5 → 10
    + verbose  true
      next  If this is different each time: --ignore 'tool:search:$.options.limit' …

Changes read from the recording to the code that ran again: `-` and what stands left of an arrow was recorded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from ..replay.changes import MISSING
from ..replay.divergence import Difference
from ..replay.readable import count, visible
from .hints import command
from .output import write
from .render_diff import LIMIT, render_group

CHANGES: Final = 8
"""Changes of one difference that are shown."""

_COMMAND = re.compile(r"`agentreplay ([^`]*)`")
_COVERAGE: Final = {
    "recorded": ("answered from the recording", "green"),
    "live": ("made live", "yellow"),
    "uncaptured": ("never captured", "red"),
    "unused": ("recorded and not asked for", "yellow"),
}


def render_difference(page: Console, difference: Difference, *, full: bool = False) -> None:
    """Write one difference.

    Args:
        page: where to; it decides about colours.
        difference: what to write.
        full: write every change, and every value whole.
    """
    write(page, (difference.headline, "bold red"))
    if difference.where:
        write(page, "  ", (difference.where, "cyan"))
    if difference.what:
        write(page, "  ", difference.what)
    limit = None if full else LIMIT
    changes = difference.changes
    if any(change.keys for change in changes):
        shown = changes if full else changes[:CHANGES]
        render_group(None, shown, page, limit=limit)
        if rest := len(changes) - len(shown):
            write(page, (f"  … {count(rest, 'more change')}", "dim"))
    else:  # all of it is another one, and so has no path
        for sign, style, value, text in zip(
            "-+", ("red", "green"), (difference.expected, difference.actual), difference.shown(limit), strict=True
        ):
            if value is not MISSING:
                write(page, (f"{sign} {text}", style))
    if difference.nearest is not None and difference.nearest.call != difference.call:
        write(page, ("  nearest  ", "dim"), str(difference.nearest))
    if difference.hint:
        write(page, ("  next  ", "dim"), to_type(difference.hint))


def render_differences(page: Console, differences: Sequence[Difference], *, full: bool = False) -> None:
    """Write differences in their order, and if there are several how many. Arguments as for `render_difference`."""
    for difference in differences:
        render_difference(page, difference, full=full)
        write(page)
    if len(differences) > 1:
        write(page, (count(len(differences), "difference"), "bold"))


def render_coverage(
    page: Console, coverage: Mapping[str, int], notes: Sequence[str] = (), *, unused_rules: Sequence[str] = ()
) -> None:
    """Write what a replay covered.

    Args:
        page: where to.
        coverage: `{recorded, live, uncaptured, unused}`: how many effects there were of each.
        notes: what else is to be said of it.
        unused_rules: ignore rules that matched nothing.
    """
    line = Text("coverage  ", style="bold")
    for at, (name, (words, style)) in enumerate(_COVERAGE.items()):
        number = coverage[name]
        line.append(" · " if at else "", style="not bold dim")
        line.append(f"{number:,} {words}", style=f"not bold {style if number else 'dim'}")
    write(page, line)
    rules = [f"the ignore rule {rule} matched nothing" for rule in unused_rules]
    for note in (*notes, *rules):
        write(page, ("  note  ", "yellow"), visible(note))


def to_type(hint: str) -> str:
    """A hint whose commands work where it is shown: with this program, in this store."""
    return _COMMAND.sub(lambda found: f"`{command(found[1])}`", hint)
