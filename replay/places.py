"""Places in a tree: what is at a path, and if nothing is, which place may have been meant."""

from __future__ import annotations

from collections import deque
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from ..recorder.values import is_tag
from .paths import Keys, keys_of

_LOOKED_AT: Final = 20_000
"""Places of a tree that are looked at for one that ends as a path does."""


class Place(NamedTuple):
    """Where something is: its keys, and the values on the way there, `nodes[n]` at `keys[:n]`, itself the last."""

    keys: Keys
    nodes: tuple[Any, ...]


def fits(node: Any, key: str | int) -> bool:
    """Whether a value is of the kind that a key leads into: an object, for an index a list. A tag has no inside."""
    return type(node) is list if isinstance(key, int) else type(node) is dict and not is_tag(node)


def holds(node: Any, key: str | int) -> bool:
    """Whether there is something at a key of a value."""
    return fits(node, key) and (key < len(node) if isinstance(key, int) else key in node)


def reached(keys: Keys, tree: Any) -> Place:
    """The place at a path, or as far as there is something on the way."""
    nodes = [tree]
    for key in keys:
        if not holds(nodes[-1], key):
            break
        nodes.append(nodes[-1][key])
    return Place(keys[: len(nodes) - 1], tuple(nodes))


def place_of(pointer: str, tree: Any) -> Place | None:
    """The place that a pointer names in a tree; None if nothing is there."""
    keys = keys_of(pointer, tree)
    place = reached(keys, tree)
    return place if place.keys == keys else None


def nearest(pointer: str, tree: Any) -> Keys:
    """The keys of a place that may have been meant by a pointer that names none.

    The first of these: where the path leads when one key of it is corrected, a misspelt one or an index beyond the end;
    a place elsewhere that ends as the path does; as far as the path leads.

    Args:
        pointer: a JSON Pointer.
        tree: in stored form.
    """
    keys = keys_of(pointer, tree)
    place = reached(keys, tree)
    length = len(place.keys)
    if length < len(keys) and (other := _corrected(keys[length], place.nodes[-1])) is not None:
        return reached((*place.keys, other, *keys[length + 1 :]), tree).keys
    return _elsewhere(keys, tree) or place.keys


def _corrected(wanted: str | int, node: Any) -> str | int | None:
    """The key of a value that is close to the one that was wanted."""
    if type(node) is list:
        return len(node) - 1 if isinstance(wanted, int) and node else None
    if type(node) is not dict or is_tag(node):
        return None
    spelt = {key.lower(): key for key in reversed(node)}
    close = get_close_matches(str(wanted).lower(), spelt, 1)
    return spelt[close[0]] if close else None


def _elsewhere(keys: Keys, tree: Any) -> Keys | None:
    """The outermost place whose path has the most in common with `keys`, from its last name on."""
    best, length = None, 0
    places: deque[tuple[Keys, Any]] = deque([((), tree)])
    for _ in range(_LOOKED_AT):
        if not places:
            break
        at, node = places.popleft()
        common = _common_end(at, keys)
        if common > length:
            best, length = at, common
        if type(node) is list:
            places.extend([((*at, index), item) for index, item in enumerate(node)])
        elif type(node) is dict and not is_tag(node):
            places.extend([((*at, key), item) for key, item in node.items()])
    return best


def _common_end(a: Keys, b: Keys) -> int:
    if not a or isinstance(a[-1], int):
        return 0
    ends = zip(reversed(a), reversed(b), strict=False)
    return next((count for count, (x, y) in enumerate(ends) if x != y), min(len(a), len(b)))
