"""Recorded runs as regression tests: `ar.assert_replays("tests/fixtures/refund.jsonl", step)`.

A cassette says what the code did; a test says that it still does. The file is replayed as any run is: each effect is
answered from it, nothing is called, and the first difference is raised, as an AssertionError, with step, call, path,
what was expected, what was found, the line of code, and what to do next. No store is needed, and none is made.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from ..recorder.errors import AgentReplayError, CassetteDiverged, Divergence
from .advice import hint_in_test
from .cassette_file import OpenedCassette, open_cassette
from .divergence import Difference
from .replayer import App, ReplayResult, areplay, replay

RECORD: Final = "pytest --agentreplay-update"
"""What records cassettes anew whose code was changed on purpose."""


def assert_replays(
    path: str | os.PathLike[str],
    agent: App,
    *,
    ignore: Iterable[str] = (),
    collect: bool = False,
    shallow: bool = False,
) -> ReplayResult:
    """Execute an agent, or code that opens `ar.record`, against a cassette. Nothing is called, and nothing written.

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
    cassette = open_cassette(path)
    with named(cassette):
        return _kept(
            replay(cassette.info, agent, store=cassette.store, ignore=ignore, collect=collect, shallow=shallow)
        )


async def aassert_replays(
    path: str | os.PathLike[str],
    agent: App,
    *,
    ignore: Iterable[str] = (),
    collect: bool = False,
    shallow: bool = False,
) -> ReplayResult:
    """`assert_replays` for tests in an event loop."""
    cassette = open_cassette(path)
    with named(cassette):
        return _kept(
            await areplay(cassette.info, agent, store=cassette.store, ignore=ignore, collect=collect, shallow=shallow)
        )


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
        run=None if run is None else f"child run of {cassette.store.run(run).agent}",
    )
