"""What a run's record says of the code and the machine it ran on."""

from __future__ import annotations

import functools
import inspect
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, ModuleType
from typing import Any, Final

from .introspection import isinstance_of


@functools.lru_cache(maxsize=8)
def code_version(folder: str) -> dict[str, Any]:
    """The git commit of `folder` and whether tracked files differ from it; empty outside of a checkout."""
    try:
        done = subprocess.run(
            ["git", "-C", folder, "status", "--porcelain=v2", "--branch", "--untracked-files=no"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=2,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    if done.returncode != 0:
        return {}
    lines = done.stdout.splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), None)
    return {"commit": commit, "dirty": any(not line.startswith("#") for line in lines)}


def code_of(fn: Any) -> CodeType | None:
    """The code that a callable runs, decorators and `functools.partial` set aside; None where there is none to see."""
    code = _of_function(fn, "__code__")
    return code if isinstance(code, CodeType) else None


def globals_of(fn: Any) -> dict[str, Any] | None:
    """The names of the module whose code a callable runs; None where there is none to see."""
    names = _of_function(fn, "__globals__")
    return names if type(names) is dict else None


def _of_function(fn: Any, attribute: str) -> Any:
    target = inspect.unwrap(fn)
    while isinstance(target, functools.partial):
        target = inspect.unwrap(target.func)
    return getattr(target, attribute, None) or getattr(type(target).__call__, attribute, None)


def name_of(fn: Any) -> str:
    """The name of a callable."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    name = getattr(fn, "__name__", None)
    return name if isinstance(name, str) else type(fn).__name__


def code_name(code: CodeType | None) -> str | None:
    """The name of some code, "path/agent.py:name"; the path relative to the working folder where it is below it."""
    if code is None:
        return None
    with suppress(OSError):  # the working folder may be gone
        return f"{code.co_filename.removeprefix(os.getcwd() + os.sep)}:{code.co_qualname}"
    return f"{code.co_filename}:{code.co_qualname}"


def place_of(entry_point: str | None) -> dict[str, str] | None:
    """Where on this machine the code of an entry point is: {file, name, module, host}; None if it is in no file."""
    file, _, name = (entry_point or "").rpartition(":")
    with suppress(OSError):  # the working folder may be gone
        path = os.path.abspath(file)
        if file and os.path.isfile(path):
            return {"file": path, "name": name, "module": module_at(path), "host": socket.gethostname()}
    return None


_modules_at: Final[dict[str, str]] = {}


def module_at(path: str) -> str:
    """The name of the loaded module whose file this is; empty if none is."""
    known = _modules_at.get(path)
    if known is None or _file_of(sys.modules.get(known)) != path:
        known = next((name for name, module in list(sys.modules.items()) if _file_of(module) == path), "")
        _modules_at[path] = known
    return known


def _file_of(module: Any) -> str | None:
    # Some modules import more when they are asked for anything: their own dict is looked at.
    return _module_dict(module).get("__file__") if isinstance_of(module, ModuleType) else None


def folder_of(code: CodeType | None) -> str:
    """The folder of some code's file; the working folder where there is none, as in a notebook."""
    with suppress(OSError):  # the working folder may be gone
        folder = "" if code is None else os.path.dirname(os.path.abspath(code.co_filename))
        return folder if os.path.isdir(folder) else os.getcwd()
    return os.curdir


_module_dict: Final[Callable[[ModuleType], dict[str, Any]]] = vars(ModuleType)["__dict__"].__get__


def python_versions() -> dict[str, Any]:
    """The Python that runs, and the versions of the imported packages that tell one."""
    packages = {}
    for name, module in list(sys.modules.items()):
        # See `_file_of`.
        if "." not in name and name not in sys.stdlib_module_names and isinstance_of(module, ModuleType):
            version = _module_dict(module).get("__version__")
            if type(version) is str:
                packages[name] = version
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "packages": dict(sorted(packages.items())),
    }


def process_identity() -> dict[str, Any]:
    """What tells this process from every other: host, boot, process namespace, pid and the time it started."""
    return {
        "host": socket.gethostname(),
        "boot": _boot_id(),
        "namespace": _namespace(),
        "pid": os.getpid(),
        "start": process_start(os.getpid()),
    }


def _namespace() -> str | None:
    """The namespace in which pids are counted; containers on one host have their own."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


@functools.lru_cache(maxsize=1)
def _boot_id() -> str | None:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


_imported_at = int(time.time())


def process_start(pid: int) -> int | None:
    """When the process started, in the kernel's own ticks since boot; None if there is no such process.

    Without /proc, the time at which this package was imported, for the own process only.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field, the command's name, may hold spaces and brackets.
            fields = file.read().rpartition(b")")[2].split()
            return None if fields[0] in (b"Z", b"X") else int(fields[19])  # ended, though nobody has asked yet
    except (OSError, ValueError, IndexError):
        return _imported_at if pid == os.getpid() and not os.path.exists("/proc/self/stat") else None
