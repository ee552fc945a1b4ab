"""Tokens: how many a model says that it read and wrote, in the spellings of the large providers; and what that cost.

A cost is what a usage says, as gateways and some providers do: nothing is worked out from lists of prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_TOTAL: Final = "totaltokens"
_PARTS: Final = ("inputtokens", "outputtokens", "prompttokens", "completiontokens")
_COSTS: Final = ("totalcostusd", "totalcost", "costusd", "cost")
_MOST: Final = 1e15
"""What is said to cost more is no cost."""


def tokens_in(usage: Any) -> int | None:
    """The tokens of a usage, read and written; None if it tells of none."""
    if not isinstance(usage, Mapping):
        return None
    counts = {_spelled(name): value for name, value in usage.items() if type(value) is int}
    if _TOTAL in counts:
        return counts[_TOTAL]
    known = [counts[name] for name in _PARTS if name in counts]
    return sum(known) if known else None


def cost_in(usage: Any) -> float | None:
    """What a usage says that it cost, in whatever currency its provider counts; None if it does not say."""
    if not isinstance(usage, Mapping):
        return None
    numbers = {_spelled(name): value for name, value in usage.items() if type(value) in (int, float)}
    return next((float(numbers[name]) for name in _COSTS if name in numbers and abs(numbers[name]) < _MOST), None)


def _spelled(name: object) -> str:
    return str(name).replace("_", "").casefold()
