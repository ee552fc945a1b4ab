"""Permissions for the appliers that work whole or not at all.

MemberJunction asks before each operation and skips what is denied. A JSON Patch, a merge patch or a new payload is one
piece: what it would change is compared with what is allowed, and if a part is denied nothing is done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from jsonpointer import JsonPointer

from .difference import difference
from .permissions import Operation, Permissions
from .result import ChangeResult, Options

_OPERATIONS: Final[dict[str, Operation]] = {"add": "add", "replace": "update", "remove": "delete"}


def enforce(payload: Any, outcome: ChangeResult, options: Options) -> ChangeResult:
    """Return the outcome, or if it changes what the options do not allow, one in which nothing was changed."""
    if options.allowed_paths is None:
        return outcome
    permissions = Permissions(options.allowed_paths)
    blocked: list[dict[str, Any]] = []
    warnings = []
    for change in difference(payload, outcome.result, trees=options.trees):
        operation = _OPERATIONS[change["op"]]
        path = ".".join(JsonPointer(change["path"]).parts)
        if permissions.allows(path, operation):
            continue
        denied: dict[str, Any] = {"path": path, "operation": operation}
        if "value" in change:
            denied["to"] = change["value"]
        blocked.append({**denied, "reason": f"operation '{operation}' not allowed"})
        warnings.append(f"Operation denied: Cannot {operation} '{path}' - operation '{operation}' not allowed")
    if not blocked:
        return outcome
    return replace(
        outcome,
        result=payload,
        applied={"additions": 0, "updates": 0, "deletions": 0},
        warnings=[*outcome.warnings, *warnings],
        blocked_operations=blocked,
    )
