"""What verbs write: text for people on a console, JSON for programs.

Recorded text may hold anything, escape sequences for the terminal and markup of the console's library included. Text
is built of `Text` pieces, in which markup means nothing, and recorded text goes through `visible` first.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

import orjson
from rich.console import Console, RenderableType
from rich.text import Text

from ..replay.readable import visible

ANY_WIDTH: Final = 100_000
"""Columns where no terminal says how many there are: no line is cut or broken."""

NAME: Final = 60
"""Characters of a recorded name in a column of a table: those beside it stay in sight. JSON has names whole."""

_CONTROL = re.compile(rb"\xc2([\x80-\x9f])|\x7f")


def console() -> Console:
    """The console of stdout: colours and a width only if it is a terminal."""
    width = None if sys.stdout.isatty() else ANY_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)


def write(page: Console, *pieces: str | tuple[str, str] | Text) -> None:
    """Write one line of pieces, each a text or a (text, style) pair; a terminal breaks it, nobody else does."""
    line = Text.assemble(*pieces)
    line.rstrip()
    page.print(line, soft_wrap=True)


def write_commands(page: Console, commands: Mapping[str, str]) -> None:
    """Write commands to type next, each with what it shows."""
    width = max(map(len, commands))
    for typed, what in commands.items():
        write(page, f"  {typed:{width}}   ", (what, "dim"))


def write_table(page: Console, table: RenderableType) -> None:
    """Write a table or tree; without the blanks that fill its lines where it is not for a terminal."""
    if page.is_terminal:
        page.print(table)
        return
    with page.capture() as captured:
        page.print(table)
    for line in captured.get().splitlines():
        page.file.write(line.rstrip() + "\n")


def visible_lines(text: str) -> list[str]:
    """The lines of a recorded text, in which nothing acts or hides."""
    return [visible(line) for line in text.replace("\r\n", "\n").split("\n")]


def name_of(text: str, limit: int = NAME) -> str:
    """A recorded name as it stands in a column of a table: cut to `limit` characters."""
    name = visible(text[:limit])
    return name if len(name) <= limit and len(text) <= limit else name[: limit - 1] + "…"


def one_line(text: str, limit: int) -> str:
    """A recorded text on one line, cut to `limit` characters."""
    line = visible(" ".join(text[: limit * 4].split()))
    return line if len(line) <= limit and len(text) <= limit * 4 else line[: limit - 1].rstrip() + "…"


def print_json(value: Any, *, indent: bool = True) -> None:
    """Write JSON data, and nothing else, to stdout; without `indent` it is one line."""
    try:
        data = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else 0)
    except TypeError:  # a large integer or a lone surrogate
        separators = None if indent else (",", ":")
        data = json.dumps(value, indent=2 if indent else None, separators=separators, allow_nan=False).encode("ascii")
    # JSON allows control characters from 0x7f on to stand as they are; terminals act on them.
    text = _CONTROL.sub(lambda found: b"\\u%04x" % (found[1] or b"\x7f")[0], data).decode()
    if (sys.stdout.encoding or "ascii").lower().replace("-", "") != "utf8":
        text = "".join([char if char < "\x80" else json.dumps(char)[1:-1] for char in text])
    sys.stdout.write(text + "\n")
