"""Which classes may come back out of a log.

A log names classes for information only. Reading one never imports anything: a class comes back only when the reader's
own program has put it into a registry, so that a file from elsewhere cannot choose what code runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .errors import UsageError
from .introspection import class_name, isinstance_of, names_in_this_process

C = TypeVar("C", bound=type)


@dataclass(frozen=True, slots=True)
class RegisteredType:
    """One class and how its values are written; `encode` and `decode` are None for the built-in ways.

    Attributes:
        cls, name, encode, decode: as `TypeRegistry.register` has them.
        fields: names of fields that logs call otherwise → what they call them.
        is_named: whether the name was given; else it is that of the class.
    """

    cls: type
    name: str
    encode: Callable[[Any], Any] | None = None
    decode: Callable[[Any], Any] | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    is_named: bool = False

    @property
    def name_in_logs(self) -> str:
        """What logs call the class: the name that was given, or its own, which a replay of moved code may change."""
        return self.name if self.is_named else class_name(self.cls)


class TypeRegistry:
    """The classes that a reader admits.

    Args:
        parent: another registry, asked when this one does not know a class. A replay adds the types of one agent's
            annotations this way without changing what the process has registered.
    """

    def __init__(self, parent: TypeRegistry | None = None) -> None:
        self._parent = parent
        # By identity: hashing a class would call its metaclass. The entries keep the classes alive.
        self._by_class: dict[int, RegisteredType] = {}
        self._by_name: dict[str, RegisteredType] = {}

    def register(
        self,
        cls: C,
        *,
        name: str | None = None,
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> C:
        """Admit a class and return it, so that this also serves as a class decorator.

        Args:
            cls: an Enum, a dataclass, a pydantic model, a named tuple, an exception, a subclass of a builtin, or any
                class whose instances keep their state in attributes; its own subclasses are not included.
            name: what logs call it; "module:Qualname" by default, which is also understood when reading. One that was
                renamed or moved is given the name that it had.
            encode: turns an instance into any value that can be recorded.
            decode: turns that value back into an instance; given together with `encode`.
            fields: name of a field → what logs call it, where it was renamed: {"amount": "total"}.

        Raises:
            UsageError: `cls` is not a class, only one of `encode` and `decode` is given, `fields` comes with them or
                gives two fields one name, or another class has the name.
        """
        if not isinstance_of(cls, type):
            raise UsageError(f"register_type takes a class, not {type(cls).__name__}; for a value, register its class")
        if (encode is None) != (decode is None):
            raise UsageError("give both encode and decode, or neither: what is written must be readable")
        if fields and encode is not None:
            raise UsageError("fields= says how the built-in way writes a class; encode= and decode= are another way")
        if fields and len({*fields.values()}) < len(fields):
            raise UsageError(f"fields= gives two fields of {class_name(cls)} one name in logs; each has its own")
        own_name = class_name(cls)
        entry = RegisteredType(cls, name or own_name, encode, decode, dict(fields or {}), name is not None)
        other = self._by_name.get(entry.name)
        # The same class defined again (a reloaded module, a notebook cell) takes its name over; another may not.
        if other is not None and name is not None and class_name(other.cls) != own_name and other.name == name:
            raise UsageError(f"the name {name!r} is taken by {class_name(other.cls)}; choose another for {own_name}")
        self._by_class[id(cls)] = entry
        self._by_name[entry.name] = entry
        known = self._by_name.get(own_name)
        if known is None or known.name != own_name:
            self._by_name[own_name] = entry
        return cls

    def of(self, cls: type) -> RegisteredType | None:
        """Return the entry of a class, or None."""
        entry = self._by_class.get(id(cls))
        if entry is None and self._parent is not None:
            return self._parent.of(cls)
        return entry

    def find(self, name: str) -> RegisteredType | None:
        """Return the entry for a name in a log, or None.

        A class of a script is "__main__:Order" where the script ran and "shop:Order" where it was imported, so
        these two find each other when only one registered class has that qualified name.
        """
        entry = self._by_name.get(name)
        if entry is not None:
            return entry
        for here in names_in_this_process(name):
            if here in self._by_name:
                return self._by_name[here]
        found = self._parent.find(name) if self._parent is not None else None
        return found or self._same_script(name)

    def find_error(self, name: str) -> RegisteredType | None:
        """Return the entry for the name of an exception; a registry may know more of these than are registered."""
        return self.find(name)

    def _same_script(self, name: str) -> RegisteredType | None:
        module, _, qualname = name.partition(":")
        alike = {
            id(entry.cls): entry
            for known, entry in list(self._by_name.items())
            if known.partition(":")[2] == qualname and (module == "__main__" or known.startswith("__main__:"))
        }
        return next(iter(alike.values())) if qualname and len(alike) == 1 else None


default_types = TypeRegistry()
"""What `register_type` fills, and what is used where no registry is given."""


def register_type(
    cls: C,
    *,
    name: str | None = None,
    encode: Callable[[Any], Any] | None = None,
    decode: Callable[[Any], Any] | None = None,
    fields: Mapping[str, str] | None = None,
) -> C:
    """Let values of a class come back from logs as that class; see `TypeRegistry.register`."""
    return default_types.register(cls, name=name, encode=encode, decode=decode, fields=fields)
