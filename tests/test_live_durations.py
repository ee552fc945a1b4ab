"""How long a round took is of its live part alone: not of what was answered before, nor of preparing to go live."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore


class Clock:
    """A clock of which the hand is moved by the test."""

    def __init__(self) -> None:
        self.now = 0.0

    def takes(self, seconds: float, value: Any = None) -> Any:
        self.now += seconds
        return value


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of rounds; to look at the version of the code takes 100 seconds."""
    made = Clock()
    stand_in = SimpleNamespace(**{**vars(time), "perf_counter": lambda: made.now})
    monkeypatch.setattr("agentreplay.recorder.run_recorder.time", stand_in)
    for module in ("fork", "resume"):
        monkeypatch.setattr(f"agentreplay.replay.{module}.code_version", lambda at: made.takes(100, {}))
    return made


def durations(store: EventStore, run: str) -> list[float]:
    return [event.data.duration for event in store.events(run) if event.kind == "round.finished"]


def test_a_re_run_takes_as_long_as_its_live_rounds(clock: Clock) -> None:
    """What comes before is its parent's, and making ready is no part of a round."""
    store = MemoryStore()

    @ar.agent("slow", max_rounds=5)
    def step(number: int, context: ar.Context) -> ar.Continue | ar.Complete:
        clock.takes(number)
        return ar.Complete("done") if number == 3 else ar.Continue()

    step.run({}, store=store)
    ar.rerun("run1", step, 2, set={"/a": 1}, store=store)
    assert (durations(store, "run1"), durations(store, "run2")) == ([1, 2, 3], [1, 2, 3])


def test_a_resumed_round_takes_as_long_as_its_live_part(clock: Clock) -> None:
    """The part that was answered from the log was told before, when it was suspended."""
    store = MemoryStore()

    @ar.agent("asking", max_rounds=5)
    def step(number: int, context: ar.Context) -> ar.Complete:
        clock.takes(10)
        context.interrupt("sure")
        clock.takes(1)
        return ar.Complete("done")

    step.run({}, store=store)
    ar.resume("run1", step, answers={"sure": "yes"}, store=store)
    assert durations(store, "run1") == [10, 1]
