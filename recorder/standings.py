"""How a run stands that never ended: what its row in the store does not say, read from the end of its log.

Nobody notes that a round has begun, or that a process was killed. So of a run whose row says "running" two things are
derived whenever it is looked at: how many steps have begun (`log_end`), which is kept in mind for each end of its log,
and whether it goes on, has crashed, or is silent (`liveness`), which changes without an event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from .errors import AgentReplayError
from .liveness import standing_of
from .log_end import rounds_begun
from .run_info import FIRST, RunInfo
from .values import loads

if TYPE_CHECKING:
    from .event_codec import StoredEvent

RUNS_AT_HAND: Final = 4_096
"""Runs that have not ended of which it is kept in mind how many steps have begun."""

Rows: TypeAlias = "Callable[[RunInfo, int, int | None], Iterator[StoredEvent]]"
OwnRows: TypeAlias = "Callable[[int, int, int | None], Iterator[StoredEvent]]"
"""Give the stored events with `after` < seq <= `until` of a run, in order; the second takes its number, and leaves out
those that a fork shares."""


class Standings:
    """Says of the runs of one store how they stand."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[str, int]] = {}  # by uid: the head, and the steps that have begun there

    def now(self, info: RunInfo, rows: Rows, own_rows: OwnRows, heartbeat: Callable[[int], int | None]) -> RunInfo:
        """The run as it stands; as its row says, if it has ended or its log is damaged.

        Args:
            info: the run, as its row says.
            rows, own_rows: give its events.
            heartbeat: gives by its number when its last heartbeat was, in microseconds since 1970; None without one.
        """
        if info.status != "running" or info.head_seq < FIRST:
            return info
        try:
            info = replace(info, steps=self._steps_begun(info, own_rows))
            if info.process_seq is None:
                return info
            standing = standing_of(_process_of(info, rows), lambda: _last_sign(info, rows, heartbeat))
        except (AgentReplayError, ValueError, TypeError, AttributeError):
            return info  # a damaged log: whoever reads it is told so
        return replace(info, status="crashed" if standing.crashed else "running", silent_since=standing.silent_since)

    def _steps_begun(self, info: RunInfo, own_rows: OwnRows) -> int:
        head, steps = self._begun.get(info.uid, (None, 0))
        if head != info.head_hash or not head:
            steps = rounds_begun(info, partial(own_rows, info.number))
            if len(self._begun) >= RUNS_AT_HAND:
                self._begun.clear()
            self._begun[info.uid] = info.head_hash, steps
        return steps


def _process_of(info: RunInfo, rows: Rows) -> Any:
    """The identity of the process that records a run, from its start or where it was resumed last."""
    seq = info.process_seq or 0
    row = next(rows(info, seq - 1, seq), None)
    return loads(row.body).get("process") if row is not None and row.body is not None else None


def _last_sign(info: RunInfo, rows: Rows, heartbeat: Callable[[int], int | None]) -> int:
    """When a run was heard of last: by its last event, or a heartbeat since, or in that it was created."""
    last = next(rows(info, info.head_seq - 1, None), None) if info.head_seq >= 0 else None
    heard = heartbeat(info.number)
    return max(info.started, last.time if last is not None else 0, heard or 0)
