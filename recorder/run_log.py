"""The log of one run while it is written: appends events in order, and carries out the policy when the store fails.

An append returns when the event is committed. Not so on an event loop, which must not commit: there a background writer
does it, and keeps doing it for the rest of the run. Coroutines await the commit; a plain function that stands on the
loop (such as `context.change`) only hands its event over, in order, and the next call awaits it. The events of a call
are waited for in any case: `*.called` must be committed before the effect runs.

Where the stack is nearly used up, an append could break off anywhere in the store's code. It is made in a thread then,
which has a stack of its own; without the room for that, the end of a call waits for the next append.

Others may write to the same run, see `log_end`: an event that is refused because another was first is appended behind
it. Who has joined a run adds nothing to it once the process that records it has ended it; `logging` is told that.

A store that fails ends the recording. By policy the agent is stopped then (`RecordingStopped`, which becomes the one
`RecordingFailed` of the run), or goes on unrecorded, with one warning.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from time import time_ns
from typing import Final, Literal, TypeAlias

from .errors import RecordingFailed
from .event_codec import EPOCH, MICROSECOND, encode_data
from .events import EVENT_OF_KIND, Data
from .heartbeat import heartbeat
from .log_end import LAST_KINDS, LogEnd, RunHasEnded
from .reentry import appending
from .scope import Scope
from .sent_messages import SentMessages
from .signals import RecordingStopped
from .stack import FRAMES_OF_A_THREAD, FRAMES_OF_AN_APPEND, has_room
from .store import FIRST, EventStore, RunInfo, Summary
from .upcasters import version_of
from .writer import BackgroundWriter, in_thread, on_event_loop, until_done

StorePolicy: TypeAlias = Literal["raise", "warn"]
"""What a failing store means for the agent: one clear error, or a warning and an unrecorded rest of the run."""

Making: TypeAlias = Data | Callable[[], Data | None]
"""The data of an event, or a function that makes it."""

BACKLOG: Final = 1_000
"""Events that may wait to be written before those who hand them over wait too."""

logger = logging.getLogger("agentreplay")

_MAY_WAIT: Final = frozenset(
    ("tool.returned", "tool.failed", "model.returned", "model.failed", "call.cancelled", "report")
)
"""Events that say what has happened, and that nothing depends on; the others are asked for, or the effect waits."""

_NOTHING: Final = Summary()

when_appended: Callable[[EventStore, RunInfo, int], None] | None = None
"""Told of each append and its bytes, if it is set: something above takes snapshots by weight."""

_logs: weakref.WeakSet[RunLog] = weakref.WeakSet()


class RunLog:
    """Appends to the log of one run.

    Args:
        store: where the events go.
        info: the run.
        policy: what a failing store means.
        end: the end of its log; by default that of a run which has no events yet.
        round: the round that runs.

    Attributes:
        lock: guards what must happen between two events.
        round: the round that events belong to unless they say otherwise.
        turns: how many turns were taken so far (`turns`): by events that say what reached the agent, outside of other
            calls, and by chunks of streams, which no events of their own say.
        failure: why nothing is recorded any more, or None.
        ended: whether the run's last event was appended, or nothing is appended any more.
        may_go_on: raises what has stopped the code, if something can; asked before each event that is no outcome.
        stopping: whether the run is being ended because of that.
    """

    def __init__(
        self, store: EventStore, info: RunInfo, policy: StorePolicy, end: LogEnd | None = None, round: int = 0
    ) -> None:
        self.store = store
        self.info = info
        self.policy = policy
        self.lock = threading.RLock()
        self.round = round
        self.turns = 0
        self._turns_told = 0
        self.failure: RecordingFailed | None = None
        self.ended = False
        self.stopping = False
        self.may_go_on: Callable[[], None] | None = None
        self._end = end or LogEnd(store, info, FIRST)
        self._told_of_the_end = False
        self._sent = SentMessages()
        self._writer: BackgroundWriter | None = None
        self._last: Future[None] | None = None
        self._waiting: deque[Callable[[], object]] = deque()
        _logs.add(self)

    @property
    def recording(self) -> bool:
        """Whether there is anything to append to: the run goes on, and was not given up with a warning."""
        return not self.ended and (self.failure is None or self.policy == "raise")

    # -- turns --------------------------------------------------------------------------------------

    def turn(self) -> int:
        """Take a turn that no event says, and return its number, from 1."""
        with self.lock:
            self.turns += 1
            return self.turns

    def turn_of_event(self) -> int | None:
        """Take a turn that an event says; returns the `turn` of its data, None where the number follows by itself.

        To be called by the function that makes the data, so that the numbers are in the order of the log.
        """
        self.turns += 1
        follows = self.turns == self._turns_told + 1
        self._turns_told = self.turns
        return None if follows else self.turns

    # -- appending ----------------------------------------------------------------------------------

    def emit(
        self,
        kind: str,
        data: Making,
        *,
        round: int | None = None,
        scope: Scope | None = None,
        wait: bool = False,
    ) -> None:
        """Append an event; when this returns it is committed, but for what the module's first lines say of loops.

        Args:
            kind: of the event.
            data: its data; or what makes it, called when no other event can come between, perhaps giving None for none.
            round: the round it belongs to; by default the one that runs.
            scope: where it happened.
            wait: have it committed in any case.

        Raises:
            RecordingStopped: the store failed now or before, and the policy is to raise.
            RecursionError: there is too little stack left, and it is no event that may wait. Nothing happened.
        """
        future = self.post(kind, data, round=round, scope=scope)
        if future is not None and (wait or not on_event_loop() or self._is_behind()):
            self._settle(future)

    async def aemit(self, kind: str, data: Making, *, round: int | None = None, scope: Scope | None = None) -> None:
        """Append an event and await its commit, without holding up the event loop."""
        future = self.post(kind, data, round=round, scope=scope)
        if future is not None:
            await until_done(future)
            self._settle(future)

    def post(
        self,
        kind: str,
        data: Making,
        *,
        round: int | None = None,
        scope: Scope | None = None,
    ) -> Future[None] | None:
        """Append an event without waiting for a background writer. Returns what to wait for, if there is anything."""
        if appending.put_off(partial(self.post, kind, data, round=round, scope=scope)):
            return None
        if has_room(FRAMES_OF_AN_APPEND) or self._is_locked_here():
            return self._post(kind, data, round, scope)
        if has_room(FRAMES_OF_A_THREAD):
            post = partial(self._post_at_once, kind, data, round, scope)
            in_thread(partial(copy_context().run, post), "agentreplay-append").result()
        elif kind in _MAY_WAIT:
            # Not in the lock: a deque is safe, and this thread's events keep their order.
            self._waiting.append(partial(self._make_and_append, kind, data, round, scope))
        else:
            raise RecursionError(f"too little stack left to record {kind}")
        return None

    def _post(self, kind: str, data: Making, round: int | None, scope: Scope | None) -> Future[None] | None:
        try:
            with self.lock:
                self._append_waiting()
                return self._make_and_append(kind, data, round, scope)
        finally:
            appending.catch_up()

    def _append_waiting(self) -> None:
        while self._waiting:
            self._waiting.popleft()()

    def _make_and_append(self, kind: str, data: Making, round: int | None, scope: Scope | None) -> Future[None] | None:
        if self.may_go_on is not None and not self.stopping and kind not in _MAY_WAIT:
            self.may_go_on()
        made = data if isinstance(data, Data) else data()
        if made is None or not self.recording:
            return None
        if self.failure is not None:
            raise RecordingStopped(self.failure)
        try:
            with appending:
                return self._append(kind, made, self.round if round is None else round, scope)
        except Exception as error:
            self._fail(error, kind)
            return None

    def _post_at_once(self, kind: str, data: Making, round: int | None, scope: Scope | None) -> None:
        future = self._post(kind, data, round, scope)
        if future is not None:
            self._settle(future)

    def _is_locked_here(self) -> bool:
        """Whether this thread is between two events already, where no other thread could append for it."""
        owned: bool = self.lock._is_owned()  # type: ignore[attr-defined]  # what threading.Condition asks, too
        return owned

    def _append(self, kind: str, data: Data, round: int, scope: Scope | None) -> Future[None] | None:
        time = time_ns() // 1_000
        row = encode_data(
            data,
            self.store.redactor,
            seq=self._end.seq + 1,  # or later: where it is appended it gets its number
            round=round,
            kind=kind,
            version=version_of(kind),
            time=time,
            within=None if scope is None else scope.within,
            task="0" if scope is None else scope.task.text,
            sent=self._sent,
        )
        summary = _NOTHING
        if kind.startswith(("run.", "round.")):  # the events of which the list of runs tells something
            at = EPOCH + time * MICROSECOND
            event = EVENT_OF_KIND[kind](seq=row.seq, round=round, kind=kind, time=at, data=data)
            summary = Summary.of((event,))
            if summary.fields.get("status") == "running":
                heartbeat.begin(self)
        if self._writer is None and on_event_loop():
            self._writer = BackgroundWriter(self._end, self.info.id)
        if self._writer is not None:
            self._last = self._writer.submit(row, summary)
        else:
            self._end.append([row], summary)
        self.ended = kind in LAST_KINDS
        if when_appended is not None:
            try:
                when_appended(self.store, self.info, len(row.body or b""))
            except Exception:  # the event is appended all the same
                logger.warning("%s: no snapshot will be taken", self.info.id, exc_info=True)
        return self._last

    def _is_behind(self) -> bool:
        writer = self._writer
        return writer is not None and writer.backlog > BACKLOG

    def _settle(self, future: Future[None]) -> None:
        error = future.exception()
        if error is not None:
            self._fail(error)

    # -- failing and ending -------------------------------------------------------------------------

    def _fail(self, error: BaseException, kind: str = "an event") -> None:
        heartbeat.end(self)
        if isinstance(error, RunHasEnded):
            self._leave_ended(kind)
            return
        with self.lock:
            first = self.failure is None
            if self.failure is None:
                self.failure = RecordingFailed(
                    f"{self.info.id}: {kind} could not be recorded: {error} "
                    'The run stops here; to let a run go on unrecorded instead, use on_store_error="warn".'
                )
                self.failure.__cause__ = error
        if self.policy == "raise":
            raise RecordingStopped(self.failure)
        if first:
            warnings.warn(f"{self.info.id} goes on unrecorded: {kind} could not be recorded: {error}", stacklevel=2)

    def _leave_ended(self, kind: str) -> None:
        """Add nothing more to a run that was joined: the process that records it has ended it."""
        with self.lock:
            told, self._told_of_the_end = self._told_of_the_end, True
            self.ended = True
        if not told:
            logger.warning("%s has ended; %s came after it, and is not recorded, nor what follows", self.info.id, kind)

    def give_up(self, error: BaseException) -> None:
        """Record nothing, because the store failed before the first event. By policy, raise or warn."""
        self._fail(error, "the run")

    def close(self) -> None:
        """End the recording: wait for what is not committed yet.

        Raises:
            RecordingStopped: it cannot be committed, and the policy is to raise. Not if it was raised before.
        """
        writer = self._stopped_writer()
        if writer is not None:
            writer.finished.result()
            self._settle_last()

    async def aclose(self) -> None:
        """`close`, without holding up the event loop."""
        writer = self._stopped_writer()
        if writer is not None:
            await until_done(writer.finished)
            self._settle_last()

    def _stopped_writer(self) -> BackgroundWriter | None:
        with self.lock:
            if not self.ended:
                self._append_waiting()
            self.ended = True
            writer, self._writer = self._writer, None
        heartbeat.end(self)
        if writer is not None:
            writer.stop()
        return writer

    def _settle_last(self) -> None:
        if self._last is not None and self.failure is None:
            self._settle(self._last)

    def reopen(self) -> None:
        """Go on with a run that this process has suspended; `run.resumed` is the next event."""
        with self.lock:
            self.ended = False

    def leave(self) -> None:
        """In a forked child: the run goes on in the parent process, and is no business of this one."""
        self.lock = threading.RLock()
        self.ended = True
        self._writer = None


def _leave_runs() -> None:
    for log in list(_logs):
        log.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_runs)
