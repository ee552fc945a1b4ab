"""What a recorder of Strands agents was told: where to record, under which words, and what it knows of the tools."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from ..ambient import Capture, sources_of
from ..calls import check_safety
from ..run_log import StorePolicy
from ..store import EventStore
from ..tags import checked_tags


@dataclass(frozen=True)
class Settings:
    """Settings of one recorder; they are checked where it is made.

    Attributes:
        name: of the agent; None for its own.
        store, tags, capture, on_store_error: as for `record`.
        safety: name of a tool → what running it again would mean.
        steering: names of tools that are run in a replay, too.
        caller: the code that made the recorder, and the names of its module.
    """

    caller: tuple[CodeType, dict[str, Any]]
    name: str | None = None
    store: EventStore | str | None = None
    tags: Sequence[str] | None = None
    capture: Capture = None
    on_store_error: StorePolicy = "raise"
    safety: Mapping[str, str] = field(default_factory=dict)
    steering: Collection[str] = ()

    def __post_init__(self) -> None:
        checked_tags(self.tags)
        sources_of(self.capture)
        for word in self.safety.values():
            check_safety(word)

    def of_block(self) -> dict[str, Any]:
        """What the block of a run is made with."""
        options: dict[str, Any] = {
            "applier": "json-patch",  # as which each write to the state is recorded
            "on_store_error": self.on_store_error,
            "tags": checked_tags(self.tags),
        }
        return {
            "store": self.store,
            "capture": sources_of(self.capture),
            "options": options,
            "caller": self.caller,
        }
