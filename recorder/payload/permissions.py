"""Which paths of a payload an agent may add to, update or delete.

A *path spec* is a path pattern, and after a colon the operations that it allows: `analysis.*`, `items.*:add,update`,
`status:update`. Without a colon it allows all three. `*` alone is the whole payload; `a.*` is `a` and everything below
it; elsewhere `*` stands for one key. The patterns are matched as MemberJunction matches them, which builds a
JavaScript regular expression out of the text without escaping it, so `(`, `+` or `|` in a pattern mean what they mean
there; a pattern that is no regular expression refuses the whole change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from ..errors import ChangeRefused, UsageError

Operation: TypeAlias = Literal["add", "update", "delete"]

OPERATIONS: Final[tuple[Operation, ...]] = ("add", "update", "delete")
_ANY: Final = r"[^\n\r\u2028\u2029]"


@dataclass(frozen=True, slots=True)
class PathSpec:
    """A path pattern and the operations it allows, in the order they were named."""

    path: str
    operations: tuple[Operation, ...]

    @property
    def all_operations(self) -> bool:
        """Whether every operation is allowed."""
        return len(self.operations) == len(OPERATIONS)

    def __str__(self) -> str:
        if self.all_operations:
            return self.path
        return f"{self.path}:{','.join(self.operations) or 'none'}"


def parse_path_spec(spec: str) -> PathSpec:
    """Read a path spec. Unknown operations are ignored; where none is left, and for "", nothing is allowed."""
    if not spec:
        return PathSpec("", ())
    path, colon, names = spec.rpartition(":")
    if not colon:
        return PathSpec(spec, OPERATIONS)
    named = [name.strip().lower() for name in names.split(",")]
    return PathSpec(path, tuple(sorted(set(OPERATIONS).intersection(named), key=named.index)))


class Permissions:
    """What a list of path specs allows. Paths are keys joined by dots, indexes included: `items.0.price`.

    Raises:
        UsageError: the specs are one text and not a list of texts.
    """

    def __init__(self, specs: Iterable[str]) -> None:
        if isinstance(specs, str):
            raise UsageError(f"allowed paths are a list of texts such as ['analysis.*'], not the text {specs!r}")
        self._specs = [parse_path_spec(spec) for spec in specs]

    def allows(self, path: str, operation: Operation) -> bool:
        """Say whether some spec matches the path and allows the operation."""
        normal = _dotted(path)
        return any(_matches(spec.path, normal) and operation in spec.operations for spec in self._specs)

    def names(self, path: str) -> bool:
        """Say whether some spec matches the path, whatever it allows there."""
        normal = _dotted(path)
        return any(_matches(spec.path, normal) for spec in self._specs)


def _dotted(path: str) -> str:
    return re.sub(r"\[([0-9]+)\]", r".\1", path) if "[" in path else path


def _matches(pattern: str, path: str) -> bool:
    return pattern == "*" or _compiled(pattern).search(path) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    dotted = pattern.replace(".", "\\.")
    if "**" in pattern:
        # One replacement after the other: the star that the first one leaves is replaced by the second.
        text = dotted.replace("**", ".*").replace("*", "[^.]+")
    elif pattern.endswith(".*"):
        text = dotted[: -len("\\.*")] + "(\\..*)?"
    else:
        text = re.sub(r"\[(?:\*|[0-9]+)\]", r"\\[(\\*|\\d+)\\]", dotted.replace("*", "[^.]+"))
    try:
        return re.compile(f"^{_as_python(text)}\\Z", re.ASCII)
    except re.error as error:
        raise ChangeRefused(
            f"the allowed path {pattern!r} cannot be matched: as a pattern it is {text!r}, and there is {error}. "
            "Nothing was changed."
        ) from error


def _as_python(text: str) -> str:
    """A JavaScript regular expression in Python's notation, where the two differ in what a pattern may hold."""
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            out.append(text[at : at + 2])
            at += 2
        elif char == "[":
            end = _end_of_class(text, at)
            out.append(_class_as_python(text[at + 1 : end]))
            at = end + 1
        else:
            out.append({".": _ANY, "$": "\\Z"}.get(char, char))
            at += 1
    return "".join(out)


def _end_of_class(text: str, start: int) -> int:
    at = start + 1
    while at < len(text) and text[at] != "]":
        at += 2 if text[at] == "\\" else 1
    if at >= len(text):
        raise re.error("an unterminated character class")
    return at


def _class_as_python(inside: str) -> str:
    if inside == "":
        return "(?!)"
    if inside == "^":
        return "[\\s\\S]"
    return "[" + re.sub(r"\\.|[\[&|~]", lambda match: match[0] if len(match[0]) == 2 else "\\" + match[0], inside) + "]"
