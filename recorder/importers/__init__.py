"""Importers: read the recordings of other tools into runs of our own.

A file is read whole, its format is found from its content and name, and the importer of that format says what happened,
event by event (`builder`). When all of it was understood, encoded and redacted, the runs are added to the store in one
transaction: a file is imported entirely or not at all. What has no place in a run becomes a `report` event, so nothing
is lost silently, and the import ends with counts that say what became of each record.

A run's uid is made from the content of its file, so importing a file twice finds the first import and adds nothing.

To add a format, write a module with a class that has the members of `Importer`, and name it in `IMPORTERS`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID

from ..errors import AgentReplayError, RunNotFound, StoreError
from ..event_codec import StoredEvent, encode_event
from ..store import EventStore, RunInfo, Summary
from .builder import RunBuilder
from .cassette import Cassette
from .importing import Importing, ImportReport, Tally
from .inspect_ai import InspectAi
from .mini_swe_agent import MiniSweAgent
from .source import SourceFile, failure
from .strands_folder import read_session
from .strands_session import StrandsSession
from .swe_agent import SweAgent

__all__ = ["FORMATS", "IMPORTERS", "ImportReport", "Importer", "Progress", "detect", "import_file", "import_source"]

Progress: TypeAlias = Callable[[int, int], None]
"""Called as an import goes on, with the events that are ready and the events in all."""


class Importer(Protocol):
    """Reads one format.

    Attributes:
        name: of the format, as `--format` takes it.
        reads: what such a file looks like, to complete the sentence "expected …".
    """

    name: str
    reads: str

    def detects(self, source: SourceFile) -> float:
        """How surely the file is of this format: 0 for no, 1 for certain. Raises nothing."""
        ...

    def runs(self, work: Importing) -> Iterator[RunBuilder]:
        """Build the runs in the file, always in the same order; each is finished when it is yielded.

        Raises:
            ImportFailed: the file is not what it should be, beyond what can be kept and counted as damaged.
        """
        ...


IMPORTERS: Final[dict[str, Importer | Cassette]] = {
    importer.name: importer for importer in (Cassette(), MiniSweAgent(), SweAgent(), InspectAi(), StrandsSession())
}
"""Name of a format → its importer. Cassettes hold runs of our own, which are added as they are (`cassette`)."""

FORMATS: Final = tuple(IMPORTERS)
"""The names of the formats that can be imported."""


def detect(source: SourceFile) -> Importer | Cassette:
    """Find the importer for a file from its content and name.

    Raises:
        ImportFailed: no importer knows it; the message says what each one looks for.
    """
    sure: dict[str, float] = {}
    for name, importer in IMPORTERS.items():
        sure[name] = importer.detects(source)
        if sure[name] >= 1:  # the others need not parse a large file to find out that it is not theirs
            return importer
    surest = max(sure, key=lambda name: sure[name])
    if sure[surest] > 0:
        return IMPORTERS[surest]
    source.json()  # a file that is broken says so, rather than that it is of no known format
    looked_for = "; ".join(f"{importer.name}: {importer.reads}" for importer in IMPORTERS.values())
    raise failure(
        source.path,
        f"its format is not recognised (it holds {_described(source.json())})",
        f"one of these formats ({looked_for})",
        "If it is one of them, name it with --format.",
    )


def import_file(
    path: str | os.PathLike[str],
    store: EventStore,
    format: str | None = None,
    progress: Progress | None = None,
    *,
    salvage: bool = False,
) -> ImportReport:
    """Import a file of another tool, or a cassette: its runs, entirely or not at all.

    Args:
        path: the file; of Strands, the folder of a session.
        store: where the runs go.
        format: one of `FORMATS`; found from the file unless given.
        progress: called as it goes on, for a progress bar.
        salvage: of a damaged cassette or session of Strands, keep what is sound. Files of other tools are always read
            as far as they go.

    Raises:
        ImportFailed: the file cannot be imported; nothing of it was stored.
        StoreError: the store failed; nothing was stored.
    """
    source = read_session(path) if os.path.isdir(path) else SourceFile.read(path)
    return import_source(source, store, format, progress, salvage=salvage)


def import_source(
    source: SourceFile,
    store: EventStore,
    format: str | None = None,
    progress: Progress | None = None,
    *,
    salvage: bool = False,
) -> ImportReport:
    """Import a file that was read; see `import_file`."""
    if format is not None and format not in IMPORTERS:
        raise failure(
            source.path, f'there is no format "{format}"', f"one of {', '.join(FORMATS)}", "Leave it out to detect it."
        )
    importer = detect(source) if format is None else IMPORTERS[format]
    try:
        if isinstance(importer, Cassette):
            return importer.add(source, store, salvage=salvage, progress=progress)
        work = Importing(source, importer.name, store.redactor, salvage=salvage)
        built = list(importer.runs(work))
        uids = [run_uid(source.address, importer.name, index) for index in range(len(built))]
        known = [_known(store, uid) for uid in uids]
        new = [(uid, run) for uid, run, found in zip(uids, built, known, strict=True) if found is None]
        whole = _encoded(store, new, progress)
    except AgentReplayError:
        raise
    except RecursionError as error:
        raise failure(
            source.path, "it nests too deeply to be read", "a recording of reasonable depth", "Look at what wrote it."
        ) from error
    except Exception as error:
        raise failure(
            source.path,
            f"reading it as {importer.name} failed ({type(error).__name__}: {error})",
            importer.reads,
            "This is a fault of agentreplay; please report it with the file.",
        ) from error
    try:
        added = {info.uid: info for info in store.add_runs(whole)} if whole else {}
    except StoreError:
        # Another process may have imported the same file meanwhile; anything else is the store's failure.
        known = [_known(store, uid) for uid in uids]
        if None in known:
            raise
        added = {}
    return _report(work, uids, known, added)


def run_uid(address: str, format: str, index: int) -> str:
    """The uid of the run at a place in a file: a UUIDv8 (RFC 9562) from the file's content and the format."""
    digest = hashlib.sha256(f"import|{address}|{format}|{index}".encode()).digest()
    value = int.from_bytes(digest[:16], "big")
    value = value & ~(0xF << 76) | 0x8 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(UUID(int=value))


def _known(store: EventStore, uid: str) -> RunInfo | None:
    try:
        return store.run(uid)
    except RunNotFound:
        return None


def _encoded(
    store: EventStore, runs: Sequence[tuple[str, RunBuilder]], progress: Progress | None
) -> list[tuple[RunInfo, list[StoredEvent]]]:
    """Encode and redact every event, so that nothing is left to fail but the store."""
    total = sum(len(run.events) for _, run in runs)
    done = 0
    if progress is not None:
        progress(0, total)
    redactor = store.redactor
    contents: dict[str, bytes] = {}
    whole = []
    for uid, run in runs:
        rows = []
        for event in run.events:
            row = encode_event(event, redactor)
            # Each request repeats the conversation; its bytes are held in memory once.
            row.messages = {address: contents.setdefault(address, data) for address, data in row.messages.items()}
            rows.append(row)
            done += 1
            if progress is not None:
                progress(done, total)
        summary = Summary.of(run.events).fields
        if not run.timed:
            summary["finished"] = None  # its times only show the order, so it has no duration
        info = RunInfo(number=0, uid=uid, **{"agent": run.agent, **summary})
        whole.append((info, rows))
    return whole


def _report(
    work: Importing, uids: Sequence[str], known: Sequence[RunInfo | None], added: dict[str, RunInfo]
) -> ImportReport:
    tally: Tally = work.tally
    notes = list(dict.fromkeys(tally.notes))
    if tally.kept:
        notes.append("kept as reports, having no place in a run: " + ", ".join(tally.kept))
    before = [info.id for info in known if info is not None]
    if before:
        notes.insert(0, f"imported before: {', '.join(before)} holds this file; nothing was added for it")
    runs = [info or added[uid] for uid, info in zip(uids, known, strict=True)]
    return ImportReport(
        runs=[info.id for info in runs],
        format=work.format,
        read=tally.read,
        imported=tally.imported if added or not before else 0,
        unknown=tally.unknown,
        damaged=tally.damaged,
        notes=notes,
    )


def _described(document: Any) -> str:
    """A JSON document in a few words."""
    if type(document) is dict:
        keys = ", ".join(f"`{key}`" for key in list(document)[:6])
        return f"an object with {keys or 'no keys'}"
    if type(document) is list:
        return f"a list of {len(document)}" if document else "an empty list"
    return f"a {type(document).__name__}"
