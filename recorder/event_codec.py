"""Between events and the bytes that are stored: what is written, what is hashed, what is read back.

The body of an event is the strict JSON of its data, after encoding (`values`) and redaction (`redaction`); defaults
are left out. Two things leave the body before it is hashed, and stand there as tags instead (`kept_apart`): the
conversations of a model request, and large values. A tag's hash covers the content addresses of what it stands for,
never a store's own numbering, so an event hash means the same in every store.

The chain covers the stored bytes: verifying needs no decoding, and reading old shapes changes no hash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, get_args

from .events import EVENT_OF_KIND, Data, Event, UnknownEvent
from .frozen import FrozenDict
from .hashes import content_address, event_hash
from .introspection import isinstance_of
from .kept_apart import BLOB_LIMIT, Contents, addresses_in, blobs_moved, digest_of, fill, request_moved
from .plain import Stored, as_plain
from .upcasters import upcast, version_of
from .values import dumps, encode_bytes, loads

if TYPE_CHECKING:
    from .redaction import Redactor
    from .sent_messages import SentMessages, Shortened

__all__ = [
    "EPOCH",
    "MICROSECOND",
    "StoredEvent",
    "addresses_in",
    "body_of",
    "decode_event",
    "digest_of",
    "encode_data",
    "encode_event",
]

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
        conversations: name (see `kept_apart`) → the content addresses of its messages, in order.
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
    sent: SentMessages | None = None,
) -> StoredEvent:
    """Turn an event's data and envelope into what is stored, all but its place in the chain.

    Values are frozen here: what the caller mutates afterwards does not reach the store. Values that cannot be stored
    exactly are listed in the body under `lossy`, as JSON Pointers.

    Args:
        data: validated.
        redactor: the store's.
        time: microseconds since 1970, UTC.
        seq, round, kind, version, within, task: as in `Event`.
        sent: what the run has sent to models so far, which makes it quicker and no different.
    """
    body = body_of(data)
    if sent is not None and kind == "model.called":
        row = StoredEvent(seq, round, kind, version, time, within, task, None)
        if _encode_shortened(body, redactor, sent, row):
            return row
    raw, stored, _ = _encoded(body)
    if redactor.rules.enabled:
        raw, stored = _redacted(raw, stored, redactor)
    row = StoredEvent(seq, round, kind, version, time, within, task, raw)
    if kind == "model.called" or len(raw) > BLOB_LIMIT:
        _move_contents(stored, row)
    return row


def _encoded(body: dict[str, Any]) -> tuple[bytes, Stored, bool]:
    """A body in stored form, its JSON first, and whether anything in it could not be stored exactly."""
    plain = as_plain(body)
    if plain is not None:  # what is nearly always so, without a detour
        return *plain, False
    raw, stored, lossy = encode_bytes(body)
    if lossy:
        stored = {**stored, "lossy": list(lossy)}
        raw = dumps(stored)
    return raw, stored, bool(lossy)


def _redacted(raw: bytes, stored: Stored, redactor: Redactor) -> tuple[bytes, Stored]:
    if "stream" in stored and type(stored["stream"]) is list:
        # First what its chunks are together: a chunk that was redacted by itself may lack a part of another secret.
        from .stream_redaction import redact_stream

        whole = redact_stream(stored["stream"], redactor)
        if whole is not stored["stream"]:
            stored = {**stored, "stream": whole}
            raw = dumps(stored)
    if not redactor.is_clean(raw):
        redacted = redactor.redact(stored)
        if redacted is not stored:
            return dumps(redacted), redacted
    return raw, stored


def _encode_shortened(body: dict[str, Any], redactor: Redactor, sent: SentMessages, row: StoredEvent) -> bool:
    """Fill the row of a model call, encoding of its conversation what is new; False where all has to be encoded."""
    short = sent.shorten(body, redactor)
    if short is None:
        return False
    row.body, _, is_lossy = _encoded(short.body)
    stored = loads(row.body)  # of nobody else: what was encoded is what is redacted, moved and known
    request = stored["request"]
    if is_lossy or "$type" in request:  # it tells of places in the whole; it is no dict with those keys
        return False
    if redactor.rules.enabled:
        row.body, stored = _redacted(row.body, stored, redactor)
    if redactor.generation is not short.generation:  # what is known would be redacted otherwise now
        return False
    sent.learn(short, request, _move_contents(stored, row, short))
    return True


def _move_contents(body: dict[str, Any], row: StoredEvent, short: Shortened | None = None) -> Contents:
    """Move out of the body what is stored once, and put tags there instead.

    Args:
        body: in stored form.
        row: of the event; what is moved is added to it.
        short: what of the body was left out, being known already.
    """
    contents = Contents()
    length = len(row.body or b"") + (0 if short is None else short.length_left_out)
    if row.kind == "model.called" and type(body.get("request")) is dict:
        request = request_moved(body["request"], contents, None if short is None else short.kept)
        body = body if request is body["request"] else {**body, "request": request}
    if length > BLOB_LIMIT:
        body = blobs_moved(body, contents)
    row.conversations, row.messages, row.blobs = contents.conversations, contents.messages, contents.blobs
    if row.conversations or row.blobs:
        row.body = dumps(body)
    return contents


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
        messages_of = None if read_messages is None else partial(read_messages, row)
        fill(body, messages_of, lambda address: loads(read_blob(address)), leave)
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


def _of_any_type(cls: type[Event]) -> Callable[[str], bool]:
    """Says of a field of an event's data whether a tag may stand there as well as what it stands for."""
    fields = cls.model_fields["data"].annotation.model_fields  # type: ignore[union-attr]  # a subclass of Data, always
    return lambda name: name not in fields or fields[name].annotation is Any
