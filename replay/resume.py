"""Resume: a run that was interrupted, or whose process is gone, goes on in place.

The code is executed against the whole log, without appending anything, until it does something that the log does not
have. From there on it goes on live, and appends to the same run. What was in flight when the run ended is made again if
that does no harm; whether an irreversible call was done, only a person can say (`assume`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from ..recorder.attaching import Answer, Attachment
from ..recorder.calls import Call
from ..recorder.environment import code_version, process_identity
from ..recorder.errors import LiveCallRefused, UsageError
from ..recorder.events import Data, Event, RunResumedData, RunSuspendedData
from ..recorder.store import EventStore, RunInfo
from .catching_up import catching_up, instead_of
from .edited_answers import EditedAnswers
from .edits import Edits
from .given import Mark, append_end
from .going_live import GoingLive
from .reading import state_at
from .recorded_run import RecordedRun
from .recorded_writer import RecordedWriter
from .script import RecordedCall, Script
from .state import RunState

AGAIN: Final = ("pure", "idempotent")
"""Tools that are called again when they were in flight; model calls are, too."""

NOT_DONE: Final = object()
"""Assumed of a call that was in flight: it did nothing, and is to be made again."""


class Resume(GoingLive):
    """The whole log, then live, in the same run.

    Args:
        store, info: the run.
        answers: interrupt id → response.
        assume: name of a call that was in flight (`InFlight`) → what it gave, or `NOT_DONE`.
        secrets: JSON Pointer into the starting payload → the secret that a token stands for there.
        options: of the course.
    """

    def __init__(
        self,
        store: EventStore,
        info: RunInfo,
        *,
        answers: Mapping[str, Any] | None = None,
        assume: Mapping[str, Any] | None = None,
        secrets: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(store, info, **options)
        self._secrets = Edits(secrets=secrets or {})
        self._edited: dict[int, list[EditedAnswers]] = {}
        self._answers = dict(answers or {})
        self._assume = dict(assume or {})
        self._left: dict[RecordedRun, RunState] = {}
        self.unfinished = {info.uid}

    def begins(self, name: str) -> Attachment:
        """The recording, with its secrets, which the log does not have."""
        begun = super().begins(name)
        if self.folded is None:
            begun.payload = self.secrets.apply(begun.payload)
        return begun

    @property
    def secrets(self) -> Edits:
        """Those that were given."""
        return self._secrets

    def stop(self, failure: BaseException) -> NoReturn:
        """Stop the code, and leave the run as one that can be resumed again."""
        if self._stopped is None:
            for run in reversed(self.runs):
                if run.log.live and not run.log.ended:
                    run.log.stopping = True
                    run.log.post("run.suspended", RunSuspendedData(reason=f"stopped: {type(failure).__name__}"))
        super().stop(failure)

    def events_of(self, info: RunInfo) -> Iterable[Event]:
        """All of them; of the run that is resumed, without the words of its interruption at the end."""
        events = list(super().events_of(info))
        if info.uid in self.unfinished:
            while events and events[-1].kind in ("run.suspended", "round.finished") and _interrupts(events[-1]):
                events.pop()
        return events

    def goes_on_live(self) -> bool:
        """What waits for more than the log has, such as a pause, waits for it live."""
        waiting = [run for run in self.runs if self.goes_live_beyond(run) and not run.log.live and not run.log.ended]
        for run in waiting:
            with run.log.lock:
                self.go_live(run)
        return bool(waiting)

    def goes_live_with_one_more(self) -> bool:
        """In the round in which the log ends."""
        begun = self.begun
        if begun is None or begun.log.round < begun.script.last_round:
            return False
        with begun.log.lock:
            self.go_live(begun)
        return True

    @property
    def answers_when_live(self) -> bool:
        """One task may be where the log ends while others are not; and a call that is made again has calls inside."""
        return True

    @property
    def is_strict(self) -> bool:
        """The code was edited, perhaps to report more, or to ask another model from here on."""
        return False

    def goes_live_beyond(self, run: RecordedRun) -> bool:
        """Whatever the log does not have is done live."""
        return run.script.finished is None and not isinstance(run, RecordedWriter)

    def go_live(self, run: RecordedRun, by: str | None = None) -> None:
        """Append `run.resumed` and what comes, to the same run."""
        if run.log.live:
            return
        recorder = run.recorder
        assert recorder is not None  # it is attached
        taken = recorder.round_seconds
        if run.parent is None:
            self.through()
        self.turns.go_live()
        recorder.count_from(
            max((_number(name) for name in run.script.calls if _round(name) == run.log.round), default=0)
        )
        resumed = RunResumedData(
            process=process_identity(),
            code=code_version("."),
            answers=self._answers if run.parent is None else {},
            max_rounds=self.max_rounds if run.parent is None else None,
        )
        round = run.log.round
        if round and run.script.round(round).started is None:  # it is about to start
            round -= 1
        if self.folded is not None and run.parent is None:
            self.folded.restore(run)
        info = self.store.run(run.info.uid)
        self._left[run] = state = state_at(info, -1, self.store)
        catch_up = catching_up(state, recorder, by)
        run.log.go_live(info, info.head_seq, round, [("run.resumed", resumed), *catch_up])
        recorder.round_seconds = taken
        if run.parent is None and self.workers is not None:
            self.workers.goes_live(info, self.asks_about, self._allow)
        if by == "round.started":
            run.log.after_round_starts = lambda: run.edit_as_recorded(run.log.round)

    def first_change(self, run: RecordedRun, changed: Data) -> Data:
        """It builds on what the log says."""
        assert run.recorder is not None  # it has made the change
        return instead_of(changed, self._left[run], run.recorder)

    @property
    def asks_about(self) -> str | None:
        """The calls of a re-run: what it may do is what it is allowed to now; a run of its own does what it did."""
        return None if self.info.fork_of is None else f"{self.info.id} is a re-run: its calls"

    def edited_answers(self, run: RecordedRun) -> list[EditedAnswers]:
        """Those with which the run began, if it is a re-run, as far as they were not asked for yet."""
        if run.parent is not None:
            return []
        round = run.log.round
        if round not in self._edited:
            told = [e for e in run.script.forked if e.round + 1 == round]
            found = [EditedAnswers.in_log(self.store, forked, run.script) for forked in told]
            self._edited[round] = [answers for answers in found if answers is not None]
        return self._edited[round]

    def settled(self, run: RecordedRun, call: Call, data: Any, recorded: RecordedCall) -> Answer | None:
        """What was assumed of a call that was in flight, or given for it; None to make it again."""
        name = recorded.call if run.parent is None else f"{run.info.id}:{recorded.call}"
        given: tuple[Any, RecordedCall] | None = None
        mark: Mark = "edited"
        for answers in self.edited_answers(run):
            given = given or answers.take(recorded.kind, recorded.name, recorded.call, recorded.key)
        if given is None and name in self._assume and self._assume[name] is not NOT_DONE:
            given, mark = (self._assume[name], recorded), "assumed"
        if given is not None:
            self.go_live(run)
            self.coverage.recorded += 1
            return append_end(call, recorded.call, self.given_for(call, *given), mark)
        waiting = InFlight(name, recorded, ())
        if waiting.may_do_harm and name not in self._assume:
            self.stop(unsettled(self.info, [waiting]))
        self.sends_no_token(run, call, data)
        return None

    def response_to(self, run: RecordedRun, interrupt: str) -> tuple[Any] | None:
        """The response that was given with `answers`."""
        return (self._answers[interrupt],) if interrupt in self._answers else None


class InFlight(NamedTuple):
    """A call that had not ended when a log did.

    Attributes:
        name: what it is settled by: its id, or that of its run and its own, as in "run2:1.1", if it is a child run's.
        call: the call.
        around: the names of those that it was made inside of, and that had not ended either.
    """

    name: str
    call: RecordedCall
    around: tuple[str, ...]

    @property
    def may_do_harm(self) -> bool:
        """Whether only a person can say what became of it."""
        return self.call.kind == "tool" and self.call.called.data.safety not in AGAIN


def unsettled(info: RunInfo, waiting: Sequence[InFlight]) -> LiveCallRefused:
    """Some calls were in flight, and nobody but a person knows whether they were done."""
    named = ", ".join(f"{one.name} ({one.call.name})" for one in waiting)
    first = waiting[0]
    return LiveCallRefused(
        f"{info.id} ended while {named} was in flight, and doing it twice may do harm. Look whether it was done, then "
        f"say so: --assume {first.name}=JSON for what it gave, or --assume {first.name}=not-done to do it now.",
        name=first.call.name,
        call=first.name,
    )


def in_flight(store: EventStore, info: RunInfo, prefix: str = "", around: tuple[str, ...] = ()) -> dict[str, InFlight]:
    """The calls of a run, and of the runs that it has started, that had not ended when their logs did; by name.

    Args:
        store, info: the run.
        prefix: of the names.
        around: names of the calls that the run was started inside of.
    """
    script = Script(store.events(info, conversations=False))
    found: dict[str, InFlight] = {}
    outer: dict[str | None, tuple[str, ...]] = {None: around}
    for call in script.calls.values():
        within = outer.get(call.called.within, around)
        name = prefix + call.call
        outer[call.call] = within if call.ended is not None else (*within, name)
        if call.ended is None:
            found[name] = InFlight(name, call, within)
    for children in script.children.values():
        for started in children:
            if started.data.run not in script.subruns:
                child = store.run(started.data.run)
                found |= in_flight(store, child, f"{child.id}:", outer.get(started.within, around))
    return found


def refuse_unless_gone(info: RunInfo, take_over: bool) -> None:
    """Refuse to resume a run that has ended, or that another process may still record.

    Raises:
        UsageError: it is completed, failed or cancelled; or it may be running, and `take_over` is not set.
    """
    if info.status in ("completed", "failed", "cancelled"):
        raise UsageError(
            f"{info.id} is {info.status}: there is nothing to resume. `agentreplay rerun {info.id} --step N` starts a "
            "new run from one of its steps."
        )
    if info.status == "running" and not take_over:
        raise UsageError(
            f"{info.id} may still be running: its process is not known to be gone. If you know that it is, resume it "
            "with --take-over (take_over=True)."
        )


def _interrupts(event: Event) -> bool:
    return event.kind == "run.suspended" or event.data.outcome == "interrupted"


def _round(call: str) -> int:
    return int(call.split(".", 1)[0]) if call.split(".", 1)[0].isdigit() else 0


def _number(call: str) -> int:
    last = call.rsplit(".", 1)[-1]
    return int(last) if last.isdigit() else 0
