"""Session directories of the Strands SDK import: each agent's conversation, with its tools, and its last state."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import agentreplay as ar
import pytest
from agentreplay.recorder.errors import ImportFailed
from agentreplay.recorder.importers import ImportReport, import_file
from agentreplay.recorder.memory_store import MemoryStore
from cli_runs import invoke
from strands_scripted import PIXEL

FIXTURE = Path(__file__).parents[1] / "fixtures" / "strands" / "session_calc"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURE, tmp_path / "session_calc"))


def imported(path: Path, *, salvage: bool = False) -> tuple[MemoryStore, ImportReport]:
    store = MemoryStore()
    report = import_file(path, store, salvage=salvage)
    assert store.verify() == []
    return store, report


def message(session: Path, number: int) -> Path:
    return session / "agents" / "agent_calc" / "messages" / f"message_{number}.json"


def rewritten(path: Path, change: Callable[[dict[str, object]], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_session_is_a_run_for_each_agent() -> None:
    """Its messages are the conversation, each answer of the model a round, with the tools that it asked for."""
    store, report = imported(FIXTURE)
    (run,) = store.runs()
    assert (report.format, report.runs, report.damaged, report.read) == ("strands", ["run1"], 0, 10)
    assert (run.agent, run.status, run.steps) == ("calc", "completed", 4)
    calls = [(one.data.name, one.data.tool_call) for one in store.events(run) if one.kind == "tool.called"]
    assert calls == [("divide", "t1"), ("remember", "t2"), ("divide", "t3")]
    (failed,) = [one for one in store.events(run) if one.kind == "tool.failed"]
    assert failed.data.error.message == "Error: ZeroDivisionError - float division by zero"
    steps = [one.data.decision["step"] for one in store.events(run) if one.kind == "step.decided"]
    assert steps == ["Actions", "Actions", "Success", "Success"]


def test_the_state_is_the_one_that_the_session_was_left_with() -> None:
    """Its history is in no file, so it is the payload from the last round on, and the record says so."""
    store, _ = imported(FIXTURE)
    assert ar.state_at("run1", 3, store=store).payload == {}
    assert ar.state_at("run1", store=store).payload == {"start": 1, "half": "0.5"}
    (cause,) = [one.data.reason for one in store.events(store.runs()[0]) if one.kind == "payload.changed"]
    assert "not known" in cause


def test_bytes_are_bytes_again() -> None:
    """What the SDK writes as a text in base 64 is an image."""
    store, _ = imported(FIXTURE)
    messages = ar.state_at("run1", store=store).messages
    assert len(messages) == 8
    assert messages[6]["content"][1]["image"]["source"]["bytes"] == PIXEL


def test_the_same_session_is_imported_once() -> None:
    """Another import finds the first."""
    store, _ = imported(FIXTURE)
    assert import_file(FIXTURE, store).runs == ["run1"]
    assert len(store.runs()) == 1


def test_a_session_that_waits_for_a_person_is_interrupted(session: Path) -> None:
    """The SDK says so in the agent's own file."""

    def interrupt(agent: dict[str, object]) -> None:
        agent["_internal_state"]["interrupt_state"]["activated"] = True  # type: ignore[index]  # as the SDK writes it

    rewritten(session / "agents" / "agent_calc" / "agent.json", interrupt)
    store, _ = imported(session)
    assert store.runs()[0].status == "interrupted"


def test_a_folder_of_sessions_says_which_there_are(tmp_path: Path, session: Path) -> None:
    """The message names them."""
    with pytest.raises(ImportFailed) as refused:
        import_file(tmp_path, MemoryStore())
    assert "session_calc" in str(refused.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ImportFailed):
        import_file(tmp_path / "empty", MemoryStore())


def test_the_command_line_imports_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`agentreplay import DIR`."""
    monkeypatch.chdir(tmp_path)
    result = invoke("import", str(FIXTURE))
    assert (result.exit_code, "run1" in result.stdout) == (0, True)
