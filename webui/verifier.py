"""Verifying a store beside the pages: in a thread of its own, one time after the other, as far as it has come."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Final

from ..recorder.errors import AgentReplayError, CorruptLog
from ..recorder.store import EventStore, RunInfo
from ..recorder.verifying import Problem

PROBLEMS: Final = 500
"""Problems that are kept."""


@dataclass(frozen=True, slots=True)
class Check:
    """A verification: of how many runs, how many are done, what was found.

    Attributes:
        running: whether it goes on.
        failure: why it broke off, or empty.
    """

    runs: int = 0
    done: int = 0
    events: int = 0
    running: bool = False
    problems: tuple[Problem, ...] = ()
    failure: str = ""


@dataclass(slots=True)
class Verifier:
    """Verifies the runs of a store in a thread of its own, one time after the other.

    Attributes:
        check: the last verification, or the one that goes on; None before the first.
    """

    store: EventStore
    check: Check | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Verify, unless that goes on already."""
        with self._lock:
            if self.check is not None and self.check.running:
                return
            self.check = Check(running=True)
        threading.Thread(target=self._work, name="agentreplay-verify", daemon=True).start()

    def _work(self) -> None:
        check = Check(running=True)
        try:
            infos = self.store.runs()
            check = replace(check, runs=len(infos))
            for info in infos:
                found = self._problems(info)
                check = replace(
                    check,
                    done=check.done + 1,
                    events=check.events + max(info.head_seq + 1, 0),
                    problems=(*check.problems, *found)[:PROBLEMS],
                )
                self.check = check
            check = replace(check, problems=(*check.problems, *self.store.verify_whole())[:PROBLEMS])
        except AgentReplayError as error:
            check = replace(check, failure=str(error))
        finally:
            self.check = replace(check, running=False)

    def _problems(self, info: RunInfo) -> list[Problem]:
        try:
            return self.store.verify(info)
        except CorruptLog as error:
            return [Problem(info.id, error.seq, str(error))]
