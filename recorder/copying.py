"""Copies of the user's values, so that what they mutate later changes nothing that was taken.

Containers are copied here, one by one and without recursion: each object once, so what was shared stays shared and a
cycle stays one. Everything else goes to `copy.deepcopy`, which runs code of the user's and may fail; what cannot be
copied stays the user's own object, and its neighbours are copied all the same.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from .frozen import FrozenDict, FrozenList
from .plain import as_plain, loads

_ATOMS: Final = frozenset(map(id, (str, int, float, bool, bytes, complex, type(None))))
"""The ids of types of which nothing is ever copied. Hashing a type itself would call its metaclass."""

_MOST_TOO_DEEP: Final = 10
"""After so many values that were too deep for `copy.deepcopy`, which each takes a while to find, no more are tried."""


def copy_value(value: Any) -> Any:
    """Copy containers, and other values as far as they can be copied; one that cannot stays the user's own.

    Frozen containers come out as plain ones.
    """
    if id(type(value)) in _ATOMS:
        return value
    plain = as_plain(value)
    if plain is not None:
        return loads(plain[0])  # the fastest way to copy plain JSON
    try:
        return _Copier().copy(value)
    except RecursionError:  # no stack left
        return value


class _Copier:
    """One copying: what it copied so far by the id of the original, as `copy.deepcopy` wants it."""

    def __init__(self) -> None:
        self._memo: dict[int, Any] = {}
        self._originals: list[Any] = []  # an id names an object only while it lives
        self._todo: list[tuple[Any, Any]] = []
        self._too_deep = 0

    def copy(self, root: Any) -> Any:
        copied = self._copied(root)
        while self._todo:
            original, made = self._todo.pop()
            if type(made) is list:
                made.extend([self._copied(item) for item in list(original)])
                continue
            for name, item in list(original.items()):
                copied_item = self._copied(item)
                try:
                    made[name] = copied_item
                except Exception:  # a key of the user's own that cannot be hashed again: the item stays as it was
                    continue
        return copied

    def _copied(self, value: Any) -> Any:
        kind = type(value)
        if id(kind) in _ATOMS:
            return value
        key = id(value)
        if key in self._memo:
            return self._memo[key]
        if kind is list or kind is FrozenList:
            made: Any = []
        elif (kind is dict or kind is FrozenDict) and all(id(type(name)) in _ATOMS for name in value):
            made = {}
        else:
            return self._copied_by_its_type(value)
        self._memo[key] = made
        self._originals.append(value)
        self._todo.append((value, made))
        return made

    def _copied_by_its_type(self, value: Any) -> Any:
        if type(value) is tuple and self._keeps_fixed_tuples(value):
            return value
        before = len(self._memo)
        if self._too_deep < _MOST_TOO_DEEP:
            try:
                return copy.deepcopy(value, self._memo)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a user's type may raise anything from its hooks
                self._too_deep += type(error) is RecursionError
            while len(self._memo) > before:  # copies that were never finished
                self._memo.popitem()
        copied = self._with_its_keys(value) if type(value) is dict or type(value) is FrozenDict else value
        self._memo[id(value)] = copied
        self._originals.append(value)
        return copied

    def _keeps_fixed_tuples(self, root: tuple[Any, ...]) -> bool:
        """Note the tuples in which nothing can change, each once, which `copy.deepcopy` would not; is `root` one?"""
        mixed: set[int] = set()
        opened: set[int] = set()
        todo = [root]
        while todo:
            node = todo[-1]
            inner = [item for item in node if type(item) is tuple]
            if id(node) not in opened:
                opened.add(id(node))
                todo.extend([item for item in inner if id(item) not in opened])
                continue
            todo.pop()
            if id(node) in self._memo or id(node) in mixed:
                continue
            fixed = all(type(item) is tuple or id(type(item)) in _ATOMS for item in node)
            if fixed and all(self._memo.get(id(item)) is item for item in inner):
                self._memo[id(node)] = node
                self._originals.append(node)
            else:
                mixed.add(id(node))
        return self._memo.get(id(root)) is root

    def _with_its_keys(self, value: dict[Any, Any]) -> Any:
        """Copy a dict whose keys cannot be copied, and stay the user's own objects."""
        try:
            made = dict(value)
        except Exception:  # they do not let themselves be compared either
            return value
        self._todo.append((value, made))
        return made
