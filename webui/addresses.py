"""The addresses of pages, and of the parts of them that load on demand."""

from __future__ import annotations

from collections.abc import Callable

from ..recorder.store import RunInfo
from ..replay.changes import Change
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


def blame_url(run: str, step: int, pointer: str = "") -> str:
    """All that ever changed the value at a place of the payload; what the place means it means at that step."""
    return f"{run_url(run)}/blame" + query(step=step, path=pointer)


def blamed_at(old: tuple[str, int], new: tuple[str, int]) -> Callable[[Change], str]:
    """The addresses of what ever changed the values of changes: of a run and step in which their paths mean them.

    Args:
        old, new: run and step of the states that the changes lie between. A later state of the same run knows of what
            was removed before it. Of an item of a list it does not: its place is that of its neighbour by then.
    """
    goes_on = old[0] == new[0] and old[1] <= new[1]

    def address(change: Change) -> str:
        is_item = any(isinstance(key, int) for key in change.keys)
        before = change.kind == "remove" and (is_item or not goes_on)
        return blame_url(*(old if before else new), change.path)

    return address


def state_values(run: str, step: int, part: str = "payload") -> Address:
    """The values in a part of the state after a step."""
    base = f"{step_url(run, step)}/value"
    shown = "" if part == "payload" else part
    return lambda pointer, start: base + query({"part": shown, "path": pointer, "from": start or ""})


def event_values(run: str, seq: int, field: str = "") -> Address:
    """The values in a field of an event's data, or in all of it."""
    base = path_url("runs", run, "events", seq, "value")
    return lambda pointer, start: base + query({"path": field + pointer, "from": start or ""})
