"""The code that a person has named to be run: the runs that it records are known by it, and not by what opens them.

`agentreplay run shop.py:go` calls `go`, which may call `main("alice")`, where the run is opened. To execute that again,
`go` is to be called: `main` alone would begin for another customer. A step that a factory has made cannot even be
reached but by the name that the person has typed. So while a command runs code, it says here what was named.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

_named: Final[list[tuple[int, dict[str, str]]]] = []
"""What was named, with the pid: a process that is forked from this one runs something else."""


def place_in(module: ModuleType, name: str) -> dict[str, str] | None:
    """Where on this machine a name in a module is: {file, name, module, host}; None if the module has no file."""
    file = vars(module).get("__file__")
    if not isinstance(file, str) or not os.path.isfile(file):
        return None
    return {"file": os.path.abspath(file), "name": name, "module": module.__name__, "host": socket.gethostname()}


@contextmanager
def code_is_named(place: dict[str, str] | None) -> Iterator[None]:
    """In this block, in any thread, runs are recorded by code that a person has named; None if nobody has."""
    if place is None:
        yield
        return
    named = os.getpid(), place
    _named.append(named)
    try:
        yield
    finally:
        _named.remove(named)


def named_code() -> dict[str, str] | None:
    """Where the code is that was named, if this process runs such."""
    return next((place for pid, place in reversed(_named) if pid == os.getpid()), None)
