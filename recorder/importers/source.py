"""A file to import: its bytes, its name among contents, and the JSON in it, read so that nothing of it is lost.

JSON from elsewhere is read more patiently than our own. Bare NaN and Infinity, integers of any size and lone surrogates
are values that a log can hold, so they pass. Two things make a parser lose data without a word, and here they become
*defects*, which the importer records: a key that stands twice in one object, of which only the last value counts, and
bytes that are not UTF-8, which are kept as lone surrogates.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from json import JSONDecodeError
from pathlib import Path
from typing import Any, Final

from ..errors import ImportFailed
from ..event_codec import EPOCH
from ..hashes import content_address

LATEST_TIME: Final = 253_370_764_800.0
"""The year 9999 in seconds since 1970; what is later cannot be a time."""

EXCERPT: Final = 60
"""Characters of a broken line that a message shows."""


@dataclass(frozen=True, slots=True)
class Defect:
    """Something in the file that a JSON parser would have lost: what it is, and what was lost."""

    message: str
    content: Any


@dataclass(slots=True)
class SourceFile:
    """A file, read whole.

    Attributes:
        path: as given.
        name: its base name, without what a text cannot hold.
        data: its bytes.
        address: the content address of the bytes.
        modified: when it was last written.
        defects: what a JSON parser would have lost; complete once `json` was called.
    """

    path: str
    name: str
    data: bytes
    address: str
    modified: datetime
    defects: list[Defect] = field(default_factory=list)
    _parsed: bool = False
    _document: Any = None
    _failure: ImportFailed | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SourceFile:
        """Read a file.

        Raises:
            ImportFailed: it is missing, empty, a folder, or cannot be read.
        """
        text = os.fspath(path)
        try:
            status = os.stat(text)
            if stat.S_ISDIR(status.st_mode):
                raise failure(text, "it is a folder", "the file of one recording", "Name a file in it.")
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
                raise failure(text, "it is a device", "a file", "Copy what it gives to a file first.")
            data = Path(text).read_bytes()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise failure(
                text, f"it cannot be read ({reason})", "a readable file", "Check the path and its permissions."
            ) from error
        if not data.strip():
            raise failure(text, "it is empty", "a recording", "Was it still being written?")
        modified = time_of(status.st_mtime) or EPOCH
        return cls(text, clean_text(os.path.basename(text)), data, content_address(data), modified)

    def json(self) -> Any:
        """The JSON document in the file.

        Raises:
            ImportFailed: it is not JSON; the line says where.
        """
        if not self._parsed:
            self._parsed = True
            try:
                self._document = self._parse()
            except ImportFailed as error:
                self._failure = error
        if self._failure is not None:
            raise self._failure
        return self._document

    def json_or_none(self) -> Any:
        """The JSON document in the file, or None when it is not JSON."""
        try:
            return self.json()
        except ImportFailed:
            return None

    def _parse(self) -> Any:
        text = self._decode()

        def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            found = dict(pairs)
            if len(found) != len(pairs):
                self._note_hidden(pairs)
            return found

        try:
            return json.loads(text, object_pairs_hook=unique)
        except JSONDecodeError as error:
            raise self._not_json(text, error) from error
        except RecursionError as error:
            raise failure(
                self.path,
                "it nests deeper than this Python reads",
                "JSON of reasonable depth",
                "Such a file is rarely a recording; look at what wrote it.",
            ) from error
        except ValueError as error:  # an integer of thousands of digits
            raise failure(self.path, f"a number cannot be read ({error})", "JSON", "Shorten the number.") from error

    def _decode(self) -> str:
        encoding = json.detect_encoding(self.data)
        try:
            return self.data.decode(encoding)
        except UnicodeDecodeError as error:
            if not encoding.startswith("utf-8"):
                raise failure(self.path, f"it is broken {encoding} text", "JSON in UTF-8", "Convert it.") from error
            first = error.start
        text = self.data.decode(encoding, "surrogateescape")
        count = sum("\udc80" <= letter <= "\udcff" for letter in text)
        self.defects.append(
            Defect(
                f"{count} bytes of the file are not UTF-8, the first one at offset {first}; "
                "they are kept as lone surrogates (U+DC80 to U+DCFF)",
                {"bytes": count, "offset": first},
            )
        )
        return text

    def _note_hidden(self, pairs: Sequence[tuple[str, Any]]) -> None:
        """Keep the values of keys that occur again later in the same object."""
        last = {key: at for at, (key, _) in enumerate(pairs)}
        for at, (key, value) in enumerate(pairs):
            if last[key] != at:
                self.defects.append(
                    Defect(f'the key "{clean_text(key)}" stands twice in one object; the last value counts', value)
                )

    def _not_json(self, text: str, error: JSONDecodeError) -> ImportFailed:
        if error.pos >= len(text.rstrip()):
            found = "it ends in the middle"
            advice = "It was cut off, or is still being written; import it when it is whole."
        else:
            line = text.splitlines()[error.lineno - 1 : error.lineno] if error.pos < len(text) else []
            excerpt = clean_text(line[0][max(0, error.colno - 1) :][:EXCERPT]) if line else ""
            found = f"{error.msg} at column {error.colno}" + (f", before {excerpt!r}" if excerpt else "")
            advice = "Is it the file that the agent wrote, unedited?"
        return failure(self.path, found, "one JSON document", advice, line=error.lineno)


def failure(path: str, found: str, expected: str, advice: str, line: int | None = None) -> ImportFailed:
    """An `ImportFailed` that says where, what was found, what was expected and what to do next."""
    path = clean_text(path)
    where = path if line is None else f"{path}, line {line}"
    return ImportFailed(f"cannot import {where}: {found}; expected {expected}. {advice}", path=path, line=line)


def clean_text(text: str) -> str:
    """The text with its lone surrogates written as escapes, for names and messages, which must be proper text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def time_of(value: Any) -> datetime | None:
    """A time in UTC from seconds since 1970 or an ISO 8601 text (UTC unless it says otherwise); else None."""
    try:
        if type(value) in (int, float) and 0 < value < LATEST_TIME:
            return datetime.fromtimestamp(value, UTC)
        if type(value) is str:
            time = datetime.fromisoformat(value)
            time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
            return time if 0 < time.timestamp() < LATEST_TIME else None
    except (ValueError, OverflowError, OSError):
        return None
    return None


def seconds_of(value: Any) -> float | None:
    """A duration in seconds, or None when the value is no finite number from 0 on."""
    if type(value) in (int, float) and 0 <= value < LATEST_TIME:
        return float(value)
    return None
