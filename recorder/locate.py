"""Which store is meant: the one that is named, or the nearest one upwards from here.

The order: an explicit URL or path, then the environment's `AGENTREPLAY_STORE`, then the nearest `.agentreplay/store.db`
in this folder or one above it, then a new one here. Looked up at each call, so that a program that changes its folder
or environment gets what it says now. Opened stores are shared within a process.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .databases import SQLITE, file_identity, path_of
from .errors import StoreError, UsageError
from .memory_store import MemoryStore
from .store import EventStore

if TYPE_CHECKING:
    from .redaction import RedactionRules

FOLDER: Final = ".agentreplay"
FILE: Final = "store.db"
VARIABLE: Final = "AGENTREPLAY_STORE"
MEMORY: Final = "memory:"

_opened: dict[str, tuple[EventStore, tuple[int, int] | None]] = {}
"""The open stores by URL, each with what tells its file from another one that is put in its place."""

_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)  # the thread that held it is not there


def find_store(url: str | os.PathLike[str] | None = None) -> str:
    """The URL of the store that is meant; see the module's first lines. Creates nothing.

    Raises:
        StoreError: the working folder is gone.
    """
    named = os.fspath(url) if url is not None else os.environ.get(VARIABLE)
    try:
        here = Path.cwd()
    except OSError as error:
        raise StoreError(f"cannot look for a store: the working folder is gone ({error.strerror})") from error
    if named:
        return _as_url(named, here)
    for folder in (here, *here.parents):
        # Where a folder may not be looked into, there is no store for us.
        if os.path.isfile(folder / FOLDER / FILE):
            return _sqlite(folder / FOLDER / FILE)
    return _sqlite(here / FOLDER / FILE)


def _as_url(named: str, here: Path) -> str:
    path = path_of(named)
    if path is None:
        if named == MEMORY or "://" in named:
            return named
        path = Path(named).expanduser()
    path = here / path
    return _sqlite(path / FILE if path.is_dir() else path)


def _sqlite(path: Path) -> str:
    return SQLITE + str(path).replace("%", "%25").replace("?", "%3F")


def resolve_store(store: EventStore | str | os.PathLike[str] | None) -> EventStore:
    """The store that a `store=` argument means."""
    return store if isinstance(store, EventStore) else open_store(store)


def open_store(
    url: str | os.PathLike[str] | None = None, *, create: bool = True, redaction: RedactionRules | None = None
) -> EventStore:
    """Open a store, or take the one that this process has open already.

    Args:
        url: a URL ("sqlite:///…", "postgresql://…"), a file, a folder that holds `store.db`, or "memory:" (a new store
            in memory). By default `AGENTREPLAY_STORE`, else the nearest `.agentreplay/store.db` upwards from here, else
            one created here.
        create: make the store if it is not there; a reader says False.
        redaction: what is a secret beyond the built-in rules, in all that this process writes to the store; each run
            says in its `run.started` by which rules it was recorded. By default the built-in rules, or those that the
            store was opened with in this process.

    Raises:
        StoreError: it cannot be opened, or is not there and may not be created.
        UsageError: this process has it open with other rules.
    """
    found = find_store(url)
    if found == MEMORY:
        return MemoryStore(redaction)
    path = path_of(found)
    with _lock:
        store, file = _opened.get(found, (None, None))
        if store is not None and not getattr(store, "closed", False) and file == file_identity(path):
            if redaction is not None and redaction != store.rules:
                raise UsageError(
                    f"the store {store.name} is open in this process with other redaction rules; "
                    "open it with yours before anything else does, or close it first"
                )
            return store
        if path is not None:
            _prepare_folder(path, create)
        from .sql_store import SqlStore  # SQLAlchemy takes a while to import; a store in memory does without

        store = SqlStore(found, redaction, create=create)
        _opened[found] = store, file_identity(path)
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
