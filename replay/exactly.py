"""Values of the log, exactly: with the types that code goes on from, and in the stored form that a log has.

The payload, the input and what was read belong to no effect that could declare their classes, so these must be
registered (`register_type`) or built in.
"""

from __future__ import annotations

from typing import Any

from ..recorder.decoding import decode_noting
from ..recorder.errors import LossyAnswer, UnknownType
from ..recorder.values import encode, lossy_in


def stored_as_field(value: Any) -> Any:
    """A value in the stored form that it has as a field of an event's data.

    What is nested very deep is cut into parts there, and where that begins depends on how deep the value itself stands.
    """
    return encode({"": value}).stored[""]


def exactly(stored: Any, what: str) -> Any:
    """Decode a stored value for code that goes on from it.

    Args:
        stored: in stored form.
        what: it is, for messages: "the payload of run42".

    Raises:
        UnknownType: it holds an instance of a class that is not registered.
        LossyAnswer: it holds something that was not stored exactly.
    """
    if type(stored) is not dict and type(stored) is not list:
        return stored
    value, unread = decode_noting(stored)
    if lossy := lossy_in(stored):
        at = lossy[0] or "its root"
        raise LossyAnswer(f"{what} was not stored exactly, at {at}: code cannot go on from it", pointer=lossy[0])
    if unread:
        raise UnknownType(
            f"{what} cannot be given to the code as it was: {next(iter(unread))}. Register the class with "
            "ar.register_type where the code defines it."
        )
    return value
