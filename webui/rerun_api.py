"""Re-runs as operations of the JSON API: what one would do, starting one, the list, following and stopping one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from flask import Response, request
from werkzeug.exceptions import BadRequest, UnsupportedMediaType

from ..recorder.errors import UsageError
from ..recorder.store import RunInfo
from ..replay.listing import moment
from ..replay.rerun_request import MOST, NAME, PREFIXES, RerunRequest
from .answers import json_answer
from .api import RUN
from .edited_json import read_json, stored_of
from .live import stream
from .openapi import (
    ANY,
    COUNT,
    NEWS,
    POINTER,
    SCHEMAS,
    TEXT,
    TEXT_OR_NULL,
    Operation,
    Table,
    list_of,
    number,
    record,
    ref,
)
from .rerun_pages import live_step, refuse_if_read_only, reruns
from .rerun_plan import forecast, refuse_what_cannot_be
from .reruns import Started
from .run_pages import run_named
from .site import site

TABLE: Final = Table()

RERUN: Final = number("rerun", "A re-run, by its number on this server.", 1, where="path")

_NAME: Final = {"type": "string", "minLength": 1, "maxLength": NAME}
_NAMES: Final = {"type": "array", "maxItems": MOST, "items": _NAME}
_VALUES: Final = {"type": "object", "maxProperties": MOST, "propertyNames": _NAME, "additionalProperties": ANY}
_POINTER: Final = {"type": "string", "maxLength": NAME, "pattern": POINTER}

SCHEMAS["RerunRequest"] = {
    "type": "object",
    "required": ["step"],
    "additionalProperties": False,
    "properties": {
        "step": {"type": "integer", "minimum": 1, "description": "The first live step."},
        "set": {
            **_VALUES,
            "propertyNames": {"maxLength": NAME},
            "description": "Place in the payload → value; created or replaced.",
        },
        "patch": {
            "type": "array",
            "maxItems": MOST,
            "items": {
                "oneOf": [
                    record({"op": {"enum": ["add", "replace", "test"]}, "path": _POINTER, "value": ANY}),
                    record({"op": {"const": "remove"}, "path": _POINTER}),
                    record({"op": {"enum": ["move", "copy"]}, "path": _POINTER, "from": _POINTER}),
                ]
            },
            "description": "A JSON Patch for the payload, after `set`.",
        },
        "tool_results": {**_VALUES, "description": "Call of the step → what it gives instead of being made."},
        "model_responses": {**_VALUES, "description": "Call of the step → what it gives instead of being made."},
        "skip": {**_NAMES, "uniqueItems": True, "description": "Calls of the step that are not made and give null."},
        "messages": {"type": "array", "maxItems": MOST, "items": ANY, "description": "Added to the conversation."},
        "params": {**_VALUES, "description": "Parameters that get another value."},
        "input": {"description": "Another input, in stored form; it stays where this is left out."},
        "allow": {**_NAMES, "description": "Tools that may be called though they are irreversible."},
        "reuse": {"type": "boolean", "description": "Answer live calls that ask what was recorded as recorded."},
        "prefix": {"enum": list(PREFIXES), "description": "Execute the steps before, or take their outcome."},
        "compensate": {"type": "boolean", "description": "Undo before what the run did from the step on."},
        "max_rounds": {
            "type": ["integer", "null"],
            "description": "The last round there may be; that of the step, or later.",
        },
        "ignore": {**_NAMES, "description": "Rules of what is different each time."},
    },
}
SCHEMAS["Rerun"] = record(
    {
        "rerun": COUNT,
        "parent": TEXT,
        "step": COUNT,
        "run": TEXT_OR_NULL,
        "status": TEXT,
        "over": {"type": "boolean"},
        "started": TEXT,
        "ended": TEXT_OR_NULL,
        "exit_code": {"type": ["integer", "null"]},
        "coverage": {"type": ["object", "null"]},
        "divergences": list_of({"type": "object"}),
        "problem": TEXT_OR_NULL,
        "output": TEXT,
    }
)
SCHEMAS["Plan"] = record(
    {
        "run": TEXT,
        "step": COUNT,
        "last": COUNT,
        "answered": {
            "type": ["object", "null"],
            "description": "{calls, values, runs}; empty if the steps before are too long, null with `fold`.",
        },
        "edits": list_of({"type": "object"}),
        "changes": list_of(ref("Change")),
        "calls": list_of({"type": "object"}),
        "refused": list_of(TEXT),
        "compensated": list_of({"type": "object"}),
        "undone": list_of({"type": "object"}),
        "cut": {"type": "boolean"},
    }
)


@TABLE.add(
    Operation(
        "rerun",
        "POST",
        "/runs/{run}/rerun",
        "Run the agent again from a step, with edits, in a process of its own.",
        (RUN,),
        ref("Rerun"),
        body=ref("RerunRequest"),
        errors=(409, 415),
    )
)
def rerun(run: str) -> Response:
    """Start a re-run."""
    refuse_if_read_only()
    info = run_named(run)
    step, asked = _asked(info)
    reruns().refuse_unless_possible()
    forecast(info, step, asked)
    refuse_what_cannot_be(info, step, asked)
    return json_answer(rerun_json(reruns().start(info, step, asked)))


@TABLE.add(
    Operation(
        "rerun_plan",
        "POST",
        "/runs/{run}/rerun/plan",
        "What a re-run would do: what is answered from the log, edited, made again or refused. Nothing is executed.",
        (RUN,),
        ref("Plan"),
        body=ref("RerunRequest"),
        errors=(415,),
        harmless=True,
    )
)
def rerun_plan(run: str) -> Response:
    """What a re-run would do."""
    info = run_named(run)
    found = forecast(info, *_asked(info))
    return json_answer(found.plan.to_json() | {"cut": found.is_cut})


@TABLE.add(
    Operation(
        "reruns",
        "GET",
        "/reruns",
        "The re-runs that were started here, the newest first; a few dozen are remembered.",
        answer=record({"reruns": list_of(ref("Rerun"))}),
    )
)
def all_reruns() -> Response:
    """The re-runs that were started here."""
    return json_answer({"reruns": [rerun_json(one) for one in reruns().all()]})


@TABLE.add(Operation("rerun_one", "GET", "/reruns/{rerun}", "A re-run, as it stands.", (RERUN,), ref("Rerun")))
def one_rerun(rerun: int) -> Response:
    """A re-run."""
    return json_answer(rerun_json(reruns().named(rerun)))


@TABLE.add(
    Operation(
        "rerun_stop",
        "POST",
        "/reruns/{rerun}/stop",
        "Stop a re-run: as Ctrl-C does, and by force if that does not help. One that has ended stays as it is.",
        (RERUN,),
        ref("Rerun"),
    )
)
def stop_rerun(rerun: int) -> Response:
    """Stop a re-run."""
    refuse_if_read_only()
    return json_answer(rerun_json(reruns().stop(rerun)))


@TABLE.add(
    Operation(
        "rerun_live",
        "GET",
        "/reruns/{rerun}/live",
        "Server-sent events: `new` with {status, run, head} whenever a re-run stands otherwise; `end` when it ends.",
        (RERUN,),
        NEWS,
        media="text/event-stream",
    )
)
def rerun_live(rerun: int) -> Response:
    """Follow a re-run."""
    reruns().named(rerun)
    return stream(site().watch, -rerun, None)


def rerun_json(started: Started) -> dict[str, Any]:
    """What the API says of a re-run."""
    found = reruns()
    over = started.is_over
    child = found.child_of(started)
    told = started.told or {}
    divergences = told.get("divergences")
    return {
        "rerun": started.number,
        "parent": started.parent.id,
        "step": started.step,
        "run": None if child is None else child.id,
        "status": found.status(started, child),
        "over": over,
        "started": moment(started.at).isoformat(),
        "ended": None if started.ended_at is None else moment(started.ended_at).isoformat(),
        "exit_code": started.process.code,
        "coverage": told.get("coverage"),
        "divergences": divergences if isinstance(divergences, list) else [],
        "problem": found.problem_of(started, child) or None,
        "output": started.process.err.text(),
    }


def _asked(info: RunInfo) -> tuple[int, RerunRequest]:
    """The step and the request that the body says.

    Raises:
        UnsupportedMediaType, BadRequest: it is no JSON.
        UsageError: it asks for what there is not.
    """
    if request.mimetype != "application/json":
        raise UnsupportedMediaType("a re-run is asked for in JSON: Content-Type: application/json")
    try:
        text = request.get_data(cache=False).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not in UTF-8: {error.reason} at byte {error.start}") from None
    asked = RerunRequest.from_json(read_json(text))
    if asked.step is None:
        raise UsageError("step is missing: the first live step")
    return live_step(info, asked.step), _in_stored_form(asked)


def _in_stored_form(asked: RerunRequest) -> RerunRequest:
    """A request whose values may have been written as they are: large numbers, lone surrogates."""
    return replace(
        asked,
        set=_each(asked.set),
        patch=None
        if asked.patch is None
        else [
            {name: stored_of(part) if name == "value" else part for name, part in one.items()} for one in asked.patch
        ],
        tool_results=_each(asked.tool_results),
        model_responses=_each(asked.model_responses),
        messages=[stored_of(message) for message in asked.messages],
        params=None if asked.params is None else _each(asked.params),
        input=asked.input if asked.input is ... else stored_of(asked.input),
    )


def _each(values: Any) -> dict[str, Any]:
    return {name: stored_of(value) for name, value in values.items()}
