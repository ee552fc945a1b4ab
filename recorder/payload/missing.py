"""What a request asked for and the payload does not have.

MemberJunction's rules drop parts of a request without a word. Whatever the reason, the outcome can be checked: a leaf
that was to be put into the payload is there or is not, one that was to go is gone or is not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from .property_paths import index_of, item, prop
from .request import NEW, REMOVE, REPLACE, UPDATE, is_delete
from .trees import UNDEFINED, is_array, is_container, is_object, pointer, same

Path: TypeAlias = tuple[Any, ...]


def missing_leaves(request: dict[str, Any], result: Any) -> list[str]:
    """Find what a request asked for and its result lacks.

    Of `newElements`, `updateElements` and `replaceElements` that is a value that is not there; of `removeElements`,
    and of what `updateElements` marks as deleted, a value that still is. Items of an array are looked for where the
    request's own deletions have moved them. Whether the right item of an array was deleted cannot be told from the
    result.

    Args:
        request: in the memberjunction form.
        result: the payload after.

    Returns:
        JSON Pointers into the sections of the request, in its order; empty when all was done.
    """
    new, update, replace, remove = (request.get(name, UNDEFINED) for name in (NEW, UPDATE, REPLACE, REMOVE))
    found: list[Path] = []
    if is_container(new):
        found.extend(_not_added(new, result, ()))
    if is_container(update):
        found.extend(_not_updated(update, result, remove, ()))
    if is_container(replace):
        found.extend(_not_put(replace, result, ()))
    if is_container(remove):
        found.extend(_not_removed(remove, result, (new, update, replace), ()))
    return list(dict.fromkeys(map(pointer, found)))


def _leaves(value: Any, path: Path) -> Iterator[Path]:
    """The paths of the leaves of a tree; an empty container is one."""
    if is_object(value) and value:
        for key, below in value.items():
            yield from _leaves(below, (*path, key))
    elif is_array(value) and value:
        for i, below in enumerate(value):
            yield from _leaves(below, (*path, i))
    else:
        yield path


def _not_put(value: Any, result: Any, path: Path) -> Iterator[Path]:
    """The leaves of a value that was to be there as it is."""
    if is_object(value) and is_object(result):
        for key, below in value.items():
            yield from _not_put(below, result.get(key, UNDEFINED), (*path, key))
    elif is_array(value) and is_array(result):
        for i, below in enumerate(value):
            yield from _not_put(below, item(result, i), (*path, i))
    elif not same(value, result):
        yield from _leaves(value, path)


def _not_added(new: Any, result: Any, path: Path) -> Iterator[Path]:
    """The leaves of what was to be added: keys to objects, items at the end of arrays."""
    if is_object(new) and is_object(result):
        for key, value in new.items():
            yield from _not_added(value, result.get(key, UNDEFINED), (*path, key))
    elif is_array(new) and is_array(result):
        items = [value for value in new if not _is_placeholder(value)]
        if same(new, result) or not items or same(items, result[-len(items) :]):
            return
        for i, value in enumerate(new):
            if not _is_placeholder(value) and not any(same(value, other) for other in result):
                yield from _leaves(value, (*path, i))
    elif not same(new, result):
        yield from _leaves(new, path)


def _not_updated(update: Any, result: Any, remove: Any, path: Path) -> Iterator[Path]:
    """The leaves of what was to be merged, given what was to be removed at the same place."""
    if is_object(update) and is_object(result):
        for key, value in update.items():
            if not is_delete(value):
                yield from _not_updated(value, result.get(key, UNDEFINED), prop(remove, key), (*path, key))
            elif key in result:
                yield (*path, key)
    elif is_container(update) and is_array(result) and not _is_placeholder(update):
        gone = _gone(update, remove)
        for name, index, value in () if same(update, result) else _entries(update):
            if index is None:
                yield from _leaves(value, (*path, name))
            elif not (_is_placeholder(value) or is_delete(value)):
                yield from _fewest(
                    _not_updated(value, other, item(remove, index), (*path, name))
                    if is_object(value) and is_object(other)
                    else _not_put(value, other, (*path, name))
                    for other in _places(result, index, gone)
                )
    elif not same(update, result):
        yield from _leaves(update, path)


def _not_removed(remove: Any, result: Any, others: tuple[Any, ...], path: Path) -> Iterator[Path]:
    """The leaves of what was to be removed; `others` is what was to be put at the same place."""
    if not is_container(remove):
        if result is not UNDEFINED and all(other is UNDEFINED for other in others):
            yield path
    elif is_object(remove) and is_object(result):
        for key, value in remove.items():
            below = tuple(prop(other, key) for other in others)
            yield from _not_removed(value, result.get(key, UNDEFINED), below, (*path, key))
    elif is_array(result):
        gone = _gone(others[1] if others else UNDEFINED, remove)
        for name, index, value in _entries(remove):
            if index is not None and is_container(value):
                places = _places(result, index, gone)
                yield from _fewest(_not_removed(value, other, (), (*path, name)) for other in places)


def _entries(section: Any) -> Iterator[tuple[Any, int | None, Any]]:
    """What a section says about an array: the key or index in the section, the index that it names, the value."""
    if is_array(section):
        yield from ((i, i, value) for i, value in enumerate(section))
    else:
        yield from ((key, index_of(key), value) for key, value in section.items())


def _gone(update: Any, remove: Any) -> list[int]:
    """The indexes, ascending, of items that are deleted, or that are left out where they are beyond the array."""
    found = {
        index
        for section in (update, remove)
        if is_container(section)
        for _, index, value in _entries(section)
        if is_delete(value) or (section is update and _is_placeholder(value))
        if index is not None
    }
    return sorted(found)


def _places(result: list[Any], index: int, gone: list[int]) -> Iterator[Any]:
    """What may have become of the item at an index: itself, or one as many places lower as items before it went."""
    lower = index - bisect_left(gone, index)
    for place in range(index, lower - 1, -1):
        yield item(result, place)


def _fewest(attempts: Iterable[Iterable[Path]]) -> list[Path]:
    """The first attempt that lacks nothing, or else the first."""
    first: list[Path] | None = None
    for attempt in attempts:
        lacking = list(attempt)
        if not lacking:
            return lacking
        first = lacking if first is None else first
    return first or []


def _is_placeholder(value: Any) -> bool:
    return is_object(value) and not value
