"""The verb `watch`: an expression over the state at every step."""

from __future__ import annotations

from typing import Final

import click

from .options import VerbCommand, json_option, store_option


@click.command(
    cls=VerbCommand,
    examples=[
        "agentreplay watch run42 order.total",
        "agentreplay watch run42 'length(history)'",
        "agentreplay watch run42 'usage.total_tokens' --all",
        "agentreplay watch run42 'items[?price > `50`].sku' --json | jq '.changed'",
    ],
)
@click.argument("run", metavar="RUN", help="The run.")
@click.argument("expression", metavar="EXPR", help="A JMESPath expression over the payload.")
@store_option
@click.option("--all", "whole", is_flag=True, help="Over the whole state: payload, messages, status, usage and so on.")
@click.option("--full", is_flag=True, help="Write long values whole, and every change.")
@json_option
def watch(run: str, expression: str, store: str | None, whole: bool, full: bool, as_json: bool) -> None:
    """Show what an expression comes to step by step, and where it changes.

    The language is JMESPath (https://jmespath.org): order.total, items[0].price, length(history),
    sum(items[].price). A tuple is a list in it, an object is its fields, and a Decimal or a date is the text that it
    is written as: to_number(total). In the shell, put it in quotes.

    A chart has a column for each step, or for some where there are many: bars for numbers, a letter for each other
    value. Of a path into the payload, `blame` says what changed it.

    With --json: {run, expression, path, changed, spans}. `spans` are {first, last, value, missing, problem}: the steps
    of the same value, from 0 to the last, without a gap; `missing` where a path leads to nothing, `problem` where the
    expression does not apply. `changed` are the steps at which a span begins, the start aside.
    """
    from ..replay.reading import watch as watched
    from .output import console, print_json
    from .render_watch import render_watched
    from .runs import open_for_reading

    found = open_for_reading(store)
    told = watched(run, expression, found, whole=whole)
    if as_json:
        print_json(told.to_json())
    else:
        render_watched(console(), found, found.run(run), told, full=full)


COMMANDS: Final = {"watch": watch}
