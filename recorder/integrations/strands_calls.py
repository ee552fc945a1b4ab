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
from ..errors import RecordedError
from ..events import ErrorInfo
from ..run_recorder import error_info

SITE: Final = "strands"
"""Where the adapter reads values: in no line of the application."""


class SdkCall(Call):
    """A call of a model or a tool of the SDK."""

    __slots__ = ()

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
