"""Killed at any moment and resumed, a run ends as one that nobody killed; and nothing is done twice that may not be."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

PROGRAM = '''
import json, os, random, signal, sys, time
from pathlib import Path

import agentreplay as ar
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.replay.reducer import fold
from agentreplay.replay.replayer import replay
from agentreplay.replay.rerunning import NOT_DONE, resume

KILLS, folder = 30, Path(sys.argv[1])
effects = -1


def touch(what):
    os.write(effects, f"{what}\\n".encode())


def begin(name):
    """The effects of this process go to a file of that name."""
    global effects
    effects = os.open(folder / f"{name}.effects", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def done(name):
    return (folder / f"{name}.effects").read_text().splitlines()


def store_of(name):
    return SqlStore(f"sqlite:///{folder}/{name}.db")


@ar.tool(safety="pure")
def look(what):
    touch(f"look {what}")
    return {"seen": what}


@ar.tool(safety="irreversible")
def charge(what):
    touch(f"charge {what}")
    return f"charged {what}"


@ar.model
def ask(messages):
    touch(f"ask {messages[-1]['content']}")
    return {"text": f"{len(messages)} messages"}


@ar.tool(safety="pure")
def bundle(what):
    touch(f"bundle {what}")
    return [look(f"{what} in a bundle"), charge(f"{what} in a bundle"), ask([{"content": f"{what} in a bundle"}])]


@ar.agent("helper", max_rounds=3)
def helper(round_index, context):
    look(f"{context.payload['for']} by a helper {round_index}")
    context.change(update={"charged": charge(f"{context.payload['for']} by a helper {round_index}")})
    return ar.Complete(round_index) if round_index == 2 else ar.Continue()


def worker():
    seen = []

    @ar.agent("worker", max_rounds=9)
    def step(round_index, context):
        context.messages.append({"content": f"round {round_index}"})
        seen.append(ask(list(context.messages))["text"])
        look(round_index)
        context.change(update={f"charged {round_index}": charge(round_index), "seen": list(seen)})
        if round_index % 2:
            context.change(update={f"bundle {round_index}": bundle(round_index)})
        else:
            context.run_agent(helper, {"for": round_index}, upstream=["charged"])
        return ar.Complete(list(seen)) if round_index == 4 else ar.Continue()

    return step


def killed(name, moment):
    """Run the agent in a process of its own, and kill that some seconds after its first effect; None leaves it alone.

    Returns the seconds from its first effect to its end.
    """
    process = os.fork()
    if process == 0:
        begin(name)
        worker().run({}, store=store_of(name))
        os._exit(0)
    deadline = time.perf_counter() + 60
    while not (folder / f"{name}.effects").exists() or not done(name):
        assert time.perf_counter() < deadline
        time.sleep(0.0005)
    began = time.perf_counter()
    if moment is not None:
        time.sleep(moment)
        os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return time.perf_counter() - began


def in_flight(store):
    """The effects that the log does not say to have ended."""
    found = []
    for info in store.runs():
        waiting = fold(store.events(info)).open_calls
        for event in store.events(info):
            if event.kind == "model.called" and event.data.call in waiting:
                found.append(f"ask {event.data.request['messages'][-1]['content']}")
            elif event.kind == "tool.called" and event.data.call in waiting:
                found.append(f"{event.data.name} {event.data.arguments['what']}")
    return found


def finished(name):
    """Resume a run until it ends, as a person would who looks whether something was done."""
    begin(name)
    store = store_of(name)
    before, waiting = done(name), in_flight(store)
    told = {"name": name, "before": before, "in_flight": waiting, "status": store.run("run1").status, "refused": []}
    assume = {}
    while store.run("run1").status != "completed":
        try:
            resume("run1", worker(), store=store, assume=assume)
        except ar.LiveCallRefused as refused:
            told["refused"].append(refused.call)
            (what,) = [one.removeprefix("charge ") for one in waiting if one.startswith("charge ")]
            assume = {refused.call: f"charged {what}" if f"charge {what}" in before else NOT_DONE}
    told["problems"] = [str(problem) for problem in store.verify()]
    told["replayed"] = replay("run1", worker(), store=store).verdict
    told["ended"] = fold(store.events("run1")).ended
    told["payload"] = ar.state_at("run1", store=store).payload
    told["value"] = list(store.events("run1"))[-1].data.value
    told["effects"] = done(name)
    return told


duration = killed("whole", None)
chance = random.Random(int(sys.argv[2]))
for number in range(KILLS):
    killed(f"run{number}", chance.uniform(0, duration))
print(json.dumps([finished(name) for name in ["whole", *[f"run{number}" for number in range(KILLS)]]]))
'''


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What became of a run that was left alone, and of thirty that were killed."""
    folder = tmp_path_factory.mktemp("killed")
    program = folder / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(folder), "20261130"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    told: list[dict[str, Any]] = json.loads(done.stdout)
    return told


def test_a_killed_run_ends_as_one_that_nobody_killed(runs: list[dict[str, Any]]) -> None:
    """With the same payload and the same value; its log verifies, folds to its end, and replays."""
    whole, *killed = runs
    assert len(killed) == 30
    assert whole["status"] == "completed"
    assert len({len(run["before"]) for run in killed}) >= 5
    assert sum(run["status"] == "crashed" for run in killed) >= 10
    for run in killed:
        assert run["status"] in ("crashed", "completed"), run["name"]
        assert (run["payload"], run["value"]) == (whole["payload"], whole["value"])
        assert (run["problems"], run["ended"], run["replayed"]) == ([], True, "identical")


def test_a_killed_run_repeats_no_effect_that_had_ended(runs: list[dict[str, Any]]) -> None:
    """Each effect was made once; one that is harmless and was in flight, perhaps twice."""
    whole, *killed = runs
    expected = Counter(whole["effects"])
    assert set(expected.values()) == {1}
    for run in killed:
        made = Counter(run["effects"])
        assert made.keys() == expected.keys()
        twice = {effect for effect, times in made.items() if times > 1}
        assert all(times <= 2 for times in made.values())
        assert twice <= set(run["in_flight"])


def test_a_killed_run_does_nothing_twice_that_cannot_be_undone(runs: list[dict[str, Any]]) -> None:
    """A charge that was in flight is named, and made if it was not; every charge was made once."""
    whole, *killed = runs
    charges = [effect for effect in whole["effects"] if effect.startswith("charge")]
    assert len(charges) == 10
    for run in killed:
        assert sorted(effect for effect in run["effects"] if effect.startswith("charge")) == sorted(charges)
        waiting = [effect for effect in run["in_flight"] if effect.startswith("charge")]
        assert len(run["refused"]) == len(waiting)
