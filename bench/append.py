"""G1: what appending an event costs, against raw sqlite3 and orjson."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
from agentreplay.recorder.event_codec import StoredEvent, encode_data
from agentreplay.recorder.events import ModelReturnedData
from agentreplay.recorder.redaction import RedactionRules
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import Head, RunInfo, Summary

from .measuring import Row, duration, medians

NOTHING = Summary()
SOME_HASH = bytes(32)
NO_HASH = "sha256:" + "00" * 32
INSERT = (
    "INSERT INTO event (key, round, kind, version, time, within, task, body, hash, conversations) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def answer_of(size: int) -> dict[str, Any]:
    """A model's answer of about `size` bytes of JSON: texts, a tool call, and the usage."""
    answer: dict[str, Any] = {
        "role": "assistant",
        "content": [],
        "tool_calls": [{"id": "call_1", "name": "lookup_order", "arguments": {"order_id": "A-17", "limit": 20}}],
        "usage": {"input_tokens": 812, "output_tokens": 64},
        "stop_reason": "tool_use",
    }
    missing = size - len(orjson.dumps(answer)) - 60
    sentence = "The parcel was left with a neighbour, who signed for it in the afternoon. "
    text = (sentence * (missing // len(sentence) + 1))[:missing]
    texts = [text[start : start + 4_000] for start in range(0, len(text), 4_000)]
    return {**answer, "content": [{"type": "text", "text": part} for part in texts]}


class _Raw:
    """The floor: one INSERT of the same columns, the data as JSON, committed."""

    def __init__(self, folder: Path, body: dict[str, Any]) -> None:
        self.path = folder / "raw.db"
        self.connection = sqlite3.connect(self.path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=NORMAL")
        self.connection.execute(
            "CREATE TABLE event (key INTEGER PRIMARY KEY, round INTEGER, kind TEXT, version INTEGER, time INTEGER, "
            "within TEXT, task TEXT, body BLOB, body_hash BLOB, hash BLOB, conversations TEXT)"
        )
        self.body = body
        self.key = 0

    def __call__(self) -> None:
        self.key += 1
        body = orjson.dumps({"call": "1.1", "response": self.body, "duration": 0.25})
        row = (self.key, 1, "model.returned", 1, time.time_ns() // 1000, None, "0", body, None, SOME_HASH, None)
        self.connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def visible(self) -> bool:
        """Whether another connection sees every row."""
        with sqlite3.connect(self.path) as other:
            return bool(other.execute("SELECT count(*) FROM event").fetchone()[0] == self.key)


class _Unchained(SqlStore):
    """A store without a chain, and so without the end mark that holds its head: it inserts the row, and that is all."""

    def append_rows(self, info: RunInfo, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> Head:
        for row in rows:
            row.hash = NO_HASH
            values = self._append_values(info.number + 1, row, None)[:10]
            with self._lock:
                self._cursor.execute(INSERT, values)
        return Head(rows[-1].seq, NO_HASH)


class _Ours:
    """An event built, validated, checked, redacted, chained, appended and committed."""

    def __init__(self, folder: Path, body: dict[str, Any], *, bare: bool = False) -> None:
        self.path = folder / f"{'bare' if bare else 'ours'}.db"
        url = f"sqlite:///{self.path}"
        self.store = _Unchained(url, RedactionRules.off()) if bare else SqlStore(url)
        self.redactor = self.store.redactor
        self.run = self.store.create_run("bench")
        self.body = body
        self.seq = -1

    def __call__(self) -> None:
        self.seq += 1
        data = ModelReturnedData(call="1.1", response=self.body, duration=0.25)
        row = encode_data(
            data,
            self.redactor,
            seq=self.seq,
            round=1,
            kind="model.returned",
            version=1,
            time=time.time_ns() // 1000,
        )
        self.store.append_rows(self.run, self.seq - 1, [row], NOTHING)

    def visible(self) -> bool:
        """Whether another connection sees every row."""
        with sqlite3.connect(self.path) as other:
            return bool(other.execute("SELECT count(*) FROM event WHERE kind != ''").fetchone()[0] == self.seq + 1)


def rows() -> Iterator[Row]:
    """Measure at 1 KB and 20 KB."""
    for size, name in ((1_000, "1 KB"), (20_000, "20 KB")):
        body = answer_of(size)
        with tempfile.TemporaryDirectory() as folder:
            raw, ours, bare = _Raw(Path(folder), body), _Ours(Path(folder), body), _Ours(Path(folder), body, bare=True)
            arms: dict[str, Callable[[], object]] = {"raw": raw, "ours": ours, "bare": bare}
            visible = [arm.visible() for arm in (raw, ours, bare)]
            times = medians(arms, repeat=1_000)
            if not all([*visible, raw.visible(), ours.visible(), bare.visible()]):
                raise AssertionError("appended rows are not visible to another connection")
            ours.store.close()
            bare.store.close()
        yield Row("G1", f"append, all on, {name}", duration(times["ours"]), times["ours"] / times["raw"], 2.0)
        if size == 1_000:
            yield Row("G1", f"append, bare, {name}", duration(times["bare"]), times["bare"] / times["raw"], 1.5)
