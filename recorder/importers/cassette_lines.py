"""The lines of a cassette, read one by one: each has one spelling, so whatever is not exactly that was changed.

What a line says is checked for its form here; that it fits the lines before it is seen by `cassette_reader`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from ..cassette import VERSION, Header, Lost, Malformed, Ranges, RunFacts, run_line, write_json, written_time
from ..event_codec import EPOCH, MICROSECOND, StoredEvent
from ..values import loads

MAX_SEQ: Final = 2**32 - 3
MAX_INT: Final = 2**31 - 1
MAX_FORKS: Final = 300
"""A fork of a fork of a fork …: a log is read through all of them."""

MAX_CONVERSATION: Final = 1_000_000
"""A conversation of more messages is taken for an attack: a short line would become a list that fills the memory."""

_INT: Final = rb"(?:0|[1-9][0-9]{0,18})"
_STRING: Final = rb'"(?:[^"\\\x00-\x1f]++|\\.)*+"'
_HASH: Final = rb"sha256:[0-9a-f]{64}"
_RANGE: Final = rb"\[%b,%b\]" % (_INT, _INT)
_CONVERSATION: Final = rb"\[%b,\[%b(?:,%b)*+\]\]" % (_STRING, _RANGE, _RANGE)
_UID: Final = rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

_IS_UID: Final = re.compile(_UID.decode("ascii"))
_IS_HASH: Final = re.compile(_HASH.decode("ascii"))
_MESSAGE: Final = re.compile(rb'\{"message":(%b),"hash":"(%b)",' % (_INT, _HASH))
_BLOB: Final = re.compile(rb'\{"blob":"(%b)",' % _HASH)
_EVENT: Final = re.compile(
    rb'\{"seq":(%b),"round":(%b),"kind":(%b)(?:,"version":(%b))?,"time":(%b|-?%b)'
    rb'(?:,"within":(%b))?(?:,"task":(%b))?(?:,"conversations":(\[%b(?:,%b)*+\]))?,"hash":"(%b)",'
    % (_INT, _INT, _STRING, _INT, _STRING, _INT, _STRING, _STRING, _CONVERSATION, _CONVERSATION, _HASH)
)
_END: Final = re.compile(rb'\{"end":"(%b)","events":(%b),"hash":"((?:%b)?)"\}' % (_UID, _INT, _HASH))
_LAST: Final = re.compile(rb'\{"cassette":"end","lines":(%b),"hash":"(%b)"\}' % (_INT, _HASH))


def parse_header(line: bytes) -> Header:
    """Read the first line.

    Raises:
        Malformed: it is no header, or of a newer version.
    """
    document = _document(line)
    if document.get("agentreplay") != "cassette":
        raise Malformed(
            "it is no cassette",
            'a first line that begins with {"agentreplay":"cassette"',
            "If it is of another format, name that with --format.",
        )
    version = document.get("version")
    if type(version) is int and version > VERSION:
        raise Malformed(
            f"it is a cassette of version {version}",
            f"a version up to {VERSION}",
            "It was written by a newer agentreplay; install that one.",
            fatal=True,
        )
    if type(version) is not int or version < 1:
        raise Malformed(f"its version is {version!r}", f"a version from 1 to {VERSION}")
    entries = document.get("runs")
    if type(entries) is not list or not entries:
        raise Malformed("its header lists no runs", "`runs`, a list of at least one run")
    runs = [_entry(entry) for entry in entries]
    run = document.get("run")
    _check_links(run, runs)
    known = ("agentreplay", "version", "run", "runs")
    return Header(str(run), runs, {key: value for key, value in document.items() if key not in known})


def _check_links(run: Any, runs: Sequence[RunFacts]) -> None:
    """Refuse a list of runs in which one stands twice, a fork precedes its parent, or children go round in a circle."""
    parents: dict[str, str | None] = {}
    forks: dict[str, int] = {}
    for facts in runs:
        if facts.uid in parents:
            raise Malformed(f"its header lists the run {facts.uid} twice", "each run once")
        if facts.fork_of is not None and facts.fork_of not in parents:
            raise Malformed(
                f"the run {facts.uid} is a fork of {facts.fork_of}, which does not stand before it",
                "the shared events before the fork",
            )
        parents[facts.uid] = facts.parent
        forks[facts.uid] = forks.get(facts.fork_of or "", 0) + 1
        if forks[facts.uid] > MAX_FORKS:
            raise Malformed(f"the run {facts.uid} is a fork of a fork of too many", f"up to {MAX_FORKS} of them")
    if run not in parents:
        raise Malformed("its header does not list the run that it is of", "`run`, the uid of one of `runs`")
    sound: set[str | None] = {None}
    for uid in parents:
        path: dict[str, None] = {}
        above: str | None = uid
        while above not in sound and above in parents:
            if above in path:
                raise Malformed(f"the run {uid} is its own parent's parent", "parents that lead to a first run")
            path[above] = None
            above = parents[above]
        sound.update(path)


def _document(line: bytes) -> dict[str, Any]:
    """A JSON object in which no key stands twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise Malformed("a key stands twice in one object of it", "each key once")
        return found

    def refused(name: str) -> None:
        raise Malformed(f"it holds {name}, which is not JSON", "JSON")

    try:
        document = json.loads(line.decode(), object_pairs_hook=unique, parse_constant=refused)
        write_json(document)
    except Malformed:
        raise
    except (ValueError, RecursionError):
        raise Malformed("it is not JSON that a cassette holds", "a JSON object") from None
    if type(document) is not dict:
        raise Malformed("it is no JSON object", "a JSON object")
    return document


def parse_run(line: bytes) -> RunFacts:
    """Read the line that begins a section, by itself.

    Raises:
        Malformed: it is not one.
    """
    facts = _facts_of(_document(line))
    if run_line(facts) != line:
        raise Malformed("it is not the beginning of a run")
    return facts


def _entry(entry: Any) -> RunFacts:
    """A run as the header lists it."""
    if type(entry) is not dict:
        raise Malformed("its header lists something that is no run", "an object for each run")
    facts = _facts_of(entry)
    if not _is_count(facts.events, MAX_SEQ) or not (facts.hash == "" or _is(_IS_HASH, facts.hash)):
        raise Malformed(f"its header does not say how many events the run {facts.uid} has", "`events` and `hash`")
    return facts


def _facts_of(entry: Mapping[str, Any]) -> RunFacts:
    values = dict(entry)
    uid = values.pop("run", None)
    agent = values.pop("agent", None)
    parent = values.pop("parent", None)
    fork_of, fork_seq = values.pop("fork_of", None), values.pop("fork_seq", None)
    prefix, lost = values.pop("prefix", False), values.pop("lost", None)
    events, hash = values.pop("events", None), values.pop("hash", None)
    if not _is(_IS_UID, uid):
        raise Malformed("a run of its has no uid", "a UUID in lower case for each run")
    if type(agent) is not str or type(prefix) is not bool:
        raise Malformed(f"it does not say properly what the run {uid} is", "`agent`, a text")
    if parent is not None and not _is(_IS_UID, parent):
        raise Malformed(f"the parent of the run {uid} is no uid", "a UUID")
    if (fork_of, fork_seq) != (None, None) and not (_is(_IS_UID, fork_of) and _is_count(fork_seq, MAX_SEQ - 1)):
        raise Malformed(f"it does not say properly where the run {uid} was forked", "`fork_of` and `fork_seq`")
    return RunFacts(uid, agent, parent, fork_of, fork_seq, prefix, _lost(lost), events, hash, values)


def _lost(value: Any) -> Lost | None:
    if value is None:
        return None
    if type(value) is dict and value.keys() == {"seq", "hash"} and _is_count(value["seq"], MAX_SEQ):
        hash = value["hash"]
        if hash is None or _is(_IS_HASH, hash):
            return Lost(value["seq"], hash)
    raise Malformed("it does not say properly what was lost", "`lost`, an object of `seq` and `hash`")


def _is(form: re.Pattern[str], value: Any) -> bool:
    return type(value) is str and form.fullmatch(value) is not None


def _is_count(value: Any, limit: int) -> bool:
    return type(value) is int and 0 <= value <= limit


def parse_message(line: bytes) -> tuple[int, str, bytes]:
    """Read a message: its number, content address and bytes, whose hash is not looked at here.

    Raises:
        Malformed: the line is not one.
    """
    found = _matched(_MESSAGE, line)
    return int(found[1]), found[2].decode("ascii"), _content(line, found.end())


def parse_blob(line: bytes) -> tuple[str, bytes]:
    """Read a large value: its content address and bytes, whose hash is not looked at here.

    Raises:
        Malformed: the line is not one.
    """
    found = _matched(_BLOB, line)
    return found[1].decode("ascii"), _content(line, found.end())


def parse_event(line: bytes) -> tuple[StoredEvent, dict[str, Ranges]]:
    """Read an event and its conversations, whose messages are not looked at here.

    Raises:
        Malformed: the line is not one.
    """
    found = _matched(_EVENT, line)
    seq, round, kind, version, time, within, task, conversations, hash = found.groups()
    at = found.end()
    pruned = line.startswith(b'"body_hash":', at)
    row = StoredEvent(
        seq=_number(seq, MAX_SEQ),
        round=_number(round, MAX_INT),
        kind=_text(kind),
        version=1 if version is None else _number(version, MAX_INT),
        time=_time(time),
        within=None if within is None else _text(within),
        task="0" if task is None else _text(task),
        body=None if pruned else _content(line, at),
        body_hash=_text(line[at + 12 : -1]) if pruned else "",
        hash=hash.decode("ascii"),
        conversations={},
        messages={},
        blobs={},
    )
    if not row.kind or task == b'"0"' or version == b"1" or (pruned and not _is(_IS_HASH, row.body_hash)):
        raise Malformed("it is not written as agentreplay writes an event")
    return row, {} if conversations is None else _conversations(conversations)


def parse_end(line: bytes) -> tuple[str, int, str]:
    """Read the end of a section: the run's uid, how many events it has, and the hash of the last."""
    found = _END.fullmatch(line)
    if found is None:
        raise Malformed("it is not written as agentreplay ends a run")
    return found[1].decode("ascii"), int(found[2]), found[3].decode("ascii")


def parse_last(line: bytes) -> tuple[int, str]:
    """Read the last line: how many lines are before it, and their hash."""
    found = _LAST.fullmatch(line)
    if found is None:
        raise Malformed("it is not written as agentreplay ends a cassette")
    return int(found[1]), found[2].decode("ascii")


def _matched(form: re.Pattern[bytes], line: bytes) -> re.Match[bytes]:
    found = form.match(line)
    if found is None or line[-1:] != b"}":
        raise Malformed("it is not written as agentreplay writes it")
    return found


def _content(line: bytes, at: int) -> bytes:
    """The bytes that stand at the end of a line. Their hash is what counts; what is JSON is seen by who reads them."""
    if line.startswith(b'"body":', at):
        return line[at + 7 : -1]
    if line.startswith(b'"text":', at):
        return _text(line[at + 7 : -1]).encode()
    if line.startswith(b'"base64":"', at) and line.endswith(b'"}'):
        try:
            content = base64.b64decode(line[at + 10 : -2], validate=True)
        except binascii.Error:
            content = b""
        if base64.b64encode(content) == line[at + 10 : -2]:
            return content
    raise Malformed("it has no content")


def _text(written: bytes) -> str:
    try:
        text = loads(written)
    except ValueError:
        text = _half_a_text(written)
    if type(text) is not str or write_json(text) != written:
        raise Malformed("a text in it is not written as agentreplay writes it")
    return text


def _half_a_text(written: bytes) -> Any:
    """A text with lone surrogates, which strict readers refuse."""
    try:
        return json.loads(written.decode())
    except (ValueError, RecursionError):
        return None


def _number(written: bytes, limit: int) -> int:
    number = int(written)
    if number > limit:
        raise Malformed(f"a number in it is too large ({number})", f"a number up to {limit}")
    return number


def _time(written: bytes) -> int:
    try:
        if written[:1] == b'"':
            time = (datetime.fromisoformat(_text(written)) - EPOCH) // MICROSECOND
        else:
            time = int(written)
    except (ValueError, TypeError):
        raise Malformed("its time is not written as agentreplay writes it") from None
    if write_json(written_time(time)) != written or not -(2**63) <= time < 2**63:
        raise Malformed("its time is not written as agentreplay writes it")
    return time


def _conversations(written: bytes) -> dict[str, Ranges]:
    found: dict[str, Ranges] = {}
    total = 0
    for name, ranges in _lists(written):
        if name in found:
            raise Malformed("it has two conversations of one name")
        found[name] = [(first, count) for first, count in ranges]
        total += sum(count for _, count in ranges)
        ends = [-1, *(first + count for first, count in ranges)]
        if any(count == 0 or first == end for (first, count), end in zip(ranges, ends, strict=False)):
            raise Malformed("its conversations are not written as agentreplay writes them")
    if total > MAX_CONVERSATION:
        raise Malformed(f"its conversation is of {total} messages", f"up to {MAX_CONVERSATION}")
    if write_json([*found.items()]) != written:
        raise Malformed("its conversations are not written as agentreplay writes them")
    return found


def _lists(written: bytes) -> list[Any]:
    """[[name, [[first, count], …]], …]: the form is known to be right, the names may be no text."""
    try:
        lists: list[Any] = json.loads(written.decode())
    except ValueError:
        raise Malformed("a text in it is not written as agentreplay writes it") from None
    return lists
