"""`resume`: going on with a run that was interrupted or has crashed, from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_runs import as_process, invoke, json_of, output
from replayed_agents import at_work, calls_made, change_shop


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a shop."""
    with at_work(tmp_path, monkeypatch) as folder:
        yield folder


@pytest.fixture
def waiting() -> None:
    """A run that waits for an answer."""
    output("run", "shop.py:approved")
    assert calls_made() == ["find"]


@pytest.fixture
def crashed(work: Path) -> None:
    """A run whose process died while it paid 7.5."""
    change_shop("12.5", "7.5")
    assert as_process("run", "shop.py:step", env={"DIE": "1"}, cwd=work).returncode == 9
    assert calls_made() == ["find", "ask", "pay"]


# -- a run that waits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["2.approve.1", "approve"])
def test_an_answer_lets_the_run_go_on(question: str, waiting: None) -> None:
    """By the question's id or its name; in place, without calling again what was called."""
    text = output("resume", "run1", "--answer", f"{question}=true")
    assert text.splitlines()[-2:] == [
        "run1  approved  completed  2 rounds   true",
        "coverage  2 answered from the recording · 0 made live · 0 never captured · 0 recorded and not asked for",
    ]
    assert '   ├ ~ (payload)  null → {"yes": true}\n' in text
    assert calls_made() == []
    (run,) = json_of("ls")
    assert (run["status"], run["steps"]) == ("completed", 2)
    assert output("replay", "run1").startswith("run1  approved  identical  2 rounds recorded\n")


def test_what_a_run_waits_for_is_told(waiting: None) -> None:
    """Without an answer there is nothing to go on with; `run` says what to type."""
    result = invoke("resume", "run1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert 'run1 waits for an answer: --answer 2.approve.1=JSON ({"amount": 3})' in result.stderr
    again = invoke("run", "shop.py:approved")
    assert "agentreplay resume run2 --answer NAME=JSON" in again.stdout


def test_a_question_that_was_not_asked_cannot_be_answered(waiting: None) -> None:
    """The open ones are named."""
    result = invoke("resume", "run1", "--answer", "sign=true")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "run1 has no open question sign; open: 2.approve.1 (approve)" in result.stderr
    assert "executing" not in result.stderr


def test_programs_get_json(waiting: None) -> None:
    """The run, the step at which it went on, how it ended, and what was covered."""
    assert json_of("resume", "run1", "--answer", 'approve={"by": "Ada"}') == {
        "run": "run1",
        "step": 2,
        "status": "completed",
        "coverage": {"recorded": 2, "live": 0, "uncaptured": 0, "unused": 0},
    }
    assert json_of("state", "run1") == {"yes": {"by": "Ada"}}


# -- a run that crashed --------------------------------------------------------------------------------------------


def test_an_irreversible_call_that_was_in_flight_is_not_guessed_about(crashed: None) -> None:
    """Whether it was done, a person says; until then nothing is executed, and the exit code is that of usage."""
    result = invoke("resume", "run1")
    assert (result.exit_code, result.stdout, calls_made()) == (2, "", [])
    assert "run1 ended while 3.1 (pay) was in flight" in result.stderr
    assert "--assume 3.1=not-done" in result.stderr
    assert "executing" not in result.stderr
    assert json_of("ls")[0]["status"] == "crashed"


def test_a_call_that_was_not_done_is_made(crashed: None) -> None:
    """Once, and nothing else is; without a note that the word is a text."""
    result = invoke("resume", "run1", "--assume", "3.1=not-done")
    assert (result.exit_code, calls_made()) == (0, ["pay"])
    assert result.stderr == "executing shop.py:step, as recorded; --app names another\n"
    assert '"receipt": "paid 7.5"' in result.stdout


def test_a_call_that_was_done_is_not_made_again(crashed: None) -> None:
    """What it gave is what the agent gets; a text that says not-done is one where it stands in quotes."""
    output("resume", "run1", "--assume", '3.1="not-done"')
    assert calls_made() == []
    assert '"receipt": "not-done"' in output("show", "run1")


def test_an_agent_that_fails_gives_exit_code_one(crashed: None) -> None:
    """The run has failed then, and cannot be resumed once more."""
    change_shop("if amount > 10", "if amount > 5")
    text = output("resume", "run1", "--assume", "3.1=not-done", code=1)
    assert "run1  shop  failed     3 rounds   7.5 is too much\n" in text
    result = invoke("resume", "run1")
    assert (result.exit_code, "run1 is failed: there is nothing to resume" in result.stderr) == (2, True)


def test_code_that_parts_from_the_log_appends_nothing(crashed: None) -> None:
    """The difference is told, also to programs; the run is as it was."""
    change_shop('"tip": 0', '"tip": 1')
    before = output("tail", "run1", code=1)
    result = invoke("resume", "run1", "--assume", "3.1=not-done")
    assert (result.exit_code, calls_made()) == (1, [])
    assert "step 1: another payload\n" in result.stdout
    told = json.loads(invoke("resume", "run1", "--assume", "3.1=not-done", "--json").stdout)
    assert (told["run"], told["status"]) == ("run1", "crashed")
    assert [one["path"] for one in told["divergences"]] == ["/tip"]
    assert output("tail", "run1", code=1) == before


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--assume", "9.9=1"], "run1 has no call 9.9 in flight; in flight: 3.1"),
        (["--assume", "3.1"], "expected CALL=JSON, not '3.1'"),
        (["--assume", "3.1=1", "--assume", "3.1=not-done"], "3.1 is given twice"),
        (["--answer", "approve=1"], "run1 has no open question approve; open: none"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(args: list[str], says: str, crashed: None) -> None:
    """Before anything is executed."""
    result = invoke("resume", "run1", *args)
    assert (result.exit_code, result.stdout, calls_made()) == (2, "", [])
    assert says in result.stderr
    assert "executing" not in result.stderr


# -- a re-run that waits -------------------------------------------------------------------------------------------

KEEPER = """
import agentreplay as ar
from shop import done, pay

@ar.tool(safety="pure")
def knock(key):
    done("open" if key == "hunter2-hunter2" else "shut")

@ar.agent("keeper")
def step(round_index, context):
    if round_index == 1:
        return ar.Continue()
    context.interrupt("sure", None)
    knock(key=context.payload["api_key"])
    return ar.Complete(pay(amount=3))
"""


def test_a_rerun_is_resumed_with_what_it_may_do(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret that a token stands for, and the tools that may be called; each refusal can be gone on from."""
    monkeypatch.setenv("KEY", "hunter2-hunter2")
    (work / "keeper.py").write_text(KEEPER, encoding="utf-8")
    output("run", "keeper.py:step", "--payload", '{"api_key": "hunter2-hunter2"}')
    output("rerun", "run1", "--step", 2)
    result = invoke("resume", "run2", "--answer", "sure=true")
    assert (result.exit_code, calls_made()) == (1, [])
    assert "--secret /path/in/payload=env:VARIABLE" in result.stderr
    secret = ["--secret", "api_key=env:KEY"]
    result = invoke("resume", "run2", *secret)
    assert (result.exit_code, calls_made()) == (1, ["open"])
    assert "allow it with --allow pay" in result.stderr
    assert json_of("resume", "run2", *secret, "--allow", "pay")["status"] == "completed"
    assert calls_made() == ["pay"]
    assert b"hunter2-hunter2" not in b"".join(path.read_bytes() for path in (work / ".agentreplay").iterdir())


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--secret", "/key=value"], "a secret is read from a variable"),
        (["--secret", "/key=env:NOT_SET"], "the variable NOT_SET"),
        (["--secret", "/a/b=env:PATH"], "/a/b cannot be set"),
        (["--max-rounds", "0"], "'--max-rounds'"),
        (["--answer", "2.approve.1=false"], "question 2.approve.1 of run1 is given two answers, by its id and by its"),
        (["--answer", "approve=false"], "approve is given twice"),
        (["--app", ""], "expected FILE.py:NAME or MODULE:NAME, not ''"),
        (["--max-rounds", "1"], "run1 from its start, and it goes on in step 2: give at least that, not 1"),
    ],
)
def test_an_option_that_cannot_be_meant_is_a_usage_error(args: list[str], says: str, waiting: None) -> None:
    """The run waits on."""
    result = invoke("resume", "run1", "--answer", "approve=true", *args)
    assert (result.exit_code, result.stdout, says in result.stderr) == (2, "", True), result.stderr
    assert json_of("ls")[0]["status"] == "interrupted"
