"""The exception classes that the program has loaded, by the names that recordings have for them.

An agent catches errors of its own classes and of libraries, and hardly anybody declares these. So where a recording has
an exception, its class is looked for among the modules that are loaded, and among the subclasses of `Exception` for
those that are defined in functions. A name in a file chooses one of the classes that the program could raise itself,
and no more than that:

- Nothing is imported, and no attribute is asked of a module or a class; both are read as they stand.
- Only a subclass of `Exception` counts, under its own name, and never one of this package, since what an error of ours
  says is a verdict.
- None of its code runs when an instance is made (`rebuilding`), nor when that is thrown away, so that one with a
  `__del__` does not count either.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

from ..recorder.errors import AgentReplayError
from ..recorder.introspection import (
    class_name,
    inherits,
    isinstance_of,
    names_in_this_process,
    namespace_of,
    static_attribute,
)
from ..recorder.values import RegisteredType

# By its descriptor: a module that is loaded when it is first used is loaded by any other way to its names.
_names_of: Final[Any] = vars(ModuleType)["__dict__"].__get__


def loaded_error(name: str, around: Mapping[str, Any] | None = None) -> RegisteredType | None:
    """Return the exception class that a recording calls so, or None.

    Args:
        name: "module:Qualname".
        around: what the function that raised it sees of the functions around it; a class among this comes first.
    """
    for found in (around or {}).values():
        if _is_error(found, name):
            return RegisteredType(found, name)
    for here in (*names_in_this_process(name), name):
        found = _standing_at(here)
        if _is_error(found, name):
            return RegisteredType(found, name)
    return _subclass(name)


def standard_error(name: str) -> RegisteredType | None:
    """Return the exception of the standard library that has a name, if its module is loaded."""
    if name.partition(":")[0].partition(".")[0] not in sys.stdlib_module_names:
        return None
    found = _standing_at(name)
    is_error = isinstance_of(found, type) and inherits(found, BaseException) and class_name(found) == name
    return RegisteredType(found, name) if is_error else None


def _standing_at(name: str) -> Any:
    """What stands in a loaded module under a qualified name."""
    module_name, _, qualname = name.partition(":")
    module = sys.modules.get(module_name)
    if module is None or not isinstance_of(module, ModuleType):
        return None
    first, *inner = qualname.split(".")
    found: Any = (_names_of(module) or {}).get(first)
    for part in inner:
        found = namespace_of(found).get(part) if isinstance_of(found, type) else None
    return found


def _is_error(found: Any, name: str) -> bool:
    return (
        isinstance_of(found, type)
        and inherits(found, Exception)
        and not inherits(found, AgentReplayError)
        and class_name(found) == name
        and static_attribute(found, "__del__") is None
    )


def _subclass(name: str) -> RegisteredType | None:
    """Look among the subclasses of `Exception`, the newest first: a class may have been defined again."""
    seen: set[int] = set()
    todo: list[type] = [Exception]
    while todo:
        cls = todo.pop()
        if _is_error(cls, name):
            return RegisteredType(cls, name)
        if id(cls) not in seen:
            seen.add(id(cls))
            todo.extend(type.__subclasses__(cls))
    return None
