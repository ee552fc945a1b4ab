"""Searching what was recorded in a run, or in many: the stored bytes of its events, in which a text stands as it is.

What is stored once for many events, the messages of conversations and large values, is searched in the event in which
it stands first; the requests that repeat it are no hits of their own. Of one event no more than `LARGE` bytes of it are
searched: what is left out is counted, and so is what the store has lost.

A run may be long, and runs many, so a search stops after some hits or some time and says where to go on. What came
before is told by the events just before that place; so in rare cases a message is found once more where it is repeated.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ..recorder.errors import CorruptLog, UsageError
from ..recorder.event_codec import StoredEvent
from ..recorder.kept_apart import references
from ..recorder.store import EventStore, RunInfo
from ..recorder.values import loads
from ..replay.readable import visible

HITS: Final = 100
"""Hits on a page."""

SECONDS: Final = 1.5
"""How long a page may search."""

EACH: Final = 5
"""Hits of a run that are shown where many runs are searched."""

SECONDS_OF_RUNS: Final = 0.3
"""How long a request may search many runs."""

CURSOR: Final = "^([0-9]{1,9}:[0-9]{1,9})?$"
"""Where to go on in many runs: the number of a run, and the event of it that comes next. Empty for the first."""

LARGE: Final = 8_000_000
"""Bytes stored apart of one event that are searched, at most. What would go beyond is left out."""

TOGETHER: Final = 64
"""Messages that are read at a time."""

LOOK_BACK: Final = 200
"""Events before the place where a search goes on whose conversations are known already."""

AROUND: Final = 60
"""Characters that are shown before and after what was found."""

_LINE_ENDS: Final = re.compile(r"\\[nrt]")


class Hit(NamedTuple):
    """An event in which the text stands: its step and kind, what was found, and what stands before and after it."""

    seq: int
    step: int
    kind: str
    before: str
    found: str
    after: str


class Hits(NamedTuple):
    """What was found, and the event after which to go on; None where the run was searched to its end.

    `left_out` tells how many values were not searched, since they are too large or lost.
    """

    hits: list[Hit]
    next: int | None
    left_out: int = 0


class Found(NamedTuple):
    """A run in which the text stands, the first hits of it, and the event after which there may be more, or None."""

    info: RunInfo
    hits: list[Hit]
    next: int | None


class Finds(NamedTuple):
    """What was found in many runs: how many of how many were searched by now, and where to go on; empty at the end.

    `left_out` as in `Hits`, by this search.
    """

    runs: list[Found]
    searched: int
    total: int
    next: str
    left_out: int = 0


def search(store: EventStore, info: RunInfo, text: str, after: int = -1) -> Hits:
    """Search a run.

    Args:
        store, info: the run.
        text: in any case.
        after: the event after which to begin.
    """
    return _search(store, info, _pattern(text), after, HITS, time.monotonic() + SECONDS)


def search_runs(
    store: EventStore,
    infos: Sequence[RunInfo],
    text: str,
    cursor: str = "",
    each: int = EACH,
    seconds: float = SECONDS_OF_RUNS,
) -> Finds:
    """Search runs one after the other, for so long or until there are `HITS`.

    Args:
        store: where the runs are.
        infos: the runs, newest first.
        text: in any case.
        cursor: `next` of the search before.
        each: hits of a run, at most; then the next run is searched.
        seconds: how long, at most; an event is searched in any case.

    Raises:
        UsageError: the cursor is none.
    """
    pattern, deadline = _pattern(text), time.monotonic() + seconds
    number, seq = _read(cursor) if cursor else (infos[0].number if infos else 0, 0)
    found: list[Found] = []
    count = searched = left_out = 0
    for at, info in enumerate(infos):
        if info.number > number:
            continue
        if searched and (count >= HITS or time.monotonic() > deadline):
            return Finds(found, at, len(infos), f"{info.number}:0", left_out)
        after = seq - 1 if info.number == number else -1
        hits, going_on, unsearched = _search(store, info, pattern, after, each, deadline)
        left_out += unsearched
        searched += 1
        if hits:
            found.append(Found(info, hits, going_on))
            count += len(hits)
        if going_on is not None and len(hits) < each:
            return Finds(found, at, len(infos), f"{info.number}:{going_on + 1}", left_out)
    return Finds(found, len(infos), len(infos), "", left_out)


def _read(cursor: str) -> tuple[int, int]:
    if re.fullmatch(CURSOR, cursor) is None:
        raise UsageError(f"{cursor[:40]!r} is no cursor of a search; leave it out to begin with the newest run")
    number, _, seq = cursor.partition(":")
    return int(number), int(seq)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(json.dumps(text, ensure_ascii=False)[1:-1]), re.IGNORECASE)


def _search(store: EventStore, info: RunInfo, pattern: re.Pattern[str], after: int, most: int, deadline: float) -> Hits:
    hits: list[Hit] = []
    step, apart = 0, _Apart(store, _known_before(store, info, after))
    for row in store.rows(info, after):
        if row.kind == "round.started":
            step = row.round
        found = _in_bytes(row.body, pattern)
        for content in apart.new(row):  # all of it, whether or not it is looked into: later events repeat it
            found = found or _in_bytes(content, pattern)
        if found is not None:
            hits.append(Hit(row.seq, max(step, row.round), visible(row.kind[:60]), *found))
        if len(hits) >= most or time.monotonic() > deadline:
            return Hits(hits, row.seq, apart.left_out)
    return Hits(hits, None, apart.left_out)


def _known_before(store: EventStore, info: RunInfo, after: int) -> set[str]:
    """The content addresses of what the events just before the place refer to."""
    known: set[str] = set()
    if after >= 0:
        for row in store.rows(info, max(after - LOOK_BACK, -1), after):
            known.update(_messages_of(row), [address for address, _ in _blobs_of(row.body)])
    return known


def _messages_of(row: StoredEvent) -> list[str]:
    return [address for addresses in row.conversations.values() for address in addresses]


class _Apart:
    """What events refer to, each time only what is new.

    Args:
        store: where it is.
        known: the content addresses of what is not new.

    Attributes:
        left_out: how many values were too large, or lost.
    """

    def __init__(self, store: EventStore, known: set[str]) -> None:
        self._store = store
        self._known = known
        self.left_out = 0

    def new(self, row: StoredEvent) -> Iterator[bytes]:
        """The contents that an event refers to and none before it did, messages first."""
        room = LARGE
        messages = [address for address in dict.fromkeys(_messages_of(row)) if address not in self._known]
        self._known.update(messages)
        for start in range(0, len(messages), TOGETHER):
            for content in self._read(messages[start : start + TOGETHER]):
                if len(content) <= room:
                    room -= len(content)
                    yield content
                else:
                    self.left_out += 1
        for address, size in _blobs_of(row.body):
            if address in self._known:
                continue
            self._known.add(address)
            if size <= room:
                room -= size
                yield from self._read([address])
            else:
                self.left_out += 1

    def _read(self, addresses: Sequence[str]) -> list[bytes]:
        try:
            found = self._store.read_contents(addresses)
            return [found[address] for address in addresses]
        except CorruptLog:  # one of them is lost
            if len(addresses) == 1:
                self.left_out += 1
                return []
            return [content for address in addresses for content in self._read([address])]


def _blobs_of(body: bytes | None) -> list[tuple[str, int]]:
    """The content addresses and sizes of the large values that an event refers to."""
    if not body or b'"$type":"blob"' not in body:
        return []
    try:
        tags = [found.tag for found in references(loads(body))]
    except (ValueError, RecursionError):  # damaged; whoever reads the event is told so
        return []
    found = [(tag.get("hash"), tag.get("size")) for tag in tags if tag["$type"] == "blob"]
    return [(address, size) for address, size in found if type(address) is str and type(size) is int]


def _in_bytes(written: bytes | None, pattern: re.Pattern[str]) -> tuple[str, str, str] | None:
    """The first place where the text stands, with what stands around it."""
    if not written:
        return None
    text = written.decode("utf-8", "replace")
    found = pattern.search(text)
    if found is None:
        return None
    start, stop = found.span()
    return (
        _plain(text[max(start - AROUND, 0) : start]),
        _plain(found.group()),
        _plain(text[stop : stop + AROUND]),
    )


def _plain(written: str) -> str:
    """A piece of JSON for people: without the escapes of quotes and line ends."""
    return visible(_LINE_ENDS.sub(" ", written).replace('\\"', '"').replace("\\\\", "\\"))
