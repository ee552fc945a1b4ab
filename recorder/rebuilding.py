"""Build instances of registered classes from what was recorded of them.

No constructor, validator, `__post_init__` or `__setattr__` of the class runs: they ran when the value was first made,
and might do something else, or something again, today. The instance is made empty, and its attributes are put in place.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import MISSING
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, Final
from uuid import UUID

from .introspection import inherits, instance_dict, set_attributes, slots_of
from .structured_types import (
    base_of,
    builtin_error_of,
    dataclass_fields,
    field_names,
    is_model,
    model_fields,
    model_slots_of,
)

PLAIN_DATA: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "enum": lambda fields: fields["value"],
    "namedtuple": lambda fields: tuple(_dict(fields["fields"]).values()),
    "subclass": lambda fields: fields["value"],
    "dataclass": lambda fields: dict(_dict(fields["fields"])),
    "model": lambda fields: {**_dict(fields["fields"]), **_dict(fields.get("extra", {}))},
    "exception": lambda fields: {
        "class": fields["class"],
        "args": tuple(fields["args"]),
        "state": dict(_dict(fields.get("state", {}))),
    },
    "object": lambda fields: dict(_dict(fields["state"])),
    "registered": lambda fields: fields["value"],
    "class": lambda fields: fields["class"],
}
"""What is handed out of an instance when its class is not registered, by the kind of its tag."""


# The class may have a `__setattr__`, or properties of these names.
_set_cause: Final = BaseException.__dict__["__cause__"].__set__
_set_suppress_context: Final = BaseException.__dict__["__suppress_context__"].__set__


def rebuild(kind: str, cls: Any, fields: dict[str, Any]) -> Any:
    """Return the instance of `cls` that a tag of this kind describes.

    Raises:
        Exception: of any type, when the class and the description do not fit each other.
    """
    return _REBUILD[kind](cls, fields)


def _dict(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise TypeError(f"expected dict, found {type(value).__name__}")
    return value


def _require(fits: bool, what: str) -> None:
    if not fits:
        raise TypeError(f"the registered class is not {what}")


def _require_names(cls: Any, values: dict[str, Any], known: Collection[str], required: Iterable[str]) -> None:
    """Refuse an instance that lacks fields while it has others which the class does not know: they were renamed."""
    lost = [name for name in values if name not in known]
    missing = [name for name in required if name not in values]
    if lost and missing:
        raise TypeError(
            f"it was recorded with {', '.join(lost)} and without {', '.join(missing)}; if that is a field that was "
            f"renamed, say so: agentreplay.register_type({cls.__qualname__}, fields={{{missing[0]!r}: {lost[0]!r}}})"
        )


def _class(cls: Any, fields: dict[str, Any]) -> Any:
    return cls


def _enum(cls: Any, fields: dict[str, Any]) -> Any:
    _require(inherits(cls, Enum), "an Enum")
    member = cls.__members__.get(fields["name"])
    return cls(fields["value"]) if member is None else member


def _namedtuple(cls: Any, fields: dict[str, Any]) -> Any:
    names, values = field_names(cls), _dict(fields["fields"])
    _require(names is not None and set(names) == set(values), f"a named tuple of {', '.join(values)}")
    made = tuple.__new__(cls, [values[name] for name in names or ()])
    return _with_state(made, fields)


def _dataclass(cls: Any, fields: dict[str, Any]) -> Any:
    known = dataclass_fields(cls)
    _require(known is not None, "a dataclass")
    values = dict(_dict(fields["fields"]))
    required = [
        name for name, field in (known or {}).items() if field.default is MISSING and field.default_factory is MISSING
    ]
    _require_names(cls, values, known or {}, required)
    slots = slots_of(cls)
    for name, field in (known or {}).items():
        # A field that the class got since: its default, where the class itself does not hold it.
        if name not in values and field.default_factory is not MISSING:
            values[name] = field.default_factory()
        elif name not in values and name in slots and field.default is not MISSING:
            values[name] = field.default
    made = object.__new__(cls)
    set_attributes(made, values)
    return _with_state(made, fields)


def _model(cls: Any, fields: dict[str, Any]) -> Any:
    _require(is_model(cls), "a pydantic model")
    known = model_fields(cls)
    required = [name for name, field in known.items() if field.is_required()]
    _require_names(cls, _dict(fields["fields"]), known, required)
    made = object.__new__(cls)
    held = {"fields_set": set(fields["fields_set"]), "extra": fields.get("extra"), "private": fields.get("private")}
    for name, slot in model_slots_of(cls).items():
        slot.__set__(made, held[name])
    own = instance_dict(made)
    _require(own is not None, "a pydantic model with fields")
    if own is not None:
        own.update(_dict(fields["fields"]))
    return made


def _object(cls: Any, fields: dict[str, Any]) -> Any:
    made = object.__new__(cls)
    set_attributes(made, _dict(fields["state"]))
    return made


def _exception(cls: Any, fields: dict[str, Any]) -> Any:
    _require(inherits(cls, BaseException), "an exception")
    base: Any = builtin_error_of(cls)
    args = fields["args"]
    made = base.__new__(cls, *args)
    base.__init__(made, *args)
    _with_state(made, fields)
    cause = fields.get("cause")
    if isinstance(cause, BaseException):
        _set_cause(made, cause)
    _set_suppress_context(made, fields.get("suppress_context") is True)
    return made


def _subclass(cls: Any, fields: dict[str, Any]) -> Any:
    value = fields["value"]
    base = base_of(cls)
    _require(base is type(value), f"a subclass of {type(value).__name__}")
    return _with_state(_OF_BASE[base or object](cls, value), fields)


def _with_state(made: Any, fields: dict[str, Any]) -> Any:
    if "state" in fields:
        set_attributes(made, _dict(fields["state"]))
    return made


# -- instances of subclasses of builtins, by way of the builtin's own constructor --------------------------------------


def _by_new(base: Any) -> Callable[[Any, Any], Any]:
    return lambda cls, value: base.__new__(cls, value)


def _filled(base: Any, fill: Callable[[Any, Any], None]) -> Callable[[Any, Any], Any]:
    def make(cls: Any, value: Any) -> Any:
        made = base.__new__(cls)
        fill(made, value)
        return made

    return make


def _fill_ordered_dict(made: Any, value: Any) -> None:
    for key, item in value.items():
        OrderedDict.__setitem__(made, key, item)


def _fill_defaultdict(made: Any, value: Any) -> None:
    defaultdict.__init__(made, value.default_factory)
    dict.update(made, value)


def _as_made(cls: Any, value: Any) -> Any:
    """A Python class of the standard library: its slots are its state."""
    made = object.__new__(cls)
    set_attributes(made, {name: slot.__get__(value) for name, slot in slots_of(type(value)).items()})
    return made


_OF_BASE: Final[dict[type, Callable[[Any, Any], Any]]] = {
    str: _by_new(str),
    int: _by_new(int),
    float: _by_new(float),
    complex: _by_new(complex),
    bytes: _by_new(bytes),
    tuple: _by_new(tuple),
    frozenset: _by_new(frozenset),
    Decimal: _by_new(Decimal),
    bytearray: _filled(bytearray, bytearray.__init__),
    list: _filled(list, list.extend),
    set: _filled(set, set.update),
    dict: _filled(dict, dict.update),
    Counter: _filled(Counter, dict.update),
    OrderedDict: _filled(OrderedDict, _fill_ordered_dict),
    defaultdict: _filled(defaultdict, _fill_defaultdict),
    deque: _filled(deque, lambda made, value: deque.__init__(made, value, value.maxlen)),
    timedelta: lambda cls, value: timedelta.__new__(cls, value.days, value.seconds, value.microseconds),
    date: lambda cls, value: date.__new__(cls, value.year, value.month, value.day),
    datetime: lambda cls, value: datetime.__new__(
        cls,
        value.year,
        value.month,
        value.day,
        value.hour,
        value.minute,
        value.second,
        value.microsecond,
        value.tzinfo,
        fold=value.fold,
    ),
    time: lambda cls, value: time.__new__(
        cls, value.hour, value.minute, value.second, value.microsecond, value.tzinfo, fold=value.fold
    ),
    UUID: _as_made,
    Fraction: _as_made,
}

_REBUILD: Final[dict[str, Callable[[Any, dict[str, Any]], Any]]] = {
    "enum": _enum,
    "namedtuple": _namedtuple,
    "subclass": _subclass,
    "dataclass": _dataclass,
    "model": _model,
    "exception": _exception,
    "object": _object,
    "class": _class,
}
