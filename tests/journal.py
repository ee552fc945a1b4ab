"""A store that knows the order in which it was written, and gives itself as it was after each write.

That is what a process leaves that is killed there: the logs of a run and of its child runs, each as far as it had come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agentreplay.recorder.event_codec import StoredEvent
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import RunInfo, Summary


class Entry(NamedTuple):
    """One write: a run that was created, or events that were appended to it.

    Attributes:
        info: of a run that was created, else None.
        number: of the run.
        rows: that were appended.
        kinds: of these.
    """

    info: RunInfo | None
    number: int
    expected_seq: int
    rows: tuple[StoredEvent, ...]
    summary: Summary | None

    @property
    def kinds(self) -> list[str]:
        return [row.kind for row in self.rows]


class Journal(MemoryStore):
    """A store in memory that notes each write in `entries`."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

    def _insert_run(self, run: RunInfo, note: Mapping[str, Any] | None = None) -> int:
        number = super()._insert_run(run, note)
        self.entries.append(Entry(run, number, -1, (), None))
        return number

    def _write(self, number: int, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> None:
        copies = tuple([replace(row, messages={**row.messages}, blobs={**row.blobs}) for row in rows])
        super()._write(number, expected_seq, rows, summary)
        self.entries.append(Entry(None, number, expected_seq, copies, summary))

    def until(self, count: int) -> Journal:
        """A store with the first `count` writes of this one."""
        copy = Journal()
        copy._key = self._key  # the same secrets have the same tokens in it
        infos: dict[int, RunInfo] = {}
        for entry in self.entries[:count]:
            if entry.info is not None:
                number = copy._insert_run(entry.info)
                infos[number] = replace(entry.info, number=number)
            else:
                rows = [replace(row, messages={**row.messages}, blobs={**row.blobs}) for row in entry.rows]
                assert entry.summary is not None
                copy.append_rows(infos[entry.number], entry.expected_seq, rows, entry.summary)
        return copy
