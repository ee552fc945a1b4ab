"""TESTS: 200 recorded runs of 20 rounds as regression tests: one command, and one run of pytest; time and memory.

The agent of each asks a model with the whole conversation, calls a tool and changes the payload, and nothing of that
takes time; so what is measured is ours, and Python's start. Times are compared with recording the same runs, one after
the other. Memory is that of all processes of the command together, as often as one can look.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .measuring import Row, duration

CASSETTES, ROUNDS = 200, 20
MEMORY = 400e6
"""The most that all processes together may take, on two cores."""

AGENT = f"""
import sys
import agentreplay as ar


@ar.tool(safety="pure")
def look(number: int) -> dict:
    return {{"found": number, "text": "The parcel was left with a neighbour."}}


@ar.model
def ask(messages: list[dict]) -> dict:
    return {{"role": "assistant", "content": f"After {{len(messages)}} messages: look again."}}


@ar.agent("parcels", max_rounds={ROUNDS})
def step(round_index: int, context: ar.Context):
    found = look(context.payload["first"] + round_index)
    context.messages.append({{"role": "user", "content": str(found)}})
    answer = ask(messages=list(context.messages))
    context.messages.append(answer)
    context.change(update={{"n": found["found"]}}, reason=answer["content"])
    return ar.Complete("done") if round_index == {ROUNDS} else ar.NextStep(step="Actions", reasoning="more")


if __name__ == "__main__":
    store = ar.open_store("memory:")
    runs = [step.run({{"first": number, "n": 0}}, store=store).run.id for number in range({CASSETTES})]
    for run in runs if sys.argv[1:] else ():
        ar.export_run(run, f"fixtures/{{run}}.jsonl", store=store)
"""

TEST = """
import pytest
from agent import step


@pytest.mark.agentreplay("fixtures/*.jsonl", app=step)
def test_run():
    pass
"""

REPLAY = ["-m", "agentreplay", "replay", "--app", "agent.py:step"]
PYTEST = ["-m", "pytest", "-q", "-p", "agentreplay.pytest_plugin", "-p", "no:cacheprovider"]
LOOK_SECONDS = 0.02


def rows() -> Iterator[Row]:
    """Record the runs, and replay them in both ways."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fixtures").mkdir()
        (folder / "agent.py").write_text(AGENT, encoding="utf-8")
        (folder / "test_agent.py").write_text(TEST, encoding="utf-8")
        _run(folder, "agent.py", "and export")
        recording, _, _ = _run(folder, "agent.py")
        files = sorted(os.path.relpath(path, folder) for path in (folder / "fixtures").iterdir())
        what = f"{CASSETTES} cassettes of {ROUNDS} rounds"
        commands = {"agentreplay replay": [*REPLAY, *files], "pytest": PYTEST}
        for command, arguments in commands.items():
            seconds, memory, printed = _run(folder, *arguments)
            if f"{CASSETTES} identical" not in printed and f"{CASSETTES} passed" not in printed:
                raise AssertionError(f"not all of them were replayed: {printed[-500:]}")
            yield Row("TESTS", f"{what}, {command}", duration(seconds), seconds / recording, None)
            yield Row.of_size("TESTS", "memory of its processes together", memory, MEMORY)


def _run(folder: Path, *arguments: str) -> tuple[float, float, str]:
    """Run Python in a folder: seconds, the most memory of it and its children, and what it printed."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop("CI", None)
    start, most = time.perf_counter(), 0.0
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=folder, env=environment, stdout=printed, stderr=subprocess.STDOUT
        )
        while True:
            try:
                process.wait(LOOK_SECONDS)
                break
            except subprocess.TimeoutExpired:
                most = max(most, sum(_resident(pid) for pid in _with_children(process.pid)))
        seconds = time.perf_counter() - start
        printed.seek(0)
        return seconds, most, printed.read()


def _with_children(pid: int) -> list[int]:
    found, todo = [], [pid]
    while todo:
        found.append(pid := todo.pop())
        try:
            for thread in Path(f"/proc/{pid}/task").iterdir():
                todo += map(int, (thread / "children").read_text(encoding="ascii").split())
        except OSError:
            continue
    return found


def _resident(pid: int) -> float:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0.0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
