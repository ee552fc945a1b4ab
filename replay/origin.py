"""Where an item of a list was in the list before.

An item has no name, only an index, and that shifts with everything that comes and goes before it. Two versions of a
list are aligned, as for a diff, to say which item is which. On top of that stands what the items say themselves: an
item with an `id` (see `IDENTITY_KEYS` in `align`) is never one of another `id`, however alike they look and wherever
they stand.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import is_, length_hint
from typing import Any

from ..recorder.values import is_tag
from .align import IDENTITY_KEYS, Alignment, align
from .diff import distance
from .equality import same


def origin(old: list[Any], new: list[Any], at: int) -> tuple[int | None, bool]:
    """Find the item at index `at` of the new list in the old one.

    Returns:
        Its index there, or None if it was not there; and whether the list was replaced as a whole: no item of the new
        one is equal to, or has anything in common with, the one it is aligned with. An index is a guess then.
    """
    item = new[at]
    if type(item) is dict or type(item) is list:
        # What did not change is the same object. Most edits are in one place of a list: before that nothing moved, and
        # behind it everything did by as much as the list grew.
        for place in (at, at + len(old) - len(new)):
            if 0 <= place < len(old) and old[place] is item:
                return place, False
    elif at < len(old) and all(map(is_, old[: at + 1], new)):
        return at, False
    found = align(old, new, distance)
    replaced = _nothing_left(old, new, found)
    changed = {to: start for start, to in found.changed}
    if at in changed:
        return (None if _is_another(old[changed[at]], item) else changed[at]), replaced
    return _place_before(at, found), replaced


def identity_of(item: Any) -> str | None:
    """The key by which an item says who it is, or None."""
    if type(item) is not dict or is_tag(item):
        return None
    return next((key for key in IDENTITY_KEYS if _is_name(item.get(key))), None)


def places_of(item: Any, items: list[Any], span: range) -> list[int]:
    """The indexes within `span` of those of `items` that say they are `item`."""
    key = identity_of(item)
    if key is None:
        return []
    name = item[key]
    equal = [at for at in span if type(items[at]) is dict and items[at].get(key) == name]
    return [at for at in equal if same(items[at][key], name) and not is_tag(items[at])]


def differing(old: list[Any], new: list[Any]) -> range:
    """The indexes of the old list that are left when the items at both ends that are the same objects are left out."""
    limit = min(len(old), len(new))
    start = _alike(iter(old), iter(new), limit)
    return range(start, len(old) - min(_alike(reversed(old), reversed(new), limit), limit - start))


def _alike(old: Iterator[Any], new: Iterator[Any], limit: int) -> int:
    """How many items are the same objects, from the start of two lists of at least `limit` items on."""
    before = length_hint(old)
    if all(map(is_, old, new)):
        return limit
    return before - length_hint(old) - 1  # the last one that was taken differs


def _place_before(at: int, found: Alignment) -> int | None:
    """Where an item that did not change was; None for one that was added."""
    moved = {to: start for start, to in found.moved}
    if at in moved:
        return moved[at]
    came = sorted([*found.added, *moved])
    passed = bisect_left(came, at)
    if passed < len(came) and came[passed] == at:
        return None
    place = at - passed  # so many of the items that stayed are before it; now count in those that left
    for start in sorted([*found.removed, *moved.values()]):
        if start > place:
            break
        place += 1
    return place


def _nothing_left(old: list[Any], new: list[Any], found: Alignment) -> bool:
    if not old or len(old) + len(new) < 3 or len(new) > len(found.added) + len(found.changed):
        return False
    return not any(_in_common(old[start], new[to]) for start, to in found.changed)


def _in_common(old: Any, new: Any) -> bool:
    if type(old) is dict and type(new) is dict:
        return any(key in new and same(value, new[key]) for key, value in old.items())
    return type(old) is list and type(new) is list and any(map(same, old, new))


def _is_another(old: Any, new: Any) -> bool:
    """Whether two items that were aligned say that they are not the same."""
    if type(old) is not dict or type(new) is not dict:
        return False
    for key in IDENTITY_KEYS:
        if _is_name(old.get(key)) and _is_name(new.get(key)):
            return not same(old[key], new[key]) and not (key == "name" and _renamed(old, new))
    return False


def _renamed(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether most of what two items of different names hold is the same: a name may change, an id may not."""
    kept = [key for key in old if key in new and same(old[key], new[key])]
    return 2 * len(kept) >= max(len(old), len(new)) > 1


def _is_name(value: Any) -> bool:
    return isinstance(value, (str, int))
