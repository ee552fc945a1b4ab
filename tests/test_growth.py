"""What recording costs grows with what there is: neither depth nor sharing multiplies it. Steps are counted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from agentreplay.recorder.copying import copy_value
from agentreplay.recorder.frozen import freeze
from agentreplay.recorder.hashes import comparison_hash
from agentreplay.recorder.live_payload import LivePayload
from agentreplay.recorder.plain import MAX_REPEATS
from agentreplay.recorder.redaction import Redactor
from agentreplay.recorder.values import decode, encode, encode_bytes, is_plain


def steps(work: Callable[[], Any]) -> int:
    """The calls that some work takes, of functions in Python and in C."""
    count = 0

    def look(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def lists(depth: int) -> Any:
    """Lists within lists."""
    tree: Any = 1
    for _ in range(depth):
        tree = [tree]
    return tree


def dicts(depth: int) -> Any:
    """Dicts within dicts."""
    tree: Any = 1
    for number in range(depth):
        tree = {"a": tree, "b": number}
    return tree


@dataclass
class Pair:
    """Two values."""

    left: Any
    right: Any


def doubled(pair: Callable[[Any, Any], Any], levels: int) -> Any:
    """A value that holds the next one twice, and so on."""
    tree: Any = pair(1, 2)
    for _ in range(levels):
        tree = pair(tree, tree)
    return tree


WORK: dict[str, Callable[[Any], Any]] = {
    "encode": encode_bytes,
    "copy": copy_value,
    "freeze": freeze,
    "hash": lambda tree: comparison_hash(encode(tree).stored),
    "redact": lambda tree: Redactor(b"key").redact(encode(tree).stored),
    "decode": lambda tree: decode(encode(tree).stored),
}


@pytest.mark.parametrize("make", [lists, dicts])
@pytest.mark.parametrize("work", WORK)
def test_twice_the_depth_takes_twice_the_steps(work: str, make: Callable[[int], Any]) -> None:
    """Down to ten thousand levels."""
    first, second = make(5_000), make(10_000)
    assert steps(lambda: WORK[work](second)) < 2.5 * steps(lambda: WORK[work](first))


@pytest.mark.parametrize(
    "pair",
    [lambda a, b: [a, b], lambda a, b: {"a": a, "b": b}, lambda a, b: (a, b), Pair],
    ids=["list", "dict", "tuple", "dataclass"],
)
@pytest.mark.parametrize("work", ["encode", "copy"])
def test_shared_parts_do_not_multiply(work: str, pair: Callable[[Any, Any], Any]) -> None:
    """Forty levels that are each shared twice are forty objects; what is left out of the record is listed."""
    tree = doubled(pair, 40)
    assert steps(lambda: WORK[work](tree)) < 2_000_000
    data, _, lossy = encode_bytes(tree)
    assert len(data) < 500_000
    assert lossy != ()


def test_wide_sharing_does_not_multiply() -> None:
    """A thousand times the same list, a thousand times over, in few levels."""
    tree: Any = [1] * 1000
    for _ in range(3):
        tree = [tree] * 1000
    assert steps(lambda: encode_bytes({"a": tree})) < 3_000_000


def test_shared_parts_are_written_out_up_to_a_bound() -> None:
    """What repeats less than that is stored exactly."""
    row = list(range(100))
    some, many = [row] * 1000, [row] * (MAX_REPEATS // 20)
    assert encode_bytes(some)[2] == ()
    assert is_plain(some)
    assert not is_plain(many)
    assert encode_bytes(many)[2] != ()


def test_large_values_that_share_nothing_are_stored_exactly() -> None:
    """However large: the bound is on repeats."""
    rows = [{"id": number, "at": (number,)} for number in range(60_000)]
    assert encode_bytes(rows)[2] == ()
    assert is_plain([[number] for number in range(600_000)])


@pytest.mark.parametrize("beside", [{}, {"since": date(2026, 11, 30)}], ids=["plain", "with a date"])
def test_a_change_takes_the_same_steps_however_large_the_payload(beside: dict[str, Any]) -> None:
    """Of a payload that is plain JSON, and of one that is not."""
    few, many = (
        LivePayload({"rows": [{"id": n} for n in range(count)], "n": 0} | beside, Redactor(b"key"))
        for count in (10, 1_000)
    )
    request = {"updateElements": {"n": 1}}
    assert steps(lambda: many.change(request, "memberjunction", {})) < 1.5 * steps(
        lambda: few.change(request, "memberjunction", {})
    )
