"""The list of runs: which of them are meant, in which order, and which page of that.

A page is found by a cursor, the place in the order where the page before it ended. So a page stays what it is while
runs are added in front of it, which a page number would not.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..recorder.errors import UsageError
from ..recorder.store import RunInfo
from ..replay.listing import standing
from ..replay.readable import visible
from .run_query import Asked, asked_by

PAGE: Final = 50
LARGEST_PAGE: Final = 500

STATUSES: Final = ("running", "completed", "failed", "crashed", "cancelled", "interrupted", "silent", "partial")

_KEYS: Final[dict[str, Callable[[RunInfo], Any]]] = {
    "run": lambda info: info.number,
    "agent": lambda info: info.agent.casefold(),
    "status": standing,
    "steps": lambda info: info.steps,
    "duration": lambda info: -1.0 if info.duration is None else info.duration,
    "started": lambda info: info.started,
}
SORTS: Final = tuple(name for key in _KEYS for name in (f"-{key}", key))
"""The orders: by a column, downwards with a dash."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for.

    Attributes:
        status: of the runs, a word in `STATUSES`; empty for any.
        agent: their agent, as it is or as it is shown; empty for any.
        text: what agents, uids or errors must contain, in any case; or a run's name; and tags that runs must have, as
            `run_query` reads them. Empty for anything.
        sort: one of `SORTS`.
        cursor: where the page before ended; empty for the first.
        limit: runs on a page.
        tag: a tag that runs must have, as it is; empty for any.
        in_values: whether the words of `text` are looked for in values, not in names.
    """

    status: str = ""
    agent: str = ""
    text: str = ""
    sort: str = "-run"
    cursor: str = ""
    limit: int = PAGE
    tag: str = ""
    in_values: bool = False

    @property
    def filters(self) -> bool:
        """Whether some runs are left out."""
        return bool(self.status or self.agent or self.text or self.tag)

    @property
    def asked(self) -> Asked:
        """What `text` means, with `tag` among the tags."""
        asked = asked_by(self.text)
        tags = (*asked.tags, self.tag) if self.tag else asked.tags
        return Asked(asked.text, tags, self.in_values or asked.in_values)


@dataclass(frozen=True, slots=True)
class Page:
    """The runs of a page, and the cursor of the next one; empty if there is none."""

    runs: tuple[RunInfo, ...]
    next: str = ""


def page_of(
    infos: Iterable[RunInfo],
    wanted: Wanted,
    error_of: Callable[[RunInfo], str],
    tags_of: Callable[[RunInfo], Sequence[str]] = lambda info: (),
) -> Page:
    """Choose, order and cut.

    Args:
        infos: every run.
        wanted: what is asked for.
        error_of: what a run failed with; asked of failed runs only, and of no more than the page needs.
        tags_of: the tags of a run; asked where tags are wanted.

    Raises:
        UsageError: the order or cursor is none of ours.
    """
    if wanted.sort not in SORTS:
        raise UsageError(f'runs are not sorted by "{wanted.sort}"; choose from {", ".join(SORTS)}')
    key, down = _KEYS[wanted.sort.removeprefix("-")], wanted.sort.startswith("-")
    after = _read(wanted.cursor) if wanted.cursor else None
    try:
        ordered = sorted(infos, key=lambda info: (key(info), info.number), reverse=down)
        if after is not None:
            ordered = [info for info in ordered if _is_after([key(info), info.number], after, down)]
    except TypeError:
        raise _no_cursor() from None
    found: list[RunInfo] = []
    asked = wanted.asked
    for info in ordered:
        if _fits(info, wanted, asked, tags_of) and _names(info, asked.text.casefold(), error_of):
            if len(found) == wanted.limit:
                return Page(tuple(found), _write([key(found[-1]), found[-1].number]))
            found.append(info)
    return Page(tuple(found))


def runs_to_search(
    infos: Sequence[RunInfo], wanted: Wanted, tags_of: Callable[[RunInfo], Sequence[str]]
) -> list[RunInfo]:
    """The runs in whose values words are looked for: those that are wanted whatever their names, newest first."""
    asked = wanted.asked
    return [info for info in reversed(infos) if _fits(info, wanted, asked, tags_of)]


def agents_of(infos: Sequence[RunInfo], limit: int = 200) -> list[str]:
    """The agents of which there are runs, those with the newest runs first."""
    return list(dict.fromkeys(info.agent for info in reversed(infos)))[:limit]


def _fits(info: RunInfo, wanted: Wanted, asked: Asked, tags_of: Callable[[RunInfo], Sequence[str]]) -> bool:
    if wanted.status and standing(info) != wanted.status:
        return False
    if wanted.agent and wanted.agent not in (info.agent, visible(info.agent)):
        return False
    return not asked.tags or set(asked.tags) <= set(tags_of(info))


def _names(info: RunInfo, text: str, error_of: Callable[[RunInfo], str]) -> bool:
    if not text or text in info.agent.casefold() or text in (info.id, str(info.number)) or text in info.uid:
        return True
    return info.status in ("failed", "cancelled") and text in error_of(info).casefold()


def _is_after(place: list[Any], cursor: list[Any], down: bool) -> bool:
    return place < cursor if down else place > cursor


def _write(place: list[Any]) -> str:
    return urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def _read(cursor: str) -> list[Any]:
    try:
        place = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError:
        raise _no_cursor() from None
    if type(place) is not list or len(place) != 2 or type(place[1]) is not int:
        raise _no_cursor()
    return place


def _no_cursor() -> UsageError:
    return UsageError("this is no cursor of a list in that order; leave it out for the first page")
