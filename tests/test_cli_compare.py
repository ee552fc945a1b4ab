"""`compare` and `tree`: what a person and a program see of several runs."""

from __future__ import annotations

import re
from pathlib import Path

import agentreplay as ar
import pytest
from agentreplay.examples import refunds
from cli_runs import as_process, invoke, json_of, keep, output
from event_builder import EventBuilder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTREPLAY_STORE", str(tmp_path / "store.db"))
    return tmp_path


@pytest.fixture
def corrected() -> None:
    """The example as run1, its child as run2, and run1's re-run from step 7 with what was missing as run3."""
    failed = refunds.step.run(refunds.START).run.uid
    ar.rerun(failed, refunds.step, 7, set={"/order/coupon/used": True}, allow=["issue_refund"])


@pytest.mark.usefixtures("corrected")
def test_compare_shows_two_columns_and_marks_the_first_difference() -> None:
    """Then it tells the difference, what else differs in that step, and what to type next."""
    lines = output("compare", "run1", "run3").splitlines()
    assert lines[:13] == [
        "run1  refunds  failed  10 steps",
        "run3  refunds  completed  10 steps  fork of run1",
        "",
        "       run1                               run3",
        "       … steps 1 to 4 are shared",
        "=   5  Sub-Agent  ask, inspector       5  Sub-Agent  ask, inspector      shared",
        "=   6  Retry      ask                  6  Retry      ask                 shared",
        ">   7  Retry      ask                  7  Retry      ask                 "
        "given, calls, results, decision, changes, records, payload",
        "≠   8  Retry      ask                  8  Retry      ask                 calls, results, records, payload",
        "≠   9  Actions    ask, issue_refund    9  Actions    ask, issue_refund   "
        "calls, results, decision, changes, records, payload",
        "≠  10  Failed     ask                 10  Success    ask                 "
        "calls, results, decision, records, outcome, payload",
        "",
        "step 7: another payload",
    ]
    assert lines[13:15] == [
        '  key "used" of order.coupon is new: edited before the re-run',
        "+ order.coupon.used  true",
    ]
    assert "steps  6 the same, 4 different" in lines
    assert any(re.match(r" +agentreplay diff run1 run3 --step 7 +the payloads after", line) for line in lines)


@pytest.mark.usefixtures("corrected")
def test_compare_tells_programs_where_runs_part() -> None:
    """The first difference, the others of its step, and every pair of steps that is not shared."""
    found = json_of("compare", "run1", "run3")
    assert list(found) == ["runs", "relation", "shared", "same", "counts", "first", "also", "steps"]
    assert [run["run"] for run in found["runs"]] == ["run1", "run3"]
    assert (found["relation"], found["shared"], found["same"]) == ("fork", 6, False)
    first = found["first"]
    assert {name: first[name] for name in ("step", "kind", "path", "expected", "actual", "why")} == {
        "step": 7,
        "kind": "another payload",
        "path": "/order/coupon/used",
        "expected": None,
        "actual": True,
        "why": "edited before the re-run",
    }
    assert [one["kind"] for one in found["also"]] == [
        "another record",
        "other arguments",
        "another decision",
        "another payload",
    ]
    assert found["steps"][3] == {
        "steps": [10, 10],
        "status": "differs",
        "differs": ["calls", "results", "decision", "records", "outcome", "payload"],
        "decisions": ["Failed", "Success"],
        "calls": [["model ask"], ["model ask"]],
    }


@pytest.mark.usefixtures("corrected")
def test_the_exit_code_of_compare_is_for_those_who_ask() -> None:
    """0 unless --exit-code is given; 1 then if there is a difference; 3 if a run is not there, 2 for wrong usage."""
    assert invoke("compare", "run1", "run3").exit_code == 0
    assert invoke("compare", "run1", "run3", "--exit-code", "--json").exit_code == 1
    same = invoke("compare", "run1", "run1", "--exit-code")
    assert (same.exit_code, "No step differs." in same.stdout) == (0, True)
    missing = invoke("compare", "run1", "run9")
    assert (missing.exit_code, missing.stdout, 'no run "run9"' in missing.stderr) == (3, "", True)
    assert invoke("compare", "run1").exit_code == 2


def counting(rounds: int, path: Path, *, odd: int | None = None, skip: int | None = None) -> None:
    """A run that counts; at `odd` its tool gives something else, and `skip` it leaves out."""
    log = EventBuilder({"n": 0})
    for n in range(1, rounds + 1):
        if n == skip:
            continue
        log.begin()
        log.call(f"{n}.1", "tick", arguments={"n": n})
        log.give(f"{n}.1", result=-1 if n == odd else n)
        log.add("step.decided", decision={"step": "Actions", "reasoning": f"count to {n}"})
        log.end()
    log.finish()
    keep(log.events, path)


def test_long_runs_are_shown_around_where_they_differ(home: Path) -> None:
    """What is the same is counted; --full shows it."""
    store = home / "store.db"
    counting(100, store)
    counting(100, store, odd=50, skip=80)
    lines = output("compare", "run1", "run2").splitlines()
    assert [line.strip() for line in lines[4:18]] == [
        "… 47 steps the same",
        "=   48  Actions  tick    48  Actions  tick",
        "=   49  Actions  tick    49  Actions  tick",
        ">   50  Actions  tick    50  Actions  tick   results",
        "=   51  Actions  tick    51  Actions  tick",
        "=   52  Actions  tick    52  Actions  tick",
        "… 25 steps the same",
        "=   78  Actions  tick    78  Actions  tick",
        "=   79  Actions  tick    79  Actions  tick",
        "-   80  Actions  tick",
        "=   81  Actions  tick    80  Actions  tick",
        "=   82  Actions  tick    81  Actions  tick",
        "… 18 steps the same",
        "",
    ]
    assert "steps  98 the same, 1 different, 1 only in run1" in lines
    assert len(output("compare", "run1", "run2", "--full").splitlines()) > 100


def test_runs_that_share_little_are_cut_short(home: Path) -> None:
    """The first differences are shown, the others counted, with how to see them."""
    store = home / "store.db"
    counting(60, store)
    log = EventBuilder({"n": 0})
    for _ in range(60):
        log.begin()
        log.add("step.decided", decision={"step": "Chat"})
        log.end()
    keep(log.events, store)
    text = output("compare", "run1", "run2")
    assert "… 18 more steps, 18 of them different: --full shows all" in text
    assert "18 of them different" not in output("compare", "run1", "run2", "--full")


def test_what_was_recorded_does_not_act_on_a_terminal(home: Path) -> None:
    """Names and values are shown, not obeyed."""
    for word in ("\x1b[31m", "\u202e"):
        log = EventBuilder({})
        log.begin()
        log.call("c", word, arguments={word: word})
        log.add("step.decided", decision={"step": word})
        log.end()
        log.finish(value=word)
        keep(log.events, home / "store.db")
    text = output("compare", "run1", "run2") + output("tree", "run1")
    assert "\\x1b[31m" in text
    assert not {"\x1b", "\u202e"} & set(text)


@pytest.mark.usefixtures("corrected")
def test_tree_draws_what_came_from_what() -> None:
    """A child run under the step that started it, a fork with its edit and its end; the run that was asked for."""
    assert output("tree", "run3").splitlines() == [
        "run1  refunds  failed  10 steps  a refund of 95.50 is more than the 77.70 that was paid for…",
        '├── step 5  ↳ run2  inspector  completed  1 step  {"broken": ["LAMP-2"], "confidence": 0.93}',
        '└── step 7  run3  set /order/coupon/used true  completed  10 steps  "Dear Acme GmbH, we refund 95.50 for your '
        'lamp."  (this run)',
    ]


@pytest.mark.usefixtures("corrected")
def test_tree_tells_programs_the_same() -> None:
    """A flat list, each run before those below it."""
    found = json_of("tree", "run3")
    assert found["run"] == "run3"
    assert [(run["run"], run["kind"], run["above"], run["step"]) for run in found["runs"]] == [
        ("run1", "root", None, None),
        ("run2", "child", "run1", 5),
        ("run3", "fork", "run1", 7),
    ]
    assert found["runs"][2]["edits"] == [{"edit": "set", "path": "/order/coupon/used", "value": True}]


@pytest.mark.usefixtures("corrected")
def test_a_terminal_in_ascii_gets_a_tree_and_columns() -> None:
    """Signs that it does not have are written with those that it has."""
    done = as_process("tree", "run3", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert "step 7  run3" in done.stdout
    done = as_process("compare", "run1", "run3", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stdout.isascii()) == (0, True)
