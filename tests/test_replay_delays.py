"""Timers of another length than the recorded: a time limit is a divergence, a pause is worth a note."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from recorded import log_of

LIMIT = 0.01
"""A time limit that is a variable of a module."""


@ar.tool(safety="pure")
async def slow() -> int:
    await asyncio.sleep(0.5)
    return 1


def recorded(agent: Any) -> MemoryStore:
    store = MemoryStore()
    asyncio.run(agent.arun({}, store=store))
    return store


@ar.agent("waits")
async def waits(i: int, context: ar.Context) -> Any:
    try:
        return ar.Complete(await asyncio.wait_for(slow(), LIMIT))
    except TimeoutError:
        return ar.Complete("late")


@ar.agent("times")
async def times(i: int, context: ar.Context) -> Any:
    try:
        async with asyncio.timeout(LIMIT):
            return ar.Complete(await slow())
    except TimeoutError:
        return ar.Complete("late")


@pytest.mark.parametrize("agent", [waits, times])
def test_a_time_limit_of_another_length_is_a_divergence(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one ran out that may not run out any more, whatever the log says."""
    store = recorded(agent)
    assert ar.replay("run1", agent, store=store).verdict == "identical"
    monkeypatch.setitem(globals(), "LIMIT", 30)
    with pytest.raises(ar.Divergence) as raised:
        ar.replay("run1", agent, store=store)
    difference = raised.value.difference
    assert (difference.kind, difference.effect, difference.path) == ("other arguments", "timer", "/delay")
    assert (round(difference.expected, 2), round(difference.actual, 1)) == (0.01, 30.0)
    assert str(difference.site).startswith("test_replay_delays.py:")


@pytest.mark.parametrize(("agent", "limit"), [(waits, 0.011), (waits, 0.05), (times, 0.05)])
def test_a_small_change_of_a_time_limit_is_told(agent: Any, limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of `wait_for` each, since what it is given is known; of `timeout` one that no busy system explains."""
    store = recorded(agent)
    monkeypatch.setitem(globals(), "LIMIT", limit)
    try:
        told = ar.replay("run1", agent, store=store).coverage.notes
    except ar.Divergence as parted:
        told = [parted.difference.message()]
    assert "0.01" in told[0]
    assert "timeout" in told[0] or "wait_for" in told[0]


def test_what_is_left_until_a_deadline_is_not_told() -> None:
    """It is another number each time, and nearly the same."""

    @ar.agent("has a deadline")
    async def has_a_deadline(i: int, context: ar.Context) -> Any:
        deadline = time.perf_counter() + 0.0123456789
        try:
            return ar.Complete(await asyncio.wait_for(slow(), deadline - time.perf_counter()))
        except TimeoutError:
            return ar.Complete("late")

    result = ar.replay("run1", has_a_deadline, store=recorded(has_a_deadline))
    assert (result.verdict, result.coverage.notes) == ("identical", [])


def test_a_pause_of_another_length_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code does the same after it."""

    @ar.agent("pauses")
    async def pauses(i: int, context: ar.Context) -> Any:
        await asyncio.sleep(LIMIT)
        return ar.Complete(await slow())

    store = recorded(pauses)
    monkeypatch.setitem(globals(), "LIMIT", 30)
    result = ar.replay("run1", pauses, store=store)
    assert result.verdict == "identical"
    (note,) = result.coverage.notes
    assert note.startswith("step 1: asyncio.sleep at test_replay_delays.py:")
    assert note.endswith("is given 30 s, and was given 0.01 s when it was recorded; it fires by the log all the same")


def test_a_limit_that_the_code_works_out_is_no_divergence() -> None:
    """It is another one each time."""

    @ar.agent("works it out")
    async def works_it_out(i: int, context: ar.Context) -> Any:
        limit = 0.01 + time.perf_counter() % 0.01
        try:
            return ar.Complete(await asyncio.wait_for(slow(), limit * factor))
        except TimeoutError:
            return ar.Complete("late")

    factor = 1
    store = recorded(works_it_out)
    factor = 100
    result = ar.replay("run1", works_it_out, store=store)
    assert result.verdict == "identical"
    assert len(result.coverage.notes) == 1


def test_the_length_is_recorded_that_the_application_gave() -> None:
    """Exactly; none where a time of the loop's clock was given, which says nothing to anybody else."""

    @ar.agent("lengths")
    async def lengths(i: int, context: ar.Context) -> Any:
        loop, fired = asyncio.get_running_loop(), asyncio.Event()
        await asyncio.sleep(0.003)
        loop.call_later(0.002, fired.set)
        await fired.wait()
        fired.clear()
        loop.call_at(loop.time() + 0.001, fired.set)
        await fired.wait()
        return ar.Complete(1)

    events = log_of(recorded(lengths))
    assert [event.data.delay for event in events if event.kind == "timer.fired"] == [0.003, 0.002, None]


@pytest.mark.parametrize("late", [True, False])
def test_a_time_limit_that_is_over_before_it_begins_is_so_in_a_replay(late: bool) -> None:
    """Whether it is over by then is a fact of the clock, so it comes from the log; what `when()` gives is as ever."""
    store = MemoryStore()
    seen: list[Any] = []
    after = 0.0

    @ar.tool(safety="pure")
    async def look(n: int) -> int:
        await asyncio.sleep(0.001)
        return n

    @ar.agent("late")
    async def agent(round_index: int, context: ar.Context) -> Any:
        until = asyncio.get_running_loop().time() + after
        try:
            async with asyncio.timeout_at(until) as limit:
                seen.append((type(limit.when()), limit.when() == until))
                found = [await look(1), await look(2)]
        except TimeoutError:
            found = []
        return ar.Complete(found)

    after = -1 if late else 60
    result = agent.run({}, store=store)
    assert result.value == ([] if late else [1, 2])
    after = 60 if late else -1
    again = ar.replay("run1", agent, store=store)
    assert (again.verdict, again.result.structured_output) == ("identical", result.value)
    assert seen == [(float, True)] * 2
