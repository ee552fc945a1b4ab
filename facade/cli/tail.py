"""The verb `tail`: follow a run while it is recorded."""

from __future__ import annotations

from typing import Final

import click

from .group import DIFFERENCE, INTERRUPTED
from .options import VerbCommand, json_option, run_argument, store_option


@click.command(
    cls=VerbCommand,
    examples=[
        "agentreplay tail",
        "agentreplay tail run42 --after 100",
        "agentreplay tail run42 --json | jq -r 'select(.kind == \"tool.failed\") | .data.error.message'",
    ],
)
@run_argument
@store_option
@click.option(
    "--after",
    type=click.IntRange(min=-1),
    default=-1,
    metavar="SEQ",
    help="Begin behind this event; they count from 0.",
)
@json_option
def tail(run: str, store: str | None, after: int, as_json: bool) -> int:
    """Follow a run while it is recorded.

    Its events are printed, one a line, as they are appended, by this machine or another one. It ends when the run ends,
    or is interrupted, and when the process that recorded it turns out to be gone. Of a run that has ended, all events
    are printed. Ctrl-C stops following; the run goes on.

    Exit code 1 if the run failed, was cancelled or has crashed.

    With --json: a line of JSON for each event: {run, seq, round, kind, version, time, within, task, data, hash}.
    `time` is ISO 8601 in UTC.
    """
    from .following import follow_run
    from .runs import open_for_reading

    found = open_for_reading(store)
    try:
        status = follow_run(found, found.run(run), after, as_json=as_json)
    except KeyboardInterrupt:
        return INTERRUPTED
    return DIFFERENCE if status in ("failed", "cancelled", "crashed") else 0


COMMANDS: Final = {"tail": tail}
