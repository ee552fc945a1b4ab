"""Changes on a terminal: one line each, short, and with the types in sight.

    ~ order.total  120.0 → 95.5
    + order.refund  {"amount": 24.5}
    - order.draft  true
    > items[0]  from items[3]  {"sku": "A-17"}
    ~ notes  text, 1,204 → 1,210 characters
        - …the parcel was shipped to the cus…
        + …the parcel was delivered to the cus…

Small values are written whole, large ones summed up by their size, long texts reduced to what differs in them. Old and
new never look the same: where they would, they are written in ASCII, or with a fingerprint of their content. Output
that is no terminal gets the same lines without colours; no line is ever cut or broken at a width.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import Final

from rich.console import Console
from rich.text import Text

from ..replay.changes import Cause, Change, summary_of
from ..replay.readable import count, looks_like, readable, readable_pair, visible

LIMIT: Final = 160
"""Characters of a value, or of a line of text, that are written whole."""

_CONTEXT = 30  # characters of unchanged text on either side of a change
_LINES = 40  # lines of one text that are shown
# Comparing the lines of two texts costs up to the product of their numbers.
_COMPARISONS = 1_000_000
_LOOKED_AT = 4_000  # characters of a line that are examined for looking like another
_STYLES = {"add": "green", "remove": "red", "replace": "yellow", "move": "cyan"}
_SIGNS = {"add": "+", "remove": "-", "replace": "~", "move": ">"}


def render_changes(changes: Sequence[Change], console: Console, *, limit: int | None = LIMIT) -> None:
    """Write changes and a last line that counts them.

    Args:
        changes: what to write. Those that have a cause stand under it, in the order of the events.
        console: where to; it decides about colours.
        limit: characters of a value or line that are written whole; None writes everything.
    """
    for cause, group in _by_cause(changes):
        render_group(cause, group, console, limit=limit)
    _Page(console, limit).line(Text(summary_of(changes), style="bold"))


def render_group(
    cause: Cause | None, changes: Iterable[Change], console: Console, *, limit: int | None = LIMIT
) -> None:
    """Write changes under the event that made them, if it is known. Arguments as for `render_changes`."""
    page = _Page(console, limit)
    if cause is not None:
        page.heading(cause)
    for change in changes:
        page.change(change)


def _by_cause(changes: Sequence[Change]) -> list[tuple[Cause | None, list[Change]]]:
    groups: dict[Cause | None, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.cause, []).append(change)
    return sorted(groups.items(), key=lambda group: (group[0] is None, group[0].seq if group[0] else 0))


@dataclass(frozen=True, slots=True)
class _Part:
    """A line about a text: its sign, and its pieces with whether they differ from the other text."""

    sign: str
    pieces: tuple[tuple[str, bool], ...]


def _text_parts(old: str, new: str, limit: int | None) -> Iterator[_Part]:
    """Give what differs in two long texts: by lines, and within lines by characters."""
    if "\n" not in old and "\n" not in new:
        yield from _line_parts(old, new, limit)
        return
    a, b = old.split("\n"), new.split("\n")
    start, end = _ends(a, b)
    middle_a, middle_b = a[start : len(a) - end], b[start : len(b) - end]
    blocks = [("replace", 0, len(middle_a), 0, len(middle_b))]
    if len(middle_a) * len(middle_b) <= _COMPARISONS:
        blocks = [block for block in SequenceMatcher(None, middle_a, middle_b).get_opcodes() if block[0] != "equal"]
    for _, i1, i2, j1, j2 in blocks:
        yield _Part("@", ((f"line {start + j1 + 1:,}", False),))
        if start + i1:
            yield _Part(" ", ((_shortened(a[start + i1 - 1], limit), False),))
        if i2 - i1 == j2 - j1:
            for before, after in zip(middle_a[i1:i2], middle_b[j1:j2], strict=True):
                yield from _line_parts(before, after, limit)
        else:
            yield from [_Part("-", ((_shortened(line, limit), False),)) for line in middle_a[i1:i2]]
            yield from [_Part("+", ((_shortened(line, limit), False),)) for line in middle_b[j1:j2]]


def _line_parts(old: str, new: str, limit: int | None) -> Iterator[_Part]:
    """Give an old and a new line, each as what is common before, what differs, and what is common after."""
    start, end = _ends(old, new)
    middles = old[start : len(old) - end], new[start : len(new) - end]
    strict = visible(middles[0]) == visible(middles[1])
    if len(middles[0]) + len(middles[1]) <= _LOOKED_AT:
        strict = strict or looks_like(*middles)
    cut = limit is not None and max(len(old), len(new)) > limit
    before, after = old[:start], old[len(old) - end :]
    if cut and len(before) > _CONTEXT:
        before = "…" + before[-_CONTEXT:]
    if cut and len(after) > _CONTEXT:
        after = after[:_CONTEXT] + "…"
    for sign, middle in zip("-+", middles, strict=True):
        pieces = (visible(before), False), (_shortened(middle, limit, strict=strict), True), (visible(after), False)
        yield _Part(sign, tuple([piece for piece in pieces if piece[0]]))


def _ends(old: Sequence[object], new: Sequence[object]) -> tuple[int, int]:
    """Count what two texts, or lists of lines, have in common at the start and, beyond that, at the end."""
    shortest = min(len(old), len(new))
    start = bisect_left(range(1, shortest + 1), True, key=lambda n: old[:n] != new[:n])
    left = shortest - start
    end = bisect_left(range(1, left + 1), True, key=lambda n: old[len(old) - n :] != new[len(new) - n :])
    return start, end


def _shortened(text: str, limit: int | None, *, strict: bool = False) -> str:
    if limit is None or len(text) <= limit:
        return visible(text, strict=strict)
    half = limit // 2
    left_out = len(text) - 2 * half
    return (
        f"{visible(text[:half], strict=strict)}… {count(left_out, 'character')} …"
        f"{visible(text[len(text) - half :], strict=strict)}"
    )


class _Page:
    """Writes lines that the console can encode."""

    def __init__(self, console: Console, limit: int | None) -> None:
        self._console = console
        self._limit = limit
        self._encoding = console.encoding
        self._arrow = self._printable(" → ", " -> ")
        self._dash = self._printable(" — ", " - ")
        self._dots = self._printable("…", "...")

    def line(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True, highlight=False)

    def heading(self, cause: Cause) -> None:
        inside = f" in call {cause.call}" if cause.call else ""
        text = Text(f"step {cause.step}, event {cause.seq}: ", style="bold")
        text.append(self._printable(visible(f"{cause.kind}{inside}")))
        if cause.why:
            text.append(self._dash + self._printable(visible(cause.why)), style="italic not bold")
        self.line(text)

    def change(self, change: Change) -> None:
        style = _STYLES[change.kind]
        text = Text()
        text.append(f"{_SIGNS[change.kind]} ", style=f"bold {style}")
        text.append(self._printable(change.display), style="bold")
        text.append("  ")
        if change.kind == "replace":
            self._replaced(text, change)
            return
        if change.from_display is not None:
            text.append(self._printable(f"from {change.from_display}  "), style=style)
        text.append(self._value(change.old if change.kind == "remove" else change.new), style=style)
        self.line(text)

    def _replaced(self, text: Text, change: Change) -> None:
        old, new = change.old, change.new
        if isinstance(old, str) and isinstance(new, str) and self._is_long(old, new):
            lengths = f"text, {len(old):,}{self._arrow}{count(len(new), 'character')}"
            text.append(lengths, style=_STYLES["replace"])
            self.line(text)
            self._parts(_text_parts(old, new, self._limit))
            return
        before, after = readable_pair(old, new, self._limit)
        text.append(self._printable(before), style="red")
        text.append(self._arrow)
        text.append(self._printable(after), style="green")
        self.line(text)

    def _is_long(self, old: str, new: str) -> bool:
        longest = max(len(old), len(new))
        return longest > (LIMIT if self._limit is None else self._limit)

    def _parts(self, parts: Iterator[_Part]) -> None:
        for part in parts if self._limit is None else islice(parts, _LINES):
            self._part(part)
        if rest := sum(1 for _ in parts):
            self.line(Text(f"    {self._dots} {count(rest, 'more line')}", style="dim"))

    def _part(self, part: _Part) -> None:
        style = {"-": "red", "+": "green"}.get(part.sign, "dim")
        text = Text(f"    {part.sign} ", style=style)
        for piece, changed in part.pieces:
            text.append(self._printable(piece), style=f"{style} reverse" if changed and len(part.pieces) > 1 else style)
        self.line(text)

    def _value(self, value: object) -> str:
        return self._printable(readable(value, self._limit))

    def _printable(self, text: str, instead: str | None = None) -> str:
        """Give text, or where the console cannot encode it `instead`, or the text with escapes."""
        try:
            text.encode(self._encoding)
        except (UnicodeEncodeError, LookupError):
            return text.encode("ascii", "backslashreplace").decode("ascii") if instead is None else instead
        return text
