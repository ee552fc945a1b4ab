"""STRANDS: what recording adds to an agent of the Strands SDK, per event, against raw inserts of the same events.

The agent is the SDK's own, its model a script that answers at once; so all that takes time is the SDK, and with the
plugin what the plugin adds. The raw arm writes the same facts as whoever logs by hand would: the data of each event as
JSON, the conversation as often as it is sent, one committed insert each.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import agentreplay as ar
import orjson

from .measuring import Row, duration

ROUNDS, TURNS = 60, 7
"""Model calls of a run, and how often each arm is measured."""


def rows() -> Iterator[Row]:
    """Run the agent with the recorder and without, in turns."""
    try:
        import strands  # noqa: F401  # only looked whether it is there
    except ModuleNotFoundError:
        yield Row("STRANDS", "strands-agents is not installed here", "–", 0.0, None)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = ar.open_store(str(folder / "first.db"))
        _seconds(store)
        events = [event.data.model_dump() for event in store.events("run1")]
        arms: dict[str, list[float]] = {"bare": [], "recorded": [], "raw": []}
        for turn in range(TURNS):
            arms["bare"].append(_seconds(None))
            arms["recorded"].append(_seconds(ar.open_store(str(folder / f"{turn}.db"))))
            arms["raw"].append(_raw(folder / f"{turn}-raw.db", events))
        bare, recorded, raw = [statistics.median(series) / len(events) for series in arms.values()]
        added = recorded - bare
        what = f"recording an agent of {ROUNDS} model calls, an event"
        yield Row("STRANDS", what, f"{duration(added)}, raw insert {duration(raw)}", added / raw, None)
        yield Row(
            "STRANDS", "the recorded run, to the run alone", duration(recorded * len(events)), recorded / bare, None
        )


def _raw(path: Path, events: Sequence[Any]) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("CREATE TABLE event (seq INTEGER PRIMARY KEY, time INTEGER, body BLOB)")
    start = time.perf_counter()
    for seq, data in enumerate(events):
        row = (seq, time.time_ns() // 1_000, orjson.dumps(data, default=str))
        connection.execute("INSERT INTO event VALUES (?, ?, ?)", row)
    seconds = time.perf_counter() - start
    connection.close()
    return seconds


def _seconds(store: Any) -> float:
    agent = _agent(store)

    async def run() -> float:
        start = time.perf_counter()
        await agent.invoke_async("Go on.")
        return time.perf_counter() - start

    return asyncio.run(run())


def _agent(store: Any) -> Any:
    from strands import Agent, tool
    from strands.models import Model

    class Scripted(Model):
        def update_config(self, **config: Any) -> None:
            """There is none."""

        def get_config(self) -> Any:
            return {}

        async def structured_output(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            raise NotImplementedError
            yield

        async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            asked = sum(message["role"] == "assistant" for message in messages)
            yield {"messageStart": {"role": "assistant"}}
            if asked < ROUNDS - 1:
                use = {"name": "look", "toolUseId": f"use-{asked}"}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"number": asked})}}}}
            else:
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use" if asked < ROUNDS - 1 else "end_turn"}}

    @tool
    async def look(number: int) -> str:
        """Look at a parcel."""
        return f"Parcel {number} was left with a neighbour, who signed for it in the afternoon."

    plugins = [] if store is None else [ar.strands.Recorder(store=store, safety={"look": "pure"})]
    return Agent(model=Scripted(), tools=[look], callback_handler=None, plugins=plugins)
