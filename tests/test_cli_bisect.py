"""`bisect`: the step in which the outcome of a run turns, from the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_runs import SCRIPT, as_process, invoke, json_of, output

FIX = ["--set", "/order/coupon/used=true", "--allow", "issue_refund"]


@pytest.fixture(autouse=True)
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the example agent failed, as run1; run2 is its child."""
    monkeypatch.chdir(tmp_path)
    output("run", "agentreplay.examples.refunds:step", "--payload", '{"order_id": "A-17", "request": "?"}', code=1)
    return tmp_path


def test_the_step_is_found_and_shown() -> None:
    """Each re-run is a line as it comes; then the step, what it did, and what to look at next."""
    lines = output("bisect", "run1", *FIX).splitlines()
    assert lines[:7] == [
        "run1  refunds  failed  is bad",
        "bisecting steps 2 to 10, in at most 4 re-runs",
        "",
        "from step   6  run3    good     completed",
        "from step   8  run4    bad      failed",
        "from step   7  run5    good     completed",
        "",
    ]
    assert lines[7] == "The outcome turns in step 7: a re-run from there is good, and from step 8 on bad."
    assert "   ├ ~ order.total  129.5 → 77.7" in lines
    assert lines[-2:] == [
        "  agentreplay diff run1 --step 7   what that step did, and what caused it",
        "  agentreplay compare run1 run5    both side by side, at the first difference",
    ]


def test_a_command_judges_the_runs() -> None:
    """It finds the run in its environment; 0 is good, 125 cannot tell, and what it prints is not in the way."""
    check = f"echo judging; {sys.executable} -m agentreplay state $AGENTREPLAY_RUN --json | grep -q receipt"
    told = json_of("bisect", "run1", "--check", check, *FIX)
    assert (told["run"], told["recorded"], told["step"], told["until"]) == ("run1", "bad", 7, 8)
    assert [(probe["step"], probe["outcome"]) for probe in told["probes"]] == [(6, "good"), (8, "bad"), (7, "good")]
    unsure = 'test "$AGENTREPLAY_STEP" = 7 && exit 125; ' + check
    told = json_of("bisect", "run1", "--check", unsure, "--from", 6, *FIX)
    assert (told["step"], told["until"], told["unsettled"]) == (6, 8, [7])
    text = output("bisect", "run1", "--check", unsure, "--from", 6, *FIX)
    assert "The outcome turns in one of the steps 6 to 7: the check could not judge the re-runs from step 7." in text


def test_a_check_that_is_no_check_stops_the_search() -> None:
    """A mistyped command would find every run bad, and a wrong step with it."""
    result = invoke("bisect", "run1", "--check", "no-such-command", *FIX)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the check ended with 127 for run1, which says nothing of the run: no-such-command" in result.stderr


def test_samples_are_counted_and_may_run_at_the_same_time() -> None:
    """A line says how many were good, their share and its interval."""
    lines = output("bisect", "run1", "--samples", 3, "--jobs", 2, "--from", 7, "--to", 8, *FIX).splitlines()
    told = [line for line in lines if line.startswith("from step")]
    assert lines[1] == "bisecting steps 7 to 8, in at most 6 re-runs"
    assert told[0].startswith("from step   7  good     3 of 3 good, 100 % (95 % between 44 and 100 %)  run")
    assert told[1].startswith("from step   8  bad      0 of 3 good, 0 % (95 % between 0 and 56 %)  run")
    assert any(line.startswith("The outcome turns in step 7:") for line in lines)


def test_where_nothing_turns_it_is_said_and_the_exit_code_is_1() -> None:
    """The agent's script does the same whenever it is asked."""
    text = output("bisect", "run1", "--allow", "issue_refund", code=1)
    assert "No step was found: a re-run from step 1 is bad, too." in text


def test_a_refused_tool_is_told_and_nothing_is_concluded() -> None:
    """The message names the tool and how to allow it; no step is named."""
    result = invoke("bisect", "run1", "--set", "/order/coupon/used=true")
    assert result.exit_code == 2
    assert "The outcome turns" not in result.stdout
    assert "the re-run from step 6, run3, was refused:" in result.stderr
    assert "issue_refund" in result.stderr


def test_code_that_parts_from_the_recording_is_told() -> None:
    """The message of the re-run is passed on."""
    Path("other.py").write_text(
        "import agentreplay as ar\n\n\n@ar.agent('refunds')\ndef step(round_index, context):\n"
        "    return ar.Complete(1)\n",
        encoding="utf-8",
    )
    result = invoke("bisect", "run1", "--app", "other.py:step", "--prefix", "execute")
    assert result.exit_code == 2
    assert "came to nothing" in result.stderr


def test_edits_that_no_step_takes_are_refused_before_anything_is_run() -> None:
    """The reason is the last one that was met."""
    result = invoke("bisect", "run1", "--set", "/invoice/total=1")
    assert result.exit_code == 2
    assert "the edits fit run1 at no step from 1 to 10: /invoice/total cannot be set" in result.stderr
    assert [row["run"] for row in json_of("ls")] == ["run1", "run2"]


def test_two_recordings_part_at_a_step_without_running_anything() -> None:
    """It is what `compare` finds, in a few lines; identical ones part nowhere."""
    output("rerun", "run1", "--step", 7, *FIX)
    lines = output("bisect", "run1", "run3").splitlines()
    assert lines[:2] == ["run1  refunds  failed  10 steps", "run3  refunds  completed  10 steps"]
    assert lines[-1] == "  agentreplay compare run1 run3   both side by side"
    told = json_of("bisect", "run1", "run3")
    assert (told["runs"], told["step"]) == (["run1", "run3"], 7)
    assert told["first"] == json_of("compare", "run1", "run3")["first"]
    assert json_of("bisect", "run1", "run1") == {"runs": ["run1", "run1"], "step": None, "first": None, "also": []}
    assert output("bisect", "run1", "run1").splitlines()[-1] == "No step differs."


def test_options_that_mean_re_runs_are_refused_with_two_recordings() -> None:
    """Whoever gives them means something else."""
    result = invoke("bisect", "run1", "run2", "--samples", 3, "--allow", "issue_refund")
    assert result.exit_code == 2
    assert "two recordings are compared as they are, without --samples, --allow" in result.stderr


def test_a_secret_reaches_the_re_runs_and_no_file() -> None:
    """It is passed by its variable; one that is not set is refused before anything is run."""
    result = invoke("bisect", "run1", "--secret", "/key=env:NO_SUCH_VARIABLE", *FIX)
    assert result.exit_code == 2
    assert "NO_SUCH_VARIABLE" in result.stderr
    code = (
        "import agentreplay as ar\n\n\n@ar.tool(safety='pure')\ndef send(api_key):\n    return len(api_key)\n\n\n"
        "@ar.agent('sender')\ndef step(round_index, context):\n    if round_index == 1:\n"
        "        context.change(new={'ok': True})\n        return ar.Continue()\n"
        "    if send(context.payload['api_key']) != 14:\n        raise ValueError('short')\n    return ar.Complete(1)\n"
    )
    Path("sender.py").write_text(code, encoding="utf-8")
    output("run", "sender.py:step", "--payload", '{"api_key": "sk-short-one"}', code=1)
    environment = {"LONG_KEY": "sk-longer-key0"}
    run = json_of("ls")[-1]["run"]
    done = as_process("bisect", run, "--secret", "/api_key=env:LONG_KEY", "--json", env=environment)
    assert done.returncode == 0, done.stderr
    assert '"step": 2' in done.stdout
    assert b"sk-longer-key0" not in b"".join(path.read_bytes() for path in Path(".agentreplay").iterdir())


def test_ctrl_c_stops_the_re_run_too() -> None:
    """Nothing is left running, and the exit code says that it was interrupted."""
    Path("slow.py").write_text(
        "import time, pathlib, os\nimport agentreplay as ar\n\n\n@ar.agent('slow')\n"
        "def step(round_index, context):\n    if os.environ.get('SLOW'):\n"
        "        pathlib.Path('pid').write_text(str(os.getpid()))\n        time.sleep(60)\n"
        "    raise ValueError('no')\n",
        encoding="utf-8",
    )
    output("run", "slow.py:step", code=1)
    run = json_of("ls")[-1]["run"]
    process = subprocess.Popen(
        [*SCRIPT, "bisect", run], env={**os.environ, "SLOW": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 60
    while not (Path("pid").exists() and Path("pid").read_text()) and time.monotonic() < until:
        time.sleep(0.02)
    child = int(Path("pid").read_text())
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert [line for line in said.decode().splitlines() if "stopped" in line] == [
        "stopped; recorded as run4 (cancelled)",
        f"bisecting was stopped, and nothing is known of {run} yet",
    ]
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
