"""Processes that replayed code starts, and threads that join its run: each stands for a recorded writer.

The process that replays marks its environment, which those that it starts inherit. One that joins the run finds the
mark, and executes what it does in the run against a writer that joined while recording, as a course of its own. What
it finds is left at the desk; here it is looked for every few milliseconds. So a process that is stopped stops the
replay at once, whatever the code does to wait for it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, NoReturn, TypeAlias

from ..recorder.attaching import REPLAYED_AT, REPLAYED_BY, Guard
from ..recorder.desk import Desk, Live
from ..recorder.errors import AgentReplayError, Divergence
from ..recorder.events import Event
from ..recorder.joining import AttachedWriter
from ..recorder.locate import open_store
from ..recorder.memory_store import MemoryStore
from ..recorder.signals import ProcessStopped
from ..recorder.store import EventStore, RunInfo, RunRef
from .course import Course
from .divergence import Difference, missing_call, value_difference
from .folded import OF_THE_RUN
from .ignoring import IgnoreRules
from .live_calls import LiveGuard
from .recorded_run import RecordedRun
from .recorded_writer import RecordedWriter, Writer, cannot_go_on, writers_of

Guarding: TypeAlias = Callable[[RunInfo], Guard | None]
"""Gives what is asked before a call in a run that was joined; None if nothing is."""

Attach: TypeAlias = Callable[[str | None], AbstractContextManager[AttachedWriter | None]]
"""Gives, for a block, what the code of an entry point is attached to; None if the run has gone live by now."""

_EVERY: Final = 3
"""Of so many looks one is at the desk."""


class Left(NamedTuple):
    """What a process says that has left the run: what it has answered from the log, and what else there is to say."""

    recorded: int
    notes: list[str]


class OneMore(NamedTuple):
    """What a process says that joins where everybody who was recorded is stood for: the run has to go on live."""


_REFUSED: Final = "refused"
_POLL: Final = 0.005
"""Seconds between two looks whether the run has gone live."""


class Workers:
    """`with Workers(course):` executes code; what joins its run there, in any process, is answered and compared.

    Args:
        course: of the replay.
    """

    def __init__(self, course: Course) -> None:
        self._course = course
        self._looks = 0
        self._hearing = threading.Lock()
        self._told: set[tuple[str, int]] = set()
        self._before: dict[str, str | None] = {}
        self._live: Live | None = None
        self.desk = Desk.opened(course.info.uid, "", course.ignore.texts, course.collects, not course.is_strict)

    def __enter__(self) -> None:
        self._course.workers = self
        store = _where(self._course.store, self._course.info, self.desk)
        self.desk = replace(self.desk, store=store, until=self._course.last_event)
        self._before = {name: os.environ.get(name) for name in (REPLAYED_BY, REPLAYED_AT)}
        self._mark()
        _replays.append(self)

    def __exit__(self, *_: object) -> None:
        _replays.remove(self)
        self._unmark(*self._before)
        self.desk.close()

    def _mark(self) -> None:
        os.environ[REPLAYED_BY], os.environ[REPLAYED_AT] = str(os.getpid()), self.desk.told()

    def _unmark(self, *names: str) -> None:
        for name in names:
            value = self._before[name]
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def begins(self) -> None:
        """The code has begun the run; now it is known which rounds it does not execute."""
        if (folded := self._course.folded) is not None:
            self.desk = replace(self.desk, since=folded.seq)
            self._mark()

    def goes_live(self, info: RunInfo, what: str | None, allow: Collection[str]) -> None:
        """The code goes on live, as that run: whoever joins from now on records in it, and calls what `Live` says."""
        self._live = Live(info.uid, what, tuple(allow))
        self.desk.goes_live(self._live)
        self._unmark(REPLAYED_BY)

    def joined(self, run: RunRef) -> tuple[RunRef, Attach | None, Guarding | None] | None:
        """What code of this process joins, what attaches it and what guards it; None if that is no affair of ours."""
        if self.desk.pid != os.getpid():
            return None
        try:
            info = self._course.store.run(run)
        except AgentReplayError:
            return None
        if self._live is not None:
            return (self._live.run, None, self._guard) if info.uid in (self.desk.run, self._live.run) else None
        known = {recorded.info.uid for recorded in self._course.runs}
        return (run, partial(self._attached, info), self._guard) if info.uid in known else None

    def _guard(self, info: RunInfo) -> Guard | None:
        live = self._live
        return LiveGuard(live, info, self._course.stop) if live is not None and info.uid == live.run else None

    @contextmanager
    def _attached(self, info: RunInfo, entry_point: str | None) -> Iterator[AttachedWriter | None]:
        if _is_one_more(self._course, info, self.desk) and self._course.goes_live_with_one_more():
            yield None
            return
        writer = RecordedWriter(self._course, info, self.desk, entry_point)
        self._course.joins(writer)
        yield writer

    def tell_elsewhere(self, failure: BaseException) -> None:
        """What is stopped may be a process that was forked from the one which replays; leave word of it then."""
        if self.desk.pid != os.getpid():
            self.desk.report(failure)

    def look(self) -> None:
        """Look at the desk now and then."""
        self._looks += 1
        if self._looks % _EVERY == 0:
            self.hear()

    def hear(self) -> None:
        """Take what was left at the desk."""
        course = self._course
        with self._hearing:
            messages = list(self.desk.messages())
        for message in messages:
            if isinstance(message, Left):
                course.coverage.recorded += message.recorded
                for note in message.notes:
                    course.coverage.note(note)
            elif isinstance(message, OneMore):
                if not course.goes_live_with_one_more():
                    self.desk.claim(_REFUSED)
            elif isinstance(message, Divergence):
                course.differences += message.differences
                course.stops(message)
            elif isinstance(message, BaseException):
                course.stops(message)
            else:
                course.differences.append(message)

    def missing(self, before: int | None = None) -> Iterator[Difference]:
        """The writers that nobody stands for though the code starts such as they are, each once.

        Args:
            before: an event; those that came later are not looked for yet.
        """
        for run, writer, is_missing in self._absent():
            seq = writer.joined.seq
            if not is_missing or (run.uid, seq) in self._told or (before is not None and seq > before):
                continue
            self._told.add((run.uid, seq))
            call, step = writer.first_unasked(), writer.joined.round
            if call is not None:
                yield missing_call(call, step=step, run=run.id)
            else:
                trees = {"writer": writer.name}, {"writer": None}
                yield value_difference("another outcome", *trees, step=step, seq=seq, run=run.id)

    def _absent(self) -> Iterator[tuple[RunInfo, Writer, bool]]:
        """The writers that nobody stands for, and whether somebody does for another one of the same code."""
        for run in [run for run in self._course.runs if run.script.joined and not isinstance(run, RecordedWriter)]:
            writers = writers_of(self._course.events_of(run.info))
            absent = [one for one in writers if not self.desk.is_claimed(f"{run.info.uid}-{one.name}")]
            started = {one.entry_point for one in writers if one not in absent}
            for one in absent:
                yield run.info, one, one.entry_point in started

    def through(self) -> None:
        """The code has ended; see who was recorded and did not join.

        Raises:
            ReplayStopped: something was found that stops the code.
        """
        self.hear()
        self._course.raise_if_stopped()
        for difference in self.missing():
            self._course.parts(difference)
        for run, writer, is_missing in self._absent():
            if not is_missing:  # somebody else may have joined, on whom this code has no influence
                self._course.coverage.unused += len(writer.calls)
                self._course.coverage.note(
                    f"{run.id}: {writer.name} ({writer.entry_point}) joined while it was recorded, and not here"
                )


_replays: list[Workers] = []


def _where(store: EventStore, info: RunInfo, desk: Desk) -> str | None:
    """Where another process finds the run."""
    if not isinstance(store, MemoryStore):
        return store.url
    if not any(row.kind == "writer.joined" for row in store.rows(info)):
        return None
    from ..recorder.exporting import export_run

    os.makedirs(desk.folder, mode=0o700, exist_ok=True)
    path = os.path.join(desk.folder, "run.jsonl")
    export_run(info, path, store=store)
    return path


# -- in another process ------------------------------------------------------------------------------------


class WorkerCourse(Course):
    """The course of what one process does in a run that it joins."""

    def __init__(self, store: EventStore, info: RunInfo, desk: Desk) -> None:
        super().__init__(store, info, ignore=IgnoreRules(desk.ignore), collect=desk.collect)
        self._desk = desk

    @property
    def only_replays(self) -> bool:
        """The process is not ours: its threads are left alone."""
        return False

    @property
    def is_strict(self) -> bool:
        """As in the process that executes the code of the run."""
        return not self._desk.goes_on

    def events_of(self, info: RunInfo) -> Iterable[Event]:
        """Those that the code of the run is compared with."""
        events = super().events_of(info)
        if info.uid != self._desk.run:
            return events
        since, until = self._desk.since, self._desk.until
        return (
            event
            for event in events
            if event.kind in OF_THE_RUN or (event.seq >= since and (until is None or event.seq <= until))
        )

    def recording_ends(self, run: RecordedRun) -> NoReturn:
        """What is recorded of the process is not the whole."""
        if self._desk.goes_on and isinstance(run, RecordedWriter):
            self.comparison_of(run).before_the_end()
            self.stop(cannot_go_on(run))
        super().recording_ends(run)

    def stops(self, failure: BaseException) -> BaseException:
        """Leave word of it, too."""
        if self._stopped is None:
            self._desk.report(failure)
        return super().stops(failure)

    def parts(self, difference: Difference) -> None:
        """Leave word of a difference that does not stop the code."""
        if self.collects:
            self._desk.put(difference)
        super().parts(difference)

    def joins(self, run: RecordedWriter) -> None:  # type: ignore[override]  # nothing else is attached here
        """The run is all there is."""
        self.begun = run
        super().joins(run)


@contextmanager
def _attached_elsewhere(run: RunRef, desk: Desk, entry_point: str | None) -> Iterator[AttachedWriter | None]:
    try:
        store, info = _found(run, desk)
    except AgentReplayError as error:
        desk.report(error)
        raise ProcessStopped(error) from None
    course = WorkerCourse(store, info, desk)
    if _is_one_more(course, info, desk):
        desk.put(OneMore())
        while not desk.is_claimed(_REFUSED):
            if desk.live is not None:
                yield None
                return
            time.sleep(_POLL)
    try:
        with course.turns.watched():
            writer = RecordedWriter(course, info, desk, entry_point)
            course.joins(writer)
            try:
                yield writer
            finally:
                course.turns.leave()
                desk.put(Left(course.coverage.recorded, course.coverage.notes))
    finally:
        if course.stopped is not None:
            raise ProcessStopped(course.stopped) from None


def _is_one_more(course: Course, info: RunInfo, desk: Desk) -> bool:
    """Whether all are stood for who joined a run that may go on live where its log ends."""
    return (
        desk.goes_on
        and desk.until is None
        and all(desk.is_claimed(f"{info.uid}-{one.name}") for one in writers_of(course.events_of(info)))
    )


def _found(run: RunRef, desk: Desk) -> tuple[EventStore, RunInfo]:
    """The run that is joined, where the replay has it."""
    store: EventStore
    if desk.store is None or os.path.dirname(desk.store) == desk.folder:
        store = MemoryStore()
        if desk.store is not None:
            from ..recorder.importers import import_file

            import_file(desk.store, store)
            if store.run(desk.run).id != str(run) and str(run).startswith("run"):
                run = desk.run  # the number that it has there
    else:
        store = open_store(desk.store, create=False)
    return store, store.run(run)


def joined(run: RunRef) -> tuple[RunRef, Attach | None, Guarding | None]:
    """What code joins that names a run, what attaches it, if it is executed against a recording, and what guards it.

    It may have the name from before a re-run went its own way; then it joins the new run.
    """
    for workers in reversed(_replays):
        found = workers.joined(run)
        if found is not None:
            return found
    desk = Desk.of_another()
    if desk is None:
        return run, None, None
    guard = partial(_guard_elsewhere, desk)
    live = desk.live
    if live is None:
        is_answered = REPLAYED_BY in os.environ  # else it was started live, and outlives what has started it
        return run, partial(_attached_elsewhere, run, desk) if is_answered else None, guard
    try:
        is_replayed = _found(run, desk)[1].uid == desk.run
    except AgentReplayError:
        is_replayed = False
    return (live.run if is_replayed else run), None, guard


def _guard_elsewhere(desk: Desk, info: RunInfo) -> Guard | None:
    """What guards the calls in a run that another process re-runs."""
    live = desk.live
    if live is None or info.uid != live.run:
        return None

    def stop(failure: BaseException) -> NoReturn:
        desk.report(failure)
        raise ProcessStopped(failure) from None

    return LiveGuard(live, info, stop)
