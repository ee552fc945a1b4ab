"""What code does, compared with the recording: where they part is a difference, told as exactly as can be.

Calls and reads are compared where they are made; decisions where they are taken; the payload, the outcome and what was
never asked for where a round ends. A change of the payload in the middle of a round is no difference by itself, since
another way to the same payload is none; it is what a difference at the end of the round is traced to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..recorder.events import Event
from ..recorder.reads import call_site
from ..recorder.values import encode
from .changes import MISSING
from .divergence import Difference, Kind, call_difference, missing_call, value_difference
from .script import RecordedCall, Strand, key_of

if TYPE_CHECKING:
    from .course import Course
    from .recorded_run import RecordedRun


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
        self._failed: str | None = None

    # -- events ----------------------------------------------------------------------------------------

    def event(self, kind: str, data: Any, strand: Strand, known: bool) -> None:
        """Compare an event that the code has come to."""
        match kind:
            case "round.started":
                self._round_starts(strand)
            case "step.decided":
                self._decides(data, strand)
            case "payload.changed":
                self._changed.setdefault(strand.round, []).append((data.hash_after, call_site()))
            case "round.finished":
                self._round_finishes(data, strand)
            case "run.finished":
                self._run_finishes(data, strand)
            case "interrupt.raised" if not known:
                asked = {"interrupt": data.name}
                self._part("another outcome", strand, None, MISSING, asked, name=data.name)

    def _round_starts(self, strand: Strand) -> None:
        if self._script.round(strand.round).started is not None:
            return
        finished = self._script.finished
        if finished is None:
            self._course.recording_ends(self._run)
        else:
            self._part("another outcome", strand, finished, {"status": finished.data.status}, {"round": strand.round})

    def _decides(self, data: Any, strand: Strand) -> None:
        number = self._decided.get(strand.round, 0)
        self._decided[strand.round] = number + 1
        decided = self._script.round(strand.round).decided
        actual = self._run.redacted(encode(data.decision).stored)
        if number >= len(decided):
            if self._script.round(strand.round).finished is None:
                self._course.recording_ends(self._run)
            self._missing_calls(strand)
            self._part("another decision", strand, None, MISSING, actual)
            return
        event = decided[number]
        expected = event.data.decision
        if not self._same("decision", "", expected, actual):
            self._missing_calls(strand, before=event.seq)
            self._part("another decision", strand, event, expected, actual, site=call_site())

    def _round_finishes(self, data: Any, strand: Strand) -> None:
        recorded = self._script.round(strand.round)
        if recorded.finished is None:
            self._course.recording_ends(self._run)
            return
        self._missing_calls(strand)
        self._missing_reads(strand)
        expected, event = recorded.finished.data, recorded.finished
        for decision in recorded.decided[self._decided.get(strand.round, 0) :]:
            self._part("another decision", strand, decision, decision.data.decision, MISSING)
        if data.outcome != expected.outcome:
            if "failed" in (data.outcome, expected.outcome):  # what failed is said where the run ends
                self._failed = data.outcome
                return
            self._part("another outcome", strand, event, expected.outcome, data.outcome)
        if data.payload_hash != expected.payload_hash:
            self._payload_differs(strand, event)

    def _payload_differs(self, strand: Strand, finished: Event) -> None:
        recorder = self._run.recorder
        assert recorder is not None  # it sent the event
        expected = self._course.payload_at(self._run, finished.seq)
        actual = encode(recorder.payload.stored).stored
        if self._same("payload", "", expected, actual):
            return
        seen = self._changed.get(strand.round, [])
        changed = self._script.round(strand.round).changed
        hashes = [event.data.hash_after for event in changed]
        at = next((i for i, (hash, _) in enumerate(seen) if hashes[i : i + 1] != [hash]), len(seen))
        event = changed[at] if at < len(changed) else finished
        self._part("another payload", strand, event, expected, actual, site=seen[at][1] if at < len(seen) else None)

    def _run_finishes(self, data: Any, strand: Strand) -> None:
        finished = self._script.finished
        if finished is None:
            self._course.recording_ends(self._run)
            return
        expected, actual = finished.data, data
        further = [number for number, one in self._script.rounds.items() if number > strand.round and one.started]
        if further and actual.error is None:
            self._part("another outcome", strand, finished, {"round": further[0]}, {"status": actual.status})
            return
        if (expected.error is None) != (actual.error is None) or (
            expected.error is not None
            and actual.error is not None
            and not self._same("error", "", _told(expected.error), self._run.redacted(_told(actual.error)))
        ):
            shown = [MISSING if error is None else _told(error) for error in (expected.error, actual.error)]
            self._part("another error", strand, finished, *shown)
            return
        before = {"status": expected.status, "stop_reason": expected.stop_reason, "value": expected.value}
        after = {"status": actual.status, "stop_reason": actual.stop_reason, "value": encode(actual.value).stored}
        after = self._run.redacted(after)
        if not self._same("outcome", "", before, after):
            self._part("another outcome", strand, finished, before, after)

    # -- what was never asked for ------------------------------------------------------------------------

    def _missing_calls(self, strand: Strand, before: int | None = None) -> None:
        """Tell of the recorded calls of a round that the code has not made, though it is past them."""
        for call in self._script.unasked(Strand(strand.round, None, "0")):
            if before is None or call.seq < before:
                call.asked = True
                self._tell(missing_call(call, step=strand.round, run=self._run.info.id))

    def _missing_reads(self, strand: Strand) -> None:
        for (place, source), waiting in self._script.reads.items():
            if place[:2] == (strand.round, None) and waiting:
                event = waiting.popleft()
                self._part("another value read", strand, event, event.data.value, MISSING, name=source)

    def missing_call(self) -> bool:
        """Tell of the first call that the code has not made, and for which all wait. False if there is none."""
        round = self._run.log.round
        unasked = self._script.unasked(Strand(round, None, "0"))
        if unasked:
            call = unasked[0]
            call.asked = True
            self._tell(missing_call(call, step=round, run=self._run.info.id))
        return bool(unasked)

    # -- what is asked for, and not recorded -----------------------------------------------------------------

    def unmatched(self, call: Any, name: str, arguments: Any, strand: Strand) -> RecordedCall | None:
        """A call that the script has not. Returns the recorded one that it is none the less; None to go on live."""
        kind = call.effect.kind
        unasked = self._script.unasked(strand)
        found = self._same_but_for_rules(kind, name, arguments, unasked)
        if found is None:
            found = self._same_conversation(kind, name, arguments, unasked)
        if found is not None:
            self._course.coverage.answered(found)
            return found
        if self._course.goes_live_beyond(self._run) and not unasked:
            return None
        if not unasked and self._script.round(strand.round).finished is None:
            self._course.recording_ends(self._run)
        of_the_task = [candidate for candidate in unasked if candidate.called.task == strand.task]
        others = [candidate for candidate in unasked if candidate.called.task != strand.task]
        difference = call_difference(
            kind,
            name,
            arguments,
            of_the_task,
            others,
            step=strand.round,
            site=call_site(),
            run=self._run.info.id,
            ignore=self._course.ignore,
        )
        self._tell(difference)
        if difference.call is None:
            self._course.cannot_answer(self._run, name)
            return None
        return self._script.calls[difference.call]

    def _same_but_for_rules(
        self, kind: str, name: str, arguments: Any, unasked: list[RecordedCall]
    ) -> RecordedCall | None:
        rules = self._course.ignore
        if not rules:
            return None
        wanted = key_of(rules.strip(kind, name, arguments))
        for call in unasked:
            if (call.kind, call.name) == (kind, name) and key_of(rules.strip(kind, name, call.arguments)) == wanted:
                return call
        return None

    def _same_conversation(
        self, kind: str, name: str, arguments: Any, unasked: list[RecordedCall]
    ) -> RecordedCall | None:
        """Requests whose messages differ in the order of keys only, which their addresses do not know."""
        if kind != "model":
            return None
        wanted = key_of(self._course.expanded(self._run, arguments))
        for call in unasked:
            alike = (call.kind, call.name) == (kind, name)
            if alike and key_of(self._course.expanded_request(self._run, call)) == wanted:
                return call
        return None

    def unmatched_read(self, source: str, site: str | None, strand: Strand) -> None:
        """A value is read of which the script has no more."""
        if self._script.round(strand.round).finished is None:
            self._course.recording_ends(self._run)
        self._part("another value read", strand, None, MISSING, {"source": source}, name=source, site=site)
        self._course.cannot_answer(self._run, source)

    def unmatched_child(self, name: str, strand: Strand) -> None:
        """A child run begins of which the script has none."""
        if self._script.round(strand.round).finished is None:
            self._course.recording_ends(self._run)
        self._part("extra call", strand, None, MISSING, {"kind": "agent", "name": name, "arguments": {}}, name=name)
        self._course.cannot_answer(self._run, name)

    # -- telling -----------------------------------------------------------------------------------------

    def _same(self, kind: str, name: str, expected: Any, actual: Any) -> bool:
        if key_of(expected) == key_of(actual):
            return True
        rules = self._course.ignore
        if not rules:
            return False
        return key_of(rules.strip(kind, name, expected)) == key_of(rules.strip(kind, name, actual))

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
        seq, run, ignore = None if event is None else event.seq, self._run.info.id, self._course.ignore
        self._tell(
            value_difference(
                kind, expected, actual, step=strand.round, seq=seq, name=name, site=site, run=run, ignore=ignore
            )
        )

    def _tell(self, difference: Difference) -> None:
        self._course.parts(difference)


def _told(error: Any) -> dict[str, Any]:
    return {"type": error.type, "message": error.message}
