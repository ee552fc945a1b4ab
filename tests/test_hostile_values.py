"""Values that fight back, wherever an agent may put them: the agent goes on as ever, and the log is complete."""

from __future__ import annotations

import asyncio
from collections import UserDict
from collections.abc import Callable
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.copying import copy_value
from agentreplay.recorder.store import EventStore


class Meta(type):
    """A metaclass by which all classes are equal, so that they cannot be hashed."""

    __eq__ = lambda one, other: True  # type: ignore[assignment]  # noqa: E731  # not `def`, which would be too kind


class RaisingMeta(type):
    """A metaclass that answers nothing."""

    def __hash__(cls) -> int:
        raise RuntimeError("no hash")

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __instancecheck__(cls, instance: object) -> bool:
        raise RuntimeError("no instances")

    def __subclasscheck__(cls, subclass: type) -> bool:
        raise RuntimeError("no subclasses")


class Equal(metaclass=Meta):
    """Of a class that cannot be hashed."""


class Raising(metaclass=RaisingMeta):
    """Of a class that raises when it is asked anything."""


class Lazy:
    """Knows nothing of itself, its class included, until it is configured, which it never is."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("not configured")


class Liar:
    """Says that it is of another class."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    @property
    def __class__(self) -> Any:
        return self.cls


class Undecided:
    """Can be neither compared, nor hashed, counted, tested or shown."""

    def _refuse(self, *args: Any) -> Any:
        raise RuntimeError("no")

    __eq__ = __ne__ = __lt__ = __hash__ = __bool__ = __len__ = __iter__ = __contains__ = _refuse  # type: ignore[assignment]
    __repr__ = __str__ = __format__ = __getitem__ = __call__ = __deepcopy__ = __reduce_ex__ = _refuse  # type: ignore[assignment]


class Text(str):
    """A text that cannot be compared or hashed."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __str__(self) -> str:
        raise RuntimeError("no")

    def startswith(self, *args: Any) -> bool:
        raise RuntimeError("no")


class Mapped(dict[Any, Any]):
    """A dict that gives nothing away."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("no")

    def __iter__(self) -> Any:
        raise RuntimeError("no")

    def __len__(self) -> int:
        raise RuntimeError("no")


class Items(list[Any]):
    """A list that gives nothing away."""

    def __iter__(self) -> Any:
        raise RuntimeError("no")

    def __len__(self) -> int:
        raise RuntimeError("no")

    def __bool__(self) -> bool:
        raise RuntimeError("no")


class Exiting:
    """Ends the process when it is shown or copied."""

    def __repr__(self) -> str:
        raise SystemExit(3)

    def __deepcopy__(self, memo: Any) -> Any:
        raise SystemExit(3)


def shared() -> Any:
    """Twenty-two lists, which are millions when written out."""
    tree: Any = [1] * 3
    for _ in range(22):
        tree = [tree, tree]
    return tree


def deep() -> Any:
    """A list within lists, ten thousand of them."""
    tree: Any = 1
    for _ in range(10_000):
        tree = [tree]
    return tree


HOSTILE: dict[str, Callable[[], Any]] = {
    "equal": Equal,
    "raising": Raising,
    "class": lambda: Raising,
    "lazy": Lazy,
    "says it is a text": lambda: Liar(str),
    "says it is a dict": lambda: Liar(dict),
    "says it is a list": lambda: Liar(list),
    "says it is an outcome": lambda: Liar(ar.Complete),
    "undecided": Undecided,
    "text": lambda: Text("abc"),
    "mapped": lambda: Mapped(a=1),
    "items": lambda: Items([1]),
    "exiting": Exiting,
    "user dict": lambda: UserDict({"a": Undecided()}),
    "shared": shared,
    "deep": deep,
}


class SilentError(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


class LazyError(Exception):
    """An exception that knows nothing of itself."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("not configured")


class EqualError(Exception, metaclass=Meta):
    """An exception of a class that cannot be hashed."""


class ExitingError(Exception):
    """An exception that ends the process when it is shown."""

    def __str__(self) -> str:
        raise SystemExit(3)


ERRORS: list[type[Exception]] = [SilentError, LazyError, EqualError, ExitingError]


@pytest.fixture
def store(tmp_path: Any) -> EventStore:
    """An empty store."""
    return ar.open_store(f"sqlite:///{tmp_path}/runs.db")


def kinds_of(store: EventStore, run: int = -1) -> list[str]:
    """The kinds of a run's events, in order."""
    return [event.kind for event in store.events(store.runs()[run].uid)]


def ends_well(store: EventStore, *wanted: str) -> None:
    """Check that the one run of a store is whole, and has these events."""
    assert len(store.runs()) == 1
    kinds = kinds_of(store)
    assert kinds[0] == "run.started"
    assert kinds[-1] == "run.finished"
    assert [kind for kind in wanted if kind not in kinds] == []


@pytest.fixture(params=list(HOSTILE))
def value(request: pytest.FixtureRequest) -> Any:
    """One of the hostile values."""
    return HOSTILE[request.param]()


def test_a_recorded_loop_takes_any_value_anywhere(store: EventStore, value: Any) -> None:
    """Payload, input, params, arguments, results, reports, reads, messages, notes and the outcome may be anything."""
    with ar.record("d", payload={"a": value}, input=value, params={"a": value}, logger=True, store=store) as run:
        with run.round() as r:
            assert r.tool("t", {"x": value}, lambda x: x) is value
            assert r.model("m", {"x": value}, lambda x: x) is value
            assert r.read("setting", lambda: value) is value
            r.report(value)
            r.event("x.own", value=value)
            r.messages.append(value)
            r.messages.append({"role": "user", "content": value})
            r.logger.info("%s", value, value=value)
            r.diagnostics.note("note", value=value)
            r.change(update={"b": value})
            r.change(payload={"c": value})
            r.decide(step="Actions", scratchpad={"notes": value}, memoryWrites=value)
            _ = r.payload, r.scratchpad, r.input, r.params
        run.complete(value)
    assert run.result is not None
    assert run.result.value is value
    wanted = ("tool.returned", "model.returned", "value.read", "report", "x.own", "message.added", "payload.changed")
    ends_well(store, *wanted, "scratchpad.changed")


def test_an_agent_takes_any_value_anywhere(store: EventStore, value: Any) -> None:
    """What an agent is given, what its tools give back and what it completes with may be anything."""

    @ar.tool
    def same(x: Any) -> Any:
        return x

    @ar.model
    def ask(x: Any) -> Any:
        return x

    @ar.tool
    def many(x: Any) -> Any:
        yield x
        return x

    @ar.agent("d")
    def step(index: int, context: ar.Context) -> Any:
        assert same(value) is value
        assert ask(value) is value
        assert [item is value for item in many(value)] == [True]
        return ar.Complete(value)

    result = step.run(value, value, {"a": value}, store=store)
    assert result.value is value
    ends_well(store, "tool.returned", "model.returned")


def test_an_agent_on_an_event_loop_takes_any_value_anywhere(store: EventStore, value: Any) -> None:
    """The same holds for coroutines and async generators."""

    @ar.tool
    async def same(x: Any) -> Any:
        return x

    @ar.tool
    def given(x: Any) -> Any:
        return x

    @ar.model
    async def many(x: Any) -> Any:
        yield x

    @ar.agent("d")
    async def step(index: int, context: ar.Context) -> Any:
        assert await same(value) is value
        assert given(value) is value
        async for item in many(value):
            assert item is value
        return ar.Complete(value)

    result = asyncio.run(step.arun(value, value, {"a": value}, store=store))
    assert result.value is value
    ends_well(store, "tool.returned", "model.returned")


def test_a_step_that_returns_a_hostile_value_fails_as_with_any_other(store: EventStore, value: Any) -> None:
    """What is no outcome is a usage error, whatever it is, and the log ends as it should."""

    @ar.agent("d")
    def step(index: int, context: ar.Context) -> Any:
        return value

    with pytest.raises(ar.UsageError):
        step.run({}, store=store)
    ends_well(store)


@pytest.mark.parametrize("cls", ERRORS, ids=[cls.__name__ for cls in ERRORS])
def test_an_exception_that_fights_back_is_recorded_and_raised_as_it_is(store: EventStore, cls: type[Exception]) -> None:
    """Exceptions of tools, of models, and those that leave the agent go their way.

    The coroutine is driven by hand: asyncio shows the exceptions of its tasks, recorded or not.
    """
    error = cls("why")
    seen: list[bool] = []

    @ar.tool
    def fail() -> None:
        raise error

    @ar.model
    async def fail_later() -> None:
        raise error

    @ar.agent("d")
    def step(index: int, context: ar.Context) -> Any:
        for call in (fail, lambda: fail_later().send(None)):
            try:
                call()
            except Exception as raised:
                seen.append(raised is error)
        context.report(error)
        raise error

    try:
        step.run({}, store=store)
    except BaseException as raised:
        seen.append(raised is error)
    assert seen == [True, True, True]
    ends_well(store, "tool.failed", "model.failed")


def test_copies_keep_what_is_shared() -> None:
    """An object that occurs twice is copied once, and a cycle is a cycle again."""
    inner = {"a": [1, (2,)], "t": (3,)}
    cycle: list[Any] = [inner, inner]
    cycle.append(cycle)
    copied = copy_value(cycle)
    assert copied is not cycle
    assert copied[0] is copied[1]
    assert copied[0] is not inner
    assert copied[0]["a"] is not inner["a"]
    assert copied[2] is copied
