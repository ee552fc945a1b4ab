"""What a body does not hold itself: conversations and large values, each of which a store keeps once.

A model request repeats the whole history, so its messages are kept one by one under their content addresses. In the
body stands what they are called together:

    {"$type": "messages", "hash": …, "count": n}                                a list
    {"$type": "messages", "hash": …, "count": n, "of": {"$type": "tuple"}}      a tuple or deque: its tag without items

So too wherever in a request they stand, `request={"body": {"messages": […]}}` or a field of an object. A conversation
has a name in its event: the key of the request that it stands at, or deeper in it its place as a JSON Pointer into the
stored request (`/body/messages`). A text that may be sent again and again, such as a system prompt, and what makes a
body large become `{"$type": "blob", "hash": …, "size": n}`.

User data never looks like these tags: the encoder escapes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from .hashes import content_address
from .plain import dumps

BLOB_LIMIT: Final = 64 * 1024
"""A body of more bytes than this has its largest values moved to blobs."""

BLOB_VALUE: Final = 8 * 1024
"""Only values of at least this many bytes are worth a blob."""

REPEATED_TEXT: Final = 1_024
"""Texts of a model request from so many characters on, such as a system prompt, are stored once, as blobs."""

MESSAGE_TEXT: Final = 64
"""A list of texts is a conversation if one of them has so many characters."""

DEEP_CONVERSATION: Final = 1_024
"""Deeper in a request lists may be anything; from so many bytes on they are kept apart."""

_DEEPEST: Final = 16
"""So deep in a request conversations are looked for."""

_SEQUENCES: Final = frozenset(("tuple", "deque"))
_PAIRS: Final = frozenset(("dict", "ordereddict", "defaultdict"))
_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("tuple", "deque"), ("items",)),
    **dict.fromkeys(("namedtuple", "dataclass", "model", "object"), ("fields", "extra", "state")),
    **dict.fromkeys(("subclass", "registered"), ("value",)),
}
"""Kinds of tags, and what of them holds values; of `_PAIRS` the second of each pair does."""


Kept: TypeAlias = "tuple[str, bytes]"
"""What became of a message: its content address, and its bytes."""


@dataclass(slots=True)
class Contents:
    """What was moved out of a body.

    Attributes:
        conversations: name → the content addresses of its messages, in order.
        messages, blobs: content address → bytes.
    """

    conversations: dict[str, list[str]] = field(default_factory=dict)
    messages: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)


class Reference(NamedTuple):
    """A tag in a body that stands for what is kept apart: `holder[key]`.

    Attributes:
        name: of the conversation.
        inner: whether it stands in a request or in arguments, where a value of any type may.
    """

    name: str
    holder: Any
    key: Any
    tag: dict[str, Any]
    inner: bool


# -- writing -------------------------------------------------------------------------------------------


def request_moved(request: Any, contents: Contents, kept: Mapping[str, Sequence[Kept | None]] | None = None) -> Any:
    """A request without its conversations and long texts, which go into `contents`; what is left whole is shared.

    Args:
        request: in stored form.
        contents: what is moved is added to it.
        kept: key of a conversation that was left out of the request in part → what became of each of its messages, in
            order; None for one that is there.
    """
    return _Mover(contents, kept or {}).moved(request, "", 0)


def with_tags(request: Any) -> Any:
    """A request, in stored form, as a reader has it who leaves conversations unread."""
    return _Mover(None, {}).moved(request, "", 0)


def is_conversation(value: Any) -> bool:
    """Whether a list in a request is stored message by message: one of objects or texts, as histories are."""
    return type(value) is list and any(
        type(item) is dict or (type(item) is str and len(item) >= MESSAGE_TEXT) for item in value
    )


def digest_of(addresses: Sequence[str]) -> str:
    """The hash of a conversation: over the content addresses of its messages, in order."""
    return "sha256:" + hashlib.sha256("\n".join(addresses).encode()).hexdigest()


class _Mover:
    """Moves what is kept apart out of a request; without `contents` only says so with tags, of conversations."""

    def __init__(self, contents: Contents | None, kept: Mapping[str, Sequence[Kept | None]]) -> None:
        self._contents = contents
        self._kept = kept

    def moved(self, value: Any, name: str, depth: int) -> Any:
        """What stands in the place of a value.

        Args:
            value: in stored form.
            name: of what stands there, as a JSON Pointer into the request.
            depth: 0 for the request, 1 for what it holds.
        """
        kind = type(value)
        if kind is str:
            is_long = depth and len(value) >= REPEATED_TEXT and self._contents is not None
            return kept_apart(value, self._contents) if is_long and self._contents is not None else value
        if kind is list:
            if depth and (is_conversation(value) or (depth == 1 and _key_of(name) in self._kept)):
                return self._conversation(value, value, None, name, depth)
            if depth < _DEEPEST and any(type(item) is list for item in value):
                items = [self.moved(item, f"{name}/{at}", depth + 1) for at, item in enumerate(value)]
                return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
            return value
        if kind is not dict or depth >= _DEEPEST:
            return value
        if "$type" not in value:
            return self._parts_moved(value, value, name, depth)
        tag = value["$type"]
        if type(tag) is not str:
            return value
        if tag in _SEQUENCES and depth and is_conversation(value.get("items")):
            of = {key: part for key, part in value.items() if key != "items"}
            return self._conversation(value, value["items"], of, name, depth)
        if tag in _PAIRS:
            return self._pairs_moved(value, name, depth)
        return self._parts_moved(value, _PARTS.get(tag, ()), name, depth)

    def _pairs_moved(self, holder: dict[str, Any], name: str, depth: int) -> dict[str, Any]:
        pairs = _pairs_of(holder)
        values = [self.moved(value, f"{name}/items/{at}/1", depth + 1) for at, (_, value) in enumerate(pairs)]
        if all(new is value for new, (_, value) in zip(values, pairs, strict=True)):
            return holder
        return {**holder, "items": [[key, new] for (key, _), new in zip(pairs, values, strict=True)]}

    def _parts_moved(self, holder: dict[str, Any], keys: Any, name: str, depth: int) -> dict[str, Any]:
        changed = {}
        for key in keys:
            part: Any = holder.get(key)
            kind = type(part)
            if kind is dict or kind is list or (kind is str and len(part) >= REPEATED_TEXT):
                new = self.moved(part, f"{name}/{_escaped(key)}", depth + 1)
                if new is not part:
                    changed[key] = new
        return {**holder, **changed} if changed else holder

    def _conversation(self, value: Any, messages: list[Any], of: Any, name: str, depth: int) -> Any:
        contents = [dumps(message) for message in messages]
        if depth == 1:
            name = _key_of(name)
            if name.startswith("/"):  # it would look like the place of another
                return value
        elif sum(map(len, contents)) < DEEP_CONVERSATION:
            return value
        moved: list[Kept] = [(content_address(content), content) for content in contents]
        if name in self._kept:
            new = iter(moved)
            moved = [kept or next(new) for kept in self._kept[name]]
        addresses = [address for address, _ in moved]
        if self._contents is not None:
            self._contents.messages.update(moved)
            self._contents.conversations[name] = addresses
        tag = {"$type": "messages", "hash": digest_of(addresses), "count": len(addresses)}
        return tag if of is None else {**tag, "of": of}


def blobs_moved(body: dict[str, Any], contents: Contents) -> dict[str, Any]:
    """A body without its large values, and those of its request or arguments."""
    out = dict(body)
    for name, value in body.items():
        if type(value) is dict and "$type" not in value and name in ("request", "arguments"):
            out[name] = {key: _blob_for(inner, contents, name == "request") for key, inner in value.items()}
        else:
            out[name] = _blob_for(value, contents)
    return out


def _blob_for(value: Any, contents: Contents, is_looked_into: bool = False) -> Any:
    if type(value) not in (str, dict, list) or _is_reference(value):
        return value
    content = dumps(value)
    if len(content) < BLOB_VALUE:
        return value
    if is_looked_into and (b'"$type":"messages"' in content or b'"$type":"blob"' in content):
        # What refers to something stays in the body, where it is looked for.
        if type(value) is not dict or "$type" in value:
            return value
        return {key: _blob_for(inner, contents, True) for key, inner in value.items()}
    return kept_apart(value, contents, content)


def kept_apart(value: Any, contents: Contents, content: bytes | None = None) -> dict[str, Any]:
    """Keep a value under its content address; returns the tag that stands for it."""
    content = dumps(value) if content is None else content
    address = content_address(content)
    contents.blobs[address] = content
    return {"$type": "blob", "hash": address, "size": len(content)}


# -- reading -------------------------------------------------------------------------------------------


def references(body: Any) -> Iterator[Reference]:
    """The tags in a body that stand for what is kept apart; nowhere else: user data keeps its own."""
    for name, item in [*body.items()] if type(body) is dict else ():
        if type(item) is not dict:
            continue
        if _is_reference(item):
            yield Reference(name, body, name, item, False)
        elif name == "request":
            yield from _references_in(item, "", 0)
        elif name == "arguments" and "$type" not in item:
            for key, part in [*item.items()]:
                if _is_reference(part):
                    yield Reference(key, item, key, part, True)


def _references_in(holder: Any, at: str, depth: int) -> Iterator[Reference]:
    """Those in a container of a request, which is looked into just as it was when it was written."""
    if depth >= _DEEPEST:
        return
    for own, key, name in _places_in(holder, at):
        part = own[key]
        if _is_reference(part):
            yield Reference(name if depth else _key_of(name), own, key, part, True)
        elif type(part) is list or (type(part) is dict and type(holder) is dict):
            yield from _references_in(part, name, depth + 1)


def _places_in(holder: Any, at: str) -> list[tuple[Any, Any, str]]:
    """The places of a container that are looked into, each as what has it, its key there, and its name."""
    if type(holder) is list:
        return [(holder, index, f"{at}/{index}") for index in range(len(holder))]
    if "$type" not in holder:
        return [(holder, key, f"{at}/{_escaped(key)}") for key in holder]
    kind = holder["$type"]
    if type(kind) is not str:
        return []
    if kind in _PAIRS:
        return [(pair, 1, f"{at}/items/{index}/1") for index, pair in enumerate(_pairs_of(holder))]
    return [(holder, part, f"{at}/{part}") for part in _PARTS.get(kind, ()) if part in holder]


def _is_reference(part: Any) -> bool:
    return type(part) is dict and part.get("$type") in ("messages", "blob")


def _pairs_of(tag: dict[str, Any]) -> list[list[Any]]:
    """The pairs of a mapping's tag; none of one that is damaged."""
    pairs = tag.get("items")
    is_sound = type(pairs) is list and all(type(pair) is list and len(pair) == 2 for pair in pairs)
    return pairs if is_sound else []  # type: ignore[return-value]  # a list, as was just asked


def _key_of(name: str) -> str:
    """The key of a request that a JSON Pointer of one part names."""
    return name[1:].replace("~1", "/").replace("~0", "~")


def _escaped(key: str) -> str:
    """A key as a part of a JSON Pointer."""
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def restored(tag: dict[str, Any], messages: list[Any]) -> Any:
    """What a conversation's tag stands for, in stored form."""
    return messages if "of" not in tag else {"$type": tag["of"]["$type"], "items": messages, **tag["of"]}


def addresses_in(body: Any) -> tuple[Mapping[str, str], list[str]]:
    """The digests of conversations by name, and the blobs, that a stored body refers to; for verifying."""
    conversations: dict[str, str] = {}
    blobs: list[str] = []
    for found in references(body):
        if found.tag["$type"] == "blob":
            blobs.append(found.tag["hash"])
        else:
            conversations[found.name] = found.tag["hash"]
    return conversations, blobs


def fill(
    body: dict[str, Any],
    messages_of: Callable[[str], list[Any]] | None,
    blob_of: Callable[[str], Any],
    leave: Callable[[str], bool] | None,
) -> None:
    """Put conversations and blobs back where their tags are, in place.

    Args:
        body: as it was read, of nobody else.
        messages_of: gives the messages of a conversation by its name; None leaves the tags.
        blob_of: gives a large value by its content address.
        leave: says of which fields of the body the tag of a large value is left; in a request it is left, too. None
            leaves none.
    """
    for found in references(body):
        if found.tag["$type"] == "messages":
            if messages_of is not None:
                found.holder[found.key] = restored(found.tag, messages_of(found.name))
        elif leave is None or not (found.inner or leave(found.name)):
            found.holder[found.key] = blob_of(found.tag["hash"])
