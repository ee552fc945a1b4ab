"""An answer that a person gave, or that is used again, in the place of a call that would be made."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any


class GivenAnswer:
    """An answer that was given or taken from elsewhere, in place of making a call."""

    def __init__(self, call: str, value: Any) -> None:
        self.call = call
        self._value = value

    def give(self) -> Any:
        """The value."""
        return self._value

    async def agive(self) -> Any:
        """The value."""
        return self._value

    def stream(self) -> Generator[Any, Any, Any]:
        """The items of the value."""
        yield from self._value or ()

    async def astream(self) -> AsyncGenerator[Any, Any]:
        """The items of the value."""
        for item in self._value or ():
            yield item
