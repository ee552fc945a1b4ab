"""Who adds events to a run: what the process that records it and those that join it have in common.

Calls, values that are read, reports and a user's own events stand for themselves, and anybody may add them. Rounds,
decisions and the payload follow each from the one before; they are in `run_recorder`, which records the run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .ambient import Captured
from .attaching import Attachment, Guard
from .covered import covering
from .errors import RecordingFailed, UsageError
from .events import OpenData, ValueReadData
from .introspection import clean
from .metrics import Metrics
from .reads import Value, call_site
from .run_log import Making, RunLog
from .scope import Scope, current
from .signals import RecordingStopped
from .store import EventStore, RunInfo

if TYPE_CHECKING:
    from .calls import Call

logger = logging.getLogger("agentreplay")


class RunWriter:
    """A writer of one run.

    Args:
        captured: the reads that are captured, if any are.
        attachment: the recording that the code is executed against, if it is.
        guard: is asked before each call, where the run around this one was attached to a recording and has gone live.

    Attributes:
        store, info, log, agent: of the run. Whoever opens the log sets them.
        measured: what the calls come to.
        open_streams: calls whose streams were neither read to the end nor closed.
        due_threads: by when they were started or submitted, those that are not at work yet.
        threads: the ident of each that the run has started, and how often it is at work.
    """

    store: EventStore
    info: RunInfo
    log: RunLog
    agent: str

    def __init__(
        self, captured: Captured | None = None, attachment: Attachment | None = None, guard: Guard | None = None
    ) -> None:
        self.captured = captured
        self.attachment = attachment
        self.guard = guard
        self.context: Any = None
        self.measured = Metrics()
        self.open_streams: dict[Call, None] = {}
        self.due_threads: dict[object, float] = {}
        self.threads: dict[int, int] = {}
        self._calls = 0
        self._answered = (-1, "")

    # -- appending ----------------------------------------------------------------------------------

    @property
    def recording(self) -> bool:
        """Whether effects are still to be recorded; see `RunLog.recording`."""
        return self.log.recording

    @property
    def failure(self) -> RecordingFailed | None:
        """What the run is to raise because its store failed; None also where it goes on unrecorded."""
        return self.log.failure if self.log.policy == "raise" else None

    @property
    def round(self) -> int:
        """The round that runs, or the last one; 0 before the first."""
        return self.log.round

    def here(self) -> Scope | None:
        """The scope of the running code, if it belongs to this run."""
        scope = current.get()
        return scope if scope is not None and scope.recorder is self else None

    def emit(self, kind: str, data: Making, *, scope: Scope | None = None) -> None:
        """Append an event of this run; see `RunLog.emit`. It happened in `scope`, by default where the code stands."""
        self.log.emit(kind, data, scope=scope or self.here())

    def _post(self, kind: str, data: Making) -> None:
        """Append an event among others, the last of which is waited for."""
        self.log.post(kind, data, scope=self.here())

    def event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Append an event of the user's own kind, "x.<name>"."""
        if not kind.startswith("x.") or kind == "x.":
            raise UsageError(f'an event of your own is named "x.<name>", not "{kind}"')
        self.emit(clean(kind), OpenData(**text_keys(data, "the data of an event")))

    def read(
        self,
        source: str,
        make: Callable[[], Value],
        *,
        what: str | None = None,
        arguments: dict[str, Any] | None = None,
        site: str | None = None,
    ) -> Value:
        """Read a value that is different each time, and record it; or take the one that was recorded.

        Args:
            source: where it is from: clock, random, uuid, env, or a name of the user's own.
            make: reads it.
            what: is read of the source, where that is captured.
            arguments: that decide between which values chance chooses.
            site: where; by default the nearest place in the user's code.
        """
        site = site or call_site()
        what = None if what is None else clean(what)
        if self.attachment is not None:
            found = self.attachment.read(source, what, site, self.here(), arguments)
            if found is not None:
                recorded: Value = found[0]
                return recorded
        value = make() if self.captured is None else covering(make)
        self.emit(
            "value.read",
            ValueReadData(source=clean(source), site=site, what=what, arguments=arguments, value=value),
        )
        return value

    def warn_of_late(self, what: str) -> None:
        """Tell `logging` of something that came after the end of the run, and is not recorded."""
        logger.warning("%s has ended; %s came after it, and was neither made nor recorded", self.info.id, what)

    # -- calls --------------------------------------------------------------------------------------

    def number_call(self) -> str:
        """The next number of a call in the round that runs, as its id."""
        self._calls += 1
        return f"{self.round}.{self._calls}"

    def answered(self, call: str, round: int, within: str | None, usage: Mapping[str, Any]) -> None:
        """Note that a model call returned, and its usage; for the function that makes the call's last event."""
        if within is None:
            self._answered = round, call
        self.measured.count_model(usage)

    def asked_by_model(self) -> dict[str, Any]:
        """The source of what a decision asks for: the model call of this round that returned last, if one did."""
        round, call = self._answered
        return {"kind": "model", "call": call} if round == self.round else {"kind": "model"}

    def metrics(self) -> dict[str, Any]:
        """Counts and usage so far, in the shape of the AgentResult contract."""
        with self.log.lock:
            return self.measured.document(self.round)

    # -- the end ------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the recording: wait for what is not committed yet.

        Raises:
            RecordingFailed: it cannot be, and the policy is to raise. Not if that was raised before.
        """
        try:
            self.log.close()
        except RecordingStopped as stopped:
            raise stopped.failure from stopped.failure.__cause__

    async def aclose(self) -> None:
        """`close`, without holding up the event loop."""
        try:
            await self.log.aclose()
        except RecordingStopped as stopped:
            raise stopped.failure from stopped.failure.__cause__


def text_keys(mapping: Mapping[Any, Any], what: str) -> dict[str, Any]:
    """A mapping as a dict, if its keys are texts.

    Args:
        what: it is, for the error.

    Raises:
        UsageError: one is none.
    """
    for key in mapping:
        if not isinstance(key, str):
            raise UsageError(f"the keys of {what} are texts, not {type(key).__name__}")
    return {clean(key): value for key, value in mapping.items()}
