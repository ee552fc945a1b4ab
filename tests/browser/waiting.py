"""An agent of three rounds, each of which waits for a file: by that a test says when it goes on."""

from __future__ import annotations

import time
from pathlib import Path

import agentreplay as ar

ROUNDS = 3


@ar.tool(safety="idempotent")
def wait_for(path: str) -> str:
    """Wait until there is such a file."""
    while not Path(path).exists():
        time.sleep(0.02)
    return path


@ar.agent("waiting", max_rounds=10)
def step(round_index: int, context: ar.Context) -> ar.Continue | ar.Complete[int]:
    """Wait for the file that is named after the round, and count on."""
    print(f"round {round_index}", flush=True)
    found = wait_for(f"{context.payload['folder']}/{round_index}")
    context.change(update={"n": context.payload["n"] + 1}, new={f"found_{round_index}": found}, reason="one further")
    return ar.Continue() if round_index < ROUNDS else ar.Complete(context.payload["n"])
