"""What MemberJunction's rules do to a request without a word.

Applied to the letter, some requests lose a part, or put into the payload what was never meant as data: an array sent
for an object vanishes, a `__DELETE__` in a place where nothing reads it becomes a value, a permission is asked for the
wrong path or not at all. The strict mode changes none of this. It says so, in warnings that begin with `[strict] `.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from .permissions import Operation, Permissions
from .property_paths import index_of
from .request import DELETE, NEW, REMOVE, SECTIONS, UPDATE, is_delete
from .trees import UNDEFINED, is_array, is_container, is_object, key_name, pointer

_MISSPELLED: Final = "_DELETE_"


class StrictNotes:
    """Collects the notes while a request is applied. Paths are keys joined by dots, indexes included."""

    def __init__(self, permissions: Permissions | None) -> None:
        self.texts: list[str] = []
        self._permissions = permissions

    def _note(self, text: str) -> None:
        self.texts.append(f"[strict] {text}")

    def request(self, sent: dict[str, Any], corrected: dict[str, Any]) -> None:
        """Look at the request as such."""
        for key in sent:
            if key not in corrected:
                self._note(f"'{key}' stands beside the sections of the request; its value was taken for payload data")
        for section in SECTIONS:
            for path, value in _leaves(corrected.get(section, UNDEFINED), (section,)):
                if type(value) is str and value == _MISSPELLED:
                    meaning = "it deletes nothing" if section == REMOVE else "here it is an ordinary value"
                    self._note(f"{pointer(path)} is {_MISSPELLED!r} with one underscore at each end; {meaning}")
                elif section == REMOVE and not is_delete(value):
                    self._note(f"{pointer(path)} is not {DELETE!r}, so it deletes nothing")

    def object_shapes(self, path: str, nodes: Mapping[str, Any]) -> None:
        """The payload has an object here."""
        for section, node in nodes.items():
            if is_array(node) and (node or section == UPDATE):
                self._note(f"{section} gives an array for the object {_place(path)}; it was ignored")

    def array_shapes(self, path: str, length: int, nodes: Mapping[str, Any]) -> None:
        """The payload has an array of so many items here."""
        for section, node in nodes.items():
            if not is_object(node):
                continue
            lost = [key for key in node if section == NEW or (index := index_of(key)) is None or index >= length]
            if lost:
                names = ", ".join(map(_quoted, lost))
                self._note(f"{section} gives an object for the array {_place(path)}; {names} in it was ignored")

    def null_ignored(self, path: str) -> None:
        """`newElements` has null for an object."""
        self._note(f"{NEW} gives null for the object {_place(path)}; it was ignored")

    def overwritten(self, path: str, old: Any, value: Any, misplaced: bool) -> None:
        """A value was put in place of another."""
        if misplaced and value is None and is_array(old):
            self._note(f"{NEW} gives null for the array {_place(path)}; null took its place")

    def replaced(self, path: str, old: Any, value: Any, lost: list[str]) -> None:
        """`replaceElements` put a value in place of another, and other sections had something to say there."""
        gone = [key for key in old if key not in value] if is_object(old) and is_object(value) else []
        if gone:
            names = ", ".join(map(_quoted, gone))
            self._note(f"replaceElements replaced {_place(path)} as a whole; {names} in it is gone")
        for section in lost:
            self._note(f"{section} has an entry for {_place(path)} beside the one in replaceElements; it was ignored")

    def lost_beside_update(self, path: str, others: Mapping[str, Any]) -> None:
        """An item of an array was updated, and other sections had something to say about it."""
        for section, value in others.items():
            if value is not UNDEFINED and any(True for _ in _leaves(value, ())):
                self._note(f"{section} has an entry for {_place(path)} beside the one in {UPDATE}; it was ignored")

    def assigned(self, path: str, value: Any) -> None:
        """A value out of the request became a part of the payload."""
        for below, leaf in _leaves(value, ()):
            if is_delete(leaf):
                place = ".".join((path, *map(key_name, below)))
                self._note(f"{_place(place)} is now the text {DELETE!r}; nothing reads it as a deletion there")

    def decided(self, operation: Operation, asked: str, full: str, allowed: bool, wanted: Any) -> None:
        """Permission was asked for a path, which inside an item of an array is not the full path."""
        if self._permissions is None:
            return
        if asked != full:
            named = (
                f"'{operation}' of {_place(full)} was asked for as {_place(asked)}, counted from the item of the array"
            )
            meant = self._permissions.allows(full, operation)
            if not allowed:
                self._note(f"{named}, and denied" + ("; under its full path it is allowed" if meant else ""))
            elif not meant:
                self._note(f"{named}, and allowed; under its full path it is not allowed")
        elif not allowed and is_container(wanted):
            inside = [".".join((full, *map(key_name, below))) for below, _ in _leaves(wanted, ()) if below]
            permitted = [place for place in inside if self._permissions.allows(place, operation)]
            if permitted:
                names = ", ".join(map(_place, permitted))
                self._note(f"'{operation}' of {_place(full)} was denied, and so was {names} in it, which is allowed")

    def unchecked(self, operation: Operation, full: str, container: str | None) -> None:
        """Something was done for which no permission was asked."""
        if self._permissions is None or self._permissions.allows(full, operation):
            return
        if container is not None and self._permissions.allows(container, operation):
            return
        self._note(f"'{operation}' of {_place(full)} is not allowed, but was not checked and was done")


def _quoted(key: Any) -> str:
    return repr(key) if isinstance(key, str) else key_name(key)


def _place(path: str) -> str:
    return f"'{path}'" if path else "the payload"


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The leaves of a tree and their paths; an empty container has none."""
    if is_object(value):
        for key, below in value.items():
            yield from _leaves(below, (*path, key))
    elif is_array(value):
        for i, below in enumerate(value):
            yield from _leaves(below, (*path, i))
    elif value is not UNDEFINED:
        yield path, value
