"""Inspect AI's archives: packed in every way, in pieces, cut off at every place, damaged, and built to do harm."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard
from agentreplay.recorder.errors import ImportFailed
from agentreplay.recorder.importers import ImportReport, detect, import_file, inspect_archive
from agentreplay.recorder.importers.inspect_archive import contents_of
from agentreplay.recorder.importers.source import SourceFile
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.redaction import RedactionRules
from agentreplay.replay.timeline import states
from inspect_logs import POOLS, SPANS, STEPS, Imported, every_fixture

STORED, DEFLATED, BZIP2, ZSTANDARD = 0, 8, 12, 93


def packed(content: bytes, method: int) -> bytes:
    if method == DEFLATED:
        deflater = zlib.compressobj(wbits=-15)
        return deflater.compress(content) + deflater.flush()
    return zstandard.compress(content) if method == ZSTANDARD else content


def zipped(
    members: Iterable[tuple[str, bytes]],
    method: int = DEFLATED,
    *,
    directory: bool = True,
    streamed: bool = False,
    flags: int = 0,
    crc: int | None = None,
) -> bytes:
    """An archive, written by hand: Python's own module writes neither Zstandard nor anything that is wrong.

    Args:
        members: name and content.
        method: how they are packed.
        directory: whether the central directory is written.
        streamed: whether sizes stand behind a member, as where the writer could not go back.
        flags: of each member.
        crc: the checksum to claim, instead of the right one.
    """
    body, listed = b"", b""
    flags |= 0x0008 if streamed else 0
    for name, content in members:
        raw, data = name.encode(), packed(content, method)
        sums = (zlib.crc32(content) if crc is None else crc, len(data), len(content))
        head = struct.pack("<5H", 20, flags | 0x0800, method, 0, 0)
        listed += b"PK\x01\x02" + struct.pack("<H", 20) + head + struct.pack("<3I", *sums)
        listed += struct.pack("<5H2I", len(raw), 0, 0, 0, 0, 0, len(body)) + raw
        body += b"PK\x03\x04" + head + struct.pack("<3I", *((0, 0, 0) if streamed else sums))
        body += struct.pack("<2H", len(raw), 0) + raw + data
        body += b"PK\x07\x08" + struct.pack("<3I", *sums) if streamed else b""
    if not directory:
        return body
    count = len(list(members))
    return body + listed + b"PK\x05\x06" + struct.pack("<4H2IH", 0, 0, count, count, len(listed), len(body), 0)


def members_of(document: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """The members that a log has as an archive, in the order in which they are written."""
    samples = document.get("samples") or []
    header = {name: value for name, value in document.items() if name not in ("samples", "reductions")}
    start = {name: header[name] for name in ("version", "eval", "plan")}
    summaries = [{"id": sample["id"], "epoch": sample["epoch"]} for sample in samples]
    parts: list[tuple[str, Any]] = [("_journal/start.json", start)]
    parts += [(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample) for sample in samples]
    parts += [("_journal/summaries/1.json", summaries), ("summaries.json", summaries)]
    parts += [("reductions.json", document["reductions"])] if "reductions" in document else []
    return [(name, json.dumps(value).encode()) for name, value in [*parts, ("header.json", header)]]


def fixture(path: Path) -> list[tuple[str, bytes]]:
    return members_of(json.loads(path.read_text(encoding="utf-8")))


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def content_of(imported: Imported) -> Any:
    """What an import came to, but for where it came from: runs by sample, with everything that happened."""
    runs = []
    for number, run in enumerate(imported.runs):
        source = imported.of("run.started", run=number)[0].source
        events = [
            (event.kind, event.round, event.within, event.data.model_dump())
            for event in imported.events(number)
            if event.kind not in ("run.started", "report")
        ]
        where = (repr(source.get("sample")), source.get("epoch"))
        runs.append((*where, run.agent, run.status, run.steps, repr(events)))
    return sorted(runs)


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTANDARD])
@pytest.mark.parametrize(
    ("directory", "streamed"),
    [(True, False), (True, True), (False, False), (False, True)],
    ids=["whole", "whole streamed", "cut", "cut streamed"],
)
@every_fixture
def test_an_archive_gives_the_runs_of_the_log_that_is_in_it(
    path: Path, method: int, directory: bool, streamed: bool, tmp_path: Path
) -> None:
    """Stored, deflated or with Zstandard; with sizes before or behind; with its directory or without."""
    data = zipped(fixture(path), method, directory=directory, streamed=streamed)
    imported = Imported(written(tmp_path / "log.eval", data))
    assert imported.report.format == "inspect"
    assert content_of(imported) == content_of(Imported(path))
    assert imported.report.damaged == Imported(path).report.damaged
    assert any("no directory" in note for note in imported.report.notes) is not directory


def test_runs_of_an_archive_are_in_the_order_of_epochs_and_samples(tmp_path: Path) -> None:
    """Whatever the order in which they were finished; 2 comes before 10."""
    samples = [{"id": id, "epoch": epoch} for id, epoch in ((10, 2), ("b", 1), (2, 2), ("a", 1), (10, 1), (2, 1))]
    document = {"version": 2, "status": "success", "eval": {"task": "tea"}, "plan": {}, "samples": samples}
    imported = Imported(written(tmp_path / "log.eval", zipped(members_of(document))))
    sources = [imported.of("run.started", run=number)[0].source for number in range(6)]
    assert [(source["sample"], source["epoch"]) for source in sources] == [
        (2, 1),
        (10, 1),
        ("a", 1),
        ("b", 1),
        (2, 2),
        (10, 2),
    ]


def test_an_archive_that_is_still_written_has_its_fields_from_its_start(tmp_path: Path) -> None:
    """There is no header; samples that were finished are, and others were interrupted."""
    members = [member for member in fixture(STEPS) if member[0] not in ("header.json", "summaries.json")]
    imported = Imported(written(tmp_path / "log.eval", zipped(members)))
    assert (imported.runs[0].agent, imported.runs[0].status) == ("count_cups/shopkeeper", "completed")
    assert any("no header" in note for note in imported.report.notes)
    only = Imported(written(tmp_path / "start.eval", zipped(members[:1])))
    assert (len(only.runs), only.runs[0].status, only.runs[0].steps) == (1, "interrupted", 0)


@pytest.mark.parametrize("method", [DEFLATED, ZSTANDARD])
def test_an_archive_cut_off_anywhere_is_read_as_far_as_it_goes(method: int, tmp_path: Path) -> None:
    """Samples that are whole are imported, none twice and none wrong; what is cut is counted; or one clear refusal."""
    data = zipped(fixture(SPANS), method)
    whole = content_of(Imported(written(tmp_path / "whole.eval", data)))
    found = []
    for cut in [*range(5, len(data), 97), len(data) - 1]:
        path = written(tmp_path / "cut.eval", data[:cut])
        try:
            imported = Imported(path, "inspect")
        except ImportFailed as error:
            refusal = str(error)
            assert "fault of agentreplay" not in refusal
            continue
        runs = [run for run in content_of(imported) if run[0] != "None"]
        assert all(run in whole for run in runs)
        assert imported.report.read == imported.report.imported + imported.report.unknown + imported.report.damaged
        assert any("no directory" in note for note in imported.report.notes)
        found.append(len(runs))
    assert found == sorted(found)
    assert set(found) == {0, 1, 2}


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTANDARD])
def test_a_flipped_byte_anywhere_is_noticed(method: int, tmp_path: Path) -> None:
    """Nothing fails without a word: an import with something damaged or noted, or one clear refusal."""
    data = zipped(fixture(STEPS), method)
    unnoticed = []
    for place in range(0, len(data), 61):
        flipped = data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
        store = MemoryStore(RedactionRules.off())
        try:
            report = import_file(written(tmp_path / "log.eval", flipped), store, format="inspect")
        except ImportFailed as error:
            refusal = str(error)
            assert "fault of agentreplay" not in refusal
            assert store.runs() == []
            continue
        for run in report.runs:
            assert [state for _, state in states(store.events(run))][-1].ended
        if not report.damaged and not any("directory" in note or "header" in note for note in report.notes):
            unnoticed.append(place)
    # A member's own header repeats the directory, and a directory has times and attributes: these say nothing.
    assert all(_in_a_header(data, place) for place in unnoticed)


def _in_a_header(data: bytes, place: int) -> bool:
    entries = contents_of(data).entries
    return not any(entry.start <= place < entry.end for entry in entries)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (zipped([]), "without a member that can be read"),
        (b"PK\x03\x04", "without a member that can be read"),
        (b"PK\x03\x04" + bytes(200), "nothing of an evaluation can be read"),
        (zipped([("poem.txt", b"tea")]), "nothing of an evaluation can be read"),
        (zipped([("samples/1_epoch_1.json", b"{")]), "nothing of an evaluation can be read"),
        (zipped([("header.json", b"[]")]), "nothing of an evaluation can be read"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(len(value)),
)
def test_an_archive_of_something_else_is_refused(data: bytes, found: str, tmp_path: Path) -> None:
    """With one message; nothing is stored."""
    path = written(tmp_path / "log.eval", b"PK\x03\x04" + data if not data.startswith(b"PK\x03\x04") else data)
    store = MemoryStore()
    with pytest.raises(ImportFailed) as caught:
        import_file(path, store, format="inspect")
    assert found in str(caught.value)
    assert store.runs() == []


def imported_with(tmp_path: Path, *members: tuple[str, bytes], **options: Any) -> Imported:
    return Imported(written(tmp_path / "log.eval", zipped([*fixture(STEPS), *members], **options)), "inspect")


def warnings_of(imported: Imported) -> list[str]:
    return [data.message for data in imported.of("report") if data.level == "warning"]


def test_a_member_that_cannot_be_read_is_counted_and_kept(tmp_path: Path) -> None:
    """Its text is in a report; the others are imported."""
    imported = imported_with(tmp_path, ("samples/2_epoch_1.json", b'{"id": 2,\n "epoch": 1'))
    assert len(imported.runs) == 1
    broken = [data for data in imported.of("report") if "samples/2_epoch_1.json" in data.message]
    assert [(data.message, data.content) for data in broken] == [
        ("the member samples/2_epoch_1.json cannot be read: its JSON breaks in line 2", '{"id": 2,\n "epoch": 1')
    ]
    assert imported.report.damaged == 1


def test_a_sample_of_which_only_the_summary_is_left_is_missed(tmp_path: Path) -> None:
    """The report names it."""
    summary = json.dumps([{"id": "gone", "epoch": 3}]).encode()
    imported = imported_with(tmp_path, ("_journal/summaries/2.json", summary))
    assert imported.report.damaged == 1
    assert "there are summaries of samples that are missing or cannot be read: 'gone' (epoch 3)" in warnings_of(
        imported
    )


def test_what_an_archive_holds_besides_is_kept(tmp_path: Path) -> None:
    """A part of no known name is a report, and counted as unknown; names are never used as paths."""
    before = sorted(os.listdir(tmp_path))
    imported = imported_with(tmp_path, ("../../tmp/escape.json", b'{"a": 1}'), ("/abs/notes.json", b"[1]"))
    kept = {data.field: data.content for data in imported.of("report") if hasattr(data, "field")}
    assert (kept["../../tmp/escape.json"], kept["/abs/notes.json"]) == ({"a": 1}, [1])
    assert sorted(os.listdir(tmp_path)) == [*before, "log.eval"]


def test_of_two_members_of_one_name_the_later_one_counts(tmp_path: Path) -> None:
    """A log that was edited in place has both; a note says so."""
    document = json.loads(STEPS.read_text())
    document["samples"][0]["metadata"] = {"shelf": 3}
    name, content = members_of(document)[1]
    for options in ({}, {"directory": False}):
        imported = imported_with(tmp_path, (name, content), **options)
        assert len(imported.runs) == 1
        assert imported.of("run.started")[0].params["sample"]["metadata"] == {"shelf": 3}
        assert "1 members of the archive were replaced by later ones" in imported.report.notes


@pytest.mark.parametrize(
    ("options", "flaw"),
    [
        ({"method": BZIP2}, "it is packed by method 12, which is not read here"),
        ({"flags": 1}, "it is encrypted"),
    ],
    ids=["bzip2", "encrypted"],
)
def test_members_that_cannot_be_unpacked_are_named(options: dict[str, Any], flaw: str, tmp_path: Path) -> None:
    """If all are so, nothing can be imported."""
    path = written(tmp_path / "log.eval", zipped(fixture(STEPS), **options))
    with pytest.raises(ImportFailed) as caught:
        Imported(path, "inspect")
    assert f"nothing of an evaluation can be read from it (header.json: {flaw})" in str(caught.value)


def test_a_wrong_checksum_is_damage_and_the_member_is_read_all_the_same(tmp_path: Path) -> None:
    """Its JSON is whole, so it is imported; each member counts as damaged."""
    imported = imported_with(tmp_path, crc=7)
    assert content_of(imported) == content_of(Imported(STEPS))
    assert imported.report.damaged == len(fixture(STEPS))
    flaw = "its checksum is not the one in the archive; it was read all the same"
    assert len([text for text in warnings_of(imported) if text.endswith(flaw)]) == len(fixture(STEPS))


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTANDARD])
def test_a_member_that_unpacks_without_end_is_cut(method: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted as damaged; the rest is imported."""
    monkeypatch.setattr(inspect_archive, "MEMBER_LIMIT", 30_000)
    imported = imported_with(tmp_path, ("samples/2_epoch_1.json", b" " * 5_000_000), method=method)
    assert len(imported.runs) == 1
    assert any("it unpacks to more than 30000 bytes" in warning for warning in warnings_of(imported))


@pytest.mark.parametrize("method", [DEFLATED, ZSTANDARD])
def test_an_archive_that_unpacks_without_end_is_refused(
    method: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many members, each within its limit."""
    monkeypatch.setattr(inspect_archive, "ARCHIVE_LIMIT", 1_000_000)
    bombs = [(f"samples/{number}_epoch_1.json", b" " * 100_000) for number in range(20)]
    path = written(tmp_path / "log.eval", zipped([*fixture(STEPS), *bombs], method))
    store = MemoryStore()
    with pytest.raises(ImportFailed) as caught:
        import_file(path, store)
    assert "its members unpack to more than" in str(caught.value)
    assert store.runs() == []


def in_pieces(document: dict[str, Any], size: int) -> list[tuple[str, bytes]]:
    """The members of a log whose samples stand in pieces, as newer versions can write them."""
    members = [member for member in members_of(document) if not member[0].startswith("samples/")]
    for sample in document["samples"]:
        prefix = f"samples/{sample['id']}_epoch_{sample['epoch']}"
        keys = list(sample["attachments"])
        text = json.dumps({name: sample[name] for name in ("events", "events_data", "messages")})
        for index, key in enumerate(keys):
            text = text.replace(f"attachment://{key}", f"attachment://{index}")
        parts = json.loads(text)
        apart = ("messages", "events", "attachments", "events_data", "metadata")
        shell = {name: value for name, value in sample.items() if name not in apart}
        shell["message_refs"] = [[0, len(sample["messages"])]]
        members += [(f"{prefix}/sample.json", json.dumps(shell).encode())]
        members += [(f"{prefix}/metadata.json", json.dumps(sample["metadata"]).encode())]
        members += [(f"{prefix}/skeleton.json", b"{}"), (f"{prefix}/events/stats.json", b"{}")]
        lists = {
            "events": parts["events"],
            "messages": parts["events_data"]["messages"],
            "calls": parts["events_data"]["calls"],
            "attachments": list(sample["attachments"].values()),
        }
        for name, items in lists.items():
            for start in range(0, len(items), size):
                piece = json.dumps(items[start : start + size]).encode()
                members.append((f"{prefix}/{name}/{start}.json", piece))
    return members


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_sample_in_pieces_is_put_together(size: int, tmp_path: Path) -> None:
    """It gives the run that it would give in one piece."""
    document = json.loads(POOLS.read_text())
    imported = Imported(written(tmp_path / "log.eval", zipped(in_pieces(document, size), ZSTANDARD)))
    assert content_of(imported) == content_of(Imported(POOLS))
    assert imported.report.damaged == 1


def test_a_piece_that_is_missing_leaves_its_room(tmp_path: Path) -> None:
    """What refers to the items after it still finds them; without its shell a sample is only kept."""
    members = in_pieces(json.loads(POOLS.read_text()), 1)
    left = [member for member in members if not member[0].endswith("/messages/3.json")]
    imported = Imported(written(tmp_path / "log.eval", zipped(left)))
    said = [message.get("content") for message in imported.of("model.called")[2].request["messages"] if message]
    assert said[-1] == "attachment://" + "0" * 32
    left = [member for member in members if not member[0].endswith("/sample.json")]
    imported = Imported(written(tmp_path / "log.eval", zipped(left)))
    assert any("has no shell" in warning for warning in warnings_of(imported))


def test_an_archive_is_known_by_its_members(tmp_path: Path) -> None:
    """Under any name; an archive of something else is not one."""
    path = written(tmp_path / "something", zipped(fixture(STEPS), ZSTANDARD))
    assert detect(SourceFile.read(path)).name == "inspect"
    report: ImportReport = import_file(path, MemoryStore())
    assert report.damaged == 0
    written(path, zipped([("tea.json", b"{}")]))
    with pytest.raises(ImportFailed):
        detect(SourceFile.read(path))
