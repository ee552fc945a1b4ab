"""What a re-run would do, found quickly enough to be told while somebody types.

The plan is that of `agentreplay rerun --dry-run`. What it takes of the log is read once for a step and kept; what was
decided in the steps before comes from the nearest state that is known, as on every page. Of a run of thousands of steps
only the first calls from the step on are looked at, and it is said where that ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from flask import current_app

from ..recorder.errors import UsageError
from ..recorder.events import Event
from ..recorder.store import EventStore, RunInfo
from ..recorder.values import already_stored
from ..replay.compensating import compensable_calls, undone_in
from ..replay.diff import diff_values
from ..replay.edits import Edits
from ..replay.ignoring import IgnoreRules
from ..replay.live_calls import SAFE
from ..replay.planning import ANSWERED, Plan, PlannedCall, planned_calls, undoing
from ..replay.rerun_request import RerunRequest
from ..replay.rerunning import rerun_course
from ..replay.step_places import start_of
from ..replay.timeline import CallOfStep
from .edited_json import refuse_damaged
from .site import Kept, site

LOOKED_AT: Final = 6_000
"""Events of calls, from the step on, that are looked at."""

COUNTED: Final = 12_000
"""Events before the step in which it is counted what is answered; that takes some tenths of a second."""

OF_A_CHILD: Final = 1_000
"""Events of calls of a child run that are looked at."""

KEPT: Final = 16

NAME: Final = "agentreplay.ahead"
"""Where an application keeps what was read of its runs."""

_CALLS: Final = frozenset(
    (
        "model.called", "model.returned", "model.failed", "tool.called", "tool.returned", "tool.failed",
        "call.cancelled", "subrun.started",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ahead:
    """What a plan takes of a log.

    Attributes:
        answered: what the steps before asked of the world, counted; empty if they are too long for that.
        events: of the calls from the step on, in order.
        is_cut: whether there are more than were looked at.
    """

    answered: dict[str, int]
    events: tuple[Event, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a re-run calls only if it is allowed.

    Attributes:
        why: irreversible, or that it declares nothing.
        calls: how often the recorded run called it from the step on.
    """

    name: str
    why: str
    calls: int
    is_allowed: bool


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a re-run would do.

    Attributes:
        plan: as `--dry-run` tells it.
        tools: those that would have to be allowed.
        is_cut: whether the recorded run made more calls than were looked at.
    """

    plan: Plan
    tools: tuple[Tool, ...]
    is_cut: bool


def forecast(info: RunInfo, step: int, request: RerunRequest) -> Forecast:
    """What a re-run would do.

    Raises:
        UsageError, ChangeRefused: what is asked for cannot be meant, or does not fit the payload.
    """
    found = site()
    kept: Kept[Ahead] = current_app.extensions[NAME]
    ahead = kept.get((info.uid, info.head_seq, step), lambda: _ahead(found.store, info, step))
    edits = edits_in(request)
    _refuse_unknown_calls(edits, ahead, info, step)
    IgnoreRules(request.ignore)
    before = after = found.reader.state(info, step - 1).stored_payload
    if edits.touch_the_payload:
        after = edits.apply(before, stored=True)

    def child(uid: str) -> Iterator[Event]:
        return islice(_calls(found.store, found.store.run(uid)), OF_A_CHILD)

    allow = frozenset(request.allow)
    calls = tuple(planned_calls(ahead.events, step, edits, allow, request.reuse, child))
    deeds: list[CallOfStep] = []
    undone: dict[str, str] = {}
    if request.compensate:
        deeds, undone = list(compensable_calls(ahead.events, step, child)), undone_in(found.store)
    plan = Plan(
        info.id,
        step,
        max(found.reader.last_step(info), step),
        ahead.answered if request.prefix == "execute" else None,
        tuple(edits.described()),
        diff_values(before, after, inside_tags=True),
        calls,
        *undoing(deeds, undone),
    )
    return Forecast(plan, tuple(_tools(calls, allow)), ahead.is_cut)


def edits_in(request: RerunRequest) -> Edits:
    """The edits of a request, their values in stored form: the classes of the agent are not known here.

    Raises:
        UsageError: a value is damaged, so that it would stand for something else than it says.
    """
    for where, value in request.values():
        try:
            refuse_damaged(value)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
    return request.edits(already_stored)


def refuse_what_cannot_be(info: RunInfo, step: int, request: RerunRequest) -> None:
    """Refuse what `rerun` would refuse before it executes anything.

    Raises:
        AgentReplayError: as `rerun` does.
    """

    def nothing() -> None:
        """Stands for code where none is executed."""

    edits = edits_in(request)
    prefix: Any = request.prefix
    rerun_course(info, nothing, step, edits, request.allow, request.reuse, prefix, site().store, request.ignore)


def _ahead(store: EventStore, info: RunInfo, step: int) -> Ahead:
    first = start_of(store, info, step)
    answered = dict.fromkeys(ANSWERED.values(), 0) if first <= COUNTED else {}
    for row in store.rows(info, until=first - 1) if answered else ():
        if row.kind in ANSWERED and row.within is None:
            answered[ANSWERED[row.kind]] += 1
    events = tuple(islice(_calls(store, info, first - 1), LOOKED_AT + 1))
    return Ahead(answered, events[:LOOKED_AT], len(events) > LOOKED_AT)


def _calls(store: EventStore, info: RunInfo, after: int = -1) -> Iterator[Event]:
    """The events of a run's calls and child runs behind an event; large values are tags."""
    for row in store.rows(info, after):
        if row.kind in _CALLS:
            yield store.decode(info, row, conversations=False, blobs=False)


def _refuse_unknown_calls(edits: Edits, ahead: Ahead, info: RunInfo, step: int) -> None:
    """Refuse an answer to a call that the step did not make, as `EditedAnswers` does."""
    kinds = {
        event.data.call: event.kind.partition(".")[0]
        for event in ahead.events
        if event.round == step and event.kind in ("model.called", "tool.called")
    }
    for call, (kind, _) in edits.answers.items():
        if call not in kinds:
            raise UsageError(f"step {step} of {info.id} has no call {call[:60]}; it has {_names(list(kinds))}")
        if kind not in ("", kinds[call]):
            raise UsageError(f"call {call[:60]} is a {kinds[call]} call, not one of a {kind}")


def _names(calls: list[str]) -> str:
    shown = ", ".join([call[:60] for call in calls[:12]])
    return f"{shown} and {len(calls) - 12:,} more" if len(calls) > 12 else shown or "none"


def _tools(calls: Iterable[PlannedCall], allow: frozenset[str]) -> Iterator[Tool]:
    counts: dict[str, int] = {}
    safety: dict[str, str | None] = {}
    for call in calls:
        if call.kind == "tool" and call.safety not in SAFE:
            counts[call.name] = counts.get(call.name, 0) + 1
            safety[call.name] = call.safety
    for name, number in counts.items():
        yield Tool(name, safety[name] or "declares no safety", number, name in allow)
