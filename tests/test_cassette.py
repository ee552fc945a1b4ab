"""Cassettes: a run with all that belongs to it, as a file that loses nothing, in and out of any store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.cassette import References, ranges_of
from agentreplay.recorder.errors import ImportFailed, StoreError
from agentreplay.recorder.event_codec import digest_of
from agentreplay.recorder.hashes import content_address
from agentreplay.recorder.importers import detect, import_file
from agentreplay.recorder.importers.cassette_lines import parse_header
from agentreplay.recorder.importers.source import SourceFile
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.redaction import RedactionRules
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore
from agentreplay.recorder.values import dumps, loads
from agentreplay.replay.timeline import states
from cassette_runs import (
    HISTORY,
    LONG,
    UID,
    a_round,
    add_raw,
    closed,
    content_of,
    event,
    exported,
    finished,
    fork_at,
    imported,
    lines_of,
    record_every_line,
    record_family,
    record_forks,
    record_small,
    started,
    stored,
)
from hypothesis import given, settings
from hypothesis import strategies as st

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "cassettes"
EARLIER = sorted((FIXTURES / "version_1").glob("*.jsonl"))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    """Where a cassette is imported."""
    opened: EventStore = MemoryStore() if request.param == "memory" else SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
    yield opened
    opened.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


# -- nothing is lost ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [record_small, record_family, record_forks])
def test_exported_imported_and_exported_again_gives_the_same_bytes(record: Any, store: EventStore, file: Path) -> None:
    """And in between, the other store holds the same events, hashes, contents and links, and verifies."""
    home = MemoryStore()
    run = record(home)
    first = exported(home, run.uid, file)
    report = import_file(file, store)
    assert exported(store, run.uid, file) == first
    assert store.verify() == []
    here, there = content_of(home), content_of(store)
    assert there == here if record is not record_forks else there[run.uid] == here[run.uid]
    assert (report.read, report.imported, report.unknown, report.damaged) == (report.read, report.read, 0, 0)
    assert store.run(report.runs[0]).uid == run.uid


def test_a_recorded_run_goes_round_through_a_database(store: EventStore, file: Path, tmp_path: Path) -> None:
    """A run of the example agent, with its child run: states, decisions and results are the same afterwards."""
    from agentreplay.examples import refunds

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTREPLAY_STORE", str(tmp_path / "home.db"))
        run = refunds.step.run(refunds.START).run
        home = ar.open_store()
        assert ar.export_run(run.uid, file) == file
    import_file(file, store)
    assert [dict(states(store.events(info.uid))) for info in store.runs()] == [
        dict(states(home.events(info.uid))) for info in store.runs()
    ]
    assert [info.agent for info in store.runs()] == ["refunds", "inspector"]
    assert store.run("run2").parent == store.run("run1").uid
    again = file.read_bytes()
    assert exported(store, "run1", file) == again
    home.close()


def test_a_run_of_another_tool_goes_round_as_well(store: EventStore, file: Path) -> None:
    """It stays what it was imported from, and one whose file has no times has no duration elsewhere either."""
    home = MemoryStore()
    import_file(FIXTURES.parent / "swe_agent" / "state_as_text_submitted.traj", home)
    data = exported(home, "run1", file)
    import_file(file, store)
    assert content_of(store) == content_of(home)
    assert (store.run("run1").origin, store.run("run1").duration) == ("imported", None)
    assert exported(store, "run1", file) == data
    assert store.verify() == []


def test_a_line_is_an_event_and_reads_as_json(file: Path) -> None:
    """Every line is one JSON object; bodies and messages are JSON in it, each message and large value once."""
    home = MemoryStore()
    lines = lines_of(exported(home, record_family(home).uid, file))
    assert [sorted(line)[0] for line in lines[:2]] == ["agentreplay", "agent"]
    assert [entry["run"] for entry in lines[0]["runs"]] == [UID(1), UID(2), UID(4), UID(3)]
    assert [entry["events"] for entry in lines[0]["runs"]] == [18, 2, 2, 8]
    events = [line for line in lines if "seq" in line]
    assert events[2]["body"]["request"]["messages"]["$type"] == "messages"
    assert events[4]["within"] == "1.1"
    assert events[5]["task"] == "0.1"
    assert events[1]["time"] == "2026-11-30T12:00:01.000000Z"
    assert [line["conversations"] for line in events if "conversations" in line] == [
        [["messages", [[0, 3]]]],
        [["messages", [[0, 6]]]],
        [["messages", [[2, 2]]]],
    ]
    messages = [line["body"] for line in lines if "message" in line]
    assert messages == HISTORY[:6]
    assert [line["body"] for line in lines if "blob" in line] == [{"found": LONG}, LONG]
    assert lines[-1]["lines"] == len(lines) - 1


def test_a_store_of_its_own_key_changes_no_token(store: EventStore, file: Path) -> None:
    """What was redacted elsewhere stays as it was redacted there, though this store's tokens would be others."""
    home = MemoryStore()
    run = home.create_run("a", uid=UID(1))
    secret = "sk-" + "proj-" + "Zx9" * 16
    home.append(run, -1, [started("a"), event("tool.called", 1, call="c", name="t", arguments={"api_key": secret})])
    data = exported(home, UID(1), file)
    assert secret.encode() not in data
    import_file(file, store)
    arguments = list(store.events(UID(1)))[1].data.arguments
    assert arguments == list(home.events(UID(1)))[1].data.arguments
    assert arguments["api_key"] != store.redactor.redact({"api_key": secret})["api_key"]


BODIES = [
    b'{"a":1e16,"b":1E5,"c":1.10,"d":-0,"e":123456789012345678901234567890}',
    b'{ "a" : [1, 2] , "b":"\\u00e9\\u001B\\/" }',
    b'{"a":1,"a":2,"body":{"text":"","hash":"x"}}',
    b'{"b":",\\"body\\":1}","c":"\xc3\xa9\xf0\x9f\x98\x80\x7f\xe2\x80\xa8"}',
    b"null",
    b'"just a text"',
    b"[" * 300 + b"]" * 300,
    b"",
    b"{",
    b"{}\n{}",
    b'{\n  "pretty": true\r\n}',
    b"\xff\xfe\x00not utf-8",
    b"\x00",
    b'{"half":"\\ud800"}',
    b"1e999",
    b"[" * 5_000 + b"]" * 5_000,
]


def test_bytes_of_any_sort_come_back_exactly(store: EventStore, file: Path) -> None:
    """A chain is over stored bytes: JSON of another spelling, what is no JSON, and what is no text are kept."""
    home = MemoryStore()
    add_raw(home, [stored(seq, body) for seq, body in enumerate(BODIES)])
    data = exported(home, UID(9), file)
    import_file(file, store)
    assert [row.body for row in store.rows(UID(9))] == BODIES
    assert exported(store, UID(9), file) == data
    assert store.verify() == []
    written = [next(iter(line.keys() & {"body", "text", "base64"})) for line in lines_of(data) if "seq" in line]
    assert written == ["body"] * 7 + ["text"] * 4 + ["base64", "text", "text", "text", "text"]


def test_a_pruned_body_stays_pruned_and_the_chain_holds(store: EventStore, file: Path) -> None:
    """The hash of the body is kept in its place."""
    home = MemoryStore()
    pruned = stored(1, None, body_hash=content_address(b'{"gone":1}'), conversations={"messages": ["sha256:gone"]})
    add_raw(home, [stored(0, b"{}"), pruned, stored(2, b"{}")])
    data = exported(home, UID(9), file)
    import_file(file, store)
    row = list(store.rows(UID(9)))[1]
    assert (row.body, row.body_hash) == (None, content_address(b'{"gone":1}'))
    assert exported(store, UID(9), file) == data
    assert store.verify() == []


def test_envelopes_of_any_sort_come_back_exactly(store: EventStore, file: Path) -> None:
    """Kinds, versions and times that this version does not know, and texts that are hard to write."""
    home = MemoryStore()
    rows = [
        stored(0, b"{}", kind='x.","body":{}\n\\'),
        stored(1, b"{}", kind="later.kind"),
        stored(2, b"{}"),
        stored(3, b"{}"),
    ]
    rows[1].version, rows[1].round, rows[1].within, rows[1].task = 7, 2**31 - 1, 'a","hash":"', ""
    rows[2].time, rows[2].task = -(10**17), "Zoë/\U0001f600"
    rows[3].time, rows[3].within = 2**62, ""
    add_raw(home, rows)
    data = exported(home, UID(9), file)
    import_file(file, store)
    assert exported(store, UID(9), file) == data
    assert content_of(store)[UID(9)][2:] == content_of(home)[UID(9)][2:]
    assert [line["time"] for line in lines_of(data) if "seq" in line] == [
        "1970-01-01T00:00:00.000000Z",
        "1970-01-01T00:00:00.000000Z",
        -(10**17),
        2**62,
    ]


def test_a_text_with_lone_surrogates_comes_back_exactly(file: Path) -> None:
    """It is no Unicode text, so it is written in escapes."""
    home, there = MemoryStore(), MemoryStore()
    rows = [stored(0, b"{}", kind="x.\ud800")]
    rows[0].task = "\udfff é"
    add_raw(home, rows, agent="half \ud83d")
    data = exported(home, UID(9), file)
    import_file(file, there)
    row = next(iter(there.rows(UID(9))))
    assert (row.kind, row.task, there.run(UID(9)).agent) == ("x.\ud800", "\udfff é", "half \ud83d")
    assert exported(there, UID(9), file) == data


def test_runs_without_events_are_kept(store: EventStore, file: Path) -> None:
    """A run that has not begun, and a fork that has nothing of its own yet."""
    home = MemoryStore()
    run = home.create_run("a", uid=UID(1))
    data = exported(home, UID(1), file)
    import_file(file, store)
    assert (store.run(UID(1)).agent, store.run(UID(1)).head_seq) == ("a", -1)
    assert exported(store, UID(1), file) == data
    home.append(run, -1, [started("a"), event("x.n", 1)])
    home.create_run("a", uid=UID(2), fork_of=UID(1), fork_seq=0)
    data = exported(home, UID(2), file)
    import_file(file, store)
    fork = store.run(UID(2))
    assert (fork.fork_of, fork.fork_seq, fork.head_seq) == (UID(1), 0, 0)
    assert exported(store, UID(2), file) == data
    assert store.verify() == []


@settings(deadline=None, max_examples=60)
@given(
    bodies=st.lists(
        st.binary(max_size=20)
        | st.sampled_from([b"{}", b'{"$type":"x"}', b"[1, 2]", b"\n", b"1e5"])
        | st.recursive(
            st.none()
            | st.integers(-(2**53) + 1, 2**53 - 1)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=6,
        ).map(lambda tree: dumps(tree) if not _has_tag(tree) else b"{}"),
        max_size=6,
    ),
    texts=st.tuples(st.text(min_size=1, max_size=8), st.none() | st.text(max_size=8), st.text(max_size=8)),
    numbers=st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1)),
)
def test_any_events_go_round(bodies: list[bytes], texts: tuple[Any, ...], numbers: tuple[int, ...]) -> None:
    """Whatever bytes, texts and numbers the events are of."""
    home, there = MemoryStore(), MemoryStore()
    rows = [stored(seq, body) for seq, body in enumerate(bodies)]
    for row in rows:
        row.kind, row.within, row.task = texts
        row.round, row.version, row.time = numbers
    add_raw(home, rows)
    with _temporary() as path:
        data = exported(home, UID(9), path)
        import_file(path, there)
        assert exported(there, UID(9), path) == data
    assert content_of(there)[UID(9)][2:] == content_of(home)[UID(9)][2:]


def _has_tag(tree: Any) -> bool:
    if isinstance(tree, dict):
        return "$type" in tree or any(map(_has_tag, tree.values()))
    return isinstance(tree, list) and any(map(_has_tag, tree))


def _temporary() -> Any:
    from contextlib import contextmanager
    from tempfile import TemporaryDirectory

    @contextmanager
    def inside() -> Iterator[Path]:
        with TemporaryDirectory() as folder:
            yield Path(folder, "run.jsonl")

    return inside()


def test_growing_conversations_are_checked_by_what_is_new() -> None:
    """Hashing only the growth gives the hash of the whole, for lists that grow, shrink, change and begin anew."""
    references = References()
    a, b, c = (content_address(text) for text in (b"a", b"b", b"c"))
    for addresses in ([a], [a, b], [a, b], [a, b, c], [a, b], [b, c], [], [c], [c, c], [a]):
        body = {"request": {"messages": {"$type": "messages", "hash": digest_of(addresses), "count": len(addresses)}}}
        row = stored(0, dumps(body), conversations={"messages": addresses})
        assert references.blobs(row) == []
    assert ranges_of([5, 6, 7, 2, 3, 2]) == [(5, 3), (2, 2), (2, 1)]
    assert ranges_of([]) == []


# -- what belongs to a run ---------------------------------------------------------------------------------------------


def test_a_child_runs_cassette_is_of_the_child_alone(store: EventStore, file: Path) -> None:
    """It has its own child runs, and still names the parent that is not there."""
    home = MemoryStore()
    record_family(home)
    exported(home, UID(2), file)
    report = import_file(file, store)
    assert [info.uid for info in store.runs()] == [UID(2), UID(4)]
    assert (report.runs, store.run("run1").parent) == (["run1", "run2"], UID(1))


def test_a_fork_is_a_fork_again(store: EventStore, file: Path) -> None:
    """The runs that it shares events with are there as far as it shares them, with the child runs of that part."""
    home = MemoryStore()
    fork = record_forks(home)
    data = exported(home, fork.uid, file)
    report = import_file(file, store)
    runs = {info.uid: info for info in store.runs()}
    assert [*runs] == [UID(1), UID(0x10), UID(0x11), UID(3)]  # the second child run was started after the fork
    assert [runs[uid].head_seq for uid in runs] == [14, 21, 29, 7]
    assert (runs[UID(0x11)].fork_of, runs[UID(0x11)].fork_seq) == (UID(0x10), 21)
    assert (runs[UID(0x10)].fork_of, runs[UID(0x10)].fork_seq) == (UID(1), 14)
    assert [runs[uid].origin for uid in runs] == ["prefix", "prefix", "recorded", "recorded"]
    assert list(store.events(fork.uid)) == list(home.events(fork.uid))
    assert report.runs == ["run3", "run1", "run2", "run4"]
    assert [note for note in report.notes if "only as far as its fork shares it" in note] == [
        "run1 is here only as far as its fork shares it, to event 14",
        "run2 is here only as far as its fork shares it, to event 21",
    ]
    assert exported(store, fork.uid, file) == data
    assert store.verify() == []


def test_the_whole_of_a_forks_parent_completes_its_prefix(store: EventStore, file: Path) -> None:
    """What a fork brought of its parent is recognised, the rest is added, and then the parent is whole."""
    home = MemoryStore()
    fork = record_forks(home)
    exported(home, fork.uid, file)
    import_file(file, store)
    exported(home, UID(1), file)
    report = import_file(file, store)
    assert report.imported == 3 + 2 + 2  # the parent's rest, and two child runs
    assert "run1 ended at event 14; events 15 to 17 were added" in report.notes
    whole = store.run(UID(1))
    assert (whole.status, whole.steps, whole.origin, whole.head_seq) == ("completed", 2, "recorded", 17)
    assert store.note(UID(1)) == {}
    assert content_of(store)[UID(1)] == content_of(home)[UID(1)]
    assert store.verify() == []
    second = imported(file.read_bytes(), file, store)
    assert (second.imported, second.notes[0]) == (0, "nothing was added: run1, run5, run6, run4 hold all of it already")
    exported(home, fork.uid, file)
    assert import_file(file, store).imported == 0
    assert store.run(UID(1)).origin == "recorded"


def test_a_fork_of_a_run_that_is_there_adds_the_fork_only(store: EventStore, file: Path) -> None:
    """The other order: the parent first."""
    home = MemoryStore()
    fork = record_forks(home)
    exported(home, UID(1), file)
    import_file(file, store)
    exported(home, fork.uid, file)
    report = import_file(file, store)
    assert report.imported == 7 + 8
    assert content_of(store)[UID(1)] == content_of(home)[UID(1)]
    assert content_of(store)[fork.uid] == content_of(home)[fork.uid]
    assert store.verify() == []


def test_a_fork_may_share_less_than_its_parent_did(store: EventStore, file: Path) -> None:
    """A fork of a fork that leaves before the first one left: it shares events of the first run only."""
    home = MemoryStore()
    parent = record_family(home)
    fork = fork_at(home, parent, 14, UID(0x10))
    home.append(fork, 15, a_round(16, 3, HISTORY[:7]))
    fork_at(home, home.run(UID(0x10)), 6, UID(0x11))
    data = exported(home, UID(0x11), file)
    assert [(entry["run"], entry["events"]) for entry in lines_of(data)[0]["runs"]] == [
        (UID(1), 15),
        (UID(0x10), 0),
        (UID(0x11), 1),
        (UID(3), 8),
    ]
    import_file(file, store)
    assert exported(store, UID(0x11), file) == data
    assert [event.seq for event in store.events(UID(0x11))] == [*range(8)]
    assert store.verify() == home.verify() == []


def test_a_prefix_that_is_exported_says_that_it_is_one(store: EventStore, file: Path) -> None:
    """A run that is here only as far as a fork shares it is no whole run anywhere else either."""
    home, between = MemoryStore(), MemoryStore()
    exported(home, record_forks(home).uid, file)
    import_file(file, between)
    assert lines_of(exported(between, UID(1), file))[0]["runs"][0]["prefix"] is True
    import_file(file, store)
    assert (store.run(UID(1)).origin, store.note(UID(1))) == ("prefix", {"prefix": True})


# -- once, more, and other ---------------------------------------------------------------------------------------------


def test_importing_a_run_twice_says_so_and_adds_nothing(store: EventStore, file: Path) -> None:
    """Also into the store that it was recorded in."""
    home = MemoryStore()
    run = record_family(home)
    exported(home, run.uid, file)
    import_file(file, store)
    before = content_of(store)
    for here, names in ((store, "run1, run2, run3, run4"), (home, "run1, run3, run4, run2")):
        report = import_file(file, here)
        assert (report.read, report.imported, report.damaged) == (30, 0, 0)
        assert report.runs[0] == "run1"
        assert report.notes == [f"nothing was added: {names} hold all of it already"]
    assert content_of(store) == before


def test_a_run_that_went_on_is_completed(store: EventStore, file: Path) -> None:
    """A run that was exported while it was running is continued by what it has become, and never taken back."""
    home = MemoryStore()
    run = home.create_run("a", uid=UID(1))
    home.append(run, -1, [started("a"), *a_round(1, 1, HISTORY[:4], text=LONG)])
    early = exported(home, UID(1), file)
    import_file(file, store)
    assert (store.run(UID(1)).status, store.run(UID(1)).steps) == ("running", 1)
    home.append(run, 6, [*a_round(7, 2, HISTORY[:6], text=LONG), finished(13, 2)])
    exported(home, UID(1), file)
    report = import_file(file, store)
    assert (report.read, report.imported) == (14, 7)
    assert report.notes == ["run1 ended at event 6; events 7 to 13 were added"]
    assert content_of(store) == content_of(home)
    assert store.verify() == []
    report = imported(early, file, store)
    assert report.imported == 0
    assert report.notes == [
        "nothing was added: run1 holds all of it already",
        "run1 goes on to event 13; the file ends at event 6",
    ]
    assert store.run(UID(1)).status == "completed"


def test_a_run_that_went_on_differently_is_refused_naming_both(store: EventStore, file: Path) -> None:
    """The same uid with other events is not the same run; nothing of the file is added."""
    for here, kind in ((MemoryStore(), "x.there"), (store, "x.here")):
        run = here.create_run("a", uid=UID(1))
        child = here.create_run("b", uid=UID(2) if kind == "x.there" else UID(3), parent=UID(1))
        here.append(child, -1, [started("b", parent={"run": UID(1)})])
        here.append(run, -1, [started("a"), event(kind, 1)])
        if kind == "x.there":
            exported(here, UID(1), file)
            head = here.run(UID(1)).head_hash
    before = content_of(store)
    with pytest.raises(ImportFailed) as caught:
        import_file(file, store)
    message = str(caught.value)
    assert f"the run {UID(1)} is in this store as run1, and differs" in message
    assert store.run(UID(1)).head_hash in message
    assert head in message
    assert caught.value.line == 2
    assert content_of(store) == before


def test_a_run_that_forked_elsewhere_is_refused(store: EventStore, file: Path) -> None:
    """The same events under another link are not the same run."""
    home = MemoryStore()
    run = home.create_run("a", uid=UID(1))
    home.append(run, -1, [started("a"), event("x.n", 1)])
    home.create_run("a", uid=UID(2), fork_of=UID(1), fork_seq=1)
    exported(home, UID(2), file)
    store.create_run("a", uid=UID(2))
    with pytest.raises(ImportFailed, match="and differs"):
        import_file(file, store)
    assert len(store.runs()) == 1


def test_an_import_that_loses_a_race_finds_what_the_winner_added(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process imports the same file, or a part of it, in the same moment."""
    home, store = MemoryStore(), MemoryStore()
    run = record_family(home)
    exported(home, UID(2), file.with_name("part.jsonl"))
    exported(home, run.uid, file)
    add = store.add_recorded

    def add_after_another(additions: Any) -> Any:
        monkeypatch.undo()
        import_file(file.with_name("part.jsonl"), store)
        return add(additions)

    monkeypatch.setattr(store, "add_recorded", add_after_another)
    report = import_file(file, store)
    assert (report.read, report.imported) == (30, 26)
    assert content_of(store).keys() == content_of(home).keys()
    assert store.verify() == []


def test_a_store_that_fails_holds_nothing_of_the_file(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk in the middle: one error, no run; the next import works."""
    home, store = MemoryStore(), SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
    exported(home, record_family(home).uid, file)
    keep, calls = store._keep, []

    def fill_up(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) % 4 == 0:
            raise StoreError("the disk is full")
        keep(*arguments)

    monkeypatch.setattr(store, "_keep", fill_up)
    with pytest.raises(StoreError, match="the disk is full"):
        import_file(file, store)
    assert store.runs() == []
    monkeypatch.undo()
    import_file(file, store)
    assert content_of(store) == content_of(home)
    store.close()


# -- the header --------------------------------------------------------------------------------------------------------


def test_what_the_header_has_beside_is_kept(store: EventStore, file: Path) -> None:
    """`ignore` and fields of later versions survive, of the file and of each run."""
    home = MemoryStore()
    lines = exported(home, record_small(home).uid, file).splitlines()
    header = json.loads(lines[0])
    header["ignore"] = ["$.request.temperature", "$..now"]
    header["later"] = {"é": [1.5, 2**70, None], "half": "\ud800"}
    header["runs"][1]["tags"] = ["nightly"]
    lines[0] = json.dumps(header, separators=(",", ":")).encode()
    data = closed(lines[:-1])
    imported(data, file, store)
    assert store.note(UID(1))["header"] == {"ignore": header["ignore"], "later": header["later"]}
    assert exported(store, UID(1), file) == data


def test_a_rule_that_was_added_to_a_cassette_is_taken_over(store: EventStore, file: Path) -> None:
    """A file whose runs are here, but whose header says more, adds no event; what it says is kept from now on."""
    home = MemoryStore()
    lines = exported(home, record_small(home).uid, file).splitlines()
    import_file(file, store)
    lines[0] = lines[0][:-1] + b',"ignore":["$..now"]}'
    report = imported(closed(lines[:-1]), file, store)
    assert (report.imported, report.notes) == (0, ["run1: what the file's header says of it was taken over"])
    assert exported(store, UID(1), file) == closed(lines[:-1])
    assert imported(closed(lines[:-1]), file, store).notes == [
        "nothing was added: run1, run2 hold all of it already",
    ]


def test_a_header_that_was_edited_says_how_to_close_the_file_again(store: EventStore, file: Path) -> None:
    """A person who adds a rule by hand is told the hash that belongs into the last line."""
    home = MemoryStore()
    lines = exported(home, record_small(home).uid, file).splitlines()
    lines[0] = lines[0][:-1] + b',"ignore":["$..now"]}'
    data = b"\n".join(lines) + b"\n"
    with pytest.raises(ImportFailed) as caught:
        imported(data, file, store)
    assert caught.value.line == 1
    message = str(caught.value)
    right = json.loads(closed(lines[:-1]).splitlines()[-1])["hash"]
    assert f"the lines have the hash {right}, and line {len(lines)} says" in message
    assert "If you edited the first line on purpose, put the first hash into line" in message
    imported(data.replace(lines[-1], closed(lines[:-1]).splitlines()[-1]), file, store)
    assert store.note(UID(1)) == {"header": {"ignore": ["$..now"]}}


def test_a_newer_version_is_named(store: EventStore, file: Path) -> None:
    """It cannot be read, not even salvaged; the message says what to install."""
    home = MemoryStore()
    data = exported(home, record_small(home).uid, file).replace(b'"version":1', b'"version":12', 1)
    for salvage in (False, True):
        with pytest.raises(ImportFailed) as caught:
            imported(data, file, store, salvage=salvage)
        assert "line 1: it is a cassette of version 12; expected a version up to 1" in str(caught.value)
        assert "install that one" in str(caught.value)
    assert store.runs() == []


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_file_goes_to_the_nearest_store_unless_another_is_named(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`import_file(path)` and `export_run(run, path)` find the store as every other function does."""
    monkeypatch.setenv("AGENTREPLAY_STORE", str(tmp_path / "here.db"))
    home = MemoryStore()
    data = exported(home, record_small(home).uid, file)
    assert ar.import_file(file) == ["run1", "run2"]
    assert ar.export_run("run1", str(file)) == file
    assert file.read_bytes() == data
    ar.open_store().close()


def test_a_cassette_is_known_under_any_name(file: Path) -> None:
    """By its first line; also when that is damaged, by the others."""
    home = MemoryStore()
    data = exported(home, record_small(home).uid, file)
    for changed in (data, b"\xef\xbb\xbf" + data, data.replace(b"agentreplay", b"agentrepley", 1), data[300:]):
        file.write_bytes(changed)
        assert detect(SourceFile.read(file)).name == "cassette"


# -- recordings that open for ever -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*sorted(FIXTURES.glob("*.jsonl")), *EARLIER], ids=lambda path: path.stem)
def test_recorded_cassettes_open_for_ever(path: Path, store: EventStore, file: Path) -> None:
    """Each verifies, folds at every step, and is written again byte by byte; its name says of what agent it is."""
    import_file(path, store)
    run = store.run(parse_header(path.read_bytes().splitlines()[0]).run)
    assert run.agent == path.name.partition(".")[0]
    assert store.verify() == []
    assert len(dict(states(store.events(run)))) == run.steps + 1
    assert exported(store, run.uid, file) == path.read_bytes()


def test_a_cassette_is_written_as_version_1_always_was(store: EventStore, file: Path) -> None:
    """Who changes what is written raises the version, and goes on reading this one."""
    path = FIXTURES / "version_1" / "lines" / "every_line.jsonl"
    home = MemoryStore()
    assert exported(home, record_every_line(home).uid, file) == path.read_bytes()
    assert import_file(path, store).damaged == 0
    assert exported(store, UID(2), file) == path.read_bytes()
    assert [(problem.run, problem.seq) for problem in store.verify()] == [("run2", 8), ("run3", 1)]


def test_importing_changes_nothing_that_a_store_would_redact(file: Path) -> None:
    """What was recorded without redaction is what it was, hash for hash; redacting it now would change its events."""
    home, there = MemoryStore(RedactionRules.off()), MemoryStore()
    run = home.create_run("a", uid=UID(1))
    home.append(run, -1, [started("a"), event("tool.called", 1, call="c", name="t", arguments={"password": "tea"})])
    exported(home, UID(1), file)
    import_file(file, there)
    assert loads(list(there.rows(UID(1)))[1].body or b"")["arguments"] == {"password": "tea"}
