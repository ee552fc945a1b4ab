"""The command that does in a terminal what the form of a re-run asks for."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from ..replay.changes import Changes
from ..replay.readable import visible
from ..replay.rerun_request import RerunRequest
from .edited_json import one_line_of

LONGEST: Final = 6_000
"""Characters of a command that is offered; a longer one is nothing to copy."""

PLACE: Final = "FILE.py:NAME"
"""Stands for the code where the server was started without."""


def command_of(run: str, step: int, request: RerunRequest, changes: Changes, app: str | None) -> str:
    """A command to copy into a shell; empty if it would be too long, or a place cannot be written in one.

    Args:
        run: the run's name.
        step: the first live step.
        request: what is asked for.
        changes: what it changes of the payload.
        app: the code, as `--app` names it.
    """
    words = ["agentreplay", "rerun", run, "--step", str(step), "--app", app or PLACE]
    document = ""
    if request.patch or request.set:
        settings = list(_settings(changes))
        if len(settings) == len(changes):
            words += [word for setting in settings for word in ("--set", setting)]
        elif request.set:
            return ""
        else:
            words += ["--patch", "-"]
            document = f" <<'EOF'\n{one_line_of([dict(one) for one in request.patch or ()])}\nEOF"
    words += list(_options(request))
    made = " ".join([shlex.quote(visible(word)) for word in words]) + document
    return made if len(made) <= LONGEST else ""


def _settings(changes: Changes) -> Iterator[str]:
    """The changes that say the same as `--set PATH=JSON`, which creates or replaces."""
    for change in changes:
        is_item = bool(change.keys) and isinstance(change.keys[-1], int)
        says_the_same = change.kind == "replace" or (change.kind == "add" and not is_item)
        if says_the_same and "=" not in change.path and visible(change.path) == change.path:
            yield f"{change.path}={one_line_of(change.new)}"


def _options(request: RerunRequest) -> Iterator[str]:
    for option, given in (("--tool-result", request.tool_results), ("--model-response", request.model_responses)):
        for call, value in given.items():
            yield from (option, f"{call}={one_line_of(value)}")
    for call in request.skip:
        yield from ("--skip", call)
    for message in request.messages:
        yield from ("--add-message", one_line_of(message))
    for name, value in (request.params or {}).items():
        yield from ("--param", f"{name}={one_line_of(value)}")
    if request.input is not ...:
        yield from ("--input", one_line_of(request.input))
    for tool in request.allow:
        yield from ("--allow", tool)
    for rule in request.ignore:
        yield from ("--ignore", rule)
    if request.reuse:
        yield "--reuse"
    if request.prefix != "execute":
        yield f"--prefix={request.prefix}"
    if request.compensate:
        yield "--compensate"
