"""Joining a run: a process adds to a run that another one records, `with ar.join("run42") as run:`.

Nothing of a run is carried into another process, a forked child included; who is to take part in it joins it by name.
What is added then are calls of tools and models, values read, reports, child runs, and events of a kind of one's own:
facts that stand for themselves. The payload, the rounds, the decisions, the conversation and the questions to people
stay with the process that records the run. They follow from each other there, and a change of a payload that meanwhile
is another one would be no fact.

In the log `writer.joined` and `writer.left` enclose what a block has added. The writer is named after the event with
which it came, "w17" after event 17: its tasks are "w17", "w17.0" and so on, its calls "3.w17.1", so no two writers
share a task or the id of a call. All of it belongs to the round that ran when the block was entered, as the return of a
call belongs to that of the call. In a forked child the block stands inside the call in which the child was forked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from types import CodeType, TracebackType
from typing import Any, NoReturn

from .attaching import Attachment, Guard
from .environment import code_name, process_identity
from .error_info import error_info
from .errors import StoreError, UsageError, VersionConflict
from .events import CallKind, WriterJoinedData, WriterLeftData, new_event
from .flow_logger import Logger, checked_logger
from .locate import open_store
from .log_end import LAST_KINDS, LogEnd, Patience, last_round, may_be_added
from .memory_store import MemoryStore
from .recording import EffectContext
from .run_log import Making, RunLog, StorePolicy
from .run_recorder import RunRecorder
from .run_writer import RunWriter
from .scope import Scope, TaskPath, current, entered, scope_is_carried
from .signals import RecordingStopped, ReplayStopped
from .stack import FRAMES_OF_A_RUN, has_room
from .store import FIRST, EventStore, RunInfo, RunRef, new_uid
from .values import decode
from .writer import begun_in_turn, off_the_loop


class AttachedWriter(Attachment):
    """A recorded writer to which code is attached that joins the run.

    Attributes:
        writer: its name.
        path: of the code that joins.
    """

    writer: str
    path: TaskPath


class JoinedRecorder(RunRecorder):
    """Adds to a run that another process records.

    Args:
        store: where the run is: a store, a URL, or None for that of the run around, or else the one found from here.
        run: the run, by any of its names.
        around: where the code stands that joins.
        entry_point: "file.py:name" of that code.
        on_store_error: "raise" or "warn".
        attachment: the recorded writer that the code is executed against; then nothing is added to the run.
        guard: gives what is asked before a call in that run, if anything is.

    Attributes:
        writer: its name, such as "w17".
        scope: what the code of the block belongs to.
        given: the `input` and `params` of the run.

    Raises:
        UsageError: the run is not in progress, or cannot be reached from this process.
        StoreError: the run cannot be found or written to, and the policy is to raise.
    """

    def __init__(
        self,
        store: EventStore | str | None,
        run: RunRef,
        around: Scope | None = None,
        *,
        entry_point: str | None = None,
        on_store_error: StorePolicy = "raise",
        attachment: AttachedWriter | None = None,
        guard: Callable[[RunInfo], Guard | None] | None = None,
    ) -> None:
        if on_store_error not in ("raise", "warn"):
            raise UsageError(f'on_store_error is "raise" or "warn", not "{on_store_error}"')
        if not has_room(FRAMES_OF_A_RUN):  # or it might be joined, and never left
            raise RecursionError(f"too little stack left to join {run}")
        RunWriter.__init__(self, attachment=attachment)  # a run of its own does not begin
        self.given: dict[str, Any] = {}
        if attachment is not None:
            self.store, self.info, self.log = attachment.store, attachment.info, attachment.log
            self.given = {"input": attachment.input, "params": attachment.params}
            self.agent, self.writer = self.info.agent, attachment.writer
            self.scope = Scope(self, None, attachment.path)
            attachment.attach(self)
            return
        unusable: StoreError | None = None
        end, round, within = None, 0, None
        try:
            if store is None and around is not None:
                store = around.recorder.store
            self.store = store if isinstance(store, EventStore) else open_store(store, create=False)
            self.info = self._found(run)
            if around is not None and around.recorder.info.uid == self.info.uid:
                within = around.within
            end, round = self._append_joined(within, entry_point)
        except StoreError as error:
            if on_store_error == "raise":
                raise
            unusable, self.store, self.info = error, MemoryStore(), RunInfo(number=0, uid=new_uid())
        self.agent = self.info.agent
        self.writer = f"w{FIRST if end is None else end.seq}"
        self.scope = Scope(self, within, TaskPath(self.writer, round))
        self.log = RunLog(self.store, self.info, on_store_error, end, round)
        self.guard = None if guard is None else guard(self.info)
        self.log.may_go_on = None if self.guard is None else self.guard.go_on
        if unusable is not None:
            self.log.give_up(unusable)

    def _found(self, run: RunRef) -> RunInfo:
        """The run, if it is in progress and within reach; notes what it was given."""
        info = self.store.run(run)
        first = next(self.store.events(info, until=0), None)
        if first is None:
            raise UsageError(f"{info.id} has not begun; it is joined from within the block that records it")
        data = first.data
        if info.is_partial:
            raise UsageError(f"{info.id} came from a file; only a run that is being recorded can be joined")
        if isinstance(self.store, MemoryStore) and data.process != process_identity():
            raise UsageError(
                f"{info.id} is in a store in memory, of which this process has a copy; record it in a file or a "
                "database to write to it from several processes"
            )
        rules = self.store.redactor.redact(self.store.redactor.describe())
        if _without_key(data.redaction) != _without_key(rules):
            raise UsageError(
                f"{info.id} is recorded with other redaction rules than this process has for the store; open it with "
                "the same ones before, ar.open_store(…, redaction=…)"
            )
        self.given = {"input": decode(data.input), "params": decode(data.params)}
        return info

    def _append_joined(self, within: str | None, entry_point: str | None) -> tuple[LogEnd, int]:
        """Append `writer.joined`, knowing all that comes before it. Returns the end of the log, and the round."""
        info, patience = self.info, Patience()
        seq, round, over = info.head_seq + 1, last_round(self.store, info), info.status != "running"
        while True:
            if over:
                status = self.store.run(info.uid).status
                why = "the process that recorded it is gone" if status == "crashed" else f"it is {status}"
                raise UsageError(f"{info.id} cannot be joined: {why}. A run is joined while it is recorded.")
            writer = f"w{seq}"
            event = new_event(
                "writer.joined",
                seq=seq,
                round=round,
                time=datetime.now(UTC),
                within=within,
                task=writer,
                data=WriterJoinedData(writer=writer, entry_point=entry_point, process=process_identity()),
            )
            try:
                self.store.append(info, seq - 1, [event])
            except VersionConflict as conflict:
                patience.wait(conflict)
                for row in self.store.rows(info, after=seq - 1):
                    seq, over = row.seq + 1, row.kind in LAST_KINDS
                    round = row.round if row.kind == "round.started" else round
            else:
                return LogEnd(self.store, info, seq, joined=True), round

    # -- appending ----------------------------------------------------------------------------------

    def emit(self, kind: str, data: Making, *, scope: Scope | None = None) -> None:
        """Append an event; see `RunRecorder.emit`.

        Raises:
            UsageError: an event of that kind belongs to the process that records the run.
        """
        if not may_be_added(kind):
            raise UsageError(f"{self.info.id} was joined: {kind} is an event of the process that records it")
        super().emit(kind, data, scope=scope or self.here() or self.scope)

    def next_call(self, kind: CallKind, within: str | None) -> str:
        """The id of a new call, "<round>.<writer>.<number>"."""
        self._calls += 1
        return f"{self.round}.{self.writer}.{self._calls}"

    def leave(self, error: BaseException | None = None) -> None:
        """Record the end of what was added, and what ended it, if that was an error."""
        info = None if error is None else error_info(error)
        self.emit("writer.left", WriterLeftData(writer=self.writer, error=info), scope=self.scope)


class JoinedRun(EffectContext):
    """A run that this process has joined.

    What belongs to the process that records the run raises `UsageError` here, and says what to do instead.
    """

    _recorder: JoinedRecorder

    def __init__(self, recorder: JoinedRecorder, logger: Logger = None) -> None:
        super().__init__(recorder, logger=logger, **recorder.given)

    @property
    def writer(self) -> str:
        """What this writer is called in the log, such as "w17"."""
        return self._recorder.writer

    def _scope(self) -> Scope:
        return self._recorder.here() or self._recorder.scope

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise UsageError(f"{self.id} was joined: {what} the process that records it. {instead}")

    @property
    def payload(self) -> Any:
        """Not here: `ar.state_at` has the payload as it was last recorded."""
        recorded = f'ar.state_at("{self.id}").payload'
        self._refuse("its payload is in", f"What is recorded of it by now is {recorded}")

    def change(self, *_: Any, **__: Any) -> NoReturn:
        """Not here: the payload is changed by the process that records the run."""
        self._refuse("its payload is changed by", "Return to it what you found, and change the payload there")

    def decide(self, *_: Any, **__: Any) -> NoReturn:
        """Not here: a round's decision is made in the process that records the run."""
        self._refuse("what a round decides is said by", "Say it there, or report it here: run.report(…)")

    def round(self) -> NoReturn:  # type: ignore[override]  # as in Recording, a block
        """Not here: what is added belongs to the round that ran when the block was entered."""
        self._refuse("its rounds are begun by", "What you add is part of the round in which you joined")

    def interrupt(self, *_: Any, **__: Any) -> NoReturn:
        """Not here: the process that records the run asks, since it is the one that waits for the answer."""
        self._refuse("people are asked by", "Return to it, and ask there")

    def run_agent(self, agent: Any, payload: Any = ..., **options: Any) -> Any:
        """Run another agent as a child run; see `Context.run_agent`. Its payload is given, and is not brought back."""
        if payload is ... or options.get("upstream") is not None:
            self._refuse(
                "its payload", "give the child's payload, payload=…, and take what comes of it from its result"
            )
        return super().run_agent(agent, payload, **options)


class JoinedBlock:
    """What `join` returns: entering it, with `with` or `async with`, joins the run; leaving it leaves the run going on.

    Args:
        run: the run.
        store: where it is.
        on_store_error: what a failing store means.
        attach: where code is executed against a recording: gives, for the block, what the code of an entry point is
            attached to; None where the recording is over.
        guard: gives what is asked before a call in the run that was joined, if anything is.
        logger: at `run.logger`, if one is given.

    Attributes:
        caller: the code that has the block.
    """

    def __init__(
        self,
        run: RunRef,
        store: EventStore | str | None,
        on_store_error: StorePolicy,
        attach: Callable[[str | None], AbstractContextManager[AttachedWriter | None]] | None = None,
        guard: Callable[[RunInfo], Guard | None] | None = None,
        logger: Logger = None,
    ) -> None:
        self._logger = checked_logger(logger)
        self._attach = attach
        self._guard = guard
        self._name = run
        self._store = store
        self._policy: StorePolicy = on_store_error
        self.caller: CodeType | None = None
        self._recorder: JoinedRecorder | None = None
        self._stack = ExitStack()

    def __enter__(self) -> JoinedRun:
        return self._entered(off_the_loop(self._begin()))

    async def __aenter__(self) -> JoinedRun:
        recorder, _ = await begun_in_turn(self._begin(), _abandon)
        return self._entered(recorder)

    def __exit__(self, _cls: Any, error: BaseException | None, _traceback: TracebackType | None) -> None:
        recorder = self._entered_recorder()
        try:
            self._leave(recorder, error)
        finally:
            recorder.close()

    async def __aexit__(self, _cls: Any, error: BaseException | None, _traceback: TracebackType | None) -> None:
        recorder = self._entered_recorder()
        try:
            self._leave(recorder, error)
        finally:
            if type(error) is GeneratorExit:  # a coroutine that is closed may not await
                recorder.close()
            await recorder.aclose()

    def _begin(self) -> Callable[[], JoinedRecorder]:
        """Prepare what joins the run; it may be called in another thread."""
        if self._recorder is not None:
            raise UsageError("this block was entered before; call join() again")
        around, entry_point = current.get(), code_name(self.caller)
        if self._attach is not None:
            attachment = self._stack.enter_context(self._attach(entry_point))
            if attachment is not None:
                return lambda: JoinedRecorder(None, self._name, attachment=attachment)
        return lambda: JoinedRecorder(
            self._store,
            self._name,
            around,
            entry_point=entry_point,
            on_store_error=self._policy,
            guard=self._guard,
        )

    def _entered(self, recorder: JoinedRecorder) -> JoinedRun:
        self._recorder = recorder
        self._stack.enter_context(entered(recorder.scope))
        self._stack.enter_context(scope_is_carried(recorder))
        return JoinedRun(recorder, self._logger)

    def _entered_recorder(self) -> JoinedRecorder:
        if self._recorder is None:
            raise UsageError("this block is left before it was entered")
        return self._recorder

    def _leave(self, recorder: JoinedRecorder, error: BaseException | None) -> None:
        try:
            if recorder.failure is None and not (self._attach is not None and isinstance(error, ReplayStopped)):
                recorder.leave(error)
        except RecordingStopped as stopped:
            if stopped.failure is not recorder.failure:
                raise
        finally:
            self._stack.close()
        if (failure := recorder.failure) is not None:
            raise failure from failure.__cause__


def _abandon(recorder: JoinedRecorder) -> None:
    """Leave a run of which the joining was cancelled meanwhile."""
    recorder.leave()
    recorder.close()


def _without_key(rules: Mapping[str, Any] | None) -> dict[str, Any]:
    """Redaction rules without what tells of the store's key: a re-run of an imported run began with another one."""
    return {name: rule for name, rule in (rules or {}).items() if name != "key_check"}
