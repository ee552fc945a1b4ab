"""`import` and `schema`: files that come in, and what describes the events."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest
from agentreplay.recorder.events import EVENT_OF_KIND
from agentreplay.recorder.importers import FORMATS
from cli_runs import SCRIPT, invoke, json_of, output
from pydantic import TypeAdapter

TRAJECTORY: dict[str, Any] = {
    "environment": "swe_main",
    "trajectory": [
        {"response": "Look around.\n```\nls\n```", "thought": "Look around.", "action": "ls\n", "observation": "a.py\n",
         "state": '{"open_file": "n/a", "working_dir": "/repo"}\n'},
        {"response": "Open it.\n```\nopen a.py\n```", "thought": "Open it.", "action": "open a.py\n", "observation": "",
         "state": '{"open_file": "/repo/a.py", "working_dir": "/repo"}\n'},
        {"response": "Done.\n```\nsubmit\n```", "thought": "Done.", "action": "submit\n", "observation": "",
         "state": '{"open_file": "/repo/a.py", "working_dir": "/repo"}\n'},
    ],
    "history": [{"role": "system", "content": "Fix the bug."}],
    "info": {"exit_status": "submitted", "submission": "diff"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fix.traj").write_text(json.dumps(TRAJECTORY), encoding="utf-8")
    return tmp_path


# -- import --------------------------------------------------------------------------------------------------------


def test_import_tells_programs_what_became_of_a_file() -> None:
    """The runs and the counts of records; the runs are there and can be looked at."""
    report = json_of("import", "fix.traj")
    assert report["runs"] == ["run1"]
    assert report["read"] == report["imported"] + report["unknown"] + report["damaged"]
    assert (report["damaged"], report["imported"] > 0) == (0, True)
    (run,) = json_of("ls")
    assert (run["run"], run["steps"], run["origin"]) == ("run1", 3, "imported")
    steps = json_of("show")["steps"]
    assert [call["kind"] for call in steps[1]["calls"]] == ["model", "tool"]


def test_import_tells_people_what_to_do_next() -> None:
    """The format, the counts, what was kept without a place, and commands that work."""
    text = output("import", "fix.traj")
    assert "fix.traj  swe-agent → run1" in text
    assert " records read: " in text
    assert "0 damaged" in text
    commands = [line.split("   ")[0].split()[1:] for line in text.splitlines() if line.startswith("  agentreplay")]
    assert [command[0] for command in commands] == ["show", "diff"]
    shown = [output(*command) for command in commands]
    assert '+ open_file  "n/a"' in shown[1]
    assert '~ open_file  "n/a" → "/repo/a.py"' in output("diff", "run1", "--step", 2)


def test_a_file_is_imported_once() -> None:
    """Importing a file again finds its run and adds none."""
    output("import", "fix.traj")
    again = json_of("import", "fix.traj")
    assert (again["runs"], again["imported"]) == (["run1"], 0)
    assert len(json_of("ls")) == 1


def test_several_files_are_counted_together(elsewhere: Path) -> None:
    """Each file becomes runs, in order; one that cannot be imported is named and does not stop the others."""
    (elsewhere / "broken.traj").write_text('{"trajectory": [', encoding="utf-8")
    other = {**TRAJECTORY, "info": {"exit_status": "exit_cost"}}
    (elsewhere / "other.traj").write_text(json.dumps(other), encoding="utf-8")
    result = invoke("import", "fix.traj", "broken.traj", "other.traj", "--json")
    assert result.exit_code == 3
    assert "broken.traj" in result.stderr
    assert json.loads(result.stdout)["runs"] == ["run1", "run2"]


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", "not json", '{"a": 1}', "\0\1\2"])
def test_what_is_no_recording_is_refused_by_name(content: str, elsewhere: Path) -> None:
    """A file of something else is an error that names it, and nothing of it is stored."""
    (elsewhere / "thing.json").write_text(content, encoding="utf-8")
    result = invoke("import", "thing.json")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "thing.json" in result.stderr
    assert json_of("ls") == []


def test_a_format_can_be_named() -> None:
    """`--format` leaves nothing to be detected."""
    assert json_of("import", "fix.traj", "--format", "swe-agent")["runs"] == ["run1"]
    assert invoke("import", "fix.traj", "--format", "mini-swe-agent").exit_code == 3


def test_the_formats_can_be_listed() -> None:
    """`--formats` names every format with what its files look like, and needs no file."""
    lines = output("import", "--formats").splitlines()
    assert [line.split()[0] for line in lines] == list(FORMATS)
    assert all(len(line.split()) > 3 for line in lines)


def test_a_long_import_shows_how_far_it_is(elsewhere: Path) -> None:
    """On a terminal there is a progress bar, on stderr, which is gone at the end; the output is the same."""
    leader, follower = pty.openpty()
    try:
        done = subprocess.run([*SCRIPT, "import", "fix.traj"], stdout=subprocess.PIPE, stderr=follower, text=True)
        os.close(follower)
        seen = b""
        try:
            while chunk := os.read(leader, 65_536):
                seen += chunk
        except OSError:  # a terminal whose other end is closed has no end of file
            pass
    finally:
        os.close(leader)
    assert done.returncode == 0
    assert "fix.traj  swe-agent → run1" in done.stdout
    assert b"importing fix.traj" in seen


# -- schema --------------------------------------------------------------------------------------------------------


def test_the_schema_describes_every_kind() -> None:
    """The document lists all kinds, told apart by `kind`."""
    document = json.loads(output("schema"))
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert document["discriminator"]["propertyName"] == "kind"
    assert set(document["discriminator"]["mapping"]) == set(EVENT_OF_KIND)
    assert len(document["oneOf"]) == len(EVENT_OF_KIND)


@pytest.mark.parametrize("kind", EVENT_OF_KIND)
def test_the_schema_of_one_kind_is_that_of_its_events(kind: str) -> None:
    """`--kind` prints what describes the events of that kind."""
    document = json.loads(output("schema", "--kind", kind))
    assert document["properties"]["kind"]["const"] == kind
    assert {**document, "$schema": 0} == {**TypeAdapter(EVENT_OF_KIND[kind]).json_schema(), "$schema": 0}
