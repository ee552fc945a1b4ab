"""Programs whose runs are joined by other processes, for tests of replaying them."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import agentreplay as ar


def made(what: str) -> None:
    """Note that a tool has really run."""
    with open(os.environ["MADE"], "a", encoding="utf-8") as file:
        file.write(f"{what}\n")


@ar.tool(safety="pure")
def setting(name: str) -> str:
    """A tool that all workers call first, with the same arguments."""
    made(f"setting {name}")
    return name.upper()


@ar.tool(safety="pure")
def count_words(text: str) -> int:
    """A tool that tells workers apart."""
    made(f"count {text}")
    return len(text.split())


@ar.tool(safety="pure")
async def acount(text: str) -> int:
    """The same as a coroutine."""
    await asyncio.sleep(0.001)
    made(f"count {text}")
    return len(text.split())


def count(run: str, text: str) -> int:
    """What a worker does: one call."""
    with ar.join(run):
        return count_words(text)


def alike(run: str, text: str) -> int:
    """Two calls, of which the first is the same in all workers, and a value that is another one in each."""
    with ar.join(run) as joined:
        setting("language")
        seen = joined.read("seen", lambda: os.getpid())
        return count_words(text) + 0 * int(seen)


def at_once(run: str, text: str) -> int:
    """Calls in an event loop of the worker's own, several at once."""

    async def work() -> int:
        async with ar.join(run):
            return sum(await asyncio.gather(*[acount(word) for word in text.split()]))

    return asyncio.run(work())


def fails(run: str, text: str) -> int:
    """A worker that ends with an error, if it counts an odd number of words."""
    with ar.join(run):
        words = count_words(text)
        if words % 2:
            raise ValueError(text)
        return words


@ar.tool(safety="irreversible")
def send(text: str) -> int:
    """A tool that a re-run has to be allowed."""
    made(f"send {text}")
    return len(text.split())


def sends(run: str, text: str) -> int:
    """A worker that does harm, tries again where it was stopped, and does something else."""
    with ar.join(run):
        for tool in (send, send, count_words):
            try:
                return tool(text)
            except Exception:
                continue
        return -1


def outside(run: str, text: str) -> int:
    """A worker that makes a call which it does not record."""
    return count_words(text)


def put(work: Callable[[str, str], int], run: str, text: str, queue: Any) -> None:
    """Have another process do some work, and tell of it through a queue."""
    try:
        queue.put(work(run, text))
    except ValueError:
        queue.put(0)


def processes(work: Callable[[str, str], int], texts: Sequence[str], start: str = "fork") -> Callable[[], Any]:
    """A run in which a process is started for each text, and waited for at a queue that only they fill."""
    context: Any = multiprocessing.get_context(start)

    def program() -> None:
        with ar.record("counting") as run:
            with run.round() as r:
                queue = context.Queue()
                workers = [context.Process(target=put, args=(work, run.id, text, queue)) for text in texts]
                for worker in workers:
                    worker.start()
                total = sum(queue.get() for _ in workers)
                for worker in workers:
                    worker.join()
                r.change(new={"total": total})
            run.complete(total)

    return program


def pooled(work: Callable[[str, str], int], texts: Sequence[str]) -> Callable[[], Any]:
    """The same with a pool of processes, which serves two rounds."""

    def program() -> None:
        with ar.record("counting") as run:
            total = 0
            with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
                for _ in range(2):
                    with run.round():
                        total += sum(future.result() for future in [pool.submit(work, run.id, text) for text in texts])
            run.complete(total)

    return program


def commands(texts: Sequence[str]) -> Callable[[], Any]:
    """The same with commands that are given the run's id, and whose output is read."""

    def program() -> None:
        with ar.record("counting") as run:
            with run.round():
                code = f"import joined_programs as p; print(p.count({run.id!r}, {{!r}}))"
                given = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
                outputs = [
                    subprocess.run(
                        [sys.executable, "-c", code.format(text)], capture_output=True, env=given, check=True
                    )
                    for text in texts
                ]
            run.complete(sum(int(output.stdout) for output in outputs))

    return program
