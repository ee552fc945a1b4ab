"""A run in a file, opened to be read or replayed: in memory, beside every store, and without a trace on disk.

A test runs where nobody has a store, and nobody wants one afterwards. So the runs of a cassette are read into a store
in memory, verified as an import does it, and are gone with it. The store has a redaction key of its own, so tokens that
stand in the file are compared by kind, as in any run that was recorded elsewhere.
"""

from __future__ import annotations

import io
import os
from typing import Final, NamedTuple

from ..recorder.errors import ImportFailed, UsageError
from ..recorder.events import Event
from ..recorder.importers import import_source
from ..recorder.importers.cassette import Cassette
from ..recorder.importers.cassette_lines import parse_header
from ..recorder.importers.source import SourceFile
from ..recorder.memory_store import MemoryStore
from ..recorder.redaction_rules import RedactionRules
from ..recorder.store import EventStore, RunInfo

_BOM: Final = b"\xef\xbb\xbf"


class OpenedCassette(NamedTuple):
    """A cassette that was read.

    Attributes:
        path: the file, as it was named.
        store: holds its runs, and nothing else.
        info: the run that the cassette is of; child runs, and what a fork shares, are other runs of the store.
    """

    path: str
    store: EventStore
    info: RunInfo


def open_cassette(path: str | os.PathLike[str]) -> OpenedCassette:
    """Read a cassette into a store of its own, in memory. Nothing is written anywhere.

    Raises:
        ImportFailed: it is missing, damaged, or no cassette; names the file and the line.
    """
    try:
        source = SourceFile.read(path)
        if not Cassette().detects(source):
            raise ImportFailed(
                f"cannot import {source.path}: it is no cassette; expected {Cassette.reads}. Only what agentreplay "
                "recorded can be executed again: `agentreplay export RUN FILE` writes it",
                path=source.path,
            )
        store = _read(source, None)
    except ImportFailed as error:
        told = str(error).replace("cannot import ", "cannot read ", 1)
        raise ImportFailed(told, path=error.path, line=error.line) from None
    first = next(line for line in io.BytesIO(source.data.removeprefix(_BOM)) if line.strip())
    root = parse_header(first.rstrip(b"\r\n")).run
    if (rules := redaction_rules_of(store, store.run(root))) != store.rules:
        store = _read(source, rules)
    return OpenedCassette(source.path, store, store.run(root))


def redaction_rules_of(store: EventStore, info: RunInfo) -> RedactionRules:
    """The redaction rules by which a run was recorded; the built-in ones where they cannot be read.

    What the code says is redacted by them, too, before it is compared.
    """
    data = first_event(store, info).data
    described = getattr(data, "redaction", None)
    try:
        return RedactionRules() if described is None else RedactionRules.described(described)
    except UsageError:
        return RedactionRules()


def first_event(store: EventStore, info: RunInfo) -> Event:
    """The `run.started` of a run; of a fork, that of the run that it comes from.

    Raises:
        ImportFailed: it has no event.
    """
    event = next(iter(store.events(info, until=0)), None)
    if event is None:
        raise ImportFailed(f"{info.id} has no recorded event; there is nothing to execute code against")
    return event


def _read(source: SourceFile, rules: RedactionRules | None) -> MemoryStore:
    store = MemoryStore(rules)
    import_source(source, store, Cassette.name)
    return store
