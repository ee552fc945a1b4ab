"""A run whose process is gone has crashed; of one that may be alive nothing is claimed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from agentreplay.recorder.environment import process_identity
from agentreplay.recorder.liveness import is_gone
from agentreplay.recorder.sql_store import SqlStore

WORKER = """
import sys, time
import agentreplay as ar
with ar.record("worker", payload={"n": 0}, store=ar.open_store(sys.argv[1])) as run:
    with run.round() as r:
        r.change(update={"n": 1})
        print("ready", flush=True)
        r.tool("wait", {"seconds": 60}, lambda seconds: time.sleep(seconds))
"""


def test_this_process_is_there() -> None:
    """What runs is not gone."""
    assert not is_gone(process_identity())


@pytest.mark.parametrize(
    "other",
    [{"host": "elsewhere"}, {"namespace": "pid:[1]"}, {"boot": None}, {"pid": None}, {"pid": "7"}],
)
def test_nothing_is_claimed_without_proof(other: dict[str, Any]) -> None:
    """A process on another host, in another namespace, or of unknown boot may be alive."""
    gone = {**process_identity(), "start": 1}
    assert is_gone(gone)
    assert not is_gone({**gone, **other})
    assert not is_gone(None)
    assert not is_gone({})


def test_a_host_that_was_started_anew_has_no_old_processes() -> None:
    """Another boot of the same host proves it."""
    assert is_gone({**process_identity(), "boot": "another"})


def test_a_killed_run_has_crashed(tmp_path: Path) -> None:
    """While the process lives the run is running; after it was killed it has crashed, with its call in flight."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    worker = subprocess.Popen([sys.executable, "-c", WORKER, url], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"ready\n"
    store = SqlStore(url)
    deadline = time.monotonic() + 30
    while store.run("run1").head_seq < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert store.run("run1").status == "running"
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    worker.stdout.close()
    assert store.run("run1").status == "crashed"
    assert [info.status for info in store.runs()] == ["crashed"]
    assert list(store.events("run1"))[-1].kind == "tool.called"
    assert store.verify() == []
    store.close()
