"""The verbs that record: `demo` and `run`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import click

from .editing import no_constant
from .options import VerbCommand, json_option, store_option


def json_value(ctx: click.Context, parameter: click.Parameter, text: str | None) -> Any:
    """Read an option's value as JSON: itself, the file of @FILE, or standard input for @-."""
    if text is None:
        return None
    try:
        if text == "@-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        return json.loads(text, parse_constant=no_constant)
    except OSError as error:
        raise click.BadParameter(f"cannot read {error.filename}: {error.strerror}") from None
    except RecursionError:
        raise click.BadParameter("this is nested too deeply to be read") from None
    except ValueError as error:
        hint = "; in a shell, quote it: --payload '{\"a\": 1}'" if not text.startswith("@") else ""
        raise click.BadParameter(f"this is no JSON: {error}{hint}") from None


def parameters(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Any] | None:
    """Read NAME=VALUE options; a value is JSON where it can be read as such, else text."""
    read: dict[str, Any] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"expected NAME=VALUE, not {value!r}")
        if name in read:
            raise click.BadParameter(f"{name} is given twice")
        try:
            read[name] = json.loads(text, parse_constant=no_constant)
        except (ValueError, RecursionError):
            read[name] = text
    return read or None


@click.command(
    cls=VerbCommand,
    examples=[
        'agentreplay run agent.py:step --payload \'{"order_id": "A-17"}\'',
        "agentreplay run my.agents:triage --payload @ticket.json --param tone=kind",
        "agentreplay run loop.py:main",
    ],
)
@click.argument("agent", metavar="AGENT", help="FILE.py:NAME or MODULE:NAME.")
@store_option
@click.option("--payload", metavar="JSON", callback=json_value, help="The starting payload; @FILE or @- reads it.")
@click.option("--input", "given_input", metavar="JSON", callback=json_value, help="The input; @FILE or @- reads it.")
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE", callback=parameters, help="A parameter.")
@click.option("--max-rounds", type=click.IntRange(min=1), metavar="N", help="End the run after N rounds.")
@json_option
def run(
    agent: str,
    store: str | None,
    payload: Any,
    given_input: Any,
    params: dict[str, Any] | None,
    max_rounds: int | None,
    as_json: bool,
) -> int:
    """Run an agent of yours and record it.

    AGENT is FILE.py:NAME or MODULE:NAME. NAME is an agent, a step function of (round_index, context), or a function
    that opens `agentreplay.record` itself; any of them may be async. Without :NAME the file's only agent is meant. The
    file's folder comes first on the search path, as when Python runs it.

    If the agent raises, its traceback is shown, the run is recorded all the same, and the exit code is 1.

    With --json: what `ls` says of the run; what the agent prints goes to stderr.
    """
    from .output import console, print_json
    from .running import Given, print_error, run_reference
    from .runs import Names, Tags, row_of
    from .streams import complain, say

    ran = run_reference(agent, Given(payload, given_input, params, max_rounds), store, keep_stdout=as_json)
    if ran.error is not None:
        print_error(ran.error)
    if not ran.runs:
        if ran.error is None:
            complain(f"{agent} recorded nothing: it ran no agent and opened no agentreplay.record")
        return 1
    if as_json:
        if ran.error is not None:
            say(f"recorded as {ran.runs[-1].id}")
        print_json(row_of(ran.runs[-1], Names(ran.store), Tags(ran.store).of(ran.runs[-1])))
    else:
        from .render_runs import render_recorded

        render_recorded(console(), ran.store, ran.runs, error_shown=ran.error is not None)
    return 1 if ran.failed else 0


@click.command(cls=VerbCommand, examples=["agentreplay demo", "agentreplay demo --store /tmp/demo.db"])
@store_option
def demo(store: str | None) -> None:
    """Record a small agent that fails, and show where it went wrong.

    A support agent works a refund through. It needs no network: its model is a script, which makes a mistake in step 7
    that only shows two steps later.
    """
    from .demo import record_demo

    record_demo(store)


COMMANDS: Final = {"demo": demo, "run": run}
