"""Undoing what a run did before it is run again: the compensations of tools that have one, on request.

A re-run from step N makes the calls of the rounds from N on once more. Where the recorded run booked something there,
it would be booked twice. A tool that is `compensable` says how its work is undone (`compensate=`); on request that is
called for each of its recorded calls that returned, the last one first, once the code has come to step N and before
the step runs.

It is not the agent that does this. So in the log of the new run it is another writer's (`joining`), and code that is
executed against that log later is not expected to do it.

What was undone once is not undone again. The log of a re-run names the calls that it undoes by the hashes of their
events, which are the same in all forks that share them; those whose compensation returned are done. One that failed,
or was in flight when its process died, is called again: a compensation should be idempotent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from ..recorder.decoding import decode_noting
from ..recorder.effects import declared_compensable
from ..recorder.errors import CompensationFailed, RedactedValue, UnknownType, UsageError
from ..recorder.events import Event
from ..recorder.introspection import is_awaitable
from ..recorder.joining import JoinedBlock, JoinedRun
from ..recorder.redaction import find_tokens
from ..recorder.scope import BackgroundThread
from ..recorder.store import FIRST, EventStore, RunInfo
from ..recorder.values import lossy_in
from ..recorder.writer import on_event_loop
from .timeline import CallOfStep, calls_of

NOT_MADE: Final = ("edited", "reused")
"""Marks in the last event of a call that was answered without being made in that run."""


@dataclass(frozen=True, slots=True)
class Compensation:
    """What is called to undo one call.

    Attributes:
        event: the hash of the call's `tool.called`.
        call, name: of the call.
        arguments: by name, as it had them.
        fn: the tool's `compensate`.
    """

    event: str
    call: str
    name: str
    arguments: dict[str, Any]
    fn: Callable[..., Any]


def compensable_calls(
    events: Iterable[Event], step: int, child: Callable[[str], Iterable[Event]]
) -> Iterator[CallOfStep]:
    """The calls of compensable tools that returned, from a round on, in order; those of child runs in their place.

    Args:
        events: of the run, in order.
        step: the first round that counts.
        child: gives the events of a child run, by its uid.
    """
    log = [event for event in events if event.round >= step]
    calls = {call.called.seq: call for call in calls_of(log)}
    undone: set[str | None] = set()
    for event in log:
        call = calls.get(event.seq)
        if event.kind == "subrun.started" and event.within not in undone:
            yield from compensable_calls(child(event.data.run), 0, child)
        elif call is not None and (event.within in undone or _is_done(call)):
            undone.add(call.call)  # with what was done inside of it
            if event.within not in undone:
                yield call


def _is_done(call: CallOfStep) -> bool:
    """Whether a call did something that can be undone; one that was answered by an edit did nothing."""
    ended = call.ended
    if ended is None or call.status != "returned" or any(getattr(ended.data, mark, False) for mark in NOT_MADE):
        return False
    return getattr(call.called.data, "safety", None) == "compensable"


@dataclass(frozen=True, slots=True)
class Undoing:
    """What one re-run undoes of the run that it comes from.

    Attributes:
        run: the re-run.
        done: the hashes of the `tool.called` of the calls that are undone.
        left: of those that were to be undone as well.
    """

    run: RunInfo
    done: tuple[str, ...]
    left: tuple[str, ...]


def undoing_of(store: EventStore, info: RunInfo) -> Undoing:
    """What a run undid when it began, if it is a re-run that was to undo something; reads no more of its log."""
    rows = store.rows(info, after=FIRST if info.fork_seq is None else info.fork_seq)
    first = next(rows, None)
    if first is None or first.kind != "run.forked":
        return Undoing(info, (), ())
    wanted: list[str] = store.decode(info, first).data.compensates
    called, done, writer = 0, list[str](), ""
    for row in rows if wanted else ():
        if row.kind == "writer.joined" and not writer:
            writer = row.task
        elif row.kind == "writer.left" and row.task == writer:
            break
        elif row.task == writer and row.within is None:
            called += row.kind == "tool.called"
            done += wanted[called - 1 : called] if row.kind == "tool.returned" else ()
        elif row.kind in ("round.finished", "model.called", "tool.called", "run.finished") and not writer:
            break
    return Undoing(info, tuple(done), tuple([one for one in wanted if one not in done]))


def undone_in(store: EventStore) -> dict[str, str]:
    """What the re-runs in a store have undone: the hash of a call's `tool.called` → the id of the re-run.

    Raises:
        UsageError: one of them is at it.
    """
    found: dict[str, str] = {}
    for info in store.runs():
        if info.fork_of is not None:
            undoing = undoing_of(store, info)
            found |= dict.fromkeys(undoing.done, info.id)
            if undoing.left and info.status == "running":
                raise UsageError(f"{info.id} is undoing what a run did; wait until that is through")
    return found


def compensations_for(calls: Sequence[CallOfStep], run: str) -> list[Compensation]:
    """What is to be called to undo some calls, the last one first.

    Args:
        calls: in the order in which they were made.
        run: the run's name, for messages.

    Raises:
        UsageError: a tool says nowhere in this code how it is undone.
        RedactedValue: the log has a token in the place of a secret among the arguments.
        UnknownType: an argument is of a class that is not registered, or was not stored exactly.
    """
    found = []
    for call in reversed(calls):
        data, where = call.called.data, f"{run}, call {call.call} ({call.name})"
        effect = declared_compensable.get(call.name)
        if effect is None or effect.compensate is None:
            raise UsageError(
                f"{where} cannot be undone: no tool of that name has a compensate= in the code that is executed"
            )
        if tokens := find_tokens(data.arguments):
            raise RedactedValue(
                f"{where} cannot be undone: its log has a token in the place of a secret, at {', '.join(tokens[:3])}",
                pointers=tuple(tokens),
            )
        arguments, unread = decode_noting(data.arguments)
        if why := [*unread, *[f"{path or 'it'} was not stored exactly" for path in lossy_in(data.arguments)]]:
            raise UnknownType(f"{where} cannot be undone with the arguments that it had: {why[0]}", effect=call.name)
        found.append(Compensation(call.called.hash, call.call, call.name, arguments, effect.compensate))
    return found


def compensate(store: EventStore, info: RunInfo, compensations: Sequence[Compensation]) -> None:
    """Call compensations, and record them in a run that is in progress.

    In an event loop they are called in a thread of their own, and the loop waits: nothing of the run goes on meanwhile.

    Raises:
        CompensationFailed: one of them failed; the others were not called.
    """
    if not on_event_loop():
        _compensate(store, info, compensations)
        return
    done: Future[None] = Future()

    def work() -> None:
        try:
            _compensate(store, info, compensations)
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    BackgroundThread(target=work, name="agentreplay-compensating").start()
    done.result()


def _compensate(store: EventStore, info: RunInfo, compensations: Sequence[Compensation]) -> None:
    with JoinedBlock(info.uid, store, "raise") as run:
        for one in compensations:
            try:
                _call(run, one)
            except Exception as error:
                raise CompensationFailed(
                    f"{one.name} (call {one.call}) could not be undone: {type(error).__name__}: {error}. The re-run "
                    f"stops here. What was undone before stands in {info.id}; a re-run with --compensate undoes the "
                    "rest.",
                    name=one.name,
                    call=one.call,
                ) from error


def _call(run: JoinedRun, one: Compensation) -> None:
    given = run.tool(f"{one.name}.compensate", one.arguments, one.fn)
    if is_awaitable(given):
        asyncio.run(_awaited(given))


async def _awaited(awaitable: Awaitable[Any]) -> None:
    await awaitable
