"""`agentreplay replay` of files, and of several recordings: a table, a report, and one exit code for all.

Files need no store, and none is made. One file by itself is shown as a run is.
"""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from ..recorder.errors import Divergence, UsageError
from ..recorder.locate import find_store
from ..replay.cassette_file import open_cassette
from ..replay.course import Course
from ..replay.ignoring import IgnoreRules
from ..replay.readable import count, visible
from ..replay.replayer import App, ReplayResult, course_for, result_of
from ..replay.testing import named
from .apps import HOW, choose, of_the_project
from .executing import executed
from .group import DATA, DIFFERENCE
from .hints import command
from .junit import write_junit
from .output import console, name_of, print_json, write
from .progress import progress
from .render_divergence import render_coverage, render_differences
from .replay_jobs import NOTHING_CAPTURED, Done, Job, of_file
from .replay_workers import processes, replay_all
from .running import print_error
from .runs import open_for_reading
from .streams import complain

_WILD: Final = "*?["
_RUN: Final = re.compile(r"(?:run)?[1-9][0-9]*|@last")
_STYLES: Final = {"identical": "green", "diverged": "bold red", "error": "bold red", "unreadable": "bold red"}


def is_file(name: str) -> bool:
    """Whether a recording that is named is a file, and no run of a store."""
    if _RUN.fullmatch(name):
        return False
    return os.sep in name or name.endswith(".jsonl") or os.path.exists(name)


def expanded(names: Sequence[str]) -> list[str]:
    """The recordings that are named, with the files that fit a pattern in its place, as a shell gives them.

    Raises:
        UsageError: no file fits a pattern.
    """
    found: list[str] = []
    for name in names:
        if os.path.exists(name) or not any(char in name for char in _WILD):
            found.append(name)
            continue
        fitting = sorted(glob.glob(name, recursive=True))
        if not fitting:
            raise UsageError(f"no file fits {name}; expected recordings that a pattern names, from {os.getcwd()}")
        found += fitting
    return found


def replay_many(
    names: Sequence[str],
    store: str | None,
    *,
    app: str | None,
    ignore: tuple[str, ...],
    collect: bool,
    shallow: bool,
    jobs: int | None,
    timeout: float | None,
    junit_xml: str | None,
    as_json: bool,
) -> int:
    """Replay recordings beside each other; returns the exit code.

    Raises:
        UsageError: an ignore rule cannot be read.
        StoreError: runs are named, and there is no store.
        ExportFailed: the report cannot be written.
    """
    IgnoreRules(ignore)  # which says what is wrong with one, once
    if any(map(is_file, names)):
        _refuse_without_code(app)
    url = None
    if not all(map(is_file, names)):
        open_for_reading(store)
        url = find_store(store)
    given = [Job(name, None if is_file(name) else url, app, ignore, collect, shallow) for name in dict.fromkeys(names)]
    started = time.monotonic()
    results: dict[int, Done] = {}
    with progress("replaying") as told:
        for place, done in replay_all(given, jobs or processes(), timeout):
            results[place] = done
            told(len(results), len(given))
    in_order = [results[place] for place in range(len(given))]
    seconds = time.monotonic() - started
    if junit_xml is not None:
        write_junit(junit_xml, in_order, seconds)
    if as_json:
        print_json([done.to_json() for done in in_order])
    else:
        _render(console(), in_order, seconds)
    verdicts = {done.verdict for done in in_order}
    if verdicts & {"diverged", "error"}:
        return DIFFERENCE
    return DATA if "unreadable" in verdicts else 0


def replay_file(path: str, *, app: str | None, ignore: Sequence[str], collect: bool, shallow: bool, full: bool) -> int:
    """Replay a file by itself; returns the exit code.

    Raises:
        ImportFailed: it cannot be read.
        UsageError: the code cannot be executed against it.
    """
    _refuse_without_code(app)
    cassette = open_cassette(path)
    store, info = cassette.store, cassette.info
    chosen = choose(app, store, info)
    chosen.announce()

    def course(agent: App) -> Course:
        return course_for(info, agent, store, ignore, collect, shallow)

    done = executed(chosen, store, info, course)
    if done.error is not None:
        print_error(done.error)
        return DIFFERENCE
    taken = done.course
    assert taken is not None  # it was loaded
    with named(cassette):
        try:
            result = result_of(taken, done.outcome)
        except Divergence as divergence:
            result = ReplayResult(info.id, "diverged", divergence.differences, taken.counted(), complete=False)
    page = console()
    render_differences(page, [of_file(path, store, info, one) for one in result.divergences], full=full)
    if len(result.divergences) > 1:
        write(page)
    write_row(page, path, info.agent, result.verdict, info.steps)
    render_coverage(page, result.coverage.to_json(), result.coverage.notes, unused_rules=taken.ignore.unused())
    if result.says_nothing:
        complain(f"{path}: {NOTHING_CAPTURED}")
        return DIFFERENCE
    return DIFFERENCE if result.divergences else 0


def _refuse_without_code(app: str | None) -> None:
    if app is None and of_the_project() is None:
        raise UsageError(f"a file never chooses which code is executed. {HOW}")


def write_row(page: Console, name: str, agent: str, verdict: str, rounds: int) -> None:
    """Write what came of a recording by itself."""
    style = _STYLES[verdict]
    told = f"{count(rounds, 'round')} recorded"
    write(page, (visible(name), "bold"), f"  {visible(agent)}  ", (verdict, style), f"  {told}")


def _render(page: Console, results: Sequence[Done], seconds: float) -> None:
    width = max(len(visible(done.job.name)) for done in results)
    agents = max(len(name_of(done.agent)) for done in results)
    for done in results:
        write(
            page,
            (f"{visible(done.job.name):{width}}", "bold"),
            f"  {name_of(done.agent):{agents}}  ",
            (f"{done.verdict:10}", _STYLES[done.verdict]),
            f"  {count(done.rounds, 'round') if done.agent else '':9}  ",
            visible(done.why),
        )
    write(page)
    counts = {verdict: sum(done.verdict == verdict for done in results) for verdict in _STYLES}
    told = ", ".join([f"{number:,} {verdict}" for verdict, number in counts.items() if number])
    write(page, (f"{count(len(results), 'recording')}: {told}", "bold"), f"  in {seconds:.1f} s")
    for rule in _unused_in_all(results):
        write(page, ("  note  ", "yellow"), f"the ignore rule {visible(rule)} matched nothing")
    parted = next((done for done in results if done.verdict == "diverged"), None)
    if parted is not None and len(results) > 1:
        app = f" --app {parted.job.app}" if parted.job.app else ""
        write(page, ("  next  ", "dim"), command(f"replay {parted.job.name}{app}"), ("   shows all of it", "dim"))


def _unused_in_all(results: Sequence[Done]) -> list[str]:
    """The ignore rules that matched nothing in any recording."""
    unused = [set(done.unused_rules) for done in results if done.result is not None]
    return sorted(set.intersection(*unused)) if unused else []
