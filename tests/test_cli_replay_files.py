"""`replay` of files and of several recordings: without a store, beside each other, with reports for CI."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli_runs import SCRIPT, as_process, invoke, json_of, output
from replayed_agents import at_work, calls_made, change_shop

APP = ("--app", "shop.py:step")


@pytest.fixture(autouse=True)
def cassettes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a shop, two cassettes of it, and no store."""
    with at_work(tmp_path, monkeypatch) as folder:
        output("run", "shop.py:step", code=1)
        change_shop("12.5", "7.5")
        output("run", "shop.py:step")
        output("export", "run1", "refused.jsonl")
        output("export", "run2", "paid.jsonl")
        shutil.rmtree(".agentreplay")
        calls_made()
        yield folder


def rows(text: str) -> list[list[str]]:
    """The lines of a table, up to the blank one, in words."""
    return [line.split(maxsplit=4) for line in text.split("\n\n")[0].splitlines()]


def test_a_file_by_itself_is_shown_as_a_run_is() -> None:
    """Verdict and coverage under the file's name; nothing is called, and no store is made."""
    assert output("replay", "paid.jsonl", *APP) == (
        "paid.jsonl  shop  identical  3 rounds recorded\n"
        "coverage  3 answered from the recording · 0 made live · 0 never captured · 0 recorded and not asked for\n"
    )
    assert calls_made() == []
    assert not Path(".agentreplay").exists()


def test_a_file_that_differs_shows_all_of_it() -> None:
    """As of a run; what would need a run in a store begins with importing the file."""
    change_shop('reason="asked")', 'reason="asked"); context.change(new={"more": 1})')
    text = output("replay", "paid.jsonl", *APP, code=1)
    assert text.startswith("step 2: another payload\n")
    assert "+ more  1\n" in text
    assert "agentreplay import paid.jsonl` and `agentreplay rerun RUN --step 2 --prefix=fold`" in text
    assert "\npaid.jsonl  shop  diverged  3 rounds recorded\n" in text


def test_several_files_are_a_table() -> None:
    """A line for each in the order in which they were named, and the counts; exit code 0 if all are identical."""
    text = output("replay", "refused.jsonl", "paid.jsonl", *APP)
    assert rows(text) == [
        ["refused.jsonl", "shop", "identical", "3", "rounds"],
        ["paid.jsonl", "shop", "identical", "3", "rounds"],
    ]
    assert "\n2 recordings: 2 identical  in " in text
    assert calls_made() == []
    assert not Path(".agentreplay").exists()


def test_the_first_difference_of_each_is_on_its_line() -> None:
    """Exit code 1; step, call, path, expected and actual, and how to see all of it."""
    change_shop('find(order_id="A-17")', 'find(order_id="A-18")')
    text = output("replay", "refused.jsonl", "paid.jsonl", *APP, "--jobs", "1", code=1)
    assert [row[4] for row in rows(text)] == [
        'rounds   step 1, call 1.1: other arguments /order_id: "A-17" → "A-18"'
    ] * 2
    assert "2 recordings: 2 diverged" in text
    assert "replay refused.jsonl --app shop.py:step   shows all of it" in text


def test_new_code_keeps_some_recordings_and_changes_others() -> None:
    """What if: with --collect the number of further differences is told, too."""
    change_shop("if amount > 10:", "if amount > 10 and False:")
    change_shop('context.change(new={"plan"', 'context.report("why"); context.change(new={"plan"')
    change_shop('pay(amount=context.payload["amount"])', 'pay(amount=min(context.payload["amount"], 10))')
    text = output("replay", "refused.jsonl", "paid.jsonl", *APP, "--ignore", "report", "--collect", code=1)
    assert rows(text)[1] == ["paid.jsonl", "shop", "identical", "3", "rounds"]
    assert rows(text)[0][4].startswith("rounds   step 3, call 3.1: other arguments /amount: 12.5 → 10")


def test_runs_of_a_store_are_compared_in_the_same_way() -> None:
    """Several runs, or runs and files together; by the code that recorded them, where nobody names another."""
    output("import", "paid.jsonl", "refused.jsonl")
    change_shop('find(order_id="A-17")', 'find(order_id="A-18")')
    told = json_of("replay", "run1", "run2", "paid.jsonl", *APP, "--ignore", "tool:find:$.order_id")
    assert [(one["file"], one["run"], one["verdict"]) for one in told] == [
        (None, "run1", "identical"),
        (None, "run2", "identical"),
        ("paid.jsonl", None, "identical"),
    ]
    assert invoke("replay", "run1", "run9", *APP, "--ignore", "tool:find:$.order_id").exit_code == 3


def test_programs_get_a_list() -> None:
    """Of files always, of one, too; with what a replay of a run prints and some more."""
    (told,) = json_of("replay", "paid.jsonl", *APP)
    assert told.pop("seconds") > 0
    assert told == {
        "file": "paid.jsonl",
        "run": None,
        "agent": "shop",
        "rounds": 3,
        "verdict": "identical",
        "divergences": [],
        "coverage": {"recorded": 3, "live": 0, "uncaptured": 0, "unused": 0},
        "complete": True,
        "notes": [],
        "error": None,
    }
    change_shop("answer = ask(", "find(order_id='new'); answer = ask(")
    (told,) = json_of("replay", "paid.jsonl", *APP, code=1)
    (difference,) = told["divergences"]
    assert (difference["kind"], difference["expected"]) == ("extra call", None)
    assert difference["actual"] == {"kind": "tool", "name": "find", "arguments": {"order_id": "new"}}


def test_a_report_for_ci_has_a_case_for_each_recording() -> None:
    """JUnit XML: failures with the whole difference, errors for what cannot be read, and what the code has printed."""
    Path("cut.jsonl").write_bytes(Path("paid.jsonl").read_bytes()[:-400])
    change_shop('raise Rejected(f"{amount} is too much")', 'raise Rejected(f"{amount} is \\x1b[31m too much")')
    change_shop("order = find(", "print('hello \\x00 \\x1b[31m'); order = find(")
    change_shop('pay(amount=context.payload["amount"])', 'pay(amount=min(context.payload["amount"], 10))')
    output("replay", "refused.jsonl", "paid.jsonl", "cut.jsonl", *APP, "--junit-xml", "out/report.xml", code=1)
    (suite,) = ElementTree.parse("out/report.xml").getroot()
    counts = {name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "3", "failures": "1", "errors": "1", "skipped": "0"}
    refused, paid, cut = suite
    assert [case.attrib["name"] for case in suite] == ["refused.jsonl", "paid.jsonl", "cut.jsonl"]
    failure = refused.find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "step 3, call 3.1: other arguments /amount: 12.5 → 10"
    assert "  path      /amount\n  expected  12.5\n  actual    10\n" in (failure.text or "")
    assert [child.tag for child in paid] == ["system-out"]
    assert (paid.findtext("system-out") or "").startswith("hello ")
    error = cut.find("error")
    assert error is not None
    assert error.attrib["message"].startswith("cannot read cut.jsonl, line ")
    assert "\x1b" not in Path("out/report.xml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("missing.jsonl", None, "cannot read missing.jsonl: it cannot be read"),
        ("empty.jsonl", "", "cannot read empty.jsonl: it is empty"),
        ("foreign.jsonl", '{"a": 1}\n', "cannot read foreign.jsonl: it is no cassette"),
    ],
)
def test_what_cannot_be_read_is_exit_code_3(name: str, content: str | None, says: str) -> None:
    """By itself, and beside others that are identical; beside one that differs it is 1."""
    if content is not None:
        Path(name).write_text(content, encoding="utf-8")
    result = invoke("replay", name, *APP)
    assert (result.exit_code, result.stdout) == (3, "")
    assert says in result.stderr
    text = output("replay", name, "paid.jsonl", *APP, code=3)
    assert [row[1] for row in rows(text)] == ["unreadable", "shop"]
    assert says in text
    change_shop('find(order_id="A-17")', 'find(order_id="A-18")')
    output("replay", name, "paid.jsonl", *APP, code=1)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["paid.jsonl"], "a file never chooses which code is executed. Name the code with --app"),
        (["paid.jsonl", "refused.jsonl"], "a file never chooses which code is executed. Name the code with --app"),
        (["paid.jsonl", "refused.jsonl", *APP, "--ignore", "nonsense:$["], "nonsense"),
        (["paid.jsonl", *APP, "--jobs", "0"], "--jobs"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(args: list[str], says: str) -> None:
    """Exit code 2, before anything is executed."""
    result = invoke("replay", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


def test_the_code_is_what_the_project_says() -> None:
    """`app` in pyproject.toml, for files, too."""
    Path("pyproject.toml").write_text('[tool.agentreplay]\napp = "shop.py:step"\n', encoding="utf-8")
    assert "2 recordings: 2 identical" in output("replay", "paid.jsonl", "refused.jsonl")


def test_code_that_fails_or_ends_its_process_is_an_error_of_its_recording() -> None:
    """The others are replayed all the same; what was raised is on the line, and its traceback in the report."""
    change_shop(
        'order = find(order_id="A-17")',
        'os.path.exists("die") and os._exit(9); order = find(order_id="A-17")',
    )
    Path("die").touch()
    text = output("replay", "paid.jsonl", "refused.jsonl", *APP, code=1)
    assert text.count("the code ended its process, with code 9") == 2
    Path("broken.py").write_text("raise ValueError('while it is imported')\n", encoding="utf-8")
    text = output("replay", "paid.jsonl", "refused.jsonl", "--app", "broken.py:step", "--junit-xml", "r.xml", code=1)
    assert text.count("ValueError: while it is imported") == 2
    assert 'broken.py", line 1, in &lt;module&gt;' in Path("r.xml").read_text(encoding="utf-8")


def test_code_without_calls_is_no_success() -> None:
    """Where nothing was captured, a replay says nothing."""
    output("run", "shop.py:nothing_captured")
    output("export", "@last", "nothing.jsonl")
    app = ("--app", "shop.py:nothing_captured")
    result = invoke("replay", "nothing.jsonl", *app)
    assert result.exit_code == 1
    assert "nothing.jsonl: nothing of it was captured" in result.stderr
    assert "nothing of it was captured" in output("replay", "nothing.jsonl", "nothing.jsonl", *app, "--jobs=1", code=1)


def test_more_recordings_than_processes_are_replayed_one_after_the_other() -> None:
    """Each gets a process that is free; what one leaves behind in its module does not reach the next."""
    change_shop("class Rejected", "SEEN = []\n\n\nclass Rejected")
    change_shop("    if round_index == 1:", "    SEEN.append(1)\n    assert len(SEEN) <= 3\n    if round_index == 1:")
    for number in range(7):
        shutil.copy("paid.jsonl", f"paid{number}.jsonl")
    names = [f"paid{number}.jsonl" for number in range(7)]
    text = output("replay", *names, *APP, "--jobs", "2")
    assert [row[0] for row in rows(text)] == names
    assert "7 recordings: 7 identical" in text


def test_child_runs_are_named_after_their_agents() -> None:
    """On the line of a file, and where it is shown by itself."""
    Path("family.py").write_text(
        "import agentreplay as ar\nimport shop\n\n\n@ar.agent('clerk')\ndef clerk(i, context):\n"
        "    return ar.Complete(shop.find(order_id='X-1').total)\n\n\n@ar.agent('boss')\ndef boss(i, context):\n"
        "    return ar.Complete(context.run_agent(clerk).value)\n",
        encoding="utf-8",
    )
    output("run", "family.py:boss")
    output("export", "run1", "family.jsonl")
    Path("family.py").write_text(Path("family.py").read_text().replace("X-1", "X-2"), encoding="utf-8")
    app = ("--app", "family.py:boss")
    told = "child run of clerk, step 1, call 1.1: other arguments"
    assert told in output("replay", "family.jsonl", *app, code=1)
    assert told in output("replay", "family.jsonl", *app, "--jobs=1", code=1)
    sys.modules.pop("family", None)


def test_a_file_by_itself_never_ends_without_a_verdict(cassettes: Path) -> None:
    """Code that ends its process is an error with exit code 1, whatever it says itself; so is a crash."""
    for ends, told in (
        ("os._exit(0)", "the code ended its process, with code 0"),
        ("os._exit(7)", "the code ended its process, with code 7"),
        ("os.execvp('true', ['true'])", "the code ended its process, with code 0"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the code ended its process, by SIGSEGV"),
    ):
        Path("odd.py").write_text(f"import os, signal\n\ndef ends():\n    {ends}\n", encoding="utf-8")
        done = as_process("replay", "paid.jsonl", "--app", "odd.py:ends")
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: paid.jsonl: {told}\n")
    done = as_process("replay", "paid.jsonl", *APP)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "paid.jsonl  shop  identical  3 rounds recorded")


BUSY = "def busy():\n    open('begun', 'w').close()\n    while True:\n        sum(range(1000))\n"


def test_what_takes_longer_than_the_limit_is_an_error_of_that_recording(cassettes: Path) -> None:
    """One by itself, or one of several, of which the others go on; exit code 1."""
    Path("odd.py").write_text(BUSY, encoding="utf-8")
    limit = ("--app", "odd.py:busy", "--timeout", "0.2")
    done = as_process("replay", "paid.jsonl", *limit)
    told = "took longer than 0.2 s; --timeout says how long it may take"
    assert (done.returncode, done.stdout, done.stderr.splitlines()[-1]) == (1, "", f"error: paid.jsonl: {told}")
    text = output("replay", "paid.jsonl", "refused.jsonl", *limit, code=1)
    assert "2 recordings: 2 error" in text
    assert text.count("took longer than 0.2 s") == 2
    assert "2 identical" in output("replay", "paid.jsonl", "refused.jsonl", *APP, "--timeout", "60")


@pytest.mark.parametrize("names", [("paid.jsonl",), ("paid.jsonl", "refused.jsonl")], ids=["one", "several"])
def test_ctrl_c_ends_the_replay_of_code_that_hangs(cassettes: Path, names: tuple[str, ...]) -> None:
    """Exit code 130, without a verdict on anything and without a traceback."""
    Path("odd.py").write_text(BUSY, encoding="utf-8")
    command = [*SCRIPT, "replay", *names, "--app", "odd.py:busy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not Path("begun").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate()
    assert (process.returncode, printed, said.strip()) == (130, "", "")


def test_a_quoted_pattern_names_the_files_that_fit(cassettes: Path) -> None:
    """Sorted, as a shell gives them; one that no file fits is an error, and a file of that name is a file."""
    text = output("replay", "*.jsonl", *APP)
    assert [row[0] for row in rows(text)] == ["paid.jsonl", "refused.jsonl"]
    result = invoke("replay", "none-*.jsonl", *APP)
    assert result.exit_code == 2
    assert "no file fits none-*.jsonl; expected recordings that a pattern names, from " in result.stderr
    shutil.copy("paid.jsonl", "[p]*.jsonl")
    assert output("replay", "[p]*.jsonl", *APP).startswith("[p]*.jsonl  shop  identical")
