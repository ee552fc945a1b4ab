"""Tokens: how many a model says that it read and wrote, in the spellings of the large providers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_TOTAL: Final = "totaltokens"
_PARTS: Final = ("inputtokens", "outputtokens", "prompttokens", "completiontokens")


def tokens_in(usage: Any) -> int | None:
    """The tokens of a usage, read and written; None if it tells of none."""
    if not isinstance(usage, Mapping):
        return None
    counts = {str(name).replace("_", "").casefold(): value for name, value in usage.items() if type(value) is int}
    if _TOTAL in counts:
        return counts[_TOTAL]
    known = [counts[name] for name in _PARTS if name in counts]
    return sum(known) if known else None
