"""What every event store promises; each implementation subclasses `StoreContract` in a few lines."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from agentreplay.recorder.errors import RunNotFound, StoreError, VersionConflict
from agentreplay.recorder.event_codec import StoredEvent
from agentreplay.recorder.events import Event, new_event
from agentreplay.recorder.hashes import content_address
from agentreplay.recorder.store import Addition, EventStore, RunInfo, Snapshot, new_uid

START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def started(payload: Any = None, agent: str = "clerk") -> Event:
    data = {"agent": agent, "payload": payload, "payload_hash": "merkle1:0"}
    return new_event("run.started", seq=0, round=0, time=START, data=data)


def tool_called(seq: int, **arguments: Any) -> Event:
    data = {"call": f"1.{seq}", "name": "look", "arguments": arguments}
    return new_event("tool.called", seq=seq, round=1, time=START + timedelta(seconds=seq), data=data)


def model_called(seq: int, messages: list[dict[str, Any]], **request: Any) -> Event:
    data = {"call": f"1.{seq}", "name": "ask", "request": {"messages": messages, **request}}
    return new_event("model.called", seq=seq, round=1, time=START, data=data)


UID = "01900000-0000-7000-8000-0000000000ff"


def chained(bodies: Sequence[bytes | None]) -> list[StoredEvent]:
    """Events of the run `UID` with these bodies; None stands for one that was pruned."""
    rows: list[StoredEvent] = []
    for seq, body in enumerate(bodies):
        gone = content_address(b"gone") if body is None else ""
        row = StoredEvent(seq, 0, "x.raw", 1, 0, None, "0", body, body_hash=gone)
        row.hash = row.chained(rows[-1].hash if rows else "", UID)
        rows.append(row)
    return rows


class StoreContract:
    """Subclass with a `store` fixture."""

    @pytest.fixture
    def run(self, store: EventStore) -> RunInfo:
        info = store.create_run("clerk")
        store.append(info, -1, [started({"a": 1})])
        return info

    def test_events_come_back_in_order_and_equal(self, store: EventStore, run: RunInfo) -> None:
        """What was appended is what is read, in the order of seq."""
        store.append(run, 0, [tool_called(1, x=1), tool_called(2, x=2)])
        store.append(run, 2, [tool_called(3, x=[None, {"y": "é"}])])
        events = list(store.events(run))
        assert [event.seq for event in events] == [0, 1, 2, 3]
        assert [event.kind for event in events] == ["run.started", "tool.called", "tool.called", "tool.called"]
        assert events[3].data.arguments == {"x": [None, {"y": "é"}]}
        assert events[3].time == START + timedelta(seconds=3)
        assert events[0].data.payload == {"a": 1}

    def test_reading_can_start_and_stop_anywhere(self, store: EventStore, run: RunInfo) -> None:
        """`after` excludes, `until` includes."""
        store.append(run, 0, [tool_called(seq) for seq in range(1, 6)])
        assert [event.seq for event in store.events(run, after=2)] == [3, 4, 5]
        assert [event.seq for event in store.events(run, after=1, until=3)] == [2, 3]
        assert list(store.events(run, after=5)) == []

    def test_another_writer_is_found_out(self, store: EventStore, run: RunInfo) -> None:
        """An append after the wrong event is refused whole, naming both."""
        store.append(run, 0, [tool_called(1)])
        with pytest.raises(VersionConflict) as caught:
            store.append(run, 0, [tool_called(1), tool_called(2)])
        assert (caught.value.expected, caught.value.found) == (0, 1)
        assert [event.seq for event in store.events(run)] == [0, 1]
        store.append(run, 1, [tool_called(2)])
        assert store.verify(run) == []

    def test_writers_in_threads_leave_no_gap(self, store: EventStore, run: RunInfo) -> None:
        """Threads that race for one run: each event is there once, in a chain."""

        def write() -> None:
            done = 0
            while done < 20:
                last = store.run(run.uid).head_seq
                try:
                    store.append(run, last, [tool_called(last + 1)])
                    done += 1
                except VersionConflict:
                    continue

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [event.seq for event in store.events(run)] == list(range(81))
        assert store.verify(run) == []

    def test_seqs_must_be_gapless(self, store: EventStore, run: RunInfo) -> None:
        """Events whose seqs do not follow are refused before anything is written."""
        with pytest.raises(ValueError, match="cannot follow"):
            store.append(run, 0, [tool_called(2)])
        assert store.run(run.uid).head_seq == 0

    def test_a_run_is_found_by_every_name(self, store: EventStore, run: RunInfo) -> None:
        """run1, 1, "1", uid, prefix and @last name the same run; unknown names are refused."""
        other = store.create_run("other", uid="ffffffff-0000-7000-8000-000000000000")
        for name in ("run1", 1, "1", run.uid, run.uid.upper(), store.run(run.uid)):
            assert store.run(name).uid == run.uid
        assert store.run("ffff").uid == other.uid
        assert store.run("@last").uid == other.uid
        for name in ("run99", "fff", "", "zzzz", "run", "@first", "%%%%", "-1", "run1.0"):
            with pytest.raises(RunNotFound):
                store.run(name)

    def test_the_last_run_is_no_child(self, store: EventStore, run: RunInfo) -> None:
        """@last is what the user started last, not a child run that was started on its behalf."""
        store.create_run("child", parent=run.uid)
        assert store.run("@last").uid == run.uid

    def test_an_ambiguous_prefix_names_the_candidates(self, store: EventStore) -> None:
        """A prefix that fits two runs is refused, and says which."""
        for last in "12":
            store.create_run("twin", uid=f"aaaaaaaa-0000-7000-8000-00000000000{last}")
        with pytest.raises(RunNotFound, match=r"run2.*run1"):
            store.run("aaaa")

    def test_two_runs_cannot_share_a_uid(self, store: EventStore, run: RunInfo) -> None:
        """A uid names one run."""
        with pytest.raises(StoreError):
            store.create_run("again", uid=run.uid)
        assert len(store.runs()) == 1

    def test_runs_tell_what_ls_shows(self, store: EventStore, run: RunInfo) -> None:
        """Status, steps and times follow the events."""
        assert (store.run(run.uid).status, store.run(run.uid).steps) == ("running", 0)
        finished = START + timedelta(seconds=2)
        ended = {"status": "completed", "stop_reason": "endTurn"}
        round_data = {"outcome": "complete", "payload_hash": "merkle1:0"}
        store.append(
            run,
            0,
            [
                new_event("round.started", seq=1, round=1, time=START, data={}),
                new_event("round.finished", seq=2, round=1, time=START, data=round_data),
                new_event("run.finished", seq=3, round=1, time=finished, data=ended),
            ],
        )
        info = store.runs()[0]
        assert (info.id, info.agent, info.status, info.steps, info.duration) == ("run1", "clerk", "completed", 1, 2.0)
        assert info.head_seq == 3

    def test_values_keep_their_types(self, store: EventStore, run: RunInfo) -> None:
        """A value that is no plain JSON is stored in tagged form, and decodes to what it was."""
        from agentreplay.recorder.values import decode

        value = {"price": Decimal("1.10"), "when": START, 1: "one", "big": 2**70, "nan": float("inf")}
        store.append(run, 0, [tool_called(1, value=value)])
        stored = list(store.events(run))[1].data.arguments["value"]
        assert decode(stored) == value

    def test_what_is_mutated_after_the_append_stays_as_it_was(self, store: EventStore, run: RunInfo) -> None:
        """Values are frozen when they are recorded."""
        items = [1]
        store.append(run, 0, [tool_called(1, items=items)])
        items.append(2)
        assert list(store.events(run))[1].data.arguments == {"items": [1]}

    def test_unknown_kinds_and_fields_are_kept(self, store: EventStore, run: RunInfo) -> None:
        """What this version does not know comes back as it was."""
        store.append(
            run,
            0,
            [
                new_event("x.mood", seq=1, round=0, time=START, data={"mood": "good", "n": 1}),
                new_event("tool.called", seq=2, round=0, time=START, data={"call": "c", "name": "t", "later": [1]}),
            ],
        )
        events = list(store.events(run, after=0))
        assert events[0].kind == "x.mood"
        assert events[0].data.model_dump() == {"mood": "good", "n": 1}
        assert events[1].data.later == [1]

    def test_a_conversation_is_stored_once_and_read_exactly(self, store: EventStore, run: RunInfo) -> None:
        """Requests that repeat the history give it back as it was, duplicates and edits included."""
        history: list[dict[str, Any]] = [{"role": "system", "content": "be brief"}]
        expected = []
        for seq in range(1, 30):
            history.append({"role": "user", "content": f"message {seq % 7}", "n": seq % 3})
            if seq == 15:
                history[0] = {"role": "system", "content": "be verbose"}
            if seq == 20:
                del history[3:6]
            expected.append([dict(message) for message in history])
            store.append(run, seq - 1, [model_called(seq, history, temperature=0.5)])
        read = [event.data.request for event in store.events(run, after=0)]
        assert [request["messages"] for request in read] == expected
        assert all(request["temperature"] == 0.5 for request in read)
        assert store.verify(run) == []

    def test_a_reader_may_leave_conversations_unread(self, store: EventStore, run: RunInfo) -> None:
        """Without its messages a request holds the tag that stands for them, and everything else as it was."""
        messages = [{"role": "user", "content": "hello"}]
        store.append(run, 0, [model_called(1, messages)])
        (whole,) = store.events(run.uid, after=0)
        (light,) = store.events(run.uid, after=0, conversations=False)
        request = light.data.request
        assert whole.data.request["messages"] == messages
        assert (request["messages"]["$type"], request["messages"]["count"]) == ("messages", 1)
        assert light.model_dump(exclude={"data": {"request": {"messages"}}}) == whole.model_dump(
            exclude={"data": {"request": {"messages"}}}
        )

    def test_large_values_are_stored_once_and_read_exactly(self, store: EventStore, run: RunInfo) -> None:
        """A large value comes back as it was."""
        document = "0123456789abcdef" * 20_000
        store.append(run, 0, [tool_called(1, document=document), tool_called(2, document=document)])
        assert [event.data.arguments["document"] for event in store.events(run, after=0)] == [document] * 2
        assert store.verify(run) == []

    def test_user_data_that_looks_like_a_reference_is_no_reference(self, store: EventStore, run: RunInfo) -> None:
        """A dict of the user's with our marker comes back as data."""
        from agentreplay.recorder.values import decode

        tricky = {"$type": "blob", "hash": "sha256:" + "0" * 64, "size": 3}
        store.append(run, 0, [tool_called(1, value=tricky), model_called(2, [tricky, {"role": "user"}])])
        events = list(store.events(run, after=0))
        assert decode(events[0].data.arguments["value"]) == tricky
        assert decode(events[1].data.request)["messages"] == [tricky, {"role": "user"}]

    def test_secrets_are_never_stored(self, store: EventStore, run: RunInfo) -> None:
        """A secret becomes a token, the same one everywhere; the chain verifies."""
        secret = "sk-" + "proj-" + "Zx9" * 16
        store.append(
            run,
            0,
            [
                tool_called(1, api_key=secret),
                model_called(2, [{"role": "user", "content": f"use {secret} please"}]),
            ],
        )
        events = list(store.events(run, after=0))
        stored = [str(event.data) for event in events]
        assert all(secret not in text for text in stored)
        token = events[0].data.arguments["api_key"]
        assert token in events[1].data.request["messages"][0]["content"]
        assert store.verify(run) == []

    def test_a_secret_in_the_name_of_an_agent_is_not_stored(self, store: EventStore) -> None:
        """The list of runs is redacted as the events are."""
        secret = "sk-" + "proj-" + "Zx9" * 16
        run = store.create_run(f"clerk {secret}")
        store.append(run, -1, [started(agent=f"clerk {secret}")])
        assert secret not in store.run(run.uid).agent
        assert store.verify() == []

    def test_a_fork_shares_its_prefix(self, store: EventStore, run: RunInfo) -> None:
        """A fork reads the parent's events up to where it left, then its own, in one chain."""
        store.append(run, 0, [tool_called(1), tool_called(2), tool_called(3)])
        shared = list(store.rows(run, until=2))[-1].hash
        fork = store.create_run("clerk", fork_of=run.uid, fork_seq=2)
        data = {"parent": run.uid, "seq": 2, "hash": shared}
        store.append(fork, 2, [new_event("run.forked", seq=3, round=1, time=START, data=data)])
        assert [event.kind for event in store.events(fork)][-2:] == ["tool.called", "run.forked"]
        assert [event.seq for event in store.events(fork)] == [0, 1, 2, 3]
        assert [event.seq for event in store.events(run)] == [0, 1, 2, 3]
        assert [event.seq for event in store.events(fork, after=1, until=2)] == [2]
        assert store.verify() == []

    def test_the_last_snapshot_before_a_step_is_found(self, store: EventStore, run: RunInfo) -> None:
        """Snapshots are found by step, those that a fork shares too, and change nothing about the log."""
        store.append(run, 0, [tool_called(seq) for seq in range(1, 9)])
        for seq, step in ((2, 1), (4, 3), (7, 6)):
            store.keep_snapshot(run, Snapshot(seq, step, b'{"at":%d}' % step))
        store.keep_snapshot(run, Snapshot(4, 3, b'{"another":1}'))
        assert store.snapshot(run) == Snapshot(7, 6, b'{"at":6}')
        assert store.snapshot(run, 6) == Snapshot(7, 6, b'{"at":6}')
        assert store.snapshot(run, 5) == Snapshot(4, 3, b'{"at":3}')
        assert store.snapshot(run, 0) is None
        fork = store.create_run("clerk", fork_of=run.uid, fork_seq=5)
        assert store.snapshot(fork) == Snapshot(4, 3, b'{"at":3}')
        assert store.snapshot(store.create_run("other")) is None
        assert store.verify() == []

    def test_a_heartbeat_is_kept_beside_the_log(self, store: EventStore, run: RunInfo) -> None:
        """The last one of each run; it changes nothing else."""
        other, before = store.create_run("other"), store.run(run.uid)
        assert store._read_heartbeat(run.number) is None
        store.keep_heartbeats([])
        store.keep_heartbeats([run.number, other.number])
        first = store._read_heartbeat(run.number)
        assert first is not None
        assert first == store._read_heartbeat(other.number)
        store._write_heartbeats([run.number], first + 1)
        assert [store._read_heartbeat(info.number) for info in (run, other)] == [first + 1, first]
        assert replace(store.run(run.uid), silent_since=None) == replace(before, silent_since=None)
        assert store.verify() == []

    @pytest.mark.parametrize(
        "text", ["a\0b", "\0", "\udcff", "\ud83d\ude00", "\x10", "\x10\\x41", "tab\t", "é 😀", " "]
    )
    def test_names_may_be_any_text(self, store: EventStore, text: str) -> None:
        """What stands in columns comes back as it was, NUL and lone surrogates included."""
        info = store.create_run(text, parent=text)
        assert (store.run(info.uid).agent, store.run(info.uid).parent) == (text, text)
        assert store.run(store.create_run("clerk", uid="u" * 200).uid).agent == "clerk"
        event = new_event("x." + text, seq=0, round=1, time=START, data={"n": 1}, within=text, task=text)
        store.append(info, -1, [event])
        (read,) = store.events(info)
        assert (read.kind, read.within, read.task) == ("x." + text, text, text)
        with pytest.raises(RunNotFound):
            store.run(text * 4)
        assert store.verify() == []

    def test_recorded_events_are_added_as_they_are(self, store: EventStore) -> None:
        """New runs, forks of them and what continues a run that is there come in together, hashes and all."""
        rows = chained([b'{"a":1}', None, b'{"a": 1e16}', b"\x00\xff"])
        first = RunInfo(0, UID, "clerk", head_seq=1, head_hash=rows[1].hash)
        (run,) = store.add_recorded([Addition(first, rows[:2], note={"prefix": True, "header": {"later": 2**70}})])
        assert store.note(UID) == {"prefix": True, "header": {"later": 2**70}}
        more = replace(run, status="failed", head_seq=3, head_hash=rows[3].hash)
        fork = RunInfo(0, new_uid(), "clerk", fork_of=UID, fork_seq=2, head_seq=2, head_hash=rows[2].hash)
        added = store.add_recorded([Addition(more, rows[2:], after=1, note={}), Addition(fork, ())])
        assert [(info.id, info.head_seq) for info in added] == [("run1", 3), ("run2", 2)]
        assert (store.run(UID).status, store.run(UID).head_hash, store.note(UID)) == ("failed", rows[3].hash, {})
        assert [(row.body, row.body_hash, row.hash) for row in store.rows(UID)] == [
            (row.body, row.body_hash, row.hash) for row in rows
        ]
        assert [row.hash for row in store.rows("run2")] == [row.hash for row in rows[:3]]
        assert store.note(new_uid()) == {}
        assert store.verify() == []
        store.append("run2", 2, [tool_called(3)])

    def test_recorded_events_that_do_not_fit_are_refused_whole(self, store: EventStore) -> None:
        """What continues a run that ends elsewhere, or has a uid that is there: nothing of it is added."""
        rows = chained([b"{}"] * 4)
        info = RunInfo(0, UID, "clerk", head_seq=1, head_hash=rows[1].hash)
        (run,) = store.add_recorded([Addition(info, rows[:2])])
        new = Addition(RunInfo(0, new_uid(), "other"), ())
        for wrong in (
            Addition(replace(run, head_seq=3, head_hash=rows[3].hash), rows[3:], after=2),
            Addition(info, ()),
        ):
            with pytest.raises(StoreError):
                store.add_recorded([new, wrong])
        assert [(info.uid, info.head_seq) for info in store.runs()] == [(UID, 1)]
        assert store.verify() == []

    def test_uids_sort_by_time(self) -> None:
        """A UUIDv7 begins with its time, and says its version and variant."""
        early, late = new_uid(1_700_000_000.0), new_uid(1_700_000_001.0)
        assert early < late
        assert early[14] == "7"
        assert early[19] in "89ab"
        assert early.startswith("018bcfe5-6800")
