"""A run as a whole: how long each step took, how much it changed, how large the payload was after it, where it failed.

That takes a pass over the whole log, of which a page of one step has no need. So a thread of its own makes it, beside
the pages: it stands back while a request is answered, and goes on from where it was when a run grows. What is left is a
few numbers for each step, and a few states to go on from (`Overview.states`), so that any step is near afterwards.

Nothing is written to the store: looking at a run changes nothing.
"""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ..recorder.errors import AgentReplayError, CorruptLog, StoreError
from ..recorder.events import Event
from ..recorder.store import EventStore, RunInfo
from ..recorder.values import dumps
from ..replay.changes import MISSING, Change
from ..replay.diff import diff_values
from ..replay.reducer import fold
from ..replay.state import RunState
from ..replay.timeline import rounds
from .usage import tokens_in

RUNS: Final = 32
"""Runs whose overviews are kept."""

STATES: Final = 256
FEW_STATES: Final = 8
"""States that are kept of a run to go on from; few of them, where each may be large."""

LARGE: Final = 2_000_000
LARGE_RUNS: Final = 2
"""Bytes of a payload that is large, and how many runs with such a payload are kept."""

PATIENCE_SECONDS: Final = 0.02
"""So long the thread waits before it begins with a run: the page that asked for it comes first."""

STAND_BACK_SECONDS: Final = 0.25
"""So long the thread waits for requests, at most, before it goes on with a step."""

TURN_SECONDS: Final = 0.1
"""So long the thread stays with a run, and for two steps at least, before another that is wanted has its turn."""

PATIENT: Final = 6
"""Requests that wait patiently at the same time; others are answered with what is known, and come again. See `app`."""

STRETCH: Final = 256
"""Events that are read at a time."""

GIVE_WAY_SECONDS: Final = 0.002
"""How long a request that takes long lets others go first, now and then."""

_WITHOUT_BLOBS: Final = ("model.", "tool.", "value.", "report", "x.")
"""Kinds of events whose large values no fold needs."""

IDLE_SECONDS: Final = 10.0
"""After so long without work the thread ends."""


class StepFacts(NamedTuple):
    """What is known of a step.

    Attributes:
        duration: seconds.
        changes: of the payload.
        size: of the payload after it, in bytes of JSON.
        failed: whether a call failed in it, or the step itself.
    """

    duration: float
    changes: int
    size: int
    tokens: int
    failed: bool


@dataclass(slots=True)
class Overview:
    """The steps of a run as far as they were gone through, from step 0 on; see `StepFacts`.

    Attributes:
        seq: the last event that is in it.
        problem: why it ends before the run does, or empty.
        states: to go on from, in order of their steps.
        turn: when the thread was with it last, counted; 0 for never.
    """

    durations: array[float] = field(default_factory=lambda: array("d"))
    changes: array[int] = field(default_factory=lambda: array("L"))
    sizes: array[int] = field(default_factory=lambda: array("Q"))
    tokens: array[int] = field(default_factory=lambda: array("L"))
    failed: bytearray = field(default_factory=bytearray)
    seq: int = -1
    problem: str = ""
    states: list[RunState] = field(default_factory=list)
    turn: int = 0
    _before: RunState | None = None
    _apart: int = 1

    def __len__(self) -> int:
        return len(self.durations)

    @property
    def is_large(self) -> bool:
        """Whether its states may take much memory."""
        return bool(self.sizes) and max(self.sizes[0], self.sizes[-1]) > LARGE

    def covers(self, info: RunInfo) -> bool:
        """Whether it holds all that the run does, or all of it that can be read."""
        return self.seq >= info.head_seq or bool(self.problem)

    def step(self, step: int) -> StepFacts | None:
        """What is known of a step, if it was gone through."""
        if step >= len(self):
            return None
        return StepFacts(
            self.durations[step], self.changes[step], self.sizes[step], self.tokens[step], bool(self.failed[step])
        )

    def known(self, info: RunInfo, step: int) -> StepFacts | None:
        """What is known for sure of a step: nothing of the last one as long as it may have gone on since."""
        return self.step(step) if step + 1 < len(self) or self.seq >= info.head_seq else None

    def state(self, step: int) -> RunState | None:
        """The last state that is kept at a step or before."""
        states = self.states  # replaced as a whole, never changed in place
        place = bisect_right(states, step, key=lambda state: state.step)
        return states[place - 1] if place else None

    def extend(self, store: EventStore, info: RunInfo) -> Iterator[int]:
        """Go through the steps that are new, and yield each.

        The last step may have gone on since it was gone through, so it is gone through again.
        """
        state, step = self._before, max(len(self) - 1, 0)
        try:
            for share in rounds(events_to_fold(store, info, -1 if state is None else state.last_seq)):
                before, state = state, fold(share, state, check=False, run=info.id)
                self._enter(step, share, before, state)
                yield step
                step += 1
        except CorruptLog as error:
            self.problem = str(error)
        except StoreError:
            pass  # it may be readable the next time
        except AgentReplayError as error:
            self.problem = str(error)
        except Exception as error:  # whatever a log holds, the thread is there for other runs, too
            self.problem = f"step {step} cannot be worked out: {type(error).__name__}"

    def _enter(self, step: int, share: list[Event], before: RunState | None, after: RunState) -> None:
        if before is None:
            count, size = 0, len(dumps(after.stored_payload))
        else:
            changes = diff_values(before.stored_payload, after.stored_payload, inside_tags=True)
            count, weighed = len(changes), changes
            if any(change.whole is not None for change in changes):  # what is in a tag takes other room than in JSON
                weighed = diff_values(before.stored_payload, after.stored_payload)
            size = self._size_with(self.sizes[step - 1], weighed)
            self._keep(before, size)
        tokens = sum(tokens_in(event.data.usage) or 0 for event in share if event.kind == "model.returned")
        failed = any(_is_failure(event) for event in share)
        if step < len(self):
            self.changes[step], self.sizes[step], self.tokens[step], self.failed[step] = count, size, tokens, failed
            self.durations[step] = _duration(share)
        else:
            self.changes.append(count)
            self.sizes.append(size)
            self.tokens.append(tokens)
            self.failed.append(failed)
            self.durations.append(_duration(share))  # the last: it makes the step known
        self._before, self.seq = before, share[-1].seq

    def _keep(self, state: RunState, size: int) -> None:
        """Keep a state to go on from, now and then."""
        if self.states and state.step - self.states[-1].step < self._apart:
            return
        states = [*self.states, state]
        if len(states) > (FEW_STATES if size > LARGE else STATES):
            states, self._apart = states[::2], self._apart * 2
        self.states = states

    @staticmethod
    def _size_with(size: int, changes: Iterable[Change]) -> int:
        """The size of a payload after some changes: that of the one before and what they add and take away."""
        for change in changes:
            if change.kind != "move":
                size += _size_in_place(change.new, change) - _size_in_place(change.old, change)
        return max(size, 0)


def events_to_fold(
    store: EventStore, info: RunInfo, after: int, give_way: Callable[[], None] = lambda: None
) -> Iterator[Event]:
    """The events behind one, without the large values that no fold needs.

    They are read a few at a time, and `give_way` is called in between: who reads much keeps others from the database.
    """
    while after < info.head_seq:
        stop = min(after + STRETCH, info.head_seq)
        for row in store.rows(info, after, stop):
            blobs = not row.kind.startswith(_WITHOUT_BLOBS)
            yield store.decode(info, row, conversations=False, blobs=blobs)
        after = stop
        give_way()


def _duration(share: list[Event]) -> float:
    told = next((event.data.duration for event in share if event.kind == "round.finished"), None)
    if share[0].kind != "round.started":
        return 0.0
    return told if told is not None else max((share[-1].time - share[0].time).total_seconds(), 0.0)


def _is_failure(event: Event) -> bool:
    return event.kind.endswith(".failed") or (event.kind == "round.finished" and event.data.outcome == "failed")


def _size_in_place(value: Any, change: Change) -> int:
    """The bytes that a value takes where it stands, with its key and what divides it from the next."""
    if value is MISSING:
        return 0
    key = change.keys[-1] if change.keys and change.kind != "replace" else None
    around = 0 if change.kind == "replace" else 1 if not isinstance(key, str) else len(dumps(key)) + 2
    return len(dumps(value)) + around


class Overviews:
    """The overviews of the runs that are looked at, made by one thread.

    Runs have turns: first the one for which a request waits, then the one that had none for longest, and of several
    that had none the last that was asked for. In each turn a run gets on, however many others are wanted.

    Args:
        store: where the runs are.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._lock = threading.Condition()
        self._known: OrderedDict[str, Overview] = OrderedDict()
        self._wanted: OrderedDict[str, RunInfo] = OrderedDict()
        self._waited_for: Counter[str] = Counter()
        self._thread: threading.Thread | None = None
        self._requests = 0
        self._patient = 0
        self._turns = 0

    def of(self, info: RunInfo) -> Overview:
        """What is known of a run by now; if that is not all, the thread goes on with it."""
        with self._lock:
            return self._of(info)

    def _of(self, info: RunInfo) -> Overview:
        found = self._known.setdefault(info.uid, Overview())
        self._known.move_to_end(info.uid)
        self._forget(info.uid)
        if not found.covers(info):
            self._wanted[info.uid] = info
            self._wanted.move_to_end(info.uid)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="agentreplay-overview", daemon=True)
                self._thread.start()
            self._lock.notify_all()
        return found

    def _forget(self, uid: str) -> None:
        """Let go of the overviews of runs that were not looked at for long; of runs with a large payload soon."""
        large = [other for other, overview in self._known.items() if overview.is_large and other != uid]
        for other in large[: max(len(large) - LARGE_RUNS + 1, 0)]:
            del self._known[other]
        while len(self._known) > RUNS:
            self._known.popitem(last=False)

    def size(self, info: RunInfo, step: int) -> int:
        """The bytes of the payload after a step as far as they are known, else 0; nothing is begun for it."""
        with self._lock:
            found = self._known.get(info.uid)
        facts = found.step(step) if found is not None else None
        return facts.size if facts is not None else 0

    def state(self, info: RunInfo, step: int) -> RunState | None:
        """The last state of a run that is kept at a step or before."""
        with self._lock:
            found = self._known.get(info.uid)
        return found.state(step) if found is not None else None

    def complete(self, info: RunInfo, seconds: float, *, patiently: bool = False) -> Overview:
        """What is known of a run, after a wait of at most so long for the rest of it.

        While it waits, a request is not one that the thread stands back for; unless it waits `patiently`, the thread
        does this run first, and stands back for no request.
        """
        deadline = time.monotonic() + seconds
        waits = Counter(() if patiently else (info.uid,))
        with self._lock:
            if patiently and self._patient >= PATIENT:
                return self._of(info)
            self._waited_for += waits
            self._patient += patiently
            self._requests -= 1
            try:
                found = self._of(info)
                self._lock.wait_for(lambda: found.covers(info), max(deadline - time.monotonic(), 0))
            finally:
                self._waited_for -= waits  # and without the run, when nobody waits any more
                self._patient -= patiently
                self._requests += 1
            return found

    def request_begins(self) -> None:
        """A request is being answered: the thread stands back."""
        with self._lock:
            self._requests += 1

    def request_ends(self) -> None:
        """The request was answered."""
        with self._lock:
            self._requests -= 1

    def give_way(self) -> None:
        """To be called now and then by a request that takes long: lets others go first, if there are any."""
        if self._requests > 1:
            time.sleep(GIVE_WAY_SECONDS)

    def _next(self) -> tuple[RunInfo, Overview] | None:
        """The run whose turn it is; None if there is nothing to do any more."""
        with self._lock:
            if not self._wanted and not self._lock.wait_for(lambda: self._wanted, IDLE_SECONDS):
                self._thread = None
                return None
            uid = min(reversed(self._wanted), key=lambda uid: (uid not in self._waited_for, self._turn_of(uid)))
            info, found = self._wanted.pop(uid), self._known.setdefault(uid, Overview())
            self._turns += 1
            found.turn = self._turns
            return info, found

    def _turn_of(self, uid: str) -> int:
        known = self._known.get(uid)
        return known.turn if known is not None else 0

    def _work(self) -> None:
        while (work := self._next()) is not None:
            info, overview = work
            if info.uid not in self._waited_for:
                time.sleep(PATIENCE_SECONDS)  # a large payload is read in one go, and nobody is answered meanwhile
            self._stand_back()
            began = time.monotonic()
            # The first step of a turn may be the last of the turn before, which is gone through again.
            for number, _ in enumerate(overview.extend(self._store, info)):
                self._stand_back()
                with self._lock:
                    if info.uid not in self._known:
                        break
                    if number and time.monotonic() - began > TURN_SECONDS and self._wanted.keys() - {info.uid}:
                        self._wanted.setdefault(info.uid, info)
                        break
            with self._lock:
                self._lock.notify_all()

    def _stand_back(self) -> None:
        """Leave the processor to requests, but not for ever, and not while one waits for what is done here."""
        waited = 0.0
        while self._requests > 0 and not self._waited_for and waited < STAND_BACK_SECONDS:
            time.sleep(0.005)
            waited += 0.005
