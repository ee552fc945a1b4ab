"""Courses that go on live where the recording ends, or is left: a re-run (`fork`), and a resumed run (`resume`).

What they share is what becomes of a call that is not answered from the log. It may have an answer that somebody gave,
or that is used again; else it is made, if it may be: a tool that does harm only if it is allowed, and nothing with a
token in the place of a secret.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, NoReturn

from ..recorder.attaching import Answer
from ..recorder.calls import Call
from ..recorder.errors import UsageError
from ..recorder.events import Data
from ..recorder.store import EventStore, RunInfo
from .course import Course
from .edited_answers import EditedAnswers
from .given import Given, append_end, given_for
from .live_calls import redacted_in, refusal_of
from .recorded_run import RecordedRun
from .recorded_writer import RecordedWriter, cannot_go_on
from .script import RecordedCall


class GoingLive(Course):
    """The log, then live.

    Args:
        store, info: the run.
        allow: names of tools that may be called though they are irreversible.
        options: of the course.
    """

    def __init__(self, store: EventStore, info: RunInfo, *, allow: Collection[str] = (), **options: Any) -> None:
        super().__init__(store, info, **options)
        self._allow = frozenset(allow)

    @property
    def only_replays(self) -> bool:
        """In the end it does more, and threads are not to be left behind."""
        return False

    def recording_ends(self, run: RecordedRun) -> NoReturn:
        """Processes that have joined cannot go on."""
        if isinstance(run, RecordedWriter):
            self.comparison_of(run).before_the_end()
            self.stop(cannot_go_on(run))
        super().recording_ends(run)

    @abstractmethod
    def go_live(self, run: RecordedRun, by: str | None = None) -> None:
        """Have what comes from now on appended; `by` is the kind of the event that comes, if it is an event."""

    @abstractmethod
    def edited_answers(self, run: RecordedRun) -> Iterable[EditedAnswers]:
        """The answers that were given for calls of the round that runs, those that go before first."""

    @property
    @abstractmethod
    def asks_about(self) -> str | None:
        """What is live where a tool that does harm has to be allowed, for messages; None where none has to be."""

    def recorded_answer(self, run: RecordedRun, call: Call, data: Data) -> Answer | None:
        """A recorded answer that is used again, which is in the log then."""
        return None

    def live_call(self, run: RecordedRun, call: Call, data: Data) -> tuple[Data, Answer | None]:
        """The answer that was given, or one to use again; else the call is made, if it may be."""
        given: Any = data
        key = run.key_of_call(call.effect.kind, data)
        for answers in self.edited_answers(run):
            edited = answers.take(call.effect.kind, given.name, given.call, key)
            if edited is not None:
                answer = self.given_for(call, *edited)
                run.log.emit(f"{call.effect.kind}.called", data, scope=call.scope)
                self.coverage.recorded += 1
                return data, append_end(call, given.call, answer, "edited")
        if (reused := self.recorded_answer(run, call, data)) is not None:
            return data, reused
        self.may_be_made(run, call, data)
        return data, None

    def given_for(self, call: Call, value: Any, recorded: RecordedCall | None) -> Given:
        """What somebody gave for a call; the code is stopped if that does not fit."""
        try:
            return given_for(call, value, recorded)
        except UsageError as error:
            self.stop(error)

    def may_be_made(self, run: RecordedRun, call: Call, data: Any) -> None:
        """Stop a call that may do harm, or that would send what stands for a secret."""
        what = self.asks_about
        refused = None if what is None else refusal_of(call.effect, data.call, self._allow, what)
        if refused is not None:
            self.stop(refused)
        self.sends_no_token(run, call, data)

    def sends_no_token(self, run: RecordedRun, call: Call, data: Data) -> None:
        """Stop a call that would send what stands for a secret; any other is made now."""
        unsent = redacted_in(data, call.effect, f"{self.info.id}, step {run.log.round}")
        if unsent is not None:
            self.stop(unsent)
        self.coverage.live += 1
