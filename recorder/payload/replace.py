"""The plainest applier: the request is the new payload."""

from __future__ import annotations

from typing import Any

from .blocking import enforce
from .difference import difference
from .result import ChangeResult, Options
from .trees import share


def apply_replace(payload: Any, request: Any, options: Options) -> ChangeResult:
    """Take the request for the new payload; see `apply_change`.

    What is the same as before stays the same object; the counts are those of the difference.
    """
    operations = [change["op"] for change in difference(payload, request, trees=options.trees)]
    applied = {
        "additions": operations.count("add"),
        "updates": operations.count("replace"),
        "deletions": operations.count("remove"),
    }
    result = share(payload, request, options.trees)
    return enforce(payload, ChangeResult(result, applied, applied_request=request), options)
