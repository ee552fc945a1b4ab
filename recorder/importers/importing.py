"""What an importer works with: the file, the counts of what became of its records, and where a run begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..redaction import Redactor
from .builder import RunBuilder
from .source import SourceFile, clean_text


@dataclass(slots=True)
class Tally:
    """What became of the records of a file, each of which counts once.

    A record is an entry of the file's list of steps or of messages, or any other top-level field of it. A defect of the
    file itself (see `source`) is a damaged record.

    Attributes:
        imported: became events of their own.
        unknown: have no place in a run; kept whole as `report` events.
        damaged: not of the shape that the format has; kept as far as they could be read, with a `report` event.
        notes: what a person should know of this import.
        kept: the names of fields within records that are kept as reports.
    """

    imported: int = 0
    unknown: int = 0
    damaged: int = 0
    notes: list[str] = field(default_factory=list)
    kept: dict[str, None] = field(default_factory=dict)

    @property
    def read(self) -> int:
        """All records."""
        return self.imported + self.unknown + self.damaged

    def count(self, sound: bool) -> None:
        """Count a record that has a place: as imported when it was sound, else as damaged."""
        if sound:
            self.imported += 1
        else:
            self.damaged += 1


@dataclass(slots=True)
class Importing:
    """What an importer works with.

    Attributes:
        source: the file.
        format: the importer's name.
        redactor: the store's.
        tally: to be kept up to date.
        salvage: whether to keep what is sound of a damaged source, where the format refuses one otherwise.
    """

    source: SourceFile
    format: str
    redactor: Redactor
    tally: Tally = field(default_factory=Tally)
    salvage: bool = False
    _begun: int = 0

    def run(
        self,
        agent: str,
        *,
        payload: Any = None,
        input: Any = None,
        started: datetime | None = None,
        **source: Any,
    ) -> RunBuilder:
        """Begin the next run of the file.

        Args:
            agent: the agent's name.
            payload: the starting payload.
            input: what the run was given.
            started: when it started, where the file says so; its events then have recorded times.
            **source: more about where it comes from, for `run.started`.
        """
        builder = RunBuilder(
            self.redactor,
            agent,
            payload=payload,
            input=input,
            time=started or self.source.modified,
            source={
                "format": self.format,
                "file": self.source.name,
                "sha256": self.source.address,
                "times": "none" if started is None else "recorded",
                **source,
            },
        )
        if not self._begun:
            for defect in self.source.defects:
                self.tally.damaged += 1
                self.tally.notes.append(defect.message)
                builder.report(defect.message, defect.content, level="warning")
        self._begun += 1
        return builder

    def keep(self, builder: RunBuilder, name: str, value: Any) -> None:
        """Keep a top-level field that has no place in a run."""
        self.tally.unknown += 1
        self.keep_field(builder, name, value)

    def keep_field(self, builder: RunBuilder, name: str, value: Any, where: str = "") -> None:
        """Keep a field of a record that has no place in a run.

        Args:
            builder: the run.
            name: of the field wherever it occurs, for the notes.
            value: what it holds.
            where: the very place, for the event.
        """
        self.tally.kept[clean_text(name)] = None
        builder.report(f"`{where or name}` has no place in a run", value, field=name)

    def damage(self, builder: RunBuilder, message: str, content: Any) -> None:
        """Say in the log what is wrong with a record, with its content; counting it is the importer's."""
        builder.report(message, content, level="warning")


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did. Every record is imported, unknown or damaged, or was imported before.

    Attributes:
        runs: the runs that hold the file, such as "run7".
        format: the format it was read as.
        read: all records; see `importing.Tally` for what a record is.
        imported: records that became events of their own now; 0 when the file had been imported before.
        unknown: records that have no place in a run and were kept as reports.
        damaged: records not of the shape they should have, kept as far as they could be read.
        notes: what else a person should know.
    """

    runs: list[str]
    format: str
    read: int
    imported: int
    unknown: int
    damaged: int
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """`{runs, read, imported, unknown, damaged}`."""
        return {
            "runs": list(self.runs),
            "read": self.read,
            "imported": self.imported,
            "unknown": self.unknown,
            "damaged": self.damaged,
        }
