"""Searching what was recorded in a run, or in many: the stored bytes of its events, in which a text stands as it is.

A run may be long, and runs many, so a search stops after some hits or some time and says where to go on. What is
stored once for many events, large values and the repeated messages of a conversation, is not searched: each message
stands in the event with which it came.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ..recorder.errors import UsageError
from ..recorder.store import EventStore, RunInfo
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
    """What was found, and the event after which to go on; None where the run was searched to its end."""

    hits: list[Hit]
    next: int | None


class Found(NamedTuple):
    """A run in which the text stands, the first hits of it, and the event after which there may be more, or None."""

    info: RunInfo
    hits: list[Hit]
    next: int | None


class Finds(NamedTuple):
    """What was found in many runs: how many of how many were searched by now, and where to go on; empty at the end."""

    runs: list[Found]
    searched: int
    total: int
    next: str


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
    count = searched = 0
    for at, info in enumerate(infos):
        if info.number > number:
            continue
        if searched and (count >= HITS or time.monotonic() > deadline):
            return Finds(found, at, len(infos), f"{info.number}:0")
        after = seq - 1 if info.number == number else -1
        hits, going_on = _search(store, info, pattern, after, each, deadline)
        searched += 1
        if hits:
            found.append(Found(info, hits, going_on))
            count += len(hits)
        if going_on is not None and len(hits) < each:
            return Finds(found, at, len(infos), f"{info.number}:{going_on + 1}")
    return Finds(found, len(infos), len(infos), "")


def _read(cursor: str) -> tuple[int, int]:
    if re.fullmatch(CURSOR, cursor) is None:
        raise UsageError(f"{cursor[:40]!r} is no cursor of a search; leave it out to begin with the newest run")
    number, _, seq = cursor.partition(":")
    return int(number), int(seq)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(json.dumps(text, ensure_ascii=False)[1:-1]), re.IGNORECASE)


def _search(store: EventStore, info: RunInfo, pattern: re.Pattern[str], after: int, most: int, deadline: float) -> Hits:
    hits: list[Hit] = []
    step = 0
    for row in store.rows(info, after):
        if row.kind == "round.started":
            step = row.round
        for hit in _in_event(row.body, pattern):
            hits.append(Hit(row.seq, max(step, row.round), visible(row.kind[:60]), *hit))
            if len(hits) >= most:
                return Hits(hits, row.seq)
        if time.monotonic() > deadline:
            return Hits(hits, row.seq)
    return Hits(hits, None)


def _in_event(body: bytes | None, pattern: re.Pattern[str]) -> Iterator[tuple[str, str, str]]:
    """What was found in an event, the first place of it."""
    if not body:
        return
    written = body.decode("utf-8", "replace")
    found = pattern.search(written)
    if found is not None:
        start, stop = found.span()
        before, after = written[max(start - AROUND, 0) : start], written[stop : stop + AROUND]
        yield _plain(before), _plain(found.group()), _plain(after)


def _plain(written: str) -> str:
    """A piece of JSON for people: without the escapes of quotes and line ends."""
    return visible(_LINE_ENDS.sub(" ", written).replace('\\"', '"').replace("\\\\", "\\"))
