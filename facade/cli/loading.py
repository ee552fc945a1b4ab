"""Loading the code that `run` is to run: "agent.py:step", or "package.module:step"."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ..recorder.errors import UsageError
from ..recorder.loop import Agent


def load(reference: str) -> Any:
    """The object that a reference names; its module is run, as importing it would.

    Args:
        reference: "path/agent.py:name" or "module:name"; name may have dots. Without one, the file's only agent.

    Raises:
        UsageError: there is no such file, module or name.
        Exception: what the module itself raises.
    """
    place, colon, name = reference.rpartition(":")
    if not colon or os.sep in name or name.endswith(".py"):
        place, name = reference, ""
    module = _file(Path(place)) if place.endswith(".py") or os.sep in place else _module(place)
    return _named(module, name, reference) if name else _only_agent(module, reference)


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    path = path.absolute()
    _search_first(str(path.parent))
    # A module of that name may be there already, one of ours or of the standard library: the file gets another name.
    taken = path.stem in sys.modules or not path.stem.isidentifier()
    spec = importlib.util.spec_from_file_location(f"agent_in_{path.stem}" if taken else path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _module(name: str) -> ModuleType:
    _search_first(os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # What the module itself fails to import is its own error.
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise UsageError(f"there is no module {name!r}; a file is named as agent.py:step") from None
        raise


def _search_first(folder: str) -> None:
    if folder not in sys.path[:1]:
        sys.path.insert(0, folder)


def _named(module: ModuleType, name: str, reference: str) -> Any:
    target: Any = module
    for part in name.split("."):
        if not hasattr(target, part):
            raise UsageError(f"{reference}: there is no {part!r} in it. {_offer(module)}")
        target = getattr(target, part)
    return target


def _only_agent(module: ModuleType, reference: str) -> Any:
    agents = _agents(module)
    if len(agents) != 1:
        raise UsageError(f"{reference}: say which agent, as {reference}:step. {_offer(module)}")
    return next(iter(agents.values()))


def _agents(module: ModuleType) -> dict[str, Agent]:
    return {name: value for name, value in vars(module).items() if isinstance(value, Agent)}


def _offer(module: ModuleType) -> str:
    names = ", ".join(_agents(module))
    return f"Its agents are: {names}" if names else "It holds no agent; @agentreplay.agent makes one of a step function"


def required_arguments(fn: Callable[..., Any]) -> list[str] | None:
    """The names of the positional arguments that a callable must be given; None if that cannot be told."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in parameters if one.kind in positional and one.default is one.empty]
