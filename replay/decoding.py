"""Decode stored trees, subtree by subtree, so that what is shared stays shared.

Neighbouring states share every subtree that did not change. Decoding whole payloads would hand out equal but different
objects for them, and cost the payload at each step. So what a subtree was decoded to is remembered under its identity:
a shared subtree is decoded once, and plain subtrees are handed out as they are.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any, Final

from ..recorder.values import decode

if TYPE_CHECKING:
    from ..recorder.values import TypeRegistry

GENERATION: Final = 50_000
"""Containers to remember before the ones not met since the last time are forgotten."""


class Decoder:
    """Decodes stored trees and remembers what it decoded.

    Args:
        types: the types that tagged values may become; by default those that are registered.
    """

    __slots__ = ("_old", "_types", "_young")

    def __init__(self, types: TypeRegistry | None = None) -> None:
        self._types = types
        # The stored container is kept beside its value: its id names it only while it lives.
        self._young: dict[int, tuple[Any, Any]] = {}
        self._old: dict[int, tuple[Any, Any]] = {}

    def __call__(self, stored: Any) -> Any:
        """The value of a stored tree: plain objects of exactly the recorded types, shared, not to be mutated."""
        kind = type(stored)
        if kind is not dict and kind is not list:
            return stored
        known = self._young.get(id(stored)) or self._old.get(id(stored))
        value = known[1] if known else self._decoded(stored)
        if len(self._young) >= GENERATION:
            self._old, self._young = self._young, {}
        self._young[id(stored)] = (stored, value)
        return value

    def _decoded(self, stored: Any) -> Any:
        if type(stored) is list:
            items = [self(item) for item in stored]
            return stored if all(map(is_, items, stored)) else items
        if "$type" in stored:
            return decode(stored, self._types)
        values = {key: self(item) for key, item in stored.items()}
        return stored if all(map(is_, values.values(), stored.values())) else values
