"""The verb `blame`: who is to blame for a value."""

from __future__ import annotations

from typing import Final

import click

from .options import VerbCommand, json_option, store_option


@click.command(
    cls=VerbCommand,
    examples=[
        "agentreplay blame run42 order.total",
        "agentreplay blame run42 'order.items[0].price' --step 6",
        "agentreplay blame run42 /order/items/0/price --json | jq '.[0].cause.step'",
    ],
)
@click.argument("run", metavar="RUN", help="The run.")
@click.argument("path", metavar="PATH", help="Of the payload: order.items[0].price, or a JSON Pointer.")
@store_option
@click.option("--step", type=int, default=-1, metavar="N", help="As of this step; -1, the last, unless given.")
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="The newest N changes only.")
@json_option
@click.option("--full", is_flag=True, help="Write long values whole.")
def blame(run: str, path: str, store: str | None, step: int, limit: int | None, as_json: bool, full: bool) -> None:
    """Show every event that ever changed a value, newest first.

    A value changes when it, anything inside it, or what it is in is added, replaced or removed. PATH means what it
    means at that step; an item of a list is followed back through insertions, removals and moves of the others. Of a
    path that is there no more it says what removed it.

    With --json: a list as that of `diff`, newest first, in which `path` is where the value was at that time. `why` is
    the reason that was given, and `note` says what else there is to know, such as what the value came or went with;
    both may be null.
    """
    from ..replay.reading import blame as changes_of
    from ..replay.reading import step_meant
    from .output import console, print_json
    from .render_blame import Asked, json_rows, render_blame
    from .runs import open_for_reading

    found = open_for_reading(store)
    info = found.run(run)
    number = step_meant(found, info, step)
    changes = changes_of(info, path, found, step=number)
    if as_json:
        print_json(json_rows(changes[:limit]))
    else:
        render_blame(console(), found, Asked(info, path, number, limit), changes, full=full)


COMMANDS: Final = {"blame": blame}
