"""A state on a terminal: values as JSON in colours, small ones on a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from ..recorder.values import is_tag
from ..replay.readable import quoted, readable, visible
from ..replay.state import RunState
from .output import write
from .runs import STATUS_STYLES

INLINE: Final = 88
"""Columns that a list or object may take to stand on one line."""

_KEY: Final = "blue"
_STYLES: Final = {str: "green", bool: "magenta", type(None): "magenta", int: "cyan", float: "cyan"}


def render_state(page: Console, state: RunState, *, whole: bool) -> None:
    """Write a state: its payload, or with `whole` every part that holds something."""
    status = (visible(state.status), STATUS_STYLES.get(state.status, ""))
    write(page, (state.run, "bold"), "  ", (visible(state.agent), "bold"), f"  step {state.step}  ", status)
    if not whole:
        _value(page, state.stored_payload)
        return
    parts = state.to_json()
    for name in ("run", "agent", "step", "status"):
        del parts[name]
    for name, value in parts.items():
        if value is None or value == [] or value == {}:
            continue
        write(page)
        write(page, (name.replace("_", " "), "bold underline"))
        _value(page, value)


def _value(page: Console, value: Any) -> None:
    for line in lines_of(value):
        write(page, line)


def lines_of(value: Any, indent: int = 0) -> Iterator[Text]:
    """A stored value as lines of JSON in colours; a tag as what it stands for (`Decimal('1.10')`)."""
    yield from _lines(Text(" " * indent), value, indent, "")


def _lines(line: Text, value: Any, indent: int, end: str) -> Iterator[Text]:
    """Go on with `line`, which stands at `indent`, and yield it and the lines after it; the last one ends in `end`."""
    if not _is_container(value) or not value or _fits(value, INLINE - indent):
        yield line.append_text(_inline(value)).append(end)
        return
    is_list = isinstance(value, list)
    yield line.append("[" if is_list else "{")
    items = [(None, item) for item in value] if is_list else list(value.items())
    for at, (key, item) in enumerate(items):
        start = Text(" " * (indent + 2))
        if key is not None:
            start.append(quoted(key), _KEY).append(": ")
        yield from _lines(start, item, indent + 2, "," if at < len(items) - 1 else "")
    yield Text(" " * indent + ("]" if is_list else "}") + end)


def _inline(value: Any) -> Text:
    if not _is_container(value):
        return Text(readable(value), _STYLES.get(type(value), "yellow"))
    text = Text()
    if isinstance(value, list):
        text.append("[")
        for at, item in enumerate(value):
            text.append(", " if at else "").append_text(_inline(item))
        return text.append("]")
    text.append("{")
    for at, (key, item) in enumerate(value.items()):
        text.append(", " if at else "").append(quoted(key), _KEY).append(": ").append_text(_inline(item))
    return text.append("}")


def _is_container(value: Any) -> bool:
    return type(value) is list or (type(value) is dict and not is_tag(value))


def _fits(value: Any, room: int) -> bool:
    """Whether a container of scalars, or of small containers of those, can stand on one line."""
    left = _left(value, room, 2)
    return left is not None


def _left(value: Any, room: int, depth: int) -> int | None:
    """The room that is left after a value, or None if there is not enough."""
    if not _is_container(value):
        if isinstance(value, str) and len(value) > room:
            return None
        room -= len(readable(value))
        return room if room >= 0 else None
    if depth == 0 and value:
        return None
    left: int | None = room - 2
    for item in value if isinstance(value, list) else value.items():
        if isinstance(value, dict):
            key, item = item
            left = None if left is None else left - len(key) - 4
        if left is None or left < 0:
            return None
        left = _left(item, left - 2, depth - 1)
    return left
