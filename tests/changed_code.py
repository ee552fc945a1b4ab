"""The agents of the tests with some of their code changed, as a developer does between recording and replaying."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import replay_agents

FILE = Path(replay_agents.__file__)

_NEXT = re.compile(r"^(?:@|def |class |# --|[A-Z])", re.MULTILINE)


def changed(name: str, *changes: tuple[str, str], within: str | None = None) -> tuple[Any, list[str]]:
    """What the module has under that name, an agent or a loop, from its text with some changes; and that text, by line.

    Args:
        name: of the agent or loop.
        changes: a text and what stands in its place. The text stands once within the function; or if it does not stand
            there, once in the module.
        within: the function, by default the one of that name.
    """
    source = FILE.read_text()
    for old, new in changes:
        start, end = _part(source, within or name)
        if old not in source[start:end]:
            start, end = 0, len(source)
        assert source.count(old, start, end) == 1, f"{old!r} stands {source.count(old, start, end)} times"
        source = source[:start] + source[start:end].replace(old, new) + source[end:]
    module = ModuleType(replay_agents.__name__)
    exec(compile(source, str(FILE), "exec"), vars(module))  # its classes have the names that they were recorded with
    return getattr(module, name), source.splitlines()


def _part(source: str, name: str) -> tuple[int, int]:
    start = source.index(f"def {name}(")
    end = _NEXT.search(source, start + 1)
    return start, len(source) if end is None else end.start()
