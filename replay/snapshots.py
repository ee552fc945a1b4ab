"""Snapshots: states kept beside the log, so that going to a step does not fold the run from its start.

A snapshot is a stored fold. It can always be derived again and is never the truth: `verify` does not look at it, and
dropping all of them loses nothing. Snapshots are taken by weight, not by count: one when the events since the last
weigh as much as the last did, packed as it is. So they take at most as much room as the log itself, whatever the run's
shape, and going to a step reads one state and a few events.

They stand between steps: a snapshot is the state at a step, with all that happened before the next round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from time import monotonic
from typing import Any, Final

from ..recorder.errors import StoreError
from ..recorder.events import ErrorInfo
from ..recorder.packing import pack, unpack
from ..recorder.reentry import appending
from ..recorder.store import FIRST, EventStore, RunInfo, Snapshot
from ..recorder.values import dumps, loads
from .reducer import fold
from .shared_list import SharedList
from .state import ChildRun, OpenCall, OpenInterrupt, RunState

LIGHTEST: Final = 4 * 1024
"""Bytes of events for which no snapshot is worth while, however small the state is."""

UNCHANGED: Final = 32 * 1024
"""The same where the payload was not changed meanwhile: such events are folded in no time."""

FAR: Final = 5_000
"""Events without a snapshot at the end of a run, for which a reader takes them."""

LONGEST: Final = 10.0
"""Seconds that a reader takes snapshots, at most."""

_REMEMBERED: Final = 10_000
_looked_at: set[tuple[str, str, int]] = set()
"""The runs whose snapshots were looked at by this process: (store, uid, head)."""

VERSION: Final = 2
"""Of the form of a snapshot. One of another version is ignored."""

WITHOUT_EDITS: Final = 1
"""The version in which the parameters and the input of re-runs were missing; of other runs it says the same."""

_LISTS: Final = ("stored_messages", "stored_memory", "stored_skills", "stored_media")


def dump_state(state: RunState) -> bytes:
    """A state as packed JSON; its values are in stored form already."""
    document: dict[str, Any] = {"version": VERSION}
    for field in fields(RunState):
        value = getattr(state, field.name)
        if field.name == "memo":
            continue
        if field.name in _LISTS:
            value = list(value)
        elif field.name == "children":
            value = [child.to_json() for child in value]
        elif field.name in ("open_calls", "open_interrupts"):
            value = {key: item.to_json() for key, item in value.items()}
        elif field.name == "cancelled_calls":
            value = sorted(value)
        elif field.name == "error" and value is not None:
            value = value.model_dump()
        document[field.name] = value
    return pack(dumps(document))


def load_state(text: bytes, run: str = "") -> RunState | None:
    """The state that `dump_state` wrote, or None if it is of another version or damaged."""
    try:
        document = loads(unpack(text))
        version = document.pop("version")
        if version != VERSION and (version != WITHOUT_EDITS or document["forked_from"] is not None):
            return None
        document["edits_due"] = tuple(document.get("edits_due", ()))
        for name in _LISTS:
            document[name] = SharedList(document[name])
        document["children"] = SharedList(ChildRun(**child) for child in document["children"])
        document["open_calls"] = {key: OpenCall(**call) for key, call in document["open_calls"].items()}
        document["open_interrupts"] = {
            key: OpenInterrupt(**interrupt) for key, interrupt in document["open_interrupts"].items()
        }
        document["cancelled_calls"] = frozenset(document["cancelled_calls"])
        document["error"] = None if document["error"] is None else ErrorInfo(**document["error"])
        return RunState(**{**document, "run": run})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def nearest(store: EventStore, info: RunInfo, step: int | None = None) -> RunState | None:
    """The last state that is kept of a run, at `step` or before (by default: the last one); None if there is none."""
    found = store.snapshot(info, step)
    if found is None:
        return None
    state = load_state(found.state, info.id)
    return state if state is not None and (state.last_seq, state.step) == (found.seq, found.step) else None


def take_due(store: EventStore, info: RunInfo, go_on: Callable[[], bool] = lambda: True) -> int:
    """Take the snapshots that are due: fold on from the last one, and keep a state wherever the weight asks for it.

    A store that cannot be written to is left as it is: a snapshot saves work and is no more than that.

    Args:
        store: where the run is, and the snapshots go.
        info: the run.
        go_on: asked before each step; once it says no, the rest is left for another time.

    Returns:
        How many were taken.
    """
    state = nearest(store, info)
    found = store.snapshot(info, None)
    lightest = LIGHTEST if state is None or found is None else max(LIGHTEST, len(found.state))
    taken, weight, changed = 0, 0, False
    for share, size in _shares(store, info, FIRST if state is None else state.last_seq):
        if not go_on():
            return taken
        needed = lightest if changed else max(lightest, UNCHANGED)
        if state is not None and weight >= needed and share[0].kind == "round.started":
            text = dump_state(state)
            try:
                with appending:  # what a finaliser records meanwhile must not land in the middle of the transaction
                    store.keep_snapshot(info, Snapshot(state.last_seq, state.step, text))
            except StoreError:
                return taken
            finally:
                appending.catch_up()
            taken, weight, lightest, changed = taken + 1, 0, max(LIGHTEST, len(text)), False
        state = fold(share, state, run=info.id)
        weight += size
        changed = changed or any(event.kind == "payload.changed" for event in share)
    return taken


def _shares(store: EventStore, info: RunInfo, after: int) -> Iterator[tuple[list[Any], int]]:
    """The steps' shares of the log, each with the bytes that it takes."""
    share: list[Any] = []
    size = 0
    for row in store.rows(info, after=after):
        event = store.decode(info, row, conversations=False)
        if event.kind == "round.started" and share:
            yield share, size
            share, size = [], 0
        share.append(event)
        size += len(row.body or b"")
    if share:
        yield share, size


def _take_missing(store: EventStore, info: RunInfo) -> None:
    key = (store.url, info.uid, info.head_seq)
    if info.head_seq < FAR or info.is_live or key in _looked_at:
        return
    if len(_looked_at) > _REMEMBERED:
        _looked_at.clear()
    _looked_at.add(key)
    last = store.snapshot(info, None)
    if info.head_seq - (FIRST if last is None else last.seq) >= FAR:
        deadline = monotonic() + LONGEST
        take_due(store, info, lambda: monotonic() < deadline)


def from_nearest(store: EventStore, info: RunInfo, step: int | None = None) -> tuple[RunState | None, Iterable[Any]]:
    """A state to go on from, at `step` or before, and the events after it.

    Where the snapshots of a run that has ended are missing, since its recorder was too busy for them or it came from a
    file, the first reader takes them.
    """
    _take_missing(store, info)
    state = nearest(store, info, step)
    after = FIRST if state is None else state.last_seq
    return state, store.events(info, after=after, conversations=False)
