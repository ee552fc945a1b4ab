"""What an expression came to, on a terminal: a chart over the steps, and below it the steps in which it changed.

run1  refunds  failed  order.total

 ·▇▇▇▇▇▁▁▁▁  steps 0 to 10

 0        –
 2        129.5  Actions  “The request names an order.”
 7        77.7   Retry    “The coupon SPRING takes 40 % off the total.”
changed in 2 of 10 steps
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import Console

from ..recorder.store import EventStore, RunInfo
from ..replay.changes import MISSING
from ..replay.outline import entry_of
from ..replay.readable import count, readable, visible
from ..replay.watching import Span, Watched, numbers_of
from .hints import command
from .output import one_line, write, write_commands
from .runs import status_of

BARS: Final = "▁▂▃▄▅▆▇█"
LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
NOTHING: Final = "·"
OTHERS: Final = "*"
"""A value after the 26th."""

COLUMNS: Final = 60
"""Columns of a chart, at most."""

SHOWN: Final = 40
"""So many changes are shown unless all are: the first half of them and the last."""

VALUE: Final = 60
REASON: Final = 100
"""Characters of a value and of a reason that are shown."""


def render_watched(page: Console, store: EventStore, info: RunInfo, told: Watched, *, full: bool) -> None:
    """Write what an expression came to.

    Args:
        page: where to.
        store, info: the run.
        told: what it came to.
        full: write long values whole, and every change.
    """
    shown = (visible(told.expression), "bold cyan")
    write(page, (info.id, "bold"), "  ", (visible(info.agent), "bold"), "  ", status_of(info), "  ", shown)
    write(page)
    steps = "step 0" if told.last == 0 else f"steps 0 to {told.last}"
    write(page, " ", (chart(told), "cyan"), (f"  {steps}{_scale(told)}", "dim"))
    write(page)
    _spans(page, store, info, told, full=full)
    changed = len(told.changed)
    write(page, (f"changed in {changed:,} of {count(told.last, 'step')}" if told.last else "no step yet", "bold"))
    if told.path is not None and changed:
        write(page)
        step = told.changed[-1]
        path = shlex.quote(told.path)
        write_commands(
            page,
            {
                command(f"blame {info.id} {path}"): "what changed it, and why",
                command(f"diff {info.id} --step {step}"): "what else the last of these steps did",
            },
        )


def chart(told: Watched) -> str:
    """A column for each step, or for some: bars if all values are numbers, else a letter for each value."""
    values = told.values()
    numbers = list(numbers_of(values))
    is_numeric = all(value is MISSING or number is not None for value, number in zip(values, numbers, strict=True))
    present = [number for number in numbers if number is not None]
    drawn = _bars(numbers, present) if is_numeric and present else _letters(told)
    return "".join(_columns(drawn))


def _bars(numbers: Sequence[float | None], present: Sequence[float]) -> list[str]:
    low, high = min(present), max(present)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return [NOTHING if number is None else BARS[round((number - low) * scale)] for number in numbers]


def _letters(told: Watched) -> list[str]:
    names: dict[str, str] = {}
    drawn = []
    for span in told.spans:
        letter = NOTHING
        if span.value is not MISSING:
            known = readable(span.value)
            letter = names.setdefault(known, LETTERS[len(names)] if len(names) < len(LETTERS) else OTHERS)
        drawn += [letter] * (span.last - span.first + 1)
    return drawn


def _columns(drawn: Sequence[str]) -> Iterator[str]:
    """As many as there is room for; of several steps what is furthest from the column before, so no peak is lost."""
    wide = min(len(drawn), COLUMNS)
    before = ""
    for column in range(wide):
        steps = drawn[column * len(drawn) // wide : (column + 1) * len(drawn) // wide]
        far = [abs(BARS.find(char) - BARS.find(before)) if char in BARS else int(char != before) for char in steps]
        before = steps[len(far) - 1 - far[::-1].index(max(far))]
        yield before


def _scale(told: Watched) -> str:
    """Between what the bars lie."""
    present = [span.value for span in told.spans if span.value is not MISSING]
    numbers = [number for number in numbers_of(present) if number is not None]
    if not numbers or len(numbers) < len(present):
        return ""
    low, high = (readable(present[numbers.index(pick(numbers))], VALUE) for pick in (min, max))
    return f", {low} to {high}" if low != high else f", {low}"


def _spans(page: Console, store: EventStore, info: RunInfo, told: Watched, *, full: bool) -> None:
    spans: Sequence[Span] = told.spans
    left_out = 0
    if not full and len(spans) > SHOWN:
        left_out = len(spans) - SHOWN
        spans = [*spans[: SHOWN // 2], *spans[-SHOWN // 2 :]]
    decided = _decisions(store, info, {span.first for span in spans})
    values = [_value(span, full=full) for span in spans]
    width = min(max(len(text) for text, _ in values), VALUE)
    number = len(str(told.last))
    for at, (span, (text, style)) in enumerate(zip(spans, values, strict=True)):
        if left_out and at == SHOWN // 2:
            write(page, (f" {'':{number}}  … {count(left_out, 'more change')}; --full writes all", "dim"))
        word, reasoning = decided.get(span.first, ("", ""))
        told_why = f"  {word:11}  “{one_line(reasoning, REASON)}”" if reasoning else f"  {word}"
        write(page, (f" {span.first:{number}}", "bold"), "  ", (f"{text:{width}}", style), (told_why.rstrip(), "dim"))


def _value(span: Span, *, full: bool) -> tuple[str, str]:
    if span.problem is not None:
        return f"– {one_line(span.problem, VALUE)}", "dim"
    if span.value is MISSING:
        return "–", "dim"
    return readable(span.value, None if full else VALUE), ""


def _decisions(store: EventStore, info: RunInfo, steps: set[int]) -> dict[int, tuple[str, str]]:
    """What these steps decided, and why."""
    decided: dict[int, tuple[str, str]] = {}
    for row in store.rows(info):
        if row.kind == "step.decided" and row.round in steps:
            entry: Any = entry_of(row.round, [store.decode(info, row)])
            decided[row.round] = (visible(entry.word or ""), entry.reasoning or "")
    return decided


__all__ = ["chart", "render_watched"]
