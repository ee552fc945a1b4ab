"""What the event of a change of the payload says: what was asked and applied, who asked and why, what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .events import Data, PayloadChangedData
from .introspection import clean
from .live_payload import RecordedChange
from .payload import LATEST
from .run_writer import RunWriter

CHANGED_IN_PLACE: Final = "an object in the payload was changed in place; use context.change to say why"
"""The warning of a change that nobody has asked for."""


def change_data(
    writer: RunWriter,
    change: RecordedChange,
    applier: str,
    options: Mapping[str, Any],
    source: Mapping[str, Any] | None = None,
    reason: str | None = None,
    warnings: Sequence[str] = (),
) -> Data:
    """The data of `payload.changed`; for the function that makes it, which runs where the change was asked for.

    Args:
        writer: who records the change.
        change: what came of it.
        applier, options: by what it was applied, and with what.
        source: who asked: {kind, call?}; by default the call inside which this runs, or the code.
        reason: why.
        warnings: beside those of the applier.
    """
    here = writer.here()
    within = None if here is None else here.within
    if source is None:
        source = {"kind": "action", "call": within} if within else {"kind": "code"}
        if here is not None and here.task.visit is not None:
            source |= {"node": here.task.visit.node, "visit": here.task.visit.number}
    outcome = change.outcome
    return PayloadChangedData(
        applier={"name": applier, "version": LATEST[applier]},
        request=change.request,
        applied_request=change.applied_request,
        source=dict(source),
        reason=None if reason is None else clean(reason),
        counts=outcome.applied,
        warnings=[clean(text) for text in (*outcome.warnings, *warnings)],
        blocked=outcome.blocked_operations,
        requires_feedback=outcome.requires_feedback,
        options=dict(options),
        correction=change.correction,
        after_turn=writer.log.turns if within else None,
        hash_before=change.hash_before,
        hash_after=change.hash_after,
    )


def lacks(pointer: str) -> str:
    """The warning of a change that asked for what the payload does not have afterwards."""
    return f"requested, but not in the payload after the change: {pointer}"
