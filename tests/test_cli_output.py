"""What verbs write reaches every terminal and pipe, whatever was recorded."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.cli import main
from agentreplay.cli.output import one_line, print_json
from agentreplay.cli.render_runs import render_runs
from agentreplay.cli.render_steps import RunPage
from agentreplay.cli.runs import Names, how_long
from agentreplay.recorder.locate import open_store
from agentreplay.replay.outline import outline
from cli_runs import as_process, invoke, json_of, keep, output
from click.testing import CliRunner
from event_builder import EventBuilder
from rich.console import Console

HOSTILE = "\x1b[31mred\x1b[0m \x9b31m \x07 [bold]markup[/] [/nope] \u202ereversed \x7f"
BAD = {"\x1b[2Jkey": HOSTILE, "[red]": {"[/]": "[link=x]y[/link]"}, ":smile:": ["\r\n", "a\u0000b"]}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTREPLAY_STORE", str(tmp_path / "store.db"))
    return tmp_path


@pytest.fixture
def hostile(elsewhere: Path) -> None:
    """Record a run whose every text tries to do something to the terminal."""
    log = EventBuilder({"start": 1}, entry_point=HOSTILE, source={"file": HOSTILE})
    log.events[0] = log.events[0].model_copy(update={"data": log.events[0].data.model_copy(update={"agent": HOSTILE})})
    log.begin()
    log.call("1.1", name=HOSTILE, arguments=BAD)
    log.add("tool.failed", call="1.1", error={"type": "x.[red]E", "message": HOSTILE}, duration=0.1)
    log.change({"newElements": BAD}, reason=HOSTILE, warnings=[HOSTILE], source={"kind": "model", "call": "\x1b[H"})
    log.add("report", message=HOSTILE, content=BAD)
    log.add("interrupt.raised", interrupt="i", name=HOSTILE, reason=HOSTILE)
    log.add("x.[red]\x1b[1m", note=HOSTILE)
    log.add("step.decided", decision={"step": HOSTILE, "reasoning": HOSTILE})
    log.end(HOSTILE)
    log.finish("failed", stop_reason=HOSTILE, error={"type": "a.B", "message": HOSTILE}, value=BAD)
    keep(log.events, elsewhere / "store.db")


VIEWS = [
    ["ls"],
    ["show"],
    ["show", "--step", "1"],
    ["show", "--short"],
    ["state"],
    ["state", "--all"],
    ["diff"],
    ["diff", "--full"],
    ["diff", "--from", "0", "--to", "1"],
    ["diff", "--part", "messages"],
    ["verify"],
]


@pytest.mark.parametrize("args", [*VIEWS, *[[*view, "--json"] for view in VIEWS]], ids=" ".join)
@pytest.mark.usefixtures("hostile")
def test_recorded_text_never_acts_on_the_terminal(args: list[str]) -> None:
    """No control or format character of a payload, name, reason or error is written; each is shown as an escape."""
    text = output(*args)
    assert [char for char in text if not char.isprintable() and char != "\n" and "--json" not in args] == []
    assert not {"\x1b", "\x9b", "\x07", "\x7f", "\0"} & set(text)


@pytest.mark.usefixtures("hostile")
def test_markup_in_recorded_text_is_text() -> None:
    """Square brackets and colons mean nothing, to the console's library either."""
    assert "[bold]markup[/] [/nope]" in output("show")
    assert '"[red]": {"[/]": "[link=x]y[/link]"}' in output("state")
    assert '":smile:"' in output("state")


@pytest.mark.parametrize("args", VIEWS, ids=" ".join)
@pytest.mark.usefixtures("hostile")
def test_a_terminal_gets_colours_of_ours_only(args: list[str]) -> None:
    """Where colours are wanted there are escape sequences, and none of them comes from what was recorded."""
    text = invoke(*args, env={"FORCE_COLOR": "1", "TERM": "xterm-256color"}, color=True).stdout
    assert "\x1b[" in text
    ours = re.sub(r"\x1b\[[0-9;]+m", "", text)
    assert [char for char in ours if not char.isprintable() and char != "\n"] == []
    assert HOSTILE[:8] not in text


@pytest.mark.parametrize("args", [*VIEWS, ["--help"], ["diff", "--help"], ["state", "--json"], ["no"]], ids=" ".join)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_every_encoding_can_be_written(args: list[str], encoding: str) -> None:
    """What an encoding cannot say is written in ASCII; nothing fails for a dash or an umlaut."""
    log = EventBuilder({"name": "Jürgen → 東京 …"})
    log.begin()
    log.change({"newElements": {"größe": "🙂"}}, reason="für — später")
    log.add("step.decided", decision={"step": "Chat", "reasoning": "schön… · ok"})
    log.end()
    keep(log.events, Path("store.db"))
    result = CliRunner(charset=encoding).invoke(main, args)
    assert (result.exit_code, result.stderr == "") == ((2, False) if args == ["no"] else (0, True))
    if encoding == "ascii":
        assert result.output.isascii()


def test_a_terminal_in_ascii_gets_ascii() -> None:
    """The same holds for the real streams of a process."""
    output("demo")
    for args in (["--help"], ["show"], ["no"]):
        done = as_process(*args, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
        assert (done.stdout + done.stderr).isascii()
    assert "~ order.total  129.5 -> 77.7" in as_process("show", env={"PYTHONIOENCODING": "ascii"}).stdout


def test_nothing_is_cut_at_a_width(elsewhere: Path) -> None:
    """In a pipe a row is a line, however narrow the terminal around it, and no line ends in blanks."""
    log = EventBuilder({"a": 1})
    log.events[0] = log.events[0].model_copy(
        update={"data": log.events[0].data.model_copy(update={"agent": "agent " * 9})}
    )
    log.begin()
    log.change({"newElements": {f"key_{n}_{'x' * 60}": n for n in range(3)}}, reason=("why " * 80).strip())
    log.end()
    keep(log.events, elsewhere / "store.db")
    listed = as_process("ls", env={"COLUMNS": "40"}).stdout.splitlines()
    assert len(listed) == 2
    assert ("agent " * 9).strip() in listed[1]
    diff = as_process("diff", env={"COLUMNS": "40"}).stdout
    assert ("why " * 80).strip() in diff
    assert [line for line in [*listed, *diff.splitlines()] if line != line.rstrip()] == []


def test_a_narrow_terminal_gets_a_line_per_run_and_round(elsewhere: Path) -> None:
    """At 80 columns neither a run in the list nor a round's headline is broken, and what says most is there."""
    output("demo")
    store = open_store(elsewhere / "store.db")
    infos = store.runs()
    screen = io.StringIO()
    page = Console(file=screen, width=80, force_terminal=True, color_system=None)
    render_runs(page, [(info, ()) for info in infos], Names(store, infos), total=2)
    for entry in outline(store.events(infos[0])):
        RunPage(page, Names(store), width=2, full=False, short=True).round(entry)
    lines = screen.getvalue().splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert [line.split()[0] for line in lines[:3]] == ["run", "run1", "run2"]
    assert "↳ inspector" in lines[2]
    assert lines[2].rstrip().endswith("run1")
    assert [line.split()[0] for line in lines[3:]] == [str(n) for n in range(1, 11)]


def test_json_of_a_lone_surrogate_and_a_large_integer(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON output is JSON for every value, and control characters are escaped where JSON would let them stand."""
    value: dict[str, Any] = {"lone": "\ud800", "large": 2**80, "c1": "\x9b"}
    print_json(value)
    assert json.loads(capsys.readouterr().out) == value
    print_json({"c1": "\x85\x9b\x7fÿ"})
    text = capsys.readouterr().out
    assert json.loads(text) == {"c1": "\x85\x9b\x7fÿ"}
    assert text == '{\n  "c1": "\\u0085\\u009b\\u007fÿ"\n}\n'


def test_json_keeps_values_in_their_stored_form(elsewhere: Path) -> None:
    """What is not plain JSON stands in its tagged form, in a state as in a diff."""

    def step(round_index: int, context: ar.Context) -> ar.Complete[str]:
        context.change(update={"price": Decimal("1.20")})
        return ar.Complete("sold")

    ar.agent(step).run({"price": Decimal("1.10")}, store=str(elsewhere / "store.db"))
    assert json_of("state") == {"price": {"$type": "decimal", "value": "1.20"}}
    assert json_of("diff")[0]["old"] == {"$type": "decimal", "value": "1.10"}
    assert "Decimal('1.20')" in output("state")
    assert "Decimal('1.10') → Decimal('1.20')" in output("diff")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.0, "0 µs"),
        (0.000_95, "950 µs"),
        (0.0012, "1.2 ms"),
        (0.25, "250 ms"),
        (0.9996, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (3_599.4, "59 min 59 s"),
        (3_600, "1 h 00 min"),
        (90_061, "25 h 01 min"),
    ],
)
def test_durations_are_short(seconds: float | None, text: str) -> None:
    """A duration is shown in the unit that suits it."""
    assert how_long(seconds) == text


def test_one_line_is_cut_and_harmless() -> None:
    """A text of many lines becomes one, cut where there is no more room."""
    assert one_line("a\n b\t\x1b", 20) == "a b \\x1b"
    assert one_line("word " * 100, 12) == "word word w…"
    assert len(one_line("x" * 10_000, 50)) == 50


@pytest.mark.parametrize("verb", [["ls"], ["show", "run1"], ["state", "run1"], ["diff", "run1", "--step", "1"]])
def test_output_that_cannot_be_written_is_no_bug_of_ours(verb: list[str], tmp_path: Path) -> None:
    """A disk that is full where the output goes is said in a line, with the exit code of missing data."""
    store = str(tmp_path / "store.db")
    with ar.record("a", payload={"n": 1}, store=store) as run, run.round() as r:
        r.change(update={"n": 2})
    command = [sys.executable, "-m", "agentreplay", *verb, "--store", store]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "error: the output could not be written: No space left on device\n")
    closed = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE, check=False)
    assert (closed.returncode, closed.stderr) == (0, b"")
