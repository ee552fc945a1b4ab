"""The health of a store: what it holds, whether it is sound, and what it hides.

Verifying reads every event, so it is done when it is asked for; see `verifier`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flask import Blueprint, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from ..recorder.databases import path_of
from ..recorder.errors import AgentReplayError
from ..recorder.store import EventStore
from ..replay.listing import standing
from .answers import html_answer
from .pages import frame, page
from .rendering import render
from .security import harmless
from .site import Site, site

blueprint = Blueprint("health", __name__)


@blueprint.get("/health")
def health() -> AnyResponse:
    """The store, its sizes, the last verification, the rules by which secrets are hidden."""
    found = site()
    check = found.verifier.check
    if request.args.get("part") == "check":
        return html_answer(render("parts/check.html", **frame(), check=check))
    infos = found.runs()
    counts: dict[str, int] = {}
    for info in infos:
        counts[standing(info)] = counts.get(standing(info), 0) + 1
    return page(
        "health.html",
        runs=len(infos),
        events=sum(max(info.head_seq + 1, 0) for info in infos),
        counts=counts,
        files=sizes_of(found.store),
        check=check,
        rules=_rules(found),
        app=found.app,
    )


@blueprint.post("/health/verify")
@harmless
def verify() -> AnyResponse:
    """Begin to verify."""
    site().verifier.start()
    return redirect("/health", 303)


def sizes_of(store: EventStore) -> list[tuple[str, int]]:
    """The files of a store, with their sizes in bytes; none if it is no file here."""
    path = path_of(store.url)
    if path is None:
        return []
    found = []
    for file in (Path(path), Path(f"{path}-wal")):
        try:
            found.append((file.name, file.stat().st_size))
        except OSError:
            continue
    return found


def _rules(found: Site) -> dict[str, Any]:
    """By which rules secrets are hidden in what this process writes, and in the last run."""
    try:
        here = found.store.redactor.describe()
    except AgentReplayError as error:
        return {"problem": str(error), "here": None, "last": None, "last_run": ""}
    last = None
    infos = found.runs()
    if infos:
        try:
            event = found.reader.event(infos[-1], 0)
            last = getattr(event.data, "redaction", None)
        except AgentReplayError:
            last = None
    return {"problem": "", "here": here, "last": last, "last_run": infos[-1].id if infos else ""}
