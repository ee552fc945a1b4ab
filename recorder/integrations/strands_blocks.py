"""A run around each invocation of an agent, a graph or a swarm.

The seam is `stream_async`, through which every way to invoke goes. The SDK gives its events to whoever iterates over
them, and what that one does between two events is no part of the run; so the run's scope is entered for each step of
the generator, and left before the event is handed on.

An invocation that stops to ask a person suspends its run. The next invocation, with the responses, goes on with the
same run, in the same round. Where the code is executed against a recording that has the answers, nothing is suspended:
the run stays open until the responses come, from the code itself or, if it does not give them, from the recording.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import CodeType
from typing import Any, Final, Self

from ..agent_result import AgentResult, RunHandle
from ..ambient import reads_are_captured
from ..copying import copy_value
from ..errors import UsageError
from ..events import InterruptAnsweredData
from ..introspection import clean
from ..recording import RecordedBlock, Recording
from ..run_recorder import RunRecorder
from ..scope import Scope, current, entered, scope_is_carried
from ..turns import joined
from .strands_edits import message_of, response_ids

BEGIN: Final = "__agentreplay_begin__"
"""The attribute with which an object says how a recorded run of its own is begun again."""


RECORDED: Final = "__agentreplay_recorded__"
"""The attribute that holds what records an object: it lives as long as that does."""


class SdkRun(Recording, ABC):
    """The run of one invocation, perhaps of several, with answers of a person between them.

    Attributes:
        scope: of the code of the invocation.
        came_to: what the SDK gave as its result; None until then.
        waits: whether it stays open for the recorded answers of a person.
        asked: the SDK's id of an interrupt → the run's, of those that wait for a response.
        answers: the SDK's id of an interrupt → the recorded response, while the run stays open for that.
        invocations: whose run it is.
        kind: what is invoked, for messages.
        editable: the parameters that can be others in a re-run.
    """

    kind = "an agent"
    editable: tuple[str, ...] = ()

    def __init__(self, recorder: RunRecorder, **given: Any) -> None:
        super().__init__(recorder, **given)
        self.scope = Scope(recorder)
        self.came_to: Any = None
        self.waits = False
        self.asked: dict[str, str] = {}
        self.answers: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self.invocations: RecordedInvocations | None = None

    @abstractmethod
    def begins(self, prompt: Any) -> Any:
        """The first invocation begins, in the run's scope; returns the prompt that it is to begin with."""

    @abstractmethod
    def settles(self) -> None:
        """Record what has happened and was not said, before the run ends or waits."""

    @abstractmethod
    def lets_go(self) -> None:
        """Leave the seams, for now or for good."""

    @abstractmethod
    def takes_hold(self) -> None:
        """Enter the seams."""

    @abstractmethod
    def interrupts_of(self, result: Any) -> list[Any]:
        """The questions with which an invocation has stopped, each with id, name and reason."""

    @abstractmethod
    def summed_up(self, result: Any) -> tuple[str, str, Any, AgentResult]:
        """Status, stop reason, value and the AgentResult of the run."""

    def edit(self, messages: Sequence[Any], params: Mapping[str, Any], input: tuple[Any] | None) -> None:
        """Take over what was edited for a re-run: a text that is added is a message of the user.

        What an invocation is given, its prompt and its limits, can be another in its first step.

        Raises:
            UsageError: a message, a prompt or limits are none of the SDK's; or they come too late.
        """
        for name in params:
            if name not in self.editable:
                known = f"only {' and '.join(self.editable)} can" if self.editable else "it has none that could"
                raise UsageError(
                    f"{name} of this run cannot be edited: of the parameters of {self.kind} of Strands, {known}; "
                    "invoke it anew with another one"
                )
        step = self._recorder.round
        if (edited := [*params, *(["input"] if input is not None else [])]) and self.recorder.in_round and step > 1:
            raise UsageError(
                f"{edited[0]} of this run cannot be edited in step {step}: {self.kind} of Strands is given its prompt "
                "and its limits when it is invoked, which is before its first step. Edit them in step 1; or add a "
                "message here, or set what the step goes by in the state"
            )
        prompt = None
        if input is not None:
            if response_ids(copy_value(self.input)) or response_ids(input[0]):
                raise UsageError(
                    "input of this run cannot be edited: it is the answer to a question, or would be one; answer the "
                    "run that asked with `agentreplay resume RUN --answer NAME=JSON`"
                )
            prompt = (copy_value(input[0]),)
        self.begins_otherwise(prompt, params)
        super().edit([message_of(one) for one in messages], params, input)

    @abstractmethod
    def begins_otherwise(self, prompt: tuple[Any] | None, params: Mapping[str, Any]) -> None:
        """Take another prompt, in a tuple, and other parameters in the place of those that were given.

        Raises:
            UsageError: they are none of the SDK's.
        """

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """With what options the first invocation is made, of those that were given."""
        return dict(given)

    # -- the end ---------------------------------------------------------------------------------------

    def is_answered(self) -> bool:
        """Whether the recording that this is executed against has the answers to what the invocation asks."""
        attachment = self._recorder.attachment
        interrupts = self.interrupts_of(self.came_to)
        if attachment is None or not interrupts:
            return False
        self.settles()
        answers = {one.id: attachment.answer_to(one.name, one.reason) for one in interrupts}
        self.answers = {id: answer[0] for id, answer in answers.items() if answer is not None}
        if not self.answers:
            return False
        recorder = self._recorder
        for one in interrupts:
            self._names[one.id] = name = clean(one.name)
            if one.id in self.answers:
                recorder.questions += 1
                self.asked[one.id] = f"{recorder.round}.{name}.{recorder.questions}"
            else:  # it was not answered then either, and is asked again
                self.asked[one.id] = recorder.raise_interrupt(one.name, one.reason)
        recorder.interrupts.clear()
        self.waits = True
        return True

    def ended(self, error: BaseException | None) -> bool:
        """Record the end of the block, as the SDK's result says it; see `Recording.ended`."""
        try:
            self.settles()
            if error is not None or self.came_to is None:
                return super().ended(error)
            if interrupts := self.interrupts_of(self.came_to):
                self._suspend(interrupts)
            else:
                self._finish()
            return False
        except BaseException as own:
            self._ending.by(own, None)
            raise
        finally:
            self.lets_go()

    def _suspend(self, interrupts: list[Any]) -> None:
        self.asked |= {one.id: self._recorder.raise_interrupt(one.name, one.reason) for one in interrupts}
        self._recorder.finish_round("interrupted")
        _, _, value, result = self.summed_up(self.came_to)
        self._ends("interrupted", value, result)
        self._recorder.suspend("interrupt", result.document())

    def _finish(self) -> None:
        status, stop_reason, value, result = self.summed_up(self.came_to)
        self._recorder.finish_round({"completed": "complete"}.get(status, status))
        self._ends(status, value, result)
        self._recorder.finish(status, stop_reason, value=value, result=result.document())

    def _ends(self, status: str, value: Any, result: AgentResult) -> None:
        recorder = self._recorder
        handle = RunHandle(recorder.info.id, recorder.info.uid) if recorder.info.number else None
        self._ending.status = status
        self._ending.result = result.attach(run=handle, payload=self.payload, value=value)

    def go_on_again(self) -> Awaitable[Any]:
        """Go on with the recorded responses of a person, which the code has not given."""
        assert self.invocations is not None  # it waits, so it was begun
        return self.invocations.go_on_again()

    # -- going on --------------------------------------------------------------------------------------

    def takes(self, prompt: Any) -> bool:
        """Whether a prompt holds responses to what this run has asked."""
        ids = response_ids(prompt)
        return bool(ids) and all(id in self.asked for id in ids)

    def goes_on(self, prompt: Any) -> None:
        """Go on with the responses of a person."""
        recorder = self._recorder
        given = {one["interruptResponse"]["interruptId"]: one["interruptResponse"]["response"] for one in prompt}
        if self.waits:
            attachment = recorder.attachment
            assert attachment is not None  # it has the answers
            for id, response in given.items():
                attachment.is_answered_with(self._names[id], self.answers.get(id), response)
        else:
            recorder.go_on({self.asked[id]: response for id, response in given.items()})
            self.takes_hold()
        for id, response in given.items():
            recorder.emit("interrupt.answered", InterruptAnsweredData(interrupt=self.asked.pop(id), response=response))
        self.came_to, self.waits = None, False


class SdkBlock(RecordedBlock):
    """The block of one invocation. Its scope is entered step by step, by whoever drives the events."""

    def __init__(
        self,
        name: str,
        payload: Any,
        *,
        make: Callable[..., SdkRun],
        caller: tuple[CodeType, dict[str, Any]],
        **given: Any,
    ) -> None:
        super().__init__(name, payload, signal=None, logger=None, **given)
        self._make = make
        self.caller, self.names = caller

    def _began(self, recorder: RunRecorder) -> SdkRun:
        self._run = run = self._make(recorder, **self._given)
        del self._make  # which knows what is invoked, and a run that waits for a person is to keep nobody alive
        return run

    def _entered(self, run: Recording) -> Recording:
        self._stack.enter_context(scope_is_carried(run.recorder))
        self._stack.enter_context(reads_are_captured(run.recorder))
        return run

    @property
    def is_its_own(self) -> bool:
        """Whether the run is no child run of another."""
        return self._parent is None

    def enter_again(self) -> None:
        """Go on with a run that was suspended."""
        self._entered(self._entered_run())


class RecordedInvocations(ABC):
    """Has a run around each invocation of one object of the SDK.

    Args:
        target: an agent, a graph or a swarm; from now on it is of a subclass that has its invocations recorded.
    """

    def __init__(self, target: Any) -> None:
        # The SDK has its agents end with their last reference, which nothing of this one may be.
        self._target = weakref.ref(target)
        self._open: tuple[SdkBlock, SdkRun] | None = None
        self._held: Any = None  # the target, while a replay is to go on with it
        cls: Any = type(target)
        own = vars(target).pop("stream_async", None)  # somebody has put another one on this instance
        self._stream: Callable[..., AsyncIterator[Any]] = own or (
            lambda *args, **kw: cls.stream_async(self.target, *args, **kw)
        )
        target.__class__ = _recorded_class(cls)
        setattr(target, RECORDED, self)

    @property
    def target(self) -> Any:
        """The agent, graph or swarm; it is in use, so it is there."""
        return self._target()

    @classmethod
    def of(cls, target: Any) -> Self | None:
        """What records an object already, if anything does."""
        found = getattr(target, "__dict__", {}).get(RECORDED)
        return found if isinstance(found, cls) and found.target is target else None  # a copy has the attributes, too

    @abstractmethod
    def block(self, prompt: Any, options: Mapping[str, Any]) -> SdkBlock:
        """The block of a new run."""

    @abstractmethod
    async def invoke_again(self, target: Any, given: Mapping[str, Any]) -> Any:
        """Invoke the target as it was when a run began with `{payload, input, params, messages}`."""

    def begin_again(self, given: Mapping[str, Any]) -> Awaitable[Any]:
        """Begin a recorded run again; what is awaited keeps the target alive."""
        return self.invoke_again(self.target, given)

    async def go_on_again(self) -> Any:
        """Go on with the run that waits for the recorded responses of a person; None if none does."""
        if self._open is None or not self._open[1].waits:
            return None
        responses = [
            {"interruptResponse": {"interruptId": id, "response": answer}}
            for id, answer in self._open[1].answers.items()
        ]
        return await self.target.invoke_async(responses)

    def _block(self, prompt: Any, options: Mapping[str, Any]) -> SdkBlock:
        """`block`; a refusal ends all, also of an agent within another, which takes it for the failure of a tool."""
        try:
            return self.block(prompt, options)
        except UsageError as refused:
            around = current.get()
            if around is not None and around.recorder.attachment is not None:
                around.recorder.attachment.stop(refused)
            raise

    async def _begun(self, prompt: Any, options: dict[str, Any]) -> tuple[SdkBlock, SdkRun, Any, dict[str, Any]]:
        kept, self._open, self._held = self._open, None, None
        if kept is not None and kept[1].takes(prompt):
            block, run = kept
            if not run.waits:
                block.enter_again()
            joined(asyncio.get_running_loop(), run.recorder)
            with entered(run.scope):
                run.goes_on(prompt)
            return block, run, prompt, options
        block = self._block(prompt, options)
        begun = await block.__aenter__()
        assert isinstance(begun, SdkRun)  # what the block makes
        begun.invocations = self
        try:
            with entered(begun.scope):
                begun.takes_hold()
                prompt, options = begun.begins(prompt), begun.options(options)
        except BaseException as error:
            await block.__aexit__(type(error), error, error.__traceback__)
            raise
        return block, begun, prompt, options

    async def recorded(self, prompt: Any = None, **options: Any) -> AsyncGenerator[Any, None]:
        """The events of an invocation, with a run around it."""
        block, run, prompt, options = await self._begun(prompt, options)
        events: Any = None
        ends = False
        try:
            with entered(run.scope):
                events = aiter(self._stream(prompt, **options))
            while True:
                try:
                    with entered(run.scope):
                        event = await anext(events)
                except StopAsyncIteration:
                    break
                if not ends and isinstance(event, dict) and "result" in event and self.is_end(event["result"]):
                    ends = True
                    await self._ended(block, run, event["result"])
                yield event
        except BaseException as error:
            try:
                with entered(run.scope):
                    await _closed(events)
            finally:
                if not ends:
                    ends = True
                    await block.__aexit__(type(error), error, error.__traceback__)
            raise
        if not ends:
            await block.__aexit__(None, None, None)

    def is_end(self, result: Any) -> bool:
        """Whether an event's result is that of the invocation."""
        return result is not None

    async def _ended(self, block: SdkBlock, run: SdkRun, result: Any) -> None:
        """The invocation has come to its result: its run ends, or is suspended, before the caller sees it."""
        run.came_to = result
        with entered(run.scope):
            answered = run.is_answered()
        if answered:
            self._open, self._held = (block, run), self.target
            return
        with entered(run.scope):
            await block.__aexit__(None, None, None)
        attachment = run.recorder.attachment
        if run.asked and block.is_its_own and (attachment is None or getattr(attachment.log, "live", False)):
            self._open = block, run


@functools.lru_cache(maxsize=64)
def _recorded_class(cls: Any) -> Any:
    """A subclass of the same layout, whose invocations are recorded, of those instances that are.

    Copies, by `copy` or `pickle`, are of the class itself, and recorded as little as any other instance of that.
    """
    parameters = [*inspect.signature(cls.stream_async).parameters.values()]
    _, first, *others = [
        one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD
    ]  # first: what is asked

    class Recorded(cls):  # type: ignore[misc]  # the class is known at run time only
        @functools.wraps(cls.stream_async)
        async def stream_async(self, *args: Any, **options: Any) -> AsyncGenerator[Any, None]:
            own = RecordedInvocations.of(self)
            if own is None or len(args) > 1 + len(others):  # of which the SDK complains
                events = super().stream_async(*args, **options)
            else:
                prompt, *given = args or (options.pop(first, None),)
                events = own.recorded(prompt, **dict(zip(others, given, strict=False)), **options)
            try:
                async for event in events:
                    yield event
            finally:
                await _closed(events)

        def __reduce_ex__(self, protocol: Any) -> Any:
            return _without_recording(super().__reduce_ex__(protocol), type(self), cls)

    setattr(Recorded, BEGIN, property(_begin_again))
    if hasattr(cls, "_start_cancel_watcher"):
        Recorded._start_cancel_watcher = _outside_of_runs(cls._start_cancel_watcher)
    Recorded.__name__, Recorded.__qualname__, Recorded.__module__ = cls.__name__, cls.__qualname__, cls.__module__
    Recorded.__doc__ = cls.__doc__
    return Recorded


def _begin_again(target: Any) -> Any:
    """How a recorded run of an object is begun again.

    Raises:
        AttributeError: the object is a copy of a recorded one, and is not recorded itself.
    """
    own = RecordedInvocations.of(target)
    if own is None:
        raise AttributeError(BEGIN)
    return own.begin_again


def _outside_of_runs(start: Callable[..., Any]) -> Callable[..., Any]:
    """Start the task that looks for a caller's signal every 50 ms outside of the run: its timers are none of it."""

    @functools.wraps(start)
    def started(self: Any, signal: Any) -> Any:
        with entered(None):
            return start(self, signal)

    return started


def _without_recording(reduced: Any, recorded: type, cls: type) -> Any:
    """What an object is copied from, as if it were not recorded."""
    if not isinstance(reduced, tuple):
        return reduced
    made, given, *rest = reduced
    if rest and isinstance(rest[0], dict):
        rest[0] = {name: one for name, one in rest[0].items() if name != RECORDED}
    return made, tuple(cls if one is recorded else one for one in given), *rest


async def _closed(events: Any) -> None:
    if events is not None and hasattr(events, "aclose"):
        await events.aclose()
