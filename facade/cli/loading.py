"""Loading the code that a verb is to run: "agent.py:step", or "package.module:step"."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ..recorder.errors import UsageError
from ..recorder.loop import Agent
from ..recorder.named_code import place_in
from ..recorder.signals import STOPS

STEP_ARGUMENTS: Final = 2


class EndsWhenImported(UsageError):
    """A module ends the process while it is imported, as a script does that calls `sys.exit()` at its top level.

    Args:
        place: its file or name.
        raised: how.
    """

    def __init__(self, place: str, raised: BaseException) -> None:
        what = f"raised {type(raised).__name__}{f' ({raised})' if str(raised) else ''}"
        if isinstance(raised, SystemExit):
            code = 0 if raised.code is None else raised.code
            what = f"exited with {code!r} (sys.exit)"
        super().__init__(
            f"{place} {what} while it was imported, before anything of it could be called. Put what it does as a "
            'program below `if __name__ == "__main__":`, which importing it leaves out'
        )


def module_of(reference: str, folder: str = "", *, as_main: bool = False) -> ModuleType:
    """The module of a reference, which is run, as importing it would.

    Args:
        reference: "path/agent.py:name" or "module:name"; name may have dots. Without one, the file's only agent.
        folder: where it is looked for; by default the working folder.
        as_main: a file is loaded as `python FILE` loads it, so that its classes have the names that they have there;
            but what stands below `if __name__ == "__main__"` is left out.

    Raises:
        EndsWhenImported: it ends itself.
        UsageError: there is no such file or module.
        Exception: what the module itself raises.
    """
    place, _ = split(reference)
    if not place:
        raise UsageError(f"expected FILE.py:NAME or MODULE:NAME, not {reference!r}")
    try:
        if not is_file(place):
            return _module(place, folder)
        return _main(Path(folder, place)) if as_main else _file(Path(folder, place))
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as raised:
        if isinstance(raised, STOPS):
            raise
        raise EndsWhenImported(place, raised) from None


def target_in(module: ModuleType, reference: str) -> Any:
    """The object that a reference names in its module.

    Raises:
        UsageError: there is no such name; or there is none in the reference, and not just one agent in the module.
    """
    _, name = split(reference)
    return _named(module, name, reference) if name else _only_agent(module, reference)


def place_named(module: ModuleType, reference: str) -> dict[str, str] | None:
    """Where on this machine the object is that a reference names in its module; None if that is in no file."""
    _, name = split(reference)
    return place_in(module, name or next(iter(agents_in(module))))


def split(reference: str) -> tuple[str, str]:
    """The file or module of a reference, and the name in it; empty if there is none."""
    place, colon, name = reference.rpartition(":")
    return (place, name) if colon and os.sep not in name and not name.endswith(".py") else (reference, "")


def is_file(place: str) -> bool:
    """Whether a place is a file, and no module."""
    return place.endswith(".py") or os.sep in place


def _found(path: Path) -> Path:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    path = path.absolute()
    _search_first(str(path.parent))
    return path


def _main(path: Path) -> ModuleType:
    path = _found(path)
    tree = ast.parse(path.read_bytes(), str(path))
    tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and _asks_for_main(node.test))]
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = str(path)
    exec(compile(tree, str(path), "exec", dont_inherit=True), vars(module))
    return module


def _asks_for_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and {ast.unparse(side) for side in (test.left, *test.comparators)} == {
        "__name__",
        "'__main__'",
    }


def _file(path: Path) -> ModuleType:
    path = _found(path)
    # A module of that name may be there already, one of ours or of the standard library: the file gets another name.
    known = getattr(sys.modules.get(path.stem), "__file__", None)
    taken = (path.stem in sys.modules and known != str(path)) or not path.stem.isidentifier()
    spec = importlib.util.spec_from_file_location(f"agent_in_{path.stem}" if taken else path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _module(name: str, folder: str) -> ModuleType:
    _search_first(folder or os.getcwd())
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
    agents = agents_in(module)
    if len(agents) != 1:
        raise UsageError(f"{reference}: say which agent, as {reference}:step. {_offer(module)}")
    return next(iter(agents.values()))


def agents_in(module: ModuleType) -> dict[str, Agent]:
    """The agents that a module holds, by name."""
    return {name: value for name, value in vars(module).items() if isinstance(value, Agent) and value.has_a_step}


def _offer(module: ModuleType) -> str:
    names = ", ".join(agents_in(module))
    return f"Its agents are: {names}" if names else "It holds no agent; @agentreplay.agent makes one of a step function"


def is_step(target: Any) -> bool:
    """Whether something is a step function: a callable of (round_index, context)."""
    if isinstance(target, type) or not callable(target):
        return False
    arguments = required_arguments(target)
    return arguments is not None and len(arguments) == STEP_ARGUMENTS


def refuse_unless_callable(target: Any) -> None:
    """Refuse what cannot be run.

    Raises:
        UsageError: it is a class, or cannot be called.
    """
    if not callable(target) or isinstance(target, type):
        raise UsageError(
            f"{type(target).__name__} is neither an agent, nor a step function of (round_index, context), nor a "
            "function that opens agentreplay.record"
        )


def required_arguments(fn: Callable[..., Any]) -> list[str] | None:
    """The names of the positional arguments that a callable must be given; None if that cannot be told."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in parameters if one.kind in positional and one.default is one.empty]
