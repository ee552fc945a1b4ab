"""The JSON API: what the pages show, for programs. /api/v1/openapi.json describes its operations; see `openapi`.

Values are in stored form, as `agentreplay … --json` prints them: integers beyond 2^53, NaN, bytes and dates stand as
tags. Lists come in pages; `next` is what leads to the next one.
"""

from __future__ import annotations

from typing import Any, Final

from flask import Response
from werkzeug.exceptions import NotFound

from ..recorder.errors import CorruptLog, UsageError
from ..recorder.events import Event, event_json
from ..recorder.store import RunInfo
from ..replay.between import EDITS, stored_part
from ..replay.changes import MISSING, to_json
from ..replay.listing import error_text, moment, row_of
from ..replay.outline import CallEntry, RoundEntry
from ..replay.paths import split
from .addresses import place
from .answers import json_answer
from .diff_pages import Place, blame_told, place_named
from .openapi import (
    ANY,
    COUNT,
    POINTER,
    ROOT,
    TEXT,
    TEXT_OR_NULL,
    Operation,
    Parameter,
    Table,
    list_of,
    number,
    one_of,
    record,
    ref,
    text,
)
from .overview import Overview
from .reader import Damage
from .run_list import LARGEST_PAGE, PAGE, SORTS, STATUSES, Wanted, page_of, runs_to_search
from .run_pages import OTHER_PARTS, PARTS, changes_known, existing_step, overview_of, run_named
from .searching import CURSOR, EACH, HITS, search_runs
from .site import Site, site
from .sound import Unread, difference_told
from .trees import value_at
from .version import VERSION

TABLE: Final = Table()

EVENTS: Final = 200
MOST_EVENTS: Final = 1_000
STEPS: Final = 100
MOST_STEPS: Final = 500

COUNTING_SECONDS: Final = 2.0
"""So long an answer waits, at most, until the changes of a small run are counted."""

RUN: Final = text(
    "run", 'A run: "run42", its number, its uid or the start of it, or "@last".', where="path", example="@last"
)
STEP: Final = number("step", "A step; 0 is the start.", where="path", example=1)
WITHIN: Final = "A JSON Pointer into its data; the whole event unless given."
SEQ: Final = number("seq", "An event, by its number in the run.", where="path", example=0)
WHERE: Final = text("path", "A JSON Pointer; all of it unless given.", most=20_000, pattern=POINTER, default="")
TAG: Final = text("tag", "Only runs with this tag.")
PLACE: Final = r"^[^:]+(:(-?[0-9]{1,15})?)?$"
PART: Final = one_of("part", "A part of the state.", PARTS, default="payload")
NEXT: Final = {"type": ["integer", "null"]}


# -- runs -----------------------------------------------------------------------------------------------------------


@TABLE.add(
    Operation(
        "index",
        "GET",
        "",
        "What this server is: its version, what it offers, and the token that changes need.",
        answer=record(
            {"version": TEXT, "store": TEXT, "read_only": {"type": "boolean"}, "features": list_of(TEXT), "csrf": TEXT}
        ),
    )
)
def index() -> Response:
    """What this server is."""
    found = site()
    return json_answer(
        {
            "version": VERSION,
            "store": found.store.name,
            "read_only": found.guard.read_only,
            "features": sorted(found.features),
            "csrf": found.guard.csrf,
        }
    )


@TABLE.add(
    Operation(
        "runs",
        "GET",
        "/runs",
        "The runs of the store, a page of them.",
        (
            one_of("status", "Only runs that stand so.", STATUSES),
            text("agent", "Only runs of this agent."),
            text(
                "q",
                "Only runs whose agent, uid or error contains this, in any case, or that are called so; in it, "
                "`tag:nightly` is a tag.",
            ),
            TAG,
            one_of("sort", "By what they are sorted; downwards with a dash.", SORTS, default="-run"),
            text("cursor", "`next` of the page before, in the same order.", pattern="^[A-Za-z0-9_-]*$", default=""),
            number("limit", "Runs on a page.", 1, LARGEST_PAGE, default=PAGE),
        ),
        record({"runs": list_of(ref("Run")), "next": TEXT_OR_NULL}),
    )
)
def runs(
    status: str | None, agent: str | None, q: str | None, tag: str | None, sort: str, cursor: str, limit: int
) -> Response:
    """A page of runs."""
    found = site()
    wanted = Wanted(status or "", agent or "", q or "", sort, cursor, limit, tag or "")
    if wanted.asked.in_values:
        raise UsageError(f"values are searched by {ROOT}/search, not here; q is about names and errors")
    chosen = page_of(found.runs(), wanted, lambda info: found.end_of(info).error, found.tags.of)
    return json_answer({"runs": [run_json(found, info) for info in chosen.runs], "next": chosen.next or None})


@TABLE.add(
    Operation(
        "search",
        "GET",
        "/search",
        "The events of runs in which a text stands, those of the newest run first. Messages and large values that many "
        "events repeat are found where they stand first; `left_out` counts values that are too large, or lost. It is "
        "searched for a short time; `next` leads on.",
        (
            text("q", "What is looked for, in any case.", most=1_000, least=1, required=True, example="coupon"),
            one_of("status", "Only in runs that stand so.", STATUSES),
            text("agent", "Only in runs of this agent."),
            TAG,
            number("each", "Hits of a run, at most.", 1, HITS, default=EACH),
            text("cursor", "`next` of the answer before.", pattern=CURSOR, default=""),
        ),
        record(
            {"hits": list_of(ref("Hit")), "searched": COUNT, "total": COUNT, "left_out": COUNT, "next": TEXT_OR_NULL}
        ),
    )
)
def search(q: str, status: str | None, agent: str | None, tag: str | None, each: int, cursor: str) -> Response:
    """What is found in the values of runs."""
    found = site()
    infos = runs_to_search(found.runs(), Wanted(status or "", agent or "", tag=tag or ""), found.tags.of)
    finds = search_runs(found.store, infos, q, cursor, each)
    hits = [{"run": one.info.id, "uid": one.info.uid, **hit._asdict()} for one in finds.runs for hit in one.hits]
    counts = {"searched": finds.searched, "total": finds.total, "left_out": finds.left_out}
    return json_answer({"hits": hits, **counts, "next": finds.next or None})


@TABLE.add(
    Operation(
        "run",
        "GET",
        "/runs/{run}",
        "A run, how many steps it has by now, and the calls of its last step that are not answered.",
        (RUN,),
        record({"run": ref("Run"), "last_step": COUNT, "in_flight": list_of(ref("Call"))}),
    )
)
def run(run: str) -> Response:
    """A run."""
    found, info = site(), run_named(run)
    last = found.reader.last_step(info)
    flying: list[CallEntry] = []
    if info.status in ("running", "crashed"):
        flying = [call for entry in found.reader.entries(info, last, last + 1, {}) for call in entry.calls]
    return json_answer(
        {
            "run": run_json(found, info),
            "last_step": last,
            "in_flight": [call_json(call) for call in flying if call.status == "open"],
        }
    )


def run_json(found: Site, info: RunInfo) -> dict[str, Any]:
    """What the API says of a run."""
    end = found.end_of(info)
    row = row_of(info, found.names(), found.tags.of(info))
    return row | {"head": info.head_seq, "error": end.error or None, "tokens": end.tokens, "cost": end.cost}


# -- steps ----------------------------------------------------------------------------------------------------------


@TABLE.add(
    Operation(
        "steps",
        "GET",
        "/runs/{run}/steps",
        "The steps of a run in order, a page of them.",
        (
            RUN,
            number("start", "The first step.", default=0),
            number("limit", "Steps on a page.", 1, MOST_STEPS, default=STEPS),
        ),
        record({"steps": list_of(ref("Step")), "next": NEXT}),
    )
)
def steps(run: str, start: int, limit: int) -> Response:
    """A page of steps."""
    found, info = site(), run_named(run)
    last = found.reader.last_step(info)
    stop = min(start + limit, last + 1)
    damage: Damage = {}
    entries = found.reader.entries(info, start, stop, damage) if start < stop else []
    overview = overview_of(info, COUNTING_SECONDS)
    rows = [step_json(info, overview, entry, damage) for entry in entries]
    return json_answer({"steps": rows, "next": stop if stop <= last else None})


@TABLE.add(
    Operation(
        "step",
        "GET",
        "/runs/{run}/steps/{step}",
        "A step: what it decided and why, what it asked to change, and its calls.",
        (RUN, STEP),
        record({"step": ref("Step"), "decision": ANY, "requests": list_of(ref("Event")), "events": COUNT}),
    )
)
def step(run: str, step: int) -> Response:
    """A step."""
    found, info = site(), run_named(run)
    number_ = existing_step(info, step)
    damage: Damage = {}
    share, total = found.reader.share_of(info, number_, damage)
    entry = found.reader.entry(info, number_, share, damage)
    return json_answer(
        {
            "step": step_json(info, overview_of(info, COUNTING_SECONDS), entry, damage),
            "decision": entry.decision,
            "requests": [event_json(event) for event in entry.requests],
            "events": total,
        }
    )


def step_json(info: RunInfo, overview: Overview, entry: RoundEntry, damage: Damage) -> dict[str, Any]:
    """What the API says of a step; of a damaged one what can be read, and `problem` says which event cannot."""
    names = site().names()
    return {
        "step": entry.step,
        "decision": entry.word,
        "outcome": entry.outcome,
        "duration": entry.duration,
        "reasoning": entry.reasoning,
        "calls": [call_json(call) for call in entry.calls],
        "changes": changes_known(info, overview, entry.step),
        "warnings": entry.warnings,
        "children": [
            {"run": names.of(child.run) or child.run, "agent": child.name, "status": child.status}
            for child in entry.children
        ],
        **({"problem": damage[entry.step]} if entry.step in damage else {}),
    }


def call_json(call: CallEntry) -> dict[str, Any]:
    """What the API says of a call."""
    return {
        "call": call.call,
        "kind": call.kind,
        "name": call.name,
        "status": call.status,
        "duration": call.duration,
        "within": call.within,
        "seq": call.seq,
        "end_seq": call.end_seq,
        "chunks": None if call.streamed is None else call.streamed.count,
        "error": None if call.error is None else error_text(call.error),
    }


@TABLE.add(
    Operation(
        "state",
        "GET",
        "/runs/{run}/steps/{step}/state",
        "The payload after a step, or another part of the state, or what stands at a path in it.",
        (RUN, STEP, one_of("part", "A part of the state.", [*PARTS, *OTHER_PARTS], default="payload"), WHERE),
        ANY,
    )
)
def state(run: str, step: int, part: str, path: str) -> Response:
    """The value at a path of a state."""
    info = run_named(run)
    reached = site().reader.state(info, existing_step(info, step))
    return _value(stored_part(reached, part), path)


def _value(value: Any, path: str) -> Response:
    found = value_at(value, split(path))
    if found is MISSING:
        raise NotFound(f"there is nothing at {path[:200]}")
    return json_answer(found)


# -- differences ----------------------------------------------------------------------------------------------------


@TABLE.add(
    Operation(
        "diff",
        "GET",
        "/diff",
        "What lies between two steps, of one run or of two, and which event made each change.",
        (
            text("from", "The step before, such as run42:6; the one before `to` unless given.", pattern=PLACE),
            text("to", "The step after, such as run42:7.", pattern=PLACE, required=True, example="@last:1"),
            PART,
        ),
        record(
            {"from": TEXT, "to": TEXT, "changes": list_of(ref("Change"))},
            problem=TEXT,
            compared={
                "anyOf": [list_of(TEXT), {"type": "null"}],
                "description": "Of a damaged run the sound places, at those asked for or before, of which the changes "
                "are told; null if nothing can be told.",
            },
        ),
    )
)
def diff(part: str, to: str, **given: Any) -> Response:
    """What lies between two steps."""
    new = place_named("to", to)
    start = given["from"]
    old = place_named("from", start) if start else Place(new.info, max(new.step - 1, 0))
    if part not in EDITS:
        raise UsageError(f"changes of {part} cannot be followed; choose from {', '.join(EDITS)}")
    told = difference_told(site().reader, old, new, part)
    rows = [] if told.found is None else [to_json(change) for change in told.found.changes]
    if told.found is not None and old.info.uid != new.info.uid:
        for row, info in zip(rows, told.found.cause_runs, strict=True):
            row["cause"] = None if row["cause"] is None else row["cause"] | {"run": info.id}
    answer: dict[str, Any] = {"from": place(*old), "to": place(*new), "changes": rows}
    if told.problems:
        compared = None if told.found is None else [place(*told.old), place(*told.new)]
        answer |= {"problem": " ".join(told.problems), "compared": compared}
    return json_answer(answer)


@TABLE.add(
    Operation(
        "blame",
        "GET",
        "/runs/{run}/blame",
        "Every event that ever changed the value at a path of the payload, newest first.",
        (
            RUN,
            Parameter("path", "A JSON Pointer.", {"type": "string", "maxLength": 20_000}, default=""),
            number("step", "The step after which the path means what it means; the last unless given."),
        ),
        record({"changes": list_of(ref("Change"))}, problem=TEXT, until=COUNT),
    )
)
def blame(run: str, path: str, step: int | None) -> Response:
    """Every change of a value."""
    info = run_named(run)
    number_ = site().reader.last_step(info) if step is None else existing_step(info, step)
    changes, told, problem = blame_told(info, path, number_)
    rows = [to_json(change) | {"note": getattr(change, "note", None)} for change in changes]
    return json_answer({"changes": rows, **({"problem": problem, "until": told} if problem else {})})


# -- events ---------------------------------------------------------------------------------------------------------


@TABLE.add(
    Operation(
        "events",
        "GET",
        "/runs/{run}/events",
        'The events of a run in order, a page of them. Large values are tags, {"$type": "blob", hash, size}.',
        (
            RUN,
            number("after", "The event behind which they begin; -1 for the first.", -1, default=-1),
            number("limit", "Events on a page.", 1, MOST_EVENTS, default=EVENTS),
        ),
        record({"events": list_of(ref("Event")), "next": NEXT}),
    )
)
def events(run: str, after: int, limit: int) -> Response:
    """A page of events."""
    info = run_named(run)
    found = list(site().reader.events_after(info, after, limit)) if after < info.head_seq else []
    last = found[-1].seq if found else after
    return json_answer(
        {"events": [event_or_why_json(event) for event in found], "next": last if last < info.head_seq else None}
    )


@TABLE.add(
    Operation(
        "event",
        "GET",
        "/runs/{run}/events/{seq}",
        "An event with all that it refers to, or what stands at a path in its data.",
        (RUN, SEQ, text("path", WITHIN, most=20_000, pattern=POINTER)),
        ANY,
    )
)
def event(run: str, seq: int, path: str | None) -> Response:
    """An event."""
    info = run_named(run)
    try:
        found = site().reader.event_or_why(info, seq, whole=True)
    except UsageError as error:
        raise NotFound(str(error)) from None
    if isinstance(found, Unread):
        if path is not None:
            raise CorruptLog(found.problem, run=info.id, seq=seq)
        return json_answer(unread_json(found))
    return json_answer(event_json(found)) if path is None else _value(found.data.model_dump(), path)


def event_or_why_json(event: Event | Unread) -> dict[str, Any]:
    """What the API says of an event, whether or not it can be read."""
    return unread_json(event) if isinstance(event, Unread) else event_json(event)


def unread_json(event: Unread) -> dict[str, Any]:
    """What the API says of an event that cannot be read: what stands beside its data, and in `problem` why."""
    row = event.row
    return {
        "seq": row.seq,
        "round": row.round,
        "kind": row.kind,
        "version": row.version,
        "time": moment(row.time).isoformat(timespec="microseconds"),
        "within": row.within,
        "task": row.task,
        "data": None,
        "hash": row.hash,
        "problem": event.problem,
    }
