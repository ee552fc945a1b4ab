"""`python -m bench`: measure every gate and print the table; exit 1 if one fails twice.

`python -m bench G3 G6` measures these only; `python -m bench peers` measures beside what others do, in an environment
that has them (`make bench-peers`).

How long an fsync takes swings tenfold from run to run, and would drown what is compared here. Where a C compiler is
found, the measuring process therefore runs with an fsync that does nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from rich.console import Console
from rich.table import Table

from . import (
    append,
    differences,
    keeping,
    memory,
    peers,
    replaying,
    seeking,
    startup,
    state_size,
    storage,
    strands_agents,
    testing,
    web,
)
from .measuring import Row

Part = Callable[[], Iterable[Row]]

PARTS: Sequence[tuple[Part, Sequence[str]]] = (
    (append.rows, ("G1",)),
    (state_size.rows, ("G3",)),
    (partial(state_size.rows_beside, "a secret", state_size.SECRET), ("G3",)),
    (partial(state_size.rows_beside, "a date", state_size.DATE), ("G3",)),
    (partial(seeking.rows, growing=False), ("G5", "G9")),
    (partial(seeking.rows, growing=True), ("G5",)),
    (partial(keeping.rows, inside=False), ("G6",)),
    (partial(keeping.rows, inside=True), ("G6",)),
    (differences.rows, ("G7",)),
    (startup.rows, ("G9",)),
    (partial(memory.rows, "functions", ""), ("G10",)),
    (partial(memory.rows, "coroutines", ", on an event loop"), ("G10",)),
    (partial(memory.rows, "pauses", ", snapshots taken"), ("G10",)),
    (storage.rows, ("G11",)),
    (replaying.rows, ("G12",)),
    (partial(web.rows, "30,000 steps", web.long_run, web.STEPS, web.MEMORY), ("UI",)),
    (partial(web.rows, "100 MB", web.large_payload, web.LARGE_STEPS, web.MEMORY_LARGE), ("UI",)),
    (web.crowd_rows, ("UI",)),
    (testing.rows, ("TESTS",)),
    (strands_agents.rows, ("STRANDS",)),
)
"""What measures which gates. A part in which one is missed is measured once more as a whole."""

PEERS: Sequence[tuple[Part, Sequence[str]]] = (
    (partial(peers.rows, "1 KB of text", append.answer_of(1_000), gated=True), ("G2",)),
    (partial(peers.rows, "1 KB of records", peers.records_of(1_000), gated=True), ("G2",)),
    (partial(peers.rows, "20 KB of text", append.answer_of(20_000), gated=False), ("G2",)),
    (peers.storage_rows, ("G11",)),
)

STUB = "int fsync(int file) { return 0; } int fdatasync(int file) { return 0; }"
PRELOADED = "AGENTREPLAY_BENCH_PRELOADED"


def without_fsync() -> int | None:
    """Run this program again with the stub in place; its exit code, or None where that cannot be done."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if PRELOADED in os.environ:
        return None
    if compiler is None or sys.platform != "linux":
        print("No C compiler for an fsync that does nothing: what appends are compared to will swing.")
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "nofsync.so")
        command = [compiler, "-shared", "-fPIC", "-o", library, "-x", "c", "-"]
        subprocess.run(command, input=STUB.encode(), check=True)
        environment = os.environ | {"LD_PRELOAD": library, PRELOADED: "1"}
        return subprocess.run([sys.executable, "-m", "bench", *sys.argv[1:]], env=environment, check=False).returncode


def measured(parts: Iterable[Part]) -> list[Row]:
    """The rows of all parts, by gate; of a row that missed its goal, what was measured the second time."""
    rows: list[Row] = []
    for part in parts:
        found = list(part())
        if not all(row.passed for row in found):
            again = {(row.gate, row.what): row for row in part()}
            found = [row if row.passed else again[row.gate, row.what] for row in found]
        rows.extend(found)
    return sorted(rows, key=lambda row: _place(row.gate))


def _place(gate: str) -> int:
    """Where a gate stands in the table: those with numbers first, in order."""
    return int(gate[1:]) if gate[1:].isdigit() else sys.maxsize


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and say whether every gate holds.

    Args:
        arguments: names of gates, by default all; "peers" for what is measured beside peers.
    """
    if (code := without_fsync()) is not None:
        return code
    gates = set(arguments) - {"peers"}
    parts = PEERS if "peers" in arguments else PARTS
    known = sorted({gate for _, names in parts for gate in names}, key=_place)
    if unknown := gates.difference(known):
        print(f"{', '.join(sorted(unknown))}: not measured here; choose from {', '.join(known)}.")
        return 2
    rows = measured(part for part, names in parts if not gates or gates.intersection(names))
    table = Table("gate", "what", "measured", "ratio", "goal", "")
    for row in rows:
        verdict = "" if row.goal is None else "[green]ok[/]" if row.passed else "[red]missed[/]"
        table.add_row(*row.cells, verdict)
    Console(width=128).print(table)
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
