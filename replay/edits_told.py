"""Edits of a re-run in words, as its log tells them: `set /order/total 129.5`, `patch /a/b → 5; /c removed; 3 more`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .readable import readable, visible

OPERATIONS: Final = 3
"""Operations of a patch that are told; the others are counted."""

PATH: Final = 200
"""Characters of a place, or of a name, that are told."""


def edit_in_words(edit: Any, limit: int, operations: int = OPERATIONS) -> str:
    """An edit, in a line.

    Args:
        edit: as `run.forked` has it; whatever else stands there is told as it is.
        limit: characters of a value.
        operations: of a patch, as many are told.
    """
    told = dict(edit) if isinstance(edit, Mapping) else {"edit": edit}
    patch = told.get("patch")
    words = [_short(told.pop(name)) for name in ("edit", "path", "call", "name") if name in told]
    if type(patch) is list and patch and all(isinstance(one, Mapping) for one in patch):
        del told["patch"]
        left = len(patch) - operations
        lines = [operation_in_words(one, limit) for one in patch[:operations]]
        words.append("; ".join([*lines, *([f"{left:,} more"] if left > 0 else [])]))
    return " ".join([*words, *[readable(value, limit) for value in told.values()]])


def operation_in_words(operation: Mapping[str, Any], limit: int) -> str:
    """An operation of a JSON Patch: `/a/b → 5`, `/a/b removed`, `/a/b moved from /c`."""
    name, path = operation.get("op"), _short(operation.get("path")) or '""'
    if name in ("add", "replace") and "value" in operation:
        return f"{path} → {readable(operation['value'], limit)}"
    if name == "remove":
        return f"{path} removed"
    if name in ("move", "copy"):
        return f"{path} {'moved' if name == 'move' else 'copied'} from {_short(operation.get('from'))}"
    return f"{path} {_short(name)} {readable(operation.get('value'), limit)}"


def _short(name: Any) -> str:
    return visible(str(name)[:PATH])
