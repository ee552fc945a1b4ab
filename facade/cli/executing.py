"""Executing code against a recording on behalf of `replay`, `rerun` and `resume`, and whatever becomes of it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Console

from ..recorder.errors import AgentReplayError, RecordingFailed
from ..recorder.events import Event
from ..recorder.named_code import code_is_named
from ..recorder.store import EventStore, RunInfo
from ..replay.course import Course
from ..replay.outline import outline
from ..replay.replayer import App, attached, execute
from .apps import Chosen, load_app, place_of_app
from .render_steps import RunPage
from .running import passes_through_user_code, store_of_the_agent
from .runs import Names
from .streams import encodable, say, streams_of_the_agent

LOOK_SECONDS: Final = 0.05
"""How long a thread waits that shows rounds as they come."""


@dataclass(slots=True)
class Executed:
    """What came of executing code.

    Attributes:
        course: the course that it took; None if it could not be loaded.
        outcome: what the code gave, if it came to its end.
        error: what it raised that was not compared with the recording, or None.
    """

    course: Course | None = None
    outcome: list[Any] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def recorded(self) -> RunInfo | None:
        """The run that was recorded, or gone on with, as it stands."""
        return None if self.course is None else recorded_by(self.course)


def recorded_by(course: Course) -> RunInfo | None:
    """The run to which a course appends, as it stands; None if it has appended nothing."""
    begun = course.begun
    return course.store.run(begun.log.info.uid) if begun is not None and begun.log.live else None


def executed(
    chosen: Chosen,
    store: EventStore,
    info: RunInfo,
    course_for: Callable[[App], Course],
    *,
    quiet: bool = False,
    rounds: LiveRounds | None = None,
) -> Executed:
    """Load code, and execute it against a run.

    Args:
        chosen: the code.
        store, info: the run.
        course_for: gives the course that the code is to take.
        quiet: stdout is for ours alone; what the code prints goes to stderr.
        rounds: shows the rounds that are live.

    Raises:
        AgentReplayError: the code cannot be executed like that, or the store fails.
    """
    done = Executed()
    main = sys.modules["__main__"]  # which code may be loaded as
    try:
        with store_of_the_agent(store.url), streams_of_the_agent(keep_stdout=quiet):
            _execute(done, chosen, store, info, course_for, rounds)
    finally:
        sys.modules["__main__"] = main
        if rounds is not None:
            rounds.stop()
    if rounds is not None and rounds.failure is not None:
        raise rounds.failure
    return done


def _execute(
    done: Executed,
    chosen: Chosen,
    store: EventStore,
    info: RunInfo,
    course_for: Callable[[App], Course],
    rounds: LiveRounds | None,
) -> None:
    try:
        app = load_app(chosen, store, info)
        done.course = course_for(app)
        if rounds is not None:
            rounds.start(done.course)
        with attached(done.course) as done.outcome, code_is_named(place_of_app(chosen, app)):
            done.outcome.append(execute(app))
    except RecordingFailed:
        raise
    except KeyboardInterrupt:
        if (kept := done.recorded) is not None:
            say(f"stopped; recorded as {kept.id} ({kept.status})")
        raise
    except SystemExit as raised:
        done.error = raised if raised.code not in (None, 0) else None
    except Exception as raised:
        # Until the run begins, only what the user's code raised is its error.
        begun = done.course is not None and done.course.begun is not None
        if isinstance(raised, AgentReplayError) and not begun and not passes_through_user_code(raised):
            raise
        done.error = raised


class LiveRounds:
    """Shows the rounds of a run while this process records it, in a thread.

    Args:
        page: where to.
        first: the first round to show.
        last: the largest that is to be expected.

    Attributes:
        failure: what kept it from showing them, or None.
    """

    def __init__(self, page: Console, first: int, last: int) -> None:
        self._page = page
        self._first = first
        self._last = last
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None

    def start(self, course: Course) -> None:
        """Show what a course records from now on."""
        self._thread = threading.Thread(target=self._work, args=[course], name="agentreplay-rounds", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Show what is there by now, and no more."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self, course: Course) -> None:
        try:
            while (info := recorded_by(course)) is None and not self._over.wait(LOOK_SECONDS):
                pass
            info = info or recorded_by(course)
            if info is not None:
                self._show(course.store, info)
        except Exception as error:
            self.failure = error

    def _show(self, store: EventStore, info: RunInfo) -> None:
        rounds = RunPage(self._page, Names(store), width=len(str(self._last)))
        for entry in outline(self._events(store, info), info.id, wanted=lambda step: step >= self._first):
            with self._page.capture() as captured:
                rounds.round(entry)
            # The agent's streams are those that it would have without us, and may be in ASCII.
            sys.stdout.write(encodable(captured.get()))
            sys.stdout.flush()

    def _events(self, store: EventStore, info: RunInfo) -> Iterator[Event]:
        """The run's events as they come, until the code is through."""
        seq = -1
        while True:
            over = self._over.is_set()
            for event in store.events(info, after=seq, conversations=False):
                seq = event.seq
                yield event
            if over:
                return
            self._over.wait(LOOK_SECONDS)
