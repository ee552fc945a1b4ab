"""Whether a run that has not ended goes on: proved by the process that records it, else told by signs of life.

Nothing is written when a process is killed, so "crashed" is derived. A process is known by its host, the host's boot,
its process namespace, its pid and the time it started; a pid alone is used again. On another host, or from another
namespace, nothing can be proved, and nothing is claimed but what can be seen: when the run was heard of last, by an
event or a heartbeat (`heartbeat`). After a while without either it is "silent since" then; it may still go on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from .environment import process_identity, process_start

SILENT_AFTER: Final = 60.0
"""Seconds without a sign of life after which a run is called silent; as long as four heartbeats take."""

CLOCKS_DIFFER: Final = 5.0
"""Seconds by which the clock may have been set since something was written before the host was started anew."""


class Standing(NamedTuple):
    """What can be said of a run that has not ended.

    Attributes:
        crashed: its process is provably gone.
        silent_since: microseconds since 1970: when it was heard of last, if nothing is proved and that is long ago.
    """

    crashed: bool = False
    silent_since: int | None = None


def standing_of(process: Mapping[str, Any] | None, last_sign: Callable[[], int]) -> Standing:
    """Say what became of a run that has not ended.

    Args:
        process: the identity of the process that records it, as far as it is known.
        last_sign: gives the time of its last sign of life, in microseconds since 1970. Asked if it is needed.
    """
    proved = is_there(process)
    if proved:
        return Standing()
    if proved is False and _is_of_this_boot(process):
        return Standing(crashed=True)
    heard = last_sign()
    # What is heard of after this boot was no process of an earlier one: another machine has this host's name.
    if proved is False and heard / 1e6 < time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + CLOCKS_DIFFER:
        return Standing(crashed=True)
    return Standing(silent_since=heard if time.time() - heard / 1e6 > SILENT_AFTER else None)


def is_there(process: Mapping[str, Any] | None) -> bool | None:
    """Whether the process of that identity runs; None where neither can be proved."""
    if not process:
        return None
    here = process_identity()
    if process.get("host") != here["host"] or not process.get("boot"):
        return None
    if process["boot"] != here["boot"]:
        return False  # the host was started anew since
    pid, start = process.get("pid"), process.get("start")
    if process.get("namespace") != here["namespace"] or type(pid) is not int or type(start) is not int:
        return None
    if not os.path.exists("/proc/self/stat"):
        return None
    found = process_start(pid)
    return None if found is None and _is_hidden(pid) else found == start


def is_gone(process: Mapping[str, Any] | None) -> bool:
    """Say whether the process of that identity has provably ended."""
    return is_there(process) is False


def _is_hidden(pid: int) -> bool:
    """Whether there is a process of another user's that /proc does not show (its option `hidepid`)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _is_of_this_boot(process: Mapping[str, Any] | None) -> bool:
    return process is not None and process.get("boot") == process_identity()["boot"]
