"""Whose code asks: the application's own, a library's, or ours.

Code that is captured is the application's; what a library reads for itself is its own affair. A frame belongs to whom
its file does. What lies in the folders of the standard library and of installed packages is a library's, and
everything else is the application's, cells of a notebook included. Code that has no file because it was generated, such
as the `__init__` of a dataclass, belongs to the module in whose names it runs.

Some library code only passes on what somebody else asks for: `secrets` asks `random` for bytes, and that the system.
And pydantic makes the defaults of a model that the application has declared. So one looks through such frames, to the
one behind them.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any, Final, Literal, TypeAlias

import pydantic

from .introspection import isinstance_of
from .reads import OWN_FOLDERS, place

Whose: TypeAlias = Literal["application", "library", "ours", "passes on"]

_PACKAGES: Final = ("site-packages", "dist-packages")
"""Folders of installed packages, wherever they are."""


def _folder(path: str) -> str:
    return os.path.join(os.path.normcase(os.path.abspath(path)), "")


_LIBRARIES: Final = tuple(
    {
        _folder(path)
        for path in (
            *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
            *site.getsitepackages(),
            site.getusersitepackages(),
            os.path.dirname(os.__file__),
        )
        if path
    }
)
_OURS: Final = tuple(os.path.normcase(folder) for folder in OWN_FOLDERS)
_PASSING_ON: Final = (_folder(os.path.dirname(pydantic.__file__)),)

_names_of: Final[Callable[[ModuleType], dict[str, Any]]] = vars(ModuleType)["__dict__"].__get__

_known: dict[str, Whose] = {}


def whose_file(path: str) -> Whose:
    """Whose code a file holds."""
    found = _known.get(path)
    if found is None:
        found = _known[path] = _look_up(path)
    return found


def _look_up(path: str) -> Whose:
    if path.startswith("<frozen "):
        return "library"
    whole = os.path.normcase(os.path.abspath(path))
    if whole.startswith(_OURS):
        return "ours"
    if whole.startswith(_PASSING_ON):
        return "passes on"
    if whole.startswith(_LIBRARIES) or any(name in _PACKAGES for name in whole.split(os.sep)):
        return "library"
    return "application"


def whose_names(names: dict[str, Any]) -> Whose:
    """Whose a module is, from its names: that of its file, or the application's if it has none and was not imported."""
    file = names.get("__file__")
    if type(file) is str:
        return whose_file(file)
    return "application" if names.get("__spec__") is None else "library"


def home_of(path: str | None) -> str | None:
    """The folder of the installed package, or its one file, that a file belongs to; None if it is not installed.

    An agent that is installed is an application all the same.
    """
    if path is None or path.startswith("<") or whose_file(path) != "library":
        return None
    parts = os.path.abspath(path).split(os.sep)
    at = max((index for index, part in enumerate(parts) if os.path.normcase(part) in _PACKAGES), default=None)
    if at is None:
        return None
    return os.sep.join(parts[: at + 2]) + (os.sep if at + 2 < len(parts) else "")


def seen_from(
    frame: FrameType | None, through: frozenset[str] = frozenset(), home: str | None = None
) -> tuple[Whose, FrameType | None, FrameType | None]:
    """Who asks: the first frame, from this one outwards, that does not only pass on what another asks for.

    Args:
        frame: the one that asks.
        through: files whose code only passes on what it asks for here, besides those that always do.
        home: what `home_of` says of the agent's own file.

    Returns:
        Whose that frame is; the frame; and the outermost one of `through` before it, or None.
    """
    last = None
    while frame is not None:
        path = frame.f_code.co_filename
        if path in through:
            last = frame
        else:
            whose = _known.get(path) or (
                whose_file(path) if path[:1] != "<" or path.startswith("<frozen ") else whose_names(frame.f_globals)
            )
            if home is not None and whose == "library" and os.path.abspath(path).startswith(home):
                return "application", frame, last
            if whose != "passes on":
                return whose, frame, last
        frame = frame.f_back
    return "library", None, last


def site_of(frame: FrameType) -> str:
    """The line that asks, as "file.py:line"; of code that was generated, the line that calls it, if it is in a file."""
    outer: FrameType | None = frame
    while outer is not None and outer.f_code.co_filename.startswith("<"):
        outer = outer.f_back
    shown = frame if outer is None or whose_file(outer.f_code.co_filename) != "application" else outer
    return place(shown.f_code.co_filename, shown.f_lineno)


def module_of(frame: FrameType | None) -> str:
    """The name of the top-level module whose code runs in a frame."""
    name = None if frame is None else frame.f_globals.get("__name__")
    return name.partition(".")[0] if type(name) is str else "?"


def names_of_modules() -> list[tuple[str, dict[str, Any]]]:
    """The imported modules: how they were imported, and the names that they have."""
    # Some import more when they are asked for anything: only their own dict is looked at.
    return [(name, _names_of(one)) for name, one in list(sys.modules.items()) if isinstance_of(one, ModuleType)]


def application_modules(home: str | None) -> list[dict[str, Any]]:
    """The names of each module that is the application's; `home` as in `seen_from`."""
    found = []
    for _, names in names_of_modules():
        file = names.get("__file__")
        own = home is not None and type(file) is str and os.path.abspath(file).startswith(home)
        if own or whose_names(names) == "application":
            found.append(names)
    return found
