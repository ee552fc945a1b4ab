"""Undoing what a run did before it is run again: the compensations of tools that have one, on request.

A re-run from step N makes the calls of the rounds from N on once more. Where the recorded run booked something there,
it would be booked twice. A tool that is `compensable` says how its work is undone (`compensate=`); on request that is
called for each of its recorded calls that returned, the last one first, once the code has come to step N and before
the step runs.

It is not the agent that does this. So in the log of the new run it is another writer's (`joining`), and code that is
executed against that log later is not expected to do it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ..recorder.decoding import decode_noting
from ..recorder.effects import declared_compensable
from ..recorder.errors import CompensationFailed, RedactedValue, UnknownType, UsageError
from ..recorder.events import Event
from ..recorder.introspection import is_awaitable
from ..recorder.joining import JoinedRun, join
from ..recorder.redaction import find_tokens
from ..recorder.scope import BackgroundThread
from ..recorder.store import EventStore, RunInfo
from ..recorder.values import lossy_in
from ..recorder.writer import on_event_loop
from .timeline import CallOfStep, calls_of


@dataclass(frozen=True, slots=True)
class Compensation:
    """What is called to undo one call.

    Attributes:
        call, name: of the call.
        arguments: by name, as it had them.
        fn: the tool's `compensate`.
    """

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
    was_made = ended is not None and call.status == "returned" and not getattr(ended.data, "edited", False)
    return was_made and getattr(call.called.data, "safety", None) == "compensable"


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
        found.append(Compensation(call.call, call.name, arguments, effect.compensate))
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
    with join(info.uid, store=store) as run:
        for one in compensations:
            try:
                _call(run, one)
            except Exception as error:
                raise CompensationFailed(
                    f"{one.name} (call {one.call}) could not be undone: {type(error).__name__}: {error}. The re-run "
                    f"stops here. What was undone before stands in {info.id}.",
                    name=one.name,
                    call=one.call,
                ) from error


def _call(run: JoinedRun, one: Compensation) -> None:
    given = run.tool(f"{one.name}.compensate", one.arguments, one.fn)
    if is_awaitable(given):
        asyncio.run(_awaited(given))


async def _awaited(awaitable: Awaitable[Any]) -> None:
    await awaitable
