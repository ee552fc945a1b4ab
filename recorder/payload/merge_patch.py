"""JSON Merge Patch (RFC 7396) on shared trees: objects are merged, null deletes, anything else takes the place."""

from __future__ import annotations

from typing import Any

from .blocking import enforce
from .result import ChangeResult, Options
from .trees import UNDEFINED, Trees


def apply_merge_patch(payload: Any, request: Any, options: Options) -> ChangeResult:
    """Apply a merge patch; see `apply_change`. Only what differs from before is counted and takes a new place."""
    applied = {"additions": 0, "updates": 0, "deletions": 0}
    result = _merge(payload, request, applied, options.trees)
    return enforce(payload, ChangeResult(result, applied, applied_request=request), options)


def _merge(old: Any, patch: Any, applied: dict[str, int], trees: Trees) -> Any:
    """What the patch makes of `old`, which may be UNDEFINED."""
    if not trees.is_object(patch):
        if trees.same(old, patch):
            return old
        applied["additions" if old is UNDEFINED else "updates"] += 1
        return patch
    if not trees.is_object(old):
        applied["additions" if old is UNDEFINED else "updates"] += 1
        return _merge({}, patch, {"additions": 0, "updates": 0, "deletions": 0}, trees)
    merged = old
    for key, value in patch.items():
        before = merged.get(key, UNDEFINED)
        if value is None:
            if before is UNDEFINED:
                continue
            merged = dict(merged) if merged is old else merged
            del merged[key]
            applied["deletions"] += 1
            continue
        after = _merge(before, value, applied, trees)
        if after is not before:
            merged = dict(merged) if merged is old else merged
            merged[key] = after
    return merged
