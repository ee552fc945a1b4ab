"""Ctrl-C and other ends from outside: they end a replay as they end any program, and are no difference of the code."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.errors import Divergence
from agentreplay.recorder.store import EventStore


@ar.tool(safety="pure")
def find(what: str) -> str:
    """A call that every recording has."""
    return what


def press_ctrl_c() -> None:
    """Have this process interrupted, as by Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1_000):  # a handler runs between two lines
        time.sleep(0)


def recorded(agent: Any, store: EventStore) -> None:
    """Record a run of an agent, also if Ctrl-C ends it."""
    with suppress(KeyboardInterrupt):
        agent.run({}, store=store)


def agent_that(does: Callable[[], None]) -> Any:
    """An agent that makes one call and then does something."""

    @ar.agent("odd")
    def step(round_index: int, context: ar.Context) -> ar.Complete:
        find("a")
        does()
        return ar.Complete(1)

    return step


def test_ctrl_c_ends_a_replay_as_it_ends_a_program() -> None:
    """KeyboardInterrupt where the replay was called, and no divergence; the handler is the one from before."""
    store = ar.open_store("memory:")
    recorded(agent_that(lambda: None), store)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        ar.replay("run1", agent_that(press_ctrl_c), store=store)
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        ar.replay("run1", agent_that(press_ctrl_c), store=store, collect=True)


def test_code_that_catches_ctrl_c_is_stopped_at_its_next_call() -> None:
    """Whatever the code makes of it, the replay is over."""
    store = ar.open_store("memory:")
    recorded(agent_that(lambda: None), store)
    after: list[str] = []

    def stubborn() -> None:
        try:
            press_ctrl_c()
        except KeyboardInterrupt:
            after.append("caught")
        find("b")
        after.append("went on")

    with pytest.raises(KeyboardInterrupt):
        ar.replay("run1", agent_that(stubborn), store=store)
    assert after == ["caught"]


def test_ctrl_c_ends_a_replay_in_an_event_loop() -> None:
    """There it comes as a cancellation, which is none of the code's either."""
    store = ar.open_store("memory:")

    def made(does: Callable[[], None]) -> Any:
        @ar.agent("odd")
        async def step(round_index: int, context: ar.Context) -> ar.Complete:
            find("a")
            does()
            await asyncio.sleep(0)
            return ar.Complete(1)

        return step

    recorded(made(lambda: None), store)
    with pytest.raises(KeyboardInterrupt):
        ar.replay("run1", made(press_ctrl_c), store=store)

    async def replayed() -> None:
        await ar.areplay("run1", made(press_ctrl_c), store=store)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(replayed())


def test_a_caller_that_cancels_a_replay_is_not_told_of_a_divergence() -> None:
    """A time limit around `areplay` is a TimeoutError, as around anything."""
    store = ar.open_store("memory:")

    def made(turns: int) -> Any:
        @ar.agent("odd")
        async def step(round_index: int, context: ar.Context) -> ar.Complete:
            find("a")
            for number in range(turns):
                context.payload.get(str(number))
                await asyncio.sleep(0)
            return ar.Complete(1)

        return step

    recorded(made(0), store)

    async def replayed() -> None:
        replaying = asyncio.ensure_future(ar.areplay("run1", made(1_000_000), store=store))
        for _ in range(20):
            await asyncio.sleep(0)
        replaying.cancel()
        await replaying

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(replayed())


def test_an_error_that_is_no_exception_goes_on_as_it_is() -> None:
    """A KeyboardInterrupt, or what a time limit of pytest raises, means more than the code; sys.exit is the code's."""

    class Limit(BaseException):
        pass

    def raising(error: BaseException) -> Callable[[], None]:
        def raises() -> None:
            raise error

        return raises

    store = ar.open_store("memory:")
    recorded(agent_that(lambda: None), store)
    for error in (KeyboardInterrupt("now"), Limit("took too long")):
        with pytest.raises(type(error)) as raised:
            ar.replay("run1", agent_that(raising(error)), store=store)
        assert raised.value is error
    with pytest.raises(Divergence, match="another error"):
        ar.replay("run1", agent_that(raising(SystemExit(0))), store=store)


def test_a_recorded_ctrl_c_replays() -> None:
    """Raised by the code, in a call, or in an event loop, where it came as a cancellation: the code did the same."""

    def raised_by_the_code() -> None:
        raise KeyboardInterrupt

    calls: list[str] = []

    @ar.tool(safety="pure")
    def slow() -> int:
        calls.append("slow")
        press_ctrl_c()
        return 1

    @ar.agent("waits")
    async def waits(round_index: int, context: ar.Context) -> ar.Complete:
        context.now()
        if not calls:
            threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGINT]).start()
        await asyncio.sleep(5)
        return ar.Complete(1)

    store = ar.open_store("memory:")
    for number, agent in enumerate([waits, agent_that(raised_by_the_code), agent_that(lambda: slow() and None)], 1):
        recorded(agent, store)
        assert store.run(f"run{number}").status == "cancelled"
        calls.append("recorded")
        assert ar.replay(f"run{number}", agent, store=store).verdict == "identical"
    assert calls == ["recorded", "recorded", "slow", "recorded"]
