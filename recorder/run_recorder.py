"""Records one run: its rounds and decisions, and the payload that they change.

What it does as anybody who adds to a run is in `run_writer`: calls, values that are read, events of the user's own.

What must be consistent with the order of events (the number of a call, the payload and its hash) is worked out where
the event gets its place in the log: `RunLog` calls the function that makes the data when no other event can come
between.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .agent_cache import StoredCache
from .ambient import Captured
from .attaching import Attachment, Guard
from .change_data import CHANGED_IN_PLACE, change_data, lacks
from .environment import place_of, process_identity, python_versions
from .error_info import error_info, text_of
from .errors import ChangeRefused, StoreError, UsageError
from .events import (
    CallKind,
    Data,
    InterruptRaisedData,
    ReportData,
    RoundFinishedData,
    RoundStartedData,
    RunFinishedData,
    RunResumedData,
    RunStartedData,
    RunSuspendedData,
    StepDecidedData,
)
from .introspection import clean, isinstance_of
from .live_payload import LivePayload, RecordedChange
from .locate import resolve_store
from .memory_store import MemoryStore
from .named_code import named_code
from .payload import LATEST
from .run_log import RunLog, StorePolicy
from .run_writer import RunWriter, text_keys
from .signals import RecordingStopped
from .stack import FRAMES_OF_A_RUN, has_room
from .store import EventStore, RunInfo, new_uid

logger = logging.getLogger("agentreplay")

UNDECIDED: Final = "Undecided"
"""The step word of a round that ended without a decision."""


class RunRecorder(RunWriter):
    """The recording of one run.

    Args:
        store: where the events go: a store, a URL, or None for the one that is found from here.
        agent: the agent's name.
        payload: the starting payload.
        input, params: what the run was given.
        max_rounds: the bound that it was given, if it was; a recording that the code is attached to goes before.
        logger_name: of the logger that it was given, if it was; see `run.started`.
        agent_cache: what the agent's cache holds at the start.
        applier: name of the payload applier of change requests.
        applier_options: what every change request is applied with, such as {"allowed_paths": […]}.
        entry_point: "file.py:name" of the code that runs.
        code: the code version.
        parent: {run, call} of the run that starts this one, or None.
        on_store_error: "raise" or "warn".
        watch: gives the payload at the end of each round, for code that keeps it in a variable of its own.
        model_calls_begin_rounds: whether each model call outside of other calls begins a round.
        captured: the reads that are captured, if any are.
        attachment: the recording that the code is executed against; then nothing of a new run is recorded.
        guard: is asked before each call, where the run around this one was attached to a recording and has gone live.

    Raises:
        UsageError: an argument cannot be meant.
        StoreError, RecordingFailed: the run cannot be recorded, and the policy is to raise.
    """

    def __init__(
        self,
        store: EventStore | str | None,
        agent: str,
        payload: Any = None,
        *,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        max_rounds: int | None = None,
        logger_name: str | None = None,
        agent_cache: StoredCache | None = None,
        tags: Sequence[str] = (),
        applier: str = "memberjunction",
        applier_options: Mapping[str, Any] | None = None,
        entry_point: str | None = None,
        code: Mapping[str, Any] | None = None,
        parent: dict[str, Any] | None = None,
        on_store_error: StorePolicy = "raise",
        watch: Callable[[], Any] | None = None,
        model_calls_begin_rounds: bool = False,
        captured: Captured | None = None,
        attachment: Attachment | None = None,
        guard: Guard | None = None,
    ) -> None:
        if applier not in LATEST:
            raise UsageError(f'there is no payload applier "{applier}"; choose one of {", ".join(sorted(LATEST))}')
        if on_store_error not in ("raise", "warn"):
            raise UsageError(f'on_store_error is "raise" or "warn", not "{on_store_error}"')
        given = text_keys(params or {}, "params")
        if not has_room(FRAMES_OF_A_RUN):  # or the run might begin, and never end
            raise RecursionError(f"too little stack left to record a run of {agent}")
        super().__init__(captured, attachment, guard)
        self.agent = clean(agent)
        self.applier = applier
        self.applier_options = dict(applier_options or {})
        self.watch = watch
        self.max_rounds = max_rounds
        self._told_of_lossy_payload = False
        self.decided: Mapping[str, Any] | None = None
        self.decided_before: Mapping[str, Any] | None = None
        self.last_step: str | None = None
        self.interrupts: list[InterruptRaisedData] = []
        self.questions = 0
        self._model_calls_begin_rounds = model_calls_begin_rounds
        self._round_open = False
        self._round_started = 0.0
        place = place_of(entry_point)
        named = named_code() if parent is None else None
        known = {"code": place, "named": named}
        self.note = {key: at for key, at in known.items() if at is not None} or None  # see `EventStore.note`
        self.ending: Any = None
        if attachment is not None:
            self.store, self.info = attachment.store, attachment.info
            self.payload = LivePayload(attachment.payload, self.store.redactor)
            self.log = attachment.log
            self.max_rounds = attachment.max_rounds or max_rounds
            attachment.attach(self)
            return
        unusable: StoreError | None = None
        try:
            self.store = resolve_store(store)
            self.payload = LivePayload(payload, self.store.redactor)
            self.info = self.store.create_run(self.agent, parent=parent["run"] if parent else None, note=self.note)
        except StoreError as error:
            if on_store_error == "raise":
                raise
            unusable, self.store, self.info = error, MemoryStore(), RunInfo(number=0, uid=new_uid(), agent=self.agent)
            self.payload = LivePayload(payload, self.store.redactor)
        self.log = RunLog(self.store, self.info, on_store_error)
        self.log.may_go_on = None if guard is None else guard.go_on
        if unusable is not None:
            self.log.give_up(unusable)
        try:
            self.emit(
                "run.started",
                RunStartedData(
                    agent=self.agent,
                    entry_point=None if entry_point is None else clean(entry_point),
                    input=input,
                    payload=self.payload.stored,
                    payload_hash=self.payload.hash,
                    params=given,
                    applier={"name": applier, "version": LATEST[applier]},
                    permissions=self.applier_options,
                    parent=parent,
                    redaction=self.store.redactor.describe(),
                    code={**(code or {}), **({"module": place["module"]} if place else {})},
                    python=python_versions(),
                    process=process_identity(),
                    captured=[] if captured is None else sorted(captured.sources),
                    max_rounds=max_rounds,
                    tags=list(tags),
                    logger=logger_name,
                    agent_cache=None if agent_cache is None else agent_cache.entries,
                    agent_cache_without=[] if agent_cache is None else agent_cache.without,
                ),
            )
        except RecordingStopped as stopped:
            raise stopped.failure from stopped.failure.__cause__

    # -- rounds -------------------------------------------------------------------------------------

    @property
    def in_round(self) -> bool:
        """Whether a round is under way."""
        return self._round_open

    def start_round(self) -> int:
        """Begin the next round; returns its number, from 1.

        Raises:
            UsageError: a round is under way.
        """
        self.emit("round.started", self._round_starts)
        if self.attachment is not None:
            self.attachment.round_has_started(self.round)
        return self.round

    def _round_starts(self) -> Data:
        if self._round_open:
            raise UsageError(f"round {self.round} is not over: rounds follow each other, they do not nest or overlap")
        self.log.round += 1
        self.decided_before, self.decided = self.decided, None
        self._calls = 0
        self._round_open = True
        self._round_started = time.perf_counter()
        return RoundStartedData()

    @property
    def round_seconds(self) -> float:
        """How long the round has taken so far. Set where some of that was not its own, but answered or prepared."""
        return time.perf_counter() - self._round_started

    @round_seconds.setter
    def round_seconds(self, seconds: float) -> None:
        self._round_started = time.perf_counter() - seconds

    def finish_round(self, outcome: str) -> None:
        """End the round that is under way, if one is; a round that ends without a decision gets one that says so.

        Args:
            outcome: continue, complete, failed, cancelled or interrupted.
        """
        self.emit("round.finished", lambda: self._round_finishes(outcome))

    def _round_finishes(self, outcome: str) -> Data | None:
        if not self._round_open:
            return None
        self._follow()
        if (change := self.payload.changed_in_place()) is not None:
            self._post("payload.changed", change_data(self, change, "json-patch", {}, warnings=[CHANGED_IN_PLACE]))
        if self.decided is None and outcome != "interrupted":  # that round goes on when the run is resumed
            undecided = {"step": UNDECIDED}
            self._post("step.decided", lambda: self._decides(undecided, None))
        self._round_open = False
        duration = round(self.round_seconds, 6)
        return RoundFinishedData(outcome=outcome, payload_hash=self.payload.hash, duration=duration)

    def _warn(self, message: str) -> None:
        """Say something in the record and through `logging`."""
        logger.warning("%s, round %d: %s", self.info.id, self.round, message)
        self._post("report", ReportData(source="note", level="warning", message=message))

    def _follow(self) -> None:
        """Record how the payload that the agent keeps by itself has changed."""
        if self.watch is None:
            return
        try:
            change = self.payload.become(self.watch(), {})
        except Exception as error:  # of the user's function: the loop goes on as it would without being recorded
            self._warn(f"the payload could not be looked at: {text_of(error)}")
            return
        if not self._told_of_lossy_payload and self.payload.is_opaque:
            self._told_of_lossy_payload = True
            self._warn("the payload is an object that cannot be recorded; give plain data, such as vars(state)")
        if change.hash_before != change.hash_after:
            self._post("payload.changed", change_data(self, change, "json-patch", {}))

    def next_call(self, kind: CallKind, within: str | None) -> str:
        """The id of a new call, "<round>.<number within it>"; for the function that makes the call's first event."""
        if self._model_calls_begin_rounds and kind == "model" and within is None:
            self._post("round.finished", lambda: self._round_finishes("continue"))
            self._post("round.started", self._round_starts)
        return self.number_call()

    def become(
        self, payload: Any, *, round: int, usage: Mapping[str, Any], decided: Mapping[str, Any] | None = None
    ) -> None:
        """Stand where the rounds so far have led, which this process does not execute."""
        self.payload = LivePayload(payload, self.store.redactor)
        self.log.round = round
        self.decided = decided
        self.measured.add_usage(usage)

    def count_from(self, number: int) -> None:
        """Number the calls of the round that runs from there on: so many of it are in the record already."""
        self._calls = max(self._calls, number)

    def decide(self, decision: Mapping[str, Any], raw: str | None = None) -> None:
        """Record what the round decided, a NextStep in camelCase."""
        self.emit("step.decided", lambda: self._decides(decision, raw))

    def _decides(self, decision: Mapping[str, Any], raw: str | None) -> Data:
        self.decided = decision
        step = decision.get("step")
        self.last_step = step if isinstance_of(step, str) else None
        return StepDecidedData(decision=dict(decision), raw=None if raw is None else clean(raw))

    # -- payload ------------------------------------------------------------------------------------

    def view(self) -> Any:
        """The payload, read only."""
        with self.log.lock:
            return self.payload.view()

    def live(self) -> Any:
        """The payload in plain containers; not to be mutated."""
        with self.log.lock:
            return self.payload.live

    def change(
        self,
        request: Any,
        *,
        applier: str | None = None,
        source: Mapping[str, Any] | None = None,
        reason: str | None = None,
    ) -> None:
        """Apply a change request to the payload and record it.

        Whatever a memberjunction request asks for and the payload does not have afterwards is warned of, in the record
        and through `logging`.

        Args:
            request: in the form that the applier takes.
            applier: its name; the run's own unless given.
            source: who asked: {kind, call?}; by default the call inside which this runs, or the code.
            reason: why.

        Raises:
            ChangeRefused: the applier cannot apply it; the payload stays as it is.
        """
        name = applier or self.applier
        made: list[RecordedChange] = []

        def make() -> Data:
            made.append(self.payload.change(request, name, self.applier_options))
            warnings = [lacks(pointer) for pointer in made[0].lacking]
            return change_data(self, made[0], name, self.applier_options, source, reason, warnings)

        try:
            self.emit("payload.changed", make)
        except ChangeRefused as error:
            content = {"applier": name, "request": request, "reason": reason}
            message = f"a change was refused: {error}"
            self.emit("report", ReportData(source="note", level="error", message=clean(message), content=content))
            raise
        for pointer in [pointer for change in made for pointer in change.lacking]:
            logger.warning("%s, round %d: %s", self.info.id, self.round, lacks(pointer))

    def change_whole(
        self,
        payload: Callable[[LivePayload], Any],
        *,
        options: Mapping[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
        reason: str | None = None,
    ) -> None:
        """Replace the payload as a whole; recorded as the difference.

        Args:
            payload: gives the new payload from the one there is.
            options: what the change is applied with; by default, nothing restricts it.
            source, reason: as in `change`.
        """
        given = options or {}

        def make() -> Data:
            change = self.payload.become(payload(self.payload), given)
            return change_data(self, change, "json-patch", given, source, reason)

        self.emit("payload.changed", make)

    def change_keys(self, values: Mapping[str, Any], *, source: Mapping[str, Any], reason: str | None = None) -> None:
        """Give some keys of the payload, a dict, other values; recorded as the difference, if there is one.

        Args:
            values: by key.
            source, reason: as in `change`.
        """

        def make() -> Data | None:
            change = self.payload.put(values, self.applier_options)
            given = self.applier_options
            return None if change is None else change_data(self, change, "json-patch", given, source, reason)

        self.emit("payload.changed", make)

    # -- the end ------------------------------------------------------------------------------------

    def raise_interrupt(self, name: str, reason: Any) -> str:
        """Record a question to a person; returns its id."""
        name = clean(name)
        with self.log.lock:
            self.questions += 1
            interrupt = f"{self.round}.{name}.{self.questions}"
            raised = InterruptRaisedData(interrupt=interrupt, name=name, reason=reason)
            self.interrupts.append(raised)
        self.emit("interrupt.raised", raised)
        return interrupt

    def _tell_uncaptured(self) -> None:
        """Say in the record which reads were not captured."""
        if self.captured is not None and (told := self.captured.told()) is not None:
            self.emit("report", ReportData(source="capture", message=told, content=self.captured.uncaptured))

    def _before_the_end(self) -> None:
        for call in list(self.open_streams):
            call.left_open()
        self._tell_uncaptured()

    def suspend(self, reason: str, result: Mapping[str, Any] | None = None) -> None:
        """End this process's part of an interrupted run, which may be resumed.

        Args:
            reason: why.
            result: the AgentResult, of an agent whose own result it has more in than the questions.
        """
        self._before_the_end()
        interrupts = [raised.interrupt for raised in self.interrupts]
        told = {} if result is None else {"result": dict(result)}
        self.emit("run.suspended", RunSuspendedData(reason=reason, interrupts=interrupts, **told))

    def go_on(self, answers: Mapping[str, Any]) -> None:
        """Go on with a run that this very process has suspended, in the round in which it asked.

        Args:
            answers: interrupt id → response.
        """
        self.log.reopen()
        self.interrupts.clear()
        self.emit("run.resumed", RunResumedData(process=process_identity(), answers=dict(answers)))
        self._round_open = self.round > 0

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
        self._before_the_end()
        self.emit(
            "run.finished",
            lambda: RunFinishedData(
                status=status,
                stop_reason=stop_reason,
                value=value,
                error=None if error is None else error_info(error),
                result=None if result is None else dict(result),
                metrics=self.metrics(),
                payload_hash=self.payload.hash,
            ),
        )
