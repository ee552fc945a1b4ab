"""Values as trees to look at: what is shown, what is folded, what changed.

A tree is a list of nodes. A value that fits is one line; what is longer is folded by rule, with a count and an address
at which the rest is: objects beyond 20 keys, lists beyond 50 items, texts beyond 6 lines. What changed is marked and
never folded away, and what was removed stands where it was. A tree has a budget, so that the page of a step is small
however large its payload: what the budget does not reach is closed, and loads when it is opened.

Everything is text: numbers as the store has them (integers beyond 2^53, NaN), bytes and dates as what they are, and
characters that act or hide as escapes.

A tag (`{"$type": …}`) is one line, too, as people read the value it stands for. Where something changed in it, or it is
too long for a line, it is looked into as `replay.insides` does, so its places have the paths of `diff`. One that is a
text, a number or bytes has nothing inside, so it is shown in full as text.

What is folded between things that changed stands where it is: the order is that of the value, and each is shown once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

from ..recorder.values import dumps, is_tag
from ..replay.changes import MISSING, Change
from ..replay.insides import Children, inside_of, named
from ..replay.paths import Keys, display_keys, join
from ..replay.readable import count, quoted, readable, readable_pair
from .in_words import (
    ELSEWHERE,
    INLINE,
    WRITTEN,
    in_line,
    is_container,
    is_short,
    kind_of,
    lines_of,
    plain,
    shown_key,
    size_in_line,
    tag_kind,
    text_in,
    told_elsewhere,
)

KEYS: Final = 20
ITEMS: Final = 50
LINES: Final = 6
"""So many keys, items and lines are shown before the rest is folded."""

TEXT: Final = 400
"""Characters of a text that are shown before the rest is folded."""

LONG_PATH: Final = 1_000
"""Below a place whose path is longer nothing is sent at once: it would be repeated for each."""

NODES: Final = 250
"""Nodes of a tree that are sent at once."""

SMALL: Final = 30
"""A tree of no more nodes is open as a whole."""

PAGE_TEXT: Final = 100_000
"""Characters of a long text that are sent at once."""

SIGNS: Final = {"add": "+", "remove": "−", "replace": "~", "move": "⇄"}

Address: TypeAlias = Callable[[str, int], str]
"""Gives the address of the rest of a value, by its JSON Pointer and from which child or character on."""


@dataclass(slots=True)
class Node:
    """A line of a tree, and what is below it.

    Attributes:
        key: as it is shown; empty for the root.
        pointer: JSON Pointer of the value.
        display: the path as people write it.
        kind: object, list, text, number, word (true, false, null) or other (what JSON has no word for).
        text: the value in a line, or of a folded one how large it is.
        lines: of a text of several lines, the lines that are shown.
        mark: add, remove, replace or move, if it changed; "inside" if something below it did.
        was: the value before, in a line.
        children: that are sent; `open` says whether they are shown.
        rest: what is not sent, in words, or empty; `href` is where it is.
        is_gone: whether it stands at another place, or at none, in what is shown: it was removed.
    """

    key: str
    pointer: str
    display: str
    kind: str
    text: str = ""
    lines: tuple[str, ...] = ()
    mark: str = ""
    was: str = ""
    children: list[Node] = field(default_factory=list)
    open: bool = False
    rest: str = ""
    href: str = ""
    is_gone: bool = False

    @property
    def is_branch(self) -> bool:
        """Whether it can be opened."""
        return bool(self.children or (self.kind in ("object", "list", "elsewhere") and self.href))

    @property
    def sign(self) -> str:
        """The sign of its mark."""
        return SIGNS.get(self.mark, "")


def tree_of(
    value: Any,
    address: Address,
    changes: Sequence[Change] = (),
    *,
    at: Keys = (),
    nodes: int = NODES,
) -> list[Node]:
    """The nodes of a value: its children, or of a value that has none, itself.

    Args:
        value: in stored form.
        address: gives the address of the rest.
        changes: that led to the value; their paths are from the root, of which the value is at `at`.
        at: where the value is.
        nodes: the budget.
    """
    work = _Work(address, changes, nodes)
    inner = plain(value)
    if inner is None:
        return [work.whole(value, at)]
    return list(work.children(inner, at, open_all=_fits(inner, SMALL)))


def rest_of(value: Any, address: Address, *, at: Keys, start: int, stop: int | None = None) -> list[Node]:
    """What a tree has folded: of a container the children from `start` on, of a text the characters.

    Of a tag that is what is inside, or the text that it is; of one that is a single value, such as a set, the fields of
    its stored form. Arguments as of `tree_of`; `stop` is the first child that stands in the tree again, if one does.
    """
    work = _Work(address, (), NODES)
    text = text_in(value)
    if text is None and tag_kind(value) in WRITTEN:
        text = readable(value)
    if text is not None:
        return [work.long_text(at, text, start)]
    if type(value) is dict or type(value) is list:
        inside = inside_of(value)
        children: Children = value if inside is None else inside
        return list(work.folded(children, at, start, stop) if start else work.children(children, at))
    return [work.leaf("", at, value)]


def value_at(value: Any, keys: Iterable[str]) -> Any:
    """The value at a path, given as the tokens of a JSON Pointer; `MISSING` if there is none.

    In a tag a token names what is inside, as in the paths of a difference; else a field of its stored form.
    """
    for key in keys:
        if type(value) is dict:
            inside = named(value, key) if "$type" in value else None
            value = value.get(key, MISSING) if inside is None else inside_of(value)[inside]  # type: ignore[index]  # named
        elif type(value) is list:
            at = int(key) if key.isascii() and key.isdigit() and len(key) < 16 else -1
            value = value[at] if 0 <= at < len(value) else MISSING
        else:
            return MISSING
    return value


class _Work:
    """Makes the nodes of one tree, within its budget."""

    def __init__(self, address: Address, changes: Sequence[Change], nodes: int) -> None:
        self._address = address
        self._left = nodes
        self._at: dict[Keys, Change] = {}
        self._removed: dict[Keys, list[Change]] = {}
        self._touched: dict[Keys, list[str | int]] = {}
        for change in changes:
            keys = change.keys
            if change.kind == "remove":
                self._removed.setdefault(keys[:-1], []).append(change)
                self._touch(keys[:-1])
                continue
            known = self._at.get(keys)
            self._at[keys] = change if known is None or known.kind == "move" else known
            self._touch(keys)

    def _touch(self, keys: Keys) -> None:
        """Remember the way that leads to a change: of each place above it, by which key it goes on."""
        for depth in reversed(range(len(keys))):
            ways = self._touched.setdefault(keys[:depth], [])
            if keys[depth] in ways[-1:]:
                return
            ways.append(keys[depth])
        self._touched.setdefault(keys, [])

    def whole(self, value: Any, at: Keys) -> Node:
        """A value that is no container, by itself: open, if it is a tag in which something changed."""
        if not self._changed_inside(value, at):
            return self.leaf("", at, value)
        node = self._branch("", value, at, open_all=False)
        node.key, node.mark = "", "inside"
        return node

    def _changed_inside(self, value: Any, at: Keys) -> bool:
        """Whether something changed in a value, and it can be looked into."""
        leads_on = bool(self._touched.get(at)) or at in self._removed
        return leads_on and type(value) is dict and inside_of(value) is not None

    def children(self, value: Any, at: Keys, *, open_all: bool = False) -> Iterator[Node]:
        """The children of a container: as many as the rule says, and those behind that changed."""
        is_list = type(value) is list
        stop = min(ITEMS if is_list else KEYS, len(value))
        yield from self._ghosts(at)
        for key, child in _part(value, 0, stop):
            yield self._node(key, child, (*at, key), open_all)
        for place, key in self._changed_beyond(value, at, stop):
            if self._left <= 0:
                break
            if place > stop:
                yield self._fold(value, at, stop, place)
            yield self._node(key, value[key], (*at, key), open_all)
            stop = place + 1
        if stop < len(value):
            yield self._fold(value, at, stop, None)

    def folded(self, value: Any, at: Keys, start: int, stop: int | None) -> Iterator[Node]:
        """The children of a container that a tree has folded, as many as one answer has."""
        last = len(value) if stop is None else min(stop, len(value))
        end = min(start + 4 * ITEMS, last)
        for key, child in _part(value, start, end):
            yield self._node(key, child, (*at, key), open_all=False)
        if end < last:
            yield self._fold(value, at, end, stop)

    def _fold(self, value: Any, at: Keys, start: int, stop: int | None) -> Node:
        """A line for the children from `start` on, up to `stop`, if that stands in the tree."""
        number = (len(value) if stop is None else stop) - start
        left = count(number, "more item" if type(value) is list else "more key")
        href = self._address(join(at), start)
        if stop is not None:
            href += f"{'&' if '?' in href else '?'}to={stop}"
        return Node("", join(at), "", "rest", rest=left, href=href)

    def _changed_beyond(self, value: Any, at: Keys, stop: int) -> list[tuple[int, str | int]]:
        """What changed among the children from `stop` on, in their order: how many are before each, and its key."""
        ways = dict.fromkeys(self._touched.get(at, ()))
        if type(value) is list:
            return sorted((key, key) for key in ways if isinstance(key, int) and stop <= key < len(value))
        found = [key for key in ways if key in value]
        if not found:
            return []
        wanted = set(found)
        return [(place, key) for place, key in enumerate(islice(value, stop, None), stop) if key in wanted]

    def _ghosts(self, at: Keys) -> Iterator[Node]:
        """What was removed from a container."""
        for change in self._removed.get(at, ()):
            key = change.keys[-1]
            yield Node(
                shown_key(key),
                change.path,
                display_keys(change.keys),
                kind_of(change.old),
                in_line(change.old),
                mark="remove",
                is_gone=True,
            )

    def _node(self, key: str | int, value: Any, at: Keys, open_all: bool) -> Node:
        self._left -= 1
        if not plain(value) and not self._changed_inside(value, at):
            node = self.leaf(shown_key(key), at, value)
        else:
            node = self._branch(key, value, at, open_all)
        change = self._at.get(at)
        if change is not None:
            node.mark = change.kind
            if change.kind == "replace":
                node.was = readable_pair(change.old, change.new, INLINE)[0] if is_short(change) else in_line(change.old)
            elif change.kind == "move":
                node.was = shown_key(change.from_keys[-1]) if change.from_keys else ""
        elif at in self._touched:
            node.mark = "inside"
        return node

    def _branch(self, key: str | int, value: Any, at: Keys, open_all: bool) -> Node:
        pointer = join(at)
        inside: Any = inside_of(value)
        kind = "list" if type(inside) is list else "object"
        node = Node(shown_key(key), pointer, display_keys(at), kind, size_in_line(value))
        change = self._at.get(at)
        is_new = change is not None and change.kind in ("add", "replace")
        leads_on = bool(self._touched.get(at)) or at in self._removed
        if len(pointer) > LONG_PATH:
            node.href = self._address(pointer, 0)
        elif self._left > 0 and (open_all or leads_on or (is_new and _fits(inside, SMALL))):
            node.children = list(self.children(inside, at, open_all=open_all or (is_new and not leads_on)))
            node.open = True
        elif self._left > SMALL and _fits(inside, SMALL):
            node.children = list(self.children(inside, at))
        else:
            node.href = self._address(pointer, 0)
        return node

    def leaf(self, key: str, at: Keys, value: Any) -> Node:
        """A value in a line, or a text in some."""
        pointer = join(at)
        node = Node(key, pointer, display_keys(at), kind_of(value))
        text = text_in(value)
        if text is not None:
            self._text(node, text)
        elif is_container(value):
            node.text = in_line(value)
        elif tag_kind(value) in ELSEWHERE:
            node.kind = "elsewhere"
            node.text = told_elsewhere(value)
            node.href = self._address(pointer, 0)
        else:
            node.text = readable(value, TEXT)
            if is_tag(value) and len(dumps(value)) > TEXT:
                self._long_tag(node, value)
        return node

    def _long_tag(self, node: Node, tag: Any) -> None:
        """A tag that is too long for a line: by how it begins, if it is a text, a number or bytes."""
        node.href = self._address(node.pointer, 0)
        if tag_kind(tag) not in WRITTEN:
            node.rest = "fields"
            return
        text = readable(tag)
        if len(text) > TEXT:
            node.text = f"{text[:TEXT]}…"
            node.rest = f"all {count(len(text), 'character')}"
        else:
            node.href = ""

    def _text(self, node: Node, value: str) -> None:
        piece = "\n".join(value[:TEXT].split("\n")[:LINES])
        if "\n" in piece:
            node.lines = tuple(lines_of(piece))
        else:
            node.text = quoted(piece)
        if len(piece) < len(value):
            node.text = node.text[:-1] + "…" if node.text else ""
            node.rest, node.href = f"all {len(value):,} characters", self._address(node.pointer, 0)

    def long_text(self, at: Keys, value: str, start: int) -> Node:
        """A text from a character on, as far as one answer goes."""
        node = Node("", join(at), display_keys(at), "text", lines=tuple(lines_of(value[start : start + PAGE_TEXT])))
        end = start + PAGE_TEXT
        if end < len(value):
            node.rest, node.href = f"{len(value) - end:,} more characters", self._address(node.pointer, end)
        return node


def _part(value: Any, start: int, stop: int) -> Iterable[tuple[str | int, Any]]:
    """Some children of a container, with their keys."""
    if type(value) is list:
        return [(index, value[index]) for index in range(start, stop)]
    return islice(value.items(), start, stop)


def _fits(value: Children, most: int) -> bool:
    """Whether a container has no more nodes than that."""
    left = most
    todo = [value]
    while todo:
        node = todo.pop()
        left -= len(node)
        if left < 0:
            return False
        children: Iterable[Any] = node.values() if isinstance(node, dict) else node
        todo += [inner for child in children if (inner := plain(child)) is not None]
    return True
