"""What a sub-agent sees of its parent's payload, and what of its own comes back.

Downstream, a sub-agent gets the paths it is given (`extract_downstream`), or one part of the payload as its whole
(`apply_scope`). Upstream, what it returns is merged into the parent's payload as far as its path specs allow
(`merge_upstream`). All by MemberJunction's rules, its odd ones included: the leaves of the sub-agent's payload are
written one by one, leaves of the parent that it lacks are deleted, and `{}` is taken out of every array afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from ..errors import ChangeRefused
from .permissions import Operation, Permissions
from .property_paths import WorkingCopy, get, is_falsy, own_keys, prop
from .result import ChangeResult
from .trees import UNDEFINED, is_array, is_container, is_object, same

_INDEXED: Final = re.compile(r"([^\[]+)\[([^\]]+)\]")
_INTEGER: Final = re.compile(r"\s*([+-]?[0-9]+)")


def extract_downstream(payload: Any, paths: Sequence[str] | None) -> Any:
    """The part of a payload that a sub-agent is given.

    Args:
        payload: the parent's payload.
        paths: what to give: `customer.id`, `order.*`, `items[0].price`, `items[*].price`, `**.id` (every `id` at any
            depth), `*` (everything). A path that leads nowhere, or that is written otherwise, gives nothing.

    Returns:
        A payload that shares its parts with the parent's; None where there is no payload.
    """
    if is_falsy(payload):
        return None
    if not paths:
        return {}
    if "*" in paths:
        return payload
    given = WorkingCopy({})
    for path in paths:
        if "**" in path:
            before, found, name = path.partition("**.")
            if found and not before and "**." not in name:
                _extract_everywhere(payload, name, given, ())
        else:
            _extract(payload, _parts(path), given, ())
    return given.finish()


def _parts(path: str) -> list[str]:
    """A path cut at its dots, but not within brackets."""
    parts, current, in_brackets = [], "", False
    for char in path:
        in_brackets = char == "[" or (in_brackets and char != "]")
        if char == "." and not in_brackets:
            parts.append(current)
            current = ""
        else:
            current += char
    return [part for part in [*parts, current] if part]


def _extract(source: Any, parts: list[str], given: WorkingCopy, path: tuple[str, ...]) -> None:
    if is_falsy(source) or not parts:
        return
    part, rest = parts[0], parts[1:]
    if part == "*":
        for key in own_keys(source) if is_object(source) else ():
            _take(source[key], rest, given, (*path, key))
    elif "[" in part:
        _extract_items(source, part, rest, given, path)
    elif (value := prop(source, part)) is not UNDEFINED:
        _take(value, rest, given, (*path, part))


def _take(value: Any, rest: list[str], given: WorkingCopy, path: tuple[str, ...]) -> None:
    if rest:
        _extract(value, rest, given, path)
    else:
        given.set(path, value)


def _extract_items(source: Any, part: str, rest: list[str], given: WorkingCopy, path: tuple[str, ...]) -> None:
    match = _INDEXED.fullmatch(part)
    if match is None:
        return
    name, which = match.groups()
    items = prop(source, name)
    if not is_array(items):
        return
    if which == "*":
        taken = []
        for value in items:
            if rest:
                inside = WorkingCopy({})
                _extract(value, rest, inside, ())
                value = inside.finish()
            if not rest or value:
                taken.append(value)
        if taken:
            given.set((*path, name), taken)
    elif (number := _INTEGER.match(which)) and 0 <= int(number[1]) < len(items):
        index = int(number[1])
        _take(items[index], rest, given, (*path, name, str(index)))


def _extract_everywhere(source: Any, name: str, given: WorkingCopy, path: tuple[str, ...]) -> None:
    if is_array(source):
        for i, value in enumerate(source):
            _extract_everywhere(value, name, given, (*path, str(i)))
    elif is_object(source):
        for key in own_keys(source):
            if key == name:
                given.set((*path, key), source[key])
            _extract_everywhere(source[key], name, given, (*path, key))


def merge_upstream(parent: Any, child: Any, paths: Sequence[str] | None, agent_name: str = "sub-agent") -> ChangeResult:
    """Merge what a sub-agent returns into its parent's payload.

    Args:
        parent: the parent's payload.
        child: the sub-agent's payload.
        paths: the path specs that it may write; `*` merges everything and deletes nothing, none ignores it.
        agent_name: of the sub-agent, for the warning.

    Returns:
        The parent's payload after; `applied_request` is None. The counts are the original's: without `*` every leaf
        that is as the sub-agent has it counts as an addition.

    Raises:
        ChangeRefused: with `*`, if the parent's payload is a scalar and the sub-agent's has keys.
    """
    nothing = {"additions": 0, "updates": 0, "deletions": 0}
    if is_falsy(child):
        return ChangeResult(None if is_falsy(parent) else parent, nothing)
    if not paths:
        return ChangeResult(parent, nothing, ["No upstream paths specified - sub-agent changes ignored"])
    start = {} if is_falsy(parent) else parent
    if "*" in paths:
        merged = deep_merge(start, child)
        return ChangeResult(merged, _count_merged(parent, merged))
    return _merge_allowed(start, child, paths, agent_name)


def _merge_allowed(start: Any, child: Any, paths: Sequence[str], agent_name: str) -> ChangeResult:
    permissions = Permissions(paths)
    work = WorkingCopy(start)
    blocked: list[dict[str, Any]] = []

    def block(operation: Operation, path: str, old: Any, wanted: Any) -> None:
        reason = f"operation '{operation}' not allowed" if permissions.names(path) else "path not allowed"
        blocked.append({"path": path, "operation": operation, "from": old, "to": wanted, "reason": reason})

    child_paths = _leaf_paths(child)
    for path in child_paths:
        wanted, old = get(child, path), work.get(work.keys_of(path))
        operation: Operation = "add" if old is UNDEFINED else "update"
        if permissions.allows(path, operation):
            work.set(work.keys_of(path), wanted)
        elif not same(wanted, old):
            block(operation, path, old, wanted)
    for path in _leaf_paths(work.root):
        old = work.get(work.keys_of(path))
        if old is UNDEFINED or get(child, path) is not UNDEFINED:
            continue
        if permissions.allows(path, "delete"):
            work.unset(work.keys_of(path))
        else:
            block("delete", path, old, UNDEFINED)
    work.drop_empty_items()
    applied = {"additions": 0, "updates": 0, "deletions": 0}
    for path in child_paths:
        wanted = get(child, path)
        if not same(work.get(work.keys_of(path)), wanted):
            continue
        # The original means the parent's payload here, but looks into the list of paths.
        before = get(list(paths), path)
        applied["additions"] += before is UNDEFINED
        applied["updates"] += before is not UNDEFINED and not same(before, wanted)
    warnings = [f'Sub-agent "{agent_name}" attempted {len(blocked)} unauthorized operation(s)'] if blocked else []
    result = work.finish()
    for operation_denied in blocked:
        operation_denied["from"] = work.now(operation_denied["from"])
        for member in ("from", "to"):
            if operation_denied[member] is UNDEFINED:
                del operation_denied[member]
    return ChangeResult(result, applied, warnings, blocked)


def _count_merged(parent: Any, merged: Any) -> dict[str, int]:
    before, after = _leaf_paths({} if is_falsy(parent) else parent), _leaf_paths(merged)
    kept = set(after)
    applied = {"additions": 0, "updates": 0, "deletions": sum(path not in kept for path in before)}
    for path in after:
        old = get(parent, path)
        if old is UNDEFINED:
            applied["additions"] += 1
        elif not same(old, get(merged, path)):
            applied["updates"] += 1
    return applied


def _leaf_paths(value: Any, path: tuple[str, ...] = ()) -> list[str]:
    """The paths of the leaves of a tree: `items.[0].price`. `[]` has none, holes are none.

    `{}` is a leaf, and so is a dict with a key that is no text, to which there is no path.
    """
    if is_array(value):
        return [
            leaf
            for i, below in enumerate(value)
            if below is not UNDEFINED
            for leaf in _leaf_paths(below, (*path, f"[{i}]"))
        ]
    if is_object(value) and value and all(isinstance(key, str) for key in value):
        return [leaf for key in own_keys(value) for leaf in _leaf_paths(value[key], (*path, key))]
    return [".".join(path)] if path else []


def deep_merge(destination: Any, source: Any) -> Any:
    """Merge objects key by key, `source` over `destination`; anything else, arrays included, is taken as a whole.

    A source that is nothing (null, 0, false, "") leaves the destination as it is.

    Raises:
        ChangeRefused: the destination is a text, a number or true, and the source has keys.
    """
    if is_falsy(source):
        return destination
    if is_falsy(destination):
        return source
    keys = own_keys(source) if is_object(source) else []
    if is_array(source) or type(source) is str:
        keys = list(map(str, range(len(source))))
    if keys and not is_container(destination):
        raise ChangeRefused(f"{_kind(source)} cannot be merged into {_kind(destination)}. Nothing was changed.")
    work = WorkingCopy(destination)
    for key in keys:
        value, old = prop(source, key), prop(work.root, key)
        both = is_object(value) and is_object(old)
        work.set((key,), deep_merge(old, value) if both else value)
    return work.finish()


def _kind(value: Any) -> str:
    return "an object" if is_object(value) else "an array" if is_array(value) else f"a {type(value).__name__}"


def apply_scope(payload: Any, scope: str) -> Any:
    """The part of a payload at a scope such as `/order/items`; None if there is none. An empty scope is everything."""
    if is_falsy(payload) or not scope:
        return payload
    for key in scope.removeprefix("/").split("/"):
        payload = prop(payload, key) if is_container(payload) else UNDEFINED
        if payload is UNDEFINED:
            return None
    return payload


def reverse_scope(payload: Any, scope: str) -> Any:
    """A payload wrapped so that it is at a scope: `/a/b` makes `{"a": {"b": payload}}`."""
    for key in reversed(scope.removeprefix("/").split("/")) if scope else ():
        payload = {key: payload}
    return payload
