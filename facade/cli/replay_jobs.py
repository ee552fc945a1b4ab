"""One of many recordings that code is executed against: what is to be done, what came of it, and the doing.

Recordings are replayed beside each other in processes of their own (`replay_workers`), so both sides of this are plain
data that can be sent.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from ..recorder.errors import AgentReplayError, Divergence, ImportFailed, StoreError
from ..recorder.locate import open_store
from ..recorder.store import EventStore, RunInfo
from ..replay.cassette_file import open_cassette
from ..replay.course import Course
from ..replay.divergence import Difference
from ..replay.replayer import App, ReplayResult, course_for, result_of
from ..replay.testing import in_a_line, name_of_child
from .apps import choose
from .executing import executed
from .running import print_error

Verdict: TypeAlias = Literal["identical", "diverged", "error", "unreadable"]

NOTHING_CAPTURED: Final = (
    "nothing of it was captured: no call and no value was answered from the recording, so whatever the code asked of "
    "the world, it asked itself. Record its calls: @agentreplay.tool, @agentreplay.model, or wrap"
)

OUTPUT: Final = 20_000
"""The last characters of what the code has printed that are kept."""


@dataclass(frozen=True, slots=True)
class Job:
    """A recording that is to be replayed.

    Attributes:
        name: as it was typed.
        store: the URL of the store that has the run; None if it is a file.
        app, ignore, collect, shallow: as for `agentreplay replay`.
    """

    name: str
    store: str | None = None
    app: str | None = None
    ignore: tuple[str, ...] = ()
    collect: bool = False
    shallow: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What came of it.

    Attributes:
        job: what was to be done.
        verdict: "error" where the code could not be executed against it, "unreadable" where there is nothing to
            execute it against.
        run: the run's id in its store; of a file, None.
        agent, rounds: of the run, if it could be read.
        result: what the replay came to, if the code was executed.
        unused_rules: ignore rules that matched nothing.
        error: what went wrong, with "error" and "unreadable".
        seconds: how long it took.
        output: what the code has printed, the last of it.
    """

    job: Job
    verdict: Verdict
    run: str | None = None
    agent: str = ""
    rounds: int = 0
    result: ReplayResult | None = None
    unused_rules: tuple[str, ...] = ()
    error: str = ""
    seconds: float = 0.0
    output: str = ""

    @property
    def first(self) -> Difference | None:
        """The first difference."""
        return self.result.divergences[0] if self.result is not None and self.result.divergences else None

    @property
    def why(self) -> str:
        """What keeps it from being identical, on a line."""
        if self.first is None:
            return self.error.split("\n", 1)[0]
        assert self.result is not None  # it has a first difference
        more = len(self.result.divergences) - 1
        return in_a_line(self.first) + (f"  (+{more} more)" if more else "")

    def to_json(self) -> dict[str, Any]:
        """As `agentreplay replay FILE… --json` prints it."""
        told = {} if self.result is None else self.result.to_json()
        return {
            "file": self.job.name if self.job.store is None else None,
            "run": self.run,
            "agent": self.agent,
            "rounds": self.rounds,
            "verdict": self.verdict,
            "divergences": told.get("divergences", []),
            "coverage": told.get("coverage"),
            "complete": told.get("complete", False),
            "notes": told.get("notes", []),
            "error": self.error or None,
            "seconds": round(self.seconds, 3),
        }


def do(job: Job) -> Done:
    """Replay a recording in this process, whatever comes of it."""
    started = time.monotonic()
    with _printed() as printed:
        done = _tried(job)
    return replace(done, seconds=time.monotonic() - started, output="".join(printed)[-OUTPUT:])


def _tried(job: Job) -> Done:
    try:
        store, info = _recording(job)
    except (StoreError, ImportFailed) as error:
        return Done(job, "unreadable", error=str(error))
    about: dict[str, Any] = {"agent": info.agent, "rounds": info.steps, "run": None if job.store is None else info.id}
    try:
        return _replayed(job, store, info, about)
    except StoreError as error:
        return Done(job, "unreadable", error=str(error), **about)
    except AgentReplayError as error:
        return Done(job, "error", error=named(job, info, str(error)), **about)


def _recording(job: Job) -> tuple[EventStore, RunInfo]:
    if job.store is None:
        _, store, info = open_cassette(job.name)
    else:
        store = open_store(job.store, create=False)
        info = store.run(job.name)
    return store, info


def _replayed(job: Job, store: EventStore, info: RunInfo, about: dict[str, Any]) -> Done:
    chosen = choose(job.app, store, info)

    def course(agent: App) -> Course:
        return course_for(info, agent, store, job.ignore, job.collect, job.shallow)

    done = executed(chosen, store, info, course, quiet=True)
    if done.error is not None:
        return Done(job, "error", error=named(job, info, _told(done.error)), **about)
    taken = done.course
    assert taken is not None  # it was loaded
    try:
        result = result_of(taken, done.outcome)
    except Divergence as divergence:
        result = ReplayResult(info.id, "diverged", tuple(divergence.differences), taken.counted(), complete=False)
    result = replace(result, result=None)  # which may be anything, and cannot be sent then
    if job.store is None:
        result = replace(result, divergences=tuple(of_file(job.name, store, info, one) for one in result.divergences))
    about |= {"result": result, "unused_rules": tuple(taken.ignore.unused())}
    if result.says_nothing:
        return Done(job, "error", error=NOTHING_CAPTURED, **about)
    return Done(job, result.verdict, **about)


def of_file(path: str, store: EventStore, info: RunInfo, difference: Difference) -> Difference:
    """A difference in a file: child runs have no numbers that mean anything, and what is for a run imports it first."""
    into = f"agentreplay import {shlex.quote(path)}` and `agentreplay rerun RUN "
    return replace(
        difference,
        hint=difference.hint.replace(f"agentreplay rerun {info.id} ", into),
        run=None if difference.run is None else name_of_child(store, difference.run),
    )


def named(job: Job, info: RunInfo, text: str) -> str:
    """A message about a run, which has no number where it stands in a file."""
    return text if job.store is not None else text.replace(f"{info.id} ", f"{job.name} ", 1)


def _told(error: BaseException) -> str:
    """What code raised that could not be executed, without our own frames, and its last line first."""
    told = io.StringIO()
    with redirect_stderr(told):
        print_error(error)
    lines = told.getvalue().rstrip("\n").split("\n")
    return "\n".join([lines[-1].removeprefix("error: "), *lines[:-1]])


@contextmanager
def _printed() -> Iterator[list[str]]:
    """Keep what this process and those that it starts print meanwhile, and let nobody read its input."""
    printed: list[str] = []
    saved = [os.dup(number) for number in (0, 1, 2)]
    nowhere = os.open(os.devnull, os.O_RDONLY)
    with tempfile.TemporaryFile() as file:
        for number, other in ((0, nowhere), (1, file.fileno()), (2, file.fileno())):
            os.dup2(other, number)
        os.close(nowhere)
        try:
            yield printed
        finally:
            _flush()
            for number, other in enumerate(saved):
                os.dup2(other, number)
                os.close(other)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 4 * OUTPUT))
            printed.append(file.read().decode("utf-8", "replace"))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
