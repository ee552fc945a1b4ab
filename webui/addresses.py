"""The addresses of pages, and of the parts of them that load on demand."""

from __future__ import annotations

from ..recorder.store import RunInfo
from .rendering import path_url, query
from .trees import Address


def run_url(run: str) -> str:
    """A run, at the step that is worth a look."""
    return path_url("runs", run)


def step_url(run: str, step: int) -> str:
    """A step of a run."""
    return path_url("runs", run, "steps", step)


def place(info: RunInfo, step: int) -> str:
    """A step of a run, as `diff` is asked for it: run42:7."""
    return f"{info.id}:{step}"


def diff_url(old: str, new: str, part: str = "payload") -> str:
    """What lies between two places."""
    return "/diff" + query({"from": old, "to": new}, part="" if part == "payload" else part)


def state_values(run: str, step: int, part: str = "payload") -> Address:
    """The values in a part of the state after a step."""
    base = f"{step_url(run, step)}/value"
    shown = "" if part == "payload" else part
    return lambda pointer, start: base + query({"part": shown, "path": pointer, "from": start or ""})


def event_values(run: str, seq: int, field: str = "") -> Address:
    """The values in a field of an event's data, or in all of it."""
    base = path_url("runs", run, "events", seq, "value")
    return lambda pointer, start: base + query({"path": field + pointer, "from": start or ""})
