"""The cassette format: a run with all that belongs to it, as lines of JSON, for git and for sharing.

    {"agentreplay":"cassette","version":1,"run":"019…","runs":[{"run":"019…","agent":"refunds","events":2,"hash":"…"}]}
    {"run":"019…","agent":"refunds"}
    {"seq":0,"round":0,"kind":"run.started","time":"2026-11-30T12:00:00.000000Z","hash":"sha256:…","body":{…}}
    {"message":0,"hash":"sha256:…","body":{"role":"user","content":"…"}}
    {"seq":1,"round":1,"kind":"model.called","time":"…","conversations":[["messages",[[0,1]]]],"hash":"…","body":{…}}
    {"end":"019…","events":2,"hash":"sha256:…"}
    {"cassette":"end","lines":6,"hash":"sha256:…"}

The header names the run that the cassette is of, and every run in it: the run, its child runs, their child runs, and of
a run that a fork left its shared events (`"prefix":true`). Then each run has its own section: events in order, one a
line. A run stands before its forks. A store's own numbers appear nowhere.

An event's `body` is the very bytes that were stored and hashed. They stand as JSON where they are JSON, so that people
and other programs read them, and a reader cuts them out of the line without parsing and writing them again. What is no
JSON stands as `text` or `base64`; a body that was pruned is known by its `body_hash`. A message and a large value stand
once, on a line before the event that first needs them. Messages are numbered by their order in the file, and a
conversation is a list of [first, count].

Nothing can be lost or changed unseen. Events are chained by their hashes, contents are named by theirs, every line has
one spelling, a section ends with its count and its last hash, and the last line holds the hash of all lines before it.
Of the header, fields that this version does not know are kept, such as `ignore`, the rules of a later replay.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeAlias

from .event_codec import EPOCH, StoredEvent, addresses_in
from .values import dumps, loads

VERSION: Final = 1
"""The version that is written. Any version from 1 on is read."""

_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")

Ranges: TypeAlias = list[tuple[int, int]]
"""Messages by number, as (first, count)."""


class Malformed(ValueError):
    """A line is not what a cassette holds there.

    Attributes:
        found: what is wrong with it.
        expected: what belongs there.
        advice: what to do; empty for the usual.
        line: the line to blame, where it is another one.
        fatal: nothing of the file can be read.
    """

    def __init__(
        self,
        found: str,
        expected: str = "a line as agentreplay wrote it",
        advice: str = "",
        *,
        line: int | None = None,
        fatal: bool = False,
    ) -> None:
        super().__init__(found)
        self.found = found
        self.expected = expected
        self.advice = advice
        self.line = line
        self.fatal = fatal


class Lost(NamedTuple):
    """What a run is known to have had beyond its end: its last event then, and that one's hash where it is known."""

    seq: int
    hash: str | None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a cassette says of a run, beside its events.

    Attributes:
        parent, fork_of, fork_seq: as in `RunInfo`.
        prefix: only the events that a fork shares are here.
        lost: the run was salvaged from a damaged file, which had more of it.
        events, hash: how many events of its own follow, and the hash of the last; None where the header is missing.
        extra: fields that this version does not know.
    """

    uid: str
    agent: str
    parent: str | None = None
    fork_of: str | None = None
    fork_seq: int | None = None
    prefix: bool = False
    lost: Lost | None = None
    events: int | None = None
    hash: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """The seq of its first own event."""
        return 0 if self.fork_seq is None else self.fork_seq + 1


@dataclass(frozen=True, slots=True)
class Header:
    """The first line: the run that the cassette is of, all runs in their order, and fields that are not known here."""

    run: str
    runs: list[RunFacts]
    extra: dict[str, Any] = field(default_factory=dict)


def write_json(value: Any) -> bytes:
    """The one spelling of a value in a cassette: as `values.dumps` has it, or in ASCII where that has none.

    That is so for lone surrogates and for integers beyond 53 bits.
    """
    try:
        return dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


# -- writing -----------------------------------------------------------------------------------------------------------


def header_line(header: Header) -> bytes:
    """The first line."""
    runs = [
        {**_facts(facts), "events": facts.events, "hash": facts.hash, **facts.extra}  # what a reader checks comes first
        for facts in header.runs
    ]
    return write_json({"agentreplay": "cassette", "version": VERSION, "run": header.run, "runs": runs, **header.extra})


def run_line(facts: RunFacts) -> bytes:
    """The line that begins a run's section."""
    return write_json(_facts(facts))


def _facts(facts: RunFacts) -> dict[str, Any]:
    line: dict[str, Any] = {"run": facts.uid, "agent": facts.agent}
    if facts.parent is not None:
        line["parent"] = facts.parent
    if facts.fork_of is not None:
        line.update(fork_of=facts.fork_of, fork_seq=facts.fork_seq)
    if facts.prefix:
        line["prefix"] = True
    if facts.lost is not None:
        line["lost"] = facts.lost._asdict()
    return line


def message_line(number: int, address: str, content: bytes) -> bytes:
    """The line of a message: its number, content address and bytes."""
    return b'{"message":%d,"hash":"%b",%b}' % (number, address.encode("ascii"), _written(content))


def blob_line(address: str, content: bytes) -> bytes:
    """The line of a large value: its content address and bytes."""
    return b'{"blob":"%b",%b}' % (address.encode("ascii"), _written(content))


def event_line(row: StoredEvent, conversations: Mapping[str, Ranges]) -> bytes:
    """The line of an event."""
    line = b'{"seq":%d,"round":%d,"kind":%b' % (row.seq, row.round, write_json(row.kind))
    if row.version != 1:
        line += b',"version":%d' % row.version
    line += b',"time":' + write_json(written_time(row.time))
    if row.within is not None:
        line += b',"within":' + write_json(row.within)
    if row.task != "0":
        line += b',"task":' + write_json(row.task)
    if conversations:
        line += b',"conversations":' + write_json([*conversations.items()])
    body = b'"body_hash":' + write_json(row.body_hash) if row.body is None else _written(row.body)
    return b'%b,"hash":"%b",%b}' % (line, row.hash.encode("ascii"), body)


def end_line(uid: str, events: int, hash: str) -> bytes:
    """The line that ends a run's section."""
    return write_json({"end": uid, "events": events, "hash": hash})


def last_line(lines: int, digest: str) -> bytes:
    """The last line: how many lines are before it, and "sha256:" and the hash of them, each with its line feed."""
    return write_json({"cassette": "end", "lines": lines, "hash": "sha256:" + digest})


def ranges_of(numbers: Sequence[int]) -> Ranges:
    """[5, 6, 7, 2] → [(5, 3), (2, 1)]."""
    ranges: Ranges = []
    first = end = -1
    for number in numbers:
        if number != end:
            if end > first:
                ranges.append((first, end - first))
            first = number
        end = number + 1
    return [*ranges, (first, end - first)] if end > first else ranges


def _written(content: bytes) -> bytes:
    if b"\n" not in content and b"\r" not in content and is_json(content):
        return b'"body":' + content
    try:
        return b'"text":' + write_json(content.decode())
    except UnicodeDecodeError:
        return b'"base64":"%b"' % base64.b64encode(content)


def written_time(microseconds: int) -> str | int:
    """ISO 8601 in UTC, which people read, or the number itself where it is no date."""
    try:
        time = EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return microseconds
    return time.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def is_json(content: bytes) -> bool:
    """Say whether bytes are one strict JSON document."""
    try:
        loads(content)
    except ValueError:
        return False
    return True


# -- what an event refers to -------------------------------------------------------------------------------------------


def blobs_of(row: StoredEvent) -> list[str]:
    """The content addresses of the large values of an event whose body is sound."""
    return _referred_to(row)[1]


def _referred_to(row: StoredEvent) -> tuple[Mapping[str, str], list[str]]:
    if row.body is None or b'"$type"' not in row.body:
        return {}, []
    return addresses_in(loads(row.body))


class References:
    """Checks what events refer to. Of a conversation that has only grown since the last event, the growth is hashed."""

    def __init__(self) -> None:
        self._last: list[str] = []
        self._state = sha256()

    def blobs(self, row: StoredEvent) -> list[str]:
        """The content addresses of the large values of an event, once its conversations were found to be whole.

        Raises:
            Malformed: its lists of messages are not those that its body names, or the body is not of our making.
        """
        try:
            digests, blobs = _referred_to(row)
        except (ValueError, TypeError, KeyError):
            raise Malformed("what it refers to is not written as agentreplay writes it") from None
        if digests.keys() != row.conversations.keys():
            raise Malformed(f"event {row.seq} does not have the conversations that its body names")
        for name, digest in digests.items():
            if self._digest_of(row.conversations[name]) != digest:
                raise Malformed(f"the list of messages of `{name}` in event {row.seq} was changed")
        if not all(type(address) is str and _HASH.fullmatch(address) for address in blobs):
            raise Malformed("what it refers to is not written as agentreplay writes it")
        return blobs

    def _digest_of(self, addresses: list[str]) -> str:
        """As `event_codec.digest_of`."""
        known = len(self._last)
        if addresses[:known] != self._last:
            self._state, known = sha256(), 0
        if len(addresses) > known:
            self._state.update((("\n" if known else "") + "\n".join(addresses[known:])).encode())
        self._last = addresses
        return "sha256:" + self._state.hexdigest()
