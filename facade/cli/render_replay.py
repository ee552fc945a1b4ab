"""What came of executing code against a recording, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console

from ..recorder.errors import Divergence
from ..recorder.store import EventStore, RunInfo
from ..replay.changes import Changes, summary_of
from ..replay.coverage import Coverage
from ..replay.edits import Edits
from ..replay.planning import Plan, PlannedCall
from ..replay.readable import count, readable, visible
from ..replay.replayer import ReplayResult
from .hints import command
from .output import one_line, write, write_commands
from .render_diff import render_group
from .render_divergence import render_coverage, render_difference, render_differences
from .render_runs import END, error_text
from .render_steps import edit_text
from .runs import STATUS_STYLES

VALUE: Final = 160
"""Characters of an edited value that are shown."""

_FATES: Final = {
    "live": ("live", ""),
    "edited": ("answered as edited", "cyan"),
    "skipped": ("skipped", "cyan"),
    "reused": ("answered as recorded, if asked the same", "green"),
    "refused": ("refused", "bold red"),
}


def render_replayed(
    page: Console, info: RunInfo, result: ReplayResult, unused_rules: Sequence[str] = (), *, full: bool = False
) -> None:
    """Write the differences, the verdict of a replay, and what it covered.

    Args:
        page: where to.
        info: the run.
        result: what the replay came to.
        unused_rules: ignore rules that matched nothing.
        full: write every value whole.
    """
    render_differences(page, result.divergences, full=full)
    if len(result.divergences) > 1:
        write(page)
    style = "green" if result.verdict == "identical" else "bold red"
    rounds = count(info.steps, "round")
    write(page, (info.id, "bold"), f"  {visible(info.agent)}  ", (result.verdict, style), f"  {rounds} recorded")
    render_coverage(page, result.coverage.to_json(), result.coverage.notes, unused_rules=unused_rules)


def render_start(page: Console, info: RunInfo, step: int, why: str, edits: Edits) -> None:
    """Write what is run again, from where, why from there if nobody said so, and what is edited."""
    write(page, (info.id, "bold"), ("  again from ", "dim"), (f"step {step}", "bold"), (why and f", {why}", "dim"))
    for edit in edits.described():
        write(page, ("  edited  ", "dim"), (edit_text(edit, VALUE), "cyan"))


def render_prefix(page: Console, info: RunInfo, step: int, divergence: Divergence, folded: str) -> None:
    """Write where code parted from a run before the step that was to be run again, and how to do without that part.

    Args:
        page: where to.
        info: the run.
        step: the first live round.
        divergence: what stopped the code.
        folded: the command that takes the rounds before from the log.
    """
    first = divergence.difference
    render_difference(page, first)
    write(page)
    before = f"before step {step}" if first.step < step else f"in step {step}"
    write(page, ("Nothing was recorded: ", "bold"), f"the code parts from {info.id} {before}.")
    write(page, "If it was changed on purpose, start from the recorded state, without executing the steps before:")
    write(page, "  ", (folded, "bold"))


def render_ended(
    page: Console, store: EventStore, infos: Sequence[RunInfo], coverage: Coverage, *, error_shown: bool
) -> None:
    """Write runs, a line each, with how they ended; then what came from the log of the last one, and what did not.

    Args:
        page: where to.
        store: where they are.
        infos: the runs.
        coverage: of the last one.
        error_shown: what the last one failed with is on the screen already.
    """
    width = max(len(info.id) for info in infos)
    for info in infos:
        text, style = _end_of(store, info)
        text = "" if style and error_shown and info is infos[-1] else text
        write(
            page,
            (f"{info.id:{width}}", "bold"),
            f"  {visible(info.agent)}  ",
            (f"{visible(info.status):9}", STATUS_STYLES.get(info.status, "")),
            f"  {count(info.steps, 'round'):9}  ",
            (text, style),
        )
    render_coverage(page, coverage.to_json(), coverage.notes)


def render_next(page: Console, parent: RunInfo, child: RunInfo, step: int) -> None:
    """Write what to do next with a run that was re-run."""
    write(page)
    write_commands(
        page,
        {
            command(f"diff {parent.id} {child.id} --step {step}"): "what differs after that step",
            command(f"compare {parent.id} {child.id}"): "both side by side, at the first difference",
            command(f"show {child.id}"): "what it did, round by round",
        },
    )


def render_edit(page: Console, changes: Changes) -> None:
    """Write what was changed of the payload."""
    render_group(None, changes, page)
    write(page, (summary_of(changes), "bold"))


def render_plan(page: Console, plan: Plan) -> None:
    """Write what a re-run would do."""
    write(page, (plan.run, "bold"), "  ", (f"from step {plan.step}", "bold"), ("  nothing is executed", "dim"))
    before = "no step" if plan.step == 1 else "step 1" if plan.step == 2 else f"steps 1 to {plan.step - 1}"
    if plan.answered is None:
        write(page, ("  from the log  ", "dim"), f"the outcome of {before}, without executing them")
    else:
        nouns = {"calls": "call", "values": "read value", "runs": "child run"}
        answered = ", ".join([count(number, nouns[name]) for name, number in plan.answered.items() if number])
        write(page, ("  from the log  ", "dim"), f"{before}" + (f": {answered} answered" if answered else ""))
    if plan.compensated:
        undone = ", ".join([f"{visible(call)} {visible(name)}" for call, name in plan.compensated])
        write(page, ("  undone        ", "dim"), undone)
    for deed, name, by in plan.undone:
        write(page, ("  undone        ", "dim"), f"{visible(deed)} {visible(name)}, ", (f"already, by {by}", "dim"))
    for edit in plan.edits:
        write(page, ("  edited        ", "dim"), (edit_text(edit, VALUE), "cyan"))
    if plan.changes:
        render_group(None, plan.changes, page)
    steps = f"step {plan.step}" if plan.step == plan.last else f"steps {plan.step} to {plan.last}"
    write(page, ("  live          ", "dim"), f"{steps}, if the code does what it did:")
    width = max([len(call.call) for call in plan.calls], default=0)
    for call in plan.calls:
        _planned(page, call, width)
    for name in plan.refused:
        write(page, (f"  {visible(name)} would be refused; ", "bold red"), f"allow it with --allow {visible(name)}")


def _planned(page: Console, call: PlannedCall, width: int) -> None:
    fate, style = _FATES[call.fate]
    safety = "" if call.kind == "model" else f"  {call.safety or 'no safety declared'}"
    child = "" if call.agent is None else f"in {visible(call.agent)}: "
    write(
        page,
        f"    {visible(call.call):{width}}  ",
        (child, "dim"),
        (f"{call.kind} ", "magenta" if call.kind == "model" else "blue"),
        (visible(call.name), "bold"),
        (safety, "dim"),
        "  ",
        (fate, style),
    )


def _end_of(store: EventStore, info: RunInfo) -> tuple[str, str]:
    """What a run came to, and its style: its value, what it raised, or why it gave up."""
    last, decided = None, None
    for row in store.rows(info):
        last, decided = row, row if row.kind == "step.decided" else decided
    if last is None or last.kind != "run.finished":
        return "", ""
    data = store.decode(info, last).data
    if data.error is not None:
        return one_line(error_text(data.error), END), "red"
    if data.value is not None or decided is None or data.status != "failed":
        return "" if data.value is None else readable(data.value, END), ""
    decision = store.decode(info, decided).data.decision
    return one_line(str(decision.get("errorMessage") or decision.get("reasoning") or ""), END), ""
