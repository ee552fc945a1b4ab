"""Records a run a step at a time: `python stepping.py STORE` goes on by a step for each line that it reads.

It says the run's name on standard output, and which step is done; where there is no more to read, the run is completed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import agentreplay as ar


class Stepping:
    """A run that is being recorded by a process of its own."""

    def __init__(self, store: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asked, self._said = self._process.stdin, self._process.stdout
        self.id = self._said.readline().strip()
        """The run's name in the store."""
        assert self.id.startswith("run")

    def step(self, number: int = 1) -> None:
        """Record so many more steps, and wait until they are."""
        for _ in range(number):
            self._asked.write("\n")
            self._asked.flush()
            assert self._said.readline().startswith("step ")

    def complete(self) -> None:
        """End the run, and wait until it has ended."""
        self._asked.close()
        assert self._process.wait(timeout=20) == 0

    def kill(self) -> None:
        """End the process where it stands."""
        self._process.kill()
        self._process.wait(timeout=20)
        self._asked.close()
        self._said.close()


@contextmanager
def stepping(store: Path) -> Iterator[Stepping]:
    """A run that is recorded as the test says, and not longer."""
    made = Stepping(store)
    try:
        yield made
    finally:
        made.kill()


def main(store: str) -> None:
    """Record until there is nothing more to read."""
    with ar.record("stepping", payload={"n": 0}, store=store) as run:
        print(run.id, flush=True)
        for number, _line in enumerate(sys.stdin, 1):
            with run.round() as r:
                r.tool("count", {"to": number}, lambda to: to, safety="pure")
                r.change(update={"n": number}, reason="one further")
                r.decide(step="Retry", reasoning=f"step number {number}")
            print(f"step {number}", flush=True)
        run.complete("done")


if __name__ == "__main__":
    main(sys.argv[1])
