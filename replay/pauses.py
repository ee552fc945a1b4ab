"""How long code took by itself while it was recorded, which tells how long to wait for it now.

Whether code that does nothing to be seen still works at something, or waits for what never comes, cannot always be
told. But the recording knows how long it was silent there: code that slept for a second between two calls may do so
again. So whoever takes silence for an end gives it some times as long as it took, and a moment more.
"""

from __future__ import annotations

from datetime import datetime

from ..recorder.events import Event

_AHEAD = 1
"""Rounds after the one that runs whose pauses count, too: code may be on its way there."""


class Pauses:
    """The longest time, in each round, in which a run was silent although no call was open."""

    def __init__(self) -> None:
        self._longest: dict[int, float] = {}
        self._open: set[str] = set()
        self._last: datetime | None = None

    def add(self, event: Event) -> None:
        """Take the next event of the run, whoever added it."""
        kind = event.kind
        if kind in ("run.resumed", "run.forked", "run.started"):  # what came before was no work of the code's
            self._open.clear()
        elif self._last is not None and not self._open:
            paused = (event.time - self._last).total_seconds()
            if paused > self._longest.get(event.round, 0.0):
                self._longest[event.round] = paused
        self._last = event.time
        if kind == "round.started":  # a call that was unwound stays open in the log
            self._open.clear()
        elif kind in ("tool.called", "model.called"):
            self._open.add(event.data.call)
        elif kind == "subrun.started":
            self._open.add(event.data.run)
        elif kind == "subrun.finished":
            self._open.discard(event.data.run)
        elif kind.endswith((".returned", ".failed", ".cancelled")):
            self._open.discard(getattr(event.data, "call", ""))

    def around(self, round: int) -> float:
        """Seconds that the code was silent at most in a round, or on the way to the next."""
        return max(self._longest.get(number, 0.0) for number in range(round, round + _AHEAD + 1))
