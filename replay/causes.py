"""Which event made each difference between two states of a run.

A diff compares what was before with what came after, and many events may lie between. Each of them edited the value,
and each edit has a diff of its own; the cause of a change is the last edit that touched its place.

A place has no fixed name, though: the price that ends up at `/items/2/price` was at `/items/1/price` before something
was put in front of it. So places are *followed* through the edits, as a tree of their paths. Places in the later value
are followed backwards from the end, until the first edit that is met; places in the earlier value, where something was
removed, forwards from the start, since only there they have a name. An edit costs what it changed and what is followed
in the lists that it shifted, not everything that is followed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..recorder.events import Event
from .changes import Cause, Change, Changes
from .diff import diff_values
from .paths import Keys


@dataclass(frozen=True, slots=True)
class Edit:
    """What one event changed: a value, in stored form, before and after it.

    Attributes:
        step: the step whose share of the log holds the event.
    """

    event: Event
    step: int
    before: Any
    after: Any

    @property
    def cause(self) -> Cause:
        """What to name as the cause of a change that this edit made."""
        data = self.event.data
        source = getattr(data, "source", None)
        call = source.get("call") if isinstance(source, Mapping) else getattr(data, "call", None)
        return Cause(
            self.event.seq, self.step, self.event.kind, call or self.event.within, getattr(data, "reason", None)
        )


def with_causes(changes: Iterable[Change], edits: Sequence[Edit], *, backwards: bool = False) -> Changes:
    """Give the changes again, each with the edit that made it.

    Args:
        changes: between the value before the first edit and the one after the last.
        edits: in order; each goes on from what the one before it made.
        backwards: the changes lead from the later value to the earlier one.
    """
    changes, made = tuple(changes), _Made(edits)
    # What was removed is a place in the old value, everything else one in the new value.
    at_end = [change for change in changes if (change.kind == "remove") is backwards]
    at_start = [change for change in changes if (change.kind == "remove") is not backwards]
    found = {
        **dict(zip(map(id, at_end), _touched_last(at_end, made), strict=True)),
        **dict(zip(map(id, at_start), _touched_from_start(at_start, made), strict=True)),
    }
    edit_of = [found[id(change)] or _nearest(change, made) for change in changes]
    return Changes(
        [replace(change, cause=edit.cause if edit else None) for change, edit in zip(changes, edit_of, strict=True)]
    )


def last_edits(changes: Iterable[Change], edits: Sequence[Edit]) -> list[Edit | None]:
    """The last edit that touched each place, or None; the paths of `changes` are places after the last edit."""
    return _touched_last(tuple(changes), _Made(edits))


class _Made:
    """Edits in order, and what each of them changed, worked out once."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        self.edits = edits
        self._known: dict[int, Changes] = {}

    def by(self, at: int) -> Changes:
        if at not in self._known:
            self._known[at] = diff_values(self.edits[at].before, self.edits[at].after, inside_tags=True)
        return self._known[at]


def _touched_last(changes: Sequence[Change], made: _Made) -> list[Edit | None]:
    found: list[Edit | None] = [None] * len(changes)
    followed = _Followed(changes)
    for number in reversed(range(len(made.edits))):
        if not followed:
            break
        edited = made.by(number)
        touched = [at for change in edited if change.kind != "remove" for at in followed.touch(change, leave=False)]
        followed.move(_Shift(edited).back())
        # What was removed has a place in the value before only, which is where the places that are left are now.
        touched += [at for change in edited if change.kind == "remove" for at in followed.touch(change, leave=False)]
        for at in touched:
            found[at] = made.edits[number]
    return found


def _touched_from_start(changes: Sequence[Change], made: _Made) -> list[Edit | None]:
    found: list[Edit | None] = [None] * len(changes)
    followed = _Followed(changes)
    for number in range(len(made.edits)):
        if not followed:
            break
        edited = made.by(number)
        touched: list[int] = []
        for change in edited:
            if change.kind == "remove":
                touched += followed.touch(change, leave=True)
                if change.keys and isinstance(change.keys[-1], int):
                    followed.drop(change.keys)  # its index is another item's from now on
        followed.move(_Shift(edited).forth())
        touched += [at for change in edited if change.kind != "remove" for at in followed.touch(change, leave=True)]
        for at in touched:
            found[at] = made.edits[number]
    return found


def _nearest(change: Change, made: _Made) -> Edit | None:
    """The last of the edits that came closest to a place.

    Only for lists whose items changed places and contents by turns, so that the edits one by one pair the items in
    another way than all of them together.
    """
    best, closest = None, -1
    for number, edit in enumerate(made.edits):
        near = max((_in_common(change.keys, other.keys) for other in made.by(number)), default=-1)
        if near >= closest and near >= 0:
            best, closest = edit, near
    return best


def _in_common(a: Keys, b: Keys) -> int:
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


class _Node:
    """A place: the changes that are followed there, and the places below it."""

    __slots__ = ("below", "here")

    def __init__(self) -> None:
        self.here: list[int] = []
        self.below: dict[str | int, _Node] = {}

    def everything(self) -> Iterator[int]:
        nodes = [self]
        while nodes:
            node = nodes.pop()
            yield from node.here
            nodes.extend(node.below.values())


class _Followed:
    """The places that are followed, as a tree of their paths; false when there are none left."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self._root = _Node()
        self._moves = {at for at, change in enumerate(changes) if change.kind == "move"}
        self._left = len(changes)
        for at, change in enumerate(changes):
            node = self._root
            for key in change.keys:
                node = node.below.setdefault(key, _Node())
            node.here.append(at)

    def __bool__(self) -> bool:
        return self._left > 0

    def touch(self, change: Change, *, leave: bool) -> list[int]:
        """The places that a change touches: the one at `keys`, those above it, and those below unless it just moved.

        That something inside it changed is no news for an item that is followed because it moved.

        Args:
            change: what happened.
            leave: go on following what was touched.
        """
        touched: list[int] = []
        node = self._root
        for key in change.keys:
            inside = [at for at in node.here if at not in self._moves]
            touched += inside
            if inside and not leave:
                node.here = [at for at in node.here if at in self._moves]
            if key not in node.below:
                break
            node = node.below[key]
        else:
            touched += node.here if change.kind == "move" else node.everything()
            if not leave:
                node.here = []
                if change.kind != "move":
                    node.below = {}
        if not leave:
            self._left -= len(touched)
        return touched

    def drop(self, keys: Keys) -> None:
        """Stop following a place and all below it."""
        node = self._find(keys[:-1])
        gone = node.below.pop(keys[-1], None) if node is not None else None
        if gone is not None:
            self._left -= sum(1 for _ in gone.everything())

    def move(self, lists: Iterable[tuple[Keys, _Indexes]]) -> None:
        """Give the items of lists their other index; the innermost lists come first."""
        for keys, indexes in lists:
            node = self._find(keys)
            if (
                node is not None
                and max((key for key in node.below if isinstance(key, int)), default=-1) >= indexes.first
            ):
                node.below = {
                    other: below
                    for key, below in node.below.items()
                    if isinstance(key, int) and (other := indexes.other(key)) is not None
                }

    def _find(self, keys: Keys) -> _Node | None:
        node: _Node | None = self._root
        for key in keys:
            if node is None:
                return None
            node = node.below.get(key)
        return node


_NONE: Final[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class _Indexes:
    """Where the items of a list on one side of an edit are on its other side.

    Attributes:
        here: indexes on this side of items that stand elsewhere or are not there on the other side, ascending.
        there: likewise on the other side.
        moved: this side's index → the other side's.
    """

    here: Sequence[int]
    there: Sequence[int]
    moved: Mapping[int, int]

    @property
    def first(self) -> int:
        """Items before this index have the same one on both sides."""
        return min([*self.here[:1], *self.there[:1]])

    def other(self, index: int) -> int | None:
        """The other side's index of an item; None if the item is not there."""
        if index in self.moved:
            return self.moved[index]
        passed = bisect_left(self.here, index)
        if passed < len(self.here) and self.here[passed] == index:
            return None
        place = (
            index - passed
        )  # of the items that stayed, this many are before it; now count in those of the other side
        for at in self.there:
            if at > place:
                break
            place += 1
        return place


class _Shift:
    """How an edit moved the items of lists: what changed is a place before it, or after it, or both."""

    def __init__(self, made: Sequence[Change]) -> None:
        self._came: dict[Keys, list[int]] = {}  # in the value after
        self._gone: dict[Keys, list[int]] = {}  # in the value before
        self._moved: dict[Keys, dict[int, int]] = {}  # list in the value after: index after → before
        for change in made:
            at = change.keys[-1] if change.keys else ""
            if not isinstance(at, int) or change.kind == "replace":
                continue
            if change.kind == "remove":
                self._gone.setdefault(change.keys[:-1], []).append(at)
                continue
            self._came.setdefault(change.keys[:-1], []).append(at)
            if change.kind == "move":
                start = change.from_keys[-1]
                assert isinstance(start, int)
                self._gone.setdefault(change.from_keys[:-1], []).append(start)
                self._moved.setdefault(change.keys[:-1], {})[at] = start
        for indexes in (*self._came.values(), *self._gone.values()):
            indexes.sort()

    def back(self) -> list[tuple[Keys, _Indexes]]:
        """The lists of the value after in which items stood elsewhere before, innermost first."""
        return [
            (after, _Indexes(self._came.get(after, _NONE), self._gone.get(before, _NONE), self._moved.get(after, {})))
            for before, after in self._lists()
        ]

    def forth(self) -> list[tuple[Keys, _Indexes]]:
        """The lists of the value before in which items stand elsewhere after, innermost first."""
        return [
            (
                before,
                _Indexes(
                    self._gone.get(before, _NONE),
                    self._came.get(after, _NONE),
                    {start: to for to, start in self._moved.get(after, {}).items()},
                ),
            )
            for before, after in self._lists()
        ]

    def _lists(self) -> list[tuple[Keys, Keys]]:
        """Every list with another order or number of items, as (keys before, keys after), innermost first."""
        afters = {after: self._follow(after, back=True) for after in self._came}
        for before in self._gone:
            after = self._follow(before, back=False)
            if after is not None:
                afters.setdefault(after, before)
        pairs = [(before, after) for after, before in afters.items() if before is not None]
        return sorted(pairs, key=lambda pair: len(pair[1]), reverse=True)

    def _follow(self, keys: Keys, *, back: bool) -> Keys | None:
        """Where a place of one side is on the other; None if it is not there."""
        before: Keys = ()
        after: Keys = ()
        for key in keys:
            other: str | int | None = key
            if isinstance(key, int):
                came, gone = self._came.get(after, _NONE), self._gone.get(before, _NONE)
                moved = self._moved.get(after, {})
                if back:
                    other = _Indexes(came, gone, moved).other(key)
                else:
                    other = _Indexes(gone, came, {start: to for to, start in moved.items()}).other(key)
            if other is None:
                return None
            before, after = ((*before, other), (*after, key)) if back else ((*before, key), (*after, other))
        return after if not back else before
