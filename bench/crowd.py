"""UI: fifty readers of a run while another process records it, as an agent does that is in a hurry.

Half of them hold a stream of events open, as a page does that somebody looks at; the others load the page of the run
again and again. Three processes take part, as in life: the one that records, the server, and this one, whose threads
read. First the recorder is measured alone, then beside the readers. What the readers were shown is kept, so that it can
be said whether any of it was older than what they had seen before, and whether the last event reached them all; and
what the server holds, threads and open files, is counted before they come and after they have left.

`python -m bench.crowd READERS RATE SECONDS PAUSE` prints all that as JSON: readers, events a second, seconds, and
seconds between two page loads of a reader.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import agentreplay as ar
from agentreplay.recorder.event_codec import StoredEvent
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import Head, RunInfo, Summary

EVENTS = 6
"""Of a round: begun, a tool called and returned, the payload changed, decided, finished."""

SETTLE_SECONDS = 15.0
"""How long the server may take to let go of what its readers had; threads that are idle end after ten."""

WAIT_SECONDS = 60.0
NOTHING = (-1, -1)
ENDS = 2
"""Events beside those of rounds: the run's start and its end."""


@dataclass
class Crowd:
    """What came of it.

    Attributes:
        recorded: events that are in the store.
        expected: events that the recorder made.
        alone, beside: seconds that nineteen of twenty appends take at most, without readers and with them.
        rate: events a second that were recorded beside the readers.
        loads: pages that were loaded meanwhile.
        refused: pages that came with another status than 200.
        stale: times that a reader was shown less than before: an earlier event, or an earlier step.
        last: the event and the step that each reader was shown last.
        steps: that the run has.
        held, left: threads and open files of the server before the readers came, and after they left.
    """

    recorded: int
    expected: int
    alone: float
    beside: float
    rate: float
    loads: int
    refused: int
    stale: int
    last: list[tuple[int, int]]
    steps: int
    held: tuple[int, int]
    left: tuple[int, int]


class _Timed(SqlStore):
    """A store that notes how long each append takes."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.times: list[float] = []

    def append_rows(self, info: RunInfo, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> Head:
        start = time.perf_counter()
        head = super().append_rows(info, expected_seq, rows, summary)
        self.times.append(time.perf_counter() - start)
        return head


def record(path: str, rounds: int, rate: float) -> None:
    """Record a run at so many events a second; it begins when a line comes in, and tells when it is ready and done."""
    store = _Timed(f"sqlite:///{path}")
    with ar.record("hurried", payload={"n": 0, "last": ""}, store=store) as run:
        print("ready", flush=True)
        sys.stdin.readline()
        store.times.clear()
        began = time.perf_counter()
        for number in range(rounds):
            with run.round() as r:
                r.tool("look", {"n": number}, lambda n: {"found": "z" * 200, "n": n})
                r.change(update={"n": number, "last": f"{'y' * 100}{number}"})
                r.decide(step="Actions", reasoning="one more look")
            time.sleep(max(began + (number + 1) * EVENTS / rate - time.perf_counter(), 0))
        took = time.perf_counter() - began
    times = sorted(store.times)
    store.close()
    print(json.dumps({"p95": times[len(times) * 95 // 100], "rate": rounds * EVENTS / took}), flush=True)


class _Recorder:
    """The process that records, ready to begin."""

    def __init__(self, path: Path, rounds: int, rate: float) -> None:
        program = (
            "import sys; from bench.crowd import record; record(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))"
        )
        command = [sys.executable, "-c", program, str(path), str(rounds), str(rate)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def go(self) -> dict[str, float]:
        """Record to the end; what it measured."""
        told, _ = self._process.communicate("\n")
        found: dict[str, float] = json.loads(told)
        return found


@dataclass(frozen=True)
class _Server:
    """The server, in a process of its own."""

    process: int
    port: int

    def held(self) -> tuple[int, int]:
        """Its threads, and its open files."""
        return len(os.listdir(f"/proc/{self.process}/task")), len(os.listdir(f"/proc/{self.process}/fd"))

    def settled(self, bound: tuple[int, int] | None = None) -> tuple[int, int]:
        """The same once it is no more than a bound, or does not change any more, or after a while."""
        deadline, last, since = time.monotonic() + SETTLE_SECONDS, self.held(), time.monotonic()
        while time.monotonic() < deadline:
            time.sleep(0.1)
            now = self.held()
            if bound is not None and now[0] <= bound[0] and now[1] <= bound[1]:
                return now
            if now != last:
                last, since = now, time.monotonic()
            if bound is None and time.monotonic() - since > 1.5:
                break
        return last


@contextmanager
def serving(path: Path) -> Iterator[_Server]:
    """Serve a store until the block ends."""
    command = [sys.executable, "-m", "agentreplay", "ui", "--store", str(path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found is not None
        yield _Server(process.pid, int(found[1]))
    finally:
        process.terminate()
        process.wait()


class _Reader(threading.Thread):
    """Reads a run until it has ended.

    Attributes:
        shown: the last event and the last step, each time.
        refused: answers with another status than 200.
    """

    def __init__(self, server: _Server, run: str) -> None:
        super().__init__(daemon=True)
        self.shown: list[tuple[int, int]] = []
        self.refused = 0
        self._server, self._run = server, run

    @property
    def stale(self) -> int:
        """How often less was shown than before."""
        return sum(new[0] < old[0] or new[1] < old[1] for old, new in pairwise(self.shown))

    def _get(self, target: str, read: Callable[[http.client.HTTPResponse], None]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=WAIT_SECONDS)
        try:
            connection.request("GET", target)
            answer = connection.getresponse()
            if answer.status != 200:
                self.refused += 1
            read(answer)
        finally:
            connection.close()


class _Follower(_Reader):
    """Holds a stream open until it ends."""

    def run(self) -> None:
        self._get(f"/api/v1/runs/{self._run}/live", self._follow)

    def _follow(self, answer: http.client.HTTPResponse) -> None:
        for line in answer:
            if line.startswith(b'data: {"head"'):
                told = json.loads(line[6:])
                self.shown.append((told["head"], told["step"]))


class _Loader(_Reader):
    """Loads the page of the run, again and again until it is told that the run is over, and then once more."""

    def __init__(self, server: _Server, run: str, pause: float, over: threading.Event) -> None:
        super().__init__(server, run)
        self._pause, self._over = pause, over

    def run(self) -> None:
        going_on = True
        while going_on:
            going_on = not self._over.wait(self._pause)
            self._get(f"/runs/{self._run}", self._see)

    def _see(self, answer: http.client.HTTPResponse) -> None:
        shown = re.search(rb'data-last="(\d+)" data-head="(\d+)"', answer.read())
        self.shown.append((int(shown[2]), int(shown[1])) if shown is not None else NOTHING)


def _readers(server: _Server, run: str, count: int, pause: float, over: threading.Event) -> list[_Reader]:
    followers: list[_Reader] = [_Follower(server, run) for _ in range(count // 2)]
    return followers + [_Loader(server, run, pause, over) for _ in range(count - len(followers))]


def crowd(readers: int, rate: float, seconds: float, pause: float) -> Crowd:
    """Record alone, then beside readers, and say what came of it.

    Args:
        readers: how many.
        rate: events a second.
        seconds: how long each of the two runs goes on.
        pause: seconds between two page loads of a reader.
    """
    rounds = round(rate * seconds / EVENTS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        alone = _Recorder(path, rounds, rate).go()
        with serving(path) as server:
            _read(_readers(server, "run1", readers, 0.0, _set()))  # so that what is made once is there
            held = server.settled()
            recorder, over = _Recorder(path, rounds, rate), threading.Event()
            crowd = _readers(server, "run2", readers, pause, over)
            for reader in crowd:
                reader.start()
            beside = recorder.go()
            over.set()
            _wait(crowd)
            left = server.settled(held)
        store = ar.open_store(path)
        head = store.run("run2").head_seq
        recorded = sum(1 for _ in store.events("run2"))
        store.close()
    assert recorded == head + 1
    return Crowd(
        recorded=recorded,
        expected=rounds * EVENTS + ENDS,
        alone=alone["p95"],
        beside=beside["p95"],
        rate=beside["rate"],
        loads=sum(len(reader.shown) for reader in crowd if isinstance(reader, _Loader)),
        refused=sum(reader.refused for reader in crowd),
        stale=sum(reader.stale for reader in crowd),
        last=[reader.shown[-1] if reader.shown else NOTHING for reader in crowd],
        steps=rounds,
        held=held,
        left=left,
    )


def _set() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def _read(readers: list[_Reader]) -> None:
    for reader in readers:
        reader.start()
    _wait(readers)


def _wait(readers: list[_Reader]) -> None:
    for reader in readers:
        reader.join(WAIT_SECONDS)


def main(arguments: Sequence[str]) -> None:
    """Print what came of it, as JSON."""
    readers, rate, seconds, pause = arguments
    found: dict[str, Any] = asdict(crowd(int(readers), float(rate), float(seconds), float(pause)))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
