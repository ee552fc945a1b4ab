"""A recording as a script: what code that runs again is expected to ask, and what it is answered.

The log is read once and laid out by where code meets it again. A *strand* is one task within one call: in it things
happen one after the other, in every execution of the same code. Calls are found by what they ask, so that independent
calls may come in another order; all else that a strand does is met in its order.

What other processes added to the run (`writer.joined`) was not done by this code and is no part of the script.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from ..recorder.events import Data, Event, SubrunFinishedData, SubrunStartedData
from ..recorder.looking import SOURCE, WHAT
from .pauses import Pauses
from .redoing import REDONE

CALLED: Final = ("model.called", "tool.called")
ENDED: Final = (
    *("model.returned", "model.failed", "tool.returned", "tool.failed", "call.cancelled"),
    *("timer.fired", "subrun.started", "subrun.finished"),
)
"""Kinds of events that wake code which waits, in the order of the log."""

SAID: Final = (
    *("message.added", "messages.replaced", "report", "scratchpad.changed", "payload.changed"),
    *("subrun.finished", "run.resumed"),
)
"""Kinds of events with which code says something that it asks no answer to, besides its own; see `said`."""


Reading: TypeAlias = tuple[str, str | None]
"""What is read: a source, and what of it, as in `ValueReadData`."""


class Strand(NamedTuple):
    """One task within one call, in one round."""

    round: int
    within: str | None
    task: str


@dataclass(slots=True, eq=False)
class RecordedCall:
    """A call in the recording.

    Attributes:
        call: its id.
        kind: "model" or "tool".
        arguments: in stored form, redacted; a conversation as the tag that stands for it, until it is expanded.
        key: the same as bytes, in which the order of keys says nothing.
        called: the event.
        ended: how it ended, or None: it was in flight when the recording ended.
        asked: whether the code has asked for it again.
        missed: whether the code is past it, and that was told.
        expanded: whether conversations stand in the arguments themselves.
    """

    call: str
    kind: str
    name: str
    arguments: Any
    key: bytes
    called: Event
    ended: Event | None = None
    asked: bool = False
    missed: bool = False
    expanded: bool = False

    @property
    def strand(self) -> Strand:
        """Where it was called."""
        return Strand(self.called.round, self.called.within, self.called.task)

    @property
    def seq(self) -> int:
        """Of its `*.called`."""
        return self.called.seq


@dataclass(slots=True, eq=False)
class ScriptRound:
    """What one round of the recording holds, in order.

    Attributes:
        calls: those that are in no other call.
        decided, changed: the events of its decisions and payload changes.
        reads, children: its `value.read` and `subrun.started`, those in calls left aside.
        questions: its `interrupt.raised`.
        finished: its last `round.finished`, or None: the recording ends in it.
    """

    started: Event | None = None
    calls: list[RecordedCall] = field(default_factory=list)
    decided: list[Event] = field(default_factory=list)
    changed: list[Event] = field(default_factory=list)
    reads: list[Event] = field(default_factory=list)
    children: list[Event] = field(default_factory=list)
    questions: list[Event] = field(default_factory=list)
    finished: Event | None = None

    @property
    def outcome(self) -> str | None:
        """How it ended; None if the recording ends in it."""
        return None if self.finished is None else self.finished.data.outcome


class Script:
    """What code is expected to ask, from the events of a run.

    Args:
        events: of the run from its start, in order, in today's shape; conversations as their tags.

    Attributes:
        started: the event.
        finished: `run.finished`, or None.
        payload_hash: of the payload at the end.
        max_rounds: the bound that the run was given last, or None.
        aborted: the look that found the run's signal aborted, or None.
        forked: the `run.forked` of the run and of those that it was forked from.
        calls: by id.
        rounds: by number.
        reads: the `value.read` of a strand, of what is read there, in order, as far as they were not met again.
        children: the `subrun.started` of a strand, likewise.
        questions: the `interrupt.raised` of a round and name, likewise.
        said: the events outside of calls that say something (`said`), and `run.resumed`, in order.
        responses: interrupt id → response, of what was answered.
        wakes: the events that woke code, in order.
        superseded: seqs of those among them that did not reach it, since it was cancelled first.
        subruns: uid of a child run → its `subrun.finished`.
        stillborn: uid of a child run that was cancelled where it began → its `subrun.started`.
        last: the last event.
        pauses: how long the code took by itself.
        joined: the events with which other writers came.
        met: how many events of a kind a strand has met again.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.started: Event | None = None
        self.finished: Event | None = None
        self.forked: list[Event] = []
        self.payload_hash = ""
        self.max_rounds: int | None = None
        self.aborted: Event | None = None
        self.last: Event | None = None
        self.calls: dict[str, RecordedCall] = {}
        self.rounds: dict[int, ScriptRound] = {}
        self.reads: dict[tuple[Strand, Reading], deque[Event]] = {}
        self.children: dict[Strand, deque[Event]] = {}
        self.questions: dict[tuple[int, str], deque[Event]] = {}
        self.said: list[Event] = []
        self.responses: dict[str, Any] = {}
        self.wakes: list[Event] = []
        self.superseded: set[int] = set()
        self.subruns: dict[str, Event] = {}
        self.stillborn: dict[str, Event] = {}
        self._started: set[str] = set()
        self.pauses = Pauses()
        self.joined: list[Event] = []
        self._in_order: dict[Strand, deque[RecordedCall]] = {}
        self._inside: dict[str, list[RecordedCall]] = {}
        self._changes: dict[str, list[Event]] = {}
        self._by_key: dict[tuple[int, str | None, str, str, bytes], deque[RecordedCall]] = {}
        self._counts: Counter[tuple[Strand, str]] = Counter()
        self._met: Counter[tuple[Strand, str]] = Counter()
        self._interrupted: Event | None = None
        self._ends: list[tuple[int, Event]] | None = None  # with their turns, once they are asked for
        self._met_again: set[int] = set()
        self._writers: tuple[str, ...] = ()
        self._last_of: dict[str, int] = {}
        for event in events:
            self._add(event)

    def _add(self, event: Event) -> None:
        self.pauses.add(event)
        if event.kind == "writer.joined":
            self._writers = (*self._writers, event.data.writer)
            self.joined.append(event)
        self.last = event
        if self._writers and event.task.split(".", 1)[0] in self._writers:
            return
        self._last_of[event.task] = event.seq
        strand = Strand(event.round, event.within, event.task)
        self._counts[strand, event.kind] += 1
        if event.within is not None and event.kind in REDONE:
            self._changes.setdefault(event.within, []).append(event)
        if event.within is None and (event.kind in SAID or event.kind.startswith("x.")):
            self.said.append(event)
        handler = _HANDLERS.get(event.kind)
        if handler is not None:
            handler(self, event, strand)
        if event.kind in ENDED:
            self.wakes.append(event)

    def round(self, number: int) -> ScriptRound:
        """A round of the recording; an empty one if it has none of that number."""
        found = self.rounds.get(number)
        if found is None:
            found = self.rounds[number] = ScriptRound()
        return found

    @property
    def last_round(self) -> int:
        """The number of the last round that has started; 0 if none has."""
        return max((number for number, one in self.rounds.items() if one.started is not None), default=0)

    @property
    def turns(self) -> int:
        """How many turns were taken (`arrivals.arrivals_of`)."""
        last = 0
        for event in self.wakes:
            if event.within is None:
                last = max(getattr(event.data, "turn", None) or last + 1, *(getattr(event.data, "turns", None) or (0,)))
        return last

    def end_after(self, turn: int) -> Event | None:
        """The first event that reached the agent from outside after a turn, such as a chunk's; None if none did."""
        if self._ends is None:
            self._ends, last = [], 0
            for event in self.wakes:
                if event.within is None:
                    last = getattr(event.data, "turn", None) or last + 1
                    self._ends.append((last, event))
        at = bisect_right(self._ends, turn, key=lambda one: one[0])
        return self._ends[at][1] if at < len(self._ends) else None

    # -- reading the log -------------------------------------------------------------------------------

    def _run_started(self, event: Event, strand: Strand) -> None:
        self.started = event
        self.payload_hash = event.data.payload_hash
        self.max_rounds = event.data.max_rounds

    def _run_forked(self, event: Event, strand: Strand) -> None:
        self.forked.append(event)
        self.max_rounds = event.data.max_rounds or self.max_rounds

    def _run_finished(self, event: Event, strand: Strand) -> None:
        self.finished = event

    def _run_resumed(self, event: Event, strand: Strand) -> None:
        self.finished = None
        self.max_rounds = event.data.max_rounds or self.max_rounds
        self.responses.update(event.data.answers)
        for call in [call for call in self.calls.values() if call.ended is None]:
            for inside in self.with_those_inside(call):  # which was taken back
                self._changes.pop(inside.call, None)
        interrupted, self._interrupted = self._interrupted, None
        if interrupted is not None:  # the round goes on
            self.round(interrupted.round).finished = None
            self._counts[Strand(interrupted.round, interrupted.within, interrupted.task), interrupted.kind] -= 1

    def _round_started(self, event: Event, strand: Strand) -> None:
        self.round(event.round).started = event

    def _round_finished(self, event: Event, strand: Strand) -> None:
        self.round(event.round).finished = event
        self._interrupted = event if event.data.outcome == "interrupted" else None

    def _called(self, event: Event, strand: Strand) -> None:
        data = event.data
        known = self.calls.get(data.call)
        if known is not None:  # another attempt, by the process that resumed the run
            known.ended = None
            return
        kind = event.kind.partition(".")[0]
        arguments = data.arguments if kind == "tool" else data.request
        call = RecordedCall(data.call, kind, data.name, arguments, key_of(arguments), event)
        self.calls[data.call] = call
        self._by_key.setdefault((event.round, event.within, kind, data.name, call.key), deque()).append(call)
        self._in_order.setdefault(strand, deque()).append(call)
        if event.within is None:
            self.round(event.round).calls.append(call)
        else:
            self._inside.setdefault(event.within, []).append(call)

    def _ended(self, event: Event, strand: Strand) -> None:
        call = self.calls.get(event.data.call)
        if call is not None:
            if call.ended is not None and event.kind == "call.cancelled":  # before the agent had what came
                self.superseded.add(call.ended.seq)
            call.ended = event

    def _value_read(self, event: Event, strand: Strand) -> None:
        if (event.data.source, event.data.what) == (SOURCE, WHAT):
            self.aborted = event
            return
        self.reads.setdefault((strand, reading_of(event)), deque()).append(event)
        if event.within is None:
            self.round(event.round).reads.append(event)

    def _decided(self, event: Event, strand: Strand) -> None:
        self.round(event.round).decided.append(event)

    def _changed(self, event: Event, strand: Strand) -> None:
        self.payload_hash = event.data.hash_after
        self.round(event.round).changed.append(event)

    def _asked(self, event: Event, strand: Strand) -> None:
        self.questions.setdefault((event.round, event.data.name), deque()).append(event)
        self.round(event.round).questions.append(event)

    def _answered(self, event: Event, strand: Strand) -> None:
        self.responses[event.data.interrupt] = event.data.response

    def _subrun_started(self, event: Event, strand: Strand) -> None:
        self._started.add(event.data.run)
        if event.data.cancelled:
            self.stillborn[event.data.run] = event
        self.children.setdefault(strand, deque()).append(event)
        if event.within is None:
            self.round(event.round).children.append(event)

    def _subrun_finished(self, event: Event, strand: Strand) -> None:
        self.subruns[event.data.run] = event

    # -- meeting it again ------------------------------------------------------------------------------

    def find(self, kind: str, name: str, key: bytes, strand: Strand) -> RecordedCall | None:
        """The call that asks just this, in its round and within the same call; of equal ones that of the same task."""
        equal = self._by_key.get((*strand[:2], kind, name, key))
        while equal and equal[0].asked:
            equal.popleft()
        left = (call for call in equal or () if not call.asked)
        first = next(left, None)
        if first is None or first.called.task == strand.task:
            return first
        return next((call for call in left if call.called.task == strand.task), first)

    def with_those_inside(self, call: RecordedCall) -> Iterator[RecordedCall]:
        """A call, and the calls that were made inside of it."""
        todo = [call]
        while todo:
            found = todo.pop()
            yield found
            todo += self._inside.get(found.call, ())

    def changes_inside(self, call: RecordedCall) -> list[Event]:
        """What changed the state of the run inside of a call."""
        return [event for one in self.with_those_inside(call) for event in self._changes.get(one.call, ())]

    def overtaken(self, call: RecordedCall) -> RecordedCall | None:
        """The call that comes first of those of the strand that were not asked for yet; None if it is this one."""
        waiting = self._in_order[call.strand]
        while waiting[0].asked or waiting[0].missed:
            waiting.popleft()
        return None if waiting[0] is call else waiting[0]

    def overtaken_for_good(self, call: RecordedCall) -> list[RecordedCall]:
        """Those of the strand before a call that were not asked for yet, and may not come after it.

        Tools that only read may be called in any order among themselves; and a model touches nothing that a tool does.
        """
        if call.kind != "tool":
            return []
        before = takewhile(lambda one: one is not call, self._in_order[call.strand])
        left = [one for one in before if one.kind == "tool" and not (one.asked or one.missed)]
        return left if call.called.data.safety != "pure" else [one for one in left if one.called.data.safety != "pure"]

    def is_never_used(self, call: RecordedCall) -> bool:
        """Whether a call gave something that was to be awaited, and never was: the run has ended, and the call not."""
        return call.ended is None and self.finished is not None and self._last_of[call.called.task] > call.seq

    def unasked(self, strand: Strand) -> list[RecordedCall]:
        """The calls of a round, within the same call, that were not asked for yet, in order."""
        calls = self.calls.values() if strand.within is not None else self.round(strand.round).calls
        return [c for c in calls if not (c.asked or c.missed) and (c.called.round, c.called.within) == strand[:2]]

    def read(self, strand: Strand, source: str, what: str | None) -> Event | None:
        """The next recorded value of a source, which is met with this; None if there is no more."""
        waiting = self.reads.get((strand, (source, what)))
        while waiting and waiting[0].seq in self._met_again:  # the code was past it, and that was told
            waiting.popleft()
        return self._meet(waiting.popleft()) if waiting else None

    def give_back(self, reads: Sequence[Event], strand: Strand) -> None:
        """Have the code come to some reads once more, which it has met before they were due."""
        self._met_again.difference_update(event.seq for event in reads)
        for event in reversed(reads):
            self.reads[strand, reading_of(event)].appendleft(event)

    def begun(self, child: Event) -> None:
        """Note that a child run has begun again."""
        self.children[Strand(child.round, child.within, child.task)].remove(child)
        self._meet(child)

    def question(self, round: int, name: str) -> Event | None:
        """The next recorded question of a name, which is met with this; None if there is no more."""
        waiting = self.questions.get((round, name))
        return self._meet(waiting.popleft()) if waiting else None

    def _meet(self, event: Event) -> Event:
        self._met_again.add(event.seq)
        return event

    def first_unmet(self, events: Iterable[Event]) -> Event | None:
        """The first of some reads, child runs or questions that the code has not come to; None if there is none."""
        return next((event for event in events if event.seq not in self._met_again), None)

    def next_unmet(self, events: Iterable[Event], until: int | None = None) -> Event | None:
        """The first of some reads, child runs or questions that the code has not come to; it is met with this.

        Args:
            events: in order.
            until: an event; those after it do not count.
        """
        found = self.first_unmet(events)
        return None if found is None or (until is not None and found.seq > until) else self._meet(found)

    def has_unmet(self, events: Iterable[Event]) -> bool:
        """Whether there is one of some reads, child runs or questions that the code has not come to."""
        return any(event.seq not in self._met_again for event in events)

    def has_child(self, data: Data) -> bool:
        """Whether an event says of a child run that it has started, or how it ended, and the recording says so, too."""
        if isinstance(data, SubrunStartedData):
            return data.run in self._started
        if not isinstance(data, SubrunFinishedData):
            return False
        finished = self.subruns.get(data.run)
        return finished is not None and finished.data.status == data.status

    def children_beside(self, strand: Strand) -> list[Event]:
        """The child runs of other tasks in the same round and within the same call that have not begun again."""
        places = [place for place in self.children if place[:2] == strand[:2] and place != strand]
        return sorted([event for place in places for event in self.children[place]], key=lambda event: event.seq)

    def unmet(self, events: Iterable[Event], before: int | None = None) -> list[Event]:
        """Those of some reads, child runs or questions that the code has not come to; up to an event, if one is given.

        They count as met from then on, so that they are told of once.
        """
        found = [e for e in events if e.seq not in self._met_again and (before is None or e.seq < before)]
        self._met_again.update(event.seq for event in found)
        return found

    def meets(self, strand: Strand, kind: str) -> bool:
        """Note that a strand did one more thing of a kind; whether the recording has that, too."""
        self._met[strand, kind] += 1
        return self._met[strand, kind] <= self._counts[strand, kind]


_Handler = Callable[[Script, Event, Strand], None]

_HANDLERS: Final[dict[str, _Handler]] = {
    "run.started": Script._run_started,
    "run.forked": Script._run_forked,
    "run.finished": Script._run_finished,
    "run.resumed": Script._run_resumed,
    "round.started": Script._round_started,
    "round.finished": Script._round_finished,
    "model.called": Script._called,
    "tool.called": Script._called,
    "model.returned": Script._ended,
    "model.failed": Script._ended,
    "tool.returned": Script._ended,
    "tool.failed": Script._ended,
    "call.cancelled": Script._ended,
    "value.read": Script._value_read,
    "step.decided": Script._decided,
    "payload.changed": Script._changed,
    "interrupt.raised": Script._asked,
    "interrupt.answered": Script._answered,
    "subrun.started": Script._subrun_started,
    "subrun.finished": Script._subrun_finished,
}


def reading_of(event: Event) -> Reading:
    """What a `value.read` has read."""
    return event.data.source, event.data.what


def key_of(stored: Any) -> bytes:
    """A tree in stored form as bytes, in which the order of keys says nothing."""
    return orjson.dumps(stored, option=orjson.OPT_SORT_KEYS)
