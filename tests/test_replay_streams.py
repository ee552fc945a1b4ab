"""How far a stream is read is a part of what code does, and is compared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore


@ar.model
def words(prompt: str) -> Generator[str, None, None]:
    """A stream of six words."""
    yield from "abcdef"


@ar.model
async def awaited_words(prompt: str) -> AsyncGenerator[str, None]:
    """The same, awaited."""
    for word in "abcdef":
        await asyncio.sleep(0)
        yield word


def reading(count: int, *, awaited: bool) -> Any:
    """An agent that reads so many words, and then leaves the stream."""

    @ar.agent("reading")
    def step(i: int, context: ar.Context) -> ar.Complete[str]:
        text = ""
        for word in words("x"):
            text += word
            if len(text) == count:
                break
        return ar.Complete("done")

    @ar.agent("reading")
    async def astep(i: int, context: ar.Context) -> ar.Complete[str]:
        text = ""
        async for word in awaited_words("x"):
            text += word
            if len(text) == count:
                break
        return ar.Complete("done")

    return astep if awaited else step


def recorded(agent: Any, store: MemoryStore) -> None:
    """Run an agent of either sort."""
    asyncio.run(agent.arun({}, store=store))


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("count", [1, 3, 6, 7])
def test_a_stream_that_is_read_as_far_replays(count: int, awaited: bool) -> None:
    """Left early, left after the last word, or read to its end."""
    store = MemoryStore()
    recorded(reading(count, awaited=awaited), store)
    assert ar.replay("run1", reading(count, awaited=awaited), store=store).verdict == "identical"


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(
    ("before", "now", "found"),
    [(3, 7, "read on after 3 items, where the recording left it"), (7, 2, "left after 2 of 6 items")],
)
def test_a_stream_that_is_read_further_or_less_far_is_told(before: int, now: int, found: str, awaited: bool) -> None:
    """The recording has no answer to what comes after the place where it was left."""
    store = MemoryStore()
    recorded(reading(before, awaited=awaited), store)
    with pytest.raises(ar.Divergence) as raised:
        ar.replay("run1", reading(now, awaited=awaited), store=store)
    difference = raised.value.difference
    assert (difference.kind, difference.call, difference.actual) == ("another outcome", "1.1", found)
