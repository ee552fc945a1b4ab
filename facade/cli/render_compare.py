"""Two runs on a terminal: their steps in two columns, and below them where they part first.

run1  refunds  failed     10 steps
run3  refunds  completed  10 steps  fork of run1

    run1                  run3
      … steps 1 to 4 are shared
      5  Sub-Agent  ask   5  Sub-Agent  ask
      6  Retry      ask   6  Retry      ask
>     7  Retry      ask   7  Retry      ask   given, calls, decision, payload
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from ..recorder.store import RunInfo
from ..replay.compare import RunComparison, StepPair
from ..replay.excerpt import Skipped, excerpt
from ..replay.readable import count, visible
from ..replay.run_difference import RunDifference
from ..replay.step_prints import StepPrint
from .hints import command
from .output import one_line, write, write_commands
from .render_divergence import render_difference
from .runs import status_of

CONTEXT: Final = 2
"""Steps that are the same which are shown on either side of one that is not."""

PAIRS: Final = 40
"""Steps after the first difference that are shown, unless all are."""

CALLS: Final = 30
"""Columns that the calls of a step take."""

MARKS: Final = {"same": ("=", "dim"), "payload": ("~", "yellow"), "differs": ("≠", "yellow"), "missing": ("-", "red"),
                "extra": ("+", "green")}  # fmt: skip
"""What stands before a pair of steps."""

_RELATIONS: Final = {
    "fork": "fork of {0}",
    "parent": "{0} is a fork of it",
    "forks": "forked from the same run as {0}",
    "none": "",
    "same": "the same run",
}


def render_comparison(page: Console, found: RunComparison, *, full: bool) -> None:
    """Write a comparison.

    Args:
        page: where to.
        found: what to write.
        full: write every step, and every value whole.
    """
    old, new = found.runs
    width = max(len(info.id) for info in found.runs)
    _run(page, old, width, "")
    _run(page, new, width, _RELATIONS[found.relation].format(old.id))
    write(page)
    if found.relation != "same":
        _Columns(page, found, full=full).write()
        write(page)
    if found.is_same:
        write(page, ("No step differs.", "bold green"))
        return
    first, *also = found.differences
    render_difference(page, first, full=full)
    for difference in also:
        _also(page, difference)
    write(page)
    _counts(page, found)
    _next(page, found, first)


def _run(page: Console, info: RunInfo, width: int, relation: str) -> None:
    agent, steps = (visible(info.agent), "bold"), count(info.steps, "step")
    write(page, (f"{info.id:{width}}", "bold"), "  ", agent, "  ", status_of(info), f"  {steps}  ", (relation, "dim"))


def _also(page: Console, difference: RunDifference) -> None:
    where = f"  {difference.where}" if difference.where else ""
    write(page, ("also  ", "dim"), difference.headline, (where, "cyan"), ("  " + one_line(difference.what, 160), "dim"))


def _counts(page: Console, found: RunComparison) -> None:
    words = {
        "same": "the same",
        "payload": "the same on another payload",
        "differs": "different",
        "missing": f"only in {found.runs[0].id}",
        "extra": f"only in {found.runs[1].id}",
    }
    told = [f"{number:,} {words[status]}" for status, number in found.counts.items() if number]
    write(page, ("steps  ", "bold"), ", ".join(told))


def _next(page: Console, found: RunComparison, first: RunDifference) -> None:
    old, new = found.runs
    commands = {}
    if first.step2 is not None and first.step2 == first.step and "payload" in found.pairs[found.first or 0].differs:
        commands[command(f"diff {old.id} {new.id} --step {first.step}")] = "the payloads after that step"
    if first.effect == "agent" and first.call and first.call2:
        commands[command(f"compare {first.call} {first.call2}")] = "the two child runs"
    step = first.step if first.kind != "extra step" else None
    if step is not None:
        commands[command(f"show {old.id} --step {step}")] = f"what {old.id} did there"
    if first.step2 is not None:
        commands[command(f"show {new.id} --step {first.step2}")] = f"what {new.id} did there"
    write(page)
    write_commands(page, commands)


class _Columns:
    """Writes the steps of two runs side by side."""

    def __init__(self, page: Console, found: RunComparison, *, full: bool) -> None:
        self._page, self._found, self._full = page, found, full
        self._before = found.shared_steps(found.shared or 0 if full else CONTEXT)
        last = [step.step for pair in found.pairs for step in (pair.old, pair.new) if step is not None]
        self._digits = len(str(max(last, default=found.shared or 0)))
        steps = [step for pair in found.pairs for step in (pair.old, pair.new) if step is not None]
        self._word = max([cell_len(_word(step)) for step in (*steps, *self._before)], default=5)
        calls = [cell_len(_calls(step)) for step in (*steps, *self._before)]
        self._calls = min(max(calls, default=0), CALLS)

    def write(self) -> None:
        """Write a headline, and the steps; those that are the same only near to others, unless all are wanted."""
        found = self._found
        titles = [self._fitted(f"{'':{self._digits}}  {info.id}") for info in found.runs]
        write(self._page, "   ", (titles[0], "bold"), "   ", (titles[1].rstrip(), "bold"))
        left_out = (found.shared or 0) - len(self._before)
        if left_out > 0:
            self._gap(f"steps 1 to {left_out:,} are shared" if left_out > 1 else "step 1 is shared")
        for step in self._before:
            self._line(("=", "dim"), step, step, "shared")
        pieces = excerpt(found.pairs, found.first, context=CONTEXT, most=PAIRS, full=self._full)
        for piece in pieces:
            if isinstance(piece, Skipped):
                self._gap(f"{piece}: --full shows all" if piece.different else str(piece))
            else:
                at, pair = piece
                self._pair(pair, is_first=at == found.first)

    def _gap(self, text: str) -> None:
        write(self._page, f"   {'':{self._digits}}  ", (f"… {text}", "dim"))

    def _pair(self, pair: StepPair, *, is_first: bool) -> None:
        mark = (">", "bold red") if is_first else MARKS[pair.status]
        self._line(mark, pair.old, pair.new, ", ".join(pair.differs), is_first=is_first)

    def _line(
        self, mark: tuple[str, str], old: StepPrint | None, new: StepPrint | None, told: str, *, is_first: bool = False
    ) -> None:
        style = "bold" if is_first else "dim" if mark[0] == "=" else ""
        cells = [self._fitted("" if step is None else self._cell(step)) for step in (old, new)]
        line = Text.assemble((mark[0], mark[1]), "  ", (cells[0], style), "   ", (cells[1], style), "   ")
        room = max(
            self._page.width - line.cell_len, 0
        )  # a pair of steps is a line, also where a terminal would break it
        write(self._page, line, (one_line(told, room) if room > 3 else "", "dim"))

    def _cell(self, step: StepPrint) -> str:
        if step.step == 0:
            return f"{0:{self._digits}}  the start"
        return f"{step.step:{self._digits}}  {set_cell_size(_word(step), self._word)}  {_calls(step)}"

    def _fitted(self, text: str) -> str:
        return set_cell_size(text, self._digits + self._word + self._calls + 4)


def _word(step: StepPrint) -> str:
    return one_line(step.word or "–", 20)


def _calls(step: StepPrint) -> str:
    """The names of a step's calls: "ask, search ×3"."""
    names = Counter(call.partition(" ")[2] for call in step.calls)
    told = ", ".join([visible(name[:CALLS]) + (f" ×{number}" if number > 1 else "") for name, number in names.items()])
    return one_line(told, CALLS) if told else ""
