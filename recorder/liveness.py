"""Whether the process that records a run is provably gone: then a run that never ended has crashed.

Nothing is written when a process is killed, so "crashed" is derived. A process is known by its host, the host's boot,
its process namespace, its pid and the time it started; a pid alone is used again. On another host, or from another
namespace, nothing can be proved, and nothing is claimed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .environment import process_identity, process_start


def is_gone(process: Mapping[str, Any] | None) -> bool:
    """Say whether the process of that identity has provably ended."""
    if not process:
        return False
    here = process_identity()
    if process.get("host") != here["host"] or not process.get("boot"):
        return False
    if process["boot"] != here["boot"]:
        return True  # the host was started anew since
    if process.get("namespace") != here["namespace"] or not os.path.exists("/proc/self/stat"):
        return False
    pid = process.get("pid")
    return type(pid) is int and process_start(pid) != process.get("start")
