"""Bisecting a recorded run by re-running it: which steps can be asked, how a re-run is judged, and `ar.bisect`.

The search itself is in `bisection`. Each re-run is a fork of the recorded run, stays in the store, and can be looked at
like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ..recorder.errors import (
    ChangeRefused,
    Divergence,
    LiveCallRefused,
    RecordingFailed,
    RedactedValue,
    StoreError,
    UsageError,
)
from ..recorder.store import EventStore, RunInfo, RunRef
from ..recorder.writer import on_event_loop
from .bisection import Bisection, Outcome, Probe, Trial, bisect_steps
from .course import Course
from .edits import Edits, edits_of
from .fork import Prefix
from .reading import last_step, resolve, state_at
from .replayer import App, attached, execute
from .rerunning import raise_what_stopped, rerun_course
from .state import RunState
from .timeline import states

Check: TypeAlias = Callable[[RunState], bool | None]
"""Says of the last state of a run whether it is good; None where it cannot tell."""

MOST_SAMPLES: Final = 1_000
"""Re-runs of one step, at most."""

NO_VERDICT: Final = (Divergence, LiveCallRefused, RecordingFailed, RedactedValue, StoreError, UsageError)
"""What stops a re-run without saying anything about the step from which it was made."""


def bisect(
    run: RunRef,
    agent: App,
    *,
    check: Check | None = None,
    samples: int = 1,
    first: int = 1,
    last: int = -1,
    set: Mapping[str, Any] | None = None,
    patch: Sequence[Mapping[str, Any]] | None = None,
    messages: Sequence[Any] = (),
    params: Mapping[str, Any] | None = None,
    input: Any = ...,
    secrets: Mapping[str, Any] | None = None,
    allow: Collection[str] = (),
    reuse: bool = False,
    prefix: Prefix = "execute",
    max_rounds: int | None = None,
    store: EventStore | str | None = None,
    ignore: Iterable[str] = (),
) -> Bisection:
    """Find the step of a recorded run from which its outcome turns, in about log2(steps) re-runs.

    Args:
        run: see `replay`.
        agent: see `replay`.
        check: says of a run's last state whether it is good; by default, completed is and failed is not.
        samples: how many times each step is re-run; for agents that do not end the same each time.
        first, last: the steps to ask; negative ones count from the end.
        set, patch, messages, params, input, secrets: edits that are made at each step that is asked, as for `rerun`.
            Steps at which they do not fit are left out.
        allow, reuse, prefix, max_rounds, store, ignore: see `rerun`.

    Returns:
        A `Bisection`: `step` is the last step from which a re-run comes to another outcome than the recorded run.

    Raises:
        UsageError: there is no step that could be asked, or the check cannot judge the recorded run.
        Divergence: the code did something else in the rounds before a step.
        LiveCallRefused: it came to a tool that it may not call.
    """
    if on_event_loop():
        raise UsageError("bisect() cannot run inside an event loop; use `await asyncio.to_thread(ar.bisect, …)`")
    refuse_samples(samples)
    found, info = resolve(run, store)
    edits = edits_of(set=set, patch=patch, messages=messages, params=params, input=input, secrets=secrets)
    steps = steps_to_ask(found, info, edits, first, last)

    def tried(step: int) -> Trial:
        course = rerun_course(info, agent, step, edits, allow, reuse, prefix, found, ignore, max_rounds=max_rounds)
        child = _recorded(course, agent)
        return Trial(child.id, judged(found, child, check), child.status)

    def ask(step: int) -> Probe:
        return Probe(step, tuple(tried(step) for _ in range(samples)))

    return bisect_steps(info.id, judged(found, info, check), steps, ask)


def _recorded(course: Course, agent: App) -> RunInfo:
    """Execute code; the run that it recorded, however that ended."""
    try:
        with attached(course) as outcome:
            outcome.append(execute(agent))
        raise_what_stopped(course)
    except NO_VERDICT:
        raise
    except Exception:
        pass  # the agent's own, with which its run failed
    begun = course.begun
    assert begun is not None  # or there was nothing that could have raised
    return course.store.run(begun.log.info.uid)


def judged(store: EventStore, info: RunInfo, check: Check | None) -> Outcome:
    """What a check says of a run."""
    if check is None:
        return by_status(info)
    said = check(state_at(info, -1, store))
    return "unknown" if said is None else "good" if said else "bad"


def by_status(info: RunInfo) -> Outcome:
    """Good if a run was completed, bad if it failed; one that waits for a person, or has crashed, says nothing."""
    return "good" if info.status == "completed" else "bad" if info.status in ("failed", "cancelled") else "unknown"


def refuse_samples(samples: int) -> None:
    """Refuse a number of samples that cannot be meant.

    Raises:
        UsageError: it is not from 1 to 1,000.
    """
    if not 1 <= samples <= MOST_SAMPLES:
        raise UsageError(f"samples is a number from 1 to {MOST_SAMPLES:,}, not {samples}")


def steps_to_ask(store: EventStore, info: RunInfo, edits: Edits, first: int = 1, last: int = -1) -> list[int]:
    """The steps from which a run can be re-run with these edits.

    Args:
        store, info: the run.
        edits: made at each step; their payload edits have to fit.
        first, last: the bounds, both included; negative ones count from the end.

    Returns:
        The steps, ascending.

    Raises:
        UsageError: there is no step between the bounds, or the edits fit at none of them.
    """
    end = last_step(store, info)
    low, high = (bound if bound >= 0 else end + 1 + bound for bound in (first, last))
    low = max(low, 1)
    if not low <= high <= end:
        raise UsageError(f"{info.id} has steps 1 to {end}; there is none from {first} to {last}")
    if not edits.touch_the_payload:
        return list(range(low, high + 1))
    found: list[int] = []
    before: Any = None
    fits, misfit = False, ""
    for step, state in states(store.events(info, conversations=False), check=False, run=info.id):
        if step >= high:
            break
        if step + 1 < low:
            continue
        if state.stored_payload is not before or step + 1 == low:
            before = state.stored_payload
            fits, misfit = _fits(edits, before, misfit)
        if fits:
            found.append(step + 1)
    if not found:
        raise UsageError(f"the edits fit {info.id} at no step from {low} to {high}: {misfit}")
    return found


def _fits(edits: Edits, payload: Any, misfit: str) -> tuple[bool, str]:
    """Whether edits fit a payload; and why they did not, the last time that they did not."""
    try:
        edits.apply(payload, stored=True)
    except (UsageError, ChangeRefused) as refused:
        return False, str(refused)
    return True, misfit


def refusal_in(store: EventStore, info: RunInfo) -> str | None:
    """Why a run failed, if it was refused something, which says nothing about its agent; else None."""
    error = state_at(info, -1, store).error
    names = {kind.__name__ for kind in NO_VERDICT}
    if error is None or error.type.rpartition(".")[2] not in names:
        return None
    return error.message
