"""What a step may return, and the bound of rounds that it returns within: read, or refused with what was expected.

A message names the run's agent and the sort of thing that was returned, nothing that is new in each process, such as
an address: a run that ends with such an error replays with the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from .decisions import Complete, Continue, NextStep
from .errors import UsageError
from .introspection import class_name, clean, isinstance_of

_AS_JSON: Final = ', or as JSON {"type": "continue"}, {"type": "complete", "value": …} or {"step": …}'


def checked_bound(max_rounds: Any) -> int | None:
    """A bound of rounds, or None where there is none.

    Raises:
        UsageError: it is no whole number, or less than 1.
    """
    if max_rounds is None:
        return None
    if not isinstance_of(max_rounds, int) or isinstance_of(max_rounds, bool):
        shown = (
            repr(max_rounds)
            if type(max_rounds) in (str, float, bool)
            else class_name(type(max_rounds)).rpartition(":")[2]
        )
        raise UsageError(f"max_rounds is a whole number of at least 1, not {shown:.200}")
    bound: int = max_rounds
    if bound < 1:
        raise UsageError(f"max_rounds is at least 1, not {bound}")
    return bound


def as_outcome(outcome: Any, agent: str) -> Continue | Complete[Any] | NextStep:
    """Read what a step of an agent returned, the contracts' JSON forms included.

    Raises:
        UsageError: it is none of what a step may return.
    """
    if any(isinstance_of(outcome, cls) for cls in (Continue, Complete, NextStep)):
        known: Continue | Complete[Any] | NextStep = outcome
        return known
    if outcome is Continue:
        return Continue()
    fields = _fields_of(outcome)
    kind = fields.get("type")
    if type(kind) is str and kind == "continue":
        return Continue()
    if type(kind) is str and kind == "complete":
        return Complete(fields.get("value"))
    if "step" in fields:
        try:
            return NextStep.model_validate(fields)
        except ValidationError as error:
            raise UsageError(f"the step of {agent} returned a decision that is none: {error}") from error
    returned, expected = (
        class_name(type(outcome)).rpartition(":")[2],
        "expected Continue(), Complete(value) or a NextStep",
    )
    if fields:
        kind = (
            f"the type {clean(kind)!r:.200}"
            if type(kind) is str
            else f"{', '.join(map(repr, map(clean, fields))):.200}"
        )
        returned, expected = f"{returned} with {kind}", expected + _AS_JSON
    raise UsageError(f"the step of {agent} returned {returned}; {expected}")


def _fields_of(outcome: Any) -> dict[str, Any]:
    """The entries of a mapping whose keys are texts; none of anything else, or of a mapping that cannot be read."""
    try:
        if isinstance_of(outcome, dict):
            items = list(dict.items(outcome))
        elif isinstance_of(outcome, Mapping) or type(outcome) is MappingProxyType:
            items = list(outcome.items())
        else:
            return {}
    except Exception:
        return {}
    texts = all(isinstance_of(key, str) for key, _ in items)
    return {str.__str__(key): value for key, value in items} if texts else {}
