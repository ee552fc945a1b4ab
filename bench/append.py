"""G1: what appending an event costs, against raw sqlite3 and orjson."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from agentreplay.recorder.event_codec import StoredEvent
from agentreplay.recorder.events import ToolReturned, ToolReturnedData
from agentreplay.recorder.redaction import RedactionRules
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import Head, RunInfo, Summary

from .measuring import Row, duration, medians

NO_HASH = "sha256:" + "00" * 32


def result_of(size: int) -> dict[str, Any]:
    """A tool's result of about `size` bytes of JSON: a record of some twenty values, and texts that were found."""
    record = {
        "id": "A-17",
        "customer": {"id": "C-104", "name": "Acme GmbH", "tier": "gold"},
        "items": [{"sku": "LAMP-2", "price": 95.5, "quantity": 1}, {"sku": "BULB-9", "price": 17.0, "quantity": 2}],
        "usage": {"input_tokens": 812, "output_tokens": 64},
        "shipped": True,
        "refunded": None,
    }
    missing = size - len(orjson.dumps(record))
    sentence = "The parcel was left with a neighbour, who signed for it in the afternoon. "
    text = (sentence * (missing // len(sentence) + 1))[: max(0, missing - 40)]
    passages = [text[start : start + 2_000] for start in range(0, len(text), 2_000)]
    return {**record, "found": [{"rank": rank, "text": passage} for rank, passage in enumerate(passages)]}


class _Raw:
    """The floor: one INSERT of the same columns, the data as JSON, committed."""

    def __init__(self, folder: Path, body: dict[str, Any]) -> None:
        self.path = folder / "raw.db"
        self.connection = sqlite3.connect(self.path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=NORMAL")
        self.connection.execute(
            "CREATE TABLE event (key INTEGER PRIMARY KEY, round INTEGER, kind TEXT, version INTEGER, time TEXT, "
            "within TEXT, task TEXT, body BLOB)"
        )
        self.body = body
        self.key = 0

    def __call__(self) -> None:
        self.key += 1
        body = orjson.dumps({"call": "1.1", "result": self.body, "duration": 0.25})
        row = (self.key, 1, "tool.returned", 1, datetime.now(UTC).isoformat(), None, "0", body)
        self.connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def visible(self) -> bool:
        """Whether another connection sees every row."""
        with sqlite3.connect(self.path) as other:
            return bool(other.execute("SELECT count(*) FROM event").fetchone()[0] == self.key)


class _Unchained(SqlStore):
    """A store that links no event to the one before it, to see what the chain costs."""

    def append_rows(self, info: RunInfo, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> Head:
        for row in rows:
            row.hash = NO_HASH
        self._write(info.number, expected_seq, rows, summary)
        return Head(rows[-1].seq, NO_HASH)


class _Ours:
    """An event built, validated, checked, redacted, chained, appended and committed."""

    def __init__(self, folder: Path, body: dict[str, Any], *, bare: bool = False) -> None:
        self.path = folder / f"{'bare' if bare else 'ours'}.db"
        url = f"sqlite:///{self.path}"
        self.store = _Unchained(url, RedactionRules.off()) if bare else SqlStore(url)
        self.run = self.store.create_run("bench")
        self.body = body
        self.seq = -1

    def __call__(self) -> None:
        self.seq += 1
        data = ToolReturnedData(call="1.1", result=self.body, duration=0.25)
        event = ToolReturned(seq=self.seq, round=1, time=datetime.now(UTC), data=data)
        self.store.append(self.run, self.seq - 1, [event])

    def visible(self) -> bool:
        """Whether another connection sees every row."""
        with sqlite3.connect(self.path) as other:
            return bool(other.execute("SELECT count(*) FROM event WHERE kind != ''").fetchone()[0] == self.seq + 1)


def rows() -> Iterator[Row]:
    """Measure at 1 KB and 20 KB."""
    for size, name in ((1_000, "1 KB"), (20_000, "20 KB")):
        body = result_of(size)
        with tempfile.TemporaryDirectory() as folder:
            raw, ours, bare = _Raw(Path(folder), body), _Ours(Path(folder), body), _Ours(Path(folder), body, bare=True)
            arms: dict[str, Callable[[], object]] = {"raw": raw, "ours": ours, "bare": bare}
            visible = [arm.visible() for arm in (raw, ours, bare)]
            times = medians(arms)
            if not all([*visible, raw.visible(), ours.visible(), bare.visible()]):
                raise AssertionError("appended rows are not visible to another connection")
            ours.store.close()
            bare.store.close()
        yield Row("G1", f"append, all on, {name}", duration(times["ours"]), times["ours"] / times["raw"], 2.0)
        if size == 1_000:
            yield Row("G1", f"append, bare, {name}", duration(times["bare"]), times["bare"] / times["raw"], 1.5)
