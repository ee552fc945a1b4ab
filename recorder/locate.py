"""Which store is meant: the one that is named, or the nearest one upwards from here.

The order: an explicit URL or path, then the environment's `AGENTREPLAY_STORE`, then the nearest `.agentreplay/store.db`
in this folder or one above it, then a new one here. Looked up at each call, so that a program that changes its folder
or environment gets what it says now. Opened stores are shared within a process.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

from .errors import StoreError
from .memory_store import MemoryStore
from .store import EventStore

FOLDER: Final = ".agentreplay"
FILE: Final = "store.db"
VARIABLE: Final = "AGENTREPLAY_STORE"

_opened: dict[str, EventStore] = {}
_lock = threading.Lock()


def find_store(url: str | os.PathLike[str] | None = None) -> str:
    """The URL of the store that is meant; see the module's first lines. Creates nothing."""
    named = os.fspath(url) if url is not None else os.environ.get(VARIABLE) or None
    if named is not None:
        return _as_url(named)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / FOLDER / FILE).is_file():
            return _sqlite(folder / FOLDER / FILE)
    return _sqlite(here / FOLDER / FILE)


def _as_url(named: str) -> str:
    if named == "memory:" or "://" in named:
        return named
    path = Path(named).absolute()
    return _sqlite(path / FILE if path.is_dir() else path)


def _sqlite(path: Path) -> str:
    return f"sqlite:///{path}"


def open_store(url: str | os.PathLike[str] | None = None, *, create: bool = True) -> EventStore:
    """Open a store, or take the one that this process has open already.

    Args:
        url: a SQLAlchemy URL, a file, a folder that holds `store.db`, or "memory:" (a new store in memory). By default
            `AGENTREPLAY_STORE`, else the nearest `.agentreplay/store.db` upwards from here, else one created here.
        create: make the store if it is not there; a reader says False.

    Raises:
        StoreError: it cannot be opened, or is not there and may not be created.
    """
    found = find_store(url)
    if found == "memory:":
        return MemoryStore()
    with _lock:
        store = _opened.get(found)
        if store is not None and not getattr(store, "closed", False):
            return store
        if found.startswith("sqlite:///"):
            _prepare_folder(Path(found.removeprefix("sqlite:///")), create)
        from .sql_store import SqlStore  # SQLAlchemy takes a while to import; a store in memory does without

        store = _opened[found] = SqlStore(found)
        return store


def _prepare_folder(path: Path, create: bool) -> None:
    if path.is_file():
        return
    if not create:
        raise StoreError(
            f"there is no store at {path}. Record a run first (`agentreplay demo` makes one), "
            "or name a store with --store or AGENTREPLAY_STORE."
        )
    folder = path.parent
    try:
        if folder.name == FOLDER:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            ignore = folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="ascii")
        else:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot create the folder {folder} for the store: {error.strerror}") from error
