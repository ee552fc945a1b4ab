"""The pages: the list of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flask import Blueprint, Response, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ..recorder.errors import UsageError
from ..recorder.store import RunInfo
from ..replay.listing import Names
from .answers import html_answer
from .rendering import render
from .run_list import LARGEST_PAGE, PAGE, SORTS, STATUSES, Wanted, agents_of, page_of, runs_to_search
from .searching import search_runs
from .site import site
from .views import RunRow, run_row

blueprint = Blueprint("pages", __name__)


def frame() -> dict[str, Any]:
    """What every page is given."""
    found = site()
    return {
        "csrf": found.guard.csrf,
        "read_only": found.guard.read_only,
        "features": found.features,
        "store": found.store.name,
        "asks_for_token": found.guard.token is not None,
    }


def page(template: str, **context: Any) -> Response:
    """Render a page."""
    return html_answer(render(template, **frame(), **context))


def number_in(name: str, default: int, least: int, most: int) -> int:
    """A number from the query of the request.

    Raises:
        UsageError: it is none, or out of bounds.
    """
    text = request.args.get(name, "")
    if not text:
        return default
    digits = text.removeprefix("-")
    number = int(text) if digits.isascii() and digits.isdigit() and len(digits) < 16 else None
    if number is None or not least <= number <= most:
        raise UsageError(f"{name} is a number from {least} to {most}, not {text[:40]!r}")
    return number


def wanted_runs() -> Wanted:
    """Which runs the query of the request asks for.

    Raises:
        UsageError: by something that there is not.
    """
    status, sort = request.args.get("status", ""), request.args.get("sort") or "-run"
    if status and status not in STATUSES:
        raise UsageError(f"a run's status is none of {', '.join(STATUSES)}: {status[:40]!r}")
    if sort not in SORTS:
        raise UsageError(f"runs are sorted by {', '.join(SORTS)}, not {sort[:40]!r}")
    return Wanted(
        status,
        request.args.get("agent", ""),
        request.args.get("q", ""),
        sort,
        request.args.get("cursor", ""),
        number_in("limit", PAGE, 1, LARGEST_PAGE),
        in_values=request.args.get("in") == "values",
    )


@blueprint.get("/")
def start() -> AnyResponse:
    """The first page is the list of runs."""
    return redirect("/runs", 302)


@blueprint.get("/runs")
def runs() -> Response:
    """The list of runs, or what is found in their values; with `?part=table` the table alone."""
    found, wanted = site(), wanted_runs()
    infos, asked = found.runs(), wanted.asked
    given = {"status": wanted.status, "agent": wanted.agent, "q": wanted.text, "sort": request.args.get("sort", "")}
    given["in"] = "values" if wanted.in_values else ""
    context: dict[str, Any] = {
        "wanted": wanted,
        "asked": asked,
        "given": given,
        "total": len(infos),
        "statuses": STATUSES,
        "agents": agents_of(infos),
    }
    if asked.in_values and asked.text:
        return page("runs.html", **context, searched=_searched(infos, wanted))
    chosen = page_of(infos, wanted, lambda info: found.end_of(info).error, found.tags.of)
    names = found.names()
    context |= {"rows": [row_in_list(info, names) for info in chosen.runs], "next": chosen.next, "searched": None}
    return page("runs_table.html" if request.args.get("part") == "table" else "runs.html", **context)


def row_in_list(info: RunInfo, names: Names) -> RunRow:
    """A run with all that a list says of it; `names` is what runs are called."""
    found = site()
    end = found.end_of(info)
    return run_row(info, names, end.error, end.tokens, end.cost, found.tags.of(info))


def _searched(infos: Sequence[RunInfo], wanted: Wanted) -> dict[str, Any]:
    """What is found in the values of runs."""
    found, asked = site(), wanted.asked
    names = found.names()
    finds = search_runs(found.store, runs_to_search(infos, wanted, found.tags.of), asked.text[:1_000], wanted.cursor)
    return {
        "runs": [(row_in_list(each.info, names), each.hits, each.next) for each in finds.runs],
        "count": finds.searched,
        "total": finds.total,
        "next": finds.next,
        "left_out": finds.left_out,
    }
