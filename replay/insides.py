"""What is inside a stored value, as a user of the payload sees it.

A tag (`{"$type": …}`) stands for a value that JSON cannot express. Many of those are containers, and a user who writes
`/order/$type`, `/items/0` or `/customer/name` neither knows nor cares how the log spells them:

| stored as | seen as |
|---|---|
| a dict with keys that are no texts, or the key `$type` | an object; a key that is no text goes by how it is shown |
| OrderedDict, defaultdict, Counter | an object |
| tuple, deque | a list |
| named tuple, dataclass, pydantic model, registered object | an object of its fields |
| an instance of a subclass, or what a class is encoded as | what is inside the value that it holds |
| a tag of a kind that nobody knows | the object that it is, since it is handed out as it stands |

Everything else, a set or a Decimal, is one value. So is a tag that is damaged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from ..recorder.decoding import COLLECTED, READERS, decode_noting
from .readable import readable

Children: TypeAlias = list[Any] | dict[str, Any]

_INDEX: Final = re.compile(r"0|[1-9][0-9]*")
_BY_VALUE: Final = frozenset(("int", "decimal", "uuid", "date", "datetime", "time", "path", "enum"))
"""Tags that go by the text they hold, where they are keys."""

_NO_KEYS: Final[Mapping[str, Any]] = {}


class Inside(NamedTuple):
    """A value that is looked into.

    Attributes:
        sort: what two values must have in common to be compared child by child.
        children: what is in it, in stored form, by index or by name.
        odd: name → stored key, of the keys that are no texts.
        rest: what else it holds.
        ordered: whether the order of the names counts.
    """

    sort: tuple[Any, ...]
    children: Children
    odd: Mapping[str, Any] = _NO_KEYS
    rest: Any = None
    ordered: bool = False

    @property
    def is_dict(self) -> bool:
        """Whether the value is a dict with no other keys than texts, so that a JSON Patch finds its way in it."""
        return self.sort == _DICT and not self.odd


_DICT: Final = ("dict",)
_LIST: Final = ("list",)


def opened(stored: Any) -> Inside | None:
    """Look into a stored value; None if it is one value, with nothing inside."""
    if type(stored) is list:
        return Inside(_LIST, stored)
    if type(stored) is not dict:
        return None
    if "$type" not in stored:
        return Inside(_DICT, stored)
    kind = stored["$type"]
    opener = _OPENERS.get(kind) if type(kind) is str else None
    if opener is None:
        return None if type(kind) is str and kind in _ONE_VALUE else Inside(("unknown",), stored)
    try:
        return opener(stored)
    except (KeyError, TypeError, ValueError):  # damaged
        return None


def inside_of(stored: Any) -> Children | None:
    """What is in a stored value, by index or by name; of a plain list or object itself. None if it is one value."""
    if type(stored) is list or (type(stored) is dict and "$type" not in stored):
        return stored
    found = opened(stored)
    return None if found is None else found.children


def fields_of(stored: Any) -> dict[str, Any] | None:
    """What is in a stored value by name, or None if it is no object."""
    inside = inside_of(stored) if type(stored) is dict else None
    return inside if type(inside) is dict else None


def named(stored: Any, token: str) -> str | int | None:
    """The index or name of that in a stored value which a part of a path names; None if there is no such thing.

    A key that is no text may be written as it is shown, as Python shows it, or as an enumeration has it; a field of a
    named tuple also by its index.
    """
    inside: Children | None = inside_of(stored)
    if inside is None:
        return None
    if isinstance(inside, list):
        return int(token) if _INDEX.fullmatch(token) and int(token) < len(inside) else None
    if token in inside:
        return token
    found = opened(stored) if "$type" in stored else None
    if found is None:
        return None
    spelt = next((name for name, key in found.odd.items() if token in _spellings(key)), None)
    if spelt is not None:
        return spelt
    if found.sort[0] == "namedtuple" and _INDEX.fullmatch(token) and int(token) < len(inside):
        return [*inside][int(token)]
    return None


# -- keys that are no texts ------------------------------------------------------------------------------


def _text_of(key: Any) -> str | None:
    """The text that a stored key is; None if it is something else."""
    if type(key) is str:
        return key
    if type(key) is dict and key.get("$type") == "str":
        text, unread = decode_noting(key)
        return text if not unread else None
    return None


def name_of(key: Any) -> str:
    """The name by which a stored key goes that is no text, and what a stored value without insides is as a text."""
    if key is None or type(key) is bool:
        return repr(key)
    if type(key) is dict:
        value = key.get("value")
        if key.get("$type") == "subclass":
            return _text_of(value) or name_of(value)
        if key.get("$type") in _BY_VALUE and type(value) is str:
            return value
    return readable(key)


def _spellings(key: Any) -> tuple[str, ...]:
    """How else than by its name a key may be written."""
    shown = readable(key)
    if type(key) is not dict:
        return (shown, repr(key))
    return (shown, repr(decode_noting(key)[0]), *([str(key["name"])] if "name" in key else []))


def _by_name(pairs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of a list of pairs by name, and name → key of the keys that are no texts. Texts are named first."""
    named_keys = [(_text_of(key), key, value) for key, value in pairs]
    taken = {text for text, _, _ in named_keys if text is not None}
    children, odd = {}, {}
    for text, key, value in named_keys:
        if text is None:
            text = name_of(key)
            if text in taken:
                text = f"{key['$type'] if type(key) is dict else type(key).__name__}({text})"
            while text in taken:
                text += "'"
            taken.add(text)
            odd[text] = key
        children[text] = value
    return children, odd


# -- tags ------------------------------------------------------------------------------------------------


def _mapping(tag: dict[str, Any]) -> Inside:
    children, odd = _by_name(tag["items"])
    rest = {name: item for name, item in tag.items() if name not in ("$type", "items")}
    return Inside((tag["$type"],), children, odd, rest or None, tag["$type"] == "ordereddict")


def _sequence(tag: dict[str, Any]) -> Inside | None:
    if type(tag["items"]) is not list:
        return None
    return Inside((tag["$type"],), tag["items"], rest=tag.get("maxlen"))


def _instance(tag: dict[str, Any]) -> Inside | None:
    """An object by its fields, and by what it has beside them; what cannot be told by name is the rest."""
    children: dict[str, Any] = {}
    rest = {name: item for name, item in tag.items() if name not in _NAMED and name not in _INCIDENTAL}
    for part in [part for part in _NAMED if part in tag]:
        fields = fields_of(tag[part])
        if fields is None or not children.keys().isdisjoint(fields):
            rest[part] = tag[part]
        else:
            children |= fields
    return Inside((tag["$type"], tag["class"]), children, rest=rest) if children else None


_NAMED: Final = ("fields", "extra", "state")
_INCIDENTAL: Final = ("$type", "class", "fields_set")
"""`fields_set` changes with the fields and says nothing by itself."""


def _held(tag: dict[str, Any]) -> Inside | None:
    found = opened(tag["value"])
    if found is None:
        return None
    rest = [found.rest, {name: item for name, item in tag.items() if name not in ("$type", "class", "value")}]
    return found._replace(sort=(tag["$type"], tag["class"], *found.sort), rest=rest)


_OPENERS: Final[Mapping[str, Callable[[dict[str, Any]], Inside | None]]] = {
    "dict": _mapping,
    "ordereddict": _mapping,
    "defaultdict": _mapping,
    "counter": _mapping,
    "tuple": _sequence,
    "deque": _sequence,
    "namedtuple": _instance,
    "dataclass": _instance,
    "model": _instance,
    "object": _instance,
    "subclass": _held,
    "registered": _held,
}

_ONE_VALUE: Final = frozenset((*READERS, *COLLECTED, "enum", "exception", "class", "deep", "part", "messages", "blob"))
