"""A group of verbs that are imported when they are used, and one place where errors become messages and exit codes.

| exit code | means |
|---|---|
| 0 | fine |
| 1 | a difference or a problem was found, or the agent that was run failed |
| 2 | usage |
| 3 | unreadable or missing data |
| 70 | a bug of ours |
| 130 | interrupted from the keyboard |

A verb returns its exit code, or nothing for 0. What it raises is printed as one message, on stderr.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from .streams import complain, encodable, tolerate_any_text

DIFFERENCE: Final = 1
USAGE: Final = 2
DATA: Final = 3
BUG: Final = 70
INTERRUPTED: Final = 130

OUTPUT_ERRORS: Final = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT)
"""What writing to stdout fails with, where it is a file on a disk that is full, or is no file at all."""

DEBUG: Final = "AGENTREPLAY_DEBUG"
"""With this in the environment, every error is followed by its traceback."""


GARBAGE: Final = 200_000
"""Objects that a verb may make before its garbage is looked for: what it imports is none, and is a great deal."""


class Verb(NamedTuple):
    """Where a verb is, what the list of verbs says of it, and whether it runs an agent's code, or only ours."""

    section: str
    module: str
    summary: str
    runs_agents: bool = False


class VerbGroup(click.Group):
    """Verbs by name, each in a module of `package`, where it is the command of that name.

    Attributes:
        is_brief: this process exists for one verb.
    """

    def __init__(self, *args: Any, verbs: Mapping[str, Verb], package: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self._verbs = verbs
        self._package = package
        self.is_brief = False

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order of the help."""
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb."""
        verb = self._verbs.get(cmd_name)
        if verb is None:
            return None
        if self.is_brief and not verb.runs_agents:
            gc.set_threshold(GARBAGE, 50, 1_000)
        module = import_module(f".{verb.module}", self._package)
        command: click.Command = module.COMMANDS[cmd_name]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, or say which one was probably meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=self._verbs, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of verbs without importing any."""
        width = max(map(len, self._verbs))
        for section in dict.fromkeys(verb.section for verb in self._verbs.values()):
            with formatter.section(section):
                formatter.write_dl(
                    [(f"{name:{width}}", v.summary) for name, v in self._verbs.items() if v.section == section]
                )

    def get_help(self, ctx: click.Context) -> str:
        """The help, as the encoding of stdout allows."""
        return encodable(super().get_help(ctx))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the verb that `args` name and exit, or return the verb's result if not `standalone_mode`."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        if sys.stdout is None:  # it was closed by whoever started this; a verb may still be asked for its exit code
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # as long as the process lives
        tolerate_any_text()
        self.is_brief = args is None
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
        except Exception as error:
            code = report(error)
        if gc.get_threshold()[0] == GARBAGE:
            gc.freeze()  # the process ends: nothing is worth looking for any more
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; nobody reading on (`| head`) is no error of ours."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            discard_stdout()
            return 0


def exists_for_one_verb() -> bool:
    """Whether the verb that runs now is all that this process is for."""
    root = click.get_current_context().find_root().command
    return isinstance(root, VerbGroup) and root.is_brief


def discard_stdout() -> None:
    """Send what is still to be written to nowhere, so that the interpreter does not complain when it ends."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass  # stdout is no file of the system's: nothing will be written at the end either


def report(error: Exception) -> int:
    """Print an error as one message on stderr; returns the exit code it means."""
    from ..recorder.errors import AgentReplayError, UsageError

    if isinstance(error, click.exceptions.Abort):
        return INTERRUPTED
    if isinstance(error, OSError) and error.filename is None and error.errno in OUTPUT_ERRORS:
        discard_stdout()
        complain(f"the output could not be written: {error.strerror}")
        return DATA
    if isinstance(error, click.ClickException):
        error.show(sys.stderr)
        return error.exit_code
    if isinstance(error, AgentReplayError):
        message, code = str(error), USAGE if isinstance(error, UsageError) else DATA
    elif isinstance(error, OSError) and error.filename is not None:
        message, code = f"{error.filename}: {error.strerror}", DATA
    else:
        message = f"{type(error).__name__}: {error}"
        message += f"\nThis is a bug in agentreplay; {DEBUG}=1 shows where. Please report it."
        code = BUG
    complain(message)
    if os.environ.get(DEBUG):
        import traceback

        traceback.print_exception(error)
    return code
