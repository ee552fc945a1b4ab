"""The verbs that look at recorded runs: `ls`, `show`, `state`, `diff`."""

from __future__ import annotations

from typing import Final

import click

from .options import VerbCommand, json_option, run_argument, store_option


@click.command(
    cls=VerbCommand,
    examples=[
        "agentreplay ls -n 20",
        "agentreplay ls --tag nightly",
        "agentreplay ls --json | jq '.[] | select(.status == \"failed\") | .run'",
    ],
)
@store_option
@click.option("-n", "--limit", type=click.IntRange(min=1), metavar="N", help="The last N runs only.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only runs with this tag; of several, with each.")
@json_option
def ls(store: str | None, limit: int | None, tags: tuple[str, ...], as_json: bool) -> None:
    """List the runs.

    The newest is the last. A child run, which another run started, stands under its parent's name.

    A run whose process is gone has crashed. One of which nothing can be proved, as on another host, is silent since it
    was heard of last. One that came from a file without its end is partial.

    With --json: a list of {run, uid, agent, status, steps, started, duration, origin, parent, silent_since, partial,
    tags}. `started` and `silent_since` are ISO 8601 in UTC, `duration` is in seconds, `parent` the run that started
    this one or that it was forked from. A fork has the tags of that run. The status of a silent or partial run is
    "running".
    """
    from ..replay.readable import count, visible
    from .output import console, print_json, write
    from .render_runs import render_runs
    from .runs import Names, Tags, open_for_reading, row_of

    found = open_for_reading(store)
    infos = found.runs()
    names, tags_of = Names(found, infos), Tags(found).of
    fitting = [info for info in infos if set(tags) <= set(tags_of(info))] if tags else infos
    shown = fitting if limit is None else fitting[-limit:]
    if as_json:
        print_json([row_of(info, names, tags_of(info)) for info in shown])
    elif infos and not shown:
        write(console(), f"Of {count(len(infos), 'run')} none is tagged {visible(', '.join(tags))}.")
    else:
        render_runs(console(), [(info, tags_of(info)) for info in shown], names, total=len(fitting))


@click.command(
    cls=VerbCommand,
    examples=[
        "agentreplay show run42",
        "agentreplay show run42 --rounds 100:120",
    ],
)
@run_argument
@store_option
@click.option("--step", type=int, metavar="N", help="This step only.")
@click.option("--rounds", metavar="A:B", help="Rounds A to B; either may be left out. `:` is all of them.")
@click.option("--short", is_flag=True, help="A line per round.")
@json_option
def show(run: str, store: str | None, step: int | None, rounds: str | None, short: bool, as_json: bool) -> None:
    """Show what a run did, round by round.

    A line says what a round decided; below it are its calls, its child runs, what changed in the payload, and warnings.
    Of a long run the first and the last rounds are shown, unless --rounds says which.

    Of a run that has not ended, the calls are named of which it is not known what came of them.

    With --json: what `ls` says of the run; `in_flight`, a list of {call, kind, name, step, within}; and `steps`, a list
    of {step, decision, outcome, calls, changes}. `decision` is the word of the step ("Actions"), `calls` a list of
    {call, kind, name, status, duration}, `changes` a list of the JSON Pointers at which the payload changed.
    """
    from ..replay.reading import step_meant
    from .runs import open_for_reading
    from .show import Selection, show_run

    if step is not None and rounds is not None:
        raise click.UsageError("--step and --rounds exclude each other")
    found = open_for_reading(store)
    info = found.run(run)
    if step is not None:
        number = step_meant(found, info, step)
        selection = Selection(number, number)
    else:
        selection = Selection.parse(rounds, found, info)
    show_run(found, info, selection, as_json=as_json, short=short)


@click.command(
    cls=VerbCommand,
    examples=[
        "agentreplay state run42 --step 6",
        "agentreplay state run42 --json | jq .order",
    ],
)
@run_argument
@store_option
@click.option("--step", type=int, default=-1, metavar="N", help="The step; 0 is the start, -1 the last (default).")
@click.option("--all", "whole", is_flag=True, help="The whole state: messages, scratchpad, open calls and so on.")
@json_option
def state(run: str, store: str | None, step: int, whole: bool, as_json: bool) -> None:
    """Show the payload after a step.

    It is rebuilt from the log; no code of yours runs.

    With --json: the payload, or with --all the whole state. Values that are not plain JSON stand in their tagged form,
    {"$type": …}.
    """
    from ..replay.reading import state_at
    from .output import console, print_json
    from .runs import open_for_reading

    reached = state_at(run, step, open_for_reading(store))
    if as_json:
        print_json(reached.to_json() if whole else reached.stored_payload)
        return
    from .render_state import render_state

    render_state(console(), reached, whole=whole)


@click.command(
    cls=VerbCommand,
    examples=[
        "agentreplay diff run42 --step 7",
        "agentreplay diff run42 --from 3 --to 9 --json",
        "agentreplay diff run42 run43 --step 7 --exit-code",
    ],
)
@run_argument
@click.argument("run2", required=False, metavar="[RUN2]", help="A run to compare with, at the same step.")
@store_option
@click.option("--step", type=int, metavar="N", help="What this step did; -1, the last, unless given.")
@click.option("--from", "start", type=int, metavar="A", help="Instead: from the state at step A …")
@click.option("--to", "stop", type=int, metavar="B", help="… to the state at step B.")
@click.option("--part", "parts", multiple=True, metavar="NAME", help="Another part than the payload, such as messages.")
@json_option
@click.option("--patch", is_flag=True, help="Print a JSON Patch (RFC 6902) that makes the new state of the old one.")
@click.option("--full", is_flag=True, help="Write long values whole.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if there is a difference.")
def diff(
    run: str,
    run2: str | None,
    store: str | None,
    step: int | None,
    start: int | None,
    stop: int | None,
    parts: tuple[str, ...],
    as_json: bool,
    patch: bool,
    full: bool,
    exit_code: bool,
) -> int:
    """Show what a step changed, and what caused it.

    Step N leads from the state at step N-1 to the state at step N. Above the changes stands what the step decided and
    called. With a second run, the payloads of both at the same step are compared.

    With --json: a list of {path, display, kind, old, new, cause}; `kind` is add, remove, replace or move, and `cause`
    {seq, step, kind, call} names the event; of two runs also the `run` that it is in. With --part the paths start with
    the name of the part, as in the JSON of `state --all`.
    """
    from .diff import Asked, changes_asked_for, show_diff
    from .runs import open_for_reading

    if as_json and patch:
        raise click.UsageError("--json and --patch exclude each other")
    if step is not None and (start is not None or stop is not None):
        raise click.UsageError("--step and --from/--to exclude each other")
    if run2 is not None and (start is not None or stop is not None):
        raise click.UsageError("two runs are compared at one step; --from and --to are for one run")
    found = open_for_reading(store)
    asked = Asked(run, run2, step, start, stop, parts)
    difference = changes_asked_for(found, asked)
    show_diff(found, difference, as_json=as_json, patch=patch, full=full)
    return 1 if exit_code and difference.changes else 0


COMMANDS: Final = {"ls": ls, "show": show, "state": state, "diff": diff}
