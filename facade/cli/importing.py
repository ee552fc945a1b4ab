"""`import`: files one after the other, each with what became of it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from ..recorder.errors import AgentReplayError, UsageError
from ..recorder.importers import FORMATS, ImportReport, import_file
from ..recorder.locate import open_store
from ..replay.readable import count, visible
from .group import DATA
from .output import console, print_json, write
from .progress import progress
from .render_runs import render_next
from .streams import complain


def import_files(
    files: Sequence[str], url: str | None, wanted: str | None, *, salvage: bool = False, as_json: bool = False
) -> int:
    """Import files and write what became of them; a file that cannot be imported does not stop the others.

    Returns:
        The exit code.

    Raises:
        UsageError: there is no such format.
        StoreError: the store cannot be opened.
    """
    if wanted is not None and wanted not in FORMATS:
        raise UsageError(f"there is no format {wanted!r}; choose from {', '.join(FORMATS)}, or leave it to be detected")
    store = open_store(url)
    reports: list[ImportReport] = []
    failed = 0
    for file in files:
        try:
            with progress(f"importing {file}") as advance:
                report = import_file(file, store, wanted, advance, salvage=salvage)
        except AgentReplayError as error:
            complain(str(error))
            failed += 1
            continue
        reports.append(report)
        if not as_json:
            _write_report(console(), file, report)
    if as_json:
        print_json(_together(reports))
    elif runs := [report.runs[0] for report in reports if report.runs]:
        render_next(console(), store, store.run(runs[-1]))
    return DATA if failed else 0


def _together(reports: Sequence[ImportReport]) -> dict[str, object]:
    return {
        "runs": [run for report in reports for run in report.runs],
        "read": sum(report.read for report in reports),
        "imported": sum(report.imported for report in reports),
        "unknown": sum(report.unknown for report in reports),
        "damaged": sum(report.damaged for report in reports),
        "notes": [note for report in reports for note in report.notes],
    }


def _write_report(page: Console, file: str, report: ImportReport) -> None:
    runs = ", ".join(report.runs)
    write(page, (visible(file), "bold"), f"  {report.format} → ", (runs or "no runs", "bold"))
    write(page, f"  {count(report.read, 'record')} read: ", *_counts(report))
    for note in report.notes:
        write(page, ("  · " + visible(note), "yellow"))


def _counts(report: ImportReport) -> list[str | tuple[str, str]]:
    return [
        (f"{report.imported:,} imported", "green" if report.imported else "dim"),
        ", ",
        (f"{report.unknown:,} unknown", "yellow" if report.unknown else "dim"),
        ", ",
        (f"{report.damaged:,} damaged", "bold red" if report.damaged else "dim"),
    ]
