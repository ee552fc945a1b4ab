"""What the tests of the command line share: a way to call it, and runs to look at.

The runs are those of the example agent: run1 fails after ten rounds, run2 is its child.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from agentreplay.cli import main
from agentreplay.recorder.events import Event
from agentreplay.recorder.locate import open_store
from agentreplay.recorder.store import EventStore
from click.testing import CliRunner, Result

SCRIPT = [sys.executable, "-m", "agentreplay"]


def invoke(*args: object, **options: Any) -> Result:
    """Call the command line in this process."""
    return CliRunner().invoke(main, [str(arg) for arg in args], **options)


def output(*args: object, code: int = 0) -> str:
    """Call the command line, and give what it printed on stdout; it must end with `code`."""
    result = invoke(*args)
    assert (result.exit_code, result.exception is None or code != 0) == (code, True), result.output
    return result.stdout


def json_of(*args: object, code: int = 0) -> Any:
    """Call the command line, and read all of what it printed on stdout as JSON."""
    return json.loads(output(*args, "--json", code=code))


def as_process(*args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Call the command line in a process of its own."""
    environment = {**os.environ, **options.pop("env", {})}
    return subprocess.run(
        [*SCRIPT, *map(str, args)], capture_output=True, text=True, env=environment, encoding="utf-8", **options
    )


def keep(events: list[Event], path: Path, *, uid: str | None = None) -> EventStore:
    """Put events into a store, as run1 or the next."""
    store = open_store(path)
    info = store.create_run(events[0].data.agent, uid=uid)
    store.append(info, -1, events)
    return store
