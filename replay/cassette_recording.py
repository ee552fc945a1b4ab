"""Recording a run straight into a cassette, for tests: `pytest --agentreplay-record=once`, `--agentreplay-update`.

The code runs live, in a store of its own that is gone afterwards; the one run that it made takes the place of the
file, as a whole or not at all. Where nothing says how the run begins, it begins as the one did that stands in the file
already; and what was a secret by the rules of that one is a secret in the new one, too.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import tempfile
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias, get_args

from ..recorder import run_log
from ..recorder.errors import UsageError
from ..recorder.exporting import export_run
from ..recorder.flow_logger import Logger, recorded_logger
from ..recorder.introspection import is_awaitable
from ..recorder.locate import VARIABLE, open_store
from ..recorder.loop import Agent
from ..recorder.redaction import find_tokens
from ..recorder.redaction_rules import RedactionRules
from ..recorder.replacing import replacing
from ..recorder.store import EventStore, RunInfo
from .cassette_file import OpenedCassette, first_event, redaction_rules_of
from .exactly import exactly
from .replayer import App

Mode: TypeAlias = Literal["none", "once", "new", "all"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
"""What is recorded: nothing; cassettes that are missing; those, and what recordings lack that end before their run did;
all, anew."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A cassette that was written.

    Attributes:
        path: the file, as it was named.
        what: "recorded", "re-recorded" or "went on".
        why: in some words.
        status: of the run that it holds now.
        rounds: of it.
    """

    path: str
    what: str
    why: str
    status: str
    rounds: int


@dataclass(slots=True)
class Keeping:
    """How the cassettes of this process's tests are kept, and what has become of them.

    Attributes:
        mode: what is recorded.
        update: whether cassettes are recorded anew that code parts from.
        rules: redaction rules of runs that are recorded where no recording has any.
        used: the real paths of the cassettes that were used.
        kept: those that were written.
    """

    mode: Mode = "none"
    update: bool = False
    rules: RedactionRules | None = None
    used: dict[str, None] = field(default_factory=dict)
    kept: list[Kept] = field(default_factory=list)

    def put(self, other: Keeping) -> Keeping:
        """Become as another one is; returns what this was."""
        before = replace(self)
        for name in ("mode", "update", "rules", "used", "kept"):
            setattr(self, name, getattr(other, name))
        return before


KEEPING: Final = Keeping()
"""Of this process. Without pytest, nothing is ever recorded."""


@dataclass(frozen=True, slots=True)
class Start:
    """What an agent that is executed by itself begins with."""

    payload: Any = None
    input: Any = None
    params: Any = None
    max_rounds: int | None = None
    logger: Logger = None

    @classmethod
    def of(cls, cassette: OpenedCassette) -> Start:
        """As the recorded run began.

        Raises:
            UsageError: it cannot begin like that once more: it is a fork, or holds tokens in the place of secrets.
            UnknownType, LossyAnswer: it began with something that cannot be had as it was.
        """
        store, info = cassette.store, cassette.info
        if info.fork_of is not None:
            raise UsageError(
                f"{cassette.path} is a re-run from a step of another run, and is not recorded anew by itself: re-run "
                "that one again, `agentreplay rerun RUN --step N`, and export what comes of it"
            )
        data = first_event(store, info).data
        given = {"payload": data.payload, "input": data.input, "params": data.params}
        if tokens := find_tokens(given):
            raise UsageError(
                f"{cassette.path} begins with a secret that was replaced, at {tokens[0]}, so nothing says what to "
                f"begin with: {SAY}"
            )
        payload, input, params = [exactly(value, f"the {name} of {cassette.path}") for name, value in given.items()]
        return cls(payload, input, params, data.max_rounds, recorded_logger(data.logger))


SAY: Final = (
    "say it by payload= in the marker, give a function that runs the agent, or run the agent in the test's body, "
    "without app= and without the fixture"
)
"""What to do where nothing says how an agent begins."""


def begun(app: App, start: Start | None) -> Any:
    """Run code live, to its end; a coroutine in an event loop of its own."""
    if isinstance(app, Agent):
        given = start or Start()
        arguments = {"input": given.input, "params": given.params, "max_rounds": given.max_rounds}
        arguments["logger"] = given.logger
        if not inspect.iscoroutinefunction(app.step):
            return app.run(given.payload, **arguments)
        return asyncio.run(app.arun(given.payload, **arguments))
    made = app()
    return asyncio.run(_awaited(made)) if is_awaitable(made) else made


async def abegun(app: App, start: Start | None) -> Any:
    """`begun` in the running event loop."""
    if isinstance(app, Agent):
        given = start or Start()
        more: dict[str, Any] = {"max_rounds": given.max_rounds, "logger": given.logger}
        return await app.arun(given.payload, given.input, given.params, **more)
    made = app()
    return await made if is_awaitable(made) else made


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


class Take:
    """A run that is made live, `with Take(rules) as take:`, to be put where a cassette is.

    Whatever the code in the block records without naming a store, in this process or another, is recorded for it.

    Args:
        rules: what is a secret beyond the built-in rules.

    Attributes:
        cassette: the file that was written; it is gone when the block ends.
        info: the run in it.
    """

    info: RunInfo

    def __init__(self, rules: RedactionRules | None) -> None:
        self._rules = rules or RedactionRules()

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="agentreplay-"))
        self.cassette = self._folder / "run.jsonl"
        self._store = open_store(self._folder / "store.db", redaction=self._rules)
        self._before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = self._store.url
        self._weighs, run_log.when_appended = run_log.when_appended, None  # no snapshots where nobody will look
        return self

    def __exit__(self, *_: object) -> None:
        run_log.when_appended = run_log.when_appended or self._weighs
        if self._before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = self._before
        self._store.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def end(self, path: str) -> None:
        """Write the run that was made; `path` is where it will be put, for messages.

        Raises:
            UsageError: none was made, or several.
        """
        self.info = _only_run(self._store, path)
        export_run(self.info.uid, self.cassette, store=self._store)

    def put(self, path: str | os.PathLike[str]) -> None:
        """Have the cassette take the place of a file, as a whole or not at all; its folder is made.

        Raises:
            ExportFailed: it cannot be written; what was there is as it was.
        """
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(self.cassette.read_bytes())


def _only_run(store: EventStore, path: str) -> RunInfo:
    runs = [info for info in store.runs() if info.parent is None]
    if len(runs) == 1:
        return runs[0]
    if not runs:
        raise UsageError(
            f"nothing was recorded for {path}: the code began no run, or recorded it into a store that it names itself "
            "(store=…), which a test leaves to agentreplay"
        )
    names = ", ".join(info.agent for info in runs)
    raise UsageError(f"{path} holds one run, and the code made {len(runs)} ({names}): have a test for each")


def rules_for(cassette: OpenedCassette | None) -> RedactionRules | None:
    """The redaction rules of a run that is recorded in the place of another one, or for the first time."""
    return KEEPING.rules if cassette is None else redaction_rules_of(cassette.store, cassette.info)
