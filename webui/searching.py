"""Searching what a run recorded: the stored bytes of its events, in which a text stands as it is.

A run may be long, so a search stops after some hits or some time and says where to go on. What is stored once for many
events, large values and the repeated messages of a conversation, is not searched: each message stands in the event with
which it came.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from ..recorder.store import EventStore, RunInfo
from ..replay.readable import visible

HITS: Final = 100
"""Hits on a page."""

SECONDS: Final = 1.5
"""How long a page may search."""

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


def search(store: EventStore, info: RunInfo, text: str, after: int = -1) -> Hits:
    """Search a run.

    Args:
        store, info: the run.
        text: in any case.
        after: the event after which to begin.
    """
    pattern = re.compile(re.escape(json.dumps(text, ensure_ascii=False)[1:-1]), re.IGNORECASE)
    hits: list[Hit] = []
    deadline = time.monotonic() + SECONDS
    step = 0
    for row in store.rows(info, after):
        if row.kind == "round.started":
            step = row.round
        for hit in _in_event(row.body, pattern):
            hits.append(Hit(row.seq, max(step, row.round), visible(row.kind[:60]), *hit))
            if len(hits) >= HITS:
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
