"""Secrets that a stream brings in pieces: `"sk-pr"`, then `"oj-…"`. No piece looks like one; all together do.

The texts, or bytes, that stand at the same place of each chunk are read as one text and redacted as one; what is left
is dealt out to the chunks again (`stream_pieces`). A token goes to the chunk in which its secret began.

A stream may hold several others whose chunks alternate: answers, parallel tool calls, blocks of content. What tells
them apart stands beside the text or above it, `{"index": 1, "delta": {"text": "…"}}`: an index, an id or a type, here
called a *mark*. Providers differ in which of them says it (an id may be on the first chunk only, or another on every
chunk), so the texts are put together in several ways, by more marks first, and in the end by their place alone. What
one way puts together wrongly another puts together rightly, and a token is never a secret.

And a stream may stand in a stream: what comes over the wire are lines, `data: {"delta": {"content": "sk-pr"}}`, cut
anywhere. So what the lines of a text say is read as chunks, too (`stream_lines`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from .redaction import Redactor
from .stream_lines import Line, documents, edits_to, lines_in, may_say_something
from .stream_pieces import MARKS, Edit, Piece, decoded, encoded_like, pieces_of, together, with_edits

_TOKEN: Final = re.compile(r"(\[redacted:[a-z0-9][a-z0-9-]{0,39}:[0-9a-f]{16}\])")
_ROUNDS: Final = 4
_STREAMS_IN_STREAMS: Final = 3

_WAYS: Final = (MARKS, frozenset(("index",)), frozenset(("id",)), None)
"""Which marks the texts are put together by, one way after the other; None: by their place alone."""


def redact_stream(chunks: list[Any], redactor: Redactor) -> list[Any]:
    """Return the chunks, in stored form, without the secrets that reach over several of them, or stand in bytes.

    The same object when there are none.
    """
    return _redacted(chunks, redactor, 0)


def _redacted(chunks: list[Any], redactor: Redactor, depth: int) -> list[Any]:
    """Redact a stream; at depth 0 the chunks are in stored form, deeper in what lines of texts say."""
    made = chunks
    for _ in range(_ROUNDS):  # what one way replaced may let another read differently
        before = made
        pieces = pieces_of(made, plain=depth > 0)
        if depth < _STREAMS_IN_STREAMS and any(b'"' in piece.data or b"data:" in piece.data for piece in pieces):
            # Before the text around them: there each line has a part of a secret only, which may look like a whole one.
            for group in together(pieces, None):
                made = _with_lines_redacted(made, [pieces[index] for index in group], redactor, depth)
            if made is not before:
                pieces = pieces_of(made, plain=depth > 0)
        looked_at: set[tuple[int, ...]] = set()
        for way in _WAYS:
            start = made
            for group in together(pieces, way):
                if (len(group) > 1 or pieces[group[0]].is_bytes) and group not in looked_at:
                    looked_at.add(group)
                    made = _with_text_redacted(made, [pieces[index] for index in group], redactor)
            if made is not start:
                pieces = pieces_of(made, plain=depth > 0)
        if made is before:
            break
    return made


def _with_text_redacted(chunks: list[Any], group: Sequence[Piece], redactor: Redactor) -> list[Any]:
    """The chunks after what is secret in a text was replaced.

    Where pieces that say another index were put together, a token may come to look like the beginning of a secret that
    goes on in the other piece. It stays.
    """
    is_bytes = group[0].is_bytes
    whole = decoded(b"".join([piece.data for piece in group]), is_bytes)
    redacted = redactor.redact_text(whole)
    if redacted == whole:
        return chunks
    edits = [
        edit
        for edit, old in _edits_between(whole, redacted, is_bytes)
        if edit.new != encoded_like(old, is_bytes) and not (_TOKEN.search(old) and _is_of_several(group, edit))
    ]
    return with_edits(chunks, group, edits) if edits else chunks


def _is_of_several(group: Sequence[Piece], edit: Edit) -> bool:
    """Whether an edit is of pieces that say another index."""
    said, end = set(), 0
    for piece in group:
        start, end = end, end + len(piece.data)
        if start < edit.stop and end > edit.start:
            said.add((piece.among, *[mark for mark in piece.marks if mark.kind == "index"]))
    return len(said) > 1


def _with_lines_redacted(chunks: list[Any], group: Sequence[Piece], redactor: Redactor, depth: int) -> list[Any]:
    """The chunks after what is secret in the streams that the lines of a text are was replaced.

    Lines may be cut anywhere, or each chunk be whole lines without the ends of lines between them. A line that is cut
    is no JSON, so the way of reading that leaves the fewest of those is the right one: in half of a line there is only
    half of a secret, which would be taken for a whole one.
    """
    if not may_say_something(b"".join([piece.data for piece in group])):
        return chunks
    lines, broken = _lines_of(group, each=False)
    if broken and len(group) > 1:
        others, left = _lines_of(group, each=True)
        lines = others if left < broken else lines
    said = documents(lines)
    made = _redacted(said, redactor, depth + 1) if len(said) > 1 else said
    return chunks if made is said else with_edits(chunks, group, edits_to(lines, made, group[0].is_bytes))


def _lines_of(group: Sequence[Piece], *, each: bool) -> tuple[list[Line], int]:
    """The lines of the pieces of a group, of each by itself or of all together, and how many are no whole lines."""
    datas = [piece.data for piece in group]
    starts = accumulate([0, *map(len, datas[:-1])])
    texts = zip(datas, starts, strict=True) if each else [(b"".join(datas), 0)]
    lines = [line for data, at in texts for line in lines_in(data, at, group[0].is_bytes)]
    return [line for line in lines if not line.is_broken], sum(line.is_broken for line in lines)


def _edits_between(whole: str, redacted: str, is_bytes: bool) -> list[tuple[Edit, str]]:
    """What was replaced by tokens, with what stood there, as far as what is left of a text tells where."""
    parts = _TOKEN.split(redacted)
    pattern = "".join("(.*?)" if number % 2 else re.escape(part) for number, part in enumerate(parts))
    match = re.fullmatch(pattern, whole, re.DOTALL)
    if match is None:
        return [(Edit(0, len(encoded_like(whole, is_bytes)), encoded_like(redacted, is_bytes)), "")]
    edits, at, copied = [], 0, 0
    for number in range(1, len(match.regs)):
        start, stop = match.span(number)
        at += len(encoded_like(whole[copied:start], is_bytes))
        length = len(encoded_like(whole[start:stop], is_bytes))
        edits.append((Edit(at, at + length, parts[2 * number - 1].encode("ascii")), whole[start:stop]))
        at, copied = at + length, stop
    return edits
