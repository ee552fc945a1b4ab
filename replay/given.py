"""An answer that a person gave, or that is used again, in the place of a call that would be made."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, Any

from ..recorder.events import Data, ModelReturnedData, ToolReturnedData

if TYPE_CHECKING:
    from ..recorder.calls import Call
    from .recorded_run import RecordedRun


def append_given(run: RecordedRun, call: Call, data: Any, value: Any, *, mark: str = "edited") -> GivenAnswer:
    """Append a call that is not made, with the answer that it is given.

    Args:
        run: which has gone live.
        call: the code's.
        data: of its `*.called`.
        value: the answer.
        mark: what its last event says of it.
    """
    kind = call.effect.kind
    marked: dict[str, Any] = {mark: True}
    run.log.emit(f"{kind}.called", data, scope=call.scope)
    returned: Data = (
        ModelReturnedData(call=data.call, response=value, **marked)
        if kind == "model"
        else ToolReturnedData(call=data.call, result=value, **marked)
    )
    run.log.emit(f"{kind}.returned", returned, scope=call.scope)
    if kind == "tool" and run.recorder is not None:
        run.recorder.count_tool(data.name, 0.0, True)
    run.course.coverage.recorded += 1
    return GivenAnswer(data.call, value)


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
