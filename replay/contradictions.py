"""Edits of which only one can take effect: they are refused as they are given, before anything is executed.

Edits of the payload are made one after the other: what is set, then the patch, then the secrets. So a value that is set
is gone again if a later edit replaces what it is in; whoever gave both meant something else. A call gives one answer,
and one that is made inside of a call which is not made is not made either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..recorder.errors import UsageError
from .paths import to_pointer

if TYPE_CHECKING:
    from .edits import Edits

_ERASES: Final = {"replace": "path", "remove": "path", "move": "from"}
"""Operations of a JSON Patch after which what was at a place is there no more, and which of their fields names it."""


class _Made(NamedTuple):
    """An edit of the payload: where, whether what was there is gone then, and how it is called."""

    place: str
    erases: bool
    what: str


def by_pointer(given: Mapping[str, Any] | None, what: str) -> dict[str, Any]:
    """Values by JSON Pointer, of values by places in either form.

    Raises:
        UsageError: a place cannot be read, or is named twice.
    """
    found: dict[str, Any] = {}
    named: dict[str, str] = {}
    for place, value in (given or {}).items():
        pointer = to_pointer(place)
        if pointer in found:
            raise UsageError(f"{what} is given twice for one place, as {named[pointer]!r} and as {place!r}")
        found[pointer], named[pointer] = value, place
    return found


def refuse_contradictions(edits: Edits) -> None:
    """Refuse edits that contradict each other.

    Raises:
        UsageError: a call is given several answers; or a value is set where a later edit leaves nothing of it.
    """
    ways: dict[str, str] = {}
    for way, calls in (
        ("a tool result", edits.tool_results),
        ("a model response", edits.model_responses),
        ("to be skipped", edits.skip),
    ):
        for call in calls:
            if call in ways:
                twice = f"{way} twice" if ways[call] == way else f"both {ways[call]} and {way}"
                raise UsageError(f"call {call} is given {twice}; say one of them")
            ways[call] = way
    made = list(_made(edits))
    for number, first in enumerate(made):
        later = next((one for one in made[number + 1 :] if one.erases and _is_within(first.place, one.place)), None)
        if later is not None and first.what.startswith(("set", "the secret")):
            raise UsageError(
                f"{first.what} has no effect, since {later.what} comes after it and replaces what it is in; give that "
                "first, or leave one of them out"
            )


def refuse_answers_inside(within: Mapping[str, str | None], calls: Sequence[str]) -> None:
    """Refuse an answer of a call that is made inside of another one that is given an answer.

    Args:
        within: id of a call → that of the one inside which it is made, or None.
        calls: the ids of those that are given answers.

    Raises:
        UsageError: there is one.
    """
    for call in calls:
        around = within.get(call)
        while around is not None and around not in calls:
            around = within.get(around)
        if around is not None:
            raise UsageError(
                f"call {call} is made inside of call {around}, which is given an answer and so is not made: give one "
                "of them"
            )


def _made(edits: Edits) -> Iterator[_Made]:
    """The edits of the payload, in the order in which they are made."""
    for place in edits.set:
        yield _Made(place, True, f"set {place or '(payload)'}")
    for one in edits.patch:
        op = str(one.get("op"))
        at = one.get(_ERASES.get(op, "path"))
        if isinstance(at, str):
            yield _Made(at, op in _ERASES, f"the {op} of {at or '(payload)'} in the patch")
    for place in edits.secrets:
        yield _Made(place, True, f"the secret at {place or '(payload)'}")


def _is_within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}/")
