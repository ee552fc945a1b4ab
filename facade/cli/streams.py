"""Output that always gets out: what an encoding cannot say is written in ASCII.

A terminal may be set to ASCII or Latin-1, and recorded text may hold lone surrogates, which no encoding can say. An
error handler on the streams writes our own signs (`→ … ·`) with ASCII ones, and everything else as a backslash escape.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOWrapper
from typing import Final

import click

HANDLER: Final = "agentreplay"

_ASCII: Final = {
    "…": "...", "→": "->", "↳": ">", "—": "-", "–": "-", "·": "-", "×": "x", "≠": "!", "µ": "u", "✓": "ok", "✗": "x",
    "│": "|", "├": "|", "└": "`", "─": "-", "“": '"', "”": '"', "’": "'",
}  # fmt: skip


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    escaped = [_ASCII.get(char) or char.encode("ascii", "backslashreplace").decode("ascii") for char in characters]
    return "".join(escaped), error.end


def tolerate_any_text() -> None:
    """Make the standard streams write what they cannot encode in ASCII."""
    codecs.register_error(HANDLER, _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=HANDLER)


def harmless(line: str) -> str:
    """A line in which nothing acts on the terminal or hides, for where the modules that show values are not at hand."""
    return "".join([char if char.isprintable() else ascii(char)[1:-1] for char in line])


def complain(message: str) -> None:
    """Write an error to stderr."""
    first, *more = message.replace("\r\n", "\n").split("\n")
    say(click.style("error: ", fg="red", bold=True) + harmless(first))
    for line in more:
        say(f"       {harmless(line)}")


def say(line: str) -> None:
    """Write a line to stderr; without its colours where that is no terminal."""
    # The stream is named: for one in ASCII click would use another of its own, in UTF-8.
    click.echo(line, file=sys.stderr)


def encodable(text: str) -> str:
    """A text as stdout can write it; for what is written by click, which does not ask our error handler."""
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, HANDLER).decode(encoding)


@contextmanager
def streams_of_the_agent(*, keep_stdout: bool) -> Iterator[None]:
    """Give a user's program streams as it would have them without us.

    Args:
        keep_stdout: stdout is for ours alone; what the program prints, and the programs that it starts, goes to stderr.
    """
    for stream, errors in ((sys.stdout, "strict"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=errors)
    try:
        if keep_stdout:
            with _stdout_to_stderr():
                yield
        else:
            yield
    finally:
        tolerate_any_text()


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    sys.stdout.flush()
    try:
        saved = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    except (OSError, ValueError):  # the streams are no files of the system's
        with redirect_stdout(sys.stderr):
            yield
        return
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(saved, sys.stdout.fileno())
        os.close(saved)
