"""Code that does not know of the recorder is recorded in what it reads, and differs in nothing else."""

from __future__ import annotations

import asyncio
import datetime as dates
import importlib
import logging
import os
import pickle
import random
import secrets
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from time import time as seconds
from types import ModuleType
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import agentreplay as ar
import ambient_agents
import pytest
from agentreplay.recorder import loop, run_log
from agentreplay.recorder.ambient import sources_of
from agentreplay.recorder.ambient_frames import home_of, whose_file, whose_names
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.events import SOURCES, Event
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.recorder.values import decode
from agentreplay.replay.replayer import replay
from ambient_reads import CHANCE, CLOCK, ENVIRONMENT, UNIQUE, everything, shuffled
from hypothesis import given
from hypothesis import strategies as st
from recorded import log_of, one


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After each test every function is where it was before, the very one."""
    before = everything()
    yield
    assert [name for name, value in everything().items() if value is not before[name]] == []


class Read(NamedTuple):
    source: str
    what: str | None
    value: Any


def reads_of(store: EventStore, run: str = "@last") -> list[Read]:
    """What was read in a run, in order."""
    return [Read(e.data.source, e.data.what, decode(e.data.value)) for e in read_events(store, run)]


def read_events(store: EventStore, run: str = "@last") -> list[Event]:
    return [event for event in log_of(store, run) if event.kind == "value.read"]


def captured(code: Callable[[], Any], store: EventStore, capture: Any = "all") -> Any:
    """Run code in a block that captures what it reads."""
    with ar.record("code", store=store, capture=capture):
        return code()


# -- what is captured ----------------------------------------------------------------------------------------------


def test_each_read_is_recorded_with_its_place_and_value(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read says what was read, where, and what came of it; the code gets just that."""
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.25)
    monkeypatch.setattr(random, "randint", lambda a, b: a + b)
    monkeypatch.setenv("AMBIENT_PLACE", "the desk")
    with ar.record("code", store=store, capture="all"):
        got = [time.time(), random.randint(3, 4), os.environ["AMBIENT_PLACE"]]
    line = test_each_read_is_recorded_with_its_place_and_value.__code__.co_firstlineno + 6
    assert got == [1_700_000_000.25, 7, "the desk"]
    assert [(e.data.source, e.data.what, e.data.value, e.data.site) for e in read_events(store)] == [
        ("clock", "time.time", 1_700_000_000.25, f"test_ambient.py:{line}"),
        ("random", "random.randint", 7, f"test_ambient.py:{line}"),
        ("env", "AMBIENT_PLACE", {"AMBIENT_PLACE": "the desk"}, f"test_ambient.py:{line}"),
    ]


@pytest.mark.parametrize("source", SOURCES)
def test_only_what_is_named_is_captured(store: EventStore, source: str) -> None:
    """Of all the code reads, the sources that were named are recorded, and the run says which those were."""

    def code() -> None:
        time.time(), random.random(), uuid.uuid4(), os.getenv("HOME"), os.urandom(2), secrets.token_hex(2)

    captured(code, store, {source})
    assert {read.source for read in reads_of(store)} == {source}
    assert one(store, "run.started").data.captured == [source]


def test_what_may_be_captured_is_said_by_its_name() -> None:
    """All, some, one, none; anything else is refused, where it is said."""
    assert sources_of("all") == {"clock", "env", "random", "uuid"}
    assert sources_of({"clock", "uuid"}) == {"clock", "uuid"}
    assert sources_of("env") == {"env"}
    assert sources_of(()) == frozenset()
    assert sources_of(None) is None
    with pytest.raises(UsageError) as refused:
        ar.record("code", capture=["clock", "dice"])
    assert str(refused.value) == "capture is \"all\" or some of clock, env, random, uuid; there is no source 'dice'"
    with pytest.raises(UsageError):
        ar.agent("code", capture="cloc")(lambda round, context: None)


def test_by_default_nothing_is_captured_or_replaced(store: EventStore) -> None:
    """Without the word a run leaves everything where it is."""
    before = everything()
    with ar.record("code", store=store):
        assert [name for name, value in everything().items() if value is not before[name]] == []
        time.time()
    assert reads_of(store) == []
    assert "captured" not in one(store, "run.started").data.model_fields_set


@pytest.mark.parametrize(
    ("source", "what", "code"),
    [
        (source, *one)
        for source, all in (("clock", CLOCK), ("random", CHANCE), ("uuid", UNIQUE), ("env", ENVIRONMENT))
        for one in all
    ],
)
def test_every_way_to_read_a_source_is_captured(
    store: EventStore, source: str, what: str, code: Callable[[], Any]
) -> None:
    """Each function of a source is one read of it, made by the line that calls it, and gives what it is to give."""
    value = captured(code, store)
    assert type(value) is type(code())
    events = [event for event in read_events(store) if event.data.what == what]
    assert len(events) >= 1
    assert {event.data.source for event in read_events(store)} == {source}
    assert {event.data.site for event in events} == {f"ambient_reads.py:{code.__code__.co_firstlineno}"}


def test_a_name_bound_before_the_run_is_captured(store: EventStore) -> None:
    """`from time import time` of long ago makes no difference, and is as it was after the run."""
    assert captured(lambda: (seconds(), ambient_agents.seconds()), store, {"clock"}) == tuple(
        read.value for read in reads_of(store)
    )
    assert [read.what for read in reads_of(store)] == ["time.time", "time.time"]
    assert seconds is ambient_agents.ORIGINALLY


def test_a_name_bound_during_the_run_is_put_right(store: EventStore, tmp_path: Path) -> None:
    """What is imported while a run is in progress has the function itself after it, also if it is a library."""
    (tmp_path / "late_module.py").write_text("from time import time\nread = lambda: time()\n")
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "late_library.py").write_text("from time import time\n")
    sys.path[:0] = [str(tmp_path), str(library)]
    try:
        with ar.record("code", store=store, capture={"clock"}):
            late, bought = importlib.import_module("late_module"), importlib.import_module("late_library")
            read = late.read()
    finally:
        del sys.path[:2]
        sys.modules.pop("late_module", None)
        sys.modules.pop("late_library", None)
    assert [one.value for one in reads_of(store)] == [read]
    assert late.time is time.time is ambient_agents.ORIGINALLY
    assert bought.time is time.time


def test_code_that_is_in_no_module_of_the_program_is_captured(store: EventStore) -> None:
    """Code that was executed with names of its own, as a notebook's is, has its names looked at like a module's."""
    names: dict[str, Any] = {"ar": ar, "store": store}
    code = """
from time import time
@ar.agent("cell", capture="clock")
def step(round, context):
    return ar.Complete(time())
"""
    exec(compile(code, "<cell 3>", "exec"), names)
    result = names["step"].run(store=store)
    assert [(event.data.value, event.data.site) for event in read_events(store)] == [(result.value, "<cell 3>:5")]
    assert names["time"] is ambient_agents.ORIGINALLY


# -- what is not ---------------------------------------------------------------------------------------------------


def test_what_happens_in_a_call_is_covered_by_its_answer(store: EventStore) -> None:
    """A tool's own reads are not recorded."""
    with ar.record("code", store=store, capture="all") as run, run.round() as r:
        r.tool("tell", {}, lambda: time.time() + random.random())
        assert reads_of(store) == []
        time.time()
    assert [read.what for read in reads_of(store)] == ["time.time"]


def test_what_is_read_for_a_read_is_covered_by_it(store: EventStore) -> None:
    """A value read through the context is one read, whatever it is made of, and its own reads stay single."""
    with ar.record("code", store=store, capture="all") as run:
        run.read("age", lambda: (time.time(), uuid.uuid4()))
        run.now(), run.uuid4(), run.random.random()
    assert [(read.source, read.what) for read in reads_of(store)] == [
        ("age", None),
        ("clock", None),
        ("uuid", None),
        ("random", None),
    ]


def test_what_is_read_to_look_at_a_value_is_no_read(store: EventStore) -> None:
    """A `__repr__` that the recorder calls belongs to no run; one that the code calls does."""

    class Told:
        def __repr__(self) -> str:
            return f"told at {time.time()}"

    with ar.record("code", store=store, capture={"clock"}) as run:
        run.change(new={"told": Told()})
        run.tool("tell", {"what": Told()}, lambda what: None)
        assert reads_of(store) == []
        assert repr(Told()) == f"told at {reads_of(store)[0].value}"


def test_a_clock_of_the_applications_own_is_read_once(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the code has put a function in the clock's place, for the recorder too, that is no read of the code's."""
    real = time.time
    monkeypatch.setattr(run_log, "time_ns", lambda: int(time.time() * 1e9))
    monkeypatch.setattr(time, "time", lambda: real() + 5)

    def code() -> None:
        with ar.record("code", store=store, capture={"clock"}) as run, run.round():
            run.report("one")
            time.time()
            run.change(new={"at": time.time_ns()})

    code()
    assert [read.what for read in reads_of(store)] == ["time.time", "time.time_ns"]
    assert replay("run1", code, store=store).verdict == "identical"


def test_what_libraries_read_passes_and_is_counted(store: EventStore) -> None:
    """A read that the standard library makes for itself is not recorded; how many there were is said at the end."""

    def code() -> None:
        logging.getLogger("ambient").warning("one")
        logging.getLogger("ambient").warning("two")
        os.path.expanduser("~/x")
        uuid.UUID(int=1)

    captured(code, store)
    assert reads_of(store) == []
    report = one(store, "report").data
    assert (report.source, report.content) == ("capture", {"clock": {"logging": 2}, "env": {"posixpath": 2}})
    assert report.message == "not captured, since libraries read it: clock 2 (logging 2); env 2 (posixpath 2)"
    assert [event.kind for event in log_of(store)][-2:] == ["report", "run.finished"]


def test_clocks_that_only_measure_are_never_touched(store: EventStore) -> None:
    """Monotonic clocks are read as ever."""
    measuring = (time.monotonic, time.perf_counter, time.monotonic_ns, time.perf_counter_ns, time.process_time)

    def code() -> None:
        assert measuring == (
            time.monotonic,
            time.perf_counter,
            time.monotonic_ns,
            time.perf_counter_ns,
            time.process_time,
        )
        assert [read() >= 0 for read in measuring] == [True] * 5

    captured(code, store)
    assert reads_of(store) == []


def test_an_argument_that_says_the_moment_is_no_read(store: EventStore) -> None:
    """What is worked out from what the code has itself is not recorded."""

    def code() -> list[Any]:
        at = time.gmtime(0)
        return [
            time.strftime("%Y", at),
            time.asctime(at),
            random.Random(3).random(),
            uuid.uuid5(uuid.NAMESPACE_DNS, "a"),
        ]

    assert captured(code, store) == code()
    assert reads_of(store) == []


# -- whose code it is ----------------------------------------------------------------------------------------------


def test_a_file_says_whose_code_it_holds() -> None:
    """Folders of installed packages and of the standard library are libraries, wherever they are."""
    assert whose_file(__file__) == "application"
    assert whose_file("/home/me/project/agent.py") == "application"
    assert whose_file("/home/me/project/.venv/lib/python3.11/site-packages/attr/_make.py") == "library"
    assert whose_file("/usr/lib/python3/dist-packages/apt.py") == "library"
    assert whose_file(logging.__file__) == "library"
    assert whose_file("<frozen os>") == "library"
    assert whose_file(loop.__file__) == "ours"
    assert whose_names({"__name__": "__main__", "__spec__": None}) == "application"
    assert whose_names(vars(logging)) == "library"
    assert whose_names(vars(sys)) == "library"


def test_an_installed_agent_is_the_application(store: EventStore, tmp_path: Path) -> None:
    """Where the agent lies among the installed packages, its own package is captured, and the others are not."""
    packages = tmp_path / "site-packages"
    (packages / "my_agent").mkdir(parents=True)
    (packages / "my_agent" / "__init__.py").write_text("")
    (packages / "my_agent" / "reading.py").write_text("from time import time\ndef read():\n    return time()\n")
    (packages / "bought.py").write_text("import time\ndef read():\n    return time.time()\n")
    agent = "import agentreplay as ar\nimport bought\nfrom . import reading\n\n@ar.agent('mine', capture='clock')\n"
    agent += "def step(round, context):\n    bought.read()\n    return ar.Complete(reading.read())\n"
    (packages / "my_agent" / "agent.py").write_text(agent)
    sys.path.insert(0, str(packages))
    try:
        result = importlib.import_module("my_agent.agent").step.run(store=store)
    finally:
        sys.path.remove(str(packages))
        for name in [name for name in sys.modules if name.split(".")[0] in ("my_agent", "bought")]:
            del sys.modules[name]
    assert [(event.data.site, event.data.value) for event in read_events(store)] == [("reading.py:3", result.value)]
    assert one(store, "report").data.content == {"clock": {"bought": 1}}
    assert home_of(str(packages / "my_agent" / "agent.py")) == f"{packages}/my_agent/"
    assert home_of(str(packages / "bought.py")) == f"{packages}/bought.py"
    assert home_of(__file__) is None
    assert home_of(logging.__file__) is None


# -- the code differs in nothing -----------------------------------------------------------------------------------


class Moment(datetime):
    """A datetime of the user's own."""


class Day(date):
    """A date of the user's own."""


class Zone(dates.tzinfo):
    """A time zone of the user's own."""

    def utcoffset(self, at: datetime | None) -> timedelta:
        return timedelta(hours=3)

    def dst(self, at: datetime | None) -> timedelta:
        return timedelta(0)


def test_the_types_of_dates_stay_what_they_are(store: EventStore) -> None:
    """While reads are captured, `datetime` and `date` are the same types, and so are their values."""

    def code() -> None:
        for made in (datetime.now(), datetime.now(UTC), dates.datetime.today(), datetime(2026, 1, 2)):
            assert type(made) is datetime is dates.datetime
            assert isinstance(made, date)
            assert pickle.loads(pickle.dumps(made)) == made
        assert type(date.today()) is date
        assert pickle.loads(pickle.dumps([datetime, date])) == [datetime, date]
        assert type(Moment.now()) is type(Moment.now(UTC)) is type(Moment.today()) is Moment
        assert type(Day.today()) is Day
        zone = Zone()
        here = datetime.now(zone)
        assert here.tzinfo is zone
        assert abs(here - datetime.now(UTC)) < timedelta(minutes=1)
        assert datetime.now(ZoneInfo("Asia/Kathmandu")).utcoffset() == timedelta(hours=5, minutes=45)

    captured(code, store, {"clock"})
    assert len(reads_of(store)) == 11


def test_functions_are_pickled_and_shown_under_their_names(store: EventStore) -> None:
    """What stands in for a function is taken for it by name."""
    functions = [time.time, random.choice, random.random, os.urandom, uuid.uuid1, datetime.now, date.today]

    def code() -> None:
        inside = [time.time, random.choice, random.random, os.urandom, uuid.uuid1, datetime.now, date.today]
        for before, now in zip(functions, inside, strict=True):
            assert now.__name__ == before.__name__
            assert now.__doc__ == before.__doc__
            assert pickle.loads(pickle.dumps(now)) == now

    captured(code, store)


def test_errors_are_those_that_the_functions_raise(store: EventStore) -> None:
    """A read that fails raises what it would raise; a variable that is not set is one read."""
    wrong: list[Callable[[], Any]] = [
        lambda: random.choice([]),
        lambda: random.randint(5, 1),
        lambda: random.sample({1, 2}, 1),
        lambda: random.choices([1, 2], [1]),
        lambda: os.environ["NO_SUCH"],
        lambda: os.environ[7],  # type: ignore[index]  # which is the error
        lambda: os.urandom(-1),
        lambda: datetime.now("UTC"),  # type: ignore[arg-type]  # which is the error
        lambda: time.strftime(),  # type: ignore[call-arg]  # which is the error
        lambda: time.time(1),  # type: ignore[call-arg]  # which is the error
    ]

    def outcomes() -> list[tuple[type[BaseException], str]]:
        found = []
        for code in wrong:
            with pytest.raises(Exception) as caught:
                code()
            found.append((caught.type, str(caught.value)))
        return found

    assert captured(outcomes, store) == outcomes()


SEEDED: dict[str, Callable[[], Any]] = {
    "random": lambda: random.random(),
    "getrandbits": lambda: random.getrandbits(70),
    "randrange": lambda: random.randrange(10**30),
    "gauss": lambda: random.gauss(2, 3),
    "choice": lambda: random.choice("abcdefg"),
    "choices": lambda: random.choices("abcdefg", k=3),
    "weighted": lambda: random.choices("abc", cum_weights=[1, 4, 9], k=3),
    "sample": lambda: random.sample("abcdefg", 3),
    "counted": lambda: random.sample("abc", 4, counts=[1, 2, 3]),
    "shuffle": lambda: shuffled(list("abcdefg")),
    "bytes": lambda: random.randbytes(3),
    "early": lambda: random.Random(5).choice("abcdefg"),
}


@given(st.integers(0, 2**40), st.lists(st.sampled_from(sorted(SEEDED)), max_size=12))
def test_a_seeded_program_draws_what_it_draws_uncaptured(seed: int, program: list[str]) -> None:
    """What follows a seed of the program's own is the same with and without capture, and so is what comes after."""

    def code() -> list[Any]:
        random.seed(seed)
        return [SEEDED[name]() for name in program]

    state = random.getstate()
    try:
        expected, after = code(), random.random()
        assert captured(code, MemoryStore()) == expected
        assert random.random() == after
    finally:
        random.setstate(state)


class Shelf:
    """Something with items by number, which notes how they are moved."""

    def __init__(self, items: list[int]) -> None:
        self.items = items
        self.moved: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, at: int) -> int:
        return self.items[at]

    def __setitem__(self, at: int, item: int) -> None:
        self.moved.append((at, item))
        self.items[at] = item


@given(st.integers(0, 2**40), st.integers(0, 20), st.sampled_from([list, bytearray, deque, Shelf]))
def test_a_shuffle_moves_what_it_would_move(seed: int, count: int, kind: Callable[[list[int]], Any]) -> None:
    """Whatever is shuffled, its items are swapped as they would be, in place."""

    def code() -> Any:
        random.seed(seed)
        return shuffled(kind(list(range(count))))

    state = random.getstate()
    try:
        expected, found = code(), captured(code, MemoryStore())
    finally:
        random.setstate(state)
    shown = (lambda shelf: (shelf.items, shelf.moved)) if kind is Shelf else list
    assert shown(found) == shown(expected)


def test_the_environment_is_what_it_is(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, in part, and changed by the code itself."""
    monkeypatch.setenv("AMBIENT_PLACE", "here")

    def code() -> list[Any]:
        os.environ["AMBIENT_PLACE"] = "there"
        return [
            os.environ["AMBIENT_PLACE"],
            os.environ.setdefault("AMBIENT_PLACE", "nowhere"),
            dict(os.environ),
            sorted(os.environ.items()),
            os.environ.copy(),
            os.environ | {"A": "1"},
            sorted(os.environ.keys()),
            len(os.environ),
            os.environ.pop("AMBIENT_PLACE"),
            os.environ.get("AMBIENT_PLACE"),
        ]

    assert captured(code, store, {"env"}) == code()


def test_secrets_in_the_environment_are_redacted_by_name(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code gets the password, and the log does not."""
    monkeypatch.setenv("AMBIENT_DB_PASSWORD", "correct horse battery")
    with ar.record("code", store=store, capture={"env"}) as run:
        assert os.environ["AMBIENT_DB_PASSWORD"] == "correct horse battery"
        run.complete()
    (read,) = reads_of(store)
    assert str(read.value["AMBIENT_DB_PASSWORD"]).startswith("[redacted:password:")
    assert "battery" not in str([event.model_dump() for event in log_of(store)])


# -- threads, tasks, runs and processes ----------------------------------------------------------------------------


def test_other_threads_are_not_captured_and_those_of_the_run_are(store: EventStore) -> None:
    """A thread that was there before the run reads as ever; one that the run started is a part of it."""
    go, read = threading.Event(), threading.Event()
    values: list[float] = []

    def outside() -> None:
        go.wait()
        values.append(time.time())
        read.set()

    other = threading.Thread(target=outside)
    other.start()
    with ar.record("code", store=store, capture={"clock"}):
        go.set()
        read.wait()
        own = threading.Thread(target=lambda: values.append(time.time()))
        own.start()
        own.join()
    other.join()
    assert [(event.task, event.data.value) for event in read_events(store)] == [("0.0:0", values[1])]


async def test_tasks_read_each_in_their_own(store: EventStore) -> None:
    """What concurrent tasks read stands under their paths."""

    async def reader(count: int) -> list[float]:
        found = []
        for _ in range(count):
            found.append(time.time())
            await asyncio.sleep(0)
        return found

    async with ar.record("code", store=store, capture={"clock"}):
        first, second = await asyncio.gather(reader(3), reader(2))
    events = read_events(store)
    assert [event.data.value for event in events if event.task == "0.0:0"] == first
    assert [event.data.value for event in events if event.task == "0.0:1"] == second
    assert len(events) == 5


def test_child_runs_capture_what_the_run_around_does(store: EventStore) -> None:
    """Unless they say what they capture themselves."""

    def child(name: str, **options: Any) -> None:
        with ar.record(name, **options):
            time.time(), random.random()

    with ar.record("parent", store=store, capture={"clock"}):
        child("same")
        child("none", capture=())
        child("other", capture={"random"})
        time.time()
    assert {run.agent: [read.what for read in reads_of(store, run.id)] for run in store.runs()} == {
        "parent": ["time.time"],
        "same": ["time.time"],
        "none": [],
        "other": ["random.random"],
    }


def test_everything_is_put_back_when_the_last_run_has_ended(store: EventStore) -> None:
    """Of runs that overlap, each captures to its end; what is replaced stays so until the last."""
    before = everything()

    def replaced() -> set[str]:
        return {name.split()[-1] for name, value in everything().items() if value is not before[name]}

    outer, inner = (ar.record(name, store=store, capture=sources) for name, sources in (("a", "clock"), ("b", "all")))
    outer.__enter__()
    with inner:
        assert {"time", "now", "choice", "urandom", "uuid1", "_data", "here", "there"} <= replaced()
    assert {"time", "now", "here"} <= replaced()
    assert not {"choice", "urandom", "uuid1", "_data"} & replaced()
    outer.__exit__(None, None, None)
    assert replaced() == set()


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_everything_is_put_back_after_an_exception(store: EventStore, error: BaseException) -> None:
    """However the block or the agent is left."""

    @ar.agent("falls", capture="all")
    def falls(round_index: int, context: ar.Context) -> Any:
        time.time()
        raise error

    before = everything()
    with pytest.raises(type(error)):
        falls.run(store=store)
    assert everything() == before
    with pytest.raises(type(error)), ar.record("falls", store=store, capture="all"):
        raise error
    assert everything() == before


def test_everything_is_put_back_after_runs_in_many_threads() -> None:
    """Runs that begin and end in any order leave nothing behind, and each has its own reads."""
    before = everything()
    counts: list[tuple[int, int]] = []

    def runs(number: int) -> None:
        for count in range(1, 6):
            own = MemoryStore()
            with ar.record(f"{number}", store=own, capture=SOURCES[number % 4 :]):
                for _ in range(count):
                    time.time(), random.random(), os.getenv("HOME"), uuid.uuid4()
            counts.append((count * (4 - number % 4), len(reads_of(own))))

    threads = [threading.Thread(target=runs, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == 40
    assert [found for expected, found in counts] == [expected for expected, found in counts]
    assert everything() == before


def test_what_somebody_else_has_put_in_a_place_stays(store: EventStore) -> None:
    """A function that the code replaces while a run is in progress is its own, and so is putting it back."""
    original = time.time
    with ar.record("code", store=store, capture={"clock"}):
        ours = time.time
        time.time = lambda: 5.0
        assert time.time() == 5.0
    try:
        assert time.time() == 5.0
        assert ours() == pytest.approx(original(), abs=60)
    finally:
        time.time = original
    assert reads_of(store) == []


def test_a_forked_child_has_everything_as_it_was(store: EventStore) -> None:
    """In a child process the run is not in progress: nothing is replaced there, and nothing recorded."""
    before = everything()
    with ar.record("code", store=store, capture="all"):
        time.time()
        child = os.fork()
        if child == 0:
            same = all(value is before[name] for name, value in everything().items())
            time.time()
            with ar.record("own", store=MemoryStore(), capture="clock") as own:
                at = time.time()
            again = all(value is before[name] for name, value in everything().items())
            os._exit(0 if same and again and at > 0 and own.status == "completed" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        time.time()
    assert [read.what for read in reads_of(store)] == ["time.time", "time.time"]


def test_code_that_outlives_the_run_reads_as_ever(store: EventStore) -> None:
    """What keeps a function that stood in reads with it, unrecorded."""
    with ar.record("code", store=store, capture="all"):
        kept = [time.time, datetime.now, random.random, os.urandom, random.Random().random]
    assert [len([kept[0](), kept[1](), kept[2](), kept[3](2), kept[4]()])] == [5]
    assert [read.what for read in reads_of(store)] == ["random.Random"]


def test_fixed_zones_keep_their_offset(store: EventStore) -> None:
    """Of `now(tz)` the moment is recorded, and the zone is the one that the code gives."""
    zone = timezone(timedelta(hours=-4), "desk")
    at = captured(lambda: datetime.now(zone), store, {"clock"})
    (read,) = reads_of(store)
    assert (read.what, read.value.tzinfo, at.tzinfo) == ("datetime.now(tz)", UTC, zone)
    assert at == read.value


def test_modules_with_code_of_their_own_are_not_asked(store: EventStore) -> None:
    """A module that does something when it is asked for a name is looked at without asking."""

    class Lazy(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    sys.modules["ambient_lazy"] = Lazy("ambient_lazy")
    try:
        captured(time.time, store)
    finally:
        del sys.modules["ambient_lazy"]
