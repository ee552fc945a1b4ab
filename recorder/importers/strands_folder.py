"""A session directory of the Strands SDK (`session_…`), read as one source: the text of each file by its path.

`FileSessionManager` writes a folder: `session.json`, and for each agent `agents/agent_…/agent.json` and
`messages/message_….json`. An import reads one source, so the folder becomes one: a JSON object of its files. Its
content address is over all of them; the same session imported twice is the same run.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from ..event_codec import EPOCH
from ..hashes import content_address
from .source import SourceFile, clean_text, failure, time_of

FILES: Final = "strandsSession"
"""The key under which the source has the files: path in the folder → text."""

LARGEST: Final = 1 << 28
"""Bytes of a session that are read at most."""


def is_session(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder looks like a session directory."""
    path = Path(folder)
    try:
        return path.is_dir() and ((path / "session.json").is_file() or any((path / "agents").glob("agent_*")))
    except OSError:
        return False


def read_session(folder: str | os.PathLike[str]) -> SourceFile:
    """Read a session directory.

    Raises:
        ImportFailed: it is no session directory, or cannot be read; the message names the sessions in it, if any.
    """
    path = Path(folder)
    name = os.fspath(folder)
    if not is_session(path):
        inside = sorted(one.name for one in path.iterdir() if is_session(one)) if os.access(path, os.R_OK) else []
        advice = f"Name one of its sessions: {', '.join(inside[:5])}." if inside else "Name a file in it."
        raise failure(name, "it is a folder", "the file of one recording, or a session directory of Strands", advice)
    files: dict[str, str] = {}
    modified, size = 0.0, 0
    try:
        for file in sorted(path.rglob("*.json")):
            if file.is_symlink() or not file.is_file():
                continue
            data = file.read_bytes()
            size += len(data)
            if size > LARGEST:
                raise failure(name, f"it has more than {LARGEST >> 20} MB", "a session", "Import a part of it.")
            files[file.relative_to(path).as_posix()] = data.decode("utf-8", "surrogateescape")
            modified = max(modified, file.stat().st_mtime)
    except OSError as error:
        raise failure(
            name, f"it cannot be read ({error.strerror})", "a readable folder", "Check the permissions."
        ) from error
    document: dict[str, Any] = {FILES: files}
    packed = json.dumps(document, sort_keys=True).encode()
    source = SourceFile(
        name, clean_text(path.resolve().name), packed, content_address(packed), time_of(modified) or EPOCH
    )
    source.json()
    return source
