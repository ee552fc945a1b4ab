"""The conversation of a Strands agent, kept in step with the messages of its run.

The SDK tells of each message that it adds, and of nothing that happens to the list otherwise: a sliding window trims
it, a summary replaces its beginning, a guardrail rewrites a message in place, and anybody may append. So at the
boundaries of rounds the two are compared, and what differs is recorded as an edit of the list.

What is different in every execution is pinned: the SDK's random id of a message and the time to the first byte are
recorded as a value that was read, and given to the message again where the recording is executed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from operator import is_
from typing import Any, Final
from uuid import uuid4

from strands import Agent

from ..copying import copy_value
from ..errors import UsageError
from ..likeness import likeness
from ..messages import Messages
from ..plain import is_plain
from ..run_recorder import RunRecorder
from .strands_calls import SITE
from .strands_deeds import is_exactly
from .strands_edits import place_of

SO_FAR: Final = "the conversation so far"
"""Why the first messages of a run are there: the agent had them before it."""

ANOTHER: Final = "another prompt"
"""Why the messages of a prompt are others in a re-run."""

PINNED: Final = "strands.message"
"""The source of what is read for each message."""

STRETCHES: Final = 8
"""So many stretches, one behind the other, are looked at as one."""


class ConversationLog:
    """Records the conversation of one agent in one run.

    Args:
        agent: whose conversation it is.
        messages: of the run.
        recorder: of the run.
        cancelled: tells whether the agent was asked to stop, and asks it; see `pin`.
    """

    def __init__(
        self, agent: weakref.ref[Agent], messages: Messages, recorder: RunRecorder, cancelled: Callable[[bool], bool]
    ) -> None:
        self._agent = agent
        self._messages = messages
        self._recorder = recorder
        self._cancelled = cancelled
        self._known = _Known()
        self._prompt: tuple[int, int] | None = None
        self._caught_up = -1  # with so many changes of the record

    def _of(self) -> Agent:
        agent = self._agent()
        assert agent is not None  # it is being invoked
        return agent

    def begin(self) -> None:
        """Record what the agent brings with it; messages that have no id yet get theirs now, from the record."""
        messages = self._of().messages
        if not messages:
            return
        ids = self._recorder.read(
            PINNED, lambda: [one.get("tracking_id") or str(uuid4()) for one in messages], site=SITE
        )
        for message, tracking_id in zip(messages, ids, strict=False):
            message["tracking_id"] = tracking_id
        self._messages.replace([recorded_form(message) for message in messages], why=SO_FAR)

    def added(self, message: Any) -> None:
        """Record a message that the SDK has just added, once what is random in it is pinned."""
        self.pin(message)
        messages = self._of().messages
        if len(messages) == len(self._messages) + 1 and messages[-1] is message:
            self._messages.append(recorded_form(message))
        else:
            self.catch_up()

    def pin(self, message: Any) -> None:
        """Give a message the id and the latency that it had when it was recorded.

        Whether the agent has been asked to stop from outside is pinned with them: the SDK looks at that next.
        """
        metadata = message.get("metadata") or {}

        def read() -> dict[str, Any]:
            found = {"tracking_id": message.get("tracking_id")}
            if "metrics" in metadata:
                found["metrics"] = dict(metadata["metrics"])
            if self._cancelled(False):
                found["cancelled"] = True
            return found

        pinned = self._recorder.read(PINNED, read, site=SITE)
        if pinned.get("tracking_id"):
            message["tracking_id"] = pinned["tracking_id"]
        if "metrics" in pinned and "metrics" in metadata:
            metadata["metrics"] = dict(pinned["metrics"])
        if pinned.get("cancelled"):
            self._cancelled(True)

    def catch_up(self) -> None:
        """Record what has changed in the agent's list without a word from the SDK."""
        kept, messages = self._messages, self._of().messages
        first = self._known.alike(kept, messages)
        if first != len(kept) or first != len(messages):
            self._record_from(first)
        self._caught_up = kept.changes

    def _record_from(self, first: int) -> None:
        kept, messages = self._messages, self._of().messages
        last = 0
        while last < min(len(kept), len(messages)) - first and _same(kept[-1 - last], messages[-1 - last]):
            last += 1
        changed = messages[first : len(messages) - last]
        if changed:
            ids = self._recorder.read(PINNED, lambda: [one.get("tracking_id") for one in changed], site=SITE)
            for message, tracking_id in zip(changed, ids, strict=False):
                if tracking_id:
                    message["tracking_id"] = tracking_id
        if first == len(kept):
            for message in changed:
                self._messages.append(recorded_form(message))
        else:
            forms = [recorded_form(message) for message in changed]
            self._messages.replace(forms, first, len(kept) - last, why="changed by the agent")

    def begins_otherwise(self, before: list[Any], now: list[Any]) -> None:
        """Put the messages of another prompt where those of the first one stand; behind all, if it had none.

        Raises:
            UsageError: they are not there any more, as they were given.
        """
        place = self._prompt or place_of(self._messages, before)
        last = self._messages[-1]["content"] if not before and len(self._messages) else ()
        asks = any("toolUse" in block for block in last)
        if place is None or asks:
            why = "goes on with the tools its conversation ends with" if asks else "had changed its prompt by then"
            raise UsageError(
                f"input of this run cannot be edited: the agent {why}. Invoke it anew with another prompt, or "
                "add a message instead"
            )
        self._messages.replace(now, *place, why=ANOTHER)
        self._prompt = place[0], place[0] + len(now)  # edits of one moment take effect after it, in their order

    def follow(self) -> None:
        """Put into the agent's list what the record has and the agent did not say: it was edited, or folded."""
        if self._messages.changes == self._caught_up:
            return
        messages = self._of().messages
        first = self._known.alike(self._messages, messages)
        if first < max(len(self._messages), len(messages)):
            messages[first:] = [copy_value(message) for message in self._messages[first:]]


def recorded_form(message: Any) -> dict[str, Any]:
    """A message as a run has it: what the SDK keeps of it."""
    return {key: value for key, value in message.items() if value is not None}


class _Known:
    """Stretches of the conversation that were the same when they were looked at last, so that nobody does it again.

    Of what is no plain JSON, such as the bytes of an image, a likeness does not say enough: it is looked at each time.
    """

    __slots__ = ("_kept", "_stretches")

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._stretches: list[tuple[int, int, bytes | None]] = []  # where each begins and ends, and its likeness

    def alike(self, kept: Messages, messages: list[Any]) -> int:
        """How many messages at the beginning are the same in the record and in the agent's list."""
        count = sure = 0
        for begin, end, known in self._stretches:
            if len(kept) < end or not all(map(is_, kept[begin:end], self._kept[begin:end])):
                break
            if likeness(messages[begin:end]) != known if known else not _all_same(kept[begin:end], messages[begin:end]):
                break
            sure, count = sure + 1, end
        del self._stretches[sure:]
        begin = count
        for one, other in zip(kept[count:], messages[count:], strict=False):
            if not _same(one, other):
                break
            count += 1
        self._kept = kept[:count]
        if begin < count:
            self._take_in(messages, begin, count)
        return count

    def _take_in(self, messages: list[Any], begin: int, end: int) -> None:
        known = likeness(messages[begin:end]) if is_plain(messages[begin:end]) else None
        self._stretches.append((begin, end, known))
        last = self._stretches[-STRETCHES:]
        if len(last) == STRETCHES and all(known for _, _, known in last):
            begin = last[0][0]
            self._stretches[-STRETCHES:] = [(begin, end, likeness(messages[begin:end]))]


def _all_same(kept: list[Any], messages: list[Any]) -> bool:
    return len(kept) == len(messages) and all(map(_same, kept, messages))


def _same(one: Any, other: Any) -> bool:
    return one is other or is_exactly(recorded_form(one), recorded_form(other))
