"""What is typed to find runs: words, tags (`tag:nightly`, `tag:"two words"`), and where the words are looked for.

Behind `value:` everything is meant as it stands, and is looked for in what runs recorded rather than in their names.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

IN_VALUES: Final = "value:"

_TAG: Final = re.compile(r'(?:^|(?<=\s))tag:("(?:[^"\\]|\\.)*"|[^\s"]\S*)')
_WORD: Final = re.compile(r'[^\s"]\S*')


class Asked(NamedTuple):
    """The words, the tags that runs must have, and whether the words are looked for in values."""

    text: str
    tags: tuple[str, ...] = ()
    in_values: bool = False


def asked_by(typed: str) -> Asked:
    """Read what was typed. `value:` stands first, or behind tags alone; elsewhere it is a word like others."""
    rest, tags = typed.strip(), []
    while (found := _TAG.match(rest)) is not None:
        tags.append(_unquoted(found[1]))
        rest = rest[found.end() :].lstrip()
    if rest.startswith(IN_VALUES):
        return Asked(rest.removeprefix(IN_VALUES).strip(), tuple(tags), in_values=True)
    tags += [_unquoted(tag) for tag in _TAG.findall(rest)]
    return Asked(_TAG.sub("", rest).strip(), tuple(tags))


def term(tag: str) -> str:
    """A tag as it is typed."""
    return f"tag:{tag if _WORD.fullmatch(tag) else json.dumps(tag, ensure_ascii=False)}"


def _unquoted(tag: str) -> str:
    try:
        return str(json.loads(tag, strict=False)) if tag.startswith('"') else tag
    except ValueError:
        return tag[1:-1]
