"""`replay`, `rerun` and `resume`: what they do once their options are read."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import click

from ..recorder.errors import AgentReplayError, ChangeRefused, Divergence, LiveCallRefused, UsageError
from ..recorder.log_end import last_round
from ..recorder.store import EventStore, RunInfo
from ..recorder.values import already_stored
from ..replay.compensating import undone_in
from ..replay.course import Course
from ..replay.coverage import Coverage
from ..replay.edits import Edits
from ..replay.planning import NO_FAILURE, plan, step_of_failure
from ..replay.reading import state_at, step_meant
from ..replay.replayer import App, ReplayResult, course_for, result_of
from ..replay.rerun_request import RerunRequest
from ..replay.rerunning import NOT_DONE, Prefix, raise_what_stopped, rerun_course, resume_course
from ..replay.state import OpenInterrupt
from .apps import Chosen, choose
from .editing import decoded, edited
from .executing import Executed, LiveRounds, executed
from .group import DIFFERENCE, USAGE
from .hints import command
from .options import TYPED
from .output import console, print_json, write
from .render_replay import (
    render_edit,
    render_ended,
    render_next,
    render_plan,
    render_prefix,
    render_replayed,
    render_start,
)
from .running import print_error
from .streams import complain, harmless, say

# -- replay ---------------------------------------------------------------------------------------------------------


def replay_run(
    store: EventStore,
    info: RunInfo,
    app: str | None,
    *,
    ignore: Sequence[str],
    collect: bool,
    shallow: bool,
    full: bool,
    as_json: bool,
) -> int:
    """Replay a run; returns the exit code."""
    chosen = _chosen(app, store, info)

    def course(agent: App) -> Course:
        return course_for(info, agent, store, ignore, collect, shallow)

    done = executed(chosen, store, info, course, quiet=as_json)
    if done.error is not None:
        print_error(done.error)
        return DIFFERENCE
    taken = done.course
    assert taken is not None  # it was loaded
    try:
        result = result_of(taken, done.outcome)
    except Divergence as divergence:
        result = _diverged(taken, divergence)
    if as_json:
        print_json(result.to_json())
    else:
        render_replayed(console(), info, result, taken.ignore.unused(), full=full)
    if result.says_nothing:
        complain(
            f"nothing of {info.id} was captured: no call and no value was answered from the log, so whatever the code "
            "asked of the world, it asked itself. Record its calls: @agentreplay.tool, @agentreplay.model, or wrap"
        )
        return DIFFERENCE
    return DIFFERENCE if result.divergences else 0


def _diverged(course: Course, divergence: Divergence) -> ReplayResult:
    return ReplayResult(course.info.id, "diverged", tuple(divergence.differences), course.counted(), complete=False)


# -- rerun ----------------------------------------------------------------------------------------------------------


def rerun_run(
    store: EventStore, info: RunInfo, app: str | None, wanted: RerunRequest, *, edit: bool, dry_run: bool, as_json: bool
) -> int:
    """Re-run a run from a step; returns the exit code."""
    step, why = _step(store, info, wanted)
    checked = _course(store, info, step, wanted, _nothing)  # before anybody takes pains with the payload
    if edit:
        changes = edited(state_at(info, step - 1, store).stored_payload)
        if not changes:
            say("the payload was not changed, so nothing was done")
            return 0
        from ..webui.edited_json import edits_of

        places, patch = edits_of(changes)
        wanted = replace(wanted, set=places, patch=patch or None)
        checked = _course(store, info, step, wanted, _nothing)
        render_edit(console(), changes)
    if dry_run:
        _say_doubts(checked)
        return _plan(store, info, step, wanted, wanted.edits(), as_json)
    chosen = _chosen(app, store, info)
    page = console()
    rounds = None if as_json else LiveRounds(page, step, last_round(store, info))
    if not as_json:
        render_start(page, info, step, why, wanted.edits())
    done = executed(
        chosen,
        store,
        info,
        _saying(partial(_course, store, info, step, wanted)),
        quiet=as_json,
        rounds=rounds,
    )
    error = _what_stopped(done)
    recorded = done.recorded
    if recorded is None and isinstance(error, Divergence):
        return _parted(info, step, done, error, as_json)
    if recorded is not None and not as_json:
        write(page)
        render_ended(page, store, [info, recorded], _coverage(done), error_shown=error is not None)
        render_next(page, info, recorded, step)
    _tell(error)
    if recorded is None:
        return USAGE if isinstance(error, UsageError) else DIFFERENCE
    if as_json:
        print_json(_row(recorded, done, step, parent=info.id))
    return _code(recorded, error)


def _course(store: EventStore, info: RunInfo, step: int, wanted: RerunRequest, agent: App) -> Course:
    """The course of code, or of `_nothing`, to refuse what cannot be meant before code is imported.

    Raises:
        UsageError: something cannot be meant.
    """
    is_code = agent is not _nothing
    try:
        return rerun_course(
            info,
            agent,
            step,
            wanted.edits() if is_code else wanted.edits(already_stored),  # the code registers classes
            wanted.allow,
            wanted.reuse,
            cast(Prefix, wanted.prefix),
            store,
            wanted.ignore,
            wanted.compensate and is_code,  # the code says how
            wanted.max_rounds,
        )
    except ChangeRefused as refused:
        raise UsageError(f"the patch does not fit {info.id} at step {step}: {refused}") from None


def _nothing() -> None:
    """Stands for code where none is executed."""


def _say_doubts(course: Course) -> None:
    """Say what is worth a word before anything is executed."""
    for doubt in course.doubts:
        say(harmless(f"note: {doubt}"))


def _saying(course_for: Callable[[App], Course]) -> Callable[[App], Course]:
    """The same courses, with what is worth a word said."""

    def course(agent: App) -> Course:
        taken = course_for(agent)
        _say_doubts(taken)
        return taken

    return course


def _step(store: EventStore, info: RunInfo, wanted: RerunRequest) -> tuple[int, str]:
    """The step that is meant, and why that one where nobody said."""
    if wanted.step is None:
        step, why = step_of_failure(store.events(info, conversations=False))
        if why == NO_FAILURE and info.status == "completed":
            raise UsageError(f"{info.id} is completed, and no call of it failed: say from which step, --step N")
        return step, why
    return step_meant(store, info, wanted.step), ""


def _plan(store: EventStore, info: RunInfo, step: int, wanted: RerunRequest, edits: Edits, as_json: bool) -> int:
    told = plan(
        store.events(info, conversations=False),
        step,
        edits,
        run=info.id,
        allow=wanted.allow,
        reuse=wanted.reuse,
        executed=wanted.prefix == "execute",
        compensate=wanted.compensate,
        undone=undone_in(store) if wanted.compensate else {},
        child=partial(store.events, conversations=False),
    )
    if as_json:
        print_json(told.to_json())
    else:
        render_plan(console(), told)
    return 0


def _parted(info: RunInfo, step: int, done: Executed, divergence: Divergence, as_json: bool) -> int:
    """Tell that the code parted from the recording before the step."""
    assert done.course is not None  # which diverged
    if as_json:
        told = _told(_diverged(done.course, divergence))
        print_json({"run": None, "parent": info.id, "step": step, "status": "diverged", **told})
    else:
        render_prefix(console(), info, step, divergence, _typed_again("--prefix=fold"))
    return DIFFERENCE


def _told(result: ReplayResult) -> dict[str, Any]:
    """What a row says of a replay that parted from the recording."""
    told = result.to_json()
    return {name: told[name] for name in ("coverage", "divergences")}


def _typed_again(more: str) -> str:
    """The command as it was typed, and an option more; the store, which `command` knows, aside."""
    ctx = click.get_current_context()
    words = [ctx.command.name or ""]
    typed = iter(ctx.meta[TYPED])
    for word in typed:
        if word == "--store":
            next(typed)
        elif not word.startswith("--store="):
            words.append(word)
    return command(f"{shlex.join(words)} {more}")


# -- resume ---------------------------------------------------------------------------------------------------------


def resume_run(
    store: EventStore,
    info: RunInfo,
    app: str | None,
    *,
    answers: Mapping[str, Any],
    assume: Mapping[str, Any],
    take_over: bool,
    secrets: Mapping[str, str],
    allow: Sequence[str],
    max_rounds: int | None,
    ignore: Sequence[str],
    as_json: bool,
) -> int:
    """Go on with a run; returns the exit code."""
    _refuse_unanswered(store, info, answers)
    given = decoded(answers)
    assumed = {
        **decoded({call: value for call, value in assume.items() if value is not ...}),
        **{call: NOT_DONE for call, value in assume.items() if value is ...},
    }

    def course(agent: App) -> Course:
        return resume_course(info, agent, given, assumed, take_over, store, ignore, allow, secrets, max_rounds)

    try:
        course(_nothing)  # which refuses what cannot be meant, before code is imported
    except LiveCallRefused as refused:
        complain(str(refused))
        return USAGE
    chosen = _chosen(app, store, info)
    step = max(last_round(store, info), 1)
    page = console()
    rounds = None if as_json else LiveRounds(page, step, step)
    done = executed(
        chosen,
        store,
        info,
        _saying(course),
        quiet=as_json,
        rounds=rounds,
    )
    error = _what_stopped(done)
    recorded = done.recorded
    if isinstance(error, Divergence) and done.course is not None and recorded is None:
        result = _diverged(done.course, error)
        if as_json:
            print_json({"run": info.id, "step": step, "status": info.status, **_told(result)})
        else:
            render_replayed(page, info, result)
        return DIFFERENCE
    if recorded is not None and not as_json:
        write(page)
        render_ended(page, store, [recorded], _coverage(done), error_shown=error is not None)
    _tell(error)
    if recorded is None:
        return USAGE if isinstance(error, UsageError) else DIFFERENCE
    if as_json:
        print_json(_row(recorded, done, step))
    return _code(recorded, error)


def _refuse_unanswered(store: EventStore, info: RunInfo, answers: Mapping[str, Any]) -> None:
    """Refuse to go on with a run that waits for answers, without any."""
    if info.status == "interrupted" and not answers and (questions := state_at(info, -1, store).open_interrupts):
        raise UsageError(f"{info.id} waits for an answer: {'; '.join(map(_asked, questions.values()))}")


def _asked(question: OpenInterrupt) -> str:
    from ..replay.readable import readable

    reason = "" if question.reason is None else f" ({readable(question.reason, 200)})"
    return f"--answer {question.interrupt}=JSON{reason}"


def _chosen(app: str | None, store: EventStore, info: RunInfo) -> Chosen:
    """The code to execute; said before it is, unless it was typed."""
    chosen = choose(app, store, info)
    chosen.announce()
    return chosen


# -- what came of it --------------------------------------------------------------------------------------------------


def _what_stopped(done: Executed) -> BaseException | None:
    """What the code raised, or what stopped it."""
    if done.error is not None or done.course is None:
        return done.error
    try:
        raise_what_stopped(done.course)
    except AgentReplayError as error:
        return error
    return None


def _tell(error: BaseException | None) -> None:
    if error is not None:
        print_error(error)


def _row(recorded: RunInfo, done: Executed, step: int, **more: Any) -> dict[str, Any]:
    coverage = _coverage(done).to_json()
    return {"run": recorded.id, **more, "step": step, "status": recorded.status, "coverage": coverage}


def _coverage(done: Executed) -> Coverage:
    assert done.course is not None  # it recorded something
    return done.course.counted()


def _code(recorded: RunInfo, error: BaseException | None) -> int:
    if isinstance(error, UsageError):
        return USAGE
    return DIFFERENCE if error is not None or recorded.status in ("failed", "cancelled") else 0
