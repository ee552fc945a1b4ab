"""Which run and which step are meant, and how runs are called."""

from __future__ import annotations

from typing import Final

from ..recorder.locate import open_store
from ..recorder.store import EventStore, RunInfo
from ..replay.listing import Names, how_long, row_of, standing, when
from ..replay.tags import Tags

__all__ = [
    "STATUS_STYLES",
    "Names",
    "Tags",
    "how_long",
    "open_for_reading",
    "row_of",
    "status_of",
    "step_to_look_at",
    "when",
]

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


def status_of(info: RunInfo, *, short: bool = False) -> tuple[str, str]:
    """The status of a run for people, "silent since" a time included, and its style; see `standing`."""
    status = standing(info)
    if info.silent_since is not None:
        since = when(info.silent_since)
        return f"silent since {since[5:16] if short else since}", STATUS_STYLES["silent"]
    return status, STATUS_STYLES.get(status, "")
