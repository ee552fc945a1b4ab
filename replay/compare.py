"""Two recorded runs side by side: which step is which, where they part first, and in what.

What two runs share as events is not even read: a fork has its parent's up to where it left. The rest is read once, as
stored, and made into prints (`step_prints`); steps with equal prints are the same, and only where they differ something
is decoded and folded. The first pair of steps that really differs is looked into; any other one when it is asked for.

A fork and its parent, or two forks of one run, are compared step by step by number; runs that share nothing by what
their steps did (`step_pairs`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from ..recorder.errors import AgentReplayError, CorruptLog, RunNotFound
from ..recorder.event_codec import StoredEvent
from ..recorder.redaction import without_digests
from ..recorder.store import FIRST, EventStore, RunInfo, RunRef
from .lineage import last_shared
from .payloads import PayloadReader
from .reading import last_step, resolve
from .run_difference import RunDifference
from .step_deeds import Side
from .step_differences import differences, one_sided
from .step_pairs import by_content, by_number
from .step_prints import Respect, StepPrint, Unreadable, prints, respects

Status: TypeAlias = Literal["same", "payload", "differs", "missing", "extra"]
"""How two steps are to each other: the same; the same on another payload; different; in the first, or the second, run
alone."""

Relation: TypeAlias = Literal["same", "parent", "fork", "forks", "none"]
"""What the second run is to the first: itself, its parent, its fork, a fork of the same run, or nothing of that."""


@dataclass(frozen=True, slots=True)
class StepPair:
    """A step of the first run and the step of the second that it is.

    Attributes:
        old, new: their prints; None where a run has no such step.
        status: see `Status`.
        differs: in which respects.
    """

    old: StepPrint | None
    new: StepPrint | None
    status: Status
    differs: tuple[Respect, ...] = ()

    @property
    def numbers(self) -> tuple[int | None, int | None]:
        """The numbers of both steps."""
        return (None if self.old is None else self.old.step), (None if self.new is None else self.new.step)

    def to_json(self) -> dict[str, Any]:
        """`{steps, status, differs, decisions, calls}`, the last two of either run."""
        both = (self.old, self.new)
        return {
            "steps": list(self.numbers),
            "status": self.status,
            "differs": list(self.differs),
            "decisions": [None if step is None else step.word for step in both],
            "calls": [None if step is None else list(step.calls) for step in both],
        }


@dataclass(repr=False)
class RunComparison:
    """Two runs side by side.

    Attributes:
        store: where they are.
        runs: both.
        relation: see `Relation`.
        shared: the last step that is the same events in both; None if they share none. Step 0 is the start.
        pairs: the steps after that; of runs that share nothing, all of them, the start included.
        foreign: whether the redaction tokens of the runs can be compared by their kind only.
        first: the number of the first pair that differs; None if none does.
        differences: in what that pair differs, in order.
    """

    store: EventStore
    runs: tuple[RunInfo, RunInfo]
    relation: Relation
    shared: int | None = None
    pairs: Sequence[StepPair] = ()
    first: int | None = None
    differences: Sequence[RunDifference] = ()
    foreign: bool = False

    def shared_steps(self, count: int) -> list[StepPrint]:
        """The last of the steps that both runs have as events, up to `count` of them; the start aside."""
        if not self.shared or count < 1:
            return []
        last = self.pairs[0].old.first - 1 if self.pairs and self.pairs[0].old is not None else None
        log = _Log(self.store, self.runs[0], foreign=False)
        seq = self.runs[0].head_seq if last is None else last
        steps = log.prints(_start_of_step(self.store, self.runs[0], seq, count), seq)
        return [step for step in steps if 0 < step.step <= self.shared]

    @property
    def is_same(self) -> bool:
        """Whether no step differs."""
        return self.first is None

    @property
    def first_difference(self) -> RunDifference | None:
        """The difference that comes first; None if there is none."""
        return self.differences[0] if self.differences else None

    def differences_at(self, at: int) -> list[RunDifference]:
        """In what a pair differs, in order; the first pair has number 0."""
        if at == self.first:
            return list(self.differences)
        old, new = [_Log(self.store, info, self.foreign) for info in self.runs]
        return _look((old, new), self.pairs, at)

    @cached_property
    def counts(self) -> dict[Status, int]:
        """How many pairs of steps there are of each status, the start of the runs aside."""
        found = Counter(pair.status for pair in self.pairs if pair.numbers != (0, 0))
        found["same"] += self.shared or 0
        return {name: found[name] for name in ("same", "payload", "differs", "missing", "extra")}

    def __repr__(self) -> str:
        first = "no difference" if self.first_difference is None else self.first_difference.headline
        return f"<RunComparison {self.runs[0].id}, {self.runs[1].id}: {first}>"

    def to_json(self) -> dict[str, Any]:
        """As JSON data: `{runs, relation, shared, same, counts, first, also, steps}`.

        `first` is the first difference or null, `also` are the others of the same step.
        """
        told = [difference.to_json() for difference in self.differences]
        return {
            "runs": [
                {"run": info.id, "uid": info.uid, "agent": info.agent, "status": info.status, "steps": info.steps}
                for info in self.runs
            ],
            "relation": self.relation,
            "shared": self.shared,
            "same": self.is_same,
            "counts": self.counts,
            "first": told[0] if told else None,
            "also": told[1:],
            "steps": [pair.to_json() for pair in self.pairs],
        }


def compare_runs(
    run: RunRef,
    other: RunRef,
    store: EventStore | str | None = None,
    *,
    until: tuple[int | None, int | None] = (None, None),
) -> RunComparison:
    """Compare two runs step by step.

    Args:
        run: the first, as "run42", its number, uid, a unique prefix of the uid, or "@last".
        other: the second, likewise.
        store: a store, or the URL of one; by default the one that is found from here.
        until: the last event of either run that is looked at, the end of a step; by default its last.

    Raises:
        RunNotFound: there is no such run; or the run is not there that one of them was forked from.
        CorruptLog: an event cannot be read, or the payload does not follow from the log.
    """
    found, old = resolve(run, store)
    new = found.run(other)
    if old.uid == new.uid:
        return RunComparison(found, (old, new), "same", last_step(found, old))
    relation, seq = _relation(found, old, new)
    foreign = _is_foreign(found, old, new)
    logs = _Log(found, old, foreign), _Log(found, new, foreign)
    start = FIRST
    if seq is not None:
        start = _start_of_step(found, old, seq)
    steps = [list(log.prints(start, last)) for log, last in zip(logs, until, strict=True)]
    align = by_content if seq is None else by_number
    pairs = [_pair(None if a is None else steps[0][a], None if b is None else steps[1][b]) for a, b in align(*steps)]
    shared = None
    if seq is not None and pairs and pairs[0].status == "same":
        shared, pairs = pairs[0].numbers[0], pairs[1:]
    elif seq is not None and steps[0] and steps[0][0].step > 0:
        shared = steps[0][0].step - 1
    first, told = _first(logs, pairs)
    return RunComparison(found, (old, new), relation, shared, pairs, first, told, foreign)


def _pair(old: StepPrint | None, new: StepPrint | None) -> StepPair:
    if old is None or new is None:
        return StepPair(old, new, "missing" if new is None else "extra")
    differs = respects(old, new)
    status: Status = "same" if not differs else "payload" if differs == ("payload",) else "differs"
    return StepPair(old, new, status, differs)


def _first(logs: tuple[_Log, _Log], pairs: list[StepPair]) -> tuple[int | None, Sequence[RunDifference]]:
    """The first pair that differs, and in what. Pairs of which only the stored bytes differ become the same."""
    for at, pair in enumerate(pairs):
        if pair.status == "same":
            continue
        told = _look(logs, pairs, at)
        if told:
            return at, told
        pairs[at] = StepPair(pair.old, pair.new, "same")
    return None, ()


def _look(logs: tuple[_Log, _Log], pairs: Sequence[StepPair], at: int) -> list[RunDifference]:
    """In what a pair differs."""
    pair = pairs[at]
    runs = logs[0].info.id, logs[1].info.id
    if pair.old is None or pair.new is None:
        if pair.old is not None:
            return [one_sided(logs[0].side(pair.old), "missing step", runs)]
        assert pair.new is not None  # one of them is
        return [one_sided(logs[1].side(pair.new), "extra step", runs)]
    if not logs[0].foreign and pair.old.first > 0 and pair.new.first > 0 and _is_alike_before(pairs, at):
        logs[1].payloads.take_over(logs[0].payloads, pair.old.first - 1, pair.new.first - 1)
    return differences(logs[0].side(pair.old), logs[1].side(pair.new))


def _is_alike_before(pairs: Sequence[StepPair], at: int) -> bool:
    """Whether both runs have the same payload before a pair; before the first pair is what they share as events."""
    old = next((pair.old.payload for pair in reversed(pairs[:at]) if pair.old is not None), None)
    new = next((pair.new.payload for pair in reversed(pairs[:at]) if pair.new is not None), None)
    return old == new


# -- what two runs have in common ------------------------------------------------------------------------------------


def _relation(store: EventStore, old: RunInfo, new: RunInfo) -> tuple[Relation, int | None]:
    """What the second run is to the first, and the last event that both share."""
    found = last_shared(store, old, new)
    if found is None:
        return "none", None
    uid, seq = found
    return ("fork" if uid == old.uid else "parent" if uid == new.uid else "forks"), seq


def _start_of_step(store: EventStore, info: RunInfo, seq: int, steps: int = 1) -> int:
    """The event before the step that event `seq` is in, or before so many steps; looks back from there."""
    width = 64
    while True:
        after = max(seq - width, FIRST)
        starts = [row.seq for row in store.rows(info, after, seq) if row.kind == "round.started"]
        if len(starts) >= steps or after == FIRST:
            return starts[-steps] - 1 if len(starts) >= steps else FIRST
        width *= 8


def _is_foreign(store: EventStore, *infos: RunInfo) -> bool:
    """Whether the redaction tokens of the runs were made with different keys."""
    checks = set()
    for info in infos:
        start = next(store.events(info, until=0, conversations=False), None)
        if start is not None and start.kind == "run.started":
            checks.add((start.data.redaction or {}).get("key_check"))
    return len(checks - {None}) > 1


# -- reading -----------------------------------------------------------------------------------------------------------


class _Log:
    """Reads one of the runs.

    Args:
        store, info: the run.
        foreign: the redaction tokens of the runs can be compared by their kind only.
    """

    def __init__(self, store: EventStore, info: RunInfo, foreign: bool) -> None:
        self.store, self.info, self.foreign = store, info, foreign
        self.payloads = PayloadReader(store, info)
        self._children: dict[str, Any] = {}

    def prints(self, after: int, until: int | None = None) -> Iterator[StepPrint]:
        """The prints of the steps after an event, which is the last of a step, up to another."""
        try:
            yield from prints(self.store.rows(self.info, after, until), self.child_start, foreign=self.foreign)
        except Unreadable as error:
            raise self._corrupt(error.row) from error

    def _corrupt(self, row: StoredEvent) -> AgentReplayError:
        try:
            self.store.decode(self.info, row)
        except AgentReplayError as error:
            return error
        return CorruptLog(
            f"{self.info.id}, event {row.seq} ({row.kind}): it lacks what an event of that kind has. "
            f"`agentreplay verify {self.info.id}` shows what is damaged.",
            run=self.info.id,
            seq=row.seq,
        )

    def side(self, step: StepPrint) -> Side:
        """A step, to be looked into."""
        return Side(
            self.info.id,
            step.step,
            list(self.store.events(self.info, step.first - 1, step.last)),
            step.payload,
            self.payloads.after,
            self.child_start,
            self._name_of,
            without_digests if self.foreign else _as_it_is,
        )

    def child_start(self, uid: str) -> Any:
        """What a child run was given; None if it is not here."""
        if uid not in self._children:
            self._children[uid] = self._read_start(uid)
        return self._children[uid]

    def _read_start(self, uid: str) -> Any:
        try:
            start = next(self.store.events(uid, until=0, conversations=False), None)
        except RunNotFound:
            return None
        if start is None or start.kind != "run.started":
            return None
        return {"payload": start.data.payload, "input": start.data.input, "params": start.data.params}

    def _name_of(self, uid: str) -> str:
        try:
            return self.store.run(uid).id
        except RunNotFound:
            return uid


def _as_it_is(tree: Any) -> Any:
    return tree
