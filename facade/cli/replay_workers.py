"""Replaying many recordings beside each other, each worker a process of its own that is given one after the other.

A worker is this program started once more, with a pipe to it and one back. So nothing of it depends on how a system
makes processes, code that ends its process ends a worker and no more, and what code has left in one worker's memory
reaches no other. Fewer processes than recordings, because loading the code takes longer than replaying it.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import IO, Final

from .group import INTERRUPTED
from .replay_jobs import Done, Job, do

_COMMAND: Final = [sys.executable, "-P", "-m", __name__]


def processes() -> int:
    """How many processes this one may keep busy: the cores that it may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def replay_all(jobs: Sequence[Job], number: int) -> Iterator[tuple[int, Done]]:
    """Replay recordings, `number` at a time; gives each with its place in the list, as it is done."""
    workers = [_Worker() for _ in range(min(number, len(jobs)))]
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
    """A process that replays what it is given."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def do(self, job: Job) -> Done:
        """Have a recording replayed. If the process ends over it, that is what came of it, and the next has another."""
        if self._process is None:
            self._process = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process = self._process
        assert process.stdin is not None  # they were asked for
        assert process.stdout is not None
        try:
            send(process.stdin, job)
            done: Done = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            self._process = None
            process.stdout.close()
            with suppress(OSError):  # what is left in it cannot be sent any more
                process.stdin.close()
            code = process.wait()
            return Done(job, "error", error=f"the code ended its process, with code {code}")
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


def send(pipe: IO[bytes], what: Job | Done) -> None:
    """Write something into a pipe."""
    pipe.write(pickle.dumps(what))
    pipe.flush()


def work() -> None:
    """Be a worker: replay what comes in, until nothing more does."""
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
