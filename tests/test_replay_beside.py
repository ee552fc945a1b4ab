"""Tools that were called one after the other are not called beside each other, unless both are pure."""

from __future__ import annotations

import asyncio
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore

SAFE = ("pure", "irreversible", None)


def agent(post: Any, mail: Any, way: str) -> Any:
    """An agent that calls two tools in one way or another."""

    @ar.agent("clerk")
    async def clerk(i: int, context: ar.Context) -> ar.Complete[str]:
        if way == "after":
            await post("one")
            await mail("two")
        elif way == "beside":
            await asyncio.gather(post("one"), mail("two"))
        elif way == "task":
            task = asyncio.create_task(mail("two"))
            await post("one")
            await task
        else:
            await asyncio.to_thread(int)
            await post("one")
            await mail("two")
        return ar.Complete("done")

    return clerk


def tools(first: Any, second: Any, kind: Any = "tool") -> tuple[Any, Any]:
    async def act(what: str) -> str:
        await asyncio.sleep(0.001)
        return what

    safety = {} if kind == "model" else {"safety": first}, {} if kind == "model" else {"safety": second}
    return (
        ar.wrap(act, kind=kind, name="post", **safety[0]),
        ar.wrap(act, kind=kind, name="mail", **safety[1]),
    )


def replayed(pair: tuple[Any, Any], recorded: str, now: str) -> ar.ReplayResult:
    store = MemoryStore()
    asyncio.run(agent(*pair, recorded).arun({}, store=store))
    return ar.replay("run1", agent(*pair, now), store=store)


@pytest.mark.parametrize("now", ["beside", "task"])
@pytest.mark.parametrize("second", SAFE)
@pytest.mark.parametrize("first", SAFE)
def test_tools_that_followed_each_other_are_not_made_beside_each_other(first: Any, second: Any, now: str) -> None:
    """The second was made when the first had ended, and is now made before that, with gather or a task."""
    pair = tools(first, second)
    if first == second == "pure":
        assert replayed(pair, "after", now).verdict == "identical"
        return
    with pytest.raises(ar.Divergence) as parted:
        replayed(pair, "after", now)
    difference = parted.value.difference
    assert (difference.kind, difference.call, difference.actual["name"]) == ("another call", "1.2", "mail")
    assert "1.2 (mail) and 1.1 (post) are made beside each other now, one after the other then" in str(parted.value)


@pytest.mark.parametrize("second", SAFE)
@pytest.mark.parametrize("first", SAFE)
def test_tools_beside_each_other_that_became_sequential_are_noted(first: Any, second: Any) -> None:
    """Nothing is done that was not done before; the note names both."""
    result = replayed(tools(first, second), "beside", "after")
    assert result.verdict == "identical"
    told = (
        "step 1: 1.1 (post) and 1.2 (mail) are called one after the other now, "
        "and were under way beside each other when they were recorded"
    )
    assert (told in result.coverage.notes) is (not first == second == "pure")


@pytest.mark.parametrize("way", ["after", "beside", "task", "thread"])
def test_unchanged_code_is_never_accused(way: str) -> None:
    """However it calls its tools."""
    for _ in range(5):
        result = replayed(tools(None, None), way, way)
        assert (result.verdict, result.coverage.notes) == ("identical", [])


def test_models_may_be_called_beside_each_other() -> None:
    """A model touches nothing that a tool does."""
    assert replayed(tools(None, None, "model"), "after", "beside").verdict == "identical"
