"""The loop: runs a step function round by round, bounded and recorded.

The contract is CoreStep's: `step(round_index, context)` is one iteration, re-entrant, and says `Continue` or
`Complete(value)`; it may be a coroutine function. Beyond that it may return its decision, a `NextStep`, which is
recorded and carried out: `Success`, `Failed` and `Chat` end the run, and so does `terminate`; the others go on.
"""

from __future__ import annotations

import asyncio
import copy
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import CodeType
from typing import Any, Final, overload

from .agent_cache import StoredCache, stored_cache
from .agent_result import AgentResult
from .ambient import Capture, captured_for, reads_are_captured, sources_of
from .attaching import Attachment, Outcome, attachment_for
from .context import Context
from .copying import copy_value
from .decisions import Complete, NextStep
from .ending import Ending
from .environment import code_name, code_of, code_version, folder_of, globals_of, name_of
from .errors import RoundLimitReached, UsageError
from .flow_logger import Logger, checked_logger, logger_name, recorded_logger
from .introspection import is_awaitable
from .outcomes import as_outcome, checked_bound
from .run_log import StorePolicy
from .run_recorder import RunRecorder
from .scope import Scope, entered, scope_is_carried
from .signals import Signal
from .store import EventStore
from .subagents import Parent, parent_of
from .tags import checked_tags
from .writer import begun_in_turn, on_event_loop

Step = Callable[[int, Context], Any]

MAX_ROUNDS: Final = 20
"""The bound of a run, where nothing else is said."""

_ENDS: Final = {"Success": ("completed", "endTurn"), "Failed": ("failed", "failed"), "Chat": ("completed", "chat")}
"""Decisions that end a run: its status and stop reason."""


class Agent:
    """A step function that can be run and is recorded when it is. Made by `@agent`; calling it calls the step.

    Attributes:
        name: as runs show it.
        max_rounds: after so many rounds without an end, the run has failed; None is 20.
        tags: of all its runs.
        logger: of all its runs, unless one is given its own.
        cache: at `context.agent_cache`, for all runs of this agent that are recorded. One that is executed again has a
            dict of its own there, with what was recorded of this one when the run began.
    """

    def __init__(
        self,
        step: Step,
        name: str,
        *,
        max_rounds: int | None = None,
        tags: Sequence[str] | None = None,
        applier: str = "memberjunction",
        allowed_paths: Sequence[str] | None = None,
        strict: bool = False,
        capture: Capture = None,
        logger: Logger = None,
        on_store_error: StorePolicy = "raise",
    ) -> None:
        bound = checked_bound(max_rounds)
        functools.update_wrapper(self, step, updated=())
        self.step = step
        self.name = name
        self.max_rounds = MAX_ROUNDS if bound is None else bound
        self.tags = checked_tags(tags)
        self.applier = applier
        self.capture = sources_of(capture)
        self.logger = checked_logger(logger)
        self.on_store_error = on_store_error
        options = {
            "allowed_paths": list(allowed_paths) if allowed_paths is not None else None,
            "strict": strict or None,
        }
        self.applier_options = {key: value for key, value in options.items() if value is not None}
        self.cache: dict[Any, Any] = {}
        self._is_method = False

    @property
    def has_a_step(self) -> bool:
        """Whether it can be run by itself; an engine without a workflow cannot."""
        return True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The step itself."""
        return self.step(*args, **kwargs)

    def __set_name__(self, owner: type, name: str) -> None:
        # A step that was defined in the class is a method; an agent that was only put there is not.
        self._is_method = getattr(self, "__qualname__", None) == f"{owner.__qualname__}.{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> Agent:
        """The agent itself; where its step is a method, the agent of an object."""
        if instance is None or not self._is_method:
            return self
        bound = copy.copy(self)
        bound.step = functools.partial(self.step, instance)
        return bound

    def run(
        self,
        payload: Any = None,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        *,
        max_rounds: int | None = None,
        tags: Sequence[str] | None = None,
        invocation_state: Mapping[str, Any] | None = None,
        signal: Signal | None = None,
        logger: Logger = None,
        store: EventStore | str | None = None,
    ) -> AgentResult:
        """Run the agent to its end and record it; within another run, as a child run of that.

        Args:
            payload: the starting payload; copied.
            input, params: at `context.input` and `context.params`.
            max_rounds: bound of this run; the agent's own unless given. It is recorded, and holds when the run is
                replayed, re-run or resumed, too.
            tags: of this run, beside the agent's own: words by which it is found among others.
            invocation_state: handed through to the result.
            signal: asks the run to stop.
            logger: at `context.logger`: a `logging.Logger`, or True for "agentreplay.agent.NAME"; lines are recorded
                and go on to it. By default the agent's own; False for none. It is recorded by name, and there when the
                run is executed again.
            store: where to record: a store, or a URL; by default the one that is found from here.

        Returns:
            How the run ended; `result.run.id` names it.

        Raises:
            UsageError: called in a running event loop; use `await agent.arun(…)` there. Or a bound that is no whole
                number of at least 1, more than 20 tags, one of more than 64 characters, or a logger that is none;
                nothing is recorded.
            Exception: what the step raises is recorded, and raised as it is.
        """
        if on_event_loop():
            raise UsageError(f"{self.name}.run() cannot run inside an event loop; use `await {self.name}.arun(…)`")
        given: dict[str, Any] = {"input": input, "params": params, "max_rounds": checked_bound(max_rounds)}
        given |= {"invocation_state": invocation_state, "signal": signal, "tags": checked_tags(self.tags, tags)}
        given["logger"] = checked_logger(logger)
        return self.begin(payload, store=store, parent=parent_of(store, self.name), **given).run()

    async def arun(
        self,
        payload: Any = None,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        *,
        max_rounds: int | None = None,
        tags: Sequence[str] | None = None,
        invocation_state: Mapping[str, Any] | None = None,
        signal: Signal | None = None,
        logger: Logger = None,
        store: EventStore | str | None = None,
    ) -> AgentResult:
        """`run` for code in an event loop; a plain step function is called on it."""
        given: dict[str, Any] = {"input": input, "params": params, "max_rounds": checked_bound(max_rounds)}
        given |= {"invocation_state": invocation_state, "signal": signal, "tags": checked_tags(self.tags, tags)}
        given["logger"] = checked_logger(logger)
        execution = await self._abegin(payload, store=store, parent=parent_of(store, self.name), **given)
        return await execution.arun()

    def run_within(self, parent: Parent, payload: Any, **given: Any) -> Any:
        """Run as a child run: to its end, or in a running event loop, as an awaitable of that."""
        if not on_event_loop():
            return self.begin(payload, store=parent.recorder.store, parent=parent, **given).run()

        async def run() -> AgentResult:
            here = replace(parent, scope=parent.recorder.here() or parent.scope)  # in the task that awaits it
            execution = await self._abegin(payload, store=here.recorder.store, parent=here, **given)
            return await execution.arun()

        return run()

    def begin(self, payload: Any, *, store: EventStore | str | None = None, **given: Any) -> Execution:
        """Record the start of a run, and return it ready to be executed; `run` has the arguments."""
        return Execution(self, self._recorder(payload, store, self._attachment(payload, **given), **given), **given)

    async def _abegin(self, payload: Any, *, store: EventStore | str | None, **given: Any) -> Execution:
        """`begin`, which commits, in a thread of its own; on copies, which nobody mutates meanwhile."""
        given = {name: copy_value(value) if name in ("input", "params") else value for name, value in given.items()}
        attachment = self._attachment(payload, **given)
        if attachment is None:
            given["agent_cache"] = stored_cache(self.cache)
        begin = functools.partial(self._recorder, copy_value(payload), store, attachment, **given)
        # Nothing begins, and so nothing is committed, where code is attached to a recording.
        recorder, cancelled = await begun_in_turn(begin) if attachment is None else (begin(), None)
        return Execution(self, recorder, cancelled=cancelled, **given)

    def _attachment(
        self,
        payload: Any,
        *,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        parent: Parent | None = None,
        **_: Any,
    ) -> Attachment | None:
        begun_with = {"payload": payload, "input": input, "params": params or {}}
        if parent is None:
            return attachment_for(self.name, begun_with, None)
        return attachment_for(parent.name, begun_with, parent.scope)

    def _recorder(
        self,
        payload: Any,
        store: EventStore | str | None,
        attachment: Attachment | None,
        *,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        max_rounds: int | None = None,
        tags: Sequence[str] | None = None,
        logger: Logger = None,
        agent_cache: StoredCache | None = None,
        parent: Parent | None = None,
        **_: Any,
    ) -> RunRecorder:
        code, names, entry_point = self._code()
        return RunRecorder(
            store if parent is None else parent.recorder.store,
            self.name,
            payload,
            input=input,
            params=params,
            max_rounds=max_rounds,
            logger_name=logger_name(logger, self.name),
            agent_cache=stored_cache(self.cache) if agent_cache is None and attachment is None else agent_cache,
            tags=self.tags if tags is None else tags,
            applier=self.applier,
            applier_options=self.applier_options,
            entry_point=entry_point,
            code=code_version(folder_of(code)),
            parent=None if parent is None else parent.reference,
            on_store_error=self.on_store_error,
            captured=captured_for(self.capture, parent, attachment, code, names),
            attachment=attachment,
            guard=None if parent is None or attachment is not None else parent.guard(payload, input, params),
        )

    def _code(self) -> tuple[CodeType | None, dict[str, Any] | None, str | None]:
        """The code of the agent, the names of its module, and its entry point."""
        code = code_of(self.step)
        return code, globals_of(self.step), code_name(code)


class Execution:
    """One run of an agent, from its first round to its end."""

    def __init__(
        self,
        agent: Agent,
        recorder: RunRecorder,
        *,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        invocation_state: Mapping[str, Any] | None = None,
        signal: Signal | None = None,
        logger: Logger = None,
        parent: Parent | None = None,
        cancelled: BaseException | None = None,
        **_: Any,
    ) -> None:
        self.agent = agent
        self.recorder = recorder
        cache = agent.cache
        if (attachment := recorder.attachment) is not None:
            input, params, cache = attachment.input, attachment.params, attachment.agent_cache
            logger = recorded_logger(attachment.logger_name) if logger is None else logger
        self.context = Context(
            recorder,
            signal=signal,
            input=input,
            params=params,
            agent_cache=cache,
            logger=agent.logger if logger is None else logger,
        )
        self.ending = Ending(recorder, self.context, invocation_state)
        self._parent = parent
        self._cancelled = cancelled  # by what, while it began

    def run(self) -> AgentResult:
        """Execute in this thread; what the step returns to be awaited, in an event loop of the run's own."""
        try:
            outcome = self._answer()
            if outcome is not None and self._parent is not None:
                self._parent.started(self.recorder)
            result = self._run() if outcome is None else _given(outcome, self.ending)
        except BaseException as error:
            self._tell_parent(error)
            raise
        self._tell_parent()
        return result

    async def arun(self) -> AgentResult:
        """Execute in the running event loop."""
        try:
            outcome = self._answer()
            if outcome is not None and self._parent is not None:
                await self._parent.astarted(self.recorder)
            result = await self._arun() if outcome is None else _given(outcome, self.ending)
        except BaseException as error:
            await self._atell_parent(error)
            raise
        await self._atell_parent()
        return result

    def _answer(self) -> Outcome | None:
        """How the run ended, where it is not executed but answered as a whole."""
        return None if self.recorder.attachment is None else self.recorder.attachment.outcome()

    def _run(self) -> AgentResult:
        try:
            with ExitStack() as stack:
                runner: asyncio.Runner | None = None
                try:
                    if self._parent is not None:
                        self._parent.started(self.recorder)
                    self._enter(stack)
                    while True:
                        if (result := self._before_round()) is not None:
                            return result
                        outcome = self.agent.step(self.recorder.round, self.context)
                        if is_awaitable(outcome):
                            runner = runner or stack.enter_context(asyncio.Runner())
                            outcome = runner.run(_awaited(outcome))
                        if (result := self._after_round(outcome)) is not None:
                            return result
                except BaseException as error:
                    if self.ending.by(error) and self.ending.result is not None:
                        return self.ending.result
                    raise
        finally:
            self.recorder.close()

    async def _arun(self) -> AgentResult:
        try:
            with ExitStack() as stack:
                try:
                    if self._parent is not None:
                        await self._parent.astarted(self.recorder, self._cancelled)
                    if self._cancelled is not None:
                        raise self._cancelled
                    self._enter(stack)
                    while True:
                        if (result := self._before_round()) is not None:
                            return result
                        outcome = self.agent.step(self.recorder.round, self.context)
                        if is_awaitable(outcome):
                            outcome = await outcome
                        if (result := self._after_round(outcome)) is not None:
                            return result
                except BaseException as error:
                    if self.ending.by(error) and self.ending.result is not None:
                        return self.ending.result
                    raise
        except GeneratorExit:  # a coroutine that is closed may not await
            self.recorder.close()
            raise
        finally:
            await self.recorder.aclose()

    def _enter(self, stack: ExitStack) -> None:
        stack.enter_context(entered(Scope(self.recorder)))
        stack.enter_context(scope_is_carried(self.recorder))
        stack.enter_context(reads_are_captured(self.recorder))

    def _tell_parent(self, error: BaseException | None = None) -> None:
        if self._parent is not None:
            self._parent.finished(self.recorder, self.ending.status, self.ending.result, error)

    async def _atell_parent(self, error: BaseException | None = None) -> None:
        if self._parent is not None:
            await self._parent.afinished(self.recorder, self.ending.status, self.ending.result, error)

    # -- between rounds -----------------------------------------------------------------------------

    def _before_round(self) -> AgentResult | None:
        """Begin the next round; or, when the run is cancelled or has reached its bound, its result."""
        signal, bound = self.context.signal, self.recorder.max_rounds or self.agent.max_rounds
        if signal.aborted:
            return self.ending.reached("cancelled", "cancelled", error=signal.cancellation())
        if self.recorder.round >= bound:
            # Named as the run is, not as the code that executes it again: a step of an engine has the step's own name.
            name = self.recorder.info.agent
            error = RoundLimitReached(f"{name} did not complete within {bound} rounds (max_rounds)")
            return self.ending.reached("failed", "limitTurns", error=error)
        self.recorder.start_round()
        return None

    def _after_round(self, outcome: Any) -> AgentResult | None:
        """Record what the round came to; the result, if that ends the run."""
        if self.recorder.interrupts:  # a question that the step swallowed, as `gather` does, still waits for its answer
            return self.ending.suspended()
        outcome = as_outcome(outcome, self.recorder.info.agent)
        ending: tuple[str, str] | None = None
        value = text = None
        if isinstance(outcome, NextStep):
            if not self.context.has_decided(outcome):
                self.context.decide(outcome)
            ending = _ENDS.get(outcome.step, ("completed", "endTurn") if outcome.terminate is True else None)
            if ending is not None:
                value, text = outcome.message, outcome.message or outcome.error_message
        elif isinstance(outcome, Complete):
            ending, value = ("completed", "endTurn"), outcome.value
            if self.recorder.decided is None:
                self.context.decide(step="Success", terminate=True)
        status = None if ending is None else ending[0]
        self.recorder.finish_round("continue" if status is None else "complete" if status == "completed" else status)
        return None if ending is None else self.ending.reached(*ending, value=value, text=text)


def _given(outcome: Outcome, ending: Ending) -> AgentResult:
    """Return or raise what a run that is answered as a whole came to."""
    result = ending.answered(outcome)
    if outcome.error is not None:
        raise outcome.error
    return result


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


@overload
def agent(name: Step, /) -> Agent: ...


@overload
def agent(
    name: str | None = None,
    /,
    *,
    max_rounds: int = ...,
    tags: Sequence[str] | None = ...,
    applier: str = ...,
    allowed_paths: Sequence[str] | None = ...,
    strict: bool = ...,
    capture: Capture = ...,
    logger: Logger = ...,
    on_store_error: StorePolicy = ...,
) -> Callable[[Step], Agent]: ...


def agent(name: str | Step | None = None, /, **options: Any) -> Agent | Callable[[Step], Agent]:
    """Make a step function an agent: `@agent`, or `@agent("refunds", max_rounds=20)`.

    Args:
        name: as runs show it; by default the function's.
        max_rounds: bound of a run, 20 by default.
        tags: of all its runs: words by which they are found among others, at most 20 of 64 characters.
        applier: payload applier of its change requests: "memberjunction", "json-patch", "merge-patch" or "replace".
        allowed_paths: path specs that its change requests may touch, such as ["order.*:add,update"]; None allows all.
        strict: report what MemberJunction's rules do silently.
        capture: which reads of code that does not use the context are recorded: "all", or some of {"clock", "random",
            "uuid", "env"}; None is those of the run around, or none.
        logger: at `context.logger` of its runs: a `logging.Logger`, or True for "agentreplay.agent.NAME"; lines are
            recorded and go on to it. None by default: `context.logger` is None.
        on_store_error: "raise" (default) or "warn": what a failing store means for the run.
    """
    if callable(name):
        return Agent(name, name_of(name))
    given = name

    def decorate(step: Step) -> Agent:
        return Agent(step, given or name_of(step), **options)

    return decorate
