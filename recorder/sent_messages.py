"""The messages that the model requests of a run have held: each is written out, looked through and hashed once.

A request repeats the whole conversation, of which a message or two are new. Were all of it encoded each time, a call
late in a run would take longer than an early one. So a request is *shortened* to what is new in it before it is encoded
and redacted; the others are put back as what became of them, an address and bytes. A message is known by its likeness,
which tells `1` from `1.0`, and one that cannot be changed, as those of `context.messages`, by being that object.

What becomes of a message must depend on nothing but itself. So only plain messages are known, in lists under keys that
say nothing about what is secret; and all is forgotten as soon as the redactor has learnt another secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from .frozen import FrozenDict, FrozenList
from .kept_apart import Contents, Kept
from .likeness import likeness
from .plain import Stored, is_plain

if TYPE_CHECKING:
    from .redaction import Redactor

FEWEST: Final = 8
"""Lists of fewer messages are not worth a second look."""

SPARE: Final = 1_000
"""So many messages more than twice those of one request are known at a time."""

_MESSAGES: Final = frozenset((dict, FrozenDict))
_ATOMS: Final = frozenset((str, int, float, bool, type(None)))

_Key: TypeAlias = "bytes | int | None"
"""What a message is known by: its likeness; its id if it is frozen; None if it has no likeness."""


class _Known(NamedTuple):
    """What became of a message; and a frozen one itself, whose id is its own only while it lives."""

    kept: Kept
    frozen: FrozenDict | None


class _List(NamedTuple):
    """A list of messages in a request, and what became of each; None for one that is not known."""

    messages: Sequence[Any]
    keys: Sequence[_Key]
    kept: Sequence[Kept | None]


@dataclass(frozen=True, slots=True)
class Shortened:
    """The body of a model call without the messages that are known.

    Attributes:
        body: what is left, to be encoded.
        lists: name of a list in the request → its messages.
        generation: the redactor's, for which what is known holds.
    """

    body: dict[str, Any]
    lists: Mapping[str, _List]
    generation: object

    @property
    def kept(self) -> dict[str, Sequence[Kept | None]]:
        """Name of a list → what became of each of its messages, in order; None for one that is left."""
        return {name: one.kept for name, one in self.lists.items()}

    @property
    def length_left_out(self) -> int:
        """By how many bytes of JSON the body would be longer."""
        left_out = 0
        for one in self.lists.values():
            known = [kept for kept in one.kept if kept is not None]
            commas = len(known) if len(known) < len(one.kept) else len(known) - 1
            left_out += sum(len(content) for _, content in known) + commas
        return left_out


class SentMessages:
    """Knows the messages that one run has sent. Used by one thread at a time."""

    def __init__(self) -> None:
        self._known: dict[str, dict[_Key, _Known]] = {}
        self._neutral: dict[str, bool] = {}
        self._generation: object = None

    def shorten(self, body: dict[str, Any], redactor: Redactor) -> Shortened | None:
        """Leave out of the body of a model call what is known of it; None where there is nothing to know."""
        request = body.get("request")
        if type(request) is not dict or "$type" in request:
            return None
        if redactor.generation is not self._generation:
            self._generation = redactor.generation
            self._known.clear()
            self._neutral.clear()
        lists = {name: self._list(name, one) for name, one in request.items() if self._may_know(name, one, redactor)}
        if not lists:
            return None
        left = {
            name: [message for message, kept in zip(one.messages, one.kept, strict=True) if kept is None]
            for name, one in lists.items()
        }
        return Shortened({**body, "request": {**request, **left}}, lists, self._generation)

    def _may_know(self, name: str, messages: Any, redactor: Redactor) -> bool:
        if type(messages) is not list or len(messages) < FEWEST or not _MESSAGES.issuperset(map(type, messages)):
            return False
        if type(name) is not str or name.startswith("/"):  # such a list is not kept apart
            return False
        if name not in self._neutral:
            self._neutral[name] = redactor.is_neutral_key(name)
        return self._neutral[name]

    def _list(self, name: str, messages: list[Any]) -> _List:
        messages, known = messages.copy(), self._known.setdefault(name, {})
        keys: list[_Key] = [likeness(message) if type(message) is dict else id(message) for message in messages]
        found = map(known.get, keys)
        return _List(messages, keys, [one and one.kept for one in found])

    def learn(self, short: Shortened, request: Stored, contents: Contents) -> None:
        """Know what became of the messages that were left.

        Args:
            short: what was encoded.
            request: that of its body as it was encoded, before it was redacted; of nobody else.
            contents: what was moved out of the whole.
        """
        for name, one in short.lists.items():
            known = self._known[name]
            if len(known) > 2 * len(one.keys) + SPARE:
                known = self._known[name] = {key: known[key] for key in one.keys if key in known}
            places = zip(one.messages, one.kept, contents.conversations[name], strict=True)
            left = [(message, address) for message, kept, address in places if kept is None]
            for (message, address), stored in zip(left, request[name], strict=True):
                # What was encoded counts: a message may be changed by another thread meanwhile.
                if is_plain(stored) and (type(message) is dict or _is_frozen(message)):
                    key = likeness(stored) if type(message) is dict else id(message)
                    kept = address, contents.messages[address]
                    known[key] = _Known(kept, message if type(message) is FrozenDict else None)


def _is_frozen(message: FrozenDict) -> bool:
    """Whether nothing in a frozen message can be changed either."""
    todo: list[Any] = [message]
    for container in todo:
        for value in container.values() if type(container) is FrozenDict else container:
            if type(value) is FrozenDict or type(value) is FrozenList:
                todo.append(value)
            elif type(value) not in _ATOMS:
                return False
    return True
