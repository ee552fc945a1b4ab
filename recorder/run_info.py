"""What a store knows of a run beside its events: its row in the list of runs, where its log ends, its snapshots.

The row follows from the events, so it can be checked against them; a store keeps it so that a list of runs need not
read the logs. `Summary` is what an append changes of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from .event_codec import StoredEvent
    from .events import Event

FIRST: Final = -1
"""The `expected_seq` of a run without events."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a store knows of a run without reading its events.

    Attributes:
        number: local to this store; `id` is "run<number>".
        uid: UUIDv7, the run's name everywhere.
        status: running, completed, failed, cancelled, interrupted; crashed is derived, see `liveness`.
        steps: rounds that have started, those that a fork shares included.
        started, finished: microseconds since 1970, UTC; 0 and None when not yet.
        origin: "recorded", or "imported" from another tool; of what came in a cassette also "prefix", if only the
            events are here that a fork shares, or "salvaged", if its file had lost its end.
        parent: the uid of the run that started this one, for a child run.
        fork_of, fork_seq: the uid of the run this one was forked from, and the last event they share.
        head_seq, head_hash: the last event, as the last append left it; `LOST` if that is gone.
        process_seq: the event that names the process that records the run: its start, or the last time it was
            resumed. None if nobody does, because its last events came from elsewhere.
        silent_since: of a run of which nothing can be proved: when it was heard of last, if that is long ago, in
            microseconds since 1970. Derived, see `liveness`.
    """

    number: int
    uid: str
    agent: str = ""
    status: str = "running"
    steps: int = 0
    started: int = 0
    finished: int | None = None
    origin: str = "recorded"
    parent: str | None = None
    fork_of: str | None = None
    fork_seq: int | None = None
    head_seq: int = FIRST
    head_hash: str = ""
    process_seq: int | None = None
    silent_since: int | None = None

    @property
    def is_partial(self) -> bool:
        """Whether only a beginning of it is here, and came from elsewhere: nobody records it, nor did it crash."""
        return self.status == "running" and self.process_seq is None

    @property
    def is_live(self) -> bool:
        """Whether somebody records the run, as far as is known: a reader may wait for more."""
        return self.status == "running" and self.process_seq is not None and self.silent_since is None

    @property
    def id(self) -> str:
        """The run's alias in this store, such as "run42"."""
        return f"run{self.number}"

    @property
    def duration(self) -> float | None:
        """Seconds from start to finish, or None while it is not finished."""
        return None if self.finished is None else (self.finished - self.started) / 1e6


RunRef: TypeAlias = str | int | RunInfo
"""A run by "run42", number, uid, a unique prefix of the uid, "@last" (child runs aside), or as a RunInfo."""


class Head(NamedTuple):
    """The end of a run's log."""

    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class Addition:
    """A run from elsewhere, or what continues a run that is there.

    Attributes:
        info: the run as it will be, its head included; its number is 0 if it is new.
        rows: the events to add, in order, with their hashes; gone through once or more.
        after: the seq that the first of them follows.
        note: what the store is to know of the run beside its events; see `EventStore.note`. None leaves it as it is.
    """

    info: RunInfo
    rows: Iterable[StoredEvent]
    after: int = FIRST
    note: Mapping[str, Any] | None = None

    @property
    def stored_info(self) -> RunInfo:
        """What a store keeps of the run: nothing that is derived, and where events were added, no process."""
        info = self.info
        process_seq = info.process_seq if info.head_seq == self.after else None
        status = "running" if info.status == "crashed" else info.status
        return replace(info, status=status, process_seq=process_seq, silent_since=None)

    @property
    def written_note(self) -> bytes | None:
        """The note in JSON, in ASCII."""
        return None if self.note is None else json.dumps(self.note, allow_nan=False).encode("ascii")


class Snapshot(NamedTuple):
    """A state that is kept beside the log: `state` as its writer made it, after event `seq`, the last of `step`."""

    seq: int
    step: int
    state: bytes


_SAY_STEPS: Final = frozenset(("round.finished", "run.forked", "run.suspended", "run.finished"))
"""Kinds of events with which a store notes how many steps there are. A round that begins would cost it more than all
else that it writes then; of a run that has not ended what comes after is read from the end of its log."""


@dataclass(slots=True)
class Summary:
    """What an append changes of a RunInfo, other than its head."""

    fields: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Sequence[Event]) -> Summary:
        """Gather from events what `ls` shows."""
        fields: dict[str, Any] = {}
        for event in events:
            kind = event.kind
            if kind[0] != "r":  # most events are of calls and changes
                continue
            if kind in _SAY_STEPS and event.round:
                fields["steps"] = event.round
            if kind == "run.started":
                fields.update(
                    agent=event.data.agent, origin=event.data.origin, started=_microseconds(event), status="running"
                )
                if event.data.parent:
                    fields["parent"] = event.data.parent.get("run")
            elif kind == "run.forked":
                fields.update(started=_microseconds(event), status="running")
            elif kind == "run.suspended":
                fields["status"] = "interrupted"
            elif kind == "run.resumed":
                fields.update(status="running", finished=None)
            elif kind == "run.finished":
                fields.update(status=event.data.status, finished=_microseconds(event))
        return cls(fields)


def _microseconds(event: Event) -> int:
    return int(event.time.timestamp() * 1_000_000)


def new_uid(now: float | None = None) -> str:
    """A UUIDv7 (RFC 9562): sortable by its first 48 bits, the time in milliseconds."""
    import secrets
    from uuid import UUID

    milliseconds = int((time.time() if now is None else now) * 1000)
    value = (milliseconds & (1 << 48) - 1) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(UUID(int=value))
