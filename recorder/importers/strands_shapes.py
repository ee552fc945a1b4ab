"""What the files of a Strands session must hold, and where they do not: each flaw with its place in the file.

Checked is what an import relies on: what stands otherwise would vanish from the run, or be taken for something else.
What a later SDK may add, such as another kind of block or another role, is no flaw.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from .source import clean_text, time_of

ROLES: Final = frozenset(("user", "assistant"))

BLOCKS: Final = frozenset(
    (
        *("audio", "cachePoint", "citationsContent", "document", "guardContent", "image", "reasoningContent", "text"),
        *("toolResult", "toolUse", "video"),
    )
)
"""The kinds of blocks that strands-agents 1.62 knows."""

STATUSES: Final = {
    "pending": "failed",
    "dispatched": "failed",
    "executing": "failed",
    "completed": "completed",
    "failed": "failed",
    "interrupted": "interrupted",
}
"""Status of a graph or a swarm → of its run."""

_ENCODED: Final = "__bytes_encoded__"
_MISSING: Final = object()
_KINDS: Final = {bool: "a truth value", int: "a number", float: "a number", str: "a text", list: "a list"}


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something in a file that is not as it should be: what stands where, and what belongs there."""

    found: str
    expected: str


def kind_of(value: Any) -> str:
    """A JSON value in two words."""
    return "null" if value is None else _KINDS.get(type(value), "an object")


def decoded(document: Any) -> Iterator[Flaw]:
    """Put the bytes of a document, which the SDK writes as a text in base 64, in their places.

    The document is changed. What cannot be decoded stays as it is, and is a flaw.
    """
    holder = [document]
    waiting: list[tuple[Any, Any, Any]] = [(holder, 0, None)]
    while waiting:  # a document may be nested more deeply than functions may call each other
        within, key, place = waiting.pop()
        value = within[key]
        if type(value) is dict and value.get(_ENCODED) is True:
            try:
                if value.keys() != {_ENCODED, "data"}:
                    raise ValueError
                within[key] = base64.b64decode(value["data"], validate=True)
            except (binascii.Error, TypeError, ValueError):
                yield Flaw(f"`{_spelled(place)}` holds no bytes in base 64", "bytes as the SDK writes them")
        elif type(value) is dict:
            waiting += [(value, name, (place, name)) for name in reversed(value)]
        elif type(value) is list:
            waiting += [(value, at, (place, at)) for at in reversed(range(len(value)))]


def _spelled(place: Any) -> str:
    parts: list[Any] = []
    while place is not None:
        place, part = place
        parts.append(part)
    text = "".join([f"[{part}]" if type(part) is int else f".{part}" for part in reversed(parts)])
    return clean_text(text.removeprefix("."))


def entry_flaws(entry: dict[str, Any], number: int) -> Iterator[Flaw]:
    """What is wrong with the file of a message, by the number in its name."""
    redacted = entry.get("redact_message")
    name = "message" if redacted is None else "redact_message"
    yield from message_flaws(entry.get(name, _MISSING), name)
    yield from _is(entry, "message_id", number, "the number in the file's name")
    yield from _is_time(entry)


def message_flaws(message: Any, place: str) -> Iterator[Flaw]:
    """What is wrong with a message."""
    if type(message) is not dict:
        yield _other(place, message, "an object with `role` and `content`")
        return
    yield from _of_type(message, "role", str, place, 'a text such as "user"')
    content = message.get("content", _MISSING)
    if type(content) is not list:
        yield _other(f"{place}.content", content, "a list of blocks")
        return
    for at, block in enumerate(content):
        yield from _block_flaws(block, f"{place}.content[{at}]")


def is_usable(message: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a message can stand in a conversation: it has a role, and a list of blocks, sound or not."""
    return type(message) is dict and type(message.get("role")) is str and type(message.get("content")) is list


def _block_flaws(block: Any, place: str) -> Iterator[Flaw]:
    if type(block) is not dict:
        yield _other(place, block, "an object, one block")
        return
    if "text" in block:
        yield from _of_type(block, "text", str, place, "a text")
    for kind, expected in (("toolUse", "`toolUseId`, `name` and `input`"), ("toolResult", "`toolUseId` and `content`")):
        if kind not in block:
            continue
        inner, within = block[kind], f"{place}.{kind}"
        if type(inner) is not dict:
            yield _other(within, inner, f"an object with {expected}")
            continue
        yield from _of_type(inner, "toolUseId", str, within, "a text")
        if kind == "toolUse":
            yield from _of_type(inner, "name", str, within, "the name of a tool")
        else:
            yield from _of_type(inner, "content", list, within, "a list of blocks")


def agent_flaws(about: dict[str, Any], id: str) -> Iterator[Flaw]:
    """What is wrong with the `agent.json` of the agent of an id."""
    yield from _of_type(about, "state", dict, "", "an object, the agent's state")
    yield from _is(about, "agent_id", id, "the name of its folder")
    if "_internal_state" in about:
        yield from _of_type(about, "_internal_state", dict, "", "an object")
    yield from _is_time(about)


def orchestra_flaws(state: dict[str, Any]) -> Iterator[Flaw]:
    """What is wrong with the state of a graph or a swarm."""
    status = state.get("status", _MISSING)
    if type(status) is not str or status not in STATUSES:
        expected = f"one of {', '.join(STATUSES)}"
        odd = Flaw(f"`status` is {_quoted(status)}", expected) if type(status) is str else None
        yield odd or _other("status", status, expected)
    results = state.get("node_results", _MISSING)
    if type(results) is not dict:
        yield _other("node_results", results, "an object, the result of each node")
    else:
        for node, result in results.items():
            place = clean_text(f"node_results.{node}")
            inner = result.get("result", _MISSING) if type(result) is dict else result
            if type(inner) is not dict:
                yield _other(place if inner is result else f"{place}.result", inner, "an object, a node's result")
            elif inner.get("type") == "agent_result":
                yield from message_flaws(inner.get("message", _MISSING), f"{place}.result.message")
    name = order_of(state)
    order = state.get(name, _MISSING)
    if type(order) is not list or not all(type(node) is str for node in order):
        yield _other(name, order, "a list of the names of nodes")


def order_of(state: dict[str, Any]) -> str:
    """The field that says in which order nodes were executed."""
    return "node_history" if "node_history" in state else "execution_order"


def _of_type(value: dict[str, Any], name: str, wanted: type, place: str, expected: str) -> Iterator[Flaw]:
    found = value.get(name, _MISSING)
    if type(found) is not wanted:
        yield _other(f"{place}.{name}" if place else name, found, expected)


def _is(value: dict[str, Any], name: str, wanted: Any, expected: str) -> Iterator[Flaw]:
    found = value.get(name, _MISSING)
    if type(found) is type(wanted) and found != wanted:
        yield Flaw(f"`{name}` is {_quoted(found)}", f"{expected}, {wanted}")
    elif found != wanted or type(found) is not type(wanted):
        yield _other(name, found, f"{expected}, {wanted}")


def _quoted(value: str | int) -> str:
    return clean_text(json.dumps(value, ensure_ascii=False))


def _is_time(value: dict[str, Any]) -> Iterator[Flaw]:
    if value.get("created_at") is not None and time_of(value["created_at"]) is None:
        yield Flaw("`created_at` is no time", "a time such as 2026-01-31T12:00:00+00:00")


def _other(place: str, found: Any, expected: str) -> Flaw:
    return Flaw(f"`{place}` is {'missing' if found is _MISSING else kind_of(found)}", expected)
