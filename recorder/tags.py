"""Tags: words that a run is given when it begins, by which it is found among others.

They stand in `run.started` and never change: a fork, which shares that event, has those of the run it came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from .errors import UsageError
from .introspection import clean

MOST: Final = 20
"""Tags of a run, at most."""

LONGEST: Final = 64
"""Characters of a tag, at most."""


def checked_tags(*given: Iterable[str] | None) -> list[str]:
    """The tags of a run, each once, in the order in which they were given.

    Args:
        given: lists of tags; None is none.

    Raises:
        UsageError: they are no list of texts, one is empty or too long, or there are too many.
    """
    found: dict[str, None] = {}
    for tags in given:
        if isinstance(tags, str | bytes | Mapping):
            raise UsageError(f'tags is a list of texts, such as ("nightly",), not {tags!r:.80}')
        try:
            found.update((_checked(tag), None) for tag in tags or ())
        except TypeError:
            raise UsageError(f'tags is a list of texts, such as ("nightly",), not {tags!r:.80}') from None
    if len(found) > MOST:
        raise UsageError(f"a run has at most {MOST} tags, not {len(found)}; what has many values belongs into params")
    return list(found)


def _checked(tag: Any) -> str:
    if not isinstance(tag, str):
        raise UsageError(f"a tag is a text, not {tag!r:.80}; write str(…) around it")
    text = clean(tag)
    if not text.strip() or len(text) > LONGEST:
        raise UsageError(f"a tag has 1 to {LONGEST} characters, not all blank; this has {len(text)}: {text[:20]!r}")
    return text
