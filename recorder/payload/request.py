"""The memberjunction form of a payload change request.

A request is an object with up to four sections, each shaped like the payload as far as it says something:
`newElements`, `updateElements`, `replaceElements` and `removeElements`; and `reasoning`, which is for people. In
`removeElements` the text `__DELETE__` stands at what is to go.

Models put payload data beside the sections now and then. `correct_stray_keys` moves it to where it was meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jsonpointer import JsonPointer, JsonPointerException

from ..errors import ChangeRefused, UsageError
from .property_paths import index_of, own_keys, prop
from .trees import UNDEFINED, Trees, is_array, is_object

DELETE: Final = "__DELETE__"
"""The text that stands for a deletion."""

NEW: Final = "newElements"
UPDATE: Final = "updateElements"
REPLACE: Final = "replaceElements"
REMOVE: Final = "removeElements"
SECTIONS: Final = (NEW, UPDATE, REPLACE, REMOVE)
REASONING: Final = "reasoning"
_KNOWN: Final = frozenset((*SECTIONS, REASONING))

_STRAY: Final = re.compile(r"[a-zA-Z]")


def is_delete(value: Any) -> bool:
    """Say whether the value is the text that stands for a deletion."""
    return type(value) is str and value == DELETE


def build_request(
    new: Any = None,
    update: Any = None,
    replace: Any = None,
    remove: Any = None,
    reason: str | None = None,
    *,
    payload: Any = ...,
) -> dict[str, Any]:
    """Make a request out of what a caller says in Python.

    Args:
        new: what to add, shaped like the payload; items of an array are appended.
        update: what to change; objects are merged, arrays by position, where `{}` leaves an item as it is.
        replace: what to put in place of what is there, as a whole.
        remove: what to take away: a key, a JSON Pointer such as "/order/items/0", or a list of them; or an object
            or list shaped like the payload with "__DELETE__" at what is to go.
        reason: why, for people.
        payload: what the request is for, to refuse a list for an object.

    Returns:
        The request, without what was not given.

    Raises:
        UsageError: a section is none of these, or a pointer in `remove` is malformed.
    """
    request: dict[str, Any] = {}
    removed = None if remove is None else _removals(remove)
    given = (("new", NEW, new), ("update", UPDATE, update), ("replace", REPLACE, replace), ("remove", REMOVE, removed))
    for name, section, value in given:
        if value is None:
            continue
        if not is_object(value) and not (is_array(value) and (payload is ... or is_array(payload))):
            shaped = "a list or a dict" if is_array(payload) else "a dict"
            raise UsageError(f"{name} takes {shaped} shaped like the payload, not {type(value).__name__}")
        request[section] = value
    if reason is not None:
        request[REASONING] = reason
    return request


def _removals(remove: Any) -> Any:
    if isinstance(remove, str):
        remove = [remove]
    if isinstance(remove, Mapping):
        return remove
    if not isinstance(remove, list | tuple | set | frozenset):
        raise UsageError(
            f"remove takes a key, a JSON Pointer, a list of them, or an object with {DELETE!r} at what is to go; "
            f"not {type(remove).__name__}"
        )
    if not all(type(path) is str and path != DELETE for path in remove):
        return remove
    section: dict[str, Any] = {}
    for path in remove:
        keys = _keys_of(path) if path.startswith("/") else [path]
        node = section
        for key in keys[:-1]:
            node = node.setdefault(key, {})
            if not isinstance(node, dict):
                break  # the whole of it goes already
        else:
            node[keys[-1]] = DELETE
    return section


def _keys_of(path: str) -> list[str]:
    try:
        return list(JsonPointer(path).parts)
    except JsonPointerException as error:
        raise UsageError(f"remove: {path!r} is no JSON Pointer: {error}") from error


@dataclass(frozen=True, slots=True)
class Correction:
    """A request after its stray keys were moved.

    Attributes:
        request: the same object as before if there were none.
        warnings: one for each key.
        names: by section, what belongs to a section that is an array. JavaScript sets a property on the array there,
            which no JSON can show, and which may count all the same.
    """

    request: dict[str, Any]
    warnings: list[str] = field(default_factory=list)
    names: dict[str, dict[str, Any]] = field(default_factory=dict)


def correct_stray_keys(request: dict[str, Any], payload: Any, agent_name: str | None, trees: Trees) -> Correction:
    """Move payload data that stands beside the sections into one of them.

    A key goes to `updateElements` if the payload has it, else to `newElements`. What the section says already wins;
    two objects are merged. Keys that do not begin with a letter are left alone.

    Args:
        request: is not changed.
        payload: the payload that the request is for.
        agent_name: for the warnings.
        trees: how to look at the two.

    Raises:
        ChangeRefused: the section that a key belongs to is a scalar.
    """
    strays = [key for key in own_keys(request) if isinstance(key, str) and key not in _KNOWN and _STRAY.match(key)]
    if not strays:
        return Correction(request)
    corrected = dict(request)
    done = Correction(corrected)
    prefix = f"[PayloadManager:{agent_name}]" if agent_name else "[PayloadManager]"
    for key in strays:
        section = UPDATE if prop(payload, key, trees) is not UNDEFINED and trees.is_container(payload) else NEW
        value, there = corrected.pop(key), corrected.get(section)
        if is_array(there):
            done.names.setdefault(section, {})[key] = value
        else:
            corrected[section] = _with_stray(there, key, value, section, trees)
        done.warnings.append(f'{prefix} Auto-corrected stray key "{key}" in payloadChangeRequest — moved to {section}')
    return done


def _with_stray(section: Any, key: str, value: Any, name: str, trees: Trees) -> Any:
    if not section and not trees.is_container(section):
        return {key: value}
    if not trees.is_object(section):
        raise ChangeRefused(
            f"the request has {key!r} beside its sections, which belongs to {name}; but {name} is {section!r}, "
            "where an object was expected. Nothing was changed."
        )
    explicit = section.get(key, UNDEFINED)
    if explicit is UNDEFINED:
        return {**section, key: value}
    if trees.is_object(explicit) and trees.is_object(value):
        return {**section, key: _fill(explicit, value, trees)}
    return section


def _fill(explicit: Any, stray: Any, trees: Trees) -> Any:
    """What was said explicitly, with its gaps filled from the stray value."""
    if explicit is UNDEFINED:
        return stray
    if not (trees.is_container(explicit) and trees.is_container(stray)):
        return explicit
    filled: Any = list(explicit) if is_array(explicit) else dict(explicit)
    for key in map(str, range(len(stray))) if is_array(stray) else own_keys(stray):
        value = _fill(prop(filled, key, trees), prop(stray, key, trees), trees)
        index = index_of(key)
        if not is_array(filled):
            filled[key] = value
        elif index is not None:
            filled.extend([None] * (index + 1 - len(filled)))
            filled[index] = value
    return filled
