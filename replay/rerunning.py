"""Executing code against a run and then live: from a step with edits (`rerun`), or where it was left (`resume`)."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ..recorder.agent_result import AgentResult
from ..recorder.errors import UsageError
from ..recorder.loop import Agent
from ..recorder.outcomes import checked_bound
from ..recorder.store import EventStore, RunInfo, RunRef
from ..recorder.writer import on_event_loop
from .compensating import compensable_calls, compensations_for, undoing_of, undone_in
from .course import Course
from .edits import Edits, edits_of
from .folded import folded_in
from .fork import Prefix, Rerun
from .given_secrets import keep_secret
from .ignoring import IgnoreRules
from .live_calls import unknown_in
from .reading import last_step, resolve, state_at, step_meant
from .recorded_run import RecordedRun
from .replayer import App, aexecute, attached, execute
from .resume import NOT_DONE, Resume, in_flight, refuse_unless_gone, unsettled
from .timeline import CallOfStep


def rerun(
    run: RunRef,
    agent: App,
    step: int,
    *,
    set: Mapping[str, Any] | None = None,
    patch: Sequence[Mapping[str, Any]] | None = None,
    tool_results: Mapping[str, Any] | None = None,
    model_responses: Mapping[str, Any] | None = None,
    skip: Sequence[str] = (),
    messages: Sequence[Any] = (),
    params: Mapping[str, Any] | None = None,
    input: Any = ...,
    secrets: Mapping[str, Any] | None = None,
    allow: Collection[str] = (),
    reuse: bool = False,
    prefix: Prefix = "execute",
    compensate: bool = False,
    max_rounds: int | None = None,
    store: EventStore | str | None = None,
    ignore: Iterable[str] = (),
) -> AgentResult:
    """Run an agent again from a step of a recorded run, as a new run that shares what came before.

    Args:
        run: see `replay`.
        agent: see `replay`.
        step: the first round that is run live, from 1; a negative one counts from the end.
        set: place in the payload, as a JSON Pointer or as `order.items[0]`, → value; created or replaced.
        patch: a JSON Patch (RFC 6902) for the payload, after `set`.
        tool_results, model_responses: id of a call of that step, such as "7.2", → what it gives; it is not made.
        skip: ids of calls of that step that are not made and give None.
        messages: added to the conversation.
        params: name → value; the others stay.
        input: what `context.input` is from there on.
        secrets: place in the payload → the secret that a token stands for there; it is not recorded.
        allow: names of tools that may be called though they are irreversible, or declare no safety. One that neither
            the recording nor the code knows is warned of.
        reuse: give live calls that ask just what a recorded one of the same round asked its answer.
        prefix: "execute" the rounds before against the log, or take their outcome from it: "fold".
        compensate: undo before what the run's compensable tools did from that step on, by their `compensate=`. What
            another re-run has undone is left out, with a warning.
        max_rounds: bound of the new run; by default what the recorded one was given, else the agent's own.
        store, ignore: see `replay`.

    Returns:
        How the new run ended; `result.run.id` names it.

    Raises:
        Divergence: the code did something else in the rounds before; nothing was recorded.
        LiveCallRefused: it came to a tool that it may not call. The new run is recorded, as failed.
        RedactedValue: it would have sent a token in the place of a secret.
        CompensationFailed: something could not be undone. The new run is recorded, as failed.
        UsageError: there is no such step; an edit does not fit, or was never asked for.
        Exception: what the step raises is recorded, and raised as it is.
    """
    if on_event_loop():
        raise UsageError("rerun() cannot run inside an event loop; use `await ar.arerun(…)`")
    edits = edits_of(
        set=set,
        patch=patch,
        tool_results=tool_results,
        model_responses=model_responses,
        skip=skip,
        messages=messages,
        params=params,
        input=input,
        secrets=secrets,
    )
    course = rerun_course(run, agent, step, edits, allow, reuse, prefix, store, ignore, compensate, max_rounds)
    warn_of_doubts(course)
    with attached(course) as outcome:
        outcome.append(execute(agent))
    return ended(course, outcome)


async def arerun(
    run: RunRef,
    agent: App,
    step: int,
    *,
    set: Mapping[str, Any] | None = None,
    patch: Sequence[Mapping[str, Any]] | None = None,
    tool_results: Mapping[str, Any] | None = None,
    model_responses: Mapping[str, Any] | None = None,
    skip: Sequence[str] = (),
    messages: Sequence[Any] = (),
    params: Mapping[str, Any] | None = None,
    input: Any = ...,
    secrets: Mapping[str, Any] | None = None,
    allow: Collection[str] = (),
    reuse: bool = False,
    prefix: Prefix = "execute",
    compensate: bool = False,
    max_rounds: int | None = None,
    store: EventStore | str | None = None,
    ignore: Iterable[str] = (),
) -> AgentResult:
    """`rerun` for code in an event loop."""
    edits = edits_of(
        set=set,
        patch=patch,
        tool_results=tool_results,
        model_responses=model_responses,
        skip=skip,
        messages=messages,
        params=params,
        input=input,
        secrets=secrets,
    )
    course = rerun_course(run, agent, step, edits, allow, reuse, prefix, store, ignore, compensate, max_rounds)
    warn_of_doubts(course)
    with attached(course) as outcome:
        outcome.append(await aexecute(agent, course))
    return ended(course, outcome)


def rerun_course(
    run: RunRef,
    agent: App,
    step: int,
    edits: Edits,
    allow: Collection[str],
    reuse: bool,
    prefix: Prefix,
    store: EventStore | str | None,
    ignore: Iterable[str],
    compensate: bool = False,
    max_rounds: int | None = None,
) -> Rerun:
    """The course of a re-run, with everything checked that can be before code is executed."""
    if prefix not in ("execute", "fold"):
        raise UsageError(f'prefix is "execute" or "fold", not "{prefix}"')
    found, info = resolve(run, store)
    step = step_meant(found, info, step)
    if step < 1:
        raise UsageError(f"{info.id} is re-run from a step from 1 on; step 0 is its start")
    refuse_bound_below(max_rounds, step, info)
    if edits.touch_the_payload:
        payload = state_at(info, step - 1, found).stored_payload
        edits.apply(payload, stored=True)
        keep_secret(found.redactor, payload, edits)
    calls: list[CallOfStep] = []
    undone: dict[str, str] = {}
    if compensate:
        events_of = partial(found.events, conversations=False)
        undone = undone_in(found)
        calls += compensable_calls(events_of(info), step, events_of)
    course = Rerun(
        found,
        info,
        step,
        edits=edits,
        allow=allow,
        reuse=reuse,
        compensations=compensations_for([call for call in calls if call.called.hash not in undone], info.id),
        prefix=prefix,
        max_rounds=max_rounds,
        name=None if isinstance(agent, Agent) else info.agent,
        ignore=IgnoreRules(ignore),
    )
    if (doubt := unknown_in(found, info, allow)) is not None:
        course.doubts.append(doubt)
    for call in calls:
        if (by := undone.get(call.called.hash)) is not None:
            course.doubts.append(f"{by} has undone {call.name} (call {call.call}) already; it is not undone again")
    return course


def resume(
    run: RunRef,
    agent: App,
    *,
    answers: Mapping[str, Any] | None = None,
    assume: Mapping[str, Any] | None = None,
    take_over: bool = False,
    allow: Collection[str] = (),
    secrets: Mapping[str, Any] | None = None,
    max_rounds: int | None = None,
    store: EventStore | str | None = None,
    ignore: Iterable[str] = (),
) -> AgentResult:
    """Go on with a run that was interrupted, or whose process is gone, in place.

    Args:
        run, agent, store, ignore: see `replay`.
        answers: id or name of a question that was asked (`interrupt`) → its answer.
        assume: id of a call that was in flight, or "run2:1.1" for one of a child run → what it gave, or `NOT_DONE` to
            make it now.
        take_over: the run's process is gone, though that cannot be proved from here.
        allow: if the run is a re-run: names of tools that may be called though they are irreversible.
        secrets: place in the starting payload → the secret that a token stands for there; it is not recorded.
        max_rounds: bound of the run from now on; by default what it was given before, else the agent's own.

    Returns:
        How the run ended, or what it waits for now.

    Raises:
        UsageError: the run has ended, or may be running; or there is no such question or call.
        LiveCallRefused: an irreversible call was in flight, and nothing is assumed of it; or a re-run came to a tool
            that it may not call. The run can be resumed again.
        RedactedValue: it would have sent a token in the place of a secret. The run can be resumed again.
        Divergence: the code did something else than the log; nothing was appended.
    """
    if on_event_loop():
        raise UsageError("resume() cannot run inside an event loop; use `await ar.aresume(…)`")
    course = resume_course(run, agent, answers, assume, take_over, store, ignore, allow, secrets, max_rounds)
    warn_of_doubts(course)
    with attached(course) as outcome:
        outcome.append(execute(agent))
    return ended(course, outcome)


async def aresume(
    run: RunRef,
    agent: App,
    *,
    answers: Mapping[str, Any] | None = None,
    assume: Mapping[str, Any] | None = None,
    take_over: bool = False,
    allow: Collection[str] = (),
    secrets: Mapping[str, Any] | None = None,
    max_rounds: int | None = None,
    store: EventStore | str | None = None,
    ignore: Iterable[str] = (),
) -> AgentResult:
    """`resume` for code in an event loop."""
    course = resume_course(run, agent, answers, assume, take_over, store, ignore, allow, secrets, max_rounds)
    warn_of_doubts(course)
    with attached(course) as outcome:
        outcome.append(await aexecute(agent, course))
    return ended(course, outcome)


def resume_course(
    run: RunRef,
    agent: App,
    answers: Mapping[str, Any] | None,
    assume: Mapping[str, Any] | None,
    take_over: bool,
    store: EventStore | str | None,
    ignore: Iterable[str],
    allow: Collection[str] = (),
    secrets: Mapping[str, Any] | None = None,
    max_rounds: int | None = None,
) -> Resume:
    """The course of a resumed run, with everything checked that can be before code is executed."""
    found, info = resolve(run, store)
    refuse_unless_gone(info, take_over)
    refuse_bound_below(max_rounds, last_step(found, info), info)
    if left := undoing_of(found, info).left:
        parent = info.id if info.fork_of is None else found.run(info.fork_of).id
        raise UsageError(
            f"{info.id} ended while it undid what {parent} had done, with {len(left)} left: re-run {parent} with "
            "--compensate once more, which undoes the rest"
        )
    waiting = in_flight(found, info)
    for call in assume or {}:
        if call not in waiting:
            raise UsageError(f"{info.id} has no call {call} in flight; in flight: {', '.join(waiting) or 'none'}")
    open_questions = state_at(info, -1, found).open_interrupts
    by_id: dict[str, Any] = {}
    for question, answer in (answers or {}).items():
        named = [key for key, asked in open_questions.items() if question in (key, asked.name)]
        if len(named) != 1:
            open_ones = ", ".join(f"{key} ({asked.name})" for key, asked in open_questions.items()) or "none"
            why = f"no open question {question}" if not named else f"several open questions {question}"
            raise UsageError(f"{info.id} has {why}; open: {open_ones}")
        if named[0] in by_id:
            raise UsageError(f"question {named[0]} of {info.id} is given two answers, by its id and by its name")
        by_id[named[0]] = answer
    answers = by_id
    given = {call for call, value in (assume or {}).items() if value is not NOT_DONE}
    for call in assume or {}:
        if (around := next((outer for outer in waiting[call].around if outer in given), None)) is not None:
            raise UsageError(
                f"call {call} was made inside of call {around}, and what that gave settles both: say that alone"
            )
    refused = [
        one
        for one in waiting.values()
        if one.may_do_harm and one.name not in (assume or {}) and given.isdisjoint(one.around)
    ]
    if refused:
        raise unsettled(info, refused)
    edits = edits_of(secrets=secrets)
    if edits.secrets:
        folded = folded_in(found, info)
        begins = state_at(info, 0, found) if folded is None else folded.state
        keep_secret(found.redactor, begins.stored_payload, edits)
    name = None if isinstance(agent, Agent) else info.agent
    options: dict[str, Any] = {"name": name, "ignore": IgnoreRules(ignore), "max_rounds": max_rounds}
    course = Resume(found, info, answers=answers, assume=assume, allow=allow, secrets=edits.secrets, **options)
    if (doubt := unknown_in(found, info, allow)) is not None:
        course.doubts.append(doubt)
    return course


def warn_of_doubts(course: Course) -> None:
    """Say, as a warning at the caller's caller, what is worth a word before anything is executed."""
    for doubt in course.doubts:
        warnings.warn(doubt, stacklevel=3)


def refuse_bound_below(max_rounds: int | None, step: int, info: RunInfo) -> None:
    """Refuse a bound of rounds that a run would have reached before it goes on.

    Raises:
        UsageError: it is less than the step, or no bound.
    """
    if (bound := checked_bound(max_rounds)) is not None and bound < max(step, 1):
        raise UsageError(
            f"max_rounds counts the rounds of {info.id} from its start, and it goes on in step {max(step, 1)}: give at "
            f"least that, not {max_rounds}"
        )


def raise_what_stopped(course: Course) -> RecordedRun:
    """Raise what stopped code that was to go on, or made it go on in vain; else the run that it belongs to."""
    if course.stopped is not None:
        course.raise_stopped()
    begun = course.begun
    if begun is None:
        raise UsageError(f"the code came to its end without a run of {course.info.agent!r}; nothing was recorded")
    if isinstance(course, Rerun) and (unused := course.unused_edits()):
        name = begun.recorder.info.id if begun.recorder is not None else "the new run"
        raise UsageError(
            f"{name} ended without asking for {', '.join(unused)}, so what was given for it had no effect; look at "
            f"what step {course.step} calls now"
        )
    return begun


def ended(course: Course, outcome: list[Any]) -> AgentResult:
    """The result of the run that went on; raises what stopped it."""
    recorder = raise_what_stopped(course).recorder
    result = recorder.ending.result if recorder is not None and recorder.ending is not None else None
    if result is None:
        result = next((one for one in outcome if isinstance(one, AgentResult)), None)
    if not isinstance(result, AgentResult):
        raise UsageError("the code came to its end before its run did")
    return result


__all__ = ["NOT_DONE", "Prefix", "arerun", "aresume", "rerun", "resume"]
