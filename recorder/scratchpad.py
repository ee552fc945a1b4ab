"""The scratchpad of a run: what its decisions note for themselves, beside the payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .introspection import isinstance_of
from .values import encode_bytes


def merge_scratchpad(scratchpad: Mapping[str, Any], change: Any) -> dict[str, Any]:
    """Apply a decision's scratchpad part: notes are replaced; tasks are upserted and removed by id."""
    if not isinstance_of(change, dict):
        return {**scratchpad, "notes": change}
    change = dict(dict.items(change))
    merged = {**scratchpad, **{key: value for key, value in change.items() if key != "taskList"}}
    tasks = change.get("taskList")
    if isinstance_of(tasks, list):
        merged["taskList"] = tasks
    elif isinstance_of(tasks, dict):
        known = {_id_of(task): task for task in items_of(scratchpad.get("taskList")) if isinstance_of(task, dict)}
        for task in items_of(tasks.get("upsert")):
            if isinstance_of(task, dict):
                known[_id_of(task)] = {**known.get(_id_of(task), {}), **task}
        for gone in items_of(tasks.get("remove")):
            known.pop(_id_of(gone if isinstance_of(gone, dict) else {"id": gone}), None)
        merged["taskList"] = list(known.values())
    return merged


def items_of(value: Any) -> list[Any]:
    """A part of a decision that is a list, or one item that stands for a list of one; None is the empty list."""
    if value is None:
        return []
    if isinstance_of(value, list):
        return list.copy(value)
    return list(tuple.__iter__(value)) if isinstance_of(value, tuple) else [value]


def _id_of(task: Mapping[str, Any]) -> bytes:
    """The id of a task as text: a model may put anything there."""
    return encode_bytes(task.get("id"))[0]
