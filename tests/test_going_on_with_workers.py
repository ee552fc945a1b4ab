"""Re-runs and resumed runs that several processes record: who joined before they go live is answered from the log."""

from __future__ import annotations

import multiprocessing
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.locate import open_store
from cli_runs import as_process
from joined_programs import count, count_words, put, sends

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTREPLAY_STORE", str(tmp_path / "store.db"))
    monkeypatch.setenv("MADE", str(tmp_path / "made"))


def made(tmp_path: Path) -> list[str]:
    """The calls that were really made since this was asked last."""
    path = tmp_path / "made"
    found = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def counted(run: str, text: str, work: Callable[[str, str], int] = count, start: str = "fork") -> int:
    """What a process says that counts words."""
    context: Any = multiprocessing.get_context(start)
    queue = context.Queue()
    process = context.Process(target=put, args=(work, run, text, queue))
    process.start()
    process.join()
    return int(queue.get(timeout=5))


def program(*texts: str, start: str = "fork", early: bool = False) -> Callable[[], None]:
    """A run with a process in each round; `early` keeps the id that the run has at its beginning."""

    def main() -> None:
        with ar.record("counting", payload={}) as run:
            known = run.id
            for text in texts:
                with run.round() as r:
                    r.change(new={**r.payload, text: counted(known if early else run.id, text, start=start)})
            run.complete(dict(run.payload))

    return main


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("early", [False, True], ids=["the id of now", "the id of the beginning"])
def test_a_process_before_the_step_is_answered_and_a_later_one_is_live(start: str, early: bool, tmp_path: Path) -> None:
    """Each joins the run in which it stands, by whatever name the code has for it."""
    again = program("one two", "three", "a b c", start=start, early=early)
    again()
    assert made(tmp_path) == ["count one two", "count three", "count a b c"]
    result = ar.rerun("run1", again, 3)
    assert (result.run.id, result.stop_reason, result.payload) == (
        "run2",
        "endTurn",
        {"one two": 2, "three": 1, "a b c": 3},
    )
    assert made(tmp_path) == ["count a b c"]
    joined = [event.seq for event in open_store(None).events("run2") if event.kind == "writer.joined"]
    assert len(joined) == 3
    assert ar.replay("run2", again).verdict == "identical"


def test_a_process_that_asks_for_something_else_before_the_step_stops_a_rerun(tmp_path: Path) -> None:
    """As anything else that differs there; nothing is recorded, and no call is made."""
    program("one two", "three")()
    made(tmp_path)
    with pytest.raises(ar.Divergence) as raised:
        ar.rerun("run1", program("one", "three"), 2)
    difference = raised.value.difference
    assert (difference.kind, difference.expected, difference.actual) == ("other arguments", "one two", "one")
    assert made(tmp_path) == []
    assert [info.id for info in open_store(None).runs()] == ["run1"]


def test_the_processes_of_a_folded_prefix_are_not_expected(tmp_path: Path) -> None:
    """Its rounds are not executed; a replay of the new run knows that, too."""
    program("one two", "three")()
    made(tmp_path)

    def again() -> None:
        with ar.record("counting", payload={}) as run, run.round() as r:
            r.change(new={**r.payload, "three": counted(run.id, "three")})

    result = ar.rerun("run1", again, 2, prefix="fold")
    assert result.payload == {"one two": 2, "three": 1}
    assert made(tmp_path) == ["count three"]
    replayed = ar.replay("run2", again)
    assert (replayed.verdict, replayed.coverage.unused) == ("identical", 0)


def test_a_resumed_run_answers_the_processes_that_it_had(tmp_path: Path) -> None:
    """Those that come after its question are live, in the same run."""

    def main() -> None:
        with ar.record("counting", payload={}) as run:
            with run.round() as r:
                first = counted(run.id, "one two")
                more = r.interrupt("more", reason="?")
                r.change(new={"words": first + counted(run.id, more)})
            run.complete(run.payload["words"])

    main()
    assert made(tmp_path) == ["count one two"]
    result = ar.resume("run1", main, answers={"more": "a b c"})
    assert (result.stop_reason, result.payload) == ("endTurn", {"words": 5})
    assert made(tmp_path) == ["count a b c"]
    assert ar.replay("run1", main).verdict == "identical"


def test_a_thread_before_the_step_is_answered_and_a_later_one_is_live(tmp_path: Path) -> None:
    """A block in the process itself, too."""

    def main() -> None:
        with ar.record("counting", payload={}) as run:
            known = run.id
            for text in ("one two", "three"):
                with run.round() as r:
                    r.change(new={**r.payload, text: count(known, text)})

    main()
    made(tmp_path)
    assert ar.rerun("run1", main, 2).payload == {"one two": 2, "three": 1}
    assert made(tmp_path) == ["count three"]


def test_the_command_answers_processes_as_the_function_does(tmp_path: Path) -> None:
    """`replay` and `rerun` execute code in one way, whoever calls them."""
    file = tmp_path / "workers_of_a_command.py"
    file.write_text(
        "import os, joined_programs as p\n"
        "main = p.processes(p.count, os.environ.get('TEXTS', 'one two,three').split(','))\n",
        encoding="utf-8",
    )
    environment = {"PYTHONPATH": os.path.dirname(__file__)}
    assert as_process("run", f"{file}:main", env=environment).returncode == 0
    made(tmp_path)
    app = ("--app", f"{file}:main")
    same = as_process("replay", "run1", *app, env=environment)
    assert (same.returncode, same.stderr, same.stdout.split()[:3]) == (0, "", ["run1", "counting", "identical"])
    other = as_process("replay", "run1", *app, env={**environment, "TEXTS": "one two,four"})
    assert (other.returncode, "other arguments" in other.stdout) == (1, True)
    (line,) = other.stderr.splitlines()  # which writer it is depends on who came first
    assert re.fullmatch(
        r"agentreplay: this process was stopped, as the whole replay is: step 1, call 1\.w\d+\.1: other arguments", line
    )
    assert made(tmp_path) == []


def test_a_process_that_is_at_work_when_the_step_begins_cannot_go_on_in_the_middle(tmp_path: Path) -> None:
    """The error names the step from which it can be had anew, and that works."""

    def main() -> None:
        context: Any = multiprocessing.get_context("fork")
        with ar.record("counting", payload={}) as run:
            to, back = context.Queue(), context.Queue()
            process: Any = None
            for text in ("one two", "three"):
                with run.round() as r:
                    if process is None:
                        process = context.Process(target=counts_on, args=(run.id, to, back), daemon=True)
                        process.start()
                    to.put(text)
                    r.change(new={**r.payload, text: back.get(timeout=10)})
            to.put(None)
            process.join()

    main()
    made(tmp_path)
    with pytest.raises(ar.UsageError, match=r"ends in the middle .* agentreplay rerun run1 --step 1$"):
        ar.rerun("run1", main, 2)
    assert made(tmp_path) == []
    assert ar.rerun("run1", main, 1).payload == {"one two": 2, "three": 1}
    assert made(tmp_path) == ["count one two", "count three"]


def counts_on(run: str, to: Any, back: Any) -> None:
    """A process that counts words until it is told to stop."""
    with ar.join(run):
        while (text := to.get(timeout=10)) is not None:
            back.put(count_words(text))


def test_threads_that_are_stopped_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever replays the code tells why, once."""

    def main(text: str) -> None:
        with ar.record("counting") as run, run.round():
            thread = threading.Thread(target=count, args=(run.id, text))
            thread.start()
            thread.join()

    main("one two")
    with pytest.raises(ar.Divergence):
        ar.replay("run1", lambda: main("three"))
    assert capfd.readouterr().err == ""


def sending(*texts: str, place: str) -> Callable[[], None]:
    """A run with a worker in each round that does harm: in a process of its own, or in a thread."""

    def main() -> None:
        with ar.record("sending", payload={}) as run:
            for text in texts:
                with run.round() as r:
                    if place == "thread":
                        found: list[int] = []
                        thread = threading.Thread(
                            target=lambda text=text, found=found: found.append(sends(run.id, text))
                        )
                        thread.start()
                        thread.join()
                        sent = found[0]
                    else:
                        sent = counted(run.id, text, sends, start=place)
                    r.change(new={**r.payload, text: sent})
            run.complete(dict(run.payload))

    return main


@pytest.mark.parametrize("place", ["fork", "spawn", "thread"])
def test_a_worker_of_a_rerun_calls_only_what_the_rerun_may(place: str, tmp_path: Path) -> None:
    """A tool that does harm is really called in a worker only where it was allowed, whatever the worker catches."""
    code = sending("one two", "three", place=place)
    code()
    assert made(tmp_path) == ["send one two", "send three"]
    with pytest.raises(ar.LiveCallRefused, match="--allow send"):
        ar.rerun("run1", code, 2)
    assert made(tmp_path) == []
    assert ar.rerun("run1", code, 2, allow=["send"]).payload == {"one two": 2, "three": 1}
    assert made(tmp_path) == ["send three"]
