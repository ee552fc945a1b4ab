"""`export`: a run to a file, or to stdout."""

from __future__ import annotations

import sys

from ..recorder.errors import UsageError
from ..recorder.exporting import FORMATS, write_cassette
from ..recorder.replacing import replacing
from ..replay.readable import count, visible
from .output import console, write
from .progress import progress
from .runs import open_for_reading


def export(run: str, file: str | None, url: str | None, format: str) -> None:
    """Write a run to a file and say what it holds; or to stdout, and say nothing.

    Recorded text may hold what acts on a terminal, so stdout must not be one.

    Raises:
        UsageError: there is no such format, or stdout is a terminal.
        ExportFailed: the file cannot be written.
        StoreError: the run is not there, or is damaged.
    """
    if format not in FORMATS:
        raise UsageError(f"there is no format {format!r} to export to; choose from {', '.join(FORMATS)}")
    if file is None and sys.stdout.isatty():
        raise UsageError(f"name a FILE, or send the cassette on: `agentreplay export {run} | less`")
    store = open_for_reading(url)
    info = store.run(run)
    if file is None:
        with progress(f"exporting {info.id}") as advance:
            write_cassette(store, info, sys.stdout.buffer.write, advance)
        return
    with progress(f"exporting {info.id}") as advance, replacing(file) as target:
        runs, events = write_cassette(store, info, target.write, advance)
    held = f"{count(events, 'event')} in {count(runs, 'run')}"
    write(console(), (info.id, "bold"), " → ", (visible(file), "bold"), f"  {held}")
