"""The likeness of a value: bytes that are the same for two values only if the values are, types and order included.

Whether a conversation is still what it was is asked in each round, of all its messages, and the answer is nearly always
yes. So the question is made cheap: one call of the interpreter's own writer, which tells `1`, `1.0` and `true` apart,
a list from a tuple, and a class of one's own from what it is derived from. It calls nothing of the value's own.

Different likenesses say nothing: of two equal texts one may be written as a name that the interpreter knows. Whoever
finds them different looks closely.
"""

from __future__ import annotations

import marshal
from typing import Any, Final

_WITHOUT_REFERENCES: Final = 2
"""The last version of the format in which what occurs twice is written twice, so that sharing makes no difference."""


def likeness(value: Any) -> bytes | None:
    """Return the bytes that stand for a value; None for one that holds anything but plain data, or is very deep.

    Bytes and a bytearray that holds the same are alike; everything else is only like itself.
    """
    try:
        return marshal.dumps(value, _WITHOUT_REFERENCES)
    except ValueError:
        return None


def value_of(known: bytes) -> Any:
    """Return a value like the one that a likeness was made of, which nobody else has; a bytearray comes as bytes."""
    return marshal.loads(known)  # what `likeness` has written, in this process
