"""Re-runs that were started from a browser: each in a process of its own, a few at once, and none left behind.

What is executed is what `--app` named where the server was started, and nothing else. The process is our own command
line, found as a module of the Python that runs the server; its arguments are a run's number, a step's number and that
name. Everything that a browser sent goes as JSON, checked before, through the process' standard input: none of it is
part of a command.

The process records into the same store, as anybody would. Which run is the new one is told by the store: the fork that
was made by the process with that number.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from werkzeug.exceptions import Conflict, Forbidden, NotFound

from ..recorder.errors import AgentReplayError
from ..recorder.locate import VARIABLE
from ..recorder.store import EventStore, RunInfo
from ..replay.listing import standing
from ..replay.rerun_request import RerunRequest
from .processes import STOP_SECONDS, Process

AT_ONCE: Final = 4
"""Re-runs that may go on at the same time."""

KEPT: Final = 50
"""Re-runs of which it is remembered what became of them."""

DRAFT: Final = 1_000_000
"""Characters of a form that are remembered with its re-run, to start from again."""

LOOK_SECONDS: Final = 0.2
"""How often the store is asked for the run that a process records."""

PROGRAM: Final = ("-P", "-m", "agentreplay")
"""Our command line, without the working folder on the search path: no file there takes the place of a module."""

HOW: Final = (
    "This server executes nothing: it was started without --app. Start it as “agentreplay ui --app FILE.py:NAME”, or "
    "use the command line"
)


@dataclass(slots=True)
class Started:
    """A re-run that was started.

    Attributes:
        number: names it, counted from 1 since the server was started.
        parent: the run that is run again.
        step: the first live step.
        request: what was asked for.
        at: when, in microseconds since 1970.
        draft: the form that it came from, by field; empty if it came from no form, or from a very large one.
        told: what the process said in the end: the JSON of `agentreplay rerun --json`, or None.
        ended_at: when it was over.
    """

    number: int
    parent: RunInfo
    step: int
    request: RerunRequest
    at: int
    draft: Mapping[str, list[str]] = field(default_factory=dict)
    told: Mapping[str, Any] | None = None
    ended_at: int | None = None
    _process: Process | None = None
    _child: str | None = None
    _looked: float = 0.0

    @property
    def process(self) -> Process:
        """Its process."""
        assert self._process is not None  # it was started
        return self._process

    @property
    def is_over(self) -> bool:
        """Whether its process is gone."""
        return self.ended_at is not None


class Reruns:
    """The re-runs of one server; for any thread.

    Args:
        store: whose runs are run again.
        app: the code, as `--app` names it; None to refuse all.
        folder: from which `app` is meant; by default the working folder.
    """

    def __init__(self, store: EventStore, app: str | None, folder: str | None = None) -> None:
        self.store = store
        self.app = app
        self._folder = folder or os.getcwd()
        self._lock = threading.Lock()
        self._all: dict[int, Started] = {}
        self._count = 0
        self._closed = False
        self._running: set[Process] = set()
        # Where nobody closes it, at least the end of this process does.
        self._finalizer = weakref.finalize(self, end_all, self._running)

    def refuse_unless_possible(self) -> None:
        """Refuse where nothing can be executed.

        Raises:
            Forbidden: no code was named when the server was started.
            Conflict: the store is in this process' memory, where no other finds it.
        """
        if self.app is None:
            raise Forbidden(f"{HOW}.")
        if self.store.url == "memory:":
            raise Conflict("The store is in this server's memory, where no other process can record into it.")

    def start(
        self, parent: RunInfo, step: int, request: RerunRequest, draft: Mapping[str, list[str]] | None = None
    ) -> Started:
        """Start a re-run; what is asked for was checked before.

        Raises:
            Forbidden, Conflict: nothing can be executed; as many go on as may; the server is ending.
        """
        self.refuse_unless_possible()
        with self._lock:
            if self._closed:
                raise Conflict("The server is ending.")
            going_on = [one for one in self._all.values() if not one.is_over]
            if len(going_on) >= AT_ONCE:
                names = ", ".join(str(one.number) for one in going_on)
                raise Conflict(
                    f"{AT_ONCE} re-runs go on already ({names}), and no more may at once: stop one, or wait."
                )
            self._count += 1
            kept = draft or {}
            small = sum(len(text) for texts in kept.values() for text in texts) <= DRAFT
            started = Started(self._count, parent, step, request, _now(), kept if small else {})
            started._process = self._process(started)
            self._all[started.number] = started
            self._running.add(started.process)
            self._forget()
            return started

    def _process(self, started: Started) -> Process:
        words = ["rerun", started.parent.id, "--step", str(started.step), f"--app={self.app}", "--attended", "--json"]
        asked = {**started.request.to_json(), "step": started.step}
        try:
            return Process(
                [sys.executable, *PROGRAM, *words],
                json.dumps(asked, allow_nan=False).encode("ascii"),
                folder=self._folder,
                environment={**os.environ, VARIABLE: self.store.url, "PYTHONUNBUFFERED": "1"},
                ended=lambda: self._over(started),
            )
        except OSError as error:
            raise Conflict(f"The process cannot be started: {error.strerror or error}.") from None

    def _over(self, started: Started) -> None:
        started.told = _last_object(started.process.out.text())
        with contextlib.suppress(AgentReplayError):  # the store says so wherever it is asked
            self.child_of(started, now=True)
        started.ended_at = _now()
        with self._lock:
            self._running.discard(started.process)

    def _forget(self) -> None:
        over = [number for number, one in self._all.items() if one.is_over]
        for number in over[: max(len(self._all) - KEPT, 0)]:
            del self._all[number]

    def named(self, number: int) -> Started:
        """A re-run.

        Raises:
            NotFound: there is none, or it is forgotten.
        """
        with self._lock:
            found = self._all.get(number)
        if found is None:
            raise NotFound(f"there is no re-run {number}; the last {KEPT} since the server was started are remembered")
        return found

    def all(self) -> list[Started]:
        """Those that are remembered, the newest first."""
        with self._lock:
            return list(reversed(self._all.values()))

    def stop(self, number: int) -> Started:
        """Ask a re-run to stop; one that has ended stays as it is.

        Raises:
            NotFound: there is none.
        """
        found = self.named(number)
        found.process.stop()
        return found

    def close(self) -> None:
        """End them all, and wait for that: first they are asked to stop, then killed."""
        with self._lock:
            self._closed = True
        end_all(self._running)

    # -- how they stand --------------------------------------------------------------------------------

    def child_of(self, started: Started, *, now: bool = False) -> RunInfo | None:
        """The run that a re-run records, as it stands; None as long as it has recorded none.

        Args:
            started: the re-run.
            now: ask the store, also if that was done a moment ago.
        """
        if started._child is None and not (started.is_over and not now):
            if not now and time.monotonic() - started._looked < LOOK_SECONDS:
                return None
            started._looked = time.monotonic()
            named = (started.told or {}).get("run")
            started._child = self.store.run(named).uid if isinstance(named, str) else self._found(started)
        return None if started._child is None else self.store.run(started._child)

    def _found(self, started: Started) -> str | None:
        """The fork of the run that this process made."""
        for info in reversed(self.store.runs()):
            if info.number <= started.parent.number:
                return None
            if info.fork_of != started.parent.uid or info.fork_seq is None:
                continue
            first = next(iter(self.store.events(info, after=info.fork_seq, until=info.fork_seq + 1)), None)
            process = getattr(getattr(first, "data", None), "process", None) or {}
            if process.get("pid") == started.process.pid and first is not None and _micros(first) >= started.at:
                return info.uid
        return None

    def status(self, started: Started, child: RunInfo | None) -> str:
        """How a re-run stands: starting, running, stopping, or what came of it.

        That is how its run ended; or, where none was recorded: stopped, diverged (the code parted from the recording
        before the step), refused.
        """
        if not started.is_over:
            return "stopping" if started.process.stopped else "starting" if child is None else "running"
        if child is not None:
            return standing(child)
        if started.process.stopped:
            return "stopped"
        return "diverged" if (started.told or {}).get("status") == "diverged" else "refused"

    def problem_of(self, started: Started, child: RunInfo | None) -> str:
        """What the process of a re-run complained of that recorded nothing; empty of others, and while it goes on."""
        return "" if child is not None or not started.is_over else started.process.err.text().strip()

    def news_of(self, number: int) -> tuple[dict[str, Any], bool]:
        """What those are told who follow a re-run, and whether it is over: {status, run, head}."""
        started = self.named(number)
        over = started.is_over
        child = self.child_of(started)
        head = -1 if child is None else child.head_seq
        return {"status": self.status(started, child), "run": None if child is None else child.id, "head": head}, over


def end_all(running: set[Process]) -> None:
    """Stop processes, kill those that do not, and wait until all are gone."""
    going_on = list(running)
    for process in going_on:
        process.stop()
    deadline = time.monotonic() + STOP_SECONDS
    for process in going_on:
        if not process.wait(max(deadline - time.monotonic(), 0)):
            process.kill()
    for process in going_on:
        process.wait(STOP_SECONDS)


def _last_object(text: str) -> Mapping[str, Any] | None:
    """The JSON object that a text is, or None."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _micros(event: Any) -> int:
    return int(event.time.timestamp() * 1_000_000)


def _now() -> int:
    return time.time_ns() // 1_000
