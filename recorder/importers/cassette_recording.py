"""What was read of a cassette: where in the file what is sound stands. The file's bytes are the only copy in memory."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

from ..cassette import Header, Lost, Malformed, Ranges, RunFacts
from ..event_codec import StoredEvent
from .cassette_lines import parse_blob, parse_event, parse_message


@dataclass(slots=True)
class ReadRun:
    """What was read of a run.

    Attributes:
        facts: what the file says of it.
        line: where its section begins.
        head: the hash of its last sound event; of a fork without own events, of the last that it shares.
        offsets: where its own events are, in order.
        summary: what its events say for `ls`; see `store.Summary`.
        timed: whether its events' times say when something happened; see `RunBuilder`.
        ended: its section's end was read, and fits.
        broken: an event did not follow; the later ones are not looked at.
    """

    facts: RunFacts
    line: int
    head: str
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    summary: dict[str, Any] = field(default_factory=dict)
    timed: bool = True
    ended: bool = False
    broken: bool = False

    @property
    def last(self) -> int:
        """The seq of the last sound event."""
        return self.facts.first + len(self.offsets) - 1

    @property
    def cut(self) -> Lost | None:
        """What the file has lost of the run's end, as far as it still says so; None if the run is whole."""
        if self.ended:
            return None
        if self.facts.events is None:
            return Lost(self.last + 1, None)
        last = self.facts.first + self.facts.events - 1
        return Lost(last, self.facts.hash) if last > self.last else None


@dataclass(slots=True)
class Recording:
    """A cassette as it was read.

    Attributes:
        header: None where it could not be read.
        runs: in the order of the file; only with events that are sound.
        absent: runs of which nothing is left.
        notes: what a person should know of the file.
        faults: (line, what is wrong with it), the first of them; empty unless it was salvaged.
        damaged: how many faults there are.
        addresses: the content address of each message, by number; empty for one that is lost.
    """

    data: bytes
    header: Header | None = None
    runs: dict[str, ReadRun] = field(default_factory=dict)
    absent: list[RunFacts] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)
    damaged: int = 0
    addresses: list[str] = field(default_factory=list)
    _messages: array[int] = field(default_factory=lambda: array("Q"))
    _blobs: dict[str, int] = field(default_factory=dict)
    _lost_messages: int = 0

    @property
    def root(self) -> ReadRun:
        """The run that the cassette is of; the first one, where that is lost."""
        if self.header is not None and self.header.run in self.runs:
            return self.runs[self.header.run]
        whole = [run for run in self.runs.values() if not run.facts.prefix]
        return whole[0] if whole else next(iter(self.runs.values()))

    def event(self, run: ReadRun, seq: int) -> tuple[StoredEvent, dict[str, Ranges]]:
        """A sound own event of a run."""
        row, ranges = parse_event(self._line(run.offsets[seq - run.facts.first]))
        for name, parts in ranges.items():
            row.conversations[name] = self.conversation(parts)
        return row, ranges

    def hash_at(self, uid: str, seq: int) -> str | None:
        """The hash of an event of a run, of its own or shared; None if it is not here."""
        run = self.runs.get(uid)
        while run is not None and seq < run.facts.first:
            run = self.runs.get(run.facts.fork_of or "")
        if run is None or seq > run.last:
            return None
        return parse_event(self._line(run.offsets[seq - run.facts.first]))[0].hash

    def conversation(self, parts: Ranges) -> list[str]:
        """The content addresses of messages.

        Raises:
            Malformed: one of them is not here.
        """
        found: list[str] = []
        for first, count in parts:
            if first + count > len(self.addresses):
                raise Malformed(f"it refers to message {first + count - 1}, which does not stand before it")
            found += self.addresses[first : first + count]
        if self._lost_messages and "" in found:
            raise Malformed("it refers to a message that is damaged")
        return found

    def message(self, number: int) -> bytes:
        """The bytes of a message."""
        return parse_message(self._line(self._messages[number]))[2]

    def blob(self, address: str) -> bytes:
        """The bytes of a large value."""
        return parse_blob(self._line(self._blobs[address]))[1]

    def add_message(self, address: str, offset: int) -> None:
        """Keep the place of the next message; an empty address stands for one that is lost."""
        self.addresses.append(address)
        self._lost_messages += not address
        self._messages.append(offset)

    def add_blob(self, address: str, offset: int) -> None:
        """Keep the place of a large value."""
        self._blobs[address] = offset

    def has_blob(self, address: str) -> bool:
        """Say whether a large value was read."""
        return address in self._blobs

    def _line(self, offset: int) -> bytes:
        end = self.data.find(b"\n", offset)
        line = self.data[offset:] if end < 0 else self.data[offset:end]
        return line.removesuffix(b"\r")
