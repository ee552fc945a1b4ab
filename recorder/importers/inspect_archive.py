"""The members of a zip archive, read in memory and as far as it goes.

An evaluation is written while it runs, so its archive may have been cut off, may still be open, and may use Zstandard
(method 93), which Python's `zipfile` does not read. Here the central directory says where the members are; where there
is none, they are found by the header that stands before each. Names are only compared, never used as paths.

An archive can lie. A member may unpack to `MEMBER_LIMIT` bytes and all of them to `ARCHIVE_LIMIT`, whatever their
headers say. What is wrong with a member is said beside what could be read of it.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import zstandard

MEMBER_LIMIT: Final = 512 * 1024 * 1024
"""Bytes that one member may unpack to."""

ARCHIVE_LIMIT: Final = 2 * 1024 * 1024 * 1024
"""Bytes that all members together may unpack to."""

STORED: Final = 0
DEFLATED: Final = 8
ZSTANDARD: Final = (93, 20)
"""The method's number, and the one it had before it was registered."""

SIGNATURE: Final = b"PK\x03\x04"
"""What a member begins with, and so the archive."""

_HEADER: Final = struct.Struct("<4s5H3I2H")
_NEXT: Final = re.compile(rb"PK(?:\x03\x04|\x07\x08|\x01\x02|\x06\x06|\x05\x06)")
_ENCRYPTED: Final = 0x0001
_SIZE_FOLLOWS: Final = 0x0008
_UTF8_NAME: Final = 0x0800
_ZIP64: Final = 0xFFFFFFFF
_CHUNK: Final = 64 * 1024
_WINDOW: Final = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a member is in the archive.

    Attributes:
        name: as the archive has it.
        method: how it is packed.
        start, end: of its packed bytes.
        size, crc: of its content, or None where the archive does not say.
        flaw: what is wrong with it before it was looked at, or "".
    """

    name: str
    method: int
    start: int
    end: int
    size: int | None
    crc: int | None
    flaw: str = ""


@dataclass(frozen=True, slots=True)
class Contents:
    """The members of an archive.

    Attributes:
        entries: in the order of the archive, each name once: of two of the same name the later one counts.
        complete: whether the archive has the directory that is written last.
        replaced: how many members a later one of the same name stands for.
    """

    entries: list[Entry]
    complete: bool
    replaced: int


class TooLarge(Exception):
    """The members together unpack to more than they may."""


def contents_of(data: bytes) -> Contents:
    """Find the members of an archive; an archive without any has no entries."""
    found = _listed(data)
    complete = found is not None
    entries = list(_scanned(data)) if found is None else found
    last = {entry.name: entry for entry in entries if not entry.name.endswith("/")}
    kept = [entry for entry in entries if last.get(entry.name) is entry]
    files = sum(not entry.name.endswith("/") for entry in entries)
    return Contents(kept, complete, files - len(kept))


def _listed(data: bytes) -> list[Entry] | None:
    """The members that the central directory lists, or None when there is none that can be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [_listed_entry(data, info) for info in archive.infolist()]
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError, struct.error, OSError):
        return None


def _listed_entry(data: bytes, info: zipfile.ZipInfo) -> Entry:
    header = data[info.header_offset : info.header_offset + _HEADER.size] if info.header_offset >= 0 else b""
    if len(header) < _HEADER.size or not header.startswith(SIGNATURE):
        flaw = "it does not begin where the directory of the archive says"
        return Entry(info.filename, info.compress_type, 0, 0, None, None, flaw)
    fields = _HEADER.unpack(header)
    start = info.header_offset + _HEADER.size + fields[9] + fields[10]
    flaw = "it is encrypted" if info.flag_bits & _ENCRYPTED else ""
    end = start + info.compress_size
    return Entry(info.filename, info.compress_type, start, end, info.file_size, info.CRC, flaw)


def _scanned(data: bytes) -> Iterator[Entry]:
    """The members in a file without a directory, by their own headers."""
    at = data.find(SIGNATURE)
    while 0 <= at <= len(data) - _HEADER.size:
        _, _, flags, method, _, _, crc, packed, size, name_length, extra_length = _HEADER.unpack_from(data, at)
        start = at + _HEADER.size + name_length + extra_length
        if start > len(data):
            return
        raw_name = data[at + _HEADER.size : at + _HEADER.size + name_length]
        name = raw_name.decode("utf-8" if flags & _UTF8_NAME else "cp437", "backslashreplace")
        if packed == _ZIP64 or size == _ZIP64:
            size, packed = _zip64_sizes(data[start - extra_length : start], size, packed)
        known = not flags & _SIZE_FOLLOWS or packed > 0
        end = start + packed if known else _next_end(data, start)
        flaw = "it is encrypted" if flags & _ENCRYPTED else ""
        yield Entry(name, method, start, end, size if known else None, crc if known else None, flaw)
        at = data.find(SIGNATURE, end)


def _zip64_sizes(extra: bytes, size: int, packed: int) -> tuple[int, int]:
    """Size and packed size from the extra field of a header that has no room for them."""
    at = 0
    while at + 4 <= len(extra):
        tag, length = struct.unpack_from("<2H", extra, at)
        values = extra[at + 4 : at + 4 + length]
        if tag == 1:
            numbers = [value for (value,) in struct.iter_unpack("<Q", values[: len(values) // 8 * 8])]
            if size == _ZIP64 and numbers:
                size = numbers.pop(0)
            if packed == _ZIP64 and numbers:
                packed = numbers.pop(0)
            break
        at += 4 + length
    return size, packed


def _next_end(data: bytes, start: int) -> int:
    """Where a member ends whose header does not say: before whatever follows it."""
    found = _NEXT.search(data, start)
    return found.start() if found else len(data)


@dataclass(slots=True)
class Unpacker:
    """Unpacks members of an archive, and counts what they come to."""

    data: bytes
    unpacked: int = 0

    def read(self, entry: Entry) -> tuple[bytes, str]:
        """The content of a member, as far as it can be read, and what is wrong with it, or "".

        Raises:
            TooLarge: all members read so far come to more than `ARCHIVE_LIMIT`.
        """
        if entry.flaw:
            return b"", entry.flaw
        packed = self.data[entry.start : entry.end]
        content, flaw = unpack(packed, entry.method)
        self.unpacked += len(content)
        if self.unpacked > ARCHIVE_LIMIT:
            raise TooLarge
        if entry.end > len(self.data):
            flaw = "the archive ends within it"
        elif not flaw and entry.size is not None and len(content) != entry.size:
            flaw = f"it has {len(content)} bytes where the archive says {entry.size}"
        elif not flaw and entry.crc is not None and zlib.crc32(content) != entry.crc:
            flaw = "its checksum is not the one in the archive"
        return content, flaw


def unpack(packed: bytes, method: int) -> tuple[bytes, str]:
    """What packed bytes come to, up to `MEMBER_LIMIT`, and what is wrong with them, or ""."""
    if method == STORED:
        flaw = _beyond(len(packed))
        return packed[:MEMBER_LIMIT], flaw
    if method == DEFLATED:
        pieces = _inflated(packed)
    elif method in ZSTANDARD:
        pieces = _decompressed(packed)
    else:
        return b"", f"it is packed by method {method}, which is not read here"
    content = bytearray()
    try:
        for piece in pieces:
            content += piece
            if len(content) > MEMBER_LIMIT:
                return bytes(content[:MEMBER_LIMIT]), _beyond(len(content))
    except (zlib.error, zstandard.ZstdError, EOFError) as error:
        return bytes(content), f"it cannot be unpacked any further ({error})"
    return bytes(content), ""


def _beyond(length: int) -> str:
    return f"it unpacks to more than {MEMBER_LIMIT} bytes" if length > MEMBER_LIMIT else ""


def _inflated(packed: bytes) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    for at in range(0, len(packed), _CHUNK):
        rest, full = packed[at : at + _CHUNK], True
        while full or rest:  # a piece of full length may have more behind it
            piece = inflater.decompress(rest, _CHUNK)
            yield piece
            if inflater.eof:
                return
            rest, full = inflater.unconsumed_tail, len(piece) == _CHUNK
    raise EOFError("its end is missing")


def _decompressed(packed: bytes) -> Iterator[bytes]:
    with zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(packed, read_across_frames=True) as reader:
        while piece := reader.read(_CHUNK):
            yield piece
