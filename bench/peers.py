"""G2 and G11 beside peers: what others take to store an answer of a model, and a conversation that is sent whole.

Each peer does what it is made for, with its own settings: eventsourcing inserts an event, LangGraph's SqliteSaver puts
a checkpoint of a state of that size, agent-rewind records a decorated call, agent-timetravel inserts a span. Each
answer is committed, or for agent-rewind written to a file, before the next. All arms are past the first checkpoint of
their write-ahead logs, and another connection sees every row before and after timing. `peers.txt` pins the versions;
one that is not installed shows as such, and its gate as missed.
"""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import orjson

from . import storage
from .append import PAGE, ROUND_PAGES, Ours
from .measuring import Row, duration, medians, size_of

RECORD = "import sys; from bench.peers import STORED; from bench.storage import history; "
RECORD += "STORED[sys.argv[1]](sys.argv[2], history())"


class _Arm(Protocol):
    """Stores one answer when it is called."""

    def __call__(self) -> object: ...

    def rows(self) -> int:
        """How many answers another connection sees."""

    def close(self) -> None: ...


def _count(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as other:
        return int(other.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # a name from this file


class _Eventsourcing:
    """`insert_events` of the recorder for applications, with the state as orjson writes it."""

    def __init__(self, folder: Path, answer: Any) -> None:
        from eventsourcing.persistence import StoredEvent
        from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

        self._path = folder / "eventsourcing.db"
        self._datastore = SQLiteDatastore(str(self._path))
        self._recorder = SQLiteApplicationRecorder(self._datastore)
        self._recorder.create_table()
        self._event, self._answer, self._run, self._version = StoredEvent, answer, uuid4(), 0

    def __call__(self) -> None:
        self._version += 1
        state = orjson.dumps({"call": "1.1", "response": self._answer, "duration": 0.25})
        self._recorder.insert_events([self._event(self._run, self._version, "bench:ModelReturned", state)])

    def rows(self) -> int:
        return _count(self._path, "stored_events")

    def close(self) -> None:
        self._datastore.close()


class _Langgraph:
    """`SqliteSaver.put` of a checkpoint whose state is the answer."""

    def __init__(self, folder: Path, answer: Any) -> None:
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.sqlite import SqliteSaver

        self._path = folder / "langgraph.db"
        self._connection = sqlite3.connect(self._path, check_same_thread=False)
        self._saver = SqliteSaver(self._connection)
        self._saver.setup()
        self._checkpoint, self._answer, self._step = empty_checkpoint, answer, 0
        self._number: str | None = None
        self._config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}

    def __call__(self) -> None:
        self._step += 1
        self._number = number = self._saver.get_next_version(self._number, None)
        checkpoint: Any = {
            **self._checkpoint(),
            "channel_values": {"answer": self._answer},
            "channel_versions": {"answer": number},
        }
        metadata: Any = {"source": "loop", "step": self._step, "parents": {}}
        self._config = self._saver.put(self._config, checkpoint, metadata, {"answer": number})

    def rows(self) -> int:
        return _count(self._path, "checkpoints")

    def close(self) -> None:
        self._connection.close()


class _Rewind:
    """A decorated call. The recording keeps its events in memory, so a new one is begun now and then."""

    def __init__(self, folder: Path, answer: Any) -> None:
        import rewind

        self._record: Callable[[Path], AbstractContextManager[Any]] = rewind.record
        self._call = rewind.llm(lambda call: answer)
        self._folder = folder / "rewind"
        self._stack = ExitStack()
        self._made = 0

    def __call__(self) -> None:
        if self._made % 1_000 == 0:
            self._stack.close()
            self._stack.enter_context(self._record(self._folder / f"{self._made}.rewind"))
        self._made += 1
        self._call("1.1")

    def rows(self) -> int:
        files = list(self._folder.glob("*.rewind"))
        return sum(file.read_bytes().count(b"\n") for file in files) - len(files)  # less one header each

    def close(self) -> None:
        self._stack.close()


class _Timetravel:
    """`insert_span` of a span whose attributes are the answer."""

    def __init__(self, folder: Path, answer: Any) -> None:
        from agent_timetravel.models import Span, Trace
        from agent_timetravel.storage import TraceStore

        self._path = folder / "timetravel.db"
        self._store = TraceStore(self._path)
        self._store.upsert_trace(Trace(trace_id="a" * 32))
        self._span, self._answer, self._made = Span, answer, 0

    def __call__(self) -> None:
        self._made += 1
        span = self._span(
            trace_id="a" * 32, span_id=f"{self._made:016x}", name="ask", raw_attributes={"output": self._answer}
        )
        self._store.insert_span(span)

    def rows(self) -> int:
        return _count(self._path, "spans")

    def close(self) -> None:
        """It keeps nothing open."""


class _Ours(Ours):
    def rows(self) -> int:
        return _count(self.path, "event WHERE kind != ''")

    def close(self) -> None:
        self.store.close()


APPENDED: Mapping[str, tuple[Callable[[Path, Any], _Arm], float | None]] = {
    "eventsourcing": (_Eventsourcing, 0.7),
    "langgraph-checkpoint-sqlite": (_Langgraph, 0.7),
    "agent-rewind": (_Rewind, 0.2),
    "agent-timetravel": (_Timetravel, None),
}
"""By distribution: the arm, and the goal of our append in its terms."""


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def records_of(size: int) -> dict[str, Any]:
    """A structured answer of about `size` bytes of JSON: many small values, where `answer_of` has few long texts."""
    items = [{"id": n, "name": f"name {n}", "ok": True, "score": n / 7} for n in range(size // 62)]
    return {"role": "assistant", "items": items}


def _appends(answer: dict[str, Any]) -> Mapping[str, float]:
    """Seconds per append of each arm that is installed, checkpoints included."""
    cycle = ROUND_PAGES // -(-len(orjson.dumps(answer)) // PAGE)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        arms: dict[str, _Arm] = {"ours": _Ours(folder, answer)}
        arms |= {name: arm(folder, answer) for name, (arm, _) in APPENDED.items() if _version(name) is not None}
        for arm in arms.values():
            stack.callback(arm.close)
            for _ in range(cycle):
                arm()
        _check(arms, cycle)
        rounds = 11
        times = medians(arms, rounds=rounds, repeat=cycle)
        _check(arms, cycle + 1 + rounds * cycle)  # medians calls each arm once before it times it
        return times


def _check(arms: Mapping[str, _Arm], made: int) -> None:
    for name, arm in arms.items():
        if (seen := arm.rows()) != made:
            raise AssertionError(f"{name}: another connection sees {seen} of {made} rows")


def rows(name: str, answer: dict[str, Any], *, gated: bool) -> Iterator[Row]:
    """Measure with one answer. The goals are about answers of 1 KB."""
    times = _appends(answer)
    for peer, (_, goal) in APPENDED.items():
        found = _version(peer)
        goal = goal if gated else None
        what = f"append {name}, to {peer} {found or ''}"
        if found is None:
            yield Row("G2", what, "not installed", math.inf, goal)
        else:
            measured = f"{duration(times['ours'])} : {duration(times[peer])}"
            yield Row("G2", what, measured, times["ours"] / times[peer], goal)


# -- a conversation that is sent whole --------------------------------------------------------------------------------


def _store_in_eventsourcing(path: str, messages: list[dict[str, Any]]) -> None:
    from eventsourcing.persistence import StoredEvent
    from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

    with closing(SQLiteDatastore(path)) as datastore:
        recorder = SQLiteApplicationRecorder(datastore)
        recorder.create_table()
        run = uuid4()
        for number in range(len(messages)):
            state = orjson.dumps({"messages": messages[: number + 1]})
            recorder.insert_events([StoredEvent(run, number, "bench:ModelCalled", state)])


def _store_in_langgraph(path: str, messages: list[dict[str, Any]]) -> None:
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver

    config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    with SqliteSaver.from_conn_string(path) as saver:
        for number in range(len(messages)):
            values = {"messages": messages[: number + 1]}
            checkpoint: Any = {**empty_checkpoint(), "channel_values": values, "channel_versions": {"messages": number}}
            config = saver.put(config, checkpoint, {"source": "loop", "step": number}, {"messages": number})


def _store_in_rewind(path: str, messages: list[dict[str, Any]]) -> None:
    import rewind

    ask = rewind.llm(lambda messages: {"role": "assistant"})
    with rewind.record(path):
        for number in range(len(messages)):
            ask(messages[: number + 1])


def _store_in_timetravel(path: str, messages: list[dict[str, Any]]) -> None:
    from agent_timetravel.models import Span, Trace
    from agent_timetravel.storage import TraceStore

    store = TraceStore(path)
    store.upsert_trace(Trace(trace_id="a" * 32))
    for number in range(len(messages)):
        attributes = {
            f"llm.input_messages.{at}.message.{key}": value
            for at, message in enumerate(messages[: number + 1])
            for key, value in message.items()
        }
        store.insert_span(Span(trace_id="a" * 32, span_id=f"{number:016x}", name="ask", raw_attributes=attributes))


STORED: Mapping[str, Callable[[str, list[dict[str, Any]]], None]] = {
    "eventsourcing": _store_in_eventsourcing,
    "langgraph-checkpoint-sqlite": _store_in_langgraph,
    "agent-rewind": _store_in_rewind,
    "agent-timetravel": _store_in_timetravel,
}


def storage_rows() -> Iterator[Row]:
    """Measure the room that the same conversation takes in each, after the process that stored it has ended."""
    ours = storage.measured()
    yield storage.row(ours)
    last = storage.history()[-1]["content"].encode()
    for peer in STORED:
        found = _version(peer)
        what = f"the same in {peer} {found or ''}"
        if found is None:
            yield Row("G11", what, "not installed", math.inf, None)
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "stored"
            subprocess.run([sys.executable, "-c", RECORD, peer, str(path)], check=True)
            size = storage.settled_size(path)
            if last not in path.read_bytes():
                raise AssertionError(f"{peer} did not store the last request")
        yield Row("G11", what, size_of(size), ours / size, None)
