"""The spans of a sample: which solver, agent or tool an event belongs to, and which call it happened within.

`span_begin` and `span_end` mark a span, and each event names the span it is in. A tool runs in a span of type "tool"
that begins right before its tool event, so what happens in that span happens within the call; `subtask` likewise.
Older logs have steps instead, `step` events that begin and end and contain what stands between, and lists of events
inside tool and subtask events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

RUNS_IN: Final = {"tool": "function", "subtask": "name"}
"""Kinds of event that run in a span of the same type, and their field that is the span's name."""


def kind_of(event: dict[str, Any]) -> str:
    """The kind of an event, or "" when it is no text."""
    kind = event.get("event")
    return kind if type(kind) is str else ""


@dataclass(slots=True, eq=False)
class Span:
    """A span or step.

    Attributes:
        call: the call within which it runs; of a tool's own span, the call of the tool.
        apart: whether a store of its own is in use: in subtasks.
    """

    id: str | None
    parent: str | None
    type: str
    name: str
    call: str | None = None
    apart: bool = False
    began: Any = None
    ended: Any = None

    def __str__(self) -> str:
        return self.name if self.type in (self.name, "") else f"{self.type} {self.name}"

    def row(self) -> dict[str, Any]:
        """What the file says of it."""
        shown = {"id": self.id, "parent": self.parent, "type": self.type or None, "name": self.name}
        return {**shown, "began": self.began, "ended": self.ended}


@dataclass(slots=True)
class Spans:
    """The spans that were seen so far.

    Attributes:
        known: by id; the last of the same id.
        steps: the steps that are open, innermost last.
        all: in order.
    """

    known: dict[str, Span] = field(default_factory=dict)
    steps: list[Span] = field(default_factory=list)
    all: list[Span] = field(default_factory=list)
    _fresh: Span | None = None

    def see(self, event: dict[str, Any]) -> bool:
        """Take note of an event before it is handled; returns False for the end of what never began."""
        kind = kind_of(event)
        if kind == "span_begin":
            parent = self.of(event.get("parent_id"))
            span = self._new(event, event.get("id"), event.get("parent_id"))
            if parent is not None:
                span.call, span.apart = parent.call, parent.apart
            if span.id is not None:
                self.known[span.id] = span
            self._fresh = span
            return True
        if kind not in RUNS_IN:
            self._fresh = None
        if kind == "span_end":
            ended = self.of(event.get("id"))
            if ended is None:
                return False
            ended.ended = event.get("timestamp")
        elif kind == "step" and event.get("action") == "begin":
            self.steps.append(self._new(event, None, None))
        elif kind == "step" and event.get("action") == "end":
            if not self.steps:
                return False
            self.steps.pop().ended = event.get("timestamp")
        return True

    def _new(self, event: dict[str, Any], id: Any, parent: Any) -> Span:
        kind, name = event.get("type"), event.get("name")
        span = Span(
            id if type(id) is str else None,
            parent if type(parent) is str else None,
            kind if type(kind) is str else "",
            name if type(name) is str else "",
            began=event.get("timestamp"),
        )
        self.all.append(span)
        return span

    def of(self, id: Any) -> Span | None:
        """The span of an id."""
        return self.known.get(id) if type(id) is str else None

    def taken_by(self, event: dict[str, Any]) -> Span | None:
        """The span that a tool or subtask event runs in: the one that began right before it, if it has its name."""
        fresh, self._fresh = self._fresh, None
        kind = kind_of(event)
        if fresh is None or fresh.type != kind or fresh.name != event.get(RUNS_IN[kind]):
            return None
        place = event.get("span_id")
        return fresh if place is None or place in (fresh.id, fresh.parent) else None

    def call_around(self, event: dict[str, Any]) -> str | None:
        """The call within which an event happened."""
        span = self.of(event.get("span_id"))
        return None if span is None else span.call

    def path(self, event: dict[str, Any]) -> list[str]:
        """The spans or steps around an event, outermost first, such as ["solver generate", "tool search"]."""
        span, found = self.of(event.get("span_id")), list[Span]()
        while span is not None and span not in found and len(found) < 50:
            found.append(span)
            span = self.of(span.parent)
        return [str(span) for span in reversed(found)] or [str(span) for span in self.steps]


def last_own_model(events: Sequence[Any]) -> int:
    """The place of the last model event that is within no call, or -1: the last round begins there."""
    spans, last = Spans(), -1
    for place, event in enumerate(events):
        if type(event) is not dict:
            continue
        spans.see(event)
        kind = kind_of(event)
        if kind in RUNS_IN:
            span = spans.taken_by(event)
            if span is not None:
                span.call = "?"
        elif kind == "model" and spans.call_around(event) is None:
            last = place
    return last
