"""A call at one of the SDK's seams.

It is a call as any other, but for its errors. Errors of clients hold what is alive: responses, locks, connections. The
SDK turns an error of a model or a tool into a message or hands it on; it looks at the class at most. So an error of
which only a part can be stored is recorded without its insides, and a replay raises a `RecordedError` in its place,
instead of refusing to answer.
"""

from __future__ import annotations

from typing import Any, Final

from ..calls import Call
from ..effects import aperform
from ..encoding import encode
from ..error_info import error_info
from ..errors import RecordedError
from ..events import ErrorInfo
from .strands_answers import AnswerSoFar
from .strands_edits import check_response

SITE: Final = "strands"
"""Where the adapter reads values: in no line of the application."""


class SdkCall(Call):
    """A call of a model or a tool of the SDK."""

    __slots__ = ("_answer",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._answer = AnswerSoFar() if self.effect.kind == "model" else None

    def accepts(self, given: Any) -> None:
        """Refuse what a person gives for a model, if no model of the SDK could say it."""
        if self.effect.kind == "model":
            check_response(given)

    async def agave(self, chunk: Any) -> None:
        """Note a chunk of the stream, and what a model says with it."""
        await super().agave(chunk)
        if self._answer is not None:
            self._answer.add(chunk)

    async def areturned(self, value: Any, *, abandoned: bool = False) -> None:
        """Append that the call returned; a model that was heard to its end with what it said as a whole."""
        if self._answer is not None and value is None and not abandoned:
            value = self._answer.message
        await super().areturned(value, abandoned=abandoned)

    def error_info(self, error: BaseException) -> ErrorInfo:
        """The error; without its insides if they cannot all be stored."""
        return storable(error)


def storable(error: BaseException) -> ErrorInfo:
    """An exception as an event holds it, without what cannot be stored of it."""
    info = error_info(error)
    return info.model_copy(update={"value": None}) if encode(error).lossy else info


class StandIn(RecordedError):
    """Stands for an error of a model or a tool; its text is that of the error, since the SDK makes messages of it."""

    def __str__(self) -> str:
        return self.message


async def answer_to(call: Call, made: Any) -> Any:
    """Make a call of a function without arguments, and record it; or what stands in for it.

    Raises:
        StandIn: in the place of a recorded error that is not known here.
    """
    try:
        return await aperform(call, made, (), {})
    except RecordedError as error:
        raise stand_in(error) from error.__cause__


def stand_in(error: BaseException) -> BaseException:
    """An error, or what stands for it if it is a recorded one that is not known here."""
    if type(error) is not RecordedError:
        return error
    return StandIn(error.type, error.message, error.traceback)
