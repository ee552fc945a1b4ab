"""What can still be seen of a damaged run.

An event may be damaged: it cannot be read, or the log stops making sense there. All that follows from the events before
it is as sound as ever, and so is what follows from a snapshot behind it. So whoever asks for more than that is told
which event is damaged, and shown what there is: states up to the last step that can be worked out (`Sound`), and what
lies between two steps as far as both are sound (`Told`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ..recorder.errors import CorruptLog
from ..recorder.event_codec import StoredEvent
from ..recorder.events import Event
from ..recorder.hashes import comparison_hash
from ..recorder.store import FIRST, RunInfo
from ..replay.between import stored_part
from ..replay.changes import Change, Changes
from ..replay.diff import diff_values
from ..replay.difference import Difference
from ..replay.state import RunState
from ..replay.timeline import states

if TYPE_CHECKING:
    from .reader import Reader

CHECKED = 40_000
"""Bytes of a payload of which it is looked at whether it is the one that was recorded: that takes some milliseconds."""

NO_STEP = -1
"""Where not even the start of a run can be worked out."""


class Sound(NamedTuple):
    """The last step, up to one that was asked for, whose state can be worked out.

    Attributes:
        step: the step, or `NO_STEP`.
        seq: the last event of it.
        problem: which event is damaged and how; empty if the step is the one that was asked for.
    """

    step: int = NO_STEP
    seq: int = FIRST
    problem: str = ""


class Unread(NamedTuple):
    """An event that cannot be read: how it is stored, and why."""

    row: StoredEvent
    problem: str

    @property
    def seq(self) -> int:
        """Its number in the run."""
        return self.row.seq


def untrue(state: RunState) -> str:
    """That the payload of a state is not the one that was recorded; empty if it is."""
    if not state.payload_hash or comparison_hash(state.stored_payload) == state.payload_hash:
        return ""
    return (
        f"{state.run}: the payload after step {state.step} is not the one that was recorded: an event, here or before, "
        f"was changed since. `agentreplay verify {state.run}` shows what is damaged."
    )


class Told(NamedTuple):
    """What lies between two steps, as far as it can be told.

    Attributes:
        old, new: the steps that are compared: those that were asked for, or sound ones before.
        found: what lies between these; None if nothing can be told.
        problems: which events are damaged; empty if all that was asked for is there.
    """

    old: tuple[RunInfo, int]
    new: tuple[RunInfo, int]
    found: Difference | None
    problems: tuple[str, ...] = ()


def sound_part(events: Iterable[Event], step: int, *, state: RunState | None = None, run: str = "") -> Sound:
    """The last step up to `step` whose state can be worked out.

    Args:
        events: of the run, in order; with `state`, those after it. Reading them may raise `CorruptLog`.
        step: the step that is wanted.
        state: a state to go on from, of a whole step.
        run: the run's name, for messages.
    """
    found = Sound() if state is None else Sound(state.step, state.last_seq)
    if found.step >= step:
        return found
    try:
        for number, reached in states(events, state, check=False, run=run):
            found = Sound(number, reached.last_seq)
            if number >= step:
                break
    except CorruptLog as error:
        return found._replace(problem=str(error))
    return found


def difference_told(reader: Reader, old: tuple[RunInfo, int], new: tuple[RunInfo, int], part: str) -> Told:
    """What lies between two steps, of one run or of two, as far as it can be told.

    Args:
        reader: of the runs.
        old, new: run and step.
        part: the part of the states that is compared.

    Raises:
        UsageError: there is no such step or part.
    """
    parts = () if part == "payload" else (part,)
    try:
        return Told(old, new, _difference(reader, old, new, parts))
    except CorruptLog as error:
        sound = [reader.sound(*at) for at in (old, new)]
        problems = tuple(dict.fromkeys([one.problem for one in sound if one.problem])) or (str(error),)
        if any(one.step == NO_STEP for one in sound):
            return Told(old, new, None, problems)
        first, second = [(info, one.step) for (info, _), one in zip((old, new), sound, strict=True)]
        if first[0].uid == second[0].uid and first[1] == second[1]:
            return Told(first, second, None, problems)
        try:
            return Told(first, second, _difference(reader, first, second, parts), problems)
        except CorruptLog:  # the damage lies between: both states are known, what led from one to the other is not
            try:
                return Told(first, second, _without_causes(reader, first, second, parts), problems)
            except CorruptLog:  # a state was known by its payload only
                return Told(first, second, None, problems)


def _difference(
    reader: Reader, old: tuple[RunInfo, int], new: tuple[RunInfo, int], parts: tuple[str, ...]
) -> Difference:
    if old[0].uid == new[0].uid:
        return reader.difference(new[0], old[1], new[1], parts)
    return reader.difference_of_two(old, new, parts)


def _without_causes(
    reader: Reader, old: tuple[RunInfo, int], new: tuple[RunInfo, int], parts: tuple[str, ...]
) -> Difference:
    before, after = reader.state(*old), reader.state(*new)
    changes: list[Change] = []
    for part in parts or ("payload",):
        made = diff_values(stored_part(before, part), stored_part(after, part), inside_tags=True)
        changes += [change.under((part,)) for change in made] if parts else made
    return Difference(old, new, (before, after), Changes(changes), (new[0],) * len(changes))
