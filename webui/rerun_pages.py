"""The pages of re-runs: a form at a step, what it would do, and a re-run while it goes on and when it has ended.

The form is checked by being sent: the answer says field by field what is wrong, and what would happen. The script sends
it while somebody types and puts the answer beside the form; without a script, the page comes back with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from flask import Blueprint, Flask, Response, current_app, redirect, request
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import Forbidden
from werkzeug.wrappers import Response as AnyResponse

from ..recorder.errors import AgentReplayError, CorruptLog, UsageError
from ..recorder.store import RunInfo
from ..replay.changes import MISSING, Changes
from ..replay.insides import inside_of
from ..replay.listing import error_text
from ..replay.paths import display_keys, join, keys_of
from ..replay.readable import count, readable
from ..replay.streamed import streamed_of
from ..replay.timeline import CallOfStep, calls_of
from .addresses import run_url, state_values, step_url
from .answers import html_answer
from .compare_pages import compare_context
from .differences import ChangeRow, change_rows
from .edited_json import text_of
from .in_words import in_line, is_container
from .pages import frame, page
from .rendering import path_url, query, render
from .rerun_command import command_of
from .rerun_form import MESSAGES, ROLES, Asked, Base, Draft, StepCall, draft_of, fresh_draft, part_of, read
from .rerun_plan import KEPT, NAME, Ahead, Forecast, forecast, refuse_what_cannot_be
from .reruns import HOW, Reruns, Started
from .run_pages import block_of, existing_step, overview_of, run_named
from .site import Kept, site
from .step_views import arguments_of, is_refusal
from .tree_views import edit_in_words
from .views import run_row

blueprint = Blueprint("rerun", __name__)

FEATURE: Final = "rerun"
CALLS: Final = 100
"""Calls of the step whose answers can be edited in the form; more of the plan are not listed either."""

CHANGES: Final = 60
"""Changes of an edit that are shown."""

SHOWN: Final = 120
"""Characters of a recorded answer that are shown in its line."""

PARTS: Final = 60
"""Parts of a large payload that are offered to be edited."""

STEPS: Final = 40
"""Live steps that are shown while a re-run goes on: the last ones."""

FATES: Final = {
    "live": "made again",
    "edited": "answered as edited",
    "skipped": "not made",
    "reused": "answered as recorded, if it asks the same",
    "refused": "refused",
}
"""What becomes of a recorded call, in words."""


def register(app: Flask) -> None:
    """Add these pages to an application, and say that it has them, unless it changes nothing."""
    found = app.extensions["agentreplay"]
    reruns = Reruns(found.store, found.app)
    app.extensions["agentreplay.reruns"] = reruns
    app.extensions[NAME] = Kept[Ahead](KEPT)
    found.watch.others = lambda key: reruns.news_of(-key)
    app.register_blueprint(blueprint)
    if not found.guard.read_only:
        found.features.add(FEATURE)


def reruns() -> Reruns:
    """The re-runs of the server whose page is being made."""
    found: Reruns = current_app.extensions["agentreplay.reruns"]
    return found


def refuse_if_read_only() -> None:
    """Refuse, also to show the form, where nothing may be changed.

    Raises:
        Forbidden: the server was started with `--read-only`.
    """
    if site().guard.read_only:
        raise Forbidden("This server was started with --read-only: it runs nothing again.")


def live_step(info: RunInfo, step: int) -> int:
    """A step from which a run can be run again.

    Raises:
        NotFound: the run has no such step.
        UsageError: it is the start.
    """
    if existing_step(info, step) < 1:
        raise UsageError(f"{info.id} is run again from a step from 1 on; step 0 is its start")
    return step


# -- the form ---------------------------------------------------------------------------------------------------------


def rerun_url(info: RunInfo, step: int) -> str:
    """The address of the form."""
    return path_url("runs", info.id, "steps", step, "rerun")


@blueprint.get("/runs/<run>/steps/<int:step>/rerun")
def form(run: str, step: int) -> Response:
    """The form, as nothing is edited; with `again`, as a re-run was asked for; `at` is the part of the payload."""
    refuse_if_read_only()
    info = run_named(run)
    try:
        base = base_of(info, live_step(info, step))
    except CorruptLog as error:
        return _damaged(info, step, str(error))
    again = request.args.get("again", "")
    draft = fresh_draft(base, request.args.get("at", ""))
    if again.isascii() and again.isdigit() and len(again) < 10:
        started = reruns().named(int(again))
        if started.parent.uid == info.uid and started.draft:
            draft = _completed(draft_of(MultiDict(dict(started.draft))), draft)
    if request.args.get("prefix") == "fold":
        draft.prefix = "fold"
    return _form_page(info, step, draft, base)


@blueprint.post("/runs/<run>/steps/<int:step>/rerun")
def asked(run: str, step: int) -> AnyResponse:
    """The form as it was sent: to be checked, to have something more in it, or to be run (`do`)."""
    refuse_if_read_only()
    info = run_named(run)
    base = base_of(info, live_step(info, step))
    draft = draft_of(request.form)
    do = request.form.get("do", "check")
    is_part, status = request.headers.get("X-Part") is not None, 200
    if do == "run":
        found = read(draft, base)
        if not found.errors:
            refuse_what_cannot_be(info, step, found.request)
            kept = {name: list(texts) for name, texts in request.form.lists() if name not in ("csrf", "do")}
            url = path_url("reruns", reruns().start(info, step, found.request, kept).number)
            return Response(status=201, headers={"Location": url}) if is_part else redirect(url, 303)
        status = 422
    if is_part:
        context = _plan_context(info, step, draft, base)
        checked = html_answer(render("parts/rerun_check.html", **frame(), **context))
        checked.status_code = status
        return checked
    if status == 422:
        return _form_page(info, step, draft, base, status=status)
    if do == "part":
        part = request.form.get("part", "")
        draft.at, draft.payload = part, fresh_draft(base, part).payload
    elif do == "message":
        draft.messages = [*draft.messages, ("user", "")][:MESSAGES]
    elif do.startswith("open:"):
        _open(info, draft, base, do.removeprefix("open:"))
    return _form_page(info, step, draft, base)


def _damaged(info: RunInfo, step: int, problem: str) -> Response:
    """That there is nothing to edit before a step, since the log is damaged there; and from where the run can go on."""
    sound = site().reader.sound(info, step - 1, from_start=True)
    earlier = min(sound.step + 1, step - 1)
    made = page(
        "rerun_damaged.html",
        run=run_row(info, site().names()),
        step_number=step,
        problem=sound.problem or problem,
        step_href=step_url(info.id, step),
        earlier=rerun_url(info, earlier) if earlier > 0 else "",
        earlier_step=earlier,
    )
    made.status_code = 422
    return made


def _completed(draft: Draft, fresh: Draft) -> Draft:
    """A form that was sent before, with the recorded texts where it had none."""
    draft.answers = {**fresh.answers, **draft.answers}
    draft.messages = draft.messages or fresh.messages
    return draft


def _open(info: RunInfo, draft: Draft, base: Base, name: str) -> None:
    """Put the recorded answer of a call into the form, whole.

    Raises:
        UsageError: the step has no such call.
    """
    call = next((call for call in base.calls if call.call == name), None)
    if call is None:
        raise UsageError(f"this step has no call {name[:60]}")
    draft.ways[name] = "answer"
    if name not in draft.answers:
        given = call.given
        if call.end_seq is not None and call.status == "returned":
            given = _given(site().reader.event(info, call.end_seq, whole=True).data)
        draft.answers[name] = "null" if given is MISSING else text_of(given)


def base_of(info: RunInfo, step: int) -> Base:
    """What is edited before a step, and the calls of the step."""
    state = site().reader.state(info, step - 1)
    share, _ = site().reader.share_of(info, step, {})
    calls = [_step_call(call) for call in calls_of(event for event in share if event.round == step)]
    return Base(state.stored_payload, state.stored_params, state.stored_input, tuple(calls[:CALLS]))


def _step_call(call: CallOfStep) -> StepCall:
    data: Any = call.called.data
    asked = data.request if call.kind == "model" else data.arguments
    given: Any = MISSING
    shown = call.status
    if call.ended is not None and call.status == "returned":
        given = _given(call.ended.data)
        streamed = streamed_of(call.ended.data)
        shown = readable(given, SHOWN) if streamed is None else streamed.line(SHOWN)
    elif call.ended is not None and getattr(call.ended.data, "error", None) is not None:
        shown = error_text(call.ended.data.error)
    is_elsewhere = type(given) is dict and given.get("$type") == "blob"
    return StepCall(
        call.call,
        call.kind,
        call.name,
        call.status,
        arguments_of(asked),
        shown,
        MISSING if is_elsewhere else given,
        None if call.ended is None else call.ended.seq,
    )


def _given(data: Any) -> Any:
    """What a call gave, as an answer in its place is given: of a stream its chunks."""
    given = data.response if hasattr(data, "response") else data.result
    return [*data.stream] if given is None and data.stream is not None else given


def _form_page(info: RunInfo, step: int, draft: Draft, base: Base, status: int = 200) -> Response:
    plan = _plan_context(info, step, draft, base)
    part = part_of(base, draft.at)
    made = page(
        "rerun.html",
        **plan,
        draft=draft,
        base=base,
        roles=ROLES,
        is_large=draft.payload is None,
        part_shown=display_keys(keys_of(draft.at, base.payload)) if draft.at else "",
        parts_of_payload=_parts(part, draft.at, base) if draft.payload is None else [],
        part_size=in_line(part),
        most_messages=MESSAGES,
    )
    made.status_code = status
    return made


def _parts(part: Any, at: str, base: Base) -> list[tuple[str, str, str]]:
    """What a large part of the payload consists of: pointer, name, and how large it is."""
    inside: Any = inside_of(part)
    if inside is None:
        return []
    keys = keys_of(at, base.payload)
    names = range(min(len(inside), PARTS)) if type(inside) is list else list(inside)[:PARTS]
    return [(join((*keys, name)), display_keys((*keys, name)), in_line(inside[name])) for name in names]


# -- what would happen ------------------------------------------------------------------------------------------------


def _plan_context(info: RunInfo, step: int, draft: Draft, base: Base) -> dict[str, Any]:
    """What the templates are given of what a form would do."""
    found = reruns()
    context: dict[str, Any] = {
        "run": run_row(info, site().names()),
        "step_number": step,
        "url": rerun_url(info, step),
        "step_href": step_url(info.id, step),
        "app": found.app,
        "how": HOW,
        "problem": "",
        "plan": None,
        "fields": _fields(draft, base, {}),
        "errors": {},
        "heard": "",
        "unavailable": _unavailable(),
        "command": "",
    }
    try:
        asked = read(draft, base)
        context |= {"fields": _fields(draft, base, asked.errors), "errors": asked.errors}
        ahead = forecast(info, step, asked.request)
    except AgentReplayError as error:
        return context | {"problem": str(error), "heard": "This cannot be run."}
    return context | _told(info, step, asked, ahead)


def _unavailable() -> str:
    """Why nothing can be run here, or empty."""
    from werkzeug.exceptions import HTTPException

    try:
        reruns().refuse_unless_possible()
    except HTTPException as error:
        return str(error.description)
    return ""


def _fields(draft: Draft, base: Base, errors: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Field → its id in the page, and what is wrong with it."""
    ids = {name: name for name in ("payload", "params", "input", "ignore")}
    ids |= {f"answer:{call.call}": f"answer-{at}" for at, call in enumerate(base.calls)}
    ids |= {f"message:{at}": f"message-{at}" for at in range(len(draft.messages))}
    return {name: (made, errors.get(name, "")) for name, made in ids.items()}


def _told(info: RunInfo, step: int, asked: Asked, ahead: Forecast) -> dict[str, Any]:
    plan = ahead.plan
    counts: dict[str, int] = {}
    for call in plan.calls:
        counts[call.fate] = counts.get(call.fate, 0) + 1
    edits = len(plan.changes) + sum(max(len(edit.changes), 1) for edit in asked.edits)
    heard = [count(edits, "edit"), f"{count(len(plan.refused), 'tool')} refused" if plan.refused else ""]
    wrong = count(len(asked.errors), "field") + " cannot be read" if asked.errors else ""
    return {
        "plan": plan,
        "tools": ahead.tools,
        "is_cut": ahead.is_cut,
        "counts": [(FATES[fate], number, fate) for fate, number in counts.items()],
        "fates": FATES,
        "calls": plan.calls[:CALLS],
        "more_calls": max(len(plan.calls) - CALLS, 0),
        "payload_rows": _rows(plan.changes, info, step),
        "more_changes": max(len(plan.changes) - CHANGES, 0),
        "other_edits": [(edit.title, _rows(edit.changes, info, step, edit.whole), edit.text) for edit in asked.edits],
        "nothing_edited": not edits,
        "heard": wrong or ", ".join(filter(None, heard)),
        "command": "" if asked.errors else command_of(info.id, step, asked.request, plan.changes, reruns().app),
    }


def _rows(changes: Changes, info: RunInfo, step: int, whole: str = "") -> list[ChangeRow]:
    """Changes as rows; what is new has no address yet, so it is written out, as far as there is room.

    Args:
        changes: of the payload, or of what `whole` says.
        info, step: of which state the payload is changed.
        whole: what is edited, if that is not the payload.
    """
    shown = changes[:CHANGES]
    rows = change_rows(shown, lambda change: None, _nowhere if whole else state_values(info.id, step - 1), _nowhere)
    told = []
    for row, change in zip(rows, shown, strict=True):
        path = row.path if change.keys or not whole else f"({whole})"
        is_written = is_container(change.new) and change.kind != "move"
        told.append(replace(row, path=path, new=readable(change.new, 2 * SHOWN) if is_written else row.new))
    return told


def _nowhere(pointer: str, start: int) -> str:
    return ""


# -- re-runs that were started ----------------------------------------------------------------------------------------


@blueprint.get("/reruns")
def started_list() -> Response:
    """The re-runs that were started here."""
    refuse_if_read_only()
    rows = []
    for started in reruns().all():
        child = reruns().child_of(started)
        rows.append((started, reruns().status(started, child), None if child is None else child.id))
    return page("reruns.html", rows=rows, app=reruns().app, how=HOW)


@blueprint.get("/reruns/<int:number>")
def started_one(number: int) -> Response:
    """A re-run: its steps as they are recorded, and in the end both runs side by side; with `?part=1` that alone."""
    refuse_if_read_only()
    context = _started_context(reruns().named(number))
    if request.args.get("part"):
        return html_answer(render("parts/rerunning.html", **frame(), **context))
    return page("rerunning.html", **context)


@blueprint.post("/reruns/<int:number>/stop")
def stop(number: int) -> AnyResponse:
    """Stop a re-run."""
    refuse_if_read_only()
    return redirect(path_url("reruns", reruns().stop(number).number), 303)


def _started_context(started: Started) -> dict[str, Any]:
    found, names = reruns(), site().names()
    is_over = started.is_over  # asked first: what it records after is on the next page
    child = found.child_of(started)
    status = found.status(started, child)
    problem = found.problem_of(started, child)
    context: dict[str, Any] = {
        "number": started.number,
        "parent": run_row(started.parent, names),
        "step_number": started.step,
        "status": status,
        "is_over": is_over,
        "started_at": started.at,
        "child": None if child is None else run_row(child, names, site().end_of(child).error),
        "edits": list(_edits_in_words(started)),
        "allowed": list(started.request.allow),
        "again": rerun_url(started.parent, started.step) + query(again=started.number if started.draft else ""),
        "folded": "",
        "problem": problem,
        "divergences": [],
        "output": "" if problem else started.process.err.text().strip(),
        "is_refused": child is not None and is_refusal(site().end_of(child).error),
        "was_stopped": started.process.stopped,
        "rows": [],
        "steps_url": "",
        "most": 0,
        "start": 0,
        "stop": 0,
        "compared": False,
        "last": 0,
    }
    if status == "diverged":
        context |= _diverged(started)
    if child is not None:
        context |= _live_steps(child, started.step)
        if is_over and child.head_seq >= 0:
            context |= compare_context(started.parent, child) | {"compared": True}
    return context


def _edits_in_words(started: Started) -> Iterator[str]:
    for edit in started.request.edits(lambda stored: stored).described():
        for one in edit.get("patch") or ():
            yield edit_in_words({"edit": one["op"], **{name: part for name, part in one.items() if name != "op"}})
        if "patch" not in edit:
            yield edit_in_words(edit)


def _live_steps(child: RunInfo, step: int) -> dict[str, Any]:
    """The steps that a re-run recorded itself, the last of them, as rows."""
    last = site().reader.last_step(child)
    start = max(step, last - STEPS + 1)
    block = block_of(child, overview_of(child), start, last + 1) if last >= start else None
    return {
        "rows": [] if block is None else block.rows,
        "start": start,
        "stop": last + 1,
        "steps_url": f"{run_url(child.id)}/steps",
        "last": last,
    }


def _diverged(started: Started) -> dict[str, Any]:
    """Where the code parted from the recording, as the process told it."""
    told = (started.told or {}).get("divergences")
    rows = [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []
    shown = [
        {
            "step": one.get("step"),
            "kind": str(one.get("kind", "")),
            "path": str(one.get("path") or ""),
            "expected": readable(one.get("expected"), 2 * SHOWN),
            "actual": readable(one.get("actual"), 2 * SHOWN),
        }
        for one in rows[:8]
    ]
    folded = rerun_url(started.parent, started.step) + query(
        again=started.number if started.draft else "", prefix="fold"
    )
    return {"divergences": shown, "folded": folded, "problem": ""}
