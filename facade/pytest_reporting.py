"""What pytest shows: a divergence like an assertion that failed, cassettes that were written, and those nobody used."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from _pytest._code.code import (  # pytest offers no other way to show an error of one's own that its workers can send
    ExceptionChainRepr,
    ReprEntry,
    ReprFileLocation,
    ReprTraceback,
)

from .recorder.errors import CassetteDiverged

BEGINS: Final = b'{"agentreplay":"cassette"'
LINES_BEFORE: Final = 3
"""Lines of code that are shown before the one that a divergence is about."""

_RED, _GREEN, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[0m"


# -- failures ----------------------------------------------------------------------------------------------------------


def shown_failure(item: pytest.Item, error: BaseException) -> ExceptionChainRepr:
    """An error of ours as pytest shows an assertion: the user's line of code, and behind it what is wrong there."""
    coloured = item.config.get_terminal_writer().hasmarkup
    lines = [f"E   {line}" for line in _told(error, coloured=coloured)]
    file, line, _ = item.location
    where = ReprFileLocation(file, (line or 0) + 1, type(error).__name__)
    found = _place(getattr(getattr(error, "difference", None), "site", None), str(item.config.rootpath))
    if found is not None:
        path, number = found
        where = ReprFileLocation(_relative(path), number, type(error).__name__)
        lines = [*_code(path, number), *lines]
    style: Literal["short", "long"] = "short" if item.config.getoption("tbstyle", "auto") == "short" else "long"
    entry = ReprEntry(lines, None, None, where, style)
    crash = ReprFileLocation(where.path, where.lineno, _in_a_line(error))
    return ExceptionChainRepr([(ReprTraceback([entry], None, style), crash, None)])


def _told(error: BaseException, *, coloured: bool) -> Iterator[str]:
    """The message, in which what was expected and what was found are the two sides of a diff."""
    for line in str(error).splitlines():
        word = line.split(maxsplit=1)[0] if line.strip() else ""
        sign = {"expected": "-", "actual": "+"}.get(word, "") if line.startswith("  ") else ""
        text = f"{sign} {line[2:]}" if sign else line
        if coloured and sign:
            text = f"{_RED if sign == '-' else _GREEN}{text}{_PLAIN}"
        yield text


def _in_a_line(error: BaseException) -> str:
    if isinstance(error, CassetteDiverged):
        from .replay.testing import in_a_line

        return f"{type(error).__name__}: {error.cassette}: {in_a_line(error.difference)}"
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def _place(site: str | None, root: str) -> tuple[str, int] | None:
    """The file and line of a place "agent.py:12", if just one file is called so of those that are loaded.

    Files below the root of the tests are preferred to others.
    """
    name, _, line = (site or "").rpartition(":")
    if not name or not line.isdigit():
        return None
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    found = {file for file in files if isinstance(file, str) and os.path.basename(file) == name}
    found = {file for file in found if file.startswith(root + os.sep)} or found
    return (found.pop(), int(line)) if len(found) == 1 else None


def _relative(path: str) -> str:
    shown = os.path.relpath(path)
    return path if shown.startswith(os.pardir) else shown


def _code(path: str, number: int) -> list[str]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()[:number]
    except (OSError, ValueError):
        return []
    if len(lines) < number:
        return []
    shown = lines[-1 - LINES_BEFORE :]
    indent = min((len(line) - len(line.lstrip()) for line in shown if line.strip()), default=0)
    marks = ["    "] * (len(shown) - 1) + [">   "]
    return [f"{mark}{line[indent:]}" for mark, line in zip(marks, shown, strict=True)]


# -- the end -----------------------------------------------------------------------------------------------------------


def judge_unused(session: pytest.Session, known: dict[str, Any], exitstatus: int) -> None:
    """Find the cassettes that no test used, if all tests have run; they fail the run if that is wanted."""
    config = session.config
    wanted = config.getoption("--agentreplay-unused")
    if wanted == "off" or known["narrowed"] or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return
    if session.shouldstop or session.shouldfail or any(config.getoption(name, None) for name in _NARROWING):
        return
    root = os.path.realpath(config.rootpath)
    folders = {os.path.dirname(path) for path in (*known["named"], *known["used"])}
    below = sorted(folder for folder in folders if os.path.commonpath([folder, root]) == root)
    unused = [
        _relative(path)
        for path in _cassettes_in(below)
        if path not in known["named"] and path not in known["used"] and _is_covered(path, config)
    ]
    if unused:
        known["unused"] = unused
        if wanted == "fail" and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


_NARROWING: Final = ("collectonly", "lf", "stepwise", "ignore", "ignore_glob", "deselect", "keyword", "markexpr")
"""Options with which not all tests run."""


def _cassettes_in(folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        for path in sorted(Path(folder).glob("*.jsonl")):
            try:
                if not path.is_file():
                    continue  # reading a pipe would wait for whoever writes into it
                with path.open("rb") as file:
                    if file.read(len(BEGINS)) == BEGINS:
                        yield os.path.realpath(path)
            except OSError:
                continue


def _is_covered(path: str, config: pytest.Config) -> bool:
    """Whether the tests of a cassette would have run, by what was named on the command line."""
    if config.args_source != pytest.Config.ArgsSource.ARGS:
        return True
    named = [os.path.realpath(os.path.join(config.invocation_params.dir, arg)) for arg in config.args]
    return any(os.path.isdir(folder) and os.path.commonpath([folder, path]) == folder for folder in named)


def write_summary(reporter: Any, known: dict[str, Any]) -> None:
    """Write which cassettes were written, and which no test used."""
    reporter.write_sep("-", "agentreplay")
    kept = {path: told for path, *told in sorted(known["kept"])}  # tests in two processes may have made the same one
    for path, (what, why, status, rounds) in kept.items():
        reporter.write(f"{what:11} ", green=True)
        reporter.write(f"{path}  {rounds} {'round' if rounds == 1 else 'rounds'}, {status}  ({why})\n")
    for path in known.get("unused", ()):
        reporter.write("unused      ", yellow=True)
        reporter.write(f"{path}  no test replays it\n")
