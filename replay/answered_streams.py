"""How code uses a stream that is answered from the log, compared with how it was used while it was recorded.

A generator is a conversation: its consumer takes items, may send values and throw errors into it, and may leave it.
What it gives next is its answer to that. So each is compared, and how far it is read: a recording has no answer to
what comes behind the place where it was left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..recorder.error_info import error_info
from ..recorder.events import ErrorInfo, Event
from ..recorder.values import encode
from .changes import MISSING
from .divergence import Difference
from .script import RecordedCall
from .sites import site_of_code

if TYPE_CHECKING:
    from .recorded_run import RecordedRun


class AnsweredStream:
    """The use that code makes of one stream.

    Args:
        run: the recording.
        recorded: the call that gave the stream.
        ended: how that has ended; None if it has not.

    Attributes:
        thrown: what the code threw into the stream last, if nothing came after that.
    """

    def __init__(self, run: RecordedRun, recorded: RecordedCall, ended: Event | None) -> None:
        self.thrown: BaseException | None = None
        self._run = run
        self._recorded = recorded
        self._ended = ended
        data: Any = None if ended is None else ended.data
        self._count = len(getattr(data, "stream", None) or ())
        self._abandoned = getattr(data, "abandoned", False)
        self._given = {one["after"]: one for one in getattr(data, "given", None) or ()}
        self._number = 0

    def reads(self, number: int) -> None:
        """The code gets an item, the first being 1."""
        self._number = number
        self.thrown = None
        self._run.open_streams[self] = None

    # -- what is given to it -----------------------------------------------------------------------------

    def is_given(self, value: Any) -> None:
        """The code goes on, and sends a value; None is sent by taking the next item."""
        self._compare(None if value is None else {"sent": self._run.redacted(encode(value).stored)})

    def is_thrown(self, error: BaseException) -> None:
        """The code throws an error into the stream. Raises it where the recording has none."""
        if self._run.log.ended:  # an event loop that is closed cancels what is left open
            raise error
        self.thrown = error
        info = error_info(error)
        thrown = {"type": info.type, "message": info.message}
        if not self._compare({"thrown": self._run.redacted(thrown)}):
            raise error

    def _compare(self, actual: dict[str, Any] | None) -> bool:
        recorded = self._given.get(self._number)
        expected = None if recorded is None else {name: one for name, one in recorded.items() if name != "after"}
        comparison = self._run.course.comparison_of(self._run)
        if comparison.same("outcome", "", expected, actual):
            return True
        trees = [MISSING if one is None else one for one in (expected, actual)]
        comparison.tell(self._difference(*trees))
        return False

    def raises_what_was_thrown(self, error: ErrorInfo) -> bool:
        """Whether the stream has ended with the error that was thrown into it last."""
        last = self._given.get(self._number)
        return self.thrown is not None and last is not None and last.get("thrown") == _told(error)

    # -- how far it is read ------------------------------------------------------------------------------

    def is_left(self) -> None:
        """The code leaves the stream; the recording may have read on."""
        self._run.open_streams.pop(self, None)
        if not self._run.log.ended and (difference := self.left_early()) is not None:
            self._run.course.parts_while_closing(difference)

    def is_read_on(self) -> None:
        """The code wants another item; the recording may have left the stream."""
        self._run.open_streams.pop(self, None)
        if self._abandoned:
            what = f"read on after {self._count} items, where the recording left it"
            self._run.course.comparison_of(self._run).tell(self._difference("left", what))

    def left_early(self) -> Difference | None:
        """What differs if the code does not take another item."""
        if self._ended is None or (self._number == self._count and self._abandoned):
            return None
        expected = "left" if self._abandoned else "read to its end"
        return self._difference(expected, f"left after {self._number} of {self._count} items")

    def _difference(self, expected: Any, actual: Any) -> Difference:
        call, ended = self._recorded, self._ended
        difference = self._run.course.comparison_of(self._run).value(
            "another outcome", call.strand, ended or call.called, expected, actual, name=call.name, site=site_of_code()
        )
        return difference.of_call(call.call, call.kind)


def _told(error: ErrorInfo) -> dict[str, str]:
    return {"type": error.type, "message": error.message}
