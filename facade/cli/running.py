"""Running an agent on behalf of `run`: whatever the reference named, and whatever becomes of it."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..recorder.environment import process_identity
from ..recorder.errors import AgentReplayError, RecordingFailed, UsageError
from ..recorder.locate import VARIABLE, open_store
from ..recorder.loop import Agent
from ..recorder.named_code import code_is_named
from ..recorder.store import EventStore, RunInfo
from .loading import is_step, module_of, place_named, refuse_unless_callable, target_in
from .streams import complain, harmless, say, streams_of_the_agent


@dataclass(frozen=True, slots=True)
class Given:
    """What the agent is given; None where the user gave nothing."""

    payload: Any = None
    input: Any = None
    params: Mapping[str, Any] | None = None
    max_rounds: int | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it.

    Attributes:
        store: where it was recorded.
        runs: the runs that were recorded, without child runs; the last is the one that was asked for.
        error: what the agent raised, or None.
    """

    store: EventStore
    runs: list[RunInfo]
    error: BaseException | None

    @property
    def failed(self) -> bool:
        """Whether the agent failed."""
        return self.error is not None or any(info.status in ("failed", "cancelled") for info in self.runs)


def run_reference(reference: str, given: Given, url: str | None, *, keep_stdout: bool) -> Ran:
    """Load what a reference names, run it and record it.

    Args:
        reference: see `module_of`.
        given: what the agent is given.
        url: the store.
        keep_stdout: what the agent prints goes to stderr.

    Raises:
        UsageError: the reference names nothing that can be run, or it cannot be given what was given.
        StoreError, RecordingFailed: the run cannot be recorded.
    """
    store = open_store(url)
    if store.url == "memory:":
        raise UsageError("a store in memory is gone when this command ends; name a file")
    before = max((info.number for info in store.runs()), default=0)
    error: BaseException | None = None
    with store_of_the_agent(store.url), streams_of_the_agent(keep_stdout=keep_stdout):
        try:
            module = module_of(reference)
            run = _prepare(target_in(module, reference), given, store)
            with code_is_named(place_named(module, reference)):
                run()
        except RecordingFailed:
            raise
        except KeyboardInterrupt:
            _say_what_was_recorded(store, before)
            raise
        except SystemExit as raised:
            error = raised if raised.code not in (None, 0) else None
        except Exception as raised:
            # Before there is a run, only what the agent's own module raised is its error.
            ours = isinstance(raised, AgentReplayError) and not passes_through_user_code(raised)
            if ours and not _runs_of_this_process(store, before):
                raise
            error = raised
    return Ran(store, _runs_of_this_process(store, before), error)


def _prepare(target: Any, given: Given, store: EventStore) -> Callable[[], Any]:
    """What is to be called to run a target.

    Raises:
        UsageError: it cannot be run, or not with what was given.
    """
    if not isinstance(target, Agent) and is_step(target):
        target = Agent(target, getattr(target, "__name__", type(target).__name__))
    if not isinstance(target, Agent):
        return _prepared_call(target, given)
    run = functools.partial(target.run, max_rounds=given.max_rounds, store=store)
    return functools.partial(run, given.payload, given.input, given.params)


def _prepared_call(target: Any, given: Given) -> Callable[[], Any]:
    """The call of a function that records its run itself, with those of payload, input and params that were given."""
    refuse_unless_callable(target)
    if given.max_rounds is not None:
        raise UsageError("--max-rounds is for agents and step functions; this function has a loop of its own")
    offered = {"payload": given.payload, "input": given.input, "params": given.params}
    arguments = {name: value for name, value in offered.items() if value is not None}
    try:
        inspect.signature(target).bind(**arguments)
    except TypeError as error:
        raise UsageError(
            f"{getattr(target, '__name__', 'it')} cannot be called with {', '.join(arguments) or 'no arguments'}: "
            f"{error}. An agent takes a payload; a function of your own takes payload, input and params by these names"
        ) from None

    def call() -> None:
        result = target(**arguments)
        if inspect.isawaitable(result):
            asyncio.run(_awaited(result))

    return call


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


@contextmanager
def store_of_the_agent(url: str) -> Iterator[None]:
    """What the agent records by itself goes to the same store."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = url
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _runs_of_this_process(store: EventStore, before: int) -> list[RunInfo]:
    """The runs after number `before` that this process recorded, child runs aside."""
    me = process_identity()
    found = []
    for info in store.runs():
        if info.number > before and info.parent is None:
            first = next(iter(store.events(info, until=0)), None)
            if first is not None and getattr(first.data, "process", None) == me:
                found.append(info)
    return found


def _say_what_was_recorded(store: EventStore, before: int) -> None:
    for info in _runs_of_this_process(store, before):
        say(f"stopped; recorded as {info.id} ({info.status})")


# -- what the agent raised -----------------------------------------------------------------------------------------


def print_error(error: BaseException) -> None:
    """Print an exception of the agent to stderr as Python would, but without our own frames."""
    if isinstance(error, AgentReplayError) and not passes_through_user_code(error):
        complain(str(error))
        return
    summary = traceback.TracebackException.from_exception(error)
    _strip(summary, set())
    for line in "".join(summary.format()).rstrip("\n").split("\n"):
        say(harmless(line))


def _strip(summary: traceback.TracebackException, seen: set[int]) -> None:
    if id(summary) in seen:
        return
    seen.add(id(summary))
    summary.stack = traceback.StackSummary.from_list([frame for frame in summary.stack if not is_ours(frame.filename)])
    for other in (summary.__cause__, summary.__context__, *(summary.exceptions or ())):
        if other is not None:
            _strip(other, seen)


def is_ours(filename: str) -> bool:
    """Whether a file of a traceback is part of agentreplay, or of what imports and runs code, and no user's."""
    if filename.startswith("<frozen "):
        return True
    path = Path(filename)
    if path.is_relative_to(_folder("examples")):
        return False
    return any(path.is_relative_to(folder) for folder in _our_folders())


def _our_folders() -> list[Path]:
    own = [_folder(name) for name in ("", "recorder", "replay")]
    return [*own, Path(asyncio.__file__).parent]


def _folder(name: str) -> Path:
    package = __package__.rpartition(".")[0]
    module = sys.modules.get(f"{package}.{name}" if name else package)
    return Path(module.__file__ or "").parent if module is not None else Path(os.devnull)


def passes_through_user_code(error: BaseException) -> bool:
    """Whether an exception came out of code of the user's."""
    return any(not is_ours(frame.filename) for frame in traceback.extract_tb(error.__traceback__))
