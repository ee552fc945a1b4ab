"""Recording a loop of one's own: `with ar.record("triage", payload=…) as run:`.

The block is the run. Rounds are marked by `run.round()`, or begin with each model call (`rounds="model"`) where the
loop is not to be touched. Effects are called through the run (`r.model`, `r.tool`), or are callables made effects before
(`@tool`, `@model`, `wrap`). An exception that leaves the block is recorded and goes on its way.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Literal, Self

from .agent_result import AgentResult, Interrupt, RunHandle
from .context import Cancelled, Context, Interrupted, Signal
from .effects import Call, Effect, aperform, check_safety, perform
from .environment import code_version
from .errors import RecordingFailed, UsageError
from .loop import code_name, folder_of, resolve_store
from .run_recorder import RunRecorder, StorePolicy
from .scope import Scope, current, entered, tasks_get_paths, threads_carry_scope
from .store import EventStore

Rounds = Literal["marked", "model"]
"""Where rounds begin: where `run.round()` says so, or with each model call that is not inside another call."""


class Recording(Context):
    """A run of a loop of your own; inside a round it is what the round works with.

    Attributes:
        result: the AgentResult, once the block has ended.
    """

    def __init__(self, recorder: RunRecorder, **given: Any) -> None:
        super().__init__(recorder, **given)
        self.result: AgentResult | None = None
        self.status = "running"
        self._value: Any = None
        self._stack = ExitStack()

    # -- names ---------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The run's id in this store, such as "run42"."""
        return self._recorder.info.id

    @property
    def uid(self) -> str:
        """The run's name everywhere."""
        return self._recorder.info.uid

    # -- rounds --------------------------------------------------------------------------------------

    @contextmanager
    def round(self) -> Iterator[Self]:  # type: ignore[override]  # in a loop of one's own a round is a block
        """One iteration of the loop, as a block."""
        recorder = self._recorder
        recorder.start_round()
        try:
            yield self
        except Interrupted:
            recorder.finish_round("interrupted")
            raise
        except BaseException as error:
            if recorder.recording and not isinstance(error, RecordingFailed):
                recorder.finish_round("cancelled" if _is_cancellation(error) else "failed")
            raise
        recorder.finish_round("continue")

    def complete(self, value: Any = None) -> None:
        """Say what the run came to; the block may go on."""
        self._value = value

    # -- effects -------------------------------------------------------------------------------------

    def model(self, model: str, request: Mapping[str, Any], call: Callable[..., Any]) -> Any:
        """Call a model: runs `call(**request)`, records it, and returns what it returns."""
        return perform(self._model_call(model, request), functools.partial(call, **request))

    async def amodel(self, model: str, request: Mapping[str, Any], call: Callable[..., Any]) -> Any:
        """`model` for a callable that returns an awaitable."""
        return await aperform(self._model_call(model, request), functools.partial(call, **request))

    def tool(
        self, name: str, arguments: Mapping[str, Any], fn: Callable[..., Any], *, safety: str | None = None
    ) -> Any:
        """Call a tool: runs `fn(**arguments)`, records it, and returns what it returns.

        Args:
            safety: "pure", "idempotent", "compensable" or "irreversible": what running it again would mean.
        """
        return perform(self._tool_call(name, arguments, safety), functools.partial(fn, **arguments))

    async def atool(
        self, name: str, arguments: Mapping[str, Any], fn: Callable[..., Any], *, safety: str | None = None
    ) -> Any:
        """`tool` for a function that returns an awaitable."""
        return await aperform(self._tool_call(name, arguments, safety), functools.partial(fn, **arguments))

    def _model_call(self, model: str, request: Mapping[str, Any]) -> Call:
        return Call(Effect("model", model, model=model), self._recorder, self._scope(), dict(request))

    def _tool_call(self, name: str, arguments: Mapping[str, Any], safety: str | None) -> Call:
        return Call(Effect("tool", name, check_safety(safety)), self._recorder, self._scope(), dict(arguments))

    def _scope(self) -> Scope:
        scope = current.get()
        return scope if scope is not None and scope.recorder is self._recorder else Scope(self._recorder)

    # -- the block -----------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._stack.enter_context(entered(Scope(self._recorder)))
        self._stack.enter_context(threads_carry_scope())
        if _in_event_loop():
            self._stack.enter_context(tasks_get_paths(asyncio.get_running_loop()))
        return self

    def __exit__(self, _cls: Any, error: BaseException | None, _traceback: TracebackType | None) -> bool:
        try:
            return self._end(error)
        finally:
            self._stack.close()
            self._recorder.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, _cls: Any, error: BaseException | None, _traceback: TracebackType | None) -> bool:
        try:
            return self._end(error)
        finally:
            self._stack.close()
            await self._recorder.aclose()

    def _end(self, error: BaseException | None) -> bool:
        """Record the end; whether the exception has been dealt with."""
        recorder = self._recorder
        if isinstance(error, RecordingFailed) or not recorder.recording:
            self.status = "failed"
            return False
        recorder.finish_open_round(
            "interrupted"
            if isinstance(error, Interrupted)
            else "continue"
            if error is None
            else "cancelled"
            if _is_cancellation(error)
            else "failed"
        )
        if isinstance(error, Interrupted):
            self.status = "interrupted"
            question = Interrupt(id=error.interrupt, name=error.name, reason=error.reason)
            recorder.suspend("interrupt", [error.interrupt])
            self.result = self._result("interrupt", interrupts=[question])
            return True
        if error is None:
            failed = recorder.last_step == "Failed"
            self._finish("failed" if failed else "completed", "failed" if failed else "endTurn", None)
        elif _is_cancellation(error):
            self._finish("cancelled", "cancelled", error)
            return isinstance(error, Cancelled)
        else:
            self._finish("failed", "error", error)
        return False

    def _finish(self, status: str, stop_reason: str, error: BaseException | None) -> None:
        self.status = status
        self.result = self._result(stop_reason, error=error)
        self._recorder.finish(status, stop_reason, value=self._value, error=error, result=self.result.document())

    def _result(self, stop_reason: str, *, error: BaseException | None = None, **fields: Any) -> AgentResult:
        recorder = self._recorder
        last = self.messages[-1] if len(self.messages) else None
        result = AgentResult(stop_reason=stop_reason, last_message=last, metrics=recorder.metrics(), **fields)
        return result.attach(run=RunHandle(self.id, self.uid), payload=self.payload, value=self._value, error=error)


def _is_cancellation(error: BaseException) -> bool:
    return isinstance(error, (asyncio.CancelledError, Cancelled, KeyboardInterrupt))


def record(
    name: str,
    payload: Any = None,
    *,
    input: Any = None,
    params: Mapping[str, Any] | None = None,
    rounds: Rounds = "marked",
    applier: str = "memberjunction",
    allowed_paths: Sequence[str] | None = None,
    signal: Signal | None = None,
    store: EventStore | str | None = None,
    on_store_error: StorePolicy = "raise",
) -> Recording:
    """Record the block as a run: `with record("triage", payload={"ticket": 7}) as run:` (or `async with`).

    Args:
        name: of the agent, as runs show it.
        payload: the starting payload; copied. Or a function that gives the state that your loop keeps: it is asked at
            the start and at the end of each round, and what changed is recorded.
        input, params: what the run was given.
        rounds: "marked": `with run.round():` is a round. "model": each model call begins one, for a loop that is
            not to be touched.
        applier: payload applier of change requests.
        allowed_paths: path specs that change requests may touch; None allows all.
        signal: asks the run to stop; your loop looks at `run.signal`.
        store: where to record: a store, or a URL; by default the one that is found from here.
        on_store_error: "raise" (default) or "warn": what a failing store means for the run.

    Raises:
        StoreError: the run cannot be recorded.
    """
    if rounds not in ("marked", "model"):
        raise UsageError(f'rounds is "marked" or "model", not "{rounds}"')
    watch = payload if callable(payload) else None
    caller = sys._getframe(1).f_code
    outer = current.get()
    parent = None
    if outer is not None and store is None and outer.recorder.recording:
        parent = {"run": outer.recorder.info.uid, "call": outer.within}
    recorder = RunRecorder(
        outer.recorder.store if parent is not None and outer is not None else resolve_store(store),
        name,
        watch() if watch is not None else payload,
        input=input,
        params=params,
        applier=applier,
        applier_options={} if allowed_paths is None else {"allowed_paths": list(allowed_paths)},
        entry_point=code_name(caller),
        code=code_version(folder_of(caller)),
        parent=parent,
        on_store_error=on_store_error,
        watch=watch,
        model_calls_begin_rounds=rounds == "model",
        background=_in_event_loop(),
    )
    return Recording(recorder, signal=signal, input=input, params=params)


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
