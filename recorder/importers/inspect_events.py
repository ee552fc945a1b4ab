"""The events of a sample, as rounds.

Each model event that is within no call begins a round; what comes before the first is round 0, and everything up to the
next belongs to it, in the order of the file. (`working_start` is no help there: its zero changes within a file.)

| event | becomes |
|---|---|
| `model` | a model call: its messages, tools and choice of tool are the request, its output is the response |
| `tool`, `subtask` | a tool call; what happens in its span, or in its own list of events, happens within it |
| `state`, `store` | a change of the payload (`inspect_payload`) |
| `span_begin`, `span_end`, `step` | the table of spans, a report at the end; names in the reasons of changes |
| `sample_init` | the starting payload, and a report |
| others that are known | a report that has the event's name as `event` and what it holds |
| others | a report, counted as unknown |

A field of an event that has no place of its own stands in the field `inspect` of what it became. A call that is
`pending` never ended, and stays open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from .builder import duration_between
from .conversation import within
from .importing import Importing
from .inspect_messages import Conversation, End, decision_of, failure_of, messages_in, text_of
from .inspect_payload import Documents
from .inspect_refs import References
from .inspect_run import SampleRun, error_info
from .inspect_spans import Spans, last_own_model
from .source import clean_text, seconds_of, time_of

ANY_LIST: Final = (list, type(None))
ANY_DICT: Final = (dict, type(None))

SHAPES: Final[dict[str, dict[str, tuple[type, ...]]]] = {
    "model": {"model": (str,), "input": (list,), "output": (dict,), "config": ANY_DICT, "tools": ANY_LIST},
    "tool": {"function": (str,), "arguments": ANY_DICT, "events": ANY_LIST},
    "subtask": {"name": (str,), "events": ANY_LIST},
    "state": {"changes": (list,)},
    "store": {"changes": (list,)},
    "span_begin": {"id": (str,), "name": (str,)},
    "span_end": {"id": (str,)},
    "step": {"action": (str,), "name": (str,)},
    "sample_init": {"state": ANY_DICT},
    "logger": {"message": (dict,)},
}
"""Kind of event → the types of the fields that are read here; where None is one of them, the field may be missing."""

TOLD: Final = frozenset(
    [
        "anchor",
        "approval",
        "branch",
        "checkpoint",
        "compaction",
        "error",
        "info",
        "input",
        "interrupt",
        "logger",
        "review",
        "sample_init",
        "sample_limit",
        "sandbox",
        "score",
        "score_edit",
        "sentinel",
    ]
)
"""Kinds of event that become reports."""

LEVELS: Final = {"error": "error", "sample_limit": "warning", "interrupt": "warning"}

ENVELOPE: Final = frozenset(("event", "timestamp"))
ENDED: Final = ENVELOPE | {"completed", "error"}
MODEL_FIELDS: Final = ENDED | {"model", "input", "tools", "tool_choice", "config", "output", "traceback", "call"}
TOOL_FIELDS: Final = ENDED | {"id", "function", "arguments", "result", "events", "truncated"}
SUBTASK_FIELDS: Final = ENDED | {"name", "input", "result", "events"}
CHANGE_FIELDS: Final = ENVELOPE | {"changes"}

RAW_FIELDS: Final = frozenset(("request", "response"))

RAW_MESSAGES: Final = ("messages", "contents", "input", "inputs")
"""Fields of a raw request that hold the conversation."""

UNSAID: Final = ("exception", "the tool raised an exception; the error of the sample has it")
"""The failure of a tool of which only that is known."""

SAID: Final = ("action", "cmd", "file", "type", "source", "decision")
"""Fields of an event that its report says in its message."""

LONGEST: Final = 500
"""Characters of the message of a report; its content has everything."""


@dataclass(slots=True)
class Events:
    """Builds a run from the events of a sample.

    Attributes:
        work: what is imported.
        run: what is built.
        refs: the attachments and pools of the sample.
        documents: the payload.
        talk: the conversation.
        end: how the run ended.
        outputs: what the model calls gave.
        started_from: the state that became the starting payload.
    """

    work: Importing
    run: SampleRun
    refs: References
    documents: Documents
    talk: Conversation
    end: End
    started_from: Any = None
    outputs: list[Any] = field(default_factory=list)
    spans: Spans = field(default_factory=Spans)
    _last: int = -1
    _ends: dict[str, _Ending] = field(default_factory=dict)

    def add(self, events: Sequence[Any], where: str) -> None:
        """Add all events; the last round is left open."""
        self._last = last_own_model(events)
        self._walk(events, where, None, False)
        for ending in self._ends.values():
            self._tool_ended(ending)
        self._ends.clear()
        if self.spans.all:
            self.run.report("the spans of the sample", [span.row() for span in self.spans.all], event="spans")

    def _walk(self, events: Sequence[Any], where: str, call: str | None, apart: bool) -> None:
        """Add a list of events: those of the sample, or those within a call."""
        for place, event in enumerate(events):
            here = f"{where}[{place}]"
            if type(event) is not dict:
                self.work.damage(self.run, f"{here} is no object", event)
                self.work.tally.count(False)
                continue
            kind = event.get("event")
            around = self.spans.call_around(event) if call is None else call
            if type(kind) is not str or (kind not in SHAPES and kind not in TOLD):
                self._unknown(event, here, around)
                continue
            flaws = _flaws(event, SHAPES.get(kind, {}))
            if call is None and not self.spans.see(event):
                flaws.append("it ends what never began")
            self.run.at(time_of(event.get("timestamp")))
            last = call is None and place == self._last
            with self.run.inside(around):
                flaws += self._one(kind, event, here, call, apart, last)
                if flaws:
                    self.work.damage(self.run, f"{here} ({kind}): {'; '.join(flaws)}", event)
            self.work.tally.count(not flaws)

    def _one(self, kind: str, event: dict[str, Any], here: str, call: str | None, apart: bool, last: bool) -> list[str]:
        """Add one event; returns what is wrong with it beyond the types of its fields."""
        if kind == "model":
            return self._model(event, last)
        if kind in ("tool", "subtask"):
            return self._tool(kind, event, here, call, apart)
        if kind in ("state", "store"):
            return self._change(kind, event, apart)
        if kind == "span_begin":
            if type(event.get("id")) is str:
                self.documents.begin(event["id"])
        elif kind == "span_end":
            self._span_ended(event)
        elif kind == "step":
            if event.get("action") == "begin":
                self.documents.push()
            elif event.get("action") == "end":
                self.documents.pop()
        else:
            self._report(kind, event)
        return []

    # -- model calls ---------------------------------------------------------------------------------------

    def _model(self, event: dict[str, Any], last: bool) -> list[str]:
        event, flaws = self.refs.resolve_event(event)
        messages = messages_in(event.get("input"))
        own = self.run.within is None
        belongs = own and self.talk.holds(messages)
        if own:
            self._next_round(messages if belongs else None, time_of(event.get("timestamp")))
        call = self.run.model_called(
            _request(event),
            model=event["model"] if type(event.get("model")) is str else None,
            parameters=event["config"] if type(event.get("config")) is dict else None,
        )
        path = self.spans.path(event)
        self.run.note(path=path or None, inspect=_rest(event, MODEL_FIELDS))
        output = event.get("output")
        self.outputs.append(output)
        message = _answer(output)
        failure = event.get("error")
        if not (event.get("pending") and event.get("completed") is None):
            self._model_ended(call, event, message)
        if own:
            if belongs and message is not None:
                self.talk.add(message)
            why = clean_text(str(failure)) if failure else ""
            self.run.decide(decision_of(message, self.end if last else None, why), text_of(message) or None)
        return flaws

    def _model_ended(self, call: str, event: Mapping[str, Any], message: Any) -> None:
        ended, output, raw = time_of(event.get("completed")), event.get("output"), event.get("call")
        duration = _duration(event, ended)
        self.run.at(ended)
        raw = raw if type(raw) is dict else {}
        if event.get("error"):
            error = error_info({"message": event["error"], "traceback": event.get("traceback")})
            self.run.model_failed(call, error, duration)
            self.run.note(response=output)
        else:
            choices = output.get("choices") if type(output) is dict else None
            first = choices[0] if type(choices) is list and choices else None
            self.run.model_returned(
                call,
                output,
                usage=output.get("usage") if type(output) is dict else None,
                stop_reason=first.get("stop_reason") if type(first) is dict else None,
                duration=duration,
            )
        self.run.note(api_response=raw.get("response"), api=_rest(raw, RAW_FIELDS))

    def _next_round(self, messages: list[Any] | None, time: datetime | None) -> None:
        """Begin a round; what leads up to its model call still belongs to the one before."""
        led = messages is None or self.talk.lead_up(messages)
        if self.run.round:
            self.run.end_round()
        self.run.at(time)
        self.run.begin_round()
        if not led and messages is not None:
            self.talk.become(messages, "the conversation that this model call was made with")

    # -- tools and subtasks ----------------------------------------------------------------------------------

    def _tool(self, kind: str, event: dict[str, Any], here: str, call: str | None, apart: bool) -> list[str]:
        around, nested = self.run.within, event.get("events")
        shown = self.refs.resolve({name: value for name, value in event.items() if name != "events"})
        span = self.spans.taken_by(event) if call is None else None
        if kind == "tool":
            name, arguments, fields = shown.get("function"), shown.get("arguments"), TOOL_FIELDS
        else:
            name, arguments, fields = shown.get("name"), shown.get("input"), SUBTASK_FIELDS
        made = self.run.tool_called(name if type(name) is str else "", arguments, tool_call=shown.get("id"))
        self.run.note(event="subtask" if kind == "subtask" else None, inspect=_rest(shown, fields))
        if span is not None:
            span.call, span.apart = made, span.apart or kind == "subtask"
        if type(nested) is list and nested:
            self.documents.push()
            self._walk(nested, f"{here}.events", made, apart or kind == "subtask")
            self.documents.pop()
        if shown.get("pending") and shown.get("completed") is None:
            return []
        if span is not None and span.id is not None:
            self._ends[span.id] = _Ending(made, shown, around)
        else:
            self._tool_ended(_Ending(made, shown, around))
        return []

    def _span_ended(self, event: Mapping[str, Any]) -> None:
        id = event.get("id")
        if type(id) is str:
            self.documents.end(id)
            if id in self._ends:
                self._tool_ended(self._ends.pop(id))

    def _tool_ended(self, ending: _Ending) -> None:
        event = ending.event
        ended, result, error = time_of(event.get("completed")), event.get("result"), event.get("error")
        duration = _duration(event, ended)
        with self.run.inside(ending.around):
            self.run.at(ended)
            if error or event.get("failed") is True:
                self.run.tool_failed(ending.call, *(failure_of(error) if error else UNSAID), duration)
                self.run.note(result=result or None)
            else:
                self.run.tool_returned(ending.call, result, duration)
            self.run.note(truncated=event.get("truncated"))
            self.run.ends_in_its_round(ending.call)

    # -- the rest --------------------------------------------------------------------------------------------

    def _change(self, document: str, event: dict[str, Any], apart: bool) -> list[str]:
        span, path = self.spans.of(event.get("span_id")), self.spans.path(event)
        changes = self.refs.resolve(event.get("changes"))
        if apart or (span is not None and span.apart):
            self.run.report(f"a change of the {document} of a subtask, which is its own", changes, event=document)
            return []
        where = path[-1] if path else f"call {self.run.within}" if self.run.within else "the sample"
        reason = f"what {where} changed of the {document}"
        failure = self.documents.change(
            document, changes, span=event.get("span_id"), call=self.run.within, reason=clean_text(reason)
        )
        if failure:
            return [f"its patch does not apply: {failure}"]
        if self.run.events[-1].kind == "payload.changed":
            self.run.note(inspect=_rest(event, CHANGE_FIELDS))
        return []

    def _report(self, kind: str, event: dict[str, Any]) -> None:
        content = _rest(self.refs.resolve(event), ENVELOPE) or {}
        if kind == "sample_init" and event.get("state") is self.started_from:
            content.pop("state", None)  # it is the starting payload
        told = content.get("message")
        if kind == "logger" and type(told) is dict:
            level, text = told.get("level"), told.get("message")
            level = clean_text(level.lower()) if type(level) is str else "info"
            self.run.report(text if type(text) is str else kind, content, level=level, event=kind)
            self.run.note(source="log")
            return
        words = [kind, *(content.get(name) for name in SAID), told]
        words += [within(content, "error", "message"), within(content, "score", "value")]
        text = " · ".join(str(word) for word in words if type(word) in (str, int, float))
        self.run.report(text[:LONGEST], content, level=LEVELS.get(kind, "info"), event=kind)

    def _unknown(self, event: dict[str, Any], here: str, around: str | None) -> None:
        kind = event.get("event")
        shown = clean_text(kind) if type(kind) is str else "without a kind"
        self.work.tally.unknown += 1
        with self.run.inside(around):
            self.work.keep_field(self.run, f"event {shown}", self.refs.resolve(event), here)


@dataclass(frozen=True, slots=True)
class _Ending:
    """A tool call that has been made and is to be ended."""

    call: str
    event: dict[str, Any]
    around: str | None


def _flaws(event: Mapping[str, Any], shape: Mapping[str, tuple[type, ...]]) -> list[str]:
    """What of an event is not of its type."""
    flaws = [f"`{name}` is not of its type" for name, types in shape.items() if type(event.get(name)) not in types]
    for name in ("timestamp", "completed"):
        if event.get(name) is not None and time_of(event[name]) is None:
            flaws.append(f"`{name}` is no time")
    return flaws


def _rest(values: Mapping[str, Any], placed: frozenset[str]) -> dict[str, Any] | None:
    """The fields that have no place of their own, or None when there are none."""
    return {name: value for name, value in values.items() if name not in placed and value is not None} or None


def _duration(event: Mapping[str, Any], ended: datetime | None) -> float | None:
    """Seconds that a call took: by the clock, else as the file counts them."""
    output = event.get("output")
    measured = output.get("time") if type(output) is dict else None
    between = duration_between(time_of(event.get("timestamp")), ended)
    return next(
        (s for s in (between, seconds_of(measured), seconds_of(event.get("working_time"))) if s is not None), None
    )


def _request(event: Mapping[str, Any]) -> dict[str, Any]:
    """What a model was asked: messages and tools; and the raw request, its messages apart, as those are stored once."""
    request = {"messages": event.get("input")}
    request |= {name: event[name] for name in ("tools", "tool_choice") if event.get(name) not in (None, [])}
    call = event.get("call")
    raw = call.get("request") if type(call) is dict else None
    if type(raw) is dict:
        key = next((name for name in RAW_MESSAGES if type(raw.get(name)) is list), None)
        request["api_request"] = {name: value for name, value in raw.items() if name != key}
        if key is not None:
            request["api_messages"] = raw[key]
    elif raw is not None:
        request["api_request"] = raw
    return request


def _answer(output: Any) -> dict[str, Any] | None:
    """The message of a model's output, the first of its choices."""
    choices = output.get("choices") if type(output) is dict else None
    first = choices[0] if type(choices) is list and choices else None
    message = first.get("message") if type(first) is dict else None
    return message if type(message) is dict else None
