"""The course of one execution of code against a recording: how far it goes, and what it comes across.

One mechanism serves all. The code is executed, and answered from the log while the log lasts; the kinds of courses
differ in what comes then. A replay stops: the recording is the whole, and everything that parts from it is a
divergence. The others go on live (`fork`, `resume`).
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ..recorder.attaching import Answer, Attachment, Guard, Waiting
from ..recorder.calls import Call, Effect
from ..recorder.errors import AgentReplayError, Divergence, UsageError
from ..recorder.events import Data, Event
from ..recorder.scope import Scope
from ..recorder.signals import ProcessStopped, ReplayStopped
from ..recorder.store import EventStore, RunInfo
from .beginning_again import beginning_of
from .cancelled_outside import OutsideCancellation
from .comparison import Comparison
from .coverage import Coverage
from .divergence import Difference, value_difference
from .edits import Edits
from .folded import FoldedPrefix, folded_in
from .ignoring import IgnoreRules
from .recorded_run import RecordedRun
from .reducer import fold
from .script import RecordedCall
from .turns import Deliveries

if TYPE_CHECKING:
    from .threads import Key
    from .workers import Workers


_RESULTS: Final = ("another decision", "another payload", "another outcome")
"""Kinds of differences that may come of something else which is missing."""


class RecordingEnds(AgentReplayError):
    """The recording ends here, unfinished: there is nothing more to compare."""


class NothingRecorded(AgentReplayError):
    """The run has no event to start from."""


class Course(Waiting):
    """A replay: the code is compared to the end of the recording.

    Args:
        store, info: the run.
        name: of the agent that the code must begin a run of; None for any.
        ignore: rules of what is different each time.
        shallow: answer the runs of other agents as wholes, instead of executing them, too.
        max_rounds: the bound that the run is given; by default what the recording says that it was given.
        collect: go on after a difference as far as can be, instead of stopping at the first.

    Attributes:
        coverage: what was answered from where.
        turns: hands out the answers in their order.
        differences: those that were found.
        moves: how often the code has asked for something.
        workers: of the processes that the code starts, while it is executed.
        begun: the run that code has attached itself to, or None as yet.
        folded: the rounds that are not executed, if some are not; known once the code has begun.
        doubts: what is worth a word before anything is executed.
        lacking: what the code does without that it had when it was recorded; a divergence says so, since it may be why.
    """

    def __init__(
        self,
        store: EventStore,
        info: RunInfo,
        *,
        name: str | None = None,
        ignore: IgnoreRules | None = None,
        collect: bool = False,
        shallow: bool = False,
        max_rounds: int | None = None,
    ) -> None:
        self.store = store
        self.shallow = shallow
        self.max_rounds = max_rounds
        self.folded: FoldedPrefix | None = None
        self.doubts: list[str] = []
        self.lacking: list[str] = []
        self.info = info
        self._name = name
        self.ignore = ignore or IgnoreRules(())
        self.coverage = Coverage()
        self.turns = Deliveries(self)
        self.differences: list[Difference] = []
        self.begun: RecordedRun | None = None
        self.runs: list[RecordedRun] = []
        self.moves = 0
        self.workers: Workers | None = None
        self._collect = collect
        self._stopped: BaseException | None = None
        self._comparisons: dict[RecordedRun, Comparison] = {}
        self._outside: OutsideCancellation | None = None

    # -- beginning -------------------------------------------------------------------------------------

    def begins(self, name: str) -> Attachment:
        """The recording, for the run that begins; there is one."""
        if self._stopped is not None:
            raise ReplayStopped(self._stopped)
        if self.begun is not None or (self._name is not None and name != self._name):
            self.stop(self._another_run(name))
        self.folded = self._folds()
        if self.workers is not None:
            self.workers.begins()
        self.begun = self._began(RecordedRun(self, self.info))
        self._outside = OutsideCancellation(self.begun)
        if name != self.info.agent:
            self.coverage.note(
                f"{self.info.id} is a run of {self.info.agent!r}; the agent that is executed is {name!r}"
            )
        return self.begun

    def beginning(self) -> dict[str, Any]:
        """What the recording began with."""
        return beginning_of(self.store, self.info)

    @property
    def is_begun_by_code(self) -> bool:
        """Whether code opens the run, and gives it what it begins with; else an agent is executed by itself."""
        return self._name is not None

    def _folds(self) -> FoldedPrefix | None:
        """The rounds that the run's own code has not executed either."""
        folded = folded_in(self.store, self.info)
        if folded is not None:
            self.coverage.note(
                f"{self.info.id} began with step {folded.step} (--prefix=fold), so what comes before is taken from the "
                "log here, too"
            )
        return folded

    @property
    def only_replays(self) -> bool:
        """Whether the code is only replayed, from its beginning to its end."""
        return True

    def joins(self, run: RecordedRun) -> None:
        """Code has joined a run, against what a writer did there."""
        self._began(run)

    def goes_live_with_one_more(self) -> bool:
        """Code joins where everybody who was recorded is stood for; says whether the run has gone on live for that."""
        return False

    def nobody_left(self, info: RunInfo, difference: Difference) -> NoReturn:
        """Code joins a run where nobody joined who is not stood for already, which is a difference."""
        self.differences.append(difference)
        self.stop(Divergence(difference))

    def _began(self, run: RecordedRun) -> RecordedRun:
        self.runs.append(run)
        self.turns.add(run)
        return run

    def _another_run(self, name: str) -> AgentReplayError:
        if self.begun is not None:
            return UsageError(
                f"the code begins a second run, {name!r}, after {self.info.id}; only what belongs to {self.info.id} is "
                "executed here. Name code that makes this one run only."
            )
        return UsageError(
            f"{self.info.id} is a run of {self.info.agent!r}, but this code begins a run of {name!r}: name the agent "
            "that was recorded"
        )

    def outside(self, effect: Effect) -> None:
        """An effect outside of the run was never recorded, so there is no answer to it."""
        what = f"{effect.kind} {effect.name} is called"
        if self.workers is not None and self.workers.desk.pid != os.getpid():
            failure = UsageError(
                f"{what} outside of the run, in a process that its code has forked, where nothing is recorded, so it "
                "cannot be answered; have the process join the run, ar.join(run.id), and record it so"
            )
            raise ProcessStopped(self.stops(failure))
        self.stop(
            UsageError(
                f"{what} outside of the run, where nothing is recorded, so it cannot be answered; call it within the "
                "run, or leave it out of the code that is executed"
            )
        )

    def events_of(self, info: RunInfo) -> Iterable[Event]:
        """The events that the code of a run is compared with."""
        events = self.store.events(info, conversations=False)
        return events if self.folded is None or info.uid != self.info.uid else self.folded.left(events)

    def nothing_recorded(self, info: RunInfo) -> AgentReplayError:
        """What is wrong with a run whose log does not begin."""
        return NothingRecorded(f"{info.id} has no recorded event; there is nothing to execute code against")

    def child_of(self, parent: RecordedRun, started: Event) -> Attachment:
        """The recording of a child run."""
        child = self.store.run(started.data.run)
        if not self.shallow or parent.script.subruns.get(child.uid) is None:
            return self._began(RecordedRun(self, child, parent))
        from .whole import WholeRun

        return self._began(WholeRun(self, child, parent))

    def child_as_call(self, parent: RecordedRun, started: Event) -> RecordedCall:
        """A child run as a call of its agent, with what it was given as the arguments."""
        child = self.store.run(started.data.run)
        given = next(iter(self.store.events(child, until=0))).data
        arguments = {"payload": given.payload, "input": given.input, "params": given.params}
        return RecordedCall(child.id, "agent", started.data.name, arguments, b"", started)

    def look_around(self) -> None:
        """Look at what comes from processes that the code has started; every few milliseconds."""
        if self.workers is not None:
            self.workers.look()

    def through(self) -> None:
        """The code has come to its end, or goes on live; it is stopped if something is missing all the same."""
        if self.workers is not None and self._stopped is None and not self._went_live:
            self.workers.through()

    @property
    def last_event(self) -> int | None:
        """The last event of the run that the code is compared with; None for that of the log."""
        return None

    @property
    def _went_live(self) -> bool:
        return self.begun is not None and self.begun.log.live

    def attached(self, run: RecordedRun) -> None:
        """Code has attached itself to a run; its recorder is there."""
        if self.folded is not None and run.parent is None:
            self.folded.attach(run, self.secrets)

    @property
    def secrets(self) -> Edits:
        """The secrets that are given for tokens in the payload with which the code begins."""
        return Edits()

    def comparison_of(self, run: RecordedRun) -> Comparison:
        """What compares a run's code with its script."""
        found = self._comparisons.get(run)
        if found is None:
            found = self._comparisons[run] = Comparison(run, self)
        return found

    def compare_anew(self, run: RecordedRun) -> None:
        """A run has another script from now on."""
        self._comparisons.pop(run, None)
        self.turns.read_anew(run)

    # -- how far -----------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Stop code that was stopped before, whatever it did about that."""
        self.raise_if_stopped()
        self.moves += 1

    def raise_if_stopped(self) -> None:
        """`go_on`, of code that asks for nothing new."""
        if self._stopped is not None:
            self.turns.insistence.told(self._stopped)
            raise ReplayStopped(self._stopped)

    def pause(self) -> float:
        """Seconds that the code took by itself at most, around where it is, while it was recorded."""
        return max((run.script.pauses.around(run.log.round) for run in self.runs if not run.log.ended), default=0.0)

    def stop(self, failure: BaseException) -> NoReturn:
        """Stop the code, for good."""
        raise ReplayStopped(self.stops(failure))

    def stops(self, failure: BaseException) -> BaseException:
        """`stop`, where nothing may be raised: the code is stopped at what it does next. Returns what stopped it."""
        if self._stopped is None:
            self._stopped = failure
            if self.workers is not None:
                self.workers.tell_elsewhere(failure)
        return self._stopped

    # -- idle moments ------------------------------------------------------------------------------------

    @property
    def is_live(self) -> bool:
        """Whether the recording is over for the code, or for a part of it."""
        return any(run.log.live and not run.log.ended for run in self.runs)

    @property
    def is_under_way(self) -> bool:
        """Whether code has begun the run, has not ended it, and is answered from the log."""
        return self.begun is not None and not self.begun.log.ended and not self.is_live

    def in_flight(self, run: RecordedRun, call: RecordedCall) -> NoReturn:
        """Code waits for a call that was in flight when the recording ended."""
        self.recording_ends(run)

    def nothing_comes(self, *, waits: bool) -> bool:
        """All code waits, and nothing that was recorded can be let through. Returns whether that is as it should be.

        Args:
            waits: whether a call is waited for that was in flight when the recording ended.
        """
        for run in self.runs:
            if not run.log.ended and self.comparison_of(run).missing_call():
                return True
        if waits and self.begun is not None:
            self.recording_ends(self.begun)
        return False

    def goes_on_live(self) -> bool:
        """All code waits at the end of the recording, where it may go on live. Returns whether it does."""
        return False

    def is_cancelled_here(self, following: Key | None, waiting: Container[Key]) -> bool:
        """All code waits; whether one of the calls that it waits for was cancelled from outside, and is so now."""
        return self._outside is not None and following is not None and self._outside.cancels(following, waiting)

    def ends_cancelled(self, following: Key | None) -> bool:
        """All code waits for nothing that was recorded; whether it was cancelled there from outside, and is so now."""
        return self._outside is not None and following is None and self._outside.ends()

    def stuck(self, site: str | None = None) -> None:
        """The code waits, at a line if that is known, for something that the recording knows nothing of."""
        begun = self.begun
        if begun is not None and begun.script.finished is None and not self.goes_live_beyond(begun):
            self.recording_ends(begun)
        round = 0 if begun is None else begun.log.round
        self.stop(
            Divergence(
                value_difference(
                    "another outcome",
                    "the code goes on",
                    "the code waits for something that did not come while it was recorded, or was not recorded",
                    step=round,
                    site=site,
                    run=self.info.id,
                )
            )
        )

    def cancelled_early(self, call: RecordedCall) -> None:
        """The code cancels a call that was not cancelled while recording."""
        if self.begun is not None and self.begun.log.ended:
            return  # an event loop that is closed cancels what is left open
        self.parts(
            value_difference(
                "another outcome",
                "returned" if call.ended is not None and call.ended.kind.endswith(".returned") else "failed",
                "cancelled",
                step=call.called.round,
                seq=call.seq,
                call=call.call,
                name=call.name,
                run=self.info.id,
            )
        )

    @property
    def is_strict(self) -> bool:
        """Whether another report, reason or declared model is a difference, and not only worth a word."""
        return True

    @property
    def collects(self) -> bool:
        """Whether differences are gathered."""
        return self._collect

    def counted(self) -> Coverage:
        """What was answered from where, now that the code is through."""
        asked = {id(call) for run in self.runs for call in run.script.calls.values() if call.asked}
        for run in self.runs:
            captured = None if run.recorder is None else run.recorder.captured
            if captured is not None and (told := captured.told()) is not None:
                self.coverage.uncaptured += sum(sum(counts.values()) for counts in captured.uncaptured.values())
                self.coverage.note(f"{run.info.id}: {told}")
            calls = run.script.calls
            self.coverage.unused += sum(
                id(call) not in asked and (call.called.within is None or not calls[call.called.within].asked)
                for call in calls.values()
                if call.called.within is None or call.called.within in calls
            )
        for note in self.lacking if self.differences or isinstance(self._stopped, Divergence) else ():
            self.coverage.note(note)
        return self.coverage

    def raise_stopped(self) -> NoReturn:
        """Raise why the code was stopped, without the way there, which is ours."""
        assert self._stopped is not None
        if isinstance(self._stopped, Divergence):
            self._stopped.notes += tuple(note for note in self.lacking if note not in self._stopped.notes)
        self._stopped.__context__ = None
        raise self._stopped.with_traceback(None) from self._stopped.__cause__

    @property
    def stopped(self) -> BaseException | None:
        """Why the code was stopped, if it was."""
        return self._stopped

    @property
    def answers_when_live(self) -> bool:
        """Whether what the recording has, and the code has not asked for yet, is answered from it to the end."""
        return False

    def goes_on_after(self, run: RecordedRun) -> bool:
        """Whether the recorded run is known to go on where the script of it ends."""
        return False

    def goes_live_with(self, run: RecordedRun, round: int) -> bool:
        """Whether a round is the first that is not answered from the log."""
        return False

    def goes_live_beyond(self, run: RecordedRun) -> bool:
        """Whether code that asks for more than the recording has goes on live."""
        return False

    def go_live(self, run: RecordedRun, by: str | None = None) -> None:
        """The code goes on where the recording ends, with an event of the kind `by` if it is one; here it does not."""
        self.recording_ends(run)

    def first_change(self, run: RecordedRun, changed: Data) -> Data:
        """The change of the payload with which a run goes live, as it is to be appended."""
        return changed

    def round_has_started(self, run: RecordedRun, round: int) -> None:
        """The code of a run has begun a round."""
        return

    def live_call(self, run: RecordedRun, call: Call, data: Data) -> tuple[Data, Answer | None]:
        """What becomes of a call when the recording is over: its data, and an answer if it is not to be made."""
        self.recording_ends(run)

    def may_be_made(self, run: RecordedRun, call: Call, data: Data) -> None:
        """Stop a call that would be made, if it may not be."""

    def guard_of_child(self, run: RecordedRun, name: str, begun_with: Mapping[str, Any], scope: Scope) -> Guard:
        """What is asked before a child run makes a call, which a run that has gone live has started."""
        return run

    def settled(self, run: RecordedRun, call: Call, data: Data, recorded: RecordedCall) -> Answer | None:
        """The answer to a call that was in flight when the recording ended; None to make it again."""
        self.in_flight(run, recorded)

    def response_to(self, run: RecordedRun, interrupt: str) -> tuple[Any] | None:
        """A new response to a question that was asked and not answered."""
        return None

    def recording_ends(self, run: RecordedRun) -> NoReturn:
        """The code is at the end of a recording that was never finished."""
        if run.script.finished is not None:  # it was; what the code waits for had not ended by then
            self.stuck()
        self.comparison_of(run).before_the_end()
        self.stop(RecordingEnds(f"the recording of {run.info.id} ends here"))

    # -- differences -------------------------------------------------------------------------------------

    def parts(self, difference: Difference) -> None:
        """Take note of a difference; stop the code, unless all of them are wanted."""
        if self.workers is not None and not self._went_live and difference.kind in _RESULTS:
            missing = list(self.workers.missing(before=difference.seq))  # it may be their work that it lacks
            for one in missing:
                self.parts(one)
        self.differences.append(difference)
        if not self._collect:
            self.stop(Divergence(difference))

    def parts_while_closing(self, difference: Difference) -> None:
        """`parts`, where nothing may be raised: the code is stopped at what it does next."""
        self.differences.append(difference)
        if not self._collect:
            self.stops(Divergence(difference))

    def error_lacks(self, what: str | None) -> None:
        """An error that is raised is not quite the recorded one; a divergence says so, since it may be why."""
        if what is not None and what not in self.lacking:
            self.lacking.append(what)

    def cannot_answer(self, run: RecordedRun, name: str) -> None:
        """Stop code that asks for what has no answer, even where all differences are wanted."""
        self.stop(Divergence(*self.differences))

    # -- reading the recording ---------------------------------------------------------------------------

    def payload_at(self, run: RecordedRun, seq: int) -> Any:
        """The recorded payload after an event, in stored form."""
        return fold(self.store.events(run.info, until=seq, conversations=False), check=False).stored_payload

    def expand(self, run: RecordedRun, call: RecordedCall) -> None:
        """Put the messages that a recorded request repeats in the place of the tags that stand for them."""
        if call.kind == "model" and not call.expanded:
            call.expanded = True
            (event,) = self.store.events(run.info, after=call.seq - 1, until=call.seq)
            call.arguments = event.data.request
