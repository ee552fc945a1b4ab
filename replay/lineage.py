"""Which runs a run comes from, and up to which event: a fork shares its parent's events, and so on.

Of a run that came in a cassette its parents may be here as a beginning alone, or not at all; what is there is told.
"""

from __future__ import annotations

from typing import NamedTuple

from ..recorder.errors import RunNotFound
from ..recorder.store import EventStore, RunInfo


class Ancestor(NamedTuple):
    """A run whose events another one has, up to event `last`; of a run itself, its own last."""

    uid: str
    last: int


def lineage(store: EventStore, info: RunInfo) -> list[Ancestor]:
    """The run itself, and those that it shares events with, nearest first; also those that are not in the store."""
    found = [Ancestor(info.uid, info.head_seq)]
    known: RunInfo | None = info
    while known is not None and known.fork_of is not None and known.fork_seq is not None:
        if known.fork_of in {one.uid for one in found}:
            break  # a damaged store: runs cannot be forks of each other
        found.append(Ancestor(known.fork_of, min(known.fork_seq, found[-1].last)))
        try:
            known = store.run(known.fork_of)
        except RunNotFound:
            known = None
    return found


def last_shared(store: EventStore, old: RunInfo, new: RunInfo) -> Ancestor | None:
    """The nearest run that both are or come from, with the last event that both have; None if there is none."""
    limits = dict(lineage(store, old))
    for uid, last in lineage(store, new):
        if uid in limits:
            return Ancestor(uid, min(last, limits[uid]))
    return None
