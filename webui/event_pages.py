"""The pages of a run's events: all of them in order, and those in which a text stands."""

from __future__ import annotations

from typing import Final

from flask import Blueprint, Response, request

from ..replay.step_places import places_of
from .addresses import event_values
from .pages import number_in, page
from .run_pages import existing_step, run_named, steps_url
from .searching import search
from .site import site
from .sound import Unread
from .step_views import event_view, unread_view
from .trees import Address
from .views import run_row

blueprint = Blueprint("events", __name__)

PAGE: Final = 200
"""Events on a page."""


@blueprint.get("/runs/<run>/events")
def events(run: str) -> Response:
    """The events of a run in order, those behind `after`; `?step=` begins at a step."""
    found, info = site(), run_named(run)
    after = number_in("after", -1, -1, max(info.head_seq, -1))
    if request.args.get("step"):
        step = existing_step(info, number_in("step", 0, 0, 10**9))
        after = places_of(found.store, info, step, step + 1).first - 1
    shown = list(found.reader.events_after(info, after, PAGE))
    last = shown[-1].seq if shown else after

    def address(seq: int, field: str) -> Address:
        return event_values(info.id, seq, field)

    return page(
        "events.html",
        run=run_row(info, found.names()),
        events=[
            unread_view(event, address) if isinstance(event, Unread) else event_view(event, address) for event in shown
        ],
        steps_url=steps_url(info),
        after=after,
        earlier=max(after - PAGE, -1) if after >= 0 else None,
        later=last if last < info.head_seq else None,
        total=info.head_seq + 1,
    )


@blueprint.get("/runs/<run>/search")
def searched(run: str) -> Response:
    """The events of a run in which `q` stands."""
    found, info = site(), run_named(run)
    text = request.args.get("q", "").strip()[:1_000]
    after = number_in("after", -1, -1, max(info.head_seq, -1))
    hits = search(found.store, info, text, after) if text else None
    return page(
        "search.html",
        run=run_row(info, found.names()),
        text=text,
        hits=hits.hits if hits else [],
        next=hits.next if hits else None,
        left_out=hits.left_out if hits else 0,
        total=info.head_seq + 1,
        steps_url=steps_url(info),
    )
