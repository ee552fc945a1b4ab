"""What a page in a file holds of a run: of each step what it decided, called and changed, and how to get to its state.

The payload is written once, as it was at the start; of each step its changes, and in which order to apply them. A
message is written once, too, and requests say which ones they repeat. So a file grows with what happened in the run.

Of a long run the steps in the middle are left out. The payload behind them is written again, to go on from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..recorder.errors import CorruptLog
from ..recorder.events import Event
from ..recorder.hashes import content_address
from ..recorder.kept_apart import references
from ..recorder.store import EventStore, RunInfo
from ..recorder.values import dumps, loads
from ..replay.causes import Edit, with_causes
from ..replay.changes import MISSING, Change, Changes, to_json_patch
from ..replay.diff import diff_values
from ..replay.insides import inside_of
from ..replay.listing import error_text, how_long, standing, when
from ..replay.outline import CallEntry, RoundEntry, entries_of
from ..replay.paths import split
from ..replay.readable import readable, size_of, visible
from ..replay.reading import last_step
from ..replay.reducer import fold
from ..replay.state import RunState
from ..replay.timeline import PayloadChange, changes_of_step, rounds
from .export_values import ENTRIES, LIMIT, ValueWriter
from .usage import cost_in, tokens_in
from .views import MARKS, short_cost, short_number

VERSION: Final = 1
"""Of the form of the data."""

STEPS: Final = 2_000
"""A run of more steps is written without those in the middle."""

NOTE: Final = 400
"""Characters of a note."""

_WITHOUT_BLOBS: Final = ("model.", "tool.", "value.", "report", "x.")

NUMBERS: Final = "numbers"
"""Where in the tag of a conversation the numbers of its messages are."""

Progress = Callable[[int, int], None]
"""Called as an export goes on, with the steps that are through and the steps in all."""


def data_of(
    store: EventStore, info: RunInfo, progress: Progress | None = None, *, in_part: bool = False
) -> dict[str, Any]:
    """Gather what a page in a file holds of a run.

    Args:
        store, info: the run; one that is still running as far as it is now.
        progress: see there.
        in_part: of a damaged log give the steps before the damage, if there are any.

    Raises:
        CorruptLog: an event cannot be read, or the log stops making sense.
    """
    return _Collector(store, info, progress, in_part).data()


@dataclass(slots=True)
class _Step:
    """What is kept of a step until all is read: a call may end in a later one."""

    entry: RoundEntry
    changes: Changes = field(default_factory=Changes)
    size: int = 0
    messages: list[int] = field(default_factory=list)


class _Collector:
    def __init__(self, store: EventStore, info: RunInfo, progress: Progress | None, in_part: bool) -> None:
        self._store, self._info, self._progress = store, info, progress
        self._in_part = in_part
        self._damage: CorruptLog | None = None
        self._write = ValueWriter()
        self._last = last_step(store, info)
        self._gap = range(STEPS // 2 + 1, self._last - STEPS // 2 + 1) if self._last > STEPS else range(0)
        self._state = RunState(run=info.id)
        self._sizes: dict[int, tuple[Any, int]] = {}
        self._start: Any = None
        self._behind: Any = None
        self._first: Event | None = None
        self._end: Event | None = None
        self._changes: dict[int, Changes] = {}
        self._weights: dict[int, int] = {}
        self._said: dict[int, list[int]] = {}
        self._requests: dict[int, Any] = {}
        self._messages: list[Any] = []
        self._numbers: dict[str, int] = {}

    def data(self) -> dict[str, Any]:
        entries = [entry for entry in entries_of(self._events()) if entry.step not in self._gap]
        if self._damage is not None and self._first is None:
            raise self._damage
        steps: list[dict[str, Any]] = []
        for entry in entries:
            if entry.step == self._gap.stop and self._gap:
                steps.append({"gap": [self._gap.start, self._gap.stop - 1], "payload": self._behind})
            steps.append(self._step(entry))
        return {
            "format": "agentreplay-run",
            "version": VERSION,
            "run": self._run(),
            "start": self._start,
            "steps": steps,
            "messages": self._messages,
            "left_out": self._left_out(),
        }

    # -- reading -----------------------------------------------------------------------------------------

    def _events(self) -> Iterator[Event]:
        try:
            for share in rounds(self._decoded()):
                self._take(share)
                yield from share
                if self._progress is not None:
                    self._progress(min(self._state.step, self._last), self._last)
        except CorruptLog as error:
            if not self._in_part:
                raise
            self._damage = error

    def _decoded(self) -> Iterator[Event]:
        for row in self._store.rows(self._info, until=self._info.head_seq):
            blobs = not row.kind.startswith(_WITHOUT_BLOBS)
            event = self._store.decode(self._info, row, conversations=False, blobs=blobs)
            if row.kind == "model.called" and event.round not in self._gap:
                self._number_conversations(event.data.request, row.conversations)
                self._requests[row.seq] = event.data.request
            yield event

    def _number_conversations(self, request: Any, conversations: Mapping[str, Sequence[str]]) -> None:
        """Say in the tags of a request's conversations, wherever they stand, which messages they are."""
        for found in references({"request": request}):
            if found.tag["$type"] == "messages" and found.name in conversations:
                found.holder[found.key] = {**found.tag, NUMBERS: self._learnt(conversations[found.name])}

    def _learnt(self, addresses: Sequence[str]) -> list[int]:
        """The numbers of some messages; those that are new are read and written."""
        new = [address for address in dict.fromkeys(addresses) if address not in self._numbers]
        contents: Mapping[str, bytes] = self._store.read_contents(new) if new else {}
        for address in new:
            self._number(address, loads(contents[address]))
        return [self._numbers[address] for address in addresses]

    def _number(self, address: str, message: Any) -> int:
        if address not in self._numbers:
            self._numbers[address] = len(self._messages)
            self._messages.append(self._write.value(message))
        return self._numbers[address]

    def _take(self, share: list[Event]) -> None:
        """Go on to the state after a step, and note what it changed."""
        before = self._state
        step = share[0].round if share[0].kind == "round.started" else 0
        if step in self._gap:
            self._state = fold(share, before, check=False)
            self._first, self._end = self._first or share[0], share[-1]
            return
        if self._gap and step == self._gap.stop:
            self._behind = self._write.payload(before.stored_payload)
        found = changes_of_step(share, step, state=before, check=False, run=self._info.id)
        self._state = found.after
        self._first, self._end = self._first or share[0], share[-1]
        if step == 0:
            self._start = self._write.payload(found.after.stored_payload)
        else:
            self._changes[step] = _caused(before, found.after, step, found.payload_changes)
        self._weights[step] = self._size(found.after.stored_payload)
        added = [event.data.message for event in share if event.kind == "message.added"]
        self._said[step] = [self._number(content_address(dumps(message)), message) for message in added]

    def _size(self, stored: Any) -> int:
        """About how many bytes a payload takes as JSON; what did not change is not weighed again."""
        if type(stored) is str:
            return len(stored) + 2
        if type(stored) is not list and type(stored) is not dict:
            return 5
        known = self._sizes.get(id(stored))
        if known is not None:
            return known[1]
        size = 2
        if type(stored) is dict:
            size += sum([len(key) + 4 + self._size(item) for key, item in stored.items()])
        else:
            size += sum([self._size(item) + 1 for item in stored])
        self._sizes[id(stored)] = stored, size  # kept with it: an id names an object only while it lives
        return size

    # -- writing -----------------------------------------------------------------------------------------

    def _run(self) -> dict[str, Any]:
        info = self._info
        started = self._first.data if self._first is not None and self._first.kind == "run.started" else None
        finished = self._end.data if self._end is not None and self._end.kind == "run.finished" else None
        usage, cost = tokens_in(self._state.usage), cost_in(self._state.usage)
        tags = getattr(started, "tags", None)
        code = getattr(started, "code", None) or {}
        error = getattr(finished, "error", None)
        value = getattr(finished, "value", None)
        return {
            "uid": info.uid,
            "agent": info.agent,
            "status": standing(info),
            "mark": MARKS.get(standing(info), "●"),
            "last": self._last,
            "started": when(info.started),
            "took": how_long(info.duration),
            "tokens": "" if usage is None else short_number(usage),
            "cost": "" if cost is None else short_cost(cost),
            "tags": [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else [],
            "origin": info.origin,
            "fork_of": info.fork_of,
            "parent": info.parent,
            "entry_point": getattr(started, "entry_point", None),
            "commit": code.get("commit") if isinstance(code.get("commit"), str) else None,
            "stop_reason": getattr(finished, "stop_reason", None),
            "input": self._write.value(getattr(started, "input", None)),
            "params": self._write.value(getattr(started, "params", None) or {}),
            "value": None if value is None else self._write.value(value),
            "error": None if error is None else {"text": error_text(error), "traceback": self._text(error.traceback)},
        }

    def _text(self, text: str | None) -> Any:
        return None if text is None else self._write.value(text)

    def _step(self, entry: RoundEntry) -> dict[str, Any]:
        changes = self._changes.get(entry.step, Changes())
        patch, wholes = _operations(changes)
        tokens = [tokens_in(call.usage) for call in entry.calls if call.usage]
        known = [number for number in tokens if number is not None]
        costs = [cost for call in entry.calls if (cost := cost_in(call.usage)) is not None]
        return {
            "n": entry.step,
            "word": entry.word,
            "outcome": entry.outcome,
            "why": None if entry.reasoning is None else self._write.value(entry.reasoning),
            "error": self._error_in(entry),
            "seconds": entry.duration,
            "took": how_long(entry.duration),
            "tokens": short_number(sum(known)) if known else "",
            "cost": short_cost(sum(costs)) if costs else "",
            "size": self._weights.get(entry.step, 0),
            "bytes": size_of(self._weights.get(entry.step, 0)),
            "decision": None if entry.decision is None else self._write.value(entry.decision),
            "changes": [self._change(change) for change in changes],
            "patch": patch,
            "wholes": [self._write.payload(whole) for whole in wholes],
            "calls": self._calls(entry.calls),
            "children": [{"run": child.run, "name": child.name, "status": child.status} for child in entry.children],
            "requests": [self._request(event) for event in entry.requests],
            "said": self._said.get(entry.step, []),
            "notes": [note for event in entry.notes if (note := _note(event))],
            "warnings": entry.warnings,
        }

    def _error_in(self, entry: RoundEntry) -> Any:
        """What a decision says went wrong, beside why."""
        text = (entry.decision or {}).get("errorMessage")
        return self._write.value(text) if isinstance(text, str) and text != entry.reasoning else None

    def _change(self, change: Change) -> dict[str, Any]:
        cause = change.cause
        told: dict[str, Any] = {"kind": change.kind, "keys": list(change.keys), "display": change.display}
        if change.old is not MISSING:
            told["old"] = self._write.payload(change.old)
        if change.new is not MISSING and change.kind != "move":
            told["new"] = self._write.payload(change.new)
        if change.from_display is not None:
            told["from"] = change.from_display
        if cause is not None:
            told["cause"] = {"seq": cause.seq, "kind": cause.kind, "call": cause.call, "why": cause.why}
        return told

    def _calls(self, calls: Sequence[CallEntry]) -> list[dict[str, Any]]:
        depths: dict[str, int] = {}
        told = []
        for call in calls:
            depths[call.call] = depths[call.within] + 1 if call.within in depths else 0
            error = call.error
            told.append(
                {
                    "call": call.call,
                    "kind": call.kind,
                    "name": call.name,
                    "status": call.status,
                    "took": how_long(call.duration),
                    "depth": depths[call.call],
                    "model": call.model,
                    "safety": call.safety,
                    "usage": None if call.usage is None else self._write.value(call.usage),
                    "asked": self._asked_in(call),
                    **self._given_by(call),
                    "error": None if error is None else error_text(error),
                    "traceback": None if error is None else self._text(error.traceback),
                }
            )
        return told

    def _given_by(self, call: CallEntry) -> dict[str, Any]:
        """What a call returned, in a list; of one that streamed how much, and the text that it is or the chunks."""
        streamed = call.streamed
        if streamed is None:
            return {"gave": None if call.answered is MISSING else [self._whole(call.answered)]}
        text = streamed.text
        chunks = self._write.value([*streamed.chunks]) if text is None and streamed.chunks else None
        returned = call.answered is not MISSING and call.answered is not None
        return {
            "gave": [self._whole(call.answered)] if returned else None,
            "streamed": [streamed.words, self._text(text), chunks],
        }

    def _asked_in(self, call: CallEntry) -> Any:
        """What a call was asked, in a list; of a model's conversations the numbers of the messages."""
        asked = self._requests.get(call.seq, call.asked)
        if type(asked) is not dict or "$type" in asked:
            return [self._part(asked)]
        return [{"o": [told for name, value in asked.items() for told in (name, self._part(value))]}]

    def _part(self, stored: Any) -> Any:
        """A part of what a call was asked; what refers to something that is kept apart is gone into."""
        if type(stored) is dict and NUMBERS in stored and stored.get("$type") == "messages":
            return {"m": stored[NUMBERS]}
        inside = inside_of(stored)
        if inside is None or not _refers(stored):
            return self._whole(stored)
        if type(stored) is list:
            return [self._part(item) for item in stored]
        named = inside.items() if type(inside) is dict else [(str(at), item) for at, item in enumerate(inside)]
        told = {"o": [part for name, value in named for part in (name, self._part(value))]}
        return told | {"t": _class_of(stored)} if "$type" in stored else told

    def _whole(self, stored: Any) -> Any:
        """A value of a call; a large one stands for itself by its size, and is read only if it is not too large."""
        if stored is MISSING:
            return None
        if type(stored) is dict and stored.get("$type") == "blob":
            if stored["size"] > LIMIT:
                return self._write.blob(stored)
            return self._write.value(loads(self._store.read_contents([stored["hash"]])[stored["hash"]]))
        return self._write.value(stored)

    def _request(self, event: Event) -> dict[str, Any]:
        data = event.data
        source = data.source if isinstance(data.source, Mapping) else {}
        return {
            "seq": event.seq,
            "by": str(source.get("kind", "code")),
            "call": source.get("call") or event.within,
            "why": data.reason,
            "applier": f"{data.applier.get('name')} {data.applier.get('version')}",
            "counts": {name: number for name, number in data.counts.items() if number},
            "sent": self._write.value(data.request),
            "applied": None if data.applied_request is None else [self._write.value(data.applied_request)],
        }

    def _left_out(self) -> dict[str, Any]:
        """What is not in the file, and the rules by which that is so."""
        return {
            "limit": size_of(LIMIT),
            "entries": ENTRIES,
            "steps": [self._gap.start, self._gap.stop - 1] if self._gap else None,
            "most": STEPS,
            "damage": None if self._damage is None else str(self._damage),
            **{name: self._write.left_out[name] for name in ("large", "long", "full")},
        }


def _caused(before: RunState, after: RunState, step: int, made: Sequence[PayloadChange]) -> Changes:
    """What a step changed, each with the event that did it."""
    changes = diff_values(before.stored_payload, after.stored_payload, inside_tags=True)
    return with_causes(changes, [Edit(change.event, step, change.before, change.after) for change in made])


def _operations(changes: Changes) -> tuple[list[list[Any]], list[Any]]:
    """How to get from one payload to the next: the operations of a JSON Patch, and the values that stand in no change.

    An operation is what is done, where, and of what is put there the number of its change, or from where it comes. A
    patch replaces a tag, such as a tuple, as a whole, of which the changes tell what is inside. Such values come by
    themselves; they are numbered behind the changes.
    """
    places = {(str(change.kind), change.path): at for at, change in enumerate(changes) if change.whole is None}
    told: list[list[Any]] = []
    wholes: list[Any] = []
    for operation in to_json_patch(changes):
        name, keys = operation["op"], split(operation["path"])
        number = places.get((name, operation["path"]))
        if name == "move":
            told.append([name, keys, split(operation["from"])])
        elif name == "remove":
            told.append([name, keys])
        else:
            if number is None:
                number = len(changes) + len(wholes)
                wholes.append(operation["value"])
            told.append([name, keys, number])
    return told, wholes


def _refers(stored: Any) -> bool:
    """Whether something in a value of a request is kept apart."""
    content = dumps(stored)
    return b'"$type":"messages"' in content or b'"$type":"blob"' in content


def _class_of(tag: Mapping[str, Any]) -> str:
    """What a tag is of, in a word."""
    name = tag.get("class")
    return name.rpartition(":")[2] if isinstance(name, str) else str(tag["$type"])


def _note(event: Event) -> list[str] | None:
    """What an event of another kind says: its kind, and a line."""
    data = event.data
    match event.kind:
        case "report":
            told = " ".join(filter(None, [data.level, data.message, _in_line(data.content)]))
            return [str(data.source), told[:NOTE]]
        case "interrupt.raised":
            return ["asks", f"{data.name}  {_in_line(data.reason)}"]
        case "interrupt.answered":
            return ["answered", f"{data.interrupt}  {_in_line(data.response)}"]
        case "run.forked":
            return ["run again from here", "; ".join([_in_line(edit) for edit in data.edits]) or "nothing is edited"]
        case "subrun.finished" | "writer.left" | "writer.joined":
            return None
    return [event.kind, _in_line({name: value for name, value in data if value not in (None, [], {})})]


def _in_line(value: Any) -> str:
    return "" if value is None else visible(readable(value, NOTE))
