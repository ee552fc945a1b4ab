"""A session directory of the Strands SDK (`session_…`), read as one source: the bytes of each file by its path.

`FileSessionManager` writes a folder: `session.json`, for each agent `agents/agent_…/agent.json` and
`messages/message_….json`, and for each graph or swarm `multi_agents/multi_agent_…/multi_agent.json`. An import reads
one source, so the folder becomes one. Its content address is over all of its files; the same session imported twice is
the same run.

Nothing is read through symbolic links below the folder, as the SDK reads none: what they lead to is not of the session.
What cannot be read is kept with the reason, for whoever decides what that means.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..errors import ImportFailed
from ..event_codec import EPOCH
from ..hashes import content_address
from .source import SourceFile, clean_text, failure, time_of

FILES: Final = "strandsSession"
"""The key under which the source's data has the files: path in the folder → text."""

LARGEST: Final = 1 << 28
"""Bytes of a session that are read at most."""

NAMED: Final = 5
"""How many names a message lists one by one."""


@dataclass(slots=True)
class SessionFolder(SourceFile):
    """A session directory, read whole.

    Attributes:
        files: the bytes of each JSON file, by its path in the folder (with `/`), in order.
        unread: what could not be read, by its path, with the reason.
        aside: paths of files that are no JSON.
        folders: paths of its folders.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    unread: dict[str, ImportFailed] = field(default_factory=dict)
    aside: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)

    def shown(self, path: str) -> str:
        """A path in the folder as a user would name it."""
        return clean_text(os.path.join(self.path, *path.split("/")))


def is_session(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder looks like a session directory."""
    path = Path(folder)
    try:
        return path.is_dir() and (
            (path / "session.json").is_file()
            or any((path / "agents").glob("agent_*"))
            or any((path / "multi_agents").glob("multi_agent_*"))
        )
    except OSError:
        return False


def read_session(folder: str | os.PathLike[str]) -> SessionFolder:
    """Read a session directory.

    Raises:
        ImportFailed: it is no session directory, or too large; the message says what to name in its place.
    """
    path, name = Path(folder), os.fspath(folder)
    if not is_session(path):
        raise _no_session(path)
    read = SessionFolder(name, clean_text(path.resolve().name), b"", "", EPOCH)
    size, modified = 0, 0.0
    for inside in _walk(path, read):
        try:
            status = os.lstat(path / inside)
            if not stat.S_ISREG(status.st_mode):
                what = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "no regular file"
                read.unread[inside] = _odd(read, inside, what)
                continue
            size += status.st_size
            if size > LARGEST:
                raise failure(name, f"it has more than {LARGEST >> 20} MB", "a session", "Import a part of it.")
            read.files[inside] = (path / inside).read_bytes()
            modified = max(modified, status.st_mtime)
        except OSError as error:
            read.unread[inside] = _unreadable(read, inside, "file", error)
    texts: dict[str, Any] = {inside: data.decode("utf-8", "surrogateescape") for inside, data in read.files.items()}
    document: dict[str, Any] = {FILES: texts}
    if read.unread:  # what is not there makes it another session than the whole one
        document["unread"] = sorted(read.unread)
    read.data = json.dumps(document, sort_keys=True).encode()
    read.address = content_address(read.data)
    read.modified = time_of(modified) or EPOCH
    return read


def _walk(path: Path, read: SessionFolder) -> list[str]:
    """The JSON files of a folder, in order; what else there is goes to where the source has it."""
    files: list[str] = []

    def closed(error: OSError) -> None:
        inside = Path(error.filename or path).relative_to(path).as_posix()
        read.unread[inside] = _unreadable(read, inside, "folder", error)

    for where, folders, names in os.walk(path, onerror=closed):
        for name in folders:
            inside = (Path(where) / name).relative_to(path).as_posix()
            if os.path.islink(os.path.join(where, name)):
                read.unread[inside] = _odd(read, inside, "a symbolic link")
            elif name.endswith(".json"):
                read.unread[inside] = _odd(read, inside, "a folder")
            else:
                read.folders.append(inside)
        for name in names:
            inside = (Path(where) / name).relative_to(path).as_posix()
            (files if name.endswith(".json") else read.aside).append(inside)
    read.folders.sort()
    read.aside.sort()
    return sorted(files, key=lambda inside: inside.split("/"))


def _odd(read: SessionFolder, inside: str, what: str) -> ImportFailed:
    advice = "Put what belongs there in its place."
    return failure(read.shown(inside), f"it is {what}", "a file or folder that the SDK wrote", advice)


def _unreadable(read: SessionFolder, inside: str, what: str, error: OSError) -> ImportFailed:
    found = f"it cannot be read ({error.strerror or error})"
    return failure(read.shown(inside), found, f"a readable {what}", "Check its permissions.")


def _no_session(path: Path) -> ImportFailed:
    """What a folder is instead of a session, and what to name in its place."""
    name = os.fspath(path)
    try:
        inside = sorted(path.iterdir())
    except OSError as error:
        return failure(
            name, f"it cannot be read ({error.strerror})", "a readable folder", "Check the path and its permissions."
        )
    sessions = [clean_text(one.name) for one in inside if is_session(one)]
    advice = "Name a file in it."
    if sessions:
        every = clean_text(os.path.join(name, "session_*"))
        advice = f"It holds sessions; name them one by one, or all: {every} (there are {listed(sessions)})."
    elif above := next((one for one in [*path.absolute().parents][:4] if is_session(one)), None):
        advice = f"It is a part of the session {clean_text(os.fspath(above))}; name that."
    elif not inside:
        advice = "It is empty: was anything recorded there?"
    return failure(name, "it is a folder", "the file of one recording, or a session directory of Strands", advice)


def listed(names: list[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
