"""The pytest plugin records: cassettes that are missing, that have changed, and all that it refuses to write."""

from __future__ import annotations

import os
import subprocess
import sys

import agentreplay as ar
import pytest
from pytest_project import FORMS, MARKED, Project, project_in

pytest_plugins = ["pytester"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in which pytest is run."""
    return project_in(pytester, monkeypatch)


def test_once_records_what_is_missing_and_replays_the_rest(project: Project) -> None:
    """The first time the body runs live; from then on it is replayed. Nothing else is left in the project."""
    project.tests(FORMS["body"])
    told = project.pytest("--agentreplay-record=once", passed=1)
    assert "recorded    tests/fixtures/refund.jsonl  2 rounds, completed  (it was missing)" in told
    assert project.calls() == ["find", "ask"]
    assert not (project.folder / ".agentreplay").exists()
    assert "agentreplay\n" not in project.pytest("--agentreplay-record=once", "-q", passed=1)
    project.pytest(passed=1)
    project.change("limit=5", "limit=10")
    project.pytest("--agentreplay-record=once", failed=1)
    assert project.calls() == []


def test_an_agent_is_recorded_first_by_code_that_gives_it_a_start(project: Project) -> None:
    """Nothing says what an agent begins with that was never recorded; a function or a body does."""
    project.tests(FORMS["app"])
    told = project.pytest("--agentreplay-record=once", failed=1)
    assert "nothing says what the agent 'refunds' begins with: say it by payload=" in told
    assert project.calls() == []
    starts = (
        f'{MARKED}, app=lambda: step.run({{"order_id": "A-17"}}))\ndef test_it():\n    pass\n',
        f'{MARKED}, app=step, payload={{"order_id": "A-17"}})\ndef test_it():\n    pass\n',
        f'{MARKED})\ndef test_it(agentreplay):\n    agentreplay.replay(step, payload={{"order_id": "A-17"}})\n',
    )
    for text in starts:
        project.tests(text)
        project.pytest("--agentreplay-record=once", passed=1)
        assert project.calls() == ["find", "ask"]
        project.pytest(passed=1)
        project.tests(text.replace("A-17", "B-2"))
        assert "E   before step 1: another start\n" in project.pytest(failed=1)
        (project.cassettes / "refund.jsonl").unlink()


def test_what_an_agent_begins_with_is_for_agents(project: Project) -> None:
    """A function begins its run itself; other options are none."""
    project.record()
    project.tests(
        f"{MARKED})\ndef test_function(agentreplay):\n    agentreplay.replay(own_loop, payload={{}})\n\n\n"
        f"{MARKED})\ndef test_option(agentreplay):\n    agentreplay.replay(step, paylod={{}})\n"
    )
    told = project.pytest(failed=2)
    assert "payload= is what an agent begins with; this function begins its run itself" in told
    assert "TypeError: replay() got an unexpected keyword argument 'paylod'" in told


@pytest.mark.parametrize("form", ["fixture", "app", "body", "function"])
def test_update_records_what_has_parted_and_says_what_changed(project: Project, form: str) -> None:
    """An agent begins as it did in the recording. What replays is left alone, byte by byte."""
    path = project.record()
    before = path.read_bytes()
    project.tests(FORMS[form])
    project.pytest("--agentreplay-update", passed=1)
    assert (path.read_bytes(), project.calls()) == (before, [])
    project.change("limit=5", "limit=10")
    told = project.pytest("--agentreplay-update", passed=1)
    assert "re-recorded tests/fixtures/refund.jsonl  2 rounds, completed  (step 1, call 1.1: other arguments" in told
    assert "/limit: 5 → 10)" in told
    assert project.calls() == ["find", "ask"]
    assert path.read_bytes() != before
    project.pytest(passed=1)
    assert project.calls() == []


def test_update_leaves_missing_cassettes_alone(project: Project) -> None:
    """It records anew; what records is another option."""
    project.tests(FORMS["body"])
    project.pytest("--agentreplay-update", failed=1)
    assert project.calls() == []


def test_all_records_everything_anew(project: Project) -> None:
    """Also what would replay."""
    path = project.record()
    before = path.read_bytes()
    project.tests(FORMS["app"])
    told = project.pytest("--agentreplay-record=all", passed=1)
    assert "re-recorded tests/fixtures/refund.jsonl  2 rounds, completed  (as all are)" in told
    assert project.calls() == ["find", "ask"]
    assert path.read_bytes() != before


def test_new_goes_on_where_a_recording_ends_before_its_run_did(project: Project) -> None:
    """What is there is replayed, the rest runs live and is added; a recording that is whole is replayed only."""
    project.change(
        "    answer = ask(", '    __import__("os").environ.get("DIE") and __import__("os")._exit(9)\n    answer = ask('
    )
    program = "from agent import *; step.run({'order_id': 'A-17'}, store=ar.open_store('elsewhere.db'))"
    command, environment = [sys.executable, "-c", program], {**os.environ, "DIE": "1"}
    assert subprocess.run(command, cwd=project.folder, env=environment, check=False).returncode == 9
    ar.export_run("run1", project.cassettes / "refund.jsonl", store=str(project.folder / "elsewhere.db"))
    assert project.calls() == ["find"]
    project.tests(FORMS["app"])
    project.pytest(passed=1)
    told = project.pytest("--agentreplay-record=new", passed=1)
    assert "went on     tests/fixtures/refund.jsonl  2 rounds, completed  (from step 2)" in told
    assert project.calls() == ["ask"]
    whole = (project.cassettes / "refund.jsonl").read_bytes()
    project.pytest("--agentreplay-record=new", passed=1)
    assert (project.calls(), (project.cassettes / "refund.jsonl").read_bytes()) == ([], whole)
    project.change("limit=5", "limit=10")
    project.pytest("--agentreplay-record=new", failed=1)
    assert project.calls() == []


def test_new_records_what_is_missing(project: Project) -> None:
    """As once does."""
    project.tests(FORMS["body"])
    project.pytest("--agentreplay-record=new", passed=1)
    assert project.calls() == ["find", "ask"]


def test_a_run_that_fails_is_not_recorded_over_one_that_did_not(project: Project) -> None:
    """A mistake in the code is the test's failure, and the cassette stays; a recorded failure may be another one."""
    path = project.record()
    before = path.read_bytes()
    project.tests(FORMS["app"])
    project.change("    answer = ask(", '    raise ValueError("a mistake")\n    answer = ask(')
    assert "ValueError: a mistake" in project.pytest("--agentreplay-record=all", failed=1)
    assert path.read_bytes() == before
    code = "import contextlib\nwith contextlib.suppress(ValueError): step.run({'order_id': 'A-17'}, store=store)"
    project.record(code=code)
    project.change("a mistake", "another mistake")
    told = project.pytest("--agentreplay-update", passed=1)
    assert "re-recorded tests/fixtures/refund.jsonl  2 rounds, failed  (step 2: another error" in told
    project.pytest(passed=1)


def test_a_body_that_fails_records_nothing(project: Project) -> None:
    """A cassette is written by a test that passed."""
    project.tests(f'{MARKED})\ndef test_it():\n    assert step.run({{"order_id": "A-17"}}).value == "nothing"\n')
    project.pytest("--agentreplay-record=once", failed=1)
    assert not (project.cassettes / "refund.jsonl").exists()


def test_what_does_not_replay_at_once_does_not_take_the_place_of_a_cassette(project: Project) -> None:
    """Code that reads the clock without a recording would be red ever after; it is now, and nothing is written."""
    path = project.record()
    before = path.read_bytes()
    project.tests(FORMS["app"])
    project.change("limit=5", "limit=__import__('time').time_ns()")
    told = project.pytest("--agentreplay-update", failed=1)
    assert "tests/fixtures/refund.jsonl, as it was recorded just now, does not replay" in told
    assert path.read_bytes() == before


def test_continuous_integration_never_records_by_accident(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """With CI in the environment, the options that record are refused, from a file of options, too."""
    project.tests(FORMS["body"])
    monkeypatch.setenv("CI", "true")
    for option in ("--agentreplay-record=once", "--agentreplay-record=all", "--agentreplay-update"):
        assert f"{option} runs agents live" in project.pytest(option)
        assert project.code == pytest.ExitCode.USAGE_ERROR
    assert project.calls() == []
    project.pytest("--agentreplay-record=once", "--agentreplay-in-ci", passed=1)
    assert project.calls() == ["find", "ask"]


def test_redaction_goes_on_by_the_rules_of_the_recording(project: Project) -> None:
    """A cassette that is recorded anew hides what the old one hid; the first one, what the project's rules say."""
    project.change('"You are kind."', '"Badge BDG-204117"')
    rules = 'ar.RedactionRules(patterns=(ar.SecretPattern("badge", "BDG-[0-9]{6}", needles=("BDG-",)),))'
    fixture = f"@pytest.fixture(scope='session')\ndef agentreplay_redaction():\n    return {rules}\n\n\n"
    project.tests(fixture + FORMS["body"])
    project.pytest("--agentreplay-record=once", passed=1)
    text = (project.cassettes / "refund.jsonl").read_text(encoding="utf-8")
    assert "[redacted:badge:" in text
    assert "BDG-204117" not in text
    project.tests(FORMS["app"])
    project.pytest(passed=1)
    project.change("limit=5", "limit=10")
    project.pytest("--agentreplay-update", passed=1)
    assert "BDG-204117" not in (project.cassettes / "refund.jsonl").read_text(encoding="utf-8")


def test_a_start_with_a_secret_is_not_made_up(project: Project) -> None:
    """An agent cannot begin with the token that stands for it: the test is red and says what to do; a body can."""
    project.record(code='step.run({"order_id": "A-17", "password": "hunter2-very-long-1!"}, store=store)')
    project.tests(FORMS["app"])
    project.pytest(passed=1)
    told = project.pytest("--agentreplay-record=all", failed=1)
    assert "begins with a secret that was replaced, at /payload/password" in told
    assert project.calls() == []
    start = '{"order_id": "A-17", "password": "hunter2-very-long-1!"}'
    for text in (
        f"{MARKED})\ndef test_it():\n    step.run({start})\n",
        f"{MARKED}, app=step, payload={start})\ndef test_it():\n    pass\n",
    ):
        project.tests(text)
        project.pytest("--agentreplay-record=all", passed=1)
        project.pytest(passed=1)
    assert "hunter2" not in (project.cassettes / "refund.jsonl").read_text(encoding="utf-8")


def test_child_runs_come_along(project: Project) -> None:
    """In a recording that pytest makes, in its replay, and in what is told of a difference."""
    with (project.folder / "agent.py").open("a", encoding="utf-8") as file:
        file.write(
            '@ar.agent("boss")\ndef boss(i, context):\n'
            "    return ar.Complete(context.run_agent(step, context.payload).value)\n"
        )
    project.tests(f'{MARKED})\ndef test_it():\n    assert boss.run({{"order_id": "A-17"}}).value == "refund it"\n')
    project.pytest("--agentreplay-record=once", passed=1)
    project.pytest(passed=1)
    project.change("limit=5", "limit=10")
    assert "E   child run of refunds, step 1, call 1.1: other arguments\n" in project.pytest(failed=1)


def test_a_fork_is_replayed_and_not_recorded_anew_by_itself(project: Project) -> None:
    """It began in the middle of another run, with an edit, and pytest would not know how."""
    project.record(
        code='step.run({"order_id": "A-17"}, store=store); ar.rerun("run1", step, 2, set={"/x": 1}, store=store)'
    )
    project.tests(FORMS["app"])
    project.pytest(passed=1)
    told = project.pytest("--agentreplay-record=all", failed=1)
    assert "is a re-run from a step of another run, and is not recorded anew by itself" in told
