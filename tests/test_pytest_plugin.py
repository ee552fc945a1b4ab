"""The pytest plugin: recorded runs as tests, in pytest runs of their own."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from agentreplay.pytest_reporting import write_summary
from pytest_project import FORMS, MARKED, Project, project_in

pytest_plugins = ["pytester"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in which pytest is run."""
    return project_in(pytester, monkeypatch)


# -- replaying ---------------------------------------------------------------------------------------------------------


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
    project.pytest(passed=1)


def test_markers_and_fixtures_are_described(project: Project) -> None:
    """In `pytest --markers` and `pytest --fixtures`."""
    assert "@pytest.mark.agentreplay(*cassettes, app=None, payload=…" in project.pytest("--markers")
    assert "Replays recorded runs: `agentreplay.replay(step)`" in project.pytest("--fixtures")


def test_the_entry_point_is_the_plugin() -> None:
    """What pyproject.toml names for pytest is a module that is there, under the name that `-p no:` takes."""
    root = Path(__file__).parent.parent
    entry = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]["pytest11"]
    assert entry == {"agentreplay": "agentreplay.pytest_plugin"}
    assert (root / "facade" / "pytest_plugin.py").is_file()


def test_a_pipe_among_the_cassettes_holds_nobody_up(with_old: Project) -> None:
    """Only files are looked into for cassettes that no test used."""
    os.mkfifo(with_old.cassettes / "pipe.jsonl")
    told = with_old.pytest(passed=2, skipped=1)
    assert [line for line in told.splitlines() if line.startswith("unused")] == [UNUSED]


def test_ctrl_c_in_a_replay_ends_pytest(project: Project) -> None:
    """As in any test: no divergence, and no test after it."""
    project.record()
    project.tests(
        'import os, signal\n\n\ndef test_refund():\n    ar.assert_replays("tests/fixtures/refund.jsonl", step)\n\n\n'
        f"def test_next():\n    assert False\n\n\n{MARKED}, app=step)\ndef test_marked():\n    pass\n"
    )
    project.change("    if round_index == 1:", "    os.kill(os.getpid(), signal.SIGINT)\n    if round_index == 1:")
    project.change("import pathlib\n", "import os, pathlib, signal\n")
    for chosen in ("test_refund or test_next", "test_marked"):
        told = project.pytest("-k", chosen)
        assert project.code == pytest.ExitCode.INTERRUPTED
        assert "KeyboardInterrupt" in told
        assert "CassetteDiverged" not in told
        assert "passed" not in told
        assert "failed" not in told


def test_a_cassette_that_two_processes_have_recorded_is_named_once() -> None:
    """Two tests may share one; the last of what became of it stays."""
    written: list[str] = []

    class Reporter:
        def write_sep(self, *_: str) -> None: ...

        def write(self, text: str, **_: bool) -> None:
            written.append(text)

    kept = [["a.jsonl", "recorded", "it was missing", "completed", 2]] * 2
    write_summary(Reporter(), {"kept": [*kept, ["b.jsonl", "recorded", "it was missing", "failed", 1]]})
    assert written == [
        "recorded    ",
        "a.jsonl  2 rounds, completed  (it was missing)\n",
        "recorded    ",
        "b.jsonl  1 round, failed  (it was missing)\n",
    ]
