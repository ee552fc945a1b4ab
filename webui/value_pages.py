"""Values on demand: what a tree has folded, of a state or of an event, as a part of a page or as a page of its own."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, request
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response as AnyResponse

from ..recorder.errors import UsageError
from ..recorder.store import RunInfo
from ..replay.between import stored_part
from ..replay.changes import MISSING
from ..replay.paths import display_keys, keys_of, split
from .addresses import event_values, state_values, step_url
from .answers import html_answer
from .pages import number_in, page
from .rendering import render
from .run_pages import OTHER_PARTS, PARTS, existing_step, part_wanted, path_wanted, run_named
from .site import site
from .sound import Unread
from .step_views import json_nodes, unread_nodes
from .trees import Node, rest_of, value_at

blueprint = Blueprint("value", __name__)


@blueprint.get("/runs/<run>/steps/<int:step>/value")
def state_value(run: str, step: int) -> AnyResponse:
    """What a tree of a state has folded: the value at `path`, from child or character `from` on."""
    info, part, pointer = run_named(run), part_wanted(), path_wanted()
    value = stored_part(site().reader.state(info, existing_step(info, step)), part)
    title = {**PARTS, **OTHER_PARTS}[part]
    return _value(info, step_url(info.id, step), value, pointer, state_values(info.id, step, part), title)


@blueprint.get("/runs/<run>/events/<int:seq>/value")
def event_value(run: str, seq: int) -> AnyResponse:
    """What is not sent of an event: the value at `path` of its data, from child or character `from` on."""
    info, pointer = run_named(run), path_wanted()
    tokens = split(pointer)
    try:
        event = site().reader.event_or_why(info, seq, whole=bool(tokens))
    except UsageError as error:
        raise NotFound(str(error)) from None
    address = event_values(info.id, seq)
    if isinstance(event, Unread):
        nodes = unread_nodes(event)
        return _part_or_page(info, step_url(info.id, event.row.round), nodes, f"event {seq}")
    if not tokens:
        return _part_or_page(info, step_url(info.id, event.round), json_nodes(event, address), f"event {seq}")
    return _value(info, step_url(info.id, event.round), event.data.model_dump(), pointer, address, f"event {seq}")


def _value(info: RunInfo, back: str, value: Any, pointer: str, address: Any, title: str) -> AnyResponse:
    found = value_at(value, split(pointer))
    if found is MISSING:
        raise NotFound(f"there is nothing at {pointer[:200]}")
    start = number_in("from", 0, 0, 10**9)
    stop = number_in("to", 0, 0, 10**9) or None
    keys = keys_of(pointer, value)
    nodes = rest_of(found, address, at=keys, start=start, stop=stop)
    return _part_or_page(info, back, nodes, display_keys(keys) if keys else title)


def _part_or_page(info: RunInfo, back: str, nodes: list[Node], title: str) -> AnyResponse:
    if request.headers.get("X-Part") is not None:
        return html_answer(render("parts/nodes.html", nodes=nodes))
    return page("value.html", nodes=nodes, back=back, title=f"{info.id}, {title}")
