"""What reached an agent from outside while it was recorded, in the order in which it did.

Results, errors, chunks of streams, timers, child runs and cancellations: the log has them with the numbers of their
turns (`recorder.events`), or in the order of their events. Each has a *key*, by which code that waits for it says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..recorder.events import Event
from .script import Script
from .threads import Key


class Arrival(NamedTuple):
    """Something that reached the agent from outside; in the order of `time`, and of the log."""

    time: int
    key: Key
    event: Event


def end_key(uid: str, event: Event) -> Key:
    """The key of how a call ended."""
    return (uid, "cancelled" if event.kind == "call.cancelled" else "ended", event.data.call)


def arrivals_of(uid: str, script: Script) -> Iterator[Arrival]:
    """What a recording says of what reached its agent from outside, in order."""
    numbered: list[tuple[int, Key, Event]] = []
    last = 0
    children: dict[tuple[str, str], int] = {}
    for event in script.wakes:
        if event.within is not None:
            continue
        last = getattr(event.data, "turn", None) or last + 1
        for number, turn in enumerate(getattr(event.data, "turns", None) or ()):
            numbered.append((turn, (uid, "chunk", event.data.call, number), event))
        if event.kind == "timer.fired":
            key: Key = (uid, "timer", event.round, event.task, event.data.timer)
        elif event.kind.startswith("subrun."):
            place = event.kind, event.data.run
            children[place] = children.get(place, 0) + 1
            cancelled = getattr(event.data, "cancelled", False)  # where it began
            key = (uid, "cancelled", event.data.run) if cancelled else (uid, *place, children[place])
        else:
            key = end_key(uid, event)
        if event.seq not in script.superseded:
            numbered.append((last, key, event))
    numbered.sort(key=lambda one: one[0])
    time = 0
    for position, (_, key, event) in enumerate(numbered):
        own = event if key[1] != "chunk" else _next_event(numbered, position)
        time = max(time, int(own.time.timestamp() * 1_000_000))
        yield Arrival(time, key, event)


def _next_event(numbered: list[tuple[int, Key, Event]], position: int) -> Event:
    """The next one that is no chunk: its time is the best that is known of a chunk's."""
    return next((event for _, key, event in numbered[position:] if key[1] != "chunk"), numbered[position][2])
