"""The command line as a whole: its help, what it loads, its errors and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import agentreplay
import click
import pytest
from agentreplay.cli import VERBS, main
from agentreplay.cli.options import VerbCommand
from cli_runs import SCRIPT, as_process, invoke, json_of, output

HEAVY = {"pydantic", "sqlalchemy", "rich", "deepdiff", "duckdb", "flask", "orjson"}
PROGRAM = """
import sys
from agentreplay.cli import main
sys.argv[1:] = {args}
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
SLEEPER = """
import pathlib, time

def step(round_index, context):
    pathlib.Path("started").touch()
    time.sleep(60)
"""
READERS = ["ls", "show", "state", "diff", "verify"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def verb(name: str) -> click.Command:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    return command


def loaded_by(*args: str, env: dict[str, str] | None = None) -> set[str]:
    """The large libraries that a call imports."""
    program = PROGRAM.format(args=list(args))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **(env or {})}
    )
    return HEAVY & set(done.stderr.split())


# -- help ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [["--help"], ["-h"], []])
def test_help_lists_every_verb(args: list[str]) -> None:
    """Asked for help, or nothing at all, it lists each verb with what it does."""
    text, width = output(*args), max(map(len, VERBS))
    for name, entry in VERBS.items():
        assert f"  {name:{width}}  {entry.summary}\n" in text


def test_help_loads_no_large_library() -> None:
    """The list of verbs, and completion in a shell, are there at once: click is all that is imported."""
    assert loaded_by("--help") == set()
    assert loaded_by("--version") == set()
    assert loaded_by("help-me") == set()
    assert (
        loaded_by(env={"_AGENTREPLAY_COMPLETE": "bash_complete", "COMP_WORDS": "agentreplay s", "COMP_CWORD": "1"})
        == set()
    )


@pytest.mark.parametrize("name", VERBS)
def test_help_of_a_verb_loads_no_large_library(name: str) -> None:
    """The help of a verb needs its options only, so it is as quick as the list."""
    assert loaded_by(name, "--help") == set()


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_explains_itself(name: str) -> None:
    """The help of a verb says what the list of verbs says, goes on from there, and ends in examples of itself."""
    command = verb(name)
    assert isinstance(command, VerbCommand)
    first, _, rest = (command.help or "").partition("\n\n")
    assert (first, command.name) == (VERBS[name].summary, name)
    assert rest
    assert command.examples
    assert all(example.startswith(f"agentreplay {name}") for example in command.examples)
    assert "Examples:" in output(name, "--help")


@pytest.mark.parametrize("name", VERBS)
def test_every_option_is_described(name: str) -> None:
    """Each option of a verb says what it does."""
    options = [parameter for parameter in verb(name).params if isinstance(parameter, click.Option)]
    assert all(option.help for option in options)


def test_version_is_that_of_the_package() -> None:
    """`--version` prints one line."""
    assert output("--version") == f"agentreplay {agentreplay.__version__}\n"


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["shw"], 2, "Did you mean 'show'?"),
        (["ls", "--jsn"], 2, "--json"),
        (["run"], 2, "Missing argument 'AGENT'"),
        (["show", "run1", "--step", "x"], 2, "not a valid int"),
        (["diff", "--json", "--patch"], 2, "exclude each other"),
        (["diff", "--step", "1", "--from", "2"], 2, "exclude each other"),
        (["diff", "run1", "run2", "--to", "2"], 2, "two runs are compared at one step"),
        (["show", "--step", "1", "--rounds", "1:2"], 2, "exclude each other"),
        (["schema", "--kind", "tool.cald"], 2, "tool.called"),
        (["import", "x.json", "--format", "nope"], 2, "swe-agent"),
        (["ls"], 3, "there is no store at"),
        (["import", "missing.json"], 3, "missing.json"),
    ],
)
def test_an_error_is_one_message(args: list[str], code: int, says: str) -> None:
    """What is wrong is said on stderr, with the exit code that tells usage from data, and never as a traceback."""
    result = invoke(*args)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", READERS)
def test_reading_creates_no_store(name: str, elsewhere: Path) -> None:
    """Looking at runs where there are none leaves the folder as it was."""
    assert invoke(name).exit_code == 3
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("name", READERS)
def test_what_is_no_store_is_not_touched(name: str, elsewhere: Path) -> None:
    """A file that is something else is refused by name, and stays as it is."""
    (elsewhere / "notes.txt").write_text("not a database, " * 100, encoding="ascii")
    result = invoke(name, "--store", "notes.txt")
    assert result.exit_code == 3
    assert "notes.txt" in result.stderr
    assert (elsewhere / "notes.txt").read_text(encoding="ascii") == "not a database, " * 100


def test_an_unknown_run_is_missing_data() -> None:
    """A run that is not there is said to be missing, with what there is."""
    output("demo")
    result = invoke("show", "run9")
    assert result.exit_code == 3
    assert 'no run "run9"' in result.stderr
    assert "Its last run is run1" in result.stderr


@pytest.mark.parametrize("name", ["show", "state", "diff"])
def test_an_unknown_step_is_usage(name: str) -> None:
    """A step that a run does not have is refused with those that it has."""
    output("demo")
    result = invoke(name, "run1", "--step", "11")
    assert result.exit_code == 2
    assert "steps 0 (the start) to 10" in result.stderr


def test_step_zero_has_nothing_before_it() -> None:
    """The start cannot be compared with what was before."""
    output("demo")
    result = invoke("diff", "run1", "--step", "0")
    assert result.exit_code == 2
    assert "run1 has steps 1 to 10" in result.stderr


def test_a_bug_is_one_line_unless_debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw names itself; the traceback is shown on demand."""
    output("demo")
    monkeypatch.setattr("agentreplay.cli.runs.row_of", lambda *_: 1 / 0)
    result = invoke("ls", "--json")
    assert (result.exit_code, result.stdout) == (70, "")
    assert result.stderr.splitlines()[0] == "error: ZeroDivisionError: division by zero"
    assert "Traceback" not in result.stderr
    assert "Traceback" in invoke("ls", "--json", env={"AGENTREPLAY_DEBUG": "1"}).stderr


def test_the_store_is_named_before_or_after_the_verb(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--store` goes anywhere, the nearer one wins, and the environment is asked last."""
    output("demo", "--store", "a.db")
    output("--store", "b.db", "demo")
    output("demo", "--store", "b.db")
    assert len(json_of("ls", "--store", "a.db")) == 2
    assert len(json_of("--store", "b.db", "ls")) == 4
    assert len(json_of("--store", "b.db", "ls", "--store", "a.db")) == 2
    monkeypatch.setenv("AGENTREPLAY_STORE", str(elsewhere / "b.db"))
    assert len(json_of("ls")) == 4
    assert len(json_of("ls", "--store", "a.db")) == 2


def test_the_nearest_store_upwards_is_meant(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name, the store of this folder or of one above it is read."""
    output("demo")
    (elsewhere / "deep" / "down").mkdir(parents=True)
    monkeypatch.chdir(elsewhere / "deep" / "down")
    assert [run["run"] for run in json_of("ls")] == ["run1", "run2"]


# -- signals and pipes ---------------------------------------------------------------------------------------------


def test_a_reader_that_stops_is_no_error(elsewhere: Path) -> None:
    """`| head` ends the output quietly, with nothing on stderr and exit code 0."""
    (elsewhere / "big.json").write_text('{"text": "' + "x" * 300_000 + '"}', encoding="ascii")
    (elsewhere / "agent.py").write_text(
        "def step(round_index, context):\n    return {'type': 'complete', 'value': 1}\n"
    )
    output("run", "agent.py:step", "--payload", "@big.json")
    with subprocess.Popen(
        [*SCRIPT, "state", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0


def test_an_interrupted_run_is_recorded(elsewhere: Path) -> None:
    """Ctrl-C ends a run as cancelled, says where it was recorded, and exits as a shell expects, without a traceback."""
    (elsewhere / "agent.py").write_text(SLEEPER)
    with subprocess.Popen([*SCRIPT, "run", "agent.py:step"], stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 30
        while not (elsewhere / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "recorded as run1 (cancelled)" in errors
    assert "Traceback" not in errors
    assert json_of("ls")[0]["status"] == "cancelled"


def test_module_and_group_are_the_same_program() -> None:
    """`python -m agentreplay` runs the verbs too."""
    done = as_process("schema", "--kind", "timer.fired")
    assert (done.returncode, done.stderr) == (0, "")
    assert '"TimerFiredData"' in done.stdout
