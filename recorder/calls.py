"""One call of an effect: what is appended before it, and what after.

A call that is unwound because the run stops (`signals`) stays open in the log: it neither returned nor failed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from .attaching import Answer
from .error_info import error_info
from .errors import UsageError
from .events import (
    CallCancelledData,
    CallFailedData,
    CallKind,
    Data,
    ErrorInfo,
    ModelCalledData,
    ModelReturnedData,
    Safety,
    ToolCalledData,
    ToolReturnedData,
)
from .introspection import clean, isinstance_of
from .responses import model_of, stop_reason_of, usage_of
from .run_recorder import RunRecorder
from .scope import Scope
from .signals import STOPS, all_in
from .turns import in_turn, on_this_loop
from .values import already_stored, encode_bytes, loads
from .writer import on_event_loop

Form: TypeAlias = Literal["coroutine", "future", "thread future", "generator", "async generator"]
"""As what a plain function gives an answer that is still to come."""

STREAM_LIMIT: Final = 100_000
"""Chunks of one stream that are kept; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What is known of an effect besides the callable.

    Attributes:
        kind: "model" or "tool".
        name: as events show it.
        safety: for tools: pure, idempotent, compensable or irreversible; None when not declared.
        model: for models: the model's name, unless the call has a `model` argument.
        returns, raises: types of its results and errors, for replaying.
        compensate: undoes a compensable tool's work.
    """

    kind: CallKind
    name: str
    safety: Safety | None = None
    model: str | None = None
    returns: Any = None
    raises: tuple[type[BaseException], ...] = ()
    compensate: Callable[..., Any] | None = None


def check_safety(safety: str | None) -> Safety | None:
    """Refuse a word that is no safety.

    Raises:
        UsageError: naming the words there are.
    """
    for word in get_args(Safety):
        if safety == word:
            return word  # type: ignore[no-any-return]  # one of the words of the type
    if safety is None:
        return None
    raise UsageError(f'safety is one of {", ".join(get_args(Safety))}, not "{safety}"')


class Call:
    """Appends the events of one call.

    Methods come in two forms: the plain one returns when the event is committed, the one that begins with "a" awaits
    that, so that an event loop goes on meanwhile.

    Args:
        effect: what is called.
        scope: where it is called.
        arguments: by name.
        fn: what is called, if it tells more of the effect's answers.
        told: further fields of the call's first event, such as the model's own id for a tool call.

    Attributes:
        effect, scope, fn: as above.
        id: empty until the call's first event is made.
        is_awaited: whether what is called is awaited, or read by an `async for`.
    """

    __slots__ = (
        *("_arguments", "_form", "_log", "_recorder", "_round", "_started", "_stream", "_told"),
        *("effect", "fn", "id", "is_awaited", "scope"),
    )

    def __init__(
        self,
        effect: Effect,
        scope: Scope,
        arguments: dict[str, Any],
        fn: Callable[..., Any] | None = None,
        told: Mapping[str, Any] | None = None,
    ) -> None:
        self.effect = effect
        self._told = told or {}
        self.fn = fn
        self._form: str | None = None
        self.scope = scope
        self._recorder: RunRecorder = scope.recorder
        self._log = scope.recorder.log
        self._arguments = arguments
        self.id = ""
        self.is_awaited = False
        self._round = 0
        self._started = time.perf_counter()
        self._stream: _Stream | None = None

    @property
    def name(self) -> str:
        """Of the effect, as the log has it."""
        return clean(self.effect.name)

    @property
    def arguments(self) -> dict[str, Any]:
        """What is asked, by name."""
        return self._arguments

    @property
    def inside(self) -> Scope:
        """The scope of what happens inside the call."""
        return self.scope.inside(self.id)

    # -- before the effect ---------------------------------------------------------------------------

    def called(self) -> Answer | None:
        """Append `*.called`: the effect may run when it is committed. Or give the answer that stands in for it."""
        attachment, guard = self._recorder.attachment, self._recorder.guard
        if attachment is None:
            if guard is not None and (given := guard.answer_to_call(self)) is not None:
                return given
            self._log.emit(f"{self.effect.kind}.called", self._make_allowed, scope=self.scope, wait=True)
        else:
            answer = attachment.call(self)
            if answer is not None:
                return answer
        self._started = time.perf_counter()
        return None

    async def acalled(self) -> Answer | None:
        """`called`, without holding up the event loop."""
        self.is_awaited = True
        attachment, guard = self._recorder.attachment, self._recorder.guard
        if attachment is None:
            if guard is not None and (given := guard.answer_to_call(self)) is not None:
                return given
            await self._log.aemit(f"{self.effect.kind}.called", self._make_allowed, scope=self.scope)
        else:
            answer = await attachment.acall(self)
            if answer is not None:
                return answer
        self._started = time.perf_counter()
        return None

    def accepts(self, given: Any) -> None:
        """Refuse what a person gives in the place of this call, if it could never give that: a UsageError says why."""

    def make(self) -> Data:
        """The data of `*.called`; gives the call its id. Called where no other event can come between."""
        effect, arguments, name = self.effect, self._arguments, self.name
        self.id = self._recorder.next_call(effect.kind, self.scope.within)
        self._round = self._recorder.round
        if effect.kind == "tool":
            return ToolCalledData(call=self.id, name=name, arguments=arguments, safety=effect.safety, **self._told)
        model = model_of(arguments) or effect.model
        return ModelCalledData(call=self.id, name=name, model=model and clean(model), request=arguments, **self._told)

    def _make_allowed(self) -> Data:
        data, guard = self.make(), self._recorder.guard
        if guard is not None:
            guard.may_be_made(self, data)
        return data

    # -- after it ------------------------------------------------------------------------------------

    def gives(self, form: Form) -> None:
        """Note in what form a function without a form of its own gives its answer: as what, that is used later."""
        self._form = form

    def begins_stream(self) -> None:
        """Note that the call gives a stream, perhaps an empty one."""
        self._stream = _Stream()
        self._recorder.open_streams[self] = None

    def gave(self, chunk: Any) -> None:
        """Note a chunk of the stream."""
        if self._stream is not None:
            self._stream.add(chunk)

    async def agave(self, chunk: Any) -> None:
        """Note a chunk of the stream, in its turn."""
        async with in_turn(self.scope):
            if self._stream is not None:
                self._stream.add(chunk)
                if self.scope.within is None:
                    self._stream.turns.append(self._log.turn())

    def was_sent(self, value: Any) -> None:
        """Note what the consumer of the stream sent into it after the last chunk."""
        if self._stream is not None:
            self._stream.got("sent", value)

    def was_thrown(self, error: BaseException) -> None:
        """Note what the consumer of the stream threw into it after the last chunk."""
        if self._stream is not None:
            info = error_info(error)
            self._stream.got("thrown", {"type": info.type, "message": info.message})

    def left_open(self) -> None:
        """Append, without waiting, that a stream which is still open when its run ends gave what it gave so far."""
        self._log.post(*self._return(None, True), round=self._round, scope=self.scope)

    def returned(self, value: Any, *, abandoned: bool = False) -> None:
        """Append `*.returned`."""
        self._ends(*self._return(value, abandoned, self._is_inline()))

    async def areturned(self, value: Any, *, abandoned: bool = False) -> None:
        """Append `*.returned`, in its turn."""
        await self._aends(*self._return(value, abandoned))

    def raised(self, error: BaseException) -> None:
        """Append that the call failed or was cancelled."""
        if self._has_failed(error):
            self._ends(*self._failure(error, self._is_inline()))

    async def araised(self, error: BaseException) -> None:
        """Append that the call failed, in its turn; or that it was cancelled, at once."""
        if self._has_failed(error):
            await self._aends(*self._failure(error))

    def moment(self) -> int | None:
        """A number that is another one once the running task was suspended; None where nothing takes turns."""
        turns = on_this_loop(self.scope)
        return None if turns is None else turns.ticks

    async def aclosed(self, moment: int | None, error: BaseException | None = None) -> None:
        """Append how a stream ended that its consumer closed: in its turn, if the consumer was suspended by that.

        Args:
            moment: when it began to be closed.
            error: what came of it, if anything.
        """
        if moment != self.moment():
            await (self.areturned(None, abandoned=True) if error is None else self.araised(error))
        elif error is None:
            self.returned(None, abandoned=True)
        else:
            self.raised(error)

    def _is_inline(self) -> bool:
        """Whether a call that ends here ends without suspending an event loop's task."""
        return self.scope.within is None and on_event_loop()

    def _ends(self, kind: str, make: Callable[[], Data | None]) -> None:
        self._log.emit(kind, make, round=self._round, scope=self.scope, wait=True)

    async def _aends(self, kind: str, make: Callable[[], Data | None]) -> None:
        if not self.id:
            return
        try:
            async with in_turn(self.scope):
                await self._log.aemit(kind, make, round=self._round, scope=self.scope)
        except asyncio.CancelledError:  # before it was committed; so the agent never gets the result
            self._post_cancelled()
            raise

    def finished(self, value: Any, error: BaseException | None) -> None:
        """Append how the call ended, without waiting; for a callback of a future, which has no time."""
        if error is None:
            self._log.post(*self._return(value), round=self._round, scope=self.scope)
        elif self._has_failed(error):
            self._log.post(*self._failure(error), round=self._round, scope=self.scope)

    def _return(
        self, value: Any, abandoned: bool = False, inline: bool = False
    ) -> tuple[str, Callable[[], Data | None]]:
        duration, stream = round(time.perf_counter() - self._started, 6), self._stream
        self._recorder.open_streams.pop(self, None)
        extra = self._extra(inline)
        if abandoned:
            extra["abandoned"] = True

        def tool() -> Data | None:
            if not self.id:
                return None
            self._recorder.measured.count_tool(self.effect.name, duration, True)
            return ToolReturnedData(call=self.id, result=value, duration=duration, turn=self._turn(), **extra)

        def model() -> Data | None:
            if not self.id:
                return None
            usage, stop_reason = usage_of(value), stop_reason_of(value)
            if stream is not None:
                usage, stop_reason = usage or stream.usage, stop_reason or stream.stop_reason
            self._recorder.answered(self.id, self._round, self.scope.within, usage or {})
            return ModelReturnedData(
                call=self.id,
                response=value,
                usage=usage,
                stop_reason=stop_reason,
                duration=duration,
                turn=self._turn(),
                **extra,
            )

        return f"{self.effect.kind}.returned", tool if self.effect.kind == "tool" else model

    def _has_failed(self, error: BaseException) -> bool:
        """Whether the call itself failed, which is appended. It was cancelled, or the run stops, otherwise."""
        if isinstance_of(error, asyncio.CancelledError) or isinstance_of(error, GeneratorExit):
            self._post_cancelled()
            return False
        return not any(all_in(error, stop) for stop in STOPS)

    def error_info(self, error: BaseException) -> ErrorInfo:
        """An error of the call as its last event has it."""
        return error_info(error)

    def _failure(self, error: BaseException, inline: bool = False) -> tuple[str, Callable[[], Data | None]]:
        self._recorder.open_streams.pop(self, None)
        duration, info = round(time.perf_counter() - self._started, 6), self.error_info(error)
        extra = self._extra(inline)

        def make() -> Data | None:
            if not self.id:
                return None
            if self.effect.kind == "tool":
                self._recorder.measured.count_tool(self.effect.name, duration, False)
            return CallFailedData(call=self.id, error=info, duration=duration, turn=self._turn(), **extra)

        return f"{self.effect.kind}.failed", make

    def _extra(self, inline: bool) -> dict[str, Any]:
        extra = {} if self._stream is None else self._stream.told()
        if self._form is not None:
            extra["form"] = self._form
        if inline:
            extra["inline"] = True
        return extra

    def _turn(self) -> int | None:
        return self._log.turn_of_event() if self.scope.within is None else None

    def _post_cancelled(self) -> None:
        """Append `call.cancelled`, without waiting: what is being cancelled or closed has no time."""
        self._recorder.open_streams.pop(self, None)

        def make() -> Data | None:
            return CallCancelledData(call=self.id, turn=self._turn()) if self.id else None

        self._log.post("call.cancelled", make, round=self._round, scope=self.scope)


class _Stream:
    """The chunks of a stream, as they were when they passed: who gets them may mutate them."""

    __slots__ = ("chunks", "dropped", "given", "stop_reason", "turns", "usage")

    def __init__(self) -> None:
        self.chunks: list[Any] = []
        self.given: list[dict[str, Any]] = []  # what its consumer sent and threw into it
        self.turns: list[int] = []
        self.dropped = 0
        self.usage: dict[str, Any] | None = None
        self.stop_reason: str | None = None

    def add(self, chunk: Any) -> None:
        # A model tells these with its last chunks.
        self.usage = usage_of(chunk) or self.usage
        self.stop_reason = stop_reason_of(chunk) or self.stop_reason
        if len(self.chunks) < STREAM_LIMIT:
            self.chunks.append(already_stored(loads(encode_bytes(chunk)[0])))
        else:
            self.dropped += 1

    def got(self, how: str, value: Any) -> None:
        """Note what the consumer gave after the last chunk."""
        self.given.append(
            {"after": len(self.chunks) + self.dropped, how: already_stored(loads(encode_bytes(value)[0]))}
        )

    def told(self) -> dict[str, Any]:
        """What the call's last event says of it."""
        told: dict[str, Any] = {"stream": self.chunks}
        if self.dropped:
            told["dropped"] = self.dropped
        if self.turns:
            told["turns"] = self.turns
        if self.given:
            told["given"] = self.given
        return told
