"""Effects are recorded without changing what they do."""

from __future__ import annotations

import asyncio
import functools
import inspect
import operator
import socket
import traceback
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.calls import Effect
from agentreplay.recorder.effects import effect_of
from agentreplay.recorder.events import Event
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore
from agentreplay.recorder.values import decode
from recorded import Hostile, log_of, one, outline


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


def calls(store: EventStore) -> list[Event]:
    """The events of calls in the last run."""
    return [event for event in log_of(store) if event.kind.startswith(("tool.", "model.", "call."))]


def ends(store: EventStore) -> list[str]:
    return [event.kind for event in calls(store)]


class Given:
    """An argument and a result that are told by identity."""


# -- what comes back ---------------------------------------------------------------------------------------------------


def test_a_result_is_the_very_object(store: EventStore) -> None:
    """A recorded tool returns what the function returned, not an equal copy."""
    result = {"deep": [Given()]}

    @ar.tool
    def look(thing: Any) -> Any:
        assert thing is result
        return thing

    with ar.record("a", store=store):
        assert look(result) is result
    assert look(result) is result


def test_an_exception_is_the_very_object_with_its_own_traceback(store: EventStore) -> None:
    """What a tool raises arrives as it was raised: same object, cause, context and notes, nothing added."""
    error = ValueError("no such order")
    cause = KeyError("A-17")

    @ar.tool
    def look() -> None:
        raise error from cause

    with ar.record("a", store=store), pytest.raises(ValueError) as caught:
        look()
    assert caught.value is error
    assert error.__cause__ is cause
    assert error.__context__ is None
    assert not hasattr(error, "__notes__")
    assert traceback.extract_tb(error.__traceback__)[-1].name == "look"
    failed = one(store, "tool.failed").data
    assert (failed.error.type, failed.error.message) == ("builtins.ValueError", "no such order")
    assert failed.error.traceback.endswith("ValueError: no such order\n")
    assert isinstance(decode(failed.error.value), ValueError)


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_exceptions_that_are_no_errors_pass_too(store: EventStore, raised: BaseException) -> None:
    """Ctrl-C and sys.exit inside of a tool go on their way."""

    @ar.tool
    def stop() -> None:
        raise raised

    with pytest.raises(type(raised)) as caught, ar.record("a", store=store):
        stop()
    assert caught.value is raised
    assert ends(store) == ["tool.called", "call.cancelled" if isinstance(raised, GeneratorExit) else "tool.failed"]


def test_values_that_cannot_be_stored_do_not_break_the_call(store: EventStore) -> None:
    """A socket and an object that raises whatever is asked of it are passed on, and described in the record."""
    hostile = Hostile()

    @ar.tool
    def look(*things: Any) -> Any:
        return things[-1]

    with ar.record("a", store=store), socket.socket() as plug:
        assert look(plug, hostile) is hostile
    called, returned = calls(store)
    assert [thing["$type"] for thing in called.data.arguments["things"]] == ["opaque", "opaque"]
    assert called.data.lossy == ["/arguments/things/0", "/arguments/things/1"]
    assert returned.data.result["class"] == "recorded:Hostile"


def test_an_exception_that_cannot_be_described_is_recorded(store: EventStore) -> None:
    """An error whose own text raises, and which carries a socket, costs the run nothing."""

    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    plug = socket.socket()

    @ar.tool
    def look() -> None:
        raise Odd(plug)

    with plug, ar.record("a", store=store) as run, pytest.raises(Odd):
        look()
    assert run.status == "completed"
    failed = one(store, "tool.failed").data
    assert failed.error.type.endswith("test_an_exception_that_cannot_be_described_is_recorded.<locals>.Odd")
    assert "Traceback" in failed.error.traceback


def test_texts_that_are_no_unicode_are_recorded(store: EventStore) -> None:
    """Half an emoji in a name, a message or a result leaves the log readable."""

    @ar.tool(name="cut \ud83d")
    def look() -> str:
        raise ValueError("half \ud83d")

    with ar.record("agent \ud83d", logger=True, store=store) as run, run.round():
        with pytest.raises(ValueError):
            look()
        run.report("\ud83d")
        run.logger.info("%s", "\ud83d")
        run.decide(step="Retry", reasoning="\ud83d", raw="\ud83d")
        run.change(new={"text": "\ud83d"}, reason="\ud83d")
        run.event("x.\ud83d", **{"a\ud83d": "\ud83d"})
        run.read("name \ud83d", lambda: "\ud83d")
        run.tool("t \ud83d", {"a": "\ud83d"}, lambda a: a)
        run.model("m \ud83d", {"messages": ["\ud83d"]}, lambda messages: {"stop_reason": "\ud83d"})
        run.messages.append({"content": "\ud83d"})
        run.messages.replace([], why="\ud83d")
        run.diagnostics.note("\ud83d")
    assert store.verify() == []
    kinds = [event.kind for event in store.events("@last")]
    assert kinds[-1] == "run.finished"
    assert ar.state_at("@last", store=store).payload == {"text": "\ud83d"}


def test_what_is_mutated_later_does_not_alter_the_record(store: EventStore) -> None:
    """Arguments are as they were when the tool was called, results as they were when it returned."""

    @ar.tool
    def add(items: list[int]) -> list[int]:
        items.append(2)
        return items

    with ar.record("a", store=store):
        add([1]).append(3)
    called, returned = calls(store)
    assert called.data.arguments == {"items": [1]}
    assert returned.data.result == [1, 2]


# -- what a wrapper is -------------------------------------------------------------------------------------------------


def plain(a: int, /, b: int, *rest: int, c: int = 3, **more: int) -> list[Any]:
    """Add up."""
    return [a, b, *rest, c, *more.values()]


async def coroutine(a: int) -> int:
    await asyncio.sleep(0)
    return a


def generator(a: int) -> Generator[int, str, str]:
    got = yield a
    return got


async def async_generator(a: int) -> AsyncGenerator[int, None]:
    yield a


@pytest.mark.parametrize("fn", [plain, coroutine, generator, async_generator])
@pytest.mark.parametrize("decorate", [ar.tool, ar.model, functools.partial(ar.wrap, kind="tool")])
def test_a_wrapper_is_of_the_same_sort(fn: Any, decorate: Any) -> None:
    """Whatever `inspect` says of the function it says of the effect, and so do name, documentation and signature."""
    wrapped = decorate(fn)
    for question in (
        inspect.isfunction,
        inspect.iscoroutinefunction,
        asyncio.iscoroutinefunction,
        inspect.isgeneratorfunction,
        inspect.isasyncgenfunction,
    ):
        assert question(wrapped) == question(fn), question
    assert inspect.signature(wrapped) == inspect.signature(fn)
    assert (wrapped.__name__, wrapped.__qualname__, wrapped.__doc__) == (fn.__name__, fn.__qualname__, fn.__doc__)
    assert wrapped.__wrapped__ is fn


@pytest.mark.parametrize(
    ("args", "kwargs", "named"),
    [
        ((1, 2), {}, {"a": 1, "b": 2}),
        ((1,), {"b": 2}, {"a": 1, "b": 2}),
        ((1, 2, 3, 4), {"c": 5}, {"a": 1, "b": 2, "rest": [3, 4], "c": 5}),
        ((1, 2), {"d": 6, "c": 3}, {"a": 1, "b": 2, "d": 6, "c": 3}),
        ((1, 2), {"a": 7}, {"a": 1, "b": 2, "more": {"a": 7}}),
    ],
)
def test_arguments_are_named_by_the_signature(
    store: EventStore, args: tuple[Any, ...], kwargs: dict[str, Any], named: dict[str, Any]
) -> None:
    """Positional arguments get their names; defaults are not filled in; nothing is lost."""
    tool = ar.tool(plain)
    with ar.record("a", store=store):
        assert tool(*args, **kwargs) == plain(*args, **kwargs)
    assert one(store, "tool.called").data.arguments == named


def test_a_wrong_call_raises_its_own_error(store: EventStore) -> None:
    """The function itself refuses arguments that do not fit, with the words Python has for it; that is recorded."""

    def look(order_id: str) -> None: ...

    tool = ar.tool(look)
    with ar.record("a", store=store), pytest.raises(TypeError) as caught:
        tool("A-17", "more", limit=3)
    with pytest.raises(TypeError) as own:
        look("A-17", "more", limit=3)  # type: ignore[call-arg]  # the point
    assert str(caught.value) == str(own.value)
    called, failed = calls(store)
    assert called.data.arguments == {"order_id": "A-17", "args": ["more"], "limit": 3}
    assert failed.data.error.type == "builtins.TypeError"


def test_methods_of_all_sorts_are_tools_without_their_self(store: EventStore) -> None:
    """Methods, class methods and static methods work as before; `self` and `cls` are no arguments."""

    class Shop:
        name = "shop"

        @ar.tool
        def look(self, order: int) -> str:
            return f"{self.name} {order}"

        @classmethod
        @ar.tool
        def below(cls, order: int) -> str:
            return f"{cls.name} {order}"

        @ar.tool
        @classmethod
        def above(cls, order: int) -> str:
            return f"{cls.name} {order}"

        @ar.tool
        @staticmethod
        def fixed(order: int) -> str:
            return f"fixed {order}"

    shop = Shop()
    with ar.record("a", store=store):
        assert [shop.look(1), Shop.look(shop, 2)] == ["shop 1", "shop 2"]
        assert [shop.below(3), Shop.above(4), shop.fixed(5), Shop.fixed(6)] == [
            "shop 3",
            "shop 4",
            "fixed 5",
            "fixed 6",
        ]
        assert ar.wrap(shop.look, kind="tool") == shop.look
    called = [event.data for event in calls(store) if event.kind == "tool.called"]
    assert [data.arguments for data in called] == [{"order": n} for n in range(1, 7)]
    assert [data.name for data in called] == ["look", "look", "below", "above", "fixed", "fixed"]


def test_other_callables_are_tools_too(store: EventStore) -> None:
    """Instances with `__call__`, partials, builtins without a signature, and lambdas."""

    class Search:
        def __call__(self, q: str) -> str:
            return q.upper()

    search = ar.wrap(Search(), kind="tool")
    partial = ar.wrap(functools.partial(plain, 1, c=5), kind="tool")
    builtin = ar.wrap(operator.itemgetter("a"), kind="tool", name="get a")
    length = ar.wrap(len, kind="tool")
    with ar.record("a", store=store):
        assert (search(q="x"), partial(2), builtin({"a": 1}), length([1])) == ("X", [1, 2, 5], 1, 1)
        assert ar.wrap(dict, kind="tool")([("a", 1)], b=2) == {"a": 1, "b": 2}
    called = [(event.data.name, event.data.arguments) for event in calls(store) if event.kind == "tool.called"]
    assert called == [
        ("Search", {"q": "x"}),
        ("plain", {"b": 2}),
        ("get a", {"args": [{"a": 1}]}),
        ("len", {"obj": [1]}),
        ("dict", {"args": [[{"$type": "tuple", "items": ["a", 1]}]], "b": 2}),
    ]


def test_outside_of_a_run_nothing_is_recorded(store: EventStore) -> None:
    """Effects work without a run, before one and after it."""
    tool = ar.tool(plain)
    assert tool(1, 2) == [1, 2, 3]
    with ar.record("a", store=store):
        pass
    assert tool(1, 2) == [1, 2, 3]
    assert ends(store) == []


def test_wrapping_twice_is_wrapping_once(store: EventStore) -> None:
    """An effect made an effect again is recorded once."""
    once = ar.wrap(plain, kind="tool")
    assert ar.wrap(once, kind="tool") is once
    assert effect_of(once) == Effect("tool", "plain")
    assert effect_of(plain) is None


@pytest.mark.parametrize(
    ("decorate", "word"),
    [
        (lambda: ar.tool(safety="harmless"), "harmless"),
        (lambda: ar.tool(safety="pure", compensate=print), "compensable"),
        (lambda: ar.wrap(plain, kind="database"), "database"),  # type: ignore[arg-type]  # the point
        (lambda: ar.wrap(3, kind="tool"), "int"),  # type: ignore[type-var]  # the point
        (lambda: ar.tool(property(plain)), "property"),  # type: ignore[arg-type,type-var]  # the point
    ],
)
def test_what_cannot_be_meant_is_refused(decorate: Callable[[], Any], word: str) -> None:
    """A word that is none, and things that cannot be called, are named."""
    with pytest.raises(ar.UsageError, match=word):
        decorate()


def test_what_is_known_of_a_tool_is_kept() -> None:
    """Safety, types and the undoing of a tool are at the effect; the safety goes into the log."""

    def undo(order: str) -> None: ...

    @ar.tool(name="pay", safety="compensable", returns=dict, raises=(ValueError,), compensate=undo)
    def pay(order: str) -> dict[str, Any]:
        return {}

    assert effect_of(pay) == Effect("tool", "pay", "compensable", None, dict, (ValueError,), undo)
    store = MemoryStore()
    with ar.record("a", store=store):
        pay("A-17")
    assert one(store, "tool.called").data.safety == "compensable"


# -- models ------------------------------------------------------------------------------------------------------------


class Usage:
    def __init__(self) -> None:
        self.input_tokens = 7
        self.output_tokens = 2
        self._client = object()


class Response:
    """Like an SDK's answer: plain attributes, and a property that must not run."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.stop_reason = "end_turn"

    @property
    def choices(self) -> Any:
        raise AssertionError("looked at")


@pytest.mark.parametrize(
    ("response", "usage", "stop_reason"),
    [
        ({"usage": {"input_tokens": 7, "output_tokens": 2}}, {"input_tokens": 7, "output_tokens": 2}, None),
        ({"choices": [{"finish_reason": "stop"}], "usage": {"prompt_tokens": 7}}, {"prompt_tokens": 7}, "stop"),
        ({"stopReason": "endTurn", "usage": {"inputTokens": 7, 3: 4}}, {"inputTokens": 7}, "endTurn"),
        (Response(), {"input_tokens": 7, "output_tokens": 2}, "end_turn"),
        ("just text", None, None),
        ({"usage": {"input_tokens": 7, "cost": 0.25}}, {"input_tokens": 7, "cost": 0.25}, None),
        ({"usage": None, "choices": []}, None, None),
        ({"usage": "seven", "stop_reason": 3}, None, None),
    ],
)
def test_usage_and_stop_reason_are_taken_from_the_answer(
    store: EventStore, response: Any, usage: Any, stop_reason: Any
) -> None:
    """In a provider's own words, from dicts and from objects, without running code of theirs."""

    @ar.model(model="default-1")
    def ask(messages: list[Any], model: str | None = None) -> Any:
        return response

    with ar.record("a", store=store) as run:
        assert ask([{"role": "user"}]) is response
        ask([], model="other-2")
    first, other = [event.data for event in calls(store) if event.kind == "model.called"]
    assert (first.name, first.model, first.request) == ("ask", "default-1", {"messages": [{"role": "user"}]})
    assert (other.model, other.request) == ("other-2", {"messages": [], "model": "other-2"})
    returned = next(event.data for event in calls(store) if event.kind == "model.returned")
    assert (returned.usage, returned.stop_reason) == (usage, stop_reason)
    assert run.result is not None
    assert run.result.context_size == (None if usage is None else 7)
    assert run.result.metrics["accumulatedUsage"] == {key: 2 * n for key, n in (usage or {}).items()}


def test_metrics_count_the_tools(store: EventStore) -> None:
    """How often each tool was called, how often it worked, and the time it took."""

    @ar.tool
    def half(n: int) -> float:
        return 1 / n

    with ar.record("a", store=store) as run:
        half(2)
        with pytest.raises(ZeroDivisionError):
            half(0)
    assert run.result is not None
    counts = run.result.metrics["toolMetrics"]["half"]
    assert (counts["callCount"], counts["successCount"], counts["errorCount"]) == (2, 1, 1)
    assert counts["totalTime"] > 0


# -- the log before the effect -----------------------------------------------------------------------------------------


def seen_by_others(path: Path) -> list[str]:
    other = SqlStore(f"sqlite:///{path}")
    try:
        return [row.kind for row in other.rows("run1")]
    finally:
        other.close()


def test_a_call_is_committed_before_the_effect_runs(tmp_path: Path) -> None:
    """Inside of a tool, model or generator another connection sees the call."""
    path = tmp_path / "store.db"
    store = SqlStore(f"sqlite:///{path}")
    seen: list[list[str]] = []

    @ar.tool
    def inner() -> None:
        seen.append(seen_by_others(path))

    @ar.model
    def outer() -> None:
        seen.append(seen_by_others(path))
        inner()

    @ar.tool
    def numbers() -> Iterator[int]:
        seen.append(seen_by_others(path))
        yield 1

    with ar.record("a", store=store) as run:
        outer()
        list(numbers())
        run.tool("direct", {}, inner)
    store.close()
    assert [kinds[-1] for kinds in seen] == ["model.called", "tool.called", "tool.called", "tool.called"]
    assert seen[1] == ["run.started", "model.called", "tool.called"]
    assert seen[3][-2:] == ["tool.called", "tool.called"]


async def test_a_call_is_committed_before_the_effect_runs_on_an_event_loop(tmp_path: Path) -> None:
    """Coroutines, async generators and plain functions alike."""
    path = tmp_path / "store.db"
    store = SqlStore(f"sqlite:///{path}")
    seen: list[str] = []

    @ar.tool
    async def coroutine() -> None:
        seen.append(seen_by_others(path)[-1])

    @ar.tool
    async def generator() -> AsyncGenerator[int, None]:
        seen.append(seen_by_others(path)[-1])
        yield 1

    @ar.tool
    def function() -> None:
        seen.append(seen_by_others(path)[-1])

    async with ar.record("a", store=store) as run:
        await coroutine()
        async for _ in generator():
            pass
        function()
        await run.atool("direct", {}, lambda: seen.append(seen_by_others(path)[-1]))
        returned = seen_by_others(path)[-1]
    store.close()
    assert seen == ["tool.called"] * 4
    assert returned == "tool.returned"


def test_calls_nest(store: EventStore) -> None:
    """A tool that calls a model: what happens inside is within the call, what happens after is not."""

    @ar.model
    def ask() -> str:
        return "yes"

    @ar.tool
    def research() -> str:
        return ask() + ask()

    with ar.record("a", store=store) as run, run.round():
        research()
        ask()
    assert outline(store) == [
        "round.started",
        "tool.called 1.1 research",
        "model.called 1.2 ask",
        "model.returned 1.2",
        "model.called 1.3 ask",
        "model.returned 1.3",
        "tool.returned 1.1",
        "model.called 1.4 ask",
        "model.returned 1.4",
        "step.decided",
        "round.finished continue",
    ]
    assert [event.within for event in calls(store)] == [None, "1.1", "1.1", "1.1", "1.1", None, None, None]
