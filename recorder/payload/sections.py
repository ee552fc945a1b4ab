"""What a request says about a place in the payload, and where it says anything at all.

A place is named by its *path*: the keys on the way there, joined with dots, indexes included. None is the empty path,
the payload itself, which is not the path of the key "". A section is asked by path, as lodash's `get` is; and it
can tell below which keys of a place it has more to say, so that nobody needs to search the payload for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from .property_paths import get, index_of, own_keys, tokens, walk
from .request import NEW, REMOVE, REPLACE, UPDATE
from .trees import LIVE, UNDEFINED, Trees, is_array, is_object, key_text


def join_path(path: str | None, key: str) -> str:
    """The path of a key below a path. None is the empty path, which is not the path of the key ""."""
    return key if path is None else f"{path}.{key}"


def _is_plain(path: str | None) -> bool:
    """Say whether whatever is looked up below a path is found below what is found at the path.

    Brackets may span the dot between two keys, and an empty key reads as none; below these, every place is asked.
    """
    return path is None or not (
        "[" in path or "]" in path or ".." in path or path == "" or path[0] == "." or path[-1] == "."
    )


def is_significant(value: Any) -> bool:
    """Say whether an item of an array in a request says anything: `{}` only holds a place."""
    return value is not UNDEFINED and not (is_object(value) and not value)


class Section:
    """One section of a request, asked by joined path; `names` are properties that stray keys left on an array."""

    __slots__ = ("_dotted", "_names", "_root", "_trees")

    def __init__(self, root: Any, names: dict[str, Any] | None = None, trees: Trees = LIVE) -> None:
        self._root = root
        self._names = names
        self._trees = trees
        keys = [*(root if trees.is_object(root) else ()), *(names or ())]
        self._dotted = [key for key in keys if isinstance(key, str) and ("." in key or "[" in key)]

    def value(self, path: str) -> Any:
        """What the section says about the key at a path, or UNDEFINED."""
        found = UNDEFINED if self._names is None else get(self._names, path, self._trees)
        return get(self._root, path, self._trees) if found is UNDEFINED and self._root is not UNDEFINED else found

    def node(self, path: str | None) -> Any:
        """What the section says about the container at a path, or UNDEFINED; with no path that is all of it."""
        return self.value(path) if path else self._root

    def part(self, path: str | None, key: Any, name: str) -> Section:
        """What the section says about a key that is no text, as a section in which the path of the key is `name`."""
        node = self.node(path)
        return Section({name: node[key]}, trees=self._trees) if self._trees.is_object(node) and key in node else NOTHING

    def below(self, path: str | None) -> Iterator[str]:
        """The keys below a plain path, other than those of an object `node` returns, where the section may say more."""
        for root in (self._root, self._names):
            found = walk(root, tokens(path), self._trees) if path else root
            if is_array(found):
                yield from (str(i) for i, value in enumerate(found) if value is not None and is_significant(value))
            elif type(found) is str:
                yield from map(str, range(len(found)))
            elif self._trees.is_object(found) and (self._dotted or root is self._names):
                yield from (key for key in found if isinstance(key, str))
        for key in self._dotted:
            if path is None or key.startswith(f"{path}."):
                yield from _beginnings(key if path is None else key[len(path) + 1 :])


def _beginnings(path: str) -> Iterator[str]:
    yield from (path[:i] for i, char in enumerate(path) if char == ".")
    yield path


NOTHING: Final = Section(UNDEFINED)
"""A section that is not there."""


class Request:
    """The four sections of a request, or of the part of one that is about a part of the payload.

    Attributes:
        prefix: the path of that part in the payload, or None; paths begin below it.
        asked: what of `prefix` is in the paths that permissions are asked for, or None.
        trees: how to look at payload and sections.
    """

    __slots__ = ("asked", "new", "prefix", "remove", "replace", "trees", "update")

    def __init__(
        self,
        *,
        replace: Section = NOTHING,
        remove: Section = NOTHING,
        update: Section = NOTHING,
        new: Section = NOTHING,
        prefix: str | None = None,
        asked: str | None = None,
        trees: Trees = LIVE,
    ) -> None:
        self.replace = replace
        self.remove = remove
        self.update = update
        self.new = new
        self.prefix = prefix
        self.asked = asked
        self.trees = trees

    @classmethod
    def of(cls, request: dict[str, Any], names: dict[str, dict[str, Any]], trees: Trees) -> Request:
        """The sections of a request; `names` as in `Correction`."""

        def section(name: str) -> Section:
            return Section(request[name], names.get(name), trees) if name in request else NOTHING

        return cls(
            replace=section(REPLACE), remove=section(REMOVE), update=section(UPDATE), new=section(NEW), trees=trees
        )

    def about_item(self, wanted: Any, path: str) -> Request:
        """The request that an object in `updateElements` is for an item of an array: a request of its own.

        Paths in it, and those that permissions are asked for, begin at the item.
        """
        return Request(update=Section(wanted, trees=self.trees), prefix=self.full(path), trees=self.trees)

    def about(self, path: str | None, key: Any, name: str) -> Request:
        """The part of the request about a key that is no text, in the object at a path; in it, the key is `name`."""
        return Request(
            replace=self.replace.part(path, key, name),
            remove=self.remove.part(path, key, name),
            update=self.update.part(path, key, name),
            new=self.new.part(path, key, name),
            prefix=self.full(path) or None,
            asked=None if path is None else self.permitted(path),
            trees=self.trees,
        )

    def without_new(self) -> Request:
        """The request for what is inside the items of an array: new items are appended, never merged into one."""
        if self.new is NOTHING:
            return self
        return Request(
            replace=self.replace,
            remove=self.remove,
            update=self.update,
            prefix=self.prefix,
            asked=self.asked,
            trees=self.trees,
        )

    def permitted(self, path: str) -> str:
        """The path that permissions are asked for."""
        return path if self.asked is None else f"{self.asked}.{path}"

    def full(self, path: str | None) -> str:
        """The path in the payload."""
        if self.prefix is None or path is None:
            return self.prefix or path or ""
        return f"{self.prefix}.{path}"

    def nodes(self, path: str | None) -> dict[str, Any]:
        """What the sections that change parts of a container say about the one at a path."""
        return {REMOVE: self.remove.node(path), UPDATE: self.update.node(path), NEW: self.new.node(path)}

    def keys(self, path: str | None) -> dict[Any, None]:
        """The keys of the object at a path that some section names, in the order in which they are handled."""
        keys: dict[Any, None] = {}
        for section in (self.remove, self.update, self.new, self.replace):
            node = section.node(path)
            if self.trees.is_object(node):
                keys.update(dict.fromkeys(own_keys(node)))
        return keys

    def below(self, target: dict[Any, Any], path: str | None, handled: dict[Any, None]) -> list[str]:
        """The other keys of the object at a path below which some section may say something."""
        if not _is_plain(path):
            return [key for key in own_keys(target) if key not in handled and isinstance(key, str)]
        found = {key for section in self._sections() for key in section.below(path)}
        text = key_text(target)
        if "." in text or "[" in text or "]" in text or "" in target:
            found.update(key for key in target if isinstance(key, str) and ("." in key or not _is_plain(key)))
        found = {key for key in found if key in target and key not in handled}
        return [key for key in own_keys(target) if key in found] if len(found) > 1 else list(found)

    def items(self, target: list[Any], path: str | None) -> Iterable[int]:
        """The indexes of the array at a path about which some section may say something."""
        if not _is_plain(path):
            return range(len(target))
        found: set[int] = set()
        for section in self._sections():
            found.update(_indexes(section.node(path)))
            found.update(index for key in section.below(path) if (index := index_of(key)) is not None)
        return sorted(index for index in found if index < len(target))

    def _sections(self) -> Iterator[Section]:
        return (section for section in (self.replace, self.remove, self.update, self.new) if section is not NOTHING)


def _indexes(node: Any) -> Iterator[int]:
    if is_array(node):
        yield from (i for i, value in enumerate(node) if is_significant(value))
    elif is_object(node):
        yield from (index for key in node if (index := index_of(key)) is not None)
    elif type(node) is str:
        yield from range(len(node))
