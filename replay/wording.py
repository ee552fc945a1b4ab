"""Differences in words: what is new, gone, renamed, moved or has another value, on one line and never too long.

Names and values were recorded, so they may hold anything and be of any size: they are made harmless and cut.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final

from ..recorder.values import is_tag
from .changes import Change
from .equality import same
from .paths import Keys, display_keys
from .readable import count, looks_like, quoted, readable, readable_pair, visible

LIMIT: Final = 200
"""Characters of a value, or a name, that are written whole."""

_SHORT: Final = 60  # characters of a value that is not the main thing
_FEW: Final = 3  # changes that are told
_ARGUMENTS: Final = 5  # arguments of a call that are written
_BEFORE, _AFTER = 30, 100  # characters of a long text that are shown before and after the place where it differs


def shown_name(text: str) -> str:
    """A recorded name: short, and harmless."""
    return visible(text[:LIMIT])


def changes_in_words(changes: Sequence[Change]) -> list[str]:
    """The first few of some changes, each in some words, and how many there are besides."""
    told = [_in_words(change) for change in changes[:_FEW]]
    return [*told, f"{len(changes) - _FEW:,} more"] if len(changes) > _FEW else told


def _in_words(change: Change) -> str:
    place = change.display[:LIMIT] if change.keys else "the whole"
    if change.kind == "move":
        return f"{place} was {(change.from_display or '')[:LIMIT]}"
    if change.kind == "add":
        return f"{place} is new: {readable(change.new, _SHORT)}"
    if change.kind == "remove":
        return f"{place} is gone: {readable(change.old, _SHORT)}"
    return f"{place} {' → '.join(readable_pair(change.old, change.new, _SHORT))}"


def change_in_a_sentence(changes: Sequence[Change], noun: str) -> str:
    """Say of the first change whether a name, a value or an order is another one."""
    first = changes[0]
    pair = renaming(changes)
    if pair is not None:
        old, new = pair[0].keys[-1], pair[1].keys[-1]
        if first.kind == "add":
            old, new = new, old
        return f"{_place((*first.keys[:-1], old), noun)} is called {quoted(str(new)[:LIMIT])} now"
    if first.kind == "move":
        return f"{_place(first.keys[:-1], noun)} is in another order: [{first.keys[-1]}] was [{first.from_keys[-1]}]"
    says = {"add": "is new", "remove": "is gone", "replace": "has another value"}[first.kind]
    return f"{_place(first.keys, noun)} {says}"


def renaming(changes: Sequence[Change]) -> tuple[Change, Change] | None:
    """The first change, with the one that shows that it is the new or old name of a value that is still there."""
    first = changes[0] if changes else None
    other = {"add": "remove", "remove": "add"}.get(first.kind) if first else None
    if first is None or other is None or not isinstance(first.keys[-1], str):
        return None
    for change in changes[1:]:
        if change.kind == other and change.keys[:-1] == first.keys[:-1]:
            gone, new = (first, change) if other == "add" else (change, first)
            if same(gone.old, new.new):
                return first, change
    return None


def _place(keys: Keys, noun: str) -> str:
    if not keys:
        return "the whole"
    if len(keys) == 1 and isinstance(keys[0], str):
        return f"{noun} {quoted(keys[0][:LIMIT])}"
    parent = display_keys(keys[:-1])[:LIMIT] if len(keys) > 1 else "the list"
    last = keys[-1]
    return f"item {last} of {parent}" if isinstance(last, int) else f"key {quoted(last[:LIMIT])} of {parent}"


def is_call(value: Any) -> bool:
    """Say whether a tree describes a call: `{kind, name, arguments}`."""
    return type(value) is dict and value.keys() == {"kind", "name", "arguments"}


def shown_call(call: dict[str, Any]) -> str:
    """A call as people write it: `tool search(q="refund", limit=5)`."""
    arguments = call["arguments"]
    if type(arguments) is dict and not is_tag(arguments):
        told = [f"{shown_name(key)}={readable(arguments[key], _SHORT)}" for key in list(arguments)[:_ARGUMENTS]]
        told += ["…"] if len(arguments) > len(told) else []
    else:
        told = [readable(arguments, LIMIT)]
    return f"{shown_name(call['kind'])} {shown_name(call['name'])}({', '.join(told)})"


def excerpts(expected: str, actual: str) -> tuple[str, str]:
    """Of two texts what stands around the first place where they differ."""
    shortest = min(len(expected), len(actual))
    start = bisect_left(range(1, shortest + 1), True, key=lambda length: expected[:length] != actual[:length])
    pieces = [text[max(start - _BEFORE, 0) : start + _AFTER] for text in (expected, actual)]
    strict = looks_like(*pieces)
    before = "…" if start > _BEFORE else ""
    shown = []
    for text, piece in zip((expected, actual), pieces, strict=True):
        after = "…" if len(text) > start + _AFTER else ""
        shown.append(f"{before}{quoted(piece, strict=strict)}{after} ({count(len(text), 'character')})")
    return shown[0], shown[1]
