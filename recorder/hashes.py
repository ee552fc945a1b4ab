"""Hashes: of stored bytes, of a value as it is compared, and of an event in its chain.

Each says by its prefix how it was made, so that a better way can be added without breaking old logs:

- *content address*, "sha256:…": over bytes as they are. It names blobs and messages.
- *comparison hash*, "merkle1:…": over a tree in stored form, where the order of keys says nothing, but `1`, `1.0`,
  `true`, `-0.0` and `0.0` differ, and null differs from missing. It is a Merkle hash, made of the hashes of the tree's
  parts. So with a `SubtreeCache` a changed payload costs the path of its change.
- *event hash*, "sha256:…": over the hash of the event before it and all that the event says. A log whose chain of event
  hashes is intact was not edited.

The formats are fixed by tests with literal values; `merkle` describes the second.
"""

from __future__ import annotations

import json
from hashlib import sha256
from math import copysign
from typing import Any

import orjson

from .merkle import digest_of, is_unordered
from .subtrees import SubtreeCache

__all__ = ["SubtreeCache", "comparison_hash", "content_address", "event_hash", "same"]


def content_address(data: bytes) -> str:
    """Return "sha256:" and the hexadecimal digest of the bytes."""
    return "sha256:" + sha256(data).hexdigest()


def comparison_hash(stored: Any, cache: SubtreeCache | None = None) -> str:
    """Return "merkle1:" and the hexadecimal digest of a tree in stored form: equal just when `same` holds.

    Args:
        stored: the tree; it must not be changed in place while `cache` knows it.
        cache: kept from one version of a tree to the next, so that only what changed is hashed.
    """
    memory = SubtreeCache() if cache is None else cache
    digest = digest_of(stored, memory, memory.latest)
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
            if is_unordered(one):
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

    What is hashed is one JSON array, in UTF-8 and without spaces, so that any language can check a chain:
    `["event1",previous,uid,seq,round,kind,version,time_us,within,task,body_hash]`.

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
    parts = ["event1", previous, uid, seq, round, kind, version, time_us, within, task, body_hash]
    try:
        text = orjson.dumps(parts)
    except TypeError:  # a lone surrogate, which is no Unicode text and yet must have one hash
        text = json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return "sha256:" + sha256(text).hexdigest()
