"""Bisection as a search: which step is found, in how many questions, and what is said of shares."""

from __future__ import annotations

import math

import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.replay.bisection import Bisection, Outcome, Probe, Trial, bisect_steps, left_by, wilson
from hypothesis import given
from hypothesis import strategies as st


def answer(step: int, *outcomes: Outcome) -> Probe:
    return Probe(step, tuple(Trial(f"run{n + 2}", outcome, "completed") for n, outcome in enumerate(outcomes)))


def found_in(steps: list[int], turns: int, recorded: Outcome = "bad") -> Bisection:
    """Bisect a run of which a re-run from a step up to `turns` comes to another outcome."""
    other: Outcome = "good" if recorded == "bad" else "bad"
    return bisect_steps("run1", recorded, steps, lambda step: answer(step, other if step <= turns else recorded))


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=300, unique=True).map(sorted), st.data())
def test_the_step_is_found_with_both_its_neighbours_asked(steps: list[int], data: st.DataObject) -> None:
    """Whatever the steps and wherever the outcome turns, in at most ceil(log2(steps + 1)) questions."""
    place = data.draw(st.integers(-1, len(steps) - 1))
    turns = 0 if place < 0 else steps[place]
    recorded = data.draw(st.sampled_from(["good", "bad"]))
    found = found_in(steps, turns, recorded)
    assert found.step == (turns or None)
    assert found.until == (steps[place + 1] if place + 1 < len(steps) else None)
    asked = {probe.step for probe in found.probes}
    assert {step for step in (found.step, found.until) if step is not None} <= asked
    assert found.reruns == len(found.probes) <= math.ceil(math.log2(len(steps) + 1))
    assert found.reruns <= math.ceil(math.log2(len(steps))) + 1
    assert found.unsettled == ()


@given(st.integers(1, 60), st.data())
def test_steps_that_cannot_be_judged_leave_a_range(count: int, data: st.DataObject) -> None:
    """What is between the last step that turned and the first that did not is told, and nothing else is."""
    steps = list(range(1, count + 1))
    turns = data.draw(st.integers(0, count))
    unknown = data.draw(st.sets(st.sampled_from(steps)))

    def ask(step: int) -> Probe:
        return answer(step, "unknown" if step in unknown else "good" if step <= turns else "bad")

    found = bisect_steps("run1", "bad", steps, ask)
    known = [step for step in steps if step not in unknown]
    assert found.step == max((step for step in known if step <= turns), default=None)
    assert found.until == min((step for step in known if step > turns), default=None)
    low, high = found.step or 0, found.until or count + 1
    assert found.unsettled == tuple(range(low + 1, high))
    assert len({probe.step for probe in found.probes}) == len(found.probes)


def test_of_several_re_runs_the_majority_counts() -> None:
    """With as many good ones as bad ones, nothing has turned; what cannot be judged does not count."""
    assert answer(3, "good", "good", "bad").outcome("bad") == "good"
    assert answer(3, "good", "bad", "bad").outcome("good") == "bad"
    assert answer(3, "good", "bad").outcome("bad") == "bad"
    assert answer(3, "good", "bad").outcome("good") == "good"
    assert answer(3, "unknown", "unknown", "good").outcome("bad") == "good"
    assert answer(3, "unknown", "unknown").outcome("bad") == "unknown"
    assert (answer(3, "good", "unknown").rate, answer(3, "unknown").rate) == (1.0, None)


@pytest.mark.parametrize(
    ("good", "judged", "low", "high"),
    [
        (0, 1, 0.0, 0.7935),
        (1, 1, 0.2065, 1.0),
        (0, 10, 0.0, 0.2775),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_of_a_share_is_wilsons(good: int, judged: int, low: float, high: float) -> None:
    """Figures as published for the score method, two of them for 81 of 263 and 1 of 29."""
    assert wilson(good, judged) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_shares_that_may_be_the_same_are_doubtful() -> None:
    """Three of five and two of five say little; nine of ten and none of ten say it."""

    def found(first: list[Outcome], second: list[Outcome]) -> Bisection:
        return bisect_steps("run1", "bad", [1, 2], lambda step: answer(step, *(first if step == 1 else second)))

    weak = found(["good", "good", "good", "bad", "bad"], ["good", "good", "bad", "bad", "bad"])
    strong = found(["good"] * 9 + ["bad"], ["bad"] * 10)
    assert (weak.step, weak.is_doubtful, strong.step, strong.is_doubtful) == (1, True, 1, False)
    assert not found(["good"], ["bad"]).is_doubtful, "single re-runs have no shares"


def test_there_is_nothing_to_find_without_steps_or_without_a_verdict() -> None:
    """Both are refused before anything is asked."""
    with pytest.raises(UsageError) as refused:
        bisect_steps("run1", "bad", [], lambda step: answer(step, "good"))
    assert str(refused.value) == "run1 has no step from which it could be re-run"
    with pytest.raises(UsageError) as refused:
        bisect_steps("run1", "unknown", [1], lambda step: answer(step, "good"))
    assert "cannot tell whether run1 is good or bad" in str(refused.value)


def test_a_bisection_is_told_as_json() -> None:
    """The keys are a contract."""
    told = found_in([2, 3, 4], turns=3).to_json()
    assert told == {
        "run": "run1",
        "recorded": "bad",
        "step": 3,
        "until": 4,
        "unsettled": [],
        "doubtful": False,
        "reruns": 2,
        "steps": [2, 4],
        "probes": [
            {
                "step": step,
                "outcome": outcome,
                "good": good,
                "judged": 1,
                "rate": float(good),
                "interval": [pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4)],
                "runs": [{"run": "run2", "outcome": outcome, "status": "completed"}],
            }
            for step, outcome, good, low, high in [(3, "good", 1, 0.2065, 1.0), (4, "bad", 0, 0.0, 0.7935)]
        ],
    }


def test_a_bisection_that_was_stopped_has_narrowed_the_steps() -> None:
    """The first good one and the last before a bad one bound what is left; what could not be judged bounds nothing."""
    steps = [1, 2, 4, 5, 7, 9]
    assert left_by("bad", steps, []) == (1, 2, 4, 5, 7, 9)
    assert left_by("bad", steps, [answer(4, "good")]) == (4, 5, 7, 9)
    assert left_by("bad", steps, [answer(4, "good"), answer(9, "bad"), answer(5, "unknown")]) == (4, 5, 7)
    assert left_by("good", steps, [answer(2, "good")]) == (1,)
    assert left_by("bad", steps, [answer(1, "bad")]) == ()
