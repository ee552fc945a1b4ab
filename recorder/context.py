"""What a step is given: the payload, the conversation, recorded reads of the world, and a way to say what changed.

`Context` carries what the CoreStep contract names (signal, report, logger, diagnostics, caches) and what this recorder
adds. Everything that it does becomes an event of the round that runs.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, overload

from .copying import copy_value
from .decisions import NextStep, PayloadChangeRequest
from .errors import AgentReplayError, UsageError
from .events import (
    MediaPromotedData,
    MemoryWrittenData,
    MessageAddedData,
    MessagesReplacedData,
    PlanProposedData,
    ReportData,
    ScratchpadChangedData,
    SkillActivatedData,
    ValueReadData,
)
from .frozen import freeze
from .payload import build_request
from .run_recorder import RunRecorder

if TYPE_CHECKING:
    from .loop import Agent

Value = TypeVar("Value")


class Interrupted(BaseException):
    """Unwinds a step that waits for a person's answer. Not an `Exception`, so that a step does not swallow it."""

    def __init__(self, interrupt: str, name: str, reason: Any) -> None:
        super().__init__(f"waiting for an answer to {name!r}")
        self.interrupt = interrupt
        self.name = name
        self.reason = reason


class Cancelled(AgentReplayError):
    """The run was cancelled through its signal."""


class Signal:
    """Asks a run to stop. The loop looks at it between rounds; a step may look at it at any time."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.reason: Any = None

    @property
    def aborted(self) -> bool:
        """Whether the run was asked to stop."""
        return self._event.is_set()

    def abort(self, reason: Any = None) -> None:
        """Ask the run to stop. Safe from any thread; the first reason counts."""
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait at most `timeout` seconds; says whether the run was asked to stop."""
        return self._event.wait(timeout)

    def throw_if_aborted(self) -> None:
        """Raise `Cancelled` if the run was asked to stop."""
        if self.aborted:
            raise Cancelled(f"the run was cancelled: {self.reason}" if self.reason else "the run was cancelled")


class FlowLogger:
    """A logger whose lines become `report` events, and go on to Python's `logging` as usual."""

    def __init__(self, recorder: RunRecorder, name: str) -> None:
        self._recorder = recorder
        self._logger = logging.getLogger(name)
        self.name = name

    def log(self, level: int, message: str, *args: Any, **content: Any) -> None:
        """Log `message % args` at a level of `logging`; keyword arguments are recorded with it."""
        try:
            text = message % args if args else message
        except (TypeError, ValueError):
            text = f"{message} {args}"
        self._logger.log(level, "%s", text, stacklevel=3)
        self._recorder.emit(
            "report",
            ReportData(
                source="log", level=logging.getLevelName(level).lower(), message=str(text), content=content or None
            ),
        )

    def debug(self, message: str, *args: Any, **content: Any) -> None:
        """Log at level debug."""
        self.log(logging.DEBUG, message, *args, **content)

    def info(self, message: str, *args: Any, **content: Any) -> None:
        """Log at level info."""
        self.log(logging.INFO, message, *args, **content)

    def warning(self, message: str, *args: Any, **content: Any) -> None:
        """Log at level warning."""
        self.log(logging.WARNING, message, *args, **content)

    def error(self, message: str, *args: Any, **content: Any) -> None:
        """Log at level error."""
        self.log(logging.ERROR, message, *args, **content)


class Diagnostics:
    """The diagnostic context of the running round; what is noted becomes a `report` event."""

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder

    @property
    def run(self) -> str:
        """The run's id in this store."""
        return self._recorder.info.id

    @property
    def round(self) -> int:
        """The round that runs, from 1."""
        return self._recorder.round

    def note(self, message: str, **content: Any) -> None:
        """Record a note."""
        self._recorder.emit("report", ReportData(source="diagnostics", message=message, content=content or None))


class Messages(Sequence[Any]):
    """The conversation of a run: read like a sequence, changed by `append` and `replace`.

    Messages are copied when they are added and frozen when they are read.
    """

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder
        self._items: list[Any] = []

    def append(self, message: Any) -> None:
        """Add a message at the end."""
        kept = copy_value(message)
        self._recorder.emit("message.added", MessageAddedData(message=kept))
        self._items.append(freeze(kept))

    def replace(self, messages: Sequence[Any], start: int = 0, stop: int | None = None, why: str | None = None) -> None:
        """Put `messages` in place of those from `start` up to `stop` (default: the end), as a compaction does."""
        first, last, _ = slice(start, stop).indices(len(self._items))
        last = max(first, last)
        kept = [copy_value(message) for message in messages]
        self._recorder.emit("messages.replaced", MessagesReplacedData(start=first, stop=last, messages=kept, why=why))
        self._items[first:last] = [freeze(message) for message in kept]

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __repr__(self) -> str:
        return f"<{len(self._items)} messages>"


class RecordedRandom(random.Random):
    """A random generator, seeded by the system, whose every draw is a `value.read` event."""

    def __init__(self, context: Context) -> None:
        self._context: Context | None = None  # what seeds it is no draw
        super().__init__()
        self._context = context

    def random(self) -> float:
        """The next float in [0, 1)."""
        return self._read(super().random)

    def getrandbits(self, k: int, /) -> int:
        """An int of `k` random bits."""
        return self._read(lambda: super(RecordedRandom, self).getrandbits(k))

    def _read(self, draw: Callable[[], Value]) -> Value:
        return draw() if self._context is None else self._context._record_read("random", draw())

    def __reduce__(self) -> NoReturn:
        raise UsageError("context.random belongs to its run; keep the numbers it gives, not the generator")


_OWN_FOLDER: Final = os.path.dirname(os.path.abspath(__file__))


def call_site() -> str | None:
    """The place of the nearest frame that is the user's own, as "file.py:line"."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith((_OWN_FOLDER, "<")) and os.path.basename(path) != "random.py":
            return f"{os.path.basename(path)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return None


class Context:
    """What a step, or a round of your own loop, works with.

    Attributes:
        signal: asks the run to stop; see `Signal`.
        logger: its lines become `report` events.
        diagnostics: notes about the running round.
        cache: a dict that lives as long as the run.
        agent_cache: a dict that lives as long as the agent object, across its runs.
        messages: the conversation.
        input, params: what the run was given; frozen.
        random: a generator whose draws are recorded.
    """

    def __init__(
        self,
        recorder: RunRecorder,
        *,
        signal: Signal | None = None,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        agent_cache: dict[Any, Any] | None = None,
    ) -> None:
        self._recorder = recorder
        self.signal = signal or Signal()
        self.logger = FlowLogger(recorder, f"agentreplay.agent.{recorder.agent}")
        self.diagnostics = Diagnostics(recorder)
        self.cache: dict[Any, Any] = {}
        self.agent_cache: dict[Any, Any] = {} if agent_cache is None else agent_cache
        self.messages = Messages(recorder)
        self.input = freeze(copy_value(input))
        self.params: Mapping[str, Any] = freeze(copy_value(dict(params or {})))
        self.random = RecordedRandom(self)
        self._scratchpad: dict[str, Any] = {}
        self._sub_logger: FlowLogger | None = None
        self._sub_logger_round = -1

    # -- the round -----------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """The run's id in this store, such as "run42"."""
        return self._recorder.info.id

    @property
    def round(self) -> int:
        """The round that runs, from 1."""
        return self._recorder.round

    def report(self, update: Any) -> None:
        """Record an update on the step's progress: a text, or any value."""
        if isinstance(update, str):
            self._recorder.emit("report", ReportData(message=update))
        else:
            self._recorder.emit("report", ReportData(content=update))

    def create_sub_flow_logger(self) -> FlowLogger:
        """A logger for a part of the step; calls within one round give the same one."""
        if self._sub_logger is None or self._sub_logger_round != self.round:
            self._sub_logger = FlowLogger(self._recorder, f"{self.logger.name}.round{self.round}")
            self._sub_logger_round = self.round
        return self._sub_logger

    def event(self, name: str, **data: Any) -> None:
        """Record an event of your own, `name` being "x.<something>"; it is kept, shown, and changes no state."""
        self._recorder.event(name, data)

    # -- the payload ---------------------------------------------------------------------------------

    @property
    def payload(self) -> Any:
        """The working state, read only: mutators raise and name `change`."""
        return self._recorder.payload.view()

    def change(
        self,
        request: PayloadChangeRequest | Mapping[str, Any] | None = None,
        *,
        new: Any = None,
        update: Any = None,
        replace: Any = None,
        remove: Any = None,
        patch: Any = None,
        merge: Any = None,
        payload: Any = ...,
        reason: str | None = None,
    ) -> Any:
        """Change the payload, and record what was asked and what came of it.

        Give one form: `new`, `update`, `replace` and `remove` together are a change request by MemberJunction's rules,
        as is `request` in its JSON form; `patch` is a JSON Patch (RFC 6902), `merge` a merge patch (RFC 7396), and
        `payload` the whole new payload, recorded as its difference.

        Args:
            reason: why, for whoever reads the run later.

        Returns:
            The new payload, read only.

        Raises:
            UsageError: no form, or more than one.
            ChangeRefused: the change cannot be applied; the payload stays as it is.
        """
        sections = not (new is None and update is None and replace is None and remove is None)
        forms = [sections, request is not None, patch is not None, merge is not None, payload is not ...]
        if sum(forms) != 1:
            raise UsageError(
                "change() takes one form: new=/update=/replace=/remove= (together), or patch=, or merge=, or payload=, "
                "or a payload change request"
            )
        recorder = self._recorder
        if patch is not None:
            recorder.change(patch, applier="json-patch", reason=reason)
        elif merge is not None:
            recorder.change(merge, applier="merge-patch", reason=reason)
        elif payload is not ...:
            recorder.change_whole(payload, reason=reason)
        elif sections:
            asked = build_request(new, update, replace, remove)
            recorder.change(asked, applier="memberjunction", reason=reason, expect_leaves=True)
        else:
            asked = request.document() if isinstance(request, PayloadChangeRequest) else request
            recorder.change(asked, reason=reason)
        return self.payload

    # -- decisions -----------------------------------------------------------------------------------

    def decide(
        self, decision: NextStep | Mapping[str, Any] | None = None, raw: str | None = None, **fields: Any
    ) -> NextStep:
        """Record what this round decides, and do what the decision says of the payload, scratchpad and memory.

        Args:
            decision: a NextStep, or its JSON.
            raw: the model's text that it was parsed from.
            **fields: any fields of NextStep instead, such as step="Actions", reasoning="one more look".

        Returns:
            The decision.
        """
        step = decision if isinstance(decision, NextStep) else NextStep(**{**(decision or {}), **fields})
        document = step.document()
        recorder = self._recorder
        recorder.decide(document, raw)
        if step.change_request is not None:
            request = step.change_request
            reason = request.get("reasoning") if isinstance(request, dict) else None
            recorder.change(
                request, source=recorder.asked_by_model(), reason=reason if isinstance(reason, str) else None
            )
        if document.get("scratchpad") is not None:
            change = copy_value(document["scratchpad"])
            self._scratchpad = merge_scratchpad(self._scratchpad, change)
            recorder.emit("scratchpad.changed", ScratchpadChangedData(change=change, scratchpad=self._scratchpad))
        for write in _items(document.get("memoryWrites")):
            recorder.emit("memory.written", MemoryWrittenData(write=write))
        for skill in _items(document.get("skillActivations")):
            recorder.emit("skill.activated", SkillActivatedData(skill=skill))
        if document.get("planDetails") is not None:
            recorder.emit("plan.proposed", PlanProposedData(plan=document["planDetails"]))
        for media in _items(document.get("promoteMediaOutputs")):
            recorder.emit("media.promoted", MediaPromotedData(media=media))
        return step

    @property
    def scratchpad(self) -> Mapping[str, Any]:
        """What the decisions noted so far: {notes?, taskList?: [task, …]}; frozen."""
        frozen: Mapping[str, Any] = freeze(self._scratchpad)
        return frozen

    # -- reads of the world --------------------------------------------------------------------------

    def now(self) -> datetime:
        """The time, aware, UTC; recorded."""
        return self._record_read("clock", datetime.fromtimestamp(time.time(), UTC))

    def uuid4(self) -> uuid.UUID:
        """A random UUID; recorded."""
        return self._record_read("uuid", uuid.uuid4())

    def read(self, name: str, fn: Callable[[], Value]) -> Value:
        """Read a value of your own, such as a setting or a file; recorded under `name`."""
        if name in ("clock", "random", "uuid", "env"):
            raise UsageError(f'"{name}" names a built-in source; choose a name of your own')
        return self._record_read(name, fn())

    def _record_read(self, source: str, value: Value) -> Value:
        self._recorder.emit("value.read", ValueReadData(source=source, site=call_site(), value=value))
        return value

    # -- people and other agents ---------------------------------------------------------------------

    def interrupt(self, name: str, reason: Any = None) -> Any:
        """Ask a person. The run stops here, as interrupted, until it is resumed with an answer.

        Args:
            name: what is asked, for programs.
            reason: what is asked, for people; any value.
        """
        raise Interrupted(self._recorder.raise_interrupt(name, reason), name, reason)

    def run_agent(
        self,
        agent: Agent,
        payload: Any = ...,
        *,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        downstream: Sequence[str] = ("*",),
        upstream: Sequence[str] | None = None,
        scope: str | None = None,
        name: str | None = None,
    ) -> Any:
        """Run another agent as a child of this run.

        Args:
            agent: what `@ar.agent` made.
            payload: its starting payload; by default what `downstream` and `scope` select of this one's.
            input, params: what it is given.
            downstream: path specs of what it sees of the payload, by MemberJunction's rules.
            upstream: path specs of what it may bring back, such as ["refund.*:add,update"]; None brings nothing back.
            scope: pointer of the part of the payload that is its whole payload, such as "/order".
            name: how the child is called in this run; by default the agent's name.

        Returns:
            Its AgentResult; in a running event loop, an awaitable of it. A child that fails raises what it raised.
        """
        from .subagents import start_child  # the loop imports this module

        child = start_child(self._recorder, agent, payload, downstream, upstream, scope, name)
        return child.run(input=input, params=params)


def merge_scratchpad(scratchpad: Mapping[str, Any], change: Any) -> dict[str, Any]:
    """Apply a decision's scratchpad part: notes are replaced; tasks are upserted and removed by id."""
    if not isinstance(change, dict):
        return {**scratchpad, "notes": change}
    merged = {**scratchpad, **{key: value for key, value in change.items() if key != "taskList"}}
    tasks = change.get("taskList")
    if isinstance(tasks, list):
        merged["taskList"] = tasks
    elif isinstance(tasks, dict):
        known = {task.get("id"): task for task in scratchpad.get("taskList", []) if isinstance(task, dict)}
        for task in _items(tasks.get("upsert")):
            if isinstance(task, dict):
                known[task.get("id")] = {**known.get(task.get("id"), {}), **task}
        for gone in _items(tasks.get("remove")):
            known.pop(gone.get("id") if isinstance(gone, dict) else gone, None)
        merged["taskList"] = list(known.values())
    return merged


def _items(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]
