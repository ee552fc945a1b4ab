"""The conversation of a run, every change of which is an event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from .copying import copy_value
from .events import Data, MessageAddedData, MessagesReplacedData
from .frozen import freeze
from .introspection import clean
from .run_recorder import RunRecorder


class Messages(Sequence[Any]):
    """The conversation of a run: read like a sequence, changed by `append` and `replace`.

    Messages are copied when they are added and frozen when they are read.

    Attributes:
        changes: how often it was changed.
    """

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder
        self.changes = 0
        self._items: list[Any] = []

    def append(self, message: Any) -> None:
        """Add a message at the end."""
        kept = copy_value(message)

        def make() -> Data:
            self._items.append(freeze(kept))
            self.changes += 1
            return MessageAddedData(message=kept)

        self._recorder.emit("message.added", make)

    def replace(self, messages: Sequence[Any], start: int = 0, stop: int | None = None, why: str | None = None) -> None:
        """Put `messages` in place of those from `start` up to `stop` (default: the end), as a compaction does.

        Args:
            start, stop: as in a slice; negative ones count from the end.
            why: such as "compaction" or "trim".
        """
        kept = [copy_value(message) for message in messages]

        def make() -> Data:
            first, last, _ = slice(start, stop).indices(len(self._items))
            last = max(first, last)
            self._items[first:last] = [freeze(message) for message in kept]
            self.changes += 1
            return MessagesReplacedData(start=first, stop=last, messages=kept, why=None if why is None else clean(why))

        self._recorder.emit("messages.replaced", make)

    def restore(self, messages: Sequence[Any]) -> None:
        """Begin with a conversation that is in the record already."""
        self._items = [freeze(message) for message in messages]
        self.changes += 1

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __repr__(self) -> str:
        return f"<{len(self._items)} messages>"
