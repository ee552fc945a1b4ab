"""Recorded scenarios: each is replayed from its file, forked at every step, and parts from code that was changed."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.examples import mailbox
from agentreplay.recorder.effects import effect_of
from agentreplay.recorder.events import Event
from agentreplay.recorder.importers.cassette_lines import parse_header
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore, RunInfo
from scenarios import SCENARIOS, Scenario

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "fixtures" / "cassettes"
ELSEWHERE = {"count_words"}
"""Tools that are called in processes of their own, into which the tests do not see."""

every_scenario = pytest.mark.parametrize("name", SCENARIOS)
# The workers of one example are forked.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.jsonl"


def module_of(scenario: Scenario) -> ModuleType:
    return importlib.import_module(f"agentreplay.examples.{scenario.code.partition(':')[0]}")


def code_of(scenario: Scenario, module: ModuleType | None = None) -> Any:
    return getattr(module or module_of(scenario), scenario.code.partition(":")[2])


def changed(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The code of a scenario with its change."""
    module, change = module_of(scenario), scenario.change
    source = inspect.getsource(module)
    assert source.count(change.old) == 1, f"{change.old!r} stands {source.count(change.old)} times in {module.__file__}"
    made = ModuleType(module.__name__)
    made.__file__ = module.__file__
    monkeypatch.setitem(sys.modules, module.__name__, made)
    exec(compile(source.replace(change.old, change.new), str(module.__file__), "exec"), vars(made))
    return code_of(scenario, made)


def effects_of(module: ModuleType, kinds: tuple[str, ...] = ("tool", "model")) -> list[tuple[str, Any]]:
    """The effects that a module declares, by name."""
    found = [(effect_of(thing), thing) for thing in list(vars(module).values())]
    return [(effect.name, thing) for effect, thing in found if effect is not None and effect.kind in kinds]


@contextmanager
def calls_really_made(module: ModuleType) -> Iterator[set[str]]:
    """The names of the effects of a module that are executed in this process meanwhile, in whatever thread."""
    watched: dict[CodeType, str] = {inspect.unwrap(effect).__code__: name for name, effect in effects_of(module)}
    made: set[str] = set()

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in watched:
            made.add(watched[frame.f_code])

    before = sys.getprofile()
    sys.setprofile(look)
    threading.setprofile(look)
    try:
        yield made
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]  # as documented
        sys.setprofile(before)


def imported(name: str, store: EventStore) -> RunInfo:
    """The run that a cassette is of, in a store."""
    ar.import_file(path_of(name), store=store)
    return store.run(parse_header(path_of(name).read_bytes().splitlines()[0]).run)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EventStore]:
    """A store on disk, in which other processes find the run, too."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    monkeypatch.setenv("AGENTREPLAY_STORE", url)
    opened = SqlStore(url)
    yield opened
    opened.close()


def ends_of_calls(events: list[Event]) -> list[str]:
    """Step, name and end of each call, in the order of the ends; those that have none come last."""
    called: dict[str, str] = {}
    ended = []
    for event in events:
        if event.kind in ("tool.called", "model.called"):
            called[event.data.call] = f"{event.round} {event.data.name}"
        elif event.kind in ("tool.returned", "model.returned", "tool.failed", "model.failed", "call.cancelled"):
            ended.append(f"{called.pop(event.data.call)} {event.kind.partition('.')[2]}")
    return [*ended, *[f"{call} open" for call in called.values()]]


def test_every_cassette_has_its_test_and_every_test_its_cassette() -> None:
    """Nothing is recorded that nobody looks at."""
    assert sorted(path.name for path in FOLDER.glob("*.jsonl")) == sorted(f"{name}.jsonl" for name in SCENARIOS)


@every_scenario
def test_a_scenario_is_what_its_name_says(name: str, store: EventStore) -> None:
    """Status, decisions, calls, and the events that make it."""
    scenario = SCENARIOS[name]
    info = imported(name, store)
    events = list(store.events(info))
    assert (info.agent, info.status) == (name.partition(".")[0], scenario.status)
    assert tuple(event.data.decision["step"] for event in events if event.kind == "step.decided") == scenario.decisions
    assert tuple(ends_of_calls(events)) == scenario.calls
    kinds = Counter(event.kind for event in events)
    assert {kind: kinds[kind] for kind in scenario.holds} == scenario.holds


@every_scenario
def test_a_scenario_replays_from_its_file_without_a_call(name: str) -> None:
    """The examples of today do what was recorded; all that was recorded is asked for, and nothing else."""
    scenario = SCENARIOS[name]
    with calls_really_made(module_of(scenario)) as made:
        result = ar.assert_replays(path_of(name), code_of(scenario))
    coverage = result.coverage
    assert (result.verdict, coverage.live, coverage.uncaptured, coverage.unused) == ("identical", 0, 0, 0)
    assert coverage.recorded >= 1
    assert made == set()


@every_scenario
def test_a_scenario_forks_at_every_step(name: str, store: EventStore) -> None:
    """What comes before the step is answered; from there on calls are made, those that the new run records."""
    scenario = SCENARIOS[name]
    info, agent, module = imported(name, store), code_of(scenario), module_of(scenario)
    allowed = [tool for tool, _ in effects_of(module, ("tool",))]
    head = store.run(info.uid).head_hash
    ended = []
    for step in range(1, len(scenario.forks) + 1):
        with calls_really_made(module) as made, contextlib.suppress(*scenario.raises):
            ar.rerun(info.uid, agent, step, set=scenario.edit, allow=allowed, store=store)
        fork = max((run for run in store.runs() if run.fork_of is not None), key=lambda run: run.number)
        assert (fork.fork_of, fork.origin) == (info.uid, "recorded")
        ended.append(fork.status)
        of_it = [fork, *[run for run in store.runs() if run.parent == fork.uid]]
        own = [event for run in of_it for event in store.events(run, after=(run.fork_seq or -1))]
        live = {event.data.name for event in own if event.kind in ("tool.called", "model.called")}
        assert made == live - ELSEWHERE
    assert tuple(ended) == scenario.forks
    assert store.run(info.uid).head_hash == head
    assert store.verify() == []


def test_a_scenario_with_secrets_forks_where_these_are_given(store: EventStore) -> None:
    """The recording has tokens in their place, of a key that is not here; no tool is called with a token."""
    scenario = SCENARIOS["mailbox.secrets"]
    info, module = imported("mailbox.secrets", store), module_of(scenario)
    known = {"/password": mailbox.PASSWORD, "/session_token": mailbox.SESSION}
    for step, secrets in {1: {"/password": mailbox.PASSWORD}, 2: known}.items():
        with calls_really_made(module) as made, pytest.raises(ar.RedactedValue):
            ar.rerun(info.uid, mailbox.step, step, store=store)
        assert made == set()
        with calls_really_made(module) as made:
            result = ar.rerun(info.uid, mailbox.step, step, secrets=secrets, store=store)
        assert (result.value, len(made)) == ("Invoice 17 is due", 4 - step)
    held = b"".join(row.body or b"" for run in store.runs() for row in store.rows(run))
    for secret in (mailbox.PASSWORD, mailbox.SESSION, mailbox.API_KEY):
        assert secret.encode() not in held
        assert secret not in path_of("mailbox.secrets").read_text(encoding="utf-8")


@every_scenario
def test_a_scenario_parts_from_changed_code_where_it_was_changed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the right step, as the right kind of difference, before anything is called."""
    scenario = SCENARIOS[name]
    agent = changed(scenario, monkeypatch)
    with calls_really_made(sys.modules[module_of(scenario).__name__]) as made, pytest.raises(ar.Divergence) as raised:
        ar.assert_replays(path_of(name), agent)
    parted, change = raised.value, scenario.change
    assert (parted.step, parted.kind, parted.path) == (change.step, change.kind, change.path)
    assert change.call in (None, parted.call)
    assert made == set()


def test_what_is_really_called_is_seen() -> None:
    """What the tests above rely on: in coroutines and in threads as well."""
    for name, expected in {
        "digest.parallel_tools": {"fetch", "summarise"},
        "pictures.threads": {"size_of", "shrink"},
        "story.streamed": {"tell"},
    }.items():
        module: Any = module_of(SCENARIOS[name])
        with calls_really_made(module) as made:
            module.step.run(module.START, store="memory:")
        assert made == expected


def test_a_scenario_that_is_recorded_anew_is_the_same() -> None:
    """But for times, ids and hashes. If it is not, `python fixtures/record.py` writes what is recorded today."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "fixtures" / "record.py"), "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, [f"0 of {len(SCENARIOS)} recordings differ"]), (
        done.stdout + done.stderr
    )
