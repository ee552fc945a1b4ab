"""Look at objects without running their code.

A recorder must not change the agent it records, so it may not trip over what a class defines: `__class__`,
`__getattr__`, `__eq__`, `__len__`, properties, a metaclass with opinions. `type(value)` is always true; from there
everything is read through the descriptors of `type` itself, and attributes from the instance's own dict and slots.
The one exception is `describe`, which asks for a `repr`, and survives it.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from inspect import CO_ITERABLE_COROUTINE
from types import GeneratorType, GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final, TypeVar

from .covered import covering

T = TypeVar("T")

mro_of: Final[Callable[[type], tuple[type, ...]]] = type.__dict__["__mro__"].__get__
namespace_of: Final[Callable[[type], Any]] = type.__dict__["__dict__"].__get__
_qualname_of: Final[Callable[[type], str]] = type.__dict__["__qualname__"].__get__
_module_of: Final[Callable[[type], Any]] = type.__dict__["__module__"].__get__
_size_of: Final[Callable[[type], int]] = type.__dict__["__basicsize__"].__get__
_POINTER: Final = (_size_of(object)) // 2

REPR_LIMIT: Final = 1000
"""Characters of a `repr` that are kept."""

_ADDRESS: Final = re.compile(r"\bat 0x[0-9a-fA-F]+")


_recorded_modules: dict[str, str] = {}
"""While code is executed against a recording: module → the name that it had then, where that is another one."""


def class_name(cls: type) -> str:
    """Return "module:Qualname", cleaned of what JSON cannot hold; the module as the recording has it, if one counts."""
    try:
        module = _module_of(cls)
    except AttributeError:  # it was deleted
        module = None
    module = str.__str__(module) if isinstance_of(module, str) else "?"
    return clean(f"{_recorded_modules.get(module, module)}:{_qualname_of(cls)}")


def names_in_this_process(name: str) -> Iterator[str]:
    """The names by which a class of a recording may be known here, beside its own."""
    module, colon, qualname = name.partition(":")
    return (f"{here}{colon}{qualname}" for here, recorded in list(_recorded_modules.items()) if recorded == module)


def name_as_recorded(module: str, recorded: str) -> None:
    """Call the classes of a module as they were called when it had another name, until `module_names_hold` ends."""
    if module != recorded:
        _recorded_modules[module] = recorded


@contextmanager
def module_names_hold() -> Iterator[None]:
    """In this block, modules may be given the names that they had; behind it, they have those from before."""
    before = dict(_recorded_modules)
    try:
        yield
    finally:
        _recorded_modules.clear()
        _recorded_modules.update(before)


def isinstance_of(value: Any, cls: type) -> bool:
    """Like `isinstance`, by the real type: `__class__` and `__instancecheck__` are not asked."""
    return any(base is cls for base in mro_of(type(value)))


def inherits(cls: type, base: type) -> bool:
    """Like `issubclass`, by the real bases."""
    return any(one is base for one in mro_of(cls))


def is_awaitable(value: Any) -> bool:
    """Like `inspect.isawaitable`, by the real type."""
    if type(value) is GeneratorType:
        return bool(value.gi_code.co_flags & CO_ITERABLE_COROUTINE)
    return static_attribute(type(value), "__await__") is not None


def static_attribute(cls: type, name: str) -> Any:
    """Return what a class or its bases define under a name, as it stands there; None when nothing does."""
    for base in mro_of(cls):
        namespace = namespace_of(base)
        if name in namespace:
            return namespace[name]
    return None


def slots_of(cls: type) -> dict[str, Any]:
    """Return the slots that Python classes among a class and its bases declare: name → descriptor."""
    found: dict[str, Any] = {}
    for base in reversed(mro_of(cls)):
        namespace = namespace_of(base)
        if "__slots__" in namespace:
            found.update({name: slot for name, slot in namespace.items() if type(slot) is MemberDescriptorType})
    return found


def instance_dict(value: Any) -> dict[str, Any] | None:
    """Return the dict in which an object keeps its attributes, the very one; None when it has none."""
    for base in mro_of(type(value)):
        entry = namespace_of(base).get("__dict__")
        if type(entry) is GetSetDescriptorType:
            found = entry.__get__(value)
            return found if type(found) is dict else None
    return None


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the attributes that an object itself holds, in its slots and in its dict; properties are not evaluated."""
    found: dict[str, Any] = {}
    for name, slot in slots_of(type(value)).items():
        try:
            found[name] = slot.__get__(value)
        except AttributeError:  # a slot that was never set
            continue
    own = instance_dict(value)
    if own:
        found.update(own)
    return found


def set_attributes(value: Any, attributes: dict[str, Any]) -> None:
    """Put attributes back where `attributes_of` found them; no `__setattr__` or property is called."""
    members = {
        name: entry
        for base in reversed(mro_of(type(value)))
        for name, entry in namespace_of(base).items()
        if name in attributes and type(entry) is MemberDescriptorType
    }
    own = instance_dict(value)
    for name, item in attributes.items():
        if name in members:
            members[name].__set__(value, item)
        elif own is not None:
            own[name] = item
        else:
            raise TypeError(f"{class_name(type(value))} has no place for the attribute {name!r}")


def has_hidden_state(cls: type, base: type) -> bool:
    """Say whether instances hold more than `base`, a dict and Python slots do: something that only C code can read."""
    fields = 0
    for one in mro_of(cls):
        if one is base:
            break
        namespace = namespace_of(one)
        fields += sum(type(entry) is MemberDescriptorType for entry in namespace.values())
        fields += ("__dict__" in namespace) + ("__weakref__" in namespace)
    return _size_of(cls) - _size_of(base) > fields * _POINTER


def clean(text: str) -> str:
    """Return a text as exactly a str, lone surrogates written as escapes."""
    text = str.__str__(text)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def describe(value: Any) -> str:
    """Return a bounded `repr`, without memory addresses, so that two runs describe equal things equally."""
    return _guarded(repr, value)


def message_of(error: BaseException) -> str:
    """Return a bounded `str` of an exception."""
    return _guarded(str, error)


def _guarded(ask: Callable[[Any], str], value: Any) -> str:
    try:
        text = str.__str__(covering(partial(ask, value)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a hostile repr may raise anything, SystemExit too
        return f"<its {ask.__name__} raised {class_name(type(error))}>"
    if len(text) > REPR_LIMIT:
        text = text[:REPR_LIMIT] + "…"
    return clean(_ADDRESS.sub("at 0x…", text))


class ClassCache:
    """Remembers what was found out about a class, by its identity and only while it lives.

    A dict keyed by classes would hash and compare them, which a metaclass may define.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[type], Any]] = {}

    def get(self, cls: type, find: Callable[[type], T]) -> T:
        """Return `find(cls)`, from memory after the first time."""
        known = self._known.get(id(cls))
        if known is not None:
            return known[1]  # type: ignore[no-any-return]  # one cache serves one `find`
        found = find(cls)
        key = id(cls)
        self._known[key] = (weakref.ref(cls, lambda _: self._known.pop(key, None)), found)
        return found
