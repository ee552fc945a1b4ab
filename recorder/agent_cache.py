"""What an agent's cache held when a run began: recorded, so that the run can be executed again as it was.

`context.agent_cache` outlives the runs of an agent. So what a step finds there comes from other runs, which a replay
knows nothing of: in a fresh process it would find nothing, in this one what later runs have left. The log has what the
cache held at the start, and code that is executed against the log gets a dict of its own with that; the agent's cache
is neither read nor changed by it.

Code that uses a cache copes with a miss. So what cannot be kept is left out, and named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .introspection import clean, describe, isinstance_of
from .values import already_stored, encode, encode_bytes, loads

MOST: Final = 1_000_000
"""Bytes of a cache that are recorded; entries beyond are left out."""


@dataclass(frozen=True, slots=True)
class StoredCache:
    """What a log holds of a cache.

    Attributes:
        entries: the dict, as a value to record; None if there is nothing in it.
        without: the keys of what is left out, as texts.
    """

    entries: Any = None
    without: list[str] = field(default_factory=list)


def stored_cache(cache: Mapping[Any, Any]) -> StoredCache:
    """What is recorded of a cache, as it is now; later mutation changes nothing of that."""
    if not cache:
        return StoredCache()
    kept: dict[Any, Any] = {}
    without, size = [], 0
    for key, value in list(cache.items()):  # other runs may add to it meanwhile
        content, _, lossy = encode_bytes(value) if size < MOST else (b"", None, ("",))
        if lossy or size + len(content) > MOST or encode(key).lossy:
            without.append(clean(key) if isinstance_of(key, str) else describe(key))
            continue
        size += len(content)
        kept[key] = already_stored(loads(content))
    return StoredCache(already_stored(encode(kept).stored) if kept else None, without)


def entries_of(stored: Any) -> Iterator[tuple[str, Any]]:
    """The entries that a log holds: a name for messages, and a dict of that entry alone, in stored form."""
    if stored is None:
        return
    pairs = stored["items"] if stored.get("$type") == "dict" else stored.items()
    for key, value in pairs:
        yield str(key), {"$type": "dict", "items": [[key, value]]}
