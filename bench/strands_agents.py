"""STRANDS: what recording adds to an agent of the Strands SDK, per event, against raw inserts of the same events.

The agent is the SDK's own, its model a script that answers at once; so all that takes time is the SDK, and with the
plugin what the plugin adds. Whoever logs by hand is the floor: hooks that write the same facts at the same moments, the
data of each event as JSON, the conversation as often as it is sent, one committed insert each, on the event loop.
The same inserts in a row, with nothing between them, take less than that; so both are told.
"""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import agentreplay as ar
import orjson

from .measuring import Row, duration

ROUNDS, TURNS = 60, 21
"""Model calls of a run, and how often each arm is measured."""


def rows() -> Iterator[Row]:
    """Run the agent with the recorder and without, in turns."""
    try:
        import strands  # noqa: F401  # only looked whether it is there
    except ModuleNotFoundError:
        yield Row("STRANDS", "strands-agents is not installed here", "–", 0.0, None)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        store = ar.open_store(str(folder / "first.db"))
        _seconds(store)
        events = [event.data.model_dump() for event in store.events("run1")]
        arms: dict[str, Callable[[int], float]] = {
            "bare": lambda turn: _seconds(None),
            "recorded": lambda turn: _seconds(ar.open_store(str(folder / f"{turn}.db"))),
            "by hand": lambda turn: _by_hand(folder / f"{turn}-by-hand.db", events),
            "in a row": lambda turn: _in_a_row(folder / f"{turn}-in-a-row.db", events),
        }
        taken: dict[str, list[float]] = {name: [] for name in arms}
        for turn in range(TURNS):
            for name in random.sample(list(arms), len(arms)):
                taken[name].append(arms[name](turn))
        bare, recorded, by_hand, in_a_row = [statistics.median(series) / len(events) for series in taken.values()]
        added, floor = recorded - bare, by_hand - bare
        what = f"recording an agent of {ROUNDS} model calls, an event"
        yield Row("STRANDS", what, f"{duration(added)}, by hand {duration(floor)}", added / floor, None)
        yield Row("STRANDS", "the same, to inserts in a row", duration(in_a_row), added / in_a_row, None)
        yield Row(
            "STRANDS", "the recorded run, to the run alone", duration(recorded * len(events)), recorded / bare, None
        )


class _Log:
    """Raw inserts of events in their order, one committed each."""

    def __init__(self, path: Path, events: Sequence[Any]) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute("CREATE TABLE event (seq INTEGER PRIMARY KEY, time INTEGER, body BLOB)")
        self._events = iter(enumerate(events))

    def write(self, count: int | None = None) -> None:
        """Insert so many more; by default all that are left."""
        for seq, data in islice(self._events, count):
            row = (seq, time.time_ns() // 1_000, orjson.dumps(data, default=str))
            self._connection.execute("INSERT INTO event VALUES (?, ?, ?)", row)

    def close(self) -> None:
        """Write what is left, and end."""
        self.write()
        self._connection.close()


def _in_a_row(path: Path, events: Sequence[Any]) -> float:
    log = _Log(path, events)
    start = time.perf_counter()
    log.write()
    seconds = time.perf_counter() - start
    log.close()
    return seconds


def _by_hand(path: Path, events: Sequence[Any]) -> float:
    """The agent with hooks that log: as many events at each as the recorder appends there."""
    from strands import hooks

    log, agent = _Log(path, events), _agent(None)
    agent.hooks.add_callback(hooks.BeforeModelCallEvent, lambda _: log.write(3))  # a round ends, one begins, the call
    agent.hooks.add_callback(hooks.AfterModelCallEvent, lambda _: log.write(2))  # its answer, the decision
    agent.hooks.add_callback(hooks.MessageAddedEvent, lambda _: log.write(2))  # what is pinned of it, and itself
    agent.hooks.add_callback(hooks.BeforeToolCallEvent, lambda _: log.write(1))
    agent.hooks.add_callback(hooks.AfterToolCallEvent, lambda _: log.write(1))
    seconds = _invoke(agent)
    log.close()
    return seconds


def _seconds(store: Any) -> float:
    return _invoke(_agent(store))


def _invoke(agent: Any) -> float:
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
