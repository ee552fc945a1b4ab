"""Exporting: a file is replaced as a whole or not at all, and a log that is damaged is not written."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from agentreplay.recorder.errors import CorruptLog, ExportFailed, RunNotFound, UsageError
from agentreplay.recorder.exporting import export_run, write_cassette
from agentreplay.recorder.importers import import_file
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.replacing import replacing
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore
from cassette_runs import UID, add_raw, event, exported, lines_of, record_family, record_small, stored


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    opened: EventStore = MemoryStore() if request.param == "memory" else SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
    yield opened
    opened.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def test_the_file_is_replaced_as_a_whole_or_not_at_all(file: Path) -> None:
    """An export that fails leaves the old file, its permissions and nothing beside it."""
    home = MemoryStore()
    run = record_small(home)
    file.write_text("old")
    file.chmod(0o640)
    with pytest.raises(ZeroDivisionError), replacing(file) as new:
        new.write(b"half" * (1 // 0))
    with pytest.raises(RunNotFound):
        export_run("run77", file, store=home)
    assert file.read_text() == "old"
    link = file.with_name("link.jsonl")
    link.symlink_to(file.name)
    assert export_run(run, link, store=home) == link
    assert link.is_symlink()
    assert file.read_bytes().startswith(b'{"agentreplay":"cassette"')
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(path.name for path in file.parent.iterdir()) == ["link.jsonl", "run.jsonl"]


def test_what_is_no_place_for_a_file_is_refused(file: Path) -> None:
    """A folder, a device, a folder that is not there, a name that no file can have: one error each, nothing changed."""
    home = MemoryStore()
    run = record_small(home)
    refused = {}
    for path in (file.parent, Path("/dev/null"), file / "missing" / "x", Path("nul\0character"), Path("x" * 300)):
        with pytest.raises(ExportFailed) as caught:
            export_run(run, path, store=home)
        assert caught.value.path == str(path)
        refused[path] = str(caught.value).partition(": ")[2].partition(";")[0]
    assert [*refused.values()] == [
        "it is a folder",
        "it is a device, which cannot be replaced",
        "No such file or directory",
        "embedded null byte",
        "File name too long",
    ]
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(UsageError):
        export_run(run, file, "cobol", store=home)


@pytest.mark.parametrize("what", ["body", "hash", "content", "missing content", "gap", "conversation", "cut"])
def test_a_damaged_log_is_not_exported(what: str, file: Path) -> None:
    """What would not verify when it is read is not written: the error names the event, and no file is there."""
    home = MemoryStore()
    run = record_family(home)
    log = home._logs[run.number]
    row = log[2]
    if what == "body":
        row.body = (row.body or b"").replace(b"ask", b"asc")
    elif what == "hash":
        row.hash = "sha256:" + "0" * 64
    elif what == "content":
        home._contents[row.conversations["messages"][0]] = b"{}"
    elif what == "missing content":
        del home._contents[row.conversations["messages"][0]]
    elif what == "gap":
        del log[2]
    elif what == "conversation":
        row.conversations["messages"].reverse()
    else:
        del log[-1]
    with pytest.raises(CorruptLog) as caught:
        export_run(run, file, store=home)
    assert caught.value.run == "run1"
    assert caught.value.seq == (17 if what == "cut" else 2)
    assert "`agentreplay verify run1` shows what is damaged" in str(caught.value)
    assert list(file.parent.iterdir()) == []


def test_links_that_lead_nowhere_are_no_endless_work(file: Path) -> None:
    """A fork of a run that is not there, and runs that are each other's children or forks."""
    home = MemoryStore()
    add_raw(home, [stored(0, b"{}")], UID(1), parent=UID(2))
    add_raw(home, [stored(0, b"{}")], UID(2), parent=UID(1))
    assert lines_of(exported(home, UID(1), file))[0]["runs"][1]["run"] == UID(2)
    add_raw(home, [], UID(3), fork_of=UID(4), fork_seq=0)
    with pytest.raises(CorruptLog):
        export_run(UID(3), file, store=home)
    add_raw(home, [], UID(4), fork_of=UID(3), fork_seq=0)
    with pytest.raises(CorruptLog):
        export_run(UID(3), file, store=home)


def test_progress_goes_from_nothing_to_all(store: EventStore, file: Path) -> None:
    """Of an export and of an import, by events; an import that adds nothing ends at all as well."""
    home = MemoryStore()
    run = record_family(home)
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))

    export_run(run, file, store=home, progress=progress)
    assert seen == [(done, 30) for done in range(31)]
    for _ in range(2):
        seen.clear()
        import_file(file, store, progress=progress)
        assert (seen[0], seen[-1]) == ((0, 30), (30, 30))
        assert seen == sorted(seen)


def test_a_run_that_goes_on_is_written_as_far_as_it_was(file: Path) -> None:
    """Events that are appended while a run is exported do not come into it."""
    home = MemoryStore()
    run = record_small(home)
    lines: list[bytes] = []

    def write(line: bytes) -> None:
        lines.append(line)
        if len(lines) == 4:
            home.append(run.uid, 2, [event("x.late", 3)])

    write_cassette(home, run.uid, write)
    file.write_bytes(b"".join(lines))
    there = MemoryStore()
    import_file(file, there)
    assert there.run(UID(1)).head_seq == 2
    assert home.run(UID(1)).head_seq == 3
