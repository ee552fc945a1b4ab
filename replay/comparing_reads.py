"""What code reads, compared with its recording: which read is another one, new or missing is told; see `reads`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..recorder.events import Event
from .changes import MISSING
from .divergence import Difference
from .reads import Odd, Reads, asked_for, hint_for_read
from .script import Strand, reading_of

if TYPE_CHECKING:
    from .comparison import Comparison
    from .course import Course
    from .recorded_run import RecordedRun


class ComparedReads:
    """Compares what one run's code reads.

    Args:
        whole: compares all that the code does.
        run: the run.
        course: of the execution.
    """

    def __init__(self, whole: Comparison, run: RecordedRun, course: Course) -> None:
        self._whole = whole
        self._run = run
        self._course = course
        self._script = run.script
        self._reads = Reads(run.script)

    def met(self, event: Event, arguments: Any, site: str | None, strand: Strand) -> None:
        """A value is read, with these arguments if it is one of chance, and answered by an event."""
        self._reads.met(event, site, strand)
        recorded = event.data.arguments
        if arguments is None and recorded is None:
            return
        if recorded is None and (event.data.what is not None or type(event.data.value) is not float):
            return  # a log of an older version; of which a float was no number of bits, either
        now = None if arguments is None else self._run.as_field(arguments)
        expected, actual = [asked_for(event.data.source, event.data.what, given) for given in (recorded, now)]
        if not self._whole.same("read", event.data.source, expected, actual):
            trees = self._whole.comparable(expected), self._whole.comparable(actual)
            name = event.data.source
            self._whole.tell(self._whole.value("another value read", strand, event, *trees, name=name, site=site))

    def unmatched(self, source: str, what: str | None, site: str | None, strand: Strand) -> None:
        """A value is read of which the script has no more."""
        self._whole.ends_at(strand)
        odd = self._reads.extra((source, what), site, strand)
        shown_by = None if odd.sites[0] == site else site
        instead = self._reads.in_place_of(odd, strand)
        if instead is None:
            self._whole.tell(self._odd(odd, 0, strand, shown_by=shown_by))
        else:
            self._whole.tell(self._other(instead, odd, strand, shown_by))
        self._course.cannot_answer(self._run, source)

    def _odd(self, odd: Odd, at: int, strand: Strand, shown_by: str | None = None) -> Difference:
        """The difference that a read makes which only one side has."""
        source, what = odd.reading
        read = odd.events[at] if odd.events else None
        asked = asked_for(source, what)
        trees = (MISSING, asked) if read is None else (self._whole.comparable(read.data.value), MISSING)
        site = odd.sites[at] if read is None else None  # the code has none where it does not read
        difference = self._whole.value("another value read", strand, read, *trees, name=source, site=site)
        return replace(difference, hint=hint_for_read(odd, at, difference.hint, shown_by))

    def _other(self, recorded: Event, odd: Odd, strand: Strand, shown_by: str | None) -> Difference:
        """The difference of reading something else of a source."""
        trees, (name, _) = (asked_for(*reading_of(recorded)), asked_for(*odd.reading)), odd.reading
        difference = self._whole.value("another value read", strand, recorded, *trees, name=name, site=odd.sites[0])
        return replace(difference, hint=hint_for_read(odd, 0, difference.hint, shown_by, instead_of=recorded))

    def missing(self, round: int, before: int | None, strand: Strand) -> list[tuple[int, Difference]]:
        """What the code has not read in a round, by seq; arguments as for `Reads.missing`."""
        return [
            (event.seq, self._odd(odd, at, strand))
            for odd in self._reads.missing(round, before)
            for at, event in enumerate(odd.events)
        ]

    def tell_of_swapped(self, strand: Strand, shown_by: str) -> None:
        """Tell of the first read of a strand in whose place another one is made, where something else shows it."""
        if (swapped := self._reads.swapped(strand)) is not None:
            self._whole.tell(self._other(*swapped, strand, shown_by))

    def tell_of_odd(self, difference: Difference, strand: Strand) -> None:
        """Tell of reads that are new or missing in a strand, and that a difference in the calls after them shows."""
        if difference.seq is None:
            return
        all_made = difference.kind == "other arguments"
        if all_made and difference.call in self._script.calls:
            all_made = self._script.calls[difference.call].strand == strand
        shown_by = f"a call of {difference.name}" if difference.call is None else f"call {difference.call}"
        for odd in self._reads.parted_before(strand, difference.seq, all_made=all_made):
            for at in range(len(odd.sites)):
                self._whole.tell(self._odd(odd, at, strand, shown_by=shown_by))
