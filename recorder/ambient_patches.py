"""Puts what stands in for functions in their places while a run needs it, and takes it out again.

A function is replaced where its module or class has it, and where a module of the application has it by name, since
`from time import time` has bound it before. A method of `datetime`, which C defines, is replaced in the dict of its
type: the type stays the one it is, for `isinstance`, for `pickle` and for whoever has it by another name, as it would
not if a subclass took its place.

Runs that are in progress at the same time share what is in place. The last that needs it puts back what was there,
also in modules that were imported meanwhile. A place that somebody else has filled since is theirs, and stays. What a
forked child inherits it takes out at once, since the run is not in progress there.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final, NamedTuple

from .ambient import Captured
from .ambient_frames import application_modules, names_of_modules
from .ambient_sources import GROUPS, PATCHES
from .errors import UsageError

INHERITED: Final = object()


class Place(NamedTuple):
    """Where something stands in for a function.

    Attributes:
        owner: the module, class or object.
        name: under which it has it.
        before, ours: what was there, and what is there now; `INHERITED` if it is inherited.
    """

    owner: Any
    name: str
    before: Any
    ours: Any


class Patches:
    """What is in place now, and for whom."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._needed: dict[object, frozenset[str]] = {}
        self._places: dict[str, list[Place]] = {}
        self._looked_at: dict[int, dict[str, Any]] = {}
        self._known: set[str] = set()

    @contextmanager
    def in_place(self, captured: Captured) -> Iterator[None]:
        """In this block everything stands in that captures these reads."""
        run = object()
        self._put(run, captured)
        try:
            yield
        finally:
            self._take_out(run)

    def _put(self, run: object, captured: Captured) -> None:
        with self._lock:
            groups = frozenset(group for source in captured.sources for group in GROUPS[source])
            new = groups - self._places.keys()
            if not self._needed:
                self._known = set(sys.modules)
            self._needed[run] = groups
            try:
                for group in sorted(new):
                    self._put_group(group)
            except BaseException:
                self._release(run)
                raise
            named = [] if captured.names is None else [captured.names]
            found = {id(names): names for names in (*application_modules(captured.home), *named)}
            unseen = {key: names for key, names in found.items() if key not in self._looked_at}
            stand_ins = {id(place.before): place.ours for place in self._in_modules(self._places)}
            for names in (self._looked_at | unseen if new else unseen).values():
                _replace(names, stand_ins)
            self._looked_at |= unseen

    def _put_group(self, group: str) -> None:
        places = self._places[group] = []
        for owner, name, stand_in in PATCHES[group]:
            before = vars(owner).get(name, INHERITED)
            ours = stand_in(getattr(owner, name) if before is INHERITED else before)
            places.append(Place(owner, name, before, ours))
            _set(owner, name, ours)

    def _take_out(self, run: object) -> None:
        with self._lock:
            self._release(run)

    def _release(self, run: object) -> None:
        self._needed.pop(run, None)
        left = frozenset[str]().union(*self._needed.values())
        released = {group: self._places.pop(group) for group in [*self._places] if group not in left}
        for places in released.values():
            for owner, name, before, ours in reversed(places):
                if vars(owner).get(name) is ours:
                    _set(owner, name, before)
        originals = {id(place.ours): place.before for place in self._in_modules(released)}
        imported = [names for name, names in names_of_modules() if name not in self._known]
        for names in (*self._looked_at.values(), *imported):
            _replace(names, originals)
        if not self._needed:
            self._looked_at.clear()

    @staticmethod
    def _in_modules(places: Mapping[str, list[Place]]) -> list[Place]:
        """Those of some places that modules have: other modules may have them by name."""
        return [place for group in places.values() for place in group if isinstance(place.owner, ModuleType)]

    def leave(self) -> None:
        """In a forked child: no run is in progress here."""
        self._lock = threading.Lock()
        self._needed.clear()
        self._release(None)


def _replace(names: dict[str, Any], others: Mapping[int, Any]) -> None:
    """Have a module's names stand for others, by the identity of what they stand for."""
    for name, value in list(names.items()):
        other = others.get(id(value))
        if other is not None:
            names[name] = other


def _set(owner: Any, name: str, value: Any) -> None:
    if value is INHERITED:
        delattr(owner, name)
        return
    try:
        setattr(owner, name, value)
    except TypeError:  # a type that C defines
        _set_in_type(owner, name, value)


def _set_in_type(owner: type, name: str, value: Any) -> None:
    try:
        import ctypes
    except ImportError as error:
        raise UsageError('capturing "clock" needs the module ctypes, which this Python lacks') from error
    (names,) = gc.get_referents(vars(owner))
    names[name] = value
    # The interpreter remembers where it found a method, and is told to look again.
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


patches = Patches()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=patches.leave)
