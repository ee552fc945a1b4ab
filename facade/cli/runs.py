"""Which run and which step are meant, and how runs are called."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from ..recorder.errors import RunNotFound
from ..recorder.locate import open_store
from ..recorder.store import EventStore, RunInfo
from ..replay.readable import visible

STATUS_STYLES: Final = {
    "running": "cyan",
    "completed": "green",
    "failed": "bold red",
    "crashed": "bold red",
    "cancelled": "yellow",
    "interrupted": "magenta",
    "silent": "yellow",
    "partial": "dim",
}


def open_for_reading(url: str | None) -> EventStore:
    """The store that is meant, which must be there.

    Raises:
        StoreError: it is not there, or cannot be read.
    """
    return open_store(url, create=False)


def step_to_look_at(store: EventStore, info: RunInfo) -> int:
    """The first step that changed the payload; 0 if none did."""
    return next((row.round for row in store.rows(info) if row.kind == "payload.changed" and row.round > 0), 0)


class Names:
    """What the runs of a store are called: by uid, their number.

    Args:
        store: looked in when a name is asked for.
        infos: runs that are known already.
    """

    def __init__(self, store: EventStore, infos: Iterable[RunInfo] = ()) -> None:
        self._store = store
        self._ids = {info.uid: info.id for info in infos}

    def of(self, uid: str | None) -> str | None:
        """The id of a run, such as "run3"; its uid where it is not in this store."""
        if uid is None:
            return None
        if uid not in self._ids:
            try:
                self._ids[uid] = self._store.run(uid).id
            except RunNotFound:
                self._ids[uid] = uid
        return self._ids[uid]


def status_of(info: RunInfo, *, short: bool = False) -> tuple[str, str]:
    """The status of a run for people, and its style.

    "silent since" a time: nothing proves that the run goes on or does not. "partial": it came from a file that ends
    before the run does, so nobody records it.
    """
    if info.silent_since is not None:
        since = when(info.silent_since)
        return f"silent since {since[5:16] if short else since}", STATUS_STYLES["silent"]
    status = "partial" if info.is_partial else visible(info.status)
    return status, STATUS_STYLES.get(status, "")


def row_of(info: RunInfo, names: Names) -> dict[str, Any]:
    """What `ls --json` says of a run.

    `{run, uid, agent, status, steps, started, duration, origin, parent, silent_since, partial}`.
    """
    return {
        "run": info.id,
        "uid": info.uid,
        "agent": info.agent,
        "status": info.status,
        "steps": info.steps,
        "started": _moment(info.started).isoformat() if info.started else None,
        "duration": info.duration,
        "origin": info.origin,
        "parent": names.of(info.parent or info.fork_of),
        "silent_since": None if info.silent_since is None else _moment(info.silent_since).isoformat(),
        "partial": info.is_partial,
    }


def when(microseconds: int) -> str:
    """A time for people: in their zone, to the second."""
    return f"{_moment(microseconds).astimezone():%Y-%m-%d %H:%M:%S}" if microseconds else ""


def how_long(seconds: float | None) -> str:
    """A duration for people: `95 µs`, `8.1 ms`, `12.3 s`, `4 min 10 s`, `3 h 05 min`."""
    if seconds is None:
        return ""
    if seconds < 0.000_999_5:
        return f"{seconds * 1_000_000:.0f} µs"
    if seconds < 0.9995:
        return f"{seconds * 1000:.{1 if seconds < 0.1 else 0}f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def _moment(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)
