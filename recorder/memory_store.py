"""A store in memory: for tests, and for runs that nobody needs to keep."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .errors import CorruptLog, StoreError, VersionConflict
from .event_codec import StoredEvent
from .store import Addition, EventStore, Head, RunInfo, Snapshot, Summary

if TYPE_CHECKING:
    from .redaction import RedactionRules


class MemoryStore(EventStore):
    """Keeps every run in this process; `memory:` as a URL."""

    def __init__(self, rules: RedactionRules | None = None) -> None:
        super().__init__(rules)
        self.url = "memory:"
        self._key = secrets.token_bytes(32)
        self._infos: list[RunInfo] = []
        self._logs: dict[int, list[StoredEvent]] = {}
        self._contents: dict[str, bytes] = {}
        self._notes: dict[str, bytes] = {}
        self._snapshots: dict[int, dict[int, Snapshot]] = {}
        self._heartbeats: dict[int, int] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Nothing is held open."""

    def _redaction_key(self) -> bytes:
        return self._key

    def _insert_run(self, run: RunInfo, note: Mapping[str, Any] | None = None) -> int:
        return self._add([Addition(run, (), note=note)])[0]

    def _add(self, additions: Sequence[Addition]) -> list[int]:
        read = [(addition.info, [*addition.rows], addition) for addition in additions]
        with self._lock:
            known = {info.uid: info for info in self._infos}
            for info, _, addition in read:
                if info.number == 0 and info.uid in known:
                    raise StoreError(f"the store has a run {info.uid} already")
                if info.number and known[info.uid].head_seq != addition.after:
                    raise VersionConflict(info.uid, addition.after, known[info.uid].head_seq)
                known[info.uid] = info
            numbers = []
            for info, rows, addition in read:
                number = info.number or len(self._infos) + 1
                numbers.append(number)
                if info.number == 0:
                    self._infos.append(info)
                    self._logs[number] = []
                self._infos[number - 1] = replace(info, number=number)
                self._keep(number, rows)
                if (note := addition.written_note) is not None:
                    self._notes[info.uid] = note
            return numbers

    def _read_note(self, uid: str) -> bytes | None:
        return self._notes.get(uid)

    def _keep(self, number: int, rows: Sequence[StoredEvent]) -> None:
        for row in rows:
            self._contents.update(row.messages)
            self._contents.update(row.blobs)
            row.messages, row.blobs = {}, {}
        self._logs[number].extend(rows)

    def _write(self, number: int, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> None:
        with self._lock:
            info = self._infos[number - 1]
            if info.head_seq != expected_seq:
                raise VersionConflict(info.uid, expected_seq, info.head_seq)
            self._keep(number, rows)
            self._infos[number - 1] = replace(info, head_seq=rows[-1].seq, head_hash=rows[-1].hash, **summary.fields)

    def _read_head(self, number: int) -> Head:
        info = self._infos[number - 1]
        return Head(info.head_seq, info.head_hash)

    def _read_rows(self, number: int, after: int, until: int | None) -> Iterator[StoredEvent]:
        log = self._logs[number]
        if not log:
            return
        start = max(0, after + 1 - log[0].seq)
        stop = len(log) if until is None else until + 1 - log[0].seq
        yield from log[start : max(stop, 0)]

    def read_contents(self, addresses: Sequence[str]) -> Mapping[str, bytes]:
        try:
            return {address: self._contents[address] for address in addresses}
        except KeyError as error:
            raise CorruptLog(f"the content {error.args[0]} is missing from the store") from None

    def _numbers_without_runs(self) -> list[int]:
        return sorted(self._logs.keys() - {info.number for info in self._infos})

    def _read_snapshot(self, number: int, step: int | None, until: int | None) -> Snapshot | None:
        kept = self._snapshots.get(number, {}).values()
        fitting = [
            snapshot
            for snapshot in kept
            if (step is None or snapshot.step <= step) and (until is None or snapshot.seq <= until)
        ]
        return max(fitting, default=None)

    def _write_snapshot(self, number: int, snapshot: Snapshot) -> None:
        with self._lock:
            self._snapshots.setdefault(number, {}).setdefault(snapshot.step, snapshot)

    def _write_heartbeats(self, numbers: Sequence[int], time: int) -> None:
        self._heartbeats.update(dict.fromkeys(numbers, time))

    def _read_heartbeat(self, number: int) -> int | None:
        return self._heartbeats.get(number)

    def _list_runs(self) -> list[RunInfo]:
        return list(self._infos)

    def _find_runs(self, *, number: int | None = None, prefix: str | None = None, last: bool = False) -> list[RunInfo]:
        if last:
            return [info for info in self._infos if info.parent is None][-1:]
        return [
            info
            for info in reversed(self._infos)
            if info.number == number or (prefix is not None and info.uid.startswith(prefix))
        ][:6]
