"""G11: what a conversation takes on disk that is sent whole with every model call."""

from __future__ import annotations

import random
import sqlite3
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import agentreplay as ar

from .measuring import Row

ROUNDS = 500
LENGTH = 200
RECORD = "import sys; from bench.storage import record; record(sys.argv[1])"


def history() -> list[dict[str, Any]]:
    """Random messages, the same in every process."""
    source = random.Random(11)
    letters = string.ascii_letters + string.digits
    return [{"role": "user", "content": "".join(source.choices(letters, k=LENGTH))} for _ in range(ROUNDS)]


def record(path: str) -> None:
    """Record the rounds, each sending all messages so far."""
    messages = history()
    with ar.record("storage", payload={}, store=path) as run:
        for number in range(ROUNDS):
            with run.round() as r:
                r.model("m", {"messages": messages[: number + 1]}, lambda messages: {"role": "assistant"})


def rows() -> Iterator[Row]:
    """Measure after the recording process has ended, and read every request back."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        subprocess.run([sys.executable, "-c", RECORD, str(path)], check=True)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        store = ar.open_store(path)
        expected = history()
        requests = [event.data.request["messages"] for event in store.events("run1") if event.kind == "model.called"]
        if requests != [expected[: number + 1] for number in range(ROUNDS)]:
            raise AssertionError("the requests were not read back exactly")
        store.close()
    yield Row("G11", f"{ROUNDS} rounds, whole history resent", f"{size / 1e6:.3f} MB", size / 500_000, 1.0)
