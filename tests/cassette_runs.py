"""Runs to export and import, built by hand: what a recorder writes, and what none of ours would."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentreplay.recorder.event_codec import EPOCH, StoredEvent, digest_of
from agentreplay.recorder.events import Event, new_event
from agentreplay.recorder.exporting import export_run
from agentreplay.recorder.hashes import comparison_hash, content_address
from agentreplay.recorder.importers import ImportReport, import_source
from agentreplay.recorder.importers.source import SourceFile
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import Addition, EventStore, RunInfo
from agentreplay.recorder.values import dumps

START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
UID = "01900000-0000-7000-8000-0000000000{:02x}".format
PAYLOAD = {"n": 0}
PAYLOAD_HASH = comparison_hash(PAYLOAD)
LONG = "It was a dark and stormy night. " * 3_000  # large enough for a blob


def event(kind: str, seq: int, round: int = 0, /, *, within: str | None = None, task: str = "0", **data: Any) -> Event:
    """An event; a second passes with each seq."""
    time = START + timedelta(seconds=seq)
    return new_event(kind, seq=seq, round=round, time=time, within=within, task=task, data=data)


def started(agent: str, **data: Any) -> Event:
    return event("run.started", 0, agent=agent, payload=PAYLOAD, payload_hash=PAYLOAD_HASH, **data)


def finished(seq: int, round: int = 1, **data: Any) -> Event:
    return event("run.finished", seq, round, **({"status": "completed", "stop_reason": "endTurn"} | data))


def a_round(seq: int, round: int, question: Sequence[dict[str, Any]], **arguments: Any) -> list[Event]:
    """A round with a model call and a tool call: six events."""
    return [
        event("round.started", seq, round),
        event("model.called", seq + 1, round, call=f"{round}.1", name="ask", request={"messages": list(question)}),
        event("model.returned", seq + 2, round, call=f"{round}.1", response={"content": "look"}),
        event("tool.called", seq + 3, round, within=f"{round}.1", call=f"{round}.2", name="look", arguments=arguments),
        event("tool.returned", seq + 4, round, task="0.1", call=f"{round}.2", result={"found": LONG}),
        event("round.finished", seq + 5, round, outcome="continue", payload_hash=PAYLOAD_HASH),
    ]


HISTORY = [{"role": "user", "content": f"message {n % 4}", "n": n % 3} for n in range(12)]


def record_family(store: EventStore) -> RunInfo:
    """A run with a child run in each of two rounds, of which the second has one of its own. Returns the first run."""
    run = store.create_run("refunds", uid=UID(1))
    child = store.create_run("inspector", uid=UID(3), parent=UID(1))
    store.append(run, -1, [started("refunds"), *a_round(1, 1, HISTORY[:3], sku="LAMP-2")])
    store.append(run, 6, [event("subrun.started", 7, 1, run=UID(3), name="inspector")])
    store.append(child, -1, [started("inspector", parent={"run": UID(1)}), *a_round(1, 1, HISTORY[2:4]), finished(7)])
    store.append(run, 7, [event("subrun.finished", 8, 1, run=UID(3), status="completed")])
    store.append(run, 8, a_round(9, 2, HISTORY[:6], document=LONG, document_again=LONG, short="é \x1b[31m \x7f"))
    second = store.create_run("auditor", uid=UID(2), parent=UID(1))
    store.append(run, 14, [event("subrun.started", 15, 2, run=UID(2), name="auditor")])
    store.append(
        second, -1, [started("auditor", parent={"run": UID(1)}), event("subrun.started", 1, run=UID(4), name="c")]
    )
    inner = store.create_run("clerk", uid=UID(4), parent=UID(2))
    store.append(inner, -1, [started("clerk", parent={"run": UID(2)}), finished(1, 0)])
    store.append(run, 15, [event("x.mood", 16, 2, mood="good", later=[1, 2.5, None])])
    store.append(run, 16, [finished(17, 2, value="refunded")])
    return store.run(UID(1))


def record_forks(store: EventStore) -> RunInfo:
    """A fork of a fork, both of a run with child runs; returns it. The run goes on after the fork left it."""
    parent = record_family(store)
    fork = fork_at(store, parent, 14, UID(0x10))
    store.append(fork, 15, a_round(16, 3, HISTORY[:7]))
    later = fork_at(store, store.run(UID(0x10)), 21, UID(0x11))
    store.append(later, 22, [*a_round(23, 4, HISTORY[1:8]), finished(29, 4)])
    return store.run(UID(0x11))


def fork_at(store: EventStore, parent: RunInfo, seq: int, uid: str) -> RunInfo:
    """A fork with its first own event."""
    shared = next(iter(store.rows(parent, seq - 1, seq)))
    fork = store.create_run(parent.agent, uid=uid, fork_of=parent.uid, fork_seq=seq)
    store.append(fork, seq, [event("run.forked", seq + 1, parent=parent.uid, seq=seq, hash=shared.hash)])
    return store.run(uid)


def record_small(store: EventStore) -> RunInfo:
    """A run of little text that still has a line of each sort but that of a blob, and a child run."""
    run = store.create_run("a", uid=UID(1))
    asked = event("model.called", 1, call="c", name="m", request={"messages": [{"r": "é"}, {"r": 1.5}]})
    store.append(
        run, -1, [started("a"), asked, event("subrun.started", 2, 1, within="c", task="0.1", run=UID(2), name="b")]
    )
    child = store.create_run("b", uid=UID(2), parent=UID(1))
    store.append(child, -1, [started("b", parent={"run": UID(1)})])
    return store.run(UID(1))


def stored(seq: int, body: bytes | None, kind: str = "x.raw", **fields: Any) -> StoredEvent:
    return StoredEvent(seq=seq, round=0, kind=kind, version=1, time=0, within=None, task="0", body=body, **fields)


def add_raw(
    store: EventStore,
    rows: Sequence[StoredEvent],
    uid: str = UID(9),
    agent: str = "raw",
    *,
    note: dict[str, Any] | None = None,
    previous: str = "",
    **links: Any,
) -> RunInfo:
    """Add a run of events as they are, chained."""
    for row in rows:
        row.hash = previous = row.chained(previous, uid)
    info = RunInfo(0, uid, agent, head_seq=rows[-1].seq if rows else -1, head_hash=previous, **links)
    return store.add_recorded([Addition(info, rows, note=note)])[0]


def record_every_line(store: EventStore) -> RunInfo:
    """A fork of a run of raw events that has every form of every line; what is written of it never changes."""
    messages = {content_address(text): text for text in (b'{"role":"user"}', b"1.50", b"half a li\nne")}
    blob = b'["a large value"]'
    addresses = [*messages, *messages, content_address(b"1.50")]
    asked = {"request": {"messages": {"$type": "messages", "hash": digest_of(addresses), "count": len(addresses)}}}
    large = {"x": {"$type": "blob", "hash": content_address(blob), "size": len(blob)}}
    rows = [
        stored(0, b'{"agent":"a","payload_hash":"merkle1:0"}', "run.started"),
        stored(1, dumps(asked), "model.called", conversations={"messages": addresses}, messages=messages),
        stored(2, dumps(large), blobs={content_address(blob): blob}),
        stored(3, b'{\n"a": 1e16}'),
        stored(4, b"\xff\x00"),
        stored(5, None, body_hash=content_address(b"pruned")),
        stored(6, b'{"a":1e16,"a":[1.0,-0.0,"\xc3\xa9\x7f\\u001b"]}', 'x."\\\n\ud800'),
        stored(7, b'{"shared":false}'),
    ]
    rows[3].time, rows[4].time, rows[5].time = 1_764_504_000_123_456, -(2**60), 2**60
    rows[4].within, rows[4].task, rows[4].version, rows[4].round = "1.2", "0.1", 7, 3
    run = add_raw(store, rows, UID(1), "a", note={"run": {"tags": ["kept"]}})
    child = stored(0, dumps({"agent": "b \\", "payload_hash": "merkle1:0", "parent": {"run": UID(2)}}), "run.started")
    body = dumps({"parent": run.uid, "seq": 6, "hash": rows[6].hash})
    links = {"fork_of": run.uid, "fork_seq": 6}
    note = {"header": {"ignore": ["$..now"], "later": 2**70}, "lost": {"seq": 9, "hash": rows[7].hash}}
    fork = add_raw(store, [stored(7, body, "run.forked")], UID(2), "a", note=note, previous=rows[6].hash, **links)
    add_raw(store, [child], UID(3), "b \\", parent=UID(2), note={"lost": {"seq": 1, "hash": None}})
    return fork


def exported(store: EventStore, run: str, path: Path) -> bytes:
    """The cassette of a run."""
    return export_run(run, path, store=store).read_bytes()


def imported(data: bytes, path: Path, store: EventStore, **options: Any) -> ImportReport:
    """Import a cassette from bytes, as if they stood in a file."""
    source = SourceFile(str(path), path.name, data, content_address(data), EPOCH)
    return import_source(source, store, **options)


def content_of(store: EventStore) -> dict[str, Any]:
    """All that a store holds but its numbers: of each run what is known of it, and its rows and contents."""
    runs: dict[str, Any] = {}
    for info in store.runs():
        rows = list(store.rows(info))
        addresses = [address for row in rows for listed in row.conversations.values() for address in listed]
        runs[info.uid] = (
            (info.agent, info.status, info.steps, info.started, info.finished, info.origin, info.parent),
            (info.fork_of, info.fork_seq, info.head_seq, info.head_hash, store.note(info.uid)),
            [(row.seq, row.round, row.kind, row.version, row.time, row.within, row.task) for row in rows],
            [(row.body, row.body_hash, row.hash, row.conversations) for row in rows],
            dict(store.read_contents(addresses)),
        )
    return runs


def small_cassette(path: Path) -> bytes:
    """The bytes of a cassette of one line of each sort."""
    store = MemoryStore()
    record_small(store)
    return exported(store, UID(1), path)


def lines_of(data: bytes) -> list[dict[str, Any]]:
    """The lines as JSON."""
    return [json.loads(line) for line in data.splitlines()]


def closed(lines: list[bytes]) -> bytes:
    """A cassette of lines, closed with a last line that fits."""
    text = b"".join(line + b"\n" for line in lines)
    return text + b'{"cassette":"end","lines":%d,"hash":"%b"}\n' % (len(lines), content_address(text).encode())
