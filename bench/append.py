"""G1: what appending an event costs, against raw sqlite3 and orjson."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson
from agentreplay.recorder.event_codec import StoredEvent
from agentreplay.recorder.events import ToolReturned, ToolReturnedData
from agentreplay.recorder.redaction import RedactionRules
from agentreplay.recorder.sql_store import SqlStore

from .measuring import Row, duration, medians


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


class _Ours:
    """An event built, validated, checked, redacted, chained, appended and committed."""

    def __init__(self, folder: Path, name: str, body: dict[str, Any], rules: RedactionRules | None = None) -> None:
        self.path = folder / f"{name}.db"
        self.store = SqlStore(f"sqlite:///{self.path}", rules)
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
            raw, ours = _Raw(Path(folder), body), _Ours(Path(folder), "ours", body)
            bare = _Ours(Path(folder), "bare", body, RedactionRules.off())
            plain = patch.object(StoredEvent, "chained", lambda self, previous, uid: "sha256:" + "00" * 32)

            def bare_append(bare: _Ours = bare, plain: Any = plain) -> None:
                with plain:
                    bare()

            def patched_raw(raw: _Raw = raw, plain: Any = plain) -> None:
                with plain:
                    raw()

            arms: dict[str, Callable[[], object]] = {"raw": raw, "ours": ours}
            if size == 1_000:
                # The patch costs something of its own, so the floor of this arm pays it too.
                arms |= {"bare": bare_append, "patched raw": patched_raw}
            visible = [arm.visible() for arm in (raw, ours, bare)]
            times = medians(arms)
            if not all([*visible, raw.visible(), ours.visible(), bare.visible()]):
                raise AssertionError("appended rows are not visible to another connection")
            ours.store.close()
            bare.store.close()
        yield Row("G1", f"append, all on, {name}", duration(times["ours"]), times["ours"] / times["raw"], 2.0)
        if "bare" in times:
            ratio = (times["bare"] - times["patched raw"] + times["raw"]) / times["raw"]
            yield Row("G1", f"append, bare, {name}", duration(times["bare"]), ratio, 1.5)
