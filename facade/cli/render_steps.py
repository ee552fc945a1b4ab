"""Rounds on a terminal: a line for what was decided, and below it what was done.

7  Retry        continue   3.1 ms   “The coupon SPRING takes 40 % off the total.”
├ 7.1  model ask  returned  0.4 ms
├ + totals_checked  true
└ ~ order.total  129.5 → 77.7
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from ..recorder.events import Event
from ..recorder.store import RunInfo
from ..replay.changes import MISSING, Change
from ..replay.edits_told import edit_in_words
from ..replay.outline import CallEntry, RoundEntry
from ..replay.readable import count, readable, visible
from ..replay.state import OpenCall
from ..replay.streamed import given_in_line
from .hints import command
from .output import one_line, visible_lines, write
from .render_runs import error_text, relation
from .runs import STATUS_STYLES, Names, how_long, status_of, when

CHANGES: Final = 8
NOTES: Final = 6
"""So many changes and notes of a round are shown, unless it is shown alone."""

VALUE: Final = 60
TEXT: Final = 100
SHORTEST: Final = 20
DETAIL: Final = 400
"""Characters of a value, of a text (at most and at least), and of what a call was asked and gave, that are shown."""

SIGNS: Final = {"add": "+", "remove": "-", "replace": "~", "move": ">"}
CHANGE_STYLES: Final = {"add": "green", "remove": "red", "replace": "yellow", "move": "cyan"}
CALL_STYLES: Final = {"returned": "green", "failed": "bold red", "cancelled": "yellow", "open": "cyan"}
OUTCOME_STYLES: Final = {"continue": "dim", "complete": "green", "failed": "bold red", "cancelled": "yellow"}


class RunPage:
    """Writes a run.

    Args:
        page: where to.
        names: what runs are called.
        width: digits of the largest round.
        full: write everything; for a round that is shown alone.
        detail: characters of what a call was asked and answered, where that is written.
        short: write a line per round.
    """

    def __init__(
        self,
        page: Console,
        names: Names,
        *,
        width: int,
        full: bool = False,
        short: bool = False,
        detail: int = DETAIL,
    ) -> None:
        self._page = page
        self._names = names
        self._width = width
        self._full = full
        self._short = short
        self._detail = detail
        self._changed = 0  # the last round so far that changed the payload

    # -- the run --------------------------------------------------------------------------------------

    def header(
        self, info: RunInfo, first: Event | None, last: Event | None, in_flight: Iterable[OpenCall] = ()
    ) -> None:
        """Write what is known of the whole run; `in_flight` are the calls that nothing is known of but that."""
        write(self._page, (info.id, "bold"), "  ", (visible(info.agent), "bold"), "  ", status_of(info))
        self._field("uid", info.uid)
        duration = f", took {how_long(info.duration)}" if info.duration is not None else ""
        self._field("started", f"{when(info.started)}{duration}")
        self._field("part of", relation(info, self._names))
        if first is not None and first.kind == "run.started":
            self._started(first.data)
        if last is not None and last.kind == "run.finished":
            self._finished(info, last.data)
        if info.is_partial:
            self._field("partial", f"the rest, after event {info.head_seq}, is not in this store")
        for number, call in enumerate(in_flight):
            text = f"{call.call}  {call.kind} {call.name}, called in round {call.round}"
            self._field("" if number else "in flight", text, STATUS_STYLES.get(info.status, ""))
        write(self._page)

    def _started(self, data: Any) -> None:
        self._field("tags", ", ".join(data.tags))
        self._field("code", code_text(data.entry_point, data.code))
        self._field("applier", f"{data.applier.get('name')}, version {data.applier.get('version')}")
        if data.origin != "recorded":
            source = data.source or {}
            places = [str(source[key]) for key in ("format", "file") if key in source]
            self._field("origin", "  ".join([data.origin, *places]))

    def _finished(self, info: RunInfo, data: Any) -> None:
        if data.stop_reason != "endTurn":
            self._field("stopped", data.stop_reason)
        if data.value is not None:
            self._field("value", readable(data.value, TEXT))
        if data.error is not None:
            self._field("error", error_text(data.error), "red")

    def _field(self, name: str, text: str, style: str = "") -> None:
        if text:
            write(self._page, (f"  {name:9} ", "dim"), (visible(text), style))

    def gap(self, hidden: range, info: RunInfo) -> None:
        """Write that rounds are left out, and how to see them."""
        rounds = count(len(hidden), "more round")
        write(self._page)
        write(
            self._page,
            (f"… {rounds}: ", "dim"),
            (command(f"show {info.id} --rounds {hidden.start}:{hidden.stop - 1}"), "bold"),
        )
        write(self._page)

    def footer(self, info: RunInfo) -> None:
        """Write what to do next."""
        if self._changed and not self._full and not self._short:
            write(self._page)
            typed = command(f"diff {info.id} --step {self._changed}")
            write(self._page, ("What a step changed, and why: ", "dim"), (typed, "bold"))

    # -- a round --------------------------------------------------------------------------------------

    def round(self, entry: RoundEntry) -> None:
        """Write a round; the one before the first only if there is something to say of it."""
        lines = [] if self._short else self._lines(entry)
        if entry.changes:
            self._changed = entry.step
        if entry.step > 0:
            self._headline(entry)
        elif lines:
            write(self._page, f"{0:{self._width}}  ", ("before the first round", "dim"))
        indent = " " * (self._width + 2)
        for number, (line, *more) in enumerate(lines, 1):
            last = number == len(lines)
            write(self._page, (indent + ("└ " if last else "├ "), "dim"), line)
            for detail in more:
                write(self._page, (indent + ("    " if last else "│   "), "dim"), detail)

    def _headline(self, entry: RoundEntry) -> None:
        outcome = entry.outcome or "in progress"
        line = Text.assemble(
            (f"{entry.step:{self._width}}  ", "bold"),
            (f"{visible(entry.word or '–'):11}", "bold" if entry.word not in (None, "Undecided") else "dim"),
            "  ",
            (f"{visible(outcome):8}", OUTCOME_STYLES.get(outcome, "cyan")),
            (f"  {how_long(entry.duration):>8}", "dim"),
        )
        reasoning = entry.reasoning if entry.word != "Undecided" else None
        if reasoning and not self._full:
            # A round is a line, also where a terminal would break it.
            room = min(TEXT, max(self._page.width - line.cell_len - 4, SHORTEST))
            line.append(f"  “{one_line(reasoning, room)}”", "italic")
        write(self._page, line)
        if reasoning and self._full:
            for text in visible_lines(reasoning.strip()):
                write(self._page, " " * (self._width + 2), (text, "italic"))

    def _lines(self, entry: RoundEntry) -> list[list[Text]]:
        """What a round did: each deed a line, and lines of its details."""
        limit = DETAIL if self._full else VALUE
        rest = [
            *[self._child(child.run, child.name, child.status) for child in entry.children],
            *self._cut([change_line(change, limit) for change in entry.changes], CHANGES, "change"),
            *[Text(f"! {one_line(warning, DETAIL)}", "yellow") for warning in entry.warnings],
            *self._cut([line for event in entry.notes for line in note_lines(event)], NOTES, "note"),
        ]
        return [*self._calls(entry.calls), *[[line] for line in rest]]

    def _calls(self, calls: Iterable[CallEntry]) -> list[list[Text]]:
        depth: dict[str, int] = {}
        lines = []
        for call in calls:
            depth[call.call] = depth[call.within] + 1 if call.within in depth else 0
            line = Text.assemble(
                "  " * depth[call.call],
                (f"{visible(call.call)}  ", "dim"),
                (f"{visible(call.kind)} ", "magenta" if call.kind == "model" else "blue"),
                (visible(call.name), "bold"),
                "  ",
                (call.status, CALL_STYLES.get(call.status, "")),
                (f"  {how_long(call.duration)}", "dim"),
            )
            if call.error is not None:
                line.append(f"  {one_line(error_text(call.error), TEXT)}", "red")
            details = []
            if call.asked is not MISSING:
                details.append(Text(f"asked  {readable(call.asked, self._detail)}", "dim"))
            if call.answered is not MISSING or call.streamed is not None:
                details.append(Text(f"gave   {given_in_line(call.streamed, call.answered, self._detail)}", "dim"))
            lines.append([line, *details])
        return lines

    def _child(self, uid: str, agent: str, status: str) -> Text:
        return Text.assemble(
            "↳ ",
            (visible(self._names.of(uid) or ""), "bold"),
            f"  {visible(agent)}  ",
            (visible(status), STATUS_STYLES.get(status, "")),
        )

    def _cut(self, lines: list[Text], limit: int, noun: str) -> list[Text]:
        if self._full or len(lines) <= limit:
            return lines
        return [*lines[: limit - 1], Text(f"… {count(len(lines) - limit + 1, f'more {noun}')}", "dim")]


def change_line(change: Change, limit: int) -> Text:
    """A change of the payload on one line, its values in up to `limit` characters."""
    sign, style = SIGNS[change.kind], CHANGE_STYLES[change.kind]
    line = Text.assemble((f"{sign} ", f"bold {style}"), (visible(change.display), "bold"), "  ")
    if change.kind == "replace":
        return line.append_text(
            Text.assemble((readable(change.old, limit), "red"), " → ", (readable(change.new, limit), "green"))
        )
    if change.from_display is not None:
        line.append(f"from {visible(change.from_display)}  ", style)
    return line.append(readable(change.old if change.new is MISSING else change.new, limit), style)


def note_lines(event: Event) -> list[Text]:
    """An event that is no call, decision or change, on one line; none if it says nothing."""
    data = event.data
    match event.kind:
        case "report":
            parts = [data.message or "", "" if data.content is None else readable(data.content, TEXT)]
            level = f" {data.level}" if data.level else ""
            style = "yellow" if data.level in ("warning", "error", "critical") else "dim"
            return [Text(f"· {visible(data.source + level)}: {one_line(' '.join(filter(None, parts)), TEXT)}", style)]
        case "interrupt.raised":
            reason = "" if data.reason is None else f"  {readable(data.reason, TEXT)}"
            return [Text(f"? {visible(data.name)}{reason}", "magenta")]
        case "interrupt.answered":
            return [Text(f"? answered {visible(data.interrupt)}  {readable(data.response, TEXT)}", "magenta")]
        case "messages.replaced":
            why = f" ({visible(data.why)})" if data.why else ""
            stop = "the end" if data.stop is None else str(data.stop)
            return [Text(f"· messages {data.start} to {stop} replaced by {len(data.messages):,}{why}", "dim")]
        case "writer.joined":
            return [Text(f"· {visible(data.writer)} joined  {visible(data.entry_point or '')}".rstrip(), "dim")]
        case "writer.left" if data.error is not None:
            return [Text(f"· {visible(data.writer)} left: {one_line(error_text(data.error), TEXT)}", "yellow")]
        case "run.forked":
            edits = "; ".join([edit_text(edit, VALUE) for edit in data.edits]) or "nothing is edited"
            return [Text(f"· run again from here: {edits}", "magenta")]
        case "run.suspended":
            return [Text(f"· suspended: {visible(data.reason)}", "magenta")]
        case "run.resumed":
            return [Text("· resumed", "magenta")]
        case "subrun.finished" | "writer.left":
            return []
    return [Text(f"· {visible(event.kind)}  {readable(fields_of(data), TEXT)}", "dim")]


def edit_text(edit: Any, limit: int) -> str:
    """An edit of a re-run, as its log tells it: `set /order/total 129.5`."""
    return edit_in_words(edit, limit)


def fields_of(data: Any) -> Any:
    """The fields of an event's data that say something; where it is one alone, its value."""
    fields = {name: value for name, value in data if value is not None}
    return next(iter(fields.values())) if len(fields) == 1 else fields


def code_text(entry_point: str | None, code: dict[str, Any]) -> str:
    """Where the code of a run was, and which commit: "agent.py:step, commit 1a2b3c4d (changed since)"."""
    commit = code.get("commit")
    parts = [entry_point or ""]
    if isinstance(commit, str):
        parts.append(f"commit {commit[:10]}{' (changed since)' if code.get('dirty') else ''}")
    return ", ".join(filter(None, parts))
