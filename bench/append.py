"""G1: what appending an event costs, against raw sqlite3 and orjson.

A write-ahead log is a file that grows until its first checkpoint and is written over from then on, which is a third
cheaper; and each checkpoint costs. So arms are compared in the same phase: all of them past their first checkpoint
("steady"), in rounds so long that each pays for its checkpoints; and all of them in new files ("fresh"), where a short
run spends its life. Checkpoints come as SQLite has them, every thousand pages, for all arms.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
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
PAGE = 4_096
ROUND_PAGES = 4_000
"""Pages that a round of appends writes at the least: about four checkpoints."""

FRESH = 500
"""Events of a fresh store, fewer than fill its write-ahead log for the first time."""


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
    """A store without a chain; the end mark, by which another writer would be noticed, is kept."""

    def append_rows(self, info: RunInfo, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> Head:
        for row in rows:
            row.hash = NO_HASH
        self._write(info.number, expected_seq, rows, summary)
        return Head(rows[-1].seq, NO_HASH)


class Ours:
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
        """Append one."""
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


class _Arms:
    """The arms, each with a store of its own in a new folder, and the proof that what they append is there."""

    def __init__(self, size: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder, body = Path(self._folder.name), answer_of(size)
        self.raw, self.ours, self.bare = _Raw(folder, body), Ours(folder, body), Ours(folder, body, bare=True)

    def __enter__(self) -> Mapping[str, _Raw | Ours]:
        return {"raw": self.raw, "ours": self.ours, "bare": self.bare}

    def __exit__(self, *_: object) -> None:
        try:
            self.check()
        finally:
            self.raw.connection.close()
            self.ours.store.close()
            self.bare.store.close()
            self._folder.cleanup()

    def check(self) -> None:
        """Fail unless another connection sees every row of every arm."""
        for name, arm in (("raw", self.raw), ("ours", self.ours), ("bare", self.bare)):
            if not arm.visible():
                raise AssertionError(f"rows that the arm {name} appended are not visible to another connection")


def _steady(size: int) -> Mapping[str, float]:
    """Seconds per append, checkpoints included, all arms past the first."""
    cycle = ROUND_PAGES // -(-size // PAGE)
    with _Arms(size) as arms:
        for arm in arms.values():
            for _ in range(cycle):
                arm()
        return medians(arms, repeat=cycle)


def _fresh(size: int) -> Mapping[str, float]:
    """Seconds per append, in new files."""
    times: dict[str, list[float]] = {}
    for _ in range(11):
        with _Arms(size) as arms:
            for name, seconds in medians(arms, rounds=5, repeat=FRESH // 5).items():
                times.setdefault(name, []).append(seconds)
    return {name: statistics.median(series) for name, series in times.items()}


def _compared(name: str, times: Mapping[str, float], arms: Mapping[str, float]) -> Iterator[Row]:
    for arm, goal in arms.items():
        what = f"append, {'all on' if arm == 'ours' else arm}, {name}"
        yield Row("G1", what, duration(times[arm]), times[arm] / times["raw"], goal)


def rows() -> Iterator[Row]:
    """Measure at 1 KB and 20 KB."""
    yield from _compared("1 KB", _steady(1_000), {"ours": 2.0, "bare": 1.5})
    yield from _compared("1 KB, fresh", _fresh(1_000), {"ours": 2.0, "bare": 1.5})
    yield from _compared("20 KB", _steady(20_000), {"ours": 2.0})
