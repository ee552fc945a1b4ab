"""Captured reads are answered in a replay, and one more or one less is told where it is."""

from __future__ import annotations

import asyncio
import os
import random
import re
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import agentreplay as ar
import ambient_agents
import pytest
from agentreplay.recorder.errors import Divergence
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay.divergence import Difference
from agentreplay.replay.reads import odd_ones
from agentreplay.replay.replayer import areplay, replay
from agentreplay.replay.rerunning import Prefix, rerun, resume
from ambient_agents import changed
from ambient_reads import CHANCE, CLOCK, ENVIRONMENT, UNIQUE, everything, shuffled
from hypothesis import given
from hypothesis import strategies as st
from recorded import log_of


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


@pytest.fixture(scope="module", autouse=True)
def _environment_without_secrets() -> Iterator[None]:
    """Reads of the whole environment meet one of ours: a machine's own may hold secrets, which no replay gives back."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ.keys() - {"PATH", "HOME", "LANG"}:
            patch.delenv(name)
        patch.setenv("AMBIENT_LAMPS", "7")
        yield


# -- the same again ------------------------------------------------------------------------------------------------


def exactly(value: Any) -> Any:
    """A value with its type, and those of its parts."""
    parts = [exactly(part) for part in value] if isinstance(value, list | tuple) else None
    return type(value), repr(value), parts


EVERY: dict[str, Callable[[], Any]] = {
    **{f"{name} {at}": code for all in (CLOCK, CHANCE, UNIQUE, ENVIRONMENT) for at, (name, code) in enumerate(all)},
    "shuffle": lambda: shuffled(list(range(50))),
    "generator": lambda: [made := random.Random(), made.gauss(0, 1), made.sample("abcdef", 3)][1:],
    "system": lambda: shuffled_by_the_system(list("abcdef")),
    "zone": lambda: datetime.now(ZoneInfo("America/St_Johns")),
    "whole": lambda: dict(os.environ),
}


def shuffled_by_the_system(items: list[str]) -> list[str]:
    random.SystemRandom().shuffle(items)
    return items


def test_every_captured_read_is_the_same_in_a_replay(store: EventStore) -> None:
    """Whatever is read gives the same value of the same type, and a replay leaves nothing replaced."""
    got: list[Any] = []

    @ar.agent("all", capture="all")
    def agent(round_index: int, context: ar.Context) -> Any:
        got.append({name: exactly(code()) for name, code in EVERY.items()})
        return ar.Continue() if round_index == 1 else ar.Complete(None)

    agent.run(store=store)
    before = everything()
    result = replay("run1", agent, store=store)
    assert (result.verdict, result.coverage.live, result.coverage.unused) == ("identical", 0, 0)
    assert got[2:] == got[:2]
    assert got[0] != got[1]
    assert everything() == before


@given(st.lists(st.lists(st.sampled_from([*sorted(EVERY), "call", "thread"]), max_size=6), min_size=1, max_size=4))
def test_any_program_of_reads_is_the_same_in_a_replay(program: list[list[str]]) -> None:
    """Reads of all kinds, between calls, in rounds, between them, and in threads."""
    got: list[list[Any]] = []

    def step(name: str) -> Any:
        if name == "call":
            return ambient_agents.stamp(str(uuid.uuid4()), time.time())
        if name == "thread":
            found: list[Any] = []
            thread = threading.Thread(target=lambda: found.append((time.time(), secrets.token_bytes(3))))
            thread.start()
            thread.join()
            return found
        return EVERY[name]()

    def code() -> None:
        found = []
        with ar.record("program", store=own, capture="all") as run:
            for names in program:
                found.append(time.time_ns())
                with run.round():
                    found += [exactly(step(name)) for name in names]
        got.append(found)

    own = MemoryStore()
    code()
    assert replay("run1", code, store=own).verdict == "identical"
    assert got[0] == got[1]


async def test_concurrent_tasks_read_the_same_in_a_replay(store: EventStore) -> None:
    """Each task gets what it read, whatever the others read meanwhile."""
    got: list[Any] = []

    async def reader(count: int) -> list[Any]:
        found = []
        for _ in range(count):
            found.append((time.time(), random.random()))
            await asyncio.sleep(0)
        return found

    @ar.agent("tasks", capture={"clock", "random"})
    async def agent(round_index: int, context: ar.Context) -> Any:
        got.append(await asyncio.gather(*(reader(count) for count in (3, 1, 4))))
        return ar.Complete(None)

    await agent.arun(store=store)
    assert (await areplay("run1", agent, store=store)).verdict == "identical"
    assert got[0] == got[1]


def test_a_redacted_variable_is_its_token_in_a_replay(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has no secret to give back; what is made of the token is compared with what was made of the secret."""
    monkeypatch.setenv("AMBIENT_DB_PASSWORD", "hunter2-9fKx3Q81z-4vT")
    got: list[str] = []

    @ar.agent("signs in", capture={"env"})
    def agent(round_index: int, context: ar.Context) -> Any:
        got.append(os.environ["AMBIENT_DB_PASSWORD"])
        ambient_agents.stamp(got[-1], 1.0)
        return ar.Complete(None)

    agent.run(store=store)
    monkeypatch.setenv("AMBIENT_DB_PASSWORD", "another one")
    assert replay("run1", agent, store=store).verdict == "identical"
    assert got[0] == "hunter2-9fKx3Q81z-4vT"
    assert got[1].startswith("[redacted:password:")


# -- one more, one less --------------------------------------------------------------------------------------------


class Mutant(NamedTuple):
    """A change of the clerk, and what a replay tells of it.

    Attributes:
        old, new: what stood there, and what stands there now.
        at: what stands in the line that is named: of the changed code, or where it is a read less, of the code before.
        shown: the first words of the hint.
        alone: whether no line beside it reads the same, which it is told from.
    """

    old: str
    new: str
    step: int
    name: str
    at: str
    shown: str
    alone: bool = True


NUMBERS = re.compile(r"ambient_agents\.py:(\d+)")
BEGUN, KEY, DAY = "        begun = time.time()\n", "        key = str(uuid.uuid4())\n", "str(date.today())"
FIRST, SECOND = "        first = seconds()\n", "        second = seconds()\n"
DRAWN = "[random.random() for _ in range(3)]"
MUTANTS = [
    Mutant(KEY, f"        uuid.uuid4()\n{KEY}", 1, "uuid", " uuid.uuid4()", "uuid.uuid4 is read more often", False),
    Mutant(KEY, KEY + "        uuid.uuid4()\n", 1, "uuid", "        uuid.uuid4()", "uuid.uuid4 is read more often"),
    Mutant(BEGUN, f"        time.time()\n{BEGUN}", 1, "clock", " time.time()", "time.time is read more often", False),
    Mutant(BEGUN, f"{BEGUN}        time.time_ns()\n", 1, "clock", "time.time_ns()", "time.time_ns is read more often"),
    Mutant(DAY, "str(date(2026, 1, 2))", 1, "clock", DAY, "When it was recorded, date.today was read at"),
    Mutant(DAY, "str(datetime.now())", 1, "clock", "str(datetime.now())", "datetime.now is read more often"),
    Mutant(FIRST, f"{FIRST}        seconds()\n", 2, "clock", " seconds()", "time.time is read more often", False),
    Mutant(FIRST, "        first = 0.0\n", 2, "clock", "first = seconds()", "When it was recorded, time.time was"),
    Mutant(SECOND, "        second = first\n", 2, "clock", "second = seconds()", "When it was recorded, time.time was"),
    Mutant(DRAWN, DRAWN.replace("3", "4"), 2, "random", "random.random()", "random.random is read more often"),
    Mutant(DRAWN, DRAWN.replace("3", "2"), 2, "random", "random.random()", "When it was recorded, random.random was"),
    Mutant(DRAWN, "[EARLY.random() for _ in range(3)]", 2, "random", "EARLY.random()", "Random.random is read more"),
    Mutant('"CLERK_PLACE", "here"', '"CLERK_DESK", "here"', 2, "env", "CLERK_DESK", "CLERK_DESK is read more often"),
    Mutant('os.environ.get("CLERK_PLACE", "here")', '"here"', 2, "env", "os.environ.get(", "When it was recorded, CLE"),
    Mutant("token_hex(4)", "token_urlsafe(4)", 3, "random", "token_urlsafe", "secrets.token_urlsafe is read more"),
    Mutant("secrets.token_hex(4)", '"00"', 3, "random", "token_hex(4)", "When it was recorded, secrets.token_hex was"),
    Mutant("datetime.now(UTC)", "datetime(2026, 1, 2)", 3, "clock", "datetime.now(UTC)", "When it was recorded, date"),
    Mutant("datetime.now(UTC)", "datetime.now()", 3, "clock", "datetime.now()", "datetime.now is read more often"),
]


def parted(agent: Any, store: EventStore) -> Difference:
    """The difference that stops a replay."""
    before = everything()
    with pytest.raises(Divergence) as caught:
        replay("run1", agent, store=store)
    assert everything() == before
    return caught.value.difference


@pytest.mark.parametrize("mutant", MUTANTS, ids=range(len(MUTANTS)))
def test_a_read_more_or_less_is_told_where_it_is(store: EventStore, mutant: Mutant) -> None:
    """At the step in which it is, with its source and its line; also where another call shows it first."""
    _, before = changed()
    changed()[0].run({}, store=store)
    agent, now = changed((mutant.old, mutant.new))
    found = parted(agent, store)
    assert (found.kind, found.step, found.name) == ("another value read", mutant.step, mutant.name)
    assert found.hint.startswith(mutant.shown)
    lines = [(now if found.site else before)[int(line) - 1] for line in NUMBERS.findall(f"{found.site} {found.hint}")]
    assert mutant.at in (lines[0] if mutant.alone else "".join(lines))


def test_a_read_more_names_the_call_that_showed_it(store: EventStore) -> None:
    """Where a value went astray, the read is told, and what it led to is told after it."""
    another = (DAY, "str(uuid.uuid4())")
    changed(another)[0].run({}, store=store)
    agent, now = changed(another, (KEY, f"        uuid.uuid4()\n{KEY}"))
    line = now.index("        uuid.uuid4()") + 1
    found = replay("run1", agent, store=store, collect=True).divergences
    assert [(one.kind, one.call, one.path) for one in found[:2]] == [
        ("another value read", None, ""),
        ("other arguments", "1.1", "/key"),
    ]
    assert found[0].hint == (
        f"uuid.uuid4 is read more often than it was. It may also be that at ambient_agents.py:{line}. It showed at "
        "call 1.1, since the reads after it got each other's values. If the code is meant to read it, record the run "
        "again."
    )
    assert found[0].actual == {"source": "uuid", "what": "uuid.uuid4"}
    assert [one.kind for one in found[2:]] == []


REFACTORINGS = [
    ("import dataclasses\n", "import dataclasses\n\n\n"),
    (BEGUN + KEY, KEY + BEGUN),
    (FIRST, "        # the first of two\n\n" + FIRST),
    ("first = seconds()", "first = time.time()"),
    ('os.environ.get("CLERK_PLACE", "here")', 'os.getenv("CLERK_PLACE") or "here"'),
    ("        place = os.environ", "        time.monotonic()\n        place = os.environ"),
]


@pytest.mark.parametrize(("old", "new"), REFACTORINGS, ids=range(len(REFACTORINGS)))
def test_code_that_reads_the_same_elsewhere_is_no_divergence(store: EventStore, old: str, new: str) -> None:
    """Lines may move, independent reads may change places, and one thing may be read in another way."""
    changed()[0].run({}, store=store)
    result = replay("run1", changed((old, new))[0], store=store)
    assert (result.verdict, result.coverage.notes) == ("identical", [])


def test_reads_between_rounds_belong_to_no_round(store: EventStore) -> None:
    """What is read before the first round, between two and after the last is answered, and missed when it is not."""

    def block(between: Callable[[], Any]) -> Callable[[], None]:
        def code() -> None:
            with ar.record("block", store=store, capture={"clock"}) as run:
                time.time()
                for _ in range(2):
                    with run.round():
                        date.today()
                    between()
                run.complete()

        return code

    block(lambda: time.time())()
    assert replay("run1", block(lambda: time.time()), store=store).verdict == "identical"
    missing = replay("run1", block(lambda: None), store=store, collect=True).divergences
    assert [(one.kind, one.step, one.seq) for one in missing] == [
        ("another value read", 1, 6),
        ("another value read", 2, 11),
    ]
    found = parted(block(lambda: (time.time(), time.time())), store)
    assert (found.kind, found.step) == ("another value read", 1)


# -- what was captured, and what was not ---------------------------------------------------------------------------


def test_what_was_captured_counts_and_not_what_the_code_says(store: EventStore) -> None:
    """The recording says which reads it has; where the code captures others, a note says so."""

    def code(capture: Any) -> Callable[[], None]:
        def run() -> None:
            with ar.record("code", store=store, capture=capture):
                got.append((time.time(), random.random()))

        return run

    got: list[tuple[float, float]] = []
    code({"clock"})()
    result = replay("run1", code("all"), store=store)
    assert result.verdict == "identical"
    assert result.coverage.notes == [
        "the code captures clock, env, random, uuid; run1 was recorded with clock captured, which counts here"
    ]
    assert replay("run1", code(None), store=store).verdict == "identical"
    assert got[0][0] == got[1][0] == got[2][0]
    assert len({random for _, random in got}) == 3


def test_a_replay_counts_what_libraries_read(store: EventStore) -> None:
    """What was not captured is in the coverage, and said."""

    @ar.agent("home", capture={"env"})
    def agent(round_index: int, context: ar.Context) -> Any:
        context.uuid4()
        return ar.Complete(os.path.expandvars("$HOME"))

    agent.run(store=store)
    coverage = replay("run1", agent, store=store).coverage
    assert coverage.uncaptured == 1
    assert coverage.notes == ["run1: not captured, since libraries read it: env 1 (posixpath 1)"]


def test_a_rerun_is_answered_up_to_its_step_and_reads_live_from_there(store: EventStore) -> None:
    """The fork shares the reads before its step, has its own from there on, and replays like any run."""
    got: list[tuple[int, float, uuid.UUID]] = []

    @ar.agent("twice", capture={"clock", "uuid"})
    def agent(round_index: int, context: ar.Context) -> Any:
        got.append((round_index, time.time(), uuid.uuid4()))
        return ar.Continue() if round_index < 3 else ar.Complete(None)

    agent.run(store=store)
    rerun("run1", agent, 2, store=store)
    assert got[3] == got[0]
    assert not set(got[4:6]) & set(got[1:3])
    assert replay("run2", agent, store=store).verdict == "identical"
    assert got[6:] == got[3:6]
    assert [event.data.value for event in log_of(store, "run2") if event.kind == "value.read"][2] == got[4][1]


@pytest.mark.parametrize("prefix", ["execute", "fold"])
def test_a_run_that_is_resumed_and_forked_captures_throughout(store: EventStore, prefix: Prefix) -> None:
    """Its parts are captured as the first was, whoever recorded them, and all of it replays."""

    @ar.agent("asks", capture={"clock"})
    def agent(round_index: int, context: ar.Context) -> Any:
        context.change(new={f"at{round_index}": time.time()})
        if round_index == 2:
            context.change(new={"answer": context.interrupt("go"), "then": time.time()})
        return ar.Continue() if round_index < 3 else ar.Complete(time.time())

    agent.run({}, store=store)
    resume("run1", agent, answers={"2.go.1": True}, store=store)
    rerun("run1", agent, 3, prefix=prefix, store=store)
    first, fork = ([e for e in log_of(store, run) if e.kind == "value.read"] for run in ("run1", "run2"))
    assert [event.round for event in first] == [event.round for event in fork] == [1, 2, 2, 3, 3]
    assert [event.data.value for event in first][:3] == [event.data.value for event in fork][:3]
    assert not {event.data.value for event in first[3:]} & {event.data.value for event in fork[3:]}
    assert [replay(run, agent, store=store).verdict for run in ("run1", "run2")] == ["identical", "identical"]


def test_a_child_run_is_answered_from_its_own_recording(store: EventStore) -> None:
    """What a child run captured because the run around does is answered to it."""
    got: list[float] = []

    @ar.agent("child")
    def child(round_index: int, context: ar.Context) -> Any:
        got.append(time.time())
        return ar.Complete(None)

    @ar.agent("parent", capture={"clock"})
    def parent(round_index: int, context: ar.Context) -> Any:
        got.append(time.time())
        context.run_agent(child)
        return ar.Complete(None)

    parent.run({}, store=store)
    assert replay("run1", parent, store=store).verdict == "identical"
    assert got[2:] == got[:2]


# -- which one it is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("longer", "shorter", "at"),
    [
        (["a.py:1"], [], 0),
        (["a.py:10", "a.py:20", "a.py:30"], ["a.py:10", "a.py:29"], 1),
        (["a.py:10", "a.py:20", "a.py:30"], ["a.py:19", "a.py:29"], 0),
        (["a.py:10", "a.py:20", "a.py:30"], ["a.py:10", "a.py:20"], 2),
        (["a.py:5", "a.py:5", "a.py:5", "a.py:9"], ["a.py:5", "a.py:5", "a.py:9"], 2),
        (["a.py:10", "b.py:4", "b.py:4", "a.py:12"], ["a.py:10", "a.py:12"], 1),
        ([None, "a.py:10"], ["a.py:11"], 0),
        (["a.py:10", "a.py:11"], ["a.py:10", "a.py:11"], 2),
    ],
)
def test_the_odd_one_is_that_without_which_the_places_fit(longer: list[Any], shorter: list[Any], at: int) -> None:
    """Of the reads of one side, which those are that the other does not have."""
    assert odd_ones(longer, shorter)[0] == at


@given(st.lists(st.integers(1, 400), min_size=1, max_size=30, unique=True), st.data())
def test_a_line_that_is_added_to_code_is_found(lines: list[int], data: st.DataObject) -> None:
    """Lines before it stay, lines after it move by one: so it is told from those that do not stand right beside it."""
    lines.sort()
    new = data.draw(st.integers(1, 400))
    before = [f"a.py:{line * 10}" for line in lines]
    now = sorted([new * 10 + 5, *(line * 10 + (line > new) for line in lines)])
    assert [now[at] for at in odd_ones([f"a.py:{line}" for line in now], before)[:1]] == [new * 10 + 5]


def test_the_moment_is_read_once(store: EventStore) -> None:
    """Of one read there is one event, whatever the function is made of."""

    def code() -> None:
        with ar.record("code", store=store, capture="all"):
            datetime.now(UTC), date.today(), uuid.uuid1(), uuid.uuid4(), random.gauss(0, 1)

    code()
    assert len([event for event in log_of(store) if event.kind == "value.read"]) == 5


# -- another read in the place of one ------------------------------------------------------------------------------


def drawing(draw: Callable[[], Any]) -> Any:
    """An agent that puts what it draws into the payload."""

    @ar.agent("draws", capture={"random"})
    def step(round_index: int, context: ar.Context) -> Any:
        context.change(new={"drawn": draw()})
        return ar.Complete(1)

    return step


@pytest.mark.parametrize(
    ("before", "now", "path", "expected", "actual"),
    [
        (lambda: random.random(), lambda: random.randint(1, 6), "/what", "random.random", "random.randint"),
        (lambda: random.randint(1, 6), lambda: random.randint(1, 60), "/arguments/b", 6, 60),
        (lambda: random.gauss(0, 1), lambda: random.gauss(0), "/arguments/sigma", 1, None),
        (lambda: random.choice("abc"), lambda: random.choice("abcd"), "/arguments/items", 3, 4),
        (lambda: random.choices("ab", k=2), lambda: random.choices("ab", k=3), "/arguments/k", 2, 3),
        (lambda: random.sample("abc", 2), lambda: random.sample("abc", 1), "/arguments/k", 2, 1),
        (
            lambda: (random.random(), random.randint(1, 6)),
            lambda: (random.randint(1, 6), random.random()),
            "/what",
            "random.random",
            "random.randint",
        ),
    ],
)
def test_another_draw_is_told_as_what_it_is(
    store: EventStore, before: Any, now: Any, path: str, expected: Any, actual: Any
) -> None:
    """Its function and its arguments are compared, not only that there is a value for it."""
    drawing(before).run({}, store=store)
    assert replay("run1", drawing(before), store=store).verdict == "identical"
    with pytest.raises(Divergence) as caught:
        replay("run1", drawing(now), store=store)
    found = caught.value.difference.to_json()
    assert (found["kind"], found["name"]) == ("another value read", "random")
    assert (found["path"], found["expected"], found["actual"]) == (path, expected, actual)


def test_arguments_of_a_draw_may_be_written_in_any_way(store: EventStore) -> None:
    """By place or by name, they are the same."""
    drawing(lambda: random.randint(1, 6)).run({}, store=store)
    assert replay("run1", drawing(lambda: random.randint(b=6, a=1)), store=store).verdict == "identical"


@pytest.mark.parametrize("turn", [False, True])
def test_another_draw_of_the_context_is_told(store: EventStore, turn: bool) -> None:
    """A number of bits in the place of a float, or the other way around."""

    def drawing(number: bool) -> Any:
        @ar.agent("draws")
        def step(round_index: int, context: ar.Context) -> Any:
            context.change(new={"drawn": context.random.randint(1, 6) if number else context.random.random()})
            return ar.Complete(1)

        return step

    drawing(turn).run({}, store=store)
    assert replay("run1", drawing(turn), store=store).verdict == "identical"
    with pytest.raises(Divergence) as caught:
        replay("run1", drawing(not turn), store=store)
    assert caught.value.difference.kind == "another value read"
