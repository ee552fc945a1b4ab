"""A step that has started counts: one number in the list of runs, in `show`, the tree, the pages and the API."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from agentreplay.recorder.locate import open_store
from agentreplay.recorder.log_end import last_round, rounds_begun
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore, RunInfo
from cli_runs import json_of, output
from event_builder import EventBuilder
from hypothesis import given
from hypothesis import strategies as st
from web import client_of, page

KILLED = """
import os, signal, sys
import agentreplay as ar

@ar.agent("killed", max_rounds=9)
def step(number, context):
    if number == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    context.change(new={{f"k{{number}}": 1}}, reason="r")
    return ar.Complete("x") if number == 3 else ar.Continue()

if __name__ == "__main__":
    {act}
"""


def execute(folder: Path, url: str, at: int, act: str) -> int:
    """Run a program that kills itself in a step, if it comes to it."""
    file = folder / "killed.py"
    file.write_text(KILLED.format(at=at, act=act))
    environment = os.environ | {"AGENTREPLAY_STORE": url}
    return subprocess.run([sys.executable, str(file)], env=environment, timeout=60, check=False).returncode


def check(store: EventStore, steps: int, run: str) -> None:
    """The number of steps of a run, wherever it is told."""
    options = ("--store", store.url)
    assert store.run(run).steps == steps
    assert {info.id: info.steps for info in store.runs()}[run] == steps
    assert {row["run"]: row["steps"] for row in json_of("ls", *options)}[run] == steps
    assert json_of("show", run, *options)["steps"][-1]["step"] == steps
    noun = "step" if steps == 1 else "steps"
    assert re.search(rf"{run} .*\b{steps} {noun}\b", output("tree", run, *options))
    client = client_of(store)
    answer = client.get(f"/api/v1/runs/{run}").get_json()
    assert (answer["run"]["steps"], answer["last_step"]) == (steps, steps)
    assert [row["steps"] for row in client.get("/api/v1/runs").get_json()["runs"] if row["run"] == run] == [steps]
    assert f"crashed at step {steps}" in page(client, f"/runs/{run}")
    assert store.verify() == []


@pytest.mark.parametrize("at", [1, 2])
def test_a_crashed_run_has_the_steps_that_had_started(tmp_path: Path, at: int) -> None:
    """The one in which it was killed among them."""
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    assert execute(tmp_path, store.url, at, "step.run({})") == -9
    check(store, at, "run1")


def test_a_crashed_re_run_has_the_steps_that_it_shares(tmp_path: Path) -> None:
    """Two that are its parent's, and the one in which it was killed."""
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    assert execute(tmp_path, store.url, 9, "step.run({})") == 0
    assert execute(tmp_path, store.url, 3, "ar.rerun('run1', step, 3)") == -9
    check(store, 3, "run2")


def log_of(moves: list[str]) -> EventBuilder:
    log = EventBuilder({})
    for move in moves:
        if move == "begin" and log.events[-1].kind != "round.started":
            if log.round and log.events[-1].kind != "round.finished" and not any_ended(log):
                log.end()
            log.begin()
        elif move == "end" and log.round and not any_ended(log):
            log.end()
        else:
            log.add("report", message=move)
    return log


def any_ended(log: EventBuilder) -> bool:
    """Whether the last round has finished."""
    kinds = [event.kind for event in log.events if event.kind.startswith("round.")]
    return kinds[-1:] == ["round.finished"]


@given(st.lists(st.sampled_from(["begin", "end", "note", "note"]), max_size=60))
def test_the_steps_of_a_run_in_progress_are_those_that_have_started(moves: list[str]) -> None:
    """However it was appended, in pieces or at once, and whatever was noted between its rounds."""
    log, store = log_of(moves), MemoryStore()
    info = store.create_run("going")
    for at, event in enumerate(log.events):
        store.append(info, at - 1, [event])
    assert store.run(1).steps == log.round == last_round(store, store.run(1))
    other = store.create_run("at once")
    store.append(other, -1, log.events)
    assert store.run(2).steps == log.round


def test_ends_of_calls_that_a_round_left_behind_hide_no_step() -> None:
    """They belong to the round of their call, though another has started."""
    log = EventBuilder({})
    log.begin()
    for number in range(40):
        log.call(f"1.{number}")
    log.end()
    log.begin()
    for number in range(40):
        log.add("tool.returned", in_round=1, call=f"1.{number}")
    store = MemoryStore()
    store.append(store.create_run("late"), -1, log.events)
    assert store.run(1).steps == 2
    stored: RunInfo = store._list_runs()[0]
    assert (stored.steps, rounds_begun(stored, partial(store._read_rows, stored.number))) == (1, 2)


def test_the_number_is_not_looked_for_again_while_nothing_is_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of many crashed runs costs no more than before."""
    log, store = EventBuilder({}), MemoryStore()
    log.begin()
    store.append(store.create_run("idle"), -1, log.events)
    looks: list[Any] = []
    monkeypatch.setattr("agentreplay.recorder.standings.rounds_begun", lambda *args: looks.append(args) or 1)
    assert [store.run(1).steps for _ in range(5)] == [1] * 5
    assert len(looks) == 1
