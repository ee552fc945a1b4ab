"""Where threads stand: their places in code, the innermost first, walked while none of them goes on.

A frame leads to the one around it as long as its thread stays where it is. In CPython 3.11 the frame of one that goes
on in the middle of a walk may lead anywhere. So the walk has the interpreter to itself: threads that want it ask only
after a tenth of a second, and those that asked before are let through first.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Final, NamedTuple, TypeAlias

UNDISTURBED: Final = 0.1
"""Seconds in which no thread asks for the interpreter; a walk takes less than a millisecond."""

DEPTH: Final = 400
"""Frames of a thread that are walked."""


class Spot(NamedTuple):
    """A place in code: the number of its instruction, and its line (0 of an instruction without one)."""

    code: CodeType
    at: int
    line: int


Stack: TypeAlias = tuple[Spot, ...]


def stacks_of(idents: Iterable[int]) -> dict[int, Stack]:
    """Where threads stand, by ident; of those that are there."""
    wanted = set(idents)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(UNDISTURBED)
    try:
        time.sleep(0)  # who has asked for its turn already gets it now
        frames = sys._current_frames()
        return {ident: _walked(frames[ident]) for ident in wanted if ident in frames}
    finally:
        sys.setswitchinterval(interval)


def _walked(frame: FrameType | None) -> Stack:
    spots: list[Spot] = []
    while type(frame) is FrameType and len(spots) < DEPTH:
        spots.append(Spot(frame.f_code, frame.f_lasti, frame.f_lineno or 0))
        frame = frame.f_back
    return tuple(spots)
