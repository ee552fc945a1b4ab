"""Upcasters bring an old event's data to the shape that this version reads.

A stored event is never rewritten. When the shape of a kind changes, its number in `CURRENT` is raised and an
upcaster from the version before is added here; reading applies them one after the other. There is one read
point, `event_codec.decode_event`, so every reader sees today's shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Upcaster: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

CURRENT: dict[str, int] = {}
"""Kinds whose data is past version 1, and their version; every other kind is at 1."""

UPCASTERS: dict[tuple[str, int], Upcaster] = {}
"""(kind, version) → the pure function that returns the data in the shape of version + 1."""


def version_of(kind: str) -> int:
    """The version in which this agentreplay writes `kind`."""
    return CURRENT.get(kind, 1)


def upcast(
    kind: str,
    version: int,
    data: dict[str, Any],
    upcasters: Mapping[tuple[str, int], Upcaster] = UPCASTERS,
) -> tuple[int, dict[str, Any]]:
    """Bring `data` as far as the known upcasters lead.

    A version newer than any known one passes through as it is: its unknown fields are kept and shown.

    Returns:
        The version reached, and the data in its shape. `data` itself is not changed.
    """
    while step := upcasters.get((kind, version)):
        data = step(dict(data))
        version += 1
    return version, data
