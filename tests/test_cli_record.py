"""`demo` and `run`: recording from the command line."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_runs import as_process, invoke, json_of, output

AGENTS = """
import asyncio, dataclasses, os, sys
import agentreplay as ar

@ar.tool
def pay(amount):
    raise ValueError(f"cannot pay {amount}")

@ar.agent("refunds", max_rounds=4)
def refunds(round_index, context):
    context.change(new={"round": round_index}, reason="count")
    return ar.Complete({"got": context.payload, "input": context.input, "params": context.params})

def plain(round_index, context):
    print("printed by the agent")
    return ar.Complete("fine")

async def waiting(round_index, context):
    await asyncio.sleep(0)
    return ar.Complete("waited")

@ar.agent
def failing(round_index, context):
    if round_index == 2:
        pay(amount=3)
    return ar.Continue()

def forever(round_index, context):
    return ar.Continue()

def giving_up(round_index, context):
    return ar.NextStep(step="Failed", errorMessage="no way")

def asking(round_index, context):
    context.interrupt("approve", {"amount": 3})

def wrong(round_index, context):
    return 5

def quitting(round_index, context):
    sys.exit(3)

def own_loop():
    with ar.record("triage", payload={"ticket": 7}) as run:
        with run.round() as r:
            r.change(update={"ticket": 8})

async def own_async_loop(payload, input=None):
    async with ar.record("triage", payload=payload, input=input) as run:
        with run.round():
            pass

def own_failing_loop():
    with ar.record("triage") as run:
        with run.round():
            raise KeyError("lost")

def nothing():
    return 1

def speaking(round_index, context):
    print("printed")
    os.system("echo by a child process")
    return ar.Complete(1)

class Stepper:
    def __call__(self, round_index, context):
        return ar.Complete("called")

stepper = Stepper()
number = 7

@dataclasses.dataclass
class Order:
    id: str
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in a folder of its own, with a file of agents; what is loaded there is forgotten again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "agents.py").write_text(AGENTS, encoding="utf-8")
    yield tmp_path
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


# -- demo ----------------------------------------------------------------------------------------------------------


def test_demo_records_a_run_that_fails_and_shows_why() -> None:
    """One command: the failed run, what its seventh step did to the payload, and what to do next."""
    text = output("demo")
    assert "$ agentreplay show run1 --short\nrun1  refunds  failed\n" in text
    assert "$ agentreplay diff run1 --step 7\nrun1  refunds  failed  step 7\n" in text
    assert "~ order.total  129.5 → 77.7\n+ totals_checked  true\n" in text
    assert "Why it failed:" in text
    run, child = json_of("ls")
    assert (run["agent"], run["status"], run["steps"], child["agent"]) == ("refunds", "failed", 10, "inspector")


def test_demo_shows_what_its_commands_show() -> None:
    """What stands below a command in the demo is what that command prints."""
    text = output("demo")
    _, short, rest = text.split("\n$ ")
    for block in (short, rest.partition("\nWhy it failed")[0]):
        command, _, printed = block.partition("\n")
        assert output(*command.split()[1:]).strip() == printed.strip()


def test_commands_of_the_demo_work_as_they_are(elsewhere: Path) -> None:
    """Every command to go on with names the store it is about, and works."""
    text = output("demo", "--store", "other place.db")
    commands = [line.split("   ")[0].strip() for line in text.splitlines() if line.startswith("  agentreplay")]
    assert len(commands) == 5
    assert all(command.endswith("--store 'other place.db'") for command in commands)
    for command in commands[:4]:
        words = command.replace("--store 'other place.db'", "").split()[1:]
        assert output(*words, "--store", "other place.db")
    assert not (elsewhere / ".agentreplay").exists()


# -- run: what can be run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "agent", "steps"),
    [
        ("refunds", "refunds", 1),
        ("plain", "plain", 1),
        ("waiting", "waiting", 1),
        ("stepper", "Stepper", 1),
        ("own_loop", "triage", 1),
    ],
)
def test_whatever_is_an_agent_is_run_and_recorded(name: str, agent: str, steps: int) -> None:
    """An agent, a step function, an object with a step, a coroutine, and a loop that records itself."""
    text = output("run", f"agents.py:{name}")
    assert f"recorded as run1  {agent}  completed  {steps} round" in text
    assert "agentreplay show run1" in text
    (run,) = json_of("ls")
    assert (run["agent"], run["status"], run["steps"]) == (agent, "completed", steps)


def test_a_module_is_named_like_a_file(elsewhere: Path) -> None:
    """`package.module:name` is found from here; names may have dots."""
    (elsewhere / "pack").mkdir()
    (elsewhere / "pack" / "__init__.py").touch()
    source = "class Agents:\n    @staticmethod\n    def step(n, c):\n        return {'type': 'complete'}\n"
    (elsewhere / "pack" / "mod.py").write_text(source, encoding="utf-8")
    assert json_of("run", "pack.mod:Agents.step")["status"] == "completed"


def test_the_only_agent_of_a_file_needs_no_name(elsewhere: Path) -> None:
    """Where there is one agent, it is meant; where there are several, they are listed."""
    source = "import agentreplay as ar\n@ar.agent\ndef only(n, c):\n    return ar.Complete(1)\n"
    (elsewhere / "one.py").write_text(source, encoding="utf-8")
    assert json_of("run", "one.py")["agent"] == "only"
    result = invoke("run", "agents.py")
    assert result.exit_code == 2
    assert "Its agents are: refunds, failing" in result.stderr


def test_the_folder_of_a_file_comes_first_on_the_path(elsewhere: Path) -> None:
    """A file's neighbours are imported as when Python runs it, also one with the name of one of ours."""
    (elsewhere / "deep").mkdir()
    (elsewhere / "deep" / "recorder.py").write_text("WORD = 'mine'\n", encoding="utf-8")
    source = "from recorder import WORD\ndef step(n, c):\n    return {'type': 'complete', 'value': WORD}\n"
    (elsewhere / "deep" / "inspect_it.py").write_text(source, encoding="utf-8")
    assert '"mine"' in output("run", "deep/inspect_it.py:step")


def test_a_file_may_be_called_like_a_module_that_is_loaded(elsewhere: Path) -> None:
    """A file called json.py is run, and the json module stays what it is."""
    (elsewhere / "json.py").write_text("def step(n, c):\n    return {'type': 'complete', 'value': 'ours'}\n")
    assert '"ours"' in output("run", "json.py:step")


# -- run: what it is given -----------------------------------------------------------------------------------------


def test_payload_input_and_parameters_reach_the_agent(elsewhere: Path) -> None:
    """They are JSON, from the command line, a file or standard input; a parameter may be plain text."""
    (elsewhere / "input.json").write_text('{"ticket": 7}', encoding="utf-8")
    args = ("--input", "@input.json", "--param", "tone=kind", "--param", "limit=3", "--param", "eq=a=b")
    output("run", "agents.py:refunds", "--payload", '{"a": null}', *args)
    state = json_of("state", "--all")
    assert state["payload"] == {"a": None, "round": 1}
    assert (state["input"], state["params"]) == ({"ticket": 7}, {"tone": "kind", "limit": 3, "eq": "a=b"})
    assert invoke("run", "agents.py:refunds", "--payload", "@-", input='{"b": 1}').exit_code == 0
    assert json_of("state") == {"b": 1, "round": 1}


def test_a_loop_of_ones_own_gets_what_it_takes() -> None:
    """A function that records itself is called with payload, input and params by name, if it has them."""
    output("run", "agents.py:own_async_loop", "--payload", '{"a": 1}', "--input", "[2]")
    state = json_of("state", "--all")
    assert (state["payload"], state["input"]) == ({"a": 1}, [2])
    result = invoke("run", "agents.py:own_loop", "--payload", "1")
    assert result.exit_code == 2
    assert "own_loop cannot be called with payload" in result.stderr


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--payload", "{a: 1}"], "this is no JSON"),
        (["--payload", '{"a": NaN}'], "NaN is no JSON"),
        (["--payload", "@missing.json"], "missing.json"),
        (["--param", "novalue"], "expected NAME=VALUE"),
        (["--max-rounds", "0"], "0 is not in the range"),
    ],
)
def test_what_cannot_be_given_is_refused(args: list[str], says: str) -> None:
    """What is no JSON, no file or no parameter is a usage error, before anything runs."""
    result = invoke("run", "agents.py:plain", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert not Path(".agentreplay").exists()


def test_rounds_can_be_bounded() -> None:
    """`--max-rounds` ends a run that goes on for ever, which is a failure."""
    text = output("run", "agents.py:forever", "--max-rounds", 3, code=1)
    assert "recorded as run1  forever  failed  3 rounds" in text
    assert "RoundLimitReached" in text
    assert json_of("ls")[0]["steps"] == 3


# -- run: what may go wrong ----------------------------------------------------------------------------------------


def test_an_exception_is_shown_as_the_users_own() -> None:
    """The traceback has the lines of the agent and none of ours; the run is recorded and named; the exit code is 1."""
    result = invoke("run", "agents.py:failing")
    assert result.exit_code == 1
    frames = [line.split(", ") for line in result.stderr.splitlines() if line.startswith("  File ")]
    assert [Path(file[8:-1]).name for file, _, _ in frames] == ["agents.py", "agents.py"]
    assert [where for _, _, where in frames] == ["in failing", "in pay"]
    assert result.stderr.splitlines()[-1] == "ValueError: cannot pay 3"
    assert "recorded as run1  failing  failed  2 rounds" in result.stdout
    assert "ValueError" not in result.stdout
    assert json_of("ls")[0]["status"] == "failed"


def test_chained_exceptions_are_shown_without_our_frames(elsewhere: Path) -> None:
    """Causes and groups of exceptions are shown too, each with the user's frames only."""
    (elsewhere / "chained.py").write_text(
        "import agentreplay as ar\n@ar.tool\ndef inner():\n    raise OSError('disk')\n"
        "def step(n, c):\n    try:\n        inner()\n    except OSError as error:\n"
        "        raise ExceptionGroup('all', [ValueError('one')]) from error\n"
    )
    result = invoke("run", "chained.py:step")
    assert result.exit_code == 1
    assert "OSError: disk" in result.stderr
    assert "ValueError: one" in result.stderr
    files = {line.split('"')[1] for line in result.stderr.splitlines() if line.strip(" |").startswith("File ")}
    assert {Path(file).name for file in files} == {"chained.py"}


@pytest.mark.parametrize(
    ("name", "status", "says"),
    [
        ("giving_up", "failed", ""),
        ("wrong", "failed", "the step of wrong returned int"),
        ("quitting", "failed", "SystemExit: 3"),
        ("own_failing_loop", "failed", "KeyError: 'lost'"),
    ],
)
def test_an_agent_that_fails_gives_exit_code_one(name: str, status: str, says: str) -> None:
    """However it fails, the run is there, says so, and the exit code is 1."""
    result = invoke("run", f"agents.py:{name}")
    assert result.exit_code == 1
    assert says in result.stderr
    assert "recorded as run1" in result.stdout
    assert json_of("ls")[0]["status"] == status


def test_a_run_that_waits_for_an_answer_has_not_failed() -> None:
    """An interrupt is no failure."""
    assert "recorded as run1  asking  interrupted  1 round" in output("run", "agents.py:asking")


def test_a_function_that_records_nothing_is_an_error() -> None:
    """What ran no agent and opened no recording is told so."""
    result = invoke("run", "agents.py:nothing")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "recorded nothing" in result.stderr


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("missing.py:step", "there is no file missing.py"),
        ("missing_module:step", "there is no module 'missing_module'"),
        ("agents.py:nope", "there is no 'nope' in it. Its agents are: refunds, failing"),
        ("agents.py:number", "int is neither an agent, nor a step function"),
        ("agents.py:Order", "type is neither an agent"),
    ],
)
def test_what_is_not_there_is_a_usage_error(reference: str, says: str) -> None:
    """A file, module or name that does not exist, and what cannot be run, is said to be so."""
    result = invoke("run", reference)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import missing_thing", "ModuleNotFoundError: No module named 'missing_thing'"),
        ("def step(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("import agentreplay as ar\nar.agent(max_rounds=0)(lambda n, c: 1)", "max_rounds is at least 1"),
    ],
)
def test_a_module_that_fails_to_load_shows_its_own_error(source: str, says: str, elsewhere: Path) -> None:
    """What the agent's file raises when it is loaded is the user's error, shown as such."""
    (elsewhere / "broken.py").write_text(source + "\n", encoding="utf-8")
    result = invoke("run", "broken.py:step")
    assert (result.exit_code, result.stdout) == (1, "")
    assert says in result.stderr
    assert "importlib" not in result.stderr
    assert "bug in agentreplay" not in result.stderr


def test_a_store_that_cannot_be_written_is_unreadable_data(elsewhere: Path) -> None:
    """A store that is none is an error of ours, and the agent does not run."""
    (elsewhere / "notes.txt").write_text("not a database, " * 100, encoding="ascii")
    result = invoke("run", "agents.py:plain", "--store", "notes.txt")
    assert (result.exit_code, result.stdout) == (3, "")


# -- run: JSON -----------------------------------------------------------------------------------------------------


def test_json_is_all_there_is_on_stdout() -> None:
    """What the agent prints, and the programs it starts, goes to stderr."""
    done = as_process("run", "agents.py:speaking", "--json")
    assert done.returncode == 0
    assert done.stdout.startswith('{\n  "run": "run1",')
    assert done.stdout.rstrip().endswith("}")
    assert done.stderr.splitlines() == ["printed", "by a child process"]
    assert "printed\nby a child process\nrecorded as run2" in as_process("run", "agents.py:speaking").stdout


def test_json_of_a_failed_run_has_its_fields() -> None:
    """A run that failed is there in JSON too, its traceback on stderr with the run's name."""
    result = invoke("run", "agents.py:failing", "--json")
    assert result.exit_code == 1
    assert result.stderr.endswith("ValueError: cannot pay 3\nrecorded as run1\n")
    assert io.StringIO(result.stdout).readline() == "{\n"
    assert '"status": "failed"' in result.stdout
