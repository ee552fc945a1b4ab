"""Text in columns: any string that Python has, in any database.

Names of agents, kinds of events and the like stand in columns of text, and can come from a user or a file. PostgreSQL
keeps no NUL in a text, and neither it nor SQLite a lone surrogate. So a text with one of these is kept escaped behind a
mark, as is one that begins with the mark; every other text is kept as it is. Hashes are of the text itself.
"""

from __future__ import annotations

from typing import Any, Final

MARK: Final = "\x10"
"""DLE, "data link escape": it begins no text that means anything."""


def to_column(text: Any) -> Any:
    """What is kept of a text; anything that is no text is kept as it is."""
    if type(text) is not str or text.isprintable():
        return text
    if text.startswith(MARK) or "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        return MARK + text.encode("unicode_escape").decode("ascii")
    return text


def from_column(kept: Any) -> Any:
    """The text of which `kept` was kept; what was changed into no such thing is given as it is."""
    if type(kept) is not str or not kept.startswith(MARK):
        return kept
    try:
        return kept[len(MARK) :].encode("ascii").decode("unicode_escape")
    except UnicodeError:
        return kept
