"""What a replay compares of arguments and draws, and what it says where it cannot."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Callable
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore


class Order:
    """A class that says nothing of what it holds."""

    def __init__(self, total: int) -> None:
        self.total = total


class Slotted:
    """Another one, without a dict."""

    __slots__ = ("total",)

    def __init__(self, total: int) -> None:
        self.total = total


@ar.tool(safety="pure")
def charge(order: Any) -> int:
    """A tool that is given anything."""
    return 1


def replayed(before: Callable[[], Any], after: Callable[[], Any]) -> ar.ReplayResult:
    """Record code, and replay other code against it."""
    code = [before]

    @ar.agent("clerk", capture="all")
    def clerk(i: int, context: ar.Context) -> ar.Complete[str]:
        code[0]()
        return ar.Complete("done")

    store = MemoryStore()
    clerk.run({}, store=store)
    code[0] = after
    return ar.replay("run1", clerk, store=store)


def nested(depth: int, inner: int) -> Any:
    """A number within as many lists."""
    value: Any = inner
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [1, 97, 98, 99, 100, 101, 199, 200, 201, 450])
def test_an_argument_of_any_depth_is_compared(depth: int) -> None:
    """The same is identical, however deep; and another value at the bottom is found."""
    result = replayed(lambda: charge(nested(depth, 1)), lambda: charge(nested(depth, 1)))
    assert (result.verdict, result.coverage.notes) == ("identical", [])
    with pytest.raises(ar.Divergence) as parted:
        replayed(lambda: charge(nested(depth, 1)), lambda: charge(nested(depth, 2)))
    assert parted.value.kind == "other arguments"
    assert max(map(len, str(parted.value).splitlines())) < 1000


@pytest.mark.parametrize("depth", [98, 99, 100, 200])
def test_a_decision_and_a_value_of_any_depth_are_compared(depth: int) -> None:
    """They are cut into parts where the log cuts them."""

    @ar.agent("clerk")
    def clerk(i: int, context: ar.Context) -> Any:
        charge(1)
        return ar.Complete(nested(depth, 1))

    store = MemoryStore()
    clerk.run({}, store=store)
    assert ar.replay("run1", clerk, store=store).verdict == "identical"


@pytest.mark.parametrize("make", [Order, Slotted, lambda n: io.BytesIO(bytes(n)), lambda n: iter([n])])
def test_an_argument_that_could_not_be_compared_is_told(make: Callable[[int], Any]) -> None:
    """Its place and its class are in the coverage."""
    result = replayed(lambda: charge([make(1)]), lambda: charge([make(500)]))
    (note,) = result.coverage.notes
    assert note.startswith("argument order[0] of tool charge was recorded as an opaque ")
    assert "was not compared" in note


@pytest.mark.parametrize(
    "draw", [lambda size: os.urandom(size), secrets.token_hex, secrets.token_bytes, secrets.token_urlsafe]
)
def test_how_much_chance_is_asked_for_is_compared(draw: Callable[[int], Any]) -> None:
    """The answer would be of another length than the code asks for."""
    assert replayed(lambda: draw(3), lambda: draw(3)).verdict == "identical"
    with pytest.raises(ar.Divergence) as parted:
        replayed(lambda: draw(3), lambda: draw(16))
    assert (parted.value.kind, parted.value.path) == ("another value read", "/arguments/size")


def test_a_divergence_says_where_it_is() -> None:
    """As its difference does."""
    with pytest.raises(ar.Divergence) as parted:
        replayed(lambda: charge({"a": [1]}), lambda: charge({"a": [2]}))
    error = parted.value
    assert (error.kind, error.step, error.call, error.path) == ("other arguments", 1, "1.1", "/order/a/0")


def test_a_question_that_waits_is_something_captured() -> None:
    """A run that came to nothing else replays."""

    @ar.agent("asking")
    def asking(i: int, context: ar.Context) -> ar.Complete[Any]:
        return ar.Complete(context.interrupt("approve", reason="it is dear"))

    store = MemoryStore()
    asking.run({}, store=store)
    result = ar.replay("run1", asking, store=store)
    assert (result.verdict, result.coverage.recorded) == ("identical", 1)
