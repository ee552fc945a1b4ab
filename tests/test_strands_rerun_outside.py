"""Another prompt for a Strands agent, on the command line and in the web page's form: the same effect and words."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from pathlib import Path

import agentreplay as ar
import pytest
from agentreplay.webui.app import create_app

REFUSED = "input of this run cannot be edited in step 2: an agent of Strands is given its prompt and its limits when it"

CODE = """
import sys
sys.path.insert(0, {tests!r})
import agentreplay as ar
from strands_scripted import Use, World


def make():
    world = World(lambda: [ar.strands.Recorder()])
    return world.agent([Use("nope", {{}}, "u1")], [Use("nope", {{}}, "u2")], ["done"])


if __name__ == "__main__":
    make()("go")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where one run of an agent is recorded."""
    (tmp_path / "prompted.py").write_text(CODE.format(tests=str(Path(__file__).parent)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTREPLAY_STORE", f"sqlite:///{tmp_path}/runs.db")
    subprocess.run([sys.executable, "prompted.py"], check=True, capture_output=True, timeout=60)
    return tmp_path


def agentreplay(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentreplay", *arguments, "--app", "prompted.py:make"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_command_line_gives_another_prompt_in_the_first_step_only(folder: Path) -> None:
    """With it the re-run ends, and replays; later it is refused in one line."""
    done = agentreplay("rerun", "run1", "--step", "1", "--input", '"stop"', "--param", 'limits={"turns": 1}')
    assert done.returncode == 0, done.stderr
    assert 'edited  param limits {"turns": 1}' in done.stdout
    assert 'edited  input "stop"' in done.stdout
    state = ar.state_at("run2", 1)
    assert (state.input, state.params) == ("stop", {"limits": {"turns": 1}})
    assert agentreplay("replay", "run2").returncode == 0
    refused = agentreplay("rerun", "run1", "--step", "2", "--input", '"stop"')
    assert f"error: {REFUSED}" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert refused.returncode != 0


def from_the_form(step: int) -> str:
    """Run the form with another prompt; what is told of the re-run in the end."""
    app = create_app(ar.open_store(), app="prompted.py:make")
    client, csrf = app.test_client(), app.extensions["agentreplay"].guard.csrf
    data = {"csrf": csrf, "do": "run", "input": json.dumps("stop")}
    sent = client.post(f"/runs/run1/steps/{step}/rerun", data=data)
    assert sent.status_code == 303, html.unescape(sent.get_data(as_text=True))
    number = int(sent.headers["Location"].rpartition("/")[2])
    assert app.extensions["agentreplay.reruns"].named(number).process.wait(60)
    return json.dumps(client.get(f"/api/v1/reruns/{number}").get_json())


def test_the_form_gives_another_prompt_in_the_first_step_only(folder: Path) -> None:
    """It says what the command line says."""
    from_the_form(1)
    assert ar.state_at("run2", 1).input == "stop"
    assert ar.state_at("run2", 1).messages[0]["content"] == [{"text": "stop"}]
    assert REFUSED in from_the_form(2)
