"""A change: one difference between two values, to be read, stored as JSON, or applied.

Changes speak of two trees at once. What was removed, and where an item moved from, are places in the old value;
everything else is a place in the new one. A person needs no more; a program that applies changes one after the other
needs them in an order in which each place exists when its turn comes, which is what `to_json_patch` works out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from html import escape
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from ..recorder.values import decode
from .equality import stored_tree
from .paths import Keys, display_keys, join, keys_of
from .readable import count, readable

Kind: TypeAlias = Literal["add", "remove", "replace", "move"]


class Missing(Enum):
    """The type of `MISSING`."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING
"""No value at all, which is not the same as null."""

_SHOWN: Final = 200  # characters of a value in a notebook


@dataclass(frozen=True, slots=True)
class Cause:
    """The event that made a change.

    Attributes:
        seq: of the event.
        step: the round that was running, from 1.
        kind: of the event, such as `payload.changed`.
        call: id of the model or tool call inside which it happened, or None.
        why: the reason that was given, in the words of who gave it.
    """

    seq: int
    step: int
    kind: str
    call: str | None = None
    why: str | None = None


class Whole(NamedTuple):
    """What a JSON Patch, whose paths do not lead into it, replaces as a whole: where in the new value, and by what."""

    keys: Keys
    new: Any


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between an old and a new value.

    Attributes:
        path: JSON Pointer, into the new value; of a removed value, into the old one.
        kind: `add`, `remove`, `replace` or `move` (an item that stands elsewhere in its list).
        old: the value before; `MISSING` if it was added.
        new: the value after; `MISSING` if it was removed. Of a move both are the item as it was: what changed inside
            it follows as changes of their own.
        cause: the event that made the change, if that is known.
        from_path: of a move: JSON Pointer into the old value.
        keys: `path` in parts, list indexes as `int`. Left out, a number in the path is taken for an index.
        from_keys: `from_path` in parts.
        whole: of a change inside of what a JSON Patch does not lead into, such as a tuple: the outermost of these.
        decoded: a patch holds the values that `old` and `new` are the stored form of.
    """

    path: str
    kind: Kind
    old: Any = MISSING
    new: Any = MISSING
    cause: Cause | None = None
    from_path: str | None = None
    keys: Keys = field(default=(), repr=False, compare=False)
    from_keys: Keys = field(default=(), repr=False, compare=False)
    whole: Whole | None = field(default=None, repr=False, compare=False)
    decoded: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.path and not self.keys:
            object.__setattr__(self, "keys", keys_of(self.path))
        if self.from_path and not self.from_keys:
            object.__setattr__(self, "from_keys", keys_of(self.from_path))

    @property
    def display(self) -> str:
        """The path as people write it: `order.items[0].price`."""
        return display_keys(self.keys)

    def under(self, keys: Keys) -> Change:
        """The same change, of a value that stands at `keys` of another."""
        moved, whole = (*keys, *self.from_keys), self.whole
        return replace(
            self,
            path=join((*keys, *self.keys)),
            keys=(*keys, *self.keys),
            from_path=None if self.from_path is None else join(moved),
            from_keys=() if self.from_path is None else moved,
            whole=None if whole is None else Whole((*keys, *whole.keys), whole.new),
        )

    @property
    def from_display(self) -> str | None:
        """Where a moved item was, as people write it."""
        return None if self.from_path is None else display_keys(self.from_keys)


class Changes(tuple[Change, ...]):
    """The changes of one comparison, which a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        rows = "".join(
            [
                f"<tr><td>{change.kind}</td><td>{escape(change.display)}</td>"
                f"<td>{_cell(change.from_display, change.old)}</td><td>{_cell(None, change.new)}</td></tr>"
                for change in self
            ]
        )
        head = "<tr><th></th><th>path</th><th>old</th><th>new</th></tr>"
        return f"<table><caption>{escape(summary_of(self))}</caption>{head}{rows}</table>"


def with_cause(changes: Iterable[Change], cause: Cause | None) -> Changes:
    """Give the changes again, made by `cause`."""
    return Changes([replace(change, cause=cause) for change in changes])


def to_json(change: Change) -> dict[str, Any]:
    """Give a change as JSON data: `{path, display, kind, old, new, cause}`, and `from` if it is a move.

    `old` is left out of what was added and `new` of what was removed; `cause` is `{seq, step, kind, call}` or null.
    """
    data: dict[str, Any] = {"path": change.path, "display": change.display, "kind": change.kind}
    if change.from_path is not None:
        data["from"] = change.from_path
    if change.old is not MISSING:
        data["old"] = stored_tree(change.old)
    if change.new is not MISSING:
        data["new"] = stored_tree(change.new)
    cause = change.cause
    data["cause"] = (
        None if cause is None else {"seq": cause.seq, "step": cause.step, "kind": cause.kind, "call": cause.call}
    )
    return data


def to_json_patch(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """Give the changes of one comparison as operations of a JSON Patch (RFC 6902), in an order that applies.

    The patch is for what was compared: of `diff_values(a, b)` it turns a into b, of `diff_states(a, b)` the payload
    `a.payload` into `b.payload`. It leads into objects and lists only. Of a tuple, or an OrderedDict, in which
    something changed it replaces the whole.

    Paths of changes are into the old value (removed, moved from) or into the new one (all else). So first everything
    is removed, from the back, while old indexes hold. Then items move, inner lists first; each list is followed item
    by item, since a move shifts those between. What is added from the front comes to stand at its new index, and then
    every path of the new value holds.

    The values in the operations are those of the changes, not copies. Apply a patch to a document in which no object
    stands in two places, such as one read from JSON: changing it in one place would change it in the other.
    """
    told = tuple(changes)
    wholes = {change.whole.keys: change for change in told if change.whole is not None}
    changes = [change for change in told if change.whole is None]
    removed = sorted([change.keys for change in changes if change.kind == "remove"], reverse=True)
    added = sorted([change for change in changes if change.kind == "add"], key=lambda change: change.keys)
    patch: list[dict[str, Any]] = [{"op": "remove", "path": join(keys)} for keys in removed]
    patch += _moves(changes, removed)
    patch += [{"op": "add", "path": change.path, "value": _value(change, change.new)} for change in added]
    replaced = [(change.path, change, change.new) for change in changes if change.kind == "replace"]
    replaced += [(join(keys), change, change.whole.new) for keys, change in wholes.items() if change.whole is not None]
    patch += [{"op": "replace", "path": path, "value": _value(change, value)} for path, change, value in replaced]
    return patch


def _value(change: Change, value: Any) -> Any:
    """A value of a change as it stands in a patch."""
    return decode(value) if change.decoded else value


def summary_of(changes: Sequence[Change]) -> str:
    """Say how many changes there are: `3 changes: 1 added, 1 removed, 1 replaced`, or `no difference`."""
    if not changes:
        return "no difference"
    kinds = [change.kind for change in changes]
    words = {"add": "added", "remove": "removed", "replace": "replaced", "move": "moved"}
    counts = [f"{kinds.count(kind):,} {word}" for kind, word in words.items() if kind in kinds]
    return f"{count(len(changes), 'change')}: {', '.join(counts)}"


def _cell(place: str | None, value: Any) -> str:
    shown = "" if value is MISSING else readable(value, _SHOWN)
    return escape(f"at {place}: {shown}" if place else shown)


def _moves(changes: Sequence[Change], removed: Sequence[Keys]) -> list[dict[str, Any]]:
    """Give the moves as operations on the old value from which `removed` is gone already."""
    gone: dict[Keys, list[int]] = {}
    for keys in reversed(removed):
        if isinstance(keys[-1], int):
            gone.setdefault(keys[:-1], []).append(keys[-1])
    lists: dict[Keys, list[Change]] = {}
    for change in changes:
        if change.kind == "move":
            lists.setdefault(change.from_keys[:-1], []).append(change)
    added: dict[Keys, list[int]] = {}
    for change in changes:
        if change.kind == "add" and isinstance(change.keys[-1], int):
            added.setdefault(change.keys[:-1], []).append(change.keys[-1])
    patch: list[dict[str, Any]] = []
    for parent in sorted(lists, key=len, reverse=True):
        here = _after_removal(parent, gone)
        inserted = sorted(added.get(lists[parent][0].keys[:-1], []))
        for start, to in _steps(lists[parent], gone.get(parent, []), inserted):
            patch.append({"op": "move", "from": join((*here, start)), "path": join((*here, to))})
    return patch


def _after_removal(keys: Keys, gone: dict[Keys, list[int]]) -> Keys:
    return tuple(
        [
            key - bisect_left(gone.get(keys[:depth], []), key) if isinstance(key, int) else key
            for depth, key in enumerate(keys)
        ]
    )


def _steps(moves: list[Change], gone: list[int], inserted: list[int]) -> list[tuple[int, int]]:
    """Follow the moves of one list: (from, to) indexes as they are when each is made."""
    pairs = sorted([(int(change.keys[-1]), int(change.from_keys[-1])) for change in moves])
    # Items by their old index, as many as any of the indexes can reach; the rest of the list stays behind them.
    reach = max([max(pair) for pair in pairs]) + 1 + len(gone) + len(pairs)
    missing = set(gone)
    items = [at for at in range(reach) if at not in missing]
    waiting = {start for _, start in pairs}
    steps = []
    place = settled = 0  # of the items before `place`, this many are where they stay
    for to, start in pairs:
        now = items.index(start)
        del items[now]
        waiting.discard(start)
        place -= now < place
        while settled < to - bisect_left(inserted, to):
            settled += items[place] not in waiting
            place += 1
        items.insert(place, start)
        if now != place:
            steps.append((now, place))
        place, settled = place + 1, settled + 1
    return steps
