"""`ar.bisect`: recorded runs in which one step is to blame, found by re-running them."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.examples import refunds
from agentreplay.recorder.errors import Divergence, LiveCallRefused, UsageError
from agentreplay.recorder.loop import Agent
from agentreplay.recorder.memory_store import MemoryStore


class World:
    """A model that makes a mistake in one call while recording, and tools of which every call is counted."""

    def __init__(self, mistake: int | None) -> None:
        self.mistake = mistake
        self.paid = 0


def planted(rounds: int, world: World) -> Agent[Any]:
    """An agent of so many rounds: it counts what it is told by its model, and fails at the end if that is too much."""

    @ar.model
    def ask(round: int) -> int:
        return 100 if round == world.mistake else 1

    @ar.tool(safety="pure")
    def add(total: int, more: int) -> int:
        return total + more

    @ar.agent("planted", max_rounds=rounds)
    def step(round_index: int, context: ar.Context) -> ar.Continue | ar.Complete[int]:
        total = add(context.payload["total"], ask(round_index))
        context.change(replace={"total": total}, reason=f"round {round_index}")
        if round_index < rounds:
            return ar.Continue()
        if total != rounds:
            raise ValueError(f"{total} is not {rounds}")
        return ar.Complete(total)

    return step


@pytest.mark.parametrize("seed", range(20))
def test_the_planted_step_is_found_in_twenty_generated_runs(seed: int) -> None:
    """Within ceil(log2(steps)) + 1 re-runs, and each re-run is a fork that stays in the store."""
    chance = random.Random(seed)
    rounds = chance.randint(1, 70)
    mistake = chance.randint(1, rounds)
    world, store = World(mistake), MemoryStore()
    agent = planted(rounds, world)
    with pytest.raises(ValueError, match="is not"):
        agent.run({"total": 0}, store=store)
    world.mistake = None  # a model that answers better
    found = ar.bisect("run1", agent, store=store)
    assert (found.step, found.recorded) == (mistake, "bad")
    assert found.reruns <= math.ceil(math.log2(rounds)) + 1
    assert [info.fork_of for info in store.runs() if info.id != "run1"] == [store.run("run1").uid] * found.reruns


def test_the_planted_mistake_of_the_example_is_found() -> None:
    """Each step is re-run with what was missing; steps at which there is no order yet are left out."""
    store = MemoryStore()
    refunds.step.run(refunds.START, store=store)
    found = ar.bisect("run1", refunds.step, set={"/order/coupon/used": True}, allow=["issue_refund"], store=store)
    assert (found.step, found.until, found.steps[0], found.steps[-1]) == (7, 8, 2, 10)
    assert found.reruns <= math.ceil(math.log2(10)) + 1


def test_a_good_run_is_bisected_for_what_new_code_makes_worse() -> None:
    """The outcome turns the other way: what was recorded is good, and re-runs are not, up to a step."""
    world, store = World(None), MemoryStore()
    agent = planted(12, world)
    agent.run({"total": 0}, store=store)
    world.mistake = 9
    found = ar.bisect("run1", agent, store=store)
    assert (found.step, found.until, found.recorded) == (9, 10, "good")


def test_a_check_judges_the_last_state_and_may_not_know() -> None:
    """It is asked of the recording once and of each re-run; where it cannot tell, another step is asked."""
    world, store = World(5), MemoryStore()
    agent = planted(9, world)
    with pytest.raises(ValueError, match="is not"):
        agent.run({"total": 0}, store=store)
    world.mistake = None
    seen: list[str] = []

    def check(state: ar.RunState) -> bool | None:
        seen.append(state.run)
        return None if state.run == "run2" else bool(state.payload["total"] < 50)

    found = ar.bisect("run1", agent, check=check, store=store)
    assert found.probes[0].outcome("bad") == "unknown"
    assert seen == ["run1", *(trial.run for probe in found.probes for trial in probe.trials)]
    assert (found.step, found.until, found.unsettled) == (4, 6, (5,))


def test_several_samples_of_each_step_give_a_rate() -> None:
    """An agent that fails one time in three: the majority counts, and shares and intervals are told."""
    world, store = World(6), MemoryStore()
    count = itertools.count()

    @ar.model
    def ask(round: int) -> int:
        if round == 12 and world.mistake is None and next(count) % 3 == 0:
            return 100
        return 100 if round == world.mistake else 1

    @ar.agent("moody")
    def step(round_index: int, context: ar.Context) -> ar.Continue | ar.Complete[int]:
        context.change(replace={"total": context.payload["total"] + ask(round_index)})
        if round_index < 12:
            return ar.Continue()
        if context.payload["total"] != 12:
            raise ValueError("too much")
        return ar.Complete(12)

    with pytest.raises(ValueError, match="too much"):
        step.run({"total": 0}, store=store)
    world.mistake = None
    found = ar.bisect("run1", step, samples=9, store=store)
    assert found.step == 6
    assert {probe.step: (probe.good, probe.judged) for probe in found.probes} == {
        probe.step: (6, 9) if probe.step <= 6 else (0, 9) for probe in found.probes
    }
    turned = found.probe_of(6)
    assert turned is not None
    assert turned.rate == pytest.approx(2 / 3)
    assert turned.interval == (pytest.approx(0.3542, abs=1e-4), pytest.approx(0.8794, abs=1e-4))
    assert found.reruns == 9 * len(found.probes)
    assert not found.is_doubtful


def test_where_nothing_helps_no_step_is_found() -> None:
    """Even from the first step the re-run comes to what was recorded."""
    world, store = World(1), MemoryStore()
    agent = planted(8, world)
    with pytest.raises(ValueError, match="is not"):
        agent.run({"total": 0}, store=store)
    found = ar.bisect("run1", agent, store=store)  # the model still makes the mistake in round 1
    assert (found.step, found.until) == (None, 1)


def test_a_refused_tool_stops_a_bisection_instead_of_counting_as_a_failure() -> None:
    """A re-run that may not pay says nothing about the step from which it was made."""
    store = MemoryStore()
    refunds.step.run(refunds.START, store=store)
    with pytest.raises(LiveCallRefused) as refused:
        ar.bisect("run1", refunds.step, set={"/order/coupon/used": True}, store=store)
    assert "issue_refund" in str(refused.value)


def test_code_that_parts_from_the_recording_before_a_step_stops_a_bisection() -> None:
    """It would compare runs of another agent; the error says where it parts."""
    world, store = World(3), MemoryStore()
    with pytest.raises(ValueError, match="is not"):
        planted(9, world).run({"total": 0}, store=store)

    @ar.agent("planted")
    def other(round_index: int, context: ar.Context) -> ar.Complete[int]:
        return ar.Complete(0)

    with pytest.raises(Divergence) as parted:
        ar.bisect("run1", other, store=store)
    assert parted.value.step == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "samples is a number from 1 to 1,000, not 0"),
        ({"first": 4, "last": 3}, "run1 has steps 1 to 5; there is none from 4 to 3"),
        ({"last": 6}, "run1 has steps 1 to 5; there is none from 1 to 6"),
        ({"set": {"/nothing/here": 1}}, "the edits fit run1 at no step from 1 to 5: /nothing/here cannot be set"),
        ({"check": lambda state: None}, "the check cannot tell whether run1 is good or bad"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_run(options: dict[str, Any], message: str) -> None:
    """The message says what the run has."""
    store = MemoryStore()
    planted(5, World(None)).run({"total": 0}, store=store)
    with pytest.raises(UsageError) as refused:
        ar.bisect("run1", planted(5, World(None)), store=store, **options)
    assert message in str(refused.value)
    assert [info.id for info in store.runs()] == ["run1"]


def test_bounds_narrow_the_steps_that_are_asked() -> None:
    """Negative ones count from the end."""
    world, store = World(6), MemoryStore()
    agent = planted(20, world)
    with pytest.raises(ValueError, match="is not"):
        agent.run({"total": 0}, store=store)
    world.mistake = None
    found = ar.bisect("run1", agent, first=5, last=-13, store=store)
    assert (found.step, found.steps, found.reruns <= 3) == (6, (5, 6, 7, 8), True)


def test_the_recorded_run_is_left_as_it_is(tmp_path: Path) -> None:
    """Its head is the same, and the store verifies."""
    store = ar.open_store(str(tmp_path / "store.db"))
    refunds.step.run(refunds.START, store=store)
    before = store.run("run1").head_hash
    ar.bisect("run1", refunds.step, set={"/order/coupon/used": True}, allow=["issue_refund"], store=store)
    assert store.run("run1").head_hash == before
    assert list(store.verify()) == []
    store.close()
