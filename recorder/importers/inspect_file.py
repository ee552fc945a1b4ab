"""The file of an evaluation, in each of its shapes, as one thing: the fields of the log, and its samples.

A `.json` log is one object. A `.eval` log is an archive: `header.json` has the fields, `samples/ID_epoch_N.json` one
sample each, or, in newer archives, `samples/ID_epoch_N/` its pieces: a shell `sample.json`, and the lists
`messages`, `events`, `calls` and `attachments`, cut into files named by the index of their first item. While an
evaluation runs there is no header yet; `_journal/start.json` has the fields that were known at the start. Other parts
only restate: `summaries.json` and `_journal/summaries/` say which samples there should be.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..errors import ImportFailed
from .inspect_archive import ARCHIVE_LIMIT, SIGNATURE, TooLarge, Unpacker, contents_of
from .source import Defect, SourceFile, clean_text, failure

READS: Final = "an object with `eval` and `samples`, or a zip archive of header.json and samples/ID_epoch_N.json"

SAMPLE: Final = re.compile(r"samples/(.*)_epoch_(\d{1,9})\.json")
PIECE: Final = re.compile(r"samples/((.*)_epoch_(\d{1,9}))/(.+)\.json")
SUMMARIES: Final = re.compile(r"summaries\.json|_journal/summaries/\d+\.json")
CONFIG_UPDATE: Final = re.compile(r"_journal/config_updates/\d+\.json")
HEADER: Final = "header.json"
START: Final = "_journal/start.json"
REDUCTIONS: Final = "reductions.json"
SEQUENCES: Final = ("messages", "events", "calls", "attachments")
SIDECARS: Final = frozenset(("skeleton", "events/stats", "events/uuids"))
"""Pieces of a sample that are made from its others, to find things quickly."""

LARGEST_GAP: Final = 1_000_000
"""Items of a list that may be missing before a chunk of it."""


@dataclass(frozen=True, slots=True)
class SamplePart:
    """A sample as the file has it: where it stands, and what stands there."""

    where: str
    value: Any


@dataclass(slots=True)
class EvaluationFile:
    """What a file holds.

    Attributes:
        fields: the fields of the log other than `samples`.
        samples: in order: of an archive by epoch and id.
        kept: parts of an archive that are neither, by name.
        damaged: what could not be read, or not whole: each a damaged record.
        restated: parts that only say again what others say.
        notes: what a person should know.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    samples: list[SamplePart] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)
    damaged: list[Defect] = field(default_factory=list)
    restated: int = 0
    notes: list[str] = field(default_factory=list)


def is_archive(source: SourceFile) -> bool:
    """Whether the file is a zip archive, by how it begins."""
    return source.data.startswith(SIGNATURE)


def likeness(source: SourceFile) -> float:
    """How surely a file is the log of an evaluation, from 0 to 1."""
    if is_archive(source):
        names = [entry.name for entry in contents_of(source.data).entries]
        known = any(name in (HEADER, START) or SAMPLE.fullmatch(name) or PIECE.fullmatch(name) for name in names)
        return 1.0 if known else 0.0
    document = source.json_or_none()
    if type(document) is not dict:
        return 0.0
    spec, samples = document.get("eval"), document.get("samples")
    if type(spec) is dict and {"task", "model", "run_id", "dataset"} & spec.keys():
        return 1.0
    if type(samples) is list and any(type(sample) is dict and "epoch" in sample for sample in samples):
        return 0.7
    return 0.0


def read_evaluation(source: SourceFile) -> EvaluationFile:
    """Read a file of either shape.

    Raises:
        ImportFailed: it is not one, or nothing of it can be read.
    """
    if is_archive(source):
        return _Archive(source).read()
    document = source.json()
    if type(document) is not dict or not (
        type(document.get("eval")) is dict or type(document.get("samples")) in (list, dict)
    ):
        found = "an object without them" if type(document) is dict else f"a {type(document).__name__}"
        raise failure(source.path, f"it holds {found}", READS, "Is it another format?")
    evaluation = EvaluationFile({name: value for name, value in document.items() if name != "samples"})
    evaluation.damaged += source.defects
    samples = document.get("samples")
    if type(samples) is list:
        evaluation.samples = [SamplePart(f"samples[{index}]", value) for index, value in enumerate(samples)]
    elif samples is not None:
        evaluation.damaged.append(Defect("`samples` is no list", samples))
    return evaluation


class _Archive:
    """Reads an archive part by part."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.evaluation = EvaluationFile()
        self.parts: dict[str, Any] = {}
        self.flaws: dict[str, str] = {}

    def read(self) -> EvaluationFile:
        """Read all of it."""
        evaluation = self.evaluation
        contents = contents_of(self.source.data)
        if not contents.entries:
            raise failure(
                self.source.path, "it is a zip archive without a member that can be read", READS, "Is it whole?"
            )
        if not contents.complete:
            evaluation.notes.append(
                "the archive has no directory: it was cut off, or is still being written; read as far as it goes"
            )
        if contents.replaced:
            evaluation.notes.append(f"{contents.replaced} members of the archive were replaced by later ones")
        unpacker = Unpacker(self.source.data)
        for entry in contents.entries:
            try:
                content, flaw = unpacker.read(entry)
            except TooLarge:
                raise failure(
                    self.source.path,
                    f"its members unpack to more than {ARCHIVE_LIMIT} bytes",
                    "an archive that fits into memory",
                    "Write its samples to several files.",
                ) from None
            self._take(entry.name, content, flaw)
        self._fields()
        self._samples()
        self._summaries()
        if not evaluation.samples and "eval" not in evaluation.fields:
            reason = self.flaws.get(HEADER) or self.flaws.get(START)
            found = "nothing of an evaluation can be read from it" + (f" ({HEADER}: {reason})" if reason else "")
            raise failure(self.source.path, found, READS, "Is it whole, and a log?")
        for name, value in self.parts.items():
            evaluation.kept[clean_text(name)] = value
        return evaluation

    def _take(self, name: str, content: bytes, flaw: str) -> None:
        """Read a member as JSON, saying what is wrong with it."""
        shown = clean_text(name)
        part = SourceFile(shown, shown, content, "", self.source.modified)
        try:
            self.parts[name] = part.json()
        except ImportFailed as error:
            line = "" if error.line is None else f" in line {error.line}"
            flaw = flaw or f"its JSON breaks{line}"
            self.flaws[name] = flaw
            text = content.decode("utf-8", "surrogateescape")
            self.evaluation.damaged.append(Defect(f"the member {shown} cannot be read: {flaw}", text))
            return
        if flaw:
            self.evaluation.damaged.append(
                Defect(f"the member {shown} is damaged: {flaw}; it was read all the same", None)
            )
        for defect in part.defects:
            self.evaluation.damaged.append(Defect(f"in the member {shown}: {defect.message}", defect.content))

    def _fields(self) -> None:
        """The fields of the log: of the header, else those that were known at the start."""
        evaluation, start, header = self.evaluation, self.parts.get(START), self.parts.get(HEADER)
        if type(header) is dict:
            del self.parts[HEADER]
            evaluation.fields = header
            if type(start) is dict and all(header.get(name) == value for name, value in start.items()):
                del self.parts[START]
                evaluation.restated += 1
        elif type(start) is dict:
            del self.parts[START]
            evaluation.fields = {**start, "status": "started"}
            evaluation.notes.append("the archive has no header: the evaluation had not ended, or its end was cut off")
        if REDUCTIONS in self.parts and "reductions" not in evaluation.fields:
            evaluation.fields["reductions"] = self.parts.pop(REDUCTIONS)
        updates = evaluation.fields.get("config_updates")
        for name in [name for name in self.parts if CONFIG_UPDATE.fullmatch(name)]:
            if type(updates) is list and self.parts[name] in updates:
                del self.parts[name]
                evaluation.restated += 1

    def _samples(self) -> None:
        found: list[tuple[int, list[tuple[int, str]], SamplePart]] = []
        pieces: dict[str, dict[str, Any]] = defaultdict(dict)
        for name in list(self.parts):
            if match := SAMPLE.fullmatch(name):
                found.append((int(match[2]), _natural(match[1]), SamplePart(clean_text(name), self.parts.pop(name))))
            elif match := PIECE.fullmatch(name):
                pieces[match[1]][match[4]] = self.parts.pop(name)
        for name, parts in pieces.items():
            match = SAMPLE.fullmatch(f"samples/{name}.json")
            where = f"samples/{clean_text(name)}/sample.json"
            sample, rest = _assembled(parts)
            self.evaluation.restated += len(parts) - len(rest) - 1
            if match is None or sample is None:
                self.evaluation.damaged.append(Defect(f"the sample {where} has no shell; its pieces are kept", parts))
                continue
            found.append((int(match[2]), _natural(match[1]), SamplePart(where, sample)))
            for piece, value in rest.items():
                self.evaluation.kept[f"samples/{clean_text(name)}/{clean_text(piece)}.json"] = value
        found.sort(key=lambda item: item[:2])
        self.evaluation.samples = [part for _, _, part in found]

    def _summaries(self) -> None:
        """Look whether each sample of which there is a summary is there."""
        present = {
            (repr(part.value.get("id")), repr(part.value.get("epoch")))
            for part in self.evaluation.samples
            if type(part.value) is dict
        }
        missing: dict[tuple[str, str], Any] = {}
        for name in [name for name in self.parts if SUMMARIES.fullmatch(name)]:
            value = self.parts[name]
            if type(value) is not list or not all(type(item) is dict for item in value):
                continue
            del self.parts[name]
            self.evaluation.restated += 1
            for item in value:
                key = (repr(item.get("id")), repr(item.get("epoch")))
                if key not in present:
                    missing[key] = item
        if missing:
            names = ", ".join(f"{id} (epoch {epoch})" for id, epoch in list(missing)[:10])
            more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
            message = f"there are summaries of samples that are missing or cannot be read: {names}{more}"
            self.evaluation.damaged.append(Defect(message, list(missing.values())))


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts 2 before 10."""
    return [(int(text), "") if text.isdecimal() and len(text) < 20 else (-1, text) for text in re.split(r"(\d+)", name)]


def _assembled(pieces: Mapping[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """A sample put together from its pieces, and the pieces that have no place in it; None without its shell."""
    shell = pieces.get("sample")
    if type(shell) is not dict:
        return None, {}
    rest = {name: value for name, value in pieces.items() if name != "sample" and name not in SIDECARS}
    lists: dict[str, list[Any]] = {}
    for sequence in SEQUENCES:
        chunks = sorted(
            (int(name.partition("/")[2]), name)
            for name, value in rest.items()
            if re.fullmatch(rf"{sequence}/\d{{1,15}}", name) and type(value) is list
        )
        lists[sequence] = []
        for start, name in chunks:
            # Others refer to items by index, so what is missing before a chunk must leave its room; not so to events.
            gap = 0 if sequence == "events" else start - len(lists[sequence])
            if 0 <= gap <= LARGEST_GAP:
                lists[sequence] += [None] * gap + rest.pop(name)
    sample = dict(shell)
    if "metadata" in rest:
        sample["metadata"] = rest.pop("metadata")
    sample["events"] = lists["events"]
    sample["attachments"] = {str(index): text for index, text in enumerate(lists["attachments"])}
    sample["events_data"] = {"messages": lists["messages"], "calls": lists["calls"]}
    return sample, rest
