"""One append at a time in each thread.

While an event is encoded and stored, code of the user's can run in the same thread: a `__repr__`, or a finaliser when
the garbage collector comes by, such as the end of an abandoned generator that is a recorded call. What that code
appends must not land in the middle, where numbers are given and a transaction is open. It is put off until the append
is through.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class _Appending(threading.local):
    """`with appending:` is an append of this thread."""

    busy = False

    def __init__(self) -> None:
        self.later: deque[Callable[[], object]] = deque()

    def __enter__(self) -> None:
        self.busy = True

    def __exit__(self, *_: object) -> None:
        self.busy = False

    def put_off(self, append: Callable[[], object]) -> bool:
        """If an append goes on in this thread, have `append` called later. Says whether it was put off."""
        if self.busy:
            self.later.append(append)
        return self.busy

    def catch_up(self) -> None:
        """Do what was put off, now that the append is through."""
        while self.later and not self.busy:
            self.later.popleft()()


appending = _Appending()
