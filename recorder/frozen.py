"""Containers that look like dict and list and refuse to be changed.

The payload an agent sees is a view of recorded state. Were it changed in place, the log would
no longer explain it; so every mutator raises `PayloadFrozen`, whose message names
`context.change`. Everything that only reads works as on any dict or list, `json.dumps` and
`isinstance` included. `.copy()` and the `copy` and `pickle` modules give ordinary containers,
which are the caller's own.

`freeze` puts such a view over a tree. A subtree that is the same object as last time gives the
same view as last time, so a view of the next state costs the path of the change.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from .errors import PayloadFrozen
from .subtrees import SubtreeCache, changed_places, counterpart

_WIDE: Final = 64
"""From so many items on it pays to look at what was there before."""


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise PayloadFrozen(
        "the payload cannot be changed in place; use context.change(update={…}) (or new=, replace=, remove=, "
        "patch=, merge=, payload=), or change a copy: copy.deepcopy(context.payload)"
    )


class FrozenDict(dict[Any, Any]):
    """A dict whose mutators raise `PayloadFrozen`; equal to, and read like, the dict it was made from.

    `.copy()` and `copy.copy` give a plain dict over the same values, `copy.deepcopy` and `pickle` plain
    containers all the way down.
    """

    __slots__ = ("_made",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if getattr(self, "_made", False):
            _refuse(self)
        super().__init__(*args, **kwargs)
        self._made = True

    def copy(self) -> dict[Any, Any]:
        """Return a plain dict with the same values."""
        return dict(self)

    @classmethod
    def fromkeys(cls, iterable: Iterable[Any], value: Any = None, /) -> dict[Any, Any]:
        """Return a plain dict, as `dict.fromkeys` does."""
        return dict.fromkeys(iterable, value)

    def __copy__(self) -> dict[Any, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        memo[id(self)] = made
        for key, value in self.items():
            made[copy.deepcopy(key, memo)] = copy.deepcopy(value, memo)
        return made

    def __reduce_ex__(self, protocol: Any, /) -> tuple[Any, ...]:
        return dict, (), None, None, iter(self.items())

    __setitem__ = _refuse
    __delitem__ = _refuse
    __ior__ = _refuse
    clear = _refuse
    pop = _refuse
    popitem = _refuse
    setdefault = _refuse
    update = _refuse


class FrozenList(list[Any]):
    """A list whose mutators raise `PayloadFrozen`; equal to, and read like, the list it was made from.

    Slices, `+`, `*`, `.copy()` and `copy.copy` give a plain list over the same items, `copy.deepcopy` and
    `pickle` plain containers all the way down.
    """

    __slots__ = ("_made",)

    def __init__(self, iterable: Iterable[Any] = (), /) -> None:
        if getattr(self, "_made", False):
            _refuse(self)
        super().__init__(iterable)
        self._made = True

    def copy(self) -> list[Any]:
        """Return a plain list with the same items."""
        return list(self)

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        made: list[Any] = []
        memo[id(self)] = made
        made.extend(copy.deepcopy(item, memo) for item in self)
        return made

    def __reduce_ex__(self, protocol: Any, /) -> tuple[Any, ...]:
        return list, (), None, iter(self)

    __setitem__ = _refuse
    __delitem__ = _refuse
    __iadd__ = _refuse
    __imul__ = _refuse
    append = _refuse
    clear = _refuse
    extend = _refuse
    insert = _refuse
    pop = _refuse
    remove = _refuse
    reverse = _refuse
    sort = _refuse


def freeze(tree: Any, cache: SubtreeCache | None = None) -> Any:
    """Return a read-only view of `tree`: dicts and lists replaced, everything else the same object.

    With a `cache` kept from one state to the next, unchanged subtrees (the same objects) give the same view. The tree
    must not be changed in place while a view of it is in use. Where a tree contains itself, the inner occurrence
    stays as it is.
    """
    if type(tree) is not dict and type(tree) is not list:
        return tree
    memory = SubtreeCache() if cache is None else cache
    view = memory.get(tree)
    if view is None:
        view = _freeze(tree, memory)
    memory.settle(tree)
    return view


class Freezer:
    """Freezes one state after the other, so that what they share is frozen once."""

    def __init__(self) -> None:
        self._cache = SubtreeCache()

    def freeze(self, tree: Any) -> Any:
        """Return a read-only view of `tree`, as the function `freeze` does."""
        return freeze(tree, self._cache)


def _freeze(root: Any, memory: SubtreeCache) -> Any:
    within: set[int] = {id(root)}
    # (container, what stood in its place before, the views of what is in it so far, where views are still missing)
    todo = [(root, memory.latest, *_known_views(root, memory.latest, memory))]
    while todo:
        node, old, views, missing = todo[-1]
        while missing:
            value = views[missing[-1]]
            if (type(value) is dict or type(value) is list) and id(value) not in within:
                known = memory.get(value)
                if known is None:
                    within.add(id(value))
                    before = counterpart(old, node, missing[-1])
                    todo.append((value, before, *_known_views(value, before, memory)))
                    break
                views[missing[-1]] = known
            missing.pop()
        else:
            memory.put(node, FrozenDict(zip(node, views, strict=True)) if type(node) is dict else FrozenList(views))
            within.discard(id(node))
            todo.pop()
    return memory.get(root)


def _known_views(node: Any, old: Any, memory: SubtreeCache) -> tuple[list[Any], list[int]]:
    """Return the views of what is in a container, each value itself where it has none, and where those stand."""
    values = list(node.values()) if type(node) is dict else node
    before = memory.get(old) if len(values) > _WIDE else None
    changed = None if before is None else changed_places(old, node)
    if before is None or changed is None:
        # Siblings of a change are passed over in few calls. Only containers have views.
        views = list(map(memory.values.get, map(id, values)))
        missing = [at for at, view in enumerate(views) if view is None]
    else:
        views = [*(before.values() if type(before) is FrozenDict else before), *values[len(before) :]]
        missing = changed
    for at in missing:
        views[at] = values[at]
    return views, missing
