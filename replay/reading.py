"""Reading a run from a store: the pure functions over events, applied to a run by name."""

from __future__ import annotations

from ..recorder.locate import open_store
from ..recorder.store import EventStore, RunInfo, RunRef
from .state import RunState
from .timeline import StepChanges, changes_of_step, state_of


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
        CorruptLog: the log stops making sense; names the event.
    """
    found, info = resolve(run, store)
    return state_of(found.events(info, conversations=False), step, run=info.id)


def changes_at(run: RunRef, step: int = -1, store: EventStore | str | None = None) -> StepChanges:
    """What a step did: its payload changes with their causes, its calls and its decision. Arguments as `state_at`."""
    found, info = resolve(run, store)
    return changes_of_step(found.events(info), step, run=info.id)
