"""`diff`: what lies between two states, and which event made each of its changes."""

from __future__ import annotations

from ..recorder.store import EventStore
from ..replay.changes import to_json, to_json_patch
from ..replay.difference import Asked, Difference, changes_asked_for
from .output import console, print_json
from .runs import Names

__all__ = ["Asked", "Difference", "changes_asked_for", "show_diff"]


def show_diff(store: EventStore, difference: Difference, *, as_json: bool, patch: bool, full: bool) -> None:
    """Write a difference to stdout; see the verb."""
    if patch:
        print_json(to_json_patch(difference.changes))
    elif as_json:
        rows = [to_json(change) for change in difference.changes]
        if difference.old[0].uid != difference.new[0].uid:
            for row, info in zip(rows, difference.cause_runs, strict=True):
                row["cause"]["run"] = info.id
        print_json(rows)
    else:
        from .render_step_diff import render_difference

        render_difference(console(), difference, Names(store), full=full)
