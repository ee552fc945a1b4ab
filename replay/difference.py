"""What lies between two steps, of one run or of two, and which event made each of its changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..recorder.errors import UsageError
from ..recorder.events import Event
from ..recorder.store import EventStore, RunInfo
from .between import Between, between, stored_part
from .causes import Edit, last_edits, with_causes
from .changes import Cause, Change, Changes
from .diff import diff_values
from .outline import warnings_of
from .reading import last_step, step_meant
from .snapshots import from_nearest
from .state import RunState
from .timeline import resolve_step


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for: a step of a run, two steps of it, or a step of two runs; steps as they were typed."""

    run: str
    run2: str | None = None
    step: int | None = None
    start: int | None = None
    stop: int | None = None
    parts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """What was found.

    Attributes:
        old: the run whose state is the old one, with its step.
        new: likewise.
        states: the old state and the new one.
        changes: from old to new, with their causes.
        cause_runs: of each change, the run that its cause is an event of.
        entered: the events of the steps in between, of one run.
        warnings: what the changes of the payload in between warned of, with their events.
    """

    old: tuple[RunInfo, int]
    new: tuple[RunInfo, int]
    states: tuple[RunState, RunState]
    changes: Changes
    cause_runs: tuple[RunInfo, ...]
    entered: tuple[Event, ...] = ()
    warnings: tuple[tuple[Event, str], ...] = ()


Begin: TypeAlias = Callable[[EventStore, RunInfo, int], tuple[RunState | None, Iterable[Event]]]
"""Gives a state of a run to go on from, at a step or before, and the events after it."""


def changes_asked_for(store: EventStore, asked: Asked) -> Difference:
    """Work out a difference.

    Raises:
        RunNotFound, UsageError: there is no such run, step or part.
        CorruptLog: the log stops making sense before.
    """
    info = store.run(asked.run)
    if asked.run2 is not None:
        other, step = store.run(asked.run2), -1 if asked.step is None else asked.step
        places = (info, step_meant(store, info, step)), (other, step_meant(store, other, step))
        return of_two_runs(store, *places, asked.parts, inside_tags=True)
    return of_one_run(store, info, *_steps(store, info, asked), asked.parts, inside_tags=True)


def of_one_run(
    store: EventStore,
    info: RunInfo,
    start: int,
    stop: int,
    parts: Sequence[str] = (),
    *,
    begin: Begin = from_nearest,
    check: bool = True,
    inside_tags: bool = False,
) -> Difference:
    """What lies between two steps of a run.

    Args:
        store, info: the run.
        start, stop: the steps of the old and the new state, in either order.
        parts: of the state; the payload unless given. Where they are given, paths start with the name of the part.
        begin: gives a state to go on from.
        check: verify payload hashes.
        inside_tags: as in `diff_values`.

    Raises:
        UsageError: there is no such step or part.
        CorruptLog: the log stops making sense before.
    """
    first, last = sorted((start, stop))
    step_only = last - first == 1
    state, events = begin(store, info, first)
    found = between(
        events,
        first,
        last,
        parts=parts or ("payload",),
        keep=lambda event: step_only or event.kind == "step.decided",
        state=state,
        check=check,
        run=info.id,
    )
    old, new = (found.before, found.after) if start <= stop else (found.after, found.before)
    changes: list[Change] = []
    for part, edits in found.edits.items():
        made = diff_values(stored_part(old, part), stored_part(new, part), inside_tags=inside_tags)
        made = with_causes(made, edits, backwards=start > stop)
        changes += _inside(part, made) if parts else made
    return Difference(
        (info, start),
        (info, stop),
        (old, new),
        Changes(changes),
        (info,) * len(changes),
        found.kept,
        tuple((edit.event, text) for edit in found.edits.get("payload", ()) for text in warnings_of(edit.event)),
    )


def of_two_runs(
    store: EventStore,
    old: tuple[RunInfo, int],
    new: tuple[RunInfo, int],
    parts: Sequence[str] = (),
    *,
    inside_tags: bool = False,
) -> Difference:
    """What lies between a step of one run and a step of another; arguments and errors as of `of_one_run`."""
    before, after = [
        between(store.events(info, conversations=False), 0, at, parts=parts or ("payload",), run=info.id)
        for info, at in (old, new)
    ]
    changes: list[Change] = []
    runs: list[RunInfo] = []
    for part in parts or ("payload",):
        trees = stored_part(before.after, part), stored_part(after.after, part)
        made = diff_values(*trees, inside_tags=inside_tags)
        causes = _causes_in_two_runs(made, before, after, part)
        runs += [old[0] if in_old else new[0] for in_old, _ in causes]
        made = Changes(replace(change, cause=cause) for change, (_, cause) in zip(made, causes, strict=True))
        changes += _inside(part, made) if parts else made
    return Difference(old, new, (before.after, after.after), Changes(changes), tuple(runs))


def _steps(store: EventStore, info: RunInfo, asked: Asked) -> tuple[int, int]:
    end = last_step(store, info)
    if asked.start is not None or asked.stop is not None:
        start = 0 if asked.start is None else resolve_step(asked.start, end)
        return start, end if asked.stop is None else resolve_step(asked.stop, end)
    stop = resolve_step(-1 if asked.step is None else asked.step, end)
    if stop == 0:
        have = f"{info.id} has steps 1 to {end}" if end else f"{info.id} has no steps yet"
        raise UsageError(f"step 0 is the start of the run, nothing was changed before it; {have}")
    return stop - 1, stop


def _causes_in_two_runs(changes: Changes, old: Between, new: Between, part: str) -> list[tuple[bool, Cause]]:
    """Of each change whether its cause is an event of the old run, and that.

    It is the last edit of its place in the new run; in the old run if the new one did not touch it, or did so before
    the two runs parted. A place that neither touched was different from the start.
    """
    shared = {edit.event.hash for edit in old.edits[part]} & {edit.event.hash for edit in new.edits[part]} - {""}
    in_old, in_new = last_edits(changes, old.edits[part]), last_edits(changes, new.edits[part])
    causes = []
    for change, edit_old, edit_new in zip(changes, in_old, in_new, strict=True):
        first, second = (edit_old, edit_new) if change.kind == "remove" else (edit_new, edit_old)
        is_first = _own(first, shared) or not _own(second, shared)
        edit = first if is_first else second
        cause = Cause(0, 0, "run.started") if edit is None else edit.cause
        causes.append((is_first == (change.kind == "remove"), cause))
    return causes


def _own(edit: Edit | None, shared: set[str]) -> bool:
    return edit is not None and edit.event.hash not in shared


def _inside(part: str, changes: Changes) -> list[Change]:
    """The changes of a part, as changes of the state that it is a part of."""
    return [change.under((part,)) for change in changes]
