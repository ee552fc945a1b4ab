"""Exporting a run from Python: as a cassette, or as a page that any browser opens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from .recorder.errors import UsageError
from .recorder.exporting import FORMATS as OF_LOGS
from .recorder.exporting import Progress
from .recorder.exporting import export_run as export_log
from .recorder.locate import open_store
from .recorder.replacing import replacing
from .recorder.store import EventStore, RunRef

FORMATS: Final = (*OF_LOGS, "html")
"""The formats that a run can be exported to."""


def export_run(
    run: RunRef,
    path: str | os.PathLike[str],
    format: str = "cassette",
    *,
    store: EventStore | str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write a run to a file, which is replaced as a whole or not at all.

    Args:
        run: the run; one that is still running is written as far as it is now.
        path: the file.
        format: "cassette": all of the run, with its child runs, and of a fork the events that it shares. "html": its
            steps, payloads, changes and calls as one page, without what is large; it cannot be imported.
        store: a store, or the URL of one; by default the one that is found from here.
        progress: called as it goes on, with how far it is and how far it is to go: in events, or of a page in steps.

    Returns:
        The file.

    Raises:
        RunNotFound: there is no such run.
        CorruptLog: the log is damaged; nothing was written.
        ExportFailed: the file cannot be written; nothing was changed.
        UsageError: there is no such format.
    """
    if format not in FORMATS:
        raise UsageError(f'there is no format "{format}" to export to; expected {", ".join(FORMATS)}')
    if format != "html":
        return export_log(run, path, format, store=store, progress=progress)
    from .webui.export_html import write_html

    if not isinstance(store, EventStore):
        store = open_store(store, create=False)
    with replacing(path) as file:
        write_html(store, run, file.write, progress)
    return Path(path)
