"""Applying a payload change request: one function, four named and versioned sets of rules.

A log says which applier, of which version, made each change. So a version of an applier, once released, keeps doing
what it did; a change of rules is a new version beside the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from ..errors import ChangeRefused, UsageError
from .json_patch import apply_json_patch
from .memberjunction import apply_memberjunction
from .merge_patch import apply_merge_patch
from .replace import apply_replace
from .result import ChangeResult, Options

Applier: TypeAlias = Callable[[Any, Any, Options], ChangeResult]

APPLIERS: Final[dict[str, dict[int, Applier]]] = {
    "memberjunction": {1: apply_memberjunction},
    "json-patch": {1: apply_json_patch},
    "merge-patch": {1: apply_merge_patch},
    "replace": {1: apply_replace},
}
"""Every applier there is, by name and version."""

LATEST: Final[dict[str, int]] = {name: max(versions) for name, versions in APPLIERS.items()}
"""The version of each applier that new changes are made with."""


def apply_change(
    payload: Any,
    request: Any,
    applier: str = "memberjunction",
    *,
    version: int | None = None,
    allowed_paths: Sequence[str] | None = None,
    ignore_stray_keys: bool = False,
    analyze: bool = True,
    strict: bool = False,
    agent_name: str | None = None,
    stored: bool = False,
) -> ChangeResult:
    """Apply a change request to a payload. Neither is changed; the result shares what did not change.

    Args:
        payload: the payload before.
        request: in the form of the applier. memberjunction: an object with `newElements`, `updateElements`,
            `replaceElements`, `removeElements`; json-patch: a list of operations (RFC 6902), applied whole or
            refused whole; merge-patch: RFC 7396, null deletes; replace: the new payload itself.
        applier: whose rules to follow.
        version: of the applier; the latest by default.
        allowed_paths: path specs such as `analysis.*:add,update`; None allows everything. memberjunction skips what
            is denied and does the rest; the other appliers do nothing at all if a part is denied.
        ignore_stray_keys: memberjunction only: ignore payload data that stands beside the sections.
        analyze: memberjunction only: warn of suspicious changes, such as a text that lost most of its length.
        strict: memberjunction only: warn of what its rules do silently; these warnings begin with "[strict] ".
        agent_name: memberjunction only: for the warnings about stray keys.
        stored: whether payload and request are in stored form, as they are in a log. There a dict with the key "$type"
            is one value; in live values it is a dict like any other. Nothing is analyzed then, and `strict` is off:
            the log says already what there was to say.

    Returns:
        The payload after, with counts, warnings and blocked operations.

    Raises:
        ChangeRefused: the request is malformed, or cannot be applied to this payload.
        UsageError: there is no such applier, or no such version of it.
    """
    options = Options(allowed_paths, ignore_stray_keys, analyze, strict, agent_name, stored)
    try:
        return _find(applier, version)(payload, request, options)
    except RecursionError:
        raise ChangeRefused(f"{applier}: payload or request is nested too deeply. Nothing was changed.") from None


def _find(applier: str, version: int | None) -> Applier:
    versions = APPLIERS.get(applier)
    if versions is None:
        raise UsageError(f"there is no applier {applier!r}; there are {', '.join(APPLIERS)}")
    wanted = LATEST[applier] if version is None else version
    if wanted not in versions:
        known = ", ".join(map(str, versions))
        raise UsageError(f"the applier {applier!r} has no version {wanted!r}; this agentreplay has {known}")
    return versions[wanted]
