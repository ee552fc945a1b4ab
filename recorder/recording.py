"""Recording a loop of one's own: `with ar.record("triage", payload=…) as run:`.

The block is the run. Rounds are marked by `run.round()`, or begin with each model call (`rounds="model"`) where the
loop is not to be touched. Effects are called through the run (`r.model`, `r.tool`), or are callables made effects
before (`@tool`, `@model`, `wrap`). An exception that leaves the block is recorded and goes on its way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import CodeType, TracebackType
from typing import Any, Literal, Self

from .agent_result import AgentResult
from .ambient import Capture, captured_for, reads_are_captured, sources_of
from .attaching import Attachment, attachment_for
from .calls import Call, Effect, check_safety
from .context import Context
from .copying import copy_value
from .effects import aperform, perform
from .ending import Ending
from .environment import code_name, code_version, folder_of
from .errors import UsageError
from .flow_logger import Logger, checked_logger
from .run_log import StorePolicy
from .run_recorder import RunRecorder
from .scope import Scope, entered, scope_is_carried
from .signals import Interrupted, RecordingStopped, Signal, all_in, is_cancellation
from .store import EventStore
from .subagents import Parent, parent_of
from .tags import checked_tags
from .writer import begun_in_turn, off_the_loop

Rounds = Literal["marked", "model"]
"""Where rounds begin: where `run.round()` says so, or with each model call that is not inside another call."""


class EffectContext(Context):
    """A context through which effects are called that were not made effects before."""

    @property
    def id(self) -> str:
        """The run's id in this store, such as "run42"."""
        return self._recorder.info.id

    @property
    def uid(self) -> str:
        """The run's name everywhere."""
        return self._recorder.info.uid

    def model(self, model: str, request: Mapping[str, Any], call: Callable[..., Any]) -> Any:
        """Call a model: runs `call(**request)`, records it, and returns what it returns."""
        return perform(self._model_call(model, request, call), call, (), dict(request))

    async def amodel(self, model: str, request: Mapping[str, Any], call: Callable[..., Any]) -> Any:
        """`model` for a callable that returns an awaitable."""
        return await aperform(self._model_call(model, request, call), call, (), dict(request))

    def tool(
        self, name: str, arguments: Mapping[str, Any], fn: Callable[..., Any], *, safety: str | None = None
    ) -> Any:
        """Call a tool: runs `fn(**arguments)`, records it, and returns what it returns.

        Args:
            safety: "pure", "idempotent", "compensable" or "irreversible": what running it again would mean.
        """
        return perform(self._tool_call(name, arguments, safety, fn), fn, (), dict(arguments))

    async def atool(
        self, name: str, arguments: Mapping[str, Any], fn: Callable[..., Any], *, safety: str | None = None
    ) -> Any:
        """`tool` for a function that returns an awaitable."""
        return await aperform(self._tool_call(name, arguments, safety, fn), fn, (), dict(arguments))

    def _model_call(self, model: str, request: Mapping[str, Any], call: Callable[..., Any]) -> Call:
        return Call(Effect("model", model, model=model), self._scope(), dict(request), call)

    def _tool_call(self, name: str, arguments: Mapping[str, Any], safety: str | None, fn: Callable[..., Any]) -> Call:
        return Call(Effect("tool", name, check_safety(safety)), self._scope(), dict(arguments), fn)

    def _scope(self) -> Scope:
        return self._recorder.here() or Scope(self._recorder)


class Recording(EffectContext):
    """A run of a loop of your own; inside a round it is what the round works with."""

    def __init__(self, recorder: RunRecorder, **given: Any) -> None:
        super().__init__(recorder, **given)
        self._ending = Ending(recorder, self)
        self._value: Any = None

    @property
    def status(self) -> str:
        """Running; once the block has ended: completed, failed, cancelled or interrupted."""
        return self._ending.status

    @property
    def result(self) -> AgentResult | None:
        """The AgentResult, once the block has ended."""
        return self._ending.result

    # -- rounds --------------------------------------------------------------------------------------

    @contextmanager
    def round(self) -> Iterator[Self]:  # type: ignore[override]  # in a loop of one's own a round is a block
        """One iteration of the loop, as a block.

        Raises:
            UsageError: another round is not over.
        """
        recorder = self._recorder
        recorder.start_round()
        try:
            yield self
        except RecordingStopped:
            raise
        except BaseException as error:
            recorder.finish_round(_outcome_of(error))
            raise
        recorder.finish_round("continue")

    def complete(self, value: Any = None) -> None:
        """Say what the run came to; the block may go on."""
        self._value = value

    # -- the end, for the block ------------------------------------------------------------------------

    @property
    def recorder(self) -> RunRecorder:
        """What records the run."""
        return self._recorder

    def close(self) -> None:
        """Wait for what is not committed yet."""
        self._recorder.close()

    async def aclose(self) -> None:
        """`close`, without holding up the event loop."""
        await self._recorder.aclose()

    def ended(self, error: BaseException | None) -> bool:
        """Record the end of the block; whether the exception has been dealt with."""
        try:
            if error is None and self._recorder.interrupts:  # swallowed by the block, and unanswered
                self._ending.suspended()
                return False
            if error is None:
                self._recorder.finish_round("continue")
                failed = self._recorder.last_step == "Failed"
                status, stop_reason = ("failed", "failed") if failed else ("completed", "endTurn")
                self._ending.reached(status, stop_reason, value=self._value)
                return False
        except BaseException as own:
            self._ending.by(own, self._value)
            raise
        return self._ending.by(error, self._value)


class RecordedBlock:
    """What `record` returns: entering it, with `with` or `async with`, begins a run; leaving it ends the run.

    Args:
        name: of the agent.
        payload, input, params: what the run is given.
        store: where to record.
        signal: asks the run to stop.
        capture: the sources whose reads are captured; None for those of the run around.
        logger: of the run; None for no logger.
        options: of the recorder.

    Attributes:
        caller: the code that has the block.
        names: of the module that has it.
    """

    def __init__(
        self,
        name: str,
        payload: Any,
        *,
        input: Any,
        params: Mapping[str, Any] | None,
        store: EventStore | str | None,
        signal: Signal | None,
        capture: frozenset[str] | None,
        logger: Logger,
        options: Mapping[str, Any],
    ) -> None:
        self._name = name
        self._payload = payload
        self._given: dict[str, Any] = {"input": input, "params": params}
        self._store = store
        self._signal = signal
        self._logger = logger
        self._capture = capture
        self._options = options
        self.caller: CodeType | None = None
        self.names: dict[str, Any] | None = None
        self._parent: Parent | None = None
        self._attachment: Attachment | None = None
        self._run: Recording | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Recording:
        run = self._began(off_the_loop(self._begin()))
        try:
            if self._parent is not None:
                self._parent.started(run.recorder)
            return self._entered(run)
        except BaseException as error:
            self._leave(run, error)
            raise

    async def __aenter__(self) -> Recording:
        # It commits, so it happens in a thread of its own; on copies, which nobody mutates meanwhile.
        self._given = copy_value(self._given)
        begin = self._begin(copy_value)
        recorder, cancelled = (begin(), None) if self._attachment is not None else await begun_in_turn(begin)
        run = self._began(recorder)
        try:
            if self._parent is not None:
                await self._parent.astarted(run.recorder, cancelled)
            if cancelled is not None:
                raise cancelled
            return self._entered(run)
        except BaseException as error:
            await self._aleave(run, error)
            raise

    def __exit__(self, _cls: Any, error: BaseException | None, _traceback: TracebackType | None) -> bool:
        return self._leave(self._entered_run(), error)

    async def __aexit__(self, _cls: Any, error: BaseException | None, _traceback: TracebackType | None) -> bool:
        return await self._aleave(self._entered_run(), error)

    def _begin(self, copied: Callable[[Any], Any] = lambda value: value) -> Callable[[], RunRecorder]:
        """Prepare what records the start of the run; it may be called in another thread."""
        if self._run is not None:
            raise UsageError("this block was entered before; call record() again for another run")
        self._parent = parent = parent_of(self._store, self._name)
        watch = self._payload if callable(self._payload) else None
        payload = copied(self._payload if watch is None else watch())

        begun_with = {"payload": payload, **self._given, "params": self._given["params"] or {}}
        attachment = self._attachment = attachment_for(self._name, begun_with, None if parent is None else parent.scope)
        if attachment is not None:
            self._given = {"input": attachment.input, "params": attachment.params}
        captured = captured_for(self._capture, parent, attachment, self.caller, self.names)

        def begin() -> RunRecorder:
            return RunRecorder(
                self._store if parent is None else parent.recorder.store,
                self._name,
                payload,
                parent=None if parent is None else parent.reference,
                watch=watch,
                entry_point=code_name(self.caller),
                code=code_version(folder_of(self.caller)),
                captured=captured,
                attachment=attachment,
                guard=None if parent is None or attachment is not None else parent.guard(payload, **self._given),
                **self._given,
                **self._options,
            )

        return begin

    def _began(self, recorder: RunRecorder) -> Recording:
        self._run = Recording(recorder, signal=self._signal, logger=self._logger, **self._given)
        return self._run

    def _entered(self, run: Recording) -> Recording:
        self._stack.enter_context(entered(Scope(run.recorder)))
        self._stack.enter_context(scope_is_carried(run.recorder))
        self._stack.enter_context(reads_are_captured(run.recorder))
        return run

    def _entered_run(self) -> Recording:
        if self._run is None:
            raise UsageError("this block is left before it was entered")
        return self._run

    def _leave(self, run: Recording, error: BaseException | None) -> bool:
        try:
            try:
                dealt_with = self._end(run, error)
            except BaseException as failure:
                self._tell_parent(run, failure)
                raise
            self._tell_parent(run, None if dealt_with else error)
            return dealt_with
        finally:
            run.close()

    async def _aleave(self, run: Recording, error: BaseException | None) -> bool:
        try:
            try:
                dealt_with = self._end(run, error)
            finally:
                if type(error) is GeneratorExit:  # a coroutine that is closed may not await
                    run.close()
                await run.aclose()
        except BaseException as failure:
            await self._atell_parent(run, failure)
            raise
        await self._atell_parent(run, None if dealt_with else error)
        return dealt_with

    def _end(self, run: Recording, error: BaseException | None) -> bool:
        try:
            return run.ended(error)
        finally:
            self._stack.close()

    def _tell_parent(self, run: Recording, error: BaseException | None) -> None:
        if self._parent is not None:
            self._parent.finished(run.recorder, run.status, run.result, error)

    async def _atell_parent(self, run: Recording, error: BaseException | None) -> None:
        if self._parent is not None:
            await self._parent.afinished(run.recorder, run.status, run.result, error)


def _outcome_of(error: BaseException) -> str:
    if all_in(error, Interrupted):
        return "interrupted"
    return "cancelled" if is_cancellation(error) else "failed"


def record(
    name: str,
    payload: Any = None,
    *,
    input: Any = None,
    params: Mapping[str, Any] | None = None,
    tags: Sequence[str] | None = None,
    rounds: Rounds = "marked",
    applier: str = "memberjunction",
    allowed_paths: Sequence[str] | None = None,
    strict: bool = False,
    signal: Signal | None = None,
    capture: Capture = None,
    logger: Logger = None,
    store: EventStore | str | None = None,
    on_store_error: StorePolicy = "raise",
) -> RecordedBlock:
    """Record the block as a run: `with record("triage", payload={"ticket": 7}) as run:` (or `async with`).

    Args:
        name: of the agent, as runs show it.
        payload: the starting payload; copied. Or a function that gives the state that your loop keeps: it is asked at
            the start and at the end of each round, and what changed is recorded.
        input, params: what the run was given.
        tags: words by which the run is found among others, at most 20 of 64 characters.
        rounds: "marked": `with run.round():` is a round. "model": each model call begins one, for a loop that is
            not to be touched.
        applier: payload applier of change requests.
        allowed_paths: path specs that change requests may touch; None allows all.
        strict: report what MemberJunction's rules do silently.
        signal: asks the run to stop; your loop looks at `run.signal`.
        capture: which reads of code that does not use the run are recorded: "all", or some of {"clock", "random",
            "uuid", "env"}; None is those of the run around, or none.
        logger: at `run.logger`: a `logging.Logger`, or True for "agentreplay.agent.NAME"; lines are recorded and go on
            to it. None by default: `run.logger` is None.
        store: where to record: a store, or a URL; by default the one that is found from here.
        on_store_error: "raise" (default) or "warn": what a failing store means for the run.

    Raises:
        UsageError: an argument is none of its words, or the tags are none.
        StoreError: the run cannot be recorded; raised where the block is entered.
    """
    if rounds not in ("marked", "model"):
        raise UsageError(f'rounds is "marked" or "model", not "{rounds}"')
    applier_options: dict[str, Any] = {} if allowed_paths is None else {"allowed_paths": list(allowed_paths)}
    options: dict[str, Any] = {
        "applier": applier,
        "applier_options": applier_options | ({"strict": True} if strict else {}),
        "on_store_error": on_store_error,
        "model_calls_begin_rounds": rounds == "model",
        "tags": checked_tags(tags),
    }
    given: dict[str, Any] = {"input": input, "params": params, "store": store, "signal": signal}
    given["logger"] = checked_logger(logger)
    block = RecordedBlock(name, payload, **given, capture=sources_of(capture), options=options)
    caller = sys._getframe(1)
    block.caller, block.names = caller.f_code, caller.f_globals
    return block
