"""Reads a cassette from its first line to its last and verifies all of it, before anything is stored.

Nothing is held in memory but the file's bytes and the place of each event and content in them: what is sound is read a
second time when it is stored. Every event must follow the one before by its hash, every content must be what its
address says, every event must find what it refers to, and the counts and hashes at the ends must be right. So one
changed byte is found, and the message names its line.

What was damaged can be *salvaged*: reading then goes on behind a broken line. The sound part of a run is its events up
to the first that is missing, was changed, or refers to something that is. Nothing after that can be verified, because
each event is chained to the one before. Other runs of the file are not affected, forks of the lost part aside. What an
unreadable header or line said of a run is found in the other of the two, for each says it.

Line ends of Windows, a byte order mark and blank lines are what editors and git do to a text file. They change nothing
that a cassette says, so they are read over, with a note.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import islice
from typing import Final, TypeAlias

from ..cassette import Malformed, Ranges, References, RunFacts, run_line
from ..errors import AgentReplayError
from ..event_codec import StoredEvent, decode_event
from ..events import Event
from ..hashes import content_address
from ..store import Summary
from ..values import loads
from ..verifying import TOLD_IN_LISTS
from .cassette_lines import parse_blob, parse_end, parse_event, parse_header, parse_last, parse_message, parse_run
from .cassette_recording import ReadRun, Recording
from .source import failure

SALVAGE: Final = "`agentreplay import --salvage` keeps what is sound of it."
FAULTS: Final = 100
"""How many broken lines are named one by one."""

CANDIDATES: Final = 100
"""How many runs are tried for an event that stands in no run's section."""

_BOM: Final = b"\xef\xbb\xbf"
Progress: TypeAlias = Callable[[int, int], None]


def read_cassette(path: str, data: bytes, *, salvage: bool = False, progress: Progress | None = None) -> Recording:
    """Read and verify a cassette.

    Args:
        path: the file's, for messages.
        data: its bytes.
        salvage: go on where it is damaged.
        progress: called with the events that were read and the events in all.

    Raises:
        ImportFailed: it is damaged, or nothing of it is sound.
    """
    return _Reader(path, data, salvage, progress).read()


class _Reader:
    def __init__(self, path: str, data: bytes, salvage: bool, progress: Progress | None) -> None:
        self._path = path
        self._salvage = salvage
        self._progress = progress
        self._read = Recording(data)
        self._listed: dict[str, RunFacts] = {}
        self._current: ReadRun | None = None
        self._references = References()
        self._pending_from = 0
        self._pending_blobs: set[str] = set()
        self._hash = sha256()
        self._lines = 0
        self._begun = False
        self._closed = False
        self._cut = False
        self._skipping = False
        self._done = 0
        self._events = 0

    def read(self) -> Recording:
        number, broken = 0, False
        for number, offset, line in self._numbered():
            broken = False
            try:
                self._take(number, offset, line)
            except Malformed as error:
                broken = True
                self._fault(number, self._diagnosed(line, error))
            self._hash.update(line + b"\n")
            self._lines += 1
        if not self._closed and not broken:
            self._fault(number, Malformed("the file ends after it, without its last line", "a whole cassette"))
        if self._salvage:
            self._settle()
        if not self._read.faults:
            for run in self._read.runs.values():  # what the file says of a run is sound, and what was exported
                run.summary = {name: value for name, value in run.summary.items() if name not in ("agent", "parent")}
        return self._read

    def _numbered(self) -> Iterator[tuple[int, int, bytes]]:
        """The lines that are not blank: number, offset and bytes."""
        data = self._read.data
        at, number = 0, 0
        seen: dict[str, int] = {}
        if data.startswith(_BOM):
            at = len(_BOM)
            seen["a byte order mark stands before its first line"] = 1
        while at < len(data):
            end = data.find(b"\n", at)
            self._cut = end < 0
            end = len(data) if end < 0 else end
            line = data[at:end]
            number += 1
            if line.endswith(b"\r") and not self._cut:
                line = line[:-1]
                seen.setdefault("a line ends as on Windows (CRLF)", number)
            if line and not line.isspace():
                yield number, at, line
            else:
                seen.setdefault("a line is blank", number)
            at = end + 1
        self._read.notes += [f"line {first}: {what}; it says the same all the same" for what, first in seen.items()]

    # -- what is wrong -------------------------------------------------------------------------------------------------

    def _fault(self, number: int, error: Malformed) -> None:
        """Give up, or note what is wrong and go on."""
        line = error.line or number
        if error.fatal or not self._salvage:
            raise failure(self._path, error.found, error.expected, error.advice or SALVAGE, line)
        self._read.damaged += 1
        if len(self._read.faults) < FAULTS:
            self._read.faults.append((line, error.found))

    def _diagnosed(self, line: bytes, error: Malformed) -> Malformed:
        """Say more clearly what is wrong with a line that is not even JSON."""
        if error.fatal or error.line:
            return error
        try:
            loads(line)
        except ValueError as failed:
            if b"\0" in line:
                found = "it holds NUL bytes, as a part of a file does that was never written"
            elif _is_two(line):
                found = "two records stand on it"
            elif self._cut:
                found = "the file ends in the middle of it"
            else:
                found = f"it is not JSON ({getattr(failed, 'msg', failed)} at column {getattr(failed, 'colno', 1)})"
            return Malformed(found, "one record of a cassette")
        return error

    # -- lines ---------------------------------------------------------------------------------------------------------

    def _take(self, number: int, offset: int, line: bytes) -> None:
        if not self._begun:
            self._begun = True
            if not line.startswith((b'{"run":', b'{"seq":', b'{"message":', b'{"blob":', b'{"end":', b'{"cassette":')):
                self._header(line)
                return
            self._fault(number, Malformed("it is not the header", "the first line of a cassette"))
        if self._closed:
            raise Malformed("the file goes on after its last line", "nothing more")
        if line.startswith(b'{"seq":'):
            self._event(number, offset, line)
        elif line.startswith(b'{"message":'):
            self._message(offset, line)
        elif line.startswith(b'{"blob":'):
            self._blob(offset, line)
        elif line.startswith(b'{"run":'):
            self._run(number, line)
        elif line.startswith(b'{"end":'):
            self._end(line)
        elif line.startswith(b'{"cassette":'):
            self._last(number, line)
        else:
            raise Malformed("it is no record of a cassette", "an event, a content, or the beginning or end of a run")

    def _header(self, line: bytes) -> None:
        header = parse_header(line)
        self._read.header = header
        self._listed = {facts.uid: facts for facts in header.runs}
        self._events = sum(facts.events or 0 for facts in header.runs)
        if self._progress is not None:
            self._progress(0, self._events)

    def _run(self, number: int, line: bytes) -> None:
        claimed = parse_run(line)
        facts = self._listed.get(claimed.uid)
        if facts is None or run_line(facts) != line:
            if self._listed:
                self._fault(number, Malformed("it is not as the header has it"))
            facts = claimed
        if not self._salvage and (self._current is not None or facts is not self._next()):
            raise Malformed(f"the run {facts.uid} does not begin here", "the runs in the header's order, one by one")
        self._begin(facts, number)

    def _next(self) -> RunFacts | None:
        """The run that the header has next, once the sections before it were read in its order."""
        runs, done = [] if self._read.header is None else self._read.header.runs, len(self._read.runs)
        return runs[done] if done < len(runs) else None

    def _begin(self, facts: RunFacts, number: int) -> None:
        self._current, self._skipping = None, True
        if facts.uid in self._read.runs and self._read.runs[facts.uid].offsets:
            raise Malformed(f"the run {facts.uid} begins once more")
        head = self._start(facts)
        if head is None:
            raise Malformed(f"event {facts.fork_seq} of {facts.fork_of}, where the run was forked, is not there")
        self._current, self._skipping = ReadRun(facts, number, head), False
        self._read.runs[facts.uid] = self._current

    def _start(self, facts: RunFacts) -> str | None:
        """The hash that the first own event of a run follows; None if that event is not here."""
        if facts.fork_of is None or facts.fork_seq is None:
            return ""
        return self._read.hash_at(facts.fork_of, facts.fork_seq)

    def _message(self, offset: int, line: bytes) -> None:
        number, address, content = parse_message(line)
        expected = len(self._read.addresses)
        if number != expected:
            if not self._salvage or not expected < number <= expected + self._read.damaged:
                raise Malformed(f"message {number} stands where message {expected} belongs")
            for _ in range(expected, number):
                self._read.add_message("", 0)
        sound = content_address(content) == address
        self._read.add_message(address if sound else "", offset)
        if not sound:
            raise Malformed(f"message {number} was changed: it is not what its hash says")

    def _blob(self, offset: int, line: bytes) -> None:
        address, content = parse_blob(line)
        if content_address(content) != address:
            raise Malformed("the content was changed: it is not what its hash says")
        if self._read.has_blob(address):
            raise Malformed("the content stands in the file already", "each content once")
        self._read.add_blob(address, offset)
        self._pending_blobs.add(address)

    # -- events --------------------------------------------------------------------------------------------------------

    def _event(self, number: int, offset: int, line: bytes) -> None:
        row, ranges = parse_event(line)
        run = self._current
        if self._salvage and (run is None or run.broken or not _follows(run, row)):
            run = self._adopted(row, number) or run
        if run is None:
            if self._skipping:
                return
            self._skipping = True
            raise Malformed(f"event {row.seq} stands in no run", "the beginning of a run")
        if run.broken:
            return
        run.broken = True
        self._verify(run, row, ranges)
        run.broken = False
        run.head = row.hash
        run.offsets.append(offset)
        if row.kind in TOLD_IN_LISTS:
            self._sum_up(run, row)
        self._pending_from = len(self._read.addresses)
        self._pending_blobs.clear()
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, max(self._events, self._done))

    def _adopted(self, row: StoredEvent, number: int) -> ReadRun | None:
        """Begin the run that an event is the first of, if the line that should have begun it is lost."""
        runs = self._read.runs
        waiting = (facts for uid, facts in self._listed.items() if uid not in runs or not runs[uid].offsets)
        for facts in islice(waiting, CANDIDATES):
            start = self._start(facts)
            if facts.first == row.seq and start is not None and row.chained(start, facts.uid) == row.hash:
                self._begin(facts, number)
                return self._current
        return None

    def _verify(self, run: ReadRun, row: StoredEvent, ranges: dict[str, Ranges]) -> None:
        if row.seq != run.last + 1:
            raise Malformed(f"event {row.seq} stands where event {run.last + 1} belongs")
        if not _follows(run, row):
            raise Malformed(f"event {row.seq} ({row.kind}) was changed: its hash does not follow")
        fresh: set[int] = set()
        for name, parts in ranges.items():
            row.conversations[name] = self._read.conversation(parts)
            for first, count in parts:
                fresh.update(range(max(first, self._pending_from), first + count))
        blobs = self._references.blobs(row)
        if not all(self._read.has_blob(address) for address in blobs):
            raise Malformed(f"event {row.seq} refers to a content that does not stand before it")
        unused = len(fresh) < len(self._read.addresses) - self._pending_from or not self._pending_blobs <= {*blobs}
        if unused and not self._salvage:
            raise Malformed(f"a content before event {row.seq} is not needed by it", "contents just before their event")

    def _sum_up(self, run: ReadRun, row: StoredEvent) -> None:
        try:
            event: Event = decode_event(row, lambda _row, _name: [], self._read.blob)
            run.summary.update(Summary.of([event]).fields)
            if event.kind == "run.started" and event.data.source is not None:
                run.timed = event.data.source.get("times") != "none"
            if not run.timed:
                run.summary["finished"] = None  # its times only show the order, so it has no duration
        except (AgentReplayError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            if len(self._read.notes) < FAULTS:
                self._read.notes.append(f"event {row.seq} ({row.kind}) of {run.facts.uid} cannot be read any more")

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _end(self, line: bytes) -> None:
        uid, events, hash = parse_end(line)
        run = self._read.runs.get(uid) if self._salvage else self._current
        self._current = None
        if run is None or run.facts.uid != uid:
            raise Malformed(f"the run {uid} does not end here")
        if run.facts.events is None:
            run.facts = replace(run.facts, events=events, hash=hash)
        if (events, hash) != (len(run.offsets), run.head):
            raise Malformed(f"the run should have {events} events, but {len(run.offsets)} sound ones are there")
        run.ended = True
        if (events, hash) != (run.facts.events, run.facts.hash):
            raise Malformed("it is not as the header has it")

    def _last(self, number: int, line: bytes) -> None:
        lines, hash = parse_last(line)
        self._closed = True
        if self._read.faults:
            return
        if self._current is not None:
            raise Malformed("it ends before its runs do", f"the end of the run {self._current.facts.uid}")
        if (missing := self._next()) is not None:
            raise Malformed("it ends before its runs do", f"the run {missing.uid}")
        if lines != self._lines:
            raise Malformed(f"it says that {lines} lines stand before it, but {self._lines} do")
        if hash != f"sha256:{self._hash.hexdigest()}":
            raise Malformed(
                f"it or line {number} was changed: the lines have the hash sha256:{self._hash.hexdigest()}, and line "
                f"{number} says {hash}",
                "both as they were written",
                f"If you edited the first line on purpose, put the first hash into line {number}.",
                line=1,
            )

    def _settle(self) -> None:
        """After salvaging: which runs are lost whole, and whether anything is left."""
        read = self._read
        for run in [run for run in read.runs.values() if not run.offsets and run.cut is not None]:
            del read.runs[run.facts.uid]
            if read.header is None:
                read.absent.append(run.facts)
        read.absent += [facts for uid, facts in self._listed.items() if uid not in read.runs]
        if not read.runs:
            line, found = read.faults[0]
            raise failure(self._path, found, "a cassette", "Nothing of it can be salvaged.", line)


def _follows(run: ReadRun, row: StoredEvent) -> bool:
    return row.chained(run.head, run.facts.uid) == row.hash


def _is_two(line: bytes) -> bool:
    """Say whether a JSON object ends within a line, and another begins behind it."""
    text = line.decode("utf-8", "replace")
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return text[end:].lstrip().startswith("{")
