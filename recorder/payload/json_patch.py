"""JSON Patch (RFC 6902) on shared trees.

A patch is applied whole or refused whole. Containers on the path of an operation are copied once per patch, everything
else stays shared with the payload, so a patch costs its paths and not the payload. For `test`, numbers are equal if
they are numerically equal, as the standard has it; true is no number.

A path leads to keys that are texts, and nowhere in a tag (see `trees`). Nor does it make one: in a tree in stored form
no object has the key `$type`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from jsonpointer import JsonPointer, JsonPointerException

from ..errors import ChangeRefused
from .blocking import enforce
from .property_paths import index_of
from .result import ChangeResult, Options
from .trees import STORED, TAG, Trees, is_array, is_unchanged


def apply_json_patch(payload: Any, request: Any, options: Options) -> ChangeResult:
    """Apply a list of operations; see `apply_change`. Counts: a move is a deletion and an addition; a test is none."""
    patch = apply_operations(payload, request, options.trees)
    applied = {"additions": patch.additions, "updates": patch.updates, "deletions": patch.deletions}
    return enforce(payload, ChangeResult(patch.root, applied, applied_request=request), options)


def apply_operations(payload: Any, operations: Any, trees: Trees) -> Patched:
    """Apply a list of operations, or raise ChangeRefused."""
    if not isinstance(operations, list | tuple):
        raise ChangeRefused(
            f"json-patch: a patch is a list of operations, not {type(operations).__name__}. Nothing was changed."
        )
    patch = Patched(payload, trees)
    for number, operation in enumerate(operations):
        try:
            patch.apply(operation)
        except _Impossible as reason:
            raise ChangeRefused(
                f"json-patch: operation {number} ({_describe(operation)}): {reason}. Nothing was changed."
            ) from None
    return patch


def _describe(operation: Any) -> str:
    if not isinstance(operation, dict):
        return repr(operation)
    named = [f"{operation.get('op')!s} {operation.get('path')!r}"]
    if "from" in operation:
        named.append(f"from {operation['from']!r}")
    return " ".join(named)


class _Impossible(Exception):
    """Why an operation cannot be carried out."""


@dataclass(slots=True)
class Patched:
    """A tree while operations are applied to it; `root` is the tree, and the counts say what was done so far."""

    root: Any
    trees: Trees
    additions: int = 0
    updates: int = 0
    deletions: int = 0
    _owned: dict[int, Any] = field(default_factory=dict)

    def apply(self, operation: Any) -> None:
        """Carry out one operation."""
        if not isinstance(operation, dict):
            raise _Impossible("an operation is an object")
        name = operation.get("op")
        carry_out = _CARRY_OUT.get(name) if isinstance(name, str) else None
        if carry_out is None:
            raise _Impossible(f"there is no such operation; there are {', '.join(_CARRY_OUT)}")
        carry_out(self, operation)

    def _add(self, operation: dict[str, Any]) -> None:
        self._put(_keys(operation, "path"), _value(operation))

    def _remove(self, operation: dict[str, Any]) -> None:
        self._take(_keys(operation, "path"))

    def _replace(self, operation: dict[str, Any]) -> None:
        keys, value = _keys(operation, "path"), _value(operation)
        places = self._places(keys)
        if is_unchanged(self._at(places), value):
            pass
        elif places:
            self._own_above(places)[places[-1]] = value
        else:
            self.root = value
        self.updates += 1

    def _move(self, operation: dict[str, Any]) -> None:
        source, target = _keys(operation, "from"), _keys(operation, "path")
        if len(source) < len(target) and target[: len(source)] == source:
            raise _Impossible("a value cannot be moved into itself")
        value = self._find(source)
        if source != target:
            self._take(source)
            self._put(target, value)

    def _copy(self, operation: dict[str, Any]) -> None:
        value = self._find(_keys(operation, "from"))
        self._owned.clear()  # what is copied is in two places now, and may no longer be written to in either
        self._put(_keys(operation, "path"), value)

    def _test(self, operation: dict[str, Any]) -> None:
        found, expected = self._find(_keys(operation, "path")), _value(operation)
        if not _equal(found, expected, self.trees):
            raise _Impossible(f"expected {_shown(expected)}, found {_shown(found)}")

    def _find(self, keys: list[str]) -> Any:
        return self._at(self._places(keys))

    def _at(self, places: list[Any]) -> Any:
        value = self.root
        for place in places:
            value = value[place]
        return value

    def _places(self, keys: list[str]) -> list[Any]:
        """The keys and indexes under which a path that exists is found."""
        node, places = self.root, []
        for depth in range(len(keys)):
            place = self._place(node, keys, depth)
            places.append(place)
            node = node[place]
        return places

    def _place(self, container: Any, keys: list[str], depth: int) -> Any:
        """The key or index under which the container at `keys[:depth]` has something that `keys[depth]` names."""
        key = keys[depth]
        if self.trees.is_object(container):
            if key in container:
                return key
            raise _Impossible(f"there is no {key!r} in {_path(keys[:depth])}")
        if not is_array(container):
            raise self._no_container(container, keys[:depth])
        index = index_of(key)
        if index is not None and index < len(container):
            return index
        raise _Impossible(f"there is no item {key!r} in the array {_path(keys[:depth])} of {len(container)} items")

    def _put(self, keys: list[str], value: Any) -> None:
        if not keys:
            self.root = value
            self.updates += 1
            return
        above, key = self._places(keys[:-1]), keys[-1]
        if not self.trees.is_container(self._at(above)):
            raise self._no_container(self._at(above), keys[:-1])
        container = self._own_above([*above, key])
        if type(container) is list:
            index = len(container) if key == "-" else index_of(key)
            if index is None or index > len(container):
                raise _Impossible(f"{key!r} is no place in the array {_path(keys[:-1])} of {len(container)} items")
            container.insert(index, value)
            self.additions += 1
        elif key == TAG and self.trees is STORED:
            raise _Impossible(f"no object in stored form has the key {TAG!r}")
        else:
            self.updates += key in container
            self.additions += key not in container
            container[key] = value

    def _take(self, keys: list[str]) -> None:
        if not keys:
            raise _Impossible("the payload as a whole cannot be removed; replace it")
        places = self._places(keys)
        del self._own_above(places)[places[-1]]
        self.deletions += 1

    def _own_above(self, places: list[Any]) -> Any:
        """The container in which the last place is, of which this patch has a copy of its own, as of all above it."""
        node = self.root = self._own(self.root)
        for place in places[:-1]:
            below = node[place] = self._own(node[place])
            node = below
        return node

    def _own(self, node: Any) -> Any:
        if id(node) in self._owned:
            return node
        made: Any = list(node) if is_array(node) else dict(node)
        self._owned[id(made)] = made  # the reference keeps the id from being used again
        return made

    def _no_container(self, value: Any, keys: list[str]) -> _Impossible:
        return _Impossible(f"{_path(keys)} is {_kind(value)}, which has nothing below it")


_NUMBERS: Final = frozenset((int, float))

_CARRY_OUT: Final[dict[str, Callable[[Patched, dict[str, Any]], None]]] = {
    "add": Patched._add,
    "remove": Patched._remove,
    "replace": Patched._replace,
    "move": Patched._move,
    "copy": Patched._copy,
    "test": Patched._test,
}


def _keys(operation: dict[str, Any], member: str) -> list[str]:
    path = operation.get(member)
    if not isinstance(path, str):
        raise _Impossible(f"{member!r} must be a JSON Pointer, found {_shown(path)}")
    if path.startswith("/") and "~" not in path:
        return path[1:].split("/")
    try:
        return list(JsonPointer(path).parts)
    except JsonPointerException as error:
        raise _Impossible(f"{path!r} is no JSON Pointer: {error}") from None


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise _Impossible("'value' is missing")
    return operation["value"]


def _equal(found: Any, expected: Any, trees: Trees) -> bool:
    """Say whether two values are equal as RFC 6902 has it (section 4.6)."""
    if type(found) in _NUMBERS and type(expected) in _NUMBERS:
        return bool(found == expected) or trees.same(found, expected)
    if is_array(found) and is_array(expected):
        return len(found) == len(expected) and all(_equal(*pair, trees) for pair in zip(found, expected, strict=True))
    if trees.is_object(found) and trees.is_object(expected):
        return found.keys() == expected.keys() and all(
            _equal(value, expected[key], trees) for key, value in found.items()
        )
    return trees.same(found, expected)


def _path(keys: list[str]) -> str:
    return repr(JsonPointer.from_parts(keys).path) if keys else "the payload"


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "one value"
    return {type(None): "null", str: "a text", bool: "a boolean", int: "a number", float: "a number"}.get(
        type(value), f"a {type(value).__name__}"
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
