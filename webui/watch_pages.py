"""The part of a run's page that shows a watched expression, and the same as JSON."""

from __future__ import annotations

from typing import Any, Final

from flask import Blueprint, Response, request

from ..recorder.errors import UsageError
from ..recorder.values import loads
from ..replay.watching import LONGEST
from .answers import html_answer, json_answer
from .api import NEXT, RUN
from .openapi import ANY, COUNT, TEXT, TEXT_OR_NULL, Operation, Table, list_of, number, record, text
from .pages import frame, number_in
from .rendering import render
from .run_pages import existing_step, run_named
from .site import site
from .watch_views import watch_context
from .watching import Seen

blueprint = Blueprint("watch", __name__)
TABLE: Final = Table()

SECONDS: Final = 0.3
"""So long a request goes on with looking."""

SPANS: Final = 500
MOST_SPANS: Final = 2_000
"""Spans in one answer of the API."""

SPAN: Final = record(
    {
        "first": COUNT,
        "last": COUNT,
        "value": ANY,
        "missing": {"type": "boolean"},
        "left_out": {"type": "boolean"},
        "problem": TEXT_OR_NULL,
    }
)


@blueprint.get("/runs/<run>/watch")
def watch(run: str) -> Response:
    """What the expression `watch` came to, as a part of the page of `step`."""
    info = run_named(run)
    last = site().reader.last_step(info)
    step = existing_step(info, number_in("step", last, 0, 10**9))
    text = request.args.get("watch", "").strip()
    context = watch_context(info, step, text, site().watchings.of, SECONDS, last)
    return html_answer(render("parts/watch.html", **frame(), **context))


@TABLE.add(
    Operation(
        "watch",
        "GET",
        "/runs/{run}/watch",
        "What a JMESPath expression over the payload comes to at each step of a run, by spans of steps with the same "
        "value. It is looked for a short time; `complete` says whether that was enough, `until` up to which step it "
        "was, and `next` leads on, also to more spans. A value of more than 2,000 bytes is left out.",
        (
            RUN,
            text(
                "expression",
                "A JMESPath expression.",
                most=LONGEST,
                least=1,
                required=True,
                example="length(@)",
            ),
            number("start", "The step with whose span they begin: 0, or `next` of the answer before.", default=0),
            number("limit", "Spans in the answer.", 1, MOST_SPANS, default=SPANS),
        ),
        record(
            {
                "run": TEXT,
                "expression": TEXT,
                "path": TEXT_OR_NULL,
                "complete": {"type": "boolean"},
                "until": COUNT,
                "spans": list_of(SPAN),
                "next": NEXT,
            },
            problem=TEXT,
        ),
    )
)
def watch_json(run: str, expression: str, start: int, limit: int) -> Response:
    """What an expression comes to."""
    info = run_named(run)
    found = site().watchings.of(info, expression, 3 * SECONDS)
    if found.error:
        raise UsageError(found.error)
    seen, is_over = list(found.seen), found.is_over
    told = [span for span in (seen if is_over else seen[:-1]) if span.last >= start][:limit]
    after = told[-1].last + 1 if told else start
    is_all = is_over and (not told or told[-1].last >= seen[-1].last)
    return json_answer(
        {
            "run": info.id,
            "expression": expression,
            "path": found.path,
            "complete": is_over,
            "until": max(found.step, 0),
            "spans": [_span(span) for span in told],
            "next": None if is_all else after,
            **({"problem": found.problem} if found.problem else {}),
        }
    )


def _span(seen: Seen) -> dict[str, Any]:
    return {
        "first": seen.first,
        "last": seen.last,
        "value": None if seen.stored is None else loads(seen.stored),
        "missing": seen.is_missing,
        "left_out": seen.stored is None and not seen.is_missing,
        "problem": seen.problem or None,
    }
