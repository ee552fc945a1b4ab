"""Many readers of a run that another process records: nobody waits for them, and none is shown what is old.

`python -m bench.crowd` brings them together: streams of events and pages loaded over and over, against the server as
it is started. How long appends take beside them is measured in `make bench`, and no law here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
READERS = 24
ROUNDS = 67


def test_a_crowd_of_readers_costs_nobody_an_event() -> None:
    """All events are recorded and shown to all; no page is older than the one before; and nothing is left behind."""
    command = [sys.executable, "-m", "bench.crowd", str(READERS), "200", "2", "0.2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=200)
    found = json.loads(done.stdout)
    assert (found["recorded"], found["expected"], found["steps"]) == (404, 404, ROUNDS)
    assert found["last"] == [[403, ROUNDS]] * READERS
    assert (found["refused"], found["stale"]) == (0, 0)
    threads, files = found["left"]
    assert threads <= found["held"][0]
    assert files <= found["held"][1]
