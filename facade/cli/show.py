"""`show`: a run round by round, written while it is read."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from ..recorder.errors import CorruptLog, RunNotFound, UsageError
from ..recorder.events import Event
from ..recorder.store import EventStore, RunInfo
from ..replay.outline import RoundEntry, outline
from ..replay.reading import last_step, state_at
from ..replay.state import OpenCall
from ..replay.timeline import resolve_step
from .output import console, print_json
from .runs import Names, Tags, row_of

LONG: Final = 60
"""A run of more rounds is shown by its first and last ones."""

SHOWN_EACH_END: Final = 20


@dataclass(frozen=True, slots=True)
class Selection:
    """The rounds to show: `first` to `last`, but for the `hidden` ones in the middle."""

    first: int
    last: int
    hidden: range = range(0)

    @classmethod
    def parse(cls, text: str | None, store: EventStore, info: RunInfo) -> Selection:
        """Read A:B, A: or :B; None is everything, of a long run its ends.

        Raises:
            UsageError: it is none of these, or the run has no such rounds.
        """
        end = last_step(store, info)
        if text is None:
            hidden = range(SHOWN_EACH_END + 1, end - SHOWN_EACH_END + 1) if end > LONG else range(0)
            return cls(0, end, hidden)
        found = re.fullmatch(r"(-?\d+)?:(-?\d+)?|(-?\d+)", text.strip())
        if found is None:
            raise UsageError(f"--rounds is A:B, such as 100:120, not {text!r}")
        if found[3]:
            only = resolve_step(int(found[3]), end)
            return cls(only, only)
        first = resolve_step(int(found[1]), end) if found[1] else 0
        last = min(int(found[2]), end) if found[2] and int(found[2]) >= 0 else end
        if found[2] and int(found[2]) < 0:
            last = resolve_step(int(found[2]), end)
        if first > last:
            raise UsageError(f"--rounds {text}: round {first} is after round {last}")
        return cls(first, last)

    def holds(self, step: int) -> bool:
        """Whether a round is to be shown."""
        return self.first <= step <= self.last and step not in self.hidden


def show_run(
    store: EventStore, info: RunInfo, selection: Selection, *, as_json: bool = False, short: bool = False
) -> None:
    """Write a run to stdout; see the verb."""
    names = Names(store)
    if as_json:
        everything = Selection(selection.first, selection.last)
        steps = [entry for entry in entries(store, info, everything) if entry.step > 0]
        in_flight = [_call_row(call) for call in calls_in_flight(store, info)]
        row = row_of(info, names, Tags(store).of(info))
        print_json({**row, "in_flight": in_flight, "steps": [_step_row(entry) for entry in steps]})
        return
    from .render_steps import RunPage

    only = selection.first == selection.last
    page = RunPage(console(), names, width=len(str(selection.last)), full=only and not short, short=short)
    page.header(info, first_event(store, info), last_event(store, info), calls_in_flight(store, info))
    for entry in entries(store, info, selection):
        if entry.step == selection.hidden.stop and selection.hidden:
            page.gap(selection.hidden, info)
        page.round(entry)
    page.footer(info)


def entries(store: EventStore, info: RunInfo, selection: Selection) -> Iterator[RoundEntry]:
    """The selected rounds; reads no further than the last of them."""
    only = selection.first == selection.last
    for entry in outline(store.events(info, conversations=False), info.id, wanted=selection.holds, details=only):
        for child in entry.children:
            if child.status == "running":  # when its parent went on, or was killed
                with suppress(RunNotFound):
                    child.status = store.run(child.run).status
        yield entry
        if entry.step >= selection.last:
            return


def calls_in_flight(store: EventStore, info: RunInfo) -> list[OpenCall]:
    """The calls of a run that has not ended of which it is not known what came of them: in flight at a crash, or now.

    Calls within calls are among them.
    """
    if info.status not in ("running", "crashed") or info.head_seq < 0:
        return []
    try:
        return list(state_at(info, -1, store).open_calls.values())
    except CorruptLog:  # what can be read is shown before it is said where that ends
        return []


def first_event(store: EventStore, info: RunInfo) -> Event | None:
    """How the run started."""
    return next(iter(store.events(info, until=0)), None)


def last_event(store: EventStore, info: RunInfo) -> Event | None:
    """The last event of the log."""
    return next(iter(deque(store.events(info, after=info.head_seq - 1), maxlen=1)), None)


def _call_row(call: OpenCall) -> dict[str, Any]:
    return {"call": call.call, "kind": call.kind, "name": call.name, "step": call.round, "within": call.within}


def _step_row(entry: RoundEntry) -> dict[str, Any]:
    return {
        "step": entry.step,
        "decision": entry.word,
        "outcome": entry.outcome,
        "duration": entry.duration,
        "reasoning": entry.reasoning,
        "calls": [
            {
                "call": call.call,
                "kind": call.kind,
                "name": call.name,
                "status": call.status,
                "duration": call.duration,
                "within": call.within,
            }
            for call in entry.calls
        ],
        "changes": [change.path for change in entry.changes],
        "warnings": entry.warnings,
        "children": [{"run": child.run, "agent": child.name, "status": child.status} for child in entry.children],
    }
