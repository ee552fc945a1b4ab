"""Records the cassettes in `fixtures/cassettes`: `python tests/record_cassettes.py`, in the repository's root.

A cassette that is there stays as it is, for it stands for the format and the recorder of its day. To record one anew,
delete it first. The agent is `examples/refunds.py`, run from its file; what would tell of the machine is replaced.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from agentreplay.recorder.exporting import export_run
from agentreplay.recorder.memory_store import MemoryStore
from cassette_runs import record_every_line

FOLDER = Path("fixtures/cassettes")
EXAMPLE = Path("examples/refunds.py")


def load_example() -> ModuleType:
    """The example, as a module of its own, whose code names its file relative to the root."""
    module = ModuleType("refunds")
    sys.modules["refunds"] = module
    exec(compile(EXAMPLE.read_text(encoding="utf-8"), str(EXAMPLE), "exec"), module.__dict__)
    return module


def payloads(example: ModuleType) -> dict[str, dict[str, Any]]:
    """Starting payloads by how the run ends: an order without a coupon gives the model nothing to get wrong."""
    example.ORDERS["A-18"] = {**example.ORDERS["A-17"], "id": "A-18", "coupon": None}
    return {"failed": example.START, "completed": {**example.START, "order_id": "A-18"}}


def main() -> None:
    """Record what is missing."""
    every_line = FOLDER / "version_1" / "every_line.jsonl"
    if not every_line.exists():
        store = MemoryStore()
        print(export_run(record_every_line(store), every_line, store=store))
    identity = {"host": "example", "boot": None, "pid": 1, "start": None}
    with patch("agentreplay.recorder.run_recorder.process_identity", lambda: identity):
        example = load_example()
        for outcome, payload in payloads(example).items():
            path = FOLDER / f"refunds.{outcome}.jsonl"
            if not path.exists():
                store = MemoryStore()
                run = example.step.run(payload, store=store).run
                print(export_run(run.uid, path, store=store))


if __name__ == "__main__":
    main()
