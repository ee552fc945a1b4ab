"""Between events and the bytes that are stored: what is written, what is hashed, what is read back.

The body of an event is the strict JSON of its data, after encoding (`values`) and redaction (`redaction`); defaults
are left out. Two things leave the body before it is hashed, and stand there as tags instead:

- a conversation, `{"$type": "messages", "hash": …, "count": n}`: a model request repeats the whole history, so each
  message is stored once under its content address. The tag's hash covers the messages' addresses, never a
  store's own numbering, so an event hash means the same in every store;
- a large value, `{"$type": "blob", "hash": …, "size": n}`: stored once under its content address.

The chain covers the stored bytes: verifying needs no decoding, and reading old shapes changes no hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, get_args

from .events import EVENT_OF_KIND, Data, Event, UnknownEvent
from .frozen import FrozenDict
from .hashes import content_address, event_hash
from .introspection import isinstance_of
from .plain import as_plain
from .upcasters import upcast, version_of
from .values import dumps, encode_bytes, loads

if TYPE_CHECKING:
    from .redaction import Redactor

BLOB_LIMIT: Final = 64 * 1024
"""A body of more bytes than this has its largest values moved to blobs."""

BLOB_VALUE: Final = 8 * 1024
"""Only values of at least this many bytes are worth a blob."""

REPEATED_TEXT: Final = 1_024
"""Texts of a model request from so many characters on, such as a system prompt, are stored once, as blobs."""

MESSAGE_TEXT: Final = 64
"""A list of texts is a conversation if one of them has so many characters."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


class _NoContents(FrozenDict):
    """What most events have: one for all, since three dicts for each would be a part of the cost of appending."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # a default of a dataclass has to have one


_NO_CONTENTS: Final = _NoContents()


@dataclass(slots=True)
class StoredEvent:
    """An event as a store keeps it.

    Attributes:
        time: microseconds since 1970, UTC.
        body: the stored bytes, or None when they were pruned.
        body_hash: "sha256:…" of the body; a row that was read has it only where the body was pruned.
        hash: "sha256:…", its link of the chain.
        conversations: field of the request → the content addresses of its messages, in order.
        messages, blobs: content address → bytes, of what the body refers to; empty in a row that was read.
            These three can be filled where the row was made with dicts of its own.
    """

    seq: int
    round: int
    kind: str
    version: int
    time: int
    within: str | None
    task: str
    body: bytes | None
    body_hash: str = ""
    hash: str = ""
    conversations: dict[str, list[str]] = _NO_CONTENTS
    messages: dict[str, bytes] = _NO_CONTENTS
    blobs: dict[str, bytes] = _NO_CONTENTS

    def chained(self, previous: str, uid: str) -> str:
        """The event hash that follows `previous` in the run `uid`."""
        return event_hash(
            previous,
            uid=uid,
            seq=self.seq,
            round=self.round,
            kind=self.kind,
            version=self.version,
            time_us=self.time,
            within=self.within,
            task=self.task,
            body_hash=self.body_hash or content_address(self.body or b""),
        )


_REQUIRED: Final = object()
_EMPTY: Final = object()


@dataclass(frozen=True, slots=True)
class _Shape:
    """The defaults of a kind's fields, and whether leaving them out takes more than a look at which are the same."""

    defaults: dict[str, Any]
    plain: bool

    @classmethod
    def of(cls, data: type[Data]) -> _Shape:
        defaults = {
            name: _REQUIRED if info.is_required() else _EMPTY if info.default_factory is not None else info.default
            for name, info in data.model_fields.items()
        }
        parts = [part for info in data.model_fields.values() for part in (info.annotation, *get_args(info.annotation))]
        nested = any(isinstance(part, type) and issubclass(part, Data) for part in parts)
        return cls(defaults, plain=not nested and _EMPTY not in defaults.values())


_SHAPES: dict[type[Data], _Shape] = {}


def body_of(data: Data) -> dict[str, Any]:
    """The fields of `data` that differ from their defaults, extra fields included, in order of definition."""
    shape = _SHAPES.get(type(data))
    if shape is None:
        shape = _SHAPES[type(data)] = _Shape.of(type(data))
    fields, given, defaults = data.__dict__, data.__pydantic_fields_set__, shape.defaults
    body = {}
    for name in fields:  # a comprehension would be a call
        if name in given and (value := fields[name]) is not defaults[name]:
            body[name] = value
    if not shape.plain:
        for name, value in [*body.items()]:
            if type(type(value)) is type(Data) and isinstance_of(value, Data):
                body[name] = body_of(value)
            elif defaults[name] is _EMPTY and not value:
                del body[name]
    if extra := data.__pydantic_extra__:
        body.update(extra)
    return body


def encode_event(event: Event, redactor: Redactor) -> StoredEvent:
    """Turn an event into what is stored, all but its place in the chain; see `encode_data`."""
    return encode_data(
        event.data,
        redactor,
        seq=event.seq,
        round=event.round,
        kind=event.kind,
        version=event.version,
        time=(event.time - EPOCH) // MICROSECOND,
        within=event.within,
        task=event.task,
    )


def encode_data(
    data: Data,
    redactor: Redactor,
    *,
    seq: int,
    round: int,
    kind: str,
    version: int,
    time: int,
    within: str | None = None,
    task: str = "0",
) -> StoredEvent:
    """Turn an event's data and envelope into what is stored, all but its place in the chain.

    Values are frozen here: what the caller mutates afterwards does not reach the store. Values that cannot be stored
    exactly are listed in the body under `lossy`, as JSON Pointers.

    Args:
        data: validated.
        redactor: the store's.
        time: microseconds since 1970, UTC.
        seq, round, kind, version, within, task: as in `Event`.
    """
    body = body_of(data)
    plain = as_plain(body)
    if plain is not None:  # what is nearly always so, without a detour
        raw, stored = plain
    else:
        raw, stored, lossy = encode_bytes(body)
        if lossy:
            stored = {**stored, "lossy": list(lossy)}
            raw = dumps(stored)
    if redactor.rules.enabled:
        if not redactor.is_clean(raw):
            redacted = redactor.redact(stored)
            if redacted is not stored:
                stored, raw = redacted, dumps(redacted)
        if "stream" in stored and type(stored["stream"]) is list:
            from .stream_redaction import redact_stream

            whole = redact_stream(stored["stream"], redactor)
            if whole is not stored["stream"]:
                stored = {**stored, "stream": whole}
                raw = dumps(stored)
    row = StoredEvent(seq, round, kind, version, time, within, task, raw)
    if kind == "model.called" or len(raw) > BLOB_LIMIT:
        _move_contents(stored, row)
    return row


def _move_contents(body: dict[str, Any], row: StoredEvent) -> None:
    """Move out of the body what is stored once, and put tags there instead."""
    row.conversations, row.messages, row.blobs = {}, {}, {}
    if row.kind == "model.called":
        body = _move_conversations(body, row)
    if row.body is not None and len(row.body) > BLOB_LIMIT:
        body = _move_blobs(body, row)
    if row.conversations or row.blobs:
        row.body = dumps(body)


def is_conversation(value: Any) -> bool:
    """Whether a list in a request is stored message by message: one of objects or texts, as histories are."""
    return type(value) is list and any(
        type(item) is dict or (type(item) is str and len(item) >= MESSAGE_TEXT) for item in value
    )


def _move_conversations(body: dict[str, Any], row: StoredEvent) -> dict[str, Any]:
    """Move each list of messages of the request, and each text that may be sent again and again, out of the body."""
    request = body.get("request")
    if type(request) is not dict:
        return body
    moved = {}
    for name, value in request.items():
        if type(value) is str and len(value) >= REPEATED_TEXT:
            moved[name] = _kept_apart(value, row)
        elif is_conversation(value):
            addresses = []
            for message in value:
                content = dumps(message)
                address = content_address(content)
                row.messages[address] = content
                addresses.append(address)
            row.conversations[name] = addresses
            moved[name] = {"$type": "messages", "hash": digest_of(addresses), "count": len(addresses)}
    return {**body, "request": {**request, **moved}} if moved else body


def digest_of(addresses: Sequence[str]) -> str:
    """The hash of a conversation: over the content addresses of its messages, in order."""
    return "sha256:" + hashlib.sha256("\n".join(addresses).encode()).hexdigest()


def _move_blobs(body: dict[str, Any], row: StoredEvent) -> dict[str, Any]:
    """Move the large values of the body, and of its request or arguments, out of it."""
    out = dict(body)
    for name, value in body.items():
        if type(value) is dict and "$type" not in value and name in ("request", "arguments"):
            out[name] = {key: _blob_for(inner, row) for key, inner in value.items()}
        else:
            out[name] = _blob_for(value, row)
    return out


def _blob_for(value: Any, row: StoredEvent) -> Any:
    if type(value) not in (str, dict, list) or (type(value) is dict and value.get("$type") == "messages"):
        return value
    content = dumps(value)
    return value if len(content) < BLOB_VALUE else _kept_apart(value, row, content)


def _kept_apart(value: Any, row: StoredEvent, content: bytes | None = None) -> dict[str, Any]:
    """Keep a value under its content address; returns the tag that stands for it."""
    content = dumps(value) if content is None else content
    address = content_address(content)
    row.blobs[address] = content
    return {"$type": "blob", "hash": address, "size": len(content)}


def decode_event(
    row: StoredEvent,
    read_messages: Callable[[StoredEvent, str], list[Any]] | None,
    read_blob: Callable[[str], bytes],
    *,
    leave_blobs: bool = False,
) -> Event:
    """Read an event back: the one read point, where upcasters apply.

    Args:
        row: the stored event.
        read_messages: gives the messages of one conversation of the row, in stored form; None leaves the tag that
            stands for them.
        read_blob: gives the bytes behind a content address.
        leave_blobs: leave the tag that stands for a large value where a value of any type may stand.
    """
    if row.body is None and not row.body_hash:
        raise ValueError("the event has lost its body")
    cls = EVENT_OF_KIND.get(row.kind, UnknownEvent) if row.body is not None else UnknownEvent
    body = loads(row.body) if row.body is not None else {}
    if row.body is not None and b'"$type"' in row.body:
        # An upcaster may look at any value.
        leave = _of_any_type(cls) if leave_blobs and row.version == version_of(row.kind) else None
        body = _fill(body, row, read_messages, read_blob, leave)
    version, body = upcast(row.kind, row.version, body)
    return cls(
        seq=row.seq,
        round=row.round,
        kind=row.kind,
        version=version,
        time=EPOCH + timedelta(microseconds=row.time),
        within=row.within,
        task=row.task,
        data=body,
        hash=row.hash,
    )


def _fill(
    body: dict[str, Any],
    row: StoredEvent,
    read_messages: Callable[[StoredEvent, str], list[Any]] | None,
    read_blob: Callable[[str], bytes],
    leave: Callable[[str], bool] | None,
) -> dict[str, Any]:
    """Put conversations and blobs back where the codec put their tags; nowhere else: user data keeps its own."""

    def value(name: str, item: Any, inner: bool = False) -> Any:
        if type(item) is dict:
            tag = item.get("$type")
            if tag == "blob" and not (leave is not None and (inner or leave(name))):
                return loads(read_blob(item["hash"]))
            if tag == "messages" and read_messages is not None:
                return read_messages(row, name)
        return item

    filled = {}
    for name, item in body.items():
        item = value(name, item)
        if name in ("request", "arguments") and type(item) is dict and "$type" not in item:
            item = {key: value(key, part, inner=True) for key, part in item.items()}
        filled[name] = item
    return filled


def _of_any_type(cls: type[Event]) -> Callable[[str], bool]:
    """Says of a field of an event's data whether a tag may stand there as well as what it stands for."""
    fields = cls.model_fields["data"].annotation.model_fields  # type: ignore[union-attr]  # a subclass of Data, always
    return lambda name: name not in fields or fields[name].annotation is Any


def addresses_in(body: Any) -> tuple[Mapping[str, str], list[str]]:
    """The digests of conversations by field, and the blobs, that a stored body refers to; for verifying."""
    conversations: dict[str, str] = {}
    blobs: list[str] = []
    places = list(body.items()) if type(body) is dict else []
    for name in ("request", "arguments"):
        inner = body.get(name) if type(body) is dict else None
        if type(inner) is dict and "$type" not in inner:
            places.extend(inner.items())
    for name, item in places:
        if type(item) is dict and item.get("$type") == "blob":
            blobs.append(item["hash"])
        elif type(item) is dict and item.get("$type") == "messages":
            conversations[name] = item["hash"]
    return conversations, blobs
