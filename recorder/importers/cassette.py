"""Imports cassettes: runs of our own, as they were recorded, into this store.

Importing changes no event. A run keeps its uid, its events, their hashes and the tokens of what was redacted; only its
number is this store's. So a run can be compared with one of the same uid that is here already, by one hash:

- it ends where this one ends: it was imported before, and nothing is added;
- it goes on where this one ends: what is missing here is added. So a run that was exported while it was running, or
  salvaged, or is here only as far as a fork shares it, is completed by a later import;
- this one goes on where it ends: nothing is added;
- anything else: one of the two was changed, and the import is refused.

All runs of a file are added in one transaction, or none is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from ..cassette import Lost, blobs_of
from ..errors import CorruptLog, RunNotFound, StoreError
from ..event_codec import StoredEvent
from ..store import FIRST, Addition, EventStore, RunInfo
from .cassette_reader import Progress, read_cassette
from .cassette_recording import ReadRun, Recording
from .importing import ImportReport
from .source import SourceFile, failure

_BEGINS: Final = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"agentreplay"\s*:')
_GOES_ON: Final = re.compile(rb'^\{"(?:run":"[0-9a-f-]{36}","agent"|seq":\d+,"round":\d+,"kind"|cassette":"end")', re.M)
_LOOKED_AT: Final = 64 * 1024


class Cassette:
    """The format of this project itself."""

    name = "cassette"
    reads = 'a run that agentreplay exported, whose first line begins with {"agentreplay":"cassette"'

    def detects(self, source: SourceFile) -> float:
        """Certain of a file that begins like one; nearly so of one that only goes on like one."""
        if _BEGINS.match(source.data):
            return 1.0
        return 0.9 if _GOES_ON.search(source.data, 0, _LOOKED_AT) else 0.0

    def add(self, source: SourceFile, store: EventStore, *, salvage: bool, progress: Progress | None) -> ImportReport:
        """Add the runs of a cassette to a store.

        Args:
            source: the file.
            store: where they go.
            salvage: keep what is sound of a damaged file.
            progress: called as it goes on.

        Raises:
            ImportFailed: the file is damaged, or has a run that is here with other content; nothing was stored.
            StoreError: the store failed; nothing was stored.
        """
        both = _Both(progress)
        recording = read_cassette(source.path, source.data, salvage=salvage, progress=both.reading)
        tried = None
        while True:
            plan = [_Step.of(run, recording, store, source.path) for run in recording.runs.values()]
            _refuse_circles(plan, store, source.path)
            delivery = _Delivery(recording, both.stored)
            additions = [step.addition(delivery) for step in plan if step.changes]
            wanted = [(addition.info.uid, addition.info.number, addition.after) for addition in additions]
            try:
                added = store.add_recorded(additions) if additions else []
                break
            except StoreError:
                if wanted == tried:  # nobody else has changed the runs meanwhile: the store itself fails
                    raise
                tried = wanted
        both.finish()
        names = {step.run.facts.uid: step.known.id for step in plan if step.known is not None}
        names.update({info.uid: info.id for info in added})
        return _report(recording, plan, {step.run.facts.uid: names[step.run.facts.uid] for step in plan})


class _Both:
    """Progress over both passes, so that one bar tells of the whole import."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._read = 0
        self._stored = 0

    def reading(self, done: int, total: int) -> None:
        self._read = total
        if self._progress is not None:
            self._progress(done // 2, total)

    def stored(self) -> None:
        self._stored += 1
        if self._progress is not None:
            self._progress(min(self._read, (self._read + self._stored) // 2), self._read)

    def finish(self) -> None:
        if self._progress is not None:
            self._progress(self._read, self._read)


@dataclass(slots=True)
class _Step:
    """What is to be done about one run.

    Attributes:
        run: as the file has it.
        known: as the store has it.
        after: the last of its events that the store has; its later ones are added.
        note, old: what the store is to know of it beside its events, and knows now.
    """

    run: ReadRun
    known: RunInfo | None
    after: int
    note: dict[str, Any]
    old: dict[str, Any]

    @classmethod
    def of(cls, run: ReadRun, recording: Recording, store: EventStore, path: str) -> _Step:
        facts = run.facts
        known = _known(store, facts.uid)
        after = facts.first - 1
        if known is not None:
            _compare(run, known, recording, store, path)
            after = max(after, min(known.head_seq, run.last))
        step = cls(run, known, after, {}, store.note(facts.uid))
        step.note = step._noted(recording)
        return step

    @property
    def adds(self) -> int:
        """How many events are added."""
        return self.run.last - self.after

    @property
    def changes(self) -> bool:
        return self.known is None or self.adds > 0 or self.note != self.old

    def _noted(self, recording: Recording) -> dict[str, Any]:
        facts, known, note = self.run.facts, self.known, dict(self.old)
        last = self.run.last if known is None else max(self.run.last, known.head_seq)
        lost = Lost(**note["lost"]) if "lost" in note else None
        header = recording.header
        extra = {"header": header.extra if header is not None and header.run == facts.uid else {}, "run": facts.extra}
        note.update({name: value for name, value in extra.items() if value})
        if known is None or self.adds:
            lost = self.run.cut or facts.lost or lost
        note.pop("lost", None)
        if lost is not None and not self._found(lost, recording):
            note["lost"] = lost._asdict()
        if known is None and facts.prefix:
            note["prefix"] = True
        elif not facts.prefix and last == self.run.last:
            note.pop("prefix", None)
        return note

    def _found(self, lost: Lost, recording: Recording) -> bool:
        """Whether the file has what was lost: that very event, or the run, sound, to its end or further than it was.

        What was said to be lost stood in a damaged file, so it may itself be wrong.
        """
        if recording.hash_at(self.run.facts.uid, lost.seq) == lost.hash is not None:
            return True
        if self.run.cut is not None or self.run.facts.lost is not None:
            return False
        ended = self.run.summary.get("status") in ("completed", "failed", "cancelled")
        return ended or self.run.last >= (lost.seq if lost.hash is not None else lost.seq - 1)

    def addition(self, delivery: _Delivery) -> Addition:
        """What the store is asked to do."""
        run, facts = self.run, self.run.facts
        info = self.known or RunInfo(0, facts.uid, facts.agent, fork_of=facts.fork_of, fork_seq=facts.fork_seq)
        after = info.head_seq
        if self.known is None or self.adds:
            info = replace(info, parent=facts.parent, head_seq=run.last, head_hash=run.head)
            info = replace(info, **run.summary)
        origin = run.summary.get("origin", "recorded")
        if "lost" in self.note or "prefix" in self.note:
            origin = "salvaged" if "lost" in self.note else "prefix"
        info = replace(info, origin=origin)
        return Addition(info, delivery.rows(run, self.after), after, self.note)


class _Delivery:
    """Reads events a second time, to store them; a content comes with the first event that needs it.

    Args:
        recording: what was read.
        stored: called after each event.
    """

    def __init__(self, recording: Recording, stored: Callable[[], None]) -> None:
        self._recording = recording
        self._stored = stored
        self._first: str | None = None
        self._messages = bytearray()
        self._blobs: set[str] = set()

    def rows(self, run: ReadRun, after: int) -> Iterable[StoredEvent]:
        """The events of a run after one, as often as they are asked for."""
        self._first = self._first or run.facts.uid
        return _Rows(self, run, after)

    def begin(self, uid: str) -> None:
        """Begin once more with the first run: its transaction has to be carried out anew."""
        if uid == self._first:
            self._messages = bytearray(len(self._recording.addresses))  # 1 for each that came with an event
            self._blobs.clear()

    def event(self, run: ReadRun, seq: int) -> StoredEvent:
        """An event, with the contents that did not come before."""
        recording, given = self._recording, self._messages
        row, conversations = recording.event(run, seq)
        for first, count in chain.from_iterable(conversations.values()):
            while (number := given.find(0, first, first + count)) >= 0:
                given[number] = 1
                row.messages[recording.addresses[number]] = recording.message(number)
        for address in blobs_of(row):
            if address not in self._blobs:
                self._blobs.add(address)
                row.blobs[address] = recording.blob(address)
        return row

    def stored(self) -> None:
        """An event was taken."""
        self._stored()


@dataclass(frozen=True, slots=True)
class _Rows:
    """The events of a run after one."""

    delivery: _Delivery
    run: ReadRun
    after: int

    def __iter__(self) -> Iterator[StoredEvent]:
        self.delivery.begin(self.run.facts.uid)
        for seq in range(self.after + 1, self.run.last + 1):
            yield self.delivery.event(self.run, seq)
            self.delivery.stored()


def _known(store: EventStore, uid: str) -> RunInfo | None:
    try:
        return store.run(uid)
    except RunNotFound:
        return None


def _compare(run: ReadRun, known: RunInfo, recording: Recording, store: EventStore, path: str) -> None:
    """Refuse a run whose events differ from those of the same uid that are here."""
    facts = run.facts
    if known.head_seq < FIRST:
        raise CorruptLog(f"{known.id} has lost its end; `agentreplay verify {known.id}` shows more", run=known.id)
    shared = min(known.head_seq, run.last)
    same = (known.fork_of, known.fork_seq) == (facts.fork_of, facts.fork_seq)
    if same and shared >= facts.first:
        row = next(iter(store.rows(known, after=shared - 1, until=shared)), None)
        same = row is not None and row.hash == recording.hash_at(facts.uid, shared)
    if not same:
        raise failure(
            path,
            f"the run {facts.uid} is in this store as {known.id}, and differs: there it ends at event "
            f"{known.head_seq} ({known.head_hash}), in the file at event {run.last} ({run.head})",
            "the same run, or more of it",
            "One of the two was changed. To look at both, import the file into another store with --store.",
            run.line,
        )


def _refuse_circles(plan: Iterable[_Step], store: EventStore, path_of_file: str) -> None:
    """Refuse a new run whose parents, here and in the file together, lead back to it."""
    new = {step.run.facts.uid: step.run for step in plan if step.known is None}
    sound: set[str | None] = {None}
    for uid, run in new.items():
        path: set[str | None] = set()
        above: str | None = uid
        while above not in sound:
            if above in path:
                raise failure(
                    path_of_file,
                    f"the run {uid} is its own parent's parent",
                    "parents that lead to a first run",
                    "It was not written by agentreplay.",
                    run.line,
                )
            path.add(above)
            known = None if above in new else _known(store, above or "")
            above = new[above].facts.parent if above in new else known.parent if known is not None else None
        sound |= path


# -- what became of it -------------------------------------------------------------------------------------------------


def _report(recording: Recording, plan: list[_Step], names: dict[str, str]) -> ImportReport:
    sound = sum(len(step.run.offsets) for step in plan)
    added = sum(step.adds for step in plan)
    lost = sum(cut.seq - step.run.last for step in plan if (cut := step.run.cut) is not None)
    lost += sum(facts.events or 0 for facts in recording.absent)
    notes = []
    if not any(step.changes for step in plan):
        here = ", ".join(names.values())
        notes.append(f"nothing was added: {here} {'hold' if len(names) > 1 else 'holds'} all of it already")
    notes += [note for step in plan for note in _notes_of(step, names[step.run.facts.uid])]
    for facts in recording.absent:
        notes.append(f"the run {facts.uid} ({facts.agent}) is lost: none of its events is sound")
    notes += [f"line {line}: {found}" for line, found in recording.faults]
    if recording.damaged > len(recording.faults):
        notes.append(f"and {recording.damaged - len(recording.faults)} more damaged lines")
    root = recording.root.facts.uid
    return ImportReport(
        runs=[names[root], *(name for uid, name in names.items() if uid != root)],
        format=Cassette.name,
        read=sound + max(lost, bool(recording.damaged)),
        imported=added,
        unknown=0,
        damaged=max(lost, bool(recording.damaged)),
        notes=notes + recording.notes,
    )


def _notes_of(step: _Step, name: str) -> Iterator[str]:
    run, known = step.run, step.known
    if known is not None and step.adds:
        yield f"{name} ended at event {known.head_seq}; events {step.after + 1} to {run.last} were added"
    elif known is not None and known.head_seq > run.last and not run.facts.prefix:
        yield f"{name} goes on to event {known.head_seq}; the file ends at event {run.last}"
    elif known is not None and step.note.keys() < step.old.keys():
        yield f"{name} is known to be whole now"
    if known is not None and any(step.note.get(part) != step.old.get(part) for part in ("header", "run")):
        yield f"{name}: what the file's header says of it was taken over"
    if "prefix" in step.note and step.changes:
        yield f"{name} is here only as far as its fork shares it, to event {run.last}"
    if (cut := run.cut) is not None:
        yield f"{name}: {_lost(run, cut)}; its events to {run.last} are sound"


def _lost(run: ReadRun, cut: Lost) -> str:
    if cut.hash is None:
        return "what may have come after it is lost"
    return f"event {cut.seq} is lost" if cut.seq == run.last + 1 else f"events {run.last + 1} to {cut.seq} are lost"
