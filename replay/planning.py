"""What a re-run would do, and from where it is worth one: told from the log; nothing is executed or imported.

What code will do that goes its own way, nobody knows before it does. What the recorded run did is known: which of its
calls would be answered from the log, which are edited, and which would be made again or refused if the code did the
same once more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from ..recorder.events import ErrorInfo, Event
from ..recorder.values import encode
from .changes import Changes, to_json
from .compensating import compensable_calls
from .diff import diff_values
from .edits import Edits
from .live_calls import SAFE
from .reducer import fold
from .timeline import CallOfStep, calls_of

Fate: TypeAlias = Literal["live", "edited", "skipped", "reused", "refused"]
"""What becomes of a recorded call of the rounds that are live."""

ANSWERED: Final = {"model.called": "calls", "tool.called": "calls", "value.read": "values", "subrun.started": "runs"}
"""Events that ask for an answer, and what these are counted as."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call of the recorded run, from the re-run's first live round on.

    Attributes:
        step: its round.
        call, kind, name: as recorded.
        safety: what the tool declared, or None.
        within: id of the call inside which it was made, or None.
        agent: the child run's agent, if it was made by one.
        fate: what becomes of it, if the code makes it again.
    """

    step: int
    call: str
    kind: str
    name: str
    safety: str | None
    within: str | None
    agent: str | None
    fate: Fate


@dataclass(frozen=True, slots=True)
class Plan:
    """What a re-run would do.

    Attributes:
        run: the run's name.
        step: the first round that is live.
        last: the last round that was recorded.
        answered: how many calls, read values and child runs of the rounds before are answered from the log; None if
            these rounds are not executed.
        edits: as the new run's log would tell them.
        changes: what they change of the payload.
        calls: the recorded calls from `step` on, in order, but for those inside of calls that would not be made.
        compensated: the ids and names of the calls that would be undone before, in that order.
        undone: the ids and names of those that another re-run has undone already, and the id of that.
    """

    run: str
    step: int
    last: int
    answered: dict[str, int] | None
    edits: tuple[dict[str, Any], ...]
    changes: Changes
    calls: tuple[PlannedCall, ...]
    compensated: tuple[tuple[str, str], ...] = ()
    undone: tuple[tuple[str, str, str], ...] = ()

    @property
    def refused(self) -> tuple[str, ...]:
        """The names of the tools that would be refused, each once."""
        return tuple(dict.fromkeys([call.name for call in self.calls if call.fate == "refused"]))

    def to_json(self) -> dict[str, Any]:
        """`{run, step, last, answered, edits, changes, calls, refused, compensated, undone}`."""
        return {
            "run": self.run,
            "step": self.step,
            "last": self.last,
            "answered": self.answered,
            "edits": [{name: encode(value).stored for name, value in edit.items()} for edit in self.edits],
            "changes": [to_json(change) for change in self.changes],
            "calls": [{name: getattr(call, name) for name in PlannedCall.__slots__} for call in self.calls],
            "refused": list(self.refused),
            "compensated": [{"call": call, "name": name} for call, name in self.compensated],
            "undone": [{"call": call, "name": name, "by": by} for call, name, by in self.undone],
        }


def plan(
    events: Iterable[Event],
    step: int,
    edits: Edits,
    *,
    run: str,
    allow: Collection[str] = (),
    reuse: bool = False,
    executed: bool = True,
    compensate: bool = False,
    undone: Mapping[str, str] = MappingProxyType({}),
    child: Callable[[str], Iterable[Event]] = lambda run: (),
) -> Plan:
    """Tell what a re-run would do.

    Args:
        events: of the recorded run, in order.
        step: the first live round, from 1.
        edits, allow, reuse: as for `rerun`.
        run: the run's name.
        executed: whether the rounds before are executed against the log.
        compensate: whether what the run did from `step` on is undone.
        undone: what re-runs have undone already (`compensating.undone_in`).
        child: gives the events of a child run, by its uid.

    Raises:
        UsageError, ChangeRefused: the edits do not fit the payload.
    """
    log = list(events)
    before, after = [[event for event in log if (event.round < step) is early] for early in (True, False)]
    answered = dict.fromkeys(ANSWERED.values(), 0)
    for event in before:
        if event.kind in ANSWERED and event.within is None:
            answered[ANSWERED[event.kind]] += 1
    deeds = list(compensable_calls(log, step, child)) if compensate else []
    state = fold(before, check=False)
    # What is secret is told by its place alone.
    edited = replace(edits, secrets={}).apply(state.stored_payload, stored=True)
    return Plan(
        run,
        step,
        max((event.round for event in log), default=0),
        answered if executed else None,
        tuple(edits.described()),
        diff_values(state.stored_payload, edited, inside_tags=True),
        tuple(planned_calls(after, step, edits, frozenset(allow), reuse, child)),
        *undoing(deeds, undone),
    )


def undoing(
    deeds: Sequence[CallOfStep], undone: Mapping[str, str]
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str, str], ...]]:
    """What a re-run undoes of some calls, and what it leaves out, as `Plan` has it.

    Args:
        deeds: the calls, in order.
        undone: what re-runs have undone already (`compensating.undone_in`).
    """
    by = [(call, undone.get(call.called.hash)) for call in reversed(deeds)]
    left = [(call.call, call.name) for call, run in by if run is None]
    return tuple(left), tuple([(call.call, call.name, run) for call, run in by if run is not None])


NO_FAILURE: Final = "the last one"
"""What happened in the round from which to run a run again in which nothing failed."""


def step_of_failure(events: Iterable[Event]) -> tuple[int, str]:
    """The round from which to run a failed run again, and why that one.

    It is the round in which the step raised something; else the last one in which a call failed, since an agent that
    gives up says so rounds after what made it; else the last round.

    Args:
        events: of the run, in order.

    Returns:
        The round, 0 if there is none, and what happened in it, for people.
    """
    last, failed = 0, (0, "")
    raised: tuple[int, str] | None = None
    for event in events:
        last = max(last, event.round)
        if event.kind in ("model.failed", "tool.failed") and event.within is None and event.round > 0:
            failed = event.round, f"call {event.data.call} failed: {_told(event.data.error)}"
        elif event.kind == "run.finished" and event.data.error is not None:
            raised = last, f"it ended the run: {_told(event.data.error)}"
        elif event.kind == "run.resumed":
            raised = None
    if raised is not None and raised[0]:
        return raised
    return failed if failed[0] else (last, NO_FAILURE)


def _told(error: ErrorInfo) -> str:
    name = error.type.rpartition(".")[2]
    return f"{name}: {error.message}" if error.message else name


def planned_calls(
    events: Sequence[Event],
    step: int,
    edits: Edits,
    allow: frozenset[str],
    reuse: bool,
    child: Callable[[str], Iterable[Event]],
    agent: str | None = None,
) -> Iterator[PlannedCall]:
    """The recorded calls among some events, each with what becomes of it, but for those inside of calls not made.

    Args:
        events: from the first live round on, in order.
        step, edits, allow, reuse, child: as for `plan`.
        agent: of the child run whose events they are.
    """
    calls = {call.called.seq: call for call in calls_of(events)}
    not_made: set[str | None] = set()
    for event in events:
        if event.within in not_made:
            if event.seq in calls:
                not_made.add(event.data.call)
        elif event.kind == "subrun.started":
            yield from planned_calls(list(child(event.data.run)), step, Edits(), allow, reuse, child, event.data.name)
        elif (call := calls.get(event.seq)) is not None:
            fate = _fate(call, step, edits, allow, reuse)
            if fate != "live":
                not_made.add(call.call)
            safety = getattr(event.data, "safety", None)
            yield PlannedCall(event.round, call.call, call.kind, call.name, safety, event.within, agent, fate)


def _fate(call: CallOfStep, step: int, edits: Edits, allow: frozenset[str], reuse: bool) -> Fate:
    if call.called.round == step and call.call in edits.answers:
        return "skipped" if call.call in edits.skip else "edited"
    if reuse and call.status == "returned":
        return "reused"
    if call.kind == "tool" and call.called.data.safety not in SAFE and call.name not in allow:
        return "refused"
    return "live"
