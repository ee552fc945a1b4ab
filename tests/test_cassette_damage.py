"""Damaged cassettes: every change is found, nothing is half-imported, and what is sound can be salvaged."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agentreplay.recorder.errors import ImportFailed
from agentreplay.recorder.event_codec import digest_of
from agentreplay.recorder.hashes import content_address, event_hash
from agentreplay.recorder.importers import import_file
from agentreplay.recorder.importers.cassette_reader import read_cassette
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore
from agentreplay.recorder.values import dumps
from cassette_runs import (
    UID,
    closed,
    content_of,
    event,
    exported,
    finished,
    fork_at,
    imported,
    lines_of,
    record_family,
    record_forks,
    record_small,
    small_cassette,
    started,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HEADER, RUN, STARTED, MESSAGE, SECOND_MESSAGE, CALLED, SUBRUN, END, CHILD, CHILD_STARTED, CHILD_END, LAST = range(12)
"""The lines of the small cassette."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


@pytest.fixture
def small(file: Path) -> bytes:
    return small_cassette(file)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    opened: EventStore = MemoryStore() if request.param == "memory" else SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A cassette of forks and child runs."""
    home = MemoryStore()
    return exported(home, record_forks(home).uid, tmp_path_factory.mktemp("forks") / "run.jsonl")


def refused(data: bytes, file: Path, **options: Any) -> ImportFailed:
    """The error of an import, which leaves an empty store empty."""
    store = MemoryStore()
    with pytest.raises(ImportFailed) as caught:
        imported(data, file, store, **options)
    assert store.runs() == []
    assert store._contents == {}
    assert caught.value.path == str(file)
    assert "; expected " in str(caught.value)
    return caught.value


# -- the law -----------------------------------------------------------------------------------------------------------


def test_a_cassette_cut_at_every_byte_is_whole_or_refused(small: bytes, file: Path) -> None:
    """Only the line feed at the very end may be missing; every other cut is one error that names the line."""
    for size in range(1, len(small) - 1):
        line = refused(small[:size], file).line
        whole = small[:size].count(b"\n")
        if size > len(b'{"agentreplay":'):  # a shorter piece is not known to be of a cassette
            assert line == whole + (small[size - 1 : size] != b"\n")
    assert imported(small[:-1], file, MemoryStore()).imported == 4


@pytest.mark.parametrize("bit", [0, 3, 5, 7])
def test_a_flipped_bit_at_every_byte_is_found(small: bytes, file: Path, bit: int) -> None:
    """Whatever the bit is of: text, number, hash, structure or line end; the message names a line."""
    for at in range(len(small)):
        changed = bytearray(small)
        changed[at] ^= 1 << bit
        error = refused(bytes(changed), file)
        if at >= len(b'{"agentreplay"'):
            assert error.line is not None


def test_a_line_that_is_missing_doubled_or_moved_is_found(small: bytes, file: Path) -> None:
    """Any line, to any place."""
    lines = small.splitlines(keepends=True)
    for at in range(len(lines)):
        without = lines[:at] + lines[at + 1 :]
        refused(b"".join(without), file)
        for place in range(len(lines)):
            refused(b"".join([*lines[:place], lines[at], *lines[place:]]), file)
            if place not in (at, len(lines)):
                moved = [*without[:place], lines[at], *without[place:]]
                refused(b"".join(moved), file)


def test_salvaging_what_is_cut_anywhere_keeps_a_sound_beginning(small: bytes, file: Path) -> None:
    """Of a file cut at every byte: each run that is kept has its first events as they were; verifying names the rest.

    Importing the whole file later completes it.
    """
    home = MemoryStore()
    record_small(home)
    whole = content_of(home)
    kept = set()
    for size in range(1, len(small)):
        store = MemoryStore()
        try:
            report = imported(small[:size], file, store, salvage=True)
        except ImportFailed:
            assert store.runs() == []
            continue
        assert report.read == report.imported + report.damaged
        for info in store.runs():
            rows = [row.hash for row in store.rows(info)]
            assert rows == [row[2] for row in whole[info.uid][3]][: len(rows)]
            problems = [problem.what for problem in store.verify(info)]
            short = len(rows) < len(whole[info.uid][3])
            assert (problems != [], info.origin) == (short, "salvaged" if short else "recorded")
        kept.add(tuple(info.head_seq for info in store.runs()))
        imported(small, file, store)
        assert content_of(store) == whole
        assert store.verify() == []
    assert kept == {(0,), (1,), (2,), (2, 0)}


@pytest.mark.parametrize("bit", [0, 5])
def test_salvaging_what_was_changed_anywhere_keeps_only_what_is_sound(small: bytes, file: Path, bit: int) -> None:
    """With a bit flipped at every byte: what is kept is as it was, and at most what the changed line holds is lost."""
    home = MemoryStore()
    record_small(home)
    whole = {uid: [row[2] for row in run[3]] for uid, run in content_of(home).items()}
    line = 0
    for at in range(len(small)):
        changed = bytearray(small)
        changed[at] ^= 1 << bit
        store = MemoryStore()
        imported(bytes(changed), file, store, salvage=True, format="cassette")
        kept = {info.uid: [row.hash for row in store.rows(info)] for info in store.runs()}
        assert all(rows == whole[uid][: len(rows)] for uid, rows in kept.items())
        lost = {uid: len(rows) - len(kept.get(uid, ())) for uid, rows in whole.items()}
        may_lose = {
            STARTED: {UID(1): 3, UID(2): 0},
            MESSAGE: {UID(1): 2, UID(2): 0},
            SECOND_MESSAGE: {UID(1): 2, UID(2): 0},
            CALLED: {UID(1): 2, UID(2): 0},
            SUBRUN: {UID(1): 1, UID(2): 0},
            CHILD_STARTED: {UID(1): 0, UID(2): 1},
        }
        if small[at : at + 1] != b"\n":  # a line feed that was changed takes the line behind it along
            assert lost == may_lose.get(line, {UID(1): 0, UID(2): 0}), (at, line)
        line += small[at : at + 1] == b"\n"


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    damages=st.lists(st.tuples(st.integers(0, 8), st.integers(0), st.integers(0), st.binary(max_size=9)), min_size=1)
)
def test_any_damage_is_refused_and_salvaged_soundly(
    damages: list[tuple[int, int, int, bytes]], forks: bytes, file: Path
) -> None:
    """Bytes and lines changed, cut out, put in, doubled, moved, zeroed, in a file of forks and child runs."""
    data = forks
    for damage in damages:
        data = damaged(data, *damage)
    whole = MemoryStore()
    imported(forks, file, whole)
    hashes = {info.uid: [row.hash for row in whole.rows(info)] for info in whole.runs()}
    store, refusal = MemoryStore(), ""
    try:
        imported(data, file, store, format="cassette")
    except ImportFailed as error:
        refusal = str(error)
    assert content_of(store) == ({} if refusal else content_of(whole))
    assert "fault of agentreplay" not in refusal
    try:
        imported(data, file, store, format="cassette", salvage=True)
    except ImportFailed:
        assert store.runs() == []
    for info in store.runs():
        kept = [row.hash for row in store.rows(info)]
        assert kept == hashes[info.uid][: len(kept)]
    assert all("salvaged" in problem.what for problem in store.verify())
    imported(forks, file, store)
    assert {info.uid: [row.hash for row in store.rows(info)] for info in store.runs()} == hashes


def damaged(data: bytes, kind: int, at: int, to: int, new: bytes) -> bytes:
    """One of nine kinds of damage; the numbers may be any."""
    lines = data.split(b"\n")
    at, to, line, place = at % len(data), to % len(data), at % len(lines), to % len(lines)
    if kind < 6:
        start, end = sorted((at, to))
        middle = (new, b"", b"\0" * (end - start), data[start:end] * 2, data[start:end][::-1], b"\n")[kind]
        return data[:start] + middle + data[min(end, start + 300) :] or b"x"
    moved = lines.pop(line)
    lines[place:place] = [[], [moved], [moved, moved]][kind - 6]
    return b"\n".join(lines) or b"x"


# -- each sort of damage -----------------------------------------------------------------------------------------------


def changed(line: int, old: bytes, new: bytes) -> Callable[[list[bytes]], None]:
    def change(lines: list[bytes]) -> None:
        assert old in lines[line]
        lines[line] = lines[line].replace(old, new, 1)

    return change


def joined(lines: list[bytes]) -> None:
    lines[CALLED : CALLED + 2] = [lines[CALLED] + lines[SUBRUN]]


DAMAGES: dict[str, tuple[Callable[[list[bytes]], None], int, str]] = {
    "the last line is cut": (
        lambda lines: lines.__setitem__(-1, lines[-1][:30]),
        12,
        "the file ends in the middle of it",
    ),
    "the last line is missing": (lambda lines: lines.pop(), 11, "the file ends after it, without its last line"),
    "zeros in a line": (changed(CALLED, b'"call"', b"\0" * 6), 6, "it holds NUL bytes"),
    "a block of zeros": (
        lambda lines: lines.__setitem__(slice(3, 6), [b"\0" * 4096]),
        4,
        "it holds NUL bytes, as a part of a file does that was never written",
    ),
    "a broken line": (changed(CALLED, b'"call"', b'"call'), 6, "it is not JSON ("),
    "an empty object": (lambda lines: lines.insert(4, b"{}"), 5, "it is no record of a cassette"),
    "two records on a line": (joined, 6, "two records stand on it"),
    "an event is missing": (lambda lines: lines.pop(CALLED), 6, "event 2 stands where event 1 belongs"),
    "a body was changed": (changed(CALLED, b'"name":"m"', b'"name":"n"'), 6, "event 1 (model.called) was changed"),
    "a hash was changed": (
        changed(STARTED, b'"hash":"sha256:', b'"hash":"md5:'),
        3,
        "it is not written as agentreplay",
    ),
    "a message was changed": (changed(MESSAGE, "é".encode(), b"e"), 4, "message 0 was changed"),
    "a message is missing": (lambda lines: lines.pop(MESSAGE), 4, "message 1 stands where message 0 belongs"),
    "the last message is missing": (
        lambda lines: lines.pop(SECOND_MESSAGE),
        5,
        "it refers to message 1, which does not",
    ),
    "a message that nobody needs": (
        lambda lines: lines.insert(CALLED, _message(2, b'"more"')),
        7,
        "a content before event 1 is not needed by it",
    ),
    "a blob that nobody needs": (
        lambda lines: lines.insert(CALLED, _blob(b'"more"')),
        7,
        "a content before event 1 is not needed by it",
    ),
    "a blob that is something else": (
        lambda lines: lines.insert(CALLED, _blob(b'"more"').replace(b'"more"', b'"less"')),
        6,
        "the content was changed: it is not what its hash says",
    ),
    "messages in another order": (
        changed(CALLED, b"[[0,2]]", b"[[1,1],[0,1]]"),
        6,
        "the list of messages of `messages`",
    ),
    "messages counted oddly": (changed(CALLED, b"[[0,2]]", b"[[0,1],[1,1],[1,0]]"), 6, "its conversations are not wr"),
    "a conversation of none": (
        changed(CALLED, b'"conversations":[["messages",[[0,2]]]],', b""),
        6,
        "event 1 does not have the conv",
    ),
    "a conversation too many": (
        changed(SUBRUN, b'"hash"', b'"conversations":[["messages",[[0,2]]]],"hash"'),
        7,
        "event 2 does not have the conversations that its body names",
    ),
    "one conversation twice": (
        changed(CALLED, b'[["messages",[[0,2]]]]', b'[["messages",[[0,2]]],["messages",[[0,2]]]]'),
        6,
        "it has two conversations of one name",
    ),
    "a message out of range": (changed(CALLED, b"[[0,2]]", b"[[0,999999]]"), 6, "it refers to message 999998"),
    "a gigabyte of messages": (changed(CALLED, b"[[0,2]]", b"[[0,1000000000]]"), 6, "its conversation is of 10000"),
    "a number beyond reason": (changed(CALLED, b'"seq":1', b'"seq":1' + b"0" * 400), 6, "it is not JSON ("),
    "a large seq": (changed(CALLED, b'"seq":1', b'"seq":4294967295'), 6, "a number in it is too large (4294967295)"),
    "a large round": (changed(CALLED, b'"round":0', b'"round":2147483648'), 6, "a number in it is too large"),
    "a large time": (changed(CALLED, b'"2026-11-30T12:00:01.000000Z"', b"9999999999999999999"), 6, "its time is not"),
    "a time of another spelling": (changed(CALLED, b"01.000000Z", b"01Z"), 6, "its time is not written as agentreplay"),
    "a time of another zone": (changed(CALLED, b"01.000000Z", b"01.000000+01:00"), 6, "its time is not written"),
    "a time that is none": (changed(CALLED, b'"2026-11-30T12:00:01.000000Z"', b'"soon"'), 6, "its time is not written"),
    "a time in dots": (
        changed(CALLED, b'"2026-11-30T12:00:01.000000Z"', b'"2026-11-30T12:00:01.000000"'),
        6,
        "its time",
    ),
    "a default written out": (changed(CALLED, b'"time"', b'"version":1,"time"'), 6, "it is not written as agentreplay"),
    "a task written out": (changed(CALLED, b'"conversations"', b'"task":"0","conversations"'), 6, "it is not written"),
    "a kind of no letters": (changed(CALLED, b'"model.called"', b'""'), 6, "it is not written as agentreplay writes"),
    "a kind in escapes": (
        changed(CALLED, b'"model.called"', b'"\\u006dodel.called"'),
        6,
        "a text in it is not written",
    ),
    "a key twice": (
        changed(CALLED, b'"round":0', b'"round":0,"round":0'),
        6,
        "it is not written as agentreplay writes it",
    ),
    "a key twice in a body": (
        changed(CALLED, b'"name":"m"', b'"name":"n","name":"m"'),
        6,
        "event 1 (model.called) was ch",
    ),
    "a key twice in the header": (changed(HEADER, b'"version":1', b'"version":1,"version":1'), 1, "a key stands twice"),
    "blanks": (changed(CALLED, b'"round":0', b'"round": 0'), 6, "it is not written as agentreplay writes it"),
    "a run of another name": (changed(RUN, b'"agent":"a"', b'"agent":"b"'), 2, "it is not as the header has it"),
    "a run of another uid": (changed(RUN, UID(1).encode(), UID(2).encode()), 2, "it is not as the header has it"),
    "a run in capitals": (changed(RUN, b'"run":"01900', b'"run":"A1900'), 2, "a run of its has no uid"),
    "a child that begins first": (
        lambda lines: lines.__setitem__(slice(RUN, LAST), lines[CHILD:LAST] + lines[RUN:CHILD]),
        2,
        f"the run {UID(2)} does not begin here",
    ),
    "a run that does not end": (lambda lines: lines.pop(END), 8, f"the run {UID(2)} does not begin here"),
    "an end of another run": (changed(END, UID(1).encode(), UID(2).encode()), 8, f"the run {UID(2)} does not end here"),
    "an end of another count": (changed(END, b'"events":3', b'"events":4'), 8, "the run should have 4 events, but 3"),
    "an end of another hash": (
        changed(END, b'"hash":"', b'"hash":"sha256:' + b"0" * 64 + b'","x":"'),
        8,
        "it is not writ",
    ),
    "a header of another count": (changed(HEADER, b'"events":3', b'"events":4'), 8, "it is not as the header has it"),
    "an event of another run": (
        lambda lines: lines.__setitem__(CHILD_STARTED, lines[STARTED]),
        10,
        "event 0 (run.started) was changed: its hash does not follow",
    ),
    "an event outside": (lambda lines: lines.insert(CHILD, lines[CHILD_STARTED]), 9, "event 0 stands in no run"),
    "a run is missing": (
        lambda lines: lines.__setitem__(slice(CHILD, LAST), []),
        9,
        "it ends before its runs do",
    ),
    "more after the end": (lambda lines: lines.append(lines[STARTED]), 13, "the file goes on after its last line"),
    "a line number that is wrong": (
        changed(LAST, b'"lines":11', b'"lines":12'),
        12,
        "it says that 12 lines stand before it",
    ),
    "a header that was edited": (
        changed(HEADER, b'"version":1', b'"version":1,"ignore":[]'),
        1,
        "it or line 12 was changed",
    ),
}


def _message(number: int, content: bytes) -> bytes:
    return b'{"message":%d,"hash":"%b","body":%b}' % (number, content_address(content).encode(), content)


def _blob(content: bytes) -> bytes:
    return b'{"blob":"%b","body":%b}' % (content_address(content).encode(), content)


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_with_its_line(name: str, small: bytes, file: Path) -> None:
    """The message says which line, what is wrong with it, and how to keep the rest."""
    damage, line, found = DAMAGES[name]
    lines = small.splitlines()
    damage(lines)
    data = b"\n".join(lines)
    error = refused(data + b"\n" if name != "the last line is cut" else data, file)
    assert (error.line, str(error)) == (line, str(error))
    assert f"cannot import {file}, line {line}: {found}" in str(error)
    assert "--salvage" in str(error) or "If you edited the first line on purpose" in str(error)


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (b"[]", "it is no JSON object"),
        (b"{}", "it is no cassette"),
        (b'{"agentreplay":"other"}', "it is no cassette"),
        (b'{"agentreplay":"cassette"}', "its version is None"),
        (b'{"agentreplay":"cassette","version":0}', "its version is 0"),
        (b'{"agentreplay":"cassette","version":true}', "its version is True"),
        (b'{"agentreplay":"cassette","version":1}', "its header lists no runs"),
        (b'{"agentreplay":"cassette","version":1,"runs":[1]}', "its header lists something that is no run"),
        (b'{"agentreplay":"cassette","version":1,"runs":[{}]}', "a run of its has no uid"),
        (b'{"agentreplay":"cassette","version":1,"x":NaN}', "it is not JSON ("),
        (b'{"agentreplay":"cassette","version":1,"x":' + b"[" * 900 + b"]" * 900 + b"}", "its header lists no runs"),
        (b'{"agentreplay":"cassette","version":1,"x":' + b"[" * 90_000, "the file ends in the middle of it"),
        (b'{"agentreplay":"cassette","x":' + b"[" * 90_000 + b"]" * 90_000 + b"}", "it is not JSON"),
        (b'{"agentreplay":"cassette","x":' + b"9" * 9_000 + b"}", "it is not JSON ("),
        (b'{"agentreplay":"cassette\xff","version":1}', "it is not JSON ("),
    ],
    ids=lambda value: None if isinstance(value, str) else value[:60].decode("latin-1"),
)
def test_a_header_that_is_none_is_named(header: bytes, found: str, file: Path) -> None:
    """Whatever JSON it is, deep or huge numbers included."""
    error = refused(header if header[-90_000:] == b"[" * 90_000 else header + b"\n", file, format="cassette")
    assert error.line == 1
    assert found in str(error)


def uid_of(number: int) -> str:
    return f"01900000-0000-7000-8000-{number:012x}"


def entry(uid: str = UID(1), **fields: Any) -> dict[str, Any]:
    return {"run": uid, "agent": "a", "events": 0, "hash": "", **fields}


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        ([entry(), entry()], f"its header lists the run {UID(1)} twice"),
        ([entry(UID(2))], "its header does not list the run that it is of"),
        ([entry(parent=UID(1))], f"the run {UID(1)} is its own parent's parent"),
        ([entry(parent=UID(2)), entry(UID(2), parent=UID(1))], "is its own parent's parent"),
        (
            [entry(fork_of=UID(1), fork_seq=0)],
            f"the run {UID(1)} is a fork of {UID(1)}, which does not stand before it",
        ),
        ([entry(fork_of=UID(2), fork_seq=0), entry(UID(2))], "which does not stand before it"),
        ([entry(fork_of=UID(2))], f"it does not say properly where the run {UID(1)} was forked"),
        ([entry(fork_seq=1)], f"it does not say properly where the run {UID(1)} was forked"),
        ([entry(fork_of=UID(2), fork_seq=-1)], "it does not say properly where"),
        ([entry(fork_of=UID(2), fork_seq=2**40)], "it does not say properly where"),
        ([entry(fork_of=UID(2), fork_seq=1.0)], "it does not say properly where"),
        ([entry(events=-1)], "its header does not say how many events"),
        ([entry(events=10**30)], "its header does not say how many events"),
        ([entry(events=True)], "its header does not say how many events"),
        ([entry(hash="md5:0")], "its header does not say how many events"),
        ([entry(agent=None)], f"it does not say properly what the run {UID(1)} is"),
        ([entry(prefix=1)], f"it does not say properly what the run {UID(1)} is"),
        ([entry(parent="run1")], f"the parent of the run {UID(1)} is no uid"),
        ([entry("../../etc/passwd")], "a run of its has no uid"),
        ([entry(lost={"seq": -1, "hash": None})], "it does not say properly what was lost"),
        ([entry(lost=[])], "it does not say properly what was lost"),
        ([entry(fork_of=UID(2), fork_seq=5)], "which does not stand before it"),
        (
            [entry(), *(entry(uid_of(n), fork_of=uid_of(n - 1), fork_seq=0) for n in range(2, 400))],
            "is a fork of a fork of too many",
        ),
    ],
    ids=lambda value: None if isinstance(value, list) else value[:40],
)
def test_links_that_cannot_be_are_named(runs: list[dict[str, Any]], found: str, file: Path) -> None:
    """Runs that are their own parents or forks, and facts that are none."""
    header = {"agentreplay": "cassette", "version": 1, "run": UID(1), "runs": runs}
    error = refused(json.dumps(header).encode() + b"\n", file)
    assert error.line == 1
    assert found in str(error)


def test_a_fork_of_an_event_that_is_not_there_is_named(file: Path) -> None:
    """The run that it shares events with ends before."""
    home = MemoryStore()
    parent = record_family(home)
    fork_at(home, parent, 14, UID(0x10))
    lines = exported(home, UID(0x10), file).splitlines()
    lines[0] = lines[0].replace(b'"fork_seq":14', b'"fork_seq":15')
    at = next(n for n, line in enumerate(lines) if line.startswith(b'{"run":"%b"' % UID(0x10).encode()))
    lines[at] = lines[at].replace(b'"fork_seq":14', b'"fork_seq":15')
    error = refused(closed(lines[:-1]), file)
    assert error.line == at + 1
    assert f"event 15 of {UID(1)}, where the run was forked, is not there" in str(error)


def test_parents_that_lead_round_through_the_store_are_refused(file: Path) -> None:
    """A run of the file whose parent, which is here, is its child."""
    home, store = MemoryStore(), MemoryStore()
    home.create_run("a", uid=UID(1), parent=UID(2))
    store.create_run("b", uid=UID(2), parent=UID(1))
    exported(home, UID(1), file)
    with pytest.raises(ImportFailed, match="is its own parent's parent"):
        import_file(file, store)
    assert len(store.runs()) == 1


def hostile(body: bytes, *contents: bytes, conversations: bytes = b"") -> bytes:
    """A cassette of one event with a body of anybody's making, all of whose hashes are right."""
    hash = event_hash(
        "", uid=UID(1), seq=0, round=0, kind="model.called", version=1, time_us=0, within=None, task="0",
        body_hash=content_address(body),
    )  # fmt: skip
    facts = {"run": UID(1), "agent": "a"}
    header = {"agentreplay": "cassette", "version": 1, "run": UID(1), "runs": [{**facts, "events": 1, "hash": hash}]}
    event = b'{"seq":0,"round":0,"kind":"model.called","time":"1970-01-01T00:00:00.000000Z",%b"hash":"%b","body":%b}'
    return closed(
        [
            dumps(header),
            dumps(facts),
            *contents,
            event % (conversations, hash.encode(), body),
            dumps({"end": UID(1), "events": 1, "hash": hash}),
        ]
    )


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (
            hostile(b'{"x":{"$type":"blob","hash":"sha256:%b","size":1}}' % (b"0" * 64)),
            "refers to a content that does not",
        ),
        (hostile(b'{"x":{"$type":"blob"}}'), "what it refers to is not written as agentreplay writes it"),
        (hostile(b'{"x":{"$type":"blob","hash":[]}}'), "what it refers to is not written as agentreplay writes it"),
        (hostile(b'{"x":{"$type":"blob","hash":"../x"}}'), "what it refers to is not written as agentreplay writes it"),
        (
            hostile(b'{"request":{"m":{"$type":"messages"}}}'),
            "what it refers to is not written as agentreplay writes it",
        ),
        (
            hostile(b'{"request":{"m":{"$type":"messages","hash":"x"}}}'),
            "does not have the conversations that its body",
        ),
        (hostile(b'{"x":1}', b'{"message":0,"hash":"sha256:%b","base64":"!"}' % (b"0" * 64)), "it has no content"),
        (hostile(b'{"x":1}', b'{"message":0,"hash":"sha256:%b","zip":"!"}' % (b"0" * 64)), "it has no content"),
        (
            hostile(b'{"x":1}', b'{"message":0,"hash":"sha256:%b","text":1}' % (b"0" * 64)),
            "a text in it is not written",
        ),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value[:40],
)
def test_what_somebody_made_with_right_hashes_is_looked_at_as_well(data: bytes, found: str, file: Path) -> None:
    """Hashes prove that nothing was changed, not that anything makes sense."""
    assert found in str(refused(data, file))


def test_what_cannot_be_read_as_an_event_is_kept_and_said(file: Path) -> None:
    """An event whose data is not of its kind comes in as it is; the import says so, reading it is one clear error."""
    from agentreplay.recorder.errors import CorruptLog

    data = hostile(b'{"call":[]}').replace(b"model.called", b"run.started")
    lines = data.splitlines()
    hash = event_hash(
        "", uid=UID(1), seq=0, round=0, kind="run.started", version=1, time_us=0, within=None, task="0",
        body_hash=content_address(b'{"call":[]}'),
    )  # fmt: skip
    old = json.loads(lines[-2])["hash"].encode()
    store = MemoryStore()
    report = imported(closed([line.replace(old, hash.encode()) for line in lines[:-1]]), file, store)
    assert report.notes == [f"event 0 (run.started) of {UID(1)} cannot be read any more"]
    with pytest.raises(CorruptLog):
        list(store.events(UID(1)))


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"PK\x03\x04\x14\x00\x00\x00\x08\x00", "line 1: it holds NUL bytes"),
        (gzip.compress(b'{"agentreplay":"cassette","version":1}\n' * 50, mtime=0), "line 1: it"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "line 1: it is not JSON"),
        (b'{"trajectory": [], "info": {}}', "line 1: it is no cassette"),
        (b'{"type":"user"}\n{"type":"assistant"}\n', "line 1: it is no cassette"),
        (b"once upon a time", "line 1: the file ends in the middle of it"),
        ('{"agentreplay":"cassette"}'.encode("utf-16"), "line 1: it holds NUL bytes"),
        (b"[" * 300_000, "line 1: the file ends in the middle of it"),
        (base64.b64encode(bytes(9_999)) + b"\n", "line 1: it is not JSON"),
    ],
    ids=lambda value: None if isinstance(value, str) else value[:20].decode("latin-1"),
)
@pytest.mark.parametrize("salvage", [False, True])
def test_a_file_of_another_kind_is_refused(data: bytes, found: str, salvage: bool, file: Path) -> None:
    """Nothing of it is taken, whatever it is and whether or not it is to be salvaged."""
    assert found in str(refused(data, file, format="cassette", salvage=salvage))


def test_an_empty_file_is_refused(file: Path) -> None:
    """Also one of blank lines."""
    for data in (b"", b"\n\n"):
        file.write_bytes(data)
        with pytest.raises(ImportFailed, match="it is empty"):
            import_file(file, MemoryStore(), format="cassette")


# -- what editors and git do -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "note"),
    [
        (
            lambda data: data.replace(b"\n", b"\r\n"),
            "line 1: a line ends as on Windows (CRLF); it says the same all the same",
        ),
        (lambda data: data.replace(b"\n", b"\r\n", 1), "line 1: a line ends as on Windows (CRLF); it says the same"),
        (
            lambda data: b"\xef\xbb\xbf" + data,
            "line 1: a byte order mark stands before its first line; it says the same",
        ),
        (lambda data: data + b"\n", "line 13: a line is blank; it says the same all the same"),
        (lambda data: b"\n \t\n" + data, "line 1: a line is blank; it says the same all the same"),
        (lambda data: data.replace(b"\n", b"\n\n"), "line 2: a line is blank; it says the same all the same"),
        (lambda data: data[:-1], None),
    ],
    ids=[
        "CRLF",
        "one CRLF",
        "BOM",
        "blank line at the end",
        "blank lines before",
        "double spaced",
        "no last line feed",
    ],
)
def test_what_editors_and_git_do_changes_nothing(
    edit: Callable[[bytes], bytes], note: str | None, small: bytes, file: Path
) -> None:
    """Line ends, a byte order mark and blank lines are read over with a note; written again the file is as it was."""
    store = MemoryStore()
    report = imported(edit(small), file, store)
    assert (report.imported, report.damaged) == (4, 0)
    assert [text[: len(note)] for text in report.notes] == [note] if note else report.notes == []
    assert exported(store, UID(1), file) == small


# -- salvage -----------------------------------------------------------------------------------------------------------


def test_salvaging_keeps_what_is_sound_and_lists_what_is_not(store: EventStore, file: Path) -> None:
    """A line in the middle of a run is broken: the run ends before it, other runs are whole, and verifying says so."""
    home = MemoryStore()
    run = record_family(home)
    lines = exported(home, run.uid, file).splitlines()
    whole = b"\n".join(lines) + b"\n"
    broken, later = (next(n for n, line in enumerate(lines) if line.startswith(b'{"seq":%d,' % seq)) for seq in (9, 10))
    lines[broken] = lines[broken][:40]
    report = imported(b"\n".join(lines) + b"\n", file, store, salvage=True)
    assert (report.runs[0], report.read, report.imported, report.damaged) == ("run1", 30, 21, 9)
    assert report.notes[0] == "run1: events 9 to 17 are lost; its events to 8 are sound"
    assert re.fullmatch(rf"line {broken + 1}: it is not JSON \(.* at column \d+\)", report.notes[1])
    assert report.notes[2] == f"line {later + 1}: event 10 stands where event 9 belongs"
    assert report.notes[3].endswith("the run should have 18 events, but 9 sound ones are there")
    assert [(info.head_seq, info.origin) for info in store.runs()] == [
        (8, "salvaged"),
        (1, "recorded"),
        (1, "recorded"),
        (7, "recorded"),
    ]
    assert [(problem.run, problem.seq, problem.what) for problem in store.verify()] == [
        ("run1", 9, "events up to 17 are missing: the file that it was salvaged from had lost its end")
    ]
    again = exported(store, UID(1), file)
    assert lines_of(again)[0]["runs"][0]["lost"] == {"seq": 17, "hash": run.head_hash}
    there = MemoryStore()
    imported(again, file, there)
    assert [problem.seq for problem in there.verify()] == [9]
    assert exported(there, UID(1), file) == again
    report = imported(whole, file, store)
    assert report.imported == 9
    assert content_of(store) == content_of(home)
    assert store.verify() == []


def test_a_salvaged_run_that_went_another_way_is_not_whole(file: Path) -> None:
    """Events that were appended here do not stand for those that were lost."""
    home, store = MemoryStore(), MemoryStore()
    run = record_small(home)
    lines = exported(home, run.uid, file).splitlines()
    del lines[SUBRUN]
    imported(b"\n".join(lines) + b"\n", file, store, salvage=True)
    store.append(UID(1), 1, [event("x.other", 2)])
    assert [problem.seq for problem in store.verify(UID(1))] == [3]


def test_a_claim_of_a_damaged_file_does_not_stand_against_a_sound_one(file: Path) -> None:
    """A header that was damaged as well may say that more was lost than there ever was."""
    home = MemoryStore()
    run = home.create_run("a", uid=UID(1))
    home.append(run, -1, [started("a"), event("x.n", 1), finished(2)])
    data = exported(home, UID(1), file)
    cut = data[: data.index(b'{"seq":2')].replace(b'"events":3', b'"events":7', 1)
    store = MemoryStore()
    imported(cut, file, store, salvage=True)
    assert [problem.what.partition(":")[0] for problem in store.verify()] == ["events up to 6 are missing"]
    assert imported(data, file, store).imported == 1
    assert store.verify() == []
    assert store.run(UID(1)).origin == "recorded"


def test_a_fork_is_lost_with_the_events_that_it_shares(store: EventStore, file: Path) -> None:
    """It cannot be rebuilt without them; its own events are listed as lost."""
    home = MemoryStore()
    fork = record_forks(home)
    lines = exported(home, fork.uid, file).splitlines()
    broken = next(n for n, line in enumerate(lines) if line.startswith(b'{"seq":9,'))
    del lines[broken]
    report = imported(b"\n".join(lines) + b"\n", file, store, salvage=True)
    assert [info.uid for info in store.runs()] == [UID(1), UID(3)]
    assert report.damaged == 6 + 7 + 8
    for uid in (UID(0x10), UID(0x11)):
        assert f"the run {uid} (refunds) is lost: none of its events is sound" in report.notes
    assert [problem.seq for problem in store.verify()] == [9]


@pytest.mark.parametrize("line", [HEADER, RUN, CHILD, END, CHILD_END, LAST])
def test_a_line_about_runs_can_be_lost_without_losing_events(line: int, small: bytes, file: Path) -> None:
    """What the header says stands in the sections too, and the other way round; the events themselves say the rest."""
    for damage in (b'{"broken', b"", b"\0" * 100):
        store = MemoryStore()
        lines = small.splitlines()
        lines[line] = damage
        report = imported(b"\n".join(lines) + b"\n", file, store, salvage=True)
        assert (report.imported, report.damaged) == (4, 1)
        assert [(info.agent, info.parent) for info in store.runs()] == [("a", None), ("b", UID(1))]
        assert store.verify() == []


def test_forks_are_salvaged_without_the_header(store: EventStore, file: Path) -> None:
    """The sections say what each is a fork of."""
    home = MemoryStore()
    fork = record_forks(home)
    data = exported(home, fork.uid, file)
    report = imported(data[data.index(b"\n") + 1 :], file, store, salvage=True)
    assert report.damaged == 1
    assert exported(store, fork.uid, file) == data


def test_a_stretch_of_zeros_over_two_runs_loses_what_it_covers(store: EventStore, file: Path) -> None:
    """The end of one run and the beginning of the next: the second is found by the hash of its first event."""
    home = MemoryStore()
    run = record_family(home)
    lines = exported(home, run.uid, file).splitlines(keepends=True)
    end = next(n for n, line in enumerate(lines) if line.startswith(b'{"end":"%b"' % UID(1).encode()))
    zeroed = b"\0" * sum(len(line) for line in lines[end - 1 : end + 2])
    report = imported(
        b"".join(lines[: end - 1]) + zeroed + b"\n" + b"".join(lines[end + 2 :]), file, store, salvage=True
    )
    assert [info.head_seq for info in store.runs()] == [16, 1, 1, 7]
    assert report.damaged == 1
    assert [problem.seq for problem in store.verify()] == [17]


def test_salvaging_a_sound_file_is_importing_it(small: bytes, file: Path) -> None:
    """Nothing is marked, nothing is lost."""
    store, other = MemoryStore(), MemoryStore()
    assert imported(small, file, store, salvage=True).notes == []
    imported(small, file, other)
    assert content_of(store) == content_of(other)


def test_salvaging_never_takes_a_run_back(small: bytes, file: Path) -> None:
    """A store that has more than the damaged file still holds keeps it, and is not called damaged."""
    store = MemoryStore()
    imported(small, file, store)
    before = content_of(store)
    report = imported(small[: small.index(b'{"seq":2')], file, store, salvage=True)
    assert report.imported == 0
    assert content_of(store) == before
    assert store.verify() == []


def test_many_damaged_lines_are_counted_and_the_first_named(file: Path) -> None:
    """A report stays readable."""
    data = small_cassette(file)
    report = imported(data + b'{"broken\n' * 5_000, file, MemoryStore(), salvage=True)
    assert len(report.notes) == 101
    assert report.notes[-1] == "and 4900 more damaged lines"


def test_reading_a_cassette_holds_little_more_than_the_file(file: Path) -> None:
    """What is read is the places of events and contents in it, not the events."""
    import tracemalloc

    from cassette_runs import add_raw, stored

    home = MemoryStore()
    add_raw(home, [stored(seq, b'{"text":"%b"}' % (b"x" * 4_000)) for seq in range(500)])
    data = exported(home, UID(9), file)
    tracemalloc.start()
    read_cassette("x", data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000 < len(data)


def test_digests_of_conversations_are_of_addresses() -> None:
    """The law behind numbering messages anew in each file: a digest covers addresses, never numbers."""
    assert digest_of(["sha256:a", "sha256:b"]) == content_address(b"sha256:a\nsha256:b")
