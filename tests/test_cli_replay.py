"""`replay`: executing code against a recorded run from the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import agentreplay as ar
import pytest
from cli_runs import as_process, invoke, json_of, output
from replayed_agents import at_work, calls_made, change_shop

COVERED = "coverage  3 answered from the recording · 0 made live · 0 never captured · 0 recorded and not asked for\n"


@pytest.fixture(autouse=True)
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a shop, and run1, which failed."""
    with at_work(tmp_path, monkeypatch) as folder:
        output("run", "shop.py:step", code=1)
        assert calls_made() == ["find", "ask", "pay"]
        yield folder


def test_the_same_code_is_identical_and_makes_no_call() -> None:
    """Exit code 0, the verdict, and last what was covered; nothing in the world was touched."""
    assert output("replay", "run1") == f"run1  shop  identical  3 rounds recorded\n{COVERED}"
    assert calls_made() == []
    assert [row["run"] for row in json_of("ls")] == ["run1"]


def test_what_is_executed_is_said_before_unless_it_was_typed() -> None:
    """The code that nobody named stands on stderr; the code that was named does not."""
    assert invoke("replay", "run1").stderr == "executing shop.py:step, as recorded; --app names another\n"
    assert invoke("replay", "run1", "--app", "shop.py:step").stderr == ""


def test_programs_get_json() -> None:
    """Of a replay without a difference."""
    assert json_of("replay", "run1") == {
        "run": "run1",
        "verdict": "identical",
        "divergences": [],
        "coverage": {"recorded": 3, "live": 0, "uncaptured": 0, "unused": 0},
        "complete": True,
        "notes": [],
    }


def test_changed_code_diverges_where_it_was_changed() -> None:
    """Exit code 1; the step, the call and the path, in text and for programs; the call is not made."""
    change_shop('find(order_id="A-17")', 'find(order_id="A-18")')
    text = output("replay", "run1", code=1)
    assert text.startswith("step 1, call 1.1: other arguments\n  shop.py:")
    assert '~ order_id  "A-17" → "A-18"\n' in text
    assert "--ignore 'tool:find:$.order_id'" in text
    assert "\nrun1  shop  diverged  3 rounds recorded\ncoverage  " in text
    told = json_of("replay", "run1", code=1)
    (difference,) = told["divergences"]
    assert (told["verdict"], difference["step"], difference["kind"]) == ("diverged", 1, "other arguments")
    assert (difference["path"], difference["expected"], difference["actual"]) == ("/order_id", "A-17", "A-18")
    assert calls_made() == []


def test_what_is_ignored_is_no_difference() -> None:
    """A rule leaves out what is different each time; one that matched nothing is told."""
    change_shop('find(order_id="A-17")', 'find(order_id="A-18")')
    rules = ["--ignore", "tool:find:$.order_id", "--ignore", "tool:pay:$.nothing"]
    text = output("replay", "run1", *rules)
    assert text.startswith("run1  shop  identical")
    assert text.endswith("  note  the ignore rule tool:pay:$.nothing matched nothing\n")


def test_all_differences_can_be_collected() -> None:
    """Two changes are told in one go, in their order."""
    change_shop('find(order_id="A-17")', 'find(order_id="A-18")')
    change_shop('reason="asked")', 'reason="asked"); context.change(new={"more": 1})')
    told = json_of("replay", "run1", "--collect", code=1)
    assert [(one["step"], one["kind"]) for one in told["divergences"]] == [
        (1, "other arguments"),
        (2, "another payload"),
    ]
    assert "2 differences\n" in output("replay", "run1", "--collect", code=1)


def test_a_replay_that_answers_nothing_is_no_success() -> None:
    """Where nothing was captured, whatever the code asked of the world it asked itself."""
    output("run", "shop.py:nothing_captured")
    result = invoke("replay", "@last")
    assert result.exit_code == 1
    assert "identical" in result.stdout
    assert "nothing of run2 was captured" in result.stderr


def test_a_recording_that_ends_early_is_identical_so_far(recorded: Path) -> None:
    """Of a run that crashed, what is there is compared, and a note says where it ends."""
    change_shop("12.5", "7.5")
    as_process("run", "shop.py:step", env={"DIE": "1"}, cwd=recorded)
    assert calls_made() == ["find", "ask", "pay"]
    text = output("replay", "@last")
    assert text.startswith("run2  shop  identical  3 rounds recorded\n")
    assert "note  the recording of run2 ends in round 3, before the run did" in text
    assert calls_made() == []


def test_what_the_agent_prints_is_its_own() -> None:
    """It stands on stdout; with --json stdout is for programs, and it goes to stderr."""
    change_shop('order = find(order_id="A-17")', 'order = find(order_id="A-17"); print("hello")')
    assert output("replay", "run1").startswith("hello\nrun1")
    result = invoke("replay", "run1", "--json")
    assert result.stdout.startswith("{\n")
    assert "hello\n" in result.stderr


def test_a_program_that_was_run_by_python_replays_under_its_name(recorded: Path) -> None:
    """Its classes are called `__main__.Order` there; they are again, and what its main block does is not done."""
    subprocess.run([sys.executable, "shop.py"], cwd=recorded, check=True)
    assert calls_made() == ["main", "find", "ask", "pay"]
    assert output("replay", "@last").startswith("run2  shop  identical  3 rounds recorded\n")
    assert calls_made() == []
    assert "shop" not in str(getattr(sys.modules["__main__"], "__file__", None))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["run1", "--app", "missing.py:step"], "there is no file missing.py"),
        (["run1", "--app", "shop.py:nope"], "there is no 'nope' in it. Its agents are: step, approved"),
        (["run1", "--app", "shop.py:WORLD"], "PosixPath is neither an agent, nor a step function"),
        (["run1", "--app", "shop.py:done"], "done cannot be called without what"),
        (["run1", "--app", "shop.py:own_loop"], "run1 is a run of 'shop', but this code begins a run of 'loop'"),
        (["run1", "--ignore", "nonsense:$["], "nonsense"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(args: list[str], says: str) -> None:
    """Code that is not there, or begins another run, and rules that cannot be read."""
    result = invoke("replay", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert calls_made() == []


def test_a_run_that_is_not_there_is_missing_data() -> None:
    """Exit code 3."""
    result = invoke("replay", "run9")
    assert (result.exit_code, result.stdout) == (3, "")


def test_an_answer_of_a_class_that_is_not_declared_is_unreadable_data() -> None:
    """It is not handed out as something else; what to declare is said, and the exit code is 3."""
    change_shop("def find(order_id: str) -> Order:", "def find(order_id: str):")
    result = invoke("replay", "run1")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "Order" in result.stderr
    assert calls_made() == []


def test_an_error_of_the_module_is_the_users_own() -> None:
    """Its traceback is shown, without our frames; the exit code is 1."""
    Path("shop.py").write_text("1 / 0\n", encoding="utf-8")
    result = invoke("replay", "run1")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "ZeroDivisionError" in result.stderr
    assert "bug in agentreplay" not in result.stderr


def test_the_result_shows_in_a_notebook() -> None:
    """As a table: verdict, coverage and differences, with nothing in them that acts."""
    import shop

    html = ar.replay("run1", shop.step)._repr_html_()
    assert "<caption>run1: identical</caption>" in html
    assert "3 recorded, 0 live, 0 uncaptured, 0 unused" in html
    change_shop('find(order_id="A-17")', 'find(order_id="<b>")')
    del sys.modules["shop"]
    import shop as changed

    html = ar.replay("run1", changed.step, collect=True)._repr_html_()
    assert "<caption>run1: diverged</caption>" in html
    assert "<b>" not in html
    assert "&lt;b&gt;" in html


def test_a_name_means_the_function_and_the_package() -> None:
    """`ar.replay` can be called, and what is in the package of that name is imported, in any order."""
    import agentreplay.replay.diff

    assert agentreplay.replay.diff.diff_values({}, {}) == ()
    assert callable(ar.replay)
    assert ar.replay is agentreplay.replay
