"""Python's garbage collector, which rests while a recording is read.

All that is made then stays as long as the replay. The collector would go through it again and again as it grows, find
nothing, and take a fifth of the time of a replay with that.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Let the collector rest within the block; afterwards it is as it was."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()
