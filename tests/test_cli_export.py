"""`export`, and `import` of what it wrote: a run goes from store to store, also through a pipe, also damaged."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest
from agentreplay.recorder.locate import open_store
from cassette_runs import UID, record_family
from cli_runs import SCRIPT, as_process, invoke, json_of, output


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, whose store has a run with child runs."""
    monkeypatch.chdir(tmp_path)
    record_family(open_store())
    return tmp_path


def test_a_run_goes_from_store_to_store() -> None:
    """Export says what the file holds; import and export elsewhere give the same file."""
    assert output("export", "run1", "a.jsonl") == "run1 → a.jsonl  30 events in 4 runs\n"
    text = output("import", "a.jsonl", "--store", "other.db")
    assert text.startswith(
        "a.jsonl  cassette → run1, run2, run3, run4\n  30 records read: 30 imported, 0 unknown, 0 dam"
    )
    assert "agentreplay show run1 --store other.db" in text
    output("export", UID(1), "b.jsonl", "--store", "other.db")
    assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes()
    keys = ("uid", "agent", "status", "steps", "started", "duration", "origin")
    here, there = json_of("ls"), json_of("ls", "--store", "other.db")
    assert sorted([row[key] for key in keys] for row in here) == sorted([row[key] for key in keys] for row in there)
    assert json_of("verify", "--store", "other.db") == {"ok": True, "problems": []}


def test_a_run_goes_through_a_pipe() -> None:
    """Without a file, or with -, the cassette is all that stdout gets; import reads it from there."""
    output("export", "run1", "a.jsonl")
    for arguments in (["export", "run1"], ["export", "@last", "-"]):
        done = as_process(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.encode() == Path("a.jsonl").read_bytes()
    done = as_process("import", "/dev/stdin", "--store", "piped.db", input=Path("a.jsonl").read_text(encoding="utf-8"))
    assert done.returncode == 0
    assert "/dev/stdin  cassette → run1" in done.stdout


def test_a_cassette_is_not_written_to_a_terminal(home: Path) -> None:
    """Recorded text may hold what acts on one; the message says what to do instead."""
    master, slave = pty.openpty()
    done = subprocess.run([*SCRIPT, "export", "run1"], stdout=slave, stderr=subprocess.PIPE, text=True, check=False)
    os.close(slave)
    os.close(master)
    assert done.returncode == 2
    assert "name a FILE, or send the cassette on: `agentreplay export run1 | less`" in done.stderr


def test_what_cannot_be_exported_is_one_error() -> None:
    """A run, a format, a place, a store that is not there: one message, the right exit code, no file."""
    before = sorted(os.listdir())
    for arguments, code, message in (
        (["run9", "a.jsonl"], 3, 'no run "run9"'),
        (["run1", "a.jsonl", "--format", "cobol"], 2, "there is no format 'cobol' to export to; choose from cassette"),
        (["run1", "missing/a.jsonl"], 3, "cannot write missing/a.jsonl: No such file or directory"),
        (["run1", "."], 3, "cannot write .: it is a folder"),
        (["run1", "a.jsonl", "--store", "nowhere.db"], 3, "there is no store at"),
    ):
        result = invoke("export", *arguments)
        assert (result.exit_code, result.stdout) == (code, "")
        assert message in result.stderr
    assert sorted(os.listdir()) == before


def test_importing_twice_says_so() -> None:
    """Nothing is added, and the runs are named."""
    output("export", "run1", "a.jsonl")
    text = output("import", "a.jsonl")
    assert "30 records read: 0 imported" in text
    assert "nothing was added: run1, run3, run4, run2 hold all of it already" in text
    assert json_of("import", "a.jsonl")["imported"] == 0
    assert len(json_of("ls")) == 4


def test_a_damaged_file_is_named_with_its_line_and_the_others_come_in() -> None:
    """Exit code 3, nothing of the damaged file, all of the sound one."""
    output("export", "run1", "a.jsonl")
    data = Path("a.jsonl").read_bytes()
    Path("cut.jsonl").write_bytes(data[: len(data) // 2])
    result = invoke("import", "cut.jsonl", "a.jsonl", "--store", "other.db")
    assert result.exit_code == 3
    assert "cannot import cut.jsonl, line " in result.stderr
    assert "`agentreplay import --salvage` keeps what is sound of it" in result.stderr.replace("\n       ", " ")
    assert "a.jsonl  cassette → run1" in result.stdout
    assert invoke("import", "cut.jsonl", "--store", "empty.db").exit_code == 3
    assert json_of("ls", "--store", "empty.db") == []


def test_salvaging_lists_what_is_lost_and_verify_goes_on_saying_it() -> None:
    """The sound part is there to be looked at; the exit codes are 0 for salvaging and 1 for verifying."""
    output("export", "run1", "a.jsonl")
    data = Path("a.jsonl").read_bytes()
    Path("cut.jsonl").write_bytes(data[: data.index(b'{"seq":9,') + 20])
    text = output("import", "cut.jsonl", "--salvage", "--store", "other.db")
    assert "30 records read: 9 imported, 0 unknown, 21 damaged" in text
    assert "run1: events 9 to 17 are lost; its events to 8 are sound" in text
    assert f"the run {UID(3)} (inspector) is lost: none of its events is sound" in text
    assert "the file ends in the middle of it" in text
    (row,) = json_of("ls", "--store", "other.db")
    assert (row["origin"], row["steps"]) == ("salvaged", 1)
    assert len(json_of("show", "run1", "--store", "other.db")["steps"]) >= 1
    verified = json_of("verify", "--store", "other.db", code=1)
    assert [(problem["run"], problem["seq"]) for problem in verified["problems"]] == [("run1", 9)]
    assert "events up to 17 are missing" in verified["problems"][0]["what"]
    output("import", "a.jsonl", "--store", "other.db")
    assert json_of("verify", "--store", "other.db")["ok"] is True


def test_what_a_file_holds_does_not_act_on_a_terminal() -> None:
    """Names from a damaged file are shown, not obeyed."""
    output("export", "run1", "a.jsonl")
    data = Path("a.jsonl").read_bytes().replace(b'"agent":"inspector"', b'"agent":"\\u001b[31m\\u202e"')
    Path("odd.jsonl").write_bytes(data[: data.index(b'{"seq":9,')])
    result = invoke("import", "odd.jsonl", "--salvage", "--store", "other.db")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout + result.stderr
    assert "\u202e" not in result.stdout + result.stderr
