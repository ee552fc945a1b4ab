"""Executing a test against its cassette: by `app=` of the marker, by the fixture, or with its body as the code.

A test that has `app=` or takes the fixture says what is replayed, and its body is a test as any other, in which no
agent may run. A marked test that does neither runs the agent in its body, as it would live; then the body is what is
replayed. So in each form a run that begins in the test is either compared with the cassette or refused: without the
options that record, nothing is called.
"""

from __future__ import annotations

import functools
import glob
import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import pytest

from .pytest_plugin import NAME, PARAMETER, UNTRACED
from .recorder.attaching import Waiting, waits
from .recorder.calls import Effect
from .recorder.errors import AgentReplayError, UsageError
from .recorder.loop import Agent
from .recorder.signals import ReplayStopped
from .replay.cassette_recording import KEEPING
from .replay.replayer import App, ReplayResult
from .replay.testing import CassetteTest

_START: Final = ("payload", "input", "params")
_OPTIONS: Final = ("app", *_START, "ignore", "collect", "shallow")
_FIXTURE: Final = pytest.StashKey["ReplayFixture"]()
_WILD: Final = "*?["


def cassettes_of(marker: pytest.Mark, node: pytest.Item) -> list[str]:
    """The absolute paths of the cassettes that a marker names; a pattern that no file fits stays as it is."""
    found: list[str] = []
    for named in marker.args:
        path = os.path.join(node.path.parent, named)
        wild = not os.path.exists(path) and any(char in str(named) for char in _WILD)
        fitting = sorted(glob.glob(path, recursive=True)) if wild else []
        found += fitting or [os.path.normpath(path)]
    return list(dict.fromkeys(found))


class ReplayFixture:
    """What the fixture `agentreplay` is.

    Attributes:
        path: the cassette of the marker, or None.
        result: what the last replay came to, or None.
    """

    def __init__(self, item: pytest.Item) -> None:
        marker = item.get_closest_marker(NAME)
        paths = [] if marker is None else cassettes_of(marker, item)
        chosen = getattr(getattr(item, "callspec", None), "params", {}).get(PARAMETER)
        self.path: str | None = chosen or next(iter(paths), None)
        self.result: ReplayResult | None = None
        self.replays = 0
        self._item = item
        self._given: dict[str, Any] = {} if marker is None else dict(marker.kwargs)

    def replay(
        self,
        agent: App,
        path: str | os.PathLike[str] | None = None,
        *,
        ignore: Iterable[str] = (),
        collect: bool = False,
        shallow: bool = False,
        **start: Any,
    ) -> ReplayResult:
        """Execute an agent, or code that opens `ar.record`, against the cassette.

        Args:
            agent: what `@ar.agent` made, or a callable without arguments; coroutine functions, too.
            path: another cassette than the marker's, relative to the test's file.
            ignore, collect, shallow: as of `ar.assert_replays`, beside those of the marker.
            **start: `payload`, `input` and `params`, with which an agent begins. They are compared with the recording,
                and what is recorded begins with them; without any, the recorded start holds.

        Raises:
            CassetteDiverged: the code did something else than the recording; an AssertionError.
        """
        __tracebackhide__ = True
        with untraced():
            begun = self._begun(agent, start, "run")
            self.result = self.test_of(begun, path, ignore, collect, shallow).check()
        assert self.result is not None  # only of the body of a test it is
        return self.result

    async def areplay(
        self,
        agent: App,
        path: str | os.PathLike[str] | None = None,
        *,
        ignore: Iterable[str] = (),
        collect: bool = False,
        shallow: bool = False,
        **start: Any,
    ) -> ReplayResult:
        """`replay` for tests in an event loop."""
        __tracebackhide__ = True
        with untraced():
            begun = self._begun(agent, start, "arun")
            self.result = await self.test_of(begun, path, ignore, collect, shallow).acheck()
        assert self.result is not None  # only of the body of a test it is
        return self.result

    def _begun(self, agent: App, start: dict[str, Any], run: str) -> App:
        """The agent, beginning with what the test gives it, if it gives anything."""
        if unknown := [name for name in start if name not in _START]:
            raise TypeError(f"replay() got an unexpected keyword argument {unknown[0]!r}")
        start = {name: self._given[name] for name in _START if name in self._given} | start
        if not start:
            return agent
        if not isinstance(agent, Agent):
            raise UsageError(f"{next(iter(start))}= is what an agent begins with; this function begins its run itself")
        return functools.partial(getattr(agent, run), **start)

    def test_of(
        self,
        agent: App,
        path: str | os.PathLike[str] | None = None,
        ignore: Iterable[str] = (),
        collect: bool = False,
        shallow: bool = False,
        *,
        is_body: bool = False,
    ) -> CassetteTest:
        """The comparison that is meant.

        Raises:
            UsageError: nothing says with which cassette.
        """
        self.replays += 1
        named = self.path if path is None else os.path.normpath(os.path.join(self._item.path.parent, path))
        if named is None:
            raise UsageError(
                f'say which cassette: @pytest.mark.{NAME}("fixtures/refund.jsonl"), or {NAME}.replay(agent, path)'
            )
        return CassetteTest(
            named,
            agent,
            _shown(named, self._item.config),
            (*self._given.get("ignore", ()), *ignore),
            collect or self._given.get("collect", False),
            shallow or self._given.get("shallow", False),
            is_body,
        )


def _shown(path: str, config: pytest.Config) -> str:
    """A path as it is typed where pytest was called."""
    shown = os.path.relpath(path, config.invocation_params.dir)
    return path if shown.startswith(os.pardir) else shown


def fixture_of(item: pytest.Item) -> ReplayFixture:
    """What the fixture is in a test."""
    if _FIXTURE not in item.stash:
        item.stash[_FIXTURE] = ReplayFixture(item)
    return item.stash[_FIXTURE]


@contextmanager
def against_cassette(item: pytest.Function) -> Iterator[None]:
    """In this block, the test's function is executed against its cassette when it is called."""
    __tracebackhide__ = True
    with untraced():
        marker = item.get_closest_marker(NAME)
        given = {} if marker is None else marker.kwargs
        if unknown := [name for name in given if name not in _OPTIONS]:
            raise UsageError(f"the marker {NAME} has no {unknown[0]}=; it has {', '.join(_OPTIONS)}")
        fixture, app = fixture_of(item), given.get("app")
        if marker is not None and fixture.path is None:
            raise UsageError(f'the marker {NAME} says which cassette: @pytest.mark.{NAME}("fixtures/refund.jsonl")')
    if KEEPING.mode != "none" or KEEPING.update:
        KEEPING.rules = item._request.getfixturevalue("agentreplay_redaction")
    body = item.obj
    if app is None and NAME not in item.fixturenames:
        executed = _abody(body, fixture) if inspect.iscoroutinefunction(body) else _body(body, fixture)
    else:
        executed = _aguarded(body, fixture, app) if inspect.iscoroutinefunction(body) else _guarded(body, fixture, app)
    item.obj = executed
    try:
        yield
    finally:
        item.obj = body


@contextmanager
def untraced() -> Iterator[None]:
    """Errors of ours that are raised in this block are shown without a traceback."""
    __tracebackhide__ = True
    try:
        yield
    except AgentReplayError as error:
        setattr(error, UNTRACED, True)
        raise


# -- the body is the code ----------------------------------------------------------------------------------------------


def _body(body: Callable[..., Any], fixture: ReplayFixture) -> Callable[..., None]:
    @functools.wraps(body)
    def executed(**arguments: Any) -> None:
        __tracebackhide__ = True
        raised: list[Exception] = []

        def code() -> None:
            raised.clear()
            try:
                body(**arguments)
            except Exception as error:
                raised.append(error)
                raise

        _check(fixture.test_of(code, is_body=True), raised)

    return executed


def _check(test: CassetteTest, raised: list[Exception]) -> None:
    __tracebackhide__ = True
    try:
        with untraced():
            test.check()
    except Exception as error:
        if not any(error is own for own in raised):
            raise
    _raise_own(raised)


def _raise_own(raised: list[Exception]) -> None:
    """What the body raised, which a replay takes for the end of the run, is the test's."""
    __tracebackhide__ = True
    if raised:
        vars(raised[0]).pop(UNTRACED, None)
        raise raised[0]


def _abody(body: Callable[..., Any], fixture: ReplayFixture) -> Callable[..., Any]:
    @functools.wraps(body)
    async def executed(**arguments: Any) -> None:
        __tracebackhide__ = True
        raised: list[Exception] = []

        async def code() -> None:
            raised.clear()
            try:
                await body(**arguments)
            except Exception as error:
                raised.append(error)
                raise

        try:
            with untraced():
                await fixture.test_of(code, is_body=True).acheck()
        except Exception as error:
            if not any(error is own for own in raised):
                raise
        _raise_own(raised)

    return executed


# -- the test says what is replayed ------------------------------------------------------------------------------------


class _NoRun(Waiting):
    """No run may begin in a test that says what is replayed, and no effect be made: neither would be compared."""

    def begins(self, name: str) -> NoReturn:
        """Refuse a run."""
        self._refuse(f"a run of {name!r} begins in the test itself")

    def outside(self, effect: Effect) -> NoReturn:
        """Refuse an effect."""
        self._refuse(f"the {effect.kind} {effect.name} is called in the test itself")

    def _refuse(self, what: str) -> NoReturn:
        raise ReplayStopped(
            UsageError(
                f"{what}, live, in a test that replays recordings: {NAME}.replay(…) executes code against the "
                "cassette. In a test without app= and without the fixture, the body is what is replayed"
            )
        )


@contextmanager
def _no_run() -> Iterator[None]:
    __tracebackhide__ = True
    try:
        with waits(_NoRun()):
            yield
    except ReplayStopped as stopped:
        setattr(stopped.failure, UNTRACED, True)
        raise stopped.failure from None


def _guarded(body: Callable[..., Any], fixture: ReplayFixture, app: App | None) -> Callable[..., None]:
    @functools.wraps(body)
    def executed(**arguments: Any) -> None:
        __tracebackhide__ = True
        if app is not None:
            fixture.replay(app)
        with _no_run():
            body(**arguments)
        _refuse_without_replay(fixture)

    return executed


def _aguarded(body: Callable[..., Any], fixture: ReplayFixture, app: App | None) -> Callable[..., Any]:
    @functools.wraps(body)
    async def executed(**arguments: Any) -> None:
        __tracebackhide__ = True
        if app is not None:
            await fixture.areplay(app)
        with _no_run():
            await body(**arguments)
        _refuse_without_replay(fixture)

    return executed


def _refuse_without_replay(fixture: ReplayFixture) -> None:
    __tracebackhide__ = True
    if not fixture.replays:
        with untraced():
            raise UsageError(f"the test takes the fixture {NAME} and replays nothing: {NAME}.replay(agent)")
