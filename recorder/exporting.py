"""Exports a run as a cassette, with its child runs, and with the events that it shares if it is a fork.

What is written is checked on the way exactly as it will be when it is read: a damaged log is no cassette, and its
export fails. The order is one that the logs give, and none of the store's: a run stands before its forks, and child
runs stand after the run that started them, by uid. So exporting, importing elsewhere and exporting again gives the
same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from .cassette import (
    Header,
    Lost,
    Malformed,
    Ranges,
    References,
    RunFacts,
    blob_line,
    end_line,
    event_line,
    header_line,
    last_line,
    message_line,
    ranges_of,
    run_line,
)
from .errors import CorruptLog, UsageError
from .event_codec import StoredEvent
from .hashes import content_address
from .locate import open_store
from .replacing import replacing
from .store import FIRST, EventStore, RunInfo, RunRef
from .values import loads

PAGE: Final = 100
"""Events whose messages are read together."""

FORMATS: Final = ("cassette",)
"""The formats that a run can be exported to."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called as an export goes on, with the events that are written and the events in all."""


class Exported(NamedTuple):
    """What an export wrote: runs and events."""

    runs: int
    events: int


def export_run(
    run: RunRef,
    path: str | os.PathLike[str],
    format: str = "cassette",
    *,
    store: EventStore | str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write a run to a file, which is replaced as a whole or not at all.

    Args:
        run: the run; one that is still running is written as far as it is now.
        path: the file.
        format: "cassette": the run with its child runs, and of a fork the events that it shares.
        store: a store, or the URL of one; by default the one that is found from here.
        progress: called as it goes on.

    Returns:
        The file.

    Raises:
        RunNotFound: there is no such run.
        CorruptLog: the log is damaged; nothing was written.
        ExportFailed: the file cannot be written; nothing was changed.
        UsageError: there is no such format.
    """
    if format not in FORMATS:
        raise UsageError(f'there is no format "{format}" to export to; expected {", ".join(FORMATS)}')
    if not isinstance(store, EventStore):
        store = open_store(store, create=False)
    with replacing(path) as file:
        write_cassette(store, run, file.write, progress)
    return Path(path)


def write_cassette(
    store: EventStore, run: RunRef, write: Callable[[bytes], object], progress: Progress | None = None
) -> Exported:
    """Write the lines of a cassette, one a call; see `export_run`."""
    info = store.run(run.uid if isinstance(run, RunInfo) else run)
    return _Writer(store, _parts(store, info), write, progress).write(info.uid)


# -- what belongs to it ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Part:
    """A run in a cassette: its own events up to `last`; `prefix` if that is all that a fork shares."""

    info: RunInfo
    last: int
    prefix: bool

    @property
    def first(self) -> int:
        return 0 if self.info.fork_seq is None else self.info.fork_seq + 1


def _parts(store: EventStore, root: RunInfo) -> dict[str, _Part]:
    """The runs of a cassette in order."""
    infos = {info.uid: info for info in store.runs()}
    children: dict[str, list[str]] = {}
    for uid, info in sorted(infos.items(), reverse=True):
        if info.parent is not None:
            children.setdefault(info.parent, []).append(uid)
    parts: dict[str, _Part] = {}
    todo = [root.uid]
    while todo:
        uid = todo.pop()
        if uid in parts and not parts[uid].prefix:
            continue
        for info, last in _shared_with(infos, uid):
            known = parts.setdefault(info.uid, _Part(info, FIRST, prefix=True))
            if known.prefix and last > known.last:
                started = _started(store, info, known.last, last)
                todo += [child for child in reversed(started) if child in infos]
                known.last = last
        whole = parts.setdefault(uid, _Part(infos[uid], FIRST, prefix=False))
        whole.last, whole.prefix = infos[uid].head_seq, False
        todo += children.get(uid, ())
    return parts


def _shared_with(infos: dict[str, RunInfo], uid: str) -> Iterator[tuple[RunInfo, int]]:
    """The runs that a fork shares events with, the first one first, each with the last event that is needed of it."""
    path: dict[str, int] = {}
    info = infos[uid]
    while info.fork_of is not None and info.fork_seq is not None:
        if info.fork_of not in infos or info.fork_of in path or info.fork_of == uid:
            raise CorruptLog(f"the run {info.fork_of}, which {info.id} was forked from, is not there", run=info.id)
        path[info.fork_of] = info.fork_seq
        info = infos[info.fork_of]
    for shared, last in reversed(path.items()):
        fork_seq = infos[shared].fork_seq
        yield infos[shared], last if fork_seq is None else max(last, fork_seq)


def _started(store: EventStore, info: RunInfo, after: int, until: int) -> list[str]:
    """The child runs that were started in a part of a log, in order."""
    found = []
    for row in store.rows(info, after, until):
        if row.kind == "subrun.started" and row.body is not None:
            body = loads(row.body)
            if type(body) is dict and type(body.get("run")) is str:
                found.append(body["run"])
    return found


# -- writing it --------------------------------------------------------------------------------------------------------


class _Writer:
    def __init__(
        self,
        store: EventStore,
        parts: dict[str, _Part],
        write: Callable[[bytes], object],
        progress: Progress | None,
    ) -> None:
        self._store = store
        self._parts = parts
        self._write = write
        self._progress = progress
        self._references = References()
        self._numbers: dict[str, int] = {}
        self._blobs: set[str] = set()
        self._hash = sha256()
        self._lines = 0
        self._done = 0
        self._total = sum(part.last - part.first + 1 for part in parts.values())

    def write(self, root: str) -> Exported:
        facts = [self._facts(part) for part in self._parts.values()]
        self._advance(0)
        self._line(header_line(Header(root, facts, self._store.note(root).get("header", {}))))
        for part, about in zip(self._parts.values(), facts, strict=True):
            self._line(run_line(about))
            self._section(part)
            self._line(end_line(about.uid, about.events or 0, about.hash or ""))
        self._line(last_line(self._lines, self._hash.hexdigest()))
        return Exported(len(facts), self._total)

    def _line(self, line: bytes) -> None:
        self._write(line + b"\n")
        self._hash.update(line + b"\n")
        self._lines += 1

    def _advance(self, events: int) -> None:
        self._done += events
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _facts(self, part: _Part) -> RunFacts:
        info = part.info
        if info.head_seq < FIRST:
            raise self._damaged(info, None, "its end is missing")
        note = self._store.note(info.uid)
        return RunFacts(
            info.uid,
            info.agent,
            info.parent,
            info.fork_of,
            info.fork_seq,
            prefix=part.prefix or "prefix" in note,
            lost=Lost(**note["lost"]) if "lost" in note and not part.prefix else None,
            events=part.last - part.first + 1,
            hash=self._hash_at(info, part.last),
            extra=note.get("run", {}),
        )

    def _hash_at(self, info: RunInfo, seq: int) -> str:
        if seq == info.head_seq:
            return info.head_hash
        row = next(iter(self._store.rows(info, seq - 1, seq)), None)
        if row is None:
            raise self._damaged(info, seq, "it is missing")
        return row.hash

    def _section(self, part: _Part) -> None:
        info, expected = part.info, part.first
        previous = self._hash_at(info, part.first - 1) if part.first else ""
        for row, contents in self._with_messages(self._store.rows(info, part.first - 1, part.last)):
            if row.seq != expected:
                raise self._damaged(info, expected, "it is missing")
            if row.chained(previous, info.uid) != row.hash:
                raise self._damaged(info, row.seq, "it was changed")
            try:
                self._event(row, contents)
            except Malformed as error:
                raise self._damaged(info, row.seq, error.found) from error
            except CorruptLog as error:  # a content is missing
                raise self._damaged(info, row.seq, str(error)) from error
            expected, previous = expected + 1, row.hash
            self._advance(1)
        if expected != part.last + 1 or previous != self._hash_at(info, part.last):
            raise self._damaged(info, expected, "what came from there on is missing")

    def _with_messages(self, rows: Iterator[StoredEvent]) -> Iterator[tuple[StoredEvent, Mapping[str, bytes]]]:
        """Each row with the messages that are new in its page: a store is asked once for many of them."""
        while page := [*islice(rows, PAGE)]:
            lists = [addresses for row in page for addresses in row.conversations.values()]
            new = set(chain.from_iterable(lists)) - self._numbers.keys()
            contents: Mapping[str, bytes] = {}
            with suppress(CorruptLog):  # one is missing; the event that needs it is found when it is written
                contents = self._store.read_contents(sorted(new)) if new else contents
            yield from ((row, contents) for row in page)

    def _event(self, row: StoredEvent, known: Mapping[str, bytes]) -> None:
        if row.body is None and row.conversations:
            row = replace(row, conversations={})  # what a pruned body referred to may be gone, and nothing asks for it
        blobs = [address for address in self._references.blobs(row) if address not in self._blobs]
        messages = dict.fromkeys(
            address for addresses in row.conversations.values() for address in addresses if address not in self._numbers
        )
        others = [address for address in (*messages, *blobs) if address not in known]
        contents = {**known, **self._store.read_contents(others)} if others else known
        for address in messages:
            number = self._numbers[address] = len(self._numbers)
            self._line(message_line(number, address, _checked(contents, address)))
        for address in dict.fromkeys(blobs):
            self._blobs.add(address)
            self._line(blob_line(address, _checked(contents, address)))
        self._line(event_line(row, {name: self._ranges(addresses) for name, addresses in row.conversations.items()}))

    def _ranges(self, addresses: Sequence[str]) -> Ranges:
        return ranges_of([self._numbers[address] for address in addresses])

    def _damaged(self, info: RunInfo, seq: int | None, what: str) -> CorruptLog:
        where = info.id if seq is None else f"{info.id}, event {seq}"
        return CorruptLog(
            f"cannot export {where}: {what}. `agentreplay verify {info.id}` shows what is damaged.",
            run=info.id,
            seq=seq,
        )


def _checked(contents: Mapping[str, bytes], address: str) -> bytes:
    content = contents[address]
    if content_address(content) != address:
        raise Malformed(f"the content {address[:19]}… was changed")
    return content
