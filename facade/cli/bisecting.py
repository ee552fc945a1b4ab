"""The verb `bisect`: re-runs a run from chosen steps until it is known in which one its outcome turns.

Each re-run is `agentreplay rerun` in a process of its own, so that nothing an agent keeps in its modules passes from
one to the next, and one that crashes or has to be stopped takes nothing along.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from .code_options import allow_option, app_option, given_options, ignore_option, max_rounds_option, reuse_option
from .editing import patch_of, secrets, values
from .group import DIFFERENCE
from .options import VerbCommand, json_option, store_option
from .streams import say

if TYPE_CHECKING:
    from ..recorder.store import EventStore, RunInfo
    from ..replay.bisection import Outcome, Probe, Trial
    from ..replay.rerun_request import RerunRequest

PROGRAM: Final = ("-P", "-m", "agentreplay")
"""Our command line, without the working folder on the search path: no file there takes the place of a module."""

RUN: Final = "AGENTREPLAY_RUN"
STEP: Final = "AGENTREPLAY_STEP"
"""Variables that a check finds: the run that it judges, and the step from which that was re-run (0: the recording)."""

CANNOT_TELL: Final = 125
"""Exit code of a check that cannot judge a run, as for `git bisect run`."""

STDERR: Final = 2

STOPPED: Final = "stopped; "
"""With this a re-run begins to say what it has recorded, when it is stopped."""

NO_SUCH: Final = (126, 127)
"""Exit codes of a shell that could not run the check."""


@click.command(
    cls=VerbCommand,
    examples=[
        "agentreplay bisect run42 --set /order/coupon/used=true --allow issue_refund",
        "agentreplay bisect run42 --check 'agentreplay state $AGENTREPLAY_RUN --json | jq -e .paid'",
        "agentreplay bisect run42 --samples 10 --jobs 4 --json | jq '.probes[] | {step, rate, interval}'",
        "agentreplay bisect run42 run43",
    ],
)
@click.argument("run", metavar="RUN", help="The run.")
@click.argument("other", metavar="[OTHER]", required=False, help="Another recording: where do the two part first?")
@store_option
@click.option(
    "--check",
    metavar="CMD",
    help="A shell command that judges the run in $AGENTREPLAY_RUN: 0 is good, 1 to 124 bad, 125 cannot tell. Unless "
    "given, a completed run is good and a failed one bad.",
)
@click.option("--samples", type=click.IntRange(1, 1_000), default=1, show_default=True, help="Re-runs of each step.")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Re-runs at the same time.")
@click.option("--from", "first", type=int, default=1, metavar="N", help="The first step to ask; 1 unless given.")
@click.option("--to", "last", type=int, default=-1, metavar="N", help="The last one; -1 unless given.")
@app_option
@click.option(
    "--set",
    "places",
    multiple=True,
    metavar="PATH=JSON",
    callback=values,
    help="Create or replace a value of the payload, at each step that is asked.",
)
@click.option("--patch", multiple=True, metavar="FILE", callback=patch_of, help="Apply a JSON Patch to the payload.")
@given_options
@click.option(
    "--secret",
    "hidden",
    multiple=True,
    metavar="PATH=env:VAR",
    help="The secret that a token stands for in the payload, from a variable.",
)
@allow_option
@reuse_option
@click.option(
    "--prefix",
    type=click.Choice(["execute", "fold"]),
    default="execute",
    show_default=True,
    help="Execute the steps before against the log, or take their outcome from it.",
)
@max_rounds_option
@ignore_option
@json_option
@click.pass_context
def bisect(
    ctx: click.Context,
    run: str,
    other: str | None,
    store: str | None,
    check: str | None,
    samples: int,
    jobs: int,
    first: int,
    last: int,
    app: str | None,
    places: dict[str, Any],
    patch: list[dict[str, Any]] | None,
    messages: list[Any],
    params: dict[str, Any] | None,
    given_input: Any,
    hidden: tuple[str, ...],
    allow: tuple[str, ...],
    reuse: bool,
    prefix: str,
    max_rounds: int | None,
    ignore: tuple[str, ...],
    as_json: bool,
) -> int:
    """Find the step of a run in which its outcome turns.

    A re-run from step N keeps the steps before and does the rest again, so one from after the mistake comes to what was
    recorded, and one from before may not. About log2(steps) re-runs find the last step from which the outcome is
    another than the recorded one. Edits are made at each step that is asked; steps that they do not fit are left out.
    What live tools do, each re-run does; irreversible ones are refused unless they are allowed by name.

    With --samples each step is re-run several times, the majority counts, and the share of good ones is told with its
    95 % interval. Each re-run stays in the store, as a fork of the run.

    With OTHER nothing is executed: it says at which step two recordings part first, as `compare` does at length.

    Exit code 1 if no step was found.

    With --json: {run, recorded, step, until, unsettled, doubtful, reruns, steps, probes}. `step` is the step in which
    the outcome turns, or null; `recorded` is "good" or "bad"; `probes` are {step, outcome, good, judged, rate,
    interval, runs}. With OTHER: {runs, step, first, also}.
    """
    from .runs import open_for_reading

    if other is not None:
        _refuse_more(ctx)
        return _part(run, other, open_for_reading(store), as_json)
    from ..replay.rerun_request import RerunRequest

    secrets(ctx, _parameter(ctx, "hidden"), hidden)  # which refuses what no re-run could take
    wanted = RerunRequest(
        set=places,
        patch=patch,
        messages=messages,
        params=params,
        input=given_input,
        allow=allow,
        reuse=reuse,
        prefix=prefix,
        max_rounds=max_rounds,
        ignore=ignore,
    )
    found = open_for_reading(store)
    words = [*(["--app", app] if app is not None else []), *(word for one in hidden for word in ("--secret", one))]
    reruns = _Reruns(found, found.run(run), wanted, words, check, samples, jobs)
    return _bisect(reruns, app, first, last, as_json)


def _parameter(ctx: click.Context, name: str) -> click.Parameter:
    return next(one for one in ctx.command.params if one.name == name)


def _refuse_more(ctx: click.Context) -> None:
    """Refuse options that say how to re-run, where nothing is."""
    taken = {"run", "other", "store", "as_json"}
    typed = [
        one.opts[0]
        for one in ctx.command.params
        if one.name not in taken and ctx.get_parameter_source(one.name or "") is click.core.ParameterSource.COMMANDLINE
    ]
    if typed:
        raise click.UsageError(f"two recordings are compared as they are, without {', '.join(typed)}")


def _part(run: str, other: str, store: EventStore, as_json: bool) -> int:
    """Where two recordings part."""
    from ..replay.compare import compare_runs
    from .output import console, print_json
    from .render_bisect import render_parting

    found = compare_runs(run, other, store)
    if as_json:
        told = found.to_json()
        first = told["first"]
        print_json(
            {
                "runs": [info.id for info in found.runs],
                "step": None if first is None else first["step"],
                "first": first,
                "also": told["also"],
            }
        )
    else:
        render_parting(console(), found)
    return 0


@dataclass(slots=True)
class _Reruns:
    """How steps are asked.

    Attributes:
        store, info: the run.
        wanted: what each re-run is asked for, the step aside.
        words: options that each re-run has besides.
        check: the command that judges, or None.
        samples: re-runs of each step.
        jobs: how many of them at the same time.
    """

    store: EventStore
    info: RunInfo
    wanted: RerunRequest
    words: Sequence[str]
    check: str | None
    samples: int
    jobs: int

    def ask(self, step: int) -> Probe:
        """Re-run from a step, as often as is wanted."""
        from ..replay.bisection import Probe

        if self.jobs == 1 or self.samples == 1:
            return Probe(step, tuple(self._trial(step) for _ in range(self.samples)))
        with ThreadPoolExecutor(self.jobs) as pool:
            futures = [pool.submit(self._trial, step) for _ in range(self.samples)]
            try:
                return Probe(step, tuple(future.result() for future in futures))
            finally:
                pool.shutdown(cancel_futures=True)

    def judged(self, info: RunInfo, step: int) -> Outcome:
        """What the check says of a run."""
        from ..replay.bisecting import by_status

        return by_status(info) if self.check is None else _checked(self.check, self.store, info, step)

    def _trial(self, step: int) -> Trial:
        from ..replay.bisecting import refusal_in
        from ..replay.bisection import Trial

        info = self.store.run(self._rerun(step))
        if info.status == "failed" and (why := refusal_in(self.store, info)) is not None:
            raise _stopped(f"the re-run from step {step}, {info.id}, was refused: {why}")
        return Trial(info.id, self.judged(info, step), info.status)

    def _rerun(self, step: int) -> str:
        """Re-run in a process; the id of the run that it recorded."""
        from ..recorder.locate import VARIABLE
        from ..webui.processes import Process

        words = ["rerun", self.info.id, "--step", str(step), "--attended", "--json", *self.words]
        process = Process(
            [sys.executable, *PROGRAM, *words],
            json.dumps({**self.wanted.to_json(), "step": step}, allow_nan=False).encode("ascii"),
            folder=os.getcwd(),
            environment={**os.environ, VARIABLE: self.store.url},
        )
        try:
            process.wait()
        except BaseException:
            process.stop()
            process.wait()
            for line in process.err.text().splitlines():
                if line.startswith(STOPPED):  # which says what it has recorded
                    say(line)
            raise
        said = process.err.text().strip()
        run = _run_in(process.out.text())
        if run is None or process.code not in (0, DIFFERENCE):
            raise _stopped(f"the re-run from step {step} came to nothing (exit code {process.code})", said)
        return run


def _stopped(what: str, said: str = "") -> Exception:
    from ..recorder.errors import UsageError

    return UsageError("\n".join(filter(None, (what, said))))


def _run_in(text: str) -> str | None:
    """The run that `rerun --json` names, or None."""
    try:
        told = json.loads(text)
    except ValueError:
        return None
    run = told.get("run") if isinstance(told, dict) else None
    return run if isinstance(run, str) else None


def _checked(check: str, store: EventStore, info: RunInfo, step: int) -> Outcome:
    """What a command says of a run; what it prints goes to stderr."""
    from ..recorder.locate import VARIABLE

    added: Mapping[str, str] = {VARIABLE: store.url, RUN: info.id, STEP: str(step)}
    done = subprocess.run(
        check, shell=True, env={**os.environ, **added}, stdin=subprocess.DEVNULL, stdout=STDERR, check=False
    )
    code = done.returncode
    if code == CANNOT_TELL:
        return "unknown"
    if code in NO_SUCH or not 0 <= code <= CANNOT_TELL:
        raise _stopped(f"the check ended with {code} for {info.id}, which says nothing of the run: {check}")
    return "bad" if code else "good"


def _bisect(reruns: _Reruns, app: str | None, first: int, last: int, as_json: bool) -> int:
    from ..recorder.values import already_stored
    from ..replay.bisecting import steps_to_ask
    from ..replay.bisection import bisect_steps
    from .apps import choose
    from .output import console, print_json
    from .render_bisect import render_found, render_probe, render_search

    store, info = reruns.store, reruns.info
    steps = steps_to_ask(store, info, reruns.wanted.edits(already_stored), first, last)
    choose(app, store, info).announce()
    recorded = reruns.judged(info, 0)
    page = console()
    if not as_json:
        render_search(page, info, recorded, steps, reruns.samples)

    probes: list[Probe] = []

    def ask(step: int) -> Probe:
        probe = reruns.ask(step)
        probes.append(probe)
        if not as_json:
            render_probe(page, store, probe, recorded)
        return probe

    try:
        found = bisect_steps(info.id, recorded, steps, ask)
    except KeyboardInterrupt:
        _say_what_is_left(info, recorded, steps, probes)
        raise
    if as_json:
        print_json(found.to_json())
    else:
        render_found(page, store, info, found)
    return DIFFERENCE if found.step is None else 0


def _say_what_is_left(info: RunInfo, recorded: Outcome, steps: Sequence[int], probes: Sequence[Probe]) -> None:
    """Say in which steps the outcome may turn, by the re-runs until now, and how to go on there."""
    from ..replay.bisection import left_by

    asked = ", ".join(f"step {probe.step} {probe.outcome(recorded)}" for probe in probes)
    left = left_by(recorded, steps, probes)
    if not probes or not left:
        say(f"bisecting was stopped, and nothing is known of {info.id} yet")
        return
    where = f"step {left[0]}" if len(left) == 1 else f"one of the steps {left[0]} to {left[-1]}"
    say(
        f"bisecting was stopped; known: {asked}. If the outcome turns, it does so in {where}; "
        f"add --from {left[0]} --to {left[-1]} to go on there"
    )


COMMANDS: Final = {"bisect": bisect}
