"""Executing code in a process of its own, beside one that waits for it, so that whatever it does a verdict is given.

Code may end its process: `os._exit(0)`, a crash of a library, another program in its place. Where it was executed in
the only process there is, nobody is left to say so, and exit code 0 would count as a success. So this process forks
before there is a thread or a store, which takes a few milliseconds. The child does all the work, with the same terminal
and the same standard input; it notes in a shared page that its verdict was given. What waits passes Ctrl-C and SIGTERM
on, takes the child along when it ends itself, and ends it when its time is over.

Systems without fork have no guard; there the code has the only process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from .group import DIFFERENCE, exists_for_one_verb
from .replay_words import ended_with, took_longer
from .streams import complain

_PASSED_ON: Final = ("SIGINT", "SIGTERM", "SIGHUP")
_ONCE: Final = 0.5
"""Seconds in which Ctrl-C counts once: a terminal sends it to both processes, and the one that waits passes it on."""

_SAID: Final = 1
_RAISED: Final = 2
_PR_SET_PDEATHSIG: Final = 1


def can_guard() -> bool:
    """Whether this process may fork: it exists for one verb, and is nobody's test or program."""
    return hasattr(os, "fork") and exists_for_one_verb()


def guarded(verb: Callable[[], int], name: str, seconds: float | None) -> int:
    """Do a verb in a process of its own; its exit code, or that of a difference if it ended without a verdict.

    Args:
        verb: what is done there; it returns its exit code.
        name: of what is executed, for messages.
        seconds: how long it may take; None for ever.
    """
    page = mmap.mmap(-1, 2)  # shared with the child
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        return _do(verb, page, parent)
    return _Guard(child, name, seconds).wait(page)


def _do(verb: Callable[[], int], page: mmap.mmap, parent: int) -> int:
    _end_with(parent)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _once())
    process = os.getpid()
    try:
        code = verb()
    except BaseException:
        if os.getpid() == process:
            page[0] = _RAISED
        raise
    if os.getpid() == process:  # and not one that the code has forked
        page[0], page[1] = _SAID, code
    return code


def _once() -> Callable[[int, FrameType | None], None]:
    last = -_ONCE

    def interrupted(number: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _ONCE:
            last = now
            raise KeyboardInterrupt

    return interrupted


def _end_with(parent: int) -> None:
    """Have this process end when its parent does, however that ends, where the system offers it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(DIFFERENCE)


class _Guard:
    """The process that waits."""

    def __init__(self, child: int, name: str, seconds: float | None) -> None:
        self._child = child
        self._name = name
        self._seconds = seconds
        self._is_late = False
        self._told: int | None = None

    def wait(self, page: mmap.mmap) -> int:
        """Wait for the child; the exit code."""
        for number in (getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._pass_on)
        if self._seconds is not None:
            signal.signal(signal.SIGALRM, self._end)
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
        _, status = os.waitpid(self._child, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        code = os.waitstatus_to_exitcode(status)
        if self._told in (signal.SIGTERM, getattr(signal, "SIGHUP", None)) and code < 0:
            signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        said = page[0]
        if said == _SAID:
            return code if code > 0 else page[1]
        if said == _RAISED and code > 0:
            return code
        complain(f"{self._name}: {took_longer(self._seconds) if self._is_late else ended_with(code)}")
        return DIFFERENCE

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._told = number
        os.kill(self._child, number)  # it was not waited for yet, so it is no other process

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._is_late = True
        os.kill(self._child, signal.SIGKILL)
