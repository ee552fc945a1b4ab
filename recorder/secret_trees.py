"""Find the secrets in a tree in stored form: in its texts and keys, and under the keys that name a secret.

Under a secret key the structure stays: each text and number is replaced, `null`, booleans and empty texts are not, so
that merging redacted trees does what merging the originals did. What counts as key and value is more than a dict:
pairs in a list of pairs (headers), records such as {"name": …, "value": …}, options in a list of arguments, the path
and value of a JSON Patch operation, and the pairs and fields inside tags. What only looks like a secret stays: the
description of a parameter `password` in a tool's JSON Schema, the `token` of a list of log probabilities.

The walk collects the changes first and builds copies of changed containers from the leaves up, so unchanged parts are
shared and depth costs no stack. The same changes can be written into a JSON text instead (`json_spans`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from .json_schemas import SCHEMA_VALUES, is_schema
from .known_secrets import looks_random
from .plain import Stored, dumps
from .secret_commands import PIN, in_arguments, looks_like_a_password
from .secret_patterns import stands_for_a_secret

Place: TypeAlias = "str | int"

NAME_FIELDS: Final = ("name", "key", "header", "field", "source", "variable")
"""In a record with a "value", these fields name it."""

_KEYED: Final = frozenset(("dict", "ordereddict", "defaultdict"))
_BYTES: Final = ("bytes", "bytearray")
_CONTAINERS: Final = frozenset(
    (
        *("tuple", "set", "frozenset", "deque", "counter", "dict", "ordereddict", "defaultdict", "deep", "exception"),
        *("namedtuple", "dataclass", "model", "object", "registered", "subclass"),
    )
)
_LEAVES: Final = frozenset(
    (
        *(
            "str",
            "int",
            "float",
            "complex",
            "bytes",
            "bytearray",
            "decimal",
            "fraction",
            "uuid",
            "path",
            "enum",
            "opaque",
        ),
        *("date", "time", "datetime", "timedelta", "range", "slice", "subclass"),
    )
)
"""Tags that are one value, which under a secret key is the secret. A subclass is one when its value is a text."""

_READ_BACK: Final = frozenset(("int", "float", "complex", "decimal", "fraction", "uuid", "date", "time", "datetime"))
_LONG_NUMBER: Final = 10**11
"""From here on an integer can be a secret that is known from elsewhere; see `known_secrets`."""

_NO_SECRET: Final = frozenset(("constant", "class", "blob", "messages", "part", "timezone", "zoneinfo"))
_ABOUT_THE_VALUE: Final = frozenset(
    ("$type", "class", "name", "fields_set", "factory", "maxlen", "lossy", "suppress_context", "index")
)
"""What a tag says about a value rather than of it; not secret under a secret key."""

USERS: Final = frozenset(("user", "username", "login", "email"))
"""Beside one of these, `pass` is a password whatever it looks like."""

Role: TypeAlias = str
_PAIR: Final = "pair"
_ENTRY: Final = "entry"
ENTRIES: Final = "entries"
_PARTS: Final = "parts"
_SCHEMA: Final = "schema"
_COUNTS: Final = "counts"
_DOUBTFUL: Final = "doubtful"
"""Of what stands under `tokens`: some are secrets, most are counts or words, so each has to look like a secret."""

Shape: TypeAlias = str
"""How the items of a list are read: as parts, words, a pair, or items that all have one of the roles."""

_TWO: Final = "two"
WORDS: Final = "words"

Context: TypeAlias = "tuple[str | None, Role, bool | None]"
"""What decides how a value is read besides the value itself: the kind of the secret key that it stands under, what it
is a part of, and whether it stands right under that key, None as its container does."""

_TEXT: Final = frozenset((str,))
_LIST: Final = frozenset((list,))
_TWO_ITEMS: Final = frozenset((2,))

_Node: TypeAlias = "tuple[Any, str | None, int, Place, Role, int, bool]"
"""A container to look at: itself, the kind of the secret key that it stands under, the number of the node it is in and
its place there, what it is a part of, the number of the node with the parts of the "deep" tag it is in, or -1, and
whether it stands right under the secret key: not as an entry, of another name, of what does."""


@dataclass(frozen=True, slots=True)
class TreeRules:
    """What the walk asks.

    Attributes:
        text: gives a text with its secrets replaced, the same object when it has none.
        key_kind: gives the kind of secret under a key, or None.
        leaf: gives what replaces a text or the bytes under a secret key, from the kind, the text, and whether it stands
            right under the key.
        is_clean: says, quickly, that nothing in the strict JSON of a tree would be replaced.
        doubtful: gives the kind of secret that may stand under a key if its value looks like one, or None.
        opens_bytes: whether bytes are looked into: in trees, not in trees that are the JSON of a text.
    """

    text: Callable[[str], str]
    key_kind: Callable[[str], str | None]
    leaf: Callable[[str, str | bytes, bool], str]
    is_clean: Callable[[bytes], bool]
    doubtful: Callable[[str], str | None] = lambda key: None
    opens_bytes: bool = True


class Around(NamedTuple):
    """What decides how the entries of a dict are read, besides their keys.

    Attributes:
        secret: the kind of the secret key that the dict stands under.
        role: what the dict is a part of.
        record: the kind of secret that the entry "value" is because of the other entries.
        pointers: whether "path" and "from" are pointers, of an operation of a JSON Patch.
        log_probability: whether it has the log probability of a token.
        value: the dict.
    """

    secret: str | None
    role: Role
    record: str | None
    pointers: bool
    log_probability: bool
    value: dict[str, Any]


class Walk:
    """One walk over a tree.

    Args:
        rules: what is a secret.
        holder: a list with the tree as its one item.
        secret: the kind of the secret key that the whole tree stands under, or None.

    Attributes:
        edits: number of a node → what is put into which place of it.
        renames: number of a node → which of its keys are called what.
    """

    def __init__(self, rules: TreeRules, holder: list[Stored], secret: str | None = None) -> None:
        self.edits: dict[int, dict[Place, Any]] = {}
        self.renames: dict[int, dict[str, str]] = {}
        self._rules = rules
        self._unread: dict[tuple[int, int], None] = {}
        self._nodes: list[_Node] = [(holder, secret, -1, 0, "", -1, True)]
        root = holder[0]
        if isinstance(root, dict | list):
            self._nodes.append((root, secret, 0, 0, "", -1, True))
        else:
            self._child(0, 0, root, secret)
        number = 1
        while number < len(self._nodes) or self._unread:
            if number == len(self._nodes):  # parts that nothing refers to
                self._part(*next(iter(self._unread)), None)
                continue
            self._visit(number)
            number += 1

    def built(self) -> Stored:
        """Return the tree with the changes made; what did not change is shared."""
        for number in range(len(self._nodes) - 1, 0, -1):
            value, _, parent, place, *_ = self._nodes[number]
            made = self._made(number, value)
            if made is not value:
                self.edits.setdefault(parent, {})[place] = made
        root = self.edits.get(0, {})
        return root[0] if root else self._nodes[0][0][0]

    def _made(self, number: int, value: Any) -> Any:
        """Return a node with its changes made."""
        edits, renames = self.edits.get(number), self.renames.get(number)
        return copied(value, edits or {}, renames or {}) if edits or renames else value

    def changes(self) -> Iterator[tuple[int, Place, Any, bool]]:
        """Give (id of a container, place, new value or key, whether it is the key) for each single change."""
        for number, edits in self.edits.items():
            yield from ((id(self._nodes[number][0]), place, new, False) for place, new in edits.items())
        for number, renames in self.renames.items():
            yield from ((id(self._nodes[number][0]), key, new, True) for key, new in renames.items())

    def _visit(self, number: int) -> None:
        value = self._nodes[number][0]
        if isinstance(value, list):
            self._visit_list(number, value)
        elif "$type" not in value or not self._visit_tag(number, value):
            self._visit_dict(number, value)

    def _child(
        self, number: int, place: Place, value: Any, secret: str | None, role: Role = "", right: bool | None = None
    ) -> None:
        """Look at a value in a node; `right`: whether it stands right under the secret key, None as the node does."""
        kind = type(value)
        right = self._nodes[number][6] if right is None else right
        if role == _DOUBTFUL and secret is None and type(value) is str and looks_random(value):
            secret = "token"
        if isinstance(value, str):
            new = self._rules.text(value) if secret is None else self._rules.leaf(secret, value, right)
            if new != value:
                self._edit(number, place, new)
        elif isinstance(value, dict | list):
            # In a container of its own a child is as clean as the container.
            if secret is None and not role and len(self._nodes[number][0]) > 1 and self._is_clean(value):
                return
            deep = len(self._nodes) if role == _PARTS else self._nodes[number][5]
            self._nodes.append((value, secret, number, place, role, deep, right))
        elif secret is not None and (kind is int or kind is float):
            self._edit(number, place, self._rules.leaf(secret, repr(value), right))
        elif kind is int and abs(value) >= _LONG_NUMBER:
            self._edit_if_secret(number, place, repr(value))

    def _is_clean(self, value: Any) -> bool:
        try:
            return self._rules.is_clean(dumps(value))
        except TypeError:  # nested too deeply, or no JSON: then piece by piece
            return False

    def _edit_if_secret(self, number: int, place: Place, text: str) -> bool:
        """Replace a value, of which this is the text, as a whole if there is a secret in it."""
        new = self._rules.text(text)
        if new != text:
            self._edit(number, place, new)
        return new != text

    def _edit(self, number: int, place: Place, new: str) -> None:
        self.edits.setdefault(number, {})[place] = new

    # -- dicts and lists -----------------------------------------------------------------------------------------------

    def _visit_dict(self, number: int, value: dict[str, Any]) -> None:
        around = self._around(number, value)
        for key, item in value.items():
            text = self._named(number, around, key)
            if text is not None:
                self._child(number, key, item, *self._context(around, key, text))

    def _around(self, number: int, value: dict[str, Any]) -> Around:
        """Return what decides how the entries of a dict are read, which is a node or stands where one does."""
        _, secret, _, _, role, _, _ = self._nodes[number]
        record = self._kind_of_record(value) if secret is None else None
        return Around(secret, role, record, secret is None and _is_operation(value), "logprob" in value, value)

    def _named(self, number: int, around: Around, key: str) -> str | None:
        """Look at the key of an entry; return it without its secrets, or None when there is no more to look at."""
        item, text = around.value[key], self._rules.text(key)
        if text != key:
            self.renames.setdefault(number, {})[key] = text
        if not (around.pointers and (key == "path" or key == "from") and type(item) is str and item.startswith("/")):
            return text
        pointer = "".join("/" + _escape(self._rules.text(part)) for part in _parts_of(item))
        if pointer != item:
            self._edit(number, key, pointer)
        return None

    def _context(self, around: Around, key: str, text: str) -> Context:
        """Say how an entry of a dict is to be read, given its key, with and without its secrets."""
        rules, secret, item = self._rules, around.secret, around.value[key]
        schema = around.role == _SCHEMA
        own = rules.key_kind(key)
        if text != key:
            own = own or rules.key_kind(text)
        if key == "value" and around.record is not None:
            own = around.record
        part = _DOUBTFUL if around.role == _DOUBTFUL else ""
        if own is None and secret is None and (kind := rules.doubtful(key)) is not None:
            if kind == "token" and type(item) is not int:
                part = _DOUBTFUL
            elif _is_likely(kind, item, around.value):
                own = kind
        if secret is not None and not schema:
            return None if key == "$type" else own or secret, "", own is not None
        if own is not None and type(item) is dict and is_schema(item):
            return own, _SCHEMA, True
        if own is not None and key == "token" and (around.log_probability or _is_log_probability(item)):
            return None, "", None
        if schema and key in SCHEMA_VALUES:
            return secret, "", None
        return own, part, True if own is not None else None

    def _kind_of_record(self, value: dict[str, Any]) -> str | None:
        """Return the kind of secret that the entry "value" of a dict is because of the other entries, or None."""
        if "value" not in value or "$type" in value:
            return None
        names = [name for field in NAME_FIELDS if type(name := value.get(field)) is str]
        if _is_operation(value):
            names += _parts_of(value["path"])
        kinds = [kind for name in names if (kind := self._kind(name)) is not None]
        return kinds[-1] if kinds else None

    def _kind(self, key: str) -> str | None:
        return self._rules.key_kind(key) or self._rules.key_kind(self._rules.text(key))

    def _visit_list(self, number: int, items: list[Any]) -> None:
        _, secret, _, _, role, _, _ = self._nodes[number]
        if role == _PARTS:
            self._unread.update({(number, index): None for index in range(len(items))})
            self._part(number, 0, secret)
            return
        shape = self._shape(number, items)
        if shape == WORDS:
            self._visit_words(number, items, range(len(items)))
            return
        for place, context in self._contexts(number, items, shape, range(len(items))):
            self._child(number, place, items[place], *context)

    def _shape(self, number: int, items: list[Any]) -> Shape:
        """Say how the items of a list are to be read, which is a node or stands where one does."""
        _, secret, _, _, role, _, _ = self._nodes[number]
        if role == _PAIR or (role == _ENTRY and len(items) == 2):
            return _TWO
        if secret is None and items and _TEXT.issuperset(map(type, items)):
            return WORDS
        if role == _DOUBTFUL:
            return _DOUBTFUL
        if role == ENTRIES:
            return _ENTRY
        return _PAIR if secret is None and role != _COUNTS and self._are_pairs(items) else ""

    def _contexts(
        self, number: int, items: list[Any], shape: Shape, places: Iterable[int]
    ) -> Iterator[tuple[int, Context]]:
        """Say how the items at some places of a list are to be read; not for words."""
        secret = self._nodes[number][1]
        if shape == _TWO:
            name = self._text_of(items[0])
            own = self._kind(name) if name is not None else None
            for place in places:
                yield place, (own or secret, "", True if own is not None else None) if place else (None, "", None)
            return
        for place in places:
            before = items[place - 1] if place and shape != _DOUBTFUL else None
            option = self._kind(before) if secret is None and type(before) is str and before.startswith("--") else None
            role = shape if shape == _DOUBTFUL or type(items[place]) is not str else ""
            yield place, (option or secret, role, True if option is not None else None)

    def _visit_words(self, number: int, items: list[str], places: Iterable[int]) -> None:
        """Look at some places of a list of texts: perhaps the arguments of a command, or a name and its value."""
        role = self._nodes[number][4]
        options = dict(in_arguments(items)) if len(items) > 1 else {}
        pair = len(items) == 2 and _may_be_secret(items[1]) and self._kind(items[1]) is None
        for place in places:
            item, before = items[place], items[place - 1] if place else ""
            start = options.get(place)
            if start is not None and not stands_for_a_secret(item[start:].encode("utf-8", "surrogatepass")):
                self._edit(number, place, item[:start] + self._rules.leaf("password", item[start:], True))
            else:
                kind = self._kind(before) if place and (before.startswith("--") or pair) else None
                self._child(number, place, item, kind, role)

    def _are_pairs(self, items: list[Any]) -> bool:
        """Say whether all items are a key and a value; of plain ones in calls that loop in C."""
        if not all(map(self._is_pair, items[:8])):
            return False
        plain = _LIST.issuperset(map(type, items)) and _TWO_ITEMS.issuperset(map(len, items))
        if plain and _TEXT.issuperset(map(type, map(itemgetter(0), items))):
            return True
        return all(map(self._is_pair, items))

    def _is_pair(self, item: Any) -> bool:
        """Say whether an item is a key and a value: a list or tuple of two that begins with a text or with bytes."""
        if type(item) is dict and item.get("$type") == "tuple":
            item = item.get("items")
        return type(item) is list and len(item) == 2 and self._text_of(item[0]) is not None

    def _text_of(self, item: Any) -> str | None:
        """Return the text that the first of a pair is, also where it is bytes."""
        if type(item) is not dict or item.get("$type") not in _BYTES or not self._rules.opens_bytes:
            return item if type(item) is str else None
        try:
            return base64.b64decode(item.get("base64", ""), validate=True).decode("ascii")
        except (binascii.Error, ValueError, TypeError):
            return None

    # -- tags ----------------------------------------------------------------------------------------------------------

    def _visit_tag(self, number: int, tag: dict[str, Any]) -> bool:
        """Look into a tag; False when it is to be read as an ordinary dict."""
        _, secret, parent, place, role, deep, right = self._nodes[number]
        kind = tag["$type"]
        if type(kind) is not str:
            return False
        if kind in _BYTES and type(tag.get("base64")) is str and (self._rules.opens_bytes or secret is not None):
            self._visit_bytes(parent, place, tag["base64"], secret, right)
        elif kind in _KEYED and type(tag.get("items")) is list:
            self._child(number, "items", tag["items"], secret, ENTRIES)
        elif kind == "counter" and secret is None:
            self._child(number, "items", tag.get("items"), None, _COUNTS)
        elif kind == "tuple" and role == _PAIR:
            self._child(number, "items", tag["items"], secret, _PAIR)
        elif kind == "deep" and type(tag.get("parts")) is list and tag["parts"]:
            self._child(number, "parts", tag["parts"], secret, _PARTS)
        elif kind == "part" and type(tag.get("index")) is int and (deep, tag["index"]) in self._unread:
            self._part(deep, tag["index"], secret)
        elif secret is None:
            # A number or date with a token in it could not be read: the token takes the place of the whole.
            return (
                kind in _READ_BACK
                and type(tag.get("value")) is str
                and self._edit_if_secret(parent, place, tag["value"])
            )
        elif kind in _LEAVES and (kind != "subclass" or type(tag.get("value")) is str):
            self._edit(parent, place, self._rules.leaf(secret, _leaf_text(tag), right))
        elif kind in _CONTAINERS:
            for name, item in tag.items():
                if name not in _ABOUT_THE_VALUE:
                    self._child(number, name, item, secret)
        elif kind not in _NO_SECRET:
            return False
        return True

    def _visit_bytes(self, parent: int, place: Place, text: str, secret: str | None, right: bool) -> None:
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            return
        decoded = data.decode("utf-8", "surrogateescape")
        if data and (secret is not None or self._rules.text(decoded) != decoded):
            self._edit(parent, place, self._rules.leaf(secret or "bytes", data, right and secret is not None))

    def _part(self, parts: int, index: int, secret: str | None) -> None:
        """Look at one part of a "deep" tag, where another part refers to it."""
        del self._unread[parts, index]
        self._child(parts, index, self._nodes[parts][0][index], secret)


def _may_be_secret(value: str) -> bool:
    return looks_like_a_password(value.encode("utf-8", "surrogatepass"))


def _is_likely(kind: str, item: Any, around: dict[str, Any]) -> bool:
    """Say whether the value under a doubtful key is a secret."""
    if kind == "pin" or kind == "otp":
        return type(item) in (int, str) and PIN.fullmatch(str(item)) is not None
    return type(item) is str and (_may_be_secret(item) or not USERS.isdisjoint(map(str.lower, around)))


def _is_operation(value: dict[str, Any]) -> bool:
    """Say whether a dict is an operation of a JSON Patch."""
    path = value.get("path")
    return type(value.get("op")) is str and type(path) is str and path.startswith("/")


def _is_log_probability(item: Any) -> bool:
    return type(item) is dict and "logprob" in item


def _parts_of(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _leaf_text(tag: dict[str, Any]) -> str:
    for name in ("value", "escaped", "repr"):
        if type(text := tag.get(name)) is str:
            return text
    return dumps(tag).decode()


def copied(value: Any, edits: dict[Place, Any], renames: dict[str, str]) -> Any:
    """Return a copy of a container with values put into places of it, and with other keys."""
    out: Any = dict(value) if isinstance(value, dict) else list(value)
    for place, new in edits.items():
        out[place] = new
    if not renames:
        return out
    taken = set(out)
    renamed = {}
    for key, item in out.items():
        new = renames.get(key, key)
        count = 2
        while new != key and new in taken:  # two keys became one text: the second stays apart
            new = f"{renames[key]}#{count}"
            count += 1
        taken.add(new)
        renamed[new] = item
    return renamed
