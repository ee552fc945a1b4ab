"""What templates show of runs: pure functions from what was recorded to rows of words and numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..recorder.store import RunInfo
from ..replay.listing import Names, standing, when

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


def run_row(info: RunInfo, names: Names, error: str = "", tokens: int | None = None) -> RunRow:
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


def any_live(rows: Iterable[RunRow]) -> bool:
    """Whether any of the runs goes on."""
    return any(row.is_live for row in rows)
