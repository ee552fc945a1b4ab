"""Places in a tree: what is at a path, and if nothing is, which place may have been meant."""

from __future__ import annotations

from collections import deque
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from .insides import inside_of, named
from .paths import Keys, keys_of

_LOOKED_AT: Final = 20_000
"""Places of a tree that are looked at for one that ends as a path does."""


class Place(NamedTuple):
    """Where something is: its keys, and the values on the way there, `nodes[n]` at `keys[:n]`, itself the last."""

    keys: Keys
    nodes: tuple[Any, ...]


def fits(node: Any, key: str | int) -> bool:
    """Whether a value is of the kind that a key leads into: an object, for an index a list."""
    return type(inside_of(node)) is (list if isinstance(key, int) else dict)


def reached(keys: Keys, tree: Any) -> Place:
    """The place at a path, or as far as there is something on the way."""
    nodes = [tree]
    found: list[str | int] = []
    for key in keys:
        node: Any = inside_of(nodes[-1])
        here: str | int | None
        if isinstance(key, int):
            here = key if type(node) is list and key < len(node) else None
        else:
            here = key if type(node) is dict and key in node else named(nodes[-1], key)
            here = here if isinstance(here, str) else None
        if here is None:
            break
        found.append(here)
        nodes.append(node[here])
    return Place(tuple(found), tuple(nodes))


def place_of(pointer: str, tree: Any) -> Place | None:
    """The place that a pointer names in a tree; None if nothing is there."""
    keys = keys_of(pointer, tree)
    place = reached(keys, tree)
    return place if len(place.keys) == len(keys) else None


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
    inside = inside_of(node)
    if type(inside) is list:
        return len(inside) - 1 if isinstance(wanted, int) and inside else None
    if type(inside) is not dict:
        return None
    spelt = {key.lower(): key for key in reversed(inside)}
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
        inside = inside_of(node)
        if type(inside) is list:
            places.extend([((*at, index), item) for index, item in enumerate(inside)])
        elif type(inside) is dict:
            places.extend([((*at, key), item) for key, item in inside.items()])
    return best


def _common_end(a: Keys, b: Keys) -> int:
    if not a or isinstance(a[-1], int):
        return 0
    ends = zip(reversed(a), reversed(b), strict=False)
    return next((count for count, (x, y) in enumerate(ends) if x != y), min(len(a), len(b)))
