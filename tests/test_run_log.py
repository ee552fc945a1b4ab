"""The log of a run that has several writers: every event of each is there once, in its order, in one chain."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder import log_end
from agentreplay.recorder.errors import VersionConflict
from agentreplay.recorder.event_codec import StoredEvent
from agentreplay.recorder.events import EVENT_OF_KIND, ReportData, new_event
from agentreplay.recorder.log_end import LogEnd, RunHasEnded, last_round, may_be_added
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.run_log import RunLog
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore, Head, RunInfo, Summary
from agentreplay.replay.reducer import fold
from event_builder import EventBuilder
from hypothesis import given
from hypothesis import strategies as st
from recorded import kinds, log_of, one

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


def add(store: EventStore, kind: str, round: int = 0, **data: Any) -> None:
    """Append an event to run1 as somebody else does, wherever it ends."""
    while True:
        seq = store.run("run1").head_seq + 1
        with suppress(VersionConflict):  # the run's own writer may be first
            store.append("run1", seq - 1, [new_event(kind, seq=seq, round=round, time=NOW, data=data)])
            return


def report(seq: int = -1, text: str = "") -> StoredEvent:
    body = b'{"message":"%s"}' % text.encode()
    return StoredEvent(seq=seq, round=0, kind="report", version=1, time=0, within=None, task="0", body=body)


# -- the end of a log --------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=40))
def test_writers_that_take_turns_leave_one_log(turns: list[tuple[int, int]]) -> None:
    """Whoever appends how much in whatever order: each event is there once, and those of one append stay together."""
    store = MemoryStore()
    info = store.create_run("a")
    ends = [LogEnd(store, info, -1) for _ in range(4)]
    written = []
    for turn, (writer, count) in enumerate(turns):
        texts = [f"{writer}.{turn}.{n}" for n in range(count)]
        ends[writer].append([report(text=text) for text in texts], Summary())
        written += texts
    assert [event.data.message for event in log_of(store, "run1")] == written


def test_an_event_gets_its_number_where_it_is_appended(store: EventStore) -> None:
    """The first that others were before takes the next number, and so do those after it."""
    info = store.create_run("a")
    end = LogEnd(store, info, -1)
    for _ in range(3):
        add(store, "report")
    rows = [report(seq=70), report(seq=70)]
    end.append(rows, Summary())
    assert ([row.seq for row in rows], end.seq) == ([3, 4], 4)


class Busy(MemoryStore):
    """A store in which another writer is first, as often as it is told."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.attempts = 0

    def append_rows(self, info: RunInfo, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> Head:
        self.attempts += 1
        if self.times > 0:
            self.times -= 1
            super().append_rows(info, self.run(info.uid).head_seq, [report(self.run(info.uid).head_seq + 1)], Summary())
        return super().append_rows(info, expected_seq, rows, summary)


def test_a_writer_tries_again_until_it_is_first() -> None:
    """However often others were first."""
    store = Busy(30)
    end = LogEnd(store, store.create_run("a"), -1)
    end.append([report(text="mine")], Summary())
    assert (store.attempts, end.seq) == (31, 30)
    assert [event.data.message for event in log_of(store, "run1")][-1] == "mine"


def test_a_writer_that_is_never_first_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After its patience is at its end the conflict is raised; what it would have written is not there."""
    monkeypatch.setattr(log_end, "PATIENCE", -1.0)
    store = Busy(1_000)
    end = LogEnd(store, store.create_run("a"), -1)
    with pytest.raises(VersionConflict) as caught:
        end.append([report(text="mine")], Summary())
    assert (store.attempts, caught.value.expected, caught.value.found) == (2, 0, 1)
    assert {event.data.message for event in log_of(store, "run1")} == {""}


def test_pauses_draw_nothing_from_pythons_generator() -> None:
    """The agent's random numbers are the same, whoever else writes."""
    random.seed(7)
    expected = random.random()
    random.seed(7)
    store = Busy(10)
    LogEnd(store, store.create_run("a"), -1).append([report()], Summary())
    assert random.random() == expected


def test_a_log_whose_end_is_gone_is_not_written_to(tmp_path: Any) -> None:
    """What was cut off is not papered over: the conflict stands."""
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    info = store.create_run("a")
    for joined in (False, True):
        end = LogEnd(store, info, 5, joined=joined)
        with pytest.raises(VersionConflict):
            end.append([report()], Summary())
    assert list(store.rows(info)) == []
    store.close()


def test_what_belongs_to_who_records_the_run_is_not_added() -> None:
    """These kinds follow from the payload, the rounds, the conversation or the questions; a new kind is none to add."""
    assert {kind for kind in EVENT_OF_KIND if not may_be_added(kind)} == {
        "run.started", "run.forked", "run.suspended", "run.resumed", "run.finished", "round.started", "round.finished",
        "step.decided", "payload.changed", "message.added", "messages.replaced", "scratchpad.changed", "memory.written",
        "skill.activated", "plan.proposed", "media.promoted", "interrupt.raised", "interrupt.answered",
    }  # fmt: skip
    assert may_be_added("x.mine")
    assert not may_be_added("agenda.changed")


@given(st.lists(st.sampled_from(["report", "round", "other"]), max_size=60), st.integers(1, 3))
def test_the_last_round_is_found_from_the_end(log: list[str], window: int) -> None:
    """However far from the end of the log it started; what carries an older round is no matter."""
    built = EventBuilder({})
    for kind in log:
        if kind == "round":
            if built.round:
                built.end()
            built.begin()
        else:
            built.add("report", message=kind)
    store = MemoryStore()
    store.append(store.create_run("a"), -1, built.events)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_end, "_WINDOW", window)
        assert last_round(store, store.run("run1")) == log.count("round")
    assert last_round(store, store.create_run("none")) == 0


# -- the log of a run --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_a_loop", [False, True])
def test_a_run_goes_on_behind_what_others_have_added(store: EventStore, on_a_loop: bool) -> None:
    """Also where a background writer appends: nothing of the run is lost, and it folds to what the agent saw."""

    def use(run: Any) -> None:
        with run.round() as r:
            for n in range(5):
                add(store, "x.other", n=n)
                r.change(update={"n": n})
                add(store, "tool.called", call=f"other.{n}", name="look", arguments={})

    async def main() -> None:
        async with ar.record("a", {"n": -1}, store=store) as run:
            use(run)

    if on_a_loop:
        asyncio.run(main())
    else:
        with ar.record("a", {"n": -1}, store=store) as run:
            use(run)
    events = log_of(store)
    assert [event.seq for event in events] == list(range(len(events)))
    changed = [event.data.request["updateElements"] for event in events if event.kind == "payload.changed"]
    assert changed == [{"n": n} for n in range(5)]
    assert [event.data.n for event in events if event.kind == "x.other"] == list(range(5))
    state = fold(events)
    assert (state.status, state.payload, sorted(state.open_calls)) == (
        "completed",
        {"n": 4},
        ["other.0", "other.1", "other.2", "other.3", "other.4"],
    )


@pytest.mark.parametrize(
    "write",
    [
        lambda store: add(store, "run.resumed"),
        lambda store: add(store, "round.started", round=1),
        lambda store: add(store, "payload.changed", applier={}, hash_before="x", hash_after="y"),
        lambda store: add(store, "agenda.changed"),
    ],
)
@pytest.mark.parametrize("joined_too", [False, True])
def test_a_run_that_somebody_else_records_is_left_to_them(
    store: EventStore, write: Callable[[EventStore], None], joined_too: bool
) -> None:
    """Two who record one run would contradict each other: the one that notices stops, and has written nothing since."""

    def record() -> None:
        with ar.record("a", store=store) as run:
            write(store)
            if joined_too:
                add(store, "report", message="of a third one")
            run.report("never recorded")

    with pytest.raises(ar.RecordingFailed, match="another writer was first"):
        record()
    assert store.run("run1").head_seq == 1 + joined_too


def test_who_has_joined_adds_nothing_to_a_run_that_has_ended(
    store: EventStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The last event of a run stays its last; `logging` is told once, and nothing is raised."""
    with ar.record("a", store=store):
        info = store.run("run1")
        log = RunLog(store, info, "raise", LogEnd(store, info, 0, joined=True))
        log.emit("report", ReportData(message="in time"))
        add(store, "report", message="of a third one")
    for text in ("late", "later"):
        log.emit("report", ReportData(message=text))
    log.close()
    assert not log.recording
    assert kinds(store) == ["run.started", "report", "report", "run.finished"]
    assert [record.message for record in caplog.records] == [
        "run1 has ended; report came after it, and is not recorded, nor what follows"
    ]


async def test_who_has_joined_on_an_event_loop_hears_of_the_end_too(
    store: EventStore, caplog: pytest.LogCaptureFixture
) -> None:
    """What its background writer could not add is told of, at the latest when the log is closed."""
    async with ar.record("a", store=store):
        info = store.run("run1")
        log = RunLog(store, info, "raise", LogEnd(store, info, 0, joined=True))
        await log.aemit("report", ReportData(message="in time"))
    log.emit("report", ReportData(message="late"))
    await log.aclose()
    assert kinds(store) == ["run.started", "report", "run.finished"]
    assert [record.message.partition(";")[0] for record in caplog.records] == ["run1 has ended"]


def test_who_has_joined_goes_on_when_the_run_was_resumed(store: EventStore) -> None:
    """A run that was suspended and resumed has not ended."""
    with ar.record("a", store=store) as run:
        info = store.run("run1")
        end = LogEnd(store, info, 0, joined=True)
        run.interrupt("approve")
    assert one(store, "run.suspended").seq == 2
    with pytest.raises(RunHasEnded):
        end.append([report()], Summary())
    add(store, "run.resumed")
    end.append([report()], Summary())
    assert kinds(store) == ["run.started", "interrupt.raised", "run.suspended", "run.resumed", "report"]
