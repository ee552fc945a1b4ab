"""Small stored texts take less room: they are compressed with a dictionary that knows what events look like.

Most event bodies are about 150 bytes, of which half are the same words in every event. A plain compressor finds
nothing in so short a text; one that was given those words beforehand halves it, in about a microsecond. What is large
is compressed without the dictionary, or, on the hot path of appending, not at all.

Packing is a matter of one store's file: addresses and hashes are always those of the unpacked bytes. A packed text says
by its first byte how it was packed; JSON never begins with such a byte. A check of the packed bytes follows: some of
their bits could be turned over without it and nobody would know, since what they unpack to stays the same. `WORDS_1`
was trained on the events of random runs, and is part of the format: it is never changed, only followed by another.
"""

from __future__ import annotations

import threading
from base64 import b64decode
from typing import Final
from zlib import crc32

import zstandard

SMALL: Final = 512
"""Texts of at most this many bytes are packed with the dictionary."""

LARGEST: Final = 1 << 30
"""No stored text is longer; what claims to be was changed."""

PLAIN_ZSTD: Final = b"\x01"
WITH_WORDS_1: Final = b"\x02"

_CHECKS: Final = tuple(bytes([value]) for value in range(256))

WORDS_1: Final = """
N6Qw7DYIVG42ELBBJm0wDMMwDMMwDMPA4bJjbKQEtdZahIYtsnsbY0dxkiTmKE6SJJm1OkV2d+/kEjIdhgEIgwEAABCGRsjyqxcA
AARAyklIhEbOxobG0jAQDo3BAYEIg1AQCQAAAAAcTAKSMdJChwEAAORP5NIBUSCJkRyGYRDEYRhjyACkAgAAAAEAAAAEAAAACAAA
ACwidHJhY2ViYWNrIjoiVHJhY2ViYWNrIChtb3N0IHJlY2VudCBjYWxsIGxhc3QpOlxuICBGaWxlIFwiL3dvcmsvbWFpbi9yZWNv
cmRlci9lZmZlY3RzLnB5XCIsIGxpbmUgMzMsIGluIHBlcmZvcm1cbiAgICB2YWx1ZSA9IGZuKCphcmdzLCAqKmt3YXJncylcbiAg
ICAgICAgICAgIF5eXl5eXl5eXl5eXl5eXl5eXl5cbiAgRmlsZSBcIi90bXAvZGljdHcvZ2VuLnB5XCIsIGxpbmUgMjIsIGluIGZs
YWt5XG4gICAgcmFpc2UgcmFuZG9tLmNob2ljZShbVmFsdWVFcnJvcixLZXlFcnJvcixSdW50aW1lRXJyb3IsVGltZW91dEVycm9y
XSkoaWRlbnQoKSlcblZhbHVlRXJyb3I6IGJZUFJxXG4iLCJ2YWx1ZSI6eyIkdHlwZSI6ImV4Y2VwdGlvbiIsImNsYXNzIjoiYnVp
bHRpbnM6VmFsdWVFcnJvciIsImFyZ3MiOlsiYllQUnEiXX19LCJkdXJhdGlvbiI6OS40ODM5OTk3NDczMTcyNDI2fXt9eyJtZXNz
YWdlIjp7InJvbGUiOiJ1c2VyIiwiY29udGVudCI6ImRUdmIifX17ImNhbGwiOiIxMC4xIiwibmFtZSI6InNvbWUtbW9kZWwiLCJt
b2RlbCI6InNvbWUtbW9kZWwiLCJyZXF1ZXN0Ijp7Im1lc3NhZ2VzIjp7IiR0eXBlIjoibWVzc2FnZXMiLCJoYXNoIjoic2hhMjU2
OjlhZWFlZTgwZjFlYWQ0ZWI1ZjI0MmE1ZWRmNTkwMWVkOGJkN2Y3ZDk4MWE4MDYwMTg2ZmJiM2EwMDYxNTUzZjQiLCJjb3VudCI6
MTB9fX17ImNhbGwiOiIxMC4xIiwicmVzcG9uc2UiOnsiaWQiOiJjaGF0Y21wbC03bm1aOE8iLCJvYmplY3QiOiJjaGF0LmNvbXBs
ZXRpb24iLCJjaG9pY2VzIjpbeyJpbmRleCI6MCwibWVzc2FnZSI6eyJyb2xlIjoiYXNzaXN0YW50IiwiY29udGVudCI6IjRnemh2
NyIsInRvb2xfY2FsbHMiOlt7ImlkIjoiY2FsbF9aQzRwIiwidHlwZSI6ImZ1bmN0aW9uIiwiZnVuY3Rpb24iOnsibmFtZSI6InRl
eHQiLCJhcmd1bWVudHMiOiJ7XCJ0ZXh0XCI6IFwiVnozc2RcIn0ifX1dfSwiZmluaXNoX3JlYXNvbiI6InN0b3AifV0sInVzYWdl
c29uIjoidG9vbF91c2UiLCJkdXJhdGlvbiI6MC4wMDAwMTI4MzkwMDAxOTE4ODg3NzJ9eyJjYWxsIjoiMTEuMiIsIm5hbWUiOiJs
b29rdXAiLCJhcmd1bWVudHMiOnsiY291bnQiOltdfSwic2FmZXR5IjoicHVyZSJ9eyJjYWxsIjoiMTEuMiIsInJlc3VsdCI6Njk4
MDUsImR1cmF0aW9uIjozLjgzNDk5OTkxNTg1MjY3N2UtNn17ImFwcGxpZXIiOnsibmFtZSI6Im1lbWJlcmp1bmN0aW9uIiwidmVy
c2lvbiI6MX0sInJlcXVlc3QiOnsibmV3RWxlbWVudHMiOnsidGVzdCI6IlNmbjB1eiJ9LCJ1cGRhdGVFbGVtZW50cyI6eyJ0ZXh0
IjoiQlZ5ZWk3QVJ6TUlWM0p6TzNMIn19LCJzb3VyY2UiOnsia2luZCI6ImNvZGUifSwicmVhc29uIjoiOHg0eEoiLCJjb3VudHMi
OnsiYWRkaXRpb25zIjoyLCJ1cGRhdGVzIjowLCJkZWxldGlvbnMiOjB9LCJ3YXJuaW5ncyI6WyJBdXRvLWNvcnJlY3RlZDogJ3Rl
eHQnIHdhcyBpbiB1cGRhdGVFbGVtZW50cyBidXQgZG9lc24ndCBleGlzdCAodHJlYXRlZCBhcyBhZGRpdGlvbikiXSwiaGFzaF9i
ZWZvcmUiOiJtZXJrZW5zIjo3fX0sInVzYWdlIjp7InByb21wdF90b2tlbnMiOjMsImNvbXBsZXRpb25fdG9rZW5zIjo0LCJ0b3Rh
bF90b2tlbnMiOjd9LCJzdG9wX3JlYXNvbiI6InN0b3AiLCJkdXJhdGlvbiI6MC4wMDAwMjgwMzIwMDAwNDU2NDEzMjV9eyJkZWNp
c2lvbiI6eyJzdGVwIjoiVW5kZWNpZGVkIiwibWVzc2FnZSI6InRoZSByb3VuZCBlbmRlZCB3aXRob3V0IGEgZGVjaXNpb24ifX17
Im91dGNvbWUiOiJjb250aW51ZSIsInBheWxvYWRfaGFzaCI6Im1lcmtsZTE6NjljMzAxMTNmNjRmZjFlM2JhOWY5MjkzMWJkMTk4
YjQ1OTkyNDZkM2FlNjU5ZTVmMDMxZGQ5ZDA5YzI0NmVmYSIsImR1cmF0aW9uIjowLjAwMDM3NTA1Nzk5OTkxNzc3MTY3fXt9eyJt
ZXNzYWdlIjp7InJvbGUiOiJ1c2VyIiw=
"""
"""A zstd dictionary of 2,048 bytes, in base64."""


class _Packers(threading.local):
    """The compressors of one thread, which may not be shared between threads."""

    def __init__(self) -> None:
        words = zstandard.ZstdCompressionDict(b64decode(WORDS_1))
        short = zstandard.ZstdCompressionParameters.from_level(
            3,
            format=zstandard.FORMAT_ZSTD1_MAGICLESS,
            write_checksum=False,
            write_content_size=False,
            write_dict_id=False,
        )
        self.small = zstandard.ZstdCompressor(dict_data=words, compression_params=short)
        self.unsmall = zstandard.ZstdDecompressor(dict_data=words, format=zstandard.FORMAT_ZSTD1_MAGICLESS)
        self.large = zstandard.ZstdCompressor(level=3)
        self.unlarge = zstandard.ZstdDecompressor()


_packers = _Packers()


def pack_small(text: bytes) -> bytes:
    """Pack a text if it is small and gets smaller; else return it as it is. JSON texts only."""
    if len(text) > SMALL:
        return text
    packed: bytes = _packers.small.compress(text)
    # The sum of the bytes is not the same after any one of them was changed, and takes one byte and next to no time.
    return WITH_WORDS_1 + _CHECKS[sum(packed) & 0xFF] + packed if len(packed) + 2 < len(text) else text


def pack(text: bytes) -> bytes:
    """Pack a text of any size if it gets smaller; else return it as it is. JSON texts only."""
    if len(text) <= SMALL:
        return pack_small(text)
    packed: bytes = _packers.large.compress(text)
    return PLAIN_ZSTD + _crc(packed) + packed if len(packed) + 5 < len(text) else text


def _crc(packed: bytes) -> bytes:
    return crc32(packed).to_bytes(4, "big")


def unpack(stored: bytes) -> bytes:
    """Return the text that was packed.

    Raises:
        ValueError: the stored bytes are not what `pack` made.
    """
    first = stored[:1]
    try:
        if first == WITH_WORDS_1:
            packed = stored[2:]
            if stored[1:2] != _CHECKS[sum(packed) & 0xFF]:
                raise ValueError("the packed bytes were changed")
            text: bytes = _packers.unsmall.decompress(packed, max_output_size=SMALL)
        elif first == PLAIN_ZSTD:
            packed = stored[5:]
            if stored[1:5] != _crc(packed):
                raise ValueError("the packed bytes were changed")
            if zstandard.frame_content_size(packed) not in range(LARGEST):
                raise ValueError("the packed text claims to be larger than any")
            text = _packers.unlarge.decompress(packed)
        else:
            return stored
    except (zstandard.ZstdError, MemoryError) as error:
        raise ValueError("the stored bytes cannot be unpacked") from error
    return text
