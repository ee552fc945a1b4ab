"""The events of a run: facts in the past tense, appended and never changed.

An event is an envelope (`seq`, `round`, `kind`, …) around `data`. `kind` is a stable string
that never names a Python class; it selects the shape of `data`. Within `data`, values of the
user's own (a tool's arguments, a payload) are in *stored form* when read from a log: plain JSON,
or tagged where plain JSON would lose something (see `values`). When appended they may be any
Python object; the store encodes and redacts them.

*Turns* tell in which order things reached the agent from outside (`recorder/turns.py`). An event outside of any call
(`within` is None) that says that a call returned, failed or was cancelled, that a timer fired, or that a child run
started or finished, takes the next turn; so does each chunk of an asynchronous stream, which has no event of its own.
They are numbered from 1, in each run and, if others joined it, by each writer. The call's last event has the numbers of
its chunks, `turns`; an event's own number is that of the one before it and one more, unless it says another, `turn`.

Logs outlive code. Unknown kinds and unknown fields are kept as they are. A change of a shape
raises that kind's `version` and adds an upcaster.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

CallKind: TypeAlias = Literal["model", "tool"]
Safety: TypeAlias = Literal["pure", "idempotent", "compensable", "irreversible"]


class Data(BaseModel):
    """What an event says beyond its envelope. Fields that this version does not know are kept."""

    model_config = ConfigDict(
        frozen=True, extra="allow", populate_by_name=True, protected_namespaces=(), defer_build=True
    )


class Event(BaseModel):
    """The envelope of every event.

    Attributes:
        seq: position in the run, gapless from 0.
        round: the loop iteration (from 1) it belongs to; 0 before the first. Between two rounds: the one just
            finished; the return of a call carries its call's.
        kind: what happened.
        version: of the shape of `data` for this kind.
        time: UTC, microseconds; for people. The order is `seq`.
        within: id of the call inside which this happened, or None.
        task: path of the asyncio task or thread within the round, by order of creation ("0" is the first).
        hash: "sha256:…" over the previous hash and this event; empty until it is appended.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    seq: int
    round: int
    kind: str
    version: int = 1
    time: datetime
    within: str | None = None
    task: str = "0"
    data: Any
    hash: str = ""


class ErrorInfo(Data):
    """An exception: `type` is "module.Class", `value` its stored form."""

    type: str
    message: str
    traceback: str | None = None
    value: Any = None


# -- the run ---------------------------------------------------------------------------------------


class RunStartedData(Data):
    """`origin` is "recorded" or "imported"; `applier` {name, version}; `process` {host, boot, pid, start}.

    `code` is {commit, dirty, module}: of the checkout, if there is one, and under which name the code was loaded.
    `captured` are the sources whose reads were captured: some of clock, env, random and uuid. `max_rounds` is the bound
    that this run was given, null where the agent's own holds. `tags` are words by which the run is found. `logger` is
    the name of the logger that this run was given, "" where it was told to have none, null where the agent's own holds.
    `agent_cache` is what the agent's cache held, a dict, and `agent_cache_without` its keys whose values the log does
    not hold, since they cannot be stored exactly or are too large.
    """

    agent: str
    entry_point: str | None = None
    input: Any = None
    payload: Any = None
    payload_hash: str
    params: dict[str, Any] = Field(default_factory=dict)
    applier: dict[str, Any] = Field(default_factory=lambda: {"name": "memberjunction", "version": 1})
    permissions: dict[str, Any] = Field(default_factory=dict)
    origin: str = "recorded"
    source: dict[str, Any] | None = None
    parent: dict[str, Any] | None = None
    redaction: dict[str, Any] | None = None
    code: dict[str, Any] = Field(default_factory=dict)
    python: dict[str, Any] = Field(default_factory=dict)
    process: dict[str, Any] | None = None
    captured: list[str] = Field(default_factory=list)
    max_rounds: int | None = None
    tags: list[str] = Field(default_factory=list)
    logger: str | None = None
    agent_cache: Any = None
    agent_cache_without: list[str] = Field(default_factory=list)


class RunForkedData(Data):
    """The first own event of a fork: the parent's `seq` and `hash` it continues from, the process that records it.

    `prefix` is "execute" where the rounds before were executed against the parent's log, "fold" where their outcome was
    taken from it. `max_rounds` is the bound that the fork was given, null where that of the parent holds. `compensates`
    are the hashes of the `tool.called` of the calls that are undone before the first round, in that order.
    """

    parent: str
    seq: int
    hash: str
    edits: list[Any] = Field(default_factory=list)
    code: dict[str, Any] = Field(default_factory=dict)
    process: dict[str, Any] | None = None
    prefix: str = "execute"
    max_rounds: int | None = None
    compensates: list[str] = Field(default_factory=list)


class RunSuspendedData(Data):
    reason: str
    interrupts: list[str] = Field(default_factory=list)


class RunResumedData(Data):
    """`max_rounds` is the bound that the run was given anew, null where the one it had holds."""

    process: dict[str, Any] | None = None
    code: dict[str, Any] = Field(default_factory=dict)
    answers: dict[str, Any] = Field(default_factory=dict)
    max_rounds: int | None = None


class RunFinishedData(Data):
    """`status` is completed, failed, cancelled or interrupted; `result` the AgentResult with every field."""

    status: str
    stop_reason: str
    value: Any = None
    error: ErrorInfo | None = None
    result: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None
    payload_hash: str | None = None


class WriterJoinedData(Data):
    """Somebody joined the run; `writer` names it in task paths and call ids, `process` as in `run.started`."""

    writer: str
    entry_point: str | None = None
    process: dict[str, Any] | None = None


class WriterLeftData(Data):
    """`error` is what the block that had joined was left with."""

    writer: str
    error: ErrorInfo | None = None


class RoundStartedData(Data):
    pass


class RoundFinishedData(Data):
    """`outcome` is continue, complete, failed, cancelled or interrupted; `duration` in seconds."""

    outcome: str
    payload_hash: str
    duration: float | None = None


# -- effects ---------------------------------------------------------------------------------------


class ModelCalledData(Data):
    """`request` holds the call's keyword arguments; `request["messages"]` is stored once (see `conversation`)."""

    call: str
    attempt: int = 1
    name: str
    model: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    request: Any = None


class ModelReturnedData(Data):
    """How a call ended.

    Attributes:
        stream: the list of raw chunks when the call was streamed.
        given: what the consumer of the stream gave it, a list of {after, sent} and {after, thrown: {type, message}}:
            the number of chunks that it had by then, and a value or an error. Absent where it only took.
        turns: of each chunk of an asynchronous stream outside of other calls, also of those that were not kept.
        turn: the event's own, where it does not follow from the events before it.
        duration: in seconds.
        inline: whether it ended on an event loop without suspending, so without waiting for a turn.
    """

    call: str
    response: Any = None
    stream: list[Any] | None = None
    usage: dict[str, Any] | None = None
    stop_reason: str | None = None
    duration: float | None = None
    inline: bool = False
    turns: list[int] | None = None
    turn: int | None = None


class CallFailedData(Data):
    """Fields as of a call that returned."""

    call: str
    error: ErrorInfo
    stream: list[Any] | None = None
    duration: float | None = None
    inline: bool = False
    turns: list[int] | None = None
    turn: int | None = None


class ToolCalledData(Data):
    """`raw` is the text of the arguments when they were not valid JSON; `tool_call` the model's own id for it."""

    call: str
    attempt: int = 1
    name: str
    arguments: Any = None
    raw: str | None = None
    safety: str | None = None
    tool_call: str | None = None


class ToolReturnedData(Data):
    """Fields as of a model call that returned."""

    call: str
    result: Any = None
    stream: list[Any] | None = None
    duration: float | None = None
    inline: bool = False
    turns: list[int] | None = None
    turn: int | None = None


class CallCancelledData(Data):
    """After the return or failure of the same call: the agent was cancelled before it got that."""

    call: str
    turn: int | None = None


class TimerFiredData(Data):
    """`timer` is its number by creation, from 1, in the envelope's task and round, in which it was created.

    `delay` is the length in seconds that the application gave asyncio; null where a library did, or where it gave a
    time of the loop's clock.
    """

    timer: int
    delay: float | None = None
    turn: int | None = None


SOURCES: Final = ("clock", "env", "random", "uuid")
"""What values are read of that are different each time, by the names of these sources; others are the user's own."""


class ValueReadData(Data):
    """`source` is one of `SOURCES`, or a name of the user's own; `site` is "file.py:line".

    `what` is what was read of it where that was captured, such as "time.time" or the name of a variable of the
    environment; None where it was read through the context. `arguments` are those that decide between which values
    chance chooses, by name; of a choice how many `items` there are. Logs of older versions do not have them.
    """

    source: str
    site: str | None = None
    what: str | None = None
    arguments: dict[str, Any] | None = None
    value: Any = None


# -- what a round decides and changes --------------------------------------------------------------


class StepDecidedData(Data):
    """`decision` is a NextStep in its camelCase form; `raw` the model text it was parsed from."""

    decision: dict[str, Any]
    raw: str | None = None


class PayloadChangedData(Data):
    """One change of the payload.

    Attributes:
        request: as sent.
        applied_request: as applied after correction; None when that is `request`.
        source: who asked: {kind: model · action · sub-agent · loop · code, call?, index?, …}.
        reason: why, in the words of who asked.
        counts: {additions, updates, deletions}.
        options: what the applier was given beyond the request, such as {allowed_paths: […]}.
        correction: JSON Patch to put after the applied request; only where the stored request alone
            does not give the stored payload (a redacted `test`, a key that is no string, a change in place).
        after_turn: inside a call, the last turn that was taken before: by it a replay knows which items of a stream
            come after the change.
    """

    applier: dict[str, Any]
    request: Any = None
    applied_request: Any = None
    source: dict[str, Any] = Field(default_factory=lambda: {"kind": "code"})
    reason: str | None = None
    counts: dict[str, int] = Field(default_factory=dict)
    warnings: list[str] = Field(default_factory=list)
    blocked: list[dict[str, Any]] = Field(default_factory=list)
    requires_feedback: bool = False
    options: dict[str, Any] = Field(default_factory=dict)
    correction: Any = None
    after_turn: int | None = None
    hash_before: str
    hash_after: str


class MessageAddedData(Data):
    message: Any


class MessagesReplacedData(Data):
    """messages[start:stop] became `messages`; `why` is "compaction", "trim" or the user's own word."""

    start: int = 0
    stop: int | None = None
    messages: list[Any] = Field(default_factory=list)
    why: str | None = None


class ScratchpadChangedData(Data):
    """`change` as the decision has it: {notes?, taskList?: {upsert?, remove?}, …}; `scratchpad` the result."""

    change: Any = None
    scratchpad: Any = None


class MemoryWrittenData(Data):
    write: Any


class SkillActivatedData(Data):
    skill: Any


class PlanProposedData(Data):
    plan: Any


class MediaPromotedData(Data):
    media: Any


class InterruptRaisedData(Data):
    interrupt: str
    name: str
    reason: Any = None


class InterruptAnsweredData(Data):
    interrupt: str
    response: Any = None


class SubrunStartedData(Data):
    """`run` is the child's uid, `name` its agent, `call` the call it answers, if one does.

    `cancelled` says that it was cancelled where it began, before any of its code ran.
    """

    run: str
    name: str
    call: str | None = None
    turn: int | None = None
    cancelled: bool = False


class SubrunFinishedData(Data):
    """`merge` says how the child's payload came back: {mode, upstream_paths?, scope?, warnings?} or None."""

    run: str
    status: str
    result: Any = None
    error: ErrorInfo | None = None
    merge: dict[str, Any] | None = None
    turn: int | None = None


class ReportData(Data):
    """`source` is report, log, note, order, capture, diagnostics, node or importer; `level` as in logging, lower case.

    `node` and `visit` say where in a workflow it was: the node's id, and which visit of it in the run it is, from 1. A
    report of source "node" says that such a visit begins.
    """

    source: str = "report"
    level: str | None = None
    message: str | None = None
    content: Any = None
    node: str | None = None
    visit: int | None = None


class OpenData(Data):
    """The data of a kind that this version does not define: everything is kept."""


# -- the union -------------------------------------------------------------------------------------


class RunStarted(Event):
    kind: Literal["run.started"] = "run.started"
    data: RunStartedData


class RunForked(Event):
    kind: Literal["run.forked"] = "run.forked"
    data: RunForkedData


class RunSuspended(Event):
    kind: Literal["run.suspended"] = "run.suspended"
    data: RunSuspendedData


class RunResumed(Event):
    kind: Literal["run.resumed"] = "run.resumed"
    data: RunResumedData


class RunFinished(Event):
    kind: Literal["run.finished"] = "run.finished"
    data: RunFinishedData


class WriterJoined(Event):
    kind: Literal["writer.joined"] = "writer.joined"
    data: WriterJoinedData


class WriterLeft(Event):
    kind: Literal["writer.left"] = "writer.left"
    data: WriterLeftData


class RoundStarted(Event):
    kind: Literal["round.started"] = "round.started"
    data: RoundStartedData


class RoundFinished(Event):
    kind: Literal["round.finished"] = "round.finished"
    data: RoundFinishedData


class ModelCalled(Event):
    kind: Literal["model.called"] = "model.called"
    data: ModelCalledData


class ModelReturned(Event):
    kind: Literal["model.returned"] = "model.returned"
    data: ModelReturnedData


class ModelFailed(Event):
    kind: Literal["model.failed"] = "model.failed"
    data: CallFailedData


class ToolCalled(Event):
    kind: Literal["tool.called"] = "tool.called"
    data: ToolCalledData


class ToolReturned(Event):
    kind: Literal["tool.returned"] = "tool.returned"
    data: ToolReturnedData


class ToolFailed(Event):
    kind: Literal["tool.failed"] = "tool.failed"
    data: CallFailedData


class CallCancelled(Event):
    kind: Literal["call.cancelled"] = "call.cancelled"
    data: CallCancelledData


class TimerFired(Event):
    kind: Literal["timer.fired"] = "timer.fired"
    data: TimerFiredData


class ValueRead(Event):
    kind: Literal["value.read"] = "value.read"
    data: ValueReadData


class StepDecided(Event):
    kind: Literal["step.decided"] = "step.decided"
    data: StepDecidedData


class PayloadChanged(Event):
    kind: Literal["payload.changed"] = "payload.changed"
    data: PayloadChangedData


class MessageAdded(Event):
    kind: Literal["message.added"] = "message.added"
    data: MessageAddedData


class MessagesReplaced(Event):
    kind: Literal["messages.replaced"] = "messages.replaced"
    data: MessagesReplacedData


class ScratchpadChanged(Event):
    kind: Literal["scratchpad.changed"] = "scratchpad.changed"
    data: ScratchpadChangedData


class MemoryWritten(Event):
    kind: Literal["memory.written"] = "memory.written"
    data: MemoryWrittenData


class SkillActivated(Event):
    kind: Literal["skill.activated"] = "skill.activated"
    data: SkillActivatedData


class PlanProposed(Event):
    kind: Literal["plan.proposed"] = "plan.proposed"
    data: PlanProposedData


class MediaPromoted(Event):
    kind: Literal["media.promoted"] = "media.promoted"
    data: MediaPromotedData


class InterruptRaised(Event):
    kind: Literal["interrupt.raised"] = "interrupt.raised"
    data: InterruptRaisedData


class InterruptAnswered(Event):
    kind: Literal["interrupt.answered"] = "interrupt.answered"
    data: InterruptAnsweredData


class SubrunStarted(Event):
    kind: Literal["subrun.started"] = "subrun.started"
    data: SubrunStartedData


class SubrunFinished(Event):
    kind: Literal["subrun.finished"] = "subrun.finished"
    data: SubrunFinishedData


class Reported(Event):
    kind: Literal["report"] = "report"
    data: ReportData


class UnknownEvent(Event):
    """A kind that this version does not define: a user's own (`x.…`), or one from a newer version."""

    data: OpenData


KnownEvent: TypeAlias = Annotated[
    RunStarted
    | RunForked
    | RunSuspended
    | RunResumed
    | RunFinished
    | WriterJoined
    | WriterLeft
    | RoundStarted
    | RoundFinished
    | ModelCalled
    | ModelReturned
    | ModelFailed
    | ToolCalled
    | ToolReturned
    | ToolFailed
    | CallCancelled
    | TimerFired
    | ValueRead
    | StepDecided
    | PayloadChanged
    | MessageAdded
    | MessagesReplaced
    | ScratchpadChanged
    | MemoryWritten
    | SkillActivated
    | PlanProposed
    | MediaPromoted
    | InterruptRaised
    | InterruptAnswered
    | SubrunStarted
    | SubrunFinished
    | Reported,
    Field(discriminator="kind"),
]
"""The discriminated union of every kind that this version defines."""

EVENT_OF_KIND: dict[str, type[Event]] = {
    "run.started": RunStarted,
    "run.forked": RunForked,
    "run.suspended": RunSuspended,
    "run.resumed": RunResumed,
    "run.finished": RunFinished,
    "writer.joined": WriterJoined,
    "writer.left": WriterLeft,
    "round.started": RoundStarted,
    "round.finished": RoundFinished,
    "model.called": ModelCalled,
    "model.returned": ModelReturned,
    "model.failed": ModelFailed,
    "tool.called": ToolCalled,
    "tool.returned": ToolReturned,
    "tool.failed": ToolFailed,
    "call.cancelled": CallCancelled,
    "timer.fired": TimerFired,
    "value.read": ValueRead,
    "step.decided": StepDecided,
    "payload.changed": PayloadChanged,
    "message.added": MessageAdded,
    "messages.replaced": MessagesReplaced,
    "scratchpad.changed": ScratchpadChanged,
    "memory.written": MemoryWritten,
    "skill.activated": SkillActivated,
    "plan.proposed": PlanProposed,
    "media.promoted": MediaPromoted,
    "interrupt.raised": InterruptRaised,
    "interrupt.answered": InterruptAnswered,
    "subrun.started": SubrunStarted,
    "subrun.finished": SubrunFinished,
    "report": Reported,
}
"""The event class of each kind. Kinds are for ever; the class names are stored nowhere."""


def new_event(kind: str, *, data: Mapping[str, Any] | Data, **envelope: Any) -> Event:
    """Build a validated event of any kind, known or not.

    Args:
        kind: a stable kind, such as "tool.called", or a user's own "x.name".
        data: the fields of the kind's data, or the data itself.
        **envelope: `seq`, `round`, `time`, and optionally `version`, `within`, `task`, `hash`.

    Raises:
        pydantic.ValidationError: a required field is missing or has the wrong type.
    """
    return EVENT_OF_KIND.get(kind, UnknownEvent)(kind=kind, data=data, **envelope)


def event_json(event: Event) -> dict[str, Any]:
    """An event of a log as it is told in JSON, by the command line and the web API alike."""
    return {
        "seq": event.seq,
        "round": event.round,
        "kind": event.kind,
        "version": event.version,
        "time": event.time.isoformat(timespec="microseconds"),
        "within": event.within,
        "task": event.task,
        "data": event.data.model_dump(),
        "hash": event.hash,
    }
