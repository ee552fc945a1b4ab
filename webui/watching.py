"""Watching an expression for pages: what it comes to at each step of a run, found out a little at a time.

It takes a fold of the whole run, which of 30,000 steps is a matter of seconds. So each request goes on with it for a
moment, from where the one before ended, and says how far that is. What is kept of a run's values is small however large
they are: how a value is shown in a line, its number for a chart, and its JSON where that is short.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from ..recorder.errors import AgentReplayError
from ..recorder.events import Event
from ..recorder.store import EventStore, RunInfo
from ..recorder.values import dumps
from ..replay.changes import MISSING
from ..replay.past import FOLDED, payloads_of
from ..replay.paths import display_keys, join
from ..replay.places import nearest
from ..replay.readable import readable
from ..replay.watching import TOO_MUCH, Expression, Span, is_same, numbers_of
from .in_words import INLINE, in_line, plain

KEPT: Final = 6
"""Watched expressions that are kept, the last ones that were asked for."""

UNFINISHED: Final = 3
"""Of these, how many are gone on with; the others begin anew, so that no more states of runs are held."""

SPANS: Final = 50_000
"""After so many changes it is enough."""

SHORT: Final = 2_000
JSON_ROOM: Final = 4_000_000
"""Bytes of a value that is kept as JSON, and of all of one expression."""

REFUSED: Final = 3
"""So often an expression may take too much before it is not evaluated any more."""

STRETCH: Final = 256
"""Events that are read at a time."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Steps in which an expression came to the same.

    Attributes:
        first, last: the steps, both included.
        shown: the value in a line; empty if there is none.
        number: the value as a number, for a chart, if it is one.
        key: the same for the same values; empty if there is none.
        stored: the value as JSON in stored form, if that is short.
        problem: why the expression does not apply, or empty.
    """

    first: int
    last: int
    shown: str = ""
    number: float | None = None
    key: str = ""
    stored: bytes | None = None
    problem: str = ""

    @property
    def is_missing(self) -> bool:
        """Whether there is no value."""
        return not self.key


class Watching:
    """What an expression comes to in a run, as far as was looked; for any thread.

    Args:
        store, info: the run, as far as it is now.
        expression: what is watched.
        give_way: called now and then, so that other requests go first.

    Attributes:
        info: the run.
        seen: the spans, from the start on without a gap; the last of them may go on.
        step: the last step that was looked at; -1 before the first.
        is_over: whether there is no more to look at.
        problem: why it ends before the run does, or empty.
        error: why the expression says nothing about this run, or empty.
    """

    def __init__(
        self, store: EventStore, info: RunInfo, expression: Expression, give_way: Callable[[], None] = lambda: None
    ) -> None:
        self.info, self.expression = info, expression
        self.seen: list[Seen] = []
        self.step = -1
        self.is_over = False
        self.problem = ""
        self.error = ""
        self._store, self._give_way = store, give_way
        self._lock = threading.Lock()
        self._payloads: Iterator[tuple[int, Any]] | None = None
        self._tree: Any = MISSING
        self._value: Any = MISSING
        self._room = JSON_ROOM
        self._refused = 0

    @property
    def path(self) -> str | None:
        """The JSON Pointer that the expression is, if it is no more than a path."""
        return None if self.expression.path is None else join(self.expression.path)

    def advance(self, seconds: float) -> None:
        """Go on for so long, at least by a step."""
        deadline = time.monotonic() + seconds
        with self._lock:
            if self._payloads is None:
                self.seen, self.step, self._tree = [], -1, MISSING
                self._payloads = payloads_of(self._events(), run=self.info.id)
            try:
                while not self.is_over:
                    self._look(*next(self._payloads))
                    if len(self.seen) >= SPANS:
                        self._end(f"after {SPANS:,} changes it is not watched any further")
                    if self._refused >= REFUSED:
                        self._end(f"it is not evaluated any further: {self.seen[-1].problem}")
                    if time.monotonic() > deadline:
                        break
            except StopIteration:
                self._end("")
            except AgentReplayError as error:
                self._end(str(error))

    def let_go(self) -> None:
        """Hold no state of the run any more; what is not over begins anew when it is asked for again."""
        with self._lock:
            self._payloads, self._tree, self._value = None, MISSING, MISSING

    def at(self, step: int) -> Seen | None:
        """What it came to at a step, if that was looked at."""
        place = self.place_of(step)
        return None if place is None else self.seen[place]

    def place_of(self, step: int) -> int | None:
        """The place of a step's span in the list."""
        low, high = 0, len(self.seen)
        while low < high:
            middle = (low + high) // 2
            if self.seen[middle].last < step:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self.seen) and self.seen[low].first <= step else None

    def _events(self) -> Iterator[Event]:
        """The events that change the payload; nothing of the database is held between them."""
        after, end = -1, self.info.head_seq
        while after < end:
            stop = min(after + STRETCH, end)
            for row in list(self._store.rows(self.info, after, stop)):
                if row.kind in FOLDED:
                    yield self._store.decode(self.info, row, conversations=False)
            after = stop
            self._give_way()

    def _look(self, step: int, tree: Any) -> None:
        self.step = step
        last = self.seen[-1] if self.seen else None
        if tree is self._tree and last is not None:
            self.seen[-1] = replace(last, last=step)
            return
        self._tree = tree
        value, problem = self.expression.over(tree)
        if problem == TOO_MUCH:
            self._refused += 1
        before = None if last is None else Span(last.first, last.last, self._value, last.problem or None)
        if before is not None and last is not None and is_same(before, value, problem):
            self.seen[-1] = replace(last, last=step)
        else:
            self.seen.append(self._told(step, value, problem))
        self._value = value

    def _told(self, step: int, value: Any, problem: str | None) -> Seen:
        if value is MISSING:
            return Seen(step, step, problem=problem or "")
        number = next(numbers_of([value]))
        stored = dumps(value)
        kept = stored if len(stored) <= min(SHORT, self._room) else None
        self._room -= len(kept or b"")
        key = (stored if len(stored) <= SHORT else b"%d of step %d" % (len(stored), step)).decode("utf-8", "replace")
        shown = in_line(value) if plain(value) is None else readable(value, 2 * INLINE)
        return Seen(step, step, shown, number, key, kept)

    def _end(self, problem: str) -> None:
        self.is_over, self.problem = True, problem
        tree, self._tree, self._value, self._payloads = self._tree, MISSING, MISSING, None
        run, path = self.info.id, self.expression.path
        if not self.seen:
            self.error = problem or f"{run} has no events yet"
        elif all(seen.problem for seen in self.seen):
            text = self.expression.text
            shown = text if len(text) <= 2 * INLINE else f"{text[: 2 * INLINE]}…"
            self.error = f"{shown} applies to no step of {run}: {self.seen[-1].problem}"
        elif path is not None and all(seen.is_missing for seen in self.seen) and not problem:
            meant = display_keys(nearest(join(path), tree))
            self.error = f"{run} has no {display_keys(path)} at any step; did you mean {meant}?"


class Watchings:
    """The expressions that are watched on one server.

    Args:
        store: where the runs are.
        give_way: as of `Watching`.
    """

    def __init__(self, store: EventStore, give_way: Callable[[], None]) -> None:
        self._store, self._give_way = store, give_way
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], Watching] = OrderedDict()

    def of(self, info: RunInfo, text: str, seconds: float | None) -> Watching:
        """What an expression comes to in a run, after it was gone on with for so long; with None, as far as is known.

        Raises:
            UsageError: it is no expression.
        """
        with self._lock:
            key = (info.uid, text)
            found = self._known.get(key)
            if found is None or (found.is_over and found.info.head_seq < info.head_seq):
                found = Watching(self._store, info, Expression(text), self._give_way)
            self._known[key] = found
            self._known.move_to_end(key)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
            unfinished = [other for other in self._known.values() if not other.is_over]
        for other in unfinished[:-UNFINISHED]:
            other.let_go()
        if seconds is not None and not found.is_over:
            found.advance(seconds)
        return found
