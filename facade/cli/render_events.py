"""Events on a terminal, one a line: its number, when, its kind, and what tells it from others of the kind.

 9  12:04:31  round.started       2
10  12:04:31  tool.called         2.1  lookup_order  {"order_id": "A-17"}
11  12:04:31  tool.returned       2.1  lookup_order  3.1 ms  {5 keys, 212 bytes}
12  12:04:31  payload.changed     1 added, 2 updated  needed for the policy check
"""

from __future__ import annotations

from typing import Any, Final

from rich.console import Console
from rich.text import Text

from ..recorder.events import Event, UnknownEvent
from ..recorder.store import RunInfo
from ..replay.outline import warnings_of
from ..replay.readable import readable, visible
from ..replay.streamed import given_in_line, streamed_of
from .output import one_line, write
from .render_runs import error_text
from .render_steps import CALL_STYLES, OUTCOME_STYLES, TEXT, code_text, fields_of, note_lines
from .runs import STATUS_STYLES, Names, how_long

KIND: Final = 18
"""Columns of a kind; none of ours is longer."""

KIND_STYLES: Final = {
    "run": "bold", "round": "bold", "model": "magenta", "tool": "blue", "step": "bold", "payload": "yellow",
}  # fmt: skip
"""By the family of the kind; the others are dim."""

COUNTED: Final = {"additions": "added", "updates": "updated", "deletions": "removed"}


class EventPage:
    """Writes events.

    Args:
        page: where to.
        names: what runs are called.
    """

    def __init__(self, page: Console, names: Names) -> None:
        self._page = page
        self._names = names
        self._calls: dict[str, tuple[int, str]] = {}  # call → how deep it is nested, and its name

    def header(self, info: RunInfo) -> None:
        """Write which run it is."""
        status = (visible(info.status), STATUS_STYLES.get(info.status, ""))
        write(self._page, (info.id, "bold"), "  ", (visible(info.agent), "bold"), "  ", status)

    def event(self, event: Event) -> None:
        """Write an event; of a long line a terminal gets what fits."""
        kind = visible(event.kind)
        depth = self._calls[event.within][0] + 1 if event.within in self._calls else 0
        line = Text.assemble(
            (f"{event.seq:4}  {event.time.astimezone():%H:%M:%S}  ", "dim"),
            (f"{kind:{KIND}}  ", KIND_STYLES.get(kind.partition(".")[0], "dim")),
            "  " * depth,
        )
        if isinstance(event, UnknownEvent):  # of a kind that is not known here, or without its body
            line.append(readable(fields_of(event.data), TEXT) if fields_of(event.data) else "")
        elif kind.startswith(("model.", "tool.", "call.")):
            line.append_text(self._call(event, depth))
        elif kind.startswith("subrun."):
            word = event.data.name if kind == "subrun.started" else event.data.status
            line.append_text(_joined(self._names.of(event.data.run), word, style="bold"))
        else:
            line.append_text(told(event))
        if self._page.is_terminal:
            line.truncate(self._page.width, overflow="ellipsis")
        write(self._page, line)

    def _call(self, event: Event, depth: int) -> Text:
        """Which call it is, what it was asked, and what came of it."""
        data, (family, _, what) = event.data, event.kind.partition(".")
        line = Text.assemble((f"{visible(data.call)}  ", "dim"))
        if what == "called":
            self._calls[data.call] = depth, data.name
            line.append(visible(data.name), "bold")
            if family == "model":
                return line.append(f"  {visible(data.model)}" if data.model else "")
            return line.append(f"  {readable(data.arguments if data.raw is None else data.raw, TEXT)}")
        # A call that was cancelled may still return, and then its name is said once more.
        _, name = self._calls.get(data.call, (0, ""))
        if what != "cancelled":
            self._calls.pop(data.call, None)
        line.append(visible(name))
        if (duration := how_long(getattr(data, "duration", None))) != "":
            line.append(f"  {duration}", "dim")
        if what == "failed":
            line.append(f"  {one_line(error_text(data.error), TEXT)}", CALL_STYLES["failed"])
        elif what == "returned":
            given = data.result if family == "tool" else data.response
            line.append(f"  {given_in_line(streamed_of(data), given, TEXT)}")
        return line


def told(event: Event) -> Text:
    """What an event that is of no call says."""
    data: Any = event.data
    match event.kind:
        case "run.started":
            return _joined(code_text(data.entry_point, data.code))
        case "run.forked":
            return _joined(f"from {data.parent} behind event {data.seq}")
        case "run.suspended":
            return _joined(data.reason, *data.interrupts)
        case "run.resumed":
            return _joined(*data.answers)
        case "run.finished":
            line = Text(visible(data.status), STATUS_STYLES.get(data.status, ""))
            if data.error is not None:
                return line.append(f"  {one_line(error_text(data.error), TEXT)}", "red")
            return line.append("" if data.value is None else f"  {readable(data.value, TEXT)}")
        case "round.started":
            return Text(str(event.round), "bold")
        case "round.finished":
            outcome = (visible(data.outcome), OUTCOME_STYLES.get(data.outcome, ""))
            return Text.assemble((str(event.round), "bold"), "  ", outcome, (f"  {how_long(data.duration)}", "dim"))
        case "step.decided":
            decision = data.decision
            return _joined(decision.get("step"), decision.get("reasoning") or decision.get("message"), style="bold")
        case "payload.changed":
            counts = [f"{data.counts[name]} {word}" for name, word in COUNTED.items() if data.counts.get(name)]
            line = _joined(", ".join(counts) or "no change", data.reason)
            return line.append("".join(f"  ! {one_line(warning, TEXT)}" for warning in warnings_of(event)), "yellow")
        case "value.read":
            return _joined(data.source, readable(data.value, TEXT))
        case "message.added":
            return _message(data.message)
        case "writer.left" if data.error is None:
            return _joined(data.writer)
        case (
            "report" | "interrupt.raised" | "interrupt.answered" | "messages.replaced" | "writer.joined" | "writer.left"
        ):
            return note_lines(event)[0][2:]  # without the sign at its beginning
    return Text(readable(fields_of(data), TEXT))


def _message(message: Any) -> Text:
    """Who says something, and how it begins."""
    if isinstance(message, dict) and isinstance(message.get("role"), str) and isinstance(message.get("content"), str):
        return _joined(message["role"], message["content"])
    return Text(readable(message, TEXT))


def _joined(*parts: Any, style: str = "") -> Text:
    """The parts that are texts and say something, on one line; the first may have a style."""
    texts = [one_line(part, TEXT) for part in parts if isinstance(part, str) and part]
    return Text.assemble((texts[0], style), *(f"  {text}" for text in texts[1:])) if texts else Text("")
