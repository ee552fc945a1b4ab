"""Hashes: of stored bytes, of a value as it is compared, and of an event in its chain.

Each says by its prefix how it was made, so that a better way can be added without breaking old logs:

- *content address*, "sha256:…": over bytes as they are. It names blobs and messages.
- *comparison hash*, "merkle1:…": over a tree in stored form, where the order of keys says nothing, but `1`, `1.0`,
  `true`, `-0.0` and `0.0` differ, and null differs from missing. A container's digest is made of its own scalars and of
  the digests of the containers in it. So with a `SubtreeCache` a changed payload costs the path of its change.
- *event hash*, "sha256:…": over the hash of the event before it and all that the event says. A log whose chain of event
  hashes is intact was not edited.

The formats are fixed by tests with literal values. In "merkle1" the digest of a container is SHA-256 over a letter, a
JSON text and the digests of its inner containers in order: `L` and `[marks]` for a list, `D` and `[[keys], [marks]]`
for an object with sorted keys. A mark is the scalar itself; `["1.5"]`, with Python's shortest form, for a float; `[]`
where the next digest belongs. A tag whose "items" have no order is `U`, the text `[[keys], [marks], count]` and the
digests of its other fields, then the sorted digests of its items. A scalar by itself is `S` and `[mark]`.
"""

from __future__ import annotations

from hashlib import sha256
from math import copysign
from typing import Any, Final

import orjson

_SCALARS: Final = frozenset((str, int, bool, type(None)))
_CONTAINERS: Final = frozenset((dict, list))
_RECURSION: Final = 100
"""Containers within containers before work goes on without recursion, which the interpreter limits."""

_UNORDERED: Final = frozenset(("dict", "counter", "defaultdict", "set", "frozenset"))


class SubtreeCache:
    """What was computed for a container, remembered by the container's identity.

    For trees that share their unchanged parts and are never changed in place. One cache serves one function. It keeps
    the containers it knows alive, since an id names an object only that long; `settle` drops those that a new tree has
    left behind, now and then, so that the cost per change stays constant and a long run does not grow.

    Attributes:
        values: id of a container → what was computed for it. To be read; `put` adds to it.
    """

    __slots__ = ("_containers", "_limit", "values")

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}
        self._containers: dict[int, Any] = {}
        self._limit = 8

    def __len__(self) -> int:
        return len(self.values)

    def get(self, container: Any) -> Any:
        """Return what was computed for this very container, or None."""
        return self.values.get(id(container))

    def put(self, container: Any, value: Any) -> None:
        """Remember what was computed for a container."""
        self._containers[id(container)] = container
        self.values[id(container)] = value

    def settle(self, root: Any) -> None:
        """Say which tree is the current one: what is not part of it may be forgotten."""
        if len(self.values) <= self._limit:
            return
        current: set[int] = set()
        todo = [root]
        while todo:
            node = todo.pop()
            if id(node) not in current and id(node) in self.values:
                current.add(id(node))
                todo.extend(_containers_in(node))
        self.values = {key: self.values[key] for key in current}
        self._containers = {key: self._containers[key] for key in current}
        self._limit = 2 * len(current) + 8


def content_address(data: bytes) -> str:
    """Return "sha256:" and the hexadecimal digest of the bytes."""
    return "sha256:" + sha256(data).hexdigest()


def comparison_hash(stored: Any, cache: SubtreeCache | None = None) -> str:
    """Return "merkle1:" and the hexadecimal digest of a tree in stored form: equal just when `same` holds.

    Args:
        stored: the tree; it must not be changed in place while `cache` knows it.
        cache: kept from one version of a tree to the next, so that only what changed is hashed.
    """
    if type(stored) is not dict and type(stored) is not list:
        return "merkle1:" + _scalar_digest(stored).hex()
    memory = SubtreeCache() if cache is None else cache
    digest: bytes | None = memory.get(stored)
    if digest is None:
        digest = _digest(stored, memory)
        memory.settle(stored)
    return "merkle1:" + digest.hex()


def same(a: Any, b: Any) -> bool:
    """Say whether two trees in stored form are the same: types included, order of keys aside.

    Shared parts are not looked into.
    """
    todo = [(a, b)]
    while todo:
        one, other = todo.pop()
        if one is other:
            continue
        kind = type(one)
        if kind is not type(other):
            return False
        if kind is dict:
            if len(one) != len(other):
                return False
            if _is_unordered(one):
                if comparison_hash(one) != comparison_hash(other):
                    return False
                continue
            for key, value in one.items():
                if key not in other:
                    return False
                if value is not other[key]:
                    todo.append((value, other[key]))
        elif kind is list:
            if len(one) != len(other):
                return False
            todo.extend([pair for pair in zip(one, other, strict=True) if pair[0] is not pair[1]])
        elif one != other or (kind is float and copysign(1.0, one) != copysign(1.0, other)):
            return False
    return True


def event_hash(
    previous: str,
    *,
    uid: str,
    seq: int,
    round: int,
    kind: str,
    version: int,
    time_us: int,
    within: str | None,
    task: str,
    body_hash: str,
) -> str:
    """Return "sha256:…" over the previous event's hash and everything that this event says.

    Texts carry their length, so that no two events are written alike.

    Args:
        previous: hash of the event before, or "" for the first.
        uid: the run's.
        seq: position in the run.
        round: the loop iteration.
        kind: what happened.
        version: of the shape of the body.
        time_us: microseconds since 1970, UTC.
        within: the call inside which it happened.
        task: path of the task.
        body_hash: content address of the stored body.
    """
    text = (
        f"event1|{seq}|{round}|{version}|{time_us}|{len(previous)}:{previous}|{len(uid)}:{uid}|{len(kind)}:{kind}|"
        f"{'-' if within is None else f'{len(within)}:{within}'}|{len(task)}:{task}|{len(body_hash)}:{body_hash}"
    )
    return "sha256:" + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _digest(node: Any, memory: SubtreeCache, depth: int = 0) -> bytes:
    """Digest a container, and on the way those in it whose digest is not known yet."""
    if depth > _RECURSION:
        return _digest_deep(node, memory)
    if type(node) is list:
        marks, inner = _marks(node, memory, depth)
        digest = sha256(b"L" + orjson.dumps(marks) + inner).digest()
    elif _is_unordered(node):
        keys = sorted(key for key in node if key != "items")
        marks, inner = _marks([node[key] for key in keys], memory, depth)
        items = sorted([_item_digest(item, memory, depth) for item in node["items"]])
        digest = sha256(b"U" + orjson.dumps([keys, marks, len(items)]) + inner + b"".join(items)).digest()
    else:
        keys = sorted(node)
        marks, inner = _marks(list(map(node.__getitem__, keys)), memory, depth)
        digest = sha256(b"D" + orjson.dumps([keys, marks]) + inner).digest()
    memory.put(node, digest)
    return digest


def _marks(values: list[Any], memory: SubtreeCache, depth: int) -> tuple[list[Any], bytes]:
    """Return what stands for each value in the text of its container, and the digests of the containers among them."""
    if values and type(values[0]) not in _CONTAINERS and _SCALARS.issuperset(map(type, values)):
        return values, b""
    # Siblings of a change are passed over in three calls; only what has no digest is looked at one by one.
    digests: list[Any] = list(map(memory.values.get, map(id, values)))
    marks: list[Any] = [()] * len(values)
    for at in [at for at, digest in enumerate(digests) if digest is None]:
        value = values[at]
        kind = type(value)
        if kind is dict or kind is list:
            digests[at] = memory.get(value) or _digest(value, memory, depth + 1)
        else:
            digests[at] = b""
            marks[at] = [repr(value)] if kind is float else value
    return marks, b"".join(digests)


def _digest_deep(root: Any, memory: SubtreeCache) -> bytes:
    """Digest a container without recursion: the innermost containers first."""
    found = []
    todo = [root]
    while todo:
        node = todo.pop()
        found.append(node)
        todo.extend(_containers_in(node))
    for node in reversed(found):
        if id(node) not in memory.values:
            _digest(node, memory)
    digest: bytes = memory.get(root)
    return digest


def _item_digest(item: Any, memory: SubtreeCache, depth: int) -> bytes:
    if type(item) in _CONTAINERS:
        return memory.get(item) or _digest(item, memory, depth + 1)
    return _scalar_digest(item)


def _scalar_digest(value: Any) -> bytes:
    return sha256(b"S" + orjson.dumps([[repr(value)] if type(value) is float else value])).digest()


def _is_unordered(node: dict[str, Any]) -> bool:
    return node.get("$type") in _UNORDERED and type(node.get("items")) is list


def _containers_in(node: Any) -> list[Any]:
    values = node.values() if type(node) is dict else node
    return [value for value in values if type(value) is dict or type(value) is list]
