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
N6Qw7MAJGQw3EKgikzYwMzMzMzMzMzMzE6WgNKJG2lBrrUUoosjunTFuxUmSJEmSJEnygJFbcmX3HEDEzMyCD+MBABAMhYOFsEQ3
AAAEAAbJRYKEi8lEB0YjAZBUBoTJwsAgCERFAAwCAIADAZqRpCTBAAAAJI4F4sMzgiSMAzEKoygO5EDOGMJYAAAAAQAAAAQAAAAI
AAAAZSIsInZhbHVlIjoiMjAyNi0xMS0zMFQxNDoyMDozMS40NTUxODYiLCJ6b25lIjp7IiR0eXBlIjoidGltZXpvbmUiLCJvZmZz
ZXRfbWljcm9zZWNvbmRzIjowfX19eyJzb3VyY2UiOiJ1dWlkIiwic2l0ZSI6Imdlbi5weTozOSIsInZhbHVlIjp7IiR0eXBlIjoi
dXVpZCIsInZhbHVlIjoiNDljYTVlNzctYjE3ZS00MjI3LTk1ZjQtOTgxYjQ4NWM3ZjU0In19eyJkZWNpc2lvbiI6eyJzdGVwIjoi
VW5kZWNpZGVkIiwibWVzc2FnZSI6InRoZSByb3VuZCBlbmRlZCB3aXRob3V0IGEgZGVjaXNpb24ifX17Im91dGNvbWUiOiJjb250
aW51ZSIsInBheWxvYWRfaGFzaCI6Im1lcmtsZTE6OTAwMjYwYWQwOWI0MzMzNzM5YmJjYjA0YjI0NmNhYjQyZmM0YTRkYTg0MDNk
ZGFiMjM2ZTdhZTMyZGI0NThkMiIsImR1cmF0aW9uIjowLjAwMDUzNzg1MDAwMDAwMDYxN317fXsibWVzc2FnZSI6eyJyb2xlIjoi
dXNlciIsImNvbnRlbnQiOiI3VHJlbGtTMUJnZmltMnpTIn19eyJjYWxsIjoiNC4xIiwibmFtZSI6ImNsYXVkZS1zb25uZXQtNSIs
Im1vZGVsIjoiY2xhdWRlbGwiOiIxLjEiLCJuYW1lIjoiZ3B0LTUiLCJtb2RlbCI6ImdwdC01IiwicmVxdWVzdCI6eyJtZXNzYWdl
cyI6eyIkdHlwZSI6Im1lc3NhZ2VzIiwiaGFzaCI6InNoYTI1NjpjMDAwZjg1NWNjNDVmYjYwN2UzYmM5ZjlkZmYxNDQ5MjAwMDM3
MzU5MjQ3ZWFkNDQ2ZjU3YmI5OTUyYjczN2MzIiwiY291bnQiOjF9fX17ImNhbGwiOiIxLjEiLCJyZXNwb25zZSI6eyJpZCI6ImNo
YXRjbXBsLVpKaGxza2o3Iiwib2JqZWN0IjoiY2hhdC5jb21wbGV0aW9uIiwiY2hvaWNlcyI6W3siaW5kZXgiOjAsIm1lc3NhZ2Ui
Onsicm9sZSI6ImFzc2lzdGFudCIsImNvbnRlbnQiOiJzcWxkVENmMWhrMCIsInRvb2xfY2FsbHMiOlt7ImlkIjoiY2FsbF9iNmln
QW9nUGciLCJ0eXBlIjoiZnVuY3Rpb24iLCJmdW5jdGlvbiI6eyJuYW1lIjoibGFiZWwiLCJhcmd1bWVudHMiOiJ7XCJuYW1lXCI6
IFwiNTZ1Tng4NG5xV290cWpQVFVtV1V1YVlcIn0ifX1dfSwiZmluaXNoX3JlYXNvbiI6InN0b3AifV0sInVzYWdlIjp7InByb21w
dF90b2tlbnMiOjMsImNvbXBsZXRpb25fdG9rZW5zIjo0LCJ0b3RhbF90b2tlbnMiOjd9fSwidXNhZ2UiOnsicHJvbXB0X3Rva2Vu
cyI6MywiY29tcGxldGlvbl90b2tlbnMiOjQsInRvdGFsX3Rva2VucyI6N30sInN0b3BfcmVhc29uIjoic3RvcCIsImR1cmF0aW9u
IjowLjAwMDAzMDc5NTk5OTkxOTA2NDM0fXsiY2FsbCI6IjEuMiIsIm5hbWUiOiJsb29rdXAiLCJhcmd1bWVudHMiOnsiY291bnQi
Ojk4MDA2fSwic2FmZXR5IjoicHVyZSJ9eyJjYWxsIjoiMS4yIiwicmVzdWx0Ijp7InN0YXR1cyI6WyJNR080QlVrQUs2b2JtTjgi
XX0sImR1cmF0aW9uIjowLjAwMDAxMjU1Nzk5OTk4MDM0NDkwM317ImFwcGxpZXIiOnsibmFtZSI6Im1lbWJlcmp1bmN0aW9uIiwi
dmVyc2lvbiI6MX0sInJlcXVlc3QiOnsibmV3RWxlbWVudHMiOnsidG90YWwiOjQ2ODg2fSwidXBkYXRlRWxlbWVudHMiOnsidGVz
dCI6MjIwLjg2fX0sInNvdXJjZSI6eyJraW5kIjoiY29kZSJ9LCJyZWFzb24iOiJuSFhRTGdKZklwSUhKa3UwbXpFTzlFIiwiY291
bnRzIjp7ImFkZGl0aW9ucyI6MiwidXBkYXRlcyI6MCwiZGVsZXRpb25zIjowfSwid2FybmluZ3MiOlsiQXV0by1jb3JyZWN0ZWQ6
ICd0ZXN0JyB3YXMgaW4gdXBkYXRlRWxlbWVudHMgYnV0IGRvZXNuJ3QgZXhpc3QgKHRyZWF0ZWQgYXMgYWRkaXRpb24pIl0sImhh
c2hfYmVmb3JlIjoibWVya2xlMTo3NjU4M2Q5NTZjZDhkOTEyNzYxZmMzNjEzNDE1N2Q2NmZiNDk3ZWM1YzExNWMwZGRlNjI2Zjlm
NmU5MjQ1NzI3IiwiaGFzaF9hZnRlciI6Im1lcmtsZTE6MzA3MzhhNzU1NzY2OWMzNTBiZjU1MDQwN2E3ZTk3ODNhNzQ5YzBkZTFl
ZDU0MDUxZDhhZWUzNjJiMWE3YmMxYiI=
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
