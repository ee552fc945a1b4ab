"""The README is run: what it tells a reader to type works, and what it shows is what comes out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from agentreplay.cli import main
from click.testing import CliRunner

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.S)
CONSOLE = re.findall(r"```console\n(.*?)```", README, re.S)

MYBOT = """
state = {"question": None, "notes": []}
answers = iter(["search: parcel", "done"])

def ask(messages):
    return {"content": next(answers)}

def search(query):
    return [f"nothing known of {query}"]

def main(question):
    state["question"] = question
    messages = [{"role": "user", "content": question}]
    while True:
        answer = ask(messages)["content"]
        if answer == "done":
            return
        state["notes"] += search(answer.removeprefix("search: "))
"""


def run_python(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def agentreplay(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def without_times(text: str) -> str:
    return re.sub(r" +\d+(\.\d+)? (µs|ms|s)\b", " TIME", text)


def test_an_untouched_loop_is_recorded_as_the_readme_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first example: a loop that knows nothing of agentreplay, its rounds and its state in the log."""
    (tmp_path / "mybot.py").write_text(MYBOT)
    assert run_python(PYTHON[0], tmp_path) == "run1\n"
    monkeypatch.chdir(tmp_path)
    for command in re.findall(r"^\$ agentreplay (.*)$", CONSOLE[2], re.M):
        agentreplay(*command.split())
    assert "+ notes[0]" in agentreplay("diff", "run1", "--step", "1")
    assert "search" in agentreplay("show", "run1")


@pytest.mark.parametrize("number", range(1, len(PYTHON)))
def test_every_python_block_runs(number: int, tmp_path: Path) -> None:
    """Each example runs by itself, in an empty folder."""
    run_python(PYTHON[number], tmp_path)
    assert (tmp_path / ".agentreplay" / "store.db").is_file()


def test_the_first_screen_shows_what_the_demo_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output in the README is the real one, but for times."""
    monkeypatch.chdir(tmp_path)
    agentreplay("demo")
    command, shown = CONSOLE[1].split("\n", 1)
    assert without_times(agentreplay(*command.removeprefix("$ agentreplay ").split())) == without_times(shown)


def test_the_import_example_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of the import section run on the fixture that they name."""
    store = tmp_path / "store.db"
    monkeypatch.setenv("AGENTREPLAY_STORE", str(store))
    monkeypatch.chdir(ROOT)
    for command in re.findall(r"^\$ agentreplay (.*)$", CONSOLE[3], re.M):
        agentreplay(*command.split())


def test_the_cassette_example_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of the demo is exported, and is the same in the other store."""
    monkeypatch.chdir(tmp_path)
    agentreplay("demo")
    for command in re.findall(r"^\$ agentreplay (.*)$", CONSOLE[4], re.M):
        agentreplay(*command.split())
    assert "refunds" in agentreplay("show", "run1", "--short", "--store", "elsewhere.db")


def test_the_table_of_verbs_is_complete() -> None:
    """Every verb is in the README, and every verb in the README exists."""
    in_readme = set(re.findall(r"^\| `agentreplay ([a-z]+)", README, re.M))
    assert in_readme == set(main.list_commands(main.make_context("agentreplay", ["ls"], resilient_parsing=True)))


def test_the_readme_names_only_what_is_public() -> None:
    """Each `ar.name` in the README is exported."""
    import agentreplay

    named = set(re.findall(r"\bar\.([A-Za-z_]+)", README))
    assert named <= set(agentreplay.__all__)
