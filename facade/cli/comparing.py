"""The verbs that look at several runs: `compare` and `tree`."""

from __future__ import annotations

from typing import Final

import click

from .group import DIFFERENCE
from .options import VerbCommand, json_option, run_argument, store_option


@click.command(
    cls=VerbCommand,
    examples=[
        "agentreplay compare run42 run43",
        "agentreplay compare run42 run43 --json | jq '.first | {step, kind, path}'",
        "agentreplay compare run42 @last --exit-code > differences.txt",
    ],
)
@click.argument("run", metavar="RUN", help="The first run.")
@click.argument("run2", metavar="RUN2", help="The second run.")
@store_option
@click.option("--full", is_flag=True, help="Write every step, and long values whole.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if there is a difference.")
@json_option
def compare(run: str, run2: str, store: str | None, full: bool, exit_code: bool, as_json: bool) -> int:
    """Put two runs side by side, and say where they part first.

    A fork and its parent, or two forks of one run, are compared step by step; runs that share nothing by what their
    steps did, so that a step more in one of them shifts nothing. Steps are the same if they were given, asked, got,
    decided and noted the same, and left the same payload. Independent calls may come in another order; times,
    durations, ids of calls, and what the clock and chance gave are no differences.

    With --json: {runs, relation, shared, same, counts, first, also, steps}. `first` is the first difference, {step,
    seq, kind, path, expected, actual, other, …}, or null; `also` are the others of the same step. `steps` are the pairs
    of steps after the last one that both runs share as events, `shared`: {steps, status, differs, decisions, calls}.
    `status` is "same", "payload" (the same, on another payload), "differs", "missing" or "extra".
    """
    from ..replay.compare import compare_runs
    from .output import console, print_json
    from .runs import open_for_reading

    found = compare_runs(run, run2, open_for_reading(store))
    if as_json:
        print_json(found.to_json())
    else:
        from .render_compare import render_comparison

        render_comparison(console(), found, full=full)
    return DIFFERENCE if exit_code and not found.is_same else 0


@click.command(
    cls=VerbCommand,
    examples=["agentreplay tree run42", "agentreplay tree --json | jq '.runs[] | select(.kind == \"fork\") | .edits'"],
)
@run_argument
@store_option
@json_option
def tree(run: str, store: str | None, as_json: bool) -> None:
    """Show the forks and child runs of a run, and what it comes from.

    Of a fork is said at which step it parted, what was edited there, and how it ended.

    With --json: {run, runs}. `runs` is a list from the first one on, each before those below it, of {run, uid, kind,
    depth, above, step, edits, agent, status, steps, duration, value, error, said, note}; `kind` is root, fork or child.
    """
    from ..replay.forks import tree_of
    from .output import console, print_json
    from .runs import open_for_reading

    found = tree_of(run, open_for_reading(store))
    if as_json:
        print_json(found.to_json())
    else:
        from .render_tree import render_tree

        render_tree(console(), found)


COMMANDS: Final = {"compare": compare, "tree": tree}
