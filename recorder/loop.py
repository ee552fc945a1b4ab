"""The loop: runs a step function round by round, bounded and recorded.

The contract is CoreStep's: `step(round_index, context)` is one iteration, re-entrant, and says `Continue` or
`Complete(value)`; it may be a coroutine function. Beyond that it may return its decision, a `NextStep`, which is
recorded and carried out: `Success`, `Failed` and `Chat` end the run, and so does `terminate`; the others go on.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from types import CodeType
from typing import Any, Final, overload

from .agent_result import AgentResult, Interrupt, RunHandle
from .context import Cancelled, Context, Interrupted, Signal
from .decisions import Complete, Continue, NextStep
from .environment import code_version
from .errors import RecordingFailed, RoundLimitReached, UsageError
from .locate import open_store
from .run_recorder import RunRecorder, StorePolicy
from .scope import Scope, current, entered, tasks_get_paths, threads_carry_scope
from .store import EventStore

Step = Callable[[int, Context], Any]

_ENDS: Final = {"Success": ("completed", "endTurn"), "Failed": ("failed", "failed"), "Chat": ("completed", "chat")}
"""Decisions that end a run: its status and stop reason."""


class Agent:
    """A step function that can be run and is recorded when it is. Made by `@agent`; calling it calls the step.

    Attributes:
        name: as runs show it.
        max_rounds: after so many rounds without an end, the run has failed.
    """

    def __init__(
        self,
        step: Step,
        name: str,
        *,
        max_rounds: int = 20,
        applier: str = "memberjunction",
        allowed_paths: Sequence[str] | None = None,
        strict: bool = False,
        on_store_error: StorePolicy = "raise",
    ) -> None:
        if max_rounds < 1:
            raise UsageError(f"max_rounds is at least 1, not {max_rounds}")
        functools.update_wrapper(self, step)
        self.step = step
        self.name = name
        self.max_rounds = max_rounds
        self.applier = applier
        self.on_store_error = on_store_error
        options = {
            "allowed_paths": list(allowed_paths) if allowed_paths is not None else None,
            "strict": strict or None,
        }
        self.applier_options = {key: value for key, value in options.items() if value is not None}
        self.cache: dict[Any, Any] = {}
        self.is_async = inspect.iscoroutinefunction(step) or inspect.iscoroutinefunction(type(step).__call__)

    def __call__(self, round_index: int, context: Context) -> Any:
        """The step itself."""
        return self.step(round_index, context)

    def run(
        self,
        payload: Any = None,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        *,
        invocation_state: Mapping[str, Any] | None = None,
        signal: Signal | None = None,
        store: EventStore | str | None = None,
    ) -> AgentResult:
        """Run the agent to its end and record it; within another run, as a child run of that.

        Args:
            payload: the starting payload; copied.
            input, params: at `context.input` and `context.params`.
            invocation_state: handed through to the result.
            signal: asks the run to stop.
            store: where to record: a store, or a URL; by default the one that is found from here.

        Returns:
            How the run ended; `result.run.id` names it.

        Raises:
            UsageError: called in a running event loop; use `await agent.arun(…)` there.
            Exception: what the step raises is recorded, and raised as it is.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise UsageError(f"{self.name}.run() cannot run inside an event loop; use `await {self.name}.arun(…)`")
        options = {"input": input, "params": params, "invocation_state": invocation_state, "signal": signal}
        if (outer := _outer(store)) is not None:
            from .subagents import start_child  # which imports this module

            result: AgentResult = start_child(outer.recorder, self, payload).run(**options)
            return result
        return self.begin(payload, store=resolve_store(store), background=self.is_async, **options).run()

    async def arun(
        self,
        payload: Any = None,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        *,
        invocation_state: Mapping[str, Any] | None = None,
        signal: Signal | None = None,
        store: EventStore | str | None = None,
    ) -> AgentResult:
        """`run` for code in an event loop; a plain step function is called on it."""
        options = {"input": input, "params": params, "invocation_state": invocation_state, "signal": signal}
        if (outer := _outer(store)) is not None:
            from .subagents import start_child  # which imports this module

            result: AgentResult = await start_child(outer.recorder, self, payload).run(**options)
            return result
        return await self.begin(payload, store=resolve_store(store), background=True, **options).arun()

    def begin(
        self,
        payload: Any,
        *,
        store: EventStore,
        background: bool,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        invocation_state: Mapping[str, Any] | None = None,
        signal: Signal | None = None,
        parent: dict[str, Any] | None = None,
    ) -> Execution:
        """Record the start of a run, and return it ready to be executed."""
        code = _code_of(self.step)
        recorder = RunRecorder(
            store,
            self.name,
            payload,
            input=input,
            params=params,
            applier=self.applier,
            applier_options=self.applier_options,
            entry_point=code_name(code),
            code=code_version(folder_of(code)),
            parent=parent,
            on_store_error=self.on_store_error,
            background=background,
        )
        context = Context(recorder, signal=signal, input=input, params=params, agent_cache=self.cache)
        return Execution(self, recorder, context, dict(invocation_state or {}))


def _outer(store: EventStore | str | None) -> Scope | None:
    scope = current.get()
    return scope if scope is not None and store is None and scope.recorder.recording else None


def resolve_store(store: EventStore | str | None) -> EventStore:
    """The store that a `store=` argument means."""
    return store if isinstance(store, EventStore) else open_store(store)


def _code_of(fn: Any) -> CodeType | None:
    target = inspect.unwrap(fn)
    code = getattr(target, "__code__", None) or getattr(type(target).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


def code_name(code: CodeType | None) -> str | None:
    """The name of some code, "path/agent.py:name"; the path relative to the working folder where it is below it."""
    return None if code is None else f"{code.co_filename.removeprefix(os.getcwd() + os.sep)}:{code.co_qualname}"


def folder_of(code: CodeType | None) -> str:
    """The folder of some code's file; the working folder where there is none, as in a notebook."""
    folder = "" if code is None else os.path.dirname(os.path.abspath(code.co_filename))
    return folder if os.path.isdir(folder) else os.getcwd()


class Execution:
    """One run of an agent, from its first round to its end."""

    def __init__(self, agent: Agent, recorder: RunRecorder, context: Context, state: dict[str, Any]) -> None:
        self.agent = agent
        self.recorder = recorder
        self.context = context
        self.status = "running"
        self._state = state
        self._last_decision: NextStep | None = None

    def run(self) -> AgentResult:
        """Execute in this thread; a coroutine step in an event loop of its own."""
        if self.agent.is_async:
            return asyncio.run(self.arun())
        try:
            with ExitStack() as stack:
                stack.enter_context(entered(Scope(self.recorder)))
                stack.enter_context(threads_carry_scope())
                try:
                    while (result := self._before_round()) is None:
                        outcome = self.agent.step(self.recorder.round, self.context)
                        if inspect.isawaitable(outcome):
                            outcome = asyncio.run(_awaited(outcome))
                        if (result := self._after_round(outcome)) is not None:
                            break
                except BaseException as error:
                    return self._ended_by(error)
            return result
        finally:
            self.recorder.close()

    async def arun(self) -> AgentResult:
        """Execute in the running event loop."""
        try:
            with ExitStack() as stack:
                stack.enter_context(entered(Scope(self.recorder)))
                stack.enter_context(threads_carry_scope())
                stack.enter_context(tasks_get_paths(asyncio.get_running_loop()))
                try:
                    while (result := self._before_round()) is None:
                        outcome = self.agent.step(self.recorder.round, self.context)
                        if inspect.isawaitable(outcome):
                            outcome = await outcome
                        if (result := self._after_round(outcome)) is not None:
                            break
                except BaseException as error:
                    return self._ended_by(error)
            return result
        finally:
            await self.recorder.aclose()

    # -- between rounds -----------------------------------------------------------------------------

    def _before_round(self) -> AgentResult | None:
        """Begin the next round; or, when the run is cancelled or has reached its bound, its result."""
        signal, bound = self.context.signal, self.agent.max_rounds
        if signal.aborted:
            return self._end("cancelled", "cancelled")
        if self.recorder.round >= bound:
            error = RoundLimitReached(f"{self.agent.name} did not complete within {bound} rounds (max_rounds)")
            return self._end("failed", "limitTurns", error=error)
        self.recorder.start_round()
        return None

    def _after_round(self, outcome: Any) -> AgentResult | None:
        """Record what the round came to; the result, if that ends the run."""
        outcome = _as_outcome(outcome, self.agent.name)
        ending: tuple[str, str] | None = None
        value: Any = None
        if isinstance(outcome, NextStep):
            self.context.decide(outcome)
            self._last_decision = outcome
            ending = _ENDS.get(outcome.step)
            if ending is None and outcome.terminate is True:
                ending = ("completed", "endTurn")
            value = outcome.message if ending is not None else None
        elif isinstance(outcome, Complete):
            ending, value = ("completed", "endTurn"), outcome.value
            if not self.recorder.decided:
                self.context.decide(step="Success", terminate=True)
        status = None if ending is None else ending[0]
        self.recorder.finish_round("continue" if status is None else "complete" if status == "completed" else status)
        return None if ending is None else self._end(*ending, value=value)

    # -- the end -------------------------------------------------------------------------------------

    def _ended_by(self, error: BaseException) -> AgentResult:
        """Record the end that an exception made. Raises it again unless it is one of the run's own words."""
        recorder = self.recorder
        if isinstance(error, RecordingFailed) or not recorder.recording:
            self.status = "failed"
            raise error
        if isinstance(error, Interrupted):
            return self._suspend(error)
        cancelled = isinstance(error, (asyncio.CancelledError, Cancelled, KeyboardInterrupt))
        recorder.finish_round("cancelled" if cancelled else "failed")
        if cancelled:
            result = self._end("cancelled", "cancelled", error=error)
            if isinstance(error, Cancelled):
                return result
            raise error
        self._end("failed", "error", error=error)
        raise error

    def _suspend(self, interrupted: Interrupted) -> AgentResult:
        self.recorder.finish_round("interrupted")
        self.status = "interrupted"
        question = Interrupt(id=interrupted.interrupt, name=interrupted.name, reason=interrupted.reason)
        self.recorder.suspend("interrupt", [interrupted.interrupt])
        return self._result("interrupt", interrupts=[question])

    def _end(
        self, status: str, stop_reason: str, *, value: Any = None, error: BaseException | None = None
    ) -> AgentResult:
        self.status = status
        structured = value if isinstance(value, (dict, list)) or dataclasses.is_dataclass(value) else None
        result = self._result(stop_reason, value=value, error=error, structured_output=structured)
        self.recorder.finish(status, stop_reason, value=value, error=error, result=result.document())
        return result

    def _result(
        self, stop_reason: str, *, value: Any = None, error: BaseException | None = None, **fields: Any
    ) -> AgentResult:
        recorder = self.recorder
        given = {name: field for name, field in fields.items() if field is not None}
        result = AgentResult(
            stop_reason=stop_reason,
            last_message=self._last_message(value),
            metrics=recorder.metrics(),
            invocation_state=self._state,
            **given,
        )
        handle = RunHandle(recorder.info.id, recorder.info.uid)
        return result.attach(run=handle, payload=self.context.payload, value=value, error=error)

    def _last_message(self, value: Any) -> Any:
        messages = self.context.messages
        if len(messages):
            return messages[-1]
        decision = self._last_decision
        text = decision.message or decision.error_message if decision is not None else value
        return {"role": "assistant", "content": [{"text": text}]} if isinstance(text, str) else None


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _as_outcome(outcome: Any, agent: str) -> Continue | Complete[Any] | NextStep:
    """Read an outcome, the contracts' JSON forms included."""
    if isinstance(outcome, (Continue, Complete, NextStep)):
        return outcome
    if outcome is Continue:
        return Continue()
    if isinstance(outcome, Mapping):
        if outcome.get("type") == "continue":
            return Continue()
        if outcome.get("type") == "complete":
            return Complete(outcome.get("value"))
        if "step" in outcome:
            return NextStep(**outcome)
    raise UsageError(
        f"the step of {agent} returned {type(outcome).__name__}; expected Continue(), Complete(value) or a NextStep"
    )


@overload
def agent(name: Step, /) -> Agent: ...


@overload
def agent(
    name: str | None = None,
    /,
    *,
    max_rounds: int = ...,
    applier: str = ...,
    allowed_paths: Sequence[str] | None = ...,
    strict: bool = ...,
    on_store_error: StorePolicy = ...,
) -> Callable[[Step], Agent]: ...


def agent(name: str | Step | None = None, /, **options: Any) -> Agent | Callable[[Step], Agent]:
    """Make a step function an agent: `@agent`, or `@agent("refunds", max_rounds=20)`.

    Args:
        name: as runs show it; by default the function's.
        max_rounds: bound of a run, 20 by default.
        applier: payload applier of its change requests: "memberjunction", "json-patch", "merge-patch" or "replace".
        allowed_paths: path specs that its change requests may touch, such as ["order.*:add,update"]; None allows all.
        strict: report what MemberJunction's rules do silently.
        on_store_error: "raise" (default) or "warn": what a failing store means for the run.
    """
    if callable(name):
        return Agent(name, getattr(name, "__name__", type(name).__name__))

    def decorate(step: Step) -> Agent:
        return Agent(step, name or getattr(step, "__name__", type(step).__name__), **options)

    return decorate
