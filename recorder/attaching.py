"""Attaching code to a recording: the same code runs again, and what it asks of the world is answered from the log.

A run that begins where an attachment waits does not become a new run. It takes the recorded one's payload and input;
what it would append goes to the attachment's log, which compares instead; and each effect asks the attachment for an
answer before it would be made. What stands behind it, a replay, a re-run or a resumed run, is no matter to the
recorder: it knows only that some calls are answered and the others are to be made.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from .errors import UsageError
from .signals import ProcessStopped

if TYPE_CHECKING:
    from .calls import Call, Effect
    from .delays import Asked
    from .events import Data
    from .run_log import RunLog
    from .run_recorder import RunRecorder
    from .scope import Scope
    from .store import EventStore, RunInfo
    from .turns import Turns


class Answer(Protocol):
    """What stands in for a call: its recorded outcome, in the form in which the agent got it.

    Attributes:
        call: the call's id in the recording.
    """

    call: str

    def give(self) -> Any:
        """Return what the callable returned, be it an awaitable or a generator, or raise what it raised."""

    async def agive(self) -> Any:
        """The same of what the callable returned was awaited for."""

    def stream(self) -> Generator[Any, Any, Any]:
        """The items of a generator."""

    def astream(self) -> AsyncGenerator[Any, Any]:
        """The items of an async generator."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a child run ended, where it is answered as a whole and its code is not executed.

    Attributes:
        status: completed, failed, cancelled or interrupted.
        result: the document of its AgentResult.
        value: what it came to.
        error: what it raised, to be raised again; or None.
    """

    status: str
    result: Mapping[str, Any]
    value: Any
    error: BaseException | None


class Guard(ABC):
    """What is asked before a run makes a call that was started by another one, which has gone live."""

    @abstractmethod
    def go_on(self) -> None:
        """Raise what has stopped the code, if anything has: code that swallowed it goes no further either."""

    def answer_to_call(self, call: Call) -> Answer | None:
        """What stands in for a call, which is in the log then with its answer; None if it is to be made."""
        return None

    @abstractmethod
    def may_be_made(self, call: Call, data: Data) -> None:
        """A call is about to be made; raises what stops it."""

    def of_child(self, name: str, begun_with: Mapping[str, Any], scope: Scope) -> Guard:
        """What guards a child run that begins there, with `{payload, input, params}`."""
        return self


class Attachment(Guard):
    """One recorded run to which code is attached. It guards the runs that this one starts once it has gone live.

    Attributes:
        store, info: where the run is.
        payload, input, params: what it started with.
        max_rounds: the bound that it was given, or None.
        logger_name: of the logger that it was given; as in `run.started`.
        agent_cache: what the agent's cache held when it began; the code's own from now on.
        log: where the events of the code go: compared, or appended.
    """

    store: EventStore
    info: RunInfo
    payload: Any
    input: Any
    params: dict[str, Any]
    max_rounds: int | None
    logger_name: str | None
    agent_cache: dict[Any, Any]
    log: RunLog

    @abstractmethod
    def attach(self, recorder: RunRecorder) -> None:
        """Take the code's recorder, which has just been made."""

    @abstractmethod
    def stop(self, failure: BaseException) -> NoReturn:
        """Stop the code: whoever executes it raises `failure`, whatever the code around catches or wraps."""

    def begins_with(self, given: Mapping[str, Any]) -> None:
        """What the code gives the run, `{payload, input, params}`; raises what stops it if that is another run's."""
        return

    @abstractmethod
    def call(self, call: Call) -> Answer | None:
        """The answer to a call; None if it is to be made, and then its `*.called` is appended and committed."""

    @abstractmethod
    async def acall(self, call: Call) -> Answer | None:
        """`call`, without holding up the event loop."""

    @abstractmethod
    def captures(self, wanted: frozenset[str]) -> frozenset[str]:
        """The sources whose reads are captured, of code that wants some to be: those that were."""

    @abstractmethod
    def read(
        self,
        source: str,
        what: str | None,
        site: str | None,
        scope: Scope | None,
        arguments: dict[str, Any] | None = None,
    ) -> tuple[Any] | None:
        """The recorded value of a read, in a tuple; None if the value is to be read. Arguments as for `RunRecorder`."""

    def aborted(self, scope: Scope, looks: int) -> tuple[()] | tuple[Any] | None:
        """Whether the code finds the run's signal aborted: the reason in a tuple, an empty one if it does not.

        Args:
            scope: of the code that looks.
            looks: how often its task has looked in the round, with this look.

        Returns:
            None if the signal is to be asked.
        """
        return None

    @abstractmethod
    def child(self, name: str, begun_with: Mapping[str, Any], scope: Scope) -> Attachment | None:
        """The recording of a child run that begins there, with `{payload, input, params}`; None to record it."""

    @abstractmethod
    def answer_to(self, name: str, reason: Any) -> tuple[Any] | None:
        """The answer to a question to a person, in a tuple; None if it is to be asked."""

    def is_answered_with(self, name: str, recorded: Any, given: Any) -> None:
        """Code gives a person's answer itself, where the recording has one; raises what stops it if it is another."""
        return

    @property
    def only_replays(self) -> bool:
        """Whether nothing of what the code does reaches anybody, so that threads of it may be left behind."""
        return False

    @property
    def is_answered(self) -> bool:
        """Whether what the code does now is answered from the log, so that nothing of it is to reach anybody."""
        return False

    def restores(self) -> bool:
        """Whether the code begins in the middle of the run; then its context has the conversation and the notes."""
        return False

    def outcome(self) -> Outcome | None:
        """How the run ended, if it is answered as a whole; its `payload` is the one it ended with then."""
        return None

    @abstractmethod
    def outside(self, effect: Effect) -> None:
        """An effect is about to be made after the end of the run; raises what stops it if it may not be."""

    def round_has_started(self, round: int) -> None:
        """The code has begun a round; its first event is met, or appended. Raises what stops the code."""
        return

    def comes_to(self, turns: Turns) -> None:
        """The code has come to an event loop: it entered the run there, or started the loop within the run."""
        return

    def timer(
        self,
        loop: AbstractEventLoop,
        call_at: Callable[..., TimerHandle],
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        scope: Scope,
        asked: Asked | None = None,
    ) -> TimerHandle:
        """Make a timer that the code creates outside of calls, with `call_at`, the loop's own.

        `asked` is how long it is meant to take, where the application says so.
        `scope.task.timer(scope.recorder.round)` numbers it; `timers.create_timer` makes one that is recorded.
        """
        return call_at(when, callback, *args, context=context)

    async def turn(self, kind: str, child: str, scope: Scope) -> bool:
        """Wait for the turn of `subrun.started` or `subrun.finished`, of that run; False to wait as while recording."""
        return False


class Waiting(ABC):
    """An attachment that waits for its run to begin."""

    @property
    def only_replays(self) -> bool:
        """As of `Attachment`."""
        return False

    @abstractmethod
    def begins(self, name: str) -> Attachment:
        """A run of that name begins, outside of any other; raises what stops it if it is not the one that is meant."""

    @abstractmethod
    def outside(self, effect: Effect) -> None:
        """An effect is about to be made outside of any run; raises what stops it if it may not be."""

    def beginning(self) -> dict[str, Any] | None:
        """What the run began with, for what begins it again: `{payload, input, params, messages}`; None of no run."""
        return None


waiting: ContextVar[Waiting | None] = ContextVar("agentreplay_attachment", default=None)
"""What the run that begins next is attached to, if to anything."""


@contextmanager
def waits(what: Waiting | None) -> Iterator[None]:
    """In this block, the run that begins next is attached to that."""
    token = waiting.set(what)
    try:
        yield
    finally:
        waiting.reset(token)


REPLAYED_BY: Final = "AGENTREPLAY_REPLAYED_BY"
"""In the environment while a process replays code: its pid. Processes that the code starts make no effect."""

REPLAYED_AT: Final = "AGENTREPLAY_REPLAYED_AT"
"""In the environment, too: where those processes and the replay meet (`desk`)."""


def attachment_for(name: str, begun_with: Mapping[str, Any], parent_scope: Scope | None) -> Attachment | None:
    """What a run that begins here is attached to: its part of the parent's recording, or what waits for it."""
    if parent_scope is not None:
        attachment = parent_scope.recorder.attachment
        return None if attachment is None else attachment.child(name, begun_with, parent_scope)
    waits = waiting.get()
    if waits is None:
        return None
    attachment = waits.begins(name)
    attachment.begins_with(begun_with)
    return attachment


def may_be_made_late(effect: Effect, attachment: Attachment | None) -> None:
    """Stop an effect after the end of its run, if the run was attached to a recording that it has not left."""
    if attachment is not None:
        attachment.outside(effect)


def may_be_made_outside(effect: Effect) -> None:
    """Stop an effect outside of any run, if what waits here does not allow it."""
    waits = waiting.get()
    if waits is not None:
        waits.outside(effect)
    elif os.environ.get(REPLAYED_BY, own := str(os.getpid())) != own:
        from .desk import Desk

        desk = Desk.of_another()
        if desk is not None and desk.live is not None:
            return
        failure = UsageError(
            f"{effect.kind} {effect.name} is called in a process that code has started which is replayed, where "
            "nothing is recorded, so it cannot be answered; have the process join the run, ar.join(…), and record it so"
        )
        if desk is not None:
            desk.report(failure)
        raise ProcessStopped(failure)
