"""`tail`: print the events of a run as they come, as lines for people or as lines of JSON."""

from __future__ import annotations

import sys
from typing import Any

from ..recorder.events import Event, event_json
from ..recorder.following import follow
from ..recorder.store import EventStore, RunInfo
from .output import print_json
from .runs import Names
from .streams import say


def follow_run(store: EventStore, info: RunInfo, after: int, *, as_json: bool = False) -> str:
    """Write a run's events to stdout until it has ended; returns its status then."""
    if as_json:
        for event in follow(store, info, after):
            print_json(row_of_event(info, event), indent=False)
            sys.stdout.flush()
        status = store.run(info.uid).status
        if status == "crashed":
            say(_gone(info))
        return status
    from .output import console, write
    from .render_events import EventPage

    page = EventPage(console(), Names(store))
    page.header(info)
    for event in follow(store, info, after, conversations=False):
        page.event(event)
        sys.stdout.flush()
    status = store.run(info.uid).status
    if status == "crashed":
        write(console(), (_gone(info), "bold red"))
    return status


def _gone(info: RunInfo) -> str:
    return f"{info.id} has crashed: the process that recorded it is gone"


def row_of_event(info: RunInfo, event: Event) -> dict[str, Any]:
    """What `tail --json` says of an event."""
    return {"run": info.id, **event_json(event)}
