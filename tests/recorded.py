"""What the tests of recording share: stores that watch or fail, and short ways to say what a log holds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentreplay.recorder.errors import StoreError
from agentreplay.recorder.event_codec import StoredEvent
from agentreplay.recorder.events import Event
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.scope import entered
from agentreplay.recorder.store import EventStore, Head, RunInfo, RunRef, Summary
from agentreplay.recorder.turns import Turns


def log_of(store: EventStore, run: RunRef = "@last") -> list[Event]:
    """The events of a run, after a look at whether the log verifies."""
    assert store.verify(run) == []
    return list(store.events(run))


def kinds(store: EventStore, run: RunRef = "@last") -> list[str]:
    """The kinds of a run's events, in order."""
    return [event.kind for event in log_of(store, run)]


def outline(store: EventStore, run: RunRef = "@last") -> list[str]:
    """A run's events between its first and last as texts: kind, then what tells it from others of the kind."""
    return [" ".join(filter(None, (event.kind, _told(event)))) for event in log_of(store, run)[1:-1]]


def _told(event: Event) -> str:
    data = event.data
    if event.kind.endswith(".called"):
        return f"{data.call} {data.name}"
    if hasattr(data, "call"):
        return str(data.call)
    return str(getattr(data, "outcome", "") or getattr(data, "message", "") or "")


def one(store: EventStore, kind: str, run: RunRef = "@last") -> Event:
    """The only event of a kind in a run."""
    found = [event for event in log_of(store, run) if event.kind == kind]
    assert len(found) == 1, [event.kind for event in log_of(store, run)]
    return found[0]


def turns_here() -> Turns:
    """The turns of the running loop."""
    turns = Turns.of(asyncio.get_running_loop())
    assert turns is not None
    return turns


async def until(condition: Callable[[], object]) -> None:
    """Wait by the clock, outside of any run, so that no timer of it is recorded."""
    with entered(None):
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.001)


class SpyStore(MemoryStore):
    """A store in memory that notes which thread wrote what, and fails when it is told to.

    Attributes:
        written: kind of event → the threads that wrote one.
        fails: says of a kind of event whether storing it fails.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[str, set[str]] = {}
        self.fails: Callable[[str], bool] = lambda kind: False
        self.failed = 0

    def append_rows(self, info: RunInfo, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> Head:
        for row in rows:
            self.written.setdefault(row.kind, set()).add(threading.current_thread().name)
            if self.fails(row.kind):
                self.failed += 1
                raise StoreError("the disk is full")
        return super().append_rows(info, expected_seq, rows, summary)

    def _insert_run(self, run: RunInfo, note: Mapping[str, Any] | None = None) -> int:
        self.written.setdefault("create_run", set()).add(threading.current_thread().name)
        return super()._insert_run(run, note)


class Hostile:
    """An object that raises whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"nobody may ask for {name}")

    def __repr__(self) -> str:
        raise RuntimeError("nobody may look")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("nobody may compare")

    def __hash__(self) -> int:
        raise RuntimeError("nobody may hash")

    def __bool__(self) -> bool:
        raise RuntimeError("nobody may ask whether it is true")

    def __deepcopy__(self, memo: object) -> Any:
        raise RuntimeError("nobody may copy")
