"""What a run's record says of the code and the machine it ran on."""

from __future__ import annotations

import functools
import os
import platform
import socket
import subprocess
import sys
import time
from typing import Any


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


def python_versions() -> dict[str, Any]:
    """The Python that runs, and the versions of the imported packages that tell one."""
    packages = {}
    for name, module in sorted(sys.modules.items()):
        if "." in name or name in sys.stdlib_module_names:
            continue
        version = getattr(module, "__dict__", {}).get("__version__")
        if isinstance(version, str):
            packages[name] = version
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "packages": packages,
    }


def process_identity() -> dict[str, Any]:
    """What tells this process from every other: host, boot, pid and the time it started."""
    return {"host": socket.gethostname(), "boot": _boot_id(), "pid": os.getpid(), "start": process_start(os.getpid())}


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
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return _imported_at if pid == os.getpid() and not os.path.exists("/proc/self/stat") else None
