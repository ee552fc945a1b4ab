"""In what two steps differ, in the order in which it happened.

Two steps whose prints differ are looked at event by event. Calls come first: those that ask the same are one call in
either run, whatever their order; of the others it is told whether a call asks something else, or something else is
called (`divergence`). What is not a call is compared in its order. A change of the payload is no difference by itself,
since another way to the same payload is none, unless a person made it to run the rest again.

The first difference is the one that explains the others. So each is put where it happened in the first run; what the
first run has not at all, behind the last thing before it that both have.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from .changes import MISSING, Changes
from .divergence import Difference, Kind, call_difference, missing_call, value_difference
from .equality import same
from .run_difference import RunDifference, of_two_runs
from .step_deeds import Deeds, Item, MadeCall, Side, paired
from .step_prints import is_edit

MOST: Final = 50
"""Calls of one step that are told of one by one: describing each looks at many others."""


def differences(left: Side, right: Side) -> list[RunDifference]:
    """Say in what a step of one run differs from one of another, in order; nothing if they are the same.

    Args:
        left: of the first run; what it has is what is expected.
        right: of the second run.
    """
    return _Comparison(left, right).differences()


def one_sided(side: Side, kind: Kind, runs: tuple[str, str]) -> RunDifference:
    """A step that only one of two runs has, as a difference: "missing step" or "extra step"."""
    deeds = Deeds(side)
    word = deeds.decisions[-1].tree.get("step") if deeds.decisions else None
    told = {"decision": word, "calls": [f"{call.kind} {call.name}" for call in deeds.calls]}
    first = side.events[0].seq
    if kind == "missing step":
        return RunDifference(kind, side.step, first, expected=told, runs=runs)
    return RunDifference(kind, side.step, actual=told, runs=runs, step2=side.step, seq2=first)


class _At(NamedTuple):
    """Where something is: the seqs of its events in both runs, as far as they have it."""

    old: int | None
    new: int | None


@dataclass(slots=True)
class _Comparison:
    """A comparison of two steps in the making.

    Attributes:
        left, right: the steps.
        both: (seq in the second run, seq in the first) of what both have.
        found: the differences, with where they are.
    """

    left: Side
    right: Side
    both: list[tuple[int, int]] = field(default_factory=list)
    found: list[tuple[_At, RunDifference]] = field(default_factory=list)

    def differences(self) -> list[RunDifference]:
        old, new = Deeds(self.left), Deeds(self.right)
        self.both.append((self.right.events[0].seq, self.left.events[0].seq))
        self._starts(old, new)
        self._calls(old, new)
        ordered: tuple[tuple[Kind, Sequence[Item], Sequence[Item]], ...] = (
            ("another value read", old.reads, new.reads),
            ("another input", old.answers, new.answers),
            ("another record", old.records, new.records),
            ("another result", old.late, new.late),
            ("another decision", old.decisions, new.decisions),
            ("another outcome", old.outcomes, new.outcomes),
        )
        for kind, olds, news in ordered:
            self._in_order(kind, olds, news)
        self._payloads(old, new)
        self.both.sort()
        return [difference for _, difference in sorted(self.found, key=lambda one: self._place(one[0]))]

    # -- placing -----------------------------------------------------------------------------------------

    def _add(self, difference: Difference, at: _At, **more: Any) -> None:
        told = of_two_runs(difference, (self.left.run, self.right.run), step2=self.right.step, seq2=at.new, **more)
        self.found.append((at, told))

    def _place(self, at: _At) -> tuple[int, int]:
        """Where something is in the first run; what is in the second alone is behind what both have before it."""
        if at.old is not None:
            return at.old, 0
        return max([seq for _, seq in self.both[: self._behind(at.new)]], default=-1), 1

    def _behind(self, new: int | None) -> int:
        """How much of what both have is, in the second run, before an event or is that event; `both` is sorted."""
        return bisect_right(self.both, (new or 0, self.left.last))

    def _value(self, kind: Kind, old: Any, new: Any, at: _At, **about: Any) -> Difference:
        return value_difference(kind, old, new, step=self.left.step, seq=at.old, run=self.left.run, **about)

    # -- what is compared in its order ---------------------------------------------------------------------

    def _starts(self, old: Deeds, new: Deeds) -> None:
        """Compare what the runs were started with, and what a person gave a re-run; the payload aside."""
        for one, other in ((old.given, new.given), (old.edits, new.edits)):
            trees = [MISSING if item is None else item.tree for item in (one, other)]
            if not same(*trees):
                at = _at(one, other)
                self._add(self._value("another input", trees[0], trees[1], at), at)

    def _in_order(self, kind: Kind, olds: Sequence[Item], news: Sequence[Item]) -> None:
        """Compare items one by one, up to the first that differs: it explains those after it."""
        for old, new in zip_longest(olds, news):
            if old is None or new is None or old.name != new.name or not same(old.tree, new.tree):
                self._differ(kind, old, new)
                return
            self.both.append((new.event.seq, old.event.seq))

    def _differ(self, kind: Kind, old: Item | None, new: Item | None) -> None:
        trees = [MISSING if item is None else item.tree for item in (old, new)]
        names = [item.name for item in (old, new) if item is not None]
        if len(set(names)) > 1:
            trees = [{name: tree} for name, tree in zip(names, trees, strict=True)]
        at = _at(old, new)
        self._add(self._value(kind, trees[0], trees[1], at, name=names[0] or None), at)

    # -- calls -----------------------------------------------------------------------------------------------

    def _calls(self, old: Deeds, new: Deeds) -> None:
        pairs, olds, news = paired(old.calls, new.calls)
        for one, other in pairs:
            self._pair(one, other)
        # What is left is looked at within the same call: the one that it was made in has a pair, or is none of these.
        inside = {other.call: one.call for one, other in pairs}
        known = set(inside.values())
        for scope in dict.fromkeys([None, *known]):
            left = [call for call in olds if (call.within if call.within in known else None) == scope]
            right = [call for call in news if inside.get(call.within or "") == scope]
            if left or right:
                self._unpaired(left, right)

    def _pair(self, old: MadeCall, new: MadeCall) -> None:
        """Compare what two calls gave that ask the same."""
        self.both.append((new.seq, old.seq))
        about: dict[str, Any] = {"call": old.call, "name": old.name}
        more: dict[str, Any] = {"call2": new.call, "effect": old.kind}
        if old.model != new.model:
            at = _At(old.seq, new.seq)
            self._add(self._value("another model", old.model, new.model, at, **about), at, **more)
        if old.status == new.status and same(old.answer, new.answer):
            if old.ended is not None and new.ended is not None:
                self.both.append((new.ended.seq, old.ended.seq))
            return
        kind: Kind = "another error" if old.status == new.status == "failed" else "another result"
        at = _At(*[None if call.ended is None else call.ended.seq for call in (old, new)])
        if old.status == new.status:
            difference = self._value(kind, old.answer, new.answer, at, **about)
        else:  # what one returned has nothing to do with what the other failed with
            difference = Difference(kind, self.left.step, at.old, expected=old.told, actual=new.told, **about)
        self._add(difference, at, **more)

    def _unpaired(self, olds: list[MadeCall], news: list[MadeCall]) -> None:
        """Say of calls that only one of the steps made in this way what they are."""
        extra: list[tuple[MadeCall, Difference]] = []
        for new in news[:MOST]:
            strand = [call for call in olds if call.task == new.task]
            others = [call for call in olds if call.task != new.task]
            found = call_difference(new.kind, new.name, new.arguments, strand, others, step=self.left.step)
            meant = next((call for call in olds if found.kind != "extra call" and call.seq == found.seq), None)
            if meant is None:
                extra.append((new, found))
            else:
                olds.remove(meant)
                self._meant(found, meant, new)
        for new, found in extra:
            instead = self._in_place_of(new, olds)
            if instead is None:
                self._add(found, _At(None, new.seq), call2=new.call)
                continue
            olds.remove(instead)
            lacks = missing_call(instead, step=self.left.step)
            self._meant(replace(lacks, kind="another call", actual=found.actual), instead, new)
        for old in olds[:MOST]:
            self._add(missing_call(old, step=self.left.step), _At(old.seq, None))

    def _meant(self, found: Difference, old: MadeCall, new: MadeCall) -> None:
        """Keep a difference between two calls that stand for each other."""
        self.both.append((new.seq, old.seq))
        self._add(found, _At(old.seq, new.seq), call2=new.call)

    def _in_place_of(self, new: MadeCall, olds: Sequence[MadeCall]) -> MadeCall | None:
        """A call of the same task with nothing that both have between where it is made and where the new one is."""
        self.both.sort()
        at = self._behind(new.seq)
        before = max([seq for _, seq in self.both[:at]], default=-1)
        after = min([seq for _, seq in self.both[at:]], default=self.left.last + 1)
        return next((call for call in olds if call.task == new.task and before < call.seq < after), None)

    # -- the payload -------------------------------------------------------------------------------------------

    def _payloads(self, old: Deeds, new: Deeds) -> None:
        told = self._edits(new, old, is_new=True) | self._edits(old, new, is_new=False)
        if self.left.payload == self.right.payload:
            return
        trees = [side.comparable(side.payload_at(side.last)) for side in (self.left, self.right)]
        if same(*trees):
            return
        at, why = _parting(old, new)
        difference = self._value("another payload", trees[0], trees[1], at)
        rest = Changes(change for change in difference.changes if (change.path, change.kind) not in told)
        if told and rest:
            first = rest[0]
            difference = replace(difference, changes=rest, path=first.path, expected=first.old, actual=first.new)
        if rest:
            self._add(difference, at, why=why)

    def _edits(self, deeds: Deeds, other: Deeds, *, is_new: bool) -> set[tuple[str, str]]:
        """The edits of the payload that only one of the runs has, each with what it changed; gives the places."""
        told: set[tuple[str, str]] = set()
        theirs = [event.data.hash_after for event in other.changed if is_edit(event.data.source)]
        for event in deeds.changed:
            if not is_edit(event.data.source) or event.data.hash_after in theirs:
                continue
            before, after = [deeds.side.comparable(deeds.side.payload_at(seq)) for seq in (event.seq - 1, event.seq)]
            if same(before, after):
                continue
            at = _At(None, event.seq) if is_new else _At(event.seq, None)
            old, new = (before, after) if is_new else (after, before)
            difference = self._value("another payload", old, new, at)
            self._add(difference, at, why=event.data.reason)
            told |= {(change.path, change.kind) for change in difference.changes}
        return told


def _at(old: Item | None, new: Item | None) -> _At:
    return _At(None if old is None else old.event.seq, None if new is None else new.event.seq)


def _parting(old: Deeds, new: Deeds) -> tuple[_At, str | None]:
    """The change of the payload after which it is another one, in either run, and why it was made."""
    starts = old.start, new.start
    if starts[0] is not None and starts[1] is not None and starts[0].data.payload_hash != starts[1].data.payload_hash:
        return _At(starts[0].seq, starts[1].seq), None
    made = [[event for event in deeds.changed if not is_edit(event.data.source)] for deeds in (old, new)]
    for one, other in zip_longest(*made):
        if one is None or other is None or one.data.hash_after != other.data.hash_after:
            reason = (one or other).data.reason
            return _At(None if one is None else one.seq, None if other is None else other.seq), reason
    return _At(old.side.last, new.side.last), None
