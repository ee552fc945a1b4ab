"""What templates show of runs and their steps in lists: pure functions from what was recorded to rows."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..recorder.store import RunInfo
from ..replay.listing import Names, how_long, standing, when
from ..replay.outline import CallEntry, ChildEntry, RoundEntry
from ..replay.readable import count, visible
from .run_query import term
from .usage import tokens_in

MARKS: Final = {
    "running": "●",
    "completed": "✓",
    "failed": "✕",
    "crashed": "✕",
    "cancelled": "⊘",
    "interrupted": "?",
    "silent": "…",
    "partial": "◐",
}
"""A sign for each standing of a run, beside its colour."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in a list.

    Attributes:
        standing: one word; see `replay.listing.standing`.
        status: the standing as it is shown, with the time since when a run is silent.
        error: what it failed with, or empty.
        cost: of its model calls, if it is known.
        tags: its tags, and how each is typed to find the runs that have it.
        kin: whose child or fork it is ("child of", "fork of"), and that run's name.
        is_live: whether it goes on, as far as is known.
    """

    id: str
    uid: str
    agent: str
    standing: str
    status: str
    mark: str
    steps: int
    duration: float | None
    tokens: int | None
    started: int
    error: str = ""
    kin: tuple[str, str] | None = None
    origin: str = "recorded"
    is_live: bool = False
    cost: float | None = None
    tags: tuple[tuple[str, str], ...] = ()


def run_row(
    info: RunInfo,
    names: Names,
    error: str = "",
    tokens: int | None = None,
    cost: float | None = None,
    tags: Iterable[str] = (),
) -> RunRow:
    """What a list says of a run."""
    word = standing(info)
    status = f"silent since {when(info.silent_since)}" if info.silent_since is not None else word
    return RunRow(
        id=info.id,
        uid=info.uid,
        agent=info.agent,
        standing=word,
        status=status,
        mark=MARKS.get(word, "●"),
        steps=info.steps,
        duration=info.duration,
        tokens=tokens,
        started=info.started,
        error=error,
        kin=_kin(info, names),
        origin=info.origin,
        is_live=info.is_live,
        cost=cost,
        tags=tuple([(tag, term(tag)) for tag in tags]),
    )


def _kin(info: RunInfo, names: Names) -> tuple[str, str] | None:
    if info.parent:
        return "child of", names.of(info.parent) or info.parent
    if info.fork_of:
        return "fork of", names.of(info.fork_of) or info.fork_of
    return None


def short_number(number: int) -> str:
    """A number of which only the size matters: `812`, `5.1k`, `2.3M`."""
    if number < 1000:
        return str(number)
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size * 0.99995:
            return f"{number / size:.1f}{letter}"
    return str(number)


def short_cost(cost: float) -> str:
    """A cost, to the cent, or where it is small, to what can be told: `12.40`, `0.0031`."""
    if 0 < abs(cost) < 0.000_05:
        return "< 0.0001"
    return f"{cost:,.2f}" if abs(cost) >= 0.999_95 or cost == 0 else f"{cost:.4f}".rstrip("0")


# -- steps ----------------------------------------------------------------------------------------------------------

DOTS: Final = 8
"""Calls of a step that have a dot in the list; of more the number is told."""

BAR: Final = 60
"""Width of the bar that tells how long a step took, in pixels."""


class Dot(NamedTuple):
    """A call in a list of steps: its sign, its status, and what it was."""

    sign: str
    status: str
    title: str


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step in the list of steps.

    Attributes:
        word: what was decided.
        standing: failed, complete, running, damaged or empty.
        dots: its calls; `more_calls` are those without a dot.
        changes: of the payload; None where they are not counted yet.
        bar: how long it took, of `BAR` pixels.
        said: why, in a line.
        label: the row, for who hears it.
    """

    step: int
    word: str
    standing: str
    dots: tuple[Dot, ...]
    more_calls: int
    changes: int | None
    duration: float | None
    bar: int
    tokens: int | None
    warned: bool
    said: str
    label: str


SIGN_OF_CALL: Final = {"returned": "●", "failed": "✕", "cancelled": "⊘", "open": "○"}


def step_rows(
    entries: Iterable[RoundEntry],
    changes: Callable[[int], int | None],
    longest: float,
    damaged: Container[int] = (),
) -> list[StepRow]:
    """The steps as rows.

    Args:
        entries: what they did.
        changes: gives how many changes of the payload a step made; None where that is not known yet.
        longest: seconds of the step whose bar is as wide as bars are.
        damaged: the steps of which not all can be read.
    """
    return [step_row(entry, changes(entry.step), longest, entry.step in damaged) for entry in entries]


def step_row(entry: RoundEntry, changes: int | None, longest: float, is_damaged: bool = False) -> StepRow:
    """A step as a row; see `step_rows`."""
    word = entry.word or ("Start" if entry.step == 0 else "…" if entry.outcome is None else "–")
    standing = "damaged" if is_damaged else _standing_of_step(entry)
    usages = [tokens_in(call.usage) for call in entry.calls if call.usage]
    failed = sum(call.status == "failed" for call in entry.calls)
    heard = [f"step {entry.step}", visible(word[:60]), standing]
    heard += ["changes not counted yet" if changes is None else count(changes, "change")]
    heard += [count(len(entry.calls), "call"), f"{failed} failed" if failed else ""]
    return StepRow(
        step=entry.step,
        word=word,
        standing=standing,
        dots=tuple([_dot(call) for call in entry.calls[:DOTS]]) + tuple([_child_dot(c) for c in entry.children[:DOTS]]),
        more_calls=max(len(entry.calls) - DOTS, 0),
        changes=changes,
        duration=entry.duration,
        bar=bar_of(entry.duration, longest),
        tokens=sum(known for known in usages if known is not None) if any(n is not None for n in usages) else None,
        warned=bool(entry.warnings),
        said=entry.reasoning or "",
        label=", ".join(filter(None, heard)),
    )


def bar_of(duration: float | None, longest: float) -> int:
    """The width of a bar in pixels."""
    if not duration or longest <= 0:
        return 0
    return max(1, min(BAR, round(duration / longest * BAR)))


def _standing_of_step(entry: RoundEntry) -> str:
    if entry.outcome in ("failed", "cancelled", "interrupted", "complete"):
        return entry.outcome
    return "running" if entry.outcome is None and entry.step > 0 else ""


def _dot(call: CallEntry) -> Dot:
    took = f", {how_long(call.duration)}" if call.duration is not None else ""
    return Dot(
        SIGN_OF_CALL.get(call.status, "●"),
        f"{call.status} of-{call.kind}",
        f"{call.kind} {visible(call.name[:80])}: {call.status}{took}",
    )


def _child_dot(child: ChildEntry) -> Dot:
    return Dot("◆", f"{child.status} of-child", f"child run of {visible(child.name[:80])}: {child.status}")


# -- the run as a whole ---------------------------------------------------------------------------------------------

COLUMNS: Final = 240
"""Columns of the picture of a run, at most: each stands for one step, or for some."""

HEIGHT: Final = 24


@dataclass(frozen=True, slots=True)
class Picture:
    """A run as a picture: a bar for time in each column, a line for the size of the payload, a mark where it failed.

    Attributes:
        columns: how many; the picture is so many units wide.
        bars: (column, height) of each.
        line: points of the line for the size of the payload, as SVG has them; empty if it never changes.
        failures: columns in which something failed.
        steps: the last step in the picture; the first is 0.
        least, most: sizes of the payload, in bytes.
    """

    columns: int
    bars: tuple[tuple[int, int], ...]
    line: str
    failures: tuple[int, ...]
    steps: int
    least: int
    most: int


def picture_of(durations: Sequence[float], sizes: Sequence[int], failed: Sequence[int]) -> Picture | None:
    """The picture of a run, by numbers for each step from step 0 on; None without steps."""
    steps = min(len(durations), len(sizes), len(failed))
    if steps < 2:
        return None
    columns = min(steps, COLUMNS)
    edges = [column * steps // columns for column in range(columns + 1)]
    spans = [range(edges[column], edges[column + 1]) for column in range(columns)]
    times = [max(durations[step] for step in span) for span in spans]
    weights = [max(sizes[step] for step in span) for span in spans]
    longest, least, most = max(times), min(weights), max(weights)
    bars = [(at, max(1, round(time / longest * HEIGHT))) for at, time in enumerate(times) if time > 0]
    line = ""
    if most > least:
        heights = [HEIGHT - 2 - (weight - least) / (most - least) * (HEIGHT - 4) for weight in weights]
        line = " ".join([f"{column + 0.5},{height:.1f}" for column, height in enumerate(heights)])
    failures = [column for column, span in enumerate(spans) if any(failed[step] for step in span)]
    return Picture(columns, tuple(bars), line, tuple(failures), steps - 1, least, most)
