"""The payload after any event of a run, for who needs no more of the state: one snapshot, and the changes since.

Only the events that change the payload are decoded. That each was made over the payload before it is checked on the
way, and where a payload is handed out, that it is the one that was recorded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ..recorder.errors import CorruptLog
from ..recorder.store import FIRST, EventStore, RunInfo
from .reducer import reduce
from .snapshots import load_state
from .state import RunState

_KINDS: Final = frozenset(("run.started", "payload.changed"))


class PayloadReader:
    """Reads payloads of one run; forward from the last one that it read where that is shortest.

    Args:
        store, info: the run.
    """

    def __init__(self, store: EventStore, info: RunInfo) -> None:
        self._store, self._info = store, info
        self.state = RunState(run=info.id)

    def after(self, seq: int) -> Any:
        """The payload after an event, in stored form; None before the first.

        Raises:
            CorruptLog: the log does not lead to it.
        """
        state = self._nearest(seq)
        for row in self._store.rows(self._info, state.last_seq, seq):
            if row.kind in _KINDS:
                event = self._store.decode(self._info, row, conversations=False)
                follows = event.kind == "run.started" or event.data.hash_before == state.payload_hash
                # The events in between leave the payload alone; here the state passes over them.
                state = replace(state, last_seq=event.seq - 1, round=event.round, ended=False)
                state = reduce(state, event, check=not follows)
        self.state = state = replace(state, last_seq=max(seq, FIRST))
        if state.payload_hash and state.memo.hash_of(state.stored_payload) != state.payload_hash:
            raise CorruptLog(
                f"{self._info.id}: the payload after event {seq} is not the one that was recorded. "
                f"`agentreplay verify {self._info.id}` checks the stored bytes.",
                run=self._info.id,
                seq=seq,
            )
        return state.stored_payload

    def take_over(self, other: PayloadReader, theirs: int, ours: int) -> None:
        """Take the payload after event `theirs` of another run for the one after event `ours` of this; they are equal.

        So of two runs that differ late, one is folded.
        """
        payload, state = other.after(theirs), other.state
        self.state = replace(state, run=self._info.id, stored_payload=payload, last_seq=ours)

    def _nearest(self, seq: int) -> RunState:
        """A state at the event or before."""
        known = self.state
        row = next(self._store.rows(self._info, seq - 1, seq), None) if seq >= 0 else None
        # A snapshot is the state at the end of a step, so that of the event's own step may be behind it.
        kept = None if row is None else self._store.snapshot(self._info, row.round - 1)
        if FIRST < known.last_seq <= seq and (kept is None or kept.seq <= known.last_seq):
            return known
        state = None if kept is None or kept.seq > seq else load_state(kept.state, self._info.id)
        return RunState(run=self._info.id) if state is None else state
