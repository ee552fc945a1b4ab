"""Following the store and its runs by server-sent events, as operations of the API; see `live`."""

from __future__ import annotations

from typing import Final

from flask import Response

from ..replay.listing import standing
from .api import RUN
from .live import LIST, stream
from .openapi import NEWS, Operation, Table, number
from .run_pages import run_named
from .site import site

TABLE: Final = Table()


@TABLE.add(
    Operation(
        "live",
        "GET",
        "/live",
        "Server-sent events: `new` whenever the list of runs is another one.",
        answer=NEWS,
        media="text/event-stream",
    )
)
def live() -> Response:
    """Follow the list of runs."""
    return stream(site().watch, LIST, None)


@TABLE.add(
    Operation(
        "run_live",
        "GET",
        "/runs/{run}/live",
        "Server-sent events: `new` with {head, step, status} whenever the run has grown, and `end` when it ends.",
        (RUN, number("after", "The last event that is known; -1 for none.", -1, default=-1)),
        NEWS,
        media="text/event-stream",
    )
)
def run_live(run: str, after: int) -> Response:
    """Follow a run."""
    info = run_named(run)
    found = site()
    head = min(after, info.head_seq)
    known = {"head": head, "step": found.reader.last_step(info), "status": standing(info)}
    return stream(found.watch, info.number, known)
