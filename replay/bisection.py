"""Bisection: in which step of a recorded run does its outcome turn?

A run that is re-run from step 3 keeps its steps 1 and 2, and does the rest again. If the mistake was made in step 7, a
re-run from any step up to 7 has a chance to do better, and one from step 8 on has the mistake in what it keeps. So the
steps are good, good, …, bad, bad, and half of those that are left are settled by each re-run. What is looked for is the
last step from which the outcome is another than the recorded one: with that step as it was recorded, nothing helps
any more.

Agents with a live model do not end the same each time. Then a step is asked several times, and what most of its re-runs
came to counts; the share and its interval say how much that is worth.

All of this is pure: `ask` re-runs, and is the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..recorder.errors import UsageError

Outcome = Literal["good", "bad", "unknown"]

LEVEL: Final = 1.959963984540054
"""Standard deviations that hold 95 % of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One re-run, judged.

    Attributes:
        run: its id.
        outcome: what the check said of it; "unknown" counts for nothing.
        status: how it ended.
    """

    run: str
    outcome: Outcome
    status: str


@dataclass(frozen=True, slots=True)
class Probe:
    """The re-runs from one step.

    Attributes:
        step: the first live round.
        trials: at least one.
    """

    step: int
    trials: tuple[Trial, ...]

    @property
    def good(self) -> int:
        """How many were good."""
        return sum(trial.outcome == "good" for trial in self.trials)

    @property
    def judged(self) -> int:
        """How many were good or bad."""
        return sum(trial.outcome != "unknown" for trial in self.trials)

    @property
    def rate(self) -> float | None:
        """The share that was good, from 0 to 1; None if nothing is known."""
        return self.good / self.judged if self.judged else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Between what the share of all possible re-runs lies, at 95 %; None if nothing is known."""
        return wilson(self.good, self.judged) if self.judged else None

    def outcome(self, recorded: Outcome) -> Outcome:
        """What most of them came to; with as many of either, what the recording came to."""
        if not self.judged:
            return "unknown"
        bad = self.judged - self.good
        return recorded if self.good == bad else "good" if self.good > bad else "bad"

    def to_json(self, recorded: Outcome) -> dict[str, Any]:
        """`{step, outcome, good, judged, rate, interval, runs}`."""
        return {
            "step": self.step,
            "outcome": self.outcome(recorded),
            "good": self.good,
            "judged": self.judged,
            "rate": self.rate,
            "interval": None if self.interval is None else list(self.interval),
            "runs": [{"run": one.run, "outcome": one.outcome, "status": one.status} for one in self.trials],
        }


@dataclass(frozen=True, slots=True)
class Bisection:
    """What a bisection came to.

    Attributes:
        run: the id of the recorded run.
        recorded: its outcome, good or bad.
        steps: the steps that could be asked, ascending.
        probes: in the order in which they were asked.
        step: the last step from which the outcome turned; None if it turned from none.
        until: the next step that could be asked and from which it did not; None if `step` is the last one.
        unsettled: steps between the two that were asked and of which nothing is known.
    """

    run: str
    recorded: Outcome
    steps: tuple[int, ...]
    probes: tuple[Probe, ...]
    step: int | None
    until: int | None
    unsettled: tuple[int, ...] = ()

    @property
    def reruns(self) -> int:
        """How many re-runs it took."""
        return sum(len(probe.trials) for probe in self.probes)

    def probe_of(self, step: int | None) -> Probe | None:
        """What was found out about a step."""
        return next((probe for probe in self.probes if probe.step == step), None)

    @property
    def is_doubtful(self) -> bool:
        """Whether the shares on both sides of the turn may be the same as far as their intervals say."""
        sides = [self.probe_of(self.step), self.probe_of(self.until)]
        found = [probe.interval for probe in sides if probe is not None and len(probe.trials) > 1]
        if len(found) < 2 or found[0] is None or found[1] is None:
            return False
        (low, high), (other_low, other_high) = found[0], found[1]
        return low <= other_high and other_low <= high

    def to_json(self) -> dict[str, Any]:
        """`{run, recorded, step, until, unsettled, doubtful, reruns, steps, probes}`."""
        return {
            "run": self.run,
            "recorded": self.recorded,
            "step": self.step,
            "until": self.until,
            "unsettled": list(self.unsettled),
            "doubtful": self.is_doubtful,
            "reruns": self.reruns,
            "steps": [self.steps[0], self.steps[-1]],
            "probes": [probe.to_json(self.recorded) for probe in self.probes],
        }


def bisect_steps(run: str, recorded: Outcome, steps: Sequence[int], ask: Callable[[int], Probe]) -> Bisection:
    """Find the last step from which the outcome of a run turns.

    Args:
        run: the id of the recorded run.
        recorded: its outcome.
        steps: that can be asked, ascending.
        ask: re-runs from a step. It is called at most ceil(log2(len(steps) + 1)) times, if it always knows.

    Returns:
        The step, with both neighbours asked: the outcome turned from it, and not from the next.

    Raises:
        UsageError: there are no steps, or it is not known what the recorded run came to.
    """
    if not steps:
        raise UsageError(f"{run} has no step from which it could be re-run")
    if recorded == "unknown":
        raise UsageError(f"the check cannot tell whether {run} is good or bad, so no turn can be seen")
    probes: list[Probe] = []
    skipped: set[int] = set()
    low, high = -1, len(steps)  # turned from low, not from high; the recording itself stands behind the last step
    while (place := _middle(low, high, skipped)) is not None:
        probe = ask(steps[place])
        probes.append(probe)
        outcome = probe.outcome(recorded)
        if outcome == "unknown":
            skipped.add(place)
        elif outcome == recorded:
            high = place
        else:
            low = place
    return Bisection(
        run=run,
        recorded=recorded,
        steps=tuple(steps),
        probes=tuple(probes),
        step=steps[low] if low >= 0 else None,
        until=steps[high] if high < len(steps) else None,
        unsettled=tuple(steps[place] for place in sorted(skipped) if low < place < high),
    )


def left_by(recorded: Outcome, steps: Sequence[int], probes: Sequence[Probe]) -> tuple[int, ...]:
    """The steps among which the last one is from which the outcome turns, if there is one, by what was asked until now.

    Args:
        recorded: the outcome of the recorded run.
        steps: that can be asked, ascending.
        probes: the answers, in any order.
    """
    low, high = steps[0], steps[-1] + 1
    for probe in probes:
        outcome = probe.outcome(recorded)
        if outcome == recorded:
            high = min(high, probe.step)
        elif outcome != "unknown":
            low = max(low, probe.step)
    return tuple(step for step in steps if low <= step < high)


def _middle(low: int, high: int, skipped: set[int]) -> int | None:
    """The place nearest to the middle between two that is not skipped."""
    middle = (low + high) // 2
    left = [place for place in range(low + 1, high) if place not in skipped]
    return min(left, key=lambda place: abs(place - middle), default=None)


def wilson(good: int, judged: int) -> tuple[float, float]:
    """Wilson's interval of a share at 95 %, from 0 to 1; it is sound for few trials and for shares near 0 and 1."""
    share, weight = good / judged, LEVEL**2 / judged
    middle = share + weight / 2
    spread = LEVEL * math.sqrt((share * (1 - share) + weight / 4) / judged)
    low, high = (middle - spread) / (1 + weight), (middle + spread) / (1 + weight)
    return (0.0 if good == 0 else max(low, 0.0), 1.0 if good == judged else min(high, 1.0))
