"""Fields that a class calls otherwise today than its logs do.

Code is worked on and names change, while recordings stay. What logs call a class is said with `name=` when it is
registered, and what they call its fields with `fields=`. That goes for writing as well as for reading: so what is
written today is compared with what was written then as if nothing had been renamed, and a log has one name for a thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .builtin_types import Slots

_HOLDS = ("fields", "state")
"""Where the tag of an instance has its fields: those of a class that declares some, and the attributes of any other."""


def as_in_logs(tag: dict[str, Any], names: Mapping[str, str], slots: Slots) -> None:
    """Give the fields in a tag that was just written the names that they have in logs.

    Args:
        tag: of an instance.
        names: name of a field → what logs call it.
        slots: the places in the tag that are still to be filled.
    """
    for part in _HOLDS:
        written = tag.get(part)
        if type(written) is dict and "$type" not in written:
            tag[part] = renamed = _with_names(written, names)
            slots[:] = [
                (value, renamed, names.get(place, place)) if where is written else (value, where, place)
                for value, where, place in slots
            ]
    if "fields_set" in tag and all(type(name) is str for name in tag["fields_set"]):  # others are still to be filled in
        tag["fields_set"] = sorted([names.get(name, name) for name in tag["fields_set"]])


def as_in_code(fields: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """What a tag holds that was read, with the names that the fields have in the code; `names` as in `as_in_logs`."""
    back = {in_logs: name for name, in_logs in names.items()}
    read: dict[str, Any] = {part: _with_names(fields[part], back) for part in _HOLDS if type(fields.get(part)) is dict}
    if type(fields.get("fields_set")) is list:
        read["fields_set"] = [back.get(name, name) for name in fields["fields_set"]]
    return {**fields, **read}


def _with_names(held: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in held.items()}
