"""The README and the pages in `docs` are run: what they tell a reader to type works, and shows what comes out."""

from __future__ import annotations

import os
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
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
IN_PAGES = [
    pytest.param(code, id=f"{name}-{number}")
    for name, text in PAGES.items()
    if name not in ("adapters.md", "strands.md")  # which test_adapter_guide and test_strands_docs run
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", text, re.S), 1)
]
SECTIONS = re.split(r"^## ", README, flags=re.M)

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

ANOTHER_PROMPT = """
from agentreplay.examples import refunds

consult = refunds.consult
refunds.consult = lambda context, text: consult(context, text.replace("Work", "Kindly work"))
"""


def run_python(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def agentreplay(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def console(heading: str) -> list[str]:
    """The console blocks of the section that begins so; the first screen has no heading of its own."""
    (section,) = [section for section in SECTIONS if section.startswith(heading)]
    return re.findall(r"```console\n(.*?)```", section, re.S)


def without_times(text: str) -> str:
    return re.sub(r" +\d+(\.\d+)? (µs|ms|s)\b", " TIME", text)


def test_an_untouched_loop_is_recorded_as_the_readme_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first example: a loop that knows nothing of agentreplay, its rounds and its state in the log."""
    (tmp_path / "mybot.py").write_text(MYBOT)
    (untouched,) = [block for block in PYTHON if "import mybot" in block]
    assert run_python(untouched, tmp_path) == "run1\n"
    monkeypatch.chdir(tmp_path)
    for command in re.findall(r"^\$ agentreplay (.*)$", console("Record a loop of your own")[0], re.M):
        agentreplay(*command.split())
    assert "+ notes[0]" in agentreplay("diff", "run1", "--step", "1")
    assert "search" in agentreplay("show", "run1")


@pytest.mark.parametrize(
    "code", [block for block in PYTHON if "import mybot" not in block and "def test_" not in block]
)
def test_every_python_block_runs(code: str, tmp_path: Path) -> None:
    """Each example runs by itself, in an empty folder."""
    run_python(code, tmp_path)
    assert (tmp_path / ".agentreplay" / "store.db").is_file()


@pytest.mark.parametrize("code", IN_PAGES)
def test_every_python_block_of_a_page_runs_and_prints_what_it_says(code: str, tmp_path: Path) -> None:
    """By itself, in an empty folder; where text stands behind a `print`, it is what that prints."""
    printed = run_python(code, tmp_path).splitlines()
    assert (tmp_path / ".agentreplay" / "store.db").is_file()
    said = re.findall(r"^ *print\(.*\)(?:  # (.*))?$", code, re.M)
    assert len(printed) == len(said)
    assert [line for line, told in zip(printed, said, strict=True) if told] == [told for told in said if told]


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_of_the_engine_replay_on_the_command_line(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As files of the names that stand above them, without `--app`."""
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", PAGES["corestep.md"], re.S)[number]
    name = code.splitlines()[0].removeprefix("# ")
    Path(name).write_text(code, encoding="utf-8")
    subprocess.run([sys.executable, name], check=True, capture_output=True)
    done = CliRunner().invoke(main, ["replay", "run1"])
    assert (done.exit_code, done.stdout.split()[2]) == (0, "identical"), done.output


def test_a_rerun_in_python_prints_what_the_readme_says(tmp_path: Path) -> None:
    """Behind each `print` stands what it prints."""
    (code,) = [block for block in PYTHON if "ar.rerun" in block]
    said = re.findall(r"^ *print\(.*  # ([^;\n]*)", code, re.M)
    assert run_python(code, tmp_path).splitlines() == said == ["identical", "paid 129.5"]


def test_the_first_screens_show_what_the_commands_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output in the README is the real one, but for times."""
    monkeypatch.chdir(tmp_path)
    agentreplay("demo")
    shown = [*console("# agentreplay")[1:], *console("Run it again")]
    assert len(shown) == 3
    for block in shown:
        command, printed = block.split("\n", 1)
        words = command.removeprefix("$ agentreplay ").split()
        assert without_times(agentreplay(*words)) == without_times(printed)


def test_the_import_example_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of the import section run on the fixture that they name."""
    store = tmp_path / "store.db"
    monkeypatch.setenv("AGENTREPLAY_STORE", str(store))
    monkeypatch.chdir(ROOT)
    for command in re.findall(r"^\$ agentreplay (.*)$", console("Import a run")[0], re.M):
        agentreplay(*command.split())


def test_the_cassette_example_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of the demo is exported, and is the same in the other store."""
    monkeypatch.chdir(tmp_path)
    agentreplay("demo")
    for command in re.findall(r"^\$ agentreplay (.*)$", console("Take a run along")[0], re.M):
        agentreplay(*command.split())
    assert "refunds" in agentreplay("show", "run1", "--short", "--store", "elsewhere.db")


def test_a_failed_run_becomes_a_test_as_the_readme_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three commands: exported, written down, green; another prompt is red in the words that are shown."""
    monkeypatch.chdir(tmp_path)
    for name in ("PYTEST_ADDOPTS", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    agentreplay("demo")
    export, replay = console("Make a test of it")
    ((make, command),) = re.findall(r"^\$ mkdir -p (\S+) && agentreplay (.*)\n", export)
    Path(make).mkdir(parents=True)
    agentreplay(*command.split())
    (test,) = [block for block in PYTHON if "def test_" in block]
    Path("tests/test_refund.py").write_text(test, encoding="utf-8")
    green = run_pytest(tmp_path)
    assert "1 passed" in green
    command, printed = replay.split("\n", 1)
    words = command.removeprefix("$ agentreplay ").replace("*", "refund.failed").split()
    assert without_times(agentreplay(*words)) == without_times(printed)
    Path("conftest.py").write_text(ANOTHER_PROMPT, encoding="utf-8")
    red = run_pytest(tmp_path)
    (section,) = [section for section in SECTIONS if section.startswith("Make a test of it")]
    (shown,) = re.findall(r"```\n(>.*?)```", section, re.S)
    assert [line.strip() for line in shown.splitlines()] == [
        re.sub("^> +", ">   ", line.strip()) for line in red.splitlines() if line.startswith((">", "E "))
    ]


def run_pytest(folder: Path) -> str:
    """What pytest prints in a folder, with the plugin alone."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "agentreplay.pytest_plugin"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


def test_the_table_of_verbs_is_complete() -> None:
    """Every verb is in the README, and every verb in the README exists."""
    in_readme = set(re.findall(r"^\| `agentreplay ([a-z]+)", README, re.M))
    assert in_readme == set(main.list_commands(main.make_context("agentreplay", ["ls"], resilient_parsing=True)))


def test_only_what_is_public_is_named() -> None:
    """Each `ar.name` in the README and in the pages is exported."""
    import agentreplay

    for text in (README, *PAGES.values()):
        named = set(re.findall(r"\bar\.([A-Za-z_]+)", text))
        assert named <= {*agentreplay.__all__, "strands"}  # an extra, which is in no `__all__`


def test_links_lead_to_files() -> None:
    """What the README and the pages link to in the repository is there."""
    for folder, text in ((ROOT, README), *[(ROOT / "docs", text) for text in PAGES.values()]):
        links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
        assert [link for link in links if not (folder / link).exists()] == []
