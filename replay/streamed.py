"""What a streamed call gave: its chunks, and the text that they are together where they are pieces of one.

A call that is streamed gives its chunks, and as a rule nothing when it returns; so what it answered is told by them.
Chunks are texts or bytes by themselves, or objects in which a text stands under a usual name, such as `delta`, `text`
or `content`. Texts that stand at the same place, and of several answers or blocks those of the same index, are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..recorder.stream_pieces import Piece, decoded, pieces_of, together
from .changes import MISSING
from .readable import count, readable

TEXT_KEYS: Final = frozenset(("text", "content", "delta", "data", "reasoning_content"))
"""Under these names a text in a chunk is a piece of what was said."""

_TAG_KEYS: Final = frozenset(("fields", "extra", "state", "items"))
_BY_INDEX: Final = frozenset(("index",))


@dataclass(frozen=True, slots=True)
class Streamed:
    """What a streamed call gave.

    Attributes:
        chunks: in stored form; of a very long stream the first ones.
        dropped: chunks that came after those, and were not kept.
        abandoned: whether its consumer left it before its end.
    """

    chunks: Sequence[Any]
    dropped: int = 0
    abandoned: bool = False

    @property
    def count(self) -> int:
        """How many chunks came."""
        return len(self.chunks) + self.dropped

    @property
    def text(self) -> str | None:
        """The text of the chunks that were kept; several texts, each on lines of its own. None where they are none."""
        pieces = [piece for piece in pieces_of(self.chunks) if _is_said(piece)]
        groups = together(pieces, _BY_INDEX)
        said = [group for group in groups if len(group) > 1] or groups  # what is said once more at the end is no piece
        texts = [
            decoded(b"".join([pieces[at].data for at in group]), pieces[group[0]].is_bytes)
            .encode("utf-8", "replace")
            .decode()
            for group in said
        ]
        return "\n".join(filter(None, texts)) or None

    @property
    def words(self) -> str:
        """How much came: `12 chunks`, `3 chunks, and was left`."""
        return count(self.count, "chunk") + (", then left unread" if self.abandoned else "")

    def line(self, limit: int) -> str:
        """What came, in a line: `12 chunks: "It is on its way."`; of chunks that are no text the chunks."""
        if not self.chunks:
            return self.words
        text = self.text
        return f"{self.words}: {readable(list(self.chunks) if text is None else text, limit)}"


def given_in_line(streamed: Streamed | None, answered: Any, limit: int) -> str:
    """What a call gave, in a line: what it streamed, if it did, and what it returned, if that is not null then."""
    if streamed is None:
        return readable(answered, limit)
    returned = "" if answered is None or answered is MISSING else f", returned {readable(answered, limit)}"
    return streamed.line(limit) + returned


def streamed_of(data: Any) -> Streamed | None:
    """What the call streamed whose last event has this data; None if it was not streamed."""
    chunks = getattr(data, "stream", None)
    if not isinstance(chunks, list | tuple):
        return None
    dropped = getattr(data, "dropped", 0)
    is_abandoned = getattr(data, "abandoned", False) is True
    return Streamed(chunks, dropped if type(dropped) is int else 0, is_abandoned)


def _is_said(piece: Piece) -> bool:
    """Whether a text is a piece of what was said, by the name that it stands under."""
    names = [key for key in piece.place if isinstance(key, str) and key not in _TAG_KEYS]
    return not names or names[-1] in TEXT_KEYS
