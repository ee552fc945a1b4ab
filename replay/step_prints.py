"""What a step did, as hashes: enough to say of two steps whether they are the same, and in which respect they are not.

To find the one step in which two runs of ten thousand differ, neither needs to be decoded, folded or held. A *print* is
made of a step's stored events. It leaves out what is different in every run and means nothing: times, durations, ids of
calls and of child runs, the order of independent calls. The hash of the payload after the step is in the log already.

Equal prints mean equal steps. Prints may differ where steps are equal, though: a large value stands in the log by the
hash of its bytes, in which the order of keys counts. So whoever names a difference looks closer first (`step_pairs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Literal, TypeAlias

import orjson

from ..recorder.event_codec import StoredEvent
from ..recorder.redaction import without_digests
from ..recorder.upcasters import upcast
from ..recorder.values import loads

Respect: TypeAlias = Literal["given", "calls", "results", "decision", "changes", "records", "outcome", "payload"]
"""In which respect two steps may differ: what they were given, asked and got, decided, changed and noted, how they
ended, and the payload after them."""

ChildStart: TypeAlias = Callable[[str], Any]
"""By the uid of a child run what it was given, `{payload, input, params}` in stored form; None if that is not known."""

VOLATILE: Final = frozenset(("clock", "random", "uuid", "strands.message"))
"""Sources of values that are other ones in each run, the ids of messages of the Strands SDK among them. That is no
difference; what was done with them may be one."""

RECORDS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "message.added": ("message", ("message",)),
    "messages.replaced": ("message", ("start", "stop", "messages")),
    "scratchpad.changed": ("scratchpad", ("scratchpad",)),
    "memory.written": ("memory", ("write",)),
    "skill.activated": ("skill", ("skill",)),
    "plan.proposed": ("plan", ("plan",)),
    "media.promoted": ("media", ("media",)),
    "interrupt.raised": ("question", ("name", "reason")),
}
"""Kinds of events that note something: what that is called, and which fields of it are compared."""


@dataclass(frozen=True, slots=True)
class StepPrint:
    """A step as hashes; step 0 is the start.

    Attributes:
        step: its number.
        first, last: seqs of its first and last event. The `run.forked` of a fork is in the step that it leads to.
        word: of its decision, such as "Actions"; None without one.
        calls: kind and name of each call, in order.
        given: what came from outside: the start of the run, edits, values that were read, answers of people.
        asked: its calls with their arguments.
        tools: likewise, but of models the names alone: their requests repeat all that came before.
        gave: what the calls gave.
        decided: its decisions.
        changed: its changes of the payload.
        noted: messages, notes, questions and the like.
        outcome: how it ended, and the run with it.
        payload: hash of the payload after it.
    """

    step: int
    first: int
    last: int
    word: str | None
    calls: tuple[str, ...]
    given: bytes
    asked: bytes
    tools: bytes
    gave: bytes
    decided: bytes
    changed: bytes
    noted: bytes
    outcome: bytes
    payload: str

    @property
    def whole(self) -> tuple[object, ...]:
        """All of it. How the payload was changed is left out: another way to the same payload is none."""
        return self.given, self.asked, self.gave, self.decided, self.noted, self.outcome, self.payload

    @property
    def path(self) -> tuple[object, ...]:
        """What it decided and asked for, whatever it got."""
        return self.decided, self.tools, len(self.calls)

    @property
    def shape(self) -> tuple[object, ...]:
        """The word of its decision, and what it called."""
        return self.word, tuple(sorted(self.calls))


def respects(a: StepPrint, b: StepPrint) -> tuple[Respect, ...]:
    """In which respects two steps differ; none if they are the same."""
    if a.whole == b.whole:
        return ()
    pairs: dict[Respect, tuple[object, object]] = {
        "given": (a.given, b.given),
        "calls": (a.asked, b.asked),
        "results": (a.gave, b.gave),
        "decision": (a.decided, b.decided),
        "changes": (a.changed if a.payload != b.payload else "", b.changed if a.payload != b.payload else ""),
        "records": (a.noted, b.noted),
        "outcome": (a.outcome, b.outcome),
        "payload": (a.payload, b.payload),
    }
    return tuple([name for name, (one, other) in pairs.items() if one != other])


def prints(rows: Iterable[StoredEvent], child_start: ChildStart, *, foreign: bool = False) -> Iterator[StepPrint]:
    """Yield the prints of the steps that some events of a run make, in order.

    Args:
        rows: stored events, in order, from the start of a step on.
        child_start: see `ChildStart`.
        foreign: the redaction tokens are those of another store than the other run's, and say no more than their kind.

    Raises:
        Unreadable: an event is not what agentreplay writes.
    """
    page = _Page(child_start, foreign)
    for row in rows:
        try:
            done = page.add(row)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            error.add_note(f"event {row.seq}")
            raise Unreadable(row) from error
        if done is not None:
            yield done
    last = page.end()
    if last is not None:
        yield last


class Unreadable(Exception):
    """An event is not what agentreplay writes.

    Attributes:
        row: the event.
    """

    def __init__(self, row: StoredEvent) -> None:
        super().__init__(f"event {row.seq}")
        self.row = row


@dataclass(slots=True)
class _Open:
    """A print in the making; each list holds tokens, which are of one length in each."""

    step: int
    first: int
    word: str | None = None
    calls: list[str] = field(default_factory=list)
    given: list[bytes] = field(default_factory=list)
    asked: list[bytes] = field(default_factory=list)
    tools: list[bytes] = field(default_factory=list)
    gave: list[bytes] = field(default_factory=list)
    decided: list[bytes] = field(default_factory=list)
    changed: list[bytes] = field(default_factory=list)
    noted: list[bytes] = field(default_factory=list)
    outcome: list[Any] = field(default_factory=list)


class _Page:
    """Takes events, and gives a print each time that a step is through."""

    def __init__(self, child_start: ChildStart, foreign: bool) -> None:
        self._child_start = child_start
        self._foreign = foreign
        self._open: _Open | None = None
        self._forked: tuple[int, list[bytes]] | None = None
        self._payload = ""
        self._asked: dict[str, bytes] = {}  # id of a call, or uid of a child run → the token of what it asks
        self._last = -1

    def add(self, row: StoredEvent) -> StepPrint | None:
        done = None
        if row.kind == "round.started" or self._open is None:
            forked, self._forked = self._forked, None
            done = self._done(row.seq - 1 if forked is None else forked[0] - 1)
            self._open = _Open(row.round, row.seq if forked is None else forked[0])
            if forked is not None:
                self._open.given += forked[1]
        handler = _HANDLERS.get(row.kind)
        if handler is not None:
            if row.body is None:  # pruned: only its hash is left to compare
                self._open.noted.append(_token(row.body_hash))
            else:
                handler(self, self._open, row, self._read(row))
        self._last = row.seq
        return done

    def end(self) -> StepPrint | None:
        return self._done(self._last)

    def _done(self, last: int) -> StepPrint | None:
        step = self._open
        if step is None:
            return None
        return StepPrint(
            step.step,
            step.first,
            last,
            step.word,
            tuple(step.calls),
            b"".join(step.given),
            b"".join(sorted(step.asked)),
            b"".join(sorted(step.tools)),
            b"".join(sorted(step.gave)),
            b"".join(step.decided),
            b"".join(step.changed),
            b"".join(step.noted),
            _token(step.outcome) if step.outcome else b"",
            self._payload,
        )

    def _read(self, row: StoredEvent) -> dict[str, Any]:
        body = row.body or b"{}"
        data = loads(body)
        if self._foreign and b"[redacted:" in body:
            data = without_digests(data)
        _, told = upcast(row.kind, row.version, data)
        return told

    def _follow(self, payload: str, step: _Open) -> None:
        # The hash of a payload with tokens says which tokens they are, so of foreign ones the way there is compared.
        self._payload = _token([self._payload, step.changed[-1].hex()]).hex() if self._foreign else payload

    # -- by kind ---------------------------------------------------------------------------------------

    def _run_started(self, step: _Open, row: StoredEvent, data: Mapping[str, Any]) -> None:
        step.given.append(_token([data.get("payload"), data.get("input"), data.get("params") or {}]))
        self._payload = step.given[-1].hex() if self._foreign else data["payload_hash"]

    def _run_forked(self, step: _Open, row: StoredEvent, data: Mapping[str, Any]) -> None:
        edits = given_by_edits(data.get("edits") or ())
        self._forked = row.seq, [_token(edits)] if edits else []

    def _round_finished(self, step: _Open, row: StoredEvent, data: Mapping[str, Any]) -> None:
        step.outcome.append(data["outcome"])
        if not self._foreign:
            self._payload = data["payload_hash"]

    def _called(self, step: _Open, row: StoredEvent, data: Mapping[str, Any]) -> None:
        kind = row.kind.partition(".")[0]
        arguments = data.get("request") if kind == "model" else data.get("raw") or data.get("arguments")
        inside = self._asked.get(row.within or "", b"").hex()
        token = _token([kind, data["name"], inside, data.get("model"), arguments])
        self._asked[data["call"]] = token
        step.calls.append(f"{kind} {data['name']}")
        step.asked.append(token)
        step.tools.append(token if kind == "tool" else _token(data["name"]))

    def _ended(self, step: _Open, row: StoredEvent, data: Mapping[str, Any]) -> None:
        asked = self._asked.get(data["call"], _UNKNOWN)
        step.gave.append(asked + _token([row.kind.partition(".")[2], answer_in(row.kind, data)]))

    def _child_started(self, step: _Open, row: StoredEvent, data: Mapping[str, Any]) -> None:
        given = self._child_start(data["run"])
        token = _token(["agent", data["name"], without_digests(given) if self._foreign else given])
        self._asked[data["run"]] = token
        step.calls.append(f"agent {data['name']}")
        step.asked.append(token)
        step.tools.append(token)

    def _child_finished(self, step: _Open, row: StoredEvent, data: Mapping[str, Any]) -> None:
        asked = self._asked.get(data["run"], _UNKNOWN)
        step.gave.append(asked + _token([data["status"], answer_in(row.kind, data)]))

    def _decided(self, step: _Open, row: StoredEvent, data: Mapping[str, Any]) -> None:
        decision = data["decision"]
        word = decision.get("step")
        step.word = word if isinstance(word, str) else None
        step.decided.append(_token(decision))

    def _changed(self, step: _Open, row: StoredEvent, data: Mapping[str, Any]) -> None:
        parts = ("applier", "request", "applied_request", "options", "correction")
        step.changed.append(_token([data.get(name) for name in parts]))
        if is_edit(data.get("source")):
            step.given.append(step.changed[-1])
        self._follow(data["hash_after"], step)

    def _value_read(self, step: _Open, row: StoredEvent, data: Mapping[str, Any]) -> None:
        if data["source"] not in VOLATILE:
            step.given.append(_token([data["source"], data.get("value")]))

    def _answered(self, step: _Open, row: StoredEvent, data: Mapping[str, Any]) -> None:
        step.given.append(_token(["answer", data.get("response")]))

    def _resumed(self, step: _Open, row: StoredEvent, data: Mapping[str, Any]) -> None:
        step.given += [_token(["answer", response]) for response in (data.get("answers") or {}).values()]

    def _noted(self, step: _Open, row: StoredEvent, data: Mapping[str, Any]) -> None:
        step.noted.append(_token([row.kind, record_in(row.kind, data)]))

    def _run_finished(self, step: _Open, row: StoredEvent, data: Mapping[str, Any]) -> None:
        step.outcome.append(ending_in(data))


_Handler: TypeAlias = Callable[[_Page, _Open, StoredEvent, Mapping[str, Any]], None]

_HANDLERS: Final[dict[str, _Handler]] = {
    "run.started": _Page._run_started,
    "run.forked": _Page._run_forked,
    "run.resumed": _Page._resumed,
    "run.finished": _Page._run_finished,
    "round.finished": _Page._round_finished,
    "model.called": _Page._called,
    "tool.called": _Page._called,
    "model.returned": _Page._ended,
    "model.failed": _Page._ended,
    "tool.returned": _Page._ended,
    "tool.failed": _Page._ended,
    "call.cancelled": _Page._ended,
    "subrun.started": _Page._child_started,
    "subrun.finished": _Page._child_finished,
    "step.decided": _Page._decided,
    "payload.changed": _Page._changed,
    "value.read": _Page._value_read,
    "interrupt.answered": _Page._answered,
    **dict.fromkeys(RECORDS, _Page._noted),
}


# -- what of an event is compared ---------------------------------------------------------------------


def answer_in(kind: str, data: Mapping[str, Any]) -> Any:
    """What a call or child run gave, as a tree: the value, or of a failure `{type, message}`; None if it was cancelled.

    Of a call that was streamed `{stream}` with its chunks, beside that.

    Args:
        kind: of the event.
        data: the fields of its data.
    """
    error, stream = data.get("error"), data.get("stream")
    if error is not None:
        return error_in(error) if not stream else {**error_in(error), "stream": stream}
    given = data.get("response") if kind == "model.returned" else data.get("result")
    if stream is None:
        return given
    return {"stream": stream} if given is None else {"stream": stream, "returned": given}


def error_in(error: Mapping[str, Any]) -> dict[str, Any]:
    """Of an exception what is compared; tracebacks name lines of code."""
    return {"type": error.get("type"), "message": error.get("message")}


def ending_in(data: Mapping[str, Any]) -> dict[str, Any]:
    """Of the end of a run what is compared."""
    ending = {name: data.get(name) for name in ("status", "stop_reason", "value")}
    error = data.get("error")
    return ending if error is None else {**ending, "error": error_in(error)}


def record_in(kind: str, data: Mapping[str, Any]) -> Any:
    """Of an event of `RECORDS` what is compared."""
    fields = RECORDS[kind][1]
    found = {name: _without_chance(name, data.get(name)) for name in fields}
    return found[fields[0]] if len(fields) == 1 else found


def _without_chance(name: str, value: Any) -> Any:
    """A message, or several, without the random id of the Strands SDK, and what that measured."""
    if name == "messages" and isinstance(value, list):
        return [_without_chance("message", one) for one in value]
    if name != "message" or not isinstance(value, Mapping) or "tracking_id" not in value:
        return value
    return {key: one for key, one in value.items() if key not in ("tracking_id", "metadata")}


def given_by_edits(edits: Iterable[Any]) -> dict[str, Any]:
    """Of the edits of a re-run those that no other event tells of: `{params, input}`, as far as there are any."""
    told = [edit for edit in edits if isinstance(edit, Mapping)]
    params = {edit["name"]: edit.get("value") for edit in told if edit.get("edit") == "param" and "name" in edit}
    inputs = [edit.get("value") for edit in told if edit.get("edit") == "input"]
    return {**({"params": params} if params else {}), **({"input": inputs[-1]} if inputs else {})}


def is_edit(source: Any) -> bool:
    """Say of the source of a payload change whether a person made it, to run the rest again from there."""
    return isinstance(source, Mapping) and source.get("kind") == "edit"


_LENGTH: Final = 16
_UNKNOWN: Final = bytes(_LENGTH)


def _token(tree: Any) -> bytes:
    """A tree in stored form as a hash, to which the order of keys says nothing."""
    return blake2b(orjson.dumps(tree, option=orjson.OPT_SORT_KEYS), digest_size=_LENGTH).digest()
