"""Recorded runs as regression tests: `ar.assert_replays("tests/fixtures/refund.jsonl", step)`.

A cassette says what the code did; a test says that it still does. The file is replayed as any run is: each effect is
answered from it, nothing is called, and the first difference is raised, as an AssertionError, with step, call, path,
what was expected, what was found, the line of code, and what to do next. No store is needed, and none is made.

Only where the person who runs the tests says so (`cassette_recording.KEEPING`, set by pytest's options) is anything
recorded: first what replays is left alone, then the code is run live, and what was recorded is replayed before it takes
the place of the file. So a cassette that was just made is known to replay.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ..recorder.attaching import waits
from ..recorder.errors import AgentReplayError, CassetteDiverged, Divergence, ImportFailed, UsageError
from ..recorder.exporting import export_run
from ..recorder.log_end import last_round
from ..recorder.loop import Agent
from ..recorder.store import EventStore, RunInfo
from .advice import hint_in_test
from .cassette_file import OpenedCassette, open_cassette
from .cassette_recording import KEEPING, SAY, Kept, Start, Take, abegun, begun, rules_for
from .changes import MISSING
from .divergence import Difference
from .replayer import App, ReplayResult, areplay, replay
from .rerunning import aresume, resume

RECORD: Final = "pytest --agentreplay-update"
"""What records cassettes anew whose code was changed on purpose."""

VALUE: Final = 60
"""Characters of a value in a list of many."""


def assert_replays(
    path: str | os.PathLike[str],
    agent: App,
    *,
    ignore: Iterable[str] = (),
    collect: bool = False,
    shallow: bool = False,
) -> ReplayResult:
    """Execute an agent, or code that opens `ar.record`, against a cassette. Nothing is called, and nothing written.

    Under pytest, the options `--agentreplay-record` and `--agentreplay-update` have cassettes recorded.

    Args:
        path: the cassette, as `agentreplay export RUN FILE` writes it.
        agent: what to execute: what `@ar.agent` made, or a callable without arguments; coroutine functions, too.
        ignore: rules of what is different each time, such as "tool:search:$.request_id".
        collect: go on after a difference as far as can be; the error tells all of them then.
        shallow: answer the runs of other agents as wholes, instead of executing their code, too.

    Returns:
        What was covered, and what the agent came to.

    Raises:
        CassetteDiverged: the code did something else than the recording; an AssertionError.
        ImportFailed: the file is missing, damaged or no cassette.
        UnknownType, LossyAnswer, NothingCaptured: see `replay`.
        UsageError: the code begins no run, or another one than was recorded; or this is called in an event loop.
    """
    result = CassetteTest(path, agent, ignore=tuple(ignore), collect=collect, shallow=shallow).check()
    assert result is not None  # only of the body of a test it is
    return result


async def aassert_replays(
    path: str | os.PathLike[str],
    agent: App,
    *,
    ignore: Iterable[str] = (),
    collect: bool = False,
    shallow: bool = False,
) -> ReplayResult:
    """`assert_replays` for tests in an event loop."""
    result = await CassetteTest(path, agent, ignore=tuple(ignore), collect=collect, shallow=shallow).acheck()
    assert result is not None  # only of the body of a test it is
    return result


@dataclass(slots=True)
class CassetteTest:
    """One comparison of code with a cassette.

    Attributes:
        path: the file.
        agent: what is executed.
        shown: the file, as messages name it; by default the path.
        ignore, collect, shallow: as for `assert_replays`.
        is_body: the code is the body of a test, which makes the run itself: what it raises is the test's failure, and
            once it was recorded, it is not executed again.
    """

    path: str | os.PathLike[str]
    agent: App
    shown: str = ""
    ignore: Sequence[str] = ()
    collect: bool = False
    shallow: bool = False
    is_body: bool = False

    # -- checking --------------------------------------------------------------------------------------

    def check(self) -> ReplayResult | None:
        """Replay it, and record what is to be recorded; None where the body of a test was recorded."""
        todo, cassette = self._begin()
        if todo == "record":
            return self._recorded(cassette, "as all are" if cassette else "it was missing")
        assert cassette is not None  # else it is recorded
        if todo == "go on":
            return self._went_on(cassette)
        try:
            return self._replayed(cassette)
        except CassetteDiverged as diverged:
            if not KEEPING.update:
                raise
            why = in_a_line(diverged.difference)
        return self._recorded(cassette, why)

    async def acheck(self) -> ReplayResult | None:
        """`check` in an event loop."""
        todo, cassette = self._begin()
        if todo == "record":
            return await self._arecorded(cassette, "as all are" if cassette else "it was missing")
        assert cassette is not None  # else it is recorded
        if todo == "go on":
            return await self._awent_on(cassette)
        try:
            return await self._areplayed(cassette)
        except CassetteDiverged as diverged:
            if not KEEPING.update:
                raise
            why = in_a_line(diverged.difference)
        return await self._arecorded(cassette, why)

    def _begin(self) -> tuple[Literal["replay", "record", "go on"], OpenedCassette | None]:
        KEEPING.used[os.path.realpath(self.path)] = None
        mode = KEEPING.mode
        if not os.path.exists(self.path):
            if mode == "none":
                raise self._missing()
            return "record", None
        try:
            cassette = open_cassette(self.path)
        except ImportFailed as error:
            raise ImportFailed(
                str(error).replace(os.fspath(self.path), self._name), path=self._name, line=error.line
            ) from None
        cassette = cassette._replace(path=self._name)
        if mode == "all":
            return "record", cassette
        return "go on" if mode == "new" and cassette.info.status == "running" else "replay", cassette

    @property
    def _name(self) -> str:
        return self.shown or os.fspath(self.path)

    def _missing(self) -> ImportFailed:
        return ImportFailed(
            f"there is no cassette {self._name}. `pytest --agentreplay-record=once` records it, which runs the code "
            f"live, and `agentreplay export RUN {self._name}` writes a run that was recorded",
            path=self._name,
        )

    # -- replaying -------------------------------------------------------------------------------------

    def _replayed(self, cassette: OpenedCassette) -> ReplayResult:
        with named(cassette):
            return _kept(replay(cassette.info, self.agent, **self._options(cassette), shallow=self.shallow))

    async def _areplayed(self, cassette: OpenedCassette) -> ReplayResult:
        with named(cassette):
            return _kept(await areplay(cassette.info, self.agent, **self._options(cassette), shallow=self.shallow))

    def _options(self, cassette: OpenedCassette) -> dict[str, Any]:
        return {"store": cassette.store, "ignore": self.ignore, "collect": self.collect}

    # -- going on --------------------------------------------------------------------------------------

    def _went_on(self, cassette: OpenedCassette) -> ReplayResult | None:
        step = last_round(cassette.store, cassette.info)
        with named(cassette):
            resume(cassette.info, self.agent, store=cassette.store, take_over=True, ignore=self.ignore)
        self._keep(cassette, step)
        return None if self.is_body else self._replayed(cassette)

    async def _awent_on(self, cassette: OpenedCassette) -> ReplayResult | None:
        step = last_round(cassette.store, cassette.info)
        with named(cassette):
            await aresume(cassette.info, self.agent, store=cassette.store, take_over=True, ignore=self.ignore)
        self._keep(cassette, step)
        return None if self.is_body else await self._areplayed(cassette)

    def _keep(self, cassette: OpenedCassette, step: int) -> None:
        """Write a run that has gone on in a step."""
        export_run(cassette.info.uid, self.path, store=cassette.store)
        self._note("went on", f"from step {max(step, 1)}", cassette.store.run(cassette.info.uid))

    # -- recording -------------------------------------------------------------------------------------

    def _recorded(self, cassette: OpenedCassette | None, why: str) -> ReplayResult | None:
        start = self._start(cassette)
        with Take(rules_for(cassette)) as take, waits(None):
            with self._may_fail_as(cassette):
                begun(self.agent, start)
            take.end(self._name)
            result = None if self.is_body else self._replayed(self._just_recorded(take))
            take.put(self.path)
        self._note("re-recorded" if cassette else "recorded", why, take.info)
        return result

    async def _arecorded(self, cassette: OpenedCassette | None, why: str) -> ReplayResult | None:
        start = self._start(cassette)
        with Take(rules_for(cassette)) as take, waits(None):
            with self._may_fail_as(cassette):
                await abegun(self.agent, start)
            take.end(self._name)
            result = None if self.is_body else await self._areplayed(self._just_recorded(take))
            take.put(self.path)
        self._note("re-recorded" if cassette else "recorded", why, take.info)
        return result

    def _start(self, cassette: OpenedCassette | None) -> Start | None:
        """What an agent begins with; code that begins the run itself says that itself."""
        if not isinstance(self.agent, Agent):
            return None
        if cassette is None:
            raise UsageError(
                f"there is no cassette {self._name}, so nothing says what the agent {self.agent.name!r} begins with: "
                + SAY
            )
        return Start.of(cassette)

    @contextmanager
    def _may_fail_as(self, cassette: OpenedCassette | None) -> Iterator[None]:
        """A run that raises is recorded where the recorded one did; else it is the test that fails."""
        try:
            yield
        except AgentReplayError:
            raise
        except Exception:
            if cassette is None or self.is_body or cassette.info.status != "failed":
                raise

    def _just_recorded(self, take: Take) -> OpenedCassette:
        return open_cassette(take.cassette)._replace(path=f"{self._name}, as it was recorded just now,")

    def _note(self, what: str, why: str, info: RunInfo) -> None:
        KEEPING.kept.append(Kept(self._name, what, why, info.status, info.steps))


# -- telling it ----------------------------------------------------------------------------------------


def _kept(result: ReplayResult) -> ReplayResult:
    """The result, if all was the same; raises the differences that were collected."""
    if result.divergences:
        raise Divergence(*result.divergences, notes=result.coverage.notes)
    return result


@contextmanager
def named(cassette: OpenedCassette) -> Iterator[None]:
    """What is raised in this block says which file it is about, and what to do about it in a test."""
    try:
        yield
    except Divergence as divergence:
        told = [in_test(cassette, difference) for difference in divergence.differences]
        raise CassetteDiverged(cassette.path, Divergence(*told, notes=divergence.notes)) from divergence.__cause__
    except AgentReplayError as error:
        if len(error.args) == 1 and cassette.path not in str(error):
            error.args = (f"{cassette.path}: {error}",)
        raise


def in_test(cassette: OpenedCassette, difference: Difference) -> Difference:
    """A difference as a test tells it: with what is done in a test, and child runs after their agents.

    Numbers of runs mean nothing outside of a store.
    """
    run = difference.run
    return replace(
        difference,
        hint=hint_in_test(difference, RECORD),
        run=None if run is None else name_of_child(cassette.store, run),
    )


def name_of_child(store: EventStore, run: str) -> str:
    """A child run in a cassette, after its agent."""
    return f"child run of {store.run(run).agent}"


def in_a_line(difference: Difference) -> str:
    """A difference on one line, for a list of many: where it is, and what was expected and found."""
    expected, actual = difference.shown(VALUE)
    path = f" {difference.path}" if difference.path else ""
    if difference.expected is MISSING or difference.actual is MISSING:
        change = f" {difference.what or f'expected {expected}, found {actual}'}"
        return f"{difference.headline}{path},{change}"
    return f"{difference.headline}{path}: {expected} → {actual}"
