"""What a page shows of a watched expression: a chart below the picture of the run, the value at a step, its changes.

The chart has the columns of the picture, so what is above each other happened at the same time. Numbers are bars; other
values are bands with a letter for each, where there is room, as in the terminal; where there is no value, there is
nothing. Of several steps in a column that is drawn which is furthest from the column before, so no peak is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..recorder.errors import UsageError
from ..recorder.store import RunInfo
from ..replay.readable import count, readable, visible
from .addresses import blame_url, step_url
from .rendering import query
from .views import COLUMNS
from .watching import Seen, Watching

HEIGHT: Final = 24
LEAST: Final = 2
"""Height of the chart, and of the bar of its least value, in pixels."""

LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
OTHERS: Final = "*"
"""Names of values in a chart, in order of their first step, and of those after the 26th."""

TINTS: Final = 4
"""Kinds of bands, by turns; which value a band is says its letter and its title."""

WIDE: Final = 2.5
"""Per cent of the chart that a band is wide, at least, in which there is a letter."""

LISTED: Final = 60
"""Changes that are listed: half of them up to the chosen step, half behind it."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar or a band: where it begins and how wide it is, in per cent; what is its height, its letter, its title."""

    x: float
    width: float
    y: float = 0.0
    height: float = float(HEIGHT)
    letter: str = ""
    tint: int = 0
    title: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: of numbers, or of other values; `scale` says between which values its bars are."""

    bars: tuple[Bar, ...]
    is_numeric: bool
    scale: str = ""


@dataclass(frozen=True, slots=True)
class ChangeOf:
    """A step in which a watched value became another: its number, the value, whether there is none, and addresses."""

    step: int
    shown: str
    is_missing: bool
    href: str
    blame: str
    is_chosen: bool


def chart_of(seen: Sequence[Seen], steps: int) -> Chart:
    """The chart of what an expression came to.

    Args:
        seen: the spans, from step 0 on.
        steps: of the run, the start counted.
    """
    columns = min(steps, COLUMNS)
    numbers = [span.number for span in seen if span.number is not None]
    is_numeric = bool(numbers) and all(span.number is not None or span.is_missing for span in seen)
    drawn = _joined(_columns(seen, steps, columns, is_numeric=is_numeric))
    width = 100 / max(columns, 1)
    if not is_numeric:
        names: dict[str, int] = {}
        for span in seen:
            if not span.is_missing:
                names.setdefault(span.key, len(names))
        bands = [
            _band(span, names[span.key], start * width, (end - start) * width)
            for start, end, span in drawn
            if not span.is_missing
        ]
        return Chart(tuple(bands), is_numeric=False)
    low, high = min(numbers), max(numbers)
    bars = []
    for start, end, span in drawn:
        if span.number is not None:
            share = (span.number - low) / (high - low) if high > low else 0.5
            height = round(LEAST + share * (HEIGHT - LEAST), 1)
            bars.append(Bar(start * width, (end - start) * width, HEIGHT - height, height, title=_title(span)))
    least, most = (next(span.shown for span in seen if span.number == limit) for limit in (low, high))
    return Chart(tuple(bars), is_numeric=True, scale=least if low == high else f"{least} to {most}")


def _band(span: Seen, place: int, x: float, width: float) -> Bar:
    letter = LETTERS[place] if place < len(LETTERS) else OTHERS
    return Bar(x, width, letter=letter if width >= WIDE else "", tint=place % TINTS, title=_title(span, letter))


def _title(span: Seen, letter: str = "") -> str:
    steps = f"step {span.first}" if span.first == span.last else f"steps {span.first} to {span.last}"
    return f"{steps}: {letter and f'{letter}, '}{span.shown}"


def _columns(seen: Sequence[Seen], steps: int, columns: int, *, is_numeric: bool) -> Iterator[Seen]:
    """Of each column the span that is drawn in it; ends where there are no more."""
    place, before = 0, None
    for column in range(columns):
        start, end = column * steps // columns, (column + 1) * steps // columns
        within = []
        while place < len(seen) and seen[place].first < end:
            within.append(seen[place])
            if seen[place].last >= end:
                break
            place += 1
        within = [span for span in within if span.last >= start]
        if not within:
            return
        before = max(reversed(within), key=lambda span: _distance(span, before, is_numeric=is_numeric))
        yield before


def _distance(span: Seen, before: Seen | None, *, is_numeric: bool) -> float:
    if before is None:
        return 0.0
    if is_numeric and span.number is not None and before.number is not None:
        return abs(span.number - before.number)
    return 0.0 if span.key == before.key else float("inf") if is_numeric else 1.0


def _joined(columns: Iterator[Seen]) -> Iterator[tuple[int, int, Seen]]:
    """Neighbouring columns of the same value as one: its first column, the one behind it, what is drawn."""
    start, held = 0, None
    at = 0
    for at, span in enumerate(columns, 1):
        if held is not None and held.key != span.key:
            yield start, at - 1, held
            start = at - 1
            held = span
        held = span if held is None else held
    if held is not None:
        yield start, at, held


# -- what the template is given ---------------------------------------------------------------------------------------


def nothing_watched(text: str = "", error: str = "") -> dict[str, Any]:
    """The context where nothing is watched, or nothing can be."""
    return {"watch": text, "watch_error": error, "watched": None}


def watch_context(
    info: RunInfo,
    step: int,
    text: str,
    look: Callable[[RunInfo, str, float | None], Watching],
    seconds: float | None,
    last: int,
) -> dict[str, Any]:
    """What the template of a watched expression is given.

    Args:
        info, step: the run, and the chosen step.
        text: the expression.
        look: goes on with looking.
        seconds: for how long; None not to look.
        last: the last step of the run.
    """
    if not text:
        return nothing_watched()
    try:
        found = look(info, text, seconds)
    except UsageError as error:
        return nothing_watched(text, str(error))
    if found.error:
        return nothing_watched(text, found.error)
    seen = list(found.seen)
    place = found.place_of(step)
    here = seen[place] if place is not None and place < len(seen) else None
    changed = max(len(seen) - 1, 0)
    earlier = _before(seen, place, step)
    later = next((span.first for span in seen[(place or 0) + 1 :][:1]), None) if place is not None else None

    def url(at: int) -> str:
        return step_url(info.id, at) + query(watch=text)

    return {
        "watch": text,
        "watch_error": "",
        "watched": {
            "chart": chart_of(seen, max(last + 1, 1)),
            "here": here,
            "step": step,
            "steps": last,
            "is_over": found.is_over,
            "until": max(found.step, 0),
            "problem": found.problem,
            "changed": f"changed in {changed:,} of {count(last if found.is_over else max(found.step, 0), 'step')}",
            "earlier": None if earlier is None else (earlier, url(earlier)),
            "later": None if later is None else (later, url(later)),
            "changes": list(_listed(seen, place or 0, step, url, _blamed(info, found))),
            "left_out": max(changed - LISTED, 0),
            "heard": f"{visible(text[:60])}: {'nothing' if here is None or here.is_missing else here.shown}",
            "label": _label(text, seen),
        },
    }


def _before(seen: Sequence[Seen], place: int | None, step: int) -> int | None:
    """The last step before the chosen one in which the value changed."""
    if place is None or place >= len(seen):
        return None
    if seen[place].first < step and place:
        return seen[place].first
    return seen[place - 1].first if place > 1 else None


def _blamed(info: RunInfo, found: Watching) -> Callable[[int], str]:
    path = found.path
    return lambda step: "" if path is None else blame_url(info.id, step, path)


def _listed(
    seen: Sequence[Seen], place: int, step: int, url: Callable[[int], str], blame: Callable[[int], str]
) -> Iterator[ChangeOf]:
    """The changes around the chosen step."""
    start = max(min(place - LISTED // 2, len(seen) - LISTED), 1)
    for span in seen[start : start + LISTED]:
        blamed = "" if span.is_missing else blame(span.first)
        shown = span.problem or span.shown
        yield ChangeOf(span.first, shown, span.is_missing, url(span.first), blamed, span.first == step)


def _label(text: str, seen: Sequence[Seen]) -> str:
    """The chart in words."""
    told = [f"step {span.first} {'nothing' if span.is_missing else span.shown}" for span in seen[:8]]
    more = f", and {count(len(seen) - 8, 'more change')}" if len(seen) > 8 else ""
    return f"{readable(text, 100)} over the steps: {', '.join(told)}{more}"
