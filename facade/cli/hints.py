"""Commands to type next, written so that they work when they are typed: this program, in this store."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from ..recorder.databases import without_password


def command(words: str) -> str:
    """A command of ours for the same store: `agentreplay show run1`, with `--store` where it was given here.

    A password in the store's URL is left to be typed again: what is printed may be kept.
    """
    ctx = click.get_current_context(silent=True)
    store = ctx.params.get("store") if ctx is not None else None
    return f"{program()} {words}" + (f" --store {shlex.quote(without_password(store))}" if store else "")


def program() -> str:
    """How this program is called from here: by its name if the shell finds it, else by its path."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py" and called.parent == Path(__file__).parent.parent:
        return "python -m agentreplay"
    if shutil.which("agentreplay") is not None or called.name != "agentreplay":
        return "agentreplay"
    relative = os.path.relpath(called)
    return shlex.quote(relative if not relative.startswith("..") else str(called))
