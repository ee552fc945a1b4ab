"""What differs between two values, as changes a person can read and a program can apply.

`diff_values(a, b)` walks two stored trees together. States of one run share every subtree that did not change, so
most of the walk ends at `a is b`; what is equal without being shared is skipped next, at the speed of C (see
`equality`). Lists are aligned first (see `align`), so that one inserted item is one change.

The laws, for stored trees:

- `diff_values(a, a)` is empty, and if `diff_values(a, b)` is empty then a and b are the same: `1`, `1.0` and `true`
  are apart, `0.0` and `-0.0`, null and missing. The order of keys alone is no difference.
- `to_json_patch(diff_values(a, b))`, applied to a, gives b, types included.

A tagged value (`{"$type": …}`) is a leaf for whoever works on stored trees: it is replaced as a whole. Where what it
stands for counts, it is looked into (`insides`): a person who asks what became of a payload sees which item of a tuple
changed. A patch never leads into a tag, though. So changes inside of one say which value a patch replaces instead.

**Why DeepDiff has the second word.** It takes 900 ms where this walk takes 2, finds `0.0` and `-0.0` equal, and reports
an insertion as a change of all that follows. What it is good at is judging how *similar* two unequal objects are, so
its deep distance decides which changed item of a list is which, where neither equality nor an identity key does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from ..recorder.errors import UsageError
from ..recorder.values import dumps, is_tag
from .align import align
from .changes import MISSING, Cause, Change, Changes, Kind, Missing, Whole, to_json, to_json_patch, with_cause
from .equality import as_stored, differing, same, stored_tree
from .insides import Inside, fields_of, opened
from .paths import Keys, join

__all__ = [
    "MISSING",
    "Cause",
    "Change",
    "Changes",
    "Kind",
    "Missing",
    "diff_states",
    "diff_values",
    "to_json",
    "to_json_patch",
    "with_cause",
]


def diff_values(a: Any, b: Any, *, inside_tags: bool = False) -> Changes:
    """Give the changes that turn `a` into `b`: in the order of b, then what was removed.

    Args:
        a: the old value, in stored form. Values of other types are compared by their stored form.
        b: the new value.
        inside_tags: look also into what stands in its tagged form: into tuples, objects with odd keys, fields of
            instances. Where the values themselves are given, that is done in any case.

    Returns:
        The changes, empty if and only if a and b are the same. They hold parts of a and b, not copies.
    """
    walk = _Walk(inside_tags=inside_tags)
    walk.compare(a, b, (), ())
    return Changes((*walk.changes, *walk.removed))


def diff_states(a: Any, b: Any, *, parts: Sequence[str] | None = None) -> Changes:
    """Give the changes between two states of a run.

    The values in the changes are in stored form. Their paths lead wherever something is in the payload, into a tuple or
    the field of an instance too.

    Args:
        a: the old `RunState`.
        b: the new one.
        parts: attributes to compare, such as `("payload", "messages")`. The paths of the changes then start with the
            name of the part (`/messages/3/content`). Left out, the payload is compared, and the paths are into it.
    """
    walk = _Walk(inside_tags=True, decoded=True)
    for part in parts or ("payload",):
        at = (part,) if parts else ()
        walk.compare(_part(a, part), _part(b, part), at, at)
    return Changes((*walk.changes, *walk.removed))


_COMPARED: Final = 4_000  # characters of two items that are looked at to judge their distance: some milliseconds


class _Walk:
    """A walk over two trees; `old_at` and `new_at` are where in either of them it stands.

    Args:
        inside_tags: look into tags.
        decoded: a patch is for the values that the trees are the stored form of: any dict is an object there.
    """

    __slots__ = ("changes", "decoded", "inside_tags", "removed", "whole")

    def __init__(self, *, inside_tags: bool = False, decoded: bool = False) -> None:
        self.changes: list[Change] = []
        self.removed: list[Change] = []
        self.inside_tags = inside_tags
        self.decoded = decoded
        self.whole: Whole | None = None

    def compare(self, old: Any, new: Any, old_at: Keys, new_at: Keys) -> None:
        if old is new:
            return
        a, b = as_stored(old), as_stored(new)
        if type(a) is list and type(b) is list:
            self.compare_lists(a, b, old_at, new_at)
        elif type(a) is dict and type(b) is dict and not is_tag(a) and not is_tag(b):
            self.compare_dicts(a, b, old_at, new_at)
        elif not same(a, b) and not self.look_inside(old, new, old_at, new_at):
            self.replace(old, new, new_at)

    def look_inside(self, old: Any, new: Any, old_at: Keys, new_at: Keys) -> bool:
        """Compare what is inside of two values that are not the same; false if that says nothing of how they differ."""
        if not self.inside_tags and (is_tag(old) or is_tag(new)):
            return False
        one, other = opened(as_stored(old)), opened(as_stored(new))
        if one is None or other is None or one.sort != other.sort or not same(one.rest, other.rest):
            return False
        outer, tags, count = self.whole, self.inside_tags, len(self.changes) + len(self.removed)
        if outer is None and not (self.decoded and one.is_dict and other.is_dict):
            self.whole = Whole(new_at, new)
        self.inside_tags = True
        if type(one.children) is list and type(other.children) is list:
            self.compare_lists(one.children, other.children, old_at, new_at)
        else:
            self.compare_named(one, other, old_at, new_at)
        self.whole, self.inside_tags = outer, tags
        return len(self.changes) + len(self.removed) > count

    def compare_named(self, one: Inside, other: Inside, old_at: Keys, new_at: Keys) -> None:
        olds: Any = one.children
        news: Any = other.children
        kept = [name for name in news if name in olds and same(one.odd.get(name), other.odd.get(name))]
        if (olds and news and not kept) or (one.ordered and kept != [name for name in olds if name in {*kept}]):
            return
        staying = {*kept}
        for name, value in news.items():
            if name in staying:
                self.compare(olds[name], value, (*old_at, name), (*new_at, name))
            else:
                self.add(value, (*new_at, name))
        for name, value in olds.items():
            if name not in staying:
                self.remove(value, (*old_at, name))

    def compare_dicts(self, old: dict[str, Any], new: dict[str, Any], old_at: Keys, new_at: Keys) -> None:
        if old.keys() == new.keys():
            keys = list(new)
            olds, news = [old[key] for key in keys], list(new.values())
            for at in differing(olds, news):
                self.compare(olds[at], news[at], (*old_at, keys[at]), (*new_at, keys[at]))
            return
        kept = [key for key in new if key in old]
        changed = {kept[at] for at in differing([old[key] for key in kept], [new[key] for key in kept])}
        for key, value in new.items():
            if key in changed:
                self.compare(old[key], value, (*old_at, key), (*new_at, key))
            elif key not in old:
                self.add(value, (*new_at, key))
        for key, value in old.items():
            if key not in new:
                self.remove(value, (*old_at, key))

    def compare_lists(self, old: list[Any], new: list[Any], old_at: Keys, new_at: Keys) -> None:
        found = align(old, new, distance)
        moved = {to: start for start, to in found.moved}
        changed = {to: start for start, to in found.changed}
        for to in sorted({*found.added, *moved, *changed}):
            here = (*new_at, to)
            if to in moved:
                self.move(old[moved[to]], (*old_at, moved[to]), here)
            elif to not in changed:
                self.add(new[to], here)
            if to in changed:
                before, after = old[changed[to]], new[to]
                if _nothing_shared(before, after):
                    self.replace(before, after, here)
                else:
                    self.compare(before, after, (*old_at, changed[to]), here)
        for start in found.removed:
            self.remove(old[start], (*old_at, start))

    def replace(self, old: Any, new: Any, at: Keys) -> None:
        self.changes.append(self.change("replace", at, old, new))

    def move(self, value: Any, start: Keys, to: Keys) -> None:
        self.changes.append(self.change("move", to, value, value, start))

    def add(self, value: Any, at: Keys) -> None:
        self.changes.append(self.change("add", at, MISSING, value))

    def remove(self, value: Any, at: Keys) -> None:
        self.removed.append(self.change("remove", at, value, MISSING))

    def change(self, kind: Kind, at: Keys, old: Any, new: Any, start: Keys | None = None) -> Change:
        was_at = None if start is None else join(start)
        return Change(join(at), kind, old, new, None, was_at, at, start or (), self.whole, self.decoded)


def _nothing_shared(old: Any, new: Any) -> bool:
    """Say whether two items stand at one place of a list by chance: objects without a key in common."""
    a, b = fields_of(old), fields_of(new)
    return bool(a and b and a.keys().isdisjoint(b))


def distance(old: Any, new: Any) -> float:
    """Judge how far two items are from each other; 0.0 is equal, 1.0 nothing in common."""
    old, new = stored_tree(old), stored_tree(new)
    if type(old) is not type(new) or is_tag(old) != is_tag(new):
        return 1.0
    if type(old) is str:
        return 1.0 - SequenceMatcher(None, old[:_COMPARED], new[:_COMPARED]).quick_ratio()
    if type(old) not in (dict, list):
        return 0.9
    if len(dumps(old)) + len(dumps(new)) > _COMPARED:
        return 0.5
    from deepdiff import DeepDiff  # a tenth of a second to import, and most diffs never come here

    return float(DeepDiff(old, new, get_deep_distance=True).get("deep_distance", 0.0))


def _part(state: Any, name: str) -> Any:
    """Give a part of a state as a tree, in stored form where the state has it in that form."""
    value = getattr(state, f"stored_{name}", MISSING)
    if value is MISSING:
        value = getattr(state, name, MISSING)
    if value is MISSING:
        raise UsageError(f"a state has no part {name!r}")
    if isinstance(value, Mapping) and any(hasattr(item, "to_json") for item in value.values()):
        return {key: item.to_json() for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, list)):
        return [item.to_json() if hasattr(item, "to_json") else item for item in value]
    return dict(value) if isinstance(value, Mapping) and not isinstance(value, dict) else value
