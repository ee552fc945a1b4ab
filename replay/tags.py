"""The tags of recorded runs, read from the first event of each and kept: they never change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from ..recorder.errors import AgentReplayError
from ..recorder.store import EventStore, RunInfo
from ..recorder.values import loads

KEPT: Final = 20_000
"""Runs whose tags are kept."""


class Tags:
    """The tags of the runs of a store.

    Args:
        store: where the runs are.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def of(self, info: RunInfo) -> tuple[str, ...]:
        """The tags of a run, a fork's those of the run it came from; none where its start cannot be read."""
        with self._lock:
            if info.uid in self._known:
                return self._known[info.uid]
        if info.head_seq < 0:  # it has no events yet
            return ()
        found = self._read(info)
        with self._lock:
            self._known[info.uid] = found
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return found

    def _read(self, info: RunInfo) -> tuple[str, ...]:
        try:
            row = next(iter(self._store.rows(info, until=0)), None)
            if row is None or row.body is None or b'"tags"' not in row.body:  # most runs have none: nothing is parsed
                return ()
            tags = loads(row.body).get("tags")
        except (AgentReplayError, ValueError, AttributeError):
            return ()  # a damaged log: whoever reads it is told so
        return tuple([tag for tag in tags if isinstance(tag, str)]) if isinstance(tags, list) else ()
