"""Which recorded call is the nearest to the one that was asked for?

Code that changed asks for calls that the recording does not hold, and the question is always: which of those it holds
was meant? It is one of the same name if there is one, and of those the one with the fewest differences. A difference
counts one at most, less if two texts resemble each other.

It has to be found quickly among calls whose arguments may be a megabyte each. So few candidates are looked at, equal
parts are skipped in C, and a candidate is dropped as soon as it is further away than the best one so far.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, Protocol, TypeVar

from ..recorder.values import is_tag
from .diff import distance
from .equality import common_prefix, common_suffix, same


class RecordedCall(Protocol):
    """What is asked of a call in the recording."""

    @property
    def call(self) -> str:
        """Its id."""

    @property
    def seq(self) -> int:
        """Of the event with which it began."""

    @property
    def kind(self) -> str:
        """Whether it is a tool or a model."""

    @property
    def name(self) -> str:
        """Of the tool, or of the model's callable."""

    @property
    def arguments(self) -> Any:
        """In stored form."""


Call = TypeVar("Call", bound=RecordedCall)

CANDIDATES: Final = 20
"""So many calls are looked at, those of the same name first."""

_FAR: Final = 64.0  # differences from which on a call is just another one
_LOOKED_AT: Final = 300  # characters of a text, for judging how much it resembles another


def closest(kind: str, name: str, arguments: Any, candidates: Iterable[Call]) -> Call | None:
    """Choose the candidate that is nearest to a call; the first of equally near ones, None if there are none."""
    candidates = list(candidates)
    alike = [call for call in candidates if call.name == name and call.kind == kind]
    best, least = None, _FAR
    for call in islice(alike or candidates, CANDIDATES):
        found = _apart(call.arguments, arguments, least)
        if best is None or found < least:
            best, least = call, min(found, _FAR)
    return best


def _apart(a: Any, b: Any, enough: float) -> float:
    """Count in how many places two trees differ; once it is `enough`, stop counting."""
    if a is b or same(a, b):
        return 0.0
    if type(a) is dict and type(b) is dict and not is_tag(a) and not is_tag(b):
        total = float(len(a.keys() ^ b.keys()))
        pairs = [(a[key], b[key]) for key in a if key in b]
    elif type(a) is list and type(b) is list:
        shortest = min(len(a), len(b))
        start = common_prefix(a, b, 0, 0, shortest)
        end = common_suffix(a, b, shortest - start)
        total = float(abs(len(a) - len(b)))
        pairs = list(zip(a[start : len(a) - end], b[start : len(b) - end], strict=False))
    elif type(a) is str and type(b) is str:
        return 0.5 + distance(a[:_LOOKED_AT], b[:_LOOKED_AT]) / 2
    else:
        return 1.0
    for x, y in pairs:
        if total >= enough:
            break
        total += _apart(x, y, enough - total)
    return total
