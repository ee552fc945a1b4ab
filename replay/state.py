"""The state of a run after one of its events: everything that a fold of the log knows.

States are immutable and share what they have in common, so that the state at every step of a long run may be kept.
They hold values in stored form, as the log does; the properties `payload`, `messages`, … decode them, subtree by
subtree, and hand out plain objects of exactly the recorded types. Those objects are shared between states too: they
are for reading, not for mutating.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from threading import Lock
from typing import Any, Final

from ..recorder.events import ErrorInfo
from ..recorder.hashes import SubtreeCache, comparison_hash
from .decoding import Decoder
from .shared_list import SharedList


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call of a model or tool that has neither returned nor failed.

    Attributes:
        kind: "model" or "tool".
        round, seq: of its `*.called` event.
        within: the call inside which it was made, or None.
    """

    call: str
    kind: str
    name: str
    round: int
    seq: int
    attempt: int = 1
    within: str | None = None
    task: str = "0"

    def to_json(self) -> dict[str, Any]:
        """All attributes by their names."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class OpenInterrupt:
    """A question that nobody has answered. `reason` is in stored form; `round` and `seq` say where it was raised."""

    interrupt: str
    name: str
    reason: Any
    round: int
    seq: int

    def to_json(self) -> dict[str, Any]:
        """All attributes by their names."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class ChildRun:
    """A run that this run started.

    Attributes:
        run: the child's uid.
        name: its agent.
        call: the call that it answers, or None.
        round, seq: of its `subrun.started`.
        status: "running" until it finished.
        result: what it gave, in stored form.
        merge: how its payload came back into this run's, or None.
    """

    run: str
    name: str
    call: str | None
    round: int
    seq: int
    status: str = "running"
    result: Any = None
    merge: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """All attributes by their names."""
        return {name: getattr(self, name) for name in self.__slots__}


class Memo:
    """What the states of one fold have worked out, subtree by subtree. It is no part of a state's value.

    States may be read, and folded on from, in several threads at once.
    """

    __slots__ = ("_hashes", "_lock", "decode")

    def __init__(self) -> None:
        self.decode = Decoder()
        self._hashes = SubtreeCache()
        self._lock = Lock()

    def hash_of(self, stored: Any) -> str:
        """The comparison hash of a tree in stored form; of a changed payload it costs the path of the change."""
        with self._lock:
            return comparison_hash(stored, self._hashes)


@dataclass(frozen=True, slots=True, repr=False)
class RunState:
    """The state of a run after one event.

    Attributes:
        run: the run's name, as the fold was given it.
        agent: name of the agent.
        applier: `{name, version}` that the run started with.
        forked_from: `{parent, seq, hash}` of the last fork among the events, or None.
        edits_due: edits of parameters and of the input, as `run.forked` tells them, for the next round to begin with.
        last_seq: the event after which this is the state; -1 before the first.
        round: the loop iteration it belongs to; 0 before the first.
        in_round: whether that round has not finished yet.
        status: running, completed, failed, cancelled or interrupted.
        ended: whether the run's last event was reached.
        outcome: of the last round: continue, complete, failed, cancelled or interrupted; None while in it.
        stop_reason: of the finished run.
        error: the exception that ended the run.
        payload_hash: comparison hash of the payload, "merkle1:…".
        open_calls, open_interrupts: what waits, by id.
        children: the runs that this run started, in order.
        cancelled_calls: ids of calls that were cancelled and have not ended since.
        usage: the usage of all model calls that returned, summed key by key.
        memo: saves work; no part of the state's value.
        stored_…: values in stored form; the property of the same name without `stored_` decodes them.
    """

    run: str = ""
    agent: str = ""
    applier: Mapping[str, Any] = field(default_factory=dict)
    forked_from: Mapping[str, Any] | None = None
    edits_due: tuple[Mapping[str, Any], ...] = ()
    last_seq: int = -1
    round: int = 0
    in_round: bool = False
    status: str = "running"
    ended: bool = False
    outcome: str | None = None
    stop_reason: str | None = None
    error: ErrorInfo | None = None
    payload_hash: str = ""
    stored_payload: Any = None
    stored_input: Any = None
    stored_params: Mapping[str, Any] = field(default_factory=dict)
    stored_messages: SharedList[Any] = field(default_factory=SharedList)
    stored_scratchpad: Any = None
    stored_memory: SharedList[Any] = field(default_factory=SharedList)
    stored_skills: SharedList[Any] = field(default_factory=SharedList)
    stored_plan: Any = None
    stored_media: SharedList[Any] = field(default_factory=SharedList)
    stored_decision: Mapping[str, Any] | None = None
    stored_value: Any = None
    open_calls: Mapping[str, OpenCall] = field(default_factory=dict)
    open_interrupts: Mapping[str, OpenInterrupt] = field(default_factory=dict)
    children: SharedList[ChildRun] = field(default_factory=SharedList)
    usage: Mapping[str, Any] = field(default_factory=dict)
    cancelled_calls: frozenset[str] = frozenset()
    memo: Memo = field(default_factory=Memo, compare=False)

    @property
    def step(self) -> int:
        """The step that this is, or leads to, the state of: step N is what round N decided; 0 is the start."""
        return self.round

    @property
    def payload(self) -> Any:
        """The payload."""
        return self.memo.decode(self.stored_payload)

    @property
    def input(self) -> Any:
        """What the run was started with, beside the payload; or what a re-run was given instead."""
        return self.memo.decode(self.stored_input)

    @property
    def params(self) -> Any:
        """The run's parameters, a dict; those that a re-run was given included."""
        return self.memo.decode(self.stored_params)

    @property
    def messages(self) -> list[Any]:
        """The conversation."""
        return [self.memo.decode(message) for message in self.stored_messages]

    @property
    def scratchpad(self) -> Any:
        """The scratchpad, or None."""
        return self.memo.decode(self.stored_scratchpad)

    @property
    def memory(self) -> list[Any]:
        """What was written to memory, in order."""
        return [self.memo.decode(write) for write in self.stored_memory]

    @property
    def skills(self) -> list[Any]:
        """The skills that were activated, in order."""
        return [self.memo.decode(skill) for skill in self.stored_skills]

    @property
    def plan(self) -> Any:
        """The plan that was proposed last, or None."""
        return self.memo.decode(self.stored_plan)

    @property
    def media(self) -> list[Any]:
        """The media that were promoted, in order."""
        return [self.memo.decode(item) for item in self.stored_media]

    @property
    def decision(self) -> Any:
        """The decision of the round, a NextStep in its camelCase form; None before there is one."""
        return self.memo.decode(self.stored_decision)

    @property
    def value(self) -> Any:
        """The value the run completed with."""
        return self.memo.decode(self.stored_value)

    def to_json(self) -> dict[str, Any]:
        """The whole state as JSON data; values that are not plain JSON stand in their tagged form."""
        return {
            "run": self.run,
            "agent": self.agent,
            "step": self.step,
            "seq": self.last_seq,
            "status": self.status,
            "outcome": self.outcome,
            "stop_reason": self.stop_reason,
            "decision": self.stored_decision,
            "payload": self.stored_payload,
            "payload_hash": self.payload_hash,
            "applier": self.applier,
            "forked_from": self.forked_from,
            "input": self.stored_input,
            "params": self.stored_params,
            "messages": list(self.stored_messages),
            "scratchpad": self.stored_scratchpad,
            "memory": list(self.stored_memory),
            "skills": list(self.stored_skills),
            "plan": self.stored_plan,
            "media": list(self.stored_media),
            "open_calls": [call.to_json() for call in self.open_calls.values()],
            "open_interrupts": [interrupt.to_json() for interrupt in self.open_interrupts.values()],
            "children": [child.to_json() for child in self.children],
            "usage": self.usage,
            "value": self.stored_value,
            "error": _error_to_json(self.error),
        }

    def __repr__(self) -> str:
        return f"<RunState {self.run or 'of a run'}: step {self.step}, event {self.last_seq}, {self.status}>"

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        decision = self.stored_decision or {}
        rows = {
            "payload": _cut(json.dumps(self.stored_payload, ensure_ascii=False, indent=2)),
            "decision": _cut(str(decision.get("step", "none yet"))),
            "messages": str(len(self.stored_messages)),
            "open calls": _cut(", ".join(call.name for call in self.open_calls.values()) or "none"),
        }
        if self.error is not None:
            rows["error"] = _cut(f"{self.error.type}: {self.error.message}")
        title = f"{self.run or self.agent or 'run'}, step {self.step}: {self.status}"
        body = "".join(
            f"<tr><th style='text-align:left;vertical-align:top'>{name}</th>"
            f"<td style='text-align:left'><pre style='margin:0'>{escape(text)}</pre></td></tr>"
            for name, text in rows.items()
        )
        return f"<table><caption>{escape(title)}</caption>{body}</table>"

    def __reduce__(self) -> tuple[Any, ...]:
        # A memo names objects by identity, which means nothing in a copy.
        public = {name: getattr(self, name) for name in self.__slots__ if name != "memo"}
        return _restore, (public,)


_SHOWN: Final = 2_000
"""Characters of a value that a notebook shows."""


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"


def _error_to_json(error: ErrorInfo | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {"type": error.type, "message": error.message, "traceback": error.traceback, "value": error.value}


def _restore(public: dict[str, Any]) -> RunState:
    return RunState(**public)
