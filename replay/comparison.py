"""What code does, compared with the recording: where they part is a difference, told as exactly as can be.

Calls and reads are compared where they are made; decisions where they are taken; the payload, the outcome and what was
never asked for where a round ends. A change of the payload in the middle of a round is no difference by itself, since
another way to the same payload is none; it is what a difference at the end of the round is traced to.

A round that ends with an error is looked at when it is known with which: that an error is another one, or that there is
one at all, explains everything that the round lacks then.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..recorder.errors import RecordedError
from ..recorder.events import Event
from ..recorder.introspection import isinstance_of
from ..recorder.reads import raise_site
from ..recorder.redaction import without_digests
from ..recorder.run_recorder import UNDECIDED
from ..recorder.values import encode, is_tag, lossy_in
from .answers import containers
from .changes import MISSING
from .comparing_reads import ComparedReads
from .comparing_said import ComparedSaid
from .divergence import Difference, Kind, call_difference, hint_for, missing_call, swapped_calls, value_difference
from .exactly import stored_as_field
from .interrupting import as_recorded
from .paths import display_keys
from .script import RecordedCall, Strand, key_of
from .sites import site_of_code

if TYPE_CHECKING:
    from .course import Course
    from .recorded_run import RecordedRun

_OPAQUE: Final = b'"$type":"opaque"'
_UNDECIDED: Final = {"step": UNDECIDED}
_BROKEN_OFF: Final = ("failed", "cancelled")
"""Outcomes of rounds that an exception left."""


class Comparison:
    """Compares one run's code with its script.

    Args:
        run: the run.
        course: told of each difference; it stops the code, or goes on.
    """

    def __init__(self, run: RecordedRun, course: Course) -> None:
        self._run = run
        self._script = run.script
        self._course = course
        self._decided: dict[int, int] = {}
        self._changed: dict[int, list[tuple[str, str | None]]] = {}  # by round: the hash after each, and where
        self._payload_told: set[tuple[str, bytes, bytes]] = set()
        self._in_round = False
        self._overtakings: dict[str, Difference] = {}  # by the call that another was made before
        self._undecided: list[tuple[Event, Any, Any]] = []
        self._broken_off: tuple[Any, Strand] | None = None
        self.reads = ComparedReads(self, run, course)
        self._said = ComparedSaid(self, run, course)

    # -- events ----------------------------------------------------------------------------------------

    def event(self, kind: str, data: Any, strand: Strand, known: bool) -> None:
        """Compare an event that the code has come to."""
        match kind:
            case "round.started":
                self._settle()
                self._missing(Strand(strand.round - 1, None, "0"))  # what came after that round, and before this one
                self._round_starts(strand)
                self._in_round = True
            case "step.decided":
                self._decides(data, strand)
            case "payload.changed":
                self._changed.setdefault(strand.round, []).append((data.hash_after, site_of_code()))
            case "round.finished":
                self._round_finishes(data, strand)
                self._in_round = False
            case "run.finished":
                self._run_finishes(data, strand)
            case "interrupt.raised":
                self.asks(data.name, data.reason, strand)
                self._course.coverage.read()  # one that was answered is not raised again, and counts as answered
        self._said.says(kind, data, strand)

    def _round_starts(self, strand: Strand) -> None:
        if self._script.round(strand.round).started is None:
            self.ends_at(strand)
            asked = {"rounds": strand.round - 1}, {"rounds": strand.round}
            self._part("another outcome", strand, self._script.finished, *asked)

    def ends_at(self, strand: Strand) -> None:
        """Stop the code if the recording ends here: of a run that was not finished, and no later than this."""
        script = self._script
        if script.finished is not None or strand.round < script.last_round:
            return
        if not self._in_round or script.round(strand.round).finished is None:
            self._course.recording_ends(self._run)

    def _decides(self, data: Any, strand: Strand) -> None:
        number = self._decided.get(strand.round, 0)
        self._decided[strand.round] = number + 1
        recorded = self._script.round(strand.round)
        actual = self._run.as_field(data.decision)
        if number >= len(recorded.decided):
            self.ends_at(strand)
            self._missing(strand)
            self._part("another decision", strand, None, MISSING, actual, site=site_of_code())
            return
        event = recorded.decided[number]
        expected = event.data.decision
        if self.same("decision", "", expected, actual):
            texts = [{"raw": raw} for raw in (event.data.raw, self._run.redacted(data.raw))]
            if not self.same("decision", "", *texts):
                self._part("another decision", strand, event, *texts, site=site_of_code())
            return
        if actual == _UNDECIDED or (expected == _UNDECIDED and recorded.outcome in _BROKEN_OFF):
            self._undecided.append((event, expected, actual))  # an error may have come first
            return
        self._missing(strand, before=event.seq)
        self._part("another decision", strand, event, expected, actual, site=site_of_code())

    def _round_finishes(self, data: Any, strand: Strand) -> None:
        recorded = self._script.round(strand.round)
        if recorded.finished is None:
            self._course.recording_ends(self._run)
        if data.outcome in _BROKEN_OFF:
            self._broken_off = data, strand
            return
        if recorded.outcome in _BROKEN_OFF:
            finished = self._script.finished
            error = None if finished is None else finished.data.error
            if error is not None:
                self._undecided.clear()
                self._part("another error", strand, finished, _told(error), MISSING)
                return
        self._compare_round(data, strand)

    def _settle(self) -> None:
        """Compare the round that was broken off, though no error explains it."""
        if self._broken_off is not None:
            (data, strand), self._broken_off = self._broken_off, None
            self._compare_round(data, strand)

    def _compare_round(self, data: Any, strand: Strand) -> None:
        recorded = self._script.round(strand.round)
        event = recorded.finished
        assert event is not None  # it was asked for before
        self._missing(strand, before=event.seq)
        undecided, self._undecided = self._undecided, []
        for decision, expected, actual in undecided:
            self._part("another decision", strand, decision, expected, actual)
        for decision in recorded.decided[self._decided.get(strand.round, 0) :]:
            self._part("another decision", strand, decision, decision.data.decision, MISSING)
        if data.outcome != recorded.outcome:
            self._part("another outcome", strand, event, recorded.outcome, data.outcome)
        if data.payload_hash != event.data.payload_hash:
            self._payload_differs(strand, event)
        self._tell_in_order(self._said.of_changes())

    def _payload_differs(self, strand: Strand, finished: Event) -> None:
        recorder = self._run.recorder
        assert recorder is not None  # it sent the event
        expected = self._course.payload_at(self._run, finished.seq)
        actual = encode(recorder.payload.stored).stored
        if self.same("payload", "", expected, actual):
            return
        seen = self._changed.get(strand.round, [])
        changed = self._script.round(strand.round).changed
        hashes = [event.data.hash_after for event in changed]
        at = next((i for i, (hash, _) in enumerate(seen) if hashes[i : i + 1] != [hash]), len(seen))
        event = changed[at] if at < len(changed) else finished
        site = seen[at][1] if at < len(seen) else None
        difference = self.value("another payload", strand, event, expected, actual, site=site)
        self.reads.tell_of_swapped(strand, "the payload")
        changes = {(one.path, key_of(one.old), key_of(one.new)) for one in difference.changes}
        told, self._payload_told = self._payload_told, changes
        if not changes <= told:  # what was told of an earlier round stays different
            self.tell(difference)

    def _run_finishes(self, data: Any, strand: Strand) -> None:
        finished = self._script.finished
        if finished is None:
            self._ends_early(data, strand)
            self._course.recording_ends(self._run)
        for stream in list(self._run.open_streams):
            if (difference := stream.left_early()) is not None:
                self.tell(difference)
        expected, actual = finished.data, as_recorded(self._course, finished.data, data)
        if actual is not data:  # Ctrl-C, which came in another form
            self._broken_off, self._undecided = None, []
        rounds = self._script.last_round
        # An error with which the recording ended later is not the one that was expected here.
        error = None if rounds > strand.round else expected.error
        if (error is None) != (actual.error is None) or (
            error is not None and not self.same("error", "", _told(error), self._run.redacted(_told(actual.error)))
        ):
            self._undecided.clear()
            shown = [MISSING if one is None else _told(one) for one in (error, actual.error)]
            site = None if actual.error is None else raise_site(actual.error.value)
            self._part("another error", strand, finished, *shown, site=site)
            return
        # What a rule leaves out of the message is in there, too.
        alike = error is not None and error.message == self._run.redacted(actual.error.message)
        if error is not None and alike and not isinstance_of(actual.error.value, RecordedError):
            inner = [_inside(stored) for stored in (error.value, self._run.redacted(encode(actual.error.value).stored))]
            if None not in inner and not self.same("error", "", *inner):
                self._part("another error", strand, finished, *inner, site=raise_site(actual.error.value))
        self._settle()
        self._missing(strand)
        if rounds > strand.round:
            self._part("another outcome", strand, finished, {"rounds": rounds}, {"rounds": strand.round})
            return
        if expected.payload_hash not in (None, actual.payload_hash):
            self._payload_differs(strand, finished)
        self._tell_in_order(self._said.missing_at_the_end())
        before = {"status": expected.status, "stop_reason": expected.stop_reason, "value": expected.value}
        after = {"status": actual.status, "stop_reason": actual.stop_reason, "value": stored_as_field(actual.value)}
        if not self.same("outcome", "", before, after := self._run.redacted(after)):
            self._part("another outcome", strand, finished, before, after)

    def _ends_early(self, data: Any, strand: Strand) -> None:
        """The code ends where the recording, as far as it is known, goes on or breaks off."""
        recorded = self._script.round(strand.round).finished
        if recorded is not None and recorded.data.outcome == "continue":
            goes_on = self._course.goes_on_after(self._run)
            if data.error is not None and (goes_on or self._broken_off is not None):
                site = raise_site(data.error.value)
                self._part("another error", strand, recorded, MISSING, _told(data.error), site=site)
            elif goes_on:
                self._part("another outcome", strand, recorded, "the run goes on", f"the run ends as {data.status}")

    # -- what was never asked for ------------------------------------------------------------------------

    def _missing(self, strand: Strand, before: int | None = None) -> None:
        """Tell of what a round has in the recording and the code has not asked for, though it is past it."""
        script, round = self._script, strand.round
        of_round = script.round(round)
        lacking: list[tuple[int, Difference]] = []
        for call in script.unasked(Strand(round, None, "0")):
            if before is None or call.seq < before:
                call.missed = True
                lacking.append((call.seq, missing_call(call, step=round, run=self._run.info.id)))
        for child in script.unmet(of_round.children, before):
            call = self._course.child_as_call(self._run, child)
            lacking.append((call.seq, missing_call(call, step=round, run=self._run.info.id)))
        lacking += self.reads.missing(round, before, strand)
        lacking += self._said.missing(round, before)
        for question in script.unmet(of_round.questions, before):
            asked = _question(question.data.name, question.data.reason)
            difference = self.value("another outcome", strand, question, asked, MISSING, name=question.data.name)
            lacking.append((question.seq, difference))
        self._tell_in_order(lacking)

    def _tell_in_order(self, lacking: list[tuple[int, Difference]]) -> None:
        for _, difference in sorted(lacking, key=lambda one: one[0]):
            self.tell(difference)

    def before_the_end(self) -> None:
        """Tell of what the code has not said, though it is past it, where the recording ends in the midst of a run."""
        self._tell_in_order(self._said.missing_where_it_ends(self._run.log.round))

    def missing_call(self) -> bool:
        """Tell of the first call or child run that the code has not come to, and for which all wait.

        Returns False if there is none.
        """
        round, script = self._run.log.round, self._script
        calls = script.unasked(Strand(round, None, "0"))
        child = script.next_unmet(script.round(round).children, until=calls[0].seq if calls else None)
        if child is not None:
            self.tell(missing_call(self._course.child_as_call(self._run, child), step=round, run=self._run.info.id))
        elif calls:
            calls[0].missed = True
            self.tell(missing_call(calls[0], step=round, run=self._run.info.id))
        return child is not None or bool(calls)

    # -- what is asked for -----------------------------------------------------------------------------------

    def asked(self, call: RecordedCall, data: Any) -> None:
        """The code makes a recorded call; another order of such as only read is no difference, but worth a word.

        Args:
            call: the recorded one.
            data: of the code's `*.called`.
        """
        if (swapped := self._overtakings.pop(call.call, None)) is not None:
            self.tell(swapped)
        if not call.missed and (first := self._script.overtaken(call)) is not None:
            self._overtakes(call, first)
        call.asked = True
        self._said.reaches(call.called)
        if _OPAQUE in call.key:
            self._note_opaque(call)
        if call.kind == "model":  # which its effect may declare, and with what it is configured
            self._other_model(call, data)

    def _note_opaque(self, call: RecordedCall) -> None:
        """Say which arguments could not be compared, once for each of a tool or model."""
        for tag, keys in containers(call.arguments, {}):
            if is_tag(tag) and tag["$type"] == "opaque":
                self._course.coverage.note(
                    f"argument {display_keys(keys)} of {call.kind} {call.name} was recorded as an opaque "
                    f"{tag['class']}: what it holds was not compared, only its text; ar.register_type has it recorded",
                    once=(self._run, "opaque", call.kind, call.name, keys),
                )

    def _overtakes(self, call: RecordedCall, first: RecordedCall) -> None:
        """The code makes a call before others of its task, of which one was recorded first."""
        round, run = call.called.round, self._run
        overtaken = self._script.overtaken_for_good(call)
        for one in overtaken:  # which is a difference once it is made all the same; else it is missing
            if one.call not in self._overtakings:
                site = site_of_code()
                self._overtakings[one.call] = swapped_calls(one, call, step=round, site=site, run=run.info.id)
        if not overtaken:
            where = f"step {round}" if run.parent is None else f"{run.info.id}, step {round}"
            self._course.coverage.note(
                f"{where}: calls are made in another order than they were recorded in; the first is {call.call} "
                f"({call.name}), before {first.call} ({first.name})",
                once=(run, "order", round),
            )

    def _other_model(self, call: RecordedCall, data: Any) -> None:
        names = ["model", "parameters"] if call.called.data.parameters and data.parameters else ["model"]
        trees = [self._run.redacted({name: getattr(one, name) for name in names}) for one in (call.called.data, data)]
        if self.same("model", call.name, *trees):
            return
        said = self.value("other arguments", call.strand, call.called, *trees, name=call.name, site=site_of_code())
        hint = hint_for("other arguments", self._run.info.id, call.strand.round, call, said.changes)
        difference = replace(said.of_call(call.call, "model"), hint=hint)
        if self._course.is_strict:
            self.tell(difference)
        else:
            self._course.coverage.note(difference.as_note(), once=(self._run, "model", call.name))

    # -- what is asked for, and not recorded -----------------------------------------------------------------

    def unmatched(self, kind: str, name: str, arguments: Any, strand: Strand) -> RecordedCall | None:
        """A call that the script has not as it is asked. Returns the recorded one that it is none the less.

        Its conversations may have their keys in another order, or rules leave out what differs.

        Args:
            kind, name: of the call.
            arguments: in stored form, with the messages themselves.
            strand: where it is made.

        Returns:
            The recorded call, or None to go on live.
        """
        unasked = self._script.unasked(strand)
        arguments = self.comparable(arguments)
        for call in unasked:
            self._course.expand(self._run, call)
            call.arguments = self.comparable(call.arguments)
            if (call.kind, call.name) == (kind, name) and self.same(kind, name, call.arguments, arguments):
                self._course.coverage.answered(call)
                return call
        of_the_task = [candidate for candidate in unasked if candidate.called.task == strand.task]
        if self._course.goes_live_beyond(self._run) and not of_the_task:
            return None  # of a task that had not come as far as others
        if not unasked:
            self.ends_at(strand)
        others = [candidate for candidate in unasked if candidate.called.task != strand.task]
        difference = call_difference(
            kind,
            name,
            arguments,
            of_the_task,
            others,
            step=strand.round,
            site=site_of_code(),
            run=self._run.info.id,
            ignore=self._course.ignore,
        )
        self.reads.tell_of_odd(difference, strand)
        self.tell(difference)
        if difference.call is None:
            self._course.cannot_answer(self._run, name)
            return None
        return self._script.calls[difference.call]

    def same(self, kind: str, name: str, expected: Any, actual: Any) -> bool:
        """Whether two trees are the same as far as they count; after what an ignore rule calls them, and their name."""
        expected, actual = self.comparable(expected), self.comparable(actual)
        if key_of(expected) == key_of(actual):
            return True
        rules = self._course.ignore
        return bool(rules) and key_of(rules.strip(kind, name, expected)) == key_of(rules.strip(kind, name, actual))

    def begins_child(self, name: str, begun_with: Any, strand: Strand) -> Event | None:
        """A child run begins. Returns the event of the recording that it is, or None to go on live."""
        course, run = self._course, self._run
        waiting = [*(self._script.children.get(strand) or ()), *self._script.children_beside(strand)]
        arguments = run.redacted(encode(begun_with).stored)
        calls: dict[str, tuple[RecordedCall, Event]] = {}
        for event in waiting:
            call = course.child_as_call(run, event)
            calls[call.call] = call, event
        for call, event in calls.values():
            if call.name == name and self.same("agent", name, call.arguments, arguments):
                return event
        if course.goes_live_beyond(run) and (run.log.live or not waiting):
            return None
        if not waiting:
            self.ends_at(strand)
        of_the_task = [call for call, event in calls.values() if event.task == strand.task]
        others = [call for call, event in calls.values() if event.task != strand.task]
        options: dict[str, Any] = {"step": strand.round, "site": site_of_code(of_child=True), "run": run.info.id}
        difference = call_difference("agent", name, arguments, of_the_task, others, ignore=course.ignore, **options)
        self.reads.tell_of_odd(difference, strand)
        self.tell(difference)
        if difference.call is None:
            course.cannot_answer(run, name)
            return None
        return calls[difference.call][1]

    def asks(self, name: str, reason: Any, strand: Strand) -> None:
        """The code asks a person."""
        actual = _question(name, self._run.as_field(reason))
        event = self._script.question(strand.round, name)
        if event is None:
            event = self._script.next_unmet(self._script.round(strand.round).questions)
            if event is None:
                self.ends_at(strand)
        expected = MISSING if event is None else _question(event.data.name, event.data.reason)
        if event is None or not self.same("outcome", "", expected, actual):
            self._missing(strand, before=None if event is None else event.seq)
            self._part("another outcome", strand, event, expected, actual, name=name, site=site_of_code())

    def answers(self, name: str, recorded: Any, given: Any, strand: Strand) -> None:
        """The code answers a question itself."""
        expected, actual = [{"answer": self._run.as_field(one)} for one in (recorded, given)]
        if not self.same("outcome", "", expected, actual):
            self._part("another outcome", strand, None, expected, actual, name=name, site=site_of_code())

    # -- telling -----------------------------------------------------------------------------------------

    def comparable(self, stored: Any) -> Any:
        """A tree as it can be compared: tokens that another store's key has made say no more than their kind."""
        return without_digests(stored) if self._run.foreign and stored is not MISSING else stored

    def _part(
        self,
        kind: Kind,
        strand: Strand,
        event: Event | None,
        expected: Any,
        actual: Any,
        *,
        name: str | None = None,
        site: str | None = None,
    ) -> None:
        trees = self.comparable(expected), self.comparable(actual)
        self.tell(self.value(kind, strand, event, *trees, name=name, site=site))

    def value(
        self,
        kind: Kind,
        strand: Strand,
        event: Event | None,
        expected: Any,
        actual: Any,
        *,
        name: str | None = None,
        site: str | None = None,
    ) -> Difference:
        """The difference between two trees."""
        seq, run, ignore = None if event is None else event.seq, self._run.info.id, self._course.ignore
        return value_difference(
            kind, expected, actual, step=strand.round, seq=seq, name=name, site=site, run=run, ignore=ignore
        )

    def tell(self, difference: Difference) -> None:
        """Tell the course of a difference."""
        of_child = self._run.parent is not None
        self._course.parts(replace(difference, run=self._run.info.id) if of_child else difference)


def _told(error: Any) -> dict[str, Any]:
    """What is compared of an error, an `ErrorInfo`; what stands for a recorded one is told as that."""
    told = error.value if isinstance_of(error.value, RecordedError) else error
    return {"type": told.type, "message": told.message}


def _inside(stored: Any) -> dict[str, Any] | None:
    """What an exception in stored form holds; None where that is not known, or not exactly."""
    if not is_tag(stored) or stored["$type"] != "exception":
        return None
    held = {name: stored[name] for name in ("args", "state") if name in stored}
    return None if lossy_in(held) else held


def _question(name: str, reason: Any) -> dict[str, Any]:
    return {"interrupt": name, "reason": reason}
