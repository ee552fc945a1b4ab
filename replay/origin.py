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

from .align import IDENTITY_KEYS, Alignment, align
from .diff import distance
from .equality import same
from .insides import fields_of, inside_of


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
    fields = fields_of(item)
    return None if fields is None else next((key for key in IDENTITY_KEYS if _is_name(fields.get(key))), None)


def places_of(item: Any, items: list[Any], span: range) -> list[int]:
    """The indexes within `span` of those of `items` that say they are `item`."""
    key = identity_of(item)
    own = fields_of(item)
    if key is None or own is None:
        return []
    name = own[key]
    others = [(at, fields) for at in span if (fields := fields_of(items[at])) is not None]
    return [at for at, fields in others if fields.get(key) == name and same(fields[key], name)]


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
    a, b = inside_of(old), inside_of(new)
    if type(a) is dict and type(b) is dict:
        return any(key in b and same(value, b[key]) for key, value in a.items())
    return type(a) is list and type(b) is list and any(map(same, a, b))


def _is_another(old: Any, new: Any) -> bool:
    """Whether two items that were aligned say that they are not the same."""
    a, b = fields_of(old), fields_of(new)
    if a is None or b is None:
        return False
    for key in IDENTITY_KEYS:
        if _is_name(a.get(key)) and _is_name(b.get(key)):
            return not same(a[key], b[key]) and not (key == "name" and _renamed(a, b))
    return False


def _renamed(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether most of what two items of different names hold is the same: a name may change, an id may not."""
    kept = [key for key in old if key in new and same(old[key], new[key])]
    return 2 * len(kept) >= max(len(old), len(new)) > 1


def _is_name(value: Any) -> bool:
    return isinstance(value, (str, int))
