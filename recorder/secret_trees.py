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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

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

_USERS: Final = frozenset(("user", "username", "login", "email"))
"""Beside one of these, `pass` is a password whatever it looks like."""

_SCHEMA_WORDS: Final = frozenset(
    (
        *("type", "title", "description", "format", "pattern", "default", "enum", "const", "example", "examples"),
        *("items", "properties", "required", "nullable", "additionalProperties", "anyOf", "oneOf", "allOf", "not"),
        *("minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "uniqueItems"),
        *("readOnly", "writeOnly", "deprecated", "$ref", "$defs"),
    )
)
_SCHEMA_MARKS: Final = frozenset(("type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"))
_SCHEMA_VALUES: Final = frozenset(("default", "enum", "const", "example", "examples"))
_SCHEMA_TYPES: Final = frozenset(("string", "integer", "number", "boolean", "object", "array", "null"))

Role: TypeAlias = str
_PAIR: Final = "pair"
_ENTRY: Final = "entry"
_ENTRIES: Final = "entries"
_PARTS: Final = "parts"
_SCHEMA: Final = "schema"
_COUNTS: Final = "counts"
_DOUBTFUL: Final = "doubtful"
"""Of what stands under `tokens`: some are secrets, most are counts or words, so each has to look like a secret."""

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
            edits, renames = self.edits.get(number), self.renames.get(number)
            if edits or renames:
                value, _, parent, place, *_ = self._nodes[number]
                self.edits.setdefault(parent, {})[place] = _copy(value, edits or {}, renames or {})
        root = self.edits.get(0, {})
        return root[0] if root else self._nodes[0][0][0]

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
        _, secret, _, _, role, _, _ = self._nodes[number]
        rules = self._rules
        schema = role == _SCHEMA
        record = self._kind_of_record(value) if secret is None else None
        pointers = secret is None and _is_operation(value)
        doubt = role == _DOUBTFUL
        for key, item in value.items():
            text = rules.text(key)
            own = rules.key_kind(key)
            if text != key:
                self.renames.setdefault(number, {})[key] = text
                own = own or rules.key_kind(text)
            if key == "value" and record is not None:
                own = record
            part = _DOUBTFUL if doubt else ""
            if own is None and secret is None and (kind := rules.doubtful(key)) is not None:
                if kind == "token" and type(item) is not int:
                    part = _DOUBTFUL
                elif _is_likely(kind, item, value):
                    own = kind
            if secret is not None and not schema:
                self._child(number, key, item, None if key == "$type" else own or secret, right=own is not None)
            elif own is not None and type(item) is dict and is_schema(item):
                self._child(number, key, item, own, _SCHEMA, right=True)
            elif own is not None and key == "token" and _is_log_probability(value, item):
                self._child(number, key, item, None)
            elif schema and key in _SCHEMA_VALUES:
                self._child(number, key, item, secret)
            elif pointers and (key == "path" or key == "from") and type(item) is str and item.startswith("/"):
                pointer = "".join("/" + _escape(rules.text(part)) for part in _parts_of(item))
                if pointer != item:
                    self._edit(number, key, pointer)
            else:
                self._child(number, key, item, own, part, right=True if own is not None else None)

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
        if role == _PAIR or (role == _ENTRY and len(items) == 2):
            name = self._text_of(items[0])
            own = self._kind(name) if name is not None else None
            self._child(number, 0, items[0], None)
            self._child(number, 1, items[1], own or secret, right=True if own is not None else None)
            return
        if secret is None and items and all(type(item) is str for item in items):
            self._visit_words(number, items, role)
            return
        if role == _DOUBTFUL:
            for place, item in enumerate(items):
                self._child(number, place, item, secret, role)
            return
        role = _ENTRY if role == _ENTRIES else _PAIR if secret is None and role != _COUNTS else ""
        if role == _PAIR and not all(self._is_pair(item) for item in items):
            role = ""
        option: str | None = None
        for place, item in enumerate(items):
            right = True if option is not None else None
            self._child(number, place, item, option or secret, role if type(item) is not str else "", right=right)
            option = self._kind(item) if secret is None and type(item) is str and item.startswith("--") else None

    def _visit_words(self, number: int, items: list[str], role: Role) -> None:
        """Look at a list of texts: perhaps the arguments of a command, or a name and its value."""
        options = dict(in_arguments(items)) if len(items) > 1 else {}
        pair = len(items) == 2 and _may_be_secret(items[1]) and self._kind(items[1]) is None
        kind = None
        for place, item in enumerate(items):
            start = options.get(place)
            if start is not None and not stands_for_a_secret(item[start:].encode("utf-8", "surrogatepass")):
                self._edit(number, place, item[:start] + self._rules.leaf("password", item[start:], True))
            else:
                self._child(number, place, item, kind, role)
            kind = self._kind(item) if item.startswith("--") or pair else None

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
            self._child(number, "items", tag["items"], secret, _ENTRIES)
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
    return type(item) is str and (_may_be_secret(item) or not _USERS.isdisjoint(map(str.lower, around)))


def is_schema(value: dict[str, Any]) -> bool:
    """Say whether a dict describes a value, as the JSON Schema of a parameter does."""
    if not (value.keys() & _SCHEMA_MARKS) or not all(key in _SCHEMA_WORDS or key.startswith("x-") for key in value):
        return False
    types = value.get("type", "string")
    return all(type(kind) is str and kind in _SCHEMA_TYPES for kind in (types if type(types) is list else [types]))


def _is_operation(value: dict[str, Any]) -> bool:
    """Say whether a dict is an operation of a JSON Patch."""
    path = value.get("path")
    return type(value.get("op")) is str and type(path) is str and path.startswith("/")


def _is_log_probability(value: dict[str, Any], item: Any) -> bool:
    return "logprob" in value or (type(item) is dict and "logprob" in item)


def _parts_of(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _leaf_text(tag: dict[str, Any]) -> str:
    for name in ("value", "escaped", "repr"):
        if type(text := tag.get(name)) is str:
            return text
    return dumps(tag).decode()


def _copy(value: Any, edits: dict[Place, Any], renames: dict[str, str]) -> Any:
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
