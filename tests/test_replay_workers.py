"""Runs that several processes record replay: each process stands for one that joined, and none makes a call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from joined_programs import alike, at_once, commands, count, count_words, fails, outside, pooled, processes

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

TEXTS = ("one two", "three", "four five six")
LIMIT = 20.0
"""Seconds that a replay may take before it counts as one that never ends; starting processes may take some."""


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTREPLAY_STORE", str(tmp_path / "store.db"))
    monkeypatch.setenv("MADE", str(tmp_path / "made"))


def made(tmp_path: Path) -> list[str]:
    return sorted((tmp_path / "made").read_text(encoding="utf-8").splitlines()) if (tmp_path / "made").exists() else []


def ends(work: Callable[[], Any]) -> Any:
    """What some work came to, which must come to an end."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert found, "the replay has not ended"
    return found[0]


def replayed(program: Callable[[], Any], **options: Any) -> ar.ReplayResult:
    """The result of a replay."""
    result = ends(lambda: ar.replay("run1", program, **options))
    if isinstance(result, BaseException):
        raise result
    assert isinstance(result, ar.ReplayResult)
    return result


def differs(program: Callable[[], Any]) -> Any:
    """The difference that a replay finds, wherever it is waited for."""
    with pytest.raises(ar.Divergence) as raised:
        replayed(program)
    return raised.value.difference


PROGRAMS = {
    "spawned": lambda texts: processes(count, texts, "spawn"),
    "forked": lambda texts: processes(count, texts),
    "commands": commands,
    "a pool": lambda texts: pooled(count, texts),
    "alike at first": lambda texts: processes(alike, texts),
    "in event loops": lambda texts: processes(at_once, texts),
    "failing": lambda texts: processes(fails, texts),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_of_several_processes_replays_without_a_call(name: str, tmp_path: Path) -> None:
    """However the processes are started; each is answered from what one of them did."""
    program = PROGRAMS[name](TEXTS)
    program()
    before = made(tmp_path)
    result = replayed(program)
    assert (result.verdict, result.coverage.unused, result.coverage.notes) == ("identical", 0, [])
    assert result.coverage.recorded >= len(TEXTS)
    assert made(tmp_path) == before


@pytest.mark.parametrize("texts", [TEXTS[::-1], (TEXTS[1], TEXTS[2], TEXTS[0])])
def test_processes_may_be_started_in_any_order(texts: tuple[str, ...]) -> None:
    """What they ask tells them apart, also where they all ask the same at first."""
    processes(alike, TEXTS)()
    assert replayed(processes(alike, texts)).verdict == "identical"


def test_a_process_that_asks_for_something_else_is_told_of(tmp_path: Path) -> None:
    """Where the main code waits for that process and for nothing else, too."""
    processes(count, TEXTS)()
    before = made(tmp_path)
    difference = differs(processes(count, ("one two", "three", "seven")))
    assert (difference.kind, difference.name, difference.effect) == ("other arguments", "count_words", "tool")
    assert (difference.path, difference.expected, difference.actual) == ("/text", "four five six", "seven")
    assert difference.site.startswith("joined_programs.py:")
    assert made(tmp_path) == before


def test_a_process_that_is_not_started_is_missing() -> None:
    """If others that do the same are."""
    processes(count, TEXTS)()
    difference = differs(processes(count, TEXTS[:2]))
    assert (difference.kind, difference.expected["arguments"]) == ("missing call", {"text": "four five six"})


def test_a_process_more_is_told_of() -> None:
    """Nobody can stand for a writer that somebody else stands for; where all ask the same, the last is one more."""
    processes(count, TEXTS[:1] * 3)()
    difference = differs(processes(count, TEXTS[:1] * 4))
    assert (difference.path, difference.expected, difference.actual) == ("/writers", 3, 4)


def test_a_process_that_leaves_a_call_out_is_told_of() -> None:
    """When it leaves the run."""
    processes(alike, TEXTS[:1])()
    difference = differs(processes(nothing, TEXTS[:1]))
    assert (difference.kind, difference.name) == ("missing call", "setting")


def nothing(run: str, text: str) -> int:
    with ar.join(run):
        return 0


def test_a_process_that_fails_otherwise_is_told_of() -> None:
    """An error that was not recorded."""
    processes(count, TEXTS[1:2])()
    difference = differs(processes(raises, TEXTS[1:2]))
    assert (difference.kind, difference.actual["type"]) == ("another error", "builtins.ValueError")


def raises(run: str, text: str) -> int:
    with ar.join(run):
        count_words(text)
        raise ValueError(text)


PLACES = [
    ("spawn", "in a process that code has started .* have the process join the run, ar.join"),
    ("fork", "outside of the run, in a process that its code has forked, .* have the process join the run, ar.join"),
]


@pytest.mark.parametrize(("start", "place"), PLACES)
def test_a_process_makes_no_call_that_it_does_not_record(
    start: str, place: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """There is no answer to it; the replay says what to do, and the process says in a line that it was stopped."""
    processes(count, TEXTS[:1], start)()
    before = made(tmp_path)
    with pytest.raises(ar.UsageError, match=f"count_words is called {place}"):
        replayed(processes(outside, TEXTS[:1], start))
    assert made(tmp_path) == before
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("agentreplay: this process was stopped, as the whole replay is: tool count_words is called")


def test_differences_of_processes_are_collected() -> None:
    """They go on after a difference as the main code does."""
    processes(count, TEXTS)()
    result = replayed(processes(count, ("one two", "three", "four six")), collect=True)
    found = [(one.kind, one.path) for one in result.divergences]
    assert found[0] == ("other arguments", "/text")


def test_rules_of_what_is_different_each_time_hold_in_processes() -> None:
    """An argument that is left out tells nobody apart."""
    processes(count, TEXTS)()
    changed = ("one two", "three", "four seven six")
    assert replayed(processes(count, changed), ignore=["tool:count_words:$.text"]).verdict == "identical"


def test_a_run_from_a_file_replays_with_its_processes(tmp_path: Path) -> None:
    """They find it wherever the replay has it, such as in memory."""
    processes(count, TEXTS)()
    ar.export_run("run1", tmp_path / "run.jsonl")
    store = MemoryStore()
    ar.import_file(tmp_path / "run.jsonl", store=store)
    assert replayed(processes(count, TEXTS), store=store).verdict == "identical"


def test_a_thread_may_join_a_run_that_is_replayed() -> None:
    """It is answered as a process is."""

    def program() -> None:
        with ar.record("counting") as run, run.round():
            threads = [threading.Thread(target=count, args=(run.id, text)) for text in TEXTS]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    program()
    assert replayed(program).verdict == "identical"
    changed = TEXTS[:2]

    def other() -> None:
        with ar.record("counting") as run, run.round():
            for text in changed:
                with suppress(ValueError):
                    count(run.id, text)

    assert differs(other).kind == "missing call"


def test_somebody_who_joined_from_elsewhere_is_not_expected() -> None:
    """Code is not to blame if nobody joins its run who was not started by it; a note says so."""

    def program() -> None:
        with ar.record("counting") as run, run.round() as r:
            r.tool("own", {}, lambda: 1)

    with ar.record("counting") as run, run.round() as r:
        count(run.id, "a b")
        r.tool("own", {}, lambda: 1)
    result = replayed(program)
    assert (result.verdict, result.coverage.unused) == ("identical", 1)
    assert [note for note in result.coverage.notes if "joined while it was recorded, and not here" in note]


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A replay leaves no files behind."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield
    assert [path.name for path in folder.iterdir() if path.name.startswith("agentreplay")] == []
