"""`export`: a run to a file, or to stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ..exporting import FORMATS
from ..recorder.errors import UsageError
from ..recorder.exporting import Progress, write_cassette
from ..recorder.replacing import replacing
from ..recorder.store import EventStore, RunInfo
from ..replay.readable import count, size_of, visible
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
        kind = "cassette" if format == "cassette" else "page"
        raise UsageError(f"name a FILE, or send the {kind} on: `agentreplay export {run} | less`")
    store = open_for_reading(url)
    info = store.run(run)
    if file is None:
        with progress(f"exporting {info.id}") as advance:
            _write(store, info, format, sys.stdout.buffer.write, advance)
        return
    with progress(f"exporting {info.id}") as advance, replacing(file) as target:
        held = _write(store, info, format, target.write, advance)
    write(console(), (info.id, "bold"), " → ", (visible(file), "bold"), f"  {held}")


def _write(store: EventStore, info: RunInfo, format: str, target: Callable[[bytes], object], advance: Progress) -> str:
    """Write a run, and say what was written."""
    if format == "html":
        from ..webui.export_html import write_html

        return f"{size_of(write_html(store, info, target, advance))}, opens in any browser"
    runs, events = write_cassette(store, info, target, advance)
    return f"{count(events, 'event')} in {count(runs, 'run')}"
