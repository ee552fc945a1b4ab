"""Reads that code makes again, compared with those of the recording: which one is new, and which is missing.

A read asks for nothing but the next value, so one more or one less shows late: the reads after it get each other's
values, until there is none left, or one is left over. Which read it was is seen from where the reads were made. The
lines of code need not be those of the recording, since code is edited; but the lines before an edit stay where they
were, and those behind it move together. So it is the read without which the places of the others fit best. Of reads in
neighbouring lines that may be each of them; then all are named.

Often something else parts first, such as a call that was handed another's value. Then it is counted: if as many reads
were made before that call as were recorded before it, the reads have nothing to do with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from ..recorder.events import Event
from .script import Reading, Script, Strand, reading_of

_FAR: Final = 100_000
"""Lines between two places in different files."""


class Odd(NamedTuple):
    """Reads that only one side has.

    Attributes:
        reading: what is read.
        events: of the recording, if the code does not make them; else empty.
        sites: where they are made: in the code, or else in the recording.
        perhaps: other places that it may be instead.
    """

    reading: Reading
    events: Sequence[Event]
    sites: Sequence[str | None]
    perhaps: Sequence[str]

    @classmethod
    def of(cls, reading: Reading, longer: Sequence[Event] | Sequence[str | None], shorter: Sequence[str | None]) -> Odd:
        """Those of the reads of the side with more of them, which the other does not have.

        Args:
            reading: what is read.
            longer: the events, or the places in the code.
            shorter: the places of the other side.
        """
        events = [one for one in longer if isinstance(one, Event)]
        sites = [one.data.site if isinstance(one, Event) else one for one in longer]
        count = len(longer) - len(shorter)
        first, *others = odd_ones(sites, shorter)
        found = sites[first : first + count]
        perhaps = {site: None for at in others for site in sites[at : at + count] if site is not None}
        return cls(reading, events[first : first + count], found, [site for site in perhaps if site not in found])


class Reads:
    """The reads that one run's code has made again.

    Args:
        script: the recording.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._met: defaultdict[tuple[Strand, Reading], list[tuple[Event, str | None]]] = defaultdict(list)
        self._last: dict[Strand, tuple[str | None, str | None]] = {}
        self._in_order: defaultdict[tuple[Strand, str], list[tuple[Event, str | None]]] = defaultdict(list)

    def met(self, event: Event, site: str | None, strand: Strand) -> None:
        """Note a read that is answered by an event, and where it was made."""
        self._met[strand, reading_of(event)].append((event, site))
        self._in_order[strand, event.data.source].append((event, site))
        self._last[strand] = event.data.site, site

    def in_place_of(self, odd: Odd, strand: Strand) -> Event | None:
        """The read of the recording in whose place a new one of its source stands, which counts as made from now on.

        It is the next one of the strand, if it stood in that line: where the last read before it was moved by some
        lines, it was moved by as many.
        """
        reads = self._script.round(strand.round).reads
        own = [event for event in reads if (event.task, event.data.source) == (strand.task, odd.reading[0])]
        if strand.within is not None or not (first := self._script.first_unmet(own)):
            return None
        before, now = self._last.get(strand, (None, None))
        if _shift(before, now) != _shift(first.data.site, odd.sites[0]):
            return None
        return self._script.next_unmet([first])

    def swapped(self, strand: Strand) -> tuple[Event, Odd] | None:
        """The first read of a strand in whose place the code reads something else of its source, and that where.

        To be asked where something differs: each read has got its own value, so by itself the order says nothing.
        """
        for (of, _), met in self._in_order.items():
            if of == strand and strand.within is None:
                recorded = sorted([event for event, _ in met], key=lambda event: event.seq)
                for event, (instead, site) in zip(recorded, met, strict=True):
                    if reading_of(event) != reading_of(instead):
                        return event, Odd(reading_of(instead), (), [site], ())
        return None

    def extra(self, reading: Reading, site: str | None, strand: Strand) -> Odd:
        """The read that is new, when one is made and the recording has no more."""
        met = self._met[strand, reading]
        return Odd.of(reading, [*(place for _, place in met), site], [event.data.site for event, _ in met])

    def missing(self, round: int, before: int | None) -> list[Odd]:
        """The reads of a round that the code has not made, and that count as made from now on.

        Args:
            before: seq of the event up to which the code has come; None for the end of the round.
        """
        unmet: defaultdict[tuple[Strand, Reading], list[Event]] = defaultdict(list)
        for event in self._script.unmet(self._script.round(round).reads, before):
            unmet[Strand(round, None, event.task), reading_of(event)].append(event)
        return [self._missing(strand, reading, events) for (strand, reading), events in unmet.items()]

    def _missing(self, strand: Strand, reading: Reading, unmet: Sequence[Event]) -> Odd:
        met = self._met[strand, reading]
        recorded, places = [*(event for event, _ in met), *unmet], [place for _, place in met]
        odd = Odd.of(reading, recorded, places)
        at = recorded.index(odd.events[0])
        met[:] = zip(recorded, [*places[:at], *odd.sites, *places[at:]], strict=True)
        return odd

    def parted_before(self, strand: Strand, seq: int, *, all_made: bool) -> Iterator[Odd]:
        """The reads of a strand that are new or missing before something else that parts, and that explain it.

        Args:
            strand: in which something parts.
            seq: the event in whose place the code does something else.
            all_made: whether the code has come to the place of that event, and not perhaps to one before it.
        """
        if strand.within is not None:  # those are covered by the call
            return
        recorded: defaultdict[Reading, list[Event]] = defaultdict(list)
        for event in self._script.round(strand.round).reads:
            if event.task == strand.task and event.seq < seq:
                recorded[reading_of(event)].append(event)
        for (of, reading), met in list(self._met.items()):
            if of != strand:
                continue
            events = recorded[reading]
            sites, places = [event.data.site for event in events], [place for _, place in met]
            count = len(met) - len(events)
            if count > 0:
                self._script.give_back([event for event, _ in met[len(events) :]], strand)
                at = odd_ones(places, sites)[0]
                met[:] = zip(events, [*places[:at], *places[at + count :]], strict=True)
                yield Odd.of(reading, places, sites)
            elif count < 0 and all_made and places != sites[: len(met)]:
                self._script.unmet(events)
                yield self._missing(strand, reading, events[len(met) :])


def odd_ones(longer: Sequence[str | None], shorter: Sequence[str | None]) -> list[int]:
    """Where in the longer of two lists of places those may begin that the shorter lacks; they stand together.

    Returns:
        The likeliest first, of equals the last; and those that come into question if each line moved by one.
    """
    before = [0, *accumulate(map(_distance, longer, shorter))]
    after = [0, *accumulate(map(_distance, reversed(longer), reversed(shorter)))]
    costs = [(before[at] + after[len(shorter) - at], -at) for at in range(len(shorter) + 1)]
    least = min(costs)[0]
    return [-at for cost, at in sorted(costs) if cost <= least + len(shorter)]


def _shift(before: str | None, now: str | None) -> int | None:
    """By how many lines a place was moved within its file; None if that cannot be said."""
    (file, _, line), (other, _, moved) = (before or ":0").rpartition(":"), (now or ":0").rpartition(":")
    return int(moved) - int(line) if file == other and line.isdigit() and moved.isdigit() else None


def _distance(one: str | None, other: str | None) -> int:
    if one == other:
        return 0
    file, _, line = (one or "").rpartition(":")
    other_file, _, other_line = (other or "").rpartition(":")
    if file != other_file or not (line.isdigit() and other_line.isdigit()):
        return _FAR
    return abs(int(line) - int(other_line))


def asked_for(source: str, what: str | None, arguments: Any = None) -> dict[str, Any]:
    """What a read asks for, as differences show it."""
    asked: dict[str, Any] = {"source": source} if what is None else {"source": source, "what": what}
    return asked if arguments is None else {**asked, "arguments": arguments}


def hint_for_read(odd: Odd, at: int, of_the_kind: str, shown_by: str | None, *, instead_of: Event | None = None) -> str:
    """Say what can be done about a read that only one side has.

    Args:
        odd, at: the read, and which of them.
        of_the_kind: the hint for reads that nothing captured.
        shown_by: where it showed, if that was somewhere else.
        instead_of: the read of the recording in whose place it stands.
    """
    source, what = odd.reading
    new, site = not odd.events, odd.sites[at]
    sentences = []
    if not new and site is not None:
        sentences.append(f"When it was recorded, {what or source} was read at {site}.")
    elif what is not None:
        sentences.append(f"{what} is read more often than it was.")
    if instead_of is not None:
        read = instead_of.data
        sentences.append(f"When it was recorded, {read.what or read.source} was read there ({read.site}).")
    if odd.perhaps:
        sentences.append(f"It may also be that at {' or '.join(odd.perhaps[:3])}.")
    if shown_by is not None:
        sentences.append(f"It showed at {shown_by}, since the reads after it got each other's values.")
    if what is None:
        return " ".join([*sentences, of_the_kind])
    done = "read it" if new else "leave it out"
    return " ".join([*sentences, f"If the code is meant to {done}, record the run again."])
