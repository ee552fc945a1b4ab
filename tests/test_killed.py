"""A process that is killed leaves everything in the log that its agent had seen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.replay.reducer import fold

PROGRAM = """
import asyncio, os, sys
import agentreplay as ar

progress = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

@ar.tool
def work(n):
    return n * n

@ar.tool
async def awork(n):
    return n * n

def seen(n):
    os.write(progress, f"{n}\\n".encode())

@ar.agent("worker", max_rounds=10_000)
def step(i, context):
    seen(work(i))
    return ar.Continue()

@ar.agent("worker", max_rounds=10_000)
async def astep(i, context):
    seen(await awork(i) if i % 2 else work(i))
    return ar.Continue()

{"step": step, "astep": astep}[sys.argv[2]].run()
"""


@pytest.mark.parametrize("agent", ["step", "astep"])
def test_a_killed_process_loses_nothing_that_its_agent_saw(agent: str, tmp_path: Path) -> None:
    """SIGKILL at any time: each result that the agent got is in the log, which verifies and folds."""
    program, progress = tmp_path / "program.py", tmp_path / "progress"
    program.write_text(PROGRAM)
    environment = {**os.environ, "AGENTREPLAY_STORE": str(tmp_path / "store.db")}
    running = subprocess.Popen([sys.executable, str(program), str(progress), agent], cwd=tmp_path, env=environment)
    deadline = time.monotonic() + 60
    while not progress.exists() or progress.stat().st_size < 200:
        assert running.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)
    running.send_signal(signal.SIGKILL)
    running.wait()
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    seen = [int(line) for line in progress.read_text().splitlines()]
    events = list(store.events("run1"))
    returned = [event.data.result for event in events if event.kind == "tool.returned"]
    assert returned[: len(seen)] == seen
    assert store.verify() == []
    state = fold(events)
    assert (state.status, state.ended) == ("running", False)
    assert len(state.open_calls) <= 1
    store.close()
