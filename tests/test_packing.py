"""Packing gives back what was packed, and damaged bytes are refused."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import zlib

import pytest
from agentreplay.recorder.packing import WORDS_1, pack, pack_small, unpack
from hypothesis import given
from hypothesis import strategies as st

EVENT = b'{"call":"7.1","result":{"id":"A-17","total":129.5},"duration":0.000123}'

DIGEST = "ab69f7abf67db88060994ea598b3064ce853d4b3ba7491aa9843af0fbdfecef2"
PACKED = "022800001d0100530104d9350635be318c155906c7da5816140305fc570e0cb475ff4c28642d550e4c06"

json_texts = st.one_of(
    st.binary(max_size=2_000).map(lambda tail: b"{" + tail),
    st.integers(0, 3_000).map(lambda n: b'{"text":"' + b"lorem ipsum " * n + b'"}'),
    st.just(b""),
)


@given(json_texts)
def test_what_is_packed_comes_back(text: bytes) -> None:
    """Packing loses nothing, and never makes a text longer."""
    for packed in (pack(text), pack_small(text)):
        assert unpack(packed) == text
        assert len(packed) <= len(text)


def test_small_events_take_half_the_room() -> None:
    """The dictionary knows what events look like."""
    assert len(pack(EVENT)) < len(EVENT) * 0.62


def test_the_dictionary_never_changes() -> None:
    """It is part of the format: stores made by any release open in every later one."""
    assert hashlib.sha256(WORDS_1.encode()).hexdigest() == DIGEST
    assert unpack(bytes.fromhex(PACKED)) == EVENT


@given(st.binary(max_size=60), st.sampled_from([b"\x01", b"\x02"]))
def test_bytes_that_were_not_packed_are_refused_or_read(tail: bytes, first: bytes) -> None:
    """Whatever stands in a file, unpacking gives bytes or a ValueError, and never runs out of memory."""
    with contextlib.suppress(ValueError):
        assert type(unpack(first + tail)) is bytes


def test_a_claim_to_be_huge_is_refused() -> None:
    """A few bytes that say that they unpack to terabytes."""
    frame = bytes.fromhex("28b52ffde0ffffffffffff0000010000")
    with pytest.raises(ValueError, match="claims"):
        unpack(b"\x01" + zlib.crc32(frame).to_bytes(4, "big") + frame)


@pytest.mark.parametrize("text", [EVENT, b'{"text":"' + b"lorem ipsum " * 200 + b'"}'])
def test_any_changed_bit_is_seen(text: bytes) -> None:
    """Packed bytes of which one bit was turned over are refused, also where they would unpack to the same text."""
    packed = pack(text)
    for bit in range(len(packed) * 8):
        changed = bytearray(packed)
        changed[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(ValueError):
            assert unpack(bytes(changed)) != text


def test_threads_do_not_share_compressors() -> None:
    """Packing in many threads at once gives the same bytes."""
    expected = pack(EVENT)
    wrong = []

    def work() -> None:
        for _ in range(2_000):
            if pack(EVENT) != expected or unpack(expected) != EVENT:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
