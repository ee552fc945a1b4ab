"""Suspicious changes: what a model probably did not mean to do to a payload.

The payload before and after a change are compared by fixed rules, MemberJunction's: a long text that became a short
one, a text that now ends in `...`, an array that lost most of its items, an object that lost most of its keys or
became a scalar, a placeholder where there was content. Each finding is a warning; none changes the result.

Subtrees that are the same object before and after are skipped, so the analysis costs what the change touched. That
is the one difference from the original, which also reports a long text of its own accord looking like a placeholder
(`[…]`, `TODO: …`) that no change has touched.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final, Literal, TypeAlias

from .property_paths import own_keys
from .trees import UNDEFINED, is_array, is_container, is_object, key_name

Severity: TypeAlias = Literal["medium", "high", "critical"]

_LINE: Final = r"[^\n\r\u2028\u2029]"
_TRUNCATION: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.ASCII)
    for pattern in (r"\.\.\.\Z", r"\[truncated\]", r"\[shortened\]", r"etc\.?\Z", r"and more")
)
_PLACEHOLDER: Final = re.compile(
    rf"(?:TODO:|TBD\Z|\[{_LINE}*\]\Z|<{_LINE}*>\Z)",
    re.IGNORECASE | re.ASCII,
)
_LONG_TEXT: Final = 50
_MANY_KEYS: Final = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One suspicious change. `path` is keys joined by dots, an index as `[0]`; "" is the payload itself."""

    type: Literal["content_truncation", "key_removal", "type_change", "pattern_anomaly"]
    severity: Severity
    path: str
    message: str

    def __str__(self) -> str:
        return f"[{self.severity}] {self.message}"


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on a change is suspicious.

    Attributes:
        content_reduction: per cent of a text that must be gone.
        min_content: characters that a text must have to be looked at.
        array_reduction: per cent of an array's items that must be gone.
        key_reduction: per cent of an object's keys that must be gone.
        depth: keys and indexes down to which the payload is compared.
    """

    content_reduction: float = 70
    min_content: int = 100
    array_reduction: float = 50
    key_reduction: float = 50
    depth: int = 10


Touched: TypeAlias = Mapping[int, tuple[Any, Any, Collection[Any]]]
"""Of containers in the result, by id: the container, the one it was copied from, and the keys or indexes at which the
two may differ."""

Known: TypeAlias = Collection[Any] | None


def analyze(
    original: Any, result: Any, *, limits: Limits | None = None, touched: Touched | None = None
) -> list[Finding]:
    """Compare a payload before and after a change.

    Args:
        original: the payload before. Compared by position, so an item that moved in an array counts as changed.
        result: the payload after.
        limits: when to warn; the defaults are MemberJunction's.
        touched: where the result differs, if that is known. Without it every key is looked at.

    Returns:
        The findings, in the order of the result's keys.
    """
    comparison = _Comparison(limits or Limits(), touched or {})
    comparison.compare(original, result, ())
    comparison.whole(original, result)
    comparison.placeholders(original, result, ())
    return comparison.findings


@dataclass(slots=True)
class _Comparison:
    limits: Limits
    touched: Touched
    findings: list[Finding] = field(default_factory=list)

    def compare(self, original: Any, result: Any, path: tuple[Any, ...]) -> None:
        if original is result or len(path) > self.limits.depth:
            return
        known = self._known(original, result)
        if known is not None or _are_containers(original, result):
            if is_array(original) and is_array(result):
                self._arrays(original, result, known, path)
            else:
                self._objects(_members(original), _members(result), known, path)
        elif type(original) is str and type(result) is str:
            self._texts(original, result, path)
        else:
            self._types(original, result, path)

    def whole(self, original: Any, result: Any) -> None:
        if self._known(original, result) is None and not _are_containers(original, result):
            return
        missing = (len(original) - len(result)) / max(len(original), 1)
        if missing > 0.3 and len(original) > _MANY_KEYS:
            message = f"Significant portion of payload structure missing ({_one_decimal(missing * 100)}%)"
            self._add("pattern_anomaly", "high", (), message)

    def placeholders(self, original: Any, result: Any, path: tuple[Any, ...]) -> None:
        if original is result:
            return
        known = self._known(original, result)
        if type(result) is str:
            if path and type(original) is str and _length(original) > _LONG_TEXT and _PLACEHOLDER.match(result):
                self._add("pattern_anomaly", "medium", path, "Complex content replaced with placeholder")
        elif not is_array(result) and (known is not None or is_object(result)):
            # Arrays are not looked into: the original asks for the key "[0]", which is nowhere.
            before = _members(original) if known is not None or is_container(original) else {}
            for key in _keys(result, known):
                self.placeholders(before.get(key, UNDEFINED), result[key], (*path, key))

    def _texts(self, original: str, result: str, path: tuple[Any, ...]) -> None:
        before, after = _length(original), _length(result)
        if not result or before < self.limits.min_content or before == 0:
            return
        reduction = (before - after) / before * 100
        if reduction > self.limits.content_reduction:
            message = f"Content reduced by {_one_decimal(reduction)}% (from {before} to {after} characters)"
            self._add("content_truncation", "critical" if reduction > 90 else "high", path, message)
        if any(pattern.search(result) and not pattern.search(original) for pattern in _TRUNCATION):
            message = "Content appears to be truncated (detected truncation pattern)"
            self._add("pattern_anomaly", "medium", path, message)

    def _arrays(self, original: list[Any], result: list[Any], known: Known, path: tuple[Any, ...]) -> None:
        before, after = len(original), len(result)
        if before == 0:
            return
        reduction = (before - after) / before * 100
        if reduction > self.limits.array_reduction:
            message = f"Array reduced by {_one_decimal(reduction)}% (from {before} to {after} items)"
            self._add("pattern_anomaly", "high" if reduction > 80 else "medium", path, message)
        for i in range(min(before, after)) if known is None else known:
            self.compare(original[i], result[i], (*path, f"[{i}]"))

    def _objects(self, original: dict[Any, Any], result: dict[Any, Any], known: Known, path: tuple[Any, ...]) -> None:
        removed = [key for key in (original if known is None else known) if key in original and key not in result]
        if removed:
            reduction = len(removed) / len(original) * 100
            with_content = [key for key in removed if not _is_blank(original[key])]
            if with_content and reduction > self.limits.key_reduction:
                message = f"{len(with_content)} non-empty keys removed ({_one_decimal(reduction)}% reduction)"
                self._add("key_removal", "critical" if reduction > 80 else "high", path, message)
        for key in _keys(result, known):
            if key in original:
                self.compare(original[key], result[key], (*path, key))

    def _types(self, original: Any, result: Any, path: tuple[Any, ...]) -> None:
        before, after = _type_name(original), _type_name(result)
        if before in ("object", "array") and after in ("string", "number", "boolean"):
            message = f"Type changed from {before} to {after} (potential data loss)"
            self._add("type_change", "high", path, message)

    def _known(self, original: Any, result: Any) -> Known:
        """The keys or indexes at which two containers may differ, or None if that is not known."""
        entry = self.touched.get(id(result))
        return entry[2] if entry is not None and entry[0] is result and entry[1] is original else None

    def _add(
        self,
        kind: Literal["content_truncation", "key_removal", "type_change", "pattern_anomaly"],
        severity: Severity,
        path: tuple[Any, ...],
        message: str,
    ) -> None:
        self.findings.append(Finding(kind, severity, ".".join(map(key_name, path)), message))


def _are_containers(original: Any, result: Any) -> bool:
    return is_container(original) and is_container(result)


def _members(container: Any) -> dict[Any, Any]:
    """What is in a container by key; an array's items by the text of their index."""
    return {str(i): value for i, value in enumerate(container)} if is_array(container) else container


def _keys(result: dict[Any, Any], known: Known) -> Iterable[Any]:
    """The keys of an object in their order, without those at which it is known to be as before."""
    if known is None:
        return own_keys(result)
    return own_keys(key for key in (result if len(known) > 1 else known) if key in known and key in result)


def _is_blank(value: Any) -> bool:
    return value is None or (type(value) is str and not value)


def _length(text: str) -> int:
    """The length of a text as JavaScript counts it: characters beyond the basic plane are two."""
    return len(text) if text.isascii() else len(text) + sum(char > "\uffff" for char in text)


def _type_name(value: Any) -> str:
    if value is None or is_object(value):
        return "object"
    if is_array(value):
        return "array"
    return {str: "string", bool: "boolean", int: "number", float: "number"}.get(type(value), "leaf")


def _one_decimal(number: float) -> str:
    """A number with one decimal as JavaScript's `toFixed(1)` prints it: a half is rounded up."""
    return str(Decimal(number).quantize(Decimal("0.1"), ROUND_HALF_UP))
