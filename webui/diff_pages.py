"""The pages of differences: what lies between two steps, and every event that ever changed a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound

from ..recorder.errors import CorruptLog, UsageError
from ..recorder.store import RunInfo
from ..replay.between import stored_part
from ..replay.changes import Change, Changes, summary_of
from ..replay.difference import Difference
from ..replay.outline import entry_of
from ..replay.paths import display_keys, keys_of
from ..replay.readable import count
from ..replay.reading import blame as blame_of
from .addresses import blamed_at, diff_url, place, state_values, step_url
from .answers import html_answer
from .differences import CauseRow, ChangeRow, cause_row, change_rows, side_by_side
from .pages import frame, number_in, page
from .rendering import render
from .run_pages import PARTS, calls_by_id, existing_step, path_wanted, run_named, steps_url
from .site import site
from .sound import difference_told
from .views import run_row

blueprint = Blueprint("diff", __name__)

CHANGES: Final = 400
"""Changes that are listed at once."""

NAMED: Final = 24
"""Steps whose calls are looked up, to name those that made changes."""

DECISIONS: Final = 40
"""Steps in between whose decisions are told."""


class Place(NamedTuple):
    """A step of a run."""

    info: RunInfo
    step: int


def place_named(name: str, text: str) -> Place:
    """The place that the query asks for: "run42:7", or "run42" for its last step; "run42:-1" counts from the end.

    Raises:
        UsageError: it is none.
        NotFound: the run has no such step.
    """
    run, _, number = text.rpartition(":") if ":" in text else (text, "", "")
    digits = number.removeprefix("-")
    if not run or (number and not (digits.isascii() and digits.isdigit() and len(digits) < 16)):
        raise UsageError(f"{name} is a step of a run, such as run42:7, not {text[:60]!r}")
    info = run_named(run)
    last = site().reader.last_step(info)
    step = int(number) if number else last
    return Place(info, existing_step(info, step if step >= 0 else last + 1 + step))


def places_wanted() -> tuple[Place, Place]:
    """The two places that the query asks for; without `from`, `to` is compared with the step before it.

    Raises:
        UsageError: there is no `to`.
    """
    text = request.args.get("to", "").strip()
    if not text:
        raise UsageError("say which steps to compare: ?from=run42:6&to=run42:7")
    new = place_named("to", text)
    given = request.args.get("from", "").strip()
    return (place_named("from", given) if given else Place(new.info, max(new.step - 1, 0))), new


def part_compared() -> str:
    """The part of the states that is compared.

    Raises:
        UsageError: there is no such part, or it does not change.
    """
    part = request.args.get("part") or "payload"
    if part not in PARTS:
        raise UsageError(f"changes of {part[:40]!r} cannot be followed; choose from {', '.join(PARTS)}")
    return part


@blueprint.get("/diff")
def diff() -> Response:
    """What lies between two steps, of one run or of two."""
    part = part_compared()
    if not request.args.get("to"):
        runs = [run_row(info, site().names()) for info in site().runs()[-20:][::-1]]
        return page("diff_start.html", runs=runs)
    old, new = places_wanted()
    told = difference_told(site().reader, old, new, part)
    shown_old, shown_new = Place(*told.old), Place(*told.new)
    same = old.info.uid == new.info.uid
    return page(
        "diff.html",
        old=old,
        new=new,
        old_run=run_row(old.info, site().names()),
        new_run=run_row(new.info, site().names()),
        same=same,
        part=part,
        parts_of_state=PARTS,
        problems=told.problems,
        shown_old=shown_old,
        shown_new=shown_new,
        is_told=told.found is not None,
        **_changes_told(told.found, shown_old, shown_new, part),
        swapped=diff_url(place(*new), place(*old), part),
        earlier=diff_url(place(old.info, old.step - 1), place(new.info, new.step - 1), part)
        if min(old.step, new.step) > 0
        else "",
        later=diff_url(place(old.info, old.step + 1), place(new.info, new.step + 1), part)
        if old.step < site().reader.last_step(old.info) and new.step < site().reader.last_step(new.info)
        else "",
        command=_command(old, new, part),
    )


def _changes_told(found: Difference | None, old: Place, new: Place, part: str) -> dict[str, Any]:
    """What the template is given of a difference; of one that cannot be told, nothing."""
    if found is None:
        return {"summary": "", "changes": [], "more": 0, "sides": [], "decisions": [], "warnings": []}
    prefix = "" if part == "payload" else f"/{part}"
    changes = found.changes if part == "payload" else tuple(_inside(change) for change in found.changes)
    causes = _causes(found)
    blame_of_change = _blamed(old, new, part)
    rows = change_rows(
        found.changes[:CHANGES],
        lambda change: causes.get(id(change)),
        _values(old, part, prefix),
        _values(new, part, prefix),
        blame_of=blame_of_change,
    )
    return {
        "summary": summary_of(found.changes),
        "changes": list(rows),
        "more": max(len(found.changes) - CHANGES, 0),
        "sides": side_by_side(stored_part(found.states[1], part), changes, blame_of_change),
        "decisions": _decisions(found, new) if old.info.uid == new.info.uid else [],
        "warnings": [(event.seq, text) for event, text in found.warnings[:CHANGES]],
    }


def _blamed(old: Place, new: Place, part: str) -> Callable[[Change], str]:
    """Gives the address of what ever changed the value of a change; of the payload alone is that known."""
    if part != "payload":
        return lambda change: ""
    return blamed_at((old.info.id, old.step), (new.info.id, new.step))


def _inside(change: Change) -> Change:
    """The change as one of the part that it is in."""
    start = change.from_keys[1:]
    return replace(
        change,
        keys=change.keys[1:],
        path=_without_first(change.path),
        from_keys=start,
        from_path=None if change.from_path is None else _without_first(change.from_path),
    )


def _without_first(pointer: str) -> str:
    return "/".join(["", *pointer.split("/")[2:]]) if pointer.count("/") > 1 else ""


def _values(at: Place, part: str, prefix: str) -> Any:
    values = state_values(at.info.id, at.step, part)
    return lambda pointer, start: values(pointer.removeprefix(prefix), start)


def _causes(found: Difference) -> dict[int, CauseRow | None]:
    """What made each change, in a few words; of two runs with the run that it is in."""
    same = found.old[0].uid == found.new[0].uid
    pairs = list(zip(found.changes[:CHANGES], found.cause_runs, strict=False))
    steps = {(run.uid, change.cause.step): run for change, run in pairs if change.cause and change.cause.call}
    calls: dict[str, dict[str, tuple[int, str]]] = {}
    for (uid, step), run in list(steps.items())[:NAMED]:
        for entry in site().reader.entries(run, step, step + 1, {}):
            calls.setdefault(uid, {}).update(calls_by_id(entry.calls))
    return {
        id(change): cause_row(change.cause, steps_url(run), calls.get(run.uid, {}), run="" if same else run.id)
        for change, run in pairs
    }


def _decisions(found: Difference, new: Place) -> list[tuple[int, str, str, str]]:
    """The steps in between: number, word, why, address."""
    decided = {event.round: event for event in found.entered if event.kind == "step.decided"}
    told = []
    for step, event in list(decided.items())[:DECISIONS]:
        entry = entry_of(step, [event])
        told.append((step, entry.word or "–", entry.reasoning or "", step_url(new.info.id, step)))
    return told


def _command(old: Place, new: Place, part: str) -> str:
    rest = "" if part == "payload" else f" --part {part}"
    if old.info.uid == new.info.uid:
        if new.step - old.step == 1:
            return f"agentreplay diff {new.info.id} --step {new.step}{rest}"
        return f"agentreplay diff {new.info.id} --from {old.step} --to {new.step}{rest}"
    return f"agentreplay diff {old.info.id} {new.info.id} --step {new.step}{rest}" if old.step == new.step else ""


def blame_told(info: RunInfo, pointer: str, step: int) -> tuple[Changes, int, str]:
    """Every change of a value up to a step, as far as it can be told.

    Returns:
        The changes, the step up to which they are told, and which event is damaged if that is an earlier one.

    Raises:
        NotFound: nothing was ever there, as far as the run is sound.
        CorruptLog: not even the start of the run is.
    """
    store, problem = site().store, ""
    try:
        try:
            return blame_of(info, pointer, store, step=step), step, ""
        except CorruptLog as error:
            sound = site().reader.sound(info, step, from_start=True)
            problem = sound.problem or str(error)
            if not 0 <= sound.step < step:
                raise
            return blame_of(info, pointer, store, step=sound.step), sound.step, problem
    except UsageError as error:
        raise NotFound(". ".join([str(error), *filter(None, [problem])])) from None


@blueprint.get("/runs/<run>/blame")
def blame(run: str) -> Response:
    """Every event that ever changed the value at `path`, newest first."""
    info, pointer = run_named(run), path_wanted()
    step = existing_step(info, _step_wanted(info))
    changes, step, problem = blame_told(info, pointer, step)

    def at(change: Change, before: bool) -> Any:
        number = max(change.cause.step - 1, 0) if change.cause and before else change.cause.step if change.cause else 0
        return state_values(info.id, number)

    rows: list[ChangeRow] = []
    calls = _calls(info, changes)
    for change in changes:
        rows += change_rows(
            [change],
            lambda made: cause_row(made.cause, steps_url(info), calls),
            at(change, True),
            at(change, False),
            lambda made: getattr(made, "note", None) or "",
        )
    shown = display_keys(keys_of(pointer))
    context = {
        "run": run_row(info, site().names()),
        "step": step,
        "problem": problem,
        "shown": shown,
        "rows": rows,
        "summary": count(len(rows), "change"),
        "command": f"agentreplay blame {info.id} {pointer or '(payload)'}" if len(pointer) < 100 else "",
    }
    if request.headers.get("X-Part") is not None:
        return html_answer(render("parts/blame.html", **frame(), **context))
    return page("blame.html", **context)


def _calls(info: RunInfo, changes: Changes) -> dict[str, tuple[int, str]]:
    """The calls that made changes, by their ids."""
    steps = dict.fromkeys(change.cause.step for change in changes if change.cause and change.cause.call)
    found: dict[str, tuple[int, str]] = {}
    for step in list(steps)[:NAMED]:
        for entry in site().reader.entries(info, step, step + 1, {}):
            found.update(calls_by_id(entry.calls))
    return found


def _step_wanted(info: RunInfo) -> int:
    last = site().reader.last_step(info)
    return number_in("step", last, 0, max(last, 0))
