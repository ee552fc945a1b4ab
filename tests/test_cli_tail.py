"""`tail`: the events of a run as they are appended, for people and for programs."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import IO, Any

import agentreplay as ar
import pytest
from agentreplay.cli.following import row_of_event
from agentreplay.cli.render_events import EventPage
from agentreplay.cli.runs import Names
from agentreplay.recorder import following
from agentreplay.recorder.environment import process_identity
from agentreplay.recorder.event_codec import StoredEvent
from agentreplay.recorder.events import EVENT_OF_KIND, Event
from agentreplay.recorder.following import follow
from agentreplay.recorder.memory_store import MemoryStore
from cli_runs import SCRIPT, as_process, invoke, keep, output
from event_builder import EventBuilder, build
from rich.console import Console

WORKER = """
import os, sys
import agentreplay as ar

def wait(n):
    print(n, flush=True)
    return sys.stdin.readline().strip()

with ar.record("worker", {"n": 0}) as run:
    for n in (1, 2):
        with run.round() as r:
            r.tool("wait", {"n": n}, wait)
            r.change(update={"n": n}, reason="it was time")
    if wait("end") == "fail":
        raise ValueError("as told")
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTREPLAY_STORE", str(tmp_path / "store.db"))
    return tmp_path


@pytest.fixture
def processes() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts processes, which end with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*command: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, encoding="utf-8")
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().rstrip("\n")


def tell(process: subprocess.Popen[str], text: str = "") -> None:
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()


def shown(text: str) -> list[str]:
    """Lines without times, durations and hashes."""
    text = re.sub(r"\d\d:\d\d:\d\d", "TIME", text)
    return re.sub(r"\d+(\.\d+)? (µs|ms|s)\b", "DURATION", text).splitlines()


def counted(rounds: int = 1) -> EventBuilder:
    """A run that has ended."""
    log = EventBuilder({"n": 0})
    for n in range(1, rounds + 1):
        log.begin()
        log.call(f"{n}.1", "ask", kind="model", model="small", request={"messages": [{"role": "user", "content": "?"}]})
        log.give(f"{n}.1", kind="model", response={"content": "!"}, duration=0.5)
        log.call(f"{n}.2", "tick", arguments={"n": n})
        log.call(f"{n}.3", "tock", within=f"{n}.2", arguments={})
        log.add("tool.failed", within=f"{n}.2", call=f"{n}.3", error={"type": "shop.Broken", "message": "no\nclock"})
        log.give(f"{n}.2", result=[n], duration=0.25)
        log.change({"updateElements": {"n": n}}, source={"kind": "action", "call": f"{n}.2"}, reason="it ticked")
        log.add("step.decided", decision={"step": "Actions", "reasoning": "count on"})
        log.end()
    log.finish(value={"counted": rounds})
    return log


# -- a run that has ended ----------------------------------------------------------------------------------------------


def test_a_run_that_has_ended_is_printed_whole() -> None:
    """An event is a line: number, time, kind, and what tells it from others; calls within calls are indented."""
    keep(counted().events, Path("store.db"))
    assert shown(output("tail", "run1")) == [
        "run1  refunds  completed",
        "   0  TIME  run.started",
        "   1  TIME  round.started       1",
        "   2  TIME  model.called        1.1  ask  small",
        '   3  TIME  model.returned      1.1  ask  DURATION  {"content": "!"}',
        '   4  TIME  tool.called         1.2  tick  {"n": 1}',
        "   5  TIME  tool.called           1.3  tock  {}",
        "   6  TIME  tool.failed           1.3  tock  Broken: no clock",
        "   7  TIME  tool.returned       1.2  tick  DURATION  [1]",
        "   8  TIME  payload.changed     1 updated  it ticked",
        "   9  TIME  step.decided        Actions  count on",
        "  10  TIME  round.finished      1  continue",
        '  11  TIME  run.finished        completed  {"counted": 1}',
    ]


def test_programs_get_an_object_per_line() -> None:
    """Each event with all that it says, its request's messages included, and nothing else on stdout."""
    log = counted()
    store = keep(log.events, Path("store.db"))
    rows = [json.loads(line) for line in output("tail", "run1", "--json").splitlines()]
    events = list(store.events("run1"))
    assert len(rows) == len(events) == 12
    for row, event in zip(rows, events, strict=True):
        assert list(row) == ["run", "seq", "round", "kind", "version", "time", "within", "task", "data", "hash"]
        moment = datetime.fromisoformat(row.pop("time"))
        assert (moment, moment.utcoffset()) == (event.time, timedelta(0))
        assert row == {"run": "run1", **event.model_dump(exclude={"time"})}
    assert rows[2]["data"]["request"] == {"messages": [{"role": "user", "content": "?"}]}


def test_it_may_begin_behind_an_event() -> None:
    """`--after 9` is what came after event 9; behind the last there is nothing, and the run has ended all the same."""
    keep(counted().events, Path("store.db"))
    assert shown(output("tail", "--after", 9))[1:] == [
        "  10  TIME  round.finished      1  continue",
        '  11  TIME  run.finished        completed  {"counted": 1}',
    ]
    for after in (11, 50):
        assert output("tail", "--after", after) == "run1  refunds  completed\n"
        assert output("tail", "--after", after, "--json") == ""
    assert invoke("tail", "--after", "-2").exit_code == 2


@pytest.mark.parametrize(("status", "code"), [("completed", 0), ("failed", 1), ("cancelled", 1), ("interrupted", 0)])
def test_the_exit_code_says_how_the_run_ended(status: str, code: int) -> None:
    """1 where the agent failed or was stopped, as for `run`."""
    log = EventBuilder({})
    if status == "interrupted":
        log.add("run.suspended", reason="interrupt")
    else:
        log.finish(status=status)
    keep(log.events, Path("store.db"))
    output("tail", "run1", code=code)
    output("tail", "run1", "--json", code=code)


def test_a_run_that_was_resumed_is_printed_to_its_end() -> None:
    """A suspension in the middle is no end."""
    log = EventBuilder({})
    log.add("run.suspended", reason="interrupt", interrupts=["0.approve.1"])
    log.add("run.resumed", answers={"0.approve.1": True})
    log.finish()
    keep(log.events, Path("store.db"))
    assert [line.split()[2] for line in shown(output("tail"))[1:]] == [
        "run.started", "run.suspended", "run.resumed", "run.finished",
    ]  # fmt: skip


def test_a_run_from_a_file_ends_where_the_file_does() -> None:
    """Nobody goes on with it, also where it never ended."""
    log = EventBuilder({}, origin="imported")
    log.begin()
    keep(log.events, Path("store.db"))
    assert len(shown(output("tail"))) == 3


@pytest.mark.parametrize(("args", "says"), [(["tail"], "there is no store"), (["tail", "run7"], 'no run "run7"')])
def test_what_is_not_there_is_said(args: list[str], says: str, elsewhere: Path) -> None:
    """As one message, with exit code 3; looking creates nothing."""
    if len(args) > 1:
        keep(counted().events, Path("store.db"))
    before = sorted(path.name for path in elsewhere.iterdir())
    result = invoke(*args)
    assert (result.exit_code, result.stdout) == (3, "")
    assert says in result.stderr
    assert sorted(path.name for path in elsewhere.iterdir()) == before


# -- a run in progress -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "code", "last"), [("", 0, "completed"), ("fail", 1, "ValueError: as told")])
def test_a_run_in_another_process_is_followed(
    processes: Callable[..., subprocess.Popen[str]], order: str, code: int, last: str
) -> None:
    """Each event is printed while the run waits for us to see it; the end of the run is the end."""
    worker = processes(sys.executable, "-c", WORKER)
    assert line_of(worker.stdout) == "1"
    tail = processes(*SCRIPT, "tail", "run1")
    printed = [line_of(tail.stdout) for _ in range(4)]
    assert shown("\n".join(printed)) == [
        "run1  worker  running",
        "   0  TIME  run.started         <string>:<module>",
        "   1  TIME  round.started       1",
        '   2  TIME  tool.called         1.1  wait  {"n": 1}',
    ]
    tell(worker)
    assert line_of(worker.stdout) == "2"
    printed = [line_of(tail.stdout) for _ in range(6)]
    assert shown("\n".join(printed))[1:] == [
        "   4  TIME  payload.changed     1 updated  it was time",
        "   5  TIME  step.decided        Undecided",
        "   6  TIME  round.finished      1  continue  DURATION",
        "   7  TIME  round.started       2",
        '   8  TIME  tool.called         2.1  wait  {"n": 2}',
    ]
    tell(worker)
    assert line_of(worker.stdout) == "end"
    tell(worker, order)
    rest, complaints = tail.communicate(timeout=60)
    assert (tail.returncode, complaints) == (code, "")
    assert rest.splitlines()[-1].endswith(last)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_run_that_crashes_is_said_to_have(processes: Callable[..., subprocess.Popen[str]], as_json: bool) -> None:
    """Nothing is written when a process is killed; it is found out, and said where it is not in the way."""
    worker = processes(sys.executable, "-c", WORKER)
    assert line_of(worker.stdout) == "1"
    tail = processes(*SCRIPT, "tail", *(["--json"] if as_json else []))
    for _ in range(3):
        line_of(tail.stdout)
    worker.kill()
    worker.wait()
    rest, complaints = tail.communicate(timeout=60)
    assert tail.returncode == 1
    said = "run1 has crashed: the process that recorded it is gone"
    last = complaints if as_json else rest
    assert last.splitlines()[-1] == said
    assert all(json.loads(line) for line in rest.splitlines()) if as_json else complaints == ""


def test_ctrl_c_ends_it_quietly(processes: Callable[..., subprocess.Popen[str]]) -> None:
    """Nothing is said, and the run goes on."""
    worker = processes(sys.executable, "-c", WORKER)
    assert line_of(worker.stdout) == "1"
    tail = processes(*SCRIPT, "tail", "run1")
    for _ in range(4):
        line_of(tail.stdout)
    tail.send_signal(signal.SIGINT)
    assert tail.communicate(timeout=60) == ("", "")
    assert tail.returncode == 130
    tell(worker)
    assert line_of(worker.stdout) == "2"


def test_a_reader_that_leaves_ends_it(processes: Callable[..., subprocess.Popen[str]]) -> None:
    """`| head -1` is no error."""
    keep(counted(300).events, Path("store.db"))
    tail = processes(*SCRIPT, "tail", "run1", "--json")
    assert json.loads(line_of(tail.stdout))["seq"] == 0
    assert tail.stdout is not None
    tail.stdout.close()
    assert tail.wait(60) == 0
    assert tail.stderr is not None
    assert tail.stderr.read() == ""


class Watched(MemoryStore):
    """A store that notes what was read of a run's log."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[tuple[int, int | None]] = []

    def _read_rows(self, number: int, after: int, until: int | None) -> Iterator[StoredEvent]:
        self.read.append((after, until))
        return super()._read_rows(number, after, until)


def waits(monkeypatch: pytest.MonkeyPatch, *meanwhile: Callable[[], object]) -> list[float]:
    """Have one thing after the other happen whenever there is nothing to do but to wait; returns the waits."""
    todo, waited = iter(meanwhile), []

    class Clock:
        @staticmethod
        def sleep(seconds: float) -> None:
            waited.append(seconds)
            next(todo)()

    monkeypatch.setattr(following, "time", Clock)
    return waited


def nothing() -> None:
    """What happens mostly."""


def test_only_what_is_new_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing happens that is one look behind the last event; whether the run goes on is asked now and then."""
    store = Watched()
    log = EventBuilder({}, process=process_identity())
    info = store.create_run("a")
    store.append(info, -1, log.events)

    def goes_on() -> None:
        store.append(info, 0, [log.begin(), log.add("report", message="x"), log.end()])

    def ends() -> None:
        store.append(info, 3, [log.finish()])

    waited = waits(monkeypatch, *[nothing] * 25, goes_on, *[nothing] * 3, ends)
    store.read.clear()
    assert [event.seq for event in follow(store, info)] == [0, 1, 2, 3, 4]
    assert waited == [0.1] * 30
    looks = [read for read in store.read if read == (-1, 0)]
    assert [after for after, until in store.read if until is None] == [-1, *[0] * 26, *[3] * 4]
    assert len(looks) == 5  # four for the process that records it, one for the step in which it is


@pytest.mark.parametrize("kind", ["report", "run.finished"])
def test_nothing_is_missed_at_the_end(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """What was appended just before it was found out that the process is gone, or has ended the run, is still read."""
    store = MemoryStore()
    log = EventBuilder({}, process={**process_identity(), "start": 1})
    info = store.create_run("a")
    store.append(info, -1, log.events)
    found = store.run

    def look(name: Any) -> Any:
        if store._infos[0].head_seq == 0:
            store.append(info, 0, [log.finish() if kind == "run.finished" else log.add(kind, message="last words")])
        return found(name)

    monkeypatch.setattr(store, "run", look)
    waits(monkeypatch, nothing)
    assert [event.kind for event in follow(store, info)] == ["run.started", kind]


# -- what stands in a line ---------------------------------------------------------------------------------------------

EXAMPLES: dict[str, tuple[dict[str, Any], str]] = {
    "run.started": ({"agent": "a", "payload_hash": "x", "entry_point": "agent.py:step"}, "agent.py:step"),
    "run.forked": ({"parent": "0190", "seq": 7, "hash": "x"}, "from 0190 behind event 7"),
    "run.suspended": ({"reason": "interrupt", "interrupts": ["1.ok.1"]}, "interrupt  1.ok.1"),
    "run.resumed": ({"answers": {"1.ok.1": True}}, "1.ok.1"),
    "run.finished": (
        {"status": "failed", "stop_reason": "error", "error": {"type": "a.B", "message": "gone"}},
        "failed  B: gone",
    ),
    "writer.joined": ({"writer": "w3", "entry_point": "work.py:main"}, "w3 joined  work.py:main"),
    "writer.left": ({"writer": "w3"}, "w3"),
    "round.started": ({}, "2"),
    "round.finished": ({"outcome": "failed", "payload_hash": "x", "duration": 2}, "2  failed  2.0 s"),
    "model.called": ({"call": "2.1", "name": "ask"}, "2.1  ask"),
    "model.returned": ({"call": "2.1", "response": "fine"}, '2.1  ask  "fine"'),
    "model.failed": ({"call": "2.2", "error": {"type": "E", "message": ""}}, "2.2    E"),
    "tool.called": ({"call": "2.3", "name": "look", "raw": "{"}, '2.3  look  "{"'),
    "tool.returned": ({"call": "2.3", "result": None}, "2.3  look  null"),
    "tool.failed": ({"call": "2.3", "error": {"type": "E", "message": "m"}}, "2.3    E: m"),
    "call.cancelled": ({"call": "2.4"}, "2.4"),
    "timer.fired": ({"timer": 3}, "3"),
    "value.read": ({"source": "clock", "value": 5}, "clock  5"),
    "step.decided": ({"decision": {"step": "Chat", "message": "hello"}}, "Chat  hello"),
    "payload.changed": (
        {"applier": {}, "hash_before": "x", "hash_after": "y", "warnings": ["odd"], "counts": {"deletions": 2}},
        "2 removed  ! odd",
    ),
    "message.added": ({"message": {"role": "user", "content": "why\nnot"}}, "user  why not"),
    "messages.replaced": ({"stop": 4, "messages": [], "why": "trim"}, "messages 0 to 4 replaced by 0 (trim)"),
    "scratchpad.changed": ({"scratchpad": {"notes": "x"}}, '{"notes": "x"}'),
    "memory.written": ({"write": 1}, "1"),
    "skill.activated": ({"skill": "s"}, '"s"'),
    "plan.proposed": ({"plan": []}, "[]"),
    "media.promoted": ({"media": 2}, "2"),
    "interrupt.raised": ({"interrupt": "i", "name": "approve", "reason": "big"}, 'approve  "big"'),
    "interrupt.answered": ({"interrupt": "i", "response": True}, "answered i  true"),
    "subrun.started": ({"run": "0191", "name": "helper"}, "0191  helper"),
    "subrun.finished": ({"run": "0191", "status": "completed"}, "0191  completed"),
    "report": ({"message": "half", "level": "info", "source": "log"}, "log info: half"),
}


def lines_of(events: list[Event], **options: Any) -> list[str]:
    stream = StringIO()
    page = EventPage(Console(file=stream, highlight=False, **{"width": 500, **options}), Names(MemoryStore()))
    for event in events:
        page.event(event)
    return stream.getvalue().splitlines()


def test_every_kind_of_event_says_what_it_is() -> None:
    """Whatever can be in a log is a line."""
    assert EXAMPLES.keys() == EVENT_OF_KIND.keys()
    events = [build(seq, 2, kind, data) for seq, (kind, (data, _)) in enumerate(EXAMPLES.items())]
    for line, (kind, (_, told)) in zip(lines_of(events), EXAMPLES.items(), strict=True):
        found = re.fullmatch(r" +\d+  \d\d:\d\d:\d\d  (\S+) *  ?(.*)", line)
        assert found is not None
        assert (found[1], found[2].strip()) == (kind, told)


def test_an_error_of_a_worker_is_told() -> None:
    """A block that was left by an exception."""
    data = {"writer": "w3", "error": {"type": "builtins.ValueError", "message": "no"}}
    assert lines_of([build(9, 2, "writer.left", data)])[0].endswith("writer.left         w3 left: ValueError: no")


def test_what_is_not_known_is_a_line_too() -> None:
    """A user's own event, one of a newer version, one whose body was pruned, a response that is no message."""
    from agentreplay.recorder.events import UnknownEvent

    pruned = UnknownEvent(**{**build(3, 2, "x.y").model_dump(), "kind": "tool.called"})
    events = [build(1, 2, "x.mine", {"a": 1, "b": None}), build(2, 2, "x.mine", {"a": 1, "b": 2}), pruned]
    events.append(build(4, 2, "message.added", {"message": ["no", "dict"]}))
    assert [line[16:] for line in lines_of(events)] == [
        "x.mine              1",
        'x.mine              {"a": 1, "b": 2}',
        "tool.called",
        'message.added       ["no", "dict"]',
    ]


def test_a_terminal_gets_what_fits_into_a_line() -> None:
    """In colour, and never two lines for an event; elsewhere there is neither colour nor an end."""
    long = [build(n, 2, "message.added", {"message": {"role": "user", "content": "word " * 90}}) for n in range(3)]
    lines = lines_of(long, width=60, force_terminal=True, color_system="standard", legacy_windows=False)
    assert len(lines) == 3
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert all(len(line) == 60 and line.endswith("…") for line in plain)
    assert all("\x1b[" in line for line in lines)
    (line, *_) = lines_of(long)
    assert len(line) > 100
    assert "\x1b" not in line


def test_recorded_text_does_not_act() -> None:
    """Escape sequences, line ends and what cannot be printed are shown, for people and for programs."""
    nasty, lone = "\x1b[31mred\u202e\r\n", "\ud800"  # the latter in values only: a recorder takes it out of names
    log = EventBuilder({})
    log.begin()
    log.call("1.1", nasty, arguments={nasty: nasty, lone: lone, "big": 2**70})
    log.add("tool.failed", call="1.1", error={"type": nasty, "message": nasty})
    log.add(f"x.{nasty}", text=lone)
    log.add("report", message=nasty, source=nasty)
    log.add("step.decided", decision={"step": nasty, "reasoning": lone})
    log.end(nasty)
    log.finish(status="failed")
    keep(log.events, Path("store.db"))
    text = output("tail", code=1)
    assert len(text.splitlines()) == len(log.events) + 1
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e\ud800]", text)
    done = as_process("tail", "--json", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 1
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    tagged = {"$type": "str", "escaped": "\\ud800"}
    big = ["big", {"$type": "int", "value": "1180591620717411303424"}]
    assert rows[2]["data"]["arguments"] == {"$type": "dict", "items": [[nasty, nasty], [tagged, tagged], big]}
    assert done.stdout.isascii()


def test_a_childs_name_is_its_number() -> None:
    """Where it is in the store."""
    output("demo")
    lines = shown(output("tail", "run1", code=1))
    assert any(re.fullmatch(r" *\d+  TIME  subrun.started      run2  inspector", line) for line in lines)
    assert any(re.fullmatch(r" *\d+  TIME  subrun.finished     run2  completed", line) for line in lines)


def test_calls_of_workers_stand_in_the_calls_around_them() -> None:
    """As any call within a call; the id says whose they are."""
    store = ar.open_store()

    @ar.tool
    def inner() -> None:
        pass

    @ar.tool
    def outer() -> None:
        with ar.join("run1"):
            inner()

    with ar.record("a", store=store):
        outer()
    assert [line.split("TIME  ")[1] for line in shown(output("tail"))[2:6]] == [
        "tool.called         0.1  outer  {}",
        shown(output("tail"))[3].split("TIME  ")[1],
        "tool.called           0.w2.1  inner  {}",
        "tool.returned         0.w2.1  inner  DURATION  null",
    ]
    store.close()


def test_a_row_is_json_whatever_the_event_holds() -> None:
    """Fields that are not known here come along."""
    info = MemoryStore().create_run("a")
    row = row_of_event(info, build(1, 2, "tool.called", {"call": "c", "name": "t", "later": [1]}, task="w3"))
    assert (row["run"], row["task"], row["data"]["later"]) == ("run1", "w3", [1])
