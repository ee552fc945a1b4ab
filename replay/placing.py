"""A value at a place of a payload, also inside of what a JSON Patch does not lead into.

A patch leads into objects and lists. The fields of an instance, the items of a tuple and keys that are no texts have
paths all the same: `diff` prints them, `blame` takes them (`insides`). So a value can be set there: what it is in is
made anew from its stored form, with that one place changed, and the patch replaces the outermost of what it does not
lead into. Made anew it is of the same classes, and all else in it is what it was; where that cannot be, nothing is set.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..recorder.decoding import decode_noting
from ..recorder.errors import UsageError
from ..recorder.hashes import same
from ..recorder.introspection import attributes_of, isinstance_of
from ..recorder.leaves import Leaf
from ..recorder.type_registry import TypeRegistry, default_types
from ..recorder.values import encode, lossy_in
from .insides import fields_of, named, opened
from .paths import display_keys, join, keys_of, split
from .readable import readable

_INDEX: Final = re.compile(r"0|[1-9][0-9]*")
_PAIRS: Final = frozenset(("dict", "ordereddict", "defaultdict", "counter"))
_ITEMS: Final = frozenset(("tuple", "deque"))
_FIELDS: Final = ("fields", "extra", "state")
_SHOWN: Final = 60
_NAMED: Final = 8  # fields that are named where there is no such field
_SEQUENCES: Final = (list, tuple, set, frozenset, deque)


def placed(payload: Any, path: str, value: Any, *, stored: bool = False) -> dict[str, Any]:
    """The operation that puts a value at a place of a payload, whether or not there is one already.

    Args:
        payload: as it is.
        path: a JSON Pointer, as differences name the place.
        value: what is put there.
        stored: both are in stored form; else values of a user's, the payload perhaps with leaves (`recorder.leaves`).

    Raises:
        UsageError: the place has nothing around it, or what it is in cannot be made anew.
    """
    try:
        return _placed(payload, split(path), value, stored)
    except _NoPlace as error:
        raise UsageError(f"{path} cannot be set: {error}") from None


class _NoPlace(Exception):
    """There is no such place, and why."""


def _placed(payload: Any, tokens: Sequence[str], value: Any, stored: bool) -> dict[str, Any]:
    node = payload
    for depth, token in enumerate(tokens):
        is_last = depth == len(tokens) - 1
        if not _is_led_into(node, stored) or (stored and is_last and token == "$type" and type(node) is dict):
            made = (_with_stored if stored else _with_live)(node, tokens, depth, value)
            return {"op": "replace", "path": join(tokens[:depth]), "value": made}
        if is_last:
            is_there = _is_there(node, token)
            return {"op": "replace" if is_there else "add", "path": join(tokens), "value": value}
        node = _child(node, token)
    return {"op": "replace", "path": "", "value": value}


def _is_led_into(node: Any, stored: bool) -> bool:
    """Whether a value is a container in which a JSON Patch finds its way."""
    if type(node) is dict:
        return "$type" not in node if stored else all(type(key) is str for key in node)
    return type(node) is list


def _child(node: Any, token: str) -> Any:
    """What a container has at a part of a path."""
    if type(node) is dict and token in node:
        return node[token]
    if type(node) is list and _INDEX.fullmatch(token) and int(token) < len(node):
        return node[int(token)]
    key = int(token) if type(node) is list and _INDEX.fullmatch(token) else token
    raise _NoPlace(f"the payload has nothing at {key!r} on the way there")


def _is_there(node: Any, token: str) -> bool:
    """Whether a container has something at the last part of a path; there is room for it otherwise."""
    if type(node) is dict:
        return token in node
    if _INDEX.fullmatch(token) and int(token) < len(node):
        return True
    if token in ("-", str(len(node))):
        return False
    raise _NoPlace(f"there is no object or list around it that has room for {token!r}")


def _seen(node: Any, tokens: Sequence[str], depth: int) -> str:
    """A value as it is told, and where it is."""
    return f"{readable(node, _SHOWN)} at {display_keys(keys_of(join(tokens[:depth])))}"


# -- in stored form --------------------------------------------------------------------------------------------------


def _with_stored(node: Any, tokens: Sequence[str], depth: int, value: Any) -> Any:
    """A stored value with another one at a place inside; all else is shared.

    Args:
        node: what is at the first `depth` parts of the path.
        tokens: the parts of the path.
        depth: see there.
        value: in stored form.
    """
    if depth == len(tokens):
        return value
    token, is_last = tokens[depth], depth == len(tokens) - 1
    if type(node) is list:
        return _in_list(node, tokens, depth, value)
    if type(node) is not dict:
        raise _NoPlace(f"there is no object or list around it, but {_seen(node, tokens, depth)}")
    if "$type" not in node:
        if is_last and token == "$type":  # which must not be taken for a tag
            return {"$type": "dict", "items": [[key, item] for key, item in (node | {token: value}).items()]}
        child = None if is_last else _child(node, token)
        return {**node, token: _with_stored(child, tokens, depth + 1, value)}
    found = opened(node)
    if found is None:
        raise _NoPlace(f"{_seen(node, tokens, depth)} is one value; set that as a whole")
    if lossy_in(node):
        raise _NoPlace(f"of {_seen(node, tokens, depth)} only a part was recorded; set that as a whole")
    kind = node["$type"]
    if kind in _PAIRS:
        return _in_pairs(node, tokens, depth, value)
    if kind in _ITEMS:
        is_full = node.get("maxlen") is not None and len(node["items"]) >= node["maxlen"]
        if is_full and token in ("-", str(len(node["items"]))):
            raise _NoPlace(f"{_seen(node, tokens, depth)} is full")
        return {**node, "items": _in_list(node["items"], tokens, depth, value)}
    if kind in ("subclass", "registered"):
        return {**node, "value": _with_stored(node["value"], tokens, depth, value)}
    if found.sort == ("unknown",):
        if token == "$type":
            raise _NoPlace(f"what {_seen(node, tokens, depth)} stands for is not known; set that as a whole")
        child = None if is_last else _child(node, token)
        return {**node, token: _with_stored(child, tokens, depth + 1, value)}
    return _in_fields(node, tokens, depth, value)


def _in_list(items: list[Any], tokens: Sequence[str], depth: int, value: Any) -> list[Any]:
    token, is_last = tokens[depth], depth == len(tokens) - 1
    if is_last and not _is_there(items, token):
        return [*items, value]
    child = _child(items, token)
    at = int(token)
    return [*items[:at], _with_stored(child, tokens, depth + 1, value), *items[at + 1 :]]


def _in_pairs(tag: dict[str, Any], tokens: Sequence[str], depth: int, value: Any) -> dict[str, Any]:
    """A dict that is stored as pairs; a key that it does not have yet is a text."""
    token, is_last = tokens[depth], depth == len(tokens) - 1
    found, name = opened(tag), named(tag, token)
    pairs = [list(pair) for pair in tag["items"]]
    if name is None or found is None:
        if not is_last:
            raise _NoPlace(f"{_seen(tag, tokens, depth)} has no key {token!r} on the way there")
        return {**tag, "items": [*pairs, [encode(token).stored, value]]}
    pair = pairs[[*found.children].index(name)]
    pair[1] = _with_stored(pair[1], tokens, depth + 1, value)
    return {**tag, "items": pairs}


def _in_fields(tag: dict[str, Any], tokens: Sequence[str], depth: int, value: Any) -> dict[str, Any]:
    """An instance: one of its fields, of what a model has beside these, or of its other attributes."""
    is_last = depth == len(tokens) - 1
    name = named(tag, tokens[depth])
    known = [key for part in _FIELDS if part in tag for key in fields_of(tag[part]) or ()]
    if name is None and is_last and "extra" in tag:  # a model that takes any
        return _noted_as_set({**tag, "extra": _with_stored(tag["extra"], tokens, depth, value)}, tokens[depth])
    for part in _FIELDS if isinstance(name, str) else ():
        if name in (fields_of(tag.get(part)) or ()):
            inside = [*tokens[:depth], str(name), *tokens[depth + 1 :]]
            made = {**tag, part: _with_stored(tag[part], inside, depth, value)}
            return made if part == "state" or same(made[part], tag[part]) else _noted_as_set(made, str(name))
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    raise _NoPlace(f"{_seen(tag, tokens, depth)} has no such field; it has {', '.join(known[:_NAMED])}{more}")


def _noted_as_set(tag: dict[str, Any], name: str) -> dict[str, Any]:
    """A model knows which of its fields were given; so it does when one is given later."""
    given = tag.get("fields_set")
    if type(given) is not list or name in given:
        return tag
    return {**tag, "fields_set": sorted([*given, name], key=str)}


# -- values of a user's ----------------------------------------------------------------------------------------------


def _with_live(node: Any, tokens: Sequence[str], depth: int, value: Any) -> Any:
    """A user's value with another one at a place inside, a copy; arguments as of `_with_stored`."""
    if depth == len(tokens):
        return value
    token = tokens[depth]
    if type(node) is list:
        if depth == len(tokens) - 1 and not _is_there(node, token):
            return [*node, value]
        child, at = _child(node, token), int(token)
        return [*node[:at], _with_live(child, tokens, depth + 1, value), *node[at + 1 :]]
    if type(node) is dict:
        key = _key_in(node, token)
        if key not in node and depth < len(tokens) - 1:
            _child(node, token)
        return {**node, key: _with_live(node.get(key), tokens, depth + 1, value)}
    live, before = (node.live, node.stored) if type(node) is Leaf else (node, encode(node).stored)
    after = _with_stored(before, tokens, depth, encode(value).stored)
    made, unread = decode_noting(after, _types_in((live, value)))
    if unread or not same(encode(made).stored, after):
        why = next(iter(unread), "it does not come back as it is written")
        raise _NoPlace(f"{_seen(before, tokens, depth)} cannot be made anew ({why}); set that as a whole")
    return made


def _key_in(node: Mapping[Any, Any], token: str) -> Any:
    """The key of a dict that a part of a path names; the text itself if it has none."""
    if token in node:
        return token
    tag = {"$type": "dict", "items": [[encode(key).stored, None] for key in node]}
    found, name = opened(tag), named(tag, token)
    return token if name is None or found is None else [*node][[*found.children].index(str(name))]


def _types_in(value: Any) -> TypeRegistry:
    """The classes of all that is in a value, beside those that are registered: these it may become again."""
    types = TypeRegistry(default_types)
    todo, seen = [value], {}
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        one = one.live if type(one) is Leaf else one
        if isinstance_of(one, dict):
            todo += [*dict.keys(one), *dict.values(one)]
        for base in _SEQUENCES:
            if isinstance_of(one, base):
                todo += base.__iter__(one)
        if type(one).__module__ != "builtins" and types.of(type(one)) is None:
            types.register(type(one))
        todo += attributes_of(one).values()
    return types
