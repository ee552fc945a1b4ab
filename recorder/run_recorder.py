"""Appends one run's events: numbers them, keeps the payload, and carries out the store's policy when it fails.

A sync run appends in the calling thread and returns when the event is committed. An async run hands its events to a
background writer, so that the event loop never commits: coroutines await the commit; a sync function that stands on
the loop (such as `context.change`) only hands its event over, in order, and the next effect awaits it. What must be
committed before something happens, a `*.called` event before its effect, is waited for in any case.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from .copying import copy_value
from .environment import process_identity, python_versions
from .errors import RecordingFailed, UsageError
from .event_codec import encode_event
from .events import (
    EVENT_OF_KIND,
    CallKind,
    Data,
    ErrorInfo,
    Event,
    InterruptRaisedData,
    OpenData,
    PayloadChangedData,
    RoundFinishedData,
    RoundStartedData,
    RunFinishedData,
    RunStartedData,
    RunSuspendedData,
    StepDecidedData,
    UnknownEvent,
)
from .live_payload import LivePayload, RecordedChange
from .payload import LATEST, difference, missing_leaves
from .scope import current
from .store import FIRST, EventStore, RunInfo, Summary
from .upcasters import version_of
from .values import already_stored, is_plain
from .writer import BackgroundWriter

StorePolicy: TypeAlias = Literal["raise", "warn"]
"""What a failing store means for the agent: one clear error, or a warning and an unrecorded rest of the run."""

logger = logging.getLogger("agentreplay")

UNDECIDED: Final = "Undecided"
"""The step word of a round that ended without a decision."""


class RunRecorder:
    """The recording of one run.

    Args:
        store: where the events go.
        agent: the agent's name.
        payload: the starting payload.
        input, params: what the run was given.
        applier: name of the payload applier of change requests.
        applier_options: what every change request is applied with, such as {"allowed_paths": […]}.
        entry_point: "file.py:name" of the code that runs.
        code: the code version.
        parent: {run, call} of the run that starts this one, or None.
        on_store_error: "raise" or "warn".
        watch: gives the payload at the end of each round, for code that keeps it in a variable of its own.
        model_calls_begin_rounds: whether each model call outside of other calls begins a round.
        background: write through a background writer, for runs on an event loop.
    """

    def __init__(
        self,
        store: EventStore,
        agent: str,
        payload: Any = None,
        *,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        applier: str = "memberjunction",
        applier_options: Mapping[str, Any] | None = None,
        entry_point: str | None = None,
        code: Mapping[str, Any] | None = None,
        parent: dict[str, Any] | None = None,
        on_store_error: StorePolicy = "raise",
        watch: Callable[[], Any] | None = None,
        model_calls_begin_rounds: bool = False,
        background: bool = False,
    ) -> None:
        if applier not in LATEST:
            raise UsageError(f'there is no payload applier "{applier}"; choose one of {", ".join(sorted(LATEST))}')
        self.store = store
        self.agent = agent
        self.applier = applier
        self.applier_options = dict(applier_options or {})
        self.on_store_error = on_store_error
        self.watch = watch
        self.last_step: str | None = None
        self._model_calls_begin_rounds = model_calls_begin_rounds
        self._round_open = False
        self.round = 0
        self.decided = False
        self.failure: BaseException | None = None
        self.finished = False
        self.usage: Counter[str] = Counter()
        self.context_size: int | None = None
        self.last_model_call: tuple[int, str] = (-1, "")
        self.tools: dict[str, dict[str, Any]] = {}
        self._lock = threading.RLock()
        self._seq = FIRST
        self._calls: Counter[int] = Counter()
        self._interrupts = 0
        self._round_started = 0.0
        self._writer: BackgroundWriter | None = None
        self._last: Future[None] | None = None
        self.payload = LivePayload(payload, store.redactor)
        self.info: RunInfo = store.create_run(agent, parent=parent["run"] if parent else None)
        if background:
            self._writer = BackgroundWriter(store, self.info)
        self.emit(
            "run.started",
            RunStartedData(
                agent=agent,
                entry_point=entry_point,
                input=input,
                payload=already_stored(self.payload.stored),
                payload_hash=self.payload.hash,
                params=dict(params or {}),
                applier={"name": applier, "version": LATEST[applier]},
                permissions=self.applier_options,
                parent=parent,
                redaction=store.redactor.describe(),
                code=dict(code or {}),
                python=python_versions(),
                process=process_identity(),
            ),
        )

    # -- appending ----------------------------------------------------------------------------------

    def emit(self, kind: str, data: Data, *, round: int | None = None, within: str | None = None) -> None:
        """Append an event; when this returns it is committed, but for what the module's first lines say of loops.

        Raises:
            RecordingFailed: the store failed now or before, and the policy is to raise.
        """
        future = self._append(kind, data, round, within)
        if future is not None and (kind.endswith(".called") or not _on_event_loop()):
            self._settle(future)

    async def aemit(self, kind: str, data: Data, *, round: int | None = None, within: str | None = None) -> None:
        """Append an event and await its commit, without holding up the event loop."""
        future = self._append(kind, data, round, within)
        if future is not None:
            try:
                # A cancelled wait must not cancel the write: the event was handed over and stays.
                await asyncio.shield(asyncio.wrap_future(future))
            except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self._fail(error)

    def _append(self, kind: str, data: Data, round: int | None, within: str | None) -> Future[None] | None:
        scope = current.get()
        mine = scope is not None and scope.recorder is self
        with self._lock:
            if self.failure is not None:
                self._fail(self.failure)
                return None
            try:
                event = EVENT_OF_KIND.get(kind, UnknownEvent)(
                    seq=self._seq + 1,
                    round=self.round if round is None else round,
                    kind=kind,
                    version=version_of(kind),
                    time=datetime.now(UTC),
                    within=within if within is not None else scope.within if scope is not None and mine else None,
                    task=scope.task.path if scope is not None and mine else "0",
                    data=data,
                )
                row = encode_event(event, self.store.redactor)
                summary = Summary.of((event,))
                if self._writer is not None:
                    self._seq += 1
                    self._last = self._writer.submit(row, summary)
                    return self._last
                self.store.append_rows(self.info, self._seq, [row], summary)
                self._seq += 1
            except Exception as error:
                self._fail(error)
            return None

    def _settle(self, future: Future[None]) -> None:
        try:
            future.result()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        first = self.failure is None
        self.failure = self.failure or error
        if self.on_store_error == "raise":
            raise RecordingFailed(
                f"{self.info.id}: event {self._seq + 1} could not be recorded: {error} "
                'The run stops here; to let it go on unrecorded instead, use on_store_error="warn".'
            ) from error
        if first:
            warnings.warn(f"{self.info.id} goes on unrecorded from event {self._seq + 1} on: {error}", stacklevel=4)

    @property
    def recording(self) -> bool:
        """Whether events are still recorded: the run is open and its store has not failed."""
        return not self.finished and (self.failure is None or self.on_store_error == "raise")

    # -- rounds and calls ---------------------------------------------------------------------------

    def start_round(self) -> int:
        """Begin the next round; returns its number, from 1."""
        with self._lock:
            self.round += 1
            self.decided = False
            self._round_open = True
            self._round_started = time.perf_counter()
        self.emit("round.started", RoundStartedData())
        return self.round

    def finish_round(self, outcome: str) -> None:
        """End the round; a round without a decision gets one that says so."""
        self._round_open = False
        if self.watch is not None:
            self.change_whole(self.watch())
        self.emit_changes_in_place()
        if not self.decided:
            self.decide({"step": UNDECIDED, "message": "the round ended without a decision"})
        self.emit(
            "round.finished",
            RoundFinishedData(
                outcome=outcome, payload_hash=self.payload.hash, duration=time.perf_counter() - self._round_started
            ),
        )

    def finish_open_round(self, outcome: str) -> None:
        """End the round that is under way, if one is."""
        if self._round_open:
            self.finish_round(outcome)

    def next_call(self, kind: CallKind, within: str | None) -> tuple[str, int]:
        """The id of a new call, "<round>.<number within it>", and its round."""
        with self._lock:
            if self._model_calls_begin_rounds and kind == "model" and within is None:
                self.finish_open_round("continue")
                self.start_round()
            self._calls[self.round] += 1
            return f"{self.round}.{self._calls[self.round]}", self.round

    def decide(self, decision: Mapping[str, Any], raw: str | None = None) -> None:
        """Record what the round decided, a NextStep in camelCase."""
        self.decided = True
        step = decision.get("step")
        self.last_step = step if isinstance(step, str) else None
        self.emit("step.decided", StepDecidedData(decision=dict(decision), raw=raw))

    def asked_by_model(self) -> dict[str, Any]:
        """The source of what a decision asks for: the model call of this round that returned last, if one did."""
        called_round, call = self.last_model_call
        return {"kind": "model", "call": call} if called_round == self.round else {"kind": "model"}

    # -- payload ------------------------------------------------------------------------------------

    def change(
        self,
        request: Any,
        *,
        applier: str | None = None,
        source: Mapping[str, Any] | None = None,
        reason: str | None = None,
        expect_leaves: bool = False,
    ) -> RecordedChange:
        """Apply a change request to the payload and record it.

        Args:
            request: in the form that the applier takes.
            applier: its name; the run's own unless given.
            source: who asked: {kind, call?}; by default the call inside which this runs, or the code.
            reason: why.
            expect_leaves: warn of every requested leaf that the result lacks.

        Raises:
            ChangeRefused: the applier cannot apply it; the payload stays as it is.
        """
        name = applier or self.applier
        options = self.applier_options if name == "memberjunction" else {}
        with self._lock:
            change = self.payload.change(request, name, options)
            lost = missing_leaves(request, change.outcome.result) if expect_leaves else []
            warn = [f"requested, but not in the payload after the change: {pointer}" for pointer in lost]
            self._emit_change(change, name, source, reason, warn, options)
        return change

    def change_whole(self, payload: Any, *, reason: str | None = None, source: Mapping[str, Any] | None = None) -> None:
        """Make `payload` the payload; recorded as the difference, where a JSON Patch can say it exactly."""
        wanted = copy_value(payload)
        with self._lock:
            if is_plain(wanted) and self.payload.plain:
                patch = difference(self.payload.live, wanted)
                self.change(patch, applier="json-patch", reason=reason, source=source)
            else:
                self.change(wanted, applier="replace", reason=reason, source=source)

    def emit_changes_in_place(self) -> None:
        """Record what the agent changed in the payload's own objects without asking."""
        with self._lock:
            change = self.payload.changed_in_place()
            if change is not None:
                warning = "an object in the payload was changed in place; use context.change to say why"
                self._emit_change(change, "json-patch", None, None, [warning], {})

    def _emit_change(
        self,
        change: RecordedChange,
        applier: str,
        source: Mapping[str, Any] | None,
        reason: str | None,
        warn: list[str],
        options: Mapping[str, Any],
    ) -> None:
        scope = current.get()
        if source is None:
            within = scope.within if scope is not None and scope.recorder is self else None
            source = {"kind": "action", "call": within} if within else {"kind": "code"}
        outcome = change.outcome
        for warning in warn:
            logger.warning("%s, round %d: %s", self.info.id, self.round, warning)
        self.emit(
            "payload.changed",
            PayloadChangedData(
                applier={"name": applier, "version": LATEST[applier]},
                request=already_stored(change.request),
                applied_request=already_stored(change.applied_request),
                source=dict(source),
                reason=reason,
                counts=outcome.applied,
                warnings=[*outcome.warnings, *warn],
                blocked=outcome.blocked_operations,
                requires_feedback=outcome.requires_feedback,
                options=dict(options),
                correction=already_stored(change.correction),
                hash_before=change.hash_before,
                hash_after=change.hash_after,
            ),
        )

    # -- the end ------------------------------------------------------------------------------------

    def raise_interrupt(self, name: str, reason: Any) -> str:
        """Record a question to a person; returns its id."""
        with self._lock:
            self._interrupts += 1
            interrupt = f"{self.round}.{name}.{self._interrupts}"
        self.emit("interrupt.raised", InterruptRaisedData(interrupt=interrupt, name=name, reason=reason))
        return interrupt

    def suspend(self, reason: str, interrupts: list[str]) -> None:
        """End this process's part of an interrupted run, which may be resumed."""
        self.emit("run.suspended", RunSuspendedData(reason=reason, interrupts=interrupts))
        self.finished = True

    def finish(
        self,
        status: str,
        stop_reason: str,
        *,
        value: Any = None,
        error: BaseException | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> None:
        """Record the end of the run, always its last event."""
        self.emit(
            "run.finished",
            RunFinishedData(
                status=status,
                stop_reason=stop_reason,
                value=value,
                error=error_info(error) if error is not None else None,
                result=dict(result) if result is not None else None,
                metrics=self.metrics(),
                payload_hash=self.payload.hash,
            ),
        )
        self.finished = True

    def close(self) -> None:
        """End the recording: wait for what is not committed yet.

        Raises:
            RecordingFailed: the store failed, and the policy is to raise.
        """
        self.finished = True
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            if self._last is not None:
                self._settle(self._last)

    async def aclose(self) -> None:
        """`close`, without holding up the event loop."""
        await asyncio.to_thread(self.close)

    def metrics(self) -> dict[str, Any]:
        """Counts and usage so far, in the shape of the AgentResult contract."""
        metrics: dict[str, Any] = {"cycleCount": self.round, "accumulatedUsage": dict(self.usage)}
        if self.tools:
            metrics["toolMetrics"] = self.tools
        if self.context_size is not None:
            metrics["latestContextSize"] = self.context_size
        return metrics

    def event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Append an event of the user's own kind, "x.<name>"."""
        if not kind.startswith("x.") or kind == "x.":
            raise UsageError(f'an event of your own is named "x.<name>", not "{kind}"')
        self.emit(kind, OpenData(**data))


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def error_info(error: BaseException) -> ErrorInfo:
    """An exception as an event holds it. A traceback that cannot be formatted is left out."""
    cls = type(error)
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:
        text = None
    try:
        message = str(error)
    except Exception:
        message = "(its text cannot be had)"
    return ErrorInfo(type=f"{cls.__module__}.{cls.__qualname__}", message=message, traceback=text, value=error)
