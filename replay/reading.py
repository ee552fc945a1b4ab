"""Reading a run from a store: the pure functions over events, applied to a run by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..recorder.events import Event
from ..recorder.locate import open_store
from ..recorder.log_end import last_round
from ..recorder.store import EventStore, RunInfo, RunRef
from .changes import Changes
from .snapshots import from_nearest
from .state import RunState
from .timeline import StepChanges, changes_of_step, resolve_step, state_of, states

if TYPE_CHECKING:
    from .watching import Watched


def resolve(run: RunRef, store: EventStore | str | None = None) -> tuple[EventStore, RunInfo]:
    """The store and the run that are meant.

    Args:
        run: "run42", its number, uid, a unique prefix of the uid, "@last", or a RunInfo.
        store: a store, or the URL of one; by default the one that is found from here. It is not created.

    Raises:
        StoreError: there is no such store.
        RunNotFound: it has no such run.
    """
    found = store if isinstance(store, EventStore) else open_store(store, create=False)
    return found, found.run(run)


def last_step(store: EventStore, info: RunInfo) -> int:
    """The number of the last round that has started; reads the end of the log only."""
    return last_round(store, info)


def step_meant(store: EventStore, info: RunInfo, step: int) -> int:
    """The step, counted from the start; a negative one counts from the end.

    Raises:
        UsageError: the run has no such step.
    """
    return resolve_step(step, last_step(store, info))


def state_at(run: RunRef, step: int = -1, store: EventStore | str | None = None) -> RunState:
    """The state of a run after a step, folded from its log; no user code runs.

    Args:
        run: see `resolve`.
        step: counts from 1; 0 is the start, negative ones count from the end.
        store: see `resolve`.

    Returns:
        The state. Its values are plain objects of exactly the recorded types, shared with neighbouring states; they
        must not be changed.

    Raises:
        RunNotFound: there is no such run.
        UsageError: the run has no such step.
        CorruptLog: the log stops making sense; names the event. What a snapshot stands for was checked when it was
            taken; what comes after it is folded as it stands, and checked by `verify`.
    """
    found, info = resolve(run, store)
    number = step if step >= 0 else step_meant(found, info, step)
    state, events = from_nearest(found, info, number)
    return state_of(events, number, state=state, check=state is None, run=info.id)


def changes_at(run: RunRef, step: int = -1, store: EventStore | str | None = None) -> StepChanges:
    """What a step did: its payload changes with their causes, its calls and its decision. Arguments as `state_at`."""
    found, info = resolve(run, store)
    number = step_meant(found, info, step)
    state, events = from_nearest(found, info, number - 1)
    return changes_of_step(events, number, state=state, check=state is None, run=info.id)


def blame(run: RunRef, path: str, store: EventStore | str | None = None, *, step: int = -1) -> Changes:
    """Every event that ever changed the value at a path of the payload, newest first.

    A value changes when it, anything inside it, or what it is in is added, replaced or removed. What a path means is
    what it means at that step; an item of a list is followed through insertions, removals and moves of the others.

    Args:
        run: see `resolve`.
        path: `order.items[0].price`, or a JSON Pointer.
        store: see `resolve`.
        step: counts from 1; 0 is the start, negative ones count from the end.

    Returns:
        The changes, each with the path as it was at that time, the whole value before and after in stored form, its
        `cause`, and a `note` where there is more to say. The `old` of each is the `new` of the next; the last is what
        added the value, or the start of the run. The first is the removal of a value that is there no more.

    Raises:
        RunNotFound: there is no such run.
        UsageError: nothing was ever at that path, or the run has no such step.
        CorruptLog: the log stops making sense; names the event. The payload's hash is compared at the end, and now and
            then on the way.
    """
    from .blame import blame_of

    found, info = resolve(run, store)
    return blame_of(_folded(found, info), path, step_meant(found, info, step), run=info.id)


def watch(run: RunRef, expression: str, store: EventStore | str | None = None, *, whole: bool = False) -> Watched:
    """What a JMESPath expression comes to at every step of a run.

    Args:
        run: see `resolve`.
        expression: such as `order.total`, or `sum(items[].price)`.
        store: see `resolve`.
        whole: evaluate it over the whole state, `{payload, messages, …}`, instead of the payload.

    Returns:
        A `Watched`: `spans` of steps with the same value, in stored form, and the steps in which it `changed`.

    Raises:
        UsageError: it is no expression, or one that applies to no step.
        CorruptLog: the log stops making sense.
    """
    from .past import payloads_of
    from .watching import Expression, watch_in

    found, info = resolve(run, store)
    wanted = Expression(expression)
    if not whole:
        return watch_in(payloads_of(_folded(found, info), run=info.id), wanted, run=info.id)
    events = found.events(info)
    trees = ((step, state.to_json()) for step, state in states(events, check=False, run=info.id))
    return watch_in(trees, wanted, run=info.id, root=("payload",))


def _folded(store: EventStore, info: RunInfo) -> Iterator[Event]:
    """The events that a blame looks at; no others are decoded."""
    from .blame import FOLDED

    return (store.decode(info, row, conversations=False) for row in store.rows(info) if row.kind in FOLDED)
