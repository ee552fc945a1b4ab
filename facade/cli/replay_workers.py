"""Replaying many recordings beside each other, each worker a process of its own that is given one after the other.

A worker is this program started once more, with a pipe to it and one back. So nothing of it depends on how a system
makes processes, code that ends its process ends a worker and no more, and what code has left in one worker's memory
reaches no other. Fewer processes than recordings, because loading the code takes longer than replaying it.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from typing import IO, Final

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # nobody wants to know where it came to while all of this is loaded

from .group import INTERRUPTED
from .replay_jobs import Done, Job, do
from .replay_words import ended_with, took_longer

_COMMAND: Final = [sys.executable, "-P", "-m", __name__]


def processes() -> int:
    """How many processes this one may keep busy: the cores that it may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def replay_all(jobs: Sequence[Job], number: int, seconds: float | None = None) -> Iterator[tuple[int, Done]]:
    """Replay recordings, `number` at a time; gives each with its place in the list, as it is done.

    Args:
        jobs: the recordings.
        number: of processes.
        seconds: how long each may take; None for ever.
    """
    workers = [_Worker(seconds) for _ in range(min(number, len(jobs)))]
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def work(job: Job) -> Done:
        worker = idle.get()
        try:
            return worker.do(job)
        finally:
            idle.put(worker)

    with ThreadPoolExecutor(len(workers)) as pool:
        begun = {pool.submit(work, job): place for place, job in enumerate(jobs)}
        try:
            for one in as_completed(begun):
                yield begun[one], one.result()
        finally:  # where nobody wants the rest, it is not waited for
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.end()


class _Worker:
    """A process that replays what it is given, each in so many seconds at most."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def do(self, job: Job) -> Done:
        """Have a recording replayed. If the process ends over it, that is what came of it, and the next has another."""
        if self._process is None:
            self._process = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process = self._process
        assert process.stdin is not None  # they were asked for
        assert process.stdout is not None
        late = threading.Event()
        began = time.monotonic()
        try:
            send(process.stdin, job)
            with _ending(process, self._seconds, late):
                done: Done = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            self._process = None
            process.stdout.close()
            with suppress(OSError):  # what is left in it cannot be sent any more
                process.stdin.close()
            code = process.wait()
            told = took_longer(self._seconds) if late.is_set() else ended_with(code)
            return Done(job, "error", error=told, seconds=time.monotonic() - began)
        return done

    def end(self) -> None:
        """End the process, whatever it does."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    if pipe is not None:
                        pipe.close()


@contextmanager
def _ending(process: subprocess.Popen[bytes], seconds: float | None, late: threading.Event) -> Iterator[None]:
    """In this block, a process is ended after so many seconds, and `late` says so."""

    def end() -> None:
        late.set()
        process.kill()

    timer = None if seconds is None else threading.Timer(seconds, end)
    if timer is not None:
        timer.start()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


def send(pipe: IO[bytes], what: Job | Done) -> None:
    """Write something into a pipe."""
    pipe.write(pickle.dumps(what))
    pipe.flush()


def work() -> None:
    """Be a worker: replay what comes in, until nothing more does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    jobs, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # threads of the code may print at any time
    while True:
        try:
            job: Job = pickle.load(jobs)
            done = do(job)
        except EOFError:
            return
        except KeyboardInterrupt:  # the process that replays has been told as well
            os._exit(INTERRUPTED)
        send(results, done)


if __name__ == "__main__":
    work()
