"""Differences to look at: a row for each change, long texts by words, two states side by side with the rest folded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple

from ..replay.changes import MISSING, Cause, Change
from ..replay.insides import inside_of
from ..replay.paths import Keys
from ..replay.readable import count, readable_pair, visible
from .in_words import INLINE, in_line, in_lines, is_short, kind_of, plain, shown_key, size_in_line, text_in
from .trees import LINES, SIGNS, Address

LONG: Final = 80
"""A text of more characters is compared by words."""

WORDS: Final = 1_500
"""Of more words than this that differ, they are not compared one by one."""

AROUND: Final = 12
"""Words that are shown before and after what differs."""

SHOWN: Final = 1_200
"""Characters of what was replaced as a whole that are shown."""

ROWS: Final = 400
"""Rows of two states side by side that are sent at once."""

_WORD: Final = re.compile(r"\s+|\w+|[^\w\s]")


class Piece(NamedTuple):
    """A piece of two texts: `same`, `old` (of the first only), `new`, or `fold` (what is the same, by its size)."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class CauseRow:
    """What made a change, in a few words; `href` leads to it, `why` is the reason that was given."""

    text: str
    href: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A change.

    Attributes:
        kind: add, remove, replace or move, or unchanged.
        sign: for the eye, beside the colour.
        path: as people write it.
        pointer: as JSON Pointer.
        old, new: the values in a line; empty where there is none.
        old_href, new_href: where they are whole; empty where the line says all.
        words: of long texts, how the words differ.
        was_at: of a move, where the item was.
        blame: where all that ever changed it is; empty if there is no such page.
        note: what else is to be said.
    """

    kind: str
    sign: str
    path: str
    pointer: str
    old: str = ""
    new: str = ""
    old_kind: str = ""
    new_kind: str = ""
    old_href: str = ""
    new_href: str = ""
    words: tuple[Piece, ...] = ()
    was_at: str = ""
    blame: str = ""
    cause: CauseRow | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """A row of two states side by side.

    Attributes:
        depth: how deep it stands.
        kind: as of a change; "inside" of what holds changes, "fold" of what is folded.
        text: of a fold, how much; of what holds changes, how large it is.
        blame: as of a change.
    """

    depth: int
    kind: str
    key: str = ""
    pointer: str = ""
    path: str = ""
    old: str = ""
    new: str = ""
    old_kind: str = ""
    new_kind: str = ""
    text: str = ""
    blame: str = ""

    @property
    def sign(self) -> str:
        """For the eye, beside the colour."""
        return SIGNS.get(self.kind, "")


def change_rows(
    changes: Iterable[Change],
    causes: Callable[[Change], CauseRow | None],
    old_at: Address,
    new_at: Address,
    note_of: Callable[[Change], str] = lambda change: "",
    blame_of: Callable[[Change], str] = lambda change: "",
) -> Iterator[ChangeRow]:
    """The changes as rows.

    Args:
        changes: in order.
        causes: gives what made a change.
        old_at, new_at: give the address of a value in the old and in the new state.
        note_of: gives what else is to be said.
        blame_of: gives the address of what ever changed the value.
    """
    for change in changes:
        row: dict[str, Any] = {"cause": causes(change), "note": note_of(change), "blame": blame_of(change)}
        if change.kind == "move":
            row |= {"was_at": change.from_display or "", "new": in_line(change.new), "new_kind": kind_of(change.new)}
        elif is_text(change):
            row["words"] = tuple(words_between(text_in(change.old) or "", text_in(change.new) or ""))
        elif change.kind == "replace" and is_short(change):
            old, new = readable_pair(change.old, change.new, 2 * INLINE)
            row |= {"old": old, "new": new, "old_kind": kind_of(change.old), "new_kind": kind_of(change.new)}
        else:
            row |= _values(change)
        if _is_cut(change.old):
            row["old_href"] = old_at(change.from_path or change.path, 0)
        if _is_cut(change.new) and change.kind != "move":
            row["new_href"] = new_at(change.path, 0)
        yield ChangeRow(change.kind, SIGNS.get(change.kind, ""), change.display, change.path, **row)


def _values(change: Change) -> dict[str, str]:
    found: dict[str, str] = {}
    for side, value in (("old", change.old), ("new", change.new)):
        if value is not MISSING:
            found |= {side: in_line(value, 2 * INLINE), f"{side}_kind": kind_of(value)}
    return found


def _is_cut(value: Any) -> bool:
    inner = plain(value)
    if value is MISSING or inner is not None:
        return bool(inner)
    return len(text_in(value) or str(value)) > 2 * INLINE


def is_text(change: Change) -> bool:
    """Whether a change is from one text to another, of which one is long."""
    old, new = text_in(change.old), text_in(change.new)
    return old is not None and new is not None and max(len(old), len(new)) > LONG


def words_between(old: str, new: str) -> Iterator[Piece]:
    """How two texts differ, word by word; what is the same for long is folded."""
    a, b = _WORD.findall(old), _WORD.findall(new)
    start = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    most = min(len(a), len(b)) - start
    end = next((at for at in range(most) if a[-1 - at] != b[-1 - at]), most)
    yield from _same(a[:start], is_first=True)
    middle_a, middle_b = a[start : len(a) - end], b[start : len(b) - end]
    if len(middle_a) + len(middle_b) > WORDS:
        yield from _replaced("".join(middle_a), "".join(middle_b))
    else:
        for kind, a1, a2, b1, b2 in SequenceMatcher(None, middle_a, middle_b, autojunk=False).get_opcodes():
            if kind == "equal":
                yield from _same(middle_a[a1:a2])
            else:
                yield from _replaced("".join(middle_a[a1:a2]), "".join(middle_b[b1:b2]))
    yield from _same(a[len(a) - end :], is_last=True)


def _replaced(old: str, new: str) -> Iterator[Piece]:
    for kind, text in (("old", old), ("new", new)):
        piece = "\n".join(text[:SHOWN].split("\n")[: 2 * LINES])
        if piece:
            yield Piece(kind, in_lines(piece))
        if len(piece) < len(text):
            yield Piece("fold", f"{len(text) - len(piece):,} more characters")


def _same(words: Sequence[str], *, is_first: bool = False, is_last: bool = False) -> Iterator[Piece]:
    head = 0 if is_first else AROUND
    tail = 0 if is_last else AROUND
    if len(words) <= head + tail + AROUND:
        if words:
            yield Piece("same", in_lines("".join(words)))
        return
    if head:
        yield Piece("same", in_lines("".join(words[:head])))
    folded = sum(1 for word in words[head : len(words) - tail] if not word.isspace())
    yield Piece("fold", count(folded, "word"))
    if tail:
        yield Piece("same", in_lines("".join(words[len(words) - tail :])))


# -- side by side ---------------------------------------------------------------------------------------------------


def side_by_side(
    new: Any, changes: Sequence[Change], blame_of: Callable[[Change], str] = lambda change: ""
) -> list[Side]:
    """Two states as one tree: what changed, with the old value and the new one; what did not, as counts.

    Tags are gone into where the changes lead into them.

    Args:
        new: the new state's value; the changes hold what is left of the old one.
        changes: that lead to it.
        blame_of: as of `change_rows`.
    """
    walk = _Sides(changes, blame_of)
    rows = list(walk.rows(new, (), 0))
    return [*rows, *walk.left_over()]


class _Sides:
    def __init__(self, changes: Sequence[Change], blame_of: Callable[[Change], str]) -> None:
        self._blame_of = blame_of
        self._at: dict[Keys, Change] = {}
        self._inside: dict[Keys, dict[str | int, None]] = {}
        self._removed: dict[Keys, list[Change]] = {}
        self._count = 0
        for change in changes:
            if change.kind == "remove":
                self._removed.setdefault(change.keys[:-1], []).append(change)
                self._lead_to(change.keys[:-1])
            else:
                known = self._at.get(change.keys)
                self._at[change.keys] = change if known is None or known.kind == "move" else known
                self._lead_to(change.keys)

    def _lead_to(self, keys: Keys) -> None:
        for depth in range(len(keys)):
            self._inside.setdefault(keys[:depth], {})[keys[depth]] = None

    def rows(self, value: Any, at: Keys, depth: int) -> Iterator[Side]:
        change = self._at.get(at)
        if not at and change is not None:
            yield self._changed(change, 0)
            return
        for removed in self._removed.pop(at, ()):
            yield self._changed(removed, depth)
        shown = 0
        value = inside_of(value)
        for key in self._in_order(value, at):
            self._count += 1
            if self._count > ROWS:
                yield Side(depth, "fold", text="more changes than are shown here; the list has them all")
                return
            yield from self._child(key, value[key], (*at, key), depth)
            shown += 1
        if value is not None and shown < len(value):
            yield Side(depth, "fold", text=f"{len(value) - shown:,} unchanged")

    def _child(self, key: str | int, value: Any, at: Keys, depth: int) -> Iterator[Side]:
        change = self._at.get(at)
        leads_on = at in self._inside or at in self._removed
        if change is not None:
            yield self._changed(change, depth)
        if leads_on and inside_of(value) is not None and (change is None or change.kind == "move"):
            if change is None:
                yield Side(depth, "inside", shown_key(key), text=size_in_line(value))
            yield from self.rows(value, at, depth + 1)

    def _in_order(self, value: Any, at: Keys) -> list[str | int]:
        """The children of a container in which something changed, in its order."""
        keys = self._inside.get(at, {})
        if type(value) is list:
            return sorted(key for key in keys if isinstance(key, int) and key < len(value))
        if value is None:
            return []
        known = [key for key in keys if key in value]
        return known if len(known) * 8 < len(value) else [key for key in value if key in keys]

    def left_over(self) -> Iterator[Side]:
        """What was removed from containers that stand elsewhere now."""
        for changes in self._removed.values():
            for change in changes:
                yield self._changed(change, 0, whole=True)

    def _changed(self, change: Change, depth: int, *, whole: bool = False) -> Side:
        key = change.display if whole or not change.keys else shown_key(change.keys[-1])
        old = new = ""
        if change.kind == "replace" and is_short(change):
            old, new = readable_pair(change.old, change.new, INLINE)
        else:
            old = "" if change.old is MISSING else in_line(change.old)
            new = "" if change.new is MISSING else in_line(change.new)
        if change.kind == "move":
            old = change.from_display or ""
        return Side(
            depth,
            change.kind,
            key,
            change.path,
            change.display,
            old,
            new,
            "" if change.old is MISSING else kind_of(change.old),
            "" if change.new is MISSING else kind_of(change.new),
            blame=self._blame_of(change),
        )


# -- causes ---------------------------------------------------------------------------------------------------------

_KINDS: Final[Mapping[str, str]] = {
    "run.started": "the start of the run",
    "message.added": "a message",
    "messages.replaced": "an edit of the messages",
    "model.returned": "the model",
    "scratchpad.changed": "the decision",
    "memory.written": "the decision",
    "skill.activated": "the decision",
    "plan.proposed": "the decision",
    "media.promoted": "the decision",
}


def cause_row(
    cause: Cause | None, steps_url: str, calls: Mapping[str, tuple[int, str]], step: int | None = None, run: str = ""
) -> CauseRow | None:
    """What made a change, in a few words.

    Args:
        cause: as the difference names it.
        steps_url: address of the steps of its run.
        calls: of those that are known, call id → (seq of its first event, "tool quote").
        step: the one that is looked at: its number is not told.
        run: the run's name, where it is not that of the page.
    """
    if cause is None:
        return None
    call = calls.get(cause.call) if cause.call is not None else None
    if call is not None:
        text, anchor = call[1], f"c{call[0]}"
    elif cause.call is not None:
        text, anchor = f"call {visible(cause.call[:40])}", f"e{cause.seq}"
    else:
        text, anchor = _KINDS.get(cause.kind, "request"), f"e{cause.seq}"
    where = [text, run, f"step {cause.step}" if cause.step != step else ""]
    return CauseRow(", ".join(filter(None, where)), f"{steps_url}/{cause.step}#{anchor}", cause.why or "")
