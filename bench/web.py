"""UI: what looking costs at a run of 30,000 steps, and at a payload of 100 MB; and fifty readers beside a recorder.

Looking happens in a process of its own, in which nothing was looked at before, through the application as the server
calls it (WSGI): a request goes in, and the bytes of the answer come out. The *first view* is the page of the run; its
bytes are those of all that it loads, too, as they are sent, uncompressed: styles, scripts, the icon, the picture above
its steps, and a payload that comes after its page because it takes long. Then it *jumps* to steps at random, while the
server still goes through the run. That is finding a state, which is compared to loading one as G5 does, in time that
the thread worked; and making the page, with the payload that comes after it. Memory is the most that the process had,
less what it had before its first request.

The readers are brought together by `crowd`.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import agentreplay as ar
import orjson
from agentreplay.snapshotting import taker

from .crowd import crowd
from .measuring import Row, duration, medians
from .memory import resident
from .seeking import steady

STEPS = 30_000
LARGE = 100_000_000
LARGE_STEPS = 12
VIEWS = 3
"""Processes that look at the same run; what counts is the median, and the most memory."""

JUMPS = 100
AGAIN = 10
WAIT_SECONDS = 120.0
FIRST_SECONDS, FIRST_BYTES = 0.3, 300_000
MEMORY, MEMORY_LARGE = 50e6, 1_200e6
"""Bytes by which the looking process grows at most; of a payload of 100 MB twelve times its JSON."""

READERS, RATE, CROWD_SECONDS, PAUSE = 50, 500.0, 10.0, 1.0
SLOWER = 3.0
"""How much longer an append may take beside the readers: they, their server and the recorder share the processors."""

PROGRAM = "import sys; from bench.web import look; look(sys.argv[1], int(sys.argv[2]))"


def long_run(path: Path) -> None:
    """Record 30,000 rounds of six events, over a payload of about 100 KB."""
    with ar.record("long", payload=steady(), store=str(path)) as run:
        for number in range(STEPS):
            with run.round() as r:
                r.tool("look", {"n": number}, lambda n: {"found": "z" * 350, "n": n})
                r.change(update={"n": number, "last": f"{'y' * 200}{number}"})
                r.decide(step="Actions", reasoning="one more look")
    taker.wait()


def large_payload(path: Path) -> None:
    """Record a few rounds that change a little of a payload of 100 MB."""
    rows = [{"id": n, "text": f"{n} {'x' * 990}", "score": n / 7} for n in range(LARGE // 1_040)]
    with ar.record("large", payload={"n": 0, "rows": rows}, store=str(path)) as run:
        for number in range(LARGE_STEPS):
            with run.round() as r:
                r.change(patch=[{"op": "replace", "path": f"/rows/{number * 7}/text", "value": f"changed {number}"}])
                r.decide(step="Actions", reasoning="one more change")
    taker.wait()


class _Looking:
    """Somebody who looks, without a server in between."""

    def __init__(self, path: str) -> None:
        from agentreplay.webui.app import SWITCH_SECONDS, create_app
        from agentreplay.webui.rendering import compile_templates

        sys.setswitchinterval(SWITCH_SECONDS)
        self._app: Any = create_app(ar.open_store(path))
        compile_templates()  # both as the server does before it serves

    def get(self, target: str, **headers: str) -> tuple[float, bytes]:
        """Seconds that an answer takes, and its bytes; it must be a good one."""
        from werkzeug.test import create_environ

        environ = create_environ(target, headers={"Accept-Encoding": "gzip", **headers})
        sent: list[bytes] = []

        def start(status: str, named: list[tuple[str, str]], _problem: object = None) -> Callable[[bytes], object]:
            sent.append(b"".join(f"{name}: {value}\r\n".encode() for name, value in named))
            assert status.startswith("200"), f"{target}: {status}"
            return sent.append

        began = time.perf_counter()
        answer = self._app(environ, start)
        sent.extend(answer)
        took = time.perf_counter() - began
        if hasattr(answer, "close"):
            answer.close()
        return took, b"".join(sent)

    def first(self) -> tuple[float, int]:
        """Seconds that the first page takes, and the bytes that it and all that it loads are."""
        took, page = self.get("/runs/run1")
        parts = re.findall(rb'(?:src|href)="(/static/[^"]+)"|data-src="([^"]+)"', page)
        targets = [(static or part).decode().replace("&amp;", "&") for static, part in parts]
        return took, len(page) + sum(len(self.get(target, X_Part="1")[1]) for target in set(targets))

    def wait(self) -> None:
        """Wait until the server has gone through the whole run, as it does beside its requests."""
        site = self._app.extensions["agentreplay"]
        overview = site.overviews.complete(site.store.run("run1"), WAIT_SECONDS)
        assert overview.covers(site.store.run("run1"))

    def jump(self, step: int) -> tuple[float, float]:
        """Seconds of work that finding a state takes, and seconds that its page takes then, with a late payload."""
        site = self._app.extensions["agentreplay"]
        info = site.store.run("run1")
        began = time.thread_time()
        site.reader.state(info, step)
        sought = time.thread_time() - began
        page, shown = self.get(f"/runs/run1/steps/{step}/detail")
        if f"/steps/{step}/payload".encode() in shown:
            page += self.get(f"/runs/run1/steps/{step}/payload", **{"X-Part": "1"})[0]
        return sought, page


def peak() -> int:
    """Bytes of memory that this process had at most."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1_024


def look(path: str, steps: int) -> None:
    """Look at a run of so many steps, and print what that took, as JSON."""
    looking = _Looking(path)
    before = resident()
    first, size = looking.first()
    chosen = random.Random(7).sample(range(1, steps + 1), min(JUMPS, steps))
    jumps = [looking.jump(step) for step in chosen]
    looking.wait()  # what is kept of the run as a whole is part of the memory
    for step in chosen[-AGAIN:]:
        looking.jump(step)
    grown = peak() - before
    state = orjson.dumps(ar.state_at("run1", steps // 2, ar.open_store(path)).payload)
    load = medians({"load": lambda: orjson.loads(state)}, rounds=5, repeat=3)["load"]
    print(json.dumps({"first": first, "size": size, "jumps": jumps, "grown": grown, "load": load}))


def _look_at(path: Path, steps: int) -> dict[str, Any]:
    command = [sys.executable, "-c", PROGRAM, str(path), str(steps)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def rows(name: str, record: Callable[[Path], None], steps: int, most_memory: float) -> Iterator[Row]:
    """Measure the first view of a run, jumps in it, and the memory that they take."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        record(path)
        looks = [_look_at(path, steps) for _ in range(VIEWS)]
    first = statistics.median(look["first"] for look in looks)
    yield Row("UI", f"first view, {name}", duration(first), first, FIRST_SECONDS, duration)
    yield Row.of_size("UI", f"its bytes, {name}", max(look["size"] for look in looks), FIRST_BYTES)
    load = statistics.median(look["load"] for look in looks)
    jumps = list(zip(*(look["jumps"] for look in looks), strict=True))
    sought, drawn = (sorted(statistics.median(one[part] for one in same) for same in jumps) for part in (0, 1))
    for p, goal in ((50, 12.0), (95, 20.0)):
        took = sought[len(sought) * p // 100]
        yield Row("UI", f"jump to a state, p{p}, {name}", duration(took), took / load, goal)
    took = drawn[len(drawn) * 95 // 100]
    yield Row("UI", f"its page, p95, {name}", duration(took), took, None, duration)
    yield Row.of_size("UI", f"memory, {name}", max(look["grown"] for look in looks), most_memory)


def crowd_rows() -> Iterator[Row]:
    """Measure what readers cost a recorder, and what becomes of them."""
    found = crowd(READERS, RATE, CROWD_SECONDS, PAUSE)
    reached = (found.expected - 1, found.steps)
    kept_from = sum(last != reached for last in found.last) + found.stale + found.refused
    left = sum(max(after - before, 0) for before, after in zip(found.held, found.left, strict=True))
    who = f"{READERS} readers"
    kept = f"{found.recorded:,} events"
    yield Row("UI", f"lost beside {who}", kept, found.expected - found.recorded, 0, _count)
    yield Row("UI", "500 events a second, to those recorded", f"{found.rate:.0f}", RATE / found.rate, 1.1)
    slower = found.beside / found.alone
    yield Row("UI", f"an append, p95, beside {who} to alone", duration(found.beside), slower, SLOWER)
    yield Row("UI", f"old, missing or refused, {who}", f"{found.loads:,} pages", kept_from, 0, _count)
    yield Row("UI", f"threads and files left by {who}", f"{sum(found.left)} held", left, 0, _count)


def _count(number: float) -> str:
    return f"{number:.0f}"
