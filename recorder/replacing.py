"""Replaces a file as a whole: who looks sees the old one or the new one, whatever happens in between."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from .errors import ExportFailed


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a file that takes the place of `path` when the block ends, and never if it fails.

    It is written beside the other, synced to the disk, and renamed. It has the permissions of the one that it replaces;
    a symbolic link goes on pointing to it.

    Raises:
        ExportFailed: it cannot be written; `path` is as it was.
    """
    named = os.fspath(path)
    try:
        target = Path(os.path.realpath(named))
        mode = _mode(named, target)
        new = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.tmp")
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except (OSError, ValueError) as error:
        raise _failed(named, error) from error
    try:
        with open(handle, "wb") as file:
            if mode is not None:
                os.chmod(new, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, target)
        _sync_folder(target.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(new)
        if isinstance(error, OSError):
            raise _failed(named, error) from error
        raise


def _mode(named: str, target: Path) -> int | None:
    """The permissions of the file that is to be replaced, if there is one."""
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        what = "it is a folder" if stat.S_ISDIR(status.st_mode) else "it is a device, which cannot be replaced"
        raise ExportFailed(f"cannot write {named}: {what}; expected a file. Name one.", path=named)
    return stat.S_IMODE(status.st_mode)


def _sync_folder(folder: Path) -> None:
    """Make a renaming last; not every system lets a folder be opened for that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _failed(named: str, error: Exception) -> ExportFailed:
    reason = getattr(error, "strerror", None) or str(error)
    return ExportFailed(
        f"cannot write {named}: {reason}; expected a folder with room for a file. Nothing was changed.", path=named
    )
