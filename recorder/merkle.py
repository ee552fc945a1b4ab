"""Digests of trees in stored form, part by part, so that a changed tree costs the path of its change.

A container's digest is made of its own scalars and of the digests of what has one: containers, and long texts. The
order of keys says nothing; `1`, `1.0`, `true`, `-0.0` and `0.0` differ. The format is called "merkle1" and is fixed by
tests with literal values. SHA-256 over a letter and:

| letter | of | over |
|---|---|---|
| `T` | a text of more than 256 characters | its UTF-8 |
| `L` | a list of up to 64 items | `[marks]`, digests |
| `D` | an object of up to 64 keys | `[[sorted keys], [marks]]`, digests |
| `M` | a longer list | `[count]`, the digests of its runs: lists of 16 |
| `E` | a larger object | `[count]`, the digests of its groups: objects of the keys with the same CRC-32 modulo g |
| `U` | a tag whose "items" have no order | `[[other keys], [marks], count]`, digests, sorted digests of the items |
| `S` | a scalar by itself | `[mark]` |

A mark is the scalar itself; `["1.5"]`, in Python's shortest form, for a float; `[]` where the next of the digests
belongs. JSON is written without spaces. g is 2 to the power of the bit length of count // 16.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final
from zlib import crc32

import orjson

from .subtrees import SubtreeCache, changed_places

LONG: Final = 256
WIDE: Final = 64
_RUN: Final = 16
_RECURSION: Final = 100
"""Containers within containers before work goes on without recursion, which the interpreter limits."""

_SCALARS: Final = frozenset((str, int, bool, type(None)))
_CONTAINERS: Final = frozenset((dict, list))
_UNORDERED: Final = frozenset(("dict", "counter", "defaultdict", "set", "frozenset"))


def digest_of(value: Any, memory: SubtreeCache, old: Any = None, depth: int = 0) -> bytes:
    """Return the digest of a tree in stored form, from memory where it is there.

    Args:
        value: the tree.
        memory: what is known of its parts; it learns.
        old: what stood in its place in the version before, if anything did.
        depth: how deep in a tree it stands.
    """
    if has_own_digest(value):
        return memory.get(value) or _digest(value, memory, old, depth)
    return sha256(b"S" + orjson.dumps([[repr(value)] if type(value) is float else value])).digest()


def has_own_digest(value: Any) -> bool:
    """Say whether a value counts by its digest, rather than stand in the text of its container."""
    kind = type(value)
    return kind is dict or kind is list or (kind is str and len(value) > LONG)


def is_unordered(node: dict[str, Any]) -> bool:
    """Say whether an object is a tag whose items have no order: a set, or a mapping."""
    return node.get("$type") in _UNORDERED and type(node.get("items")) is list


def _digest(node: Any, memory: SubtreeCache, old: Any, depth: int) -> bytes:
    """Digest a container or a long text, after what is in it and has no digest yet."""
    pieces: Any = None
    if type(node) is str:
        digest = sha256(b"T" + node.encode()).digest()
    elif depth > _RECURSION:
        return _digest_deep(node, memory)
    elif type(node) is list:
        if len(node) <= WIDE:
            digest = _list(node, memory, old, depth)
        else:
            pieces = runs = _runs(node, memory, old, depth)
            digest = sha256(b"M" + orjson.dumps([len(node)]) + b"".join(runs)).digest()
    elif is_unordered(node):
        digest = _unordered(node, memory, depth)
    elif len(node) <= WIDE:
        digest = _object(node, sorted(node), memory, old, depth)
    else:
        pieces = groups = _groups(node, memory, old, depth)
        digest = sha256(b"E" + orjson.dumps([len(node)]) + b"".join(groups[0])).digest()
    memory.put(node, digest, pieces)
    return digest


def _list(items: list[Any], memory: SubtreeCache, old: Any, depth: int) -> bytes:
    marks, inner = _marks(items, memory, old if type(old) is list else None, depth)
    return sha256(b"L" + orjson.dumps(marks) + inner).digest()


def _object(node: dict[str, Any], keys: list[str], memory: SubtreeCache, old: Any, depth: int) -> bytes:
    """Digest an object, or the part of it with these keys."""
    before = list(map(old.get, keys)) if type(old) is dict else None
    marks, inner = _marks(list(map(node.__getitem__, keys)), memory, before, depth)
    return sha256(b"D" + orjson.dumps([keys, marks]) + inner).digest()


def _unordered(node: dict[str, Any], memory: SubtreeCache, depth: int) -> bytes:
    keys = sorted(key for key in node if key != "items")
    marks, inner = _marks([node[key] for key in keys], memory, None, depth)
    items = sorted([digest_of(item, memory, None, depth + 1) for item in node["items"]])
    return sha256(b"U" + orjson.dumps([keys, marks, len(items)]) + inner + b"".join(items)).digest()


def _runs(node: list[Any], memory: SubtreeCache, old: Any, depth: int) -> list[bytes]:
    """Digest a wide list run by run; those in which nothing changed keep their digest."""
    known: list[bytes] | None = memory.pieces.get(id(old)) if type(old) is list else None
    changed = None if known is None else changed_places(old, node)
    count = -(-len(node) // _RUN)
    if known is None or changed is None:
        runs, touched = [b""] * count, set(range(count))
    else:
        runs, touched = known + [b""] * (count - len(known)), {place // _RUN for place in changed}
    for run in touched:
        part = slice(run * _RUN, (run + 1) * _RUN)
        runs[run] = _list(node[part], memory, old[part] if type(old) is list else None, depth)
    return runs


def _groups(node: dict[str, Any], memory: SubtreeCache, old: Any, depth: int) -> tuple[list[bytes], list[list[str]]]:
    """Digest a wide object group by group; the key alone says which group an entry is in."""
    count = 1 << (len(node) // _RUN).bit_length()
    known: tuple[list[bytes], list[list[str]]] | None = memory.pieces.get(id(old)) if type(old) is dict else None
    changed = changed_places(old, node) if known is not None and len(known[0]) == count else None
    if known is None or changed is None:
        digests: list[bytes] = [b""] * count
        members: list[list[str]] = [[] for _ in range(count)]
        touched, added = set(range(count)), list(node)
    else:
        digests, members = list(known[0]), list(known[1])
        keys = list(node)
        touched = {_group(keys[place], count) for place in changed}
        added = keys[len(old) :]
    for key in added:
        group = _group(key, count)
        members[group] = [*members[group], key]
    for group in touched:
        digests[group] = _object(node, sorted(members[group]), memory, old, depth)
    return digests, members


def _group(key: str, count: int) -> int:
    return crc32(key.encode()) % count


def _marks(values: list[Any], memory: SubtreeCache, before: list[Any] | None, depth: int) -> tuple[list[Any], bytes]:
    """Return what stands for each value in the text of its container, and the digests of those that have their own."""
    if (
        values
        and type(values[0]) not in _CONTAINERS
        and _SCALARS.issuperset(map(type, values))
        and not [value for value in values if type(value) is str and len(value) > LONG]
    ):
        return values, b""
    # What did not change is passed over in three calls; only what has no digest is looked at one by one.
    digests: list[Any] = list(map(memory.values.get, map(id, values)))
    marks: list[Any] = [()] * len(values)
    for at in [at for at, digest in enumerate(digests) if digest is None]:
        value = values[at]
        if has_own_digest(value):
            old = before[at] if before is not None and at < len(before) else None
            digests[at] = memory.get(value) or _digest(value, memory, old, depth + 1)
        else:
            digests[at] = b""
            marks[at] = [repr(value)] if type(value) is float else value
    return marks, b"".join(digests)


def _digest_deep(root: Any, memory: SubtreeCache) -> bytes:
    """Digest a container without recursion: the innermost containers first."""
    found = []
    todo = [root]
    while todo:
        node = todo.pop()
        found.append(node)
        inner = node.values() if type(node) is dict else node
        todo.extend([item for item in inner if type(item) is dict or type(item) is list])
    for node in reversed(found):
        if id(node) not in memory.values:
            _digest(node, memory, None, 0)
    digest: bytes = memory.get(root)
    return digest
