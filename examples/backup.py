"""A run that is cancelled while a tool is at work.

The tape drive never answers. Whoever started the run loses patience and cancels it; the recording has the call that
was in flight, where the cancellation reached the agent, and what the agent still did about it.

    agentreplay show @last
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import agentreplay as ar

START: dict[str, Any] = {"folders": ["letters", "photos", "tape"], "copied": []}


class Tape:
    """A drive that never answers; `asked` is set once it is asked."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()


tape = Tape()


@ar.tool(safety="idempotent")
async def copy(folder: str) -> int:
    """Copy a folder; returns how many files it had. The tape drive hangs."""
    if folder == "tape":
        tape.asked.set()
        await asyncio.Event().wait()
    return len(folder)


@ar.agent("backup", max_rounds=5)
async def step(round_index: int, context: ar.Context) -> ar.NextStep | ar.Complete[int]:
    """One round: copy the next folder."""
    folder = context.payload["folders"][round_index - 1]
    try:
        files = await copy(folder)
    except asyncio.CancelledError:
        context.report(f"{folder} was not copied")
        raise
    context.change(
        patch=[{"op": "add", "path": "/copied/-", "value": {"folder": folder, "files": files}}],
        reason=f"{folder} is done",
    )
    if round_index == len(context.payload["folders"]):
        return ar.Complete(sum(copied["files"] for copied in context.payload["copied"]))
    return ar.NextStep(step="Actions", actions=[{"name": "copy", "params": {"folder": folder}}])


async def give_up() -> str:
    """Run the agent, and cancel it once it waits for the tape; returns the run's id."""
    global tape
    tape = Tape()
    running = asyncio.create_task(step.arun(START))
    await tape.asked.wait()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return ar.open_store().run("@last").id


def main() -> None:
    """Back up three folders, of which the last one hangs."""
    print(f"{asyncio.run(give_up())} was cancelled while the tape hung")


if __name__ == "__main__":
    main()
