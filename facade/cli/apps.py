"""Which code is executed against a recording. A recording never says it: code is code, and data is data.

It is, in this order, what `--app` names; what `app` says in the `[tool.agentreplay]` of the nearest pyproject.toml
upwards; or the code that recorded the run into this very store, on this machine, which is shown before it is imported.
That last is a note of the store's own, which no file that is imported can bring along.

While code is imported nothing begins and nothing is called: a program that records at its top level is no module to
import, but a program to run, and is run only once the recording is attached.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import runpy
import socket
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn

from ..recorder.attaching import Waiting, waiting
from ..recorder.calls import Effect
from ..recorder.environment import module_at, name_of
from ..recorder.errors import UsageError
from ..recorder.loop import Agent
from ..recorder.signals import ReplayStopped
from ..recorder.store import EventStore, RunInfo
from ..recorder.values import decode
from ..replay.replayer import App
from .loading import (
    EndsWhenImported,
    agents_in,
    is_file,
    is_step,
    module_of,
    place_named,
    refuse_unless_callable,
    required_arguments,
    split,
    target_in,
)
from .streams import harmless, say

PROJECT: Final = "pyproject.toml"
MODULE: Final = "<module>"
"""The name of what stands at the top level of a file, as the code of a run."""

ROOT: Final = 0
"""The user whose files everybody may trust."""

NEAR: Final = 100
"""The runs of one process have numbers that are no further apart than that, as far as they are looked for."""

AS_RECORDED: Final = "as recorded"
HOW: Final = (
    "Name the code with --app FILE.py:NAME or --app MODULE:NAME, or once for all as "
    f'`app = "FILE.py:NAME"` in [tool.agentreplay] of {PROJECT}'
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The code that is to be executed.

    Attributes:
        reference: as for `module_of`.
        folder: where it is looked for; empty for the working folder.
        why: who says so, for people; empty where it was typed.
    """

    reference: str
    folder: str = ""
    why: str = ""

    def announce(self) -> None:
        """Say what will be executed, before it is, unless it was typed."""
        if self.why:
            say(harmless(f"executing {self.reference}, {self.why}; --app names another"))


# -- choosing -------------------------------------------------------------------------------------------------------


def choose(named: str | None, store: EventStore, info: RunInfo) -> Chosen:
    """The code to execute against a run.

    Args:
        named: what `--app` says, if it was given.
        store, info: the run.

    Raises:
        UsageError: nothing says which code, or not in a way that it can be named.
    """
    if named is not None:
        return Chosen(named)
    return of_the_project() or as_recorded(store, info)


def of_the_project() -> Chosen | None:
    """What the nearest pyproject.toml upwards from the working folder names, if it does.

    Raises:
        UsageError: it cannot be read, or belongs to somebody else.
    """
    here = Path.cwd()
    path = next((folder / PROJECT for folder in (here, *here.parents) if (folder / PROJECT).is_file()), None)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            owner, table = os.fstat(file.fileno()).st_uid, tomllib.load(file)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}. --app names the code to execute") from None
    named = table.get("tool", {}).get("agentreplay", {}).get("app")
    if named is None:
        return None
    if not isinstance(named, str):
        raise UsageError(f'{path}: app in [tool.agentreplay] is a text such as "agent.py:step", not {named!r}')
    if hasattr(os, "getuid") and owner not in (os.getuid(), ROOT):
        raise UsageError(f"{path} belongs to another user, so it chooses no code here; --app names it")
    return Chosen(named, str(path.parent), f"as {os.path.relpath(path)} says")


def as_recorded(store: EventStore, info: RunInfo) -> Chosen:
    """The code that recorded a run into this store, on this machine.

    Raises:
        UsageError: there is none, it is not here, or it cannot be named from outside.
    """
    note = store.note(info.uid)
    place = note.get("named")
    if place is None or (place != note.get("code") and _is_one_of_several(store, info)):
        place = note.get("code") or {}
    file, name, module, host = [place.get(key) for key in ("file", "name", "module", "host")]
    if not isinstance(file, str) or not isinstance(name, str) or not isinstance(module, str):
        what = "was not recorded into this store by code in a file, and what is imported never chooses code"
        raise UsageError(f"{info.id} {what}. {HOW}")
    if host != socket.gethostname():
        raise UsageError(f"{info.id} was recorded on another machine, {host}. {HOW}")
    if not os.path.isfile(file):
        raise UsageError(f"{info.id} was recorded by {file}, which is not there any more. {HOW}")
    shown = os.path.relpath(file)
    shown = file if shown.startswith(os.pardir) else shown
    if name == MODULE:
        return Chosen(shown, why=AS_RECORDED)
    root = _root_of(file, module)
    if root is not None or _is_found_as(file, module):
        shown = module
    if "<" in name:
        raise UsageError(f"{info.id} was recorded by {name} in {shown}, which only its own code can reach. {HOW}")
    return Chosen(f"{shown}:{name}", root or "", AS_RECORDED)


def _is_one_of_several(store: EventStore, info: RunInfo) -> bool:
    """Whether the process that recorded a run has recorded others, so what it was to run makes more than this one."""
    if info.fork_of is not None:  # a re-run makes one run only
        return False
    started = next(iter(store.events(info, until=0)), None)
    return started is not None and any(
        one.parent is None
        and one.uid != info.uid
        and one.fork_of is None
        and any(
            event.data.process == started.data.process
            for event in store.events(one, until=0)
            if event.kind == "run.started"
        )
        for one in store.runs()
        if abs(one.number - info.number) <= NEAR
    )


def _root_of(file: str, module: str) -> str | None:
    """The folder from which a file is imported as a module of a package; None if it does not lie like that."""
    names = tuple(module.split("."))
    parts = Path(file).with_suffix("").parts
    return str(Path(*parts[: -len(names)])) if len(names) > 1 and parts[-len(names) :] == names else None


def _is_found_as(file: str, module: str) -> bool:
    """Whether Python finds a file as a module of a package, wherever it lies; imports the package."""
    try:
        spec = importlib.util.find_spec(module) if "." in module else None
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin == file


# -- loading --------------------------------------------------------------------------------------------------------


def load_app(chosen: Chosen, store: EventStore, info: RunInfo) -> App:
    """Import the code that is to be executed against a run.

    A file without a name is its only agent; a file without agents is a program, which is run as Python would.

    Args:
        chosen: what to import.
        store, info: the run; a function that takes payload, input or params gets the recorded ones.

    Raises:
        UsageError: there is no such code, it cannot be executed, or importing it begins a run or makes a call.
        Exception: what the module itself raises.
    """
    place, name = split(chosen.reference)
    program = None
    if is_file(place) and not name:
        program = functools.partial(_run_program, os.path.abspath(os.path.join(chosen.folder, place)))
        if chosen.why == AS_RECORDED:
            return program
    try:
        module = _imported(chosen, store, info)
    except (_HappensWhenImported, EndsWhenImported):
        if program is None:
            raise
        return program
    if program is not None and not agents_in(module):
        return program
    return _as_app(target_in(module, chosen.reference), store, info)


def place_of_app(chosen: Chosen, app: App) -> dict[str, str] | None:
    """Where on this machine the code is that was chosen, and is loaded; None of a program, which has no name."""
    place, name = split(chosen.reference)
    if not name and not isinstance(app, Agent):
        return None
    file = os.path.abspath(os.path.join(chosen.folder, place))
    module = sys.modules.get(module_at(file) if is_file(place) else place)
    return None if module is None else place_named(module, chosen.reference)


def _module_as_recorded(chosen: Chosen, store: EventStore, info: RunInfo) -> ModuleType:
    """Import a module under the name that it had when the run was recorded, if it can have that.

    Classes are called after their module. A program is `__main__`, and a file of a package has the package's name.
    """
    name = next(iter(store.events(info, until=0))).data.code.get("module")
    place, _ = split(chosen.reference)
    file = os.path.abspath(os.path.join(chosen.folder, place))
    if is_file(place) and isinstance(name, str) and (root := _root_of(file, name)) is not None:
        return module_of(f"{name}:", root)
    return module_of(chosen.reference, chosen.folder, as_main=name == "__main__")


def _run_program(file: str) -> None:
    """Run a file as `python FILE` would."""
    arguments, sys.argv = sys.argv, [file]
    sys.path.insert(0, os.path.dirname(file))
    try:
        runpy.run_path(file, run_name="__main__")
    finally:
        sys.argv = arguments


class _HappensWhenImported(UsageError):
    """Importing a module does more than defining things."""


class _Nothing(Waiting):
    """Waits for no run: whatever begins, or is called, while a module is imported is stopped.

    Args:
        reference: what is imported.
    """

    def __init__(self, reference: str) -> None:
        self._reference = reference

    def begins(self, name: str) -> NoReturn:
        """Stop a run."""
        place, _ = split(self._reference)
        self._stop(f"begins a run of {name!r}. If it is a program, name the file alone: --app {place}")

    def outside(self, effect: Effect) -> NoReturn:
        """Stop an effect."""
        self._stop(
            f"calls the {effect.kind} {effect.name}, outside of any run: that was not recorded, so it cannot be "
            "answered. Call it within the run"
        )

    def _stop(self, what: str) -> NoReturn:
        raise ReplayStopped(_HappensWhenImported(f"importing {self._reference} {what}"))


def _imported(chosen: Chosen, store: EventStore, info: RunInfo) -> ModuleType:
    """Import a module while nothing may happen."""
    token = waiting.set(_Nothing(chosen.reference))
    try:
        return _module_as_recorded(chosen, store, info)
    except ReplayStopped as stopped:
        raise stopped.failure from None
    finally:
        waiting.reset(token)


def _as_app(target: Any, store: EventStore, info: RunInfo) -> App:
    """What can be executed: an agent, or a callable without arguments."""
    if isinstance(target, Agent):
        return target
    refuse_unless_callable(target)
    if is_step(target):
        return Agent(target, name_of(target))
    needed = required_arguments(target) or []
    if not needed:
        app: App = target
        return app
    data = next(iter(store.events(info, until=0))).data
    given = {"payload": data.payload, "input": data.input, "params": data.params}
    if unknown := [name for name in needed if name not in given]:
        raise UsageError(
            f"{name_of(target)} cannot be called without {', '.join(unknown)}: a function that records itself takes "
            "nothing, or payload, input and params by these names"
        )
    return functools.partial(target, **{name: decode(given[name]) for name in needed})
