"""What a list of runs says of each: names, how it stands, when it was and how long it took, in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from ..recorder.errors import RunNotFound
from ..recorder.events import ErrorInfo
from ..recorder.store import EventStore, RunInfo
from .readable import visible


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


def standing(info: RunInfo) -> str:
    """How a run stands, in one word: its status, or "silent" or "partial".

    Silent: nothing proves that the run goes on or does not. Partial: it came from a file that ends before the run does,
    so nobody records it.
    """
    if info.silent_since is not None:
        return "silent"
    return "partial" if info.is_partial else visible(info.status)


def row_of(info: RunInfo, names: Names, tags: Sequence[str]) -> dict[str, Any]:
    """What `ls --json` says of a run.

    `{run, uid, agent, status, steps, started, duration, origin, parent, silent_since, partial, tags}`.
    """
    return {
        "run": info.id,
        "uid": info.uid,
        "agent": info.agent,
        "status": info.status,
        "steps": info.steps,
        "started": moment(info.started).isoformat() if info.started else None,
        "duration": info.duration,
        "origin": info.origin,
        "parent": names.of(info.parent or info.fork_of),
        "silent_since": None if info.silent_since is None else moment(info.silent_since).isoformat(),
        "partial": info.is_partial,
        "tags": list(tags),
    }


def relation(info: RunInfo, names: Names) -> str:
    """Whose child or fork a run is: "child of run3"; empty for a run of its own."""
    if info.parent:
        return f"child of {names.of(info.parent)}"
    return f"fork of {names.of(info.fork_of)}" if info.fork_of else ""


def error_text(error: ErrorInfo) -> str:
    """An exception as a traceback's last line has it, without its module."""
    name = error.type.rpartition(".")[2]
    return f"{name}: {error.message}" if error.message else name


def when(microseconds: int) -> str:
    """A time for people: in their zone, to the second."""
    return f"{moment(microseconds).astimezone():%Y-%m-%d %H:%M:%S}" if microseconds else ""


def moment(microseconds: int) -> datetime:
    """A time in UTC, of microseconds since 1970."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)


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
