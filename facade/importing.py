"""Importing a file from Python: into the store that is meant, giving the names of the runs."""

from __future__ import annotations

import os

from .recorder import importers
from .recorder.locate import resolve_store
from .recorder.store import EventStore


def import_file(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    store: EventStore | str | None = None,
    salvage: bool = False,
) -> list[str]:
    """Import a cassette, or recorded runs of another tool: the whole file or nothing, and once.

    Args:
        path: the file; of Strands, the folder of a session.
        format: "cassette", "swe-agent", "mini-swe-agent", "inspect" or "strands"; found from the file unless given.
        store: a store, or the URL of one; by default the one that is found from here.
        salvage: of a damaged cassette or session of Strands, keep what is sound.

    Returns:
        The names of its runs in the store, such as ["run7"]; of those that were there already, too.

    Raises:
        ImportFailed: the file cannot be imported; nothing of it was stored.
        StoreError: the store failed; nothing was stored.
    """
    report = importers.import_file(path, resolve_store(store), format, salvage=salvage)
    return list(report.runs)
