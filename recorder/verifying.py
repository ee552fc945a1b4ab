"""Verification: re-derive the chain of a run from its stored bytes and compare.

Every event hash covers the one before it, so a changed byte is found at its event, and the first event whose hash
does not follow is named. The head is written with every append, so a cut-off tail is visible. Messages and blobs are
checked against their content addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from .errors import AgentReplayError
from .event_codec import StoredEvent, addresses_in, digest_of
from .hashes import content_address
from .run_info import Summary
from .values import loads

if TYPE_CHECKING:
    from .events import Event
    from .store import EventStore, RunInfo

TOLD_IN_LISTS: Final = frozenset(
    ("run.started", "run.forked", "run.suspended", "run.resumed", "run.finished", "round.finished")
)
"""Kinds of events of which the list of runs tells something."""

LOST: Final = -2
"""The head of a run whose end is missing from its log."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that verification found; `seq` is None where no single event is to blame."""

    run: str
    seq: int | None
    what: str


def verify_run(store: EventStore, info: RunInfo) -> Iterator[Problem]:
    """Yield every problem of a run; see `EventStore.verify`."""
    told: list[Event] = []
    problem = None
    for problem in _log_problems(store, info, told):
        yield problem
    if problem is None:
        if info.status != "running" or store.run(info.uid).head_seq == info.head_seq:  # else it has grown meanwhile
            yield from _listing(info, told)
        yield from _key(store, info, told)


def _log_problems(store: EventStore, info: RunInfo, told: list[Event]) -> Iterator[Problem]:
    """Yield what is wrong with the log itself; gather the events of which the list of runs tells something."""
    expected, previous, uid = 0, "", info.uid
    owners = _owners(store, info)
    rows = store.rows(info)
    lost = store.note(info.uid).get("lost")
    sound: set[str] = set()
    while True:
        try:
            row = next(rows, None)
        except AgentReplayError as error:
            yield Problem(info.id, expected, f"the log cannot be read from here on: {error}")
            return
        if row is None:
            break
        if row.seq != expected:
            yield Problem(info.id, expected, _gap(expected, row.seq))
        uid = next((owner for last, owner in owners if row.seq <= last), info.uid)
        if _chained(row, previous, uid) != row.hash:
            yield Problem(info.id, row.seq, f"{row.kind}: the event was changed: its hash does not follow")
        yield from _contents(store, info, row, sound)
        if row.kind in TOLD_IN_LISTS and (info.fork_seq is None or row.seq > info.fork_seq):
            with suppress(AgentReplayError):  # what cannot be read was named above
                told.append(store.decode(info, row, conversations=False))
        if lost is not None and row.seq == lost["seq"] and lost["hash"] in (None, row.hash):
            lost = None
        expected, previous = row.seq + 1, row.hash
    if LOST != info.head_seq < expected - 1:  # somebody writes to it, perhaps
        now = store.run(info.uid)
        if now.head_seq >= expected - 1:
            info = replace(info, head_seq=expected - 1, head_hash=previous)
    if info.head_seq == LOST:
        yield Problem(info.id, expected, f"the log's end is missing; what came after event {expected - 1} was cut off")
    elif expected - 1 != info.head_seq:
        if expected - 1 < info.head_seq:
            what = f"the tail was cut off: the log was written to event {info.head_seq}, but ends at {expected - 1}"
        else:
            what = f"the log goes on after its head, event {info.head_seq}, to event {expected - 1}"
        yield Problem(info.id, expected, what)
    elif previous != info.head_hash:
        yield Problem(info.id, info.head_seq, "the last event is not the one that the head names")
    if lost is not None:
        what = f"events up to {lost['seq']} are missing" if lost["hash"] else "the run may have gone on"
        yield Problem(info.id, expected, f"{what}: the file that it was salvaged from had lost its end")


def _listing(info: RunInfo, told: Sequence[Event]) -> Iterator[Problem]:
    """Compare what the list of runs says of a run with what its own events say."""
    if not told:
        return
    expected = Summary.of(told).fields
    if told[0].kind == "run.started":
        expected = {"steps": 0, "finished": None, "parent": None, "fork_of": None, "fork_seq": None} | expected
    elif told[0].kind == "run.forked":
        expected |= {"fork_of": told[0].data.parent, "fork_seq": told[0].data.seq}
    if info.origin != "recorded":
        expected.pop("origin", None)  # also says how much of it came from elsewhere
    if info.origin != "recorded" and info.finished is None:
        expected.pop("finished", None)  # it came from a file without times
    if info.status == "crashed":  # derived from events that say "running"
        expected.pop("status", None)
    if info.status in ("running", "crashed") and info.steps - expected.get("steps", 0) == 1:
        expected.pop("steps", None)  # so is the step that goes on
    for name, value in expected.items():
        if getattr(info, name) != value:
            what = f"the list of runs says {name} {getattr(info, name)!r}, its events say {value!r}"
            yield Problem(info.id, None, what)


def _key(store: EventStore, info: RunInfo, told: Sequence[Event]) -> Iterator[Problem]:
    """Compare the key that the run's secrets became tokens with, if it was started here, with that of the store."""
    if not told or told[0].kind != "run.started" or info.process_seq != told[0].seq:
        return
    used = (told[0].data.redaction or {}).get("key_check")
    with suppress(AgentReplayError):  # the store has lost its key, which `verify_whole` says
        if used is not None and store.redactor.key_check != used:
            yield Problem(info.id, 0, "the store's redaction key is another one than that of this run: it was replaced")


def _gap(expected: int, found: int) -> str:
    if found < expected:
        return f"event {found} stands where event {expected} belongs"
    missing = (
        f"event {expected} is missing" if found == expected + 1 else f"events {expected} to {found - 1} are missing"
    )
    return missing


def _chained(row: StoredEvent, previous: str, uid: str) -> str | None:
    try:
        return row.chained(previous, uid)
    except (TypeError, ValueError, AttributeError, OverflowError):
        return None  # a field of the wrong type cannot have been written by us


def _owners(store: EventStore, info: RunInfo) -> list[tuple[int, str]]:
    """(last shared seq, uid of the run that wrote up to it), for the runs that a fork shares events with."""
    owners: list[tuple[int, str]] = []
    while info.fork_of is not None and info.fork_seq is not None:
        last = min(info.fork_seq, owners[-1][0]) if owners else info.fork_seq
        owners.append((last, info.fork_of))
        info = store.run(info.fork_of)
    return owners[::-1]


def _contents(store: EventStore, info: RunInfo, row: StoredEvent, sound: set[str]) -> Iterator[Problem]:
    """Check the messages and blobs that a row refers to, but for those already found `sound`."""
    if type(row.body) is not bytes:
        return
    if row.body_hash and content_address(row.body) != row.body_hash:
        yield Problem(info.id, row.seq, f"{row.kind}: the body was changed: it has another hash than is kept beside it")
    conversations: Mapping[str, str] = {}
    blobs: list[str] = []
    try:
        if b'"$type"' in row.body:
            conversations, blobs = addresses_in(loads(row.body))
        wanted = {*blobs, *(address for addresses in row.conversations.values() for address in addresses)}
        missing = sorted(wanted - sound)
    except (ValueError, TypeError, KeyError):
        yield Problem(info.id, row.seq, f"{row.kind}: the stored body is not what agentreplay writes")
        return
    for name in row.conversations.keys() | conversations.keys():
        if digest_of(row.conversations.get(name, [])) != conversations.get(name):
            yield Problem(info.id, row.seq, f"{row.kind}: the list of messages of `{name}` was changed")
    try:
        contents = store.read_contents(missing)
    except AgentReplayError as error:
        yield Problem(info.id, row.seq, f"{row.kind}: {error}")
        return
    for address, content in contents.items():
        sound.add(address)
        if content_address(content) != address:
            yield Problem(info.id, row.seq, f"{row.kind}: the content {address[:19]}… was changed")
