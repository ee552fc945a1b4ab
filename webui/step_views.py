"""What a page shows of one step: what it decided and why, what it asked to change, its calls, messages and events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..recorder.events import Event
from ..recorder.values import is_tag
from ..replay.changes import MISSING
from ..replay.edits_told import edit_in_words
from ..replay.listing import error_text, how_long
from ..replay.outline import CallEntry, RoundEntry
from ..replay.readable import count, readable, visible
from ..replay.streamed import Streamed
from .in_words import ELSEWHERE, in_line, lines_of, plain, tag_kind, told_elsewhere
from .sound import Unread
from .trees import LINES, TEXT, Address, Node, rest_of, tree_of
from .usage import cost_in, tokens_in
from .views import SIGN_OF_CALL, short_cost

ARGUMENTS: Final = 6
"""Arguments of a call that are told in its line."""

CALLS: Final = 60
EVENTS: Final = 100
MESSAGES: Final = 20
"""Calls, events and messages of a step that are sent at once; the rest loads on demand."""

STORED: Final = TEXT
"""Bytes of an event that cannot be read that are shown."""

UNANSWERED: Final = {"running": "no answer yet", "silent": "no answer yet", "crashed": "in flight when it crashed"}
"""What is known of a call without an answer, by how its run stands; of a run that has ended, that none was recorded."""

FEW_NODES: Final = 40
"""Nodes of the trees of calls and requests, of which there may be many."""

EventAddress = Callable[[int, str], Address]
"""Gives the addresses of the values in a field of an event: by its seq and the field's JSON Pointer."""


@dataclass(frozen=True, slots=True)
class Text:
    """A recorded text: its first lines, and how much there is besides.

    Attributes:
        rest: what is not shown, in words; empty if nothing is. `href` is where it is.
    """

    lines: tuple[str, ...]
    rest: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class CallView:
    """A call: in a line what was asked and given, and as trees.

    Attributes:
        arguments: as in a call, `order_id="A-17"`.
        result: in a line; of a call that failed its error.
        depth: how many calls it is inside.
        asked, answered: trees; `facts` are pairs of names and words.
        streamed: of a call that was streamed how many chunks came; `said` is the text that they are, `chunks` a tree.
        traceback: of a call that failed.
    """

    call: str
    seq: int
    kind: str
    name: str
    status: str
    sign: str
    duration: float | None
    arguments: str
    result: str
    depth: int
    facts: tuple[tuple[str, str], ...] = ()
    asked: tuple[Node, ...] = ()
    answered: tuple[Node, ...] = ()
    traceback: Text | None = None
    streamed: str = ""
    said: Text | None = None
    chunks: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestView:
    """A change request: as sent, as applied where that differs, and what came of it.

    Attributes:
        by: who asked, in words.
        counts: what was done, in words.
        warnings: of the applier. `blocked` are the operations that it did not carry out.
        is_lossless: whether it was applied as it was sent.
    """

    seq: int
    by: str
    reason: str
    applier: str
    counts: str
    sent: tuple[Node, ...]
    applied: tuple[Node, ...] = ()
    correction: tuple[Node, ...] = ()
    warnings: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    options: str = ""


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message: who says what, and its other fields as a tree."""

    role: str
    text: Text | None
    fields: tuple[Node, ...] = ()
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class EventView:
    """An event: its envelope in words; its data loads on demand. `problem` says why it cannot be read, if so."""

    seq: int
    kind: str
    time: str
    where: str
    href: str
    problem: str = ""


@dataclass(slots=True)
class StepView:
    """What a page shows of a step, but for the payload and its changes."""

    step: int
    word: str
    outcome: str
    duration: float | None
    why: Text | None
    facts: list[str] = field(default_factory=list)
    calls: list[CallView] = field(default_factory=list)
    more_calls: int = 0
    children: list[tuple[str, str, str]] = field(default_factory=list)
    requests: list[RequestView] = field(default_factory=list)
    decision: tuple[Node, ...] = ()
    raw: Text | None = None
    messages: list[MessageView] = field(default_factory=list)
    notes: list[tuple[str, str, int]] = field(default_factory=list)
    events: list[EventView] = field(default_factory=list)
    more_events: int = 0
    error: str = ""
    is_refused: bool = False


def step_view(
    entry: RoundEntry,
    events: Sequence[Event],
    address: EventAddress,
    name_of: Callable[[str], str],
    standing: str = "running",
) -> StepView:
    """What a page shows of a step.

    Args:
        entry: what it did.
        events: its share of the log.
        address: gives the addresses of what is not sent.
        name_of: what a run of a uid is called.
        standing: of the run, in a word.
    """
    unanswered = UNANSWERED.get(standing, "no answer was recorded")
    decided = next((event for event in reversed(events) if event.kind == "step.decided"), None)
    view = StepView(
        step=entry.step,
        word=entry.word or ("Start" if entry.step == 0 else "undecided" if entry.outcome else "in progress"),
        outcome=entry.outcome or "",
        duration=entry.duration,
        why=None,
    )
    if decided is not None:
        at = address(decided.seq, "/decision")
        if entry.reasoning:
            field_name = next(
                name for name in ("reasoning", "errorMessage", "message") if _is_text(entry.decision, name)
            )
            view.why = text_of(entry.reasoning.strip(), address(decided.seq, f"/decision/{field_name}"))
        view.decision = tuple(tree_of(decided.data.decision, at, nodes=FEW_NODES))
        if decided.data.raw is not None:
            view.raw = text_of(decided.data.raw, address(decided.seq, "/raw"))
    view.facts = _facts(entry)
    requests = {event.data.call: event.data.request for event in events if event.kind == "model.called"}
    depth: dict[str, int] = {}
    for call in entry.calls[:CALLS]:
        depth[call.call] = depth[call.within] + 1 if call.within in depth else 0
        asked = requests.get(call.call, MISSING) if call.kind == "model" else call.asked
        view.calls.append(call_view(call, asked, depth[call.call], address, unanswered))
    view.more_calls = max(len(entry.calls) - CALLS, 0)
    view.children = [(name_of(child.run), child.name, child.status) for child in entry.children]
    view.requests = [request_view(event, entry.calls, address) for event in entry.requests]
    view.messages = [message_view(event, address) for event in events if event.kind == "message.added"][:MESSAGES]
    view.notes = [note for event in entry.notes for note in _note(event)]
    view.events = [event_view(event, address) for event in events[:EVENTS]]
    view.more_events = max(len(events) - EVENTS, 0)
    ended = next((event for event in events if event.kind == "run.finished" and event.data.error is not None), None)
    if ended is not None:
        view.error = error_text(ended.data.error)
        view.is_refused = is_refusal(view.error)
    return view


def is_refusal(error: str) -> bool:
    """Whether an error says that a re-run was not allowed to call a tool."""
    return error.startswith("LiveCallRefused:")


def text_of(text: str, address: Address, lines: int = LINES, limit: int = 3 * TEXT) -> Text:
    """A recorded text, folded after some lines."""
    piece = "\n".join(text[:limit].split("\n")[:lines])
    rest = f"all {len(text):,} characters" if len(piece) < len(text) else ""
    return Text(tuple(lines_of(piece)), rest, address("", 0) if rest else "")


def _is_text(decision: Any, name: str) -> bool:
    value = (decision or {}).get(name)
    return isinstance(value, str) and bool(value.strip())


def _facts(entry: RoundEntry) -> list[str]:
    """Models, tokens, cost, time."""
    models = dict.fromkeys(call.model for call in entry.calls if call.kind == "model" and call.model)
    tokens = [known for call in entry.calls if (known := tokens_in(call.usage)) is not None]
    costs = [cost for call in entry.calls if (cost := cost_in(call.usage)) is not None]
    return [
        *[f"model {visible(model[:60])}" for model in models],
        *([f"{sum(tokens):,} tokens"] if tokens else []),
        *([f"cost {short_cost(sum(costs))}"] if costs else []),
        *([how_long(entry.duration)] if entry.duration is not None else []),
    ]


# -- calls ----------------------------------------------------------------------------------------------------------


def call_view(call: CallEntry, asked: Any, depth: int, address: EventAddress, unanswered: str) -> CallView:
    """A call; `asked` are its arguments, or the request to a model; `unanswered` is said of one without an answer."""
    facts = [("call", visible(call.call[:60])), ("model", call.model), ("safety", call.safety)]
    if isinstance(call.usage, Mapping):
        facts.append(
            (
                "usage",
                ", ".join([f"{visible(str(name))} {readable(value, 20)}" for name, value in call.usage.items()][:6]),
            )
        )
    asked_nodes: list[Node] = []
    field_name = "arguments" if call.kind == "tool" else "request"
    if asked is not MISSING:
        asked_nodes = tree_of(asked, address(call.seq, f"/{field_name}"), nodes=FEW_NODES)
    answered: list[Node] = []
    is_told = call.answered is not MISSING and (call.streamed is None or call.answered is not None)
    if is_told and call.end_seq is not None:
        given = "result" if call.kind == "tool" else "response"
        answered = tree_of(call.answered, address(call.end_seq, f"/{given}"), nodes=FEW_NODES)
    traceback = None
    if call.error is not None and call.error.traceback and call.end_seq is not None:
        traceback = text_of(call.error.traceback, address(call.end_seq, "/error/traceback"), lines=40, limit=8_000)
    return CallView(
        call.call,
        call.seq,
        call.kind,
        call.name,
        call.status,
        SIGN_OF_CALL.get(call.status, "●"),
        call.duration,
        arguments_of(asked),
        unanswered if call.status == "open" else _result(call),
        depth,
        tuple([(name, str(value)) for name, value in facts if value]),
        tuple(asked_nodes),
        tuple(answered),
        traceback,
        *_streamed(call, address),
    )


def _streamed(call: CallEntry, address: EventAddress) -> tuple[str, Text | None, tuple[Node, ...]]:
    """What was streamed: how much, the text that it is together, and the chunks."""
    streamed = call.streamed
    if streamed is None or call.end_seq is None:
        return "", None, ()
    at = address(call.end_seq, "/stream")
    said = None if streamed.text is None else text_of(streamed.text, at, lines=40, limit=8_000)
    if said is not None and said.rest:
        said = replace(said, rest="the rest is in the chunks")
    return streamed.words, said, tuple(tree_of([*streamed.chunks], at, nodes=FEW_NODES))


def arguments_of(asked: Any) -> str:
    """What a call was asked, as in a call."""
    if asked is MISSING:
        return ""
    named = plain(asked)
    if not isinstance(named, dict):
        return in_line(asked)
    told = [f"{visible(name[:40])}={_short(value)}" for name, value in list(named.items())[:ARGUMENTS]]
    return ", ".join([*told, *(["…"] if len(named) > ARGUMENTS else [])])


def _short(value: Any) -> str:
    if tag_kind(value) in ELSEWHERE:
        return told_elsewhere(value)
    return in_line(value, 40)


def _result(call: CallEntry) -> str:
    if call.error is not None:
        return visible(error_text(call.error)[:200])
    if call.streamed is not None:
        return _streamed_in_line(call.streamed)
    if call.answered is MISSING:
        return ""
    content = call.answered.get("content") if type(call.answered) is dict else None
    return in_line(content, 60) if isinstance(content, str) and call.kind == "model" else _short(call.answered)


def _streamed_in_line(streamed: Streamed) -> str:
    if not streamed.chunks:
        return streamed.words
    text = streamed.text
    return f"{streamed.words}: {in_line([*streamed.chunks] if text is None else text, 60)}"


# -- change requests ------------------------------------------------------------------------------------------------


def request_view(event: Event, calls: Iterable[CallEntry], address: EventAddress) -> RequestView:
    """A change request."""
    data = event.data
    names = {call.call: f"{call.kind} {visible(call.name[:60])}" for call in calls}
    source = data.source if isinstance(data.source, Mapping) else {}
    by = visible(str(source.get("kind", "code"))[:40])
    call = source.get("call") or event.within
    if call is not None:
        by = f"{by}, {names.get(call, visible(f'call {call}'[:60]))}"
    applied: list[Node] = []
    if data.applied_request is not None:
        applied = tree_of(data.applied_request, address(event.seq, "/applied_request"), nodes=FEW_NODES)
    correction: list[Node] = []
    if data.correction is not None:
        correction = tree_of(data.correction, address(event.seq, "/correction"), nodes=FEW_NODES)
    applier = data.applier if isinstance(data.applier, Mapping) else {}
    return RequestView(
        event.seq,
        by,
        data.reason or "",
        f"{visible(str(applier.get('name', '?'))[:40])} {visible(str(applier.get('version', ''))[:10])}".strip(),
        _counts(data.counts),
        tuple(tree_of(data.request, address(event.seq, "/request"), nodes=FEW_NODES)),
        tuple(applied),
        tuple(correction),
        tuple([visible(text[:2_000]) for text in data.warnings]),
        tuple([_operation(operation) for operation in data.blocked]),
        readable(data.options, 200) if data.options else "",
    )


_DONE: Final = {"additions": "added", "updates": "updated", "deletions": "removed"}


def _counts(counts: Mapping[str, int]) -> str:
    told = [f"{number:,} {_DONE.get(name) or visible(name[:20])}" for name, number in counts.items() if number]
    return ", ".join(told) or "no change"


def _operation(operation: Mapping[str, Any]) -> str:
    return ", ".join([f"{visible(str(name)[:40])} {visible(str(value)[:200])}" for name, value in operation.items()])


# -- messages and events --------------------------------------------------------------------------------------------


def message_view(event: Event, address: EventAddress) -> MessageView:
    """A message that was added."""
    return message_of(event.data.message, address(event.seq, "/message"), event.seq)


def message_of(message: Any, address: Address, seq: int | None = None) -> MessageView:
    """A message: its role and text, and what else it holds."""
    if type(message) is not dict or is_tag(message):  # one with odd keys too: its places are told as they are stored
        return MessageView("", None, tuple(tree_of(message, address, nodes=FEW_NODES)), seq)
    role, content = message.get("role"), message.get("content")
    shown_role = visible(role[:40]) if isinstance(role, str) else ""
    text = None
    rest = {name: value for name, value in message.items() if name != "role" or not isinstance(role, str)}
    if isinstance(content, str):
        text = text_of(content, below(address, "/content"))
        rest.pop("content", None)
    elif (said := _only_text(content)) is not None:
        text = text_of(said, below(address, "/content/0/text"))
        rest.pop("content", None)
    fields = tree_of(rest, address, nodes=FEW_NODES) if rest else []
    return MessageView(shown_role, text, tuple(fields), seq)


def _only_text(content: Any) -> str | None:
    """The text of a content that is a list of one block with a text."""
    if type(content) is list and len(content) == 1 and type(content[0]) is dict:
        block = content[0]
        if block.keys() <= {"type", "text"} and isinstance(block.get("text"), str):
            return str(block["text"])
    return None


def below(address: Address, pointer: str) -> Address:
    """The addresses of the values below a place."""
    return lambda at, start: address(pointer + at, start)


def event_view(event: Event, address: EventAddress) -> EventView:
    """An event, without its data."""
    where = [f"round {event.round}"]
    if event.within is not None:
        where.append(f"in call {visible(event.within[:40])}")
    if event.task != "0":
        where.append(f"task {visible(event.task[:40])}")
    time = event.time.astimezone().strftime("%H:%M:%S.%f")
    return EventView(event.seq, visible(event.kind[:80]), time, ", ".join(where), address(event.seq, "")("", 0))


def _note(event: Event) -> list[tuple[str, str, int]]:
    """What an event of another kind says: its kind, a line, its seq."""
    data = event.data
    match event.kind:
        case "report":
            words = [data.level, data.message, None if data.content is None else readable(data.content, 200)]
            return [(visible(data.source[:40]), visible(" ".join(filter(None, words))[:400]), event.seq)]
        case "interrupt.raised":
            return [("asks", f"{visible(data.name[:80])} {readable(data.reason, 200)}", event.seq)]
        case "interrupt.answered":
            return [("answered", f"{visible(data.interrupt[:80])} {readable(data.response, 200)}", event.seq)]
        case "messages.replaced":
            stop = "the end" if data.stop is None else str(data.stop)
            why = f" ({visible(data.why[:80])})" if data.why else ""
            told = f"{data.start} to {stop} replaced by {count(len(data.messages), 'message')}{why}"
            return [("messages", told, event.seq)]
        case "run.forked":
            told = "; ".join([edit_in_words(edit, 60) for edit in data.edits[:8]]) or "nothing is edited"
            return [("run again from here", told, event.seq)]
        case "run.suspended":
            return [("suspended", visible(data.reason[:200]), event.seq)]
        case "run.resumed":
            return [("resumed", "", event.seq)]
        case "subrun.finished" | "writer.left" | "writer.joined":
            return []
    fields = {name: value for name, value in data if value is not None}
    return [(visible(event.kind[:60]), readable(fields, 300), event.seq)]


def unread_view(event: Unread, address: EventAddress) -> EventView:
    """An event that cannot be read: what stands beside its data."""
    row = event.row
    where = [f"round {row.round}", *([f"in call {visible(row.within[:40])}"] if row.within is not None else [])]
    href = address(row.seq, "")("", 0)
    return EventView(row.seq, visible(row.kind[:80]), "", ", ".join([*where, "damaged"]), href, event.problem)


def unread_nodes(event: Unread) -> list[Node]:
    """Why an event cannot be read, and the beginning of what is stored, as a tree."""
    nodes = [Node("problem", "", "", "other", visible(event.problem))]
    if event.row.body is not None:
        begins = visible(event.row.body[:STORED].decode("utf-8", "backslashreplace"))
        nodes.append(Node("stored", "", "", "other", begins + ("…" if len(event.row.body) > STORED else "")))
    return nodes


def json_nodes(event: Event, address: Address) -> list[Node]:
    """The data of an event, as a tree."""
    return rest_of(event.data.model_dump(exclude_unset=True), address, at=(), start=0)
