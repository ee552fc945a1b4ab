"""The command line: `agentreplay VERB`.

Every verb lives in a module of its family and is imported when it is used, so that `agentreplay --help` and shell
completion cost little more than importing click.
"""

from __future__ import annotations

import click

from .group import Verb, VerbGroup
from .options import store_option

VERBS = {
    "demo": Verb(
        "Record", "record", "Record a small agent that fails, and show where it went wrong.", runs_agents=True
    ),
    "run": Verb("Record", "record", "Run an agent of yours and record it.", runs_agents=True),
    "import": Verb("Record", "files", "Import cassettes, and recorded runs of other tools."),
    "ls": Verb("Look", "inspect", "List the runs."),
    "show": Verb("Look", "inspect", "Show what a run did, round by round."),
    "tail": Verb("Look", "tail", "Follow a run while it is recorded."),
    "state": Verb("Look", "inspect", "Show the payload after a step."),
    "diff": Verb("Look", "inspect", "Show what a step changed, and what caused it."),
    "blame": Verb("Look", "blame", "Show every event that ever changed a value, newest first."),
    "watch": Verb("Look", "watching", "Show what an expression comes to step by step, and where it changes."),
    "ui": Verb("Look", "ui", "Look at recorded runs in a browser.", runs_agents=True),
    "compare": Verb("Look", "comparing", "Put two runs side by side, and say where they part first."),
    "tree": Verb("Look", "comparing", "Show the forks and child runs of a run, and what it comes from."),
    "replay": Verb(
        "Run again",
        "replaying",
        "Execute code against recorded runs, and say if it does the same.",
        runs_agents=True,
    ),
    "rerun": Verb(
        "Run again", "replaying", "Run an agent again from a step of a recorded run, with edits.", runs_agents=True
    ),
    "resume": Verb(
        "Run again", "replaying", "Go on with a run that was interrupted or has crashed, in place.", runs_agents=True
    ),
    "bisect": Verb("Run again", "bisecting", "Find the step of a run in which its outcome turns.", runs_agents=True),
    "export": Verb("Share", "files", "Write a run to a file, for git and for sharing."),
    "verify": Verb("Check", "files", "Check that no recorded event was changed or lost."),
    "schema": Verb("Check", "files", "Print the JSON Schema of the events."),
}

EPILOG = """\
RUN is run42 or 42, a run's uid or the start of one, or @last. Steps count from 1; step 0 is the start of the run, and
negative steps count from the end.

Exit codes: 0 fine; 1 a difference or a problem was found, or the agent failed; 2 usage; 3 unreadable or missing data.

New here? `agentreplay demo`
"""


@click.command(
    cls=VerbGroup,
    verbs=VERBS,
    package=__name__,
    invoke_without_command=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="VERB …",
)
@store_option
@click.option("--version", is_flag=True, help="Print the version and exit.")
@click.pass_context
def main(ctx: click.Context, store: str | None, version: bool) -> None:
    """Record every round of an agent run, then debug it step by step."""
    if version:
        from .. import __version__

        click.echo(f"agentreplay {__version__}")
    elif ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
