"""Where in a run's log a step begins, found without reading the log.

Events are found by their number, and steps are not events: the step that begins at event 120,000 is found by looking
here and there, as one looks up a word in a dictionary. An event says to which round it belongs, and rounds go up; only
the end of a call that a round left behind tells of an earlier one. So a few looks lead there, and what is found is
checked. A step of a run of 30,000 takes some milliseconds.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..recorder.log_end import last_round
from ..recorder.store import EventStore, RunInfo

_NEAR: Final = 64
"""So many events are rather read one after the other."""

_LOOK: Final = 16
"""Events that are read at one look; among so many there is one that belongs to the round which goes on."""


class Places(NamedTuple):
    """The events of some steps: those with `first` <= seq < `stop`."""

    first: int
    stop: int


def places_of(store: EventStore, info: RunInfo, start: int, stop: int) -> Places:
    """Where the events of the steps from `start` up to, but without, `stop` are.

    Args:
        store, info: the run.
        start, stop: step 0 is what comes before the first round; steps that there are not have no events.
    """
    first = 0 if start <= 0 else start_of(store, info, start)
    return Places(first, max(first, start_of(store, info, stop, first)))


def start_of(store: EventStore, info: RunInfo, step: int, after: int = 0) -> int:
    """The seq of the event with which a step begins; the one behind the last event if there is no such step.

    Args:
        store, info: the run.
        step: from 1.
        after: an event before which it does not begin.
    """
    low, high = after - 1, info.head_seq + 1  # it begins behind `low` and not behind `high`
    while high - low > _NEAR:
        middle = (low + high) // 2
        look = list(store.rows(info, middle - 1, min(middle + _LOOK, high) - 1))
        within = next((row.seq for row in look if row.round >= step), None)
        if within is not None:
            high = within
        elif look:
            low = look[-1].seq
        else:
            break  # events are missing from the log: it is read as far as it goes
    found = _first_start(store, info, step, low, min(high, info.head_seq))
    if found is not None and found[1] == step:
        return found[0]
    if found is None and last_round(store, info) < step:
        return info.head_seq + 1
    found = _first_start(store, info, step, after - 1, info.head_seq)  # ends of earlier calls led astray
    return found[0] if found is not None else info.head_seq + 1


def _first_start(store: EventStore, info: RunInfo, step: int, after: int, until: int) -> tuple[int, int] | None:
    """The first event among some with which `step` or a later one begins, and which it is."""
    for row in store.rows(info, after, until):
        if row.kind == "round.started" and row.round >= step:
            return row.seq, row.round
    return None
