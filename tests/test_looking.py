"""A run that is asked to stop: what its code sees of the signal is recorded once, and replayed at the same look."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.recorder.values import decode
from hypothesis import given
from hypothesis import strategies as st
from recorded import log_of


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


@ar.tool(safety="pure")
def fetch(page: Any) -> Any:
    return page


class Outside:
    """Whoever aborts a run: it does so while a run is recorded, at the nth time that it is asked, and never again."""

    def __init__(self, at: int, reason: Any = "enough") -> None:
        self.signal = ar.Signal()
        self._left = at
        self._reason = reason

    def passes(self) -> None:
        """Abort, if it is time."""
        self._left -= 1
        if self._left == 0:
            self.signal.abort(self._reason)


def looks(store: EventStore, run: str = "@last") -> list[Any]:
    """The looks that a run has recorded: round, task, value."""
    return [
        (event.round, event.task, decode(event.data.value))
        for event in log_of(store, run)
        if event.kind == "value.read" and event.data.source == "signal"
    ]


@pytest.mark.parametrize("awaited", [False, True])
def test_a_run_that_was_aborted_between_rounds_replays(store: EventStore, awaited: bool) -> None:
    """The loop looks before each round; the replay ends there, too, with the same reason."""
    outside = Outside(2)

    def plain(i: int, context: ar.Context) -> Any:
        outside.passes()
        fetch(i)
        return ar.Continue()

    async def later(i: int, context: ar.Context) -> Any:
        return plain(i, context)

    agent = ar.agent("a")(later if awaited else plain)
    if awaited:
        result = asyncio.run(agent.arun({}, signal=outside.signal, store=store))
    else:
        result = agent.run({}, signal=outside.signal, store=store)
    assert (result.stop_reason, str(result.error)) == ("cancelled", "the run was cancelled: enough")
    assert looks(store) == [(2, "0", {"looks": 1, "reason": "enough"})]
    replayed = ar.replay("run1", agent, store=store)
    assert (replayed.verdict, replayed.coverage.recorded, replayed.coverage.unused) == ("identical", 3, 0)
    assert replayed.result is not None
    assert str(replayed.result.error) == "the run was cancelled: enough"


def test_a_run_that_was_aborted_before_it_began_replays(store: EventStore) -> None:
    """It has no round."""
    agent = ar.agent("a")(lambda i, context: ar.Complete(fetch(1)))
    signal = ar.Signal()
    signal.abort(("any", "reason"))
    agent.run({}, signal=signal, store=store)
    assert looks(store) == [(0, "0", {"looks": 1, "reason": ("any", "reason")})]
    assert ar.replay("run1", agent, store=store).verdict == "identical"


@given(st.integers(1, 3), st.integers(0, 4), st.integers(1, 20))
def test_a_step_sees_it_at_the_same_look(rounds: int, looks_before: int, at: int) -> None:
    """A law: however often a step looks, and whenever it is aborted, the replay sees it there and nowhere else."""
    store = MemoryStore()
    outside = Outside(at)
    seen: list[list[Any]] = []

    @ar.agent("a")
    def step(i: int, context: ar.Context) -> Any:
        for look in range(looks_before):
            outside.passes()
            seen[-1].append((i, look, context.signal.aborted, context.signal.reason))
        fetch(i)
        return ar.Continue() if i < rounds else ar.Complete(fetch("end"))

    seen.append([])
    result = step.run({}, signal=outside.signal, store=store)
    outside = Outside(0)
    seen.append([])
    assert ar.replay("run1", step, store=store).verdict == "identical"
    assert seen[1] == seen[0]
    assert len(looks(store)) <= 1
    assert (result.stop_reason == "cancelled") is (at <= looks_before * (rounds - 1))


def test_waiting_takes_no_time_in_a_replay(store: EventStore) -> None:
    """A step that waits to be asked gets what it got; the reason comes back with its type."""
    outside = Outside(3, {"by": ("me", 1)})

    @ar.agent("a")
    def step(i: int, context: ar.Context) -> Any:
        waited = 0
        while not context.signal.wait(0 if outside else 100):
            waited += 1
            if outside:
                outside.passes()
        with pytest.raises(ar.AgentReplayError, match="the run was cancelled"):
            context.signal.throw_if_aborted()
        return ar.Complete([waited, context.signal.reason, fetch("a")])

    assert step.run({}, signal=outside.signal, store=store).value == [3, {"by": ("me", 1)}, "a"]
    assert looks(store) == [(1, "0", {"looks": 4, "reason": {"by": ("me", 1)}})]
    outside = None  # type: ignore[assignment]  # nobody is there in a replay
    assert ar.replay("run1", step, store=store).verdict == "identical"


def test_what_is_seen_inside_a_call_is_covered_by_its_answer(store: EventStore) -> None:
    """The call is not made again; the first look behind it is the one that is recorded."""
    outside = Outside(1)

    @ar.agent("a")
    def step(i: int, context: ar.Context) -> Any:
        @ar.tool(safety="pure")
        def works() -> bool:
            outside.passes()
            return context.signal.aborted

        return ar.Complete([context.signal.aborted, works(), context.signal.aborted, context.signal.aborted])

    assert step.run({}, signal=outside.signal, store=store).value == [False, True, True, True]
    assert looks(store) == [(1, "0", {"looks": 2, "reason": "enough"})]
    assert ar.replay("run1", step, store=store).verdict == "identical"


def test_tasks_and_threads_see_it_each_at_its_own_looks(store: EventStore) -> None:
    """The one that found it aborted first does so again."""
    outside = Outside(1)

    @ar.agent("a")
    async def step(i: int, context: ar.Context) -> Any:
        async def watch() -> str:
            for turn in range(100):
                await asyncio.sleep(0)
                if context.signal.aborted:
                    return f"{turn}: {context.signal.reason}"
                if turn == 4:
                    outside.passes()
            return "never"

        found = await asyncio.gather(watch(), asyncio.to_thread(lambda: fetch(1)))
        with ThreadPoolExecutor(1) as pool:
            seen = pool.submit(lambda: context.signal.aborted).result()
        return ar.Complete([*found, seen, fetch("a")])

    assert asyncio.run(step.arun({}, signal=outside.signal, store=store)).value == ["5: enough", 1, True, "a"]
    ((round, task, value),) = looks(store)
    assert (round, task.startswith("0."), value["looks"]) == (1, True, 6)
    outside = Outside(0)
    assert ar.replay("run1", step, store=store).verdict == "identical"


def test_a_loop_of_ones_own_is_told_the_same(store: EventStore) -> None:
    """`run.signal` in a block."""
    outside = Outside(2)

    def main() -> None:
        with ar.record("own", {}, signal=outside.signal, store=store) as run:
            for page in range(5):
                with run.round() as r:
                    r.tool("fetch", {"page": page}, lambda page: page, safety="pure")
                    outside.passes()
                    run.signal.throw_if_aborted()

    main()
    assert (store.run("run1").status, store.run("run1").steps) == ("cancelled", 2)
    outside = Outside(0)
    assert ar.replay("run1", main, store=store).verdict == "identical"


def test_a_workflow_that_was_aborted_between_two_nodes_replays(store: EventStore) -> None:
    """The visit that was under way has ended; the next one has not begun."""
    outside = Outside(1)

    def first(state: dict[str, Any]) -> dict[str, Any]:
        outside.passes()
        return {"page": fetch(1)}

    nodes = [
        ar.node("first", run=first, routes=[ar.route.to("second")]),
        ar.node("second", run=lambda state: {"page": fetch(2)}, routes=[ar.route.deliver("page")]),
    ]
    engine = ar.CoreEngine(workflow=ar.define_workflow("w", nodes))
    assert engine.run({}, signal=outside.signal, store=store).stop_reason == "cancelled"
    assert looks(store) == [(1, "0", {"looks": 1, "reason": "enough"})]
    outside = Outside(0)
    assert ar.replay("run1", engine, store=store).verdict == "identical"


def test_a_rerun_is_asked_to_stop_by_nobody(store: EventStore) -> None:
    """From a step before, it goes on where the recorded run was stopped; and its own signal is its own."""
    outside = Outside(2)

    @ar.agent("a")
    def step(i: int, context: ar.Context) -> Any:
        outside.passes()
        return ar.Continue() if context.signal.aborted or i < 3 else ar.Complete(fetch(i))

    assert step.run({}, signal=outside.signal, store=store).stop_reason == "cancelled"
    outside = Outside(0)
    assert ar.rerun("run1", step, 2, store=store).value == 3
    assert looks(store) == []


def test_only_the_runs_own_signal_is_watched_and_only_by_its_code(store: EventStore) -> None:
    """Others may look at it, and the run at others', without a trace; the agent gets the very object that was given."""
    signal, other = ar.Signal(), ar.Signal()
    found: list[bool] = []

    @ar.agent("a")
    def step(i: int, context: ar.Context) -> Any:
        assert context.signal is signal
        other.abort()
        elsewhere = threading.Thread(target=lambda: found.append(signal.peek()))
        elsewhere.start()
        elsewhere.join()
        return ar.Complete(other.aborted)

    assert step.run({}, signal=signal, store=store).value is True
    signal.abort()
    assert (signal.aborted, signal.peek(), found) == (True, True, [False])
    assert looks(store) == []
