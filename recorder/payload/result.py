"""What is given to an applier beside the payload and the request, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .trees import LIVE, STORED, Trees


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The outcome of a payload change request.

    Attributes:
        result: the payload after. Subtrees that did not change are the same objects as before.
        applied: {"additions": …, "updates": …, "deletions": …}, counted as the applier counts them.
        warnings: what a person should look at, in the order in which it came up.
        blocked_operations: what the permissions denied: {path, operation, from?, to?, reason}. `from` is left out
            where there was nothing, `to` in a deletion.
        requires_feedback: whether the analysis found the change suspicious.
        applied_request: the request as applied, after correction; the same object as the request if it needed none.
    """

    result: Any
    applied: dict[str, int]
    warnings: list[str] = field(default_factory=list)
    blocked_operations: list[dict[str, Any]] = field(default_factory=list)
    requires_feedback: bool = False
    applied_request: Any = None


@dataclass(frozen=True, slots=True)
class Options:
    """How to apply a request; see `apply_change`."""

    allowed_paths: Sequence[str] | None = None
    ignore_stray_keys: bool = False
    analyze: bool = True
    strict: bool = False
    agent_name: str | None = None
    stored: bool = False

    @property
    def trees(self) -> Trees:
        """How to look at the payload and the request."""
        return STORED if self.stored else LIVE
