"""An answer that a person gave, or that is used again, in the place of a call that would be made."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import TYPE_CHECKING, Any

from ..recorder.events import Data, ModelReturnedData, ToolReturnedData

if TYPE_CHECKING:
    from ..recorder.calls import Call
    from .recorded_run import RecordedRun


def append_given(run: RecordedRun, call: Call, data: Any, value: Any) -> GivenAnswer:
    """Append a call that is not made, with the answer that was given for it.

    Args:
        run: which has gone live.
        call: the code's.
        data: of its `*.called`.
        value: the answer.
    """
    run.log.emit(f"{call.effect.kind}.called", data, scope=call.scope)
    return append_end(run, call, data.call, value, "edited")


def append_end(run: RecordedRun, call: Call, id: str, value: Any, mark: str) -> GivenAnswer:
    """Append how a call has ended that is not made.

    Args:
        run: which has gone live.
        call: the code's.
        id: of the call in the log.
        value: the answer.
        mark: where it comes from: "edited" or "assumed".
    """
    kind, marked = call.effect.kind, dict[str, Any](call=id)
    marked[mark] = True
    returned: Data = (
        ModelReturnedData(response=value, **marked) if kind == "model" else ToolReturnedData(result=value, **marked)
    )
    run.log.emit(f"{kind}.returned", returned, scope=call.scope)
    if kind == "tool" and run.recorder is not None:
        run.recorder.count_tool(call.effect.name, 0.0, True)
    run.course.coverage.recorded += 1
    return GivenAnswer(id, value)


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
