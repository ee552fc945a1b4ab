"""Replay: execute code against a run's recording, offline, and say whether it does the same.

Nothing is appended and no effect is made. The code gets the answers that it got, in their order and with their types;
what it asks, decides and changes is compared. The first difference stops it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any, Final, Literal, TypeAlias

from ..recorder.agent_result import AgentResult
from ..recorder.attaching import waiting, waits
from ..recorder.errors import Divergence, NothingCaptured, UsageError
from ..recorder.introspection import is_awaitable, module_names_hold
from ..recorder.loop import Agent
from ..recorder.scope import abandoned, scope_is_carried
from ..recorder.signals import ProcessStopped, ReplayStopped
from ..recorder.store import EventStore, RunRef
from ..recorder.writer import in_thread, on_event_loop
from .beginning_again import call_or_begin, goes_on
from .course import Course, RecordingEnds
from .coverage import Coverage
from .divergence import Difference
from .ignoring import IgnoreRules
from .interrupting import ends, interruptible, raise_interruption
from .reading import resolve
from .workers import Workers

App: TypeAlias = Agent | Callable[[], Any]
"""An agent, or a callable that opens `ar.record`; it may be a coroutine function."""


_ONLY_THE_WAY: Final = (
    "no call and no value was answered from the log: the way through the nodes and what they changed was compared; "
    "whatever a node asked of the world, it asked itself"
)

STUCK: Final = 1.0
"""Seconds that code may take to learn that it was stopped, after which it is left behind."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replay came to.

    Attributes:
        run: the run's id.
        verdict: "identical", or "diverged" when differences were collected.
        divergences: the differences, in the order in which they were found.
        coverage: what was answered from the log.
        result: the AgentResult of the code, if it came to its end and is an agent.
        complete: whether the recording was met to its end; not where it ends in the middle of a run.
    """

    run: str
    verdict: Literal["identical", "diverged"]
    divergences: tuple[Difference, ...]
    coverage: Coverage
    result: AgentResult | None = None
    complete: bool = True

    @property
    def says_nothing(self) -> bool:
        """Whether it came to its end, all is the same, and that is no success, since nothing was captured."""
        return self.complete and not self.divergences and self.coverage.is_nothing

    def to_json(self) -> dict[str, Any]:
        """`{run, verdict, divergences, coverage}`, as `agentreplay replay --json` prints it."""
        return {
            "run": self.run,
            "verdict": self.verdict,
            "divergences": [difference.to_json() for difference in self.divergences],
            "coverage": self.coverage.to_json(),
            "complete": self.complete,
            "notes": list(self.coverage.notes),
        }

    def _repr_html_(self) -> str:
        """A small table for notebooks: what was covered, and each difference."""
        counts = ", ".join([f"{count:,} {name}" for name, count in self.coverage.to_json().items()])
        cells = [("coverage", "\n".join([counts, *self.coverage.notes]))]
        cells += [(difference.headline, difference.message()) for difference in self.divergences]
        rows = "".join(
            [
                f"<tr><th style='text-align:left;vertical-align:top'>{escape(name)}</th>"
                f"<td style='text-align:left'><pre style='margin:0'>{escape(text)}</pre></td></tr>"
                for name, text in cells
            ]
        )
        return f"<table><caption>{escape(self.run)}: {self.verdict}</caption>{rows}</table>"


def replay(
    run: RunRef,
    agent: App,
    *,
    store: EventStore | str | None = None,
    ignore: Iterable[str] = (),
    collect: bool = False,
    shallow: bool = False,
) -> ReplayResult:
    """Execute an agent, or code that opens `ar.record`, against a recorded run.

    Args:
        run: "run42", a number, a uid or the start of one, "@last", or a RunInfo.
        agent: what to execute: what `@ar.agent` made, or a callable without arguments.
        store: where the run is; by default the store that is found from here.
        ignore: rules of what is different each time, such as "tool:search:$.request_id".
        collect: go on after a difference as far as can be; the differences are in the result then.
        shallow: answer the runs of other agents as wholes, instead of executing their code, too.

    Returns:
        The result; its verdict is "identical" unless differences were collected.

    Raises:
        Divergence: the code did something else than the recording.
        UnknownType, LossyAnswer: an answer cannot be given as the agent got it.
        NothingCaptured: no call, no read and no answer of a person was answered from the log, so a run in which all is
            the same says nothing: whatever the code asked of the world, it asked itself. Not of a workflow: its way
            through the nodes was compared.
        UsageError: the code begins no run, or another one than was recorded; or this is called in an event loop.
        RunNotFound: there is no such run.
    """
    if on_event_loop():
        raise UsageError("replay() cannot run inside an event loop; use `await ar.areplay(…)`")
    course = course_for(run, agent, store, ignore, collect, shallow)
    with attached(course) as outcome:
        outcome.append(execute_apart(agent, course))
    return _with_something(result_of(course, outcome))


async def areplay(
    run: RunRef,
    agent: App,
    *,
    store: EventStore | str | None = None,
    ignore: Iterable[str] = (),
    collect: bool = False,
    shallow: bool = False,
) -> ReplayResult:
    """`replay` for code in an event loop."""
    course = course_for(run, agent, store, ignore, collect, shallow)
    with attached(course) as outcome:
        outcome.append(await aexecute(agent, course))
    return _with_something(result_of(course, outcome))


def _with_something(result: ReplayResult) -> ReplayResult:
    """The result, if it says anything."""
    if result.says_nothing:
        raise NothingCaptured(
            f"nothing of {result.run} was captured: no call and no value was answered from the log, so whatever the "
            "code asked of the world, it asked itself. Record its calls: @agentreplay.tool, @agentreplay.model, or wrap"
        )
    return result


def course_for(
    run: RunRef, agent: App, store: EventStore | str | None, ignore: Iterable[str], collect: bool, shallow: bool = False
) -> Course:
    """The course of a replay."""
    found, info = resolve(run, store)
    name = None if isinstance(agent, Agent) else info.agent
    return Course(found, info, name=name, ignore=IgnoreRules(ignore), collect=collect, shallow=shallow)


@contextmanager
def attached(course: Course) -> Iterator[list[Any]]:
    """The run that begins in this block is the recorded one. What the code raises is compared, and goes no further.

    Whatever executes code against a recording does it in here, so that all of it is answered: tasks, threads, and the
    processes that the code starts.
    """
    stack = ExitStack()
    stack.enter_context(interruptible(course))
    stack.enter_context(waits(course))
    stack.enter_context(module_names_hold())
    stack.enter_context(scope_is_carried())  # the run may begin in a thread, too
    stack.enter_context(course.turns.watched())
    stack.enter_context(Workers(course))
    outcome: list[Any] = []
    try:
        with _compared(course):
            yield outcome
        with _compared(course):
            course.through()
    finally:
        course.turns.leave()
        stack.close()
    raise_interruption(course)


@contextmanager
def _compared(course: Course) -> Iterator[None]:
    """What is raised in this block goes no further if it is what stopped the code, or the recorded end of the run."""
    try:
        yield
    except ReplayStopped as stopped:
        if stopped.failure is not course.stopped and not _comes_from_elsewhere(stopped, course):
            raise
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, SystemExit):
        _hear(course)  # what is raised here may follow from what has stopped a process
        begun = course.begun
        compared = begun is not None and begun.log.ended and not begun.log.live and begun.log.failure is None
        if course.stopped is None and not compared:
            raise


def _comes_from_elsewhere(stopped: ReplayStopped, course: Course) -> bool:
    """Whether it has stopped a process of the code, which a pool has handed on."""
    if isinstance(stopped, ProcessStopped):
        _hear(course)
    return isinstance(stopped, ProcessStopped) and course.stopped is not None


def _hear(course: Course) -> None:
    if course.workers is not None:
        course.workers.hear()


def execute(agent: App) -> Any:
    """Run the code to its end, in an event loop if it wants to be awaited."""
    if isinstance(agent, Agent):
        if inspect.iscoroutinefunction(agent.step):
            return asyncio.run(_awaited(agent.arun()))
        return agent.run()
    made = call_or_begin(agent)
    value = asyncio.run(_awaited(made)) if is_awaitable(made) else made
    while (more := goes_on(waiting.get())) is not None:
        value = asyncio.run(_awaited(more))
    return value


def execute_apart(agent: App, course: Course) -> Any:
    """`execute`, such that code that never comes to its end can be left behind once it was stopped.

    In the main thread it is woken (`watch`). No other thread can be, so there the code gets one of its own.
    """
    if threading.current_thread() is threading.main_thread():
        return execute(agent)

    def begin() -> Any:
        course.turns.starter = threading.get_ident()
        return execute(agent)

    executed = in_thread(partial(copy_context().run, begin), "agentreplay-replay")
    while concurrent.futures.wait([executed], STUCK).not_done:
        if course.stopped is not None:
            abandoned([run.recorder for run in course.runs if run.recorder is not None])
            raise ReplayStopped(course.stopped)
    return executed.result()


async def aexecute(agent: App, course: Course) -> Any:
    """Run the code to its end in the running event loop, in a task of its own, which can be stopped by itself."""

    async def run() -> Any:
        if isinstance(agent, Agent):
            return await agent.arun()
        made = call_or_begin(agent)
        value = await made if is_awaitable(made) else made
        while (more := goes_on(course)) is not None:
            value = await more
        return value

    task = course.turns.main = asyncio.ensure_future(run())
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(_: object = None) -> None:
        if not ended.done():
            ended.set_result(None)

    course.turns.give_up = end
    task.add_done_callback(end)
    try:
        await ended
    except BaseException as error:
        ends(course, error)
        task.cancel()
        if isinstance(error, asyncio.CancelledError):
            return await task
        raise
    if not task.done() and course.stopped is not None:
        abandoned([run.recorder for run in course.runs if run.recorder is not None])
        raise ReplayStopped(course.stopped)
    return await task


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), ReplayStopped | Divergence):  # stopped tasks end with these
            (before or type(loop).default_exception_handler)(loop, context)

    loop.set_exception_handler(handle)
    return await awaitable


def result_of(course: Course, outcome: list[Any]) -> ReplayResult:
    """What the execution came to; raises what stopped it, unless that is the end of the recording."""
    stopped, begun = course.stopped, course.begun
    gathered = isinstance(stopped, Divergence) and course.collects
    if stopped is not None and not gathered and not isinstance(stopped, RecordingEnds):
        course.raise_stopped()
    if begun is None:
        raise UsageError(
            f"the code came to its end without a run of {course.info.agent!r}: nothing was compared. Give an agent, or "
            "a callable that opens `ar.record`."
        )
    coverage = course.counted()
    if stopped is not None and isinstance(stopped, RecordingEnds):
        coverage.note(f"the recording of {course.info.id} ends in round {begun.log.round}, before the run did")
    if coverage.visits and not coverage.recorded and not course.differences:
        coverage.note(_ONLY_THE_WAY)
    return ReplayResult(
        course.info.id,
        "diverged" if course.differences else "identical",
        tuple(course.differences),
        coverage,
        next((one for one in outcome if isinstance(one, AgentResult)), None),
        complete=stopped is None,
    )
