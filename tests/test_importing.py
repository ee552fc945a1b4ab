"""Importing from Python: a path is enough."""

from __future__ import annotations

from pathlib import Path

import agentreplay as ar
import pytest

SAMPLE = Path(__file__).parent.parent / "fixtures" / "swe_agent" / "state_as_text_submitted.traj"


def test_a_file_is_imported_into_the_store_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is all it takes; the runs are named, also when they are there already."""
    monkeypatch.chdir(tmp_path)
    assert ar.import_file(SAMPLE) == ["run1"]
    assert ar.import_file(SAMPLE, "swe-agent") == ["run1"]
    assert ar.state_at("run1", 1).payload["working_dir"]


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """Nothing is stored of it."""
    (tmp_path / "notes.txt").write_text("not a run")
    store = ar.open_store("memory:")
    with pytest.raises(ar.ImportFailed):
        ar.import_file(tmp_path / "notes.txt", store=store)
    assert store.runs() == []
