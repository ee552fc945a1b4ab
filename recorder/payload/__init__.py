"""The payload: how a change request becomes a new payload, and what differs between two.

Pure functions on shared trees. Nothing here reads a clock, a file or the environment, and nothing that is passed in is
ever changed: a result shares with its payload whatever stayed as it was.
"""

from __future__ import annotations

from .analyzer import Finding, Limits, analyze
from .change import APPLIERS, LATEST, apply_change
from .difference import difference
from .missing import missing_leaves
from .permissions import OPERATIONS, PathSpec, Permissions, parse_path_spec
from .request import DELETE, build_request
from .result import ChangeResult
from .subagents import apply_scope, deep_merge, extract_downstream, merge_upstream, reverse_scope
from .trees import LIVE, LIVE_AS_STORED, STORED, Trees

__all__ = [
    "APPLIERS",
    "DELETE",
    "LATEST",
    "LIVE",
    "LIVE_AS_STORED",
    "OPERATIONS",
    "STORED",
    "ChangeResult",
    "Finding",
    "Limits",
    "PathSpec",
    "Permissions",
    "Trees",
    "analyze",
    "apply_change",
    "apply_scope",
    "build_request",
    "deep_merge",
    "difference",
    "extract_downstream",
    "merge_upstream",
    "missing_leaves",
    "parse_path_spec",
    "reverse_scope",
]
