"""The tree that a run belongs to: the run it all began with, its forks, their forks, and the child runs of each.

Of a fork is told at which step it parted, what was edited there, and how it ended; of a child run, in which step it was
started. A few events of each run say that, so a tree of hundreds is read at once, and one that is damaged is shown as
far as it can be read: a parent of which only a beginning is here, or nothing but its name in a fork.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, Literal, TypeAlias

from ..recorder.errors import AgentReplayError
from ..recorder.events import ErrorInfo, Event
from ..recorder.store import FIRST, EventStore, RunInfo, RunRef
from ..recorder.values import loads
from .listing import standing
from .reading import resolve

Kind: TypeAlias = Literal["root", "fork", "child"]
"""What a run of a tree is to the one above it: nothing is above it, it was forked from it, or started by it."""


@dataclass(slots=True)
class TreeRun:
    """A run of a tree.

    Attributes:
        run: what it is called; of one that is not in the store its uid.
        uid: its name everywhere.
        kind: see `Kind`.
        depth: how many runs are above it.
        above: what the run above it is called, or None.
        step: of a fork the first step of its own, of a child run the step in which it was started; None if that is not
            known.
        edits: of a fork: what was edited, as its log tells it.
        agent, status, steps, duration: as in a list of runs; the status is "missing" of a run that is not here.
        value: what it completed with, in stored form, or None.
        error: what it failed with, or None.
        said: of one that failed without an exception, why, in the words of its last decision.
        note: what else is to be known: that only a beginning of it is here, or what of it cannot be read.
    """

    run: str
    uid: str
    kind: Kind
    depth: int = 0
    above: str | None = None
    step: int | None = None
    edits: Sequence[Mapping[str, Any]] = ()
    agent: str = ""
    status: str = "missing"
    steps: int = 0
    duration: float | None = None
    value: Any = None
    error: ErrorInfo | None = None
    said: str | None = None
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """All attributes by their names; the error as `{type, message}`."""
        told = {name: getattr(self, name) for name in self.__slots__}
        error = None if self.error is None else {"type": self.error.type, "message": self.error.message}
        return {**told, "edits": list(self.edits), "error": error}


@dataclass(frozen=True, slots=True)
class RunTree:
    """A tree of runs.

    Attributes:
        run: what the run is called whose tree was asked for.
        runs: from the first one on, each before those below it: forks by the step at which they parted, and child runs
            by that in which they were started, the older one first.
    """

    run: str
    runs: tuple[TreeRun, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON data: `{run, runs}`."""
        return {"run": self.run, "runs": [one.to_json() for one in self.runs]}


def tree_of(run: RunRef, store: EventStore | str | None = None) -> RunTree:
    """The tree that a run belongs to.

    Args:
        run: any run of it; as "run42", its number, uid, a unique prefix of the uid, or "@last".
        store: a store, or the URL of one; by default the one that is found from here.

    Raises:
        RunNotFound: there is no such run.
    """
    found, info = resolve(run, store)
    return RunTree(info.id, tuple(_Family(found).runs(info)))


@dataclass(slots=True)
class _Family:
    """The runs of a store by what they come from."""

    store: EventStore
    infos: dict[str, RunInfo] = field(default_factory=dict)
    below: dict[str, list[RunInfo]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.infos = {info.uid: info for info in self.store.runs()}
        for info in self.infos.values():
            above = _above(info)
            if above is not None:
                self.below.setdefault(above, []).append(info)

    def runs(self, info: RunInfo) -> Iterator[TreeRun]:
        todo = [self._first(info)]
        seen = {todo[0].uid}
        while todo:
            one = todo.pop()
            yield one
            below = [info for info in self.below.get(one.uid, ()) if info.uid not in seen]
            seen.update([info.uid for info in below])
            started = self._started(one.uid) if any(info.fork_of is None for info in below) else {}
            told = [self._told(info, one, started) for info in below]
            # Python sorts stably, and runs come by number: the older of two that parted at one step stays first.
            todo += sorted(told, key=lambda run: inf if run.step is None else run.step)[::-1]

    def _first(self, info: RunInfo) -> TreeRun:
        """The run that all of the tree come from."""
        passed = {info.uid}
        while (above := _above(info)) is not None and above not in passed:
            if above not in self.infos:
                return TreeRun(above, above, "root", note="it is not in this store")
            info = self.infos[above]
            passed.add(above)
        return self._told(info, None, {})

    def _told(self, info: RunInfo, above: TreeRun | None, started: Mapping[str, int]) -> TreeRun:
        kind: Kind = "root" if above is None else "child" if info.fork_of is None else "fork"
        one = TreeRun(
            info.id,
            info.uid,
            kind,
            0 if above is None else above.depth + 1,
            None if above is None else above.run,
            started.get(info.uid),
            agent=info.agent,
            status=standing(info),
            steps=info.steps,
            duration=info.duration,
        )
        notes = []
        if info.origin in _NOTES:
            notes.append(_NOTES[info.origin])
        try:
            self._read(info, one)
        except AgentReplayError as error:
            notes.append(str(error))
        one.note = "; ".join(notes) or None
        return one

    def _read(self, info: RunInfo, one: TreeRun) -> None:
        if one.kind == "fork" and info.fork_seq is not None:
            self._read_fork(info, info.fork_seq, one)
        last = self._event(info, info.head_seq)
        if last is None or last.kind != "run.finished":
            return
        one.value, one.error = getattr(last.data, "value", None), getattr(last.data, "error", None)
        if info.status == "failed" and one.error is None:
            one.said = self._said(info)

    def _read_fork(self, info: RunInfo, shared: int, one: TreeRun) -> None:
        begun = next((row for row in self.store.rows(info, shared, shared + 2) if row.kind == "round.started"), None)
        one.step = None if begun is None else begun.round
        forked = self._event(info, shared + 1)
        if forked is not None:
            one.step = one.step or forked.round + 1
            one.edits = tuple(edit for edit in getattr(forked.data, "edits", ()) if isinstance(edit, Mapping))

    def _said(self, info: RunInfo) -> str | None:
        """Why a run gave up, in the words of its last decision, if that is near its end."""
        own = FIRST if info.fork_seq is None else info.fork_seq
        rows = self.store.rows(info, max(info.head_seq - _NEAR, own), info.head_seq)
        decided = [row for row in rows if row.kind == "step.decided"]
        decision = self.store.decode(info, decided[-1]).data.decision if decided else {}
        said = decision.get("errorMessage") or decision.get("reasoning")
        return said if isinstance(said, str) else None

    def _event(self, info: RunInfo, seq: int) -> Event | None:
        """One of a run's own events; its parents need not be there for that."""
        own = 0 if info.fork_seq is None else info.fork_seq + 1
        row = next(self.store.rows(info, seq - 1, seq), None) if seq >= own else None
        return None if row is None else self.store.decode(info, row)

    def _started(self, uid: str) -> dict[str, int]:
        """In which steps a run started its child runs, as far as it can be read."""
        info = self.infos.get(uid)
        wanted = {child.uid for child in self.below.get(uid, ()) if child.fork_of is None}
        steps: dict[str, int] = {}
        try:
            for row in () if info is None else self.store.rows(info):
                if row.kind == "subrun.started" and row.body is not None:
                    steps.setdefault(str(loads(row.body).get("run")), row.round)
                    if wanted <= steps.keys():
                        break
        except (AgentReplayError, ValueError, AttributeError):
            pass  # what can be read is told; `verify` says what cannot
        return steps


_NEAR: Final = 50  # events before the last one that are searched

_NOTES: Final = {
    "prefix": "only the beginning that a fork shares is in this store",
    "salvaged": "its file had lost its end",
}


def _above(info: RunInfo) -> str | None:
    """The run that a run was forked from, else the one that started it."""
    return info.fork_of if info.fork_of is not None else info.parent
