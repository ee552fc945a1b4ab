"""Values as trees to look at: what is shown, what is folded, what changed.

A tree is a list of nodes. A value that fits is one line; what is longer is folded by rule, with a count and an address
at which the rest is: objects beyond 20 keys, lists beyond 50 items, texts beyond 6 lines. What changed is marked and
never folded away, and what was removed stands where it was. A tree has a budget, so that the page of a step is small
however large its payload: what the budget does not reach is closed, and loads when it is opened.

Everything is text: numbers as the store has them (integers beyond 2^53, NaN), bytes and dates as what they are, and
characters that act or hide as escapes.

A tag (`{"$type": …}`) is one line, too, as people read the value it stands for. Where something changed in it, or it is
too long for a line, it is looked into as `replay.insides` does, so its places have the paths of `diff`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

from ..recorder.values import dumps, is_tag
from ..replay.changes import MISSING, Change
from ..replay.insides import inside_of, named
from ..replay.paths import Keys, display_keys, join, quote
from ..replay.readable import count, quoted, readable, readable_pair, size_of, visible

KEYS: Final = 20
ITEMS: Final = 50
LINES: Final = 6
"""So many keys, items and lines are shown before the rest is folded."""

TEXT: Final = 400
"""Characters of a text that are shown before the rest is folded."""

INLINE: Final = 64
"""Characters of a value that is shown in one line, and of what a folded one is told by."""

NAME: Final = 120
"""Characters of a key that are shown."""

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
    start: int = 0,
    nodes: int = NODES,
) -> list[Node]:
    """The nodes of a value: its children, or of a value that has none, itself.

    Args:
        value: in stored form.
        address: gives the address of the rest.
        changes: that led to the value; their paths are from the root, of which the value is at `at`.
        at: where the value is.
        start: the first child that is wanted.
        nodes: the budget.
    """
    work = _Work(address, changes, nodes)
    if not is_container(value):
        return [work.whole(value, at)]
    return list(work.children(value, at, start, open_all=_fits(value, SMALL)))


def rest_of(value: Any, address: Address, *, at: Keys, start: int) -> list[Node]:
    """What a tree has folded: of a container the children from `start` on, of a text the characters.

    Of a tag that is what is inside; of one that is a single value, such as a set, the fields of its stored form.
    Arguments as of `tree_of`.
    """
    work = _Work(address, (), NODES)
    if type(value) is dict or type(value) is list:
        inside = inside_of(value)
        return list(work.children(value if inside is None else inside, at, start, open_all=False))
    return [work.long_text(at, value, start) if type(value) is str else work.leaf("", at, value)]


def is_container(value: Any) -> bool:
    """Whether a value has children of its own; a tag is one value."""
    return type(value) is list or (type(value) is dict and not is_tag(value))


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


def size_in_line(value: Any) -> str:
    """How large a value is that has something inside: a container by its count, a tag as it is read."""
    return count_of(value) if is_container(value) else in_line(value)


def in_line(value: Any, limit: int = INLINE) -> str:
    """A value in a line, as it is or by its size."""
    if is_container(value):
        if not value:
            return "[]" if type(value) is list else "{}"
        return count_of(value)
    if type(value) is str:
        return quoted(value) if len(value) <= limit else f"{quoted(value[: limit - 1])[:-1]}…"
    return readable(value, max(limit, 24))


def count_of(value: Any) -> str:
    """How large a container is: `{4 keys}`, `[9 items]`."""
    return f"[{count(len(value), 'item')}]" if type(value) is list else f"{{{count(len(value), 'key')}}}"


def kind_of(value: Any) -> str:
    """What kind of value it is, for its colour."""
    if type(value) is str:
        return "text"
    if type(value) is list:
        return "list"
    if type(value) is dict:
        if not is_tag(value):
            return "object"
        return {"int": "number", "float": "number", "str": "text"}.get(str(value["$type"]), "other")
    return "word" if value is None or isinstance(value, bool) else "number"


def shown_key(key: str | int) -> str:
    """A key as it is shown: an index in brackets, a plain word as it is, anything else in quotes."""
    if isinstance(key, int):
        return str(key)
    name = key if len(key) <= NAME else f"{key[:NAME]}…"
    return name if display_keys((name,)) == name else quote(name)


def lines_of(text: str) -> list[str]:
    """The lines of a text, in which nothing acts or hides."""
    return [visible(line) for line in text.replace("\r\n", "\n").split("\n")]


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

    def children(self, value: Any, at: Keys, start: int, *, open_all: bool) -> Iterator[Node]:
        """The children of a container from `start` on: as many as the rule says, and those that changed."""
        is_list = type(value) is list
        most = (ITEMS if is_list else KEYS) if start == 0 else 4 * ITEMS
        stop = min(start + most, len(value))
        shown: Iterable[tuple[str | int, Any]]
        if is_list:
            shown = [(index, value[index]) for index in range(start, stop)]
        else:
            shown = islice(value.items(), start, stop)
        if start == 0:
            yield from self._ghosts(at)
        for key, child in shown:
            yield self._node(key, child, (*at, key), open_all)
        if stop < len(value):
            if start == 0:
                yield from self._changed_beyond(value, at, stop, open_all)
            left = count(len(value) - stop, "more item" if is_list else "more key")
            yield Node("", join(at), "", "rest", rest=left, href=self._address(join(at), stop))

    def _changed_beyond(self, value: Any, at: Keys, stop: int, open_all: bool) -> Iterator[Node]:
        """What changed among the children that are folded away."""
        ways = self._touched.get(at, ())
        seen: Container[object] = set(islice(value, stop)) if type(value) is dict else range(stop)
        for key in dict.fromkeys(ways):
            if key not in seen and self._left > 0:
                inside = key in value if type(value) is dict else isinstance(key, int) and key < len(value)
                if inside:
                    yield self._node(key, value[key], (*at, key), open_all)

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
            )

    def _node(self, key: str | int, value: Any, at: Keys, open_all: bool) -> Node:
        self._left -= 1
        if (not is_container(value) or not value) and not self._changed_inside(value, at):
            node = self.leaf(shown_key(key), at, value)
        else:
            node = self._branch(key, value, at, open_all)
        change = self._at.get(at)
        if change is not None:
            node.mark = change.kind
            if change.kind == "replace":
                node.was = readable_pair(change.old, change.new, INLINE)[0] if is_short(change) else in_line(change.old)
            elif change.kind == "move":
                node.was = f"was {shown_key(change.from_keys[-1])}" if change.from_keys else ""
        elif at in self._touched:
            node.mark = "inside"
        return node

    def _branch(self, key: str | int, value: Any, at: Keys, open_all: bool) -> Node:
        pointer = join(at)
        inside: Any = value if is_container(value) else inside_of(value)
        kind = "list" if type(inside) is list else "object"
        node = Node(shown_key(key), pointer, display_keys(at), kind, size_in_line(value))
        change = self._at.get(at)
        is_new = change is not None and change.kind in ("add", "replace")
        leads_on = bool(self._touched.get(at)) or at in self._removed
        if len(pointer) > LONG_PATH:
            node.href = self._address(pointer, 0)
        elif self._left > 0 and (open_all or leads_on or (is_new and _fits(inside, SMALL))):
            node.children = list(self.children(inside, at, 0, open_all=open_all or (is_new and not leads_on)))
            node.open = True
        elif self._left > SMALL and _fits(inside, SMALL):
            node.children = list(self.children(inside, at, 0, open_all=False))
        else:
            node.href = self._address(pointer, 0)
        return node

    def leaf(self, key: str, at: Keys, value: Any) -> Node:
        """A value in a line, or a text in some."""
        pointer = join(at)
        node = Node(key, pointer, display_keys(at), kind_of(value))
        if type(value) is str:
            self._text(node, value)
        elif is_container(value):
            node.text = in_line(value)
        elif is_tag(value) and value["$type"] in ELSEWHERE:
            node.kind = "elsewhere"
            node.text = told_elsewhere(value)
            node.href = self._address(pointer, 0)
        else:
            node.text = readable(value, TEXT)
            if is_tag(value) and len(dumps(value)) > TEXT:
                node.rest, node.href = "fields", self._address(pointer, 0)
        return node

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


ELSEWHERE: Final = ("blob", "messages")
"""Tags that stand for what is stored elsewhere."""


def told_elsewhere(tag: Mapping[str, Any]) -> str:
    """What such a tag stands for: how large a value, how many messages."""
    if tag["$type"] == "messages":
        return f"[{count(int(tag.get('count', 0)), 'message')}]"
    return size_of(int(tag.get("size", 0)))


def is_short(change: Change) -> bool:
    """Whether both values of a change are no containers and no long texts."""
    return not any(
        is_container(value) or (type(value) is str and len(value) > INLINE) for value in (change.old, change.new)
    )


def _fits(value: Any, most: int) -> bool:
    """Whether a container has no more nodes than that."""
    left = most
    todo = [value]
    while todo:
        node = todo.pop()
        left -= len(node)
        if left < 0:
            return False
        todo += [child for child in (node.values() if type(node) is dict else node) if is_container(child)]
    return True
