"""The pages of a run: its steps as a list, one of them in detail, and what of that loads on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs

from flask import Blueprint, Response, redirect, request
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response as AnyResponse

from ..recorder.errors import CorruptLog, UsageError
from ..recorder.store import RunInfo
from ..recorder.values import dumps
from ..replay.between import stored_part
from ..replay.difference import Difference
from ..replay.listing import standing
from ..replay.outline import CallEntry, RoundEntry
from ..replay.paths import split
from ..replay.readable import visible
from ..replay.state import RunState
from .addresses import blame_url, blamed_at, diff_url, event_values, place, state_values, step_url
from .answers import html_answer
from .differences import CauseRow, cause_row, change_rows
from .overview import Overview
from .pages import frame, number_in, page, row_in_list
from .reader import Damage
from .rendering import path_url, query, render
from .site import Site, site
from .sound import CHECKED, NO_STEP, untrue
from .step_views import MessageView, below, message_of, step_view
from .trees import Node, tree_of
from .views import StepRow, picture_of, run_row, step_rows
from .watch_views import watch_context

blueprint = Blueprint("run", __name__)

BLOCK: Final = 64
"""Rows of steps that are sent together."""

CHANGES: Final = 120
"""Changes of a step that are shown at once."""

MESSAGES: Final = 60
"""Messages of a conversation that are shown at once, the last ones."""

SMALL_LOG: Final = 3_000
SMALL_PAYLOAD: Final = 1_000_000
"""A run of no more events, and of no more bytes at its start, is gone through before its page is sent."""

WAIT_SECONDS: Final = 0.15
"""How long that may take, at most."""

PARTS: Final = {
    "payload": "Payload",
    "messages": "Messages",
    "scratchpad": "Scratchpad",
    "memory": "Memory",
    "skills": "Skills",
    "plan": "Plan",
    "media": "Media",
    "usage": "Usage",
}
"""The parts of a state that can be looked at."""

OTHER_PARTS: Final = {"input": "Input", "params": "Parameters", "value": "Result"}
"""Those that change where a run is re-run, or once, so that no changes of theirs are listed."""


# -- what is asked for ----------------------------------------------------------------------------------------------


def run_named(name: str) -> RunInfo:
    """The run that an address names."""
    return site().store.run(name)


def existing_step(info: RunInfo, step: int) -> int:
    """The step, if the run has it.

    Raises:
        NotFound: it has not.
    """
    try:
        return site().reader.step(info, step)
    except UsageError as error:
        raise NotFound(str(error)) from None


def part_wanted() -> str:
    """The part of the state that the query asks for.

    Raises:
        UsageError: there is no such part.
    """
    part = request.args.get("part") or "payload"
    if part not in PARTS and part not in OTHER_PARTS:
        raise UsageError(f"a state has no part {part[:40]!r}; choose from {', '.join([*PARTS, *OTHER_PARTS])}")
    return part


def path_wanted() -> str:
    """The JSON Pointer that the query asks for.

    Raises:
        UsageError: it is none.
    """
    try:  # a key may hold what UTF-8 does not say: half of a pair of surrogates
        asked = parse_qs(request.query_string.decode(), keep_blank_values=True, errors="surrogatepass")
    except ValueError:
        raise UsageError("the path is no text in UTF-8") from None
    pointer = asked.get("path", [""])[0]
    split(pointer)
    return pointer


# -- the steps as a list --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of the list of steps: those with `start` <= step < `stop`."""

    start: int
    stop: int
    rows: list[StepRow]


def block_of(info: RunInfo, overview: Overview, start: int, stop: int) -> Block:
    """Some steps as rows; of a damaged run, as much of them as can be read."""
    damage: Damage = {}
    entries = site().reader.entries(info, start, stop, damage)
    known = [entry.duration for entry in entries if entry.duration is not None]
    longest = max([*known, *([max(overview.durations)] if len(overview) else [])], default=0.0)
    return Block(start, stop, step_rows(entries, lambda step: changes_known(info, overview, step), longest, damage))


def changes_known(info: RunInfo, overview: Overview, step: int) -> int | None:
    """How many changes a step made; None as long as that is not known."""
    facts = overview.known(info, step)
    return None if facts is None else facts.changes


def overview_of(info: RunInfo, seconds: float = WAIT_SECONDS) -> Overview:
    """What is known of a run as a whole; of a small one all, unless that takes longer than so many seconds."""
    overviews = site().overviews
    return overviews.complete(info, seconds) if _is_small(info) else overviews.of(info)


def _is_small(info: RunInfo) -> bool:
    return info.head_seq <= SMALL_LOG and site().reader.weight_of_start(info) <= SMALL_PAYLOAD


def most_changes(overview: Overview) -> int:
    """How many changes the step made that changed most, the start aside; 0 where that is nothing to be marked."""
    counts = overview.changes[1:]
    most = max(counts, default=0)
    return most if 2 * counts.count(most) <= len(counts) else 0


@blueprint.get("/runs/<run>/rows")
def rows(run: str) -> Response:
    """Rows of the list of steps: `start` up to, but without, `stop`."""
    found, info = site(), run_named(run)
    last = found.reader.last_step(info)
    start = number_in("start", 0, 0, last + 1)
    stop = min(number_in("stop", start + BLOCK, start, start + 8 * BLOCK), last + 1)
    overview = overview_of(info)
    block = block_of(info, overview, start, stop)
    context = {"steps_url": steps_url(info), "chosen": -1, "most": most_changes(overview)}
    return html_answer(render("parts/rows.html", start=start, stop=stop, rows=block.rows, **context))


@blueprint.get("/runs/<run>/picture")
def picture(run: str) -> Response:
    """The picture of the run, as far as it was gone through."""
    info = run_named(run)
    overview = site().overviews.complete(info, number_in("wait", 0, 0, 5), patiently=True)
    return html_answer(render("parts/scrubber.html", **_picture(info, overview)))


def _picture(info: RunInfo, overview: Overview) -> dict[str, Any]:
    complete = overview.covers(info)
    known = picture_of(list(overview.durations), list(overview.sizes), list(overview.failed)) if complete else None
    steps = max(info.steps, len(overview) - 1)
    return {"picture": known, "complete": complete, "gone_through": max(len(overview) - 1, 0), "of_steps": steps}


# -- the page -------------------------------------------------------------------------------------------------------


def steps_url(info: RunInfo) -> str:
    """The address of a run's steps."""
    return path_url("runs", info.id, "steps")


@blueprint.get("/runs/<run>")
def run(run: str) -> AnyResponse:
    """A run, at the step that `?step=` says, or the last: what failed, failed there."""
    info = run_named(run)
    if request.args.get("step"):
        last = site().reader.last_step(info)
        url = step_url(info.id, number_in("step", last, 0, max(last, 0)))
        return redirect(url + query(watch=request.args.get("watch", "")), 302)
    return _run_page(info, site().reader.last_step(info))


@blueprint.get("/runs/<run>/steps/<int:step>")
def step(run: str, step: int) -> AnyResponse:
    """A step of a run."""
    info = run_named(run)
    return _run_page(info, existing_step(info, step))


@blueprint.get("/runs/<run>/steps/<int:step>/detail")
def detail(run: str, step: int) -> Response:
    """What the page shows of a step, without the page around it."""
    info = run_named(run)
    context = step_context(info, existing_step(info, step), part_wanted())
    return html_answer(render("parts/step.html", **frame(), **context))


@blueprint.get("/runs/<run>/head")
def head(run: str) -> Response:
    """How the run stands: the head of its page."""
    info = run_named(run)
    return html_answer(render("parts/head.html", **head_context(info, site().reader.last_step(info))))


def _run_page(info: RunInfo, chosen: int) -> Response:
    found = site()
    last = found.reader.last_step(info)
    overview = overview_of(info)
    first = max(chosen - BLOCK // 3, 0) // BLOCK
    final = min(chosen + BLOCK // 2, last) // BLOCK
    return page(
        "run.html",
        **{**step_context(info, chosen, part_wanted()), **head_context(info, last), **_picture(info, overview)},
        chosen=chosen,
        blocks=[
            block_of(info, overview, number * BLOCK, min((number + 1) * BLOCK, last + 1))
            for number in range(first, final + 1)
        ],
        **_watched(info, chosen, last),
        block_size=BLOCK,
        most=most_changes(overview),
        head_seq=info.head_seq,
    )


def _watched(info: RunInfo, step: int, last: int) -> dict[str, Any]:
    """What the query says is watched, as far as it is known or quickly found out."""
    seconds = WAIT_SECONDS if _is_small(info) else None  # to read a large payload takes longer than a page may
    return watch_context(info, step, request.args.get("watch", "").strip(), site().watchings.of, seconds, last)


def head_context(info: RunInfo, last: int) -> dict[str, Any]:
    """How a run stands."""
    row = row_in_list(info, site().names())
    status = row.status
    if row.standing in ("failed", "crashed", "cancelled", "interrupted"):
        status = f"{row.status} at step {last}"
    return {"run": row, "last": last, "status": status}


# -- one step -------------------------------------------------------------------------------------------------------


def step_context(info: RunInfo, step: int, part: str) -> dict[str, Any]:
    """What the template of a step is given."""
    found = site()
    damage: Damage = {}
    events, total = found.reader.share_of(info, step, damage)
    entry = found.reader.entry(info, step, events, damage)
    problem = damage.get(step, "")
    view = step_view(
        entry, events, lambda seq, field: event_values(info.id, seq, field), _name_of(found), standing(info)
    )
    view.more_events += total - len(events)
    nothing = info.head_seq < 0  # a run that has just been made has no events yet
    deferred = not nothing and not found.reader.is_quick(info, max(step - 1, 0))
    context: dict[str, Any] = {
        "run": run_row(info, found.names()),
        "step": view,
        "steps_url": steps_url(info),
        "diff_href": _diff_href(info, step),
        "part": part,
        "part_title": {**PARTS, **OTHER_PARTS}[part],
        "parts": [("payload", "Payload")],
        "step_number": step,
        "problem": problem,
        "in_flight": _in_flight(info, entry, step),
        "deferred": deferred,
        "counted": changes_known(info, found.overviews.of(info), step) or "",
        "unknown": False,
        "payload_size": None,
    }
    if nothing:
        context |= _nothing(info, step, part)
    elif not deferred:
        known = known_context(info, step, part, entry)
        context |= known | {"problem": problem or known["problem"]}
    return context


@blueprint.get("/runs/<run>/steps/<int:step>/payload")
def late(run: str, step: int) -> AnyResponse:
    """What a step's page left out because it takes a while: the payload and its changes."""
    info, part = run_named(run), part_wanted()
    existing_step(info, step)
    context = known_context(info, step, part, site().reader.entry(info, step, [], {}))
    if request.headers.get("X-Part") is None:  # without our script: the step's page, now that the state is known
        return redirect(step_url(info.id, step) + query(part="" if part == "payload" else part), 302)
    return html_answer(render("parts/late.html", **frame(), **(context | {"is_late": True})))


def known_context(info: RunInfo, step: int, part: str, entry: RoundEntry) -> dict[str, Any]:
    """As `payload_context`; of a damaged run what is known of that, and in `problem` which event is damaged."""
    try:
        return payload_context(info, step, part, entry)
    except CorruptLog as error:
        sound = site().reader.sound(info, step)
        found = {"problem": sound.problem or str(error), "no_changes": True}
        if sound.step == step:  # what comes after the damage may follow from a snapshot
            return payload_context(info, step, part, entry, with_changes=False) | found
        found["sound_url"] = step_url(info.id, sound.step) if sound.step != NO_STEP else ""
        return _nothing(info, step, part) | found | {"unknown": True, "sound_step": sound.step}


def payload_context(
    info: RunInfo, step: int, part: str, entry: RoundEntry, *, with_changes: bool = True
) -> dict[str, Any]:
    """The payload after a step, or another part of the state, and what the step changed of it.

    Raises:
        CorruptLog: that cannot be worked out.
    """
    reader = site().reader
    if step == 0 or part in OTHER_PARTS or not with_changes:
        difference, state = None, reader.state(info, step)
    else:
        parts = () if part == "payload" else (part,)
        difference = reader.difference(info, step - 1, step, parts)
        state = difference.states[1]
    value = stored_part(state, part)
    changes = () if difference is None else difference.changes
    marks = changes if part == "payload" else ()
    size = _size(info, step, state) if part == "payload" else None
    context = _nothing(info, step, part)
    return context | {
        "nodes": [] if part == "messages" else _nodes(value, info, step, part, marks),
        "messages": _messages(value, info, step) if part == "messages" else [],
        "earlier": max(len(value) - MESSAGES, 0) if part == "messages" else 0,
        "changes": _change_rows(info, step, part, difference, entry) if difference is not None else [],
        "more_changes": max(len(changes) - CHANGES, 0),
        "payload_size": size,
        "parts": _parts(state),
        "problem": untrue(state) if (size or CHECKED) < CHECKED else "",
    }


def _nothing(info: RunInfo, step: int, part: str) -> dict[str, Any]:
    """The context of a payload of which nothing is known."""
    verb = f"diff {info.id} --step {step}" if step else f"state {info.id} --step 0"
    return {
        "nodes": [],
        "unknown": False,
        "no_changes": False,
        "is_late": False,
        "problem": "",
        "sound_url": "",
        "sound_step": NO_STEP,
        "messages": [],
        "earlier": 0,
        "changes": [],
        "more_changes": 0,
        "payload_size": None,
        "part": part,
        "parts": [("payload", "Payload")],
        "steps_url": steps_url(info),
        "values_url": f"/api/v1/runs/{info.id}/steps/{step}/state",
        "blame_url": blame_url(info.id, step),
        "before_url": blame_url(info.id, step - 1) if step else "",
        "values_before": f"/api/v1/runs/{info.id}/steps/{max(step - 1, 0)}/state",
        "diff_href": _diff_href(info, step),
        "command": f"agentreplay {verb}" + ("" if part == "payload" else f" --part {part}"),
        "step_number": step,
    }


def _nodes(value: Any, info: RunInfo, step: int, part: str, changes: Any) -> list[Node]:
    if value is None and part != "payload":
        return []
    return tree_of(value, state_values(info.id, step, part), changes)


def _messages(value: Sequence[Any], info: RunInfo, step: int) -> list[MessageView]:
    """The last messages of a conversation."""
    first = max(len(value) - MESSAGES, 0)
    address = state_values(info.id, step, "messages")
    return [message_of(message, below(address, f"/{first + at}")) for at, message in enumerate(value[first:])]


def _size(info: RunInfo, step: int, state: RunState) -> int | None:
    facts = site().overviews.of(info).known(info, step)
    if facts is not None:
        return facts.size
    return len(dumps(state.stored_payload)) if site().reader.is_quick(info, step) else None


def _parts(state: RunState) -> list[tuple[str, str]]:
    """The parts of a state that hold something."""
    found = [("payload", "Payload")]
    for name, title in {**PARTS, **OTHER_PARTS}.items():
        value = None if name == "payload" else stored_part(state, name)
        if value is not None and value != [] and value != {}:
            number = f" {len(value):,}" if type(value) is list else ""
            found.append((name, title + number))
    return found


def _change_rows(info: RunInfo, step: int, part: str, difference: Difference, entry: RoundEntry) -> list[Any]:
    calls = calls_by_id(entry.calls)
    prefix = "" if part == "payload" else f"/{part}"

    def cause(change: Any) -> CauseRow | None:
        return cause_row(change.cause, steps_url(info), calls, step)

    def at(number: int) -> Any:
        values = state_values(info.id, number, part)
        return lambda pointer, start: values(pointer.removeprefix(prefix), start)

    blamed = blamed_at((info.id, step - 1), (info.id, step))
    return list(
        change_rows(
            difference.changes[:CHANGES],
            cause,
            at(step - 1),
            at(step),
            blame_of=blamed if part == "payload" else lambda change: "",
        )
    )


def calls_by_id(calls: list[CallEntry]) -> dict[str, tuple[int, str]]:
    """Of calls, by their ids: the event with which each began, and what it is called."""
    return {call.call: (call.seq, f"{call.kind} {visible(call.name[:60])}") for call in calls}


def _diff_href(info: RunInfo, step: int) -> str:
    return diff_url(place(info, max(step - 1, 0)), place(info, step))


def _name_of(found: Site) -> Any:
    names = found.names()
    return lambda uid: names.of(uid) or uid


def _in_flight(info: RunInfo, entry: RoundEntry, step: int) -> list[CallEntry]:
    """The calls of the last step of which it is not known what came of them."""
    if info.status not in ("running", "crashed") or entry.outcome is not None:
        return []
    return [call for call in entry.calls if call.status == "open"]
