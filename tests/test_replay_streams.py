"""How far a stream is read is a part of what code does, and is compared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator
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


# -- what is given to a generator ------------------------------------------------------------------------


class Stop(Exception):
    """What a consumer throws into a generator."""


@ar.tool(safety="pure")
def echo(count: int) -> Generator[Any, Any, str]:
    """Gives numbers, or what it was sent; goes on after one `Stop`, and returns a text."""
    got: Any = None
    for number in range(count):
        try:
            got = yield got or number
        except Stop:
            got = "stopped"
    return f"the end of {count}"


@ar.tool(safety="pure")
async def aecho(count: int) -> AsyncGenerator[Any, Any]:
    """The same, awaited, but for what it returns."""
    got: Any = None
    for number in range(count):
        await asyncio.sleep(0)
        try:
            got = yield got or number
        except Stop:
            got = "stopped"


@ar.tool(safety="pure")
def made(count: int) -> Any:
    """A plain function that gives a generator."""
    return (number for number in range(count))


def delegates(out: list[Any]) -> Generator[Any, Any, None]:
    """Takes what a generator returns."""
    out.append((yield from echo(2)))


def uses_return() -> Any:
    """What `yield from` gives."""
    out: list[Any] = []
    return [*delegates(out), *out]


def uses_send(value: Any = "x") -> Any:
    """Sends a value."""
    stream = echo(3)
    return [next(stream), stream.send(value), *stream]


def uses_throw(error: Exception | None = None) -> Any:
    """Throws an error that the generator catches."""
    stream = echo(3)
    return [next(stream), stream.throw(error or Stop()), *stream]


def uses_uncaught() -> Any:
    """Throws an error that the generator does not catch: the very object comes back."""
    stream, error = echo(3), KeyError("mine")
    next(stream)
    try:
        stream.throw(error)
    except KeyError as same:
        return [same is error, list(stream)]


def uses_close(count: int = 1) -> Any:
    """Closes it after some items."""
    stream = echo(3)
    read = [next(stream) for _ in range(count)]
    stream.close()
    return [*read, next(stream, "closed")]


def uses_to_the_end() -> Any:
    """Reads all items and the end."""
    return list(echo(3))


def uses_made() -> Any:
    """Reads a generator that a plain function gave."""
    return list(made(2))


def leaves_open() -> Any:
    """Reads one item, and keeps the generator."""
    KEPT.append(echo(3))
    return next(KEPT[-1])


KEPT: list[Any] = []


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    yield
    KEPT.clear()


async def asends(value: Any = "x") -> Any:
    """Sends a value to an async generator, and closes it."""
    stream = aecho(4)
    read = [await anext(stream), await stream.asend(value)]
    await stream.aclose()
    return [*read, await anext(stream, "closed")]


async def athrows() -> Any:
    """Throws an error into an async generator, which catches it."""
    stream = aecho(3)
    return [await anext(stream), await stream.athrow(Stop()), *[item async for item in stream]]


async def athrows_nothing() -> Any:
    """Only reads."""
    return [item async for item in aecho(3)]


def using(use: Any) -> Any:
    """An agent that comes to what a use of a generator comes to."""

    @ar.agent("uses")
    async def step(i: int, context: ar.Context) -> ar.Complete[Any]:
        value = use()
        return ar.Complete(await value if asyncio.iscoroutine(value) else value)

    return step


USES = [
    (uses_return, [0, 1, "the end of 2"]),
    (uses_send, [0, "x", 2]),
    (uses_throw, [0, "stopped", 2]),
    (uses_uncaught, [True, []]),
    (uses_close, [0, "closed"]),
    (uses_to_the_end, [0, 1, 2]),
    (uses_made, [0, 1]),
    (leaves_open, 0),
    (asends, [0, "x", "closed"]),
    (athrows, [0, "stopped", 2]),
]


@pytest.mark.parametrize(("use", "value"), USES)
def test_a_generator_is_answered_by_a_generator(use: Any, value: Any) -> None:
    """It takes what is sent and thrown, is closed, and returns what was returned."""
    store = MemoryStore()
    assert asyncio.run(using(use).arun({}, store=store)).value == value
    result = ar.replay("run1", using(use), store=store)
    assert result.verdict == "identical"
    assert result.result is not None
    assert result.result.value == value


def use(function: Any, *arguments: Any) -> Any:
    """A use with other arguments."""
    return lambda: function(*arguments)


OTHER_USES = [
    (uses_send, use(uses_send, "y"), "/sent", "x", "y"),
    (uses_send, uses_to_the_end, "", {"sent": "x"}, None),
    (uses_to_the_end, uses_send, "", None, {"sent": "x"}),
    (uses_throw, use(uses_throw, Stop("now")), "/thrown/message", "", "now"),
    (uses_throw, uses_to_the_end, "", {"thrown": {"type": f"{__name__}.Stop", "message": ""}}, None),
    (uses_close, use(uses_close, 2), "", "left", "read on after 1 items, where the recording left it"),
    (use(uses_close, 2), uses_close, "", "left", "left after 1 of 2 items"),
    (uses_to_the_end, use(uses_close, 3), "", "read to its end", "left after 3 of 3 items"),
    (uses_to_the_end, leaves_open, "", "read to its end", "left after 1 of 3 items"),
    (asends, use(asends, "y"), "/sent", "x", "y"),
    (athrows_nothing, athrows, "", None, {"thrown": {"type": f"{__name__}.Stop", "message": ""}}),
]


@pytest.mark.parametrize(("before", "now", "path", "expected", "actual"), OTHER_USES)
def test_another_use_of_a_generator_is_told(before: Any, now: Any, path: str, expected: Any, actual: Any) -> None:
    """What was sent, thrown and read is compared, since what the generator gave answers to that."""
    store = MemoryStore()
    asyncio.run(using(before).arun({}, store=store))
    with pytest.raises(ar.Divergence) as caught:
        ar.replay("run1", using(now), store=store)
    found = caught.value.difference.to_json()
    assert (found["kind"], found["call"], found["path"]) == ("another outcome", "1.1", path)
    assert (found["expected"], found["actual"]) == (expected, actual)


@ar.tool(safety="pure")
def soon() -> Any:
    """A plain function that gives a coroutine."""
    return asyncio.sleep(0)


@pytest.mark.parametrize("give", [made, echo, aecho])
def test_a_generator_that_nobody_reads_is_no_difference(give: Any) -> None:
    """What was made and never used was no answer that anything waited for."""

    def unread() -> int:
        give(3)
        return len(list(made(2)))

    store = MemoryStore()
    asyncio.run(using(unread).arun({}, store=store))
    assert ar.replay("run1", using(unread), store=store).verdict == "identical"


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_coroutine_that_nobody_awaits_is_no_difference() -> None:
    """The same of what a plain function gives to be awaited."""

    def unawaited() -> int:
        soon()
        return len(list(made(2)))

    store = MemoryStore()
    asyncio.run(using(unawaited).arun({}, store=store))
    assert ar.replay("run1", using(unawaited), store=store).verdict == "identical"


def test_a_stream_that_is_left_open_behind_the_end_of_the_run_holds_up_no_replay() -> None:
    """The event loop closes it when the run is over, and nobody sees to turns any more."""
    kept: list[Any] = []

    @ar.model
    async def tell() -> AsyncGenerator[str, None]:
        for word in ("one", "two", "three"):
            yield word

    @ar.agent("listener")
    async def step(round_index: int, context: ar.Context) -> ar.Complete[str]:
        kept.append(tell())
        return ar.Complete(await anext(kept[-1]))

    store = MemoryStore()
    assert step.run({}, store=store).value == "one"
    assert ar.replay("run1", step, store=store).verdict == "identical"


def test_what_streams_change_between_their_items_is_done_again_between_them() -> None:
    """Two streams write to the payload at a time; whoever reads an item sees what was written by then, and no more."""

    @ar.agent("filling")
    async def step(round_index: int, context: ar.Context) -> ar.Complete[str]:
        heard = asyncio.Event()

        @ar.tool(safety="pure")
        async def fill(name: str) -> AsyncGenerator[int, None]:
            if name == "slow":
                await heard.wait()
            for number in range(2):
                context.change(payload={**context.payload, name: number})
                yield number

        async def read(name: str) -> None:
            async for number in fill(name):
                context.report(f"{name} {number}: {dict(context.payload)}")
                heard.set()

        await asyncio.gather(read("slow"), read("quick"))
        return ar.Complete("full")

    store = MemoryStore()
    step.run({}, store=store)
    reports = [event.data.message for event in store.events("run1") if event.kind == "report"]
    assert reports[0] == "quick 0: {'quick': 0}"
    assert ar.replay("run1", step, store=store).verdict == "identical"
