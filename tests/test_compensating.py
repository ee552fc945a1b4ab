"""Undoing what a run did from a step on, before it is run again from there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.effects import declared_compensable
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay.rerunning import NOT_DONE, rerun_course
from agentreplay.replay.resume import in_flight
from cli_runs import invoke, json_of, output
from journal import Journal
from recorded import kinds, log_of

WORLD: list[str] = []
"""What was really done, in order."""


@pytest.fixture(autouse=True)
def world() -> Iterator[None]:
    """Nothing was done yet, and what is declared compensable here is forgotten again."""
    WORLD.clear()
    before = dict(declared_compensable)
    yield
    declared_compensable.clear()
    declared_compensable.update(before)


def cancel(room: int) -> str:
    WORLD.append(f"cancel {room}")
    return f"{room} is free"


@ar.tool(safety="compensable", compensate=cancel)
def book(room: int) -> str:
    WORLD.append(f"book {room}")
    return f"{room} is yours"


@ar.agent("guide")
def guide(round_index: int, context: ar.Context) -> ar.Complete[Any]:
    return ar.Complete(book(room=90))


@ar.agent("travel")
def travel(round_index: int, context: ar.Context) -> Any:
    context.change(update={"rooms": [*context.payload["rooms"], book(room=round_index)]})
    if round_index == 2:
        context.run_agent(guide, {})
    return ar.Complete("booked") if round_index == 3 else ar.Continue()


@pytest.fixture
def store() -> EventStore:
    """run1 has booked a room in each of three rounds; run2 is its child, which has booked another in the second."""
    found = MemoryStore()
    travel.run({"rooms": []}, store=found)
    assert WORLD == ["book 1", "book 2", "book 90", "book 3"]
    WORLD.clear()
    return found


def test_what_was_done_from_the_step_on_is_undone_first(store: EventStore) -> None:
    """The last call first, those of child runs in their place; then the run goes on; what came before stays."""
    result = ar.rerun("run1", travel, 2, compensate=True, store=store)
    assert WORLD == ["cancel 3", "cancel 90", "cancel 2", "book 2", "book 90", "book 3"]
    assert result.value == "booked"


def test_nothing_is_undone_unless_it_is_asked_for(store: EventStore) -> None:
    """A compensable tool is called again without a word."""
    ar.rerun("run1", travel, 3, store=store)
    assert WORLD == ["book 3"]


def test_what_was_undone_stands_in_the_new_run(store: EventStore) -> None:
    """As calls of another writer than the agent, in the step's round, before its own."""
    run = ar.rerun("run1", travel, 3, compensate=True, store=store).run.id
    events = log_of(store, run)
    first = next(i for i, event in enumerate(events) if event.kind == "writer.joined")
    assert [event.kind for event in events[first - 1 : first + 6]] == [
        "round.started",
        "writer.joined",
        "tool.called",
        "tool.returned",
        "writer.left",
        "tool.called",
        "tool.returned",
    ]
    called, returned = events[first + 1 : first + 3]
    assert (called.round, called.data.name, called.data.arguments) == (3, "book.compensate", {"room": 3})
    assert (returned.data.result, called.task) == ("3 is free", events[first].data.writer)
    assert (events[first + 4].data.name, events[first + 4].data.call) == ("book", "3.1")


def test_a_run_that_undid_something_replays(store: EventStore) -> None:
    """Its code is not expected to undo it again, in a replay or in another re-run."""
    run = ar.rerun("run1", travel, 2, compensate=True, store=store).run.id
    WORLD.clear()
    assert ar.replay(run, travel, store=store).verdict == "identical"
    assert ar.rerun(run, travel, 3, store=store).value == "booked"
    assert WORLD == ["book 3"]


def test_nothing_is_undone_where_the_code_has_parted(store: EventStore) -> None:
    """A prefix that diverges ends the re-run before it has done anything."""

    @ar.agent("travel")
    def changed(round_index: int, context: ar.Context) -> Any:
        book(room=round_index + 1)
        return ar.Continue()

    with pytest.raises(ar.Divergence):
        ar.rerun("run1", changed, 2, compensate=True, store=store)
    assert WORLD == []


def test_a_folded_prefix_is_undone_too(store: EventStore) -> None:
    """The rounds before are not executed, and what came after is undone all the same."""
    ar.rerun("run1", travel, 3, compensate=True, prefix="fold", store=store)
    assert WORLD == ["cancel 3", "book 3"]


def test_a_call_that_did_nothing_is_not_undone() -> None:
    """One that failed, one that was answered by an edit, and one inside of a call that is undone as a whole."""

    def cancel_trip(days: int) -> None:
        WORLD.append(f"cancel trip of {days}")

    @ar.tool(safety="compensable", compensate=cancel_trip)
    def trip(days: int) -> str:
        return book(room=days)

    @ar.tool(safety="compensable", compensate=cancel)
    def full(room: int) -> str:
        raise ValueError("full")

    @ar.agent("traveller")
    def traveller(round_index: int, context: ar.Context) -> Any:
        with pytest.raises(ValueError):
            full(room=7)
        return ar.Complete([trip(days=5), book(room=6)])

    store = MemoryStore()
    traveller.run({}, store=store)
    edited = ar.rerun("run1", traveller, 1, tool_results={"1.4": "by hand"}, store=store).run.id
    WORLD.clear()
    ar.rerun("run1", traveller, 1, compensate=True, store=store)
    assert WORLD == ["cancel 6", "cancel trip of 5", "book 5", "book 6"]
    WORLD.clear()
    ar.rerun(edited, traveller, 1, compensate=True, store=store)
    assert WORLD == ["cancel trip of 5", "book 5"]


# -- event loops ---------------------------------------------------------------------------------------------------


async def test_coroutines_undo_and_are_undone() -> None:
    """In an event loop it is done in a thread of its own, and the loop waits; without one, where the code is."""
    threads = set()

    async def acancel(room: int) -> None:
        await asyncio.sleep(0)
        threads.add(threading.current_thread() is threading.main_thread())
        WORLD.append(f"cancel {room}")

    @ar.tool(safety="compensable", compensate=acancel)
    async def abook(room: int) -> str:
        WORLD.append(f"book {room}")
        return "yours"

    @ar.agent("atravel")
    async def atravel(round_index: int, context: ar.Context) -> Any:
        await asyncio.gather(*[abook(room=10 * round_index + n) for n in (1, 2)])
        return ar.Complete("booked") if round_index == 2 else ar.Continue()

    store = MemoryStore()
    await atravel.arun({}, store=store)
    WORLD.clear()
    result = await ar.arerun("run1", atravel, 2, compensate=True, store=store)
    assert result.value == "booked"
    assert WORLD == ["cancel 22", "cancel 21", "book 21", "book 22"]
    assert threads == {False}
    assert (await ar.areplay("run2", atravel, store=store)).verdict == "identical"


def test_a_coroutine_undoes_where_no_loop_runs(store: EventStore) -> None:
    """A plain agent's tool may be undone by a coroutine function."""

    async def acancel(room: int) -> None:
        await asyncio.sleep(0)
        WORLD.append(f"acancel {room}")

    ar.tool(name="book", safety="compensable", compensate=acancel)(book.__wrapped__)
    ar.rerun("run1", travel, 3, compensate=True, store=store)
    assert WORLD == ["acancel 3", "book 3"]


# -- what may go wrong ---------------------------------------------------------------------------------------------


def test_a_failure_to_undo_stops_the_rerun(store: EventStore) -> None:
    """What was undone before stands in the log; the step does not run, and the new run has failed."""

    def stubborn(room: int) -> None:
        WORLD.append(f"cancel {room}")
        if room == 2:
            raise ConnectionError("closed")

    ar.tool(name="book", safety="compensable", compensate=stubborn)(book.__wrapped__)
    with pytest.raises(ar.CompensationFailed) as caught:
        ar.rerun("run1", travel, 2, compensate=True, store=store)
    assert str(caught.value).startswith("book (call 2.1) could not be undone: ConnectionError: closed.")
    assert (caught.value.name, caught.value.call) == ("book", "2.1")
    assert WORLD == ["cancel 3", "cancel 90", "cancel 2"]
    assert store.run("run3").status == "failed"
    assert kinds(store, "run3").count("tool.failed") == 1


def test_a_tool_that_does_not_say_how_it_is_undone_is_refused(store: EventStore) -> None:
    """Before anything is executed: the code may be another one than the recorded one."""
    declared_compensable.clear()
    with pytest.raises(ar.UsageError, match=r"run1, call 3\.1 \(book\) cannot be undone: no tool of that name"):
        ar.rerun("run1", travel, 3, compensate=True, store=store)
    assert (WORLD, len(store.runs())) == ([], 2)


def test_a_token_is_not_undone_in_the_place_of_a_secret() -> None:
    """The log does not have what the tool was given."""

    @ar.tool(safety="compensable", compensate=cancel)
    def lock(room: int, password: str) -> None:
        """Lock a room."""

    @ar.agent("locker")
    def locker(round_index: int, context: ar.Context) -> Any:
        return ar.Complete(lock(room=1, password="open sesame"))

    store = MemoryStore()
    locker.run({}, store=store)
    with pytest.raises(ar.RedactedValue) as caught:
        ar.rerun("run1", locker, 1, compensate=True, store=store)
    assert caught.value.pointers == ("/password",)


@dataclass
class Room:
    number: int


@pytest.mark.parametrize(
    ("room", "says"),
    [(Room(1), "Room is not registered"), (threading.Lock(), "/room was not stored exactly")],
)
def test_an_argument_that_the_log_does_not_give_back_is_not_guessed(room: Any, says: str) -> None:
    """Its plain data, or a description of it, is not what the tool was given."""

    @ar.tool(safety="compensable", compensate=lambda room: WORLD.append("cancel"))
    def take(room: Any) -> None:
        """Take a room."""

    @ar.agent("taker")
    def taker(round_index: int, context: ar.Context) -> Any:
        return ar.Complete(take(room=room))

    store = MemoryStore()
    taker.run({}, store=store)
    with pytest.raises(ar.UnknownType) as caught:
        ar.rerun("run1", taker, 1, compensate=True, store=store)
    assert says in str(caught.value)
    assert "run1, call 1.1 (take) cannot be undone" in str(caught.value)
    assert (WORLD, len(store.runs())) == ([], 1)


def test_rounds_that_begin_with_model_calls_leave_no_time_for_it() -> None:
    """It says so, before the model is asked or anything is undone."""
    asked = []

    @ar.model
    def ask(question: str) -> str:
        asked.append(question)
        return "go"

    def loop() -> None:
        with ar.record("loop", rounds="model", store=store):
            ask(question="?")
            book(room=1)

    store = MemoryStore()
    loop()
    WORLD.clear()
    asked.clear()
    with pytest.raises(ar.UsageError, match="Mark the rounds"):
        ar.rerun("run1", loop, 1, compensate=True, store=store)
    assert (WORLD, asked) == ([], [])


def test_a_loop_with_marked_rounds_is_undone() -> None:
    """As for a step."""

    def loop() -> None:
        with ar.record("loop", store=store) as run:
            for room in (1, 2):
                with run.round():
                    book(room=room)

    store = MemoryStore()
    loop()
    WORLD.clear()
    ar.rerun("run1", loop, 2, compensate=True, store=store)
    assert WORLD == ["cancel 2", "book 2"]


# -- what was undone before ----------------------------------------------------------------------------------------


def test_what_was_undone_is_not_undone_again(store: EventStore) -> None:
    """By another re-run of the same run, of child runs, or of the fork, which undoes what the fork itself has done."""
    first = ar.rerun("run1", travel, 3, compensate=True, store=store).run.id
    assert WORLD == ["cancel 3", "book 3"]
    WORLD.clear()
    with pytest.warns(UserWarning, match=rf"{first} has undone book \(call 3\.1\) already; it is not undone again"):
        ar.rerun("run1", travel, 2, compensate=True, store=store)
    assert WORLD == ["cancel 90", "cancel 2", "book 2", "book 90", "book 3"]
    WORLD.clear()
    with pytest.warns(UserWarning, match=r"run4 has undone book \(call (2|1)\.1\) already"):
        ar.rerun(first, travel, 2, compensate=True, store=store)
    assert WORLD == ["cancel 3", "book 2", "book 90", "book 3"]
    assert store.verify() == []


def test_what_was_undone_by_a_rerun_of_the_child_is_not_undone_again(store: EventStore) -> None:
    """A call of a child run is the same call, from wherever it is looked at."""
    ar.rerun("run2", guide, 1, compensate=True, store=store)
    assert WORLD == ["cancel 90", "book 90"]
    WORLD.clear()
    with pytest.warns(UserWarning, match=r"run3 has undone book \(call 1\.1\) already"):
        ar.rerun("run1", travel, 2, compensate=True, store=store)
    assert WORLD == ["cancel 3", "cancel 2", "book 2", "book 90", "book 3"]


def test_what_could_not_be_undone_is_tried_again(store: EventStore) -> None:
    """Where the first re-run stopped, the next goes on."""
    broken = [2]

    def moody(room: int) -> None:
        WORLD.append(f"cancel {room}")
        if room in broken:
            raise ConnectionError("closed")

    ar.tool(name="book", safety="compensable", compensate=moody)(book.__wrapped__)
    with pytest.raises(ar.CompensationFailed):
        ar.rerun("run1", travel, 2, compensate=True, store=store)
    WORLD.clear()
    broken.clear()
    with pytest.warns(UserWarning, match="run3 has undone book"):
        ar.rerun("run1", travel, 2, compensate=True, store=store)
    assert WORLD == ["cancel 2", "book 2", "book 90", "book 3"]


def test_an_answer_that_was_used_again_is_nothing_to_undo(store: EventStore) -> None:
    """The call was not made in that run; it is undone where it was."""
    reused = ar.rerun("run1", travel, 3, reuse=True, store=store).run.id
    ar.rerun(reused, travel, 3, compensate=True, store=store)
    assert WORLD == ["book 3"]


def test_a_rerun_that_died_while_it_undid_is_not_resumed() -> None:
    """What is left to undo would be passed over; the next re-run undoes it, wherever the process died."""
    journal = Journal()
    travel.run({"rooms": []}, store=journal)
    start = len(journal.entries)
    run = ar.rerun("run1", travel, 2, compensate=True, store=journal).run.id
    refused = 0
    for count in range(start + 2, len(journal.entries)):
        store = journal.until(count)
        returned = [event for event in store.events(run) if event.kind == "tool.returned" and ".w" in event.data.call]
        WORLD.clear()
        if len(returned) == 3:
            unsettled = dict.fromkeys(in_flight(store, store.run(run)), NOT_DONE)
            ar.resume(run, travel, store=store, take_over=True, assume=unsettled)
            assert "cancel" not in " ".join(WORLD)
            continue
        refused += 1
        with pytest.raises(
            ar.UsageError, match=f"{run} ended while it undid what run1 had done, with {3 - len(returned)}"
        ):
            ar.resume(run, travel, store=store, take_over=True)
        with pytest.raises(ar.UsageError, match=f"{run} is undoing what a run did"):
            ar.rerun("run1", travel, 2, compensate=True, store=store)
        assert WORLD == []
    assert refused >= 6


# -- on the command line -------------------------------------------------------------------------------------------

HOTEL = """
import agentreplay as ar

def cancel(room):
    print("cancel", room)

@ar.tool(safety="compensable", compensate=cancel)
def book(room):
    print("book", room)
    return f"{room} is yours"

@ar.agent("travel")
def step(round_index, context):
    got = book(room=round_index)
    return ar.Complete(got) if round_index == 2 else ar.Continue()
"""


def test_the_option_undoes_and_the_dry_run_says_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order in which it is done."""
    monkeypatch.chdir(tmp_path)
    Path("hotel.py").write_text(HOTEL, encoding="utf-8")
    output("run", "hotel.py:step")
    planned = json_of("rerun", "run1", "--step", 1, "--compensate", "--dry-run")
    assert planned["compensated"] == [{"call": "2.1", "name": "book"}, {"call": "1.1", "name": "book"}]
    assert "  undone        2.1 book, 1.1 book\n" in output("rerun", "run1", "--step", 1, "--compensate", "--dry-run")
    text = output("rerun", "run1", "--step", 1, "--compensate")
    said = [line for line in text.splitlines() if line.startswith(("cancel", "book"))]
    assert said == ["cancel 2", "cancel 1", "book 1", "book 2"]
    assert "tool book.compensate  returned" in text
    again = output("rerun", "run1", "--step", 1, "--compensate", "--dry-run")
    assert "  undone        2.1 book, already, by run2\n  undone        1.1 book, already, by run2\n" in again
    assert json_of("rerun", "run1", "--step", 2, "--compensate", "--dry-run")["undone"] == [
        {"call": "2.1", "name": "book", "by": "run2"}
    ]
    result = invoke("rerun", "run1", "--step", 2, "--compensate")
    assert "note: run2 has undone book (call 2.1) already; it is not undone again\n" in result.stderr
    assert "cancel" not in result.stdout


def test_checking_does_not_undo(store: EventStore) -> None:
    """What a re-run would be is known before anything is called."""
    from agentreplay.replay.edits import Edits

    rerun_course("run1", travel, 2, Edits(), (), False, "execute", store, (), True)
    assert (WORLD, len(store.runs())) == ([], 2)
