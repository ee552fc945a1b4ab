"""The threads that agentreplay has started in this process, for tests that look whether any stays."""

from __future__ import annotations

import threading
import time
from typing import Final

OTHERS: Final = ("agentreplay-overview", "agentreplay-replay")
"""The web pages have one that ends when idle, and replays leave behind those whose code would never have ended."""


def threads_of_ours() -> list[str]:
    """The names of those that end with what they were started for."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("agentreplay") and name not in OTHERS]


def wait_until_no_thread_of_ours() -> None:
    """Wait until all of them have ended; they have a few seconds."""
    deadline = time.monotonic() + 5
    while threads_of_ours():
        assert time.monotonic() < deadline, threads_of_ours()
        time.sleep(0.005)
