"""The pytest plugin: recorded runs as tests, in pytest runs of their own."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import agentreplay
import agentreplay as ar
import agentreplay.recorder
import agentreplay.replay
import pytest

pytest_plugins = ["pytester"]


def load_all() -> None:
    """Import what the runs of pytest in this process would, which forget what they have imported."""
    for package in (agentreplay.recorder, agentreplay.replay):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    for name in ("pytest_plugin", "pytest_cassettes", "pytest_reporting", "exporting", "snapshotting"):
        importlib.import_module(f"agentreplay.{name}")
    store = ar.open_store("memory:")
    ar.agent("warm")(lambda i, context: ar.Complete(context.now())).run({"a": [1]}, store=store)
    other = ar.agent("warm")(lambda i, context: context.change(new={"b": [context.now()]}))
    ar.replay("run1", other, store=store, ignore=["payload:$.c", "tool:x:$[?match(@.y, 'z')]"], collect=True)


load_all()

AGENT = '''
import pathlib
import agentreplay as ar

LIVE = pathlib.Path(__file__).with_name("live.txt")


def live(what):
    """Leave a trace in the world: a real call was made."""
    with LIVE.open("a") as file:
        file.write(what + " ")


@ar.tool(safety="pure")
def find(order_id: str, limit: int) -> dict:
    live("find")
    return {"id": order_id, "total": 12.5}


@ar.model
def ask(messages: list[dict]) -> dict:
    live("ask")
    return {"role": "assistant", "content": "refund it"}


@ar.agent("refunds")
def step(round_index: int, context: ar.Context):
    if round_index == 1:
        context.change(new={"order": find(order_id=context.payload["order_id"], limit=5)}, reason="found")
        return ar.Continue()
    answer = ask(messages=[{"role": "system", "content": "You are kind."}])
    return ar.Complete(answer["content"])


@ar.agent("refunds")
async def astep(round_index: int, context: ar.Context):
    return step(round_index, context)


def own_loop():
    with ar.record("loop", payload={"n": 1}) as run:
        with run.round() as r:
            r.change(new={"order": find(order_id="C-3", limit=1)})
'''

HEAD = "import pytest\nimport agentreplay as ar\nfrom agent import *\n"
RECORDED: dict[tuple[str, str], bytes] = {}
"""What was recorded already: the agent and the code that runs it → the cassette."""

MARKED = '@pytest.mark.agentreplay("fixtures/refund.jsonl"'


class Project:
    """A folder with an agent, its tests and their cassettes, in which pytest is run as a program."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.folder = pytester.path
        self.live = self.folder / "live.txt"
        self.cassettes = self.folder / "tests" / "fixtures"
        self.cassettes.mkdir(parents=True)
        (self.folder / "agent.py").write_text(AGENT, encoding="utf-8")
        self.ini("")

    def ini(self, more: str) -> None:
        """Configure pytest there."""
        text = f"[pytest]\npythonpath = .\naddopts = --strict-markers --strict-config\n{more}"
        (self.folder / "pytest.ini").write_text(text, encoding="utf-8")

    def tests(self, text: str, name: str = "test_refund.py") -> None:
        """Write a file of tests."""
        (self.folder / "tests" / name).write_text(HEAD + text, encoding="utf-8")

    def change(self, old: str, new: str) -> None:
        """Change the agent's code; `old` must be there."""
        text = (self.folder / "agent.py").read_text(encoding="utf-8")
        assert old in text
        (self.folder / "agent.py").write_text(text.replace(old, new), encoding="utf-8")

    def record(self, name: str = "refund.jsonl", code: str = 'step.run({"order_id": "A-17"}, store=store)') -> Path:
        """Record the agent, as a person would, into a cassette; the same code once for all tests."""
        path, key = self.cassettes / name, ((self.folder / "agent.py").read_text(encoding="utf-8"), code)
        if key not in RECORDED:
            program = (
                f"import agentreplay as ar\nfrom agent import *\nstore = ar.open_store('elsewhere.db')\n{code}\n"
                f"ar.export_run('@last', {str(path)!r}, store=store)\n"
            )
            subprocess.run([sys.executable, "-c", program], cwd=self.folder, check=True)
            for made in [*self.folder.glob("elsewhere.db*"), self.live]:
                made.unlink()
            RECORDED[key] = path.read_bytes()
        path.write_bytes(RECORDED[key])
        return path

    def pytest(self, *options: str, plugins: tuple[str, ...] = (), apart: bool = False, **expected: int) -> str:
        """Run pytest, in a process of its own if it needs one, and return what it printed."""
        loaded = [word for plugin in ("agentreplay.pytest_plugin", *plugins) for word in ("-p", plugin)]
        run = self.pytester.runpytest_subprocess if apart or plugins else self.pytester.runpytest_inprocess
        result = run(*loaded, *options)
        if expected:
            result.assert_outcomes(**expected)
        self.code = result.ret
        return result.stdout.str() + result.stderr.str()

    def calls(self) -> list[str]:
        """What was really called since the last look."""
        made = self.live.read_text().split() if self.live.exists() else []
        self.live.unlink(missing_ok=True)
        return made


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose tests are run with this plugin and no other, and not in continuous integration."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("CI", "AGENTREPLAY_STORE", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    return Project(pytester)


# -- replaying ---------------------------------------------------------------------------------------------------------

FORMS = {
    "fixture": f"{MARKED})\ndef test_it(agentreplay):\n    agentreplay.replay(step)\n",
    "app": f"{MARKED}, app=step)\ndef test_it():\n    pass\n",
    "body": f'{MARKED})\ndef test_it():\n    assert step.run({{"order_id": "A-17"}}).value == "refund it"\n',
    "path": 'def test_it(agentreplay):\n    agentreplay.replay(step, "fixtures/refund.jsonl")\n',
    "function": 'def test_it():\n    ar.assert_replays("tests/fixtures/refund.jsonl", step)\n',
    "method": f"class TestIt:\n    {MARKED})\n    def test_it(self, agentreplay):\n        agentreplay.replay(step)\n",
    "module": 'pytestmark = pytest.mark.agentreplay("fixtures/refund.jsonl", app=step)\ndef test_it():\n    pass\n',
    "unittest": f"import unittest\nclass TestIt(unittest.TestCase):\n    {MARKED}, app=step)\n"
    "    def test_it(self):\n        self.assertTrue(True)\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_a_test_replays_and_calls_nothing(project: Project, form: str) -> None:
    """Green for the same code; red, with step, path, expected and actual, for another prompt. Nothing is written."""
    project.record()
    project.tests(FORMS[form])
    project.pytest(passed=1)
    project.change("You are kind.", "You are strict.")
    told = project.pytest(failed=1)
    for text in (
        "E   tests/fixtures/refund.jsonl does not replay\n",
        "E   step 2, call 2.1: other arguments\n",
        "E     path      /messages/0/content\n",
        'E   - expected  "You are kind."\n',
        'E   + actual    "You are strict."\n',
    ):
        assert text in told
    assert project.calls() == []
    assert not (project.folder / ".agentreplay").exists()


def test_a_failure_shows_the_users_line_and_none_of_ours(project: Project) -> None:
    """The line of the agent that parted, as pytest shows the line of an assertion; one line in the summary."""
    project.record()
    project.tests(FORMS["fixture"])
    project.change("limit=5", "limit=10")
    told = project.pytest(failed=1)
    assert re.search(r"\n> +context\.change\(new=.*, limit=10\)}, reason=\"found\"\)\nE ", told)
    assert "\nagent.py:29: CassetteDiverged\n" in told
    assert "replay/testing.py" not in told
    assert "pytest_cassettes" not in told
    assert 'ignore=["tool:find:$.limit"]' in told
    assert "pytest --agentreplay-update" in told
    assert "FAILED tests/test_refund.py::test_it - CassetteDiverged: tests/fixtures/refund.jsonl: step 1, call 1.1" in (
        project.pytest("-vv", failed=1)
    )


@pytest.mark.parametrize("style", ["short", "line", "no", "native"])
def test_every_style_of_tracebacks_works(project: Project, style: str) -> None:
    """`--tb` chooses how much is shown, and never fails."""
    project.record()
    project.tests(FORMS["app"])
    project.change("limit=5", "limit=10")
    told = project.pytest(f"--tb={style}", failed=1)
    assert "INTERNALERROR" not in told


def test_a_failure_is_coloured_when_pytest_is(project: Project) -> None:
    """Expected in red, actual in green, where colours are wanted; else no escape sequence."""
    project.record()
    project.tests(FORMS["app"])
    project.change("limit=5", "limit=10")
    coloured, plain = project.pytest("--color=yes"), project.pytest("--color=no")
    assert "\x1b[31m- expected  5\x1b[0m" in coloured
    assert "\x1b[32m+ actual    10\x1b[0m" in coloured
    assert "\x1b" not in plain


def test_rules_of_the_marker_and_of_the_call_count_together(project: Project) -> None:
    """What is different each time is left out."""
    project.record()
    project.tests(
        f'{MARKED}, ignore=["tool:find:$.limit"])\ndef test_it(agentreplay):\n'
        '    agentreplay.replay(step, ignore=["model:ask:$.messages[0].content"])\n'
    )
    project.change("limit=5", "limit=10")
    project.change("You are kind.", "You are strict.")
    project.pytest(passed=1)


def test_the_fixture_says_what_came_of_it(project: Project) -> None:
    """The path of the cassette and the result, of a replay by `app=`, too."""
    project.record()
    project.tests(
        f"{MARKED}, app=step)\ndef test_it(agentreplay):\n"
        "    assert agentreplay.path.endswith('fixtures/refund.jsonl')\n"
        "    assert agentreplay.result.result.value == 'refund it'\n"
        "    assert agentreplay.result.coverage.recorded == 2\n"
    )
    project.pytest(passed=1)


def test_several_cassettes_are_as_many_tests(project: Project) -> None:
    """Patterns and lists; each test is called after its file. A pattern that nothing fits is a failure."""
    project.record("a.jsonl")
    project.record("b.jsonl")
    project.tests(
        '@pytest.mark.agentreplay("fixtures/*.jsonl", app=step)\ndef test_all():\n    pass\n\n\n'
        '@pytest.mark.agentreplay("fixtures/a.jsonl", "fixtures/b.jsonl")\ndef test_both(agentreplay):\n'
        "    agentreplay.replay(step)\n\n\n"
        '@pytest.mark.agentreplay("nowhere/*.jsonl", app=step)\ndef test_none():\n    pass\n'
    )
    told = project.pytest("-v", passed=4, failed=1)
    assert "::test_all[a.jsonl] PASSED" in told
    assert "::test_both[b.jsonl] PASSED" in told
    assert "there is no cassette tests/nowhere/*.jsonl" in told


@pytest.mark.parametrize("plugin", ["pytest_asyncio.plugin", "anyio.pytest_plugin"])
def test_coroutines_are_tests_as_well(project: Project, plugin: str) -> None:
    """Bodies, the fixture's twin and `app=`, under pytest-asyncio and anyio; of other code each is red."""
    project.record(code='import asyncio; asyncio.run(astep.arun({"order_id": "A-17"}, store=store))')
    is_asyncio = plugin.startswith("pytest_asyncio")
    mark = "asyncio" if is_asyncio else "anyio"
    project.ini("asyncio_mode = strict\nasyncio_default_fixture_loop_scope = function\n" if is_asyncio else "")
    project.tests(
        "@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n\n\n"
        f'@pytest.mark.{mark}\n{MARKED})\nasync def test_body():\n    await astep.arun({{"order_id": "A-17"}})\n\n\n'
        f"@pytest.mark.{mark}\n{MARKED})\nasync def test_twin(agentreplay):\n    await agentreplay.areplay(astep)\n\n\n"
        f"@pytest.mark.{mark}\n{MARKED}, app=astep)\nasync def test_app():\n    pass\n"
        f"\n\n@pytest.mark.{mark}\nasync def test_function():\n"
        '    await ar.aassert_replays("tests/fixtures/refund.jsonl", astep)\n'
        f"\n\n{MARKED}, app=astep)\ndef test_plain():\n    pass\n"
        f'\n\n@pytest.mark.{mark}\n{MARKED}, app=astep, payload={{"order_id": "A-17"}})\n'
        "async def test_start():\n    pass\n"
    )
    project.pytest(plugins=(plugin,), passed=6)
    project.change("limit=5", "limit=10")
    assert project.pytest(plugins=(plugin,), failed=6).count("E   step 1, call 1.1: other arguments\n") == 6
    assert project.calls() == []


def test_code_that_opens_its_own_recording_is_a_test(project: Project) -> None:
    """As a callable, and as the body."""
    project.record("loop.jsonl", "import os; os.environ['AGENTREPLAY_STORE'] = store.url; own_loop()")
    project.tests(
        '@pytest.mark.agentreplay("fixtures/loop.jsonl", app=own_loop)\ndef test_app():\n    pass\n\n\n'
        '@pytest.mark.agentreplay("fixtures/loop.jsonl")\ndef test_body():\n    own_loop()\n'
    )
    project.pytest(passed=2)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_missing_cassette_says_how_to_record_it(project: Project) -> None:
    """By pytest, and from a run that was recorded; in one line, without a traceback."""
    project.tests(FORMS["app"])
    told = project.pytest(failed=1)
    assert "E   there is no cassette tests/fixtures/refund.jsonl. `pytest --agentreplay-record=once` records it" in told
    assert "agentreplay export RUN tests/fixtures/refund.jsonl" in told
    assert "Traceback" not in told


def test_a_damaged_cassette_is_named_with_its_line(project: Project) -> None:
    """It is red, and stays as it is, in every mode that replays it."""
    path = project.record()
    damaged = path.read_bytes().replace(b"A-17", b"A-18", 1)
    path.write_bytes(damaged)
    project.tests(FORMS["app"])
    for option in ("--agentreplay-record=none", "--agentreplay-record=once", "--agentreplay-update"):
        assert "E   cannot read tests/fixtures/refund.jsonl, line 3: event 0 (run.started) was changed" in (
            project.pytest(option, failed=1)
        )
    assert path.read_bytes() == damaged


def test_no_agent_runs_beside_a_replay(project: Project) -> None:
    """In a test that says what is replayed, a run or a call in the body would be live: refused, and not made."""
    project.record()
    project.tests(
        f'{MARKED}, app=step)\ndef test_run():\n    step.run({{"order_id": "B"}})\n\n\n'
        f"{MARKED}, app=step)\ndef test_call():\n    find('B', 1)\n\n\n"
        f"{MARKED})\ndef test_nothing(agentreplay):\n    pass\n\n\n"
        f"{MARKED})\ndef test_empty():\n    pass\n"
    )
    told = project.pytest(failed=4)
    assert "a run of 'refunds' begins in the test itself, live" in told
    assert "the tool find is called in the test itself, live" in told
    assert "the test takes the fixture agentreplay and replays nothing" in told
    assert "the code came to its end without a run of 'refunds'" in told
    assert project.calls() == []
    assert not (project.folder / ".agentreplay").exists()


def test_what_a_body_asserts_counts(project: Project) -> None:
    """An assertion after the run fails as in any test; a skip is a skip; another start is a divergence."""
    project.record()
    project.tests(
        f'{MARKED})\ndef test_wrong():\n    assert step.run({{"order_id": "A-17"}}).value == "nothing"\n\n\n'
        f"{MARKED})\ndef test_early():\n    raise ValueError('before the run')\n\n\n"
        f'{MARKED})\ndef test_skip():\n    pytest.skip("not today")\n\n\n'
        f'{MARKED})\ndef test_start():\n    step.run({{"order_id": "B-2"}})\n'
    )
    told = project.pytest(failed=3, skipped=1)
    assert "AssertionError: assert 'refund it' == 'nothing'" in told
    assert "ValueError: before the run" in told
    assert "E   before step 1: another start\n" in told
    assert 'E   - expected  "A-17"\n' in told


def test_a_run_that_fails_is_expected_where_the_test_says_so(project: Project) -> None:
    """The recorded error reaches the body, which waits for it; where it does not, the test fails with it."""
    project.change("    answer = ask(", "    raise KeyError('no such order')\n    answer = ask(")
    raises = "    with pytest.raises(KeyError, match='no such order'):\n"
    project.tests(f'{MARKED})\ndef test_it():\n{raises}        step.run({{"order_id": "A-17"}})\n')
    project.pytest("--agentreplay-record=once", passed=1)
    project.pytest(passed=1)
    project.tests(f'{MARKED})\ndef test_it():\n    step.run({{"order_id": "A-17"}})\n')
    assert "KeyError: 'no such order'" in project.pytest(failed=1)
    project.tests(FORMS["fixture"])
    project.pytest(passed=1)


@pytest.mark.parametrize(
    ("test", "says"),
    [
        (
            '@pytest.mark.agentreplay("a.jsonl", apps=step)\ndef test_it():\n    pass\n',
            "has no apps=",
        ),
        (
            "@pytest.mark.agentreplay(app=step)\ndef test_it():\n    pass\n",
            "the marker agentreplay says which cassette",
        ),
        ("def test_it(agentreplay):\n    agentreplay.replay(step)\n", "say which cassette"),
    ],
)
def test_a_marker_that_means_nothing_says_so(project: Project, test: str, says: str) -> None:
    """Misspelt options, and no path."""
    project.tests(test)
    assert says in project.pytest(failed=1)


# -- recording ---------------------------------------------------------------------------------------------------------


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
    assert "nothing says what the agent 'refunds' begins with: have the test run the agent in its body" in told
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
    assert "went on     tests/fixtures/refund.jsonl  2 rounds, completed  (from step 1)" in told
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
    project.tests(
        f'{MARKED})\ndef test_it():\n    step.run({{"order_id": "A-17", "password": "hunter2-very-long-1!"}})\n'
    )
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


# -- cassettes that nobody uses ----------------------------------------------------------------------------------------

UNUSED = "unused      tests/fixtures/old.jsonl  no test replays it"


@pytest.fixture
def with_old(project: Project) -> Project:
    """A project with a cassette that no test uses, and a file beside it that is none."""
    project.record()
    project.record("old.jsonl")
    (project.cassettes / "notes.jsonl").write_text('{"a": 1}\n', encoding="utf-8")
    project.tests(
        FORMS["app"] + '\n\ndef test_other():\n    pass\n\n\n@pytest.mark.skip(reason="x")\n'
        '@pytest.mark.agentreplay("fixtures/skipped.jsonl", app=step)\ndef test_skipped():\n    pass\n'
    )
    project.record("skipped.jsonl")
    return project


def test_cassettes_that_no_test_uses_are_named(with_old: Project) -> None:
    """If all tests ran; that of a skipped test is used, other files are no cassettes. It is no failure by itself."""
    told = with_old.pytest(passed=2, skipped=1)
    assert [line for line in told.splitlines() if line.startswith("unused")] == [UNUSED]
    assert with_old.code == pytest.ExitCode.OK
    assert UNUSED in with_old.pytest("tests")


@pytest.mark.parametrize(
    "narrowed",
    [
        ["-k", "test_it"],
        ["tests/test_refund.py"],
        ["tests/test_refund.py::test_it"],
        ["--deselect", "tests/test_refund.py::test_other"],
        ["--collect-only"],
        ["--agentreplay-unused=off"],
    ],
)
def test_nothing_is_said_of_unused_cassettes_if_not_all_tests_ran(with_old: Project, narrowed: list[str]) -> None:
    """They may be used by a test that did not run; or nobody wants to know."""
    assert "unused " not in with_old.pytest(*narrowed)


def test_unused_cassettes_can_be_a_failure(with_old: Project) -> None:
    """Exit code 1, though every test passed."""
    assert UNUSED in with_old.pytest("--agentreplay-unused=fail", passed=2, skipped=1)
    assert with_old.code == pytest.ExitCode.TESTS_FAILED


# -- beside other plugins ----------------------------------------------------------------------------------------------


def test_workers_of_xdist_tell_what_they_have_done(with_old: Project) -> None:
    """What was recorded and what was not used, of all workers together; failures look as they do without."""
    with_old.tests(FORMS["body"].replace("refund.jsonl", "new.jsonl"), "test_new.py")
    told = with_old.pytest("-n2", "--agentreplay-record=once", plugins=("xdist.plugin",), passed=3, skipped=1)
    assert UNUSED in told
    assert "recorded    tests/fixtures/new.jsonl  2 rounds, completed  (it was missing)" in told
    with_old.change("limit=5", "limit=10")
    told = with_old.pytest("-n2", plugins=("xdist.plugin",), passed=1, skipped=1, failed=2)
    assert told.count("E   step 1, call 1.1: other arguments\n") == 2
    assert "agent.py:29: CassetteDiverged" in told


def test_the_plugin_costs_next_to_nothing_where_it_is_not_used(project: Project) -> None:
    """It imports nothing of what records and replays: neither at the start nor for tests without marker and fixture."""
    (project.folder / "tests" / "test_plain.py").write_text(
        "import sys\n\n\ndef test_it():\n"
        "    loaded = [name for name in sys.modules if name.startswith('agentreplay')]\n"
        "    assert sorted(loaded) == ['agentreplay', 'agentreplay.pytest_plugin']\n"
        "    assert not {'pydantic', 'orjson', 'click', 'rich', 'sqlalchemy'} & set(sys.modules)\n",
        encoding="utf-8",
    )
    project.pytest(apart=True, passed=1)


def test_markers_and_fixtures_are_described(project: Project) -> None:
    """In `pytest --markers` and `pytest --fixtures`."""
    assert "@pytest.mark.agentreplay(*cassettes, app=None, payload=…" in project.pytest("--markers")
    assert "Replays recorded runs: `agentreplay.replay(step)`" in project.pytest("--fixtures")


def test_the_entry_point_is_the_plugin() -> None:
    """What pyproject.toml names for pytest is there."""
    import tomllib

    root = Path(__file__).parent.parent
    entry = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]["pytest11"]
    assert entry == {"agentreplay": "agentreplay.pytest_plugin"}
    assert json.dumps(sorted(ar.__all__)).count("assert_replays") == 2
    assert os.path.exists(root / "facade" / "pytest_plugin.py")
