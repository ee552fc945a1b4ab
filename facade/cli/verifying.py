"""`verify`: check runs one after the other, and name what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from ..recorder.errors import CorruptLog
from ..recorder.store import EventStore, RunInfo
from ..recorder.verifying import Problem
from ..replay.readable import count
from .output import console, one_line, print_json, write
from .progress import progress
from .runs import open_for_reading


def verify_runs(names: Sequence[str], url: str | None, *, as_json: bool) -> bool:
    """Check the runs of these names, or all runs, and write what was found.

    Returns:
        Whether there are problems.

    Raises:
        StoreError: the store cannot be opened.
        RunNotFound: there is no such run.
    """
    store = open_for_reading(url)
    infos, problems = _runs(store, names)
    with progress("verifying") as advance:
        for done, info in enumerate(infos):
            advance(done, len(infos))
            problems += _problems(store, info)
    problems += store.verify_whole() if not names and infos else []
    if as_json:
        rows = [{"run": problem.run or None, "seq": problem.seq, "what": problem.what} for problem in problems]
        print_json({"ok": not problems, "problems": rows})
    else:
        _write(infos, problems)
    return bool(problems)


def _runs(store: EventStore, names: Sequence[str]) -> tuple[list[RunInfo], list[Problem]]:
    try:
        return ([store.run(name) for name in names] if names else store.runs()), []
    except CorruptLog as error:
        return [], [Problem("", None, str(error))]


def _problems(store: EventStore, info: RunInfo) -> list[Problem]:
    try:
        return store.verify(info)
    except CorruptLog as error:
        return [Problem(info.id, error.seq, str(error))]


def _write(infos: Sequence[RunInfo], problems: Sequence[Problem]) -> None:
    page = console()
    for problem in problems:
        place = ", ".join(filter(None, [problem.run, "" if problem.seq is None else f"event {problem.seq}"]))
        write(page, ("✗ ", "bold red"), (place, "bold"), ": " if place else "", one_line(problem.what, 2_000))
    events = sum(info.head_seq + 1 for info in infos)
    checked = f"{count(len(infos), 'run')}, {count(events, 'event')}"
    if problems:
        runs = {problem.run for problem in problems}
        write(page, (f"{count(len(problems), 'problem')} in {len(runs)} of {checked}", "bold red"))
    else:
        write(page, ("✓ ", "green"), f"{checked}: nothing was changed, lost or cut off")
