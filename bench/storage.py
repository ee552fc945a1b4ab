"""G11: what a conversation takes on disk that is sent whole with every model call."""

from __future__ import annotations

import random
import sqlite3
import string
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
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


def settled_size(path: Path) -> int:
    """Bytes of all files of the folder in which a store is, once what a log holds is moved into its database."""
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(path)) as connection:  # not all stores are databases
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(file.stat().st_size for file in path.parent.rglob("*") if file.is_file())


def measured() -> int:
    """Bytes that our store takes; measured after the recording process has ended, before anything reads it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        subprocess.run([sys.executable, "-c", RECORD, str(path)], check=True)
        size = settled_size(path)
        with closing(ar.open_store(path)) as store:
            expected = history()
            called = [event for event in store.events("run1") if event.kind == "model.called"]
            if [event.data.request for event in called] != [{"messages": expected[: n + 1]} for n in range(ROUNDS)]:
                raise AssertionError("the requests were not read back exactly")
    return size


def row(size: int) -> Row:
    """The line that says so."""
    return Row.of_size("G11", f"{ROUNDS} rounds, whole history resent", size, 500_000)


def rows() -> Iterator[Row]:
    """Measure, and read every request back."""
    yield row(measured())
