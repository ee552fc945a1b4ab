"""What a step did, sorted by what it is, and which of its calls are those of another step.

Calls that ask the same are one call in either run, whatever their order, as long as they are made inside the same call;
of several that ask the same, those that gave the same belong together, and those of the same task.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..recorder.events import Event, UnknownEvent
from .changes import MISSING
from .equality import token
from .step_prints import RECORDS, VOLATILE, ChildStart, answer_in, ending_in, given_by_edits, record_in


@dataclass(frozen=True, slots=True)
class Side:
    """One of two steps.

    Attributes:
        run: what the run is called.
        step: its number.
        events: of the step, in order, with conversations.
        payload: hash of the payload after it; equal hashes are equal payloads.
        payload_at: the payload after an event of the step, or the one before it, in stored form.
        child_start: see there.
        name_of: what a run of a uid is called.
        comparable: makes of a tree what can be compared with the other run.
    """

    run: str
    step: int
    events: Sequence[Event]
    payload: str
    payload_at: Callable[[int], Any]
    child_start: ChildStart
    name_of: Callable[[str], str]
    comparable: Callable[[Any], Any] = lambda tree: tree

    @property
    def last(self) -> int:
        """The seq of its last event."""
        return self.events[-1].seq


@dataclass(slots=True)
class MadeCall:
    """A call that a step made: of a model, a tool, or an agent.

    Attributes:
        call: its id; of a child run what that is called.
        seq: of the event with which it began.
        kind: "model", "tool" or "agent".
        arguments: in stored form.
        within: id of the call inside which it was made, or None.
        model: of a model call, which one.
        ended: the event with which it ended, or None.
        answer: what it gave, in stored form, or `MISSING`.
    """

    call: str
    seq: int
    kind: str
    name: str
    arguments: Any
    within: str | None
    task: str
    model: str | None = None
    ended: Event | None = None
    answer: Any = MISSING

    @property
    def status(self) -> str:
        """How it ended: returned, failed, cancelled or open; of a child run the status of that."""
        if self.ended is None:
            return "open"
        return (
            str(self.ended.data.status) if self.ended.kind == "subrun.finished" else self.ended.kind.partition(".")[2]
        )

    @property
    def told(self) -> Any:
        """What it gave, with how it ended; `MISSING` of one that did not end."""
        return MISSING if self.ended is None else {self.status: self.answer}


@dataclass(frozen=True, slots=True)
class Item:
    """Something that is compared in its order: a tree, what it is called if it has a name, and its event."""

    name: str
    tree: Any
    event: Event


class Deeds:
    """What a step did, sorted by what it is.

    Args:
        side: the step.

    Attributes:
        calls: in order; those made in other calls as well.
        late: what calls of earlier steps gave.
        reads: values that were read, but for those of the clock and of chance.
        answers: of people.
        records: messages, notes and the like.
        decisions, outcomes: of the round; the end of the run is the last outcome.
        changed: the events that changed the payload.
        start: the event with which the run began.
        given: the input and parameters that it began with.
        edits: the input and parameters that a re-run began with.
    """

    def __init__(self, side: Side) -> None:
        self.side = side
        self.calls: list[MadeCall] = []
        self.late: list[Item] = []
        self.reads: list[Item] = []
        self.answers: list[Item] = []
        self.records: list[Item] = []
        self.decisions: list[Item] = []
        self.outcomes: list[Item] = []
        self.changed: list[Event] = []
        self.start: Event | None = None
        self.given: Item | None = None
        self.edits: Item | None = None
        self._by_id: dict[str, MadeCall] = {}
        for event in side.events:
            if not isinstance(event, UnknownEvent):
                self._add(event, fields_in(event))

    def _add(self, event: Event, data: Mapping[str, Any]) -> None:
        kind, comparable = event.kind, self.side.comparable
        if kind == "run.started":
            self.start = event
            self.given = Item("", comparable({"input": data["input"], "params": data["params"]}), event)
        elif kind == "run.forked":
            edits = given_by_edits(data["edits"])
            self.edits = Item("", comparable(edits), event) if edits else None
        elif kind in ("model.called", "tool.called"):
            asked = data["request"] if kind == "model.called" else data["raw"] or data["arguments"]
            self._call(event, data["call"], kind.partition(".")[0], data["name"], asked, data.get("model"))
        elif kind == "subrun.started":
            self._call(event, data["run"], "agent", data["name"], self.side.child_start(data["run"]), None)
        elif kind in _ENDS:
            name = data["run"] if kind == "subrun.finished" else data["call"]
            call = self._by_id.get(name)
            answer = comparable(answer_in(kind, data))
            if call is None:
                self.late.append(Item(name, answer, event))
            else:
                call.ended, call.answer = event, answer
        elif kind == "value.read" and data["source"] not in VOLATILE:
            self.reads.append(Item(data["source"], comparable(data["value"]), event))
        elif kind == "interrupt.answered":
            self.answers.append(Item("answer", comparable(data["response"]), event))
        elif kind == "run.resumed":
            self.answers += [Item("answer", comparable(response), event) for response in data["answers"].values()]
        elif kind in RECORDS:
            self.records.append(Item(RECORDS[kind][0], comparable(record_in(kind, data)), event))
        elif kind == "step.decided":
            self.decisions.append(Item("", comparable(data["decision"]), event))
        elif kind == "payload.changed":
            self.changed.append(event)
        elif kind == "round.finished":
            self.outcomes.append(Item("", data["outcome"], event))
        elif kind == "run.finished":
            self.outcomes.append(Item("", comparable(ending_in(data)), event))

    def _call(self, event: Event, name: str, kind: str, called: str, asked: Any, model: str | None) -> None:
        arguments = self.side.comparable(asked)
        shown = self.side.name_of(name) if kind == "agent" else name
        call = MadeCall(shown, event.seq, kind, called, arguments, event.within, event.task, model)
        self.calls.append(call)
        self._by_id[name] = call


_ENDS: Final = frozenset(
    ("model.returned", "model.failed", "tool.returned", "tool.failed", "call.cancelled", "subrun.finished")
)


def fields_in(event: Event) -> dict[str, Any]:
    """The fields of an event's data; an error as a tree."""
    data = dict(event.data)
    if data.get("error") is not None:
        data["error"] = {"type": data["error"].type, "message": data["error"].message}
    return data


# -- pairing calls ------------------------------------------------------------------------------------


def paired(
    olds: Sequence[MadeCall], news: Sequence[MadeCall]
) -> tuple[list[tuple[MadeCall, MadeCall]], list[MadeCall], list[MadeCall]]:
    """Pair the calls that ask the same, within calls that are a pair; of equal ones those that gave the same first.

    Returns:
        The pairs, and what is left of both lists. What was made inside a call that has no pair is part of it.
    """
    pairs: list[tuple[MadeCall, MadeCall]] = []
    left: tuple[list[MadeCall], list[MadeCall]] = [], []
    scopes = [_by_scope(calls) for calls in (olds, news)]
    todo: list[tuple[str | None, str | None]] = [(None, None)]
    while todo:
        inside = [calls.get(scope, []) for calls, scope in zip(scopes, todo.pop(), strict=True)]
        for name_of in (_asked_and_gave, _asked):
            waiting: dict[Hashable, list[MadeCall]] = {}
            for old in inside[0]:
                waiting.setdefault(name_of(old), []).append(old)
            for new in inside[1]:
                fitting = waiting.get(name_of(new))
                if fitting:
                    old = next((one for one in fitting if one.task == new.task), fitting[0])
                    fitting.remove(old)
                    pairs.append((old, new))
                    todo.append((old.call, new.call))
            taken = {id(call) for pair in pairs for call in pair}
            inside = [[call for call in calls if id(call) not in taken] for calls in inside]
        for rest, calls in zip(left, inside, strict=True):
            rest.extend(calls)
    return pairs, sorted(left[0], key=_seq), sorted(left[1], key=_seq)


def _by_scope(calls: Sequence[MadeCall]) -> dict[str | None, list[MadeCall]]:
    """Calls by the call inside which they were made; None if that was none of the same step."""
    known = {call.call for call in calls}
    scopes: dict[str | None, list[MadeCall]] = {}
    for call in calls:
        scopes.setdefault(call.within if call.within in known else None, []).append(call)
    return scopes


def _asked(call: MadeCall) -> Hashable:
    return call.kind, call.name, token(call.arguments)


def _asked_and_gave(call: MadeCall) -> Hashable:
    return _asked(call), MISSING if call.answer is MISSING else token(call.answer)


def _seq(call: MadeCall) -> int:
    return call.seq
