"""How values of user classes are written: the class by name, and what the instance itself holds.

Fields are read from where Python keeps them, never through properties, and nothing of the class is called. That a
class is written says nothing about whether it may be read back as one: that is the reader's choice (`type_registry`).
"""

from __future__ import annotations

import builtins
import sys
from enum import Enum
from json import JSONDecodeError
from types import MemberDescriptorType
from typing import Any, Final

from .builtin_types import BASES, Slots, Writer, put, write_class, write_items, write_mapping, write_str
from .introspection import (
    ClassCache,
    attributes_of,
    class_name,
    has_hidden_state,
    inherits,
    instance_dict,
    message_of,
    mro_of,
    slots_of,
    static_attribute,
)

BUILTIN_ERRORS: Final[dict[str, type[BaseException]]] = {
    class_name(cls): cls
    for cls in (*vars(builtins).values(), JSONDecodeError)
    if isinstance(cls, type) and issubclass(cls, BaseException)
}
"""The exceptions that come back without being registered, by name."""

_NAMED_ATTRIBUTES: Final = {ImportError: ("name", "path"), AttributeError: ("name",), NameError: ("name",)}
"""What built-in exceptions keep beside `args`. An AttributeError's `obj` is left out: it is the agent's own object."""

_writers: Final = ClassCache()


def writer_for(cls: type) -> Writer | None:
    """Return how instances of a class are written, or None when its fields say nothing certain about it."""
    return _writers.get(cls, _find_writer)


def _find_writer(cls: type) -> Writer | None:
    if inherits(cls, Enum):
        return _write_enum
    if inherits(cls, BaseException):
        return _write_exception
    if inherits(cls, type):
        return write_class
    if type(field_names(cls)) is tuple:
        return _write_namedtuple
    if base_of(cls) is not None:
        return _write_subclass
    if is_model(cls):
        return _write_model
    if dataclass_fields(cls) is not None:
        return _write_dataclass
    return None


def base_of(cls: type) -> type | None:
    """Return the builtin data type that a class derives from, the nearest one."""
    return next((base for base in mro_of(cls) if any(base is known for known in BASES)), None)


def field_names(cls: type) -> tuple[str, ...] | None:
    """Return the field names of a named tuple's class, or None."""
    names = static_attribute(cls, "_fields") if inherits(cls, tuple) else None
    return names if type(names) is tuple and all(type(name) is str for name in names) else None


def dataclass_fields(cls: type) -> dict[str, Any] | None:
    """Return the fields of a dataclass by name, or None."""
    fields = static_attribute(cls, "__dataclass_fields__")
    return fields if type(fields) is dict else None


def is_model(cls: type) -> bool:
    """Say whether a class is a pydantic model. Pydantic is not imported: without it there are no models."""
    base = vars(sys.modules["pydantic.main"]).get("BaseModel") if "pydantic.main" in sys.modules else None
    return base is not None and inherits(cls, base)


def model_fields(cls: type) -> dict[str, Any]:
    """The fields of a pydantic model by name, as pydantic describes them."""
    fields = static_attribute(cls, "__pydantic_fields__")
    return fields if type(fields) is dict else {}


def model_slots_of(cls: type) -> dict[str, Any]:
    """Return where a pydantic model keeps what is not a field; a root model has neither extra nor private ones."""
    found = {name: static_attribute(cls, f"__pydantic_{name}__") for name in ("fields_set", "extra", "private")}
    return {name: slot for name, slot in found.items() if type(slot) is MemberDescriptorType}


def _write_enum(value: Any, slots: Slots) -> Any:
    own = instance_dict(value) or {}
    tag: dict[str, Any] = {"$type": "enum", "class": class_name(type(value)), "name": None, "value": None}
    if own["_name_"] is not None:  # a combination of flags may have none
        tag["name"] = write_str(own["_name_"], slots)
    put(own["_value_"], tag, "value", slots)
    return tag


def _write_namedtuple(value: Any, slots: Slots) -> Any:
    names = field_names(type(value)) or ()
    items = tuple.__getitem__(value, slice(None))
    if len(names) != len(items):
        return _write_subclass(value, slots)
    tag = {"$type": "namedtuple", "class": class_name(type(value))}
    tag["fields"] = write_mapping(list(zip(names, items, strict=True)), slots)
    return _with_state(tag, attributes_of(value), slots)


def _write_subclass(value: Any, slots: Slots) -> Any:
    cls = type(value)
    base = base_of(cls) or object
    tag = {"$type": "subclass", "class": class_name(cls), "value": BASES[base](value, slots)}
    parts_of_the_base = slots_of(base)
    attributes = {name: item for name, item in attributes_of(value).items() if name not in parts_of_the_base}
    return _with_state(tag, attributes, slots)


def _write_dataclass(value: Any, slots: Slots) -> Any:
    cls = type(value)
    attributes = attributes_of(value)
    names = [name for name in dataclass_fields(cls) or () if name in attributes]
    tag: dict[str, Any] = {"$type": "dataclass", "class": class_name(cls)}
    if has_hidden_state(cls, object):
        tag["lossy"] = True
    tag["fields"] = write_mapping([(name, attributes.pop(name)) for name in names], slots)
    return _with_state(tag, attributes, slots)


def _write_model(value: Any, slots: Slots) -> Any:
    tag: dict[str, Any] = {"$type": "model", "class": class_name(type(value))}
    tag["fields"] = write_mapping(list((instance_dict(value) or {}).items()), slots)
    held = {name: slot.__get__(value) for name, slot in model_slots_of(type(value)).items()}
    tag["fields_set"] = write_items(sorted(name for name in held["fields_set"] if type(name) is str), slots)
    for name in ("extra", "private"):
        if held.get(name) is not None:
            tag[name] = write_mapping(list(held[name].items()), slots)
    return tag


def _write_exception(value: Any, slots: Slots) -> Any:
    cls = type(value)
    base = builtin_error_of(cls)
    args = BaseException.__dict__["args"].__get__(value)
    attributes = {name: item for name, item in attributes_of(value).items() if item is not value}
    for kind, names in _NAMED_ATTRIBUTES.items():
        if inherits(cls, kind):
            own = {name: kind.__dict__[name].__get__(value) for name in names}
            attributes.update({name: item for name, item in own.items() if item is not None})
    if inherits(cls, OSError) and len(args) == 2:
        # `args` of an OSError leaves out the files that its constructor took.
        files = [OSError.__dict__[name].__get__(value) for name in ("filename", "filename2")]
        if files[0] is not None:
            args = (*args, files[0]) if files[1] is None else (*args, files[0], None, files[1])
    tag: dict[str, Any] = {"$type": "exception", "class": class_name(cls)}
    if has_hidden_state(cls, base):
        tag["lossy"] = True
        tag["message"] = message_of(value)
    tag["args"] = write_items(args, slots)
    cause = BaseException.__dict__["__cause__"].__get__(value)
    if cause is not None:
        tag["cause"] = None
        put(cause, tag, "cause", slots)
    if BaseException.__dict__["__suppress_context__"].__get__(value):
        tag["suppress_context"] = True
    return _with_state(tag, attributes, slots)


def builtin_error_of(cls: type) -> type[BaseException]:
    """Return the exception of C code that a class derives from, the nearest one."""
    return next(base for base in mro_of(cls) if any(base is known for known in _C_ERRORS))


_C_ERRORS: Final = [cls for name, cls in BUILTIN_ERRORS.items() if name.startswith("builtins:")]


def write_object(value: Any, slots: Slots) -> Any:
    """An instance of any registered class: its attributes."""
    tag: dict[str, Any] = {"$type": "object", "class": class_name(type(value))}
    if has_hidden_state(type(value), object):
        tag["lossy"] = True
    tag["state"] = write_mapping(list(attributes_of(value).items()), slots)
    return tag


def _with_state(tag: dict[str, Any], attributes: dict[str, Any], slots: Slots) -> dict[str, Any]:
    if attributes:
        tag["state"] = write_mapping(list(attributes.items()), slots)
    return tag
