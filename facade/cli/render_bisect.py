"""A bisection on a terminal: the steps that were asked as they are answered, then the step that was found.

run1  refunds  failed  is bad
bisecting steps 2 to 10, in at most 4 re-runs

from step  6  run3  good  completed
from step  8  run4  bad   failed
from step  7  run5  good  completed

The outcome turns in step 7: a re-run from there is good, and from step 8 on bad.

With several re-runs of each step a line says how many were good, and between what their share lies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from rich.console import Console

from ..recorder.store import EventStore, RunInfo
from ..replay.bisection import Bisection, Outcome, Probe
from ..replay.compare import RunComparison
from ..replay.outline import outline
from ..replay.readable import count, visible
from .hints import command
from .output import write, write_commands
from .render_divergence import render_difference
from .render_steps import RunPage
from .runs import Names, status_of

STYLES: Final = {"good": "green", "bad": "red", "unknown": "dim"}


def render_search(page: Console, info: RunInfo, recorded: Outcome, steps: Sequence[int], samples: int) -> None:
    """Write what is looked for, and in how many re-runs."""
    write(page, (info.id, "bold"), f"  {visible(info.agent)}  ", status_of(info), "  is ", (recorded, STYLES[recorded]))
    most = math.ceil(math.log2(len(steps) + 1)) * samples
    where = f"step {steps[0]}" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]}"
    write(page, (f"bisecting {where}, in at most {count(most, 're-run')}", "dim"))
    write(page)


def render_probe(page: Console, store: EventStore, probe: Probe, recorded: Outcome) -> None:
    """Write what the re-runs from a step came to."""
    outcome = probe.outcome(recorded)
    told: list[str | tuple[str, str]]
    if len(probe.trials) == 1:
        trial = probe.trials[0]
        told = [f"  {trial.run:6}  ", (f"{outcome:7}", STYLES[outcome]), "  ", status_of(store.run(trial.run))]
    else:
        told = ["  ", (f"{outcome:7}", STYLES[outcome]), f"  {probe.good} of {probe.judged} good"]
        if probe.interval is not None:
            told.append((f", {share(probe.rate)} ({between(probe.interval)})", ""))
        runs = ", ".join(trial.run for trial in probe.trials)
        told.append((f"  {runs}", "dim"))
    write(page, ("from step ", "dim"), (f"{probe.step:3}", "bold"), *told)


def render_found(page: Console, store: EventStore, info: RunInfo, found: Bisection) -> None:
    """Write the step that was found, and what to look at next."""
    write(page)
    if found.step is None:
        write(page, (_none(found), "bold"))
        return
    turned = "good" if found.recorded == "bad" else "bad"
    if found.unsettled:
        last = found.unsettled[-1]
        write(page, (f"The outcome turns in one of the steps {found.step} to {last}", "bold"), f": {_why(found)}")
    else:
        after = f", and from step {found.until} on {found.recorded}" if found.until is not None else ""
        text = f": a re-run from there is {turned}{after}."
        write(page, (f"The outcome turns in step {found.step}", "bold"), text)
    if found.is_doubtful:
        text = "The shares on both sides may be the same as far as these re-runs tell; --samples takes more."
        write(page, (text, "yellow"))
    write(page)
    entries = outline(store.events(info, conversations=False), info.id, wanted=lambda step: step == found.step)
    rounds = RunPage(page, Names(store), width=len(str(found.step)))
    for entry in entries:
        rounds.round(entry)
    write(page)
    probe = found.probe_of(found.step)
    assert probe is not None  # it was found by asking
    child = next((one.run for one in probe.trials if one.outcome == turned), probe.trials[0].run)
    write_commands(
        page,
        {
            command(f"diff {info.id} --step {found.step}"): "what that step did, and what caused it",
            command(f"compare {info.id} {child}"): "both side by side, at the first difference",
        },
    )


def _none(found: Bisection) -> str:
    if found.unsettled:
        return f"No step was found: the check could not judge the re-runs from {_listed(found.unsettled)}."
    return (
        f"No step was found: a re-run from step {found.steps[0]} is {found.recorded}, too. So it does not depend on "
        "what the run did from there on, but on what it began with, on the code, or on the world."
    )


def _why(found: Bisection) -> str:
    return f"the check could not judge the re-runs from {_listed(found.unsettled)}."


def _listed(steps: Sequence[int]) -> str:
    return f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))}"


def share(rate: float | None) -> str:
    """A share in per cent."""
    return "?" if rate is None else f"{rate:.0%}".replace("%", " %")


def between(interval: tuple[float, float]) -> str:
    """An interval of a share, in per cent."""
    low, high = interval
    return f"95 % between {low * 100:.0f} and {high * 100:.0f} %"


def render_parting(page: Console, found: RunComparison) -> None:
    """Write where two recordings part first."""
    old, new = found.runs
    for info in found.runs:
        write(page, (info.id, "bold"), f"  {visible(info.agent)}  ", status_of(info), f"  {count(info.steps, 'step')}")
    write(page)
    first = found.first_difference
    if first is None:
        write(page, ("No step differs.", "bold green"))
        return
    render_difference(page, first)
    write(page)
    write_commands(page, {command(f"compare {old.id} {new.id}"): "both side by side"})
