"""Code within which nothing is read that is to be recorded by itself: it is covered by what it makes.

A value that is read, `context.read("limit", read_limit)`, is recorded as a whole, whatever it is made of. And code of
the user's that the recorder calls to look at a value, a `__repr__`, belongs to no run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, TypeVar

Value = TypeVar("Value")

covered: Final[ContextVar[bool]] = ContextVar("agentreplay_covered", default=False)
"""Whether such code runs."""


def covering(make: Callable[[], Value]) -> Value:
    """Make a value, with nothing that is read for it recorded by itself."""
    token = covered.set(True)
    try:
        return make()
    finally:
        covered.reset(token)
