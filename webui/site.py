"""What all pages of one server share: the store, what is allowed, and what was worked out before.

Whatever is kept here can be had again from the store. It is bounded, and guarded by locks: pages are made in several
threads at once.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from flask import current_app

from ..recorder.errors import AgentReplayError
from ..recorder.store import EventStore, RunInfo
from ..replay.listing import Names, error_text
from ..replay.tags import Tags
from .live import Watch
from .overview import Overviews
from .reader import Reader
from .security import Guard
from .usage import cost_in, tokens_in
from .verifier import Verifier
from .watching import Watchings

FRESH_SECONDS: Final = 0.5
"""For so long the list of runs is taken for what it was: many readers ask for it no more often than one."""

ENDS: Final = 20_000
"""Runs of which it is kept in mind how they ended."""

LAST_EVENTS: Final = 8
"""Events at the end of a failed run in which it is looked for what its last decision said."""

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """Values by key, the last `size` of them that were asked for; each is worked out by one thread at a time.

    Args:
        size: how many, at most.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, Value] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made if it is not there."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._size:
                self._values.popitem(last=False)
        return value


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended.

    Attributes:
        error: what it failed with, in a line; empty if it did not.
        tokens: that its models read and wrote, as far as it says so.
        cost: of its model calls, as far as their usage says so.
    """

    error: str = ""
    tokens: int | None = None
    cost: float | None = None


@dataclass(slots=True)
class Site:
    """What all pages of one server share.

    Attributes:
        store: whose runs are shown.
        guard: what is asked of requests.
        app: the code that re-runs execute, as `--app` names it; None where nothing is executed.
        features: what this server offers beside the pages that it always has: names such as "compare", by which
            templates ask whether to show a link. Whoever registers the pages adds the name.
        overviews: of the runs that are looked at.
        reader: reads runs, with what it remembers of them.
        verifier: verifies the store on request.
        watch: tells pages what is new.
        tags: those of the runs.
        watchings: expressions that are watched over the steps of runs.
    """

    store: EventStore
    guard: Guard
    app: str | None = None
    features: set[str] = field(default_factory=set)
    overviews: Overviews = field(init=False)
    reader: Reader = field(init=False)
    verifier: Verifier = field(init=False)
    watch: Watch = field(init=False)
    tags: Tags = field(init=False)
    watchings: Watchings = field(init=False)
    _runs: tuple[float, list[RunInfo]] = (0.0, [])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ends: Kept[End] = field(default_factory=lambda: Kept(ENDS))

    def __post_init__(self) -> None:
        self.overviews = Overviews(self.store)
        self.reader = Reader(self.store, self.overviews)
        self.verifier = Verifier(self.store)
        self.watch = Watch(self.store, self.runs)
        self.tags = Tags(self.store)
        self.watchings = Watchings(self.store, self.overviews.give_way)

    def runs(self) -> list[RunInfo]:
        """Every run, oldest first, as it was at most half a second ago."""
        with self._lock:
            at, infos = self._runs
            if time.monotonic() - at > FRESH_SECONDS or not at:
                infos = self.store.runs()
                self._runs = (time.monotonic(), infos)
            return infos

    def names(self) -> Names:
        """What the runs are called."""
        return Names(self.store, self.runs())

    def end_of(self, info: RunInfo) -> End:
        """How a run ended; empty while it has not, or if that cannot be read."""
        if info.finished is None or info.head_seq < 0:
            return End()
        return self._ends.get((info.uid, info.head_seq), lambda: self._read_end(info))

    def _read_end(self, info: RunInfo) -> End:
        decided, end = None, End()
        try:
            for row in self.store.rows(info, after=info.head_seq - LAST_EVENTS):
                if row.kind in ("step.decided", "run.finished"):
                    data = self.store.decode(info, row, conversations=False, blobs=False).data
                    decided, end = (
                        (data.decision, end) if row.kind == "step.decided" else (decided, _end(data, decided))
                    )
        except AgentReplayError:
            pass  # the run's own page says what is damaged
        return end


def _end(data: Any, decided: Mapping[str, Any] | None) -> End:
    metrics = data.metrics if isinstance(data.metrics, dict) else {}
    error = error_text(data.error) if data.error is not None else ""
    if not error and data.status == "failed":
        told = [(decided or {}).get(name) for name in ("errorMessage", "message", "reasoning")]
        error = next((text for text in told if isinstance(text, str)), data.stop_reason)
    usage = metrics.get("accumulatedUsage")
    return End(error[:2_000], tokens_in(usage), cost_in(usage))


def site() -> Site:
    """The site whose page is being made."""
    found: Site = current_app.extensions["agentreplay"]
    return found
