"""How much of the stack is left, asked before what must not run out of it half way."""

from __future__ import annotations

import sys
from typing import Final

FRAMES_OF_AN_APPEND: Final = 250
"""More than encoding an event and storing it takes."""

FRAMES_OF_A_RUN: Final = 350
"""More than beginning a run takes."""

FRAMES_OF_A_THREAD: Final = 50
"""More than starting a thread and waiting for it takes."""


def has_room(frames: int) -> bool:
    """Say whether so many calls can still be nested here. Costs next to nothing in the first third of the stack."""
    try:
        sys._getframe(sys.getrecursionlimit() // 3)
    except ValueError:
        return True
    try:
        _go_down(frames)
    except RecursionError:
        return False
    return True


def _go_down(frames: int) -> None:
    if frames:
        _go_down(frames - 1)
